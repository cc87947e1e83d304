"""``crosslens align`` and ``crosslens compare`` from the command line, with their folders and
reports."""

import json
import re
import shutil

import numpy as np
import pytest
from tests_run_helpers import D, N, context_stores, store, word_store
from typed import typed

from crosslens.alignment.words.links import write_pharaoh
from crosslens.cli.main import main
from crosslens.report import render_report
from crosslens.run.measures import make_split
from crosslens.score import read_scores


@pytest.fixture(autouse=True)
def anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # tables are read line by line: in a narrower terminal their rows are folded
    monkeypatch.setenv("COLUMNS", "120")


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
        store(
            tmp_path / name,
            name,
            [base + scale * rng.normal(size=(N, D)) for scale in (0.3, 0.8, 1.5, 3.0)],
        )


def lines_of(capsys):
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_types_are_aligned_by_a_dictionary(types, capsys):
    assert typed("align x y --dictionary train.txt --test test.txt --quiet --out run") == 0
    lines = lines_of(capsys)
    assert lines[0] == "layer direction P@1 after Procrustes 95 % interval P@5 P@10 n".split()
    assert [line[0:4] + line[5:6] for line in lines[1:3]] == [
        [str(i), "eng", "→", "fra", "100.0"] for i in (0, 1)
    ]
    assert (
        " ".join(lines[3]) == "P@k in per cent, by csls among 60 words; 30 pairs were learnt from."
    )
    assert " ".join(lines[4]).startswith(
        "88.2 % of 34 test words have vectors, and a translation that has; "
    )
    assert lines[-1] == ["Report:", "run/report.html"]
    scores = list(read_scores("run/scores.jsonl"))
    assert {s.quantity for s in scores} == {
        "precision_at_1",
        "precision_at_5",
        "precision_at_10",
        "mrr",
    }
    page = render_report("run")
    assert '<section id="words">' in page and '<section id="similarity">' not in page
    assert "Words, English → French: after Procrustes best at layer 0, P@1 1.000" in page
    assert "88.2 % of the test dictionary’s 34 words are covered" in page


def test_the_rotation_of_another_corpus_and_the_same_again(sentences, tmp_path, capsys):
    rng = np.random.default_rng(2)
    for name in ("eng", "fra"):
        store(tmp_path / f"other-{name}", name, [rng.normal(size=(N, D)) for _ in range(4)])
    assert typed("align eng fra --fit other-eng other-fra --quiet --json --out run") == 0
    first = capsys.readouterr().out
    assert typed("align --config run/config.json --quiet --json --out again") == 0
    assert capsys.readouterr().out == first
    after = [
        s for s in read_scores("run/scores.jsonl") if s.condition == "procrustes" and s.layer == 0
    ]
    assert {(s.n, s.details["fitted_on"]) for s in after if s.details.get("part")} == {(N, N)}
    assert max(s.value for s in after if s.details.get("part")) < 0.5  # it is no use here
    assert typed("align eng=a.vec fra=b.vec --fit other-eng other-fra --quiet") == 2
    assert "--fit with activations of sentences only" in capsys.readouterr().err
    assert typed("align eng fra --lowercase --quiet") == 2
    told = "lowercase: expected only with a dictionary of word types, which is read in lower case"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", ["train", "test"])
def test_a_dictionary_of_another_content_is_not_the_same_run(types, tmp_path, capsys, name):
    command = "align x y --dictionary train.txt --test test.txt --quiet --out run".split()
    assert main(command) == 0 and main(command) == 0
    written = (tmp_path / "run" / "scores.jsonl").read_bytes()
    file = tmp_path / f"{name}.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    assert main(command) == 2
    assert ("dictionary" if name == "train" else "test") in capsys.readouterr().err
    assert (tmp_path / "run" / "scores.jsonl").read_bytes() == written


def test_without_a_test_dictionary_a_part_is_held_out(types, capsys):
    assert typed("align x y --dictionary train.txt --train-fraction 0.8 --quiet --json") == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {
        (s["n"], s["details"].get("fitted_on")) for s in scores if s["quantity"] == "precision_at_1"
    } == {(6, None), (6, 24)}


