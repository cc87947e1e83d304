"""``crosslens transfer``: its tables, its report, and what is refused in one line."""

import importlib
import inspect
import json

import pytest

import crosslens as cl
from crosslens import progress
from crosslens.cli.main import main
from crosslens.recipes.quickstart import DATA

ENCODER = str(DATA / "tiny-encoder")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    yield
    progress.be_quiet(False)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "xnli"
    folder.mkdir(parents=True)
    for name, n in (("train-en", 24), ("dev-en", 8), ("test-en", 12), ("test-de", 12)):
        lines = (
            f"The {'dog' if i % 2 else 'cat'} sleeps in {name} {i}.\tIt is {i}.\t{'neutral' if i % 2 else 'entailment'}\n"
            for i in range(n)
        )
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder.parent


def line(data, out, *more):
    told = [
        "transfer",
        "--encoder",
        ENCODER,
        "--tasks",
        "xnli",
        "--train",
        "eng",
        "--test",
        "eng,deu",
    ]
    told += ["--data", str(data), "--out", str(out), "--seeds", "2", "--epochs", "2", "--quiet"]
    return [*told, "--batch-size", "8", "--peak-rate", "1e-3", *more]


def test_tables_a_report_and_the_same_run_from_its_file(data, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(line(data, out, "--noise", "0.075")) == 0
    told = capsys.readouterr().out
    settings = json.loads((out / "config.json").read_text())["settings"]
    assert settings["values"]["xnli"]["noise"] == 0.075
    assert "xnli: Accuracy in per cent" in told and "eng → deu" in told and "Settings, xnli" in told
    assert "asked for" in told and "chosen here" in told
    page = (out / "report.html").read_text()
    assert "Transfer from English, tested in 2 languages" in page and "What is transferred" in page
    again = tmp_path / "again"
    assert main(["transfer", "--config", str(out), "--out", str(again), "--quiet", "--json"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert (again / "scores.jsonl").read_bytes() == (out / "scores.jsonl").read_bytes()
    assert {row["target"] for row in rows} == {"eng", "deu", None}  # None: correlations over them


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (["--tasks", ""], "--tasks: expected a value"),
        (["--tasks", "wic"], "task: expected one that can be fine-tuned"),
        (["--freeze", "x"], "--freeze: expected whole numbers"),
        (["--preset", "mine"], "--preset: expected one of"),
        (["--test", "fra"], "expected a language of the data"),
        (["--peak-rate", "0"], "peak_rate: expected"),
        (["--noise=-1"], "noise: expected a number from 0"),
    ],
)
def test_mistakes_are_refused_in_one_line(data, tmp_path, capsys, change, match):
    assert main(line(data, tmp_path / "run", *change)) == 2
    told = capsys.readouterr().err
    assert match in told and told.count("\n") == 1
    assert not (tmp_path / "run" / "scores.jsonl").exists()


def test_the_task_is_refused_where_it_would_be_probed(data, tmp_path, capsys):
    told = ["probe", "--encoder", ENCODER, "--tasks", "xnli", "--data", str(data), "--quiet"]
    assert main([*told, "--out", str(tmp_path / "run")]) == 2
    assert "crosslens transfer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "function"),
    [
        ("transfer", "transfer"),
        ("mapped", "mapped_transfer"),
        ("study_transfer", "study_transfer"),
        ("probes", "probe"),
    ],
)
def test_what_a_verb_hands_on_is_taken_by_the_function_of_the_front_door(verb, function):
    handed = importlib.import_module(f"crosslens.cli.{verb}")._HANDED_ON
    assert {name.replace("-", "_") for name in handed} <= {
        *inspect.signature(getattr(cl, function)).parameters
    }
