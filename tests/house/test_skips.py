"""tests/SKIPS.md lists every skip in the tests, with its reason."""

import ast
import re

import pytest
from house_tree import ROOT, python_files

_SKIPS = {"skip", "skipif", "skipUnless", "skipIf", "SkipTest", "skipTest", "xfail", "importorskip"}
_ROW = re.compile(r"^\| `(tests/[^`]+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def _can_skip(node: ast.AST) -> bool:
    """pytest.skip, pytest.mark.skipif, unittest.skip, self.skipTest ...; or one of these names,
    imported by itself."""
    if isinstance(node, ast.ImportFrom) and node.module in ("pytest", "unittest"):
        return any(name.name in _SKIPS for name in node.names)
    if isinstance(node, ast.Attribute) and node.attr in _SKIPS:
        owner = node.value
        return getattr(owner, "attr", getattr(owner, "id", "")) in (
            "pytest",
            "unittest",
            "mark",
            "self",
        )
    return False


def skips(source: str) -> list[tuple[str, bool]]:
    """(where, does it give a reason) of everything that can skip: the enclosing top-level function
    or class, or "module"."""
    found = []
    for statement in ast.parse(source).body:
        where = getattr(statement, "name", "module")
        calls = {id(node.func): node for node in ast.walk(statement) if isinstance(node, ast.Call)}
        for node in ast.walk(statement):
            if _can_skip(node):
                call = calls.get(id(node))
                reason = call is not None and any(word.arg == "reason" for word in call.keywords)
                found.append((where, reason))
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pytest\ndef test_a():\n    pytest.skip(reason='no data')", [("test_a", True)]),
        ("@pytest.mark.skip\ndef test_b(): ...", [("test_b", False)]),
        ("@pytest.mark.skipif(True, reason='x')\nclass TestC: ...", [("TestC", True)]),
        ("faiss = pytest.importorskip('faiss')", [("module", False)]),
        (
            (
                "@pytest.mark.parametrize('x', [pytest.param(1, "
                "marks=pytest.mark.xfail(reason='x'))])\ndef test_d(x): ..."
            ),
            [("test_d", True)],
        ),
        ("def test_e():\n    say('skip this')", []),
        ("from pytest import skip", [("module", False)]),
        ("def test_f(skip):\n    skip(reader.skip)", []),
    ],
)
def test_the_finder_finds_skips(source, expected):
    assert skips(source) == expected


def test_the_inventory_is_the_code():
    there = {}
    for path in python_files():
        if path.parts[0] in ("tests", "benchmarks"):
            for where, reason in skips((ROOT / path).read_text(encoding="utf-8")):
                there[path.as_posix(), where] = reason
    rows = {
        (file, test): reason
        for file, test, reason in _ROW.findall(
            (ROOT / "tests" / "SKIPS.md").read_text(encoding="utf-8")
        )
    }
    assert rows.keys() == there.keys()
    assert [place for place, reason in there.items() if not reason] == [], (
        "a skip without reason=..."
    )
    assert [place for place, reason in rows.items() if len(reason.split()) < 3] == [], (
        "a row without a reason"
    )
