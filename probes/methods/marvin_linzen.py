"""Minimal pairs of Marvin & Linzen (2018), Targeted Syntactic Evaluation of Language Models, from
grammar templates.

Subject-verb agreement and reflexive anaphora, the thirteen categories that Goldberg (2019) and
Artetxe, Ruder & Yogatama (2020, appendix D) put to masked language models. A template is a line of
words and slots: a slot in capitals takes every entry of the lexicon in turn, its digit says with
which other slots it agrees in number, every number is tried, and of the slot with a star the bad
sentence has the form of the other number.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from crosslens.errors import check_choice
from crosslens.readers.minimal_pairs import MARVIN_LINZEN_CATEGORIES, MinimalPair

__all__ = [
    "AGREEMENT",
    "GROUPS",
    "PUBLISHED_TOTALS",
    "REFLEXIVES",
    "RELEASES",
    "marvin_linzen_pairs",
]

_TEMPLATES = {
    "simple_agrmt": "the MS1 MV1*",
    "sent_comp": "the BS2 BV the MS1 MV1*",
    "vp_coord": "the MS1 MV1 and MV1*",
    "long_vp_coord": "the MS1 LMV1 and LMV1*",
    "prep_anim": "the MS1 P the ES2 MV1*",
    "prep_inanim": "the IS1 IP the ES2 IV1*",
    "subj_rel": "the MS1 that EV1 the ES2 MV1*",
    "obj_rel_across_anim": "the MS1 that the ES2 EV2 MV1*",
    "obj_rel_across_inanim": "the IS1 that the ES2 EV2 IV1*",
    "obj_rel_no_comp_across_anim": "the MS1 the ES2 EV2 MV1*",
    "obj_rel_no_comp_across_inanim": "the IS1 the ES2 EV2 IV1*",
    "obj_rel_within_anim": "the MS2 that the ES1 EV1* MV2",
    "obj_rel_within_inanim": "the IS2 that the ES1 EV1* IV2",
    "obj_rel_no_comp_within_anim": "the MS2 the ES1 EV1* MV2",
    "obj_rel_no_comp_within_inanim": "the IS2 the ES1 EV1* IV2",
    "simple_reflexives": "the MS1 RV SELF1*",
    "reflexive_sent_comp": "the BS2 BV the MS1 RV SELF1*",
    "reflexives_across": "the MS1 that the ES2 EV2 RV SELF1*",
}

# Entries are separated by commas. Nouns take -s; of other words the singular and the plural stand
# beside each other.
_NOUNS = {
    "MS": (
        "author, pilot, surgeon, farmer, manager, customer, officer, teacher, senator, consultant"
    ),
    "ES": (
        "guard, chef, architect, skater, dancer, minister, taxi driver, assistant, executive, "
        "parent"
    ),
    "IS": "movie, book, game, song, picture, painting, novel, poem, show",
    "BS": "mechanic, banker",
}
_WORDS = {
    "MV": (
        "laughs/laugh, swims/swim, smiles/smile, is/are tall, is/are old, is/are young, is/are "
        "short"
    ),
    "IV": (
        "is/are good, is/are bad, is/are new, is/are popular, is/are unpopular, brings/bring joy "
        "to people, interests/interest people"
    ),
    "EV": "likes/like, admires/admire, hates/hate, loves/love",
    "LMV": "knows/know many different foreign languages, likes/like to watch television shows, "
    "is/are twenty three years old, "
    "enjoys/enjoy playing tennis with colleagues, writes/write in a journal every day",
    "SELF": "himself/themselves, herself/themselves",
    "BV": "said, thought, knew",
    "RV": "hurt, injured, congratulated, embarrassed, disguised, hated, doubted",
    "P": "next to, behind, in front of, near, to the side of, across from",
    "IP": "from, by",
}

RELEASES = ("published", "revised")
"""The two lexicons. "published": that of the paper, whose totals are :data:`PUBLISHED_TOTALS`.
"revised": that of the files which the authors released later and which bert-syntax uses, in which
"security guard" is "guard" and there is no "television show"."""

AGREEMENT = tuple(dict.fromkeys(MARVIN_LINZEN_CATEGORIES.values()))[:10]
REFLEXIVES = tuple(dict.fromkeys(MARVIN_LINZEN_CATEGORIES.values()))[10:]
GROUPS: Mapping[str, tuple[str, ...]] = {
    "subject-verb agreement": AGREEMENT,
    "reflexive anaphora": REFLEXIVES,
}
"""The two groups of categories that Artetxe et al. (2020, table 11) average over."""

PUBLISHED_TOTALS: Mapping[str, int] = dict(
    zip(
        (*AGREEMENT, *REFLEXIVES),
        (140, 1680, 840, 400, 22400, 11200, 22400, 22400, 22400, 22400, 280, 3360, 22400),
        strict=True,
    )
)
"""Pairs in each category (Artetxe et al. 2020, table 10)."""


@dataclasses.dataclass(frozen=True)
class _Slot:
    """A place of a template: its entries, each (singular, plural); which number it agrees with;
    whether it makes the difference."""

    symbol: str
    entries: tuple[tuple[str, str], ...]
    number: str
    starred: bool


def marvin_linzen_pairs(release: str = "published") -> list[MinimalPair]:
    """All pairs, category by category in the order of the paper.

    Parameters
    ----------
    release: which lexicon, "published" or "revised"; see :data:`RELEASES`.

    Returns
    -------
    152,300 pairs ("published") or 147,260 ("revised"), no two of a category equal. Sentences are in
    lower case and without a full stop.

    Raises
    ------
    InputError: no such release.

    >>> pairs = marvin_linzen_pairs()
    >>> len(pairs), pairs[0].good, pairs[0].bad
    (152300, 'the author laughs', 'the author laugh')
    """
    check_choice(release, "release", RELEASES)
    lexicon = _lexicon(release)
    found = []
    for template, text in _TEMPLATES.items():
        for number, (good, bad) in enumerate(_expand(_slots(text, lexicon))):
            name = f"{template}/{number}"
            found.append(
                MinimalPair(
                    good, bad, MARVIN_LINZEN_CATEGORIES[template], name, f"Marvin & Linzen {name}"
                )
            )
    return found


def _lexicon(release: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Symbol to its entries, each (singular, plural)."""
    nouns = dict(_NOUNS)
    if release == "published":
        nouns["ES"] = nouns["ES"].replace("guard", "security guard")
        nouns["IS"] += ", television show"
    entries = {
        symbol: tuple((noun, f"{noun}s") for noun in text.split(", "))
        for symbol, text in nouns.items()
    }
    return entries | {
        symbol: tuple(_both(entry) for entry in text.split(", ")) for symbol, text in _WORDS.items()
    }


