"""Attachment scores of dependency trees, as three programs count them."""

import dataclasses
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from crosslens.errors import check_choice, refuse
from crosslens.probes.methods.counted import Counted

__all__ = ["PARSE_PRESETS", "SUBTYPED", "Tree", "count_attachments", "words_counted"]


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """A dependency tree over n words.

    Attributes
    ----------
    heads: n numbers of heads, from 1; 0 for the root. relations: n names.
    forms, upos: of gold trees, the words and their parts of speech.
    """

    heads: Sequence[int]
    relations: Sequence[str]
    forms: Sequence[str] = ()
    upos: Sequence[str] = ()


def _no_punctuation(tree: Tree) -> list[bool]:
    """Words that are neither punctuation nor symbols, by their part of speech."""
    return [tag not in ("PUNCT", "SYM") for tag in tree.upos]


def _no_punctuation_signs(tree: Tree) -> list[bool]:
    """Words that have a sign which Unicode does not call punctuation."""
    return [
        any(not unicodedata.category(sign).startswith("P") for sign in form) for form in tree.forms
    ]


def _every(tree: Tree) -> list[bool]:
    return [True] * len(tree.heads)


# which words count, and whether a relation counts without its subtype
_RULES: dict[str, tuple[Callable[[Tree], list[bool]], bool]] = {
    "wu_dredze": (_no_punctuation, True),
    "conll18": (_every, True),
    "supar": (_no_punctuation_signs, False),
}
PARSE_PRESETS = tuple(_RULES)
"""Names of all ways to count."""

SUBTYPED = tuple(name for name, (_, coarse) in _RULES.items() if not coarse)
"""Those by which a relation without its subtype is wrong."""


def words_counted(gold: Tree, preset: str = "wu_dredze") -> list[bool]:
    """Which words count (:func:`count_attachments`).

    >>> words_counted(Tree([2, 0], ["nsubj", "root"], ["He", "!"], ["PRON", "PUNCT"]))
    [True, False]
    """
    check_choice(preset, "preset", _RULES)
    return _RULES[preset][0](gold)


def count_attachments(
    gold: Sequence[Tree], predicted: Sequence[Tree], preset: str = "wu_dredze"
) -> tuple[Counted, Counted]:
    """Labelled and unlabelled attachment: words with the right head and relation, and words with the
    right head, sentence by sentence.

    Parameters
    ----------
    gold: with forms and parts of speech. predicted: trees over the same words.
    preset: "wu_dredze" leaves words out whose part of speech is PUNCT or SYM, and relations are
        equal up to their subtype (nsubj:pass is nsubj); "conll18" counts every word, relations
        likewise; "supar" leaves words out that are made of Unicode's punctuation alone, and
        subtypes count.

    Returns
    -------
    LAS, and UAS.

    Raises
    ------
    InputError: no such preset, or trees over other words.

    References
    ----------
    Wu & Dredze 2019, section 4.5, and their program; Zeman et al. 2018, CoNLL 2018 Shared Task; SuPar's
    metric. Words are those of the gold file: nothing has to be aligned.

    >>> gold = [Tree([2, 0, 2], ["nsubj:pass", "root", "punct"], ["He", "went", "."], ["PRON", "VERB", "PUNCT"])]
    >>> las, uas = count_attachments(gold, [Tree([2, 0, 1], ["nsubj", "root", "punct"])])
    >>> las.value, uas.value, [round(count_attachments(gold, gold[:1], name)[0].value, 2) for name in PARSE_PRESETS]
    (1.0, 1.0, [1.0, 1.0, 1.0])
    """
    check_choice(preset, "preset", _RULES)
    if [len(tree.heads) for tree in gold] != [len(tree.heads) for tree in predicted]:
        refuse("predicted", "a head for each word of gold", "others", "parse every sentence")
    counts, coarse = _RULES[preset]
    found = np.zeros((2, len(gold)))
    of = np.zeros(len(gold))
    for number, (mine, theirs) in enumerate(zip(gold, predicted, strict=True)):
        taken = counts(mine)
        of[number] = sum(taken)
        for word in (word for word, counted in enumerate(taken) if counted):
            head = mine.heads[word] == theirs.heads[word]
            names = [tree.relations[word] for tree in (mine, theirs)]
            if coarse:
                names = [name.split(":")[0] for name in names]
            found[0, number] += head and names[0] == names[1]
            found[1, number] += head
    return Counted("las", found[0], of, preset), Counted("uas", found[1], of, preset)
