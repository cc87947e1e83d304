"""Whether trainings were long enough, and inputs: what a run says of those that were not."""

from collections.abc import Mapping, Sequence
from typing import Any

from crosslens.score import QUANTITIES, Score
from crosslens.score_formats import format_percent

__all__ = ["UNREAD", "shortfall", "unread_told"]

_STILL_RISING = 0.05  # of the last epoch, on dev; a training that has settled gains a point or two
_UNREAD = 0.01  # of words or texts, from which it is said
UNREAD = {
    "words": "are not read: they stand behind the longest input, or have no subword",
    "texts": "are longer than the input and are cut",
    "questions": "are longer than a question may be and are cut",
}
_FEW = 500  # updates; names of 1,801 sentences: F1 22.8 after 171, 71.3 after 513


def shortfall(seeds: Sequence[Score]) -> str:
    """A sentence where nothing was learnt, dev still rose steeply at the end, or updates were few;
    "" otherwise.

    Parameters
    ----------
    seeds: what trainings that differ in the seed reached on dev. ``details``: "epochs", number of the
        epoch -> {"dev": value}; "updates"; "most_frequent", what the control without an
        encoder reaches (the most frequent label; of trees the neighbour as head);
        "stopped", whether a training ended by itself before its last epoch.

    >>> told = {"updates": 48, "most_frequent": 0.0, "epochs": {"1": {"dev": 0.0}, "2": {"dev": 0.0}}}
    >>> shortfall([Score(quantity="span_f1", value=0.0, n=9, details=told)])[:52]
    '1 of 1 trainings learnt nothing: on dev F1 of spans '
    >>> told["epochs"] = {"1": {"dev": 0.1}, "2": {"dev": 0.3}}
    >>> shortfall([Score(quantity="span_f1", value=0.3, n=9, details=told)])[:52]
    'on dev F1 of spans still rose by 20.0 points in the '
    >>> told["epochs"]["3"] = {"dev": 0.29}
    >>> shortfall([Score(quantity="span_f1", value=0.3, n=9, details=told)])
    '48 updates are few, and dev may be far from what more of them reach; --epochs 32 makes 512'
    """
    details = [score.details or {} for score in seeds]
    if not details or not all("updates" in one for one in details):
        return ""
    if any(one.get("most_frequent") is None for one in details):  # nothing to count on dev
        return ""
    label, updates = QUANTITIES[seeds[0].quantity].label, f"{details[0]['updates']:,} updates"
    label = label if label[:2].isupper() or label[1:2].isdigit() else label[0].lower() + label[1:]
    flat = [n for n, one in enumerate(details) if seeds[n].value <= one["most_frequent"]]
    if flat:
        reached = max(seeds[n].value for n in flat)
        control = "always giving the most frequent label"
        if seeds[0].quantity in ("las", "uas"):
            control = "each word below its neighbour, by the most frequent relation,"
        return (
            f"{len(flat)} of {len(seeds)} trainings learnt nothing: on dev {label} is "
            f"{format_percent(reached)} per cent after {updates}, and {control} "
            f"has {format_percent(details[0]['most_frequent'])}; more epochs, smaller batches or "
            "another rate may help"
        )
    rises = [_last_rise(one.get("epochs") or {}) for one in details]
    rise = sum(rises) / len(rises)
    if not rise > _STILL_RISING:
        return _few(details[0]) if not any(one.get("stopped") for one in details) else ""
    return (
        f"on dev {label} still rose by {format_percent(rise)} points in the last of "
        f"{len(details[0]['epochs'])} epochs ({updates}): more epochs may help"
    )


def unread_told(unread: Mapping[str, float], what: str) -> str:
    """A sentence on the languages of which a hundredth or more is not read; "" where there is none.

    Parameters
    ----------
    unread: language to the share of its words that are not read, or of its texts or questions that
        are cut.
    what: "words", "texts" or "questions".

    >>> unread_told({"eng": 0.304, "deu": 0.002}, "words")
    'of eng 30.4 per cent of the words are not read: they stand behind the longest input, or have no subword'
    """
    told = [
        f"of {name} {format_percent(share)}" for name, share in unread.items() if share >= _UNREAD
    ]
    if not told:
        return ""
    return f"{', '.join(told)} per cent of the {what} {UNREAD[what]}"


def _few(one: Mapping[str, Any]) -> str:
    """What is said of few updates, where dev no longer rises: it stands still at the end of a short
    training, too, as its rate falls to 0."""
    updates, epochs = one["updates"], len(one["epochs"])
    if updates >= _FEW:
        return ""
    enough = -(-_FEW * epochs // updates)
    return (
        f"{updates:,} updates are few, and dev may be far from what more of them reach; "
        f"--epochs {enough} makes {enough * updates // epochs:,}"
    )


def _last_rise(epochs: dict[str, dict[str, float | None]]) -> float:
    """How much higher dev is after the last epoch than after any before it; 0 of a single one."""
    values = [epochs[name].get("dev") for name in sorted(epochs, key=int)]
    if len(values) < 2 or any(value is None for value in values):
        return 0.0
    found = [value for value in values if value is not None]
    return found[-1] - max(found[:-1])
