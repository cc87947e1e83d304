"""Derived languages in transfer: what an encoder knows of them, or is told, and the items of the
original as their items.

    encoder's folder, --derived -> readings -> the original's splits, read so

With these, a zero-shot score on the derived language is BZ of Deshpande et al. 2022, that of the
training in the language BS, and that of an encoder of the original alone MZ.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.models.saved.derived_languages import (
    DerivedLanguage,
    derived_languages,
    own_languages,
)
from crosslens.run.transfer.data import TaskData
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Reading, Split

__all__ = [
    "Reading",
    "check_plain",
    "check_tasks",
    "originals",
    "reading_splits",
    "readings_of",
    "refuse_derived",
    "told_readings",
]

_PRIVATE = re.compile(r"[-_]x(?:[-_]|$)", re.IGNORECASE)
"""A private part of a code (BCP 47): what it stands for is between those who use it."""
_PROBE = 32  # tokens of the sentence by which a transformation is tried


def readings_of(transfer: Transfer, encoder: str, folder: Path) -> dict[str, Reading]:
    """How an encoder reads each derived language that is asked for.

    Parameters
    ----------
    encoder: what it is called in messages. folder: where it is.

    Raises
    ------
    InputError: nobody says how a language is derived, or the encoder says it otherwise.
    """
    known, own, found = derived_languages(folder), own_languages(folder), dict[str, Reading]()
    for language in dict.fromkeys([*transfer.train, *transfer.test]):
        given = transfer.derived.get(language)
        told = None if given is None else DerivedLanguage.parse(given)
        how = known.get(language, told)
        if how is None:
            if language not in transfer.data_of:
                check_plain(language, encoder, own)
            continue
        if told is not None and given is not None:
            seeded = "@" in given  # a seed that was not typed is that of the encoder
            if (told.of, told.by) != (how.of, how.by) or seeded and told.seed != how.seed:
                expected = f"{language}={how}, as {encoder} has it"
                remedy = "leave it out, or name another encoder"
                refuse("--derived", expected, f"{language}={given}", remedy)
        there = language in own
        missing = how.derivation.transliterated and not there
        found[language] = Reading(
            how, language if there else how.of, transfer.unseen if missing else None
        )
    return found


def check_plain(language: str, encoder: str, own: Sequence[str]) -> None:
    """Refuse a language that must be derived, of which nobody says how."""
    of, *more = re.split("[-_]", language)
    if (more and language in own and of in own) or _PRIVATE.search(language):
        remedy = f"say it: --derived {language}={of}:transliteration, say"
        got = f"no word of it in the config.json of encoder {encoder}"
        refuse(language, "how this language is derived", got, remedy)


def refuse_derived(languages: Sequence[str]) -> None:
    """Refuse languages that are derived where only data of their own are read."""
    for language in languages:
        if _PRIVATE.search(language):
            remedy = "crosslens transfer tests derived languages"
            refuse("languages", "those with data of their own", f"{language}, derived", remedy)


def originals(every: Mapping[str, Mapping[str, Reading]]) -> dict[str, str]:
    """Derived language -> the language whose data are read.

    Parameters
    ----------
    every: encoder -> its readings.

    Raises
    ------
    InputError: encoders do not agree.
    """
    found: dict[str, str] = {}
    for encoder, readings in every.items():
        for language, one in readings.items():
            if found.setdefault(language, one.how.of) != one.how.of:
                got = f"of {found[language]}, and of {one.how.of} to encoder {encoder}"
                refuse(language, "one original", got, "compare encoders that were trained alike")
    return found


def check_tasks(
    transfer: Transfer, tasks: Mapping[str, TaskData], readings: Mapping[str, Reading]
) -> None:
    """Refuse what a change of order would break: chains of tags, and answers that are torn apart."""
    for language, one in readings.items():
        made = one.how.derivation.transformation
        if made is None:
            continue
        from crosslens.models.finetuning.derived import derived_order

        order, _ = derived_order(np.arange(_PROBE), (), made, one.how.seed)
        moved = not np.array_equal(order, np.arange(_PROBE))
        torn = not (np.abs(np.diff(order)) == 1).all()
        for name, data in tasks.items():
            if moved and transfer.crf and data.task.kind == "tag":
                got = f"{language}, by {one.how.by}"
                expected = "languages whose words keep their order"
                refuse("--crf", expected, got, "a chain needs neighbours: leave --crf out")
            if torn and data.task.kind == "answer":
                expected = "a language in which answers stay whole (by inversion, transliteration)"
                got = f"{language}, by {one.how.by}"
                refuse(f"task {name}", expected, got, "leave the task or the language out")


def told_readings(readings: Mapping[str, Reading]) -> dict[str, dict[str, Any]]:
    """For the run's settings: language -> of, by, seed, and what unseen subwords are read as."""
    return {
        language: {**one.how.told, **({} if one.unseen is None else {"unseen": one.unseen})}
        for language, one in readings.items()
    }


def reading_splits(data: TaskData, readings: Mapping[str, Reading]) -> TaskData:
    """The same items as one encoder reads them."""

    def read(split: Split) -> Split:
        return dataclasses.replace(split, reading=readings.get(split.language))

    return dataclasses.replace(
        data,
        train=[read(split) for split in data.train],
        dev=[read(split) for split in data.dev],
        tests={name: read(split) for name, split in data.tests.items()},
        target_devs={name: read(split) for name, split in data.target_devs.items()},
    )
