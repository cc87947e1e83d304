"""What we show, we run: recipes, and every command line in the documents (test_docs: their Python;
test_packages: docstring examples)."""

import re
import shlex
import tomllib
from collections.abc import Iterator

import pytest
from house_tree import ROOT

from crosslens.cli.arguments import loose
from crosslens.cli.main import build_parser

DOCUMENTS = [
    "README.md",
    "DEVELOPERS.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")),
]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(document: str, *languages: str) -> list[str]:
    path = ROOT / document
    return (
        [
            code
            for language, code in _FENCE.findall(path.read_text(encoding="utf-8"))
            if language in languages
        ]
        if path.exists()
        else []
    )


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of every ``crosslens`` call in shell text."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        while words:
            end = next(
                (i for i, word in enumerate(words) if word in ("&&", "||", ";", "|")), len(words)
            )
            call, words = words[:end], words[end + 1 :]
            if call[:1] == ["crosslens"]:
                yield call[1:]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_documents_python_compiles_and_toml_parses(document):
    for code in fences(document, "python"):
        compile(code, document, "exec")
    for code in fences(document, "toml"):
        tomllib.loads(code)


def test_the_documents_recipes_are_recipes():
    from crosslens.models.training.settings import TrainRecipe, from_dict

    told = [tomllib.loads(code) for document in DOCUMENTS for code in fences(document, "toml")]
    recipes = [from_dict(TrainRecipe, recipe) for recipe in told if "sources" in recipe]
    assert len(recipes) >= 5 and all(recipe.steps > 0 for recipe in recipes)


def test_command_lines_are_found():
    text = (
        "$ crosslens doctor\npip install . && crosslens report \\\n  runs/x  # again\necho "
        "crosslens\n"
    )
    assert list(command_lines(text)) == [["doctor"], ["report", "runs/x"]]


def test_every_command_line_in_the_documents_parses():
    shown = {
        document: [
            call
            for code in fences(document, "bash", "console", "sh")
            for call in command_lines(code)
        ]
        for document in DOCUMENTS
    }
    (choices,) = (action.choices for action in build_parser()._actions if action.dest == "verb")
    for calls in shown.values():
        for call in calls:
            if "--config" in call:
                assert loose(choices[call[0]]).parse_args(call[1:]).config
            elif call != ["--version"]:
                assert build_parser().parse_args(call).verb
    assert {call[0] for call in shown["README.md"]} >= set(choices), "the README shows every verb"


def test_the_readme_installs_as_the_check_does():
    lines = "\n".join(fences("README.md", "bash", "console", "sh"))
    assert "pip install -c constraints.txt . && crosslens quickstart" in lines
    assert "pip install -c constraints.txt '.[test]' && pytest" in lines
    assert "pip install --quiet -c constraints.txt '.[test]'" in (ROOT / ".ci" / "run").read_text(
        encoding="utf-8"
    )
