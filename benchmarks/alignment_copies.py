"""Nearest neighbours where rows are equal or nearly so, beside as many random rows.

    equal       all rows are one vector, as of an encoder that has collapsed
    few         a hundred vectors, each many times, as in crawled text
    1e-9 ...    one vector, with noise of this size beside its numbers, in float32; 1e-7 is about
                its rounding

    cosine      ten neighbours of each row
    csls        the best by CSLS for each row
    margin      the best by the ratio margin for each row
    both        the best by CSLS for each row of both sides, of which mutual neighbours are taken
    induction   what a step of self-learning asks: neighbourhoods of both sides, and partners of
                ranks that are sampled

A ratio is the time beside random rows of the same number. Growth is the time for each pair of rows
with the most rows, beside that with the fewest: where it is about 1 or less, time is linear in the
pairs. ``python benchmarks/alignment_copies.py [--quick]``
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from crosslens.alignment import (
    adjusted_neighbours,
    csls_neighbours,
    nearest_neighbours,
    neighbours_both,
)
from crosslens.alignment.neighbours.group_maxima import GroupMaxima
from crosslens.alignment.rows import unit_rows

D = 128
KINDS = ("equal", "few", "1e-9", "1e-8", "1e-7", "1e-6", "1e-5")


def rows(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows of one kind."""
    base = rng.normal(size=(n, D)).astype(np.float32)
    if kind == "equal":
        return np.repeat(base[:1], n, axis=0)
    if kind == "few":
        return base[rng.integers(0, 100, n)]
    return base if kind == "random" else base[:1] + np.float32(kind) * base


def induction(x: np.ndarray, y: np.ndarray) -> None:
    """What a step of self-learning asks."""
    rng, every = np.random.default_rng(1), (np.arange(len(x)), np.arange(len(y)))
    maxima = GroupMaxima(unit_rows(x), unit_rows(y), *every)
    maxima.partners(
        *maxima.neighbourhood_means(10), rng.geometric(0.1, len(x)), rng.geometric(0.1, len(y))
    )


MEASURED: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "cosine": lambda x, y: nearest_neighbours(x, y, 10),
    "csls": csls_neighbours,
    "margin": lambda x, y: adjusted_neighbours(x, y, by="margin_ratio"),
    "both": neighbours_both,
    "induction": induction,
}


def seconds(kind: str, n: int, by: str) -> float:
    """The shorter of two turns."""
    x, y = rows(kind, n, np.random.default_rng(0)), rows(kind, n, np.random.default_rng(0))[::-1]
    took = []
    for _ in range(2):
        start = time.perf_counter()
        MEASURED[by](x, y)
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    """Measure, print a table, and ratios as JSON in the last line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    sizes = (1000, 2000) if parser.parse_args().quick else (1000, 3000, 10000)
    took: dict[tuple[str, str, int], float] = {}
    ratios = {}
    print(
        f"{'rows':>6} {'by':>9} {'random':>8} "
        + " ".join(f"{kind:>6}" for kind in KINDS)
        + "   times as long as random"
    )
    for n in sizes:
        for by in MEASURED:
            plain = seconds("random", n, by)
            for kind in KINDS:
                took[by, kind, n] = seconds(kind, n, by)
                ratios[f"{kind}_{by}_{n}"] = round(took[by, kind, n] / plain, 2)
            print(
                f"{n:>6} {by:>9} {plain:>8.3f} "
                + " ".join(f"{ratios[f'{kind}_{by}_{n}']:>6.2f}" for kind in KINDS),
                flush=True,
            )
    first, last = sizes[0], sizes[-1]
    for by in MEASURED:
        for kind in KINDS:
            growth = took[by, kind, last] / took[by, kind, first] * (first / last) ** 2
            ratios[f"growth_{kind}_{by}"] = round(growth, 2)
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
