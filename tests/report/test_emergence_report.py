"""The report of an emergence run: what is on the page at every stage, where its numbers come from,
and that no log can break it."""

import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import Page
from synthetic_emergence import SENTENCES, STEPS, TOKENS, N, make_emergence
from synthetic_training import make_training

from crosslens.cli.main import main
from crosslens.errors import InputError, StoreError
from crosslens.progress import duration
from crosslens.report import render_report, run_kind
from crosslens.report.folders.emergence import CONDITIONS, above_chance, chance_of, load_emergence
from crosslens.report.pages.emergence import emergence_page
from crosslens.score import Score, read_scores, write_scores
from crosslens.stats import wilson_interval

DIRECTIONS = ("eng>eng-x", "eng-x>eng")


def change(folder: Path, condition: str, edit: Callable[[dict[str, Any]], Any]) -> Path:
    """Edit or drop (None) lines of one condition's log."""
    path = folder / condition / "log.jsonl"
    lines = [edit(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None))
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    return make_emergence(tmp_path_factory.mktemp("done") / "run")


@pytest.fixture(scope="module")
def source(done: Path) -> str:
    """Its report."""
    return render_report(done)


# ---------------------------------------------------------------- a finished run


def test_every_section_is_there_and_linked(page: Page) -> None:
    keys = ["sharing", "alignment", "learning", "layers", "cost", "made"]
    assert [attributes["id"] for attributes in page.all("section")] == keys
    assert "not finished" not in page.text
    for words in (
        *CONDITIONS.values(),
        "the installed English prose",
        "Seed3",
        "Kornblith et al. 2019",
        "scores.jsonl",
    ):
        assert words in page.text, words


def test_figures_have_captions_axes_with_units_and_n(source: str) -> None:
    figures = re.findall(r"<figure .*?</figure>", source, re.DOTALL)
    expected = [
        (2, ["tokens seen (million)", "P@1 (fraction of subwords)"], f"n&nbsp;=&nbsp;{N}"),
        (
            3,
            ["tokens seen (million)", "loss (nats per masked token)", "perplexity (log scale)"],
            "20 checks",
        ),
        (
            2,
            ["layer (0 = embeddings)", "P@1 (fraction of sentences)"],
            f"n&nbsp;=&nbsp;{SENTENCES}",
        ),
        (2, ["layer (0 = embeddings)", "linear CKA (no unit)"], f"n&nbsp;=&nbsp;{SENTENCES}"),
    ]
    assert len(figures) == len(expected)
    for number, (figure, (panels, labels, n)) in enumerate(zip(figures, expected, strict=True), 1):
        assert (
            f"Figure {number}." in figure
            and "How to read it" in figure
            and 'class="legend"' in figure
        )
        assert figure.count('class="panel"') == panels
        assert figure.count(n) >= panels - (number == 2)
        for label in labels:
            assert f">{label}</text>" in figure, label
        assert ("chance, 1/n" in figure) == (number in (1, 3))


def test_pictures_are_labelled_and_ids_are_unique(page: Page) -> None:
    pictures = page.all("svg")
    assert all(
        attributes["role"] == "img" and len(attributes["aria-label"]) > 15
        for attributes in pictures
    )
    assert (
        max(Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes).values())
        == 1
    )


def test_the_story_gives_the_runs_numbers(done: Path, page: Page) -> None:
    for condition in CONDITIONS:
        last = json.loads((done / condition / "log.jsonl").read_text().splitlines()[-1])
        value = last["alignment"]["eng>eng-x"]["value"]
        low, high = wilson_interval(round(value * N), N)
        lead = f"{condition}: P@1 {value:.3f} after {STEPS * TOKENS / 1e6:.1f} million tokens"
        assert f"{lead} (English → English (x) [{low:.3f}, {high:.3f}]" in page.text
        assert f"n = {N}; chance {1 / N:.4f}; {duration(last['seconds'])} of training" in page.text
    assert page.text.count("It is not clearly above chance.") == 2
    assert page.text.count("It is clearly above chance and has been in every check since") == 2


