"""Static word vectors of two languages, mapped into one space: from files to scores."""

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.alignment.neighbours.csls import By
from crosslens.checks import check_fraction
from crosslens.errors import check_choice, refuse
from crosslens.files import check_name, sha256_file
from crosslens.front.kept import Kept
from crosslens.front.results import Scores
from crosslens.progress import say
from crosslens.readers.dictionary import Dictionary, pairs_in, read_dictionary, write_dictionary
from crosslens.readers.static_vectors import StaticVectors, read_vec, write_vec

__all__ = ["align_vectors"]

_STATE = "self-learning.safetensors"
_CALLED = {"normalisation_x": 0, "normalisation_y": 1}  # maps of one side's language


def align_vectors(
    files: Mapping[str, str | Path],
    *,
    dictionary: str | Path | None = None,
    test: str | Path | None = None,
    start: str | None = None,
    method: str | None = None,
    most: int = 200_000,
    lowercase: bool = False,
    by: str = "csls",
    train_fraction: float = 0.5,
    seed: int = 0,
    out: str | Path | None = None,
) -> Scores:
    """How well words of one language find their translations among those of another, once the
    vectors of both are in one space.

    Parameters
    ----------
    files: two languages, each with its file of word vectors: .vec text, or fastText's .bin.
    dictionary: a file of word pairs, ``source target`` a line, to learn from; and to judge by,
        unless ``test`` is given.
    test: a file of pairs to judge by. No source word may be in both.
    start: learn without a dictionary: "identical" words, "numerals", or "unsupervised".
    method: "procrustes", "refine" or "self-learning" (:func:`crosslens.run.vectors.map_vectors`
        says what they are); procrustes with a dictionary and self-learning with ``start`` where
        none is named.
    most: words that are read of each file, the first ones.
    lowercase: read dictionaries in lower case.
    by: "cosine", "csls", "inverted_softmax", "margin_ratio" or "margin_distance".
    train_fraction: share of the dictionary that is learnt from where there is no ``test``.
    seed: of the split and of self-learning.
    out: a folder to keep the run in, as ``crosslens align --out`` does: maps, mapped vectors, an
        induced dictionary and scores. Self-learning that was stopped is resumed by the same call.

    Returns
    -------
    Precision at 1, 5 and 10 and mean reciprocal rank, from 0 to 1, with 95 % intervals, of layer 0;
    the condition is the method.

    Raises
    ------
    InputError: files or settings do not fit.
    OutputError: ``out`` holds something else.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.readers.static_vectors import StaticVectors, write_vec
    >>> place = Path(tempfile.mkdtemp())
    >>> x = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    >>> for language in ("eng", "fra"):
    ...     write_vec(place / f"{language}.vec", StaticVectors([f"{language}{i}" for i in range(60)], x))
    >>> _ = (place / "pairs.txt").write_text("".join(f"eng{i} fra{i}\\n" for i in range(60)))
    >>> files = {language: place / f"{language}.vec" for language in ("eng", "fra")}
    >>> [score.value for score in cl.align_vectors(files, dictionary=place / "pairs.txt").where(quantity="precision_at_1")]
    [1.0]
    """
    from crosslens.run.vectors import first_pairs, map_vectors, own_dictionary, vector_scores

    if len(files) != 2:
        refuse("files", "those of two languages", str(len(files)), "give LANGUAGE: FILE twice")
    for language in files:
        check_name(language, "files")
    check_choice(by, "by", typing.get_args(By))
    check_fraction(train_fraction, "train_fraction")
    if test is not None and train_fraction != 0.5:
        remedy = "leave one of them out"
        refuse("train_fraction", "none with test", str(train_fraction), remedy)
    begin = start or "dictionary"
    method = method or ("self-learning" if start else "procrustes")
    _check_start(begin, method, dictionary)
    train, judging = _dictionaries(dictionary, test, lowercase, train_fraction, seed)
    told = {"method": method, "start": begin, "by": by, "most": most, "seed": seed}
    parts = {"lowercase": lowercase} | ({} if test else {"train_fraction": train_fraction})
    read = {"dictionary": dictionary, "test": test}
    pairs_of = {name: str(path) for name, path in read.items() if path is not None}
    kept = Kept(
        out,
        "align",
        {} if out is None else _read_from(files, pairs_of) | told | parts,
        {
            "stores": [f"{language}={path}" for language, path in files.items()],
            **{**told, **pairs_of, "start": start},
            "lowercase": lowercase,
            "train_fraction": train_fraction,
        },
        ("stores", "dictionary", "test"),
    )
    x, y = (_read(str(path), most) for path in files.values())
    judged, pairs = pairs_in(judging, x.words, y.words), first_pairs(x, y, begin, train)
    say(f"{len(x)} and {len(y)} words, {len(pairs)} pairs to begin with")
    with kept.long_work(_STATE if method == "self-learning" else "") as state:
        mapped = map_vectors(x, y, pairs, method, seed, state)
    names = [Path(path).name for path in files.values()]
    source, target = files
    common = {"source": source, "target": target, "encoder": " / ".join(names), "seed": seed}
    scores = vector_scores(
        mapped.x, mapped.y, judged, common, method=method, by=by, learnt=len(pairs)
    )
    induced = None if out is None else own_dictionary(x, y, mapped, by)

    def write(folder: Path) -> None:
        for which, learnt in mapped.maps.items():
            side = _CALLED.get(which)
            name = "map" if side is None else f"normalisation.{[*files][side]}"
            learnt.save(folder / f"{name}.safetensors")
        for vectors, matrix, language in zip((x, y), (mapped.x, mapped.y), files, strict=True):
            write_vec(folder / f"{language}.vec", StaticVectors(vectors.words, matrix))
        if induced is not None:
            write_dictionary(folder / "dictionary.tsv", induced)

    data = {"pairs": len(pairs), "words": [len(x), len(y)]}
    return kept.finish(scores, write=write, data=data)


