"""``crosslens align eng=en.vec fra=fr.vec``: static vectors of two languages from the command line."""

import json
from typing import get_args

import numpy as np
import pytest

from crosslens.alignment.csls import By
from crosslens.alignment.lexicon import evaluate_lexicon
from crosslens.cli import alignment as arguments_of_align
from crosslens.cli.main import main
from crosslens.dictionaries import read_dictionary
from crosslens.errors import InputError
from crosslens.progress import be_quiet
from crosslens.report import render_report
from crosslens.run.vectors import METHODS, STARTS, first_pairs, map_vectors, own_dictionary
from crosslens.score import read_scores
from crosslens.static_vectors import StaticVectors, read_vec, write_vec

N, D = 400, 12


def space(noise=0.05):
    """Words w0 ... of a clustered space, and the same turned, with some noise; every tenth word is spelt alike."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(20, D))[rng.integers(0, 20, N)] + 0.5 * rng.normal(size=(N, D))).astype(np.float32)
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0].astype(np.float32)
    y = 2 * x @ turn + noise * rng.normal(size=(N, D)).astype(np.float32)
    names = [f"w{i}" if i % 10 == 0 else f"{i}" if i % 10 == 5 else None for i in range(N)]
    words = [[name or f"{side}{i}" for i, name in enumerate(names)] for side in ("x", "y")]
    return StaticVectors(words[0], x), StaticVectors(words[1], y.astype(np.float32))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = space()
    write_vec("en.vec", x)
    write_vec("fr.vec", y)
    for name, rows in (("train.txt", range(0, 200)), ("test.txt", range(200, 300))):
        (tmp_path / name).write_text("".join(f"{x.words[i]} {y.words[i]}\n" for i in rows))
    with open("test.txt", "a") as file:
        file.write("nowhere nulle\n")
    yield tmp_path
    be_quiet(False)


WAYS = {
    "procrustes": ["--dictionary", "train.txt"],
    "refine": ["--dictionary", "train.txt", "--method", "refine"],
    "self_learning": ["--start", "identical"],
}


@pytest.mark.parametrize(("condition", "options"), WAYS.items(), ids=WAYS.keys())
def test_every_method_finds_a_turned_space(folder, capsys, condition, options):
    assert main(["align", "eng=en.vec", "fra=fr.vec", *options, "--test", "test.txt", "--quiet", "--out", "run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == "quantity per cent 95 % interval n of all, per cent".split()
    assert lines[1].split()[0] == "P@1" and float(lines[1].split()[1]) > 97
    assert "coverage 99.0 % of 101 test words." in lines[-2]
    assert lines[-1] == "Report: run/report.html" and (folder / "run" / "report.html").exists()
    scores = {s.quantity: s for s in read_scores("run/scores.jsonl")}
    first = scores["precision_at_1"]
    assert (first.condition, first.layer, first.n, first.source, first.target) == (condition, 0, 100, "eng", "fra")
    assert first.details["value_of_all"] == pytest.approx(first.value * 100 / 101)
    assert "P@1" in render_report("run") and '<section id="words">' in render_report("run")
    mapped = [read_vec(f"run/{language}.vec") for language in ("eng", "fra")]
    again = evaluate_lexicon(*(v.vectors for v in mapped), [(i, i) for i in range(200, 300)], n_sources=101)
    assert again.precision[1] == pytest.approx(first.value, abs=0.011)  # written vectors are those that were judged
    found = read_dictionary("run/dictionary.tsv")
    assert found.scores == sorted(found.scores, reverse=True)
    pair = dict(zip(*(v.words for v in mapped), strict=True))
    assert np.mean([pair[a] == b for a, b in found]) > 0.95


def test_methods_differ_and_follow_their_seed():
    x, y = space(noise=0.4)
    pairs = first_pairs(x, y, "numerals", None)
    assert pairs.tolist() == [[i, i] for i in range(5, N, 10)]
    assert first_pairs(x, y, "identical", None).tolist() == [[i, i] for i in range(0, N, 5)]
    maps = {method: map_vectors(x, y, pairs, method, seed=0) for method in ("procrustes", "refine", "self-learning")}
    for first in maps:
        for second in maps:
            assert np.array_equal(maps[first][0], maps[second][0]) == (first == second)
    again = map_vectors(x, y, pairs, "self-learning", seed=0)
    assert all(map(np.array_equal, again, maps["self-learning"]))


def test_own_dictionary_is_of_mutual_neighbours_the_surest_first():
    x, y = space()
    found = own_dictionary(x, y, (y.vectors, y.vectors), by="cosine")
    assert sorted(found) == sorted(zip(x.words, y.words, strict=True))
    assert found.scores == sorted(found.scores, reverse=True)


def test_json_lines_and_a_split_dictionary(folder, capsys):
    assert main(["align", "eng=en.vec", "fra=fr.vec", "--dictionary", "train.txt", "--train-fraction", "0.75", "--quiet", "--json"]) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(s["n"], s["details"]["fitted_on"], s["details"]["sources"]) for s in scores} == {(50, 150, 50)}


def test_only_the_frequent_words_are_read(folder, capsys):
    arguments = [
        "align",
        "eng=en.vec",
        "fra=fr.vec",
        "--dictionary",
        "train.txt",
        "--test",
        "test.txt",
        "--most",
        "250",
        "--quiet",
        "--json",
    ]
    assert main(arguments) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(s["n"], s["details"]["candidates"], s["details"]["sources"]) for s in scores} == {(50, 250, 101)}


MISTAKES = {
    "nothing to learn from": (
        ["--test", "test.txt"],
        "arguments: expected --dictionary FILE, or --start identical, ",
    ),
    "both": (["--dictionary", "train.txt", "--start", "identical"], "arguments: expected --dictionary FILE, or --start"),
    "nothing to judge by": (["--start", "identical"], "--test: expected a dictionary to judge by, got none; "),
    "another method": (
        ["--start", "identical", "--method", "refine", "--test", "test.txt"],
        "--method: expected self-learning, ",
    ),
    "one file twice": (
        ["--dictionary", "train.txt", "--test", "train.txt"],
        "--test: expected source words that ",
    ),
    "links": (["--dictionary", "train.txt", "--links", "train.txt"], "arguments: expected --dictionary or --start, "),
}


@pytest.mark.parametrize(("options", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line_and_nothing_is_written(folder, capsys, options, told):
    assert main(["align", "eng=en.vec", "fra=fr.vec", *options, "--quiet", "--out", "run"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (folder / "run").exists()


REFUSED_LATE = {
    "few words for CSLS": (["--start", "identical", "--test", "near.txt", "--most", "6"], "k: expected at most the number of words "),
    "no pair in the vectors": (["--dictionary", "train.txt", "--test", "nothing.txt"], "dictionary: expected "),
}


@pytest.mark.parametrize(("options", "told"), REFUSED_LATE.values(), ids=REFUSED_LATE.keys())
def test_what_is_refused_while_it_is_computed_leaves_no_folder(folder, capsys, options, told):
    (folder / "nothing.txt").write_text("nowhere nulle\n")
    (folder / "near.txt").write_text("x1 y1\n")
    assert main(["align", "eng=en.vec", "fra=fr.vec", *options, "--quiet", "--out", "run"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (folder / "run").exists()


def test_a_folder_that_holds_other_things_is_refused_before_anything_is_read(folder, capsys):
    (folder / "run").mkdir()
    (folder / "run" / "notes.txt").write_text("mine")
    (folder / "en.vec").write_text("no vectors")
    assert main(["align", "eng=en.vec", "fra=fr.vec", *WAYS["refine"], "--test", "test.txt", "--quiet", "--out", "run"]) == 2
    assert "run: expected a new folder, or one of a run, got a folder with other files in it; " in capsys.readouterr().err
    assert [path.name for path in (folder / "run").iterdir()] == ["notes.txt"]


def test_the_choices_of_the_command_line_are_those_of_the_functions():
    assert arguments_of_align.METHODS == METHODS
    assert arguments_of_align.STARTS == STARTS
    assert arguments_of_align.BY == get_args(By)


def test_stores_take_no_method(folder, capsys):
    assert main(["align", "here", "there", "--method", "refine", "--quiet"]) == 2
    assert "arguments: expected --method with LANGUAGE=FILE of word vectors only, " in capsys.readouterr().err


def test_names_of_the_python_call_are_checked():
    x, y = space()
    with pytest.raises(InputError, match="start: expected one of dictionary, identical, numerals, unsupervised, got 'luck'; "):
        first_pairs(x, y, "luck", None)
    with pytest.raises(InputError, match="start: expected a dictionary, and only where it is used, got start 'dictionary' with none; "):
        first_pairs(x, y, "dictionary", None)
    with pytest.raises(InputError, match="method: expected one of procrustes, refine, self-learning, got 'magic'; "):
        map_vectors(x, y, np.array([[0, 0]]), "magic", 0)