def test_what_is_shared_is_said_part_by_part(tmp_path: Path, page: Page, source: str) -> None:
    for words in (
        "The languages share position, layer 1 and layer 2.",
        "The languages share position.",
        "The languages share no parameter.",
    ):
        assert page.text.count(words) == 1
    for part, cells in (
        ("layer 1", ["shared", "own", "own", "own"]),
        ("position", ["shared", "shared", "shared", "own"]),
    ):
        row = re.search(rf">{part}</th>(.*?)</tr>", source)
        assert (
            row is not None and re.findall(">(shared|own)<", row[1]) == cells and ">500<" in row[1]
        )
    folder = make_emergence(tmp_path / "run")
    for path in folder.glob("*/sharing.json"):
        path.unlink()
    words = Page(render_report(folder)).text
    assert (
        "has not recorded which parameters the languages share" in words
        and "The languages share" not in words
    )


def test_above_chance_is_held_against_what_frequency_alone_gives(
    tmp_path: Path, page: Page
) -> None:
    told = "of embeddings that tell how frequent a subword is and nothing else."
    # in the lead and among the findings
    assert page.text.count(f", and above the 0.0040 {told}") == 4
    folder = make_emergence(tmp_path / "run", conditions=["half"], scores=False)

    def as_frequent(line: dict[str, Any]) -> dict[str, Any]:
        for entry in line.get("alignment", {}).values():
            entry["by_frequency"] = 0.45
        return line

    words = Page(render_report(change(folder, "half", as_frequent))).text
    assert f", but not clearly above the 0.4500 {told}" in words and "clearly above chance" in words


def test_the_end_is_told_by_the_scores_where_there_are_any(tmp_path: Path) -> None:
    folder = make_emergence(tmp_path / "run")
    rows = list(read_scores(folder / "scores.jsonl"))
    other = [
        Score(**{**row.as_dict(), "value": 0.777}) if row.quantity == "token_alignment" else row
        for row in rows
    ]
    write_scores(
        [*other, Score(quantity="accuracy", value=0.5, n=9, condition="shared")],
        folder / "scores.jsonl",
    )
    words = Page(render_report(folder)).text
    assert "shared: P@1 0.777 after" in words
    assert "1 measurement of scores.jsonl has no place on this page." in words


def test_when_alignment_came(done: Path, page: Page) -> None:
    shared, half, none, _ = load_emergence(done).conditions
    for level in (0.1, 0.5, 0.8):
        expected = next(
            check.tokens
            for check in shared.checks
            if min(check.alignment[direction].value for direction in DIRECTIONS) >= level
        )
        reached = shared.reached(level)
        assert reached is not None and reached.tokens == expected
        assert f"{expected / 1e6:.1f} ({reached.seconds / 60:.1f})" in page.text
    assert half.reached(0.5) is None and none.left_chance() is None
    left = shared.left_chance()
    assert left is not None
    place = shared.checks.index(left)
    assert all(
        above_chance(score) for check in shared.checks[place:] for score in check.alignment.values()
    )
    assert not all(above_chance(score) for score in shared.checks[place - 1].alignment.values())


def test_a_lucky_check_is_not_the_beginning(tmp_path: Path) -> None:
    def luck(line: dict[str, Any]) -> dict[str, Any]:
        if line["step"] == STEPS // 20 and "alignment" in line:
            line["alignment"] = {way: {"value": 0.3, "n": N} for way in DIRECTIONS}
        return line

    shared = load_emergence(change(make_emergence(tmp_path / "run"), "shared", luck)).conditions[0]
    left, reached = shared.left_chance(), shared.reached(0.1)
    assert left is not None and left.step > STEPS // 20
    assert reached is not None and reached.step == STEPS // 20


def test_chance() -> None:
    score = Score(quantity="token_alignment", value=0.1, n=100, low=0.05, high=0.2)
    assert chance_of(score) == 0.01 and above_chance(score)
    assert not above_chance(Score(quantity="token_alignment", value=0.1, n=10, low=0.05, high=0.2))
    assert (
        chance_of(None) is None
        and chance_of(Score(quantity="token_alignment", value=0.1, n=0)) is None
    )


