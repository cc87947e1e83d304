"""What encoders are called in scores and on pages."""

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["display_name", "encoder_names"]


def display_name(encoder: str) -> str:
    """The name an encoder goes by in scores and reports: the folder's own name, or the hub name.

    >>> display_name("org/model")
    'org/model'
    """
    name = Path(encoder).resolve().name if Path(encoder).is_dir() else encoder
    return os.fsencode(name).decode("utf-8", "replace")


def encoder_names(given: Sequence[str]) -> list[str]:
    """What encoders are called: by the folder, or the hub name; folders of one name by the folders
    that they are in, too.

    >>> encoder_names(["org/model", "org/other"])
    ['org/model', 'org/other']
    """
    names, depth = [display_name(one) for one in given], 1
    while len(set(names)) < len(names) and depth < max(
        len(Path(one).resolve().parts) for one in given
    ):
        depth += 1
        twice = {name for name in names if names.count(name) > 1}
        longer = ["/".join(Path(one).resolve().parts[-depth:]) for one in given]
        names = [
            long if name in twice and Path(one).is_dir() else name
            for one, name, long in zip(given, names, longer, strict=True)
        ]
    return names
