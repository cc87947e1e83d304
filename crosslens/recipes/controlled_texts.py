"""The texts of a controlled study, from the files that a user names."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import quote, refuse
from crosslens.models.text.tokenisation import train_tokenizer
from crosslens.models.training.anchors import check_direction, weighted_dictionary
from crosslens.progress import say
from crosslens.readers.plain import read_lines, read_text
from crosslens.recipes import language_of
from crosslens.recipes.conneau import WORDS
from crosslens.recipes.controlled_settings import natural_pair
from crosslens.run.repeats import normal_texts
from crosslens.run.trainings.controlled import ControlledStudy
from crosslens.run.trainings.emergence import split_rows

__all__ = ["study_texts"]

_LENGTHS = (5, 10)  # words of a sentence that is kept: the model has 32 positions
_LONGEST = 12  # words of its other sides
_FILLED = 0.95  # least share of a wanted size that whole lines have to make up
_LETTERS = 30  # where nothing stands between spaces


def study_texts(study: ControlledStudy, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The texts of a study from the files that the user names.

    Parameters
    ----------
    settings: ``data``, English or the language that the study is named by, a sentence per
        line; ``other``, text of another source, in English for deshpande-corpora, in the language of
        ``pair`` for conneau-sharing; ``syntax``, line by line the sentences of ``data`` in another word order;
        ``paraphrase``, line by line other English that says the same, for conneau-cka; ``pair``,
        "LANGUAGE:FILE", line by line their translations, and ``dictionary``, pairs of
        words, English first, for extra anchors.

    Raises
    ------
    InputError: a file is missing or too short, or the lines of one are not those of ``data``.
    """
    lines, pair = _lines(settings, "data", language_of(study.name)), natural_pair(settings)
    beside = {
        name: _lines(settings, name) for name in ("syntax", "paraphrase") if settings.get(name)
    }
    if pair is not None:
        beside["pair"] = normal_texts(read_text(*pair[::-1]).sentences)
    for name, others in beside.items():
        if len(others) != len(lines):
            refuse(name, f"{len(lines)} lines, as data has", str(len(others)), "give each line")
    if "syntax" in beside:
        _check_reordered(lines, beside["syntax"])
    for name, others in beside.items():
        if name != "syntax":
            _check_other(lines, others, name)
    count = _words if "syntax" in beside else _between_spaces
    chosen = _candidates(lines, beside, count) if beside else None
    kept, rest = split_rows(lines, 0, _LENGTHS, chosen, "data", count)
    rest = _unseen(kept, rest, [lines, *beside.values()])
    texts = {
        f"{part}{side}": [mine[i] for i in rows]
        for side, mine in (("", lines), *((f"-{name}", one) for name, one in beside.items()))
        for part, rows in (("kept", kept), ("training", rest))
    }
    texts.pop("training-paraphrase", None)  # nothing is trained on it
    if settings.get("dictionary") and pair is not None:
        pairs = weighted_dictionary(settings["dictionary"]).pairs
        both, called = (texts["training"], texts["training-pair"]), str(settings["dictionary"])
        check_direction(pairs, ("eng", pair[0]), *both, name=called)
        lines_of = read_lines(settings["dictionary"])
        texts["dictionary"] = [line.strip() for line in lines_of if line.strip()]
    if settings.get("other") and pair is not None:
        found = _lines(settings, "other", pair[0])
        texts["training-other"] = _as_much(
            found, texts["training-pair"], [*texts["kept"], *texts["kept-pair"]]
        )
    if study.name == "deshpande-corpora":
        texts |= _corpora_texts(texts, _lines(settings, "other"), study)
        del texts["training"]
    if study.name == "conneau-anchors" and pair is None:
        for size in WORDS:
            words = _frequent(texts["training"], size)
            if len(words) < size:
                say(f"data has {len(words)} different words: extra-{size} has no more anchors")
            texts[f"identity-{size}"] = [f"{word}\t{word}" for word in words]
    return texts


