"""Two spaces of vectors, or more: how well one is rotated onto the other, and how alike they are.
From activations to scores."""

import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from crosslens.activations import Activations
from crosslens.activations_memory import as_activations
from crosslens.alignment.neighbours.csls import By
from crosslens.errors import quote, refuse
from crosslens.front.results import Scores

__all__ = ["align", "compare"]


def align(
    x: Any,
    y: Any,
    *,
    dictionary: str | Path | None = None,
    test: str | Path | None = None,
    links: str | Path | None = None,
    lowercase: bool = False,
    by: str | None = None,
    train_fraction: float = 0.5,
    seed: int = 0,
) -> Scores:
    """How well the items of two languages find each other, layer by layer, before and after a
    rotation (orthogonal Procrustes).

    Of sentences, row i of one side is the translation of row i of the other: retrieval in both
    directions on held-out sentences, by a rotation that was fitted on the others, and its
    correlation over layers with linear CKA. Of word types, a dictionary says what belongs together;
    of words in context, links between the words of parallel sentences.

    Parameters
    ----------
    x, y: :class:`crosslens.Activations`, folders of such, or arrays: one of shape (n, d), or
        several, one per layer. Both have the same layers, and the same width d.
    dictionary: for types, a file of word pairs, ``source target`` a line, to learn from; and to
        judge by, unless ``test`` is given.
    test: for types, a file of pairs to judge by. No source word may be in both.
    links: for words, a file of links ``0-0 1-2``, a line a sentence (Pharaoh format).
    lowercase: read dictionaries in lower case.
    by: "cosine", "csls", "inverted_softmax", "margin_ratio" or "margin_distance": what decides
        which row is nearest. Cosine for sentences and CSLS for types and words without it.
    train_fraction: share of the sentences, of the dictionary or of the linked sentences that the
        rotation is fitted on.
    seed: of the split.

    Returns
    -------
    Precision at 1 per layer and direction, from 0 to 1, with 95 % intervals: condition "unaligned"
    or "procrustes"; ``part``
        "held_out" or, unaligned, "all". Of words also precision at 5 and 10, and mean reciprocal
        rank or alignment error rate.

    Raises
    ------
    InputError: the two are no pair: other items, other layers, another width; fewer than 20
        sentences; or files that do not fit.

    >>> import numpy as np
    >>> import crosslens as cl
    >>> x = np.random.default_rng(0).normal(size=(200, 8))
    >>> turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))
    >>> scores = cl.align(x, x @ turned)
    >>> [(score.condition, score.value > 0.9) for score in scores.where(part="held_out", source="x")]
    [('unaligned', False), ('procrustes', True)]
    """
    if by is not None and by not in (known := typing.get_args(By)):
        refuse(
            "by", f"one of {', '.join(known)}", quote(by), "choose one of these, or leave it out"
        )
    sides = _named([x, y], ("x", "y"))
    first, second = sides.values()
    given = {"dictionary": dictionary, "test": test, "links": links}
    needed = {"type": "dictionary", "embedding": "dictionary", "word": "links"}.get(first.unit)
    for name, path in given.items():
        if (
            (path is None) == (name == needed)
            or path is not None
            and name == "test"
            and needed != "dictionary"
        ):
            if name == "test" and path is None:
                continue
            expected = (
                f"{name} for {first.unit or 'row'}s"
                if path is None
                else f"no {name} for {first.unit or 'row'}s"
            )
            refuse(
                name,
                expected,
                "none" if path is None else quote(str(path)),
                "see help(crosslens.align)",
            )
    common = {
        "encoder": " / ".join(dict.fromkeys(side.encoder for side in sides.values())),
        "seed": seed,
    }
    if needed:
        return _align_words(first, second, given, lowercase, by or "csls", train_fraction, common)
    from crosslens.run.measures import make_split, retrieval_scores
    from crosslens.run.similarities import correlation_scores

    _check_items(sides)
    split = make_split(first.n, train_fraction, seed)
    scores = retrieval_scores(first, second, split, common, by=cast(Any, by or "cosine"))
    return Scores(scores + correlation_scores(first, second, scores, common))


