"""What no file may hold: dropped comparisons, unsorted or hollow exports, paths of one machine,
pickles."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from house_tree import ROOT, package_files, python_files, repository_files

_CHECKS = {"allclose", "array_equal", "array_equiv", "isclose", "equal"}


def dropped_comparisons(source: str) -> list[int]:
    """Lines of expression statements that compare and forget the answer: ``x == y``,
    ``np.allclose(x, y)``, ``not a < b``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr):
            inner = [node.value]
            while isinstance(inner[-1], (ast.UnaryOp, ast.BoolOp, ast.Await)):
                value = inner[-1]
                inner.append(
                    value.values[-1]
                    if isinstance(value, ast.BoolOp)
                    else getattr(value, "operand", None) or value.value
                )
            last = inner[-1]
            name = (
                getattr(last.func, "attr", getattr(last.func, "id", ""))
                if isinstance(last, ast.Call)
                else ""
            )
            if isinstance(last, ast.Compare) or name in _CHECKS:
                found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x == y", [1]),
        ("x = 1\nx < 2 < 3", [2]),
        ("def f():\n    np.allclose(x, y)\n", [2]),
        ("import torch\nif x:\n    torch.equal(x, y)", [3]),
        ("isclose(1, 2)", [1]),
        ("x.array_equal(y)", [1]),
        ("not x == y", [1]),
        ("a and np.isclose(x, y).all", []),  # an attribute, no call: B018 is for that
        ("a and x in y", [1]),
        ("assert x == y", []),
        ("assert np.allclose(x, y)", []),
        ("same = np.array_equal(x, y)", []),
        ("np.testing.assert_allclose(x, y)", []),
        ("return_value(x == y)", []),
        ("'x == y'", []),
    ],
)
def test_the_checker_catches_dropped_comparisons(source, lines):
    assert dropped_comparisons(source) == lines


@pytest.mark.parametrize("path", python_files(), ids=str)
def test_no_comparison_is_dropped(path):
    assert dropped_comparisons((ROOT / path).read_text(encoding="utf-8")) == []


def sorted_names(names: list[str]) -> list[str]:
    """Constants, then classes, then the rest: the order that ruff's RUF022 keeps."""
    return sorted(
        names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
    )


@pytest.mark.parametrize("name", sorted(package_files()))
def test_exports_are_declared_sorted_there_and_described(name):
    module = importlib.import_module(name)
    tree = ast.parse(package_files()[name].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module says what it is for"
    exported = getattr(module, "__all__", None)
    if exported is None:
        public = [
            n.name
            for n in tree.body
            if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")
        ]
        assert public == [], "public names without __all__"
        return
    assert list(exported) == sorted_names(exported)
    assert [wanted for wanted in exported if not hasattr(module, wanted)] == []
    defined = {
        node.name: node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    assert [
        wanted
        for wanted in exported
        if wanted in defined and not ast.get_docstring(defined[wanted])
    ] == [], "without a docstring"


def text_files() -> list[tuple[Path, str]]:
    texts = []
    for path in repository_files():
        data = (ROOT / path).read_bytes()
        if b"\0" not in data[:8192]:
            texts.append((path, data.decode("utf-8")))  # all text is UTF-8
    return texts


_FOLDERS = "|".join(("work", "root", "home", "opt", "tmp", "farm", "mnt", "Users"))
MACHINE_PATH = re.compile(rf"(?:^|[^\w.])/(?:{_FOLDERS})/", re.MULTILINE)
_OPTIONS = "|".join(
    f"--{word}" for word in ("index-url", "extra-index-url", "find-links", "trusted-host")
)
REGISTRY = re.compile(
    rf"{_OPTIONS}|\b(?:pypi|pythonhosted|anaconda|download\.pytorch)\.(?:org|com)\b"
)
UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|X" + "XX|NotImplemented" + "Error)" + r"\b")
PICKLE = re.compile(
    r"\btorch\.(?:load|save)\b|\bc?[pP]ickle\b|\bdill\b|\bjoblib\.load\b|allow_pickle\s*=\s*True|weights_only\s*=\s*False"
)


def places(pattern: re.Pattern[str], text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


def test_the_patterns_find_what_they_are_for():
    slash = "/"
    assert places(MACHINE_PATH, f'x = "{slash}home/me/x"\ncd {slash}work/main')
    assert not places(
        MACHINE_PATH,
        f"https:{slash}/example.org/home/x\n../shared/work/x\nmodels/work/x\n{slash}workshop/x",
    )
    assert places(REGISTRY, "pip install --index" + "-url x") and places(
        REGISTRY, "https://pypi" + ".org/simple"
    )
    assert places(UNFINISHED, "# TO" + "DO later") and not places(UNFINISHED, "XXXL")
    assert (
        places(PICKLE, "torch" + ".load(x)")
        and places(PICKLE, "import pickle")
        and places(PICKLE, "np.load(x, allow_pickle=True)")
    )
    assert not places(PICKLE, "only pickled weights, load_file(x), np.load(x, allow_pickle=False)")


def test_no_file_names_a_path_of_one_machine_or_a_package_registry():
    found = {
        str(path): places(MACHINE_PATH, text) + places(REGISTRY, text)
        for path, text in text_files()
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_package_code_is_finished_and_reads_no_pickles():
    found = {}
    for name, path in package_files().items():
        text = path.read_text(encoding="utf-8")
        if lines := places(UNFINISHED, text) + places(PICKLE, text):
            found[name] = lines
    assert found == {}
