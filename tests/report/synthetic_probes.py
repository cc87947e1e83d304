"""Invented folders of probe runs for the report's tests, and for looking at by eye.

``python tests/report/synthetic_probes.py FOLDER [LAYERS]`` makes two with a page for each and one
for both.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.probes.tasks.catalogue import cards, find_task
from crosslens.score import Score, write_scores
from crosslens.stats import wilson_interval

LANGUAGES = (
    "eng_Latn",
    "fra_Latn",
    "deu_Latn",
    "spa_Latn",
    "rus_Cyrl",
    "hin_Deva",
    "cmn_Hans",
    "ukr_Cyrl",
)
CATEGORIES = (
    "sva_simple",
    "sva_sentential_complement",
    "sva_across_prepositional_phrase",
    "reflexive_simple",
    "reflexive_across_relative_clause",
)
WIC = ("pair_cls", "concatenation", "difference", "cosine_threshold")


def share(p: float, n: int, **keys: Any) -> Score:
    """An accuracy with its interval."""
    right = round(min(max(p, 0.0), 1.0) * n)
    low, high = wilson_interval(right, n)
    return Score(**{"quantity": "accuracy", **keys}, value=right / n, n=n, low=low, high=high)


def hill(layer: int, layers: int) -> float:
    """Best two thirds of the way up."""
    return 1 - abs(layer - 2 * (layers - 1) / 3) / layers


def class_details(p: float, n: int, labels: tuple[str, ...]) -> dict[str, Any]:
    """F1 and confusions in which each class is taken for the next one."""
    size, k = n // len(labels), len(labels)
    counts = [[0] * k for _ in range(k)]
    for i in range(k):
        wrong = min(size, round((1 - p) * size * (1 + i / k)))
        counts[i][i], counts[i][(i + 1) % k] = size - wrong, wrong
    f1 = {
        label: 2 * counts[i][i] / (size + sum(row[i] for row in counts))
        for i, label in enumerate(labels)
    }
    return {"f1": f1, "confusion": {"labels": list(labels), "counts": counts}}


def label_scores(
    task: str,
    layers: int,
    n: int,
    level: float,
    chance: float,
    labels: tuple[str, ...],
    *,
    control: str,
    encoder: str,
    seed: int = 0,
) -> Iterator[Score]:
    """A classification task as a battery writes it: dev and test, majority, control, random
    encoder, selectivity, F1."""
    draw, fields = np.random.default_rng(seed), {"task": task, "encoder": encoder, "seed": seed}
    told: dict[str, Any] = {"part": "test", "n_train": 4 * n, "classes": len(labels)}
    yield share(chance, n, condition="majority", details=told, **fields)
    for layer in range(layers):
        p = chance + (level - chance) * hill(layer, layers) + draw.normal(0, 0.003)
        random, heart = chance + 0.4 * (level - chance), chance + 0.1 * (level - chance)
        place = {**fields, "layer": layer}
        yield share(p, n // 2, details={**told, "part": "dev"}, **place)
        above = {"difference": p - random, "low": p - random - 0.03, "high": p - random + 0.03}
        mine = {
            **told,
            "penalty": 0.1,
            "resampled": [p - 0.01, p],
            "above_control": above,
            "dropped": {"no such label": 3},
        }
        yield share(p, n, details={**mine, **class_details(p, n, labels)}, **place)
        yield Score(quantity="macro_f1", value=p - 0.02, n=n, details=told, **place)
        yield share(random, n, condition="random_encoder", details=told, **place)
        yield share(heart, n, condition=control, details=told, **place)
        yield Score(
            quantity="selectivity",
            value=p - heart,
            n=n,
            low=p - heart - 0.04,
            high=p - heart + 0.04,
            details=told,
            **place,
        )


def wic_scores(layers: int, n: int, encoder: str, level: float = 0.6) -> Iterator[Score]:
    """Word in context: a curve for each representation."""
    fields: dict[str, Any] = {"task": "wic", "encoder": encoder}
    for part in ("dev", "test"):
        yield share(0.5, n, condition="majority", details={"part": part}, **fields)
        for place, name in enumerate(WIC):
            details = {"part": part, "representation": name, "n_train": 5428, "classes": 2}
            for layer in range(layers):
                p = 0.5 + (level - 0.5) * hill(layer, layers) * (place + 1) / len(WIC)
                yield share(p, n, layer=layer, details=details, **fields)
                yield share(
                    0.51, n, layer=layer, condition="random_encoder", details=details, **fields
                )
                yield share(
                    0.5, n, layer=layer, condition="shuffled_labels", details=details, **fields
                )


def correlation_scores(layers: int, encoder: str) -> Iterator[Score]:
    """SCWS, one layer of which could not be computed; no dev part, no majority."""
    for layer in range(layers):
        for condition, value in ((None, 0.5 * hill(layer, layers)), ("random_encoder", 0.25)):
            details: dict[str, Any] = {
                "part": "test",
                "representation": "cosine",
                "dropped": {"words not marked in the file": 2},
            }
            value, ends = (
                (math.nan, {})
                if layer == 0 and condition is None
                else (value, {"low": value - 0.05, "high": value + 0.05})
            )
            details |= {} if ends else {"reason": "all cosines are equal"}
            yield Score(
                quantity="spearman",
                value=value,
                n=2001,
                layer=layer,
                condition=condition,
                task="scws",
                encoder=encoder,
                details=details,
                **ends,
            )


def tree_scores(
    layers: int, encoder: str, task: str = "structural_distance", quantity: str = "uuas"
) -> Iterator[Score]:
    """A structural probe with the word-order baseline."""
    fields: dict[str, Any] = {"task": task, "quantity": quantity, "encoder": encoder}
    yield share(0.48, 900, condition="word_order", details={"part": "test"}, **fields)
    for layer in range(layers):
        yield share(0.7 * hill(layer, layers), 400, layer=layer, details={"part": "dev"}, **fields)
        yield share(0.7 * hill(layer, layers), 900, layer=layer, details={"part": "test"}, **fields)
        yield share(
            0.45, 900, layer=layer, condition="random_encoder", details={"part": "test"}, **fields
        )


def length_scores(task: str, layers: int, encoder: str) -> Iterator[Score]:
    """Description lengths of the training labels."""
    for layer in range(layers):
        fields: dict[str, Any] = {
            "task": task,
            "layer": layer,
            "n": 4000,
            "encoder": encoder,
            "details": {"part": "train"},
        }
        yield Score(quantity="codelength", value=9000 / (1 + hill(layer, layers)), **fields)
        yield Score(quantity="compression", value=1 + 2 * hill(layer, layers), **fields)


def pair_scores(
    encoder: str, level: float = 0.8, categories: tuple[str, ...] = CATEGORIES
) -> Iterator[Score]:
    """Minimal pairs: the last category is at chance, and of the second nothing was covered."""
    for condition in (None, "random_encoder"):
        fields: dict[str, Any] = {
            "task": "minimal_pairs",
            "encoder": encoder,
            "condition": condition,
        }
        told: dict[str, Any] = {"method": "single_mask"}
        for place, category in enumerate(categories):
            counts = {"category": category, "pairs": 400, "covered": 0 if place == 1 else 300}
            p = level if condition is None and place < len(categories) - 1 else 0.5
            if place == 1:
                details = {**told, **counts, "reason": "none of the pairs can be scored"}
                yield Score(quantity="accuracy", value=math.nan, n=0, details=details, **fields)
            else:
                yield share(p, 300, details={**told, **counts}, **fields)
        average = {**told, "average": "subject–verb agreement", "categories": 3}
        yield Score(
            quantity="macro_accuracy",
            value=0.5 if condition else level,
            n=600,
            details=average,
            **fields,
        )
        n, dropped = (
            300 * (len(categories) - 1),
            {"a word of several subwords": 100 * (len(categories) - 1) + 400},
        )
        whole = {
            **told,
            "average": "all pairs",
            "pairs": 400 * len(categories),
            "covered": n,
            "dropped": dropped,
        }
        yield share(0.5 if condition else level, n, details=whole, **fields)


def paired_row(
    task: str, first: str, second: str, p: float, difference: float = 0.05, encoder: str = "e"
) -> Score:
    """A paired test."""
    details = {
        "first": first,
        "second": second,
        "only_first": 60,
        "only_second": 30,
        "p": p / 2,
        "corrected_p": p,
    }
    return Score(
        quantity="accuracy_difference",
        value=difference,
        low=difference - 0.03,
        high=difference + 0.03,
        n=600,
        task=task,
        layer=1,
        other_layer=0,
        condition="paired_test",
        encoder=encoder,
        details=details,
    )


def battery_scores(encoder: str, layers: int, level: float = 0.9) -> list[Score]:
    """All kinds of tasks."""
    words = ("ADJ", "NOUN", "PRON", "VERB")
    return [
        *label_scores(
            "language_id",
            layers,
            800,
            level,
            1 / 8,
            LANGUAGES,
            control="shuffled_labels",
            encoder=encoder,
        ),
        share(
            0.93,
            800,
            condition="character_ngrams",
            task="language_id",
            encoder=encoder,
            details={"part": "test"},
        ),
        share(
            0.95,
            800,
            condition="fasttext",
            task="language_id",
            encoder=encoder,
            details={"part": "test"},
        ),
        *label_scores(
            "upos", layers, 1000, level, 0.3, words, control="control_task", encoder=encoder
        ),
        *length_scores("upos", layers, encoder),
        *label_scores(
            "my <b>task</b>",
            layers,
            400,
            0.55,
            0.5,
            ("no", "yes"),
            control="shuffled_labels",
            encoder=encoder,
        ),
        *wic_scores(layers, 638, encoder),
        *correlation_scores(layers, encoder),
        *tree_scores(layers, encoder),
        *pair_scores(encoder, level - 0.1),
        paired_row("upos", f"layer {layers * 2 // 3}", "layer 0", 0.0002, -0.05, encoder),
        paired_row("wic", f"layer {layers * 2 // 3}", "layer 0", 0.4, -0.01, encoder),
    ]


def make_probe_run(folder: Path, scores: list[Score], **config: Any) -> Path:
    """Write a whole run folder; keyword arguments replace parts of its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "kind": "probe",
                "cards": {**cards(), "feature_Number": find_task("feature_Number").record()},
                "settings": {"battery": "all", "seed": 0, "random_control": True},
                "not_measured": {"topic": "no sib200/sib200.tsv (nor .gz) in the data folder"},
                "versions": {"python": "3.11.7"},
                **config,
            }
        )
    )
    write_scores(scores, folder / "scores.jsonl")
    return folder


