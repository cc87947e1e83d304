"""Two spaces of vectors, or more: how well one is rotated onto the other, and how alike they are.
From activations to scores."""

import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from crosslens.activations import Activations
from crosslens.activations_memory import as_activations
from crosslens.alignment.neighbours.csls import By
from crosslens.checks import check_fraction
from crosslens.errors import check_choice, quote, refuse
from crosslens.files import sha256_file
from crosslens.front.kept import Kept
from crosslens.front.results import Scores

__all__ = ["align", "compare", "identify_languages"]

_NEEDED = {"type": "dictionary", "embedding": "dictionary", "word": "links"}


def align(
    x: Any,
    y: Any,
    *,
    dictionary: str | Path | None = None,
    test: str | Path | None = None,
    links: str | Path | None = None,
    lowercase: bool = False,
    by: str | None = None,
    fit: Sequence[Any] | None = None,
    train_fraction: float = 0.5,
    seed: int = 0,
    out: str | Path | None = None,
) -> Scores:
    """How well the items of two languages find each other, layer by layer, before and after a
    rotation (orthogonal Procrustes).

    Of sentences, row i of one side is the translation of row i of the other: retrieval in both
    directions on held-out sentences, by a rotation that was fitted on the others, and its
    correlation over layers with linear CKA. Of word types, a dictionary says what belongs together;
    of words in context, links between the words of parallel sentences. Of files of static word
    vectors it is :func:`crosslens.align_vectors`.

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
    fit: for sentences, two more sides, of another parallel corpus read by the same encoder: the
        rotation is fitted on all of them and all of x and y are judged by (Conneau et al. 2020, §
        5.1.3). Sentences of theirs that x or y have too are left out.
    train_fraction: share of the sentences, of the dictionary or of the linked sentences that the
        rotation is fitted on. Not with ``fit`` or ``test``.
    seed: of the split.
    out: a folder to keep the run in, as ``crosslens align --out`` does: ``Run(out)`` opens it.

    Returns
    -------
    Precision at 1 per layer and direction, from 0 to 1, with 95 % intervals: condition "unaligned"
    or "procrustes"; ``part`` "held_out" or, unaligned, "all". Of words also precision at 5 and 10,
    and mean reciprocal rank or alignment error rate. ``.notes`` say how many sentences repeat
    another one.

    Raises
    ------
    InputError: the two are no pair: other items, other layers, another width, one language; fewer
        than 20 sentences; or files that do not fit.
    OutputError: ``out`` holds something else.

    >>> import numpy as np
    >>> import crosslens as cl
    >>> x = np.random.default_rng(0).normal(size=(200, 8))
    >>> turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))
    >>> scores = cl.align(x, x @ turned)
    >>> [(score.condition, score.value > 0.9) for score in scores.where(part="held_out", source="x")]
    [('unaligned', False), ('procrustes', True)]
    """
    check_choice(by, "by", (*typing.get_args(By), None), "choose one of these, or leave it out")
    check_fraction(train_fraction, "train_fraction")
    sides = _named([x, y], ("x", "y"))
    first, second = sides.values()
    _check_languages(sides)
    files = {"dictionary": dictionary, "test": test, "links": links}
    _check_files(files, first.unit)
    if test is not None and train_fraction != 0.5:
        remedy = "leave one of them out"
        refuse("train_fraction", "none with test", str(train_fraction), remedy)
    if lowercase and dictionary is None:
        expected = "only with a dictionary of word types, which is read in lower case"
        refuse("lowercase", expected, f"{first.unit} vectors without one", "leave it out")
    learnt = None if fit is None else _to_fit_on(fit, sides, train_fraction)
    by = by or ("csls" if first.unit in _NEEDED else "cosine")
    common, settings = _common(sides, seed), {"by": by, "train_fraction": train_fraction}
    asked = {**files, **settings, "lowercase": lowercase, "seed": seed}
    if first.unit in _NEEDED:
        from crosslens.run.word_alignment import word_scores

        gold = _gold(first, second, files, lowercase, train_fraction, seed)
        if test is not None:
            del settings["train_fraction"]
        settings |= (
            {"links": _content(links)}
            if links
            else {name: _content(files[name]) for name in ("dictionary", "test")}
            | {"lowercase": lowercase}
        )
        kept = _kept(out, "align", sides, settings, asked)
        scores, notes = word_scores(first, second, gold, common, by=by), list[str]()
    else:
        from crosslens.run.collapse import refuse_unmeasured
        from crosslens.run.measures import fitted_elsewhere, make_split, retrieval_scores
        from crosslens.run.repeats import repeats_told, store_groups
        from crosslens.run.similarities import correlation_scores

        _check_items(sides)
        fitted = None
        if learnt is None:
            groups = store_groups([first, second])
            split, notes = make_split(first.n, train_fraction, seed, groups), repeats_told(groups)
        else:
            fitted, split = fitted_elsewhere(learnt, (first, second))
            left = learnt[0].n - len(fitted.rows)
            told = f"The rotation is learnt from {len(fitted.rows):,} sentences of another corpus"
            notes = [f"{told}; {left:,} that are judged by are left out." if left else f"{told}."]
            del settings["train_fraction"], asked["train_fraction"]
            settings["fit"] = [side.fingerprint for side in learnt]
            asked["fit"] = [str(side.folder) for side in learnt if side.folder is not None]
        kept = _kept(out, "align", sides, settings, asked)
        scores = retrieval_scores(first, second, split, common, by=cast(Any, by), fitted=fitted)
        refuse_unmeasured(scores, "activations")
        scores += correlation_scores(first, second, scores, common)
    return kept.finish(scores, notes, data=_facts(first))