def test_fewer_pairs_than_dimensions_are_told(types, tmp_path, capsys):
    lines = (tmp_path / "train.txt").read_text().splitlines(keepends=True)
    for pairs in (D - 1, D):
        (tmp_path / "few.txt").write_text("".join(lines[:pairs]))
        assert typed("align x y --dictionary few.txt --test test.txt --quiet") == 0
        told = (
            f"{pairs} pairs were learnt from. With {pairs} pairs for {D} dimensions Procrustes is "
            f"fixed on a part of the space only."
        )
        assert (told in capsys.readouterr().out) == (pairs < D)
    rng = np.random.default_rng(0)
    for name in ("deu", "spa"):
        store(tmp_path / name, name, list(rng.normal(size=(2, 40, 21))))
    assert typed("align deu spa --quiet") == 0
    assert (
        "unaligned. With 20 pairs for 21 dimensions Procrustes is fixed on a part"
        in capsys.readouterr().out
    )


def test_among_fewer_words_than_ten_there_is_no_p_at_10(tmp_path, capsys):
    x = np.random.default_rng(2).normal(size=(1, 7, 3))
    for name, language in (("x", "eng"), ("y", "fra")):
        word_store(
            tmp_path / name, language, list(x), {"word": [f"{name}{i}" for i in range(7)]}, "type"
        )
    (tmp_path / "pairs.txt").write_text("".join(f"x{i} y{i}\n" for i in range(7)))
    assert typed("align x y --dictionary pairs.txt --quiet --out run") == 0
    line = lines_of(capsys)[1]
    assert (line[4], *line[-3:]) == ("100.0", "100.0", "-", "3")
    assert "Words, English → French" in render_report("run")


def test_words_in_context_are_aligned_by_links(tmp_path, capsys):
    _, _, links = context_stores(tmp_path)
    write_pharaoh("links.txt", links, 40)
    assert typed("align cx cy --links links.txt --quiet --out run") == 0
    lines = lines_of(capsys)
    assert [(line[1], line[3], line[5]) for line in lines[1:3]] == [
        ("eng", "rus", "100.0"),
        ("rus", "eng", "100.0"),
    ]
    scores = {
        s.condition: s
        for s in read_scores("run/scores.jsonl")
        if s.quantity == "alignment_error_rate"
    }
    assert lines[5] == "layer AER 95 % interval after Procrustes 95 % interval sentences".split()
    first = scores["unaligned"]
    assert lines[6] == [
        "0",
        f"{100 * first.value:.1f}",
        f"{100 * first.low:.1f}-{100 * first.high:.1f}",
        "0.0",
        "0.0-18.0",
        "20",
    ]
    assert first.low < first.value < first.high
    assert "Words, Russian → English: after Procrustes best at layer 0" in render_report("run")


def test_links_of_a_part_of_the_text_are_refused_by_their_file(tmp_path, capsys):
    _, _, links = context_stores(tmp_path)
    write_pharaoh("links.txt", links[links[:, 0] < 30], 30)
    assert typed("align cx cy --links links.txt --quiet") == 2
    told = "crosslens: links.txt: expected a line for each of the 40 sentences of cx, got 30; "
    assert capsys.readouterr().err.startswith(told)


def test_sentences_are_aligned_and_their_similarity_is_correlated(sentences, capsys):
    assert typed("align eng fra --quiet --out run") == 0
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
    assert typed("compare eng fra --quiet --out run") == 2
    assert (
        "run: expected a run made by `crosslens compare`, got one of `crosslens align`; "
        in capsys.readouterr().err
    )


def test_a_correlation_that_is_not_there_is_told_in_words(tmp_path, capsys):
    rng = np.random.default_rng(5)
    for name in ("deu", "spa"):
        store(tmp_path / name, name, list(rng.normal(size=(2, N, D))))
    assert typed("align deu spa --quiet --out run") == 0
    told = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("Pearson correlation of P@1")
    ]
    assert len(told) == 2 and all(
        "over 2 layers: not computed (expected 4 or more pairs of numbers, got shapes" in line
        for line in told
    )
    scores = [s for s in read_scores("run/scores.jsonl") if s.quantity == "pearson"]
    assert (
        all(np.isnan(s.value) and "4 or more pairs" in s.details["reason"] for s in scores)
        and len(scores) == 2
    )


def test_many_stores_are_compared_in_pairs(sentences, capsys):
    assert typed("compare eng fra rus --quiet --out run") == 0
    lines = lines_of(capsys)
    assert [" ".join(line[:4]) for line in lines[1:13]] == [
        f"{a} – {b} {layer}"
        for a, b in (("eng", "fra"), ("eng", "rus"), ("fra", "rus"))
        for layer in range(4)
    ]
    page = render_report("run")
    assert "Every layer against every layer." in page and '<section id="retrieval">' not in page
    scores = list(read_scores("run/scores.jsonl"))
    assert sum(s.condition is None for s in scores) == 2 * 3 * 16


