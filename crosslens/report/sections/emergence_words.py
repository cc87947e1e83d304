"""What the sections on an emergence run draw and say alike: its conditions, directions and tokens."""

import dataclasses
from collections.abc import Sequence

from crosslens.report.folders.emergence import CONDITIONS, Emergence
from crosslens.report.parts.drawing import series_style
from crosslens.report.parts.layout import legend
from crosslens.report.parts.wording import decimal, language
from crosslens.report.sections.training_words import CHANCE

__all__ = ["STYLES", "ends", "key", "tokens_of", "way_of"]

STYLES = {
    name: dataclasses.replace(series_style(place), band=True)
    for place, name in enumerate(CONDITIONS)
}


def way_of(direction: str) -> str:
    """A direction with its languages by name."""
    return " → ".join(map(language, direction.split(">")))


def tokens_of(count: float) -> str:
    """A number of tokens."""
    return f"{count / 1e6:.1f} million tokens" if count >= 1e6 else f"{count:,.0f} tokens"


def ends(finite: Sequence[float]) -> str:
    """The first and the last of some numbers."""
    return f"{decimal(finite[0], 2)} to {decimal(finite[-1], 2)}" if finite else "no numbers"


def key(run: Emergence, extra: Sequence[str] = (), *, band: bool = True) -> str:
    """The legend of the conditions, and of what else is drawn as chance is."""
    entries = [
        (dataclasses.replace(STYLES[c.name], band=band), f"{c.name}: {CONDITIONS[c.name]}")
        for c in run.conditions
    ]
    return legend(entries + [(CHANCE, words) for words in extra], sticky=False)
