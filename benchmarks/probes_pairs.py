"""How fast are minimal pairs scored? Pseudo-log-likelihood of BLiMP pairs, beside a bare forward
pass and another method, in one run.

    python benchmarks/probes_pairs.py [--quick] [--encoder FOLDER] [--shape SHAPE] [--pairs
    FILE_OR_FOLDER] [--count N]

Contestants, on the same pairs:

    floor       encoder over the masked copies that are needed, each once, as tensors that lie
                ready, in batches of one length; head at the masked places; keeps nothing
    crosslens   from sentences to scores
    minicons    its method as published, restated here in a few lines: all masked copies of a batch
                of sentences go through the whole model together, padded to the longest, with the
                vocabulary head at every token and the softmax at the masked ones. Of several batch
                sizes the fastest counts.

They take turns, a tenth of the pairs each time; ratios are medians over these rounds of wall time,
beside those of CPU time, which leave out waiting. The scores must agree. How much the head at every
token costs depends on its share of the model. Without ``--encoder``, the model has a shape from
``--shape``, the tokeniser of our small encoder, and random weights, which are no faster or slower
than others:

    multilingual    that of Multilingual-MiniLM-L12-H384: 12 layers, d = 384, 250,037 subwords
    english         that of MiniLM-L6-H384: 6 layers, d = 384, 30,522 subwords

The last line is one JSON object.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosslens.models.scoring.cloze import ClozeScorer, load_scorer
from crosslens.progress import be_quiet
from crosslens.readers.minimal_pairs import read_minimal_pairs

SHAPES = {"multilingual": (12, 250_037), "english": (6, 30_522)}  # layers, rows of the vocabulary
_BATCH_TOKENS = 512
_MINICONS_BATCHES = (2, 4, 8)  # sentences


def shaped_encoder(folder: Path, shape: str = "multilingual") -> str:
    """Write a random masked language model of one of the shapes, with the tokeniser of our small
    encoder; returns the folder."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    layers, rows = SHAPES[shape]
    inner: dict[str, Any] = {
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    }
    BertForMaskedLM(BertConfig(vocab_size=rows, num_hidden_layers=layers, **inner)).save_pretrained(
        folder
    )
    AutoTokenizer.from_pretrained(
        str(resources.files("crosslens") / "data" / "tiny-encoder")
    ).save_pretrained(folder)
    return str(folder)


def measure(
    encoder: str, pairs: Path, count: int, out: Callable[[str], None] = print
) -> dict[str, float]:
    """Time the contestants on so many pairs of a file or folder; a table goes to ``out``.

    Returns
    -------
    pairs_ratio_to_floor, our time over the floor's; pairs_speedup_vs_minicons, the other method's
    time over ours.
    """
    be_quiet()
    scorer = load_scorer(encoder)
    found = read_minimal_pairs(pairs)
    chosen = np.random.default_rng(0).permutation(len(found))[:count]
    parts = [
        [text for i in part for text in (found[i].good, found[i].bad)]
        for part in np.array_split(chosen, 2 if count < 100 else 10)
    ]
    size = (
        4
        if count < 100
        else min(
            _MINICONS_BATCHES,
            key=lambda some: _seconds(lambda: _minicons(scorer, parts[0][:16], some))[1],
        )
    )
    copies, times = (
        0,
        {
            name: list[tuple[float, float]]()
            for name in ("floor", "crosslens", f"minicons' method, {size} at a time")
        },
    )
    for sentences in parts:
        batches = _ready(scorer, sentences)
        copies += sum(len(ids) for ids, _ in batches)
        runs = [
            _seconds(lambda: _floor(scorer, batches)),  # noqa: B023 (called at once)
            _seconds(lambda: scorer.score_sentences(sentences).total),  # noqa: B023
            _seconds(lambda: _minicons(scorer, sentences, size)),  # noqa: B023
        ]
        for (wall, cpu, _), taken in zip(runs, times.values(), strict=True):
            taken.append((wall, cpu))
        if not np.allclose(runs[1][2], runs[2][2], rtol=1e-4, atol=1e-3, equal_nan=True):
            raise AssertionError("the contestants' scores differ")
    floor, ours, theirs = times
    out(
        f"{len(chosen):,} pairs, {copies:,} masked copies, {scorer.model.name}, "
        f"{torch.get_num_threads()} thread(s)"
    )
    out(f"{'':42} {'s':>8} {'CPU s':>8} {'x floor':>8} {'by CPU':>8}")
    for name, taken_by in times.items():
        wall, worked = (sum(column) for column in zip(*taken_by, strict=True))
        out(
            f"{name:42} {wall:8.2f} {worked:8.2f} {_ratio(times, name, floor):8.2f} "
            f"{_ratio(times, name, floor, 1):8.2f}"
        )
    return {
        "pairs_ratio_to_floor": round(_ratio(times, ours, floor), 3),
        "pairs_speedup_vs_minicons": round(_ratio(times, theirs, ours), 2),
    }


