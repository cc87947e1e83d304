"""Formats and options that are reached from the command line: SentEval's files, Gulordava's pairs,
word-l2r, a table of words."""

import collections

import numpy as np
import pytest
from battery_data import NOUNS, make_data, write

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.outcomes import read_outcomes
from crosslens.readers.labelled_text import read_labelled_text
from crosslens.readers.minimal_pairs import read_minimal_pairs
from crosslens.score import read_scores

HEADER = "pattern\tconstr_id\tsent_id\tcorrect_number\tform\tclass\ttype\tprefix\tn_attr\tpunct\tfreq\tlen_context\tlen_prefix\tsent"


def colorless(noun, i):
    """Two rows as published: the sentence has another verb in the place, and cells with quotes are
    quoted."""
    sent = (
        f'"The {noun} of water sees , ""old"" day . <eos>"'
        if i % 2
        else f"The {noun} of water sees old day . <eos>"
    )
    return [
        (
            f"L__NOUN_VERB_VERB\t1\t{i}\tsing\t{form}\t{kind}\tgenerated\tThe {noun} of "
            f"water\t0\tFalse\t1\t2\t4\t{sent}"
        )
        for form, kind in (("is", "correct"), ("are", "wrong"))
    ]


def senteval(i):
    label, verb = (("PAST", "gave"), ("PRES", "gives"))[i // 5 % 2]
    return f"{('tr', 'tr', 'tr', 'va', 'te')[i % 5]}\t{label}\tthe {NOUNS[i % 6]} {verb} water {i}"


@pytest.fixture(scope="module")
def run(small_encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    tense = write(folder / "past_present.txt", [senteval(i) for i in range(60)])
    pairs = write(
        folder / "generated.tab",
        [HEADER, *(row for i, noun in enumerate(NOUNS) for row in colorless(noun, i))],
    )
    data = make_data(folder / "data")
    command = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--labels",
        f"tense={tense}",
        "--labels",
        f"number={pairs}",
        "--battery",
        "all",
    ]
    command += [
        "--tasks",
        "upos",
        "--data",
        str(data),
        "--pll",
        "word-l2r",
        "--no-random-control",
        "--quiet",
    ]
    assert main([*command, "--out", str(folder / "run")]) == 0
    return folder / "run", command


def test_senteval_s_parts_are_kept(run):
    scores = [
        s
        for s in read_scores(run[0] / "scores.jsonl")
        if s.task == "tense" and s.quantity == "accuracy" and s.condition is None
    ]
    assert {s.n for s in scores} == {12} and {s.details["n_train"] for s in scores} == {36}


def test_gulordava_s_pairs_are_scored_by_word_l2r(run):
    (whole,) = [
        s
        for s in read_scores(run[0] / "scores.jsonl")
        if s.task == "number" and (s.details or {}).get("average") == "all pairs"
    ]
    assert whole.details["method"] == "pll_word_l2r" and whole.details["pairs"] == 6


def test_a_table_of_words_stands_beside_tags(run, capsys):
    (table,) = read_outcomes(run[0], task="upos", condition="word_majority")
    (score,) = [
        s
        for s in read_scores(run[0] / "scores.jsonl")
        if (s.condition, s.quantity) == ("word_majority", "accuracy")
    ]
    assert score.value == table.mean and 0.8 < score.value and score.layer is None
    counts = collections.Counter(zip(table.gold, table.predicted, strict=True))
    assert sum(n for (gold, given), n in counts.items() if gold == given) == round(
        score.value * score.n
    )
    assert main([*run[1], "--out", str(run[0])]) == 0
    assert "The most frequent label of each word in training, upos: " in capsys.readouterr().out


def test_a_run_with_another_pll_is_another_run(run, capsys):
    assert (
        main(
            [*[word for word in run[1] if word not in ("--pll", "word-l2r")], "--out", str(run[0])]
        )
        == 2
    )
    assert "pll: 'word-l2r' there, None here" in capsys.readouterr().err


def test_the_right_form_stands_behind_the_prefix(tmp_path):
    path = write(
        tmp_path / "generated.tab",
        [HEADER, *(row for i, noun in enumerate(NOUNS) for row in colorless(noun, i))],
    )
    first, second = read_minimal_pairs(path)[:2]
    assert (first.good, first.bad) == (
        "The house of water is old day .",
        "The house of water are old day .",
    )
    assert (
        second.good == 'The water of water is , "old" day .'
        and second.category == "L__NOUN_VERB_VERB"
    )
    rows = path.read_text().splitlines()
    write(path, [rows[0], rows[2], rows[1]])
    with pytest.raises(InputError, match=r"generated\.tab:2: .*got others"):
        read_minimal_pairs(path)
    write(path, [rows[0], *(row.replace("\t2\t4\t", "\t2\t40\t") for row in rows[1:3])])
    with pytest.raises(InputError, match=r"generated\.tab:2: .*got '40'"):
        read_minimal_pairs(path)


def test_a_line_of_senteval_that_is_none_is_refused(tmp_path):
    path = write(tmp_path / "task.txt", ["tr\tA\tone", "xx\tB\ttwo"])
    with pytest.raises(InputError, match=r"task\.txt:2: .*got 'xx"):
        read_labelled_text(path)
    write(path, ["tr\tA\tone", "te\tB\ttwo", "va\tA\tthree"])
    assert read_labelled_text(path).parts == ["train", "test", "dev"] and np.array(
        read_labelled_text(path).labels
    ).tolist() == ["A", "B", "A"]


@pytest.mark.parametrize("probe", ["l1", pytest.param("mlp", marks=pytest.mark.slow)])
def test_another_probe_is_trained_where_it_is_asked_for(small_encoder, tmp_path, probe, capsys):
    tense = write(tmp_path / "past_present.txt", [senteval(i) for i in range(60)])
    command = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--labels",
        f"tense={tense}",
        "--no-random-control",
        "--quiet",
        "--probe",
        probe,
    ]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    scores = {
        s.layer: s
        for s in read_scores(tmp_path / "run" / "scores.jsonl")
        if (s.quantity, s.condition) == ("accuracy", None)
    }
    assert set(scores) == {0, 1, 2} and scores[0].value > 0.7
    assert (scores[0].details["penalty"] is None) == (probe == "mlp")
    assert main([*command, "--mdl", "--out", str(tmp_path / "none")]) == 2
    assert f"--mdl: expected the linear probe, got also --probe {probe}" in capsys.readouterr().err


