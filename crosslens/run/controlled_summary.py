"""A controlled study as tables: each condition, and whether what the paper found is found."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from crosslens.errors import StoreError, refuse
from crosslens.files import check_shape, read_json
from crosslens.readers.published import PAPERS, published
from crosslens.run.controlled_measures import hits_of, means
from crosslens.score import Score, format_value, read_scores
from crosslens.seed_intervals import seeds_difference
from crosslens.selection import Best, chosen_layer

__all__ = ["differences", "measured_so_far", "summary"]

_Rows = list[tuple[str, ...]]
_REACHED = 0.5  # what the positive control must reach
_AGAIN = "run the study again"


class Told(TypedDict):
    """What a run notes of its study."""

    name: str
    question: str
    paper: str
    order: list[list[str]]
    control: str
    published: dict[str, str]


def measured_so_far(folder: str | Path) -> list[Score]:
    """The measurements of a study, finished or not: of each seed, and the means over those that are
    there."""
    folder = Path(folder)
    if (folder / "scores.jsonl").exists():
        return list(read_scores(folder / "scores.jsonl"))
    found = [
        score for part in sorted((folder / "parts").glob("*.jsonl")) for score in read_scores(part)
    ]
    return [*found, *means(found)]


def summary(folder: str | Path) -> list[_Rows | str]:
    """Tables and sentences on a study: its conditions beside the paper's numbers, and the order of
    the conditions that the paper found.

    Raises
    ------
    StoreError: the folder holds no such study, or nothing of it is measured yet.
    """
    config = read_json(Path(folder) / "config.json", dict, _AGAIN)
    where = f"{folder}/config.json, study"
    told: Told = check_shape(config.get("study"), where, Told, _AGAIN)
    scores = measured_so_far(folder)
    if not scores:
        refuse(str(folder), "a training that is measured", "none yet", "resume it", StoreError)
    names = list(dict.fromkeys(str(score.encoder) for score in scores))
    layers = {name: _layer(scores, name) for name in names}
    rows: _Rows = [
        (
            "condition",
            "seeds",
            "P@1 of subwords",
            "mapped",
            "by frequency",
            "P@1 of sentences",
            "at layer",
            "CKA there",
            f"{PAPERS[told['paper']]}: {_printed_what(told['paper'])}",
        ),
        *(_row(scores, name, layers[name], told) for name in names),
    ]
    return [told["question"], rows, _how(scores), *_findings(scores, layers, told)]


def _row(scores: Sequence[Score], name: str, best: Best | None, told: Told) -> tuple[str, ...]:
    seeds = sorted({s.seed for s in scores if s.encoder == name and s.seed is not None})
    direct, mapped = (
        _mean_of(scores, name, "token_alignment", condition)
        for condition in ("unaligned", "procrustes")
    )
    layer = None if best is None else best.layer
    sentences = _mean_of(scores, name, "precision_at_1", "unaligned", layer)
    cka = _mean_of(scores, name, "debiased_linear_cka", None, layer)
    return (
        name,
        str(len(seeds)),
        _told(direct),
        _told(mapped),
        "-" if direct is None else f"{(direct.details or {})['by_frequency']:.3f}",
        _told(sentences),
        "-" if layer is None else str(layer),
        "-" if cka is None else format_value(cka.value, 2),
        _printed(told, name),
    )


def _told(score: Score | None) -> str:
    if score is None:
        return "-"
    if score.low is None or score.high is None or math.isnan(score.low):
        return format_value(score.value, 3)
    return f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]"


def _mean_of(
    scores: Sequence[Score],
    name: str,
    quantity: str,
    condition: str | None,
    layer: int | None = None,
) -> Score | None:
    """A mean over seeds; None where there is none."""
    return next(
        (
            score
            for score in scores
            if score.seed is None
            and (score.encoder, score.quantity, score.condition) == (name, quantity, condition)
            and score.layer == layer
        ),
        None,
    )


def _layer(scores: Sequence[Score], name: str) -> Best | None:
    """The layer whose sentences are found best, chosen on the training half of the sentences."""
    curves: dict[str, dict[tuple[Any, ...], dict[int, Score]]] = {"held_out": {}, "train": {}}
    for score in scores:
        part = (score.details or {}).get("part")
        mine = (score.encoder, score.quantity, score.condition)
        if (
            mine == (name, "precision_at_1", "unaligned")
            and part in curves
            and score.seed is not None
        ):
            curve = curves[part].setdefault((score.seed, score.source), {})
            curve[score.layer or 0] = score
    return chosen_layer(curves["held_out"].values(), curves["train"].values())


def _printed_what(paper: str) -> str:
    return "alignment %" if paper == "deshpande" else "XNLI, mean of 3, less Default"


def _printed(told: Told, name: str) -> str:
    """The paper's number of a condition, as printed."""
    metric = "token_alignment" if told["paper"] == "deshpande" else "accuracy_difference"
    system, task = told["published"].get(name, ""), "xnli" if metric != "token_alignment" else None
    found = [
        one.value
        for one in published(paper=told["paper"], metric=metric, task=task)
        if one.system == system and (task is None or one.language == "mean")
    ]
    return f"{found[0]:g}" if found else "-"


