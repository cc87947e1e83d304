"""Every named sharing plan on real English and French, beside n-gram models of the same subwords.

    python benchmarks/plans.py tatoeba.en-fr.tsv.gz [--steps 2600] [--systems default,sep-emb]
    [--out FOLDER]

Trains a small model (few subwords, so that minutes are enough) for each system of Conneau et al.
2020, Table 1, without parallel data (the two columns are two texts), and prints held-out perplexity
of masked tokens beside that of a unigram and of a bigram model, interpolated with weights that are
tuned on the held-out text itself (which flatters them). The last line is one JSON object. A run
goes on where it stopped.
"""

import argparse
import json
import math
import tempfile
from pathlib import Path

import numpy as np

from crosslens.models.network.shape import EncoderConfig
from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.masked_lm import prepare, train
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe, resolve
from crosslens.models.training.sources import read_source


def recipe(text: str, system: str, steps: int) -> TrainRecipe:
    """A small recipe with the eight layers that the systems name."""
    sources = tuple(
        Source(name=language, texts={language: text}, columns={language: column})
        for column, language in enumerate(("eng", "fra"))
    )
    return TrainRecipe(
        name=system,
        sources=sources,
        steps=steps,
        sharing=system,
        tlm_share=0.0,
        batch_tokens=2048,
        max_length=56,
        validate_every=steps,
        validation=500,
        vocabulary=Vocabulary(size=300, kind="bpe", sentences=60_000),
        encoder=EncoderConfig(
            hidden_size=64, layers=8, heads=4, ffn_size=256, max_positions=64, dropout=0.0
        ),
        masking=Masking(rate=0.15),
        optimisation=Optimisation(peak_rate=4e-3, warmup=200, weight_decay=0.3),
    )


def ngrams(
    train_rows: list[np.ndarray], held_out: list[np.ndarray], size: int
) -> tuple[float, float]:
    """Perplexity of a unigram model (add one) and of a bigram model interpolated with it, on
    held-out rows of ids with marks."""
    pieces = np.concatenate([row[1:-1] for row in train_rows])
    unigram = (np.bincount(pieces, minlength=size) + 1.0) / (len(pieces) + size)
    keys = np.concatenate([row[:-1].astype(np.int64) * size + row[1:] for row in train_rows])
    known, counts = np.unique(keys, return_counts=True)
    before = np.bincount(np.concatenate([row[:-1] for row in train_rows]), minlength=size)
    firsts, seconds = (
        np.concatenate([row[a : len(row) - b] for row in held_out]) for a, b in ((0, 2), (1, 1))
    )
    at = np.minimum(
        np.searchsorted(known, firsts.astype(np.int64) * size + seconds), len(known) - 1
    )
    seen = np.where(
        known[at] == firsts.astype(np.int64) * size + seconds, counts[at], 0
    ) / np.maximum(before[firsts], 1)
    best = min(
        -np.log(w * seen + (1 - w) * unigram[seconds]).mean() for w in np.linspace(0.05, 0.95, 19)
    )
    return math.exp(-np.log(unigram[seconds]).mean()), math.exp(best)


def baselines(folder: Path, what: TrainRecipe) -> dict[str, tuple[float, float]]:
    """The n-gram models of each language, in the ids of a run."""
    what = resolve(what)
    vocabularies, data = prepare(
        what, {source.name: read_source(source) for source in what.sources}, folder
    )

    def rows(stream: object) -> list[np.ndarray]:
        (side,) = stream.sides  # type: ignore[attr-defined]
        return [np.concatenate([[2], side[int(i)], [3]]) for i in stream.rows]  # type: ignore[attr-defined]

    found = {}
    for language in what.languages:
        training = next(stream for stream in data.streams if stream.languages == (language,))
        held_out = next(
            stream for stream in data.held_out.values() if stream.languages == (language,)
        )
        found[language] = ngrams(rows(training), rows(held_out), vocabularies.sizes[language])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", help="tab-separated English and French")
    parser.add_argument("--steps", type=int, default=2600)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--out", default=None)
    arguments = parser.parse_args()
    out = Path(arguments.out or tempfile.mkdtemp())
    print(
        f"{'system':16} {'language':8} {'unigram':>8} {'bigram':>8} {'ours':>8}  "
        f"{'tokens':>8} {'minutes':>7}"
    )
    worst = {"ratio_to_unigram": 0.0, "ratio_to_bigram": 0.0}
    for system in arguments.systems.split(","):
        what = recipe(arguments.text, system, arguments.steps)
        train(what, out / system, resume=True)
        lines = [json.loads(line) for line in (out / system / "log.jsonl").read_text().splitlines()]
        last = next(line for line in reversed(lines) if "perplexity" in line)
        for language, (unigram, bigram) in baselines(out / system, what).items():
            ours = last["perplexity"][language]
            worst["ratio_to_unigram"] = max(worst["ratio_to_unigram"], ours / unigram)
            worst["ratio_to_bigram"] = max(worst["ratio_to_bigram"], ours / bigram)
            cost = f"{last['tokens'] / 1e6:7.1f}M {last['seconds'] / 60:7.1f}"
            print(
                f"{system:16} {language:8} {unigram:8.1f} {bigram:8.1f} {ours:8.1f}  {cost}",
                flush=True,
            )
    print(json.dumps({name: round(value, 3) for name, value in worst.items()}))


if __name__ == "__main__":
    main()
