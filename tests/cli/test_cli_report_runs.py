"""``crosslens report`` on runs of probes: one page for one, one page for several, and what is
refused."""

import json
import re

import pytest
from ground_tools import GRAMMAR, snapshot
from typed import typed

from crosslens.cli.main import main
from crosslens.score import Score, write_scores


def make(folder, encoder="e", kind="probe", scores=True):
    """A run of one task on two layers."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"kind": kind, "settings": {"seed": 3}}))
    rows = [
        Score(
            quantity="accuracy",
            value=0.5 + 0.2 * layer,
            n=50,
            low=0.4,
            high=0.9,
            layer=layer,
            task="upos",
            encoder=encoder,
        )
        for layer in (0, 1)
    ]
    if scores:
        write_scores(rows, folder / "scores.jsonl")
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to stand in, with two probe runs, one of another kind and one that is not
    finished."""
    make(tmp_path / "a", "first")
    make(tmp_path / "b", "second")
    make(tmp_path / "align", kind="align")
    make(tmp_path / "begun", scores=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_run_has_its_page_in_its_folder(place, capsys):
    assert main(["report", "a"]) == 0
    assert capsys.readouterr().out == "Report: a/report.html\n"
    assert "Probes of first" in (place / "a" / "report.html").read_text(encoding="utf-8")


def test_out_puts_the_page_elsewhere_and_leaves_the_folder_alone(place, capsys):
    before = snapshot(place / "a")
    assert typed("report a --out page.html") == 0
    assert capsys.readouterr().out == "Report: page.html\n"
    assert "Probes of first" in (place / "page.html").read_text(encoding="utf-8")
    assert snapshot(place / "a") == before


@pytest.mark.parametrize("runs", [["a"], ["a", "b"]])
def test_out_is_written_over_where_it_is_a_report_and_nothing_else(place, capsys, runs):
    for _ in range(2):
        assert main(["report", *runs, "--out", "page.html"]) == 0
    (place / "page.html").write_text("<!DOCTYPE html><title>My thesis</title>")
    assert main(["report", *runs, "--out", "page.html"]) == 2
    told = (
        "page.html: expected a new file, or a report of crosslens, got another file; choose "
        "another name, or delete it"
    )
    assert told in capsys.readouterr().err and "thesis" in (place / "page.html").read_text()


def test_several_runs_have_one_page_that_names_all_their_encoders(place, capsys):
    before = snapshot(place / "a")
    assert typed("report a b --out both.htm") == 0
    assert capsys.readouterr().out == "Report: both.htm\n"
    page = (place / "both.htm").read_text(encoding="utf-8")
    assert "Probes of 2 runs" in page and re.search(r"first.*second", page)
    # in the order in which they are named
    assert typed("report b a --out other.html") == 0
    assert re.search(
        r"<dd><bdi>second</bdi> and <bdi>first</bdi></dd>",
        (place / "other.html").read_text(encoding="utf-8"),
    )
    assert snapshot(place / "a") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["a", "b"],
            "--out: expected a file for this page, got none; add --out FILE.html",
        ),
        (
            ["a", "--out", "b"],
            (
                "--out: expected a file name that ends in .html, got 'b'; name the page so, as in "
                "--out probes.html"
            ),
        ),
        (
            ["a", "--out", "a/scores.jsonl"],
            "--out: expected a file name that ends in .html, got 'a/scores.jsonl'; ",
        ),
        (
            ["a", "align", "--out", "x.html"],
            "folder: expected a run of crosslens probe, got align of kind 'align'; ",
        ),
        (
            ["a", "begun", "--out", "x.html"],
            (
                "folder: expected a finished probe run with scores.jsonl, got begun without it; "
                "finish the run"
            ),
        ),
        (
            ["begun"],
            (
                "folder: expected a finished probe run with scores.jsonl, got begun without it; "
                "finish the run"
            ),
        ),
        (
            ["a", "a/", "--out", "x.html"],
            "report: expected each folder once, got one of them twice; leave it out",
        ),
        (
            ["a", "none", "--out", "x.html"],
            "folder: expected a finished probe run with config.json, got none without it; ",
        ),
        (["a", "--out", "none/x.html"], "none/"),
        ([], "arguments: expected those of `crosslens report --help`"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(place, capsys, arguments, message):
    before = snapshot(place)
    try:
        status = main(["report", *arguments])
    except SystemExit as ended:  # argparse ends the process itself
        status = ended.code
    output = capsys.readouterr()
    assert (status, output.out) == (2, "")
    assert output.err.startswith(f"crosslens: {message}")
    assert GRAMMAR.fullmatch(output.err.removeprefix("crosslens: ").strip())
    assert snapshot(place) == before
