"""The report of a training run: what is on the page at every stage of a run, and that no log can
break it."""

import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pages import Page
from synthetic_study import make_study
from synthetic_training import make_training

from crosslens.cli.main import main
from crosslens.errors import InputError, StoreError
from crosslens.report import render_report, run_kind, training_figure, write_report
from crosslens.report.folders.log import smoothed
from crosslens.report.folders.training import load_training
from crosslens.report.parts.drawing import Axis, series_style


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> Path:
    """Edit or drop (None) lines of a log."""
    lines = [edit(json.loads(line)) for line in (folder / "log.jsonl").read_text().splitlines()]
    (folder / "log.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines if line is not None)
    )
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with three languages, two sources and four pairs."""
    return make_training(tmp_path_factory.mktemp("done") / "run")


@pytest.fixture(scope="module")
def source(done: Path) -> str:
    """Its report."""
    return render_report(done)


# ---------------------------------------------------------------- a finished run


def test_every_section_and_fact_is_there(page: Page) -> None:
    assert [attributes["id"] for attributes in page.all("section")] == [
        "learning",
        "retrieval",
        "made",
    ]
    for words in (
        "Training of tiny-encoder",
        "English, French and German",
        "news and bible",
        "1,000 of 1,000 (100 %)",
        "2,000,000",
        "32,000 in model/model.safetensors",
        "498 subwords",
        "Seed7",
        "median 8,003 tokens/s (100 log lines)",
        "4 layers, 64 dimensions and 4 heads",
        "1,234",
        "longer than 38 subwords",
        "masking.rate",
        "/data/bible.fra.txt",
        "weight 1.0",
        "23,456",
        "Devlin et al. 2019",
    ):
        assert words in page.text, words
    assert "not finished" not in page.text


def test_figures_have_captions_axes_with_units_and_n(source: str) -> None:
    figures = re.findall(r"<figure .*?</figure>", source, re.DOTALL)
    axes = [
        [
            "tokens seen (million)",
            "loss (nats per masked token)",
            "perplexity (log scale)",
            "P@1 (fraction)",
        ],
        ["tokens seen (million)", "P@1 (fraction)"],
        ["layer (0 = embeddings)", "pair", "P@1, fraction of pairs (same scale in all panels)"],
    ]
    assert len(figures) == len(axes)
    for number, (figure, labels) in enumerate(zip(figures, axes, strict=True), 1):
        (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", figure, re.DOTALL)
        assert f"Figure {number}." in caption and "How to read it" in figure
        assert 'class="legend' in figure
        for label in labels:
            assert f">{label}</text>" in figure, label
        assert re.search(r"n&nbsp;=&nbsp;\d", figure)
    # loss, perplexity and the mean; pairs; sources
    assert [figure.count('class="panel"') for figure in figures] == [3, 3, 2]


def test_every_picture_is_labelled_and_no_id_occurs_twice(page: Page, source: str) -> None:
    pictures = page.all("svg")
    assert len(pictures) > 10
    assert all(
        attributes["role"] == "img" and len(attributes["aria-label"]) > 15
        for attributes in pictures
    )
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert max(ids.values()) == 1
    assert set(re.findall(r"url\(#([^)]+)\)", source)) <= set(ids)
    assert {a["xlink:href"][1:] for _, a in page.tags if a.get("xlink:href", "")[:1] == "#"} <= set(
        ids
    )


def test_same_folder_same_characters_in_another_process_too(done: Path, source: str) -> None:
    command = (
        "import sys; from crosslens.report import render_report, training_figure; "
        "sys.stdout.reconfigure(encoding='utf-8'); "
    )
    command += (
        f"sys.stdout.write(render_report({str(done)!r}) + training_figure({str(done)!r})); assert "
        f"'torch' not in sys.modules"
    )
    other = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.decode() == source + training_figure(done)


def test_the_story_gives_the_logs_numbers(done: Path, page: Page) -> None:
    log = [json.loads(line) for line in (done / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if "loss" in line]
    first, *_, last = [line for line in log if "perplexity" in line]
    assert (
        f"The training loss went from {losses[0]:.3f} to {losses[-1]:.3f} nats per masked token"
        in page.text
    )
    assert f"would give {math.log(498):.3f}" in page.text
    means = [math.prod(line["perplexity"].values()) ** (1 / 3) for line in (first, last)]
    assert (
        f"perplexity is {means[1]:.1f} (geometric mean over 3 languages) at step 1,000; it "
        f"was {means[0]:.1f} at step 100"
    ) in page.text
    assert "Lowest: English 40.0; highest: German 60.0" in page.text
    best = max(range(5), key=lambda layer: last["retrieval"]["news eng-fra"][layer])
    value = last["retrieval"]["news eng-fra"][best]
    assert best == 2
    assert (
        f"in news is best at layer 2: P@1 {value:.3f} at step 1,000 (the mean of 3 pairs"
        in page.text
    )
    assert (
        "in bible is best at layer 2" in page.text
        and "one pair; n = 108 held-out pairs; chance 0.009" in page.text
    )
    assert "English, n = 206" in page.text  # 100 in news and 106 in bible


def test_intervals_are_of_the_right_layer_and_n(done: Path) -> None:
    run = load_training(done)
    score = run.curve(run.validations[-1], "news eng-fra")[2]
    assert (score.n, score.layer) == (103, 2)
    assert score.low is not None and score.high is not None and score.low < score.value < score.high
    assert run.held_out_sentences("deu") == 102
    assert run.sides("eng-deu") == ("eng", "deu")
    assert run.sides("deu-eng") == ("deu", "eng")
    assert run.sides("no pair") is None


# ---------------------------------------------------------------- a run that goes on


def test_an_unfinished_run_says_how_far_it_is(tmp_path: Path) -> None:
    words = Page(render_report(make_training(tmp_path / "run", 340))).text
    assert "This run is not finished: 340 of 1,000 steps are logged." in words
    assert "known once the model is written" in words and "not known yet (500 asked for)" in words
    words = Page(render_report(make_training(tmp_path / "all", 1000, model=False))).text
    assert "not finished: all 1,000 steps are logged, but the model has not been written" in words


def test_a_run_before_its_first_validation(tmp_path: Path) -> None:
    source = render_report(make_training(tmp_path / "run", 20))
    words = Page(source).text
    assert source.count("<figure ") == 1
    assert "No validation has measured it yet." in words
    assert "The training loss went from" in words
    assert "Held-out perplexity is" not in words


def test_one_logged_loss_goes_nowhere(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 20)
    first = (folder / "log.jsonl").read_text().splitlines()[0]
    (folder / "log.jsonl").write_text(first + "\n")
    words = Page(render_report(folder)).text
    loss, step = (json.loads(first)[name] for name in ("loss", "step"))
    assert f"The training loss is {loss:.2f} nats per masked token at step {step}" in words
    assert "went from" not in words


def test_nothing_logged_yet_and_nothing_counted_yet(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 0)
    for name in ("log.jsonl", "data.json"):
        (folder / name).unlink()
        words = Page(render_report(folder)).text
        assert "not finished: nothing is logged yet" in words
        assert "Nothing has been logged yet." in words
    assert "has not been counted yet" in words
    with pytest.raises(InputError, match="folder: expected"):
        training_figure(folder)


def test_a_half_written_last_line_is_passed_over(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 300)
    whole = render_report(folder)
    log = (folder / "log.jsonl").read_bytes()
    for cut in (1, 7, 60):
        (folder / "log.jsonl").write_bytes(
            log + b'{"step": 400, "tokens": 800000, "loss": 3.25, "tokens_per_second": 80'[:cut]
        )
        words = Page(render_report(folder)).text
        assert "The last line of log.jsonl is only half written and was passed over." in words
        assert "300 of 1,000 steps are logged" in words
    (folder / "log.jsonl").write_bytes(log[:-1])  # all of it but the line break
    assert "half written" not in whole
    assert Page(render_report(folder)).text.replace(f"{len(log) - 1:,} bytes", "") == Page(
        whole
    ).text.replace(f"{len(log):,} bytes", "")


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 100)
    lines = (folder / "log.jsonl").read_text().splitlines(keepends=True)
    for damage in ('{"step": 4\n', "[]\n", "\0\0\n"):
        (folder / "log.jsonl").write_text("".join([*lines[:3], damage, *lines[3:]]))
        with pytest.raises(StoreError, match=r"log\.jsonl:4: expected"):
            render_report(folder)


def test_lines_of_a_repeated_step_and_strange_lines(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 100)
    with open(folder / "log.jsonl", "a") as log:
        for line in (
            {"step": 10, "tokens": 20000, "loss": 1.5},
            {"note": 1},
            {"step": "x", "tokens": 1, "loss": 2},
        ):
            log.write(json.dumps(line) + "\n")
    run = load_training(folder)
    assert [point.step for point in run.points] == list(range(10, 101, 10))
    assert run.points[0].loss == 1.5 and math.isnan(run.points[0].rate)
    assert (
        "2 lines of log.jsonl could not be understood and are not shown."
        in Page(render_report(folder)).text
    )


# ---------------------------------------------------------------- values that are no numbers


@pytest.mark.parametrize(
    "bad",
    [math.inf, math.nan, None, 0.0, "x", 10**400],
    ids=["inf", "nan", "null", "zero", "text", "huge"],
)
def test_perplexity_without_a_usable_number_is_a_gap_with_a_remark(
    tmp_path: Path, bad: Any
) -> None:
    def spoil(line: dict[str, Any]) -> dict[str, Any]:
        if line["step"] in (200, 1000) and "perplexity" in line:
            line["perplexity"]["fra"] = bad
        return line

    folder = change(make_training(tmp_path / "run"), spoil)
    source = render_report(folder)
    words = Page(source).text
    assert "Not drawn: French at steps 200 and 1,000, where the log has no usable number." in words
    assert not re.search(r"\b(nan|inf)\b", source, re.IGNORECASE)
    assert "Held-out perplexity is" not in words  # the last mean is no number
    ET.fromstring(training_figure(folder))


def test_nothing_but_values_that_are_no_numbers(tmp_path: Path) -> None:
    def spoil(line: dict[str, Any]) -> dict[str, Any]:
        line = {
            key: math.nan if key in ("loss", "tokens_per_second") else value
            for key, value in line.items()
        }
        for name in ("perplexity", "retrieval"):
            for key, value in line.get(name, {}).items():
                line[name][key] = [math.nan] * len(value) if isinstance(value, list) else math.inf
        return line

    folder = change(make_training(tmp_path / "run"), spoil)
    source = render_report(folder)
    words = Page(source).text
    assert "Not drawn: loss at steps 10, 20, 30, 40, 50, 60 and 94 more" in words
    assert "infinite" in words and "not logged yet" in words
    assert "No validation of this run measured it." in words
    assert not re.search(r"\b(nan|inf)\b", source, re.IGNORECASE)
    with pytest.raises(InputError, match="a logged loss"):
        training_figure(folder)


def test_a_retrieval_row_that_is_shorter_or_has_holes(tmp_path: Path) -> None:
    def spoil(line: dict[str, Any]) -> dict[str, Any]:
        if "retrieval" in line:
            line["retrieval"]["news eng-deu"] = [0.1, None]
            if line["step"] == 500:
                del line["retrieval"]["news eng-fra"]
        return line

    source = render_report(change(make_training(tmp_path / "run"), spoil))
    assert "in news is best at layer 0" in Page(source).text  # the only layer with all three pairs
    assert not re.search(r"\bnan\b", source, re.IGNORECASE)


def test_one_language_has_no_retrieval(tmp_path: Path) -> None:
    words = Page(render_report(make_training(tmp_path / "run", sources={"only": ("eng",)}))).text
    assert "It needs parallel text in two or more languages." in words
    assert "Held-out perplexity is 40.0 for English at step 1,000" in words


def test_one_pair_needs_no_mean(tmp_path: Path) -> None:
    source = render_report(make_training(tmp_path / "run", sources={"only": ("eng", "fra")}))
    assert "mean over pairs" not in source
    assert "<h4><bdi>Held-out retrieval, English – French</bdi> <span" in source


def test_many_pairs_are_drawn_in_part_and_all_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosslens.report.sections.training_retrieval._MOST", 4)
    codes = [f"l{letter}a" for letter in "abcd"]  # 6 pairs
    source = render_report(make_training(tmp_path / "run", sources={"many": codes}, layers=13))
    assert source.count("The first 4 of 6 pairs are drawn; the table has all.") == 2
    assert len(source.encode()) < 400_000
    assert source.count('<th scope="row" dir="auto">many l') >= 6


# ---------------------------------------------------------------- names from outside


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    codes = ["<script>alert(1)</script>", 'a"b\'c id="p1" onload="x', "$\\q$ & url(#p) </svg>"]
    sources = {"</title><img src=x onerror=alert(1)>": codes, "": ["eng", "fra"]}
    name = "</h1><iframe src=//evil>\x07"
    folder = make_training(
        tmp_path / "run", sources=sources, name=name, **{"<b>key</b>": {"deep": ["<i>", None]}}
    )
    (folder / "<u>file").write_text("")
    page = Page(render_report(folder))
    assert (
        not {tag for tag, _ in page.tags} & {"img", "iframe", "b", "i", "u"}
        and len(page.all("script")) == 1
    )
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert max(ids.values()) == 1
    for shown in (*codes, *sources, "<iframe src=//evil>", '["<i>", null]', "<u>file"):
        assert shown in page.text
    root = ET.fromstring(training_figure(folder))
    assert "<iframe src=//evil>" in root.attrib["aria-label"]


def test_a_configuration_of_the_wrong_shape(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 200)
    for settings in (
        [],
        {},
        {
            "sources": [3, {"name": None, "texts": []}],
            "steps": "many",
            "encoder": 1,
            "vocabulary": [],
        },
    ):
        (folder / "config.json").write_text(
            json.dumps({"kind": "train", "settings": settings, "notes": "more"})
        )
        words = Page(render_report(folder)).text
        assert "200 steps are logged" in words
        assert "LanguagesEnglish" in words  # the log knows
    (folder / "data.json").write_text(
        '{"streams": [], "held_out": {"news eng": "x"}, "left_out": 3, "extra": 1}'
    )
    words = Page(render_report(folder)).text
    assert "n not recorded" in words and "data.extra" in words
    (folder / "model").mkdir()
    (folder / "model" / "model.safetensors").write_bytes(b"\xff" * 20)
    assert "known once the model is written" in Page(render_report(folder)).text


# ---------------------------------------------------------------- which page, and the command line


def test_the_kind_of_a_folder_decides(tmp_path: Path, done: Path) -> None:
    assert run_kind(done) == "train"
    assert run_kind(tmp_path) == "study"
    (tmp_path / "config.json").write_text('{"kind": "<b>", "settings": {}}')
    with pytest.raises(InputError, match=r"folder: .*got .* of kind"):
        render_report(tmp_path)
    study = make_study(tmp_path / "study", 2, 2)
    assert '<section id="similarity">' in render_report(study)
    with pytest.raises(
        InputError,
        match=(
            r"expected a run of crosslens train, got .*; name a folder that crosslens train has "
            r"written"
        ),
    ):
        training_figure(study)


def test_the_command_line_draws_both_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_training(tmp_path / "run", 100)
    study = make_study(tmp_path / "study", 2, 2)
    for run in (folder, study):
        assert main(["report", str(run)]) == 0
        assert capsys.readouterr().out == f"Report: {run / 'report.html'}\n"
        assert (run / "report.html").read_text(encoding="utf-8") == render_report(run)
    (study / "scores.jsonl").unlink()
    assert main(["report", str(study)]) == 2
    assert (
        "expected the folder of a finished study, got one without scores.jsonl; finish the "
        "study first"
    ) in capsys.readouterr().err


def test_training_ends_with_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # without it nothing here needs torch
    trained = SimpleNamespace(train=lambda recipe, out, **_: Path(out) / "model")
    monkeypatch.setitem(sys.modules, "crosslens.models.training.masked_lm", trained)
    folder = make_training(tmp_path / "run")
    text = tmp_path / "eng.txt"
    text.write_text("a line\n")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'name = "tiny"\nsteps = 5\n[[sources]]\nname = "s"\ntexts = {{ eng = "{text}" }}\n'
    )
    assert main(["train", str(recipe), "--out", str(folder), "--quiet"]) == 0
    assert (
        capsys.readouterr().out == f"Model: {folder / 'model'}\nReport: {folder / 'report.html'}\n"
    )
    assert (folder / "report.html").exists()


def test_the_report_is_written_into_the_folder(tmp_path: Path) -> None:
    folder = make_training(tmp_path / "run", 100)
    before = render_report(folder)
    assert write_report(folder).read_text(encoding="utf-8") == before == render_report(folder)


# ---------------------------------------------------------------- a picture of its own, and the
# parts


def test_the_picture_for_a_model_card_stands_alone(done: Path) -> None:
    source = training_figure(done)
    root = ET.fromstring(source)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["viewBox"] == "0 0 720 260" and root.attrib["role"] == "img"
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for label in (
        "Training loss",
        "Held-out perplexity (mean of 3 languages)",
        "tokens seen (million)",
        "nats per masked token",
    ):
        assert label in words
    assert "geometric mean (log scale)" in words
    ids = re.findall(r' id="([^"]+)"', source)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", source)) <= set(ids)
    assert "http" not in re.sub(r' xmlns(:xlink)?="[^"]*"', "", source)


def test_smoothing_keeps_the_ends_and_the_mean_of_a_line() -> None:
    line = [float(i) for i in range(100)]
    assert smoothed(line) is None  # nothing turns
    noisy = [value + (-1) ** i * 3 for i, value in enumerate(line)]
    smooth = smoothed(noisy)
    assert smooth is not None
    assert (smooth[0], smooth[-1]) == (noisy[0], noisy[-1])
    assert max(abs(a - b) for a, b in zip(smooth[20:-4], line[20:-4], strict=True)) < 0.5
    assert smoothed([*noisy[:-1], math.nan]) is None
    assert smoothed(noisy[:23]) is None


def test_axes_end_around_their_values() -> None:
    assert Axis("x", (0.0, 1.0)).ends([5.0]) == (0.0, 1.0)
    low, high = Axis("x").ends([1.0, math.nan, 3.0])
    assert low == pytest.approx(0.9) and high == pytest.approx(3.1)
    assert Axis("x").ends([2.0]) == (1.5, 2.5) and Axis("x").ends([0.3]) == (0.0, 1.0)
    low, high = Axis("x", log=True).ends([0.0, math.inf, 10.0])
    assert 0 < low < 10 < high
    assert Axis("x", log=True).ends([]) != (1.0, 1.0)


def test_many_lines_look_different() -> None:
    styles = [series_style(i) for i in range(49)]
    assert len({(style.colour, style.marker) for style in styles}) == 49
    assert all(
        a.colour != b.colour and a.marker != b.marker
        for a, b in zip(styles, styles[1:], strict=False)
    )
