"""Runs of transfer on questions: what is trained and tested, what is counted, and what is shown."""

import json

import numpy as np
import pytest

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.models.finetuning.load import load_fine_tuned
from crosslens.outcomes import read_outcomes
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.recipes.quickstart import DATA
from crosslens.run.transfer.data import transfer_data
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.summary import tables
from crosslens.run.transfer.transfer import run_transfer
from crosslens.score import read_scores

ENCODER = str(DATA / "tiny-encoder")
ANIMALS = ("dog", "cat", "bird", "cow", "horse")


def questions(language, paragraphs, start=0):
    """Two questions on each paragraph, in documents of two paragraphs."""
    made = []
    for number in range(start, start + paragraphs):
        animal, day = ANIMALS[number % 5], f"day {number}"
        context = f"On {day} the {animal} was here , said {language} ."
        asked = [("What was here?", f"the {animal}"), ("When?", day)]
        qas = [
            {
                "id": f"{number}-{k}",
                "question": question,
                "answers": [{"text": text, "answer_start": context.index(text)}],
            }
            for k, (question, text) in enumerate(asked)
        ]
        made.append({"context": context, "qas": qas})
    pairs = [made[i : i + 2] for i in range(0, paragraphs, 2)]
    data = [{"title": f"T{start + i}", "paragraphs": pair} for i, pair in enumerate(pairs)]
    return json.dumps({"version": "1.1", "data": data})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "xquad").mkdir()
    (folder / "mlqa").mkdir()
    for name in ("en", "de", "ru"):
        (folder / "xquad" / f"xquad.{name}.json").write_text(questions(name, 20))
    for name in ("en", "de"):
        for split, start in (("dev", 0), ("test", 50)):
            path = folder / "mlqa" / f"{split}-context-{name}-question-{name}.json"
            path.write_text(questions(name, 6, start))
    return folder


def settings(data, **changes):
    told = {
        "encoders": [ENCODER],
        "tasks": ["xquad"],
        "data": str(data),
        "train": ["eng"],
        "test": ["eng", "deu", "rus"],
        "epochs": 2,
        "batch_size": 4,
        "peak_rate": 2e-3,
        "seeds": 2,
    }
    return Transfer(**{**told, **changes})


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return run_transfer(settings(data, keep=True), folder)


def test_translations_of_what_is_trained_on_are_left_out_of_test(data):
    found = transfer_data("xquad", DataFolder(data), ["eng"], ["eng", "deu"])
    sides = {"train": found.train[0], "dev": found.dev[0], **found.tests}
    groups = {name: {*side.groups.tolist()} for name, side in sides.items()}
    assert [len(groups[name]) for name in ("train", "dev", "eng")] == [14, 2, 4]
    assert groups["deu"] == groups["eng"] and not groups["eng"] & (groups["train"] | groups["dev"])
    assert len(found.tests["deu"]) == 8 and found.facts["left_out_of_test"] == {"deu": 32}
    assert found.classes == () and found.facts["classes"] == []
    few = transfer_data("xquad", DataFolder(data), ["eng"], ["eng"], limit=3)
    assert len(few.train[0]) == len(few.tests["eng"]) == 3


def test_f1_and_exact_match_stand_beside_the_random_encoder(finished):
    scores = [s for s in read_scores(finished / "scores.jsonl") if s.details.get("part") == "test"]
    assert {s.condition for s in scores} >= {None, "random_encoder", "last_epoch"}
    assert "majority" not in {s.condition for s in scores}
    for target, presets in (("deu", {"squad", "mlqa"}), ("rus", {"squad"})):
        mine = [s for s in scores if s.target == target and s.condition is None]
        assert {s.quantity for s in mine} == {"answer_f1", "exact_match"}
        assert {s.details["counted_as"] for s in mine} == presets
        assert {s.n for s in mine} == {8}
        assert (mine[0].quantity, mine[0].details["counted_as"]) == ("answer_f1", "squad")
        assert all(0 <= s.low <= s.value <= s.high <= 1 for s in mine)
    dev = [s for s in read_scores(finished / "scores.jsonl") if s.details.get("part") == "dev"]
    assert {s.quantity for s in dev} == {"answer_f1"}


