"""``crosslens probe`` as a user types it: a battery of one's own labels, its tables, JSON, stores
as before, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ground_tools import GRAMMAR, snapshot
from typed import typed

from crosslens.cli.main import main
from crosslens.recipes.quickstart import DATA

MODEL = str(DATA / "tiny-encoder")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    texts = {
        language: (DATA / "corpus" / f"{language}.txt")
        .read_text(encoding="utf-8")
        .splitlines()[:30]
        for language in ("eng", "rus")
    }
    lines = [f"{language}\t{text[:80]}\n" for language, some in texts.items() for text in some]
    (tmp_path / "languages.tsv").write_text("".join(lines), encoding="utf-8")
    for language, some in texts.items():
        (tmp_path / f"{language}.txt").write_text(
            "".join(f"{text[:80]}\n" for text in some), encoding="utf-8"
        )
    return tmp_path


def probe(*arguments):
    return main(["probe", *arguments, "--quiet"])


def test_a_task_of_one_s_own_is_told_in_a_table_and_again_at_once(place, capsys):
    told = ["--encoder", MODEL, "--labels", "language_id=languages.tsv", "--out", "run"]
    assert probe(*told) == 0
    first = capsys.readouterr().out
    head, row, *_ = first.splitlines()
    assert head.split() == [
        "task",
        "layer",
        "score",
        "95",
        "%",
        "interval",
        "majority",
        "control",
        "random",
        "n",
    ]
    assert (
        row.split()[0] == "language_id" and row.split()[-1] == "12" and float(row.split()[2]) > 80
    )
    assert (
        "From the characters alone, language_id: fastText" in first
        and first.splitlines()[-1] == "Report: run/report.html"
    )
    before = snapshot(place / "run")
    assert probe(*told) == 0 and capsys.readouterr().out == first
    assert snapshot(place / "run") == before
    assert probe(*told, "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [json.dumps(row, ensure_ascii=False) for row in rows] == (
        place / "run" / "scores.jsonl"
    ).read_text(encoding="utf-8").splitlines()
    assert {row["task"] for row in rows} == {"language_id"}


def test_a_kind_of_probe_is_none_for_activations(capsys):
    assert probe("eng", "fra", "--probe", "mlp") == 2
    told = capsys.readouterr().err
    assert "--encoder: expected an encoder for --probe, got none" in told


def test_stores_are_probed_as_before(place, capsys):
    assert (
        typed(
            "extract",
            "--encoder",
            MODEL,
            "--text",
            "eng=eng.txt",
            "rus=rus.txt",
            "--out",
            "out",
            "--quiet",
        )
        == 0
    )
    capsys.readouterr()
    assert probe("out/eng", "out/rus", "--train-fraction", "0.6") == 0
    table = capsys.readouterr().out
    assert (
        table.splitlines()[0].split()[:2] == ["layer", "accuracy"] and "held-out sentences" in table
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "ACTIVATIONS: expected activations of two or more languages, got 0"),
        (["--battery", "all"], "--encoder: expected an encoder for --battery, got none"),
        (["--out", "run"], "--encoder: expected an encoder for --out, got none"),
        (
            ["--encoder", MODEL, "--battery", "all", "--data", "."],
            "--out: expected a folder for the run, got none",
        ),
        (
            ["--encoder", MODEL, "--out", "run"],
            "--battery: expected a battery, or tasks of your own (--labels), got neither",
        ),
        (
            ["--encoder", MODEL, "--battery", "all", "--out", "run"],
            "--data: expected the folder that holds the tasks' data sets, got none",
        ),
        (
            ["--encoder", MODEL, "--labels", "a=languages.tsv", "--tasks", "wic", "--out", "run"],
            "--data: expected the folder that holds the tasks' data sets, got none",
        ),
        (
            ["eng", "--encoder", MODEL, "--out", "run"],
            "arguments: expected encoders with a battery, or activations, got also eng",
        ),
        (
            ["--encoder", MODEL, "--labels", "languages.tsv", "--out", "run"],
            "--labels: expected NAME=FILE, or NAME=TRAIN,DEV,TEST",
        ),
        (
            ["--encoder", MODEL, *["--labels", "a=languages.tsv"] * 2, "--out", "run"],
            "--labels: expected each task once, got a twice",
        ),
        (
            ["--encoder", MODEL, "--labels", "a/b=languages.tsv", "--out", "run"],
            "--labels: expected a name of letters, digits",
        ),
        (
            ["--encoder", MODEL, "--battery", "language", "--data", ".", "--out", "run"],
            "got language_id: no sib200/sib200.tsv",
        ),
        (
            [
                "--encoder",
                MODEL,
                "--battery",
                "language",
                "--tasks",
                "wic",
                "--data",
                ".",
                "--out",
                "run",
            ],
            "--tasks: expected tasks of the battery",
        ),
        (
            ["--encoder", "nowhere/at/all", "--labels", "a=languages.tsv", "--out", "run"],
            "encoder: expected a model folder or a hub name",
        ),
        (
            ["--encoder", MODEL, "--labels", "a=languages.tsv", "--out", "."],
            "expected a new folder, or one of a run",
        ),
    ],
)
def test_mistakes_are_refused_in_one_line_and_leave_nothing(place, capsys, arguments, message):
    before = snapshot(place)
    assert probe(*arguments) == 2
    captured = capsys.readouterr()
    assert (
        captured.out == ""
        and captured.err.startswith("crosslens: ")
        and captured.err.count("\n") == 1
    )
    assert message in captured.err and GRAMMAR.fullmatch(
        captured.err.removeprefix("crosslens: ").strip()
    )
    assert snapshot(place) == before


def test_a_battery_that_does_not_exist_is_refused(place, capsys):
    with pytest.raises(SystemExit) as ended:
        probe("--encoder", MODEL, "--battery", "everything", "--data", ".", "--out", "run")
    assert (
        ended.value.code == 2
        and "'semantic', 'syntactic', 'language', 'all'" in capsys.readouterr().err
    )


def test_the_document_s_python_runs_and_finds_what_it_planted():
    document = Path(__file__).parents[2] / "docs" / "probes.md"
    codes = [
        part.split("```")[0]
        for part in document.read_text(encoding="utf-8").split("```python\n")[1:]
    ]
    # the other one reads a run: test_battery.py
    (code,) = [code for code in codes if "probe_layers" in code]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    values = [float(line.split()[1]) for line in lines]
    assert len(lines) == 3 and values[2] > 0.9 > values[0] and "majority 0.50" in lines[0]