def test_a_mix_of_layers_stands_beside_the_layers(small_encoder, tmp_path, capsys):
    tense = write(tmp_path / "past_present.txt", [senteval(i) for i in range(60)])
    command = [
        "probe",
        "--encoder",
        str(small_encoder),
        "--labels",
        f"tense={tense}",
        "--quiet",
        "--probe",
        "mix",
    ]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "tense " in told and "tense:mix" in told and " all " in told
    rows = [s for s in read_scores(tmp_path / "run" / "scores.jsonl") if s.quantity == "accuracy"]
    assert {s.layer for s in rows if s.task == "tense" and s.condition is None} == {0, 1, 2}
    mine = [s for s in rows if s.task == "tense:mix"]
    assert {s.condition for s in mine} == {
        None,
        "majority",
        "random_encoder",
        "shuffled_labels",
    } and {s.layer for s in mine} == {None}
    (test,) = [s for s in mine if s.condition is None and s.details["part"] == "test"]
    weights = test.details["layer_weights"]
    assert (
        len(weights) == 3
        and sum(weights) == pytest.approx(1, abs=1e-5)
        and test.details["penalty"] in (0.001, 0.01, 0.1, 1.0)
    )
    (kept,) = read_outcomes(tmp_path / "run", task="tense:mix", condition=None)
    assert kept.mean == test.value and kept.layer is None
    page = (tmp_path / "run" / "report.html").read_text()
    assert "tense, mix of layers" in page and "weights of layers 0 to 2: " in page


def test_italian_s_pairs_have_a_column_more(tmp_path):
    rows = [f"{row}\tL!X!Number=Sing__1__0" for row in colorless(NOUNS[0], 0)]
    path = write(tmp_path / "generated.tab", [f"{HEADER}\tfull_id", *rows])
    plain = write(tmp_path / "plain.tab", [HEADER, *colorless(NOUNS[0], 0)])
    assert [pair[:4] for pair in read_minimal_pairs(path)] == [
        pair[:4] for pair in read_minimal_pairs(plain)
    ]
