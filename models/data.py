"""From the files that a recipe names to the streams that batches are drawn from.

Every row that is left out is counted, with the reason. (Where texts are joined by ids, the ids that all of them have make the rows.)
"""

import collections
import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from crosslens.corpus import Corpus, check_parallel, read_text, read_tsv
from crosslens.errors import refuse
from crosslens.files import fingerprint
from crosslens.models.batches import Stream
from crosslens.models.settings import Source, TrainRecipe
from crosslens.models.tokens import TokenFile, encode_text
from crosslens.progress import Progress

__all__ = ["Rows", "TrainingData", "build_streams", "check_sizes", "read_source", "split_rows"]


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What is trained on, and what is held out.

    Attributes
    ----------
    streams: the streams for training.
    probabilities: (streams,) how often each is drawn.
    held_out: "source language" or "source language-language" to its validation stream.
    left_out: reason to number of sentences (or pairs) that are not used.
    """

    streams: list[Stream]
    probabilities: np.ndarray
    held_out: dict[str, Stream]
    left_out: dict[str, int]


def read_source(source: Source) -> dict[str, Corpus]:
    """Read a source's texts; afterwards row i of every language is the same sentence.

    With ids, only the ids that all languages have are kept, in the order of the first language.
    """
    corpora = {}
    for language, path in source.texts.items():
        if source.columns:
            if language not in source.columns:
                refuse(f"{source.name}.columns", f"a column for {language}", "none", "name the column of its text")
            id_column = None if source.id_column < 0 else source.id_column
            corpora[language] = read_tsv(path, language, text_column=source.columns[language], id_column=id_column)
        else:
            corpora[language] = read_text(path, language)
    if source.id_column < 0:
        check_parallel(corpora)
        return corpora
    by_id = {language: dict(zip(c.ids, c.sentences, strict=True)) for language, c in corpora.items()}
    first = next(iter(corpora.values()))
    common = [i for i in dict.fromkeys(first.ids) if all(i in texts for texts in by_id.values())]
    if not common:
        refuse(source.name, "ids that all languages share", "none", "check the id column")
    return {language: Corpus(language, [by_id[language][i] for i in common], common, c.name) for language, c in corpora.items()}


def check_sizes(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> None:
    """Refuse a source that has too few sentences to hold some out and train on the rest.

    Raises
    ------
    InputError: a source has no more than twice the sentences that are held out.
    """
    for name, texts in corpora.items():
        n, least = len(next(iter(texts.values()))), 2 * recipe.validation
        if n <= least:
            refuse(name, f"more than {least} sentences (validation holds out {recipe.validation})", str(n), "lower validation")


def build_streams(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]], tokenizer: Tokenizer, folder: Path) -> TrainingData:
    """Tokenise everything and sort it into streams for training and for validation.

    Parameters
    ----------
    corpora: source name to language to its text, rows parallel within a source.
    folder: where the token files are kept.
    """
    vocabulary = fingerprint(tokenizer.to_str())
    rows_of = split_rows(recipe, corpora)
    left_out: collections.Counter[str] = collections.Counter()
    train: list[tuple[Stream, float]] = []
    held_out: dict[str, Stream] = {}
    for source in recipe.sources:
        texts, rows = corpora[source.name], rows_of[source.name]
        files = {
            language: encode_text(
                tokenizer, corpus.sentences, folder / f"{source.name}.{language}", {"text": corpus.fingerprint, "vocabulary": vocabulary}
            )
            for language, corpus in texts.items()
        }
        left_out["excluded by the recipe"] += int(rows.excluded.sum())
        left_out["with a held-out sentence in another row"] += int((~rows.train & ~rows.held_out & ~rows.excluded).sum())
        groups = [*((language,) for language in texts), *itertools.combinations(texts, 2)]
        with Progress(len(groups), f"sorting {source.name}", "texts and pairs") as progress:
            for group in groups:
                fit = _usable(group, texts, files, recipe.max_length, left_out)
                name = f"{source.name} {'-'.join(group)}"
                sides = tuple(files[language] for language in group)
                if (fit & rows.train).any():
                    train.append((Stream(name, sides, np.flatnonzero(fit & rows.train)), source.weight))
                if (fit & rows.held_out).any():
                    held_out[name] = Stream(name, sides, np.flatnonzero(fit & rows.held_out))
                progress.add(1)
    streams = [stream for stream, _ in train]
    return TrainingData(streams, _probabilities(train, recipe), held_out, dict(left_out))


@dataclasses.dataclass(frozen=True)
class Rows:
    """What each row of a source is for; a row that is none of these has a held-out sentence of another row in it."""

    train: np.ndarray
    held_out: np.ndarray
    excluded: np.ndarray


def split_rows(recipe: TrainRecipe, corpora: Mapping[str, Mapping[str, Corpus]]) -> dict[str, Rows]:
    """Divide the rows of every source; no held-out or excluded sentence is in a training row of any source, in any language."""
    excluded = {line for path in recipe.exclude for line in read_text(path, "und").sentences}
    with_excluded = {name: _has(texts, excluded) for name, texts in corpora.items()}
    held_out = {name: _held_out_rows(len(with_excluded[name]), recipe, name) & ~with_excluded[name] for name in corpora}
    kept = {c.sentences[i] for name, texts in corpora.items() for c in texts.values() for i in np.flatnonzero(held_out[name]).tolist()}
    return {
        name: Rows(~with_excluded[name] & ~held_out[name] & ~_has(texts, kept), held_out[name], with_excluded[name])
        for name, texts in corpora.items()
    }


def _has(texts: Mapping[str, Corpus], sentences: set[str]) -> np.ndarray:
    """(n,) True for the rows with one of the sentences in any language."""
    return np.array([any(s in sentences for s in row) for row in zip(*(c.sentences for c in texts.values()), strict=True)], bool)


def _held_out_rows(n: int, recipe: TrainRecipe, name: str) -> np.ndarray:
    """(n,) True for the rows of a source that are held out, the same rows in every language."""
    kept = np.zeros(n, bool)
    kept[np.random.default_rng([recipe.seed, *name.encode()]).permutation(n)[: recipe.validation]] = True
    return kept


def _usable(
    group: tuple[str, ...],
    texts: Mapping[str, Corpus],
    files: Mapping[str, TokenFile],
    max_length: int,
    left_out: collections.Counter[str],
) -> np.ndarray:
    """(n,) True where all sides have pieces, none is too long, pairs are translations, and nothing stands there a second time."""
    columns = [texts[language].sentences for language in group]
    n = len(columns[0])
    fit = np.ones(n, bool)
    for language in group:
        lengths = files[language].lengths
        left_out[f"longer than {max_length} pieces"] += int((lengths > max_length).sum()) if len(group) == 1 else 0
        fit &= (lengths <= max_length) & (lengths > 0)
    seen = set()
    for i in range(n):
        key = tuple(column[i] for column in columns)
        if key in seen:
            fit[i] = False
            left_out["repeated"] += 1
        elif len(key) == 2 and key[0] == key[1]:
            fit[i] = False
            left_out["pairs not translated"] += 1
        seen.add(key)
    return fit


def _probabilities(train: list[tuple[Stream, float]], recipe: TrainRecipe) -> np.ndarray:
    """How often each stream is drawn: by size ** exponent and weight, within the shares of MLM and TLM."""
    if not train:
        refuse("sources", "sentences to train on", "none that is left", "raise max_length or give other text")
    is_pair = np.array([len(stream.sides) == 2 for stream, _ in train])
    weights = np.array([weight * len(stream.rows) ** recipe.sample_exponent for stream, weight in train])
    if not is_pair.any() and recipe.tlm_share > 0:
        refuse("tlm_share", "0 where no source has two languages", str(recipe.tlm_share), "set tlm_share=0 or add parallel text")
    probabilities = np.zeros(len(train))
    for mine, share in ((is_pair, recipe.tlm_share), (~is_pair, 1 - recipe.tlm_share)):
        if share:
            probabilities[mine] = share * weights[mine] / weights[mine].sum()
    return probabilities
