"""Token files: a text as one flat array of ids on disk, mapped into memory when it is read.

A folder holds ``ids.npy`` (all sentences one after the other, without special tokens,
uint16 where the vocabulary allows, else uint32), ``offsets.npy`` (where each sentence
begins, and the end) and ``manifest.json``. It is written once, and appears whole or
not at all.
"""

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from crosslens.errors import StoreError, refuse
from crosslens.files import read_json, write_json
from crosslens.progress import Progress

__all__ = ["TokenFile", "encode_text", "open_tokens"]

_CHUNK = 10_000  # sentences tokenised at a time


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


def encode_text(tokenizer: Tokenizer, sentences: Sequence[str], folder: str | Path, key: dict[str, Any]) -> TokenFile:
    """Tokenise sentences into a token file, or open the one that is there when its ``key`` is the same.

    Parameters
    ----------
    key: what the ids depend on (text and tokeniser fingerprints); kept in the manifest.
    """
    folder = Path(folder)
    if (folder / "manifest.json").exists() and read_json(folder / "manifest.json")["key"] == key:
        return open_tokens(folder)
    aside = folder.with_name(f"{folder.name}.partial")
    for old in (aside, folder):
        shutil.rmtree(old, ignore_errors=True)
    aside.mkdir(parents=True)
    dtype = np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32
    lengths: list[int] = []
    pieces: list[np.ndarray] = []
    with Progress(len(sentences), f"tokenising {folder.name}", "sentences") as progress:
        for start in range(0, len(sentences), _CHUNK):
            chunk = list(sentences[start : start + _CHUNK])
            encoded = tokenizer.encode_batch(chunk, add_special_tokens=False)
            lengths.extend(len(e.ids) for e in encoded)
            pieces.append(np.fromiter((i for e in encoded for i in e.ids), dtype))
            progress.add(len(chunk))
    np.save(aside / "ids.npy", np.concatenate(pieces))
    np.save(aside / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    write_json(aside / "manifest.json", {"key": key, "sentences": len(lengths), "tokens": int(sum(lengths)), "dtype": str(np.dtype(dtype))})
    os.replace(aside, folder)
    return open_tokens(folder)


def open_tokens(folder: str | Path) -> TokenFile:
    """Map a token file into memory.

    Raises
    ------
    StoreError: the folder is not a whole token file.
    """
    folder = Path(folder)
    try:
        manifest = read_json(folder / "manifest.json")
        ids = np.load(folder / "ids.npy", mmap_mode="r")
        offsets = np.load(folder / "offsets.npy")
    except (OSError, ValueError, EOFError) as error:  # an empty file is an EOFError to numpy
        refuse(str(folder), "a token file", str(error), "delete the folder and run the same command again", StoreError)
    if len(ids) != manifest["tokens"] or len(offsets) != manifest["sentences"] + 1 or offsets[-1] != len(ids):
        refuse(str(folder), f"{manifest['tokens']} tokens", f"{len(ids)}", "delete the folder and run the same command again", StoreError)
    return TokenFile(ids, offsets)
