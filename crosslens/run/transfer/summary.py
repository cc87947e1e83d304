"""Tables of a finished transfer for a terminal: each task and language beside its controls, what
epochs were worth, differences, and where the settings come from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.files import read_json
from crosslens.grid_settings import settings_taken
from crosslens.score import QUANTITIES, Score, headline_quantities, is_headline
from crosslens.score_formats import format_ends, format_percent, format_value

__all__ = ["tables"]

_Rows = list[tuple[str, ...]]
_WAYS = ("last_epoch", "averaged_epochs", "target_dev_oracle")
_UNSEEN = {"unknown": "the unknown token", "random": "new rows with random weights"}
_FEWEST = 5  # languages of a correlation that is shown


def tables(folder: Path, scores: Sequence[Score]) -> Iterator[tuple[str, _Rows, str]]:
    """(title, rows, how to read them) of every table that has rows."""
    config = read_json(folder / "config.json", dict)
    main = headline_quantities(scores)
    for task, (quantity, preset) in main.items():
        mine = [s for s in scores if s.task == task and is_headline(s, main, differences=True)]
        title = f"{task}: {QUANTITIES[quantity].label} in per cent"
        yield (
            title + (f", as {preset}" if preset else ""),
            _main_rows(mine),
            _warnings(scores, task),
        )
        yield "", _epoch_rows(mine), "The oracle is chosen on the target's own dev split."
        yield "", _difference_rows(mine), ""
        yield "", _correlation_rows(scores, mine, task), "Over languages that are not trained on."
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for task in main:
        alike.setdefault(tuple(_setting_rows(config, task, scores)), []).append(task)
    for rows, tasks in alike.items():
        yield f"Settings, {', '.join(tasks)}", [*rows], ""


def _main_rows(scores: Sequence[Score]) -> _Rows:
    rows: _Rows = [
        (
            "target",
            "zero-shot",
            "95 % interval",
            "seeds",
            "majority",
            "random encoder",
            "in language",
            "n",
        )
    ]
    for key, score in _of_systems(scores, None).items():
        encoder, _freeze, target, source = key
        beside = [
            _one(scores, target, "majority"),
            _one(scores, target, "random_encoder", encoder=encoder, freeze=_freeze),
            _one(scores, target, "in_language", encoder=encoder, freeze=_freeze),
        ]
        told = score.evidence.over_seeds
        seeds = [value for value in told.values if value is not None] if told is not None else []
        rows.append(
            (
                _where(scores, encoder, _freeze, source, target),
                format_percent(score.value),
                _within(score),
                f"{len(seeds)}: {format_percent(min(seeds))}-{format_percent(max(seeds))}"
                if seeds
                else "-",
                *(
                    "-" if one is None else format_percent(one.value) + _other_n(one, score)
                    for one in beside
                ),
                f"{score.n:,}",
            )
        )
    return rows


def _other_n(one: Score, score: Score) -> str:
    """Of how many items a value is, where they are not those that stand beside it."""
    return "" if one.n == score.n else f" (n {one.n:,})"


def _warnings(scores: Sequence[Score], task: str) -> str:
    """What is said of trainings that were too short."""
    told = (
        f"Trained on {score.source} ({score.encoder}): {warning}."
        for score in scores
        for warning in (score.evidence.warnings or () if score.task == task else ())
    )
    return "\n".join(told)


def _epoch_rows(scores: Sequence[Score]) -> _Rows:
    rows: _Rows = [("target", "best on dev", "last epoch", "averaged", "oracle")]
    for (encoder, freeze, target, source), score in _of_systems(scores, None).items():
        ways = [_one(scores, target, way, encoder=encoder, freeze=freeze) for way in _WAYS]
        if any(way is not None for way in ways):
            told = [format_percent(way.value) if way is not None else "-" for way in ways]
            where = _where(scores, encoder, freeze, source, target)
            rows.append((where, format_percent(score.value), *told))
    return rows


def _difference_rows(scores: Sequence[Score]) -> _Rows:
    rows: _Rows = [("difference", "target", "points", "95 % interval")]
    for score in scores:
        if score.quantity.endswith("_difference"):
            what = (
                str(score.encoder)
                if score.condition == "encoders"
                else "zero-shot less in-language"
            )
            points = f"{100 * score.value:+.1f}"
            if score.condition != "encoders":
                what += _whose(scores, str(score.encoder), (score.details or {}).get("freeze"))
            elif frozen := _frozen(scores, score):
                what += f" ({frozen})"
            rows.append((what, str(score.target), points, _within(score)))
    return rows


def _correlation_rows(every: Sequence[Score], mine: Sequence[Score], task: str) -> _Rows:
    """Correlations with what may predict transfer, where there are five languages or more."""
    rows: _Rows = [("goes with", "correlation", "r", "95 % interval", "p", "languages")]
    for score in every:
        if score.task == task and score.condition in QUANTITIES and score.n >= _FEWEST:
            told, within = score.details or {}, "-"
            if score.low is not None and score.high is not None:
                within = f"{score.low:.2f} to {score.high:.2f}"
            name = QUANTITIES[score.condition].label
            name += _whose(mine, str(score.encoder), told.get("freeze"))
            p = f"{told['p']:.3f}" if "p" in told else "-"
            r = format_value(score.value, 2)
            rows.append((name, score.quantity.capitalize(), r, within, p, str(score.n)))
    return rows


def _setting_rows(config: Mapping[str, Any], task: str, scores: Sequence[Score]) -> _Rows:
    values = ((config.get("settings") or {}).get("values") or {}).get(task) or {}
    sources = (config.get("sources") or {}).get(task) or {}
    rows: _Rows = [("setting", "value", "from")]
    for name, value in values.items():
        told = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        rows.append((name, told, str(sources.get(name, ""))))
    taken = settings_taken(task, values, scores)
    rows += [("taken on dev", told, system) for system, told in taken.items()]
    return [*rows, *_derived_rows(config)]


def _derived_rows(config: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """How each encoder reads derived languages."""
    every = (config.get("settings") or {}).get("derived") or {}
    for encoder, readings in every.items():
        for language, one in readings.items():
            told = f"{one['of']} by {one['by']}, seed {one['seed']}"
            if "unseen" in one:
                told += f"; {_UNSEEN[one['unseen']]} in the place of its subwords"
            yield (language, told, encoder)


# -- helpers


def _of_systems(
    scores: Sequence[Score], condition: str | None
) -> dict[tuple[str, Any, str, str], Score]:
    return {
        (str(s.encoder), (s.details or {}).get("freeze"), str(s.target), str(s.source)): s
        for s in scores
        if s.condition == condition
        and (s.details or {}).get("part") == "test"
        and not s.quantity.endswith("_difference")
    }


def _one(scores: Sequence[Score], target: str, condition: str, **wanted: Any) -> Score | None:
    for score in scores:
        details = score.details or {}
        fits = (
            score.target == target
            and score.condition == condition
            and details.get("part") == "test"
        )
        fits = fits and ("encoder" not in wanted or score.encoder == wanted["encoder"])
        if fits and ("freeze" not in wanted or details.get("freeze") == wanted["freeze"]):
            return score
    return None


def _where(scores: Sequence[Score], encoder: str, freeze: Any, source: str, target: str) -> str:
    """What a row is of: the languages, and encoder and frozen layers where there are several."""
    return f"{source} → {target}{_whose(scores, encoder, freeze)}"


def _frozen(scores: Sequence[Score], score: Score) -> str:
    """How many layers were frozen, where systems differ in that."""
    if len({key[1] for key in _of_systems(scores, None)}) < 2:
        return ""
    freeze = (score.details or {}).get("freeze")
    return "nothing frozen" if freeze is None else f"frozen to layer {freeze}"


def _whose(scores: Sequence[Score], encoder: str, freeze: Any) -> str:
    systems = _of_systems(scores, None)
    told = [encoder] * (len({key[0] for key in systems}) > 1)
    if len({key[1] for key in systems}) > 1:
        told.append("nothing frozen" if freeze is None else f"frozen to layer {freeze}")
    return f" ({', '.join(told)})" if told else ""


def _within(score: Score) -> str:
    if score.low is None or score.high is None:
        return "-"
    if score.quantity.endswith("_difference"):
        return f"{100 * score.low:+.1f} to {100 * score.high:+.1f}"
    return format_ends(score)
