"""The room's door: what it exports, under which name, and that no model library comes in with
it."""

import subprocess
import sys
from pathlib import Path

import crosslens.probes

ROOT = Path(__file__).parents[2]


def test_exports_are_sorted_and_exist():
    assert crosslens.probes.__all__ == sorted(
        crosslens.probes.__all__, key=lambda name: (name.lower() == name, name)
    )
    for name in crosslens.probes.__all__:
        assert getattr(crosslens.probes, name).__doc__, name


def test_the_bare_name_is_refused_with_the_right_one():
    run = subprocess.run(
        [sys.executable, "-c", "import probes"], cwd=ROOT, capture_output=True, text=True
    )
    assert "ImportError: import this package as crosslens.probes, not as probes" in run.stderr


def test_it_brings_no_torch():
    unwanted = ["torch", "transformers", "crosslens.alignment", "crosslens.models"]
    code = f"import sys, crosslens.probes; print(', '.join(set({unwanted}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")
