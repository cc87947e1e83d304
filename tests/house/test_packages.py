"""What is installed is what is in the folders: setup.cfg, the wheel, what its docstrings show, the
links, and the bare names that are refused."""

import ast
import configparser
import doctest
import re
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from house_tree import ROOMS, ROOT, clean_python, package_files, repository_files

import crosslens

SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")


def data_files() -> set[str]:
    return {
        path.as_posix() for path in repository_files() if path.parts[:2] == ("crosslens", "data")
    }


def test_setup_cfg_names_every_package():
    listed = SETUP["options"]["packages"].split()
    assert sorted(listed) == sorted(
        name for name, path in package_files().items() if path.name == "__init__.py"
    )


def test_every_folder_of_modules_is_a_package():
    folders = {path.parent for path in package_files().values()}
    assert [
        str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()
    ] == []


def test_setup_cfg_maps_the_rooms_to_their_folders():
    mapped = dict(
        re.split(r"\s*=\s*", line) for line in SETUP["options"]["package_dir"].strip().splitlines()
    )
    assert mapped == {"crosslens": "crosslens", **{f"crosslens.{room}": room for room in ROOMS}}


@pytest.mark.parametrize("room", ROOMS)
def test_a_link_shows_the_room_inside_the_package(room):
    link = ROOT / "crosslens" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..", room)


def test_the_wheel_holds_every_module_and_all_data_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    modules = {
        name.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
        for name, path in package_files().items()
    }
    info = {name for name in names if re.match(r"crosslens-[^/]+\.dist-info/", name)}
    assert names - info == modules | data_files() | {"crosslens/py.typed"}
    assert any(name.endswith("/LICENSE") for name in info)


def test_the_wheel_carries_a_text_for_each_quickstart_language(wheel):
    from crosslens.recipes.quickstart import LANGUAGES

    wanted = {
        f"crosslens/data/{folder}/{language}.txt"
        for folder in ("corpus", "everyday")
        for language in LANGUAGES
    }
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_says_what_setup_cfg_says(wheel):
    archive = zipfile.ZipFile(wheel)
    told = message_from_bytes(archive.read(f"crosslens-{crosslens.__version__}.dist-info/METADATA"))
    assert (told["Name"], told["Version"], told["License"]) == (
        "crosslens",
        crosslens.__version__,
        "Apache-2.0",
    )
    assert told["Requires-Python"] == SETUP["options"]["python_requires"]
    needed = {
        re.match(r"[\w.-]+", line)[0]
        for line in told.get_all("Requires-Dist")
        if "extra ==" not in line
    }
    assert needed == {
        re.match(r"[\w.-]+", line)[0] for line in SETUP["options"]["install_requires"].split()
    }
    commands = archive.read(
        f"crosslens-{crosslens.__version__}.dist-info/entry_points.txt"
    ).decode()
    assert "crosslens = crosslens.cli.process:run" in commands


@pytest.mark.slow  # most of a minute; .ci/run has a step of it
def test_every_module_of_the_wheel_imports_without_the_checkout(installed):
    assert installed.keys() == package_files().keys()
    for name, module in installed.items():
        assert ROOT not in Path(module["file"]).parents, name


def examples_in_source(path: Path) -> int:
    """How many ``>>>`` examples the docstrings of a file hold, wherever they stand."""
    count, parser = 0, doctest.DocTestParser()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            count += len(parser.get_examples(ast.get_docstring(node) or ""))
    return count


@pytest.mark.slow  # most of a minute; .ci/run has a step of it
def test_every_docstring_example_runs_and_tells_the_truth(installed):
    assert {name: module["failed"] for name, module in installed.items() if module["failed"]} == {}
    in_source = {name: examples_in_source(path) for name, path in package_files().items()}
    assert {name: module["run"] for name, module in installed.items()} == in_source, (
        "an example that doctest does not find"
    )
    assert sum(in_source.values()) > 20


@pytest.mark.parametrize("room", ROOMS)
def test_a_bare_name_is_refused_with_the_right_one(room):
    run = clean_python(f"import {room}")
    assert run.returncode == 1
    assert (
        run.stderr.strip().splitlines()[-1]
        == f"ImportError: import this package as crosslens.{room}, not as {room}"
    )


def test_constraints_pin_all_that_setup_cfg_asks_for():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    pins = dict(line.split("==") for line in lines)
    assert list(pins) == sorted(pins)
    assert not any("+" in version for version in pins.values())
    asked = (
        f"{SETUP['options']['install_requires']}\n{SETUP['options.extras_require']['test']}".split()
    )
    assert {re.match(r"[\w.-]+", line)[0] for line in asked} <= set(pins)


def test_the_citation_has_the_package_s_version():
    assert f"\nversion: {crosslens.__version__}\n" in (ROOT / "CITATION.cff").read_text(
        encoding="utf-8"
    )
