"""One vector per word of the vocabulary: the average of all its occurrences, or its row of the
embedding matrix.

Conneau et al. 2020 (§ 5.1.1) take the mean over occurrences of the mean over subwords. Sums are kept
as whole numbers, multiples of 2^-30: they are the same in whatever order occurrences come, so that
several processes, or a run that was stopped, end with the same bits. Memory holds a sum for each
type and layer, and no occurrence.
"""

import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from crosslens.activation_place import refuse_damaged
from crosslens.activations_writer import ActivationsWriter
from crosslens.checks import need_memory
from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.models.extraction.encode import Encoded
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.units import Located, Reading, locate, space_markers
from crosslens.models.machine.distributed import World
from crosslens.models.saved.arrays import load_tensors, save_tensors, stored
from crosslens.models.text.tokenisation import by_bytes, tokenised
from crosslens.progress import Progress

__all__ = ["average_types", "embedding_rows", "plan_types"]

_SCALE = float(1 << 30)
_MOST = float(1 << 33)  # the largest sum that 64 bits hold at this scale
_ROWS = 4096  # types in a block of the activation dataset
_SAVE_EVERY = 120.0  # seconds

Vectors = Callable[[Iterable[range]], Generator[Encoded, None, None]]


def plan_types(
    encoder: Encoder,
    corpus: Corpus,
    reading: Reading,
    ranges: Iterable[range],
    writer: ActivationsWriter,
    *,
    lowercase: bool,
    min_count: int,
) -> None:
    """Count the words of a text and lay out an activation dataset with a row for each type, the
    most frequent first.

    Raises
    ------
    InputError: no word is left.
    """
    counts: Counter[str] = Counter()
    cut = without = 0
    with Progress(len(corpus), f"counting the words of {corpus.name}", "sentences") as progress:
        for rows in ranges:
            found = locate(encoder, corpus, rows, reading)
            there = found.pieces > 0
            counts.update(
                word
                for word, has in zip(_keys(found, lowercase), there.tolist(), strict=True)
                if has
            )
            cut, without = cut + found.cut, without + int((~there).sum())
            progress.add(len(rows))
    types = sorted(
        (word for word, count in counts.items() if count >= min_count),
        key=lambda word: (-counts[word], word),
    )
    facts: dict[str, Any] = {
        "cut": cut,
        "without_pieces": without,
        "rare": len(counts) - len(types),
    }
    columns: dict[str, Any] = {}
    if reading.unit == "embedding":
        single = _single_pieces(encoder, types)
        facts["of_several_pieces"] = len(types) - len(single)
        types, columns = list(single), {"piece": np.array(list(single.values()), np.int64)}
    if not types:
        refuse(
            "TEXT", "a word to make a vector for", "none", "give more text, or a smaller min_count"
        )
    columns = {
        "id": types,
        "language": [corpus.language] * len(types),
        "word": types,
        "count": [counts[word] for word in types],
        **columns,
    }
    with writer.plan() as plan:
        for start in range(0, len(types), _ROWS):
            plan.add({name: values[start : start + _ROWS] for name, values in columns.items()})
            plan.end_block(**(facts if start == 0 else {}))


def average_types(
    vectors: Vectors,
    ranges: Sequence[range],
    writer: ActivationsWriter,
    world: World,
    dtype: str,
    *,
    lowercase: bool,
    label: str,
) -> None:
    """Encode the text and write the average of each type.

    Parameters
    ----------
    vectors: blocks of sentences -> for each, batch by batch, its words' vectors.
    ranges: the blocks of sentences.
    lowercase: whether types are in lower case.

    Raises
    ------
    InputError: the sums do not fit, into memory or into 64 bits.
    """
    with world.together():
        done = world.first and not writer.left
    if world.agreed(float(done)):  # a run that was stopped at the very end
        if world.first:
            _remove_sums(writer)
        return
    types = {word: row for row, word in enumerate(writer.index(["word"])["word"])}
    counts = torch.tensor(writer.index(["count"])["count"])
    with world.together():
        sums = _Sums(writer, len(types), ranges, world.rank)
        summed = sums.done_by_all()
        left = [number for number in range(len(ranges)) if number not in summed]
    total = sum(map(len, ranges))
    mine = left[world.rank :: world.size]
    there = total - sum(len(ranges[number]) for number in left)
    encoded = contextlib.closing(vectors(ranges[number] for number in mine))
    with world.together(), Progress(total, label, "sentences", there) as progress, encoded as parts:
        numbers, largest = iter(mine), int(counts.max())
        for part in parts:
            if not part.inputs[0]:
                number, found = next(numbers), part.found
                keys = zip(_keys(found, lowercase), (found.pieces > 0).tolist(), strict=True)
                known = np.array(
                    [types.get(word, -1) if has else -1 for word, has in keys], np.int64
                )
            sums.add(known[part.items], part.vectors, largest)
            if part.last:
                sums.end(number)
            progress.add(part.share(len(ranges[number])) * world.size)
        sums.save()
    with world.together():
        if world.first:
            totals = sums.of_all()
            for block in writer.left:
                rows = slice(block.start, block.stop)
                writer.write(
                    block,
                    {
                        name: stored(_mean(sum_[rows], counts[rows]), dtype, name)
                        for name, sum_ in totals.items()
                    },
                )
            _remove_sums(writer)


def _remove_sums(writer: ActivationsWriter) -> None:
    for path in [] if writer.scratch is None else writer.scratch.glob("sums-*"):
        path.unlink()


