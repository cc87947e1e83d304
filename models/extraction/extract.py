"""Text to activations: every layer of an encoder, for each sentence, word or token.

The text is read twice. The first pass tokenises it and writes the activation dataset's index: what
the items are, and in which blocks they will be encoded. The second encodes block by block. In a
block, inputs are sorted by length, so that a batch holds little padding, and pooled as soon as they
are encoded.
While a batch is encoded a thread writes the one before to its places in the store: memory holds a
few batches, whatever the size of the text and of a block. What is done when is the same with any
number of processes, and so are the numbers.
"""

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crosslens.activations import Activations
from crosslens.activations_memory import MemoryWriter
from crosslens.activations_writer import ActivationsWriter, Block
from crosslens.checks import is_whole
from crosslens.corpus import Corpus, as_corpus
from crosslens.errors import check_choice, quote, refuse
from crosslens.files import same_settings
from crosslens.models.extraction.encode import Encoded, encode
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.type_averages import average_types, embedding_rows, plan_types
from crosslens.models.extraction.units import Located, Reading, locate
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.saved.arrays import DTYPES, stored
from crosslens.models.saved.loading import load_encoder
from crosslens.models.text.tokenisation import by_bytes
from crosslens.progress import Progress, say

__all__ = ["check_text", "extract", "store_settings"]

# Bytes of text in a block: some 32,000 tokens, so many that nearly all batches can be full and yet
# hold inputs of like length; a run that is killed has to encode its last block again. A GPU's
# batches are larger.
_BLOCK_TEXT = {"cpu": 1 << 17, "cuda": 1 << 20}
# bytes of text that are remembered between the two passes: a short text is tokenised once
_KEPT = 1 << 19


