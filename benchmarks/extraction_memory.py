"""Does memory grow with the text? Words of a million sentences are extracted, and the resident
memory is looked at as it goes on.

    python benchmarks/extraction_memory.py [--sentences 1000000] [--encoder FOLDER] [--layers 3 4]
    [--text FILE] [--scratch FOLDER]

Sentences are words of a text in random order, written to a file that stays on disk (``open_text``).
They are extracted in float16 by a process of its own; whenever that has done a hundredth of its
sentences, this one reads from /proc (Linux) what of its memory is
resident: VmRSS in all, and RssAnon, what it has allocated, without files. A table and a curve show
    both passes over the text: the
first tokenises it and writes the index, the second encodes. Then the store's size is compared with
items x d x bytes.

The last line is one JSON object. ``rss_start_mb`` and ``rss_end_mb`` are VmRSS in MB (10^6 bytes),
as medians over the second and the last tenth of the encoding; ``growth_mb_per_million`` is their
difference by a million sentences. With few sentences that is noise, and the time that memory takes
to settle.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

_DATA = Path(__file__).resolve().parents[1] / "crosslens" / "data"
_LENGTHS = (4, 13)  # words of a sentence: from, to (excluded)
_WIDTH = 60  # characters of the curve
# bytes of a store beside arrays and index: its manifest, which has a line for each block and array
_BEYOND = 1 << 20


def write_text(path: Path, source: Path, sentences: int) -> int:
    """Write random sentences of a text's words, and return how many words they have."""
    words = np.array(source.read_text(encoding="utf-8").split(), object)
    draw, total = np.random.default_rng(0), 0
    with open(path, "w", encoding="utf-8") as file:
        for start in range(0, sentences, 10_000):
            lengths = draw.integers(*_LENGTHS, min(10_000, sentences - start))
            chosen = words[draw.integers(0, len(words), lengths.sum())]
            file.writelines(
                " ".join(some) + "\n" for some in np.split(chosen, np.cumsum(lengths)[:-1])
            )
            total += int(lengths.sum())
    return total