def _how(scores: Sequence[Score]) -> str:
    n = next((s.n for s in scores if s.quantity == "token_alignment"), None)
    sentences = next(s for s in scores if s.quantity == "precision_at_1" and s.seed is None)
    chance = (sentences.details or {}).get("chance", math.nan)
    about_subwords = (
        f"P@1 of subwords: the nearest of all subwords of the other language by cosine, of {n} that "
        "are sampled (Deshpande et al. 2022, § 4.4); mapped: after an orthogonal map learnt from "
        "others; by frequency: what embeddings that told it alone would give. "
        if n is not None
        else ""
    )
    return (
        f"{about_subwords}P@1 of sentences: {sentences.n} held-out sentences, both directions, no "
        f"map, chance {chance:.3f}; the layer is chosen on other sentences. Brackets: 95 % over "
        "seeds (of sentences: over seeds and sentences)."
    )


def differences(
    scores: Sequence[Score], better: str, worse: str, layers: Mapping[str, Best | None]
) -> dict[str, tuple[float, float, float]]:
    """By how much one condition is above another, with 95 % intervals: "subwords" (Welch's, over
    seeds) and "sentences" (over seeds and sentences); what cannot be said is left out."""
    found = {}
    values = [
        np.array([s.value for s in scores if _is_alignment(s, name)]) for name in (better, worse)
    ]
    if min(map(len, values)) > 1:
        found["subwords"] = _welch(*values)
    if layers.get(better) is not None and layers.get(worse) is not None:
        sides = [_hits(scores, name, layers[name]) for name in (better, worse)]
        found["sentences"] = seeds_difference(sides[0], sides[1])
    return found


def _is_alignment(score: Score, name: str) -> bool:
    told = (score.encoder, score.quantity, score.condition)
    return told == (name, "token_alignment", "unaligned") and score.seed is not None


def _hits(scores: Sequence[Score], name: str, best: Best | None) -> tuple[np.ndarray, np.ndarray]:
    return hits_of(
        score
        for score in scores
        if (score.encoder, score.quantity, score.condition) == (name, "precision_at_1", "unaligned")
        and "hits" in (score.details or {})
        and best is not None
        and score.layer == best.layer
    )


def _welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Difference of two means with Welch's 95 % interval.

    >>> tuple(round(x, 2) for x in _welch(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0])))
    (1.0, -1.27, 3.27)
    """
    from scipy.special import stdtrit

    difference = float(a.mean() - b.mean())
    parts = [float(one.var(ddof=1)) / len(one) for one in (a, b)]
    if (variance := sum(parts)) == 0:
        return difference, difference, difference
    degrees = variance**2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (a, b), strict=True)
    )
    half = float(stdtrit(degrees, 0.975)) * math.sqrt(variance)
    return difference, difference - half, difference + half


def _findings(
    scores: Sequence[Score], layers: Mapping[str, Best | None], told: Told
) -> list[_Rows | str]:
    """Which of the paper's orders are found, and whether what is not found says anything."""
    rows: _Rows = [("the paper's order", "subwords", "", "sentences", "")]
    for upper, lower in zip(told["order"], told["order"][1:], strict=False):
        for better in upper:
            for worse in lower:
                if better in layers and worse in layers:
                    found = differences(scores, better, worse, layers)
                    cells = [_verdict(found.get(what)) for what in ("subwords", "sentences")]
                    rows.append((f"{better} > {worse}", *cells[0], *cells[1]))
    reached = _mean_of(scores, told["control"], "token_alignment", "unaligned")
    best = layers.get(told["control"])
    if reached is None and best is not None:
        reached = _mean_of(scores, told["control"], "precision_at_1", "unaligned", best.layer)
    if reached is None:
        return [rows] if len(rows) > 1 else []
    enough = reached.value >= _REACHED
    return [
        *([rows] if len(rows) > 1 else []),
        f"The positive control, {told['control']}, reached {reached.value:.2f}: "
        + (
            "what is not found here is not there at this size."
            if enough
            else "below 0.5, so what is not found here says nothing."
        ),
    ]


def _verdict(found: tuple[float, float, float] | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    difference, low, high = found
    if math.isnan(low):
        return f"{difference:+.3f}", "open"
    word = "found" if low > 0 else "reversed" if high < 0 else "open"
    return f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]", word