def extract(
    encoder: Encoder | str | Path,
    text: Corpus | Iterable[str],
    out: str | Path | None = None,
    *,
    language: str | None = None,
    unit: str = "sentence",
    pool: str = "mean",
    layers: Sequence[int] | None = None,
    outputs: Sequence[str] = ("hidden",),
    dtype: str = "float32",
    special_tokens: bool = False,
    long_input: str = "window",
    second: Corpus | Iterable[str] | None = None,
    lowercase: bool = False,
    min_count: int = 1,
    restart: bool = False,
) -> Activations:
    """Encode a text: the activations of every layer, for each sentence, word or token.

    Without a folder they are held in memory; ``out=FOLDER`` keeps them on disk, where they may be
    larger than memory. The bits are the same. In a folder, what is finished already is compared
    with its checksums and opened; what was begun is resumed, by one call at a time. Under
    torchrun the processes share the work, and the folder's bytes are those of a single process (it
    must be one that all of them see).

    Parameters
    ----------
    encoder: from :func:`crosslens.load_encoder`. One that is told the language of its input (XLM)
        is told the text's, unless it was loaded with another.
    text: sentences in a list; or a :class:`crosslens.Corpus`, which may know their words and ids.
    out: the folder; it must be new, or hold these very activations.
    language: of a list, an ISO 639-3 code such as "eng"; "und" (undetermined) without it. A corpus
        knows its own.
    unit: what an item is: "sentence"; "pair", a sentence of ``corpus`` and one of ``second`` in one
        input; "word"; "token", a subword of the vocabulary; "type", the average of all occurrences of
        a word (Conneau et al. 2020, § 5.1.1); "embedding", the row of the embedding matrix for each
        word that is one subword (behind a space, where the tokeniser tells the two apart).
    pool: "mean", "max", "first" or "last" of an item's subwords.
    layers: which hidden states to keep, 0 being the embedding layer's output; all where it is None.
    outputs: "hidden", and "attention" and "mlp" for what these blocks give before the residual is
        added.
    dtype: of the numbers on disk: "float32", "float16" or "bfloat16".
    special_tokens: count [CLS], </s> and their like as subwords of a sentence or pair, and as tokens.
    long_input: read text beyond the encoder's longest input through overlapping windows ("window"),
        or cut it there ("truncate").
    second: for pairs, the other sentences, one for each; an empty one leaves the first alone.
    lowercase: for types and embeddings, count "Bank" and "bank" as one word; the text is encoded as
        it stands.
    min_count: for types, leave out words that are rarer; how many is in the manifest.
    restart: delete what an earlier call has left half written, whatever its settings were. A
        finished activation dataset stays.

    Returns
    -------
    ``.layer(i)`` is a matrix (n, d) of one layer, n items of d dimensions; ``.index()`` says what
    each row is. A word that has no subword, because the tokeniser drops its characters or it was cut
    off, keeps its row: it is NaN, ``pieces`` is 0 there, and the manifest counts them as
    ``without_pieces``.

    Raises
    ------
    InputError: no sentence, or one that has no token but special ones, settings do not go together,
        a number does not fit the dtype, the activations do not fit into memory, or the encoder has to be told a
        language and does not have the text's.
    OutputError: the folder has activations with other settings, finished or half written; somebody
        else writes there; or there is no room.
    StoreError: what is there is damaged.

    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder that the package carries
    >>> encoder = cl.load_encoder(DATA / "tiny-encoder")
    >>> cats = cl.extract(encoder, ["A cat.", "Two cats!"], language="eng")
    >>> cats, cats.layer(4).shape
    (Activations(eng, 2 sentences × 128, layers 0–4, float32), (2, 128))
    >>> cl.extract(encoder, ["A cat.", "Two cats!"], unit="word").index(["id", "position", "word"])
    {'id': ['0', '0', '1', '1'], 'position': [0, 1, 0, 1], 'word': ['A', 'cat.', 'Two', 'cats!']}
    """
    corpus = as_corpus(text, language)
    other = None if second is None else as_corpus(second, language, "second")
    reading = Reading(unit, pool, special_tokens, long_input)
    loaded = load_encoder(encoder) if isinstance(encoder, (str, Path)) else encoder
    encoder = loaded.for_text(corpus.language, other.language if other is not None else None)
    store = store_settings(
        encoder,
        corpus,
        reading,
        layers,
        outputs,
        second=other,
        dtype=dtype,
        lowercase=lowercase,
        min_count=min_count,
    )
    with contextlib.ExitStack() as held:
        world = held.enter_context(_world(encoder))
        job = _Job(encoder, corpus, other, reading, store["arrays"], dtype)
        if out is None:
            return job.in_memory(MemoryWriter(**store), world, lowercase, min_count)
        with world.together():
            finished = ActivationsWriter.finished(out, store["settings"], verify=world.first)
        if finished is not None:
            _check_language(out, finished.language, corpus.language)
            return finished
        # rows of types are written by the first process
        share = 1 if unit in ("type", "embedding") else world.size
        with world.together():
            if world.first:
                writer = held.enter_context(
                    ActivationsWriter(out, **store, processes=share, restart=restart)
                )
                job.plan(writer, lowercase, min_count)
        with world.together():
            if not world.first:  # what the first has planned
                writer = held.enter_context(
                    ActivationsWriter(out, **store, rank=world.rank, processes=share)
                )
        return job.run(writer, world, lowercase)