def test_answers_are_kept_item_by_item(finished):
    every = read_outcomes(
        finished, suite="dev", target="deu", quantity="exact_match", method="squad"
    )
    (one, *_) = [one for one in every if one.condition is None]
    assert len(one) == 8 and len(np.unique(one.group)) == 4
    assert all(text.startswith(("the ", "day ")) for text in one.gold)
    plain = [text.removeprefix("the ") for text in one.gold]
    said = [text.lower().removeprefix("the ") for text in one.predicted]
    assert all((a == b) <= right for a, b, right in zip(plain, said, one.outcome, strict=True))


def test_mlqa_is_counted_by_its_own_definition_first(data, tmp_path):
    told = settings(
        data,
        tasks=["mlqa"],
        test=["deu"],
        seeds=1,
        epochs=1,
        random_control=False,
        checkpoints=False,
    )
    scores = list(read_scores(run_transfer(told, tmp_path / "run") / "scores.jsonl"))
    first = next(s for s in scores if s.details["part"] == "test")
    assert (first.quantity, first.details["counted_as"], first.n) == ("answer_f1", "mlqa", 12)
    titles = [title for title, rows, _ in tables(tmp_path / "run", scores) if rows]
    assert "mlqa: F1 of answers in per cent, as mlqa" in titles


def test_the_kept_encoder_is_transformers_own(finished):
    from transformers import AutoModelForQuestionAnswering

    (folder, *_) = sorted((finished / "encoders").iterdir())
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    assert model.qa_outputs.weight.abs().sum() > 0
    head = load_fine_tuned(folder).tuned.model.head
    assert bool((head.classifier.weight == model.qa_outputs.weight).all())


def test_the_command_prints_tables_and_writes_a_page(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = tmp_path / "run"
    line = f"transfer --encoder {ENCODER} --tasks xquad --train eng --test eng,deu --data {data}"
    more = (
        f"--out {out} --seeds 1 --epochs 2 --batch-size 8 --peak-rate 1e-3 --max-length 48 --quiet"
    )
    assert main([*line.split(), *more.split()]) == 0
    told = capsys.readouterr().out
    assert "xquad: F1 of answers in per cent, as squad" in told and "eng → deu" in told
    assert "stride" in told
    page = (out / "report.html").read_text()
    assert "find the answer to a question" in page and "Question answering (XQuAD)" in page
    assert "Most frequent label" not in page


def test_questions_that_are_cut_are_counted_for_each_language(data, tmp_path):
    (tmp_path / "xquad").mkdir()
    for name in ("en", "de"):
        told = questions(name, 20)
        long = told if name == "en" else told.replace("When?", "When was it? " * 40)
        (tmp_path / "xquad" / f"xquad.{name}.json").write_text(long)
    told = {"epochs": 1, "seeds": 1, "test": ["eng", "deu"]}
    run = run_transfer(settings(tmp_path, **told), tmp_path / "run")
    scores = read_scores(run / "scores.jsonl")
    (dev,) = (s for s in scores if s.evidence.part == "dev" and s.condition is None)
    assert dev.details["unread"] == {"deu": 0.5}
    assert any("of deu 50.0 per cent of the questions" in one for one in dev.details["warnings"])


def test_a_language_that_lacks_test_questions_or_files_is_refused(data, tmp_path):
    (tmp_path / "mlqa").mkdir()
    for name in ("en", "de"):
        path = tmp_path / "mlqa" / f"dev-context-{name}-question-{name}.json"
        path.write_text(questions(name, 6))
    with pytest.raises(InputError, match="--test: expected languages with a test split"):
        transfer_data("mlqa", DataFolder(tmp_path), ["eng"], ["eng"])
    with pytest.raises(InputError, match="expected a language of the data"):
        transfer_data("xquad", DataFolder(data), ["eng"], ["fra"])
