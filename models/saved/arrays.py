"""Tensors as they are stored, and stored arrays as tensors."""

import contextlib
import errno
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import load, load_file, save_file
from torch import Tensor

from crosslens.errors import OutputError, refuse

__all__ = [
    "DTYPES",
    "as_tensor",
    "extremes",
    "halved",
    "load_tensors",
    "save_tensors",
    "stored",
    "writing",
]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def save_tensors(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Write a file of tensors (safetensors).

    Raises
    ------
    OutputError: it cannot be written; the disk is full, say.
    """
    with writing(path):
        save_file(dict(tensors), path)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Refuse what the system says of a full disk, and the like, through the errors of other
    libraries (tensors, tokenisers), which would be shown as faults of this one.

    Raises
    ------
    OutputError: it cannot be written; the disk is full, say.

    >>> try:
    ...     with writing("model"):
    ...         raise Exception("No space left on device (os error 28)")
    ... except OutputError as error:
    ...     print(str(error).partition(",")[0])
    model: expected a file that can be written
    """
    try:
        yield
    except Exception as error:  # tokenisers raise no other
        said = re.search(r"\(os error (\d+)\)", str(error))
        if said is None:
            raise
        remedy = "see that the folder is there and may be written to, and resume the run"
        if int(said[1]) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "free some space and resume the run; what is finished is kept"
        refuse(str(path), "a file that can be written", f"an error ({error})", remedy, OutputError)


def stored(state: Tensor, dtype: str, name: str) -> np.ndarray:
    """A tensor as an array of the type on disk; bfloat16 as numpy knows it through ml_dtypes.

    Raises
    ------
    InputError: a number is too large for the type.
    """
    if dtype != "float32" and not all(
        math.isfinite(_rounded(extreme, dtype)) for extreme in extremes(state)
    ):
        finite = state[torch.isfinite(state)]  # rows of NaN and the like are stored as they are
        if not all(math.isfinite(_rounded(extreme, dtype)) for extreme in extremes(finite)):
            got = f"{float(finite.abs().max()):g} in {name}"
            refuse("dtype", f"numbers that {dtype} holds", got, "choose bfloat16 or float32")
    narrow = state.to(DTYPES[dtype])
    return (
        narrow.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        if dtype == "bfloat16"
        else narrow.numpy()
    )


def halved(tensor: Tensor, name: str) -> Tensor:
    """A weight in float16.

    Raises
    ------
    InputError: a number is too large for it; it would be infinite.
    """
    narrow = tensor.to(torch.float16)
    gone = tensor[narrow.isinf() & tensor.isfinite()]
    if len(gone):
        got = f"{float(gone.abs().max()):g} in {name}"
        refuse("half", "weights that float16 holds", got, "store the model in float32")
    return narrow


def extremes(state: Tensor) -> tuple[float, float]:
    """The least and the greatest number, NaN where there is one: one quick pass, where isfinite
    takes as long as 2 % of an encoder.

    >>> extremes(torch.tensor([[1.0, -2.0], [3.0, 0.0]]))
    (-2.0, 3.0)
    """
    if not state.numel():
        return 0.0, 0.0
    least, most = torch.aminmax(state)
    return float(least), float(most)


def _rounded(number: float, dtype: str) -> float:
    return float(torch.tensor(number, dtype=torch.float32).to(DTYPES[dtype]))


def as_tensor(array: np.ndarray) -> Tensor:
    """An array of an activation dataset as a tensor on the same memory. Activation datasets are
    read-only: do not write to it.

    >>> as_tensor(np.zeros((2, 3), np.float16)).shape
    torch.Size([2, 3])
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, whatever bytes its name is made of.

    Raises
    ------
    SafetensorError: the file is damaged. OSError: it cannot be read.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:  # torch maps files whose names are UTF-8 only
        return load(Path(path).read_bytes())
    return load_file(path)
