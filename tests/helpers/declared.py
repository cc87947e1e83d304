"""Whether runs keep what they declare."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from crosslens.evidence import Evidence
from crosslens.score import Score

__all__ = ["misdeclared"]

_NAMES = {field.name for field in dataclasses.fields(Evidence)}


def misdeclared(scores: Iterable[Score]) -> list[tuple[str | None, str, Any]]:
    """Entries of ``details`` that are of another kind than :class:`Evidence` declares: task, name,
    value."""
    return [
        (score.task, name, value)
        for score in scores
        for name, value in (score.details or {}).items()
        if name in _NAMES and value is not None and getattr(score.evidence, name) is None
    ]