def work(encoder: str, layers: list[int], text: Path, store: Path, line: Connection) -> None:
    """The process that is watched: extracts, and tells at every hundredth what it is at."""
    import torch

    from crosslens.models.extraction import extract
    from crosslens.models.saved.loading import load_encoder
    from crosslens.progress import Progress, be_quiet
    from crosslens.readers.plain import open_text

    class Told(Progress):
        """Progress that is sent, and waits until memory has been looked at."""

        def add(self, count: int, note: str = "") -> None:
            before, each = self.done, max(1, self.total // 100)
            super().add(count, note)
            if before // each != self.done // each:
                line.send((self.label.split()[0], self.done, self.total))
                line.recv()

    be_quiet()
    torch.set_num_threads(1)
    vars(extract)["Progress"] = Told  # nothing but a look at it is changed
    extract.extract(
        load_encoder(encoder),
        open_text(text, "und"),
        store,
        unit="word",
        layers=layers,
        dtype="float16",
    )
    line.send(None)


def resident(pid: int) -> tuple[float, float]:
    """VmRSS and RssAnon of a process in MB."""
    fields = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024 / 1e6, int(
        fields["RssAnon"].split()[0]
    ) * 1024 / 1e6


def watch(arguments: tuple[Any, ...]) -> list[tuple[str, int, float, float]]:
    """Extract in a process of its own; at each hundredth of each pass: the pass, sentences done,
    VmRSS, RssAnon."""
    context = multiprocessing.get_context("spawn")
    line, other = context.Pipe()
    process = context.Process(target=work, args=(*arguments, other), daemon=True)
    process.start()
    other.close()
    samples = []
    try:
        while told := line.recv():
            samples.append((told[0], told[1], *resident(process.pid or 0)))
            line.send(None)
    except EOFError:
        raise SystemExit("the extraction has died; its message is above") from None
    process.join()
    return samples


def show(samples: list[tuple[str, int, float, float]]) -> None:
    """The curve: a row for each twentieth of each pass, from 0 to the most that was resident."""
    most = max(sample[2] for sample in samples)
    print(
        f"{'pass':12}{'sentences':>12}{'VmRSS MB':>11}{'RssAnon MB':>12}   0 to {most:.0f} "
        f"MB: = RssAnon, - the rest of VmRSS"
    )
    for name in dict.fromkeys(sample[0] for sample in samples):
        mine = [sample for sample in samples if sample[0] == name]
        for _, done, rss, anon in mine[:: math.ceil(len(mine) / 20)]:
            bars = round(anon / most * _WIDTH), round(rss / most * _WIDTH)
            print(
                f"{name:12}{done:>12,}{rss:>11.1f}{anon:>12.1f}   "
                f"{'=' * bars[0]}{'-' * (bars[1] - bars[0])}"
            )


def check_size(folder: Path, words: int) -> None:
    """Compare the store's size with what it must be.

    Raises
    ------
    SystemExit: there is more in it, or less.
    """
    from crosslens.activations import HEADER, Activations

    store = Activations(folder)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    index, whole = sizes["index.parquet"], sum(sizes.values())
    arrays = len(store.arrays) * (HEADER + words * store.d * 2)
    beside = whole - arrays - index
    told = f"{len(store.arrays)} arrays x ({words:,} words x {store.d} x 2 bytes + {HEADER})"
    print(f"\nstore: {whole / 1e6:,.1f} MB = {told} {arrays / 1e6:,.1f} MB")
    print(
        f"       + index {index / 1e6:,.1f} MB ({index / words:.1f} bytes a word) + manifest "
        f"{beside / 1e6:.2f} MB"
    )
    if (
        store.n != words
        or any(
            sizes[f"{name}.safetensors"] != HEADER + words * store.d * 2 for name in store.arrays
        )
        or beside > _BEYOND
    ):
        raise SystemExit(f"the store is not of the size expected: {store.n:,} items, {sizes}")


def main() -> None:
    """Write the text, extract, show, check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="20,000 sentences")
    parser.add_argument(
        "--encoder",
        default=str(_DATA / "tiny-encoder"),
        help="default: the tiny encoder that the package brings",
    )
    parser.add_argument(
        "--layers",
        nargs="+",
        type=int,
        default=[3, 4],
        help="hidden states to keep (default: 3 4, its last two)",
    )
    parser.add_argument(
        "--text", type=Path, default=_DATA / "corpus" / "eng.txt", help="where the words are from"
    )
    parser.add_argument(
        "--scratch", help="folder to write to and delete from (default: the system's)"
    )
    told = parser.parse_args()
    sentences = 20_000 if told.quick else told.sentences
    with tempfile.TemporaryDirectory(dir=told.scratch) as name:
        text, store = Path(name) / "text.txt", Path(name) / "store"
        words = write_text(text, told.text, sentences)
        width = json.loads((Path(told.encoder) / "config.json").read_text())["hidden_size"]
        size = words * width * 2 * len(told.layers) / 1e9
        print(
            (
                f"{sentences:,} sentences, {words:,} words, {text.stat().st_size / 1e6:,.1f} MB "
                f"of text; arrays of {size:.2f} GB"
            ),
            flush=True,
        )
        started = time.perf_counter()
        samples = watch((told.encoder, told.layers, text, store))
        seconds = time.perf_counter() - started
        show(samples)
        check_size(store, words)
    encoding = [sample for sample in samples if sample[0] == "encoding"]
    tenth = len(encoding) // 10 or 1
    first, last = encoding[tenth : 2 * tenth] or encoding, encoding[-tenth:]
    start, end = (statistics.median(sample[2] for sample in some) for some in (first, last))
    passed = statistics.median(sample[1] for sample in last) - statistics.median(
        sample[1] for sample in first
    )
    growth = (end - start) / passed * 1e6 if passed else None  # too few sentences to tell
    ratios = {
        "rss_start_mb": start,
        "rss_end_mb": end,
        "growth_mb_per_million": growth,
        "seconds": seconds,
    }
    print(
        json.dumps(
            {name: None if value is None else round(value, 1) for name, value in ratios.items()}
        )
    )


if __name__ == "__main__":
    main()