def test_layers_are_drawn_from_the_scores(done: Path, source: str) -> None:
    shared = load_emergence(done).conditions[0]
    assert sorted(shared.curve("precision_at_1", "eng>eng-x")) == list(range(5))
    best = shared.curve("precision_at_1", "eng>eng-x")[4].value
    assert f"shared: highest {best:.3f} at layer 4" in source
    assert (
        f"shared: highest {shared.curve('debiased_linear_cka')[0].value:.3f} at layer 0" in source
    )
    assert (
        shared.curve("precision_at_1", "eng>eng-x")[4].value
        != shared.curve("precision_at_1", "eng-x>eng")[4].value
    )


def test_the_cost_is_in_the_table(page: Page) -> None:
    assert "shared16,00032.811.2" in page.text.replace(" ", "")
    assert "48,04" in page.text  # the median of the logged rates


def test_same_folder_same_characters_in_another_process_without_torch_or_scipy(
    done: Path, source: str
) -> None:
    command = (
        "import sys; from crosslens.report import render_report; "
        "sys.stdout.reconfigure(encoding='utf-8'); "
    )
    command += (
        f"sys.stdout.write(render_report({str(done)!r})); assert not {{'torch', 'scipy'}} & "
        f"set(sys.modules)"
    )
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert other.stdout.decode() == source


# ---------------------------------------------------------------- a run that goes on