def small_run(folder: Path) -> Path:
    """A run with all kinds of tasks on 13 layers."""
    return make_probe_run(folder / "small-run", battery_scores("small", 13))


def two_runs(folder: Path) -> list[Path]:
    """Two runs of fewer tasks, on 13 and on 25 layers."""
    shapes, tasks = {"small": (13, 0.9), "large": (25, 0.97)}, ("upos", "wic", "minimal_pairs")
    scores = {
        name: [without(s, "confusion") for s in battery_scores(name, *shape) if s.task in tasks]
        for name, shape in shapes.items()
    }
    return [
        make_probe_run(folder / f"{name}-run", rows, data={"files": {"test": "hash"}})
        for name, rows in scores.items()
    ]


def without(score: Score, *names: str) -> Score:
    """A score that lacks some details."""
    return dataclasses.replace(
        score,
        details={name: value for name, value in (score.details or {}).items() if name not in names},
    )


if __name__ == "__main__":
    from crosslens.report.pages.page import write_comparison, write_report

    top, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 13
    runs = [
        make_probe_run(top / name, battery_scores(name, n, p))
        for name, n, p in (("small", count, 0.9), ("large", 2 * count - 1, 0.95))
    ]
    print(*map(write_report, runs), write_comparison(runs, top / "both.html"), sep="\n")
