"""Who imports whom, and what is loaded when: the contracts hold, can be broken, and light doors
stay light."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from house_tree import ROOMS, ROOT, clean_python, package_files, repository_files

from crosslens.cli.main import build_parser

HEAVY = (
    "numpy",
    "torch",
    "transformers",
    "tokenizers",
    "scipy",
    "sklearn",
    "faiss",
    "matplotlib",
    "pyarrow",
)
LINT = (
    "import sys; from importlinter.cli import lint_imports_command; sys.argv[1:] = ['--no-logo', "
    "'--no-cache']; lint_imports_command()"
)


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    # The tree in the folder comes first on the path, whatever is installed.
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )


def test_the_floors_hold_and_all_modules_are_looked_at():
    run = lint_imports(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Analyzed {len(package_files())} files" in run.stdout
    assert "Contracts: 1 kept, 0 broken." in run.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("alignment/maps/procrustes.py", "import crosslens.probes"),  # a room looks into another
        ("crosslens/errors.py", "import crosslens.files"),  # upwards
        ("crosslens/report/pages/page.py", "import crosslens.run"),  # strangers on the roof
    ],
)
def test_a_broken_floor_is_seen(module, line, tmp_path):
    for path in repository_files():
        if (
            path.suffix == ".py"
            and path.parts[0] in ("crosslens", *ROOMS)
            or path.name == "setup.cfg"
        ):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tmp_path / path)
    for room in ROOMS:
        (tmp_path / "crosslens" / room).symlink_to(f"../{room}")
    with open(tmp_path / module, "a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    run = lint_imports(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "0 kept, 1 broken" in run.stdout


MODELS = ("torch", "transformers", "tokenizers", "crosslens.models")
# imported one after the other in one process: what was not loaded by then was brought by none of
# them
STAGES = [
    ("crosslens", HEAVY),
    ("crosslens.cli.main", HEAVY),
    ("crosslens.files", HEAVY),
    ("crosslens.progress", HEAVY),
    ("crosslens.stats", {*HEAVY} - {"numpy"}),
    ("crosslens.corpus", {*HEAVY} - {"numpy"}),
    ("crosslens.readers.words", {*HEAVY} - {"numpy"}),
    ("crosslens.score", {*HEAVY} - {"numpy"}),
    (
        "crosslens.report",
        {*MODELS, "sklearn", "faiss", "crosslens.run", "crosslens.alignment", "crosslens.probes"},
    ),
    ("crosslens.alignment", {*MODELS, "crosslens.run", "crosslens.probes"}),
    ("crosslens.probes", {*MODELS, "crosslens.run"}),
    ("crosslens.run", {*MODELS, "crosslens.recipes"}),
]


def test_importing_one_thing_does_not_bring_another():
    code = f"""
import importlib, sys
for name, unwanted in {STAGES!r}:
    importlib.import_module(name)
    print(name, "brought", sorted(set(unwanted) & set(sys.modules)))
"""
    run = clean_python(code)
    assert run.stderr == ""
    assert run.stdout.splitlines() == [f"{name} brought []" for name, _ in STAGES]


def test_the_front_door_shows_everything_and_loads_nothing():
    code = f"""
import sys, crosslens
print("crosslens" in dir(crosslens), sorted(dir(crosslens)) == sorted(crosslens.__all__), *sorted({{*{HEAVY!r}}} & set(sys.modules)))
crosslens.read_text, crosslens.Corpus
print(*sorted({{*{HEAVY!r}}} & set(sys.modules)))
crosslens.Procrustes, crosslens.align, crosslens.Activations
print("torch" in sys.modules)
"""
    run = clean_python(code)
    assert run.stderr == "" and run.stdout.splitlines() == ["False True", "", "False"]


def test_every_name_of_the_front_door_leads_to_what_type_checkers_see():
    import crosslens

    tree = ast.parse((ROOT / "crosslens" / "__init__.py").read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        name.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert sorted([*seen, "__version__"]) == sorted(crosslens.__all__) == sorted(dir(crosslens))
    for name, module in seen.items():
        assert getattr(crosslens, name) is getattr(importlib.import_module(str(module)), name), name
        shown = ">>>" in (getattr(crosslens, name).__doc__ or "")
        assert shown or name in (*ROOMS, "CrosslensError", "read_dataset"), (
            f"help({name}) shows no example"
        )
    with pytest.raises(AttributeError, match=r"no attribute 'steady'"):
        crosslens.steady  # noqa: B018


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["study", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    code = f"""
import sys
from crosslens.cli.main import main
try:
    main({arguments!r})
except SystemExit as ended:
    assert ended.code == 0
    print("heavy:", *sorted({set(HEAVY)!r} & set(sys.modules)))
"""
    run = clean_python(code)
    assert run.stdout.splitlines()[-1] == "heavy:", run.stderr


def verbs() -> list[str]:
    (choices,) = (action.choices for action in build_parser()._actions if action.dest == "verb")
    return sorted(choices)


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_s_help_shows_an_example_that_parses(verb, capsys):
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([verb, "--help"])
    assert ended.value.code == 0
    examples = (
        capsys.readouterr()
        .out.rstrip()
        .partition("\nexample:\n")[2]
        .replace("\\\n", " ")
        .splitlines()
    )
    assert examples
    for example in examples:
        assert example.split()[:2] == ["crosslens", verb]
        assert build_parser().parse_args(example.split()[1:]).verb == verb
