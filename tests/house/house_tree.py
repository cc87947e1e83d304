"""What the house tests look at: the repository's files, the packages' modules, and a clean Python
to ask questions of."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("models", "alignment", "probes")
_NOT_OURS = {"build", "dist", "runs", "__pycache__"}


@functools.cache
def repository_files() -> list[Path]:
    """Every file that is or would be tracked, links excluded, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0 and listed.stdout:
        names = sorted(Path(name) for name in listed.stdout.split("\0") if name)
    else:  # an unpacked archive, or a checkout that belongs to somebody else
        names = sorted(_walk())
    return [name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def _walk() -> Iterator[Path]:
    for folder, inside, files in os.walk(ROOT):
        inside[:] = [
            name
            for name in inside
            if name not in _NOT_OURS
            and (name == ".ci" or not name.startswith("."))
            and not name.endswith(".egg-info")
            and not (Path(folder) / name / "pyvenv.cfg").exists()
            and not (Path(folder) / name).is_symlink()
        ]
        yield from ((Path(folder) / name).relative_to(ROOT) for name in files)


def python_files() -> list[Path]:
    """Every Python file of the repository, relative to the root."""
    return [path for path in repository_files() if path.suffix == ".py"]


@functools.cache
def package_files() -> dict[str, Path]:
    """Every module of the package, by its dotted name: crosslens/ itself, and the three rooms that
    are mapped into it."""
    found = {}
    for path in python_files():
        if path.parts[0] in ROOMS:
            path_in = Path("crosslens", path)
        elif path.parts[0] == "crosslens":
            path_in = path
        else:
            continue
        parts = path_in.with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ROOT / path
    return found


def clean_python(code: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a new interpreter, from the repository's root unless told otherwise."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment,
    )
