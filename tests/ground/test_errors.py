"""The tree of errors, and one grammar for every refusal of the ground floor."""

import builtins
import re
from pathlib import Path

import numpy as np
import pytest
from ground_tools import GRAMMAR

from crosslens import errors
from crosslens.activations import Activations
from crosslens.activations_writer import ActivationsWriter, Block
from crosslens.checks import (
    check_fraction,
    check_labels,
    check_matrix,
    check_paired,
    check_positive_int,
)
from crosslens.corpus import Corpus, check_parallel
from crosslens.errors import (
    CrosslensError,
    InputError,
    OutputError,
    StoreError,
    TrainingError,
    refuse,
)
from crosslens.files import claim_folder, make_folder, need_space, read_json, same_settings
from crosslens.readers.plain import read_text, read_tsv
from crosslens.score import Score, read_scores
from crosslens.stats import jackknife_interval, wilson_interval


def test_the_docstring_draws_the_tree_that_there_is():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__)
    children = [
        name for name in errors.__all__ if name.endswith("Error") and name != "CrosslensError"
    ]
    assert sorted(drawn) == sorted(children)
    assert all(issubclass(getattr(errors, name), CrosslensError) for name in children)


@pytest.mark.parametrize(("ours", "theirs"), [(InputError, "ValueError")])
def test_callers_who_know_python_s_words_catch_them_too(ours, theirs):
    with pytest.raises(getattr(builtins, theirs)):
        refuse("k", "a number", "none", "give one", ours)


@pytest.mark.parametrize("error", [InputError, StoreError, OutputError, TrainingError])
def test_refuse_raises_what_it_is_told_in_the_grammar(error):
    with pytest.raises(error) as refused:
        refuse("k", "a whole number", "'x'", "choose another", error)
    assert str(refused.value) == "k: expected a whole number, got 'x'; choose another"
    assert type(refused.value) is error


def file(folder: Path, content: bytes, name: str = "text.txt") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def one_more(folder: Path) -> ActivationsWriter:
    writer = ActivationsWriter(folder / "store", {}, arrays=["layer_00"], d=2, dtype="float32")
    with writer.plan() as plan:
        plan.add({"id": ["0", "1"]})
        plan.end_block()
    return writer


def damaged_store(folder: Path) -> Activations:
    (folder / "manifest.json").write_text('{"format": 0}')
    return Activations(folder)


BAD_CALLS = {
    "matrix of words": lambda t: check_matrix([["a"]], "x"),
    "matrix of nothing": lambda t: check_matrix(None, "x"),
    "matrix of dates": lambda t: check_matrix(np.array([["2020-01-01"]], "datetime64[D]"), "x"),
    "complex matrix": lambda t: check_matrix(np.array([[1 + 1j]]), "x"),
    "ragged matrix": lambda t: check_matrix([[1, 2], [3]], "x"),
    "vector": lambda t: check_matrix([1.0, 2.0], "x"),
    "no rows": lambda t: check_matrix(np.zeros((0, 3)), "x"),
    "no columns": lambda t: check_matrix(np.zeros((3, 0)), "x"),
    "too few rows": lambda t: check_matrix([[1.0]], "x", min_rows=2),
    "NaN": lambda t: check_matrix([[np.nan]], "x"),
    "unpaired": lambda t: check_paired([[1.0]], [[1.0], [2.0]]),
    "labels too many": lambda t: check_labels(["a", "b"], "y", 1),
    "labels in a matrix": lambda t: check_labels([["a"]], "y", 1),
    "labels ragged": lambda t: check_labels([["a"], ["a", "b"]], "y", 2),
    "k zero": lambda t: check_positive_int(0, "k"),
    "k true": lambda t: check_positive_int(True, "k"),
    "k a fraction": lambda t: check_positive_int(1.5, "k"),
    "k too large": lambda t: check_positive_int(4, "k", most=3),
    "fraction one": lambda t: check_fraction(1.0, "f"),
    "fraction NaN": lambda t: check_fraction(float("nan"), "f"),
    "fraction a word": lambda t: check_fraction("half", "f"),
    "successes": lambda t: wilson_interval(3, 2),
    "n zero": lambda t: wilson_interval(0, 0),
    "one group": lambda t: jackknife_interval(1.0, np.array([1.0])),
    "quantity": lambda t: Score(quantity="goodness", value=1.0, n=1),
    "infinite score": lambda t: Score(quantity="loss", value=float("inf"), n=1).as_json(),
    "damaged scores": lambda t: list(read_scores(file(t, b"{\n"))),
    "language": lambda t: Corpus("a b", [], [], "x"),
    "ids": lambda t: Corpus("eng", ["a"], [], "x"),
    "no file": lambda t: read_text(t / "none.txt", "eng"),
    "folder": lambda t: read_text(t, "eng"),
    "empty": lambda t: read_text(file(t, b""), "eng"),
    "blank": lambda t: read_text(file(t, b"a\n\nb\n"), "eng"),
    "latin": lambda t: read_text(file(t, b"caf\xe9\n"), "eng"),
    "NUL": lambda t: read_text(file(t, b"a\0b\n"), "eng"),
    "bad gzip": lambda t: read_text(file(t, b"abc", "a.gz"), "eng"),
    "columns": lambda t: read_tsv(file(t, b"0\ta\n1\n"), "eng"),
    "blank cell": lambda t: read_tsv(file(t, b"0\ta\n1\t \n"), "eng"),
    "counts": lambda t: check_parallel(
        {"a": Corpus("a", ["x"], ["0"], "a"), "b": Corpus("b", [], [], "b")}
    ),
    "no JSON": lambda t: read_json(file(t, b"{")),
    "settings": lambda t: same_settings("here", {"a": 1}, {"a": 2}, "choose another"),
    "folder is a file": lambda t: make_folder(file(t, b""), "out"),
    "no space": lambda t: need_space(t, 1 << 62, "out"),
    "foreign folder": lambda t: file(t, b"x") and claim_folder(t, "study", {}),
    "no store": lambda t: Activations(t),
    "store of another format": damaged_store,
    "unfinished": lambda t: one_more(t).finish(),
    "wrong block": lambda t: one_more(t).write(Block(0, 0, 2), {"layer_00": np.zeros((1, 2))}),
}


@pytest.mark.parametrize("given", ["Joint", ["joint"], np.array(["joint", "union"])])
def test_what_is_none_of_the_choices_is_refused_whatever_its_type(given):
    with pytest.raises(InputError, match="mode: expected one of joint, union, got"):
        errors.check_choice(given, "mode", ("joint", "union"))


@pytest.mark.parametrize("call", BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_every_refusal_reads_the_same_way(call, tmp_path):
    with pytest.raises(CrosslensError) as refused:
        call(tmp_path)
    assert GRAMMAR.fullmatch(str(refused.value))
    assert "\n" not in str(refused.value)