@contextlib.contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Refuse a file of sums that is not whole, as a failing machine may leave it."""
    try:
        yield
    except SafetensorError:
        refuse_damaged(path.parent, path.name)


def _mean(sums: Tensor, counts: Tensor) -> Tensor:
    return (sums.double() / _SCALE / counts[:, None]).float()


class _Sums:
    """The sums of one process, on disk every few minutes: what is on disk is whole, and says which
    blocks are in it."""

    def __init__(
        self, writer: ActivationsWriter, types: int, ranges: Sequence[range], rank: int
    ) -> None:
        # without a folder nothing is kept on disk
        self._folder, self._arrays = writer.scratch, list(writer.arrays)
        cuts = hashlib.sha256(
            np.array([rows.stop for rows in ranges], np.int64).tobytes()
        ).hexdigest()[:8]
        # sums over other blocks, of a run on another device, are of no use
        self._name = f"sums-{cuts}-{{}}.safetensors"
        self._path = None if self._folder is None else self._folder / self._name.format(rank)
        what = f"sums of {types:,} types × {len(self._arrays)} arrays × {writer.d}"
        need_memory(
            types * len(self._arrays) * writer.d * 8,
            "min_count",
            what,
            "raise min_count, or choose fewer layers",
        )
        if self._path is not None and self._path.exists():
            with _undamaged(self._path):
                self.sums = load_tensors(self._path)
        else:
            self.sums = {
                name: torch.zeros((types, writer.d), dtype=torch.int64) for name in self._arrays
            }
            self.sums["done"] = torch.zeros(len(ranges), dtype=torch.bool)
        self._saved = time.monotonic()

    def add(self, rows: np.ndarray, states: dict[str, Tensor], largest: int) -> None:
        """Add vectors to the sums of their types, -1 for none. They count once the block that they
        are of is at its end."""
        mine = torch.from_numpy(np.flatnonzero(rows >= 0))
        target = torch.from_numpy(rows)[mine]
        for name in self._arrays:
            state = states[name][mine]
            if len(mine) and float(state.abs().max()) * largest >= _MOST:
                got = f"{float(state.abs().max()):g} in {name}, {largest} occurrences"
                remedy = 'extract words (unit="word") and average them yourself'
                refuse("unit", "activations whose sum stays below 2^33", got, remedy)
            self.sums[name].index_add_(0, target, (state.double() * _SCALE).round_().long())

    def end(self, number: int) -> None:
        """A block is done, and none is begun: only now the sums may be saved."""
        self.sums["done"][number] = True
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        if self._path is None:
            return
        aside = self._path.with_suffix(".partial")
        save_tensors(self.sums, aside)
        os.replace(aside, self._path)
        self._saved = time.monotonic()

    def _files(self) -> list[Path]:
        return [] if self._folder is None else sorted(self._folder.glob(self._name.format("*")))

    def done_by_all(self) -> set[int]:
        """Blocks that are in the sums of some process, this one's or one of an earlier run."""
        done: set[int] = set(self.sums["done"].nonzero().flatten().tolist())
        for path in self._files():
            with _undamaged(path), safe_open(path, "numpy") as file:
                done.update(np.flatnonzero(file.get_tensor("done")).tolist())
        return done

    def of_all(self) -> dict[str, Tensor]:
        """The sums over all processes; whole numbers, so in any order."""
        if self._path is None:
            return {name: self.sums[name] for name in self._arrays}
        totals = {name: torch.zeros_like(self.sums[name]) for name in self._arrays}
        for path in self._files():
            with _undamaged(path), safe_open(path, "numpy") as file:
                for name, total in totals.items():
                    total += torch.from_numpy(file.get_tensor(name))
        return totals


def embedding_rows(encoder: Encoder, writer: ActivationsWriter, dtype: str) -> None:
    """Write the rows of the embedding matrix for the words of the activation dataset's index (of
    the first kind of token embedding the model has)."""
    table = encoder.token_embeddings().float().cpu()
    if table.shape[1] != writer.d:
        expected = f"token embeddings of width {writer.d}, as the layers have"
        refuse("unit", expected, str(table.shape[1]), "take layer 0 of unit type")
    pieces = torch.tensor(writer.index(["piece"])["piece"])
    for block in writer.left:
        (name,) = writer.arrays
        writer.write(block, {name: stored(table[pieces[block.start : block.stop]], dtype, name)})


def _single_pieces(encoder: Encoder, types: Sequence[str]) -> dict[str, int]:
    """The words that the tokeniser writes as one subword (beside a marker of a space), and that
    subword, as it stands behind a space; unknown words are not among them."""
    markers = set(space_markers(encoder).tolist())
    space = " " if by_bytes(encoder.tokenizer) else ""  # others have one form of a word
    found: dict[str, int] = {}
    for start in range(0, len(types), 10_000):
        some = [space + word for word in types[start : start + 10_000]]
        encodings = tokenised(encoder.name, encoder.tokenizer, some, add_special_tokens=False)
        for word, ids in zip(some, [one.ids for one in encodings], strict=True):
            real = [number for number in ids if number not in markers] or ids
            if len(real) == 1 and real[0] != encoder.tokenizer.unk_token_id:
                found[word.removeprefix(space)] = real[0]
    return found


def _keys(found: Located, lowercase: bool) -> list[str]:
    words: Sequence[str] = found.columns["word"]
    return [word.lower() for word in words] if lowercase else list(words)
