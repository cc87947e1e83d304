"""How fast is linear CKA of all layer pairs of two encoders? Ours beside the bare products and
other ways, on the same numbers, in one run.

    python benchmarks/similarity.py [--quick] [--threads N] [--sizes 2000 5000] [--rounds N]

Contestants, each in a process of its own, on two encoders of 13 layers with d = 768 in float32:

    bare Gram       the Gram matrix of every layer, its upper half by tiles of 1,000 × 1,000, and
                    nothing else: a floor
    bare cross      XᵀY of every pair of layers and XᵀX of every layer, and nothing else: the other
                    floor
    crosslens       linear_cka_encoders: checks, centring, biased and debiased CKA of all pairs
    intervals       the same with 95 % intervals of all pairs
    stream          LinearCKAStream on blocks of 2,048 rows, each given once
    Gram cached     centred Gram matrices of all layers in memory, one inner product per pair
                    (biased; up to n = 5,000)
    per pair        ||XᵀY||² / (||XᵀX|| ||YᵀY||) of centred layers, pair by pair (biased)

Only the floor with fewer multiplications is run (both, where they differ by less than half).
Contestants take turns; ratios are medians over rounds. "beyond data" is the most that a process
held, less what it held with all layers read. Up to n = 20,000 the layers are a file that all
processes map; above, 26 overlapping windows of one matrix, so that 8 GB need not be there: the work
is the same. The last line is one JSON object; ``cka_ratio_to_products`` is the worst of the sizes.
"""

import argparse
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
from typing import Any

# numpy is imported by the contestants only: the number of its threads is set before.

_LAYERS = 13
_CACHED = 5_000  # items up to which Gram matrices are cached: 2.6 GB
_MAPPED = 20_000  # items up to which every layer has numbers of its own
_TILE = 1_000
# items, dimensions, rounds
_FULL = ((2_000, 768, 7), (5_000, 768, 5), (20_000, 768, 3), (100_000, 768, 1))
_QUICK = ((2_000, 768, 3), (20_000, 96, 3))


