"""Resident memory of one process that extracts texts one after the other: flat after the first
tenth of each, and from call to call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = ROOT / "crosslens" / "data" / "corpus" / "eng.txt"


@pytest.mark.slow
def test_memory_grows_neither_with_the_text_nor_from_call_to_call(tmp_path):
    """The lines differ: what a tokeniser remembers of words that it has seen would grow with
    them."""
    lines = ["3000", "12000", "12000", "12000"]
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "extraction_calls.py"),
        "--lines",
        *lines,
        "--text",
        str(TEXT),
    ]
    done = subprocess.run(
        [*command, "--layers", "1", "--scratch", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    encoding = {
        name: grown for name, grown in told["growth_mb"].items() if name.endswith("encoding")
    }
    # vectors of 12,000 lines are 3 MB a layer in float16
    assert len(encoding) == 4 and max(encoding.values()) < 15, done.stdout
    assert told["calls_mb"][-1] - told["calls_mb"][2] < 15, done.stdout
