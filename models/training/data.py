"""From the sentences of a recipe's sources to the streams that batches are sampled from.

Every row that is left out is counted, with the reason.

Rows of single sentences, and pairs, hold nothing of a source twice and nothing that is too long. Rows of
continuous text (the other units) hold
the text as it is: repetitions, too, and sentences of any length.
"""

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.files import fingerprint
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.text.token_files import TokenFile, encode_text
from crosslens.models.text.tokenisation import sampling_weights
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.batches import Stream, ranges
from crosslens.models.training.derivation import RedrawnTokens, changer, is_redrawn
from crosslens.models.training.settings import Source, TrainRecipe, resolve_rows
from crosslens.models.training.sources import Rows, split_rows
from crosslens.models.training.streams import (
    AnyStream,
    ContinuousStream,
    MixedSentences,
    PackedStream,
    SegmentStream,
    Text,
)
from crosslens.progress import Progress

__all__ = [
    "TrainingData",
    "build_streams",
    "encode_sentences",
]

_CHUNK = 100_000  # sentences counted at a time
_JOINED: dict[str, Callable[[str, Sequence[Text], int, int], AnyStream]] = {
    "stream": ContinuousStream,
    "packed": PackedStream,
    "nsp": SegmentStream,
}


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What is trained on, and what is held out.

    Attributes
    ----------
    streams: the streams for training.
    probabilities: (streams,) how often each is sampled.
    held_out: name to validation stream. Monolingual ones are named "source language", or "all
        language" where sources are joined, and have the units that are trained on; pairs, "source
        language-language", are always sentence pairs.
    left_out: reason to number of sentences (or pairs) that are not used.
    counts: language to (ids,) how often each of the model's ids occurs in the language's training
        sentences, marks not counted.
    """

    streams: list[AnyStream]
    probabilities: np.ndarray
    held_out: dict[str, AnyStream]
    left_out: dict[str, int]
    counts: dict[str, np.ndarray]


def _check_choice(recipe: TrainRecipe, measured: set[str]) -> None:
    """Refuse to choose weights by a language of which nothing is held out."""
    if recipe.select in recipe.languages and recipe.select not in measured:
        expected = "a language with held-out sentences"
        refuse("select", expected, repr(recipe.select), "raise validation or max_length")
    if not measured and recipe.decided_by_validation:
        expected = "held-out sentences to choose weights by"
        refuse("validation", expected, "none that is left", "raise it, or raise max_length")


def _check_room(recipe: TrainRecipe, streams: Sequence[AnyStream]) -> None:
    """Refuse a batch without room for a sentence or pair, before the first step: some streams come
    up late, and what is held out at the first validation."""
    longest = max(
        (one.lengths.max(initial=0) for one in streams if isinstance(one, Stream | MixedSentences)),
        default=0,
    )
    if longest > recipe.batch_tokens:
        expected = f"room for the longest item ({longest} tokens)"
        refuse("batch_tokens", expected, str(recipe.batch_tokens), "raise it")


def build_streams(
    recipe: TrainRecipe,
    corpora: Mapping[str, Mapping[str, Corpus]],
    vocabularies: Vocabularies,
    folder: Path,
) -> TrainingData:
    """Tokenise everything and sort it into streams for training and for validation.

    Parameters
    ----------
    corpora: source name to language to its text, rows parallel within a source.
    vocabularies: how each language's text becomes ids.
    folder: where the token files are kept.

    Raises
    ------
    InputError: settings that do not go together, a batch with no room for a row, a language with
        nothing to train on, or sentence pairs asked for where there are none.
    """
    recipe = resolve_rows(
        recipe, SharingPlan.parse(recipe.sharing, recipe.encoder.layers, tied=recipe.encoder.tied)
    )
    rows_of, sort = split_rows(recipe, corpora), _Sorter(recipe)
    for source in recipe.sources:
        texts, rows = corpora[source.name], rows_of[source.name]
        files = {
            language: encode_sentences(
                vocabularies, corpus, folder / f"{source.name}.{language}", recipe
            )
            for language, corpus in texts.items()
        }
        sort.left_out["excluded by the recipe"] += int(rows.excluded.sum())
        sort.left_out["with a held-out sentence in another row"] += int(
            (~rows.train & ~rows.held_out & ~rows.excluded).sum()
        )
        sort.add(source, texts, files, rows)
    for language in recipe.languages:
        if not any(len(text.rows) for text in sort.texts if text.language == language):
            remedy = "raise max_length or give other text"
            refuse(f"text of {language}", "sentences to train on", "none that is left", remedy)
    streams = sort.train if sort.is_plain else [*_join(recipe, sort.texts), *sort.train]
    counts = {
        language: _count(language, sort.texts, vocabularies.sizes[language])
        for language in recipe.languages
    }
    held_out = sort.held_out
    _check_choice(
        recipe,
        {stream.languages[0] for stream in held_out.values() if len(stream.languages) == 1}
        | {text.language for text in sort.kept if recipe.units != "sentences" and len(text.rows)},
    )
    if recipe.units != "sentences":
        one_each = dataclasses.replace(recipe, batch_languages="one")
        held_out = {
            stream.name: stream for stream, _ in _join(one_each, sort.kept, held_out=True)
        } | held_out
    probabilities = _probabilities(streams, recipe)
    drawn = [stream for (stream, _), p in zip(streams, probabilities, strict=True) if p > 0]
    _check_room(recipe, [*drawn, *(one for one in held_out.values() if len(one.languages) == 1)])
    return TrainingData(
        [stream for stream, _ in streams],
        probabilities,
        held_out,
        dict(sort.left_out),
        counts,
    )


def encode_sentences(
    vocabularies: Vocabularies,
    corpus: Corpus,
    folder: Path,
    recipe: TrainRecipe,
    most: int | None = None,
) -> TokenFile:
    """A text as the model reads it: tokenised, and derived where its language is a derived one.

    Parameters
    ----------
    folder: where its token file is kept.
    most: subwords of a sentence; what is longer is cut to them, before it is derived.
    """
    tokenizer = vocabularies.tokenizers[corpus.language]
    table = vocabularies.tables[corpus.language]
    size = vocabularies.sizes[corpus.language]
    numbering = hashlib.sha256(np.ascontiguousarray(table, np.int64).tobytes()).hexdigest()
    key: dict[str, Any] = {
        "text": corpus.fingerprint,
        "vocabulary": fingerprint([tokenizer.to_str(), numbering, size]),
    }
    derivation = recipe.derived.get(corpus.language)
    made = None if derivation is None else derivation.transformation
    redrawn = made is not None and is_redrawn(made)
    seed = recipe.seed if derivation is None else derivation.seed_in(recipe.seed)
    change = None if made is None or redrawn else changer(made, seed)
    if made is not None and not redrawn:
        key["derived"] = [made.name, seed]
    if most is not None:
        key["most"] = most

    def changed(number: int, ids: np.ndarray) -> np.ndarray:
        cut = ids[:most]
        return cut if change is None else change(number, cut)

    plain = change is None and most is None
    file = encode_text(
        tokenizer, table, size, corpus.sentences, folder, key, None if plain else changed
    )
    return RedrawnTokens.of(file, made, seed) if made is not None and redrawn else file


class _Sorter:
    """Divides the rows of sources among streams, in the order in which the sources come."""

    def __init__(self, recipe: TrainRecipe) -> None:
        self.recipe = recipe
        # a stream for each text
        self.is_plain = recipe.units == "sentences" and recipe.batch_languages == "one"
        self.numbers = {language: number for number, language in enumerate(recipe.languages)}
        self.left_out: collections.Counter[str] = collections.Counter()
        # the monolingual part: what is trained on, and what is held out
        self.texts: list[Text] = []
        self.kept: list[Text] = []
        self.train: list[
            tuple[AnyStream, float]
            # with weights (sentences ** exponent); only pairs, unless the monolingual part is plain
        ] = []
        self.held_out: dict[str, AnyStream] = {}

    def add(
        self,
        source: Source,
        texts: Mapping[str, Corpus],
        files: Mapping[str, TokenFile],
        rows: Rows,
    ) -> None:
        """Sort one source."""
        groups = [*((language,) for language in texts), *itertools.combinations(texts, 2)]
        same = _same(texts)
        with Progress(len(groups), f"sorting {source.name}", "texts and pairs") as progress:
            for group in groups:
                fit = self._fit(group, files, same, rows.train | rows.held_out)
                train = np.flatnonzero(fit & rows.train)
                held_out = np.flatnonzero(fit & rows.held_out)
                sides = tuple(files[language] for language in group)
                numbers = tuple(self.numbers[language] for language in group)
                if len(group) == 1:
                    self.texts.append(Text(group[0], numbers[0], sides[0], train))
                    self.kept.append(Text(group[0], numbers[0], sides[0], held_out))
                name = f"{source.name} {'-'.join(group)}"
                if len(train) and (len(group) == 2 or self.is_plain):
                    weight = source.weight * _weight(len(train), self.recipe)
                    self.train.append(
                        (
                            Stream(name, sides, train, group, numbers, self.recipe.batch_tokens),
                            weight,
                        )
                    )
                if len(held_out) and (len(group) == 2 or self.recipe.units == "sentences"):
                    self.held_out[name] = Stream(
                        name, sides, held_out, group, numbers, self.recipe.batch_tokens
                    )
                progress.add(1)

    def _fit(
        self,
        group: tuple[str, ...],
        files: Mapping[str, TokenFile],
        same: Mapping[str, np.ndarray],
        wanted: np.ndarray,
    ) -> np.ndarray:
        """(n,) True for the rows that may be used."""
        if self.recipe.units == "sentences":
            return _usable(group, same, files, wanted, self.recipe.max_length, self.left_out)
        if len(group) == 2:  # rows count their marks here
            return _usable(group, same, files, wanted, self.recipe.max_length - 2, self.left_out)
        fit = files[group[0]].lengths > 0
        if not fit.all():
            self.left_out["without words"] += int((~fit).sum())
        return fit


def _join(
    recipe: TrainRecipe, texts: list[Text], held_out: bool = False
) -> list[tuple[AnyStream, float]]:
    """Streams of the monolingual part over all sources, one a language or one of all, with their
    weights."""
    if recipe.batch_languages == "mixed":
        groups = {"mixed": texts}
    else:
        groups = {
            language: [text for text in texts if text.language == language]
            for language in recipe.languages
        }
    streams: list[tuple[AnyStream, float]] = []
    for name, mine in groups.items():
        n, rows = sum(len(text.rows) for text in mine), recipe.batch_tokens // recipe.max_length
        if n == 0:
            continue
        weight = _weight(n, recipe)
        if recipe.units == "sentences":
            streams.append((MixedSentences(f"all {name}", mine, recipe.batch_tokens), weight))
            continue
        # a short text in as many columns as for training would be mostly the [SEP]s in front of it
        if held_out:
            words = sum(int(np.diff(text.file.offsets)[text.rows].sum()) for text in mine)
            rows = max(1, min(rows, (words + n) // recipe.max_length))
        streams.append(
            (_JOINED[recipe.units](f"all {name}", mine, recipe.max_length, rows), weight)
        )
    return streams


def _weight(n: int, recipe: TrainRecipe) -> float:
    """How often a stream of n sentences is sampled, beside the others."""
    return float(sampling_weights([n], recipe.sample_exponent)[0])


def _count(language: str, texts: list[Text], size: int) -> np.ndarray:
    """(size,) how often each id occurs in the sentences of a language."""
    counts = np.zeros(size, np.int64)
    for text in texts:
        if text.language == language:
            for start in range(0, len(text.rows), _CHUNK):
                rows = text.rows[start : start + _CHUNK]
                first = text.file.offsets[rows]
                ids = np.asarray(text.file.ids)[ranges(first, text.file.offsets[rows + 1] - first)]
                counts += np.bincount(ids, minlength=size)
    return counts


def _same(texts: Mapping[str, Corpus]) -> dict[str, np.ndarray]:
    """Language to (n,) numbers of its sentences: equal sentences, in whatever language, have equal
    numbers."""
    number: dict[str, int] = {}
    fresh = itertools.count()
    return {
        language: np.fromiter(map(number.setdefault, c.sentences, fresh), np.int64, len(c))
        for language, c in texts.items()
    }


def _usable(
    group: tuple[str, ...],
    same: Mapping[str, np.ndarray],
    files: Mapping[str, TokenFile],
    wanted: np.ndarray,
    max_length: int,
    left_out: collections.Counter[str],
) -> np.ndarray:
    """(n,) True where all sides have subwords, none is too long, pairs are translations, and nothing
    stands there a second time. A first time in a row that is not ``wanted`` does not count: nothing
    would be left of the sentence."""
    columns = [same[language] for language in group]
    fit = np.ones(len(columns[0]), bool)
    for language in group:
        lengths = files[language].lengths
        left_out[f"longer than {max_length} subwords"] += (
            int((lengths > max_length).sum()) if len(group) == 1 else 0
        )
        fit &= (lengths <= max_length) & (lengths > 0)
    # no others can be repeated
    several = [np.bincount(column)[column] > 1 for column in columns]
    again = np.flatnonzero(np.all([wanted, *several], axis=0))
    key = (
        columns[0][again]
        if len(group) == 1
        else columns[0][again] * (1 + columns[1].max(initial=0)) + columns[1][again]
    )
    repeated = np.zeros(len(fit), bool)
    repeated[again] = True
    # return_index gives the first of equal ones
    repeated[again[np.unique(key, return_index=True)[1]]] = False
    left_out["repeated"] += int(repeated.sum())
    fit &= ~repeated
    if len(group) == 2:
        untranslated = (columns[0] == columns[1]) & ~repeated
        left_out["pairs not translated"] += int(untranslated.sum())
        fit &= ~untranslated
    return fit


def _probabilities(train: list[tuple[AnyStream, float]], recipe: TrainRecipe) -> np.ndarray:
    """How often each stream is sampled: by its weight, within the shares of MLM and TLM."""
    is_pair = np.array(
        [isinstance(stream, Stream) and len(stream.sides) == 2 for stream, _ in train]
    )
    tlm_share = recipe.tlm_share or 0.0
    if not is_pair.any() and tlm_share:
        remedy = "set tlm_share=0, or raise max_length"
        refuse("tlm_share", "0 where no pair is left to train on", str(tlm_share), remedy)
    weights = np.array([weight for _, weight in train])
    probabilities = np.zeros(len(train))
    for mine, share in ((is_pair, tlm_share), (~is_pair, 1 - tlm_share)):
        if share:
            probabilities[mine] = share * weights[mine] / weights[mine].sum()
    drawn = {
        language
        for (stream, _), p in zip(train, probabilities, strict=True)
        if p > 0
        for language in stream.languages
    }
    for language in recipe.languages:
        if language not in drawn:
            remedy = "lower tlm_share, or sample more evenly"
            refuse(f"text of {language}", "to be sampled in some steps", "never", remedy)
    return probabilities