def _both(entry: str) -> tuple[str, str]:
    """Singular and plural of an entry such as "is/are tall"; what has one form is the same in
    both."""
    first, *rest = entry.split(" ")
    forms = first.split("/")
    return " ".join([forms[0], *rest]), " ".join([forms[-1], *rest])


def _slots(text: str, lexicon: Mapping[str, tuple[tuple[str, str], ...]]) -> list[_Slot]:
    slots = []
    for word in text.split():
        starred = word.endswith("*")
        symbol = word.rstrip("*12")
        entries = lexicon[symbol] if symbol.isupper() else ((word, word),)
        slots.append(_Slot(symbol, entries, word.removesuffix("*").removeprefix(symbol), starred))
    return slots


def _expand(slots: Sequence[_Slot]) -> Iterator[tuple[str, str]]:
    """Every pair of a template: all numbers and all entries, but two slots of one symbol
    (coordinated verbs) take different ones."""
    slotted = [i for i, slot in enumerate(slots) if slot.symbol.isupper()]
    alike = [
        (i, j) for i, j in itertools.combinations(slotted, 2) if slots[i].symbol == slots[j].symbol
    ]
    numbers = sorted({slot.number for slot in slots} - {""})
    for plurals in itertools.product((0, 1), repeat=len(numbers)):
        plural = dict(zip(numbers, plurals, strict=True)) | {"": 0}
        forms = [(plural[slot.number], plural[slot.number] ^ slot.starred) for slot in slots]
        for chosen in itertools.product(*(slot.entries for slot in slots)):
            if all(chosen[i] != chosen[j] for i, j in alike):
                good = " ".join(
                    [entry[form] for entry, (form, _) in zip(chosen, forms, strict=True)]
                )
                yield (
                    good,
                    " ".join([entry[form] for entry, (_, form) in zip(chosen, forms, strict=True)]),
                )
