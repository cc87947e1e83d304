"""How long do CSLS and self-learning take? Beside the bare matrix products, faiss, and vecmap's and
MUSE's methods, in one run.

    python benchmarks/alignment.py [--quick] [--threads 1 2] [--sizes 20000 50000 200000] [--rounds
    3]

1,500 queries look for their 10 best translations by CSLS (10 neighbours) among V words of 300
dimensions, r being that of whole vocabularies. Contestants, each in a process of its own, in turns:

    bare products    V × V and 1,500 × V, in tiles as large as crosslens's largest; nothing is
                     looked at: the floor
    crosslens        csls_neighbours(x, y, 10, rows=queries); where the latter take up to 512 MB, it
                     keeps them from the former
    faiss            flat indexes in both directions: all targets among the sources, the queries
                     among the targets; then the scores
    vecmap           targets against all sources, 1,000 rows at a time, k passes for the k nearest;
                     then the scores
    MUSE             both vocabularies against each other, 1,024 rows at a time, a partition for the
                     k nearest; then the scores

The last three are re-stated in a few lines from the published formulas; vecmap looks for the one
best translation only. Vectors are clusters and a noisy copy of them, of length 1. All must find the
same translations. "peak MB" is what a process held at most beyond its inputs and libraries; "CPU s"
is what the processor has worked, waiting left out. Ratios are of wall time, medians over rounds.
Self-learning is in alignment_self_learning.py. The last line is one JSON object: the worst of sizes
and numbers of threads.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

_D, _K, _QUERIES = 300, 10, 1500
# Processes keep what they have freed: memory that is asked for anew costs up to 4 ms per MB where a
# virtual machine's host has taken it.
_KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
# share of the queries for which all must find the same; float32 products differ in their last bits
_SAME = 0.999


def vocabularies(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters of some 20 words, a noisy copy, and the rows of the queries."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size // 20, _D)).astype(np.float32)[rng.integers(0, size // 20, size)]
    x += 0.8 * rng.standard_normal(x.shape, np.float32)
    y = x + 0.9 * rng.standard_normal(x.shape, np.float32)
    for side in (x, y):
        side /= np.linalg.norm(side, axis=1, keepdims=True)
    return x, y, rng.permutation(size)[:_QUERIES]


def bare(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Nothing but the products, in tiles as large as the largest of csls_neighbours."""
    rows, columns = 4096, 2048
    tile = np.empty((columns * 2, rows), np.float32)
    for left, a, b in ((x, rows, columns), (x[queries], columns, rows)):
        for row in range(0, len(left), a):
            some = left[row : row + a]
            for column in range(0, len(y), b):
                others = y[column : column + b]
                np.matmul(
                    some,
                    others.T,
                    out=tile.ravel()[: len(some) * len(others)].reshape(len(some), -1),
                )
    return queries