def test_two_encoders_of_one_language_are_compared_by_name(tmp_path, sentences, capsys):
    rng = np.random.default_rng(4)
    store(tmp_path / "other", "eng", list(rng.normal(size=(2, N, 3))))
    assert typed("compare eng other --quiet") == 0
    lines = lines_of(capsys)
    assert " ".join(lines[1][:4]) == "eng – other 0"
    assert [line[3] for line in lines[1:3]] == ["0", "1"]


def test_other_measures_are_columns(sentences, capsys):
    assert typed("compare eng fra --also svcca,mutual_knn --quiet --json") == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {s["quantity"] for s in scores} == {
        "linear_cka",
        "debiased_linear_cka",
        "svcca",
        "mutual_knn",
    }
    assert typed("compare eng fra --quiet --json --also", "svcca, mutual_knn") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == scores
    assert typed("compare eng fra --also mutual_knn --quiet") == 0
    told = capsys.readouterr().out
    value = next(
        s["value"]
        for s in scores
        if (s["quantity"], s["layer"], s["condition"]) == ("mutual_knn", 0, None)
    )
    assert f"{value:.3f} (" in told and "in brackets that of shuffled rows" in told


def test_other_measures_are_drawn_over_layers(sentences, capsys):
    assert typed("compare eng fra rus --also svcca,procrustes_distance --quiet --out run") == 0
    page = render_report("run")
    for label, direction in (("SVCCA", "higher"), ("Procrustes distance", "lower")):
        assert page.count(f"{label} by layer.</strong>") == 1
        assert f"{direction} is more alike" in page
    assert "has no figure for" not in page
    scores = {
        (s.source, s.target, s.layer, s.condition): s.value
        for s in read_scores("run/scores.jsonl")
        if s.quantity == "svcca"
    }
    pictures = re.findall(r'aria-label="SVCCA by layer, ([^"]*)"', page)
    names = {"eng": "English", "fra": "French", "rus": "Russian"}
    for (source, target), label in zip(
        (("eng", "fra"), ("eng", "rus"), ("fra", "rus")), pictures, strict=True
    ):
        assert f"{names[source]} – {names[target]}, n = {N}." in label.replace("&nbsp;", " ")
        for condition, name in ((None, "Encoder"), ("shuffled_items", "Shuffled sentences")):
            values = [scores[source, target, layer, condition] for layer in range(4)]
            assert f"{name}, SVCCA: highest {max(values):.3f} at layer {np.argmax(values)}" in label
    assert (
        page.index("Linear CKA by layer.")
        < page.index("SVCCA by layer.")
        < page.index("Every layer against every layer.")
    )


def test_a_measure_that_was_not_asked_for_is_not_drawn(sentences, capsys):
    assert typed("compare eng fra --quiet --out run") == 0
    assert "SVCCA" not in render_report("run")


@pytest.fixture
def refused(tmp_path, types, sentences):
    """Stores that look well until they are computed with."""
    rng = np.random.default_rng(7)
    for name in ("deu", "spa"):
        store(tmp_path / f"few-{name}", name, list(rng.normal(size=(2, 12, 14))))
    store(tmp_path / "short", "fra", list(rng.normal(size=(2, N, D))))
    wide = {"word": [f"y{i}" for i in range(N)]}
    word_store(tmp_path / "short-types", "fra", [rng.normal(size=(N, D))], wide, "type")
    word_store(tmp_path / "no-vectors", "fra", [np.full((N, D), np.nan)] * 2, wide, "type")
    _, _, links = context_stores(tmp_path)
    split = make_split(40, 0.5, seed=0)
    for name, sentences_ in (("held.txt", split.held_out), ("learnt.txt", split.train)):
        write_pharaoh(tmp_path / name, links[np.isin(links[:, 0], sentences_)], 40)


WORDS = ["--dictionary", "train.txt", "--test", "test.txt"]
REFUSED_LATE = {
    "few items for a measure": (
        ["compare", "few-deu", "few-spa", "--also", "mean_cca"],
        "mean_cca of layer 0, deu: expected more items than ",
    ),
    "other numbers of layers": (
        ["align", "eng", "short"],
        "encoders: expected the same number of layers and the same width ",
    ),
    "other layers of words": (
        ["align", "x", "short-types", *WORDS],
        "stores: expected the same layers and the same width ",
    ),
    "no pairs to learn from": (
        ["align", "x", "no-vectors", *WORDS],
        "train: expected at least one pair of words ",
    ),
    "no links to learn from": (
        ["align", "cx", "cy", "--links", "held.txt"],
        "train: expected at least one pair of words ",
    ),
    "no links to judge by": (
        ["align", "cx", "cy", "--links", "learnt.txt"],
        "test: expected at least one pair of words ",
    ),
    "few sentences": (["align", "few-deu", "few-spa"], "texts: expected at least 20 sentences"),
}


