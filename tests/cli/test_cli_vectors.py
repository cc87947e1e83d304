"""``crosslens align eng=en.vec fra=fr.vec``: static vectors of two languages from the command
line."""

import functools
import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typed import typed

from crosslens.alignment import IterativeNormalisation, Procrustes, SelfLearningResult
from crosslens.alignment.maps import induction, learning_state
from crosslens.alignment.neighbours.csls import By
from crosslens.alignment.words.lexicon import evaluate_lexicon
from crosslens.cli import alignment as arguments_of_align
from crosslens.cli.main import main
from crosslens.errors import InputError, refuse
from crosslens.files import lock_folder
from crosslens.readers.dictionary import read_dictionary
from crosslens.readers.static_vectors import StaticVectors, read_vec, write_vec
from crosslens.report import render_report
from crosslens.run import vectors
from crosslens.run.vectors import (
    METHODS,
    STARTS,
    MappedVectors,
    first_pairs,
    map_vectors,
    own_dictionary,
)
from crosslens.score import read_scores

N, D = 400, 12


def space(noise=0.05):
    """Words w0 ... of a clustered space, and the same turned, with some noise; every tenth word is
    spelt alike."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(20, D))[rng.integers(0, 20, N)] + 0.5 * rng.normal(size=(N, D))).astype(
        np.float32
    )
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
    return tmp_path


WAYS = {
    "procrustes": ["--dictionary", "train.txt"],
    "refine": ["--dictionary", "train.txt", "--method", "refine"],
    "self_learning": ["--start", "identical"],
}


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        # the quick ones beside it resume self-learning from its own state
        pytest.param(*way, marks=[pytest.mark.slow] * (way[0] == "self_learning"))
        for way in WAYS.items()
    ],
    ids=WAYS.keys(),
)
def test_every_method_finds_a_turned_space(folder, capsys, condition, options):
    assert (
        typed(
            "align eng=en.vec fra=fr.vec", *options, "--test", "test.txt", "--quiet", "--out", "run"
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == "quantity per cent 95 % interval n of all, per cent".split()
    assert lines[1].split()[0] == "P@1" and float(lines[1].split()[1]) > 97
    assert "coverage 99.0 % of 101 test words." in lines[-2]
    assert lines[-1] == "Report: run/report.html" and (folder / "run" / "report.html").exists()
    scores = {s.quantity: s for s in read_scores("run/scores.jsonl")}
    first = scores["precision_at_1"]
    assert (first.condition, first.layer, first.n, first.source, first.target) == (
        condition,
        0,
        100,
        "eng",
        "fra",
    )
    assert first.details["value_of_all"] == pytest.approx(first.value * 100 / 101)
    assert "P@1" in render_report("run") and '<section id="words">' in render_report("run")
    mapped = [read_vec(f"run/{language}.vec") for language in ("eng", "fra")]
    again = evaluate_lexicon(
        *(v.vectors for v in mapped), [(i, i) for i in range(200, 300)], n_sources=101
    )
    # written vectors are those that were judged
    assert again.precision[1] == pytest.approx(first.value, abs=0.011)
    found = read_dictionary("run/dictionary.tsv")
    assert found.scores == sorted(found.scores, reverse=True)
    pair = dict(zip(*(v.words for v in mapped), strict=True))
    assert np.mean([pair[a] == b for a, b in found]) > 0.95
    given = (read_vec(name).vectors[-9:] for name in ("en.vec", "fr.vec"))
    for got, expected in zip(by_kept_maps(condition, *given), mapped, strict=True):
        np.testing.assert_allclose(got, expected.vectors[-9:], atol=1e-4)


def by_kept_maps(condition, x, y):
    """What the maps in the folder make of new vectors."""
    if condition == "self_learning":
        learnt = SelfLearningResult.load("run/map.safetensors")
        return learnt.transform_x(x), learnt.transform_y(y)
    left, right = (
        IterativeNormalisation.load(f"run/normalisation.{language}.safetensors")
        for language in ("eng", "fra")
    )
    return Procrustes.load("run/map.safetensors").transform(left.transform(x)), right.transform(y)


def test_files_are_named_by_their_languages_whatever_these_are_called(folder):
    assert (
        typed(
            "align en_yb=en.vec fr_xd=fr.vec",
            *WAYS["procrustes"],
            "--test",
            "test.txt",
            "--quiet",
            "--out",
            "run",
        )
        == 0
    )
    names = {path.name for path in (folder / "run").glob("*.safetensors")}
    assert names == {
        "map.safetensors",
        "normalisation.en_yb.safetensors",
        "normalisation.fr_xd.safetensors",
    }


def test_methods_differ_and_follow_their_seed(monkeypatch):
    # 50 take half a minute
    monkeypatch.setattr(
        vectors, "self_learning", functools.partial(induction.self_learning, patience=3)
    )
    x, y = space(noise=0.4)
    pairs = first_pairs(x, y, "numerals", None)
    assert pairs.tolist() == [[i, i] for i in range(5, N, 10)]
    assert first_pairs(x, y, "identical", None).tolist() == [[i, i] for i in range(0, N, 5)]
    maps = {
        method: map_vectors(x, y, pairs, method, seed=0)
        for method in ("procrustes", "refine", "self-learning")
    }
    for first in maps:
        for second in maps:
            assert np.array_equal(maps[first].x, maps[second].x) == (first == second)
    again, other = (map_vectors(x, y, pairs, "self-learning", seed=seed) for seed in (0, 1))
    assert np.array_equal(again.x, maps["self-learning"].x) and np.array_equal(
        again.y, maps["self-learning"].y
    )
    ways = [
        found.maps["map"].objectives.tolist() for found in (maps["self-learning"], again, other)
    ]
    assert ways[0] == ways[1] != ways[2]  # another way to the same maps


def test_own_dictionary_is_of_mutual_neighbours_the_surest_first():
    x, y = space()
    found = own_dictionary(x, y, MappedVectors(y.vectors, y.vectors, {}), by="cosine")
    assert sorted(found) == sorted(zip(x.words, y.words, strict=True))
    assert found.scores == sorted(found.scores, reverse=True)


def test_words_that_a_dictionary_cannot_hold_do_not_end_the_run(folder, capsys):
    for name in ("en.vec", "fr.vec"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        for row, word in ((301, "a\tb"), (302, " c")):  # neighbours that no dictionary names
            lines[row] = f"{word} {lines[row].partition(' ')[2]}"
        (folder / name).write_text("".join(lines))
    command = "align eng=en.vec fra=fr.vec --dictionary train.txt --test test.txt --out run"
    assert typed(command) == 0
    assert "2 induced pair(s) left out, whose words a line cannot hold" in capsys.readouterr().err
    assert "a\tb" in read_vec("run/eng.vec") and len(read_dictionary("run/dictionary.tsv")) > 300


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--train-fraction", "0.2"], "train_fraction: 0.5 there, 0.2 here"),
        (["--lowercase"], "lowercase: False there, True here"),
    ],
    ids=["another share", "lower case"],
)
def test_a_folder_is_not_written_over_with_pairs_read_in_another_way(folder, capsys, change, told):
    command = "align eng=en.vec fra=fr.vec --dictionary train.txt --quiet --out run"
    assert typed(command) == 0
    before = (folder / "run" / "scores.jsonl").read_bytes()
    capsys.readouterr()
    assert typed(command, *change) == 2
    expected = f"crosslens: run: expected the same settings, got other ones ({told}); "
    assert capsys.readouterr().err.startswith(expected)
    assert (folder / "run" / "scores.jsonl").read_bytes() == before


def test_json_lines_and_a_split_dictionary(folder, capsys):
    assert (
        typed(
            "align eng=en.vec fra=fr.vec --dictionary train.txt --train-fraction 0.75 "
            "--quiet --json"
        )
        == 0
    )
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(s["n"], s["details"]["fitted_on"], s["details"]["sources"]) for s in scores} == {
        (50, 150, 50)
    }


def test_only_the_frequent_words_are_read(folder, capsys):
    arguments = (
        "align eng=en.vec fra=fr.vec --dictionary train.txt --test test.txt --most 250 "
        "--quiet --json"
    ).split()
    assert main(arguments) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(s["n"], s["details"]["candidates"], s["details"]["sources"]) for s in scores} == {
        (50, 250, 101)
    }


MISTAKES = {
    "nothing to learn from": (
        ["--test", "test.txt"],
        "dictionary: expected a file, or start identical, ",
    ),
    "both": (
        ["--dictionary", "train.txt", "--start", "identical"],
        "dictionary: expected a file, or start",
    ),
    "nothing to judge by": (
        ["--start", "identical"],
        "test: expected a dictionary to judge by, got none; ",
    ),
    "another method": (
        ["--start", "identical", "--method", "refine", "--test", "test.txt"],
        "method: expected self-learning, ",
    ),
    "one file twice": (
        ["--dictionary", "train.txt", "--test", "train.txt"],
        "test: expected source words that ",
    ),
    "a share of nothing": (
        ["--dictionary", "train.txt", "--test", "test.txt", "--train-fraction", "0.7"],
        "train_fraction: expected none with test, got 0.7; ",
    ),
    "links": (
        ["--dictionary", "train.txt", "--links", "train.txt"],
        "arguments: expected --links with activations of words only, ",
    ),
}


@pytest.mark.parametrize(("options", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line_and_nothing_is_written(folder, capsys, options, told):
    assert typed("align eng=en.vec fra=fr.vec", *options, "--quiet", "--out", "run") == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (folder / "run").exists()


@pytest.mark.parametrize("side", ["en.vec", "fr.vec"])
def test_words_without_a_direction_are_left_out_and_counted(folder, capsys, side):
    """Published vectors have some; the run is that of a file without them."""
    given = read_vec(side)
    given.vectors[[7, 9]] = 0
    call = ["align eng=en.vec fra=fr.vec", *WAYS["refine"], "--test", "test.txt", "--out"]
    write_vec(side, given)
    assert typed(*call, "run") == 0
    assert (
        f"{side}: left out are 2 of {len(given)} words whose vectors are zeros, which have no "
        f"cosine, {given.words[7]!r} first"
    ) in capsys.readouterr().err
    some = [row for row in range(len(given)) if row not in (7, 9)]
    write_vec(side, StaticVectors([given.words[row] for row in some], given.vectors[some]))
    assert typed(*call, "without", "--quiet") == 0
    scores = [list(read_scores(Path(name) / "scores.jsonl")) for name in ("run", "without")]
    assert scores[0] == scores[1] and scores[0]

    given.vectors[:] = 0
    write_vec(side, given)
    capsys.readouterr()
    assert typed(*call, "none", "--quiet") == 2
    assert capsys.readouterr().err == (
        f"crosslens: {side}: expected vectors with a direction, got zeros alone; give vectors that "
        "are trained\n"
    )
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    ("pairs", "told"),
    [(1, "from 1 pair ("), (11, "With 11 pairs for 12 dimensions"), (12, "")],
    ids=["one", "too few", "enough"],
)
def test_fewer_pairs_than_dimensions_are_told(folder, capsys, pairs, told):
    lines = (folder / "train.txt").read_text().splitlines()
    (folder / "few.txt").write_text("\n".join(lines[:pairs]))
    assert typed("align eng=en.vec fra=fr.vec --dictionary few.txt --test test.txt --quiet") == 0
    out = capsys.readouterr().out
    assert told in out and (
        "dimensions Procrustes is fixed on a part of the space only." in out
    ) == (pairs < D)


REFUSED_LATE = {
    "few words for CSLS": (
        ["--start", "identical", "--test", "near.txt", "--most", "6"],
        "k: expected at most the number of words ",
    ),
    "no pair in the vectors": (
        ["--dictionary", "train.txt", "--test", "nothing.txt"],
        "dictionary: expected ",
    ),
}


@pytest.mark.parametrize(("options", "told"), REFUSED_LATE.values(), ids=REFUSED_LATE.keys())
def test_what_is_refused_while_it_is_computed_leaves_no_folder(folder, capsys, options, told):
    (folder / "nothing.txt").write_text("nowhere nulle\n")
    (folder / "near.txt").write_text("x1 y1\n")
    assert typed("align eng=en.vec fra=fr.vec", *options, "--quiet", "--out", "run") == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (folder / "run").exists()


def test_self_learning_that_is_killed_goes_on_by_the_same_command(folder, capsys, monkeypatch):
    monkeypatch.setattr(learning_state, "_EVERY", 0)
    monkeypatch.setattr(
        vectors, "self_learning", functools.partial(induction.self_learning, patience=2)
    )
    induce, iterations = induction._induce, []

    def counted(*given):
        iterations.append(1)
        if len(iterations) == stop:
            raise KeyboardInterrupt
        return induce(*given)

    monkeypatch.setattr(induction, "_induce", counted)
    command = "align eng=en.vec fra=fr.vec --start identical --test test.txt --quiet --out".split()
    stop = 0
    assert main([*command, "whole"]) == 0
    total, stop = len(iterations), 2 * len(iterations) - 9
    assert main([*command, "run"]) == 130
    assert sorted(path.name for path in (folder / "run").iterdir()) == [
        ".lock",
        "config.json",
        "self-learning.safetensors",
    ]
    del iterations[:]
    assert main([*command, "run"]) == 0
    assert len(iterations) == 10
    names = sorted(path.name for path in (folder / "whole").iterdir())
    assert (
        names == sorted(path.name for path in (folder / "run").iterdir())
        and "self-learning.safetensors" in names
    )
    for name in (
        "scores.jsonl",
        "eng.vec",
        "fra.vec",
        "dictionary.tsv",
        "self-learning.safetensors",
    ):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    assert total > 10


@pytest.mark.parametrize("there", [False, True])
def test_self_learning_that_is_refused_leaves_everything_as_it_was(
    folder, capsys, monkeypatch, there
):
    monkeypatch.setattr(learning_state, "_EVERY", 0)
    induce, iterations = induction._induce, []

    def refused_late(*given):
        iterations.append(1)
        if len(iterations) == 3:
            refuse("keep_probability", "more", "less", "raise it")
        return induce(*given)

    monkeypatch.setattr(induction, "_induce", refused_late)
    if there:
        (folder / "run").mkdir()
        (folder / "run" / ".mine").touch()
    assert (
        typed("align eng=en.vec fra=fr.vec --start identical --test test.txt --quiet --out run")
        == 2
    )
    assert (
        capsys.readouterr().err.startswith("crosslens: keep_probability: ") and len(iterations) == 3
    )
    assert [path.name for path in folder.glob("run/*")] == [".mine"] * there and (
        folder / "run"
    ).exists() == there


def test_a_folder_in_which_another_process_learns_is_refused(folder, capsys):
    command = (
        "align eng=en.vec fra=fr.vec --start identical --test test.txt --quiet --out run".split()
    )
    (folder / "run").mkdir()
    with lock_folder("run"):
        assert main(command) == 2
    assert "run: expected a folder that nobody else works in, " in capsys.readouterr().err


def test_a_folder_that_holds_other_things_is_refused_before_anything_is_read(folder, capsys):
    (folder / "run").mkdir()
    (folder / "run" / "notes.txt").write_text("mine")
    (folder / "en.vec").write_text("no vectors")
    assert (
        typed(
            "align eng=en.vec fra=fr.vec",
            *WAYS["refine"],
            "--test",
            "test.txt",
            "--quiet",
            "--out",
            "run",
        )
        == 2
    )
    assert (
        "run: expected a new folder, or one of a run, got a folder with other files in it; "
        in capsys.readouterr().err
    )
    assert [path.name for path in (folder / "run").iterdir()] == ["notes.txt"]


def test_the_choices_of_the_command_line_are_those_of_the_functions():
    assert arguments_of_align.METHODS == METHODS
    assert arguments_of_align.STARTS == STARTS
    assert arguments_of_align.BY == get_args(By)


@pytest.mark.parametrize("option", ["--method refine", "--most 9"])
def test_stores_take_no_option_of_vectors(folder, capsys, option):
    assert typed(f"align here there {option} --quiet") == 2
    told = f"arguments: expected {option.split()[0]} with LANGUAGE=FILE of word vectors only, "
    assert told in capsys.readouterr().err


def test_names_of_the_python_call_are_checked():
    x, y = space()
    with pytest.raises(InputError, match="start: .*got 'luck'"):
        first_pairs(x, y, "luck", None)
    with pytest.raises(InputError, match="start: .*got start 'dictionary'"):
        first_pairs(x, y, "dictionary", None)
    with pytest.raises(InputError, match="method: .*got 'magic'"):
        map_vectors(x, y, np.array([[0, 0]]), "magic", 0)
