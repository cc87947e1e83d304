"""The transformations by their names, and what a derived language is called."""

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping

from crosslens.derive.composition import Composition
from crosslens.derive.markers import FullReversal, NoReversal, PartialReversal, TokenHop, WordHop
from crosslens.derive.reorderings import (
    DeterministicShuffle,
    EvenOdd,
    Identity,
    Inversion,
    LimitedPermutation,
    LocalShuffle,
    Permutation,
)
from crosslens.derive.transformation import Transformation
from crosslens.derive.transliteration import SubwordTransliteration, Transliteration
from crosslens.errors import InputError, quote, refuse
from crosslens.languages import derivation

__all__ = ["TRANSFORMATIONS", "Entry", "derived_code", "transformation"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A transformation as lists show it.

    Attributes
    ----------
    make: its setting, "" where there is none -> the transformation.
    says: what it does, in one sentence.
    setting: what may stand behind a colon; "" where nothing may.
    paper: where it is from.

    >>> TRANSFORMATIONS["even-odd"].paper
    'Kallini et al. 2024'
    """

    make: Callable[[str], Transformation]
    says: str
    setting: str = ""
    paper: str = "Kallini et al. 2024"


def _alone(kind: Callable[[], Transformation]) -> Callable[[str], Transformation]:
    """A transformation without settings."""

    def make(setting: str) -> Transformation:
        if setting:
            refuse("setting", "none", quote(setting), "leave the colon out")
        return kind()

    return make


def _numbered(kind: Callable[..., Transformation]) -> Callable[[str], Transformation]:
    """A transformation with a whole number that may be left out."""

    def make(setting: str) -> Transformation:
        return kind(_whole(setting)) if setting else kind()

    return make


def _whole(setting: str) -> int:
    if not (setting.isascii() and setting.isdecimal() and len(setting) < 10):
        refuse("setting", "a whole number", quote(setting), "write digits behind the colon")
    return int(setting)


def _marked(kind: Callable[..., Transformation]) -> Callable[[str], Transformation]:
    """A reversal, with its marker where another is given."""
    return lambda setting: kind(setting) if setting else kind()


def _permutation(setting: str) -> Transformation:
    if setting not in ("", "epoch"):
        refuse("setting", "epoch, or none", quote(setting), "write permutation:epoch")
    return Permutation(per_epoch=bool(setting))


def _transliteration(setting: str) -> Transformation:
    if setting[:1].isdecimal():
        size, _, kept = setting.partition(",")
        if not kept:
            return SubwordTransliteration(_whole(size))
        return SubwordTransliteration(_whole(size), tuple(map(_whole, kept.split("-"))))
    return Transliteration(*setting.split("-", 1)) if setting else Transliteration()


_DESHPANDE = "Deshpande et al. 2022"
TRANSFORMATIONS: Mapping[str, Entry] = {
    "identity": Entry(_alone(Identity), "the sentence as it is", paper=""),
    "inversion": Entry(_alone(Inversion), "the last word first", paper=_DESHPANDE),
    "permutation": Entry(
        _permutation,
        "an order of its own for each sentence (the nondeterministic shuffle of Kallini et al.)",
        "epoch: drawn anew in each pass over the text",
        f"{_DESHPANDE}; Kallini et al. 2024",
    ),
    "limited-permutation": Entry(
        _numbered(LimitedPermutation),
        "an order of its own for each sentence, in which no word goes far",
        "places that a word may go at most, 3 without it",
        "Lample et al. 2018",
    ),
    "transliteration": Entry(
        _transliteration,
        "the same words in other letters, or the same subwords by other numbers",
        "a script (cyrillic, greek, armenian, georgian; greek-cyrillic: these two), "
        "or the size of a vocabulary",
        _DESHPANDE,
    ),
    "deterministic-shuffle": Entry(
        _alone(DeterministicShuffle), "one order for all sentences of the same length"
    ),
    "local-shuffle": Entry(
        _numbered(LocalShuffle),
        "words are shuffled within windows, by the same order in each",
        "words in a window, 5 without it",
    ),
    "even-odd": Entry(_alone(EvenOdd), "words at even places first, then those at odd ones"),
    "no-reversal": Entry(
        _marked(NoReversal), "a marker at a place that is drawn: a control", "another marker"
    ),
    "partial-reversal": Entry(
        _marked(PartialReversal),
        "a marker at a place that is drawn, and what follows it turned round",
        "another marker",
    ),
    "full-reversal": Entry(
        _marked(FullReversal),
        "a marker at a place that is drawn, then all of the sentence turned round",
        "another marker",
    ),
    "token-hop": Entry(
        _numbered(TokenHop),
        "the number of a verb as a marker four tokens behind it (needs a treebank)",
        "tokens between them; 0 is the control",
    ),
    "word-hop": Entry(
        _numbered(WordHop),
        "the number of a verb as a marker four words behind it (needs a treebank)",
        "words between them",
    ),
}
"""Name -> what it is. Those that need a model of word order or a dictionary are made in Python, or
by options of the command line."""


def transformation(text: str | Transformation) -> Transformation:
    """A transformation by its text form: a name, with ``:`` and a setting where it has one, and
    ``+`` between those of a composition, of which the last is applied first.

    Raises
    ------
    InputError: no such name (with what may have been meant) or setting, or a composition that is
        not defined.

    >>> transformation("local-shuffle:3")
    LocalShuffle(window=3)
    >>> transformation("transliteration:greek+inversion").name
    'transliteration:greek+inversion'
    >>> transformation("invertion")
    Traceback (most recent call last):
    ...
    crosslens.errors.InputError: transformation: expected one of `crosslens list transformations`, got 'invertion'; did you mean inversion?
    """
    if isinstance(text, Transformation):
        return text
    if not isinstance(text, str):
        remedy = "see `crosslens list transformations`"
        refuse("transformation", "a name or a transformation", quote(text), remedy)
    parts = [_one(part, text) for part in text.split("+")]
    return parts[0] if len(parts) == 1 else Composition(tuple(parts))


def _one(text: str, whole: str) -> Transformation:
    name, _, setting = text.strip().partition(":")
    entry = TRANSFORMATIONS.get(name)
    if entry is None:
        close = difflib.get_close_matches(name, TRANSFORMATIONS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose among {_names()}"
        expected = "one of `crosslens list transformations`"
        refuse("transformation", expected, quote(name), remedy)
    if setting and not entry.setting:
        refuse("transformation", f"{name} without a setting", quote(text), "leave the colon out")
    try:
        return entry.make(setting)
    except InputError as error:
        raise InputError(f"transformation {quote(whole)}: {error}") from None


def _names() -> str:
    return ", ".join(TRANSFORMATIONS)


def derived_code(language: str, how: str | Transformation) -> str:
    """The code of a derived language: the language's, and each transformation behind a hyphen.

    It has letters, digits and hyphens alone, so it can name files and stand in front of ``=``:
    other characters of a name are left out if they divide it (``-``, ``:``, ``,``), and are their
    numbers otherwise. A transformation of a user's own has ``own`` before its name, by which its
    language is known to be derived.

    Raises
    ------
    InputError: a setting of which nothing would be in the code.

    >>> derived_code("eng", "inversion"), derived_code("eng", "transliteration:greek+local-shuffle:3")
    ('eng-inversion', 'eng-transliterationgreek-localshuffle3')
    >>> derived_code("eng", "partial-reversal:★")
    'eng-partialreversalu2605'
    """
    made = transformation(how)
    parts = made.parts if isinstance(made, Composition) else (made,)
    return "-".join([language, *map(_subtag, parts)])


def _subtag(part: Transformation) -> str:
    """What the code of a derived language has of one transformation."""
    name, colon, setting = part.name.partition(":")
    told = _spelt(setting)
    if colon and not told:
        expected = f"a setting of {name} with a letter, a digit or a sign of its own"
        refuse("transformation", expected, quote(setting), "choose another marker, X say")
    code = _spelt(name) + told
    return code if derivation(code) else f"own{code}"


def _spelt(text: str) -> str:
    """A text in letters and digits of ASCII."""
    kept = re.sub(r"[-:,_.\s]", "", text)
    return re.sub(r"[^A-Za-z0-9]", lambda sign: f"u{ord(sign[0]):x}", kept)
