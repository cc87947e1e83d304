"""What every page has in common: a figure first, three sentences, the rest on demand; saved
figures; one name for each language."""

import base64
import dataclasses
import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from pages import Page
from synthetic_emergence import make_emergence
from synthetic_probes import label_scores, make_probe_run, pair_scores, small_run, two_runs
from synthetic_study import make_study
from synthetic_training import make_training

from crosslens.report import render_report
from crosslens.report.pages.probes import probe_runs_page
from crosslens.report.parts.drawing import plain_style
from crosslens.report.parts.heat import colour_bar, heat_panel, scale_ends
from crosslens.report.parts.layout import table, value_cell
from crosslens.report.parts.saving import SCRIPT
from crosslens.report.parts.style import STYLE_SHEET
from crosslens.score import Score, read_scores, write_scores
from crosslens.stats import wilson_interval

KINDS = ("study", "compare", "words", "train", "emergence", "probe", "pairs", "runs")


def _words(folder: Path) -> Path:
    """A run of crosslens align on words."""
    scores = []
    for way in (("eng", "fra"), ("fra", "eng")):
        for layer in range(3):
            for condition, right in (("unaligned", 20 + layer), ("procrustes", 50 + layer)):
                low, high = wilson_interval(right, 100)
                scores.append(
                    Score(
                        quantity="precision_at_1",
                        value=right / 100,
                        n=100,
                        low=low,
                        high=high,
                        layer=layer,
                        source=way[0],
                        target=way[1],
                        condition=condition,
                        task="word_translation",
                        details={"fitted_on": 500},
                    )
                )
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"kind": "align", "settings": {"languages": ["eng", "fra"]}})
    )
    write_scores(scores, folder / "scores.jsonl")
    return folder


