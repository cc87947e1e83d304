"""Invented run folders for the report's tests, and for looking at by eye.

``python tests/report/synthetic_study.py FOLDER [LANGUAGES LAYERS]`` makes one with its report.
"""

import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.score import Score, write_scores
from crosslens.stats import wilson_interval

CODES = ("eng", "fra", "deu", "spa", "rus", "hin", "cmn")


def _share(p: float, n: int, **keys: Any) -> Score:
    low, high = wilson_interval(float(round(p * n)), n)
    return Score(value=round(p * n) / n, n=n, low=low, high=high, **keys)


def retrieval_scores(
    codes: Sequence[str], layers: int, n: int, level: float = 0.5, seed: int = 0
) -> Iterator[Score]:
    """Retrieval that is best in the middle layers, worse for later languages, with two controls."""
    draw = np.random.default_rng(seed)
    for source, target in itertools.permutations(codes, 2):
        ease = (
            level
            / (1 + 0.35 * (codes.index(source) + codes.index(target)))
            * draw.uniform(0.85, 1.15)
        )
        for layer in range(layers):
            shape = math.sin(math.pi * (layer + 1) / (layers + 1.2))
            values = {
                "unaligned": ease * shape,
                "procrustes": min(0.98, 1.7 * ease * shape + 0.1),
                "random_encoder": 0.012,
                "random_encoder_procrustes": 0.03 + 0.01 * shape,
            }
            for condition, value in values.items():
                for part in ("held_out", "all") if "procrustes" not in condition else ("held_out",):
                    count = n if part == "all" else n // 2
                    p = min(1.0, max(0.0, value + draw.normal(0, 0.008)))
                    yield _share(
                        p,
                        count,
                        quantity="precision_at_1",
                        task="sentence_retrieval",
                        layer=layer,
                        source=source,
                        target=target,
                        condition=condition,
                        details={"part": part},
                    )


def similarity_scores(codes: Sequence[str], layers: int, n: int, seed: int = 0) -> Iterator[Score]:
    """CKA that falls with the distance of layers, its biased version, and two controls on the
    diagonal."""
    draw = np.random.default_rng(seed)
    for (i, source), (j, target) in itertools.combinations(enumerate(codes), 2):
        for a, b in itertools.product(range(layers), repeat=2):
            p = (
                0.9
                / (1 + 0.2 * (i + j))
                * math.exp(-abs(a - b) / layers)
                * (0.6 + 0.4 * math.sin(math.pi * (a + b + 1) / (2 * layers)))
            )
            keys: dict[str, Any] = dict(
                n=n, task="similarity", layer=a, other_layer=b, source=source, target=target
            )
            for condition, value in {
                None: p,
                "random_encoder": 0.12 + 0.02 * a / layers,
                "shuffled_items": 0.0,
            }.items():
                if condition is None or a == b:
                    value += draw.normal(0, 0.008)
                    ends = {"low": value - 0.04, "high": value + 0.04} if a == b else {}
                    yield Score(
                        quantity="debiased_linear_cka",
                        value=value,
                        condition=condition,
                        **ends,
                        **keys,
                    )
                    biased = 0.15 + 0.85 * value
                    yield Score(quantity="linear_cka", value=biased, condition=condition, **keys)


def language_id_scores(codes: Sequence[str], layers: int, n: int) -> Iterator[Score]:
    """Language identification that is easy in the middle."""
    details = {"languages": list(codes), "n_train": n}
    base = 1 / len(codes)
    for layer in range(layers):
        values = {
            None: 0.97 - 0.02 * abs(layer - 1),
            "random_encoder": 0.71,
            "shuffled_labels": base + 0.01,
            "majority": base,
        }
        for condition, p in values.items():
            keys: dict[str, Any] = dict(
                task="language_id", layer=layer, condition=condition, details=details
            )
            yield _share(p, n, quantity="accuracy", **keys)
            if condition is None:
                yield Score(quantity="macro_f1", value=p - 0.01, n=n, **keys)


def make_study(
    folder: Path, languages: int | Sequence[str] = 6, layers: int = 5, n: int = 600, **config: Any
) -> Path:
    """Write a whole run folder; keyword arguments replace parts of its configuration."""
    codes = CODES[:languages] if isinstance(languages, int) else languages
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "kind": "study",
                "crosslens": "0.1.0",
                "settings": {
                    "encoders": {"*": "tiny-encoder"},
                    "languages": list(codes),
                    "train_fraction": 0.5,
                    "seed": 0,
                    "random_control": True,
                    "pooling": "mean",
                    "batch_tokens": 4096,
                },
                "data": {
                    "n": n,
                    "texts": {
                        code: {"file": f"{code}.txt", "sentences": n, "sha256": f"{i:064x}"}
                        for i, code in enumerate(codes)
                    },
                },
                "extraction": {code: {"truncated": 0} for code in codes},
                "notes": [],
                "versions": {"python": "3.11.7", "torch": "2.9.1", "numpy": "2.3.5"},
                **config,
            }
        )
    )
    scores = [
        *retrieval_scores(codes, layers, n),
        *similarity_scores(codes, layers, n),
        *language_id_scores(codes, layers, n),
    ]
    write_scores(scores, folder / "scores.jsonl")
    return folder


if __name__ == "__main__":
    from crosslens.report import write_report

    size = [int(part) for part in sys.argv[2:4]]
    print(write_report(make_study(Path(sys.argv[1]), *size)))
