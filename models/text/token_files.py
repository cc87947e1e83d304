"""Token files: a text as one flat array of ids on disk, mapped into memory when it is read.

A folder holds ``ids.npy`` (all sentences one after the other, without special tokens, as
the model numbers them; uint16 where the vocabulary allows, else uint32), ``offsets.npy``
(where each sentence begins, and the end) and ``manifest.json``. It is written once,
while the text is tokenised, and appears whole or not at all.
"""

import dataclasses
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from tokenizers import Tokenizer

from crosslens.errors import StoreError, cut, panics_as_errors, refuse
from crosslens.files import read_json, remove_folder, write_json
from crosslens.progress import Progress

__all__ = ["TokenFile", "encode_text", "open_tokens"]

_AGAIN = "delete the folder and run the same command again"
_FILES = {"ids.npy", "offsets.npy", "manifest.json"}
_CHUNK = 10_000  # sentences tokenised at a time


class _Manifest(TypedDict):
    key: dict[str, Any]
    sentences: int
    tokens: int


@dataclasses.dataclass(frozen=True)
class TokenFile:
    """The ids of a text, mapped from disk.

    Attributes
    ----------
    ids: (tokens,) all ids.
    offsets: (n + 1,) sentence i is ids[offsets[i] : offsets[i + 1]].
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int | np.integer) -> np.ndarray:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """(n,) tokens of each sentence."""
        return np.diff(self.offsets)


def encode_text(
    tokenizer: Tokenizer,
    table: np.ndarray,
    size: int,
    sentences: Sequence[str],
    folder: str | Path,
    key: dict[str, Any],
    change: Callable[[int, np.ndarray], np.ndarray] | None = None,
) -> TokenFile:
    """Tokenise sentences into a token file, or open the one that is there when its ``key`` is the
    same.

    Parameters
    ----------
    table: the model's id of each of the tokeniser's ids.
    size: number of ids in the model.
    key: what the ids depend on (text and vocabulary fingerprints); kept in the manifest.
    change: what becomes of a sentence's ids, a function of its number and of them; None: nothing.

    Raises
    ------
    InputError: no token type holds so many ids, or the text has no subwords at all.
    OutputError: the folder holds something else.
    """
    folder = Path(folder)
    if (folder / "manifest.json").exists() and _manifest(folder)["key"] == key:
        return open_tokens(folder)
    dtype = _token_type(size)
    aside = folder.with_name(f"{folder.name}.partial")
    for old in (aside, folder):
        remove_folder(old, _FILES)
    aside.mkdir(parents=True)
    lengths = [np.zeros(1, np.int64)]  # the first sentence begins at 0
    with (
        Progress(len(sentences), f"tokenising {folder.name}", "sentences") as progress,
        open(aside / "ids.npy", "wb") as out,
    ):
        out.write(_npy_header(dtype, 0))
        for start in range(0, len(sentences), _CHUNK):
            with panics_as_errors():
                encoded = tokenizer.encode_batch(
                    list(sentences[start : start + _CHUNK]), add_special_tokens=False
                )
            lengths.append(np.array([len(e.ids) for e in encoded], np.int64))
            local = np.fromiter(
                (i for e in encoded for i in e.ids), np.int64, int(lengths[-1].sum())
            )
            ids = table[local]
            if change is not None:
                parts = np.split(ids, np.cumsum(lengths[-1])[:-1])
                parts = [change(start + i, part) for i, part in enumerate(parts)]
                ids = np.concatenate(parts)
                lengths[-1] = np.array([len(p) for p in parts], np.int64)
            out.write(ids.astype(dtype).tobytes())
            progress.add(len(encoded))
        offsets = np.cumsum(np.concatenate(lengths))
        tokens = int(offsets[-1])
        out.seek(0)
        out.write(_npy_header(dtype, tokens))
    if not tokens:
        remove_folder(aside, _FILES)
        refuse(
            folder.name, "a text with at least one subword", "none", "give a text with words in it"
        )
    np.save(aside / "offsets.npy", offsets)
    write_json(
        aside / "manifest.json",
        {"key": key, "sentences": len(sentences), "tokens": tokens, "dtype": str(dtype)},
    )
    os.replace(aside, folder)
    return open_tokens(folder)


def _token_type(size: int) -> np.dtype:
    for dtype in (np.uint16, np.uint32):
        if size <= np.iinfo(dtype).max + 1:
            return np.dtype(dtype)
    expected = f"at most {np.iinfo(np.uint32).max + 1} ids, what a token of 32 bits can be"
    refuse("vocabulary.size", expected, str(size), "lower it")


def _npy_header(dtype: np.dtype, n: int) -> bytes:
    """The first 128 bytes of an npy file of n numbers: always as many, so that n can be filled in
    when it is known."""
    told = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({n},), }}"
    return np.lib.format.magic(1, 0) + struct.pack("<H", 118) + told.ljust(117).encode() + b"\n"


def open_tokens(folder: str | Path) -> TokenFile:
    """Map a token file into memory.

    Raises
    ------
    StoreError: the folder is not a whole token file.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    ids = _mapped(folder / "ids.npy", ("uint16", "uint32"))
    offsets = np.array(_mapped(folder / "offsets.npy", ("int64",)))
    if len(ids) != manifest["tokens"] or len(offsets) != manifest["sentences"] + 1:
        got = f"{len(ids)} of {len(offsets) - 1}"
        expected = f"{manifest['tokens']} tokens of {manifest['sentences']} sentences"
        refuse(str(folder), expected, got, _AGAIN, StoreError)
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        refuse(
            str(folder / "offsets.npy"),
            "where each sentence begins",
            "numbers that are no such places",
            _AGAIN,
            StoreError,
        )
    return TokenFile(ids, offsets)


def _manifest(folder: Path) -> _Manifest:
    found: _Manifest = read_json(folder / "manifest.json", _Manifest, _AGAIN)
    return found


def _mapped(path: Path, types: tuple[str, ...]) -> np.ndarray:
    """An array of one dimension, mapped: a header that promises more numbers than the file holds
    takes no memory."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    # numpy reads the header as if it were Python, and whatever that raises comes through
    except Exception as error:
        expected = "an array of numbers"
        refuse(str(path), expected, f"something else ({cut(str(error), 160)})", _AGAIN, StoreError)
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.name not in types:
        got = (
            f"one of {array.dtype}, of shape {array.shape}"
            if isinstance(array, np.ndarray)
            else "an archive"
        )
        refuse(str(path), f"a list of {' or '.join(types)}", got, _AGAIN, StoreError)
    return array
