"""Files of which blocks are written in any order: their space, their bytes, and a checksum for each
block.

Checksums are computed by several threads: hashlib and the system's reading let the others work.
"""

import collections
import concurrent.futures
import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

__all__ = ["block_checksums", "flush_file", "take_space", "write_at"]

# bytes that are read at a time to compute a checksum, and written at a time to take space
_PIECE = 1 << 20
_THREADS = 8  # more wait for the disk
# What a system says of space that it cannot take beforehand: macOS has no such call, some file
# systems refuse it.
_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


def block_checksums(
    paths: Mapping[str, Path], blocks: Iterable[tuple[int, int]], processes: int = 1
) -> Iterator[tuple[tuple[int, int], dict[str, bytes]]]:
    """Each block with the SHA-256 of its bytes in every file, in order; what a short file lacks
    does not count.

    Parameters
    ----------
    paths: name -> file.
    blocks: where each begins in the files, and its length, in bytes. processes: how many do this on
        one machine.
    """
    workers = max(1, min(_THREADS, (os.cpu_count() or 1) // processes))
    with contextlib.ExitStack() as held:
        files = {
            name: held.enter_context(open(path, "rb")).fileno() for name, path in paths.items()
        }
        pool = held.enter_context(concurrent.futures.ThreadPoolExecutor(workers, "checksums"))

        def submit(
            block: tuple[int, int],
        ) -> tuple[tuple[int, int], dict[str, concurrent.futures.Future[bytes]]]:
            return block, {
                name: pool.submit(_checksum, file, *block) for name, file in files.items()
            }

        waiting: collections.deque[
            tuple[tuple[int, int], dict[str, concurrent.futures.Future[bytes]]]
        ] = collections.deque()
        coming = map(submit, blocks)
        # blocks that are begun before the first is asked for
        ahead = max(2, 2 * workers // len(files))
        try:
            while True:
                while len(waiting) < ahead and (more := next(coming, None)):
                    waiting.append(more)
                if not waiting:
                    return
                block, sums = waiting.popleft()
                yield block, {name: future.result() for name, future in sums.items()}
        finally:
            pool.shutdown(cancel_futures=True)


def _checksum(file: int, at: int, size: int) -> bytes:
    total = hashlib.sha256()
    while size > 0 and (piece := os.pread(file, min(size, _PIECE), at)):
        total.update(piece)
        at, size = at + len(piece), size - len(piece)
    return total.digest()


def take_space(file: BinaryIO, size: int) -> None:
    """Make an open file exactly so many bytes long, and take their space on the disk; what is in it
    stays.

    Where the system cannot take space the bytes that are missing are written: a disk that is too
    full is found out here, too.
    """
    there = os.fstat(file.fileno()).st_size
    if there > size:
        os.ftruncate(file.fileno(), size)
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_FALLOCATE:
            raise
        while there < size:
            there += os.pwrite(file.fileno(), bytes(min(size - there, _PIECE)), there)


def write_at(file: int, data: memoryview, at: int) -> None:
    """Write all of ``data`` to an open file (by its descriptor) from byte ``at``."""
    while len(data):
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def flush_file(path: Path) -> None:
    """Wait until a file is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