def _write_layers(path: Path, n: int, d: int) -> None:
    """Numbers for all layers, related between the sides, each with a mean and two dimensions that
    lie far out."""
    import numpy as np

    rng = np.random.default_rng(0)
    if n > _MAPPED:
        base = np.lib.format.open_memmap(path, "w+", np.float32, (n, d + 8 * 2 * _LAYERS))
        for at in range(0, n, 10_000):
            base[at : at + 10_000] = rng.standard_normal(
                base[at : at + 10_000].shape, dtype=np.float32
            )
        base[:, ::97] += 300
        return
    layers = np.lib.format.open_memmap(path, "w+", np.float32, (2 * _LAYERS, n, d))
    shared = rng.standard_normal((n, d), dtype=np.float32)
    for layer in layers:
        layer[:] = rng.standard_normal((n, d), dtype=np.float32)
        layer += shared * rng.uniform(0.2, 1) + 1
        layer[:, [3, d // 2]] += 300


def _open_layers(path: Path, n: int, d: int) -> list[Any]:
    import numpy as np

    numbers = np.load(path, mmap_mode="r")
    layers = (
        [numbers[:, 8 * i : 8 * i + d] for i in range(2 * _LAYERS)]
        if n > _MAPPED
        else list(numbers)
    )
    layers = [np.asarray(layer) for layer in layers]
    for layer in layers:
        layer.max()  # read
    return layers


def _bare_gram(layers: list[Any]) -> None:
    for layer in layers:
        for a in range(0, len(layer), _TILE):
            for b in range(a, len(layer), _TILE):
                _ = layer[a : a + _TILE] @ layer[b : b + _TILE].T


def _bare_cross(layers: list[Any]) -> None:
    for x in layers:
        _ = x.T @ x
    for x in layers[:_LAYERS]:
        for y in layers[_LAYERS:]:
            _ = x.T @ y


def _encoders(layers: list[Any]) -> dict[str, list[Any]]:
    return {"a": layers[:_LAYERS], "b": layers[_LAYERS:]}


def _crosslens(layers: list[Any]) -> Any:
    from crosslens.alignment.similarity.cka_stream import linear_cka_encoders

    return linear_cka_encoders(_encoders(layers))["a", "b"].biased


def _intervals(layers: list[Any]) -> Any:
    from crosslens.alignment.similarity.cka_stream import linear_cka_encoders

    return linear_cka_encoders(_encoders(layers), intervals=True)["a", "b"].biased


def _stream(layers: list[Any]) -> Any:
    from crosslens.alignment.similarity.cka_stream import LinearCKAStream

    stream = LinearCKAStream()
    for at in range(0, len(layers[0]), 2048):
        stream.update(_encoders([layer[at : at + 2048] for layer in layers]))
    return stream.result()["a", "b"].biased


def _gram_cached(layers: list[Any]) -> Any:
    import numpy as np

    grams = []
    for layer in layers:
        centred = layer - layer.mean(axis=0, dtype=np.float64).astype(np.float32)
        grams.append((centred @ centred.T).ravel())
    own = [np.sqrt(gram @ gram) for gram in grams]
    return np.array(
        [
            [grams[i] @ grams[j] / (own[i] * own[j]) for j in range(_LAYERS, 2 * _LAYERS)]
            for i in range(_LAYERS)
        ]
    )


def _per_pair(layers: list[Any]) -> Any:
    import numpy as np

    def norm(x: Any, y: Any) -> float:
        return float(np.linalg.norm(x.T @ y))

    centred = [layer - layer.mean(axis=0, dtype=np.float64).astype(np.float32) for layer in layers]
    own = [norm(x, x) for x in centred]
    cross = [[norm(x, y) ** 2 for y in centred[_LAYERS:]] for x in centred[:_LAYERS]]
    return np.array(cross) / np.outer(own[:_LAYERS], own[_LAYERS:])


_CONTESTANTS: dict[str, Callable[[list[Any]], Any]] = {
    "bare Gram": _bare_gram,
    "bare cross": _bare_cross,
    "crosslens": _crosslens,
    "intervals": _intervals,
    "stream": _stream,
    "Gram cached": _gram_cached,
    "per pair": _per_pair,
}


def _chosen(n: int, d: int) -> list[str]:
    """Who takes part: floors that could be the cheaper one, and what fits in memory and time."""
    work = {"bare Gram": n / 2, "bare cross": (_LAYERS / 2 + 0.5) * d}
    floors = [name for name, cost in work.items() if cost < 1.5 * min(work.values())]
    others = (
        ["crosslens", "intervals"]
        + ["stream"] * (n >= 14 * d)
        + ["Gram cached"] * (n <= _CACHED)
        + ["per pair"] * (n <= _MAPPED)
    )
    return floors + others


def _work(name: str, path: Path, n: int, d: int, line: Connection) -> None:
    """A contestant's process: one run for each request."""
    import numpy as np

    layers = _open_layers(path, n, d)
    few = [
        np.random.default_rng(i).standard_normal((64, 8)).astype(np.float32)
        for i in range(2 * _LAYERS)
    ]
    _CONTESTANTS[name](few)  # imports and first calls
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _memory("VmRSS")
    line.send(None)
    while line.recv():
        started, worked = time.perf_counter(), time.process_time()
        values = _CONTESTANTS[name](layers)
        seconds, worked = time.perf_counter() - started, time.process_time() - worked
        line.send(
            {
                "seconds": seconds,
                "worked": worked,
                "memory": _memory("VmHWM") - before,
                "values": values,
            }
        )


def _memory(field: str) -> int:
    """Bytes of this process, from Linux."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(row for row in text.splitlines() if row.startswith(field)).split()[1])


def _measure(path: Path, n: int, d: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """All contestants on one size, in turns."""
    context = multiprocessing.get_context("spawn")
    workers = {}
    for name in _chosen(n, d):
        line, other = context.Pipe()
        process = context.Process(target=_work, args=(name, path, n, d, other), daemon=True)
        process.start()
        other.close()
        workers[name] = (process, line, [])
    try:
        for _, line, _ in workers.values():
            line.recv()
        for number in range(rounds):
            for name, (_, line, results) in workers.items():
                print(
                    f"\rn = {n:,}: round {number + 1} of {rounds}, {name}{' ' * 20}",
                    end="",
                    file=sys.stderr,
                )
                line.send(True)
                results.append(line.recv())
    except EOFError:
        raise SystemExit("a contestant has died; its message is above") from None
    for process, line, _ in workers.values():
        line.send(False)
        process.join()
    print(f"\r{' ' * 70}\r", end="", file=sys.stderr)
    return {name: results for name, (_, _, results) in workers.items()}


def _report(n: int, d: int, results: dict[str, list[dict[str, Any]]]) -> tuple[float, float]:
    """The table of one size; the ratio of ours to the cheaper floor, and the largest difference of
    values."""
    floors = [name for name in results if name.startswith("bare")]
    floor = min(floors, key=lambda name: statistics.median(run["seconds"] for run in results[name]))
    ours = results["crosslens"][0]["values"]
    print(f"\nn = {n:,}, d = {d}, {_LAYERS} × {_LAYERS} pairs; ratios to {floor}")
    print(
        f"{'':14}{'s':>9}{'CPU s':>9}{'ratio':>9}{'spread':>9}{'beyond data':>14}{'difference':>12}"
    )
    ratio, largest = 0.0, 0.0
    for name, runs in results.items():
        ratios = [
            run["seconds"] / base["seconds"] for run, base in zip(runs, results[floor], strict=True)
        ]
        middle, spread = statistics.median(ratios), (max(ratios) - min(ratios)) / 2
        difference = (
            "–" if runs[0]["values"] is None else f"{abs(runs[0]['values'] - ours).max():.0e}"
        )
        largest = max(
            largest,
            0.0 if runs[0]["values"] is None else float(abs(runs[0]["values"] - ours).max()),
        )
        seconds, worked = (
            statistics.median(run[key] for run in runs) for key in ("seconds", "worked")
        )
        memory = f"{max(run['memory'] for run in runs) / 2**20:,.0f} MiB"
        print(
            f"{name:14}{seconds:>9.2f}{worked:>9.2f}{middle:>9.2f}{f'± {spread:.2f}':>9}{memory:>14}{difference:>12}"
        )
        ratio = middle if name == "crosslens" else ratio
    if largest > 1e-4:
        raise SystemExit(
            f"the contestants' values differ by {largest:.1e}: they have not done the same work"
        )
    return ratio, largest


def main() -> None:
    """Measure, print a table for each size, and the ratios as JSON."""
    parser = argparse.ArgumentParser(
        description="Linear CKA of all layer pairs beside the bare products."
    )
    parser.add_argument("--quick", action="store_true", help="smaller shapes, under a minute")
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count(),
        help="of the matrix products (default: all cores)",
    )
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of items, with d = 768")
    parser.add_argument("--rounds", type=int, help="of each size")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # read by the contestants' processes
    rounds = {n: rounds for n, _, rounds in _FULL}
    shapes = (
        [(n, 768, rounds.get(n, 3)) for n in options.sizes]
        if options.sizes
        else _QUICK
        if options.quick
        else _FULL
    )
    print(f"{options.threads} thread(s)")
    by_size, largest = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for n, d, usual in shapes:
            path = Path(folder) / f"{n}.npy"
            _write_layers(path, n, d)
            by_size[str(n)], difference = _report(
                n, d, _measure(path, n, d, options.rounds or usual)
            )
            largest = max(largest, difference)
            path.unlink()
    ratios = {n: round(value, 2) for n, value in by_size.items()}
    print(
        json.dumps(
            {
                "cka_ratio_to_products": max(ratios.values()),
                "by_size": ratios,
                "threads": options.threads,
                "difference": largest,
            }
        )
    )


if __name__ == "__main__":
    main()