def store_settings(
    encoder: Encoder,
    corpus: Corpus,
    reading: Reading,
    layers: Sequence[int] | None,
    outputs: Sequence[str],
    *,
    second: Corpus | None,
    dtype: str,
    lowercase: bool,
    min_count: int,
) -> dict[str, Any]:
    """The activation dataset that :func:`extract` will write, as
    :class:`crosslens.activations_writer.ActivationsWriter` takes it: settings, arrays, d and dtype.

    Raises
    ------
    InputError: no sentence; a setting does not exist, or they do not go together.
    """
    check_choice(dtype, "dtype", DTYPES)
    if not len(corpus):
        refuse(corpus.name, "at least one sentence", "none", "give a text")
    if (reading.unit == "pair") != (second is not None):
        expected = "the second sentences, for pairs and only for them"
        refuse("second", expected, "none" if second is None else "one", 'set unit="pair"')
    if second is not None and len(second) != len(corpus):
        expected = f"{len(corpus)} sentences, one for each of {corpus.name}"
        refuse("second", expected, str(len(second)), "align the two texts line by line")
    if reading.unit not in ("type", "embedding") and (lowercase or min_count != 1):
        expected = "no such setting for this unit"
        remedy = 'leave them out, or set unit="type"'
        refuse("lowercase, min_count", expected, f"unit {reading.unit!r}", remedy)
    _check_effects(reading, layers, outputs)
    if not is_whole(min_count) or min_count < 1:
        refuse("min_count", "1 or more", quote(min_count), "give a number of occurrences")
    encoder = encoder.for_text(corpus.language, second.language if second is not None else None)
    arrays = _choose_arrays(encoder, layers, outputs)
    arrays = ["layer_00"] if reading.unit == "embedding" else arrays
    settings = {
        "encoder": encoder.fingerprint,
        "text": corpus.fingerprint,
        **({"second_text": second.fingerprint} if second is not None else {}),
        "unit": reading.unit,
        "pooling": reading.pool,
        "special_tokens": reading.special_tokens,
        "long_input": "window, context from the left"
        if encoder.causal and reading.long_input == "window"
        else reading.long_input,
        "arrays": arrays,
        "dtype": dtype,
        "precision": encoder.precision,
        **encoder.language_settings(),
        **(
            {"lowercase": lowercase, "min_count": int(min_count)}
            if reading.unit in ("type", "embedding")
            else {}
        ),
        **(
            {"subword": "behind a space"}
            if reading.unit == "embedding" and by_bytes(encoder.tokenizer)
            else {}
        ),
    }
    return {"settings": settings, "arrays": arrays, "d": encoder.d, "dtype": dtype}


def _check_effects(reading: Reading, layers: Sequence[int] | None, outputs: Sequence[str]) -> None:
    """Refuse settings that change nothing for a unit."""
    without = {
        "pool": (("token", "embedding"), reading.pool != "mean", quote(reading.pool)),
        "long_input": (("embedding",), reading.long_input != "window", quote(reading.long_input)),
        "layers": (
            ("embedding",),
            layers is not None and np.asarray(layers).tolist() != [0],
            quote(layers),
        ),
        "outputs": (("embedding",), tuple(outputs) != ("hidden",), quote(list(outputs))),
    }
    for name, (units, given, got) in without.items():
        if given and reading.unit in units:
            expected = f"no such setting for unit {reading.unit!r}, where it changes nothing"
            refuse(name, expected, got, "leave it out, or choose another unit")


def _choose_arrays(
    encoder: Encoder, layers: Sequence[int] | None, outputs: Sequence[str]
) -> list[str]:
    """The names of the arrays to keep, in order.

    Raises
    ------
    InputError: no such layer or output.
    """
    names = encoder.output_names(outputs)
    if layers is None:
        return names
    numbers = np.asarray(layers)
    if numbers.ndim != 1 or numbers.size and numbers.dtype.kind not in "iu":
        refuse("layers", "a list of whole numbers", quote(layers), "write [8] for layer 8 alone")
    layers = numbers.tolist()
    wrong = [layer for layer in layers if not 0 <= layer < encoder.layers]
    if wrong or not layers or len(set(layers)) != len(layers):
        expected = f"layers from 0 to {encoder.layers - 1}, each once"
        refuse(
            "layers", expected, ", ".join(map(str, wrong or layers)) or "none", "choose among these"
        )
    chosen = [name for name in names if int(name.rpartition("_")[2]) in layers]
    if not chosen:
        refuse(
            "layers",
            "layers that have such outputs (attention and mlp begin at 1)",
            ", ".join(map(str, layers)),
            "choose others",
        )
    return chosen


