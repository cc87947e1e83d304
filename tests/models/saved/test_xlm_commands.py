"""XLM from the command line: extraction, a study, probes and minimal pairs, each with the language
that it is told."""

import json

import numpy as np
import pytest
from typed import typed
from xlm_models import reference, save_xlm

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.score import read_scores

ENGLISH = (
    "the cat sat on the mat|it 's a dog|a naive dog sat|the dog 's mat|on the mat it sat".split("|")
)
FRENCH = "oui l'homme a dit non|là l'été|l'homme a dit oui|non là là|l'été a dit".split("|")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_xlm(tmp_path_factory.mktemp("xlm") / "xlm", languages=("en", "fr"), head=True)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two parallel texts of 24 lines, each different from the others."""
    place = tmp_path_factory.mktemp("texts")
    for language, lines in (("eng", ENGLISH), ("fra", FRENCH)):
        rows = [" ".join([lines[i % 5], lines[i // 5]]) for i in range(24)]
        (place / f"{language}.txt").write_text(
            "".join(row + "\n" for row in rows), encoding="utf-8"
        )
    return place


def test_each_text_is_read_in_its_own_language(folder, texts, tmp_path, capsys):
    named = [f"{language}={texts / language}.txt" for language in ("eng", "fra")]
    told = [
        "extract",
        "--encoder",
        str(folder),
        "--text",
        *named,
        "--out",
        str(tmp_path / "out"),
        "--unit",
        "token",
        "--quiet",
    ]
    assert main(told) == 0
    assert "read as en" in (out := capsys.readouterr().out) and "read as fr" in out
    store = Activations(tmp_path / "out" / "fra")
    line = (texts / "fra.txt").read_text(encoding="utf-8").splitlines()[0]
    _, states = reference(folder, line, "fr")
    rows = np.flatnonzero(np.array(store.index(["text"])["text"]) == 0)
    for layer, state in enumerate(states):
        np.testing.assert_allclose(store.layer(layer)[rows], state[1:-1], atol=1e-5)
    assert main([*told, "--language", "en"]) == 2
    assert "language_embedding" in capsys.readouterr().err
    assert (
        typed(
            "extract",
            "--encoder",
            str(folder),
            "--text",
            f"deu={texts}/eng.txt",
            "--out",
            str(tmp_path / "deu"),
            "--quiet",
        )
        == 2
    )
    assert (
        "language: expected one that encoder xlm has (en, fr), got 'deu'" in capsys.readouterr().err
    )
    other = [
        "extract",
        "--encoder",
        str(folder),
        "--text",
        f"deu={texts}/eng.txt",
        "--out",
        str(tmp_path / "deu"),
        "--quiet",
    ]
    assert main([*other, "--language", "en"]) == 0


def test_a_study_tells_each_text_its_language_and_does_not_ask_the_vectors_for_it(
    folder, texts, tmp_path, capsys
):
    named = [f"{language}={texts / language}.txt" for language in ("eng", "fra")]
    told = [
        "study",
        "--text",
        *named,
        "--encoder",
        str(folder),
        "--out",
        str(tmp_path / "run"),
        "--quiet",
    ]
    assert main(told) == 0
    assert (tmp_path / "run" / "report.html").exists()
    tasks = {score.task for score in read_scores(tmp_path / "run" / "scores.jsonl")}
    assert "sentence_retrieval" in tasks and "language_id" not in tasks
    notes = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["notes"]
    assert any("told the language of each text" in note for note in notes)
    capsys.readouterr()
    stores = [
        str(tmp_path / "run" / "activations" / "encoder" / language) for language in ("eng", "fra")
    ]
    assert main(["probe", *stores]) == 0
    assert "the encoder was told the language of each text" in capsys.readouterr().out


def test_probes_of_texts_that_do_not_say_their_language_need_it_named(
    folder, originals, tmp_path, capsys
):
    rows = [f"{'ab'[i % 2]}\t{ENGLISH[i % 5]} {ENGLISH[i // 5 % 5]} {i}" for i in range(60)]
    (tmp_path / "kind.tsv").write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    pairs = [
        {"sentence_good": f"the dog sat {i}", "sentence_bad": f"the the sat {i}", "UID": "order"}
        for i in range(8)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    told = [
        "probe",
        "--encoder",
        str(folder),
        "--labels",
        f"kind={tmp_path}/kind.tsv",
        "--labels",
        f"pairs={tmp_path}/pairs.jsonl",
    ]
    assert main([*told, "--out", str(tmp_path / "none"), "--quiet"]) == 2
    assert (
        "--language" in (error := capsys.readouterr().err)
        and "(en, fr)" in error
        and not (tmp_path / "none").exists()
    )
    both = [*told, "--encoder", str(originals["bert"])]  # which takes no language
    assert (
        main(
            [
                *both,
                "--out",
                str(tmp_path / "run"),
                "--language",
                "en",
                "--no-random-control",
                "--quiet",
            ]
        )
        == 0
    )
    found = {
        (score.task, score.encoder) for score in read_scores(tmp_path / "run" / "scores.jsonl")
    }
    assert {("kind", "xlm"), ("kind", "bert"), ("pairs", "xlm"), ("pairs", "bert")} <= found
    assert (
        main(
            [
                *both,
                "--out",
                str(tmp_path / "run"),
                "--language",
                "fr",
                "--no-random-control",
                "--quiet",
            ]
        )
        == 2
    )
    assert "language" in capsys.readouterr().err
    alone = [
        "probe",
        "--encoder",
        str(originals["bert"]),
        "--labels",
        f"kind={tmp_path}/kind.tsv",
        "--language",
        "en",
    ]
    assert main([*alone, "--out", str(tmp_path / "alone"), "--quiet"]) == 2
    assert (
        "--language: expected an encoder that is told the language of its input (XLM), got "
        "none such"
    ) in capsys.readouterr().err