def _compare(folder: Path) -> Path:
    """A run of crosslens compare: similarity alone, one value without an interval."""
    study = make_study(folder, 2, 3, kind="compare")
    kept = [score for score in read_scores(study / "scores.jsonl") if score.task == "similarity"]
    write_scores(kept, study / "scores.jsonl")
    return study


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A page of each kind."""
    top = tmp_path_factory.mktemp("pages")
    folders = {
        "study": make_study(top / "study", 3, 4),
        "compare": _compare(top / "compare"),
        "words": _words(top / "words"),
        "train": make_training(top / "train"),
        "emergence": make_emergence(top / "emergence"),
        "probe": small_run(top),
        "pairs": make_probe_run(top / "pairs", list(pair_scores("e"))),
    }
    return {
        **{kind: render_report(folder) for kind, folder in folders.items()},
        "runs": probe_runs_page(two_runs(top / "two")),
    }


@pytest.fixture(params=KINDS)
def source(pages: dict[str, str], request: pytest.FixtureRequest) -> str:
    """One page after the other."""
    return pages[request.param]


def test_a_figure_comes_first_then_at_most_three_sentences_then_the_rest_on_demand(
    source: str,
) -> None:
    main = source[source.index("<main>") :]
    figure = main.index("<figure")
    assert not re.search(r"<(p|ul|li|table|details)\b", main[:figure])
    after = main[main.index("</figure>") :]
    shown = after[: after.index("<details")]
    sentences = re.findall(r"<li>(.*?)</li>", shown)
    assert 1 <= len(sentences) <= 3 and not re.search(r"<(p|table)\b", shown)
    for sentence in sentences:
        words = Page(sentence).text
        assert words.endswith(".") and len(words) < 400
        assert not re.search(r"[a-z)]\. [A-Z]", words), words  # one sentence each
    # from the first to the last
    outside = re.sub(r"<details.*</details>", "", after, flags=re.DOTALL)
    assert "<table" not in outside and "<figure" not in outside and "<p>" not in outside
    assert (
        len(re.findall(r"<details\b", main)) == main.count("</details>") == main.count("<summary>")
    )


def test_every_figure_can_be_saved_by_the_pages_own_script(source: str) -> None:
    figures = re.findall(r"<figure .*?</figure>", source, re.DOTALL)
    for number, figure in enumerate(figures, 1):
        assert figure.startswith(f'<figure id="figure-{number}"')
        assert re.findall(r'<button type="button" data-save="(\w+)"', figure) == ["svg", "png"]
        assert "<svg" in figure and "<table" not in figure  # all of it can be put into one picture
    assert re.findall(r"<script>(.*?)</script>", source, re.DOTALL) == [SCRIPT]
    policy = next(tag["content"] for tag in Page(source).all("meta") if tag.get("http-equiv"))
    known = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{known}'"
    )


def test_nothing_comes_from_elsewhere_and_nothing_needs_the_script(source: str) -> None:
    page = Page(source)
    assert not {tag for tag, _ in page.tags} & {
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    }
    assert len(page.all("script")) == 1 and len(page.all("style")) == 1
    assert not re.search(
        r"https?://|@import|url\((?!#)|javascript:|\bon\w+=\"",
        source.replace("http://www.w3.org/2000/svg", ""),
    )
    # no button that would do nothing
    assert ".save{display:none" in STYLE_SHEET and ".scripted .save{" in STYLE_SHEET


def test_no_width_is_fixed_beyond_a_narrow_window(source: str) -> None:
    assert not re.search(r'style="[^"]*(?<!stroke-)width', source)
    wide = [
        float(width)
        for width in re.findall(
            r"(?<!-)\bmin-width:\s*([\d.]+)px", re.sub(r"@media[^{]*", "", STYLE_SHEET)
        )
    ]
    wide += [16 * float(width) for width in re.findall(r"min-width:([\d.]+)rem", STYLE_SHEET)]
    assert all(width <= 358 for width in wide)
    assert all(f"min({part}" in STYLE_SHEET for part in ("100%,340px", "100%,270px", "100%,480px"))
    assert max(float(attributes["width"]) for attributes in Page(source).all("svg")) <= 360


def test_every_number_of_a_table_is_named_where_rows_become_cards(source: str) -> None:
    cells = re.findall(r'<td class="num[^"]*" data-name="([^"]*)"><span>', source)
    assert len(cells) == len(re.findall(r'<td class="num', source)) and all(cells)


def test_a_language_has_one_name(source: str) -> None:
    """Codes stand where it is said how the run was made, nowhere else."""
    told = re.sub(
        r"<style>.*?</style>|<script>.*?</script>", "", source, flags=re.DOTALL
    ).partition('id="made"')[0]
    told = " ".join([*re.findall(r'aria-label="([^"]*)"', told), re.sub(r"<[^>]+>", " ", told)])
    assert not re.findall(
        r"\b(?:eng|fra|deu|spa|rus|hin|cmn|ukr)(?:_[A-Z][a-z]{3}|-x)?\b", html.unescape(told)
    )


def test_names_from_right_to_left_leave_their_surroundings_as_they_are(tmp_path: Path) -> None:
    name, label = "מקודד קטן", "اسم"
    rows = list(
        label_scores(
            "משימה", 2, 100, 0.9, 0.5, (label, "other"), control="shuffled_labels", encoder=name
        )
    )
    source = probe_runs_page(
        [
            make_probe_run(tmp_path / "a", rows),
            make_probe_run(tmp_path / "b", list(pair_scores("b"))),
        ]
    )
    assert f"<bdi>{name}</bdi>" in source
    table = source[source.index("The commonest confusions") :]
    assert re.search(
        rf'<th scope="row" dir="auto"><span class="words" dir="auto">{label}</span>', table
    )
    # numbers alone are set to one side
    assert "text-align:left" not in STYLE_SHEET and "text-align:right}" in STYLE_SHEET


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.03, 0.46], (0.0, 0.5)),
        ([0.002, 0.0123], (0.0, 0.015)),
        ([0.91, 0.99], (0.9, 1.0)),
        ([-0.01, 0.4, float("nan")], (0.0, 0.4)),
        ([-0.3, 0.4], (-0.4, 0.4)),
        ([1.0], (0.9, 1.0)),
        ([0.0], (0.0, 0.1)),
        ([], (0.0, 1.0)),
    ],
)
def test_scales_end_where_the_data_do(values: list[float], ends: tuple[float, float]) -> None:
    assert scale_ends(values) == pytest.approx(ends)


def test_colours_use_the_whole_scale_and_its_range_is_told() -> None:
    values = np.array([[0.02, 0.46], [0.2, 0.1]])
    ends = scale_ends(values.ravel().tolist())
    with plain_style():
        fitted = heat_panel("a", "label", values, (["p", "q"],) * 2, ("y", "x"), ends=ends)
        loose = heat_panel("a", "label", values, (["p", "q"],) * 2, ("y", "x"))
        bar = colour_bar("a", "label", ends)
    assert fitted != loose  # the same matrix in other colours
    assert [float(tick) for tick in re.findall(r">([\d.]+)</text>", bar)] == pytest.approx(
        [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    )
    assert 'aria-label="Colour scale from 0, nearly white, to 0.5, dark blue: label"' in bar


def test_a_study_draws_its_maps_on_a_scale_that_fits(pages: dict[str, str]) -> None:
    scales = re.findall(
        r"Colour scale from ([\d.]+), nearly white, to ([\d.]+), dark blue: (P@1|debiased)",
        pages["study"],
    )
    assert [what for *_, what in scales] == ["P@1", "debiased"]
    for low, high, what in scales:
        pattern = (
            r"Matrix of retrieval[^\"]*"
            if what == "P@1"
            else r"debiased linear CKA, n[^\"]*: highest [\d.]+ for"
        )
        found = [
            float(value)
            for label in re.findall(pattern, pages["study"])
            for value in re.findall(r" (\d\.\d{2,3})\b", label)
        ]
        assert float(low) == 0 and max(found) <= float(high) <= 1.5 * max(found)


def test_intervals_may_lack_an_end() -> None:
    assert value_cell(Score(quantity="linear_cka", value=0.5, n=9)) == "0.500"
    assert value_cell(Score(quantity="linear_cka", value=0.5, n=9, low=0.4)) == "0.500"
    both = value_cell(Score(quantity="linear_cka", value=0.5, n=9, low=0.4, high=0.6), n=8)
    assert both == '0.500 <small class="within">[0.400, 0.600]</small><small>n = 9</small>'
    assert value_cell(None) == "–"
    assert 'class="num none"' in table("caption", ["a", "b"], [["x", "–"]])


def test_the_section_of_words_says_how_those_curves_were_made(
    tmp_path: Path, pages: dict[str, str]
) -> None:
    told = pages["words"]
    assert "looked up by CSLS. Before Procrustes" in told
    assert "What lies between the curves" in told and "Self-learning scales" not in told
    folder = _words(tmp_path / "words")
    kept = [
        dataclasses.replace(score, condition="self_learning")
        for score in read_scores(folder / "scores.jsonl")
        if score.condition == "procrustes"
    ]
    write_scores(kept, folder / "scores.jsonl")
    page = render_report(folder)
    assert "Self-learning scales vectors" in page
    assert "iteratively" not in page and "between the curves" not in page