def check_text(
    encoder: Encoder, corpus: Corpus, reading: Reading | None = None, second: Corpus | None = None
) -> int:
    """Read a text as :func:`extract` would, and return the number of its items.

    Raises
    ------
    InputError: what cannot be encoded, with its place.
    """
    reading, items = reading or Reading(), 0
    encoder = encoder.for_text(corpus.language, second.language if second is not None else None)
    with Progress(len(corpus), f"tokenising {corpus.name}", "sentences") as progress:
        for rows in _ranges(corpus, _BLOCK_TEXT["cpu"]):
            items += locate(encoder, corpus, rows, reading, second).items
            progress.add(len(rows))
    return items


class _Job:
    """One text to be encoded: what the two passes share."""

    def __init__(
        self,
        encoder: Encoder,
        corpus: Corpus,
        second: Corpus | None,
        reading: Reading,
        arrays: list[str],
        dtype: str,
    ) -> None:
        self.encoder = encoder
        self.corpus = corpus
        self.second = second
        self.reading = reading
        self.arrays = arrays
        self.dtype = dtype
        self.kept: dict[int, Located] = {}
        self.block_text = _block_text(encoder.device.type)
        self.label = f"encoding {corpus.name} with {encoder.name}"

    def ranges(self) -> Iterator[range]:
        """The sentences of each block: they follow from the text and from the kind of device."""
        return _ranges(self.corpus, self.block_text)

    def plan(self, writer: ActivationsWriter, lowercase: bool, min_count: int) -> None:
        """The first pass: what the items are."""
        if writer.planned:
            _check_language(writer.aside, writer.language, self.corpus.language)
            return
        if self.reading.unit in ("type", "embedding"):
            plan_types(
                self.encoder,
                self.corpus,
                self.reading,
                self.ranges(),
                writer,
                lowercase=lowercase,
                min_count=min_count,
            )
            return
        with (
            Progress(len(self.corpus), f"tokenising {self.corpus.name}", "sentences") as progress,
            writer.plan() as plan,
        ):
            for rows in self.ranges():
                found = locate(self.encoder, self.corpus, rows, self.reading, self.second)
                plan.add(found.columns)
                plan.end_block(
                    text_start=rows.start,
                    text_stop=rows.stop,
                    cut=found.cut,
                    without_pieces=int((found.pieces == 0).sum()),
                )
                if len(self.kept) * self.block_text < _KEPT:
                    self.kept[rows.start] = dataclasses.replace(found, columns={})
                progress.add(len(rows))

    def in_memory(
        self, writer: MemoryWriter, world: World, lowercase: bool, min_count: int
    ) -> Activations:
        """Both passes, in a process that has no others beside it: their memory is not its own."""
        if world.size > 1:
            expected = f"a folder that the {world.size} processes share"
            refuse("out", expected, "none", "give out=FOLDER, or start one process")
        if self.reading.unit not in ("type", "embedding"):
            writer.need(len(self.corpus))  # there are as many items at least
        self.plan(writer, lowercase, min_count)
        return self.run(writer, world, lowercase)

    def run(self, writer: ActivationsWriter, world: World, lowercase: bool) -> Activations:
        """The second pass: their vectors."""
        store = None
        if self.reading.unit == "embedding":
            with world.together():
                if world.first:
                    embedding_rows(self.encoder, writer, self.dtype)
        elif self.reading.unit == "type":
            average_types(
                self._vectors,
                list(self.ranges()),
                writer,
                world,
                self.dtype,
                lowercase=lowercase,
                label=self.label,
            )
        else:
            with world.together():
                self._encode_all(writer, world)
        with world.together():
            if world.first:
                store = self._finish(writer)
        return Activations(writer.folder) if store is None else store

    def _vectors(self, blocks: Iterable[range]) -> Generator[Encoded, None, None]:
        return encode(self.encoder, map(self._located, blocks), self.reading.pool, self.arrays)

    def _located(self, rows: range) -> Located:
        found = self.kept.pop(rows.start, None)
        return (
            locate(self.encoder, self.corpus, rows, self.reading, self.second)
            if found is None
            else found
        )

    def _encode_all(self, writer: ActivationsWriter, world: World) -> None:
        mine = writer.left
        # about
        total = sum(map(_sentences_of, writer.blocks))
        left = sum(map(_sentences_of, mine)) * world.size
        texts = (range(block.facts["text_start"], block.facts["text_stop"]) for block in mine)
        pool = concurrent.futures.ThreadPoolExecutor(1, "writer")
        # whatever happens: torch gets its threads back
        vectors = contextlib.closing(self._vectors(texts))
        with (
            Progress(total, self.label, "sentences", max(0, total - left)) as progress,
            pool as thread,
            vectors as encoded,
        ):
            blocks, writing = iter(mine), None
            for part in encoded:
                if not part.inputs[0]:
                    block = next(blocks)
                if writing is not None:  # no more than one batch waits
                    progress.add(writing.result() * world.size)
                writing = thread.submit(self._write, writer, block, part)
            if writing is not None:
                progress.add(writing.result() * world.size)

    def _write(self, writer: ActivationsWriter, block: Block, part: Encoded) -> int:
        """Store what a batch gives of a block; how many sentences that is. Checksums and files keep
        nobody waiting that wants Python."""
        writer.put(
            block,
            part.items,
            {name: stored(rows, self.dtype, name) for name, rows in part.vectors.items()},
        )
        if part.last:
            writer.end(block)
        return part.share(_sentences_of(block))

    def _finish(self, writer: ActivationsWriter) -> Activations:
        named = {"truncated": "cut", "without_pieces": "without_pieces"}
        if self.reading.unit in ("type", "embedding"):
            named |= {"rare": "rare"} | (
                {"of_several_pieces": "of_several_pieces"}
                if self.reading.unit == "embedding"
                else {}
            )
        facts = {
            name: sum(block.facts.get(key, 0) for block in writer.blocks)
            for name, key in named.items()
        }
        if facts["without_pieces"]:
            say(
                f"{self.corpus.name}: {facts['without_pieces']} words have no subword"
                + ("" if "rare" in facts else "; their rows are NaN")
            )
        told: dict[str, Any] = {
            "language": self.corpus.language,
            "text": self.corpus.name,
            "encoder": self.encoder.name,
            "versions": _versions() | getattr(self.encoder.tokenizer, "packages", dict)(),
        }
        told |= {"revision": self.encoder.revision} if self.encoder.revision else {}
        return writer.finish(unit=self.reading.unit, **told, **facts)