def _check_files(files: Mapping[str, Any], unit: str) -> None:
    """Refuse files that rows of this unit have no use for, and rows without the file they need."""
    if unit not in (*_NEEDED, "sentence", "pair", ""):
        told = "extract with another unit"
        refuse("unit", "sentences, pairs, types or words", f"{unit}s", told)
    needed = _NEEDED.get(unit)
    for name, path in files.items():
        useful = name == needed or name == "test" and needed == "dictionary"
        if path is None if name == needed else path is not None and not useful:
            expected = f"{'a file' if path is None else 'none'} for {unit or 'row'}s"
            got = "none" if path is None else quote(str(path))
            refuse(name, expected, got, "name one" if path is None else "leave it out")


def _to_fit_on(
    fit: Any, sides: Mapping[str, Activations], train_fraction: float
) -> tuple[Activations, Activations]:
    """The two sides of another corpus, where a rotation that is learnt there can turn these."""
    x, y = sides.values()
    if x.unit in _NEEDED:
        refuse("fit", f"none for {x.unit}s", "activations", "leave it out")
    if train_fraction != 0.5:
        told = "leave one of them out"
        refuse("train_fraction", "none with fit", str(train_fraction), told)
    if isinstance(fit, str | Path | Activations) or len(fit) != 2:
        refuse("fit", "two sides, as x and y", quote(str(fit)), "give both languages")
    one, other = (_open(side, name) for side, name in zip(fit, sides, strict=True))
    _check_items({"fit, first": one, "fit, second": other})
    for mine, like in ((one, x), (other, y)):
        for name in ("language", "encoder", "unit", "layer_numbers", "d"):
            got, expected = getattr(mine, name), getattr(like, name)
            if got != expected:
                remedy = "extract both corpora in the same way, and name the languages in one order"
                refuse("fit", f"{name} {expected}, as {like.name}", f"{got}", remedy)
    return one, other


def _gold(
    x: Activations,
    y: Activations,
    files: Mapping[str, Any],
    lowercase: bool,
    train_fraction: float,
    seed: int,
) -> Any:
    """Which words belong together: of dictionaries, or of links."""
    from crosslens.run.word_alignment import gold_of_dictionaries, gold_of_links, split_dictionary

    if files["dictionary"] is not None:
        from crosslens.readers.dictionary import read_dictionary

        train = read_dictionary(files["dictionary"], lower=lowercase)
        if files["test"] is not None:
            judged = read_dictionary(files["test"], lower=lowercase)
        else:
            train, judged = split_dictionary(train, train_fraction, seed)
        return gold_of_dictionaries(x, y, train, judged)
    from crosslens.alignment.words.links import read_pharaoh
    from crosslens.run.measures import make_split
    from crosslens.run.repeats import sentence_groups

    links = read_pharaoh(files["links"])
    for side in (x, y):
        there = 1 + max(side.index(["text"])["text"], default=-1)
        if links.sentences < there:
            expected = f"a line for each of the {there} sentences of {side.name}"
            remedy = "give the links of all of the text that was extracted"
            refuse(str(files["links"]), expected, str(links.sentences), remedy)
    groups = sentence_groups([x, y], links.sentences)
    split = make_split(links.sentences, train_fraction, seed, groups)
    return gold_of_links(x, y, links.sure, split, possible=links.possible)


