"""Exact match and F1 of answers in words of the text, by two definitions.

    squad   lower case; ASCII punctuation and the words a, an, the are left out; tokens stand between
            white space, whatever the language (Rajpurkar et al. 2016, evaluation of version 1.1)
    mlqa    lower case; every Unicode punctuation character and ASCII's are left out, and the
            language's own articles; in Chinese each character from U+4E00 to U+9FA5 is a token
            (Lewis et al. 2020, evaluation of version 1.0)

MLQA's program leaves out ``ال`` wherever it stands in Arabic, inside of words, too: its pattern for
the article alone never matches. So does this. It knows seven languages.
"""

import collections
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from crosslens.errors import check_choice, refuse
from crosslens.languages import same_language
from crosslens.probes.methods.counted import Counted

__all__ = ["ANSWER_PRESETS", "answer_presets", "answer_tokens", "count_answers"]

ANSWER_PRESETS = ("squad", "mlqa")
"""The definitions."""

_ARTICLES: Mapping[str, Sequence[str]] = {  # MLQA's languages
    "en": ("a", "an", "the"),
    "es": ("un", "una", "unos", "unas", "el", "la", "los", "las"),
    "hi": (),
    "vi": ("của", "là", "cái", "chiếc", "những"),
    "de": (
        *("ein", "eine", "einen", "einem", "eines", "einer"),
        *("der", "die", "das", "den", "dem", "des"),
    ),
    "ar": (),
    "zh": (),
}
_IDEOGRAPH = re.compile("[\u4e00-\u9fa5]")


def answer_presets(language: str) -> tuple[str, ...]:
    """The definitions that hold for a language.

    >>> answer_presets("deu"), answer_presets("fra")
    (('squad', 'mlqa'), ('squad',))
    """
    known = any(same_language(language, name) for name in _ARTICLES)
    return ANSWER_PRESETS if known else ANSWER_PRESETS[:1]


def answer_tokens(text: str, language: str, preset: str = "squad") -> list[str]:
    """The tokens of an answer that are compared.

    Parameters
    ----------
    language: a code of any kind; "squad" does not look at it.
    preset: one of :data:`ANSWER_PRESETS`.

    Raises
    ------
    InputError: no such preset, or a language that "mlqa" does not know.

    >>> answer_tokens("The “Great” Wall.", "eng"), answer_tokens("The “Great” Wall.", "eng", "mlqa")
    (['“great”', 'wall'], ['great', 'wall'])
    >>> answer_tokens("24 次", "zho"), answer_tokens("第24次", "zho", "mlqa")
    (['24', '次'], ['第', '24', '次'])
    """
    check_choice(preset, "preset", ANSWER_PRESETS)
    text = text.lower()
    if preset == "squad":
        plain = "".join(char for char in text if char not in string.punctuation)
        return _without(plain, _ARTICLES["en"]).split()
    known = next((name for name in _ARTICLES if same_language(language, name)), None)
    if known is None:
        expected = f"one of MLQA's languages ({', '.join(_ARTICLES)})"
        refuse("language", expected, repr(language), 'count by the preset "squad"')
    plain = "".join(char for char in text if not _is_punctuation(char))
    plain = plain.replace("ال", " ") if known == "ar" else _without(plain, _ARTICLES[known])
    return (_IDEOGRAPH.sub(r" \g<0> ", plain) if known == "zh" else plain).split()


def _without(text: str, words: Sequence[str]) -> str:
    return re.sub(rf"\b({'|'.join(words)})\b", " ", text) if words else text


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")


def count_answers(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], language: str, preset: str = "squad"
) -> list[Counted]:
    """F1 and exact match of each answer, the best over the gold answers of its question.

    F1 is the harmonic mean of precision and recall of tokens, counted as often as they occur: with
    c tokens in common of p predicted and g gold ones 2 c / (p + g), and 0 where c is 0, even if
    nothing is left of both. An answer matches exactly if its tokens are those of a gold answer.

    Parameters
    ----------
    gold: for each of n questions its gold answers, at least one. predicted: n answers.
    language, preset: as :func:`answer_tokens` has them.

    Returns
    -------
    ``answer_f1`` and ``exact_match``, from 0 to 1 in each item; higher is better.

    Raises
    ------
    InputError: different numbers of questions, one without a gold answer, no such preset or
        language.

    >>> f1, exact = count_answers([["the blue car", "car"], ["Rome"]], ["A car!", "in Rome"], "eng")
    >>> f1.found.round(3).tolist(), exact.found.tolist(), exact.value
    ([1.0, 0.667], [1.0, 0.0], 0.5)
    """
    if len(gold) != len(predicted):
        refuse("predicted", f"{len(gold)} answers", str(len(predicted)), "answer every question")
    f1, exact = np.zeros(len(gold)), np.zeros(len(gold))
    for item, (answers, given) in enumerate(zip(gold, predicted, strict=True)):
        if not answers:
            refuse("gold", "an answer to each question", f"none to {item}", "leave it out")
        mine = answer_tokens(given, language, preset)
        theirs = [answer_tokens(answer, language, preset) for answer in answers]
        f1[item] = max(_f1(mine, tokens) for tokens in theirs)
        exact[item] = mine in theirs
    ones = np.ones(len(gold))
    return [Counted("answer_f1", f1, ones, preset), Counted("exact_match", exact, ones, preset)]


def _f1(mine: Sequence[str], theirs: Sequence[str]) -> float:
    common = (collections.Counter(mine) & collections.Counter(theirs)).total()
    return 2 * common / (len(mine) + len(theirs)) if common else 0.0
