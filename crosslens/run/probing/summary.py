"""Tables of a finished battery for a terminal: each task at its best layer, what minimal pairs were
covered, and the paired tests."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from crosslens.files import read_json
from crosslens.score import Score, by_language, first_seed, over_seeds, set_aside, shared_texts
from crosslens.score_formats import format_ends, format_percent
from crosslens.selection import choose

__all__ = ["coverage_table", "summary_notes", "summary_table", "tables", "test_table"]

_Rows = list[tuple[str, ...]]
_MAIN = ("accuracy", "uuas", "root_accuracy", "spearman")  # what a task is judged by
_CONTROLS = ("control_task", "shuffled_labels", "word_order")
_SURFACE = {"character_ngrams": "character n-grams", "fasttext": "fastText"}
_BY_WORD = "word_majority"
_MIX = ":mix"  # behind the name of a task: its items are those of the task
_LINES_TOLD = 3
_SHORT = {"concatenation+difference+product": "concat.+diff.+product"}


def tables(folder: Path, scores: Sequence[Score]) -> Iterator[tuple[str, _Rows, str]]:
    """(title, rows, how to read them) of every table that has rows; a title is empty where there is
    but one encoder."""
    settings = _config(folder).get("settings") or {}
    scores, several = by_language(first_seed(scores, settings)), settings.get("seeds") is not None
    encoders = list(
        dict.fromkeys(s.encoder for s in scores if s.encoder and s.condition != "paired_test")
    )
    found: list[tuple[str, _Rows, str]] = []
    for encoder in encoders:
        found.append(
            (
                str(encoder) if len(encoders) > 1 else "",
                summary_table(scores, str(encoder), several),
                "",
            )
        )
    found.append(("", [], summary_notes(folder, scores)))
    for encoder in encoders:
        for task in dict.fromkeys(s.task for s in scores if _is_of_pairs(s)):
            title = f"{task}, {encoder}" if len(encoders) > 1 else str(task)
            found.append(
                (
                    title,
                    *coverage_table([s for s in scores if (s.task, s.encoder) == (task, encoder)]),
                )
            )
    found.append(("", *test_table(scores)))
    yield from (one for one in found if len(one[1]) != 1)


def _is_of_pairs(score: Score) -> bool:
    return "category" in (score.details or {}) or "average" in (score.details or {})


def summary_table(scores: Sequence[Score], encoder: str, several: bool = False) -> _Rows:
    """A row per task and representation: the layer that is best on dev, the score there on test,
    and its controls.

    Of a task without dev the layer that is best on the items themselves is told, which favours it.
    Of a run of several seeds controls have their intervals over seeds.
    """
    rows: _Rows = [
        ("task", "layer", "score", "95 % interval", "majority", "control", "random", "n")
    ]
    measured = [
        s for s in scores if s.encoder == encoder and s.quantity in _MAIN and not _is_of_pairs(s)
    ]
    for task, representation in dict.fromkeys(
        (s.task, _representation(s)) for s in measured if s.condition is None
    ):
        mine = [
            s for s in measured if s.task == task and _representation(s) in (representation, None)
        ]
        best, chosen_on_dev = _best([s for s in mine if s.condition is None])
        if best is not None:
            name = (
                f"{task} ({_SHORT.get(representation, representation)})"
                if representation
                else str(task)
            )
            controls = (
                _control(mine, best, several, *conditions)
                for conditions in (("majority",), _CONTROLS, ("random_encoder",))
            )
            layer = f"{'all' if best.layer is None else best.layer}{'' if chosen_on_dev else '*'}"
            rows.append(
                (
                    name,
                    layer,
                    format_percent(best.value),
                    format_ends(best),
                    *controls,
                    f"{best.n:,}",
                )
            )
    return rows


class _Task(TypedDict):
    left_out: NotRequired[list[str]]


class _Data(TypedDict):
    tasks: dict[str, _Task]


class _Config(TypedDict):
    """What the summary takes from config.json."""

    data: _Data
    settings: NotRequired[dict[str, Any]]
    not_measured: NotRequired[dict[str, str]]


def _config(folder: Path) -> _Config:
    config: _Config = read_json(folder / "config.json", _Config, "run the probes again")
    return config


def summary_notes(folder: Path, scores: Sequence[Score]) -> str:
    """How the summary is read, what characters alone say, which items were left out, and what was
    not measured."""
    config = _config(folder)
    seeds = (config.get("settings") or {}).get("seeds")
    text = [
        "Scores on test: accuracy, UUAS or root accuracy in per cent, or Spearman x 100.",
        (
            "Layer: the best on dev; * the best on test itself, where there is no dev, which "
            "favours it."
        ),
        (
            "Control: the same probe on control labels, mean over seeds (trees: word order "
            "alone). Random: same layer, random weights"
        )
        + (
            "."
            if seeds is None
            else f": mean of {seeds} encoders. Their intervals are Student's, over seeds."
        ),
        *(_over_seeds(scores) if seeds is not None else ()),
    ]
    for s in scores:
        if s.condition in _SURFACE and s.quantity == "accuracy":
            text.append(
                f"From the characters alone, {s.task}: {_SURFACE[s.condition]} {_within(s)}, n = {s.n:,}."
            )
        if s.condition == _BY_WORD and s.quantity == "accuracy":
            text.append(
                f"The most frequent label of each word in training, {s.task}: {_within(s)}, n = {s.n:,}."
            )
    text += _without_shared(scores)
    text += _set_aside(scores, config["data"]["tasks"])
    return "\n".join(
        [
            *dict.fromkeys(text),
            *(
                f"Not measured: {task} ({reason})."
                for task, reason in config.get("not_measured", {}).items()
            ),
        ]
    )


def _over_seeds(scores: Sequence[Score]) -> list[str]:
    """Of probes that have a seed of their own: the mean over seeds, at the place of the summary."""
    found = []
    measured = [
        s for s in scores if s.quantity in _MAIN and s.condition is None and not _is_of_pairs(s)
    ]
    for encoder, task, representation in dict.fromkeys(
        (s.encoder, s.task, _representation(s)) for s in measured
    ):
        best = _best(
            [
                s
                for s in measured
                if (s.encoder, s.task, _representation(s)) == (encoder, task, representation)
            ]
        )[0]
        told = None if best is None else over_seeds(best)
        if best is not None and told is not None and told[0].low != told[0].high:
            name = ", ".join(
                str(part)
                for part in (
                    task,
                    representation and _SHORT.get(representation, representation),
                    encoder,
                )
                if part
            )
            found.append(
                f"{name}: the mean over {told[1]} seeds of the probe is {_within(told[0])}."
            )
    return found


def _without_shared(scores: Sequence[Score]) -> list[str]:
    """Of tasks whose test items have texts that training has, too: the score without them, at the
    layer of the summary."""
    found = []
    for encoder, task in dict.fromkeys(
        (s.encoder, s.task) for s in scores if s.condition is None and s.quantity in _MAIN
    ):
        mine = [
            s
            for s in scores
            if (s.encoder, s.task, s.condition) == (encoder, task, None) and s.quantity in _MAIN
        ]
        best = _best(mine)[0]
        told = None if best is None else shared_texts(best)
        if best is None or told is None or not told[0].train:
            continue
        where = "" if best.layer is None else f", at layer {best.layer}"
        counted = (
            f"{task}, {encoder}: {told[0].train:,} of {best.n:,} test items have a text that is "
            f"in train, too"
        )
        if told[1] is None:
            found.append(
                f"{counted}: the score says what was remembered, and none is left without them."
            )
        else:
            found.append(f"{counted}; without them {_within(told[1])}, n = {told[1].n:,}{where}.")
    return found


def _set_aside(scores: Sequence[Score], tasks: Mapping[str, Any]) -> list[str]:
    """Which items of each task were left out, cut or have a label that training lacks; of lines of
    files that could not be used the first.

    What minimal pairs are not covered stands in their table.
    """
    several = len({s.encoder for s in scores if s.encoder and s.condition != "paired_test"}) > 1
    counts: dict[tuple[str, str], set[int]] = {}
    for s in scores:
        for what, count in (
            set_aside(s).items() if not _is_of_pairs(s) and _MIX not in str(s.task) else ()
        ):
            counts.setdefault(
                (f"{s.task}, {s.encoder}" if several and s.encoder else str(s.task), what), set()
            ).add(count)
    found = [
        f"{who}: {'up to ' if len(n) > 1 else ''}{max(n):,} item{'s' if max(n) > 1 else ''} {what}."
        for (who, what), n in counts.items()
    ]
    for task, told in tasks.items():
        if lines := told.get("left_out"):
            more = f"; and {len(lines) - _LINES_TOLD:,} more" if len(lines) > _LINES_TOLD else ""
            found.append(f"{task}, its file: {'; '.join(lines[:_LINES_TOLD])}{more}.")
    return found


def _best(mine: Sequence[Score]) -> tuple[Score | None, bool]:
    """The test score at the best layer and representation, and whether dev chose it."""
    dev = {_place(s): s.value for s in mine if (s.details or {}).get("part") == "dev"}
    test = [s for s in mine if (s.details or {}).get("part") != "dev"]
    best = choose(
        test, lambda s: s.value, lambda s: dev.get(_place(s), math.nan), lambda s: s.layer
    )
    return (None, False) if best is None else (best.item, best.elsewhere)


def _place(score: Score) -> tuple[str | None, int | None, str | None]:
    return score.quantity, score.layer, _representation(score)


def _representation(score: Score) -> str | None:
    return (score.details or {}).get("representation")


def _control(mine: Sequence[Score], best: Score, several: bool, *conditions: str) -> str:
    """What a control says at the place of the best score; one of no layer says it everywhere."""
    part = (best.details or {}).get("part")
    for score in mine:
        anywhere = score.layer is None and score.quantity == best.quantity
        if (
            score.condition in conditions
            and (score.details or {}).get("part") == part
            and (anywhere or _place(score) == _place(best))
        ):
            return _over(score) if several else format_percent(score.value)
    return "-"


def _over(score: Score) -> str:
    """The mean over seeds and its interval, where there are several."""
    told = over_seeds(score)
    return format_percent(score.value) if told is None else f"{_within(told[0])}"


def coverage_table(scores: Sequence[Score]) -> tuple[_Rows, str]:
    """Minimal pairs of one task and encoder by category: pairs, those that could be scored, and
    accuracy; averages below."""
    mine = [s for s in scores if _is_of_pairs(s) and s.condition is None]
    random = {_pair_key(s): s for s in scores if s.condition == "random_encoder"}
    rows: _Rows = [("category", "pairs", "covered", "%", "accuracy", "random")]
    for score in mine:
        details = score.details or {}
        counts = [details.get(key) for key in ("pairs", "covered", "percent")]
        cells = [
            "-" if count is None else f"{count:,}" if isinstance(count, int) else f"{count:.1f}"
            for count in counts
        ]
        control = random.get(_pair_key(score))
        reached = format_percent(score.value) if score.low is None else f"{_within(score)}"
        rows.append((_pair_key(score), *cells, reached, "-" if control is None else _over(control)))
    text = "Accuracy in per cent of the covered pairs, with its 95 % interval; chance is 50."
    if seeds := {told[1] for score in random.values() if (told := over_seeds(score)) is not None}:
        text += f" Random: mean of {max(seeds)} encoders, with Student's interval over encoders."
    if any(math.isnan(s.value) for s in mine):
        text += " -: no pair is covered, or not in every category of an average."
    return rows, text


def _pair_key(score: Score) -> str:
    """What a row of minimal pairs is called."""
    details = score.details or {}
    if details.get("category"):
        return str(details["category"])
    average = str(details.get("average"))
    return average if score.quantity == "accuracy" else f"macro-average: {average}"


def test_table(scores: Sequence[Score]) -> tuple[_Rows, str]:
    """The paired tests: the best layer against layer 0, and encoders against each other."""
    tests = [s for s in scores if s.condition == "paired_test" and not math.isnan(s.value)]
    rows: _Rows = [("task", "first", "second", "difference", "p", "n")]
    for s in tests:
        details = s.details or {}
        who = "" if s.encoder and " / " in s.encoder else f"{s.encoder}, "
        difference = format_percent(s.value) if s.low is None else f"{_within(s)}"
        rows.append(
            (
                str(s.task),
                f"{who}{details['first']}",
                str(details["second"]),
                difference,
                _p(details["corrected_p"]),
                f"{s.n:,}",
            )
        )
    told = "Differences in points on the same items, first minus second, with their 95 % interval"
    text = f"{told}; p corrected for {len(tests)} tests by Holm's procedure."
    if any("chosen_from" in (s.details or {}) for s in tests):
        text += (
            " A task without dev has its best layer chosen on the items tested: p is corrected "
            "for that, too, and there is no interval."
        )
    return rows, text


def _within(score: Score) -> str:
    return f"{format_percent(score.value)} ({format_ends(score)})"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"
