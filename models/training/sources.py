"""From the files that a recipe names to sentences, and which of their rows are trained on.

Row i of every language of a source is the same sentence. (Where texts are joined by ids, the ids
that all of them have make the rows.) A row that is held out is so in all languages, and no sentence
of it is in a training row of any source.
"""

import collections
import dataclasses
import itertools
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from crosslens.corpus import Corpus, check_parallel
from crosslens.errors import quote, refuse
from crosslens.models.training.anchors import check_dictionary
from crosslens.models.training.settings import Source, TrainRecipe, resolve
from crosslens.readers.data_set import read_dataset
from crosslens.readers.plain import read_text, read_tsv

__all__ = [
    "Rows",
    "excluded_contents",
    "fit_to_text",
    "held_out_size",
    "read_source",
    "split_rows",
]

_VALIDATION = 300  # sentences of a source that are held out, where the recipe does not say


def read_source(source: Source) -> dict[str, Corpus]:
    """Read a source's texts; afterwards row i of every language is the same sentence.

    With ids, only the ids that all languages have are kept, in the order of the first language. A
    text that begins with ``hf:`` is the address of a data set, see
    :func:`crosslens.readers.data_set.read_dataset`.

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


def excluded_contents(recipe: TrainRecipe) -> list[str]:
    """What a recipe's files of sentences not to train on say, as one name for each file."""
    return [read_text(path, "und").fingerprint[:16] for path in recipe.exclude]


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
