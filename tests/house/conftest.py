"""The wheel, built once, and what becomes of it where the checkout is not on the path."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from house_tree import ROOMS, ROOT, package_files, repository_files

_IMPORT_AND_RUN_EXAMPLES = """
import sys
root, unpacked, told, *names = sys.argv[1:]
sys.path[:] = [unpacked, *(path for path in sys.path if path not in ("", root))]
import doctest, importlib, json
results = {}
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.startswith(unpacked), module.__file__
    failed, run = doctest.testmod(module)
    results[name] = {"file": module.__file__, "failed": failed, "run": run}
with open(told, "w") as file:
    json.dump(results, file)
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy, so that nothing is left in the checkout and nothing stale is
    taken from it."""
    top = tmp_path_factory.mktemp("wheel")
    for path in repository_files():
        (top / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, top / "source" / path)
    for room in ROOMS:
        (top / "source" / "crosslens" / room).symlink_to(f"../{room}")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(top),
    ]
    # torch brings it; else pip makes an environment for the build
    if int(metadata.version("setuptools").split(".")[0]) >= 77:
        command.append("--no-build-isolation")
    built = subprocess.run([*command, str(top / "source")], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (path,) = top.glob("crosslens-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Every module of the unpacked wheel: its file, and its docstrings' examples: how many failed
    and ran.

    In a process of its own: it has no checkout on its path, and in this one the checks of shapes
    wrap functions, which doctest then takes for somebody else's.
    """
    top = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(top / "there")
    arguments = [str(ROOT), str(top / "there"), str(top / "results.json"), *sorted(package_files())]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-I", "-c", _IMPORT_AND_RUN_EXAMPLES, *arguments]
    run = subprocess.run(command, cwd=top, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    print(run.stdout)
    results: dict[str, dict[str, Any]] = json.loads((top / "results.json").read_text())
    return results
