"""From the files that a recipe names to the streams that batches are sampled from.

Every row that is left out is counted, with the reason. (Where texts are joined by ids, the ids that
all of them have make the rows.)

Rows of single sentences, and pairs, hold nothing twice and nothing that is too long. Rows of
continuous text (the other units) hold
the text as it is: repetitions, too, and sentences of any length.
"""

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from crosslens.corpus import Corpus, check_parallel, read_dataset, read_text, read_tsv
from crosslens.errors import quote, refuse
from crosslens.files import fingerprint
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.text.token_files import TokenFile, encode_text
from crosslens.models.text.tokenisation import sampling_weights
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.anchors import check_dictionary
from crosslens.models.training.batches import Stream, ranges
from crosslens.models.training.derivation import RedrawnTokens, changer, is_redrawn
from crosslens.models.training.settings import Source, TrainRecipe, resolve, resolve_rows
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
    "Rows",
    "TrainingData",
    "build_streams",
    "encode_sentences",
    "fit_to_text",
    "held_out_size",
    "read_source",
    "split_rows",
]

_CHUNK = 100_000  # sentences counted at a time
_VALIDATION = 300  # sentences of a source that are held out, where the recipe does not say
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


def read_source(source: Source) -> dict[str, Corpus]:
    """Read a source's texts; afterwards row i of every language is the same sentence.

    With ids, only the ids that all languages have are kept, in the order of the first language. A
    text that begins with ``hf:`` is the address of a data set, see
    :func:`crosslens.corpus.read_dataset`.

    Raises
    ------
    InputError: a text that cannot be read, no column for a language, texts of different lengths, an
        id that stands twice in a text, or no id that all of them have.
    """
    corpora = {}
    for language, path in source.texts.items():
        if path.startswith("hf:"):
            if source.columns:
                expected = "none where a text is a data set"
                remedy = "name its field in the address"
                refuse(f"{source.name}.columns", expected, repr(dict(source.columns)), remedy)
            corpora[language] = read_dataset(path, language)
        elif source.columns:
            if language not in source.columns:
                remedy = "name the column of its text"
                refuse(f"{source.name}.columns", f"a column for {language}", "none", remedy)
            id_column = None if source.id_column < 0 else source.id_column
            corpora[language] = read_tsv(
                path, language, text_column=source.columns[language], id_column=id_column
            )
        else:
            corpora[language] = read_text(path, language)
    if source.id_column < 0:
        check_parallel(corpora)
        return corpora
    by_id = {
        language: _by_id(corpus, source.texts[language]) for language, corpus in corpora.items()
    }
    first = next(iter(corpora.values()))
    common = [i for i in first.ids if all(i in texts for texts in by_id.values())]
    if not common:
        refuse(source.name, "ids that all languages share", "none", "check the id column")
    return {
        language: Corpus(language, [by_id[language][i] for i in common], common, c.name)
        for language, c in corpora.items()
    }


def _by_id(corpus: Corpus, path: str) -> dict[str, str]:
    """Id to sentence; of two sentences with one id, nobody could say which is the translation."""
    found = dict(zip(corpus.ids, corpus.sentences, strict=True))
    if len(found) < len(corpus):
        line: dict[str, int] = {}
        for number, name in enumerate(corpus.ids, 1):
            if (first := line.setdefault(name, number)) != number:
                expected = f"an id that no other line of {corpus.language} has"
                got = f"{quote(name)}, which line {first} has too"
                refuse(f"{path}:{number}", expected, got, "give each sentence an id of its own")
    return found


