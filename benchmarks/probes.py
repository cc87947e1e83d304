"""How fast are the probes? Linear probes of all layers, and minimal pairs, each beside its peer and
its floor, in one run.

    python benchmarks/probes.py [--quick] [--threads N] [--encoder FOLDER] [--pairs FILE_OR_FOLDER]
    [--count N] [--stores TRAIN DEV TEST]

probes_linear.py and probes_pairs.py say what is compared, and can be run alone. The last line is
one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def _run(script: str, given: list[str], threads: int) -> dict[str, float]:
    """Run one of the two in a process of its own, which prints its table, and return its last
    line."""
    told = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    found = dict[str, float]()
    with subprocess.Popen(
        [sys.executable, str(_HERE / script), *given], env=told, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found = json.loads(line)
            else:
                print(line, end="", flush=True)
    if process.returncode:
        raise SystemExit(process.returncode)
    return found


def main() -> None:
    """Measure both and print their figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a rough answer in a minute")
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="of each contestant (default: all cores)",
    )
    parser.add_argument("--encoder", help="folder of a masked language model, for the pairs")
    parser.add_argument("--pairs", help="file or folder of pairs")
    parser.add_argument("--count", default="200", help="of pairs (default: %(default)s)")
    parser.add_argument(
        "--stores",
        nargs=3,
        metavar=("TRAIN", "DEV", "TEST"),
        help="activations of sentences with languages",
    )
    told = parser.parse_args()
    quick = ["--quick"] if told.quick else []
    stores = ["--stores", *told.stores] if told.stores else []
    # the pairs first: a missing file is told at once
    encoder = ["--encoder", told.encoder] if told.encoder else []
    pairs = _run(
        "probes_pairs.py",
        [*quick, "--count", told.count, *encoder, *(["--pairs", told.pairs] if told.pairs else [])],
        told.threads,
    )
    linear = _run(
        "probes_linear.py", [*quick, "--threads", str(told.threads), *stores], told.threads
    )
    print(json.dumps(linear | pairs))


if __name__ == "__main__":
    main()
