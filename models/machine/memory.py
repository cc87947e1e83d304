"""Memory of a training on a CPU: most of what one step frees, the next one takes."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

import torch

__all__ = ["freed_memory_kept"]

_TRIM, _MAPPED = -1, -4  # mallopt's M_TRIM_THRESHOLD and M_MMAP_MAX
_ALL, _USUAL_TRIM, _USUAL_MAPPED = 2**31 - 1, 128 * 1024, 65_536


@contextlib.contextmanager
def freed_memory_kept(device: torch.device) -> Iterator[None]:
    """Keep what is freed within the process, and give it back at the end.

    GNU's C library gives large blocks back to the system as soon as they are freed, and the system
    fills each page with zeros when it is taken again: a quarter of a step's time. Elsewhere (another
    device, another C library) nothing is done. Blocks begin at multiples of 64 bytes, so that one
    may not fit where another of its size was freed: more is kept than one step takes. Nearly
    all of this is in the first steps (two trainings of eight layers of 64 grew from 921 to 923 MB
    and from 1,012 to 1,018 MB between their steps 6,000 and 12,000).
    """
    library = _gnu() if device.type == "cpu" else None
    if library is None:
        yield
        return
    library.mallopt(_MAPPED, 0)
    library.mallopt(_TRIM, _ALL)
    try:
        yield
    finally:
        library.mallopt(_MAPPED, _USUAL_MAPPED)
        library.mallopt(_TRIM, _USUAL_TRIM)
        library.malloc_trim(0)


def _gnu() -> ctypes.CDLL | None:
    """GNU's C library, where it is the one in use."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    known = all(
        hasattr(library, name) for name in ("gnu_get_libc_version", "mallopt", "malloc_trim")
    )
    return library if known else None
