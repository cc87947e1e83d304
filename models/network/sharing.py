"""Which parts of a model the languages share, and which each language owns.

A plan is a short text:

    ""  or  "sep=none"     everything is shared
    "sep=emb"              each language has its own embeddings (tokens, positions, segments) and
                           output softmax
    "sep=1-3"              each has its own layers 1 to 3
    "sep=emb,1-6"          both
    "sep=token,adapters"   its own token embeddings (with the softmax that is tied to them), and
                           adapters in every layer
    "sep=all"              nothing is shared: one monolingual model per language

Parts are named as in :data:`PARTS`; layers are numbered from 1. :data:`SYSTEMS` holds the systems
of Conneau et al. 2020, Table 1: a plan with the vocabulary that goes with it.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from crosslens.errors import refuse

__all__ = ["PARTS", "SYSTEMS", "SharingPlan", "System", "resolve_system"]

# and the layers, "1", "2", ...
PARTS = ("token", "position", "segment", "norm", "adapters", "transform", "softmax", "bias")
_EMBEDDINGS = ("token", "position", "segment", "softmax", "bias")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclasses.dataclass(frozen=True)
class SharingPlan:
    """The parts that each language owns; all others are shared.

    Attributes
    ----------
    separate: names of parts (:data:`PARTS`) and numbers of layers, as text.
    layers: number of transformer layers of the model that the plan is for.

    >>> plan = SharingPlan.parse("sep=emb,1-3", layers=8)
    >>> str(plan), plan.owned("3"), plan.owned("4"), plan.owned("softmax")
    ('sep=emb,1-3', True, False, True)
    """

    separate: frozenset[str]
    layers: int

    @classmethod
    def parse(cls, text: str, layers: int, *, tied: bool = True) -> "SharingPlan":
        """Read a plan's text, or the name of a system.

        Parameters
        ----------
        layers: number of transformer layers.
        tied: the output softmax is the token embedding: one cannot be owned without the other.

        Raises
        ------
        InputError: an unknown part, a layer that does not exist, or tied parts that are pulled
            apart.
        """
        plan = SYSTEMS[text].plan if text in SYSTEMS else text
        body = plan.removeprefix("sep=")
        if plan and body == plan:
            known = f'"sep=" and parts, or one of {", ".join(SYSTEMS)}'
            refuse("sharing", known, repr(text), 'write "sep=emb,1-3" for example')
        separate: set[str] = set()
        for name in filter(None, (part.strip() for part in body.split(","))):
            separate |= set(_named(name, layers))
        if tied and ("token" in separate) != ("softmax" in separate):
            if "softmax" in separate:
                expected = "a softmax that goes with the token embeddings (they are tied)"
                refuse("sharing", expected, text, "add token, or set encoder.tied=false")
            separate |= {"softmax", "bias"}
        return cls(frozenset(separate), layers)

    def owned(self, part: str) -> bool:
        """Whether each language owns this part."""
        return part in self.separate

    def __str__(self) -> str:
        if not self.separate:
            return "sep=none"
        if self.separate == frozenset(_named("all", self.layers)):
            return "sep=all"
        rest = set(self.separate)
        names = []
        if rest >= set(_EMBEDDINGS):
            names, rest = ["emb"], rest - set(_EMBEDDINGS)
        names += [part for part in PARTS if part in rest]
        return "sep=" + ",".join(names + _ranges(int(part) for part in rest if part.isdigit()))


def _named(name: str, layers: int) -> Iterable[str]:
    """The parts that one word of a plan stands for."""
    if name == "none":
        return ()
    if name == "all":
        return (*PARTS, *map(str, range(1, layers + 1)))
    if name == "emb":
        return _EMBEDDINGS
    if name in PARTS:
        return (name,)
    match = _RANGE.fullmatch(name)
    if not match:
        expected = f"emb, all, none, {', '.join(PARTS)}, a layer or a range of layers"
        refuse("sharing", expected, repr(name), "check the spelling")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= layers:
        remedy = "name layers that exist, the lower one first"
        refuse("sharing", f"layers from 1 to {layers}", name, remedy)
    return tuple(map(str, range(first, last + 1)))


def _ranges(numbers: Iterable[int]) -> list[str]:
    """Whole numbers as ranges: 1, 2, 3, 5 -> "1-3", "5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(a) if a == b else f"{a}-{b}" for a, b in runs]


@dataclasses.dataclass(frozen=True)
class System:
    """A named system: a plan, and the vocabulary and masking that go with it.

    Attributes
    ----------
    plan: text of the plan.
    vocabulary: mode of the vocabulary (:class:`crosslens.models.text.tokenisation.Vocabulary`).
    scope: where random replacements come from (:class:`crosslens.models.training.masking.Masking`).
    """

    plan: str
    vocabulary: str
    scope: str = "all"


SYSTEMS: Mapping[str, System] = {
    "default": System("", "joint"),
    "no-anchors": System("", "disjoint"),
    "default-anchors": System("", "union"),
    "sep-emb": System("sep=emb", "separate", "language"),
    "sep-1-3": System("sep=1-3", "union"),
    "sep-1-6": System("sep=1-6", "union"),
    "sep-emb-1-3": System("sep=emb,1-3", "separate", "language"),
    "sep-emb-1-6": System("sep=emb,1-6", "separate", "language"),
    "monolingual": System("sep=all", "separate", "language"),
}


def resolve_system(sharing: str, vocabulary: str, scope: str) -> tuple[str, str, str]:
    """Plan, vocabulary mode and masking scope that a recipe's ``sharing`` stands for; a named
    system brings its own.

    Raises
    ------
    InputError: another mode or scope than the system's is asked for, which is not the default.

    >>> resolve_system("no-anchors", "joint", "all")
    ('', 'disjoint', 'all')
    """
    if sharing in SYSTEMS:
        system = SYSTEMS[sharing]
        for name, asked, own, default in (
            ("vocabulary.mode", vocabulary, system.vocabulary, "joint"),
            ("masking.scope", scope, system.scope, "all"),
        ):
            if asked not in (own, default):
                remedy = (
                    f'leave it out, or write the plan itself: sharing="{system.plan or "sep=none"}"'
                )
                refuse(name, f"{own}, which sharing={sharing} brings", asked, remedy)
        return system.plan, system.vocabulary, system.scope
    return sharing, vocabulary, scope