def _check_language(place: str | Path, there: str | None, here: str) -> None:
    """Refuse activations of the same text that were called another language: their rows say so."""
    if there is not None:
        remedy = "choose another folder, or delete this one"
        same_settings(str(place), {"language": there}, {"language": here}, remedy)


def _sentences_of(block: Block) -> int:
    return int(block.facts["text_stop"] - block.facts["text_start"])


def _block_text(device: str) -> int:
    """Bytes of text in a block."""
    return _BLOCK_TEXT.get(device, _BLOCK_TEXT["cpu"])


def _ranges(corpus: Corpus, most: int) -> Iterator[range]:
    """Runs of sentences of at most so many bytes, or one sentence that is longer."""
    start, size = 0, 0
    for first in range(0, len(corpus), 1000):
        for row, text in enumerate(corpus.sentences[first : first + 1000], first):
            mine = len(text.encode())
            if size and size + mine > most:
                yield range(start, row)
                start, size = row, 0
            size += mine
    if len(corpus) > start:
        yield range(start, len(corpus))


def _world(encoder: Encoder) -> contextlib.AbstractContextManager[World]:
    return join_world("cuda" if encoder.device.type == "cuda" else "cpu")


def _versions() -> dict[str, Any]:
    import tokenizers
    import transformers

    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "numpy": np.__version__,
    }
