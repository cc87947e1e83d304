"""The contestants of benchmarks/extraction.py: the floor, crosslens, and what else gives vectors of
words or sentences.

Each is built for one encoder and some lines of text whose words stand between spaces, with
everything loaded, and then called with a folder to write to, as often as is wanted. What it writes
is whole when it returns.
"""

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosslens.corpus import Corpus
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.pretrained import PretrainedEncoder
from crosslens.readers.words import split_words

Contestant = Callable[[Path], None]

NAMES = {
    "floor": "bare forward pass",
    "float32": "crosslens, float32",
    "float16": "crosslens, float16",
    "plain": "plain loop",
    "neurox": "NeuroX",
    "st": "sentence-transformers",
}
PEERS = ("plain", "neurox", "st")
# modules that a peer is made of
NEEDED = {"neurox": ("neurox", "h5py"), "st": ("sentence_transformers",)}
INSTALL = {
    "neurox": (
        "pip install --no-deps neurox==1.0.9 && pip install h5py (it asks for numpy 1.19 and "
        "torch 1.8, and runs without them)"
    ),
    "st": "pip install -c constraints.txt '.[bench]'",
}
# tokens of a batch that the floor tries
_BUDGETS = {"cpu": (256, 512, 1024, 2048), "cuda": (16_384, 32_768, 65_536, 131_072)}
_TRIED = {"cpu": 6_000, "cuda": 300_000}  # tokens for which it tries each


def installed(who: str) -> bool:
    """Whether a contestant's package is there."""
    return all(importlib.util.find_spec(module) for module in NEEDED.get(who, ()))


def build(who: str, encoder: PretrainedEncoder, folder: Path, lines: list[str]) -> Contestant:
    """A contestant other than the floor, ready to run; ``folder`` is the encoder's."""
    if who == "plain":
        return lambda out: _plain_loop(encoder, lines, out)
    if who == "neurox":
        return _neurox(folder, lines)
    if who == "st":
        return _sentence_transformers(folder, encoder, lines)
    return lambda out: _crosslens(encoder, lines, out, who)


def _crosslens(encoder: PretrainedEncoder, lines: list[str], out: Path, dtype: str) -> None:
    """As a user calls it; the corpus is made anew, so that no checksum of an earlier run is
    remembered."""
    corpus = Corpus("und", lines, [str(i) for i in range(len(lines))], "text")
    extract(encoder, split_words(corpus), out / "store", unit="word", pool="mean", dtype=dtype)