def test_an_unfinished_run_shows_what_there_is(tmp_path: Path) -> None:
    source = render_report(
        make_emergence(tmp_path / "run", STEPS // 2, conditions=("shared", "half"))
    )
    words = Page(source).text
    assert (
        "not finished: shared is at step 16,000 (32.8 million tokens) and half is at step "
        "8,000 (16.4 million tokens)"
    ) in words
    assert ", and none and separate have not begun." in words
    assert source.count("<figure ") == 2
    assert "Layers are compared once the run has ended." in words
    assert "shared: P@1 0.8" in words and "none: P@1" not in words


def test_nothing_logged_yet(tmp_path: Path) -> None:
    words = Page(render_report(make_emergence(tmp_path / "run", 0, conditions=()))).text
    assert "This run is not finished: nothing is logged yet. The page" in words
    assert (
        words.count("Nothing has been logged yet.") == 2
        and "Alignment has not been measured yet." in words
    )


def test_before_the_first_check(tmp_path: Path) -> None:
    source = render_report(make_emergence(tmp_path / "run", STEPS // 100, conditions=("shared",)))
    assert "No check of this run has measured it yet." in source
    assert source.count("<figure ") == 1 and "1 log line" in source


def test_a_half_written_line_is_passed_over_and_a_damaged_one_named(tmp_path: Path) -> None:
    folder = make_emergence(tmp_path / "run")
    log = folder / "half" / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"step": 9, "tok')
    assert (
        "The last line of the log of half is only half written and was passed over."
        in Page(render_report(folder)).text
    )
    log.write_bytes(b"[]\n" + whole)
    with pytest.raises(StoreError, match=r"log\.jsonl:1: .*got a list"):
        render_report(folder)


def test_a_repeated_step_counts_once_and_strange_lines_are_told(tmp_path: Path) -> None:
    folder = make_emergence(tmp_path / "run")
    again = {"step": 160, "tokens": 160 * TOKENS, "loss": 1.5, "seconds": 1e4}
    with open(folder / "none" / "log.jsonl", "a") as log:
        log.writelines(
            json.dumps(line) + "\n"
            for line in (again, {"note": 1}, {"step": "x", "tokens": 1, "loss": 2})
        )
    none = load_emergence(folder).conditions[2]
    assert (
        len(none.points) == 100 and none.points[0].loss == 1.5 and math.isnan(none.points[0].rate)
    )
    assert none.seconds == 1e4
    assert (
        "2 lines of the logs could not be understood and are not shown."
        in Page(render_report(folder)).text
    )


# ---------------------------------------------------------------- values that are no numbers, and
# names from outside


@pytest.mark.parametrize("bad", [math.inf, math.nan, None, -1, "x", 10**400, True], ids=str)
def test_values_without_a_usable_number_are_gaps_with_a_remark(tmp_path: Path, bad: Any) -> None:
    def spoil(line: dict[str, Any]) -> dict[str, Any]:
        if "alignment" in line and line["step"] in (800, STEPS):
            line["alignment"]["eng>eng-x"] = {"value": bad, "n": bad}
            line["perplexity"]["eng"] = bad
            line["seconds"] = bad
        return line

    folder = change(make_emergence(tmp_path / "run", scores=False), "shared", spoil)
    source = render_report(folder)
    words = Page(source).text
    assert "Not drawn: shared at steps 800 and 16,000, where the log has no usable number." in words
    assert "Not drawn: 2 values of the logs that are no usable number." in words
    assert not re.search(r"\b(nan|inf)\b", source, re.IGNORECASE)
    assert "shared: P@1 0.8" in words  # the other direction


def test_scores_that_could_not_be_computed_say_why(tmp_path: Path) -> None:
    folder = make_emergence(tmp_path / "run")
    rows = list(read_scores(folder / "scores.jsonl"))
    spoilt = [
        Score(
            **{
                **row.as_dict(),
                "value": math.nan,
                "low": None,
                "high": None,
                "details": {"reason": "all vectors are equal"},
            }
        )
        if row.condition == "none" and row.layer == 2
        else row
        for row in rows
    ]
    write_scores(spoilt, folder / "scores.jsonl")
    source = render_report(folder)
    assert source.count("Not computed: none, layer 2 (all vectors are equal).") == 4
    assert not re.search(r"\bnan\b", source, re.IGNORECASE)


def test_without_n_nothing_is_said_about_chance(tmp_path: Path) -> None:
    def strip(line: dict[str, Any]) -> dict[str, Any]:
        for entry in line.get("alignment", {}).values():
            del entry["n"]
        return line

    words = Page(
        render_report(
            change(
                make_emergence(tmp_path / "run", scores=False, conditions=("shared",)),
                "shared",
                strip,
            )
        )
    ).text
    assert "Whether that is above chance cannot be told, as n is not recorded." in words
    assert "n not recorded" in words and "; chance 0" not in words


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "</svg><script>alert(1)</script>>b\"' onload=x"

    def rename(line: dict[str, Any]) -> dict[str, Any]:
        if "alignment" in line:
            line["alignment"][name] = {"value": 0.5, "n": 4}
            line["perplexity"][name] = 3.0
        return line

    folder = change(make_emergence(tmp_path / "run", **{"<b>key</b>": "<i>"}), "half", rename)
    page = Page(render_report(folder))
    assert not {tag for tag, _ in page.tags} & {"b", "i"} and len(page.all("script")) == 1
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert "<b>key</b>" in page.text and "</svg><script>alert(1)</script>" in page.text


# ---------------------------------------------------------------- which page, and the command line


def test_the_command_line_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_emergence(tmp_path / "run", STEPS // 4, conditions=("shared",))
    assert run_kind(folder) == "emergence"
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"Report: {folder / 'report.html'}\n"
    assert (folder / "report.html").read_text(encoding="utf-8") == emergence_page(folder)


def test_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    message = (
        r"folder: expected a run of crosslens train emergence, got .* without one; name a folder "
        r"that crosslens train emergence has written"
    )
    with pytest.raises(InputError, match=message):
        emergence_page(make_training(tmp_path / "run", 100))
    with pytest.raises(InputError, match=message):
        emergence_page(tmp_path)


def test_damaged_scores_are_named(tmp_path: Path) -> None:
    folder = make_emergence(tmp_path / "run")
    with open(folder / "scores.jsonl", "a") as scores:
        scores.write("{}\n")
    with pytest.raises(StoreError, match=r"scores\.jsonl:\d+, key quantity: .*got nothing"):
        render_report(folder)
