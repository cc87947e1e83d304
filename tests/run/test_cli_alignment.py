"""``crosslens align`` and ``crosslens compare`` from the command line, with their folders and reports."""

import json

import numpy as np
import pytest
from tests_run_helpers import D, N, context_stores, store, word_store

from crosslens.alignment.links import write_pharaoh
from crosslens.cli.main import main
from crosslens.progress import be_quiet
from crosslens.report import render_report
from crosslens.score import read_scores


@pytest.fixture(autouse=True)
def anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    be_quiet(False)


@pytest.fixture
def types(tmp_path):
    """Stores x and y of word types, the second turned, and dictionaries train.txt and test.txt."""
    rng = np.random.default_rng(0)
    x, turn = rng.normal(size=(2, N, D)), np.linalg.qr(rng.normal(size=(D, D)))[0]
    word_store(tmp_path / "x", "eng", list(x), {"word": [f"x{i}" for i in range(N)]}, "type")
    word_store(tmp_path / "y", "fra", list(x @ turn), {"word": [f"y{i}" for i in range(N)]}, "type")
    (tmp_path / "train.txt").write_text("".join(f"x{i} y{i}\n" for i in range(30)))
    (tmp_path / "test.txt").write_text("".join(f"x{i} y{i}\n" for i in range(30, 64)))


@pytest.fixture
def sentences(tmp_path):
    rng = np.random.default_rng(1)
    base = rng.normal(size=(N, D))
    for name in ("eng", "fra", "rus"):
        store(tmp_path / name, name, [base + scale * rng.normal(size=(N, D)) for scale in (0.3, 0.8, 1.5, 3.0)])


def lines_of(capsys):
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_types_are_aligned_by_a_dictionary(types, capsys):
    assert main(["align", "x", "y", "--dictionary", "train.txt", "--test", "test.txt", "--quiet", "--out", "run"]) == 0
    lines = lines_of(capsys)
    assert lines[0] == "layer direction P@1 after Procrustes 95 % interval P@5 P@10 n".split()
    assert [line[0:4] + line[5:6] for line in lines[1:3]] == [[str(i), "eng", "→", "fra", "100.0"] for i in (0, 1)]
    assert " ".join(lines[3]) == "P@k in per cent, by csls among 60 words; 30 pairs were learnt from."
    assert " ".join(lines[4]).startswith("88.2 % of 34 test words are in the stores with a translation; ")
    assert lines[-1] == ["Report:", "run/report.html"]
    scores = list(read_scores("run/scores.jsonl"))
    assert {s.quantity for s in scores} == {"precision_at_1", "precision_at_5", "precision_at_10", "mrr"}
    page = render_report("run")
    assert '<section id="words">' in page and '<section id="similarity">' not in page
    assert "Words, eng → fra: after Procrustes best at layer 0, P@1 1.000" in page
    assert "88.2 % of the test dictionary’s 34 words are covered" in page


def test_without_a_test_dictionary_a_part_is_held_out(types, capsys):
    assert main(["align", "x", "y", "--dictionary", "train.txt", "--train-fraction", "0.8", "--quiet", "--json"]) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(s["n"], s["details"].get("fitted_on")) for s in scores if s["quantity"] == "precision_at_1"} == {(6, None), (6, 24)}


def test_words_in_context_are_aligned_by_links(tmp_path, capsys):
    _, _, links = context_stores(tmp_path)
    write_pharaoh("links.txt", links, 40)
    assert main(["align", "cx", "cy", "--links", "links.txt", "--quiet", "--out", "run"]) == 0
    lines = lines_of(capsys)
    assert [(line[1], line[3], line[5]) for line in lines[1:3]] == [("eng", "rus", "100.0"), ("rus", "eng", "100.0")]
    assert "Words, rus → eng: after Procrustes best at layer 0" in render_report("run")


