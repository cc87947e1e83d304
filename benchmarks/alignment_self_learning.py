"""Self-learning beside VecMap's published procedure: seconds per iteration, and whether both arrive
at the same dictionary.

    python benchmarks/alignment_self_learning.py [--quick] [--threads 1]

VecMap is no package; its iteration is re-stated here from the paper (Artetxe, Labaka & Agirre 2018)
as its authors run it: four products of mapped vectors (for the CSLS terms of each side, and for
each direction of the dictionary), and a number sampled for every candidate pair. Where its code does
something slower than the paper asks for, the quicker way stands here: blocks of 1,000 rows and not
of 10,000, single precision throughout, and k passes for the k nearest or a partition, whichever
took less time. What is dropped is removed on both sides. The last line is one JSON object.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from crosslens.alignment.maps.induction import _induce, self_learning
from crosslens.alignment.maps.learning_state import LearningState
from crosslens.alignment.maps.procrustes import orthogonal_procrustes
from crosslens.alignment.normalisation import normalise
from crosslens.alignment.rows import unit_rows
from crosslens.progress import be_quiet

_ROWS = 1000  # of one side in a block of the re-stated procedure
_K, _KEEP = 10, 0.1


def spaces(
    n: int, d: int, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters of unequal size and width, a rotated, reordered and noisy copy, and each word's own
    row of the copy."""
    rng = np.random.default_rng(seed)
    scales = rng.gamma(2, 1, size=d)
    sizes = 1 / np.arange(1, n // 20 + 1)
    centres = rng.normal(size=(n // 20, d))[rng.choice(n // 20, n, p=sizes / sizes.sum())]
    x = (centres + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.5, size=(n, 1))) * scales
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    place = rng.permutation(n)
    y = (x @ turn + noise * rng.normal(size=(n, d)) * scales.mean())[place]
    return normalise(x.astype(np.float32)), normalise(y.astype(np.float32)), np.argsort(place)


def mean_of_nearest_by_passes(block: np.ndarray, k: int) -> np.ndarray:
    """The largest, removed, and again: k passes; the block is used up."""
    rows, total = np.arange(len(block)), np.zeros(len(block), block.dtype)
    for _ in range(k):
        best = block.argmax(axis=1)
        total += block[rows, best]
        block[rows, best] = -np.inf
    return total / k


def mean_of_nearest_by_partition(block: np.ndarray, k: int) -> np.ndarray:
    return np.partition(block, block.shape[1] - k, axis=1)[:, -k:].mean(axis=1)


def published(
    x: np.ndarray,
    y: np.ndarray,
    keep: float,
    rng: np.random.Generator,
    mean_of_nearest: Callable[[np.ndarray, int], np.ndarray],
) -> tuple[np.ndarray, float]:
    """VecMap's induction of a dictionary: pairs of both directions, and the objective."""
    pairs, objective = [], []
    for one, other in ((x, y), (y, x)):
        r = np.empty(len(other), one.dtype)
        for start in range(0, len(other), _ROWS):
            r[start : start + _ROWS] = mean_of_nearest(other[start : start + _ROWS] @ one.T, _K)
        best, choice = np.empty(len(one), one.dtype), np.empty(len(one), int)
        for start in range(0, len(one), _ROWS):
            block = one[start : start + _ROWS] @ other.T
            best[start : start + _ROWS] = block.max(axis=1)
            block -= r / 2
            if keep < 1:
                block[rng.random(block.shape, dtype=np.float32) >= keep] = -np.inf
            choice[start : start + _ROWS] = block.argmax(axis=1)
        found = np.stack([np.arange(len(one)), choice], axis=1)
        pairs.append(found if one is x else found[:, ::-1])
        objective.append(best.mean(dtype=np.float64))
    return np.concatenate(pairs), float(np.mean(objective))


def published_self_learning(
    x: np.ndarray, y: np.ndarray, pairs: np.ndarray, patience: int, seed: int
) -> np.ndarray:
    """The whole procedure; the last dictionary."""
    rng = np.random.default_rng(seed)
    keep, best, last_gain, iteration = _KEEP, -np.inf, 0, 0
    while True:
        if iteration - last_gain >= patience:
            if keep >= 1:
                return pairs
            keep, last_gain = min(1.0, 2 * keep), iteration
        rotation = orthogonal_procrustes(x[pairs[:, 0]], y[pairs[:, 1]])
        pairs, objective = published(x @ rotation, y, keep, rng, mean_of_nearest_by_partition)
        iteration += 1
        if objective - best >= 1e-6:
            best, last_gain = objective, iteration


def seconds_per_iteration(n: int, d: int, times: int) -> dict[str, float]:
    """Medians over iterations that follow one another, each from the pairs of the one before; the
    contestants take turns.

    Our first iteration, of hundreds, is shown by itself: words are grouped by what the iteration
    before has found.
    """
    x, y, own = spaces(n, d, 0.5)
    start = np.stack([np.arange(n // 20), own[: n // 20]], axis=1)
    now = LearningState(start, np.arange(n), np.arange(n), np.random.default_rng(0))
    rng = np.random.default_rng(0)

    def ours(mapped: np.ndarray) -> np.ndarray:
        _induce(mapped, y, _K, _KEEP, now)
        return now.pairs

    contestants: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
        "crosslens": ours,
        "published, k passes": lambda mapped: published(
            mapped, y, _KEEP, rng, mean_of_nearest_by_passes
        )[0],
        "published, partition": lambda mapped: published(
            mapped, y, _KEEP, rng, mean_of_nearest_by_partition
        )[0],
        "one bare product": lambda mapped: _bare(mapped, y),
    }
    pairs = dict.fromkeys(contestants, start)
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(times + 1):
        for name, contestant in contestants.items():
            if turn == 0 and name != "crosslens":
                continue
            before = time.perf_counter()
            found = contestant(
                x @ orthogonal_procrustes(x[pairs[name][:, 0]], y[pairs[name][:, 1]])
            )
            taken[name].append(time.perf_counter() - before)
            if found is not None:
                pairs[name] = found
    first = taken["crosslens"].pop(0)
    return {
        **{name: statistics.median(seconds) for name, seconds in taken.items()},
        "crosslens, the first": first,
    }


def _bare(x: np.ndarray, y: np.ndarray) -> None:
    for start in range(0, len(x), _ROWS):
        x[start : start + _ROWS] @ y.T


def final_precision(
    n: int, d: int, noise: float, patience: int, seeds: int
) -> dict[str, list[float]]:
    """P@1 of the orthogonal map fitted to the last dictionary, from 25 right pairs; one number per
    seed."""
    result: dict[str, list[float]] = {"crosslens": [], "published": []}
    for seed in range(seeds):
        x, y, own = spaces(n, d, noise, seed)
        start = np.stack([np.arange(25), own[:25]], axis=1)
        dictionaries = {
            "crosslens": self_learning(x, y, start, patience=patience, seed=seed).pairs,
            "published": published_self_learning(x, y, start, patience, seed),
        }
        for name, pairs in dictionaries.items():
            mapped = unit_rows(x @ orthogonal_procrustes(x[pairs[:, 0]], y[pairs[:, 1]]))
            result[name].append(float(((mapped @ y.T).argmax(axis=1) == own).mean()))
    return result


def measure(quick: bool, threads: int) -> dict[str, float]:
    """Print both tables; the ratio of the better published variant to ours (higher is better), and
    the two precisions."""
    be_quiet()
    n, d, times = (10_000, 300, 2) if quick else (20_000, 300, 5)
    with threadpool_limits(threads):
        seconds = seconds_per_iteration(n, d, times)
        precision = final_precision(*((500, 40, 1.0, 5, 2) if quick else (2_000, 50, 1.0, 10, 3)))
    print(
        f"{n:,} words, d = {d}, k = {_K}, keep probability {_KEEP}, {threads} thread(s): "
        f"seconds per iteration, median of {times}"
    )
    for name, value in seconds.items():
        print(
            f"  {name:22} {value:8.2f}   {value / seconds['one bare product']:6.2f} x one "
            f"bare product"
        )
    print("P@1 after self-learning from 25 pairs, one number per seed")
    for name, values in precision.items():
        print(f"  {name:22} {' '.join(f'{value:.3f}' for value in values)}")
    best = min(seconds["published, k passes"], seconds["published, partition"])
    return {
        "self_learning_speedup_vs_vecmap": round(best / seconds["crosslens"], 2),
        "self_learning_precision": round(statistics.mean(precision["crosslens"]), 4),
        "self_learning_precision_vecmap": round(statistics.mean(precision["published"]), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="10,000 words and fewer repetitions")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.quick, arguments.threads)))


if __name__ == "__main__":
    main()
