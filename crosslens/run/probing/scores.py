"""The measurements of a probe of every layer: :class:`crosslens.score.Score` rows, each beside its
controls."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.evidence import Confusion, Difference, Ends
from crosslens.probes.methods.control_tasks import selectivity
from crosslens.probes.methods.controls import Accuracy
from crosslens.probes.methods.results import Answers, ProbeResult
from crosslens.run.probing.items import Shared, control_name
from crosslens.run.probing.seeds import seed_spread
from crosslens.score import Score
from crosslens.selection import choose
from crosslens.stats import cluster_sums, paired_interval, share_interval

__all__ = ["probe_scores", "without_shared"]

_MOST_CLASSES = 300  # whose F1 and confusion are kept


def probe_scores(
    result: ProbeResult,
    common: Mapping[str, Any],
    task: str,
    told: Mapping[str, Any],
    shared: Shared,
    seeds: Sequence[int],
) -> list[Score]:
    """The measurements of a probe of every layer and of its controls.

    Parameters
    ----------
    common: encoder and seed. told: details of every row of the encoder. shared: test items whose
        text is in training, too.
    """
    fields = {**common, "task": task}
    n, dev = len(result.answers.true), None if result.dev is None else result.dev.accuracy
    details = {
        **told,
        "part": "test",
        "n_train": result.sizes["train"],
        "classes": len(result.answers.labels),
        "parts": result.drawn,
    }
    unseen = {
        part: {str(label): count for label, count in labels.items()}
        for part, labels in result.unseen.items()
        if labels
    }
    details |= {"unseen_in_training": unseen} if unseen else {}
    if result.answers.groups is not None and (groups := len(np.unique(result.answers.groups))) < n:
        details["groups"] = groups  # of items that stand and fall together
    details |= shared.details()
    majority, always = result.majority, result.answers.true == result.always
    place: dict[str, Any] = {**fields, "quantity": "accuracy", "n": n, "condition": "majority"}
    without = without_shared(always, result.answers.groups, shared)
    scores = [
        Score(
            **place,
            value=majority.value,
            low=majority.low,
            high=majority.high,
            details={**details, **without},
        )
    ]
    if result.by_type is not None:
        scores += _answer_scores(
            result.by_type, {**fields, "condition": "word_majority"}, 0, details, shared, False
        )
    best = None if dev is None else choose(range(len(dev)), [one.value for one in dev].__getitem__)
    kept = {0} if best is None else {0, best.item}
    for layer in range(len(result.answers.given)):
        more = {
            **details,
            "penalty": None if result.C is None else float(result.C[layer]),
            "seeds": list(seeds),
        }
        if dev is not None:
            place = {
                "layer": layer,
                "n": dev[layer].n,
                "low": dev[layer].low,
                "high": dev[layer].high,
            }
            scores.append(
                Score(
                    **fields,
                    **place,
                    quantity="accuracy",
                    value=dev[layer].value,
                    details={**details, "part": "dev"},
                )
            )
        scores += _layer_scores(result, fields, layer, more, shared, layer in kept)
    return scores


def _layer_scores(
    result: ProbeResult,
    fields: Mapping[str, Any],
    layer: int,
    details: dict[str, Any],
    shared: Shared,
    whole: bool,
) -> list[Score]:
    """One layer's test scores: the encoder's, and those of its controls."""
    answers, random = result.answers, result.random_encoder
    spread = result.resampled[:, layer]
    mine = (
        {**details, "resampled": [float(spread.min()), float(spread.max())]}
        if len(spread)
        else dict(details)
    )
    if random is not None:
        above = paired_interval(answers.correct[layer], random.correct[layer], answers.groups)
        mine["above_control"] = Difference.of(above).as_dict()
    scores = _answer_scores(answers, {**fields, "layer": layer}, layer, mine, shared, whole)
    if random is not None:
        scores += _answer_scores(
            random,
            {**fields, "layer": layer, "condition": "random_encoder"},
            layer,
            details,
            shared,
            False,
        )
    if result.control is not None:
        scores += _control_scores(
            result, {**fields, "layer": layer, "n": len(answers.true)}, layer, details, shared
        )
    if result.code is not None:
        code = result.code
        place = {
            **fields,
            "layer": layer,
            "n": int(code.ends[-1]),
            "details": {**details, "part": "train", "uniform_bits": code.uniform},
        }
        scores.append(Score(**place, quantity="codelength", value=float(code.bits[layer])))
        scores.append(Score(**place, quantity="compression", value=float(code.compression[layer])))
    return scores


def _answer_scores(
    answers: Answers,
    fields: Mapping[str, Any],
    layer: int,
    details: dict[str, Any],
    shared: Shared,
    whole: bool,
) -> list[Score]:
    reached, n = answers.accuracy[layer], len(answers.true)
    common = {
        key: value for key, value in details.items() if key not in ("above_control", "resampled")
    }
    if len(answers.labels) <= _MOST_CLASSES and "condition" not in fields:
        labels = [str(label) for label in answers.labels]
        details = details | {
            "f1": {label: _rounded(f1) for label, f1 in zip(labels, answers.f1[layer], strict=True)}
        }
        if whole:
            confusion = Confusion(labels, answers.confusion(layer).tolist())
            details["confusion"] = confusion.as_dict()
    ends = answers.macro_f1_interval(layer) or (None, None)
    details = details | without_shared(answers.correct[layer], answers.groups, shared)
    return [
        Score(
            **fields,
            n=n,
            quantity="accuracy",
            value=reached.value,
            low=reached.low,
            high=reached.high,
            details=details,
        ),
        Score(
            **fields,
            n=n,
            quantity="macro_f1",
            value=float(answers.macro_f1[layer]),
            low=ends[0],
            high=ends[1],
            details=common,
        ),
    ]


def _control_scores(
    result: ProbeResult,
    fields: Mapping[str, Any],
    layer: int,
    details: dict[str, Any],
    shared: Shared,
) -> list[Score]:
    control = result.control
    assert control is not None
    condition = control_name(result)
    outcome, accuracy = control.correct[:, layer].mean(axis=0), control.accuracy[:, layer]
    groups, left = result.answers.groups, ~shared.rows
    ends = _mean_ends(outcome, groups)
    told = {
        **details,
        **seed_spread(accuracy, details["seeds"], "accuracy"),
        "chance": control.chance,
        "above_chance": Difference.of(control.above_chance[layer].tolist()).as_dict(),
    }
    without: dict[str, Any] = {}
    if shared.rows.any() and left.any():
        some = None if groups is None else groups[left]
        low, high = _mean_ends(outcome[left], some)
        told["without_shared"] = Ends(
            float(outcome[left].mean()), low, high, int(left.sum())
        ).as_dict()
        found = selectivity(
            result.answers.correct[layer][left], control.correct[:, layer][:, left], some
        )
        without["without_shared"] = Ends(*found, int(left.sum())).as_dict()
    without |= seed_spread(
        result.answers.accuracy[layer].value - accuracy, details["seeds"], "selectivity"
    )
    value = float(control.selectivity[layer])
    low, high = float(control.low[layer]), float(control.high[layer])
    return [
        Score(
            **fields,
            quantity="accuracy",
            value=float(accuracy.mean()),
            low=ends[0],
            high=ends[1],
            condition=condition,
            details=told,
        ),
        Score(
            **fields,
            quantity="selectivity",
            value=value,
            low=low,
            high=high,
            details={**details, **without, "control": condition},
        ),
    ]


def without_shared(
    correct: np.ndarray, groups: np.ndarray | None, shared: Shared
) -> dict[str, Any]:
    """For the details: the accuracy on test items whose text is not in training; nothing where no
    text is shared."""
    if not shared.rows.any():
        return {}
    left = ~shared.rows
    if not left.any():
        return {"without_shared": Ends(None, None, None, 0).as_dict()}
    reached = Accuracy.of(correct[left], None if groups is None else groups[left])
    ends = Ends(reached.value, reached.low, reached.high, reached.n)
    return {"without_shared": ends.as_dict()}


def _mean_ends(outcome: np.ndarray, groups: np.ndarray | None) -> tuple[float | None, float | None]:
    """95 % interval of the mean of outcomes from 0 to 1, each a mean over control tasks."""
    found, of = (
        (outcome, np.ones(len(outcome))) if groups is None else cluster_sums(outcome, groups)
    )
    return share_interval(found, of)[1:] if len(of) > 1 else (None, None)


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
