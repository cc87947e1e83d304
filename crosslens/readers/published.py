"""The numbers that the four papers print, to stand beside one's own, and what a paper claims of the
conditions of a study.

``crosslens/data/published/PAPER.tsv`` has them as printed, in per cent where the paper has per cent.
"""

import csv
import dataclasses
import functools
import itertools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from crosslens.errors import check_choice

__all__ = ["PAPERS", "Claim", "Published", "claims", "ordered_pairs", "published"]

_FOLDER = Path(__file__).parent.parent / "data" / "published"
PAPERS = {
    "wu_dredze": "Wu & Dredze 2019",
    "conneau": "Conneau et al. 2020",
    "artetxe": "Artetxe et al. 2020",
    "deshpande": "Deshpande et al. 2022",
}
"""Key -> what the paper is called in a text."""
_EXTRA_ANCHORS = "Extra anchors"  # as Conneau et al. 2020, Table 1
_FROZEN = {("artetxe", "Table 4"), ("artetxe", "Table 10"), ("artetxe", "Table 11")}


@dataclasses.dataclass(frozen=True)
class Published:
    """One number of a paper.

    Attributes
    ----------
    paper: key of :data:`PAPERS`. table: the paper's own, "Table 4" say.
    system: what was measured, as the paper names it.
    task: of the catalogue, where it has the paper's.
    language: ISO 639-3; "mean" for the mean that is printed, "mean of …" for one over fewer. Of
        Artetxe et al.'s Tables 4, 10 and 11 it is that of the model before it came to English,
        in which all of it is tested.
    metric: quantity of :data:`crosslens.score.QUANTITIES`, where it has the paper's; "covered": how
        many minimal pairs were. Deshpande et al.'s parts of speech are F1 as XTREME counts it.
    value: as printed.
    """

    paper: str
    table: str
    system: str
    task: str
    language: str
    metric: str
    value: float

    @property
    def frozen(self) -> bool:
        """Whether the encoder stands still, and is probed or asked itself; others are fine-tuned."""
        return (self.paper, self.table) in _FROZEN


def published(
    *,
    paper: str | None = None,
    task: str | None = None,
    language: str | None = None,
    metric: str | None = None,
) -> list[Published]:
    """The numbers of a paper, a task, a language or a metric, in the papers' order; None for any.

    Raises
    ------
    InputError: no such paper.

    >>> [found] = published(paper="conneau", task="parsing", language="cmn", metric="las")[:1]
    >>> found.system, found.value
    ('Default', 28.8)
    """
    check_choice(paper, "paper", (*PAPERS, None))
    wanted = {"paper": paper, "task": task, "language": language, "metric": metric}
    return [
        one
        for one in _all()
        if all(value is None or getattr(one, name) == value for name, value in wanted.items())
    ]


@functools.cache
def _all() -> tuple[Published, ...]:
    found = []
    for paper in PAPERS:
        with (_FOLDER / f"{paper}.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                found.append(Published(paper, **{**row, "value": float(row["value"])}))  # type: ignore[arg-type]
    return tuple(found)


def ordered_pairs(
    order: Sequence[Sequence[str]], measured: Collection[str]
) -> list[tuple[str, str]]:
    """All pairs of measured conditions of which an order of groups puts the first above the second.

    >>> ordered_pairs([["a"], ["b", "c"], ["d"]], ["a", "c", "d"])
    [('a', 'c'), ('a', 'd'), ('c', 'd')]
    """
    groups = [[name for name in group if name in measured] for group in order]
    return [
        (better, worse)
        for upper, lower in itertools.combinations(groups, 2)
        for better in upper
        for worse in lower
    ]


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a paper says of conditions: that one, or the difference of two, is above another.

    Attributes
    ----------
    higher, lower: a condition, or a difference, "default - sep-emb".
    weights: of each condition in the higher less the lower.
    """

    higher: str
    lower: str
    weights: Mapping[str, float]


def claims(
    order: Sequence[Sequence[str]],
    published: Mapping[str, str],
    control: str,
    measured: Collection[str],
) -> list[Claim]:
    """What a paper says of the measured conditions of a study: its order, and, of Extra anchors that
    have no place in it, that they help, though less than sharing does (Conneau et al. 2020, Table 1).

    Parameters
    ----------
    order: groups of conditions, from the best to the worst.
    published: condition -> what the paper calls it. control: the condition that shares everything.
    measured: conditions; a claim of others is left out.

    >>> found = claims([["all"], ["part"]], {"more": "Extra anchors"}, "all", ["all", "part", "more"])
    >>> [f"{one.higher} > {one.lower}" for one in found]
    ['all > part', 'more > all', 'all - part > more - all']
    """
    pairs = ordered_pairs(order, measured)
    found = [Claim(better, worse, {better: 1.0, worse: -1.0}) for better, worse in pairs]
    placed = {name for group in order for name in group}
    for extra in measured:
        if published.get(extra) != _EXTRA_ANCHORS or extra in placed or control not in measured:
            continue
        found.append(Claim(extra, control, {extra: 1.0, control: -1.0}))
        found += [
            Claim(
                f"{control} - {worse}",
                f"{extra} - {control}",
                {control: 2.0, worse: -1.0, extra: -1.0},
            )
            for better, worse in pairs
            if better == control
        ]
    return found
