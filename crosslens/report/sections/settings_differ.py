"""In which settings the runs of a page differ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from crosslens.report.parts.wording import join
from crosslens.report.sections.probes_comparison import part_of

__all__ = ["settings_differ"]


def settings_differ(names: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each setting in which runs of these names differ."""
    settings = [_flat(part_of(config, "settings")) for config in configs]
    told = []
    for key in dict.fromkeys(key for some in settings for key in some):
        values = [
            json.dumps(some[key], ensure_ascii=False, default=str)
            if key in some
            else "not recorded"
            for some in settings
        ]
        if len(set(values)) > 1:
            told.append(
                f"{key} is "
                + join([f"{value} in {name}" for value, name in zip(values, names, strict=True)])
            )
    return [f"The runs differ in their settings: {one}." for one in told]


def _flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Settings, those inside others by both names; without what is read, which has digests."""
    found = dict[str, Any]()
    for key, value in settings.items():
        if above or key not in ("encoders", "files", "own"):
            inside = isinstance(value, dict) and value
            found |= _flat(value, f"{above}{key}.") if inside else {f"{above}{key}": value}
    return found