class Floor:
    """A bare forward pass over batches sorted by length that keeps nothing: no tokenisation, no
    hidden states, no output.

    It is given prepared tensors, and of several sizes of batch the one that turns out fastest.
    """

    def __init__(
        self,
        encoder: PretrainedEncoder,
        lines: list[str],
        clock: Callable[[Contestant], float],
        quick: bool,
    ) -> None:
        self.encoder = encoder
        self.rows = sorted(encoder.tokenizer(lines)["input_ids"], key=len)
        self.tokens = sum(map(len, self.rows))
        budgets, times = (
            _BUDGETS[encoder.device.type][1:3] if quick else _BUDGETS[encoder.device.type],
            dict[int, float](),
        )
        for budget in (budgets[0], *budgets):  # the very first time, memory is laid out
            every = max(1, self.tokens // _TRIED[encoder.device.type])
            batches = list(self._batches(self.rows, budget))
            self.batches = batches[min(every, len(batches)) // 2 :: every]
            times[budget] = clock(self) / sum(int(mask.sum()) for _, mask in self.batches)
        self.budget = min(times, key=lambda budget: times[budget])
        self.batches = list(self._batches(self.rows, self.budget))

    def _batches(self, rows: list[list[int]], budget: int) -> Iterator[tuple[Tensor, Tensor]]:
        end = len(rows)
        while end:
            start = max(0, end - max(1, budget // len(rows[end - 1])))
            batch, width = rows[start:end], len(rows[end - 1])
            ids = torch.tensor(
                [row + [self.encoder.pad_id] * (width - len(row)) for row in batch],
                device=self.encoder.device,
            )
            mask = torch.tensor(
                [[1] * len(row) + [0] * (width - len(row)) for row in batch],
                device=self.encoder.device,
            )
            yield ids, mask
            end = start

    @torch.inference_mode()
    def __call__(self, out: Path) -> None:
        encoder = self.encoder
        for ids, mask in self.batches:
            with torch.autocast(
                encoder.device.type, torch.bfloat16, enabled=encoder.precision == "bfloat16"
            ):
                encoder.model(input_ids=ids, attention_mask=mask, output_hidden_states=False)
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()


@torch.inference_mode()
def _plain_loop(encoder: PretrainedEncoder, lines: list[str], out: Path) -> None:
    """What one writes with transformers: batches of 32 in the order of the text, words by
    ``word_ids()``, an array a layer.

    It is told of subwords that are nothing but the marker of a space, so that its vectors can be
    compared with ours.
    """
    words = [line.split() for line in lines]
    markers = {
        number for token, number in encoder.tokenizer.get_vocab().items() if token in ("▁", "Ġ")
    }
    found: list[np.ndarray] = []
    for start in range(0, len(words), 32):
        some = words[start : start + 32]
        batch = encoder.tokenizer(
            some, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt"
        )
        states = torch.stack(encoder.model(**batch, output_hidden_states=True).hidden_states)
        for row in range(len(some)):
            pieces: dict[int, list[int]] = {}
            for place, word in enumerate(batch.word_ids(row)):
                if word is not None:
                    pieces.setdefault(word, []).append(place)
            ids = batch["input_ids"][row].tolist()
            for places in pieces.values():
                real = [place for place in places if ids[place] not in markers] or places
                found.append(states[:, row, real].mean(1).numpy())
    vectors = np.stack(found, 1)
    for layer, array in enumerate(vectors):
        np.save(out / f"layer_{layer:02d}.npy", array)


def _neurox(folder: Path, lines: list[str]) -> Contestant:
    """NeuroX's own functions, as its ``extract_representations`` calls them, with its HDF5 writer;
    what it prints is thrown away."""
    from neurox.data.extraction import transformers_extractor as neurox
    from neurox.data.writer import ActivationsWriter

    model, tokenizer = neurox.get_model_and_tokenizer(str(folder))

    def run(out: Path) -> None:
        writer = ActivationsWriter.get_writer(str(out / "neurox.hdf5"), filetype="hdf5")
        counts: dict[str, int] = {}
        with (
            open(os.devnull, "w") as nothing,
            contextlib.redirect_stdout(nothing),
            contextlib.redirect_stderr(nothing),
        ):
            for number, line in enumerate(lines):
                states, words = neurox.extract_sentence_representations(
                    line, model, tokenizer, aggregation="average", tokenization_counts=counts
                )
                writer.write_activations(number, words, states)
            writer.close()

    return run


def _sentence_transformers(
    folder: Path, encoder: PretrainedEncoder, lines: list[str]
) -> Contestant:
    """``encode()`` with its defaults: one vector a sentence, of the last layer. It is to read whole
    texts, as the others do."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device=str(encoder.device))
    model.max_seq_length = encoder.max_length

    def run(out: Path) -> None:
        np.save(out / "sentences.npy", model.encode(lines, show_progress_bar=False))

    return run


def compare(out: Path, who: str, store: Any) -> tuple[float, float]:
    """How far a peer's vectors of words are from ours: the largest difference, and the share of
    words where it is less than 1e-4.

    ``store`` is ours, in float32; differences are relative to the largest number of the layer where
    that is more than 1.
    """
    worst = np.zeros(store.n)
    for layer in range(store.layers):
        ours = store.layer(layer)
        theirs = (
            np.load(out / f"layer_{layer:02d}.npy", mmap_mode="r")
            if who == "plain"
            else _neurox_layer(out, layer)
        )
        if theirs.shape != ours.shape:
            raise SystemExit(
                f"{NAMES[who]} has vectors of shape {theirs.shape}, crosslens of {ours.shape}"
            )
        scale = max(1.0, float(np.abs(ours).max()))
        worst = np.maximum(worst, np.abs(theirs - ours).max(1) / scale)
    return float(worst.max()), float((worst < 1e-4).mean())


def _neurox_layer(out: Path, layer: int) -> np.ndarray:
    import h5py

    with h5py.File(out / "neurox.hdf5") as file:
        return np.concatenate([file[str(number)][layer] for number in range(len(file) - 1)])