def crosslens(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Ours."""
    from crosslens.alignment.neighbours.csls import csls_neighbours

    return csls_neighbours(x, y, _K, rows=queries, neighbourhood=_K)[0][:, 0]


def by_faiss(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The k nearest of both directions by exhaustive indexes."""
    import faiss

    def mean_of_nearest(keys: np.ndarray, asking: np.ndarray) -> np.ndarray:
        index = faiss.IndexFlatIP(_D)
        index.add(keys)
        found: np.ndarray = index.search(asking, _K)[0]
        return found.mean(axis=1)

    r_y = mean_of_nearest(x, y)
    return _ten_best(x[queries], y, mean_of_nearest(y, x[queries]), r_y)


def vecmap(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The k nearest by k passes; what is usual for a query does not change its order and is left
    out."""
    r_y = np.empty(len(y), np.float32)
    for start in range(0, len(y), 1000):
        block = y[start : start + 1000] @ x.T
        rows, total = np.arange(len(block)), np.zeros(len(block), np.float32)
        for _ in range(_K):
            best = block.argmax(axis=1)
            total += block[rows, best]
            block[rows, best] = -1
        r_y[start : start + 1000] = total / _K
    found = np.empty(len(queries), np.int64)
    for start in range(0, len(queries), 500):
        scores = 2 * (x[queries[start : start + 500]] @ y.T) - r_y
        found[start : start + 500] = scores.argmax(axis=1)
    return found


def muse(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The k nearest of both whole vocabularies."""

    def mean_of_nearest(keys: np.ndarray, asking: np.ndarray) -> np.ndarray:
        means = np.empty(len(asking), np.float32)
        for start in range(0, len(asking), 1024):
            block = asking[start : start + 1024] @ keys.T
            block.partition(len(keys) - _K, axis=1)
            means[start : start + 1024] = block[:, -_K:].mean(axis=1)
        return means

    r_x, r_y = mean_of_nearest(y, x), mean_of_nearest(x, y)
    return _ten_best(x[queries], y, r_x[queries], r_y)


def _ten_best(asking: np.ndarray, y: np.ndarray, r_x: np.ndarray, r_y: np.ndarray) -> np.ndarray:
    """The first of the ten best; 500 queries at a time, so that it fits."""
    found = np.empty(len(asking), np.int64)
    for start in range(0, len(asking), 500):
        some = slice(start, start + 500)
        scores = 2 * (asking[some] @ y.T) - r_x[some, None] - r_y
        ten = np.argpartition(scores, len(y) - _K, axis=1)[:, -_K:]
        order = np.argsort(-np.take_along_axis(scores, ten, axis=1), axis=1)
        found[some] = np.take_along_axis(ten, order, axis=1)[:, 0]
    return found


CONTESTANTS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "bare products": bare,
    "crosslens": crosslens,
    "faiss": by_faiss,
    "vecmap": vecmap,
    "MUSE": muse,
}


def _held(what: str) -> int:
    """Bytes of memory of this process: VmRSS now, VmHWM at most."""
    return (
        next(
            int(line.split()[1])
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith(what)
        )
        * 1024
    )


def _contestant(who: str, folder: str, line: Connection) -> None:
    """The process of one contestant: libraries and inputs are there before its memory is first
    looked at."""
    x, y, queries = (np.load(Path(folder) / f"{name}.npy") for name in ("x", "y", "queries"))
    CONTESTANTS[who](x[:2000], y[:2000], np.arange(100))
    before = _held("VmRSS")
    while line.recv():
        start, worked = time.perf_counter(), time.process_time()
        found = CONTESTANTS[who](x, y, queries)
        line.send(
            (
                time.perf_counter() - start,
                time.process_time() - worked,
                max(0, _held("VmHWM") - before),
                found,
            )
        )


class _Worker:
    """A contestant's process, from outside."""

    def __init__(self, who: str, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=_contestant, args=(who, folder, other), daemon=True)
        self.process.start()
        other.close()
        self.seconds: list[float] = []
        self.worked: list[float] = []

    def turn(self) -> None:
        """Let it do the work once."""
        self.line.send(True)
        try:
            seconds, worked, self.memory, self.found = self.line.recv()
        except EOFError:
            raise SystemExit("a contestant has died; its message is above") from None
        self.seconds.append(seconds)
        self.worked.append(worked)

    def stop(self) -> None:
        self.line.send(False)
        self.process.join()


def measure_size(size: int, threads: int, rounds: int) -> dict[str, float]:
    """One table."""
    os.environ |= {"OMP_NUM_THREADS": str(threads), **_KEEP}  # for the contestants' processes
    with tempfile.TemporaryDirectory() as folder:
        for name, array in zip(("x", "y", "queries"), vocabularies(size), strict=True):
            np.save(Path(folder) / f"{name}.npy", array)
        workers = {who: _Worker(who, folder) for who in CONTESTANTS}
        for number in range(rounds):
            for who in list(workers) if number % 2 == 0 else list(workers)[::-1]:
                print(
                    f"\r{size}: round {number + 1} of {rounds}, {who}{' ' * 20}",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
                workers[who].turn()
        for worker in workers.values():
            worker.stop()
    print(f"\r{' ' * 60}\r", end="", file=sys.stderr)
    return _report(size, threads, workers)


def _report(size: int, threads: int, workers: dict[str, _Worker]) -> dict[str, float]:
    print(f"\n{size} × {size} words, threads: {threads}")
    print(
        f"{'':16}{'seconds':>10}{'spread':>9}{'CPU s':>9}{'to products':>13}{'peak MB':>9}{'same':>8}"
    )
    ratios = {}
    for who, worker in workers.items():
        middle = statistics.median(worker.seconds)
        ratios[who] = statistics.median(
            a / b for a, b in zip(worker.seconds, workers["bare products"].seconds, strict=True)
        )
        same = float((worker.found == workers["crosslens"].found).mean())
        spread = f"± {(max(worker.seconds) - min(worker.seconds)) / 2 / middle:.0%}"
        shown = "–" if who == "bare products" else f"{same:.2%}"
        row = f"{who:16}{middle:>10.2f}{spread:>9}{statistics.median(worker.worked):>9.2f}{ratios[who]:>11.2f} ×"
        print(f"{row}{worker.memory / 1e6:>9.0f}{shown:>8}")
        if who != "bare products" and same < _SAME:
            raise SystemExit(f"{who} finds other translations than crosslens")
    times = {who: workers[who].seconds for who in workers}
    faster = {
        who: statistics.median(b / a for a, b in zip(times["crosslens"], times[who], strict=True))
        for who in workers
    }
    return {
        "csls_ratio_to_products": ratios["crosslens"],
        "csls_peak_mb": workers["crosslens"].memory / 1e6,
        **{f"csls_speedup_vs_{who.lower()}": faster[who] for who in ("faiss", "vecmap", "MUSE")},
    }


def main() -> None:
    """Measure, print the tables and the line of ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="10,000 words: a rough answer in under a minute"
    )
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=sorted({1, os.cpu_count() or 1}),
        help="default: 1, and one a core",
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[20_000, 50_000, 200_000], help="words of each side"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=0,
        help="turns of each contestant (default: 5, 3 or 1 by size)",
    )
    told = parser.parse_args()
    found = []
    for threads in told.threads:
        for size in [10_000] if told.quick else told.sizes:
            rounds = told.rounds or (
                2 if told.quick else 5 if size < 50_000 else 3 if size < 200_000 else 1
            )
            found.append(measure_size(size, threads, rounds))
    worst = {
        name: (min if "speedup" in name else max)(each[name] for each in found) for name in found[0]
    }
    if importlib.util.find_spec("alignment_self_learning") is not None:
        from alignment_self_learning import measure

        rest = [measure(told.quick, threads) for threads in told.threads]
        worst |= {name: min(each[name] for each in rest) for name in rest[0]}
    print(json.dumps({name: round(value, 3) for name, value in worst.items()}))


if __name__ == "__main__":
    main()