def held_out_size(recipe: TrainRecipe, n: int) -> int:
    """How many of a source's ``n`` sentences are held out: as the recipe says, or a tenth of them,
    at most 300."""
    if recipe.validation is not None:
        return recipe.validation
    return max(2 if recipe.units == "nsp" else 1, min(_VALIDATION, n // 10))


def fit_to_text(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> TrainRecipe:
    """The recipe as :func:`crosslens.models.training.settings.resolve` makes it, checked against
    its text before anything is made of it.

    Sentence pairs that the recipe did not ask for are left out where the text has none that are
    translations.

    Raises
    ------
    InputError: a source has no more than twice the sentences that are held out; a language has none
        to train on; or there are no pairs where pairs are asked for.
    """
    for name, texts in corpora.items():
        n = len(next(iter(texts.values())))
        kept = held_out_size(recipe, n)
        if n <= 2 * kept:
            remedy = (
                f"set validation={fits}"
                if (fits := held_out_size(dataclasses.replace(recipe, validation=None), n)) < kept
                else ""
            )
            expected = f"more than {2 * kept} sentences (validation holds out {kept})"
            refuse(name, expected, str(n), remedy if remedy and 2 * fits < n else "give more text")
    rows = split_rows(recipe, corpora)
    for language in recipe.languages:
        if not any(
            _trainable(texts, rows[name].train, language)
            for name, texts in corpora.items()
            if language in texts
        ):
            _refuse_rows(language, recipe, corpora, rows)
    resolved = resolve(recipe)
    if recipe.anchors.dictionary:
        check_dictionary(recipe.anchors, recipe.languages, corpora)
    if resolved.tlm_share and not any(
        _trainable(texts, rows[name].train, *pair)
        for name, texts in corpora.items()
        for pair in itertools.combinations(texts, 2)
    ):
        if recipe.tlm_share is None:
            return dataclasses.replace(resolved, tlm_share=0.0)
        refuse(
            "tlm_share",
            "0 where no pair is a translation",
            str(recipe.tlm_share),
            "set tlm_share=0, or add parallel text",
        )
    return resolved


def _refuse_rows(
    language: str,
    recipe: TrainRecipe,
    corpora: Mapping[str, Mapping[str, Corpus]],
    rows: Mapping[str, "Rows"],
) -> NoReturn:
    """Refuse a text no row of which is left, by the language whose sentences have cost it most of
    them: rows go in all languages."""
    excluded = _excluded(recipe)
    kept = _held_out(corpora, {name: mine.held_out for name, mine in rows.items()})
    costs: dict[tuple[str, str], list[str]] = {}
    for name, texts in corpora.items():
        if language in texts:
            lost = np.flatnonzero(~rows[name].train & ~rows[name].held_out).tolist()
            for other in dict.fromkeys([language, *texts]):  # its own come first among equals
                sentences = map(texts[other].sentences.__getitem__, lost)
                costs[name, other] = [
                    sentence for sentence in sentences if sentence in excluded or sentence in kept
                ]
    (name, other), found = max(costs.items(), key=lambda cost: len(cost[1]))
    if not found:
        remedy = "give other text, or exclude less"
        refuse(f"text of {language}", "sentences to train on", "none that is left", remedy)
    ((sentence, _),) = collections.Counter(found).most_common(1)
    why = "excluded" if sentence in excluded else "held out in others"
    got = (
        f"{len(found)} of {len(corpora[name][other])} rows with sentences that are {why}, such as "
        f"{quote(sentence)}"
    )
    remedy = "give other text, or exclude less"
    refuse(f"text of {other} in {name}", "sentences to train on", got, remedy)


def _trainable(texts: Mapping[str, Corpus], train: np.ndarray, *languages: str) -> bool:
    """Whether there is a row to train on whose sentences in these languages have words, and
    differ."""
    sides = [texts[language].sentences for language in languages]
    for row in np.flatnonzero(train).tolist():
        sentences = [side[row] for side in sides]
        if all(sentence.strip() for sentence in sentences) and len(set(sentences)) == len(
            sentences
        ):
            return True
    return False


def _check_choice(recipe: TrainRecipe, measured: set[str]) -> None:
    """Refuse to choose weights by a language of which nothing is held out."""
    if recipe.select in recipe.languages and recipe.select not in measured:
        expected = "a language with held-out sentences"
        refuse("select", expected, repr(recipe.select), "raise validation or max_length")
    if not measured and recipe.decided_by_validation:
        expected = "held-out sentences to choose weights by"
        refuse("validation", expected, "none that is left", "raise it, or raise max_length")


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
    return TrainingData(
        [stream for stream, _ in streams],
        _probabilities(streams, recipe),
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
        rows: "Rows",
    ) -> None:
        """Sort one source."""
        groups = [*((language,) for language in texts), *itertools.combinations(texts, 2)]
        same = _same(texts)
        with Progress(len(groups), f"sorting {source.name}", "texts and pairs") as progress:
            for group in groups:
                fit = self._fit(group, files, same)
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
        self, group: tuple[str, ...], files: Mapping[str, TokenFile], same: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """(n,) True for the rows that may be used."""
        if self.recipe.units == "sentences":
            return _usable(group, same, files, self.recipe.max_length, self.left_out)
        if len(group) == 2:  # rows count their marks here
            return _usable(group, same, files, self.recipe.max_length - 2, self.left_out)
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


@dataclasses.dataclass(frozen=True)
class Rows:
    """What each row of a source is for; a row that is none of these has a held-out sentence of
    another row in it."""

    train: np.ndarray
    held_out: np.ndarray
    excluded: np.ndarray


def split_rows(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> dict[str, Rows]:
    """Divide the rows of every source; no held-out or excluded sentence is in a training row of any
    source, in any language."""
    excluded = _excluded(recipe)
    with_excluded = {name: _has(texts, excluded) for name, texts in corpora.items()}
    held_out = {
        name: _held_out_rows(len(with_excluded[name]), recipe, name) & ~with_excluded[name]
        for name in corpora
    }
    kept = _held_out(corpora, held_out)
    return {
        name: Rows(
            ~with_excluded[name] & ~held_out[name] & ~_has(texts, kept),
            held_out[name],
            with_excluded[name],
        )
        for name, texts in corpora.items()
    }


def _excluded(recipe: TrainRecipe) -> set[str]:
    return {line for path in recipe.exclude for line in read_text(path, "und").sentences}


def _held_out(
    corpora: Mapping[str, Mapping[str, Corpus]], rows: Mapping[str, np.ndarray]
) -> set[str]:
    """All sentences of the rows that are held out; blank lines of data sets are held out by
    nobody."""
    found = {
        c.sentences[i]
        for name, texts in corpora.items()
        for c in texts.values()
        for i in np.flatnonzero(rows[name]).tolist()
    }
    return {sentence for sentence in found if sentence.strip()}


def _has(texts: Mapping[str, Corpus], sentences: set[str]) -> np.ndarray:
    """(n,) True for the rows with one of the sentences in any language."""
    return np.any(
        [
            np.fromiter(map(sentences.__contains__, c.sentences), bool, len(c))
            for c in texts.values()
        ],
        axis=0,
    )


def _held_out_rows(n: int, recipe: TrainRecipe, name: str) -> np.ndarray:
    """(n,) True for the rows of a source that are held out, the same rows in every language.

    They are sampled one by one; for pairs of segments, which need sentences that follow each other,
    they are one stretch.
    """
    split = next(source.split for source in recipe.sources if source.name == name)
    begun = [*split.encode()] if split else [recipe.seed, *name.encode()]
    kept, rng = np.zeros(n, bool), np.random.default_rng(begun)
    size = held_out_size(recipe, n)
    if recipe.units == "nsp":
        start = int(rng.integers(max(1, n - size + 1)))
        kept[start : start + size] = True
    else:
        kept[rng.permutation(n)[:size]] = True
    return kept


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
    max_length: int,
    left_out: collections.Counter[str],
) -> np.ndarray:
    """(n,) True where all sides have subwords, none is too long, pairs are translations, and nothing
    stands there a second time."""
    columns = [same[language] for language in group]
    fit = np.ones(len(columns[0]), bool)
    for language in group:
        lengths = files[language].lengths
        left_out[f"longer than {max_length} subwords"] += (
            int((lengths > max_length).sum()) if len(group) == 1 else 0
        )
        fit &= (lengths <= max_length) & (lengths > 0)
    # no others can be repeated
    again = np.flatnonzero(np.all([np.bincount(column)[column] > 1 for column in columns], axis=0))
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
