"""The words that a plain text is derived by, and where its sentences end."""

import functools
import itertools
import re
import unicodedata
from collections.abc import Sequence

__all__ = ["punctuation_spans", "sentence_bounds"]

_RUN = re.compile(r"\S+")
_ENDS = frozenset(".!?…。！？।॥؟۔։")
_CLOSING = frozenset("\"'”’»)]}」』〉》")
_OPENING = frozenset("\"'“‘„‚«»([{「『〈《¿¡")
# words of English whose full stop ends no sentence
_SHORT = frozenset(
    "Mr Mrs Ms Dr Prof St Jr Sr vs etc Inc Ltd Co Corp No Gen Col Sen Rep Gov".split()
)


# a character with what belongs to it: a flag's other half, variation selectors, a keycap, skin tones,
# tags, and emoji that are joined to it
_CHARACTER = re.compile(
    "(?:[\U0001f1e6-\U0001f1ff]{2}|.)"
    "(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
    "|\u200d[\u2190-\u2bff\U0001f000-\U0001faff])*"
)


@functools.lru_cache(maxsize=1 << 16)
def _pieces(run: str) -> tuple[tuple[int, int], ...]:
    """The words within a run without white space: marks at its ends are words of their own, equal
    ones side by side one word."""
    signs = [found.span() for found in _CHARACTER.finditer(run)]
    first, last = 0, len(signs)
    while first < last and unicodedata.category(run[signs[first][0]])[0] in "PS":
        first += 1
    while last > first and unicodedata.category(run[signs[last - 1][0]])[0] in "PS":
        last -= 1
    found = _marks(run, signs[:first])
    found += [(signs[first][0], signs[last - 1][1])] if first < last else []
    return tuple(found + _marks(run, signs[last:]))


def _marks(run: str, signs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found, before = list[tuple[int, int]](), ""
    for start, end in signs:
        if found and run[start:end] == before:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
        before = run[start:end]
    return found


def punctuation_spans(text: str) -> list[tuple[int, int]]:
    """Spans of the words between white space, without the marks at their ends, which are words of
    their own.

    What is inside a word stays: "don't", "3.5" and "mid-1990s" are one word each, and so is an emoji
    of several characters.

    >>> text = 'He said: "Go, don\\'t wait..."'
    >>> [text[start:end] for start, end in punctuation_spans(text)]
    ['He', 'said', ':', '"', 'Go', ',', "don't", 'wait', '...', '"']
    """
    return [
        (run.start() + start, run.start() + end)
        for run in _RUN.finditer(text)
        for start, end in _pieces(run.group())
    ]


def sentence_bounds(words: Sequence[str]) -> list[tuple[int, int]]:
    """The sentences of a line of words, as (first word, word behind the last).

    A sentence ends with ``.``, ``!``, ``?`` or their like in other scripts, and the quotes and
    brackets that are closed behind it, where the next word begins as a sentence does (no small
    letter, no comma), unless the full stop is that of an initial ("J."), of a word with another one
    in it ("e.g.") or of one of a few English abbreviations ("Mr."). Others are not known. Every
    second straight double quote of a line closes what the one before it opened.

    >>> words = "Mr . Fox ate . “ Good ! ” he said .".split()
    >>> [" ".join(words[start:end]) for start, end in sentence_bounds(words)]
    ['Mr . Fox ate .', '“ Good ! ” he said .']
    """
    bounds, start, place, n = list[tuple[int, int]](), 0, 0, len(words)
    quotes = [0, *itertools.accumulate(word == '"' for word in words)]
    while place < n:
        word = words[place]
        place += 1
        if word[-1] not in _ENDS and not (word[-1] in _CLOSING and _closes(word)):
            continue
        if _abbreviated(words, place - 1):
            continue
        while place < n and _closes_behind(words[place], quotes[place]):
            place += 1
        if place < n and _begins(words[place]):
            bounds.append((start, place))
            start = place
    return [*bounds, (start, n)] if start < n else bounds


def _closes(word: str) -> bool:
    """Whether a word of white space ends a sentence within its quotes or brackets."""
    return word.rstrip("".join(_CLOSING))[-1:] in {*_ENDS}


def _closes_behind(word: str, quotes: int) -> bool:
    """Whether a quote or bracket is closed; a straight quote is where one is open in the line, by
    how many stand before it."""
    return word in _CLOSING and (word != '"' or quotes % 2 == 1)


def _begins(word: str) -> bool:
    """Whether a sentence may begin with a word."""
    kind = unicodedata.category(word[0])
    return kind in ("Lu", "Lt", "Lo", "Lm") or kind[0] == "N" or word[0] in _OPENING


def _abbreviated(words: Sequence[str], place: int) -> bool:
    """Whether a full stop belongs to an initial or a title, in this word or as this word."""
    word = words[place]
    if word[-1:] != "." or word.endswith(".."):
        return False
    before = word[:-1] or (words[place - 1] if place else "")
    return before in _SHORT or "." in before or len(before) == 1 and before.isupper()