def _align_words(
    x: Activations,
    y: Activations,
    given: Mapping[str, Any],
    lowercase: bool,
    by: str,
    train_fraction: float,
    common: Mapping[str, Any],
) -> Scores:
    from crosslens.run.word_alignment import (
        gold_of_dictionaries,
        gold_of_links,
        split_dictionary,
        word_scores,
    )

    if given["dictionary"] is not None:
        from crosslens.readers.dictionary import read_dictionary

        train = read_dictionary(given["dictionary"], lower=lowercase)
        if given["test"] is not None:
            judged = read_dictionary(given["test"], lower=lowercase)
        else:
            train, judged = split_dictionary(train, train_fraction, common["seed"])
        gold = gold_of_dictionaries(x, y, train, judged)
    else:
        from crosslens.alignment.words.links import read_pharaoh
        from crosslens.run.measures import make_split

        found = read_pharaoh(given["links"])
        gold = gold_of_links(
            x,
            y,
            found.sure,
            make_split(found.sentences, train_fraction, common["seed"]),
            possible=found.possible,
        )
    return Scores(word_scores(x, y, gold, common, by=by))


def compare(*sides: Any, also: Sequence[str] = (), seed: int = 0) -> Scores:
    """How alike two or more sets of vectors of the same items are, layer by layer: linear CKA, and
    what else is asked for.

    Parameters
    ----------
    sides: two or more :class:`crosslens.Activations`, folders of such, or arrays: one of shape (n,
        d), or several, one per layer; row i of all is the same item. Or one dictionary of these, by
        name. Widths and numbers of layers may differ.
    also: other measures of the same layer on both sides: "svcca", "pwcca", "mean_cca", "rsa",
        "mutual_knn", "procrustes_distance", "rbf_cka", "uncentred_cka", "minibatch_cka".
    seed: of the shuffled rows.

    Returns
    -------
    ``linear_cka`` (biased, as papers print it) and ``debiased_linear_cka`` with 95 % interval of
    every layer of one side with every
        layer of the other (``layer``, ``other_layer``), and with the rows of one shuffled
        (condition "shuffled_items").

    Raises
    ------
    InputError: fewer than two, other items, no such measure, or a side that does not vary.

    >>> import numpy as np
    >>> import crosslens as cl
    >>> x = np.random.default_rng(0).normal(size=(200, 8))
    >>> scores = cl.compare({"plain": x, "scaled": 3 * x})
    >>> [round(score.value, 3) for score in scores.where(quantity="linear_cka", condition=None)]
    [1.0]
    """
    from crosslens.run.similarities import check_measures, compare_stores, measure_layers

    check_measures(also)
    if len(sides) == 1 and isinstance(sides[0], Mapping):
        found = {str(name): _open(side, str(name)) for name, side in sides[0].items()}
    else:
        found = _named(sides, [f"{number}" for number in range(1, len(sides) + 1)])
    if len(found) < 2:
        refuse(
            "sides", "two or more", str(len(found)), "give another set of vectors of the same items"
        )
    _check_items(found)
    others = measure_layers(found, also, seed)  # first: they refuse what CKA does not
    return Scores(compare_stores(found, seed) + others)


def _open(side: Any, name: str) -> Activations:
    if isinstance(side, Activations):
        return side
    if isinstance(side, (str, Path)):
        return Activations(side)
    return as_activations(side, language=name)


def _named(sides: Sequence[Any], names: Sequence[str]) -> dict[str, Activations]:
    """Activations by language, by language and encoder where two share it, or else by these names;
    all are of one unit."""
    found = [_open(side, name) for side, name in zip(sides, names, strict=True)]
    if len({side.unit for side in found}) > 1:
        told = ", ".join(
            f"{name}: {side.unit or 'not known'}" for name, side in zip(names, found, strict=True)
        )
        refuse("unit", "one unit on all sides", told, "extract all with the same unit")
    for called in (lambda side: side.language, lambda side: f"{side.language} {side.encoder}"):
        given = [called(side) for side in found]
        if len(set(given)) == len(found) and all(name.strip() for name in given):
            return dict(zip(given, found, strict=True))
    return dict(zip(names, found, strict=True))


def _check_items(sides: Mapping[str, Activations]) -> None:
    """Refuse sides whose rows are not the same items: of words and tokens, the same places in the
    same sentences."""
    (first, one), *others = ((name, _items(side)) for name, side in sides.items())
    for name, items in others:
        if items != one:
            got = (
                f"{len(items)} others"
                if len(items) != len(one)
                else f"{len(items)}, but not the same ones"
            )
            refuse(
                name,
                f"the same items as {first} ({len(one)})",
                got,
                "row i of one must belong to row i of the other",
            )


def _items(side: Activations) -> list[Any]:
    index = side.index([name for name in ("id", "position") if name in side.columns])
    return list(zip(*index.values(), strict=True))
