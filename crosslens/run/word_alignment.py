"""Words of two encoders, layer by layer: how well a rotation learnt from some pairs translates
others (Conneau et al. 2020, § 5.1).

    activations of word types + bilingual dictionary                -> pairs of rows     § 5.1.1, and § 5.1.2
    with contextual encoders: activations of words in context + links    -> pairs of rows
    § 5.1.2, parallel words

Before it learns, each side is normalised iteratively over its whole vocabulary (Zhang et al. 2019),
as the paper has it. Words are looked up by CSLS among the whole vocabulary of the other side.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.alignment.words.argmax import align_argmax
from crosslens.alignment.words.lexicon import LexiconResult, evaluate_lexicon
from crosslens.alignment.words.links import (
    aligned_rows,
    alignment_error_interval,
    alignment_error_rate,
    check_links,
    sentence_offsets,
)
from crosslens.errors import InputError, refuse
from crosslens.probes.methods.controls import Accuracy
from crosslens.progress import Progress
from crosslens.readers.dictionary import Dictionary, pairs_in
from crosslens.run.collapse import collapse_reason, reason_of
from crosslens.run.measures import Split
from crosslens.score import Score

__all__ = [
    "LinkGold",
    "WordGold",
    "gold_of_dictionaries",
    "gold_of_links",
    "split_dictionary",
    "word_scores",
]

_NEIGHBOURS = 10  # of CSLS, as published


@dataclasses.dataclass(frozen=True, eq=False)
class LinkGold:
    """Links of the held-out sentences, to judge those by that the vectors themselves make.

    Attributes
    ----------
    offsets_x, offsets_y: where each sentence's words begin among the rows that compete.
    sure, possible: (k, 3) sentence, row of x, row of y; possible ones may be found without being
        wrong.
    """

    offsets_x: np.ndarray
    offsets_y: np.ndarray
    sure: np.ndarray
    possible: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class WordGold:
    """Which rows of two activation datasets translate each other.

    Attributes
    ----------
    task: "word_translation" (types) or "contextual_word_retrieval" (words in context).
    train: (p, 2) pairs that the rotation is learnt from.
    test: (q, 2) pairs that it is judged by.
    x, y: the rows that compete, rising; those of ``test`` are among them.
    sources: number of different source words of the test dictionary, also those that no activation
        dataset has; 0 for links.
    ways: "forward", or "both" directions.
    links: for words in context, what links between them are judged by.
    """

    task: str
    train: np.ndarray
    test: np.ndarray
    x: np.ndarray
    y: np.ndarray
    sources: int
    ways: str
    links: LinkGold | None = None


def split_dictionary(
    dictionary: Dictionary, train_fraction: float, seed: int
) -> tuple[Dictionary, Dictionary]:
    """A dictionary in two, to learn from and to judge by: all translations of a source word are in
    one of them.

    Raises
    ------
    InputError: the fraction leaves one side without a source word.

    >>> parts = split_dictionary(Dictionary([("dog", "chien"), ("dog", "chienne"), ("cat", "chat")]), 0.5, seed=0)
    >>> sorted(len(part) for part in parts)
    [1, 2]
    """
    sources = list(dict.fromkeys(source for source, _ in dictionary))
    count = round(len(sources) * train_fraction)
    if not 0 < count < len(sources):
        expected = "source words on both sides of the split"
        got = f"{count} and {len(sources) - count}"
        refuse("dictionary", expected, got, "give a longer dictionary")
    learnt = {
        sources[row]
        for row in np.random.default_rng([seed, 0xD1C7]).permutation(len(sources))[:count]
    }
    parts: list[list[tuple[str, str]]] = [[], []]
    for pair in dictionary:
        parts[pair[0] not in learnt].append(pair)
    return Dictionary(parts[0]), Dictionary(parts[1])


def gold_of_dictionaries(
    x: Activations, y: Activations, train: Dictionary, test: Dictionary
) -> WordGold:
    """Pairs of two activation datasets of types (or of embeddings): those of ``train`` to learn
    from, those of ``test`` to judge by.

    No source word may be in both: then it would be judged by what it was learnt from.

    Raises
    ------
    InputError: the activation datasets are of another unit, a dictionary has no pair that both
        have, or the dictionaries share source words.
    """
    for store in (x, y):
        if store.unit not in ("type", "embedding"):
            expected = "activations of word types, for a dictionary"
            refuse(store.name, expected, f"those of {store.unit}s", "extract --unit type")
    both = {source for source, _ in train} & {source for source, _ in test}
    if both:
        got = f"{len(both)} source words in both, {sorted(both)[0]!r} among them"
        expected = "source words that the training dictionary does not have"
        refuse("test", expected, got, "take them out of one of the two")
    words_x, words_y = x.index(["word"])["word"], y.index(["word"])["word"]
    learnt, judged = pairs_in(train, words_x, words_y), pairs_in(test, words_x, words_y)
    kept = [np.flatnonzero(_has_vector(store)) for store in (x, y)]
    pairs = [_among(np.stack([found.x, found.y], axis=1), *kept) for found in (learnt, judged)]
    return WordGold(
        "word_translation", pairs[0], pairs[1], kept[0], kept[1], judged.sources, "forward"
    )


def gold_of_links(
    x: Activations,
    y: Activations,
    links: np.ndarray,
    split: Split,
    *,
    possible: np.ndarray | None = None,
) -> WordGold:
    """Pairs of two activation datasets of words in context: links in the sentences of one part to
    learn from, those of the other to judge by.

    Parameters
    ----------
    links: (k, 3) sentence, word of x in it, word of y in it, each from 0, as
        :func:`crosslens.alignment.words.links.read_pharaoh` gives them.
    split: which sentences are learnt from.
    possible: (l, 3) links that may be found; without them, those of ``links`` alone.

    Raises
    ------
    InputError: the activation datasets are of another unit, or a link names a word that a sentence
        does not have.
    """
    for store in (x, y):
        if store.unit != "word":
            expected = "activations of words, for links"
            refuse(store.name, expected, f"those of {store.unit}s", "extract --unit word")
    sentences = len(split.train) + len(split.held_out)
    texts = [np.asarray(store.index(["text"])["text"]) for store in (x, y)]
    begins = [sentence_offsets(text, sentences) for text in texts]
    links = check_links(links, "links")
    rows = np.stack(aligned_rows(links, *begins), axis=1)
    may = links if possible is None else check_links(possible, "possible")
    judging = [
        np.column_stack([given[:, 0], *aligned_rows(given, *begins)])[
            np.isin(given[:, 0], split.held_out)
        ]
        for given in (links, may)
    ]
    kept = [np.flatnonzero(_has_vector(store)) for store in (x, y)]
    competing = [
        rows_[np.isin(text[rows_], split.held_out)] for rows_, text in zip(kept, texts, strict=True)
    ]
    train = _among(rows[np.isin(links[:, 0], split.train)], *kept)
    test = _among(rows[np.isin(links[:, 0], split.held_out)], *kept)
    offsets = [
        sentence_offsets(text[rows_], sentences)
        for text, rows_ in zip(texts, competing, strict=True)
    ]
    judge = LinkGold(offsets[0], offsets[1], *judging)
    return WordGold(
        "contextual_word_retrieval", train, test, competing[0], competing[1], 0, "both", judge
    )


def word_scores(
    x: Activations, y: Activations, gold: WordGold, common: Mapping[str, Any], *, by: str = "csls"
) -> list[Score]:
    """P@1, P@5, P@10 and mean reciprocal rank per layer, as the vectors are and after normalisation
    and Procrustes.

    Words of one sentence are not independent: intervals of words in context are those of sentences
    (:func:`crosslens.stats.share_interval`), of word types Wilson's.

    For words in context also the alignment error rate of the links that the vectors make: words of
    a held-out sentence and of its translation that are each other's nearest by cosine
    (:func:`crosslens.alignment.words.argmax.align_argmax`), with an interval over sentences.

    Parameters
    ----------
    common: encoder and seed, for the scores.
    by: what words are compared by (:mod:`crosslens.alignment.neighbours.csls`).

    Raises
    ------
    InputError: there is nothing to learn from or to judge by, the two sides' layers or widths
        differ, or no layer can be measured. Where only some cannot be, all vectors of a side being
        alike, say, these have NaN, and the reason in the details.
    """
    for name, pairs in (("train", gold.train), ("test", gold.test)):
        if not len(pairs):
            expected = "at least one pair of words that both sides have vectors for"
            refuse(name, expected, "none", "check languages, case and units")
    if (x.layer_numbers, x.d) != (y.layer_numbers, y.d):
        got = f"layers {x.layer_numbers}, width {x.d}, and {y.layer_numbers}, {y.d}"
        remedy = "extract the same layers of encoders of one shape"
        refuse("stores", "the same layers and the same width on both sides", got, remedy)
    scores: list[Score] = []
    refused: InputError | None = None
    with Progress(len(x.layer_numbers), "aligning words", "layers") as progress:
        for layer in x.layer_numbers:
            fields, names = {**common, "layer": layer}, (x.language, y.language)
            reason = collapse_reason((x, y), layer)
            try:
                if reason:
                    raise InputError(reason)
                scores += _layer_scores(x.layer(layer), y.layer(layer), gold, fields, names, by)
            except InputError as error:
                refused = error
                scores += _lost(gold, fields, names, {"by": by, "reason": reason_of(error)})
            progress.add(1)
    if refused is not None and all(math.isnan(score.value) for score in scores):
        raise refused
    return scores


def _lost(
    gold: WordGold, fields: Mapping[str, Any], names: tuple[str, str], told: Mapping[str, Any]
) -> list[Score]:
    """The scores of a layer that cannot be measured, without values."""
    scores = []
    for condition, way in itertools.product(
        ("unaligned", "procrustes"), (0, 1) if gold.ways == "both" else (0,)
    ):
        given: dict[str, Any] = {
            "condition": condition,
            "task": gold.task,
            "source": names[way],
            "target": names[1 - way],
        }
        quantities = [f"precision_at_{k}" for k in (1, 5, 10) if k <= len((gold.y, gold.x)[way])]
        for quantity in (*quantities, "mrr"):
            scores.append(
                Score(
                    **fields,
                    **given,
                    quantity=quantity,
                    value=math.nan,
                    n=len(np.unique(gold.test[:, way])),
                    details=dict(told),
                )
            )
    if gold.links is not None:
        for condition in ("unaligned", "procrustes"):
            given = {
                "condition": condition,
                "task": "word_alignment",
                "source": names[0],
                "target": names[1],
            }
            n = len(np.unique(gold.links.sure[:, 0]))
            scores.append(
                Score(
                    **fields,
                    **given,
                    quantity="alignment_error_rate",
                    value=math.nan,
                    n=n,
                    details=dict(told),
                )
            )
    return scores


def _layer_scores(
    x: np.ndarray,
    y: np.ndarray,
    gold: WordGold,
    fields: Mapping[str, Any],
    names: tuple[str, str],
    by: str,
) -> list[Score]:
    rows = [np.union1d(gold.x, gold.train[:, 0]), np.union1d(gold.y, gold.train[:, 1])]
    before = [np.asarray(side[some], np.float32) for side, some in zip((x, y), rows, strict=True)]
    after = [IterativeNormalisation().fit_transform(side) for side in before]
    place = [np.searchsorted(some, gold.train[:, column]) for column, some in enumerate(rows)]
    rotation = Procrustes(centre=False).fit(after[0][place[0]], after[1][place[1]])
    after[0] = rotation.transform(after[0])
    scores = []
    for condition, sides in (("unaligned", before), ("procrustes", after)):
        competing = [
            side[np.searchsorted(some, mine)]
            for side, some, mine in zip(sides, rows, (gold.x, gold.y), strict=True)
        ]
        test = np.stack(
            [np.searchsorted(gold.x, gold.test[:, 0]), np.searchsorted(gold.y, gold.test[:, 1])],
            axis=1,
        )
        for way in (0, 1) if gold.ways == "both" else (0,):
            a, b, pairs = (
                (competing[0], competing[1], test)
                if way == 0
                else (competing[1], competing[0], test[:, ::-1])
            )
            most = min(len(a), len(b), _NEIGHBOURS)
            result = evaluate_lexicon(
                a,
                b,
                pairs,
                by=by,  # type: ignore[arg-type]
                n_sources=gold.sources or None,
                neighbourhood=most,
            )
            told: dict[str, Any] = {"candidates": len(b), "by": by}
            if condition == "procrustes":
                told |= {
                    "fitted_on": len(gold.train),
                    "dimensions": x.shape[1],
                    "normalisation": "iterative",
                }
            given = {
                "condition": condition,
                "task": gold.task,
                "source": names[way],
                "target": names[1 - way],
            }
            scores += _scores(
                result, {**fields, **given}, told, bool(gold.sources), _sentences(gold, way, result)
            )
        if gold.links is not None:
            given = {
                "condition": condition,
                "task": "word_alignment",
                "source": names[0],
                "target": names[1],
            }
            told = {"by": "argmax"} | (
                {"fitted_on": len(gold.train), "normalisation": "iterative"}
                if condition == "procrustes"
                else {}
            )
            scores.append(_link_score(competing, gold, gold.links, {**fields, **given}, told))
    return scores


def _link_score(
    sides: list[np.ndarray],
    gold: WordGold,
    links: LinkGold,
    fields: Mapping[str, Any],
    told: Mapping[str, Any],
) -> Score:
    """The error rate of the links that two sides' vectors make, sentence by sentence."""
    made = align_argmax(sides[0], sides[1], links.offsets_x, links.offsets_y)
    sentence, i, j = made.T
    found = np.column_stack(
        [sentence, gold.x[links.offsets_x[sentence] + i], gold.y[links.offsets_y[sentence] + j]]
    )
    result = alignment_error_rate(found, links.sure, links.possible)
    judged = len(np.unique(np.concatenate([sentence, links.sure[:, 0]])))
    low, high = (
        alignment_error_interval(found, links.sure, links.possible) if judged > 1 else (None, None)
    )
    details = {
        **told,
        "precision": result.precision,
        "recall": result.recall,
        "links": result.predicted,
        "sure": result.sure,
    }
    details["possible"] = result.possible
    return Score(
        **fields,
        quantity="alignment_error_rate",
        value=result.error_rate,
        n=judged,
        low=low,
        high=high,
        details=details,
    )


