"""Does memory grow with the lines of a text, or from call to call? Several texts are extracted one
after the other in ONE process.

    python benchmarks/extraction_calls.py [--lines 10000 50000 200000] [--encoder FOLDER] [--text
    FILE] [--unit sentence] [--scratch FOLDER]

Lines are those of a text in turn, each with its number behind it, so that no two are alike; the
stores have all layers in float16. At every hundredth of a pass the process notes its own VmRSS and
RssAnon (Linux). A row for each text and pass shows the resident memory in the second tenth, the
most of the rest, and what has been added since: settled memory is flat from there, whatever the
text's length.

The last line is one JSON object: for each text ``growth_mb``, the most after the first tenth of the
encoding less the median of the second tenth; ``first_mb`` and ``last_mb``, the resident memory
after the first and the last call.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

_DATA = Path(__file__).resolve().parents[1] / "crosslens" / "data"


def write_lines(path: Path, source: Path, lines: int) -> None:
    """So many lines of a text in turn, with a number appended."""
    some = [line for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(
            f"{line} {number}\n"
            for number, line in enumerate(itertools.islice(itertools.cycle(some), lines))
        )


def resident() -> tuple[float, float]:
    """VmRSS and RssAnon of this process in MB (10^6 bytes)."""
    fields = dict(row.split(":", 1) for row in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024 / 1e6, int(
        fields["RssAnon"].split()[0]
    ) * 1024 / 1e6


def watch(module: Any) -> list[tuple[str, int, int, float, float]]:
    """Let extraction note at every hundredth of a pass: the pass, done, total, VmRSS, RssAnon."""
    samples: list[tuple[str, int, int, float, float]] = []
    progress = module.Progress

    class Noted(progress):  # type: ignore[misc, valid-type]
        def add(self, count: int, note: str = "") -> None:
            before, each = self.done, max(1, self.total // 100)
            super().add(count, note)
            if before // each != self.done // each:
                samples.append((self.label.split()[0], self.done, self.total, *resident()))

    module.Progress = Noted
    return samples


def growth(samples: list[tuple[str, int, int, float, float]], column: int) -> tuple[float, float]:
    """The median of the second tenth, and the most after it."""
    second = [one[column] for one in samples if 0.1 <= one[1] / one[2] < 0.2] or [
        samples[0][column]
    ]
    return statistics.median(second), max(
        [one[column] for one in samples if one[1] / one[2] >= 0.2] or [samples[-1][column]]
    )


def main() -> None:
    """Extract one text after the other and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", nargs="+", type=int, default=[10_000, 50_000, 200_000])
    parser.add_argument("--quick", action="store_true", help="2,000 and 6,000 lines")
    parser.add_argument(
        "--encoder",
        default=str(_DATA / "tiny-encoder"),
        help="default: the tiny encoder that the package brings",
    )
    parser.add_argument("--text", type=Path, default=_DATA / "corpus" / "eng.txt")
    parser.add_argument("--unit", default="sentence")
    parser.add_argument("--layers", nargs="+", type=int, help="default: all")
    parser.add_argument(
        "--scratch", help="folder to write to and delete from (default: the system's)"
    )
    told = parser.parse_args()
    import torch

    from crosslens.models.extraction import extract as module
    from crosslens.models.saved.loading import load_encoder
    from crosslens.progress import be_quiet
    from crosslens.readers.plain import open_text

    be_quiet()
    torch.set_num_threads(1)
    encoder, samples, found = load_encoder(told.encoder), watch(module), {}
    calls = [resident()[0]]
    print(
        (
            f"{'lines':>8} {'pass':12}{'VmRSS':>8}{'most':>8}{'added':>7}   "
            f"{'RssAnon':>8}{'most':>8}{'added':>7} MB"
        ),
        flush=True,
    )
    for number, lines in enumerate([2000, 6000] if told.quick else told.lines):
        with tempfile.TemporaryDirectory(dir=told.scratch) as scratch:
            text = Path(scratch) / "text.txt"
            write_lines(text, told.text, lines)
            samples.clear()
            started = time.perf_counter()
            module.extract(
                encoder,
                open_text(text, "und"),
                Path(scratch) / "store",
                unit=told.unit,
                layers=told.layers,
                dtype="float16",
            )
            seconds = time.perf_counter() - started
        for name in dict.fromkeys(one[0] for one in samples):
            mine = [one for one in samples if one[0] == name]
            row = "   ".join(
                f"{at:>8.1f}{most:>8.1f}{most - at:>7.1f}"
                for at, most in (growth(mine, 3), growth(mine, 4))
            )
            print(f"{lines:>8} {name:12}{row}", flush=True)
            at, most = growth(mine, 3)
            found[f"{number + 1}_{lines}_{name}"] = {"growth_mb": round(most - at, 1)}
        calls.append(resident()[0])
        print(f"{lines:>8} afterwards  {calls[-1]:>8.1f}   ({seconds:.0f} s)", flush=True)
    print(
        json.dumps(
            {
                "growth_mb": {name: one["growth_mb"] for name, one in found.items()},
                "calls_mb": [round(one, 1) for one in calls],
            }
        )
    )


if __name__ == "__main__":
    main()
