"""Invented training runs for the report's tests, and for looking at by eye.

``python tests/report/synthetic_training.py FOLDER [STEPS_DONE]`` makes one with its report.
"""

import itertools
import json
import math
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = {"news": ("eng", "fra", "deu"), "bible": ("eng", "fra")}


def _lines(
    sources: Mapping[str, Sequence[str]], steps: int, done: int, layers: int
) -> list[dict[str, Any]]:
    """A log: a loss every tenth of a hundredth of the steps, a validation every tenth."""
    draw, lines = np.random.default_rng(0), []
    codes = dict.fromkeys(code for languages in sources.values() for code in languages)
    for step in range(steps // 100, done + 1, steps // 100):
        part, tokens = step / steps, step * 2000
        loss = 3 + 5 * math.exp(-5 * part) + draw.normal(0, 0.05)
        lines.append(
            {"step": step, "tokens": tokens, "loss": loss, "tokens_per_second": 8000 + step % 7}
        )
        if step % (steps // 10) == 0:
            perplexity = {
                code: (40 + 10 * i) * math.exp(3 * (1 - part)) for i, code in enumerate(codes)
            }
            retrieval = {
                f"{source} {a}-{b}": [
                    round(0.02 + 0.3 * part * math.sin(math.pi * (k + 1) / (layers + 1)), 4)
                    for k in range(layers)
                ]
                for source, languages in sources.items()
                for a, b in itertools.combinations(languages, 2)
            }
            lines.append(
                {"step": step, "tokens": tokens, "perplexity": perplexity, "retrieval": retrieval}
            )
    return lines


def make_training(
    folder: Path,
    done: int = 1000,
    *,
    steps: int = 1000,
    sources: Mapping[str, Sequence[str]] = SOURCES,
    layers: int = 5,
    model: bool | None = None,
    name: str = "tiny-encoder",
    **settings: Any,
) -> Path:
    """Write the folder of a run of which so many steps are done; keyword arguments replace
    settings."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = [
        {"name": s, "texts": {c: f"/data/{s}.{c}.txt" for c in codes}, "weight": 1.0}
        for s, codes in sources.items()
    ]
    (folder / "config.json").write_text(
        json.dumps(
            {
                "kind": "train",
                "settings": {
                    "name": name,
                    "sources": entries,
                    "steps": steps,
                    "seed": 7,
                    "vocabulary": {"size": 500, "kind": "unigram"},
                    "encoder": {
                        "vocab_size": 500,
                        "hidden_size": 64,
                        "layers": layers - 1,
                        "heads": 4,
                    },
                    "masking": {"rate": 0.3},
                    **settings,
                },
            }
        )
    )
    groups = [
        f"{s} {'-'.join(group)}"
        for s, codes in sources.items()
        for k in (1, 2)
        for group in itertools.combinations(codes, k)
    ]
    (folder / "data.json").write_text(
        json.dumps(
            {
                "streams": {
                    group: {"items": 1000 + i, "tokens": 23456, "drawn": round(1 / len(groups), 4)}
                    for i, group in enumerate(groups)
                },
                "held_out": {group: 100 + i for i, group in enumerate(groups)},
                "left_out": {"repeated": 1234, "longer than 38 subwords": 5},
            }
        )
    )
    (folder / "log.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in _lines(sources, steps, done, layers))
    )
    if done == steps if model is None else model:
        header = json.dumps(
            {
                "__metadata__": {"format": "pt"},
                "a": {"dtype": "F16", "shape": [500, 64], "data_offsets": [0, 64000]},
            }
        )
        (folder / "model").mkdir(exist_ok=True)
        (folder / "model" / "model.safetensors").write_bytes(
            struct.pack("<Q", len(header)) + header.encode()
        )
        (folder / "model" / "config.json").write_text(json.dumps({"vocab_size": 498}))
    return folder


if __name__ == "__main__":
    from crosslens.report import write_report

    print(write_report(make_training(Path(sys.argv[1]), *map(int, sys.argv[2:3]))))
