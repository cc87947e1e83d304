"""How fast is the linear probe of all layers? Ours beside scikit-learn's LogisticRegression layer
by layer, in one run.

    python benchmarks/probes_linear.py [--quick] [--threads N] [--penalty C] [--stores TRAIN DEV
    TEST]

13 layers of 60 languages as SIB-200 has them: 701 training, 99 development and 204 test sentences
of each, d = 384 and d = 768. Contestants, each in a process of its own with as many threads, with
the same penalty, from the same float32 file:

    crosslens       LayerProbe, which reads the file in blocks and stops within 1e-4 of the minimum
    scikit-learn    StandardScaler and LogisticRegression, layer by layer, at its own tolerance
                    (1e-4), and then at smaller ones, until it has done the same work: accuracy at
                    every layer within 0.2 points, objective within a thousandth

The penalty, if not given, is the one of 0.001, 0.01, 0.1 and 1 that most layers choose on the
development part. The looser it is, the further from the minimum scikit-learn's own tolerance ends:
"above" is how far an objective lies above the lowest, at the worst layer.

The vectors are sampled: a power law of variances that every feature mixes, a language's mean that
fades from layer to layer, two dimensions far out; sentences differ in the length of their vectors.
With ``--stores`` they are those of three stores of activations, sentences with a column
``language``, as ``crosslens extract`` writes them.

CPU s are those of all threads. "beyond" is the most memory of its own that a process held, less
what it held before it began; the pages of the file, which the system keeps for all, do not count.
The last line is one JSON object, of the worst shape: the speed-up over scikit-learn when it has
done the same work, with its own tolerance, and the largest differences of accuracy, in points.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# numpy is imported by the contestants only: the number of its threads is set before.

_LAYERS, _LANGUAGES = 13, 60
# dimensions, layers, training sentences of each language
_FULL = ((384, _LAYERS, 701), (768, _LAYERS, 701))
_QUICK = ((384, 2, 100),)
_SENTENCES = {"dev": 99, "test": 204}  # of each language, beside the training part
_PENALTIES = (0.001, 0.01, 0.1, 1.0)
_TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7)  # of scikit-learn; the first is its own
_POINTS, _ABOVE = 0.2, 1e-3  # within which it has done the same work


def _write_drawn(folder: Path, d: int, layers: int, per: int) -> None:
    """Vectors of every layer in three parts, rows of the languages in turn."""
    import numpy as np

    rng, arrays = np.random.default_rng(0), {}
    for part, sentences in {"train": per, **_SENTENCES}.items():
        np.save(folder / f"{part}_labels.npy", np.tile(np.arange(_LANGUAGES), sentences))
        shape = (layers, sentences * _LANGUAGES, d)
        arrays[part] = np.lib.format.open_memmap(folder / f"{part}.npy", "w+", np.float32, shape)
    spread, between = np.arange(1, d + 1) ** -0.6, np.arange(1, d + 1) ** -0.8
    for number in range(layers):
        mixing = np.linalg.qr(rng.standard_normal((d, d)))[0].astype(np.float32)
        mixing[:, [7, d // 3]] *= 20
        centre = rng.standard_normal(d) * 0.5
        centre[[7, d // 3]] += 30
        means = (
            rng.standard_normal((_LANGUAGES, d))
            * between
            * np.linspace(1.4, 0.7, _LAYERS)[number * _LAYERS // layers]
        )
        for array in arrays.values():
            for at in range(0, array.shape[1], 60 * 100):
                block = array[number, at : at + 60 * 100]
                length = rng.gamma(4, 0.25, size=(len(block), 1))
                content = (
                    rng.standard_normal(block.shape) * spread * length
                    + means[np.arange(len(block)) % _LANGUAGES]
                )
                block[:] = content.astype(np.float32) @ mixing + centre.astype(np.float32)


def _write_stored(folder: Path, stores: tuple[Path, Path, Path]) -> str:
    """The same files from three stores of activations; what they hold, in words."""
    import numpy as np

    from crosslens.activations import Activations

    opened = [Activations(path) for path in stores]
    for part, store in zip(("train", "dev", "test"), opened, strict=True):
        np.save(
            folder / f"{part}_labels.npy",
            np.unique(store.table(["language"])["language"].to_pylist(), return_inverse=True)[1],
        )
        array = np.lib.format.open_memmap(
            folder / f"{part}.npy", "w+", np.float32, (store.layers, store.n, store.d)
        )
        for layer, number in zip(array, store.layer_numbers, strict=True):
            layer[:] = store.layer(number)
    languages = len(np.unique(np.load(folder / "train_labels.npy")))
    return (
        f"{opened[0].layers} layers, {languages} languages, n = {opened[0].n:,}, d = "
        f"{opened[0].d}; from {stores[0].name}"
    )


def _open(folder: Path, part: str) -> tuple[Any, Any]:
    import numpy as np

    return np.load(folder / f"{part}.npy", mmap_mode="r"), np.load(folder / f"{part}_labels.npy")


def _choose(folder: Path) -> float:
    """The penalty that most layers choose on the development part; of two, the stricter."""
    import numpy as np

    from crosslens.probes.methods.linear.layer_probe import LayerProbe

    chosen, counts = np.unique(
        LayerProbe(_PENALTIES).fit(*_open(folder, "train"), *_open(folder, "dev")).C_,
        return_counts=True,
    )
    return float(chosen[counts.argmax()])


def _crosslens(folder: Path, strength: float, _: float) -> list[tuple[Any, Any, int]]:
    """Coefficients on standardised features, intercepts and steps of every layer."""
    from crosslens.probes.methods.linear.layer_probe import LayerProbe

    probe = LayerProbe(strength).fit(*_open(folder, "train"))
    return list(zip(probe.coef_, probe.intercept_, probe.n_iter_.tolist(), strict=True))


def _scikit_learn(folder: Path, strength: float, tolerance: float) -> list[tuple[Any, Any, int]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    layers, labels = _open(folder, "train")
    found = []
    for layer in layers:
        model = LogisticRegression(C=strength, tol=tolerance, max_iter=10_000).fit(
            StandardScaler().fit_transform(layer), labels
        )
        found.append((model.coef_, model.intercept_, int(model.n_iter_.max())))
    return found


_RUN: dict[str, Callable[[Path, float, float], list[tuple[Any, Any, int]]]] = {
    "crosslens": _crosslens,
    "scikit-learn": _scikit_learn,
}


def _judge(
    folder: Path, strength: float, found: list[tuple[Any, Any, int]]
) -> tuple[list[float], list[float]]:
    """Accuracy on the test part, and the objective on the training part, of every layer."""
    import numpy as np
    from scipy.special import logsumexp
    from sklearn.preprocessing import StandardScaler

    (train, y), (test, y_test) = _open(folder, "train"), _open(folder, "test")
    accuracies, objectives = [], []
    for x, other, (w, b, _) in zip(train, test, found, strict=True):
        scaler, surprise = StandardScaler().fit(x), 0.0
        for at in range(0, len(x), 4096):
            rows = slice(at, at + 4096)
            logits = (scaler.transform(x[rows]) @ w.T + b).astype(np.float64)
            surprise += float(
                (logsumexp(logits, axis=1) - logits[np.arange(len(logits)), y[rows]]).sum()
            )
        objectives.append(surprise + float(np.square(w, dtype=np.float64).sum()) / 2 / strength)
        accuracies.append(
            float(((scaler.transform(other) @ w.T + b).argmax(axis=1) == y_test).mean())
        )
    return accuracies, objectives


def _work(name: str, folder: Path, line: Connection) -> None:
    """A contestant's process: one run for each penalty and tolerance that it is sent, or the choice
    of a penalty."""
    _RUN[name](folder / "few", 1.0, 1e-4)  # imports and first calls
    _open(folder, "train")[0].max()  # the file is in memory
    line.send(None)
    while question := line.recv():
        if question == "choose":
            line.send(_choose(folder))
            continue
        with _Memory() as memory:
            began, worked = time.perf_counter(), time.process_time()
            found = _RUN[name](folder, *question)
            seconds, worked = time.perf_counter() - began, time.process_time() - worked
        accuracies, objectives = _judge(folder, question[0], found)
        told = {
            "steps": [steps for _, _, steps in found],
            "accuracies": accuracies,
            "objectives": objectives,
        }
        line.send({"seconds": seconds, "worked": worked, "memory": memory.beyond, **told})


class _Memory:
    """The most memory of its own that this process held, looked at fifty times a second, less what
    it held at first."""

    def __enter__(self) -> "_Memory":
        self._first, self._most, self._done = self._now(), 0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.beyond = self._most - self._first

    def _look(self) -> None:
        while not self._done.wait(0.02):
            self._most = max(self._most, self._now())

    def _now(self) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(row for row in lines if row.startswith("RssAnon")).split()[1])


def _take_turns(folder: Path, strength: float | None) -> tuple[float, dict[str, dict[str, Any]]]:
    """The penalty, and what the contestants reached with it: ours, then scikit-learn with one
    tolerance after another."""
    context = multiprocessing.get_context("spawn")
    lines, processes = {}, []
    for name in _RUN:
        lines[name], other = context.Pipe()
        processes.append(context.Process(target=_work, args=(name, folder, other), daemon=True))
        processes[-1].start()
        other.close()
    try:
        for line in lines.values():
            line.recv()
        strength = strength or _ask(lines["crosslens"], "choose")
        runs = {"crosslens": _ask(lines["crosslens"], (strength, _TOLERANCES[0]))}
        for tolerance in _TOLERANCES:
            run = runs[f"scikit-learn, {tolerance:.0e}"] = _ask(
                lines["scikit-learn"], (strength, tolerance)
            )
            points, above = _compared(runs["crosslens"], run)
            if points <= _POINTS and above <= _ABOVE:
                break
    except EOFError:
        raise SystemExit("a contestant has died; its message is above") from None
    for line in lines.values():
        line.send(None)
    for process in processes:
        process.join()
    return strength, runs


def _ask(line: Connection, question: Any) -> Any:
    line.send(question)
    return line.recv()


def _compared(run: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """The largest difference of accuracy, in points, and how far the other's objective lies above,
    at the worst layer."""
    points = 100 * max(
        abs(a - b) for a, b in zip(run["accuracies"], other["accuracies"], strict=True)
    )
    return points, max(
        b / a - 1 for a, b in zip(run["objectives"], other["objectives"], strict=True)
    )


def _report(
    shape: str, strength: float, runs: dict[str, dict[str, Any]], out: Callable[..., None]
) -> dict[str, float]:
    """The table of one shape, and its figures."""
    out(f"\n{shape}, C = {strength:g}")
    out(
        f"{'':22}{'s':>9}{'CPU s':>9}{'steps':>12}{'beyond':>10}{'above':>9}{'points':>8}{'accuracy by layer':>19}{'ratio':>7}{'by CPU':>8}"
    )
    ours = runs["crosslens"]
    lowest = {
        "objectives": [
            min(values)
            for values in zip(*(run["objectives"] for run in runs.values()), strict=True)
        ]
    }
    for name, run in runs.items():
        steps, memory = (
            f"{min(run['steps'])} to {max(run['steps'])}",
            f"{run['memory'] / 2**20:,.0f} MiB",
        )
        points, above = _compared(ours, run)[0], _compared({**ours, **lowest}, run)[1]
        told = f"{100 * min(run['accuracies']):.2f} to {100 * max(run['accuracies']):.2f}"
        ratio, worked = run["seconds"] / ours["seconds"], run["worked"] / ours["worked"]
        times = f"{run['seconds']:>9.2f}{run['worked']:>9.2f}"
        out(
            f"{name:22}{times}{steps:>12}{memory:>10}{above:>9.0e}{points:>8.3f}{told:>19}{ratio:>7.2f}{worked:>8.2f}"
        )
    _, first, *rest = runs.values()
    same = rest[-1] if rest else first
    return {
        "linear_speedup_vs_sklearn": same["seconds"] / ours["seconds"],
        "linear_speedup_vs_sklearn_own_tolerance": first["seconds"] / ours["seconds"],
        "linear_accuracy_gap": _compared(ours, same)[0],
        "linear_accuracy_gap_own_tolerance": _compared(ours, first)[0],
    }


def measure(
    quick: bool,
    threads: int,
    out: Callable[..., None] = print,
    penalty: float | None = None,
    stores: tuple[Path, Path, Path] | None = None,
) -> dict[str, float]:
    """Measure every shape, print a table of each, and return the worst speed-up and difference of
    accuracy.

    Threads are set in the environment, which the contestants' processes take over.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    out(f"linear probes of all layers, {threads} thread(s)")
    figures = []
    for d, layers, per in _QUICK if quick else _FULL[:1] if stores else _FULL:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "few").mkdir()
            _write_drawn(folder / "few", 16, 2, 3)
            if stores:
                shape = _write_stored(folder, stores)
            else:
                _write_drawn(folder, d, layers, per)
                shape = (
                    f"{layers} layers, {_LANGUAGES} languages, n = {per * _LANGUAGES:,}, d = {d}"
                )
            figures.append(_report(shape, *_take_turns(folder, penalty), out))
    worst = {
        name: (min if "speedup" in name else max)(found[name] for found in figures)
        for name in figures[0]
    }
    return {name: round(value, 3) for name, value in worst.items()}


def main() -> None:
    """Measure, print a table for each shape, and the figures as JSON."""
    parser = argparse.ArgumentParser(
        description="Linear probes of all layers beside scikit-learn's."
    )
    parser.add_argument(
        "--quick", action="store_true", help="one smaller shape, under half a minute"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count(),
        help="of each contestant (default: all cores)",
    )
    parser.add_argument(
        "--penalty",
        type=float,
        metavar="C",
        help="instead of the one chosen on the development part",
    )
    parser.add_argument(
        "--stores",
        type=Path,
        nargs=3,
        metavar=("TRAIN", "DEV", "TEST"),
        help="activations of sentences with languages",
    )
    options = parser.parse_args()
    stores = tuple(options.stores) if options.stores else None
    print(
        json.dumps(
            measure(options.quick, options.threads, print, options.penalty, stores)
            | {"threads": options.threads}
        )
    )


if __name__ == "__main__":
    main()