def _as_much(lines: Sequence[str], like: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Lines sampled at random, none of them of the text itself or kept, until they have as many
    characters as the text."""
    apart = {*like, *kept}
    lines = [line for line in dict.fromkeys(lines) if line and line not in apart]
    lengths, room = np.array([len(line) for line in lines], int), sum(map(len, like))
    if (there := int(lengths.sum())) < room:
        expected = f"other lines than those of pair, of {room:,} characters together, as it has"
        refuse("other", expected, f"{there:,}", "give more text")
    return _cut(lines, lengths, room, np.random.default_rng([0, 0xCC]), "other")


def _check_reordered(lines: Sequence[str], others: Sequence[str]) -> None:
    """Refuse lines that are not the words of the data's in another order, as nothing else would tell
    what order is worth."""
    remedy = (
        "take both from one parse: derive --by identity --parser … gives data, --order-of … syntax"
    )
    for number, (line, other) in enumerate(zip(lines, others, strict=True), 1):
        if sorted(line.split()) != sorted(other.split()):
            got = f"line {number}, {quote(other)}, for {quote(line)}"
            refuse("syntax", "the words of each line of data in another order", got, remedy)
    if list(lines) == list(others):
        refuse("syntax", "words of data in another order", "data itself", remedy)


def _check_other(lines: Sequence[str], others: Sequence[str], name: str) -> None:
    """Refuse a text most of whose lines are those of the data."""
    same = sum(one == other for one, other in zip(lines, others, strict=True))
    if 2 * same > len(lines):
        got = f"{same:,} of {len(lines):,} lines as data has them"
        refuse(name, "lines in another language, or in other words", got, "check which file it is")


def _between_spaces(line: str) -> int:
    return len(line.split())


def _words(line: str) -> int:
    """The same without marks, which stand apart in texts that a parser has read: about as many words as
    the line had before."""
    return sum(any(letter.isalnum() for letter in word) for word in line.split())


def _candidates(
    lines: Sequence[str], beside: Mapping[str, Sequence[str]], count: Callable[[str], int]
) -> list[bool]:
    """Which lines may be kept: those whose other sides are short as well, and in another language or
    in other words where they are to be."""
    return [
        not any(_is_long(others[i], count) for others in beside.values())
        and not any(beside[name][i] == line for name in beside.keys() - {"syntax"})
        for i, line in enumerate(lines)
    ]


def _is_long(side: str, count: Callable[[str], int]) -> bool:
    unspaced = max(map(len, side.split()), default=0) > _LETTERS
    return count(side) > _LONGEST or unspaced


def _unseen(kept: Sequence[int], rest: Sequence[int], sides: Sequence[Sequence[str]]) -> list[int]:
    """The rows that are trained on: none has a sentence that is kept, in any language."""
    apart = {side[i] for side in sides for i in kept}
    found = [i for i in rest if not any(side[i] in apart for side in sides)]
    if left := len(rest) - len(found):
        say(f"{left} lines with a side that equals one of the kept sentences are not trained on")
    return found


def _lines(settings: Mapping[str, Any], name: str, language: str = "eng") -> list[str]:
    path = settings.get(name)
    if not path:
        refuse(name, "a file, a sentence per line", "none", f"add {name}=FILE")
    return normal_texts(read_text(path, language).sentences)


def _frequent(sentences: Sequence[str], n: int) -> list[str]:
    """The n most frequent words, of letters alone; equally frequent ones in their order."""
    words = collections.Counter(
        word for sentence in sentences for word in sentence.split() if word.isalpha()
    )
    return [word for word, _ in words.most_common(n)]


def _corpora_texts(
    texts: Mapping[str, list[str]], other: Sequence[str], study: ControlledStudy
) -> dict[str, list[str]]:
    """Two halves of the text, divided at random, and another source: as many tokens each, counted
    by the tokeniser of the first half; without what is in both texts."""
    lines, rng = texts["training"], np.random.default_rng([0, 0xC0])
    half = np.sort(rng.permutation(len(lines))[: len(lines) // 2])
    rest = np.setdiff1d(np.arange(len(lines)), half)
    here = {*texts["training"], *texts["kept"]}
    found = {
        "first": [lines[i] for i in half.tolist()],
        "second": [lines[i] for i in rest.tolist()],
        "other": [line for line in dict.fromkeys(other) if line not in here],
    }
    vocabulary = next(iter(study.conditions.values())).recipe.vocabulary
    tokenizer = train_tokenizer({"eng": found["first"]}, vocabulary, 0)
    lengths = {
        name: np.array(
            [len(one.ids) + 1 for one in tokenizer.encode_batch(mine, add_special_tokens=False)]
        )
        for name, mine in found.items()
    }
    room = min(int(lengths[name].sum()) for name in ("first", "second"))
    if (there := int(lengths["other"].sum())) < room:
        expected = f"lines that data lacks, of {room:,} tokens together, as half of data has"
        refuse("other", expected, f"{there:,}", "give more text, or fewer lines of data")
    return {
        name: _cut(mine, lengths[name], room, rng, "other" if name == "other" else "data")
        for name, mine in found.items()
    }


def _cut(
    lines: Sequence[str], lengths: np.ndarray, room: int, rng: np.random.Generator, name: str
) -> list[str]:
    """Lines sampled at random until they have ``room`` together, in their order; a text (``name``) of
    lines so long that they have much less is refused."""
    order = rng.permutation(len(lines))
    taken = order[np.cumsum(lengths[order]) <= room]
    if (filled := int(lengths[taken].sum())) < _FILLED * room:
        expected = f"whole lines that have {room:,} together, as the other texts have"
        got = f"lines so long that those which fit have {filled:,}"
        refuse(name, expected, got, "write one sentence on each line")
    return [lines[i] for i in np.sort(taken).tolist()]
