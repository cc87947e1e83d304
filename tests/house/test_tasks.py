"""A task is one thing: its name stands in its own file and in the catalogue, and nowhere else in
the package."""

import ast
import functools
import re

import pytest
from house_tree import package_files

from crosslens.probes.tasks.catalogue import TASKS, find_task

COLUMN = "a column of CoNLL-U"
METHOD = "the mathematics that is called so"
STUDY = "what a study calls its own measurement, on parallel texts"
EXCEPTIONS = {  # (name, module) -> what it means there
    **{
        (name, f"crosslens.readers.{file}"): COLUMN
        for name in ("upos", "xpos", "deprel")
        for file in ("hub_treebank", "parsers", "treebank", "words")
    },
    **{
        (name, module): "what a kept parser has been trained on, in a message"
        for name in ("upos", "parsing")
        for module in ("crosslens.cli.derived", "crosslens.models.finetuning.trained_parser")
    },
    (
        "parsing",
        "crosslens.readers.parsers",
    ): "what a kept parser has been trained on, in a message",
    ("parsing", "crosslens.front.parsed"): "what is being done, said to whoever waits",
    **{(name, "crosslens.run.probing.kinds.tag"): COLUMN for name in ("upos", "xpos", "deprel")},
    **{
        ("upos", module): COLUMN
        for module in (
            "crosslens.run.probing.kinds.parse",
            "crosslens.run.transfer.fits",
            "crosslens.run.transfer.splits",
            "crosslens.run.transfer.examples",
            "crosslens.run.transfer.measures",
            "crosslens.run.transfer.predictors",
        )
    },
    ("deprel", "crosslens.run.transfer.predictors"): COLUMN,
    ("deprel", "crosslens.run.transfer.measures"): COLUMN,
    **{
        (name, f"crosslens.derive.{file}"): COLUMN
        for name in ("upos", "deprel")
        for file in ("order", "order_nodes")
    },
    ("xnli", "crosslens.report.folders.controlled"): "what the papers measure of the same systems",
    **{(name, "crosslens.cli.main"): "the example of a command" for name in ("ner", "upos")},
    **{
        ("ner", module): COLUMN
        for module in (
            "crosslens.derive.corpora",
            "crosslens.readers.tagged_words",
            "crosslens.readers.treebank",
            "crosslens.run.probing.kinds.tag",
        )
    },
    ("upos", "crosslens.cli.probes"): "the example of a treebank of one's own",
    ("wic", "crosslens.probes.methods.wic"): METHOD,
    ("scws", "crosslens.probes.methods.scws"): METHOD,
    ("language_id", "crosslens.probes"): METHOD,
    ("language_id", "crosslens.probes.methods.language_id"): METHOD,
    ("minimal_pairs", "crosslens.run.probing.kinds.build"): "a kind of tasks",
    ("minimal_pairs", "crosslens.run.probing.data"): "a kind of tasks",
    ("squad", "crosslens.probes.methods.answer_scores"): METHOD,
    ("mlqa", "crosslens.probes.methods.answer_scores"): METHOD,
    ("topic", "crosslens.recipes.prose"): "a directive of reStructuredText",
    **{("language_id", f"crosslens.run.{file}"): STUDY for file in ("measures", "study")},
    **{
        ("language_id", f"crosslens.report.{file}"): STUDY
        for file in ("citations", "figures", "folders.study", "pages.study")
    },
    **{
        ("language_id", f"crosslens.report.sections.{file}"): STUDY
        for file in ("language_id", "provenance")
    },
}


@functools.cache
def texts(source: str) -> list[str]:
    """The texts of a module but for its docstrings."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in documents
    )
    return [node.value for node in constants if isinstance(node.value, str)]


def named(name: str, source: str) -> bool:
    """Whether a module's texts name a task; the beginning of a family of names is found in whatever
    goes on."""
    pattern = re.compile(
        rf"(?<![\w.]){re.escape(name)}" + ("" if name.endswith("_") else r"(?!\w)")
    )
    return any(pattern.search(text) for text in texts(source))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = "wic"', True),
        ('x = f"no {y} wic/{z}"', True),
        ('"""wic"""\nx = 1', False),
        ("# wic\nwic = 1", False),
        ('x = "wicked", "my_wic", "crosslens.wic"', False),
    ],
)
def test_the_checker_finds_names(source, found):
    assert named("wic", source) is found
    assert named("feature_", 'x = "feature_Number"') and not named("feature_", 'x = "n_feature_s"')


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_is_named_in_its_own_file_and_nowhere_else(task):
    others = {
        name: path
        for name, path in package_files().items()
        if not name.startswith("crosslens.probes.tasks.")
    }
    found = {
        name for name, path in others.items() if named(task.name, path.read_text(encoding="utf-8"))
    }
    assert found == {module for name, module in EXCEPTIONS if name == task.name}


def test_exceptions_have_a_reason():
    assert all(find_task(name) and reason for (name, _), reason in EXCEPTIONS.items())