def _sentences(gold: WordGold, way: int, result: LexiconResult) -> np.ndarray | None:
    """The sentence of each word that was looked up: words of one stand and fall together. None for
    word types."""
    if gold.links is None:
        return None
    offsets = (gold.links.offsets_x, gold.links.offsets_y)[way]
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[result.sources]


def _scores(
    result: LexiconResult,
    fields: Mapping[str, Any],
    told: Mapping[str, Any],
    covered: bool,
    sentences: np.ndarray | None,
) -> list[Score]:
    scores = []
    for k, value in result.precision.items():
        reached = Accuracy.of(result.ranks <= k, sentences)
        details = {**told, "chance": k / told["candidates"]}
        if sentences is not None:
            details["groups"] = len(np.unique(sentences))
        if covered:
            details |= {
                "coverage": round(result.coverage, 4),
                "sources": result.n_sources,
                "value_of_all": result.precision_of_all[k],
            }
        scores.append(
            Score(
                **fields,
                quantity=f"precision_at_{k}",
                value=value,
                n=result.n,
                low=reached.low,
                high=reached.high,
                details=details,
            )
        )
    scores.append(Score(**fields, quantity="mrr", value=result.mrr, n=result.n, details=dict(told)))
    return scores


def _has_vector(store: Activations) -> np.ndarray:
    """Rows that are numbers: words that the encoder has no subword for are NaN in every layer."""
    layer, found = store.layer(store.layer_numbers[0]), np.empty(store.n, bool)
    for rows in store.blocks():
        found[rows] = np.isfinite(np.asarray(layer[rows, 0], np.float32))
    return found


def _among(pairs: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The pairs whose rows both are among the kept ones."""
    return pairs[np.isin(pairs[:, 0], x) & np.isin(pairs[:, 1], y)]
