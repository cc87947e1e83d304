"""Tensors as they are stored, and stored arrays as tensors."""

import warnings

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from crosslens.errors import refuse

__all__ = ["DTYPES", "as_tensor", "stored"]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def stored(state: Tensor, dtype: str, name: str) -> np.ndarray:
    """A tensor as an array of the type on disk; bfloat16 as numpy knows it through ml_dtypes.

    Raises
    ------
    InputError: a number is too large for the type.
    """
    narrow = state.to(DTYPES[dtype])
    if dtype != "float32" and bool((torch.isinf(narrow) & torch.isfinite(state)).any()):
        most = float(state[torch.isfinite(state)].abs().max())
        refuse("dtype", f"numbers that {dtype} holds", f"{most:g} in {name}", "choose bfloat16 or float32")
    return narrow.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if dtype == "bfloat16" else narrow.numpy()


def as_tensor(array: np.ndarray) -> Tensor:
    """An array of a store as a tensor on the same memory. Stores are read-only: do not write to it.

    >>> as_tensor(np.zeros((2, 3), np.float16)).shape
    torch.Size([2, 3])
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