@pytest.mark.parametrize(("arguments", "told"), REFUSED_LATE.values(), ids=REFUSED_LATE.keys())
def test_what_is_refused_while_it_is_computed_leaves_no_folder(
    refused, tmp_path, capsys, arguments, told
):
    assert main([*arguments, "--quiet", "--out", "run"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (tmp_path / "run").exists()


def test_a_measure_refuses_before_cka_is_computed(refused, monkeypatch, capsys):
    monkeypatch.setattr(
        "crosslens.run.similarities.compare_stores",
        lambda *_, **__: pytest.fail("CKA, which may take long, was computed"),
    )
    assert typed("compare few-deu few-spa --also mean_cca --quiet") == 2


def test_sentences_are_looked_up_as_by_says(sentences, capsys):
    read = {}
    for by in ([], ["--by", "csls"], ["--by", "margin_distance"]):
        assert typed("align eng fra", *by, "--json", "--quiet") == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        read[tuple(by)] = [row for row in told if row["quantity"] == "precision_at_1"]
    plain, csls, margin = read.values()
    assert {row["details"].get("by") for row in plain} == {None}
    assert {row["details"]["by"] for row in csls} == {"csls"} and {
        row["details"]["by"] for row in margin
    } == {"margin_distance"}
    assert [row["value"] for row in csls] != [row["value"] for row in plain]
    typed("align eng fra --by csls --quiet")
    assert "nearest neighbour by csls" in capsys.readouterr().out


def test_a_negative_seed_is_refused_and_leaves_no_folder(sentences, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        typed("compare eng fra --seed -1 --quiet --out run")
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert (
        err.startswith("crosslens: arguments: ")
        and "a whole number from 0 to 4294967295 is needed, not '-1'" in err
    )
    assert not (tmp_path / "run").exists()


def test_nothing_is_written_before_the_scores_are_there(sentences, tmp_path, monkeypatch, capsys):
    def stopped(*_, **__):
        assert not (tmp_path / "run").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("crosslens.run.similarities.compare_stores", stopped)
    assert typed("compare eng fra --quiet --out run") == 130
    assert not (tmp_path / "run").exists()


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_computed(
    sentences, tmp_path, monkeypatch, capsys
):
    def never(*_, **__):
        raise AssertionError("it was computed")

    monkeypatch.setattr("crosslens.run.similarities.compare_stores", never)
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/run"):
        assert typed("compare eng fra --quiet", "--out", out) == 2
        assert f"{out}: expected a folder that can be written to, got " in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


MISTAKES = {
    "an unknown measure": (
        ["compare", "eng", "fra", "--also", "cosine"],
        "also: expected some of uncentred_cka, ",
    ),
    "types without a dictionary": (
        ["align", "x", "y"],
        "dictionary: expected a file for types, got none; ",
    ),
    "types with links": (
        ["align", "x", "y", "--dictionary", "train.txt", "--links", "train.txt"],
        "links: expected none for types, got 'train.txt'; ",
    ),
    "sentences with a dictionary": (
        ["align", "eng", "fra", "--dictionary", "train.txt"],
        "dictionary: expected none for sentences, got ",
    ),
    "a test dictionary alone": (
        ["align", "x", "y", "--test", "test.txt"],
        "dictionary: expected a file for types, got none; ",
    ),
    "two units": (
        ["align", "x", "eng"],
        "unit: expected one unit on all sides, got type (x), sentence (eng); ",
    ),
    "no such dictionary": (["align", "x", "y", "--dictionary", "none.txt"], "none.txt: expected "),
    "one store": (["compare", "eng"], "sides: expected two or more, got 1; "),
    "words of one language": (
        ["align", "cx", "again", "--links", "train.txt"],
        "language: expected one of its own for each side, got eng, eng; ",
    ),
    "other items": (
        ["compare", "x", "cx"],
        "unit: expected one unit on all sides, got type (x), word (cx); ",
    ),
}


@pytest.mark.parametrize(("arguments", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line_and_nothing_is_written(
    types, sentences, tmp_path, capsys, arguments, told
):
    context_stores(tmp_path)
    shutil.copytree(tmp_path / "cx", tmp_path / "again")
    assert main([*arguments, "--quiet", "--out", "run"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"crosslens: {told}") and err.count("\n") == 1, err
    assert not (tmp_path / "run").exists()