def _content(path: str | Path | None) -> str | None:
    """A file by name and content, as settings remember it."""
    return None if path is None else f"{Path(path).name} {sha256_file(path)[:16]}"


def compare(
    *sides: Any, also: Sequence[str] = (), seed: int = 0, out: str | Path | None = None
) -> Scores:
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
    out: a folder to keep the run in, as ``crosslens compare --out`` does: ``Run(out)`` opens it.

    Returns
    -------
    ``linear_cka`` (biased, as papers print it) and ``debiased_linear_cka`` with 95 % interval of
    every layer of one side with every layer of the other (``layer``, ``other_layer``), and with the
    rows of one shuffled (condition "shuffled_items"). ``.notes`` warn where n is too small for the
    biased value.

    Raises
    ------
    InputError: fewer than two, other items, no such measure, or a side that does not vary.
    OutputError: ``out`` holds something else.

    >>> import numpy as np
    >>> import crosslens as cl
    >>> x = np.random.default_rng(0).normal(size=(200, 8))
    >>> scores = cl.compare({"plain": x, "scaled": 3 * x})
    >>> [round(score.value, 3) for score in scores.where(quantity="linear_cka", condition=None)]
    [1.0]
    """
    from crosslens.run.collapse import refuse_unmeasured
    from crosslens.run.similarities import check_measures, compare_stores, measure_layers

    check_measures(also)
    if len(sides) == 1 and isinstance(sides[0], Mapping):
        found = {str(name): _open(side, str(name)) for name, side in sides[0].items()}
    else:
        found = _named(sides, [f"{number}" for number in range(1, len(sides) + 1)])
    _check_several(found)
    _check_items(found)
    kept = _kept(out, "compare", found, {"also": ",".join(also)}, {"also": [*also], "seed": seed})
    others = measure_layers(found, also, seed)  # first: they refuse what CKA does not
    scores = compare_stores(found, seed) + others
    refuse_unmeasured(scores, "activations")
    first, widest = next(iter(found.values())), max(side.d for side in found.values())
    inflated = (
        f"With n = {first.n} < 3 d = {3 * widest} the biased value is inflated: read the "
        f"debiased one."
    )
    notes = [inflated] if first.n < 3 * widest else []
    return kept.finish(scores, notes, data=_facts(first))


def identify_languages(*sides: Any, train_fraction: float = 0.5, seed: int = 0) -> Scores:
    """How well a linear probe tells of each layer which language a sentence is in.

    Parameters
    ----------
    sides: :class:`crosslens.Activations` of two or more languages, or folders of such; row i of all
        is the same sentence. No translation of a held-out sentence is trained on.
    train_fraction: share of the sentences that the probe is fitted on.
    seed: of the split and of the shuffled labels.

    Returns
    -------
    ``accuracy`` per layer on held-out sentences, from 0 to 1, with F1 of each language in the
    details and with 95 % intervals, of which a sentence with its translations is one unit;
    conditions "majority" (the most frequent language) and "shuffled_labels" beside it. ``.notes``
    say where the encoder was given the language, which is then in every vector.

    Raises
    ------
    InputError: fewer than two languages, other items, or fewer than 20 sentences.

    >>> import numpy as np
    >>> import crosslens as cl
    >>> vectors = np.random.default_rng(0).normal(size=(60, 8))
    >>> sides = [cl.as_activations(vectors + shift, language=name) for name, shift in (("eng", 0), ("fra", 9))]
    >>> [score.value for score in cl.identify_languages(*sides).where(quantity="accuracy", condition=None)]
    [1.0]
    """
    from crosslens.run.collapse import refuse_unmeasured
    from crosslens.run.measures import language_id_scores, make_split, told_apart
    from crosslens.run.repeats import repeats_told, store_groups

    check_fraction(train_fraction, "train_fraction")
    named = _named(sides, [f"{number}" for number in range(1, len(sides) + 1)])
    _check_several(named)
    _check_languages(named)
    _check_items(named)
    stores = list(named.values())
    if len({store.d for store in stores}) > 1:
        got = ", ".join(f"{store.d} ({name})" for name, store in named.items())
        refuse("activations", "one width on all sides", got, "extract all with one encoder")
    groups = store_groups(stores)
    split = make_split(stores[0].n, train_fraction, seed, groups)
    scores = language_id_scores(stores, split, _common(named, seed))
    refuse_unmeasured(scores, "activations")
    given = (
        "the encoder was told the language of each text, so it is in every vector: that it is "
        "found there says nothing"
    )
    return Scores(scores, [*([given] if told_apart(stores) else []), *repeats_told(groups)])


def _open(side: Any, name: str) -> Activations:
    if isinstance(side, Activations):
        return side
    if isinstance(side, (str, Path)):
        return Activations(side)
    return as_activations(side, language=name)


def _named(sides: Sequence[Any], names: Sequence[str]) -> dict[str, Activations]:
    """Activations by language, by language and encoder where two share it, or else by folder or
    these names; all are of one unit."""
    found = [_open(side, name) for side, name in zip(sides, names, strict=True)]
    units = {side.unit: side for side in found}
    if len(units) > 1:
        told = ", ".join(f"{unit or 'not known'} ({side.name})" for unit, side in units.items())
        refuse("unit", "one unit on all sides", told, "extract all with the same unit")
    places = [str(side.folder or name) for side, name in zip(found, names, strict=True)]
    for given in (
        [side.language for side in found],
        [f"{side.language} {side.encoder}" for side in found],
        places,
    ):
        if len(set(given)) == len(found) and all(name.strip() for name in given):
            return dict(zip(given, found, strict=True))
    return refuse("sides", "different ones", ", ".join(places), "name each once")


def _check_several(sides: Mapping[str, Activations]) -> None:
    if len(sides) < 2:
        told = "give another set of vectors of the same items"
        refuse("sides", "two or more", str(len(sides)), told)


def _check_languages(sides: Mapping[str, Activations]) -> None:
    """Refuse sides whose scores could not be distinguished, since two have one language."""
    languages = [side.language for side in sides.values()]
    if len(set(languages)) < len(languages):
        got = ", ".join(language or "none" for language in languages)
        refuse("language", "one of its own for each side", got, "extract each under its own code")


def _check_items(sides: Mapping[str, Activations]) -> None:
    """Refuse sides whose rows are not the same items: of words and tokens, the same places in the
    same sentences."""
    called = ((str(side.folder or name), side) for name, side in sides.items())
    (first, one), *others = ((name, _items(side)) for name, side in called)
    for name, items in others:
        if items != one:
            got = (
                f"{len(items)} others"
                if len(items) != len(one)
                else f"{len(items)}, but not the same ones"
            )
            remedy = "row i of one must belong to row i of the other"
            refuse(name, f"the same items as {first} ({len(one)})", got, remedy)


def _items(side: Activations) -> list[Any]:
    index = side.index([name for name in ("id", "position") if name in side.columns])
    return list(zip(*index.values(), strict=True))


def _common(sides: Mapping[str, Activations], seed: int) -> dict[str, Any]:
    """Encoder and seed, for the scores."""
    encoders = dict.fromkeys(side.encoder for side in sides.values())
    return {"encoder": " / ".join(encoders), "seed": seed}


def _facts(side: Activations) -> dict[str, Any]:
    return {"n": side.n, "d": side.d, "unit": side.unit}


def _kept(
    out: str | Path | None,
    kind: str,
    sides: Mapping[str, Activations],
    settings: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> Kept:
    """The run of these sides, its folder looked at before anything is computed. Arrays in memory
    cannot be asked for again."""
    if out is None:
        return Kept(None, kind, {}, {}, ())
    folders = [str(side.folder) for side in sides.values() if side.folder is not None]
    files = {name: str(asked[name]) for name in ("dictionary", "test", "links") if asked.get(name)}
    whole = {
        "languages": list(sides),
        "encoders": {name: side.encoder for name, side in sides.items()},
        "stores": {name: side.fingerprint for name, side in sides.items()},
        **settings,
        "seed": asked["seed"],
    }
    given = {**asked, **files, "stores": folders if len(folders) == len(sides) else []}
    return Kept(out, kind, whole, given, ["stores", "fit", *files])