def _ratio(
    times: dict[str, list[tuple[float, float]]], one: str, other: str, column: int = 0
) -> float:
    """The median over rounds of one contestant's time over another's: wall (0) or CPU (1)."""
    return statistics.median(
        a[column] / b[column] for a, b in zip(times[one], times[other], strict=True)
    )


def _seconds(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and CPU seconds, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def _copies(scorer: ClozeScorer, sentence: str) -> tuple[Tensor, Tensor, Tensor]:
    """The masked copies of a sentence, (k, l), their masked places and what stood there."""
    ids = torch.tensor(scorer.model.tokenizer(sentence)["input_ids"])
    special = torch.tensor(
        scorer.model.tokenizer(sentence, return_special_tokens_mask=True)["special_tokens_mask"]
    )
    places = torch.nonzero(special == 0)[:, 0]
    copies = ids.repeat(len(places), 1)
    copies[torch.arange(len(places)), places] = scorer.model.tokenizer.mask_token_id
    return copies, places, ids[places]


def _ready(scorer: ClozeScorer, sentences: Sequence[str]) -> list[tuple[Tensor, Tensor]]:
    """The floor's batches: every different masked copy once, of one length each, and the masked
    places."""
    different: dict[tuple[int, ...], int] = {}
    for sentence in sentences:
        copies, places, _ = _copies(scorer, sentence)
        different.update(zip(map(tuple, copies.tolist()), places.tolist(), strict=True))
    batches = []
    rows = sorted(different, key=len)
    while rows:
        some = [
            row for row in rows[: max(1, _BATCH_TOKENS // len(rows[0]))] if len(row) == len(rows[0])
        ]
        batches.append((torch.tensor(some), torch.tensor([different[row] for row in some])))
        rows = rows[len(some) :]
    return batches


@torch.inference_mode()
def _floor(scorer: ClozeScorer, batches: list[tuple[Tensor, Tensor]]) -> None:
    model = scorer.model.model
    head = model.cls if hasattr(model, "cls") else model.lm_head  # BERT, RoBERTa and their kin
    for ids, places in batches:
        head(model.base_model(input_ids=ids).last_hidden_state[torch.arange(len(ids)), places])


@torch.inference_mode()
def _minicons(scorer: ClozeScorer, sentences: Sequence[str], size: int) -> np.ndarray:
    """Scores of whole sentences, each batch of them in one pass of the whole model."""
    totals = []
    for start in range(0, len(sentences), size):
        parts = [_copies(scorer, sentence) for sentence in sentences[start : start + size]]
        width = max(copies.shape[1] for copies, _, _ in parts)
        pad = scorer.model.encoder.pad_id
        ids = torch.cat(
            [
                torch.nn.functional.pad(copies, (0, width - copies.shape[1]), value=pad)
                for copies, _, _ in parts
            ]
        )
        mask = torch.cat(
            [
                (torch.arange(width) < copies.shape[1]).long().expand(len(copies), -1)
                for copies, _, _ in parts
            ]
        )
        places, targets = (torch.cat([part[i] for part in parts]) for i in (1, 2))
        scores = (
            scorer.model.model(input_ids=ids, attention_mask=mask)
            .logits[torch.arange(len(ids)), places]
            .log_softmax(-1)
        )
        picked = scores[torch.arange(len(ids)), targets].double()
        totals += [
            float(some.sum()) for some in picked.split([len(copies) for copies, _, _ in parts])
        ]
    unknown = [
        scorer.model.tokenizer.unk_token_id in scorer.model.tokenizer(sentence)["input_ids"]
        for sentence in sentences
    ]
    return np.where(unknown, np.nan, totals)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the scoring of minimal pairs.")
    parser.add_argument("--quick", action="store_true", help="a rough answer in half a minute")
    parser.add_argument("--encoder", help="folder of a masked language model")
    parser.add_argument(
        "--shape",
        choices=SHAPES,
        default="multilingual",
        help="that of the model that is made up without one",
    )
    data = Path(
        os.environ.get("CROSSLENS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    )
    parser.add_argument(
        "--pairs",
        type=Path,
        default=data / "blimp",
        help="file or folder of pairs (default: blimp in $CROSSLENS_DATA)",
    )
    parser.add_argument("--count", type=int, default=200, help="of pairs (default: %(default)s)")
    asked = parser.parse_args()
    if not asked.pairs.exists():
        raise SystemExit(
            f"{asked.pairs}: no such file or folder; give --pairs, or set CROSSLENS_DATA"
        )
    with tempfile.TemporaryDirectory() as folder:
        encoder = asked.encoder or shaped_encoder(Path(folder) / asked.shape, asked.shape)
        print(json.dumps(measure(encoder, asked.pairs, 12 if asked.quick else asked.count)))


if __name__ == "__main__":
    main()