def _check_start(start: str, method: str, dictionary: str | Path | None) -> None:
    """Refuse what gives no pairs to begin with, or begins with pairs that the method takes as they
    are."""
    if method != "self-learning" and start != "dictionary":
        refuse(
            "method",
            f"self-learning, which corrects what start {start} gets wrong",
            method,
            "leave it out, or give a dictionary",
        )
    if (dictionary is None) == (start == "dictionary"):
        got = "neither" if start == "dictionary" else f"a dictionary and start {start}"
        expected = "a file, or start identical, numerals or unsupervised"
        refuse("dictionary", expected, got, "give one of the two")


def _dictionaries(
    dictionary: str | Path | None,
    test: str | Path | None,
    lowercase: bool,
    train_fraction: float,
    seed: int,
) -> tuple[Dictionary | None, Dictionary]:
    """What is learnt from, if anything, and what is judged by."""
    from crosslens.run.word_alignment import split_dictionary

    train, judging = (
        None if path is None else read_dictionary(path, lower=lowercase)
        for path in (dictionary, test)
    )
    if train is not None and judging is None:
        return split_dictionary(train, train_fraction, seed)
    if judging is None:
        refuse("test", "a dictionary to judge by", "none", "give a file")
    if both := {word for word, _ in train or ()} & {word for word, _ in judging}:
        got = f"{len(both)} source words in both, {min(both)!r} among them"
        expected = "source words that the dictionary to learn from does not have"
        refuse("test", expected, got, "take them out of one of the two")
    return train, judging


def _read(path: str, most: int | None) -> StaticVectors:
    """A file's words and vectors, without those that have no direction."""
    from crosslens.readers.fasttext import read_fasttext_bin

    found: Any = (
        read_fasttext_bin(path, most=most, errors="replace")
        if path.endswith(".bin")
        else read_vec(path, most, errors="replace")
    )
    if changed := sum("\ufffd" in word for word in found.words):
        say(f"{path}: {changed} of {len(found.words):,} words hold bytes that are not UTF-8")
    there = np.any(found.vectors, axis=1)
    if not there.any():
        refuse(path, "vectors with a direction", "zeros alone", "give vectors that are trained")
    if there.all():
        return found
    without = np.flatnonzero(~there)
    say(
        f"{path}: left out are {len(without):,} of {len(there):,} words whose vectors are zeros, "
        f"which have no cosine, {found.words[without[0]]!r} first"
    )
    words = [found.words[row] for row in np.flatnonzero(there)]
    return StaticVectors(words, found.vectors[there], found.duplicates)


def _read_from(files: Mapping[str, str | Path], pairs: Mapping[str, str]) -> dict[str, Any]:
    """What is read, by name and content."""
    return {
        "languages": list(files),
        "encoders": {language: Path(path).name for language, path in files.items()},
        "vectors": {language: sha256_file(path)[:16] for language, path in files.items()},
        **{name: sha256_file(path)[:16] for name, path in pairs.items()},
    }