def test_sentences_are_aligned_and_their_similarity_is_correlated(sentences, capsys):
    assert main(["align", "eng", "fra", "--quiet", "--out", "run"]) == 0
    lines = [" ".join(line) for line in lines_of(capsys)]
    assert lines[0] == "layer direction all held out after Procrustes 95 % interval n"
    told = [line for line in lines if line.startswith("Pearson correlation of P@1")]
    assert [line.split()[4] for line in told] == ["(unaligned)", "(procrustes)"]
    assert all("over 4 layers: 0.9" in line for line in told)
    page = render_report("run")
    assert '<section id="retrieval">' in page and '<section id="words">' not in page
    assert (json.loads((run := open("run/config.json")).read())["kind"], run.close())[0] == "align"


def test_a_folder_keeps_its_settings(sentences, capsys):
    command = ["align", "eng", "fra", "--quiet", "--json", "--out", "run"]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert main([*command, "--seed", "1"]) == 2
    assert "seed" in capsys.readouterr().err
    assert main(["compare", "eng", "fra", "--quiet", "--out", "run"]) == 2
    assert "run: expected a run made by `crosslens compare`, got one of `crosslens align`; " in capsys.readouterr().err


def test_many_stores_are_compared_in_pairs(sentences, capsys):
    assert main(["compare", "eng", "fra", "rus", "--quiet", "--out", "run"]) == 0
    lines = lines_of(capsys)
    assert [" ".join(line[:4]) for line in lines[1:13]] == [
        f"{a} – {b} {layer}" for a, b in (("eng", "fra"), ("eng", "rus"), ("fra", "rus")) for layer in range(4)
    ]
    page = render_report("run")
    assert "Every layer against every layer." in page and '<section id="retrieval">' not in page
    scores = list(read_scores("run/scores.jsonl"))
    assert sum(s.condition is None for s in scores) == 2 * 3 * 16


def test_two_encoders_of_one_language_are_compared_by_name(tmp_path, sentences, capsys):
    rng = np.random.default_rng(4)
    store(tmp_path / "other", "eng", list(rng.normal(size=(2, N, 3))))
    assert main(["compare", "eng", "other", "--quiet"]) == 0
    lines = lines_of(capsys)
    assert " ".join(lines[1][:4]) == "eng – other 0"
    assert [line[3] for line in lines[1:3]] == ["0", "1"]


def test_other_measures_are_columns(sentences, capsys):
    assert main(["compare", "eng", "fra", "--also", "svcca,mutual_knn", "--quiet", "--json"]) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {s["quantity"] for s in scores} == {"linear_cka", "debiased_linear_cka", "svcca", "mutual_knn"}
    assert main(["compare", "eng", "fra", "--also", "mutual_knn", "--quiet"]) == 0
    told = capsys.readouterr().out
    value = next(s["value"] for s in scores if (s["quantity"], s["layer"], s["condition"]) == ("mutual_knn", 0, None))
    assert f"{value:.3f} (" in told and "in brackets that of shuffled rows" in told


MISTAKES = {
    "an unknown measure": (["compare", "eng", "fra", "--also", "cosine"], "also: expected some of uncentred_cka, "),
    "types without a dictionary": (["align", "x", "y"], "arguments: expected --dictionary, for stores of types, got no --dictionary; "),
    "types with links": (["align", "x", "y", "--dictionary", "train.txt", "--links", "train.txt"], "arguments: expected --dictionary, for"),
    "sentences with a dictionary": (["align", "eng", "fra", "--dictionary", "train.txt"], "arguments: expected neither --dictionary nor"),
    "a test dictionary alone": (["align", "x", "y", "--test", "test.txt"], "arguments: expected --dictionary, for stores of types, got no"),
    "two units": (["align", "x", "eng"], "stores: expected stores of one unit, got x of types, eng of sentences; "),
    "no such dictionary": (["align", "x", "y", "--dictionary", "none.txt"], "none.txt: expected "),
    "one store": (["compare", "eng"], "STORE: expected two or more stores, got 1; "),
    "other items": (["compare", "x", "cx"], "stores: expected stores of one unit, got x of types, cx of words; "),
}


@pytest.mark.parametrize(("arguments", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line_and_nothing_is_written(types, sentences, tmp_path, capsys, arguments, told):
    context_stores(tmp_path)
    assert main([*arguments, "--quiet", "--out", "run"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (tmp_path / "run").exists()
