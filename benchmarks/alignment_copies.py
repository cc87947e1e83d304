"""Nearest neighbours where rows are equal or nearly so, beside as many random rows.

    equal       all rows are one vector, as of an encoder that has collapsed
    few         a hundred vectors, each many times, as in crawled text
    near        one vector with noise of 1e-6 in float32

The ratio is the time beside random rows of the same number; where it does not grow with the rows, the time is linear in them as far as
that of random rows is. ``python benchmarks/alignment_copies.py [--quick]``
"""

import argparse
import json
import time

import numpy as np

from crosslens.alignment import csls_neighbours, nearest_neighbours

D = 128


def rows(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows of one kind."""
    base = rng.normal(size=(n, D)).astype(np.float32)
    if kind == "equal":
        return np.repeat(base[:1], n, axis=0)
    if kind == "few":
        return base[rng.integers(0, 100, n)]
    return base[:1] + np.float32(1e-6) * base if kind == "near" else base


def seconds(kind: str, n: int, by: str) -> float:
    """The shorter of two turns."""
    x, y = rows(kind, n, np.random.default_rng(0)), rows(kind, n, np.random.default_rng(0))[::-1]
    took = []
    for _ in range(2):
        start = time.perf_counter()
        nearest_neighbours(x, y, 10) if by == "cosine" else csls_neighbours(x, y)
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    """Measure, print a table, and ratios as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    sizes = (1000, 2000) if parser.parse_args().quick else (3000, 10000)
    ratios = {}
    print(f"{'rows':>6} {'by':>7} {'kind':>7} {'seconds':>8} {'random':>8} {'ratio':>6}")
    for n in sizes:
        for by in ("cosine", "csls"):
            plain = seconds("random", n, by)
            for kind in ("equal", "few", "near"):
                took = seconds(kind, n, by)
                ratios[f"{kind}_{by}_{n}"] = round(took / plain, 2)
                print(f"{n:>6} {by:>7} {kind:>7} {took:>8.3f} {plain:>8.3f} {took / plain:>6.2f}")
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
