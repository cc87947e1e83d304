"""The report of probe runs: what is on the page, that it tells the truth also of bad results, and
that nothing can break it."""

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pages import Page
from synthetic_probes import (
    battery_scores,
    label_scores,
    make_probe_run,
    pair_scores,
    paired_row,
    share,
    small_run,
    tree_scores,
    two_runs,
    wic_scores,
    without,
)

from crosslens.errors import InputError, StoreError
from crosslens.report import render_report, write_report
from crosslens.report.folders.probes import CONDITIONS, against, load_probe_runs
from crosslens.report.pages.page import write_comparison
from crosslens.report.pages.probes import probe_page, probe_runs_page
from crosslens.report.parts.drawing import Style
from crosslens.report.sections.probes_drawing import Dots, dot_panel, fraction_ends, heat_rows
from crosslens.report.sections.probes_layers import STYLES
from crosslens.score import Score, read_scores, write_scores


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all kinds of tasks on 13 layers."""
    return small_run(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of fewer tasks, on 13 and on 25 layers."""
    return two_runs(tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def source(small: Path) -> str:
    """The page of the small run."""
    return render_report(small)


@pytest.fixture(scope="module")
def both(two: list[Path]) -> str:
    """The page of both runs."""
    return probe_runs_page(two)


def made(folder: Path, scores: list[Score], **config: object) -> str:
    """The text of the page of some scores."""
    return Page(probe_page(make_probe_run(folder / "run", scores, **config))).text


def change(scores: list[Score], edit: Callable[[Score], Score | None]) -> list[Score]:
    """Scores that are replaced or dropped."""
    return [new for score in scores if (new := edit(score)) is not None]


def upos(layers: int = 4, level: float = 0.9, n: int = 500) -> list[Score]:
    """One tagging task, of which single classes are not told (their figures take a while)."""
    return [without(score, "f1", "confusion") for score in upos_with_classes(layers, level, n)]


def upos_with_classes(layers: int = 2, level: float = 0.9, n: int = 500) -> list[Score]:
    """The same with F1 and confusions."""
    return list(
        label_scores(
            "upos", layers, n, level, 0.3, ("ADJ", "NOUN"), control="control_task", encoder="e"
        )
    )


TITLES = (
    "Language identification",
    "Word in context (WiC)",
    "Similarity in context (SCWS)",
    "Part of speech",
    "Tree distance",
    "Minimal pairs",
)


def finding(words: str, task: str) -> str:
    """What the page says at its top about a task."""
    top = words[
        words.index("What came out") : words.index("All tasks", words.index("What came out"))
    ]
    told = top[top.index(f"{task}:") :]
    return told[
        : min(
            [told.index(f"{title}:") for title in TITLES if title != task and f"{title}:" in told],
            default=None,
        )
    ]


# ---------------------------------------------------------------- the page as a whole


def test_every_task_has_its_section_and_its_link(page: Page) -> None:
    ids = [attributes["id"] for attributes in page.all("section")]
    assert ids == ["overview", *(f"task-{i}" for i in range(1, 7)), "pairs-1", "paired", "made"]
    for words in (
        "Language identification",
        "Word in context (WiC)",
        "Similarity in context (SCWS)",
        "Part of speech",
        "Tree distance",
    ):
        assert f"{words} by layer" in page.text


def test_every_id_is_there_once(page: Page, both: str) -> None:
    for part in (page, Page(both)):
        ids = Counter(attributes["id"] for _, attributes in part.tags if "id" in attributes)
        assert max(ids.values()) == 1


def test_same_folders_same_characters_in_another_process(two: list[Path], both: str) -> None:
    command = (
        "import sys; from crosslens.report.pages.probes import probe_runs_page; "
        "sys.stdout.reconfigure(encoding='utf-8'); "
    )
    command += f"sys.stdout.write(probe_runs_page({list(map(str, two))!r})); "
    command += (
        "heavy = {'torch', 'sklearn', 'scipy', 'matplotlib.pyplot'} & set(sys.modules); "
        "sys.exit(3 if heavy else 0)"
    )
    other = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.decode() == both


def test_every_figure_says_how_to_read_it_and_every_panel_its_n_and_axes(source: str) -> None:
    figures = re.findall(r"<figure .*?</figure>", source)
    assert len(figures) > 10
    numbers = []
    for figure in figures:
        numbers.append(int(re.search(r"Figure (\d+)\.", figure)[1]))  # type: ignore[index]
        assert "How to read it" in figure
        panels = figure.split('<div class="panel">')[1:]
        assert panels
        for panel in panels:
            assert re.search(r'<span class="n">(n&nbsp;=&nbsp;[\d,]+|[\d,]+ items)', panel)
            assert 'aria-label="' in panel and ("<svg" in panel or "<table" in panel)
    assert numbers == list(range(1, len(figures) + 1))
    curves = [figure for figure in figures if ">layer (0 = embeddings)<" in figure]
    for axis in (
        "Accuracy (fraction of items)",
        "Spearman correlation (correlation)",
        "UUAS (fraction of edges)",
        "uniform code / code",
    ):
        assert any(f">{axis}<" in figure for figure in curves), axis


def test_what_comes_from_files_is_escaped(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script><b>&'
    labels = (evil, "other")
    rows = [
        *label_scores(evil, 2, 100, 0.9, 0.5, labels, control="shuffled_labels", encoder=evil),
        *wic_scores(2, 100, evil),
        *pair_scores(evil, categories=(evil, "b", "c")),
        paired_row(evil, evil, evil, 0.5, encoder=evil),
    ]
    rows = [
        dataclasses.replace(
            s, details={**(s.details or {}), "dropped": {evil: 2}, "warnings": [evil]}
        )
        for s in rows
    ]
    folder = make_probe_run(
        tmp_path / "run",
        rows,
        settings={evil: evil},
        notes=[evil],
        not_measured={evil: evil},
        versions={evil: evil},
    )
    source = probe_page(folder)
    assert source.count("<script") == 1 and "<b>" not in source.replace("<b>&amp;", "")
    assert evil in Page(source).text


# ---------------------------------------------------------------- what came out


def test_the_layer_is_chosen_on_dev_and_told_on_test(tmp_path: Path) -> None:
    def edit(score: Score) -> Score | None:
        # wins on dev, loses on test
        if score.condition is None and score.quantity == "accuracy" and score.layer == 1:
            return dataclasses.replace(
                score, value=0.99 if (score.details or {})["part"] == "dev" else 0.61
            )
        return score

    folder = make_probe_run(tmp_path / "run", change(upos(), edit))
    runs = load_probe_runs([folder])
    chosen = runs.chosen(runs.subjects[0], "upos")
    assert chosen is not None
    assert (chosen.layer, chosen.on_dev, chosen.layers, chosen.score.value, chosen.score.n) == (
        1,
        True,
        4,
        0.61,
        500,
    )
    words = Page(probe_page(folder)).text
    assert (
        "accuracy 0.610" in words
        and "at layer 1, the best of 4 layers on dev (test, n = 500)" in words
    )
    assert "slightly optimistic. The curves" not in words


def test_without_dev_the_page_says_that_the_choice_is_optimistic(tmp_path: Path) -> None:
    words = made(
        tmp_path, change(upos(), lambda s: None if (s.details or {}).get("part") == "dev" else s)
    )
    assert "at layer 2, the best of 4 layers (test, n = 500)" in words
    assert (
        "it is the best on the reported items themselves: read its value as slightly optimistic"
        in words
    )
    assert "same items" in words


def test_an_encoder_above_its_controls_is_said_to_be(page: Page) -> None:
    words = finding(page.text, "Part of speech")
    assert "clearly above the majority class" in words and "not clearly above" not in words
    assert (
        "difference on the same items" not in words
        and "on the same items the difference is" in words
    )
    assert "Selectivity is" in words


def test_an_encoder_no_better_than_its_controls_is_said_to_be_so(tmp_path: Path) -> None:
    def edit(score: Score) -> Score:
        details = dict(score.details or {})
        if "above_control" in details:
            details["above_control"] = {"difference": 0.01, "low": -0.02, "high": 0.04}
        return dataclasses.replace(score, details=details)

    words = finding(made(tmp_path, change(upos(level=0.32), edit)), "Part of speech")
    assert re.search(
        (
            r"It is not clearly above the majority class \(0\.300 \[.*\]\), the random encoder "
            r"\(.*0\.010 \[−0\.020, 0\.040\]\)"
        ),
        words,
    )
    assert "clearly above" in words and "That is clearly above" not in words


def test_an_encoder_below_its_controls_is_said_to_be_so(tmp_path: Path) -> None:
    def edit(score: Score) -> Score:
        return share(
            0.95,
            500,
            layer=score.layer,
            task="upos",
            condition="random_encoder",
            encoder="e",
            details={"part": "test"},
        )

    rows = change(
        upos(),
        lambda s: edit(s) if s.condition == "random_encoder" and s.quantity == "accuracy" else s,
    )
    rows = [without(score, "above_control") for score in rows]
    assert "It is below the random encoder (0.950" in finding(
        made(tmp_path, rows), "Part of speech"
    )


def test_without_controls_the_page_says_that_nothing_is_known(tmp_path: Path) -> None:
    rows = change(upos(), lambda s: s if s.condition is None and s.quantity == "accuracy" else None)
    words = made(tmp_path, rows)
    assert (
        "No control was measured, so it is not known how much of this the encoder’s training "
        "brings."
    ) in words
    assert "Not measured here: random encoder, control task and majority class." in words


def test_selectivity_that_reaches_zero_is_remarked(tmp_path: Path) -> None:
    rows = change(
        upos(),
        lambda s: (
            dataclasses.replace(s, value=0.01, low=-0.02, high=0.04)
            if s.quantity == "selectivity"
            else s
        ),
    )
    assert (
        "Selectivity is 0.010 [−0.020, 0.040]: the score is not clearly above that on labels "
        "without meaning."
    ) in made(tmp_path, rows)


@pytest.mark.parametrize(
    ("low", "told"),
    [
        (0.02, "the probe learns labels without meaning as well."),
        (-0.02, "and of these nothing: they are at chance (0."),
    ],
)
def test_it_is_said_whether_the_control_task_is_at_chance(
    tmp_path: Path, low: float, told: str
) -> None:
    def edit(score: Score) -> Score:
        if score.quantity == "selectivity":
            return dataclasses.replace(score, low=-0.02, high=0.04)
        chance = {
            "chance": 0.3,
            "above_chance": {"difference": low + 0.03, "low": low, "high": low + 0.06},
        }
        return (
            dataclasses.replace(score, details={**(score.details or {}), **chance})
            if score.condition == "control_task"
            else score
        )

    assert told in finding(made(tmp_path, change(upos(2), edit)), "Part of speech")


def test_texts_that_train_and_test_share_are_told_first_with_the_value_without_them(
    tmp_path: Path,
) -> None:
    told = {
        "shared_texts": {"train": 40, "same_label": 30, "dev": 0, "dev_train": 0},
        "groups": 90,
        "seeds": [0, 1, 2],
    }
    told["without_shared"] = {"value": 0.77, "low": 0.7, "high": 0.83, "n": 460}
    rows = [dataclasses.replace(s, details={**(s.details or {}), **told}) for s in upos(3)]
    source = probe_page(make_probe_run(tmp_path / "run", rows))
    first = re.sub(
        r"<[^>]+>",
        "",
        source[source.index('class="told"') : source.index("</ul>", source.index('class="told"'))],
    )
    assert re.search(
        (
            r"Test texts that are in train, too: Part of speech \(40 of 500 items; 0\.\d+, 0\.770 "
            r"without them\)\."
        ),
        first,
    )
    table = cells(source, "Each task at the layer")
    row = dict(zip(table[0], table[1], strict=True))
    assert (
        row["Without texts that are in train"] == "0.770 [0.700, 0.830]n = 460"
        and row["n"] == "500in 90 groups"
    )
    assert "Control labels are sampled with 3 seeds, and their mean is shown." in Page(source).text


def test_classifiers_of_the_text_are_compared_with_but_are_no_controls(page: Page) -> None:
    words = finding(page.text, "Language identification")
    assert "On the text itself, without an encoder: character n-grams 0.930" in words
    assert "fastText 0.950 [0.933, 0.963], clearly above the encoder" in words


@pytest.mark.parametrize(
    ("low", "high", "control", "expected"),
    [
        (0.55, 0.65, {"low": 0.4, "high": 0.5}, "above"),
        (0.55, 0.65, {"low": 0.4, "high": 0.55}, "unclear"),
        (0.55, 0.65, {"low": 0.66, "high": 0.7}, "below"),
        (0.55, 0.65, {}, None),
        (0.55, 0.65, {"condition": "majority"}, "above"),  # its value is taken as it is
        (None, None, {"low": 0.4, "high": 0.5}, None),
    ],
)
def test_against_judges_by_intervals(
    low: float | None, high: float | None, control: dict, expected: str | None
) -> None:
    mine = Score(quantity="accuracy", value=0.6, n=10, low=low, high=high)
    assert against(mine, Score(quantity="accuracy", value=0.5, n=10, **control)) == expected
    assert against(mine, None) is None
    assert against(mine, Score(quantity="accuracy", value=math.nan, n=10)) is None


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((0.01, 0.1), "above"), ((-0.01, 0.1), "unclear"), ((-0.1, -0.01), "below")],
)
def test_what_was_compared_item_by_item_is_judged_by_the_difference(
    ends: tuple[float, float], expected: str
) -> None:
    paired = {"difference": 0.0, "low": ends[0], "high": ends[1]}
    mine = Score(
        quantity="accuracy", value=0.6, n=10, low=0.5, high=0.7, details={"above_control": paired}
    )
    assert (
        against(
            mine,
            Score(
                quantity="accuracy", value=0.1, n=10, low=0.0, high=0.2, condition="random_encoder"
            ),
        )
        == expected
    )
    assert (
        against(
            mine,
            Score(quantity="accuracy", value=0.1, n=10, low=0.0, high=0.2, condition="majority"),
        )
        == "above"
    )


def test_a_value_that_is_missing_has_its_reason_and_is_never_the_best(
    tmp_path: Path, page: Page
) -> None:
    assert "Not computed: Encoder, layer 0 (all cosines are equal)." in page.text
    assert "the best of 12 layers (test, n = 2,001)" in finding(
        page.text, "Similarity in context (SCWS)"
    )

    def nothing(score: Score) -> Score:
        return dataclasses.replace(
            score,
            value=math.nan,
            low=None,
            high=None,
            details={**(score.details or {}), "reason": "all went wrong"},
        )

    words = made(tmp_path, change(upos(), nothing))
    assert "Part of speech: accuracy could not be computed (all went wrong)." in words


# ---------------------------------------------------------------- figures and tables


def cells(source: str, caption: str) -> list[list[str]]:
    """The rows of the table whose frame is called ``caption``, as text."""
    start = source.index(f'aria-label="{caption}')
    body = source[start : source.index("</table>", start)]
    rows = re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)
    return [
        [
            re.sub(r"\s+", " ", Page(cell).text).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        for row in rows
    ]


def test_the_map_has_a_row_for_each_task_and_marks_what_is_reported(
    source: str, small: Path
) -> None:
    start = source.index('aria-label="Value of each task at each layer, small')
    words = re.findall(r"<text [^>]*>([^<]*)</text>", source[start : source.index("</svg>", start)])
    assert words[-14:] == [*map(str, range(13)), "layer (0 = embeddings)"]
    scores = {
        s.layer: s.value
        for s in read_scores(small / "scores.jsonl")
        if s.task == "upos"
        and s.condition is None
        and s.quantity == "accuracy"
        and (s.details or {})["part"] == "test"
    }
    place = words.index("Part of speech, accuracy")
    row = words[place + 1 : place + 14]
    assert [cell.rstrip("*") for cell in row] == [f"{scores[layer]:.2f}"[1:] for layer in range(13)]
    assert [cell.endswith("*") for cell in row] == [layer == 8 for layer in range(13)]
    assert words[words.index("Similarity in context (SCWS), Spearman correlation") + 1] == "–"
    assert [name for name in words if name.endswith("selectivity")] == [
        "Language identification, selectivity",
        "Part of speech, selectivity",
        "my &lt;b&gt;task&lt;/b&gt;, selectivity",
    ]


def test_the_table_of_results_has_every_task_with_its_controls_and_what_was_not_measured(
    source: str,
) -> None:
    table = cells(source, "Each task at the layer")
    assert table[0][:7] == [
        "Task",
        "Value",
        "Layer",
        "n",
        "Random encoder",
        "Control labels",
        "Majority class",
    ]
    rows = {
        name: dict(zip(table[0], row, strict=True))
        for row in table[1:]
        for name in TITLES + ("my <b>task</b>",)
        if name in row[0]
    }
    assert (
        rows["Language identification"]["Control labels"] == "0.203 [0.176, 0.232]shuffled labels"
    )
    assert rows["Part of speech"]["Control labels"].endswith("control task")
    assert rows["Tree distance"]["Control labels"] == "0.480 [0.448, 0.513]word order alone"
    assert rows["Language identification"]["The text itself"].startswith(
        "0.930 [0.910, 0.946]Character n-grams0.950"
    )
    assert (
        rows["Word in context (WiC)"]["Task"]
        == "Word in context (WiC) Accuracy, cosine threshold, test"
    )
    assert rows["my <b>task</b>"]["Random encoder"].endswith("encoder not clearly above")
    assert (
        "Not measuredTopic: no sib200/sib200.tsv (nor .gz) in the data folder" in Page(source).text
    )
    assert (
        rows["Minimal pairs"]["Layer"] == "–"
        and rows["Minimal pairs"]["Majority class"] == "0.5chance"
    )


def test_every_layer_is_in_the_table_of_its_task_with_dev_spread_and_penalty(source: str) -> None:
    table = cells(source, "Part of speech by layer: small, test part")
    assert [row[0] for row in table[1:]] == [
        *map(str, range(8)),
        "8 reported",
        *map(str, range(9, 13)),
    ]
    told = dict(zip(table[0], table[9], strict=True))
    assert told["EncoderAccuracy"] == "0.898 [0.878, 0.915]"
    assert told["Encoder, devAccuracy"].startswith("0.8") and told["C, chosen on dev"] == "0.1"
    assert re.fullmatch(r"0\.8\d+ to 0\.8\d+", told["Retrained on resampled items"])
    assert re.fullmatch(r"[\d,]+", told["EncoderCodelength of the labels"])


def test_controls_are_drawn_beside_the_encoder_and_a_majority_at_every_layer(small: Path) -> None:
    runs = load_probe_runs([small])
    subject = runs.subjects[0]
    assert sorted(runs.curve(subject, "upos", "accuracy", "majority")) == list(range(13))
    assert sorted(runs.curve(subject, "wic", "accuracy", "majority", "difference")) == list(
        range(13)
    )
    assert sorted(runs.curve(subject, "structural_distance", "uuas", "word_order")) == list(
        range(13)
    )
    assert len(runs.curve(subject, "upos", "compression")) == 13  # of the training part
    assert runs.undrawn == {} and runs.repeated == 0


def test_wic_has_a_curve_for_each_representation(source: str) -> None:
    figure = next(
        f
        for f in re.findall(r"<figure .*?</figure>", source)
        if "Word in context (WiC) by representation" in f
    )
    legend = re.findall(r'<svg[^>]*aria-label="[^"]* line: ([^"]*)"', figure)
    assert legend == ["pair cls", "concatenation", "difference", "cosine threshold"]


def test_items_that_were_left_out_are_counted_once(page: Page, tmp_path: Path) -> None:
    assert page.text.count("3 items left out: no such label.") == 3  # of three tasks
    rows = [
        dataclasses.replace(
            s,
            details={
                **(s.details or {}),
                "truncated": 7,
                "warnings": ["no convergence"],
                "unseen_in_training": {"test": {"X": 2, "Y": 3}},
            },
        )
        for s in upos()
    ]
    words = made(tmp_path, rows)
    assert words.count("7 items cut to fit the encoder.") == words.count("no convergence") == 1
    rows = [
        dataclasses.replace(
            s, details={**(s.details or {}), "dropped": {"a zero vector": (s.layer or 0) + 1}}
        )
        for s in upos(3)
    ]
    assert "1 to 3 items (it depends on the layer) left out: a zero vector." in made(
        tmp_path / "other", rows
    )
    assert "5 items in test with a label that training lacks (X, Y), counted as wrong." in words


def test_f1_and_confusions_are_those_of_the_reported_layer(source: str, small: Path) -> None:
    runs = load_probe_runs([small])
    chosen = runs.chosen(runs.subjects[0], "language_id")
    assert chosen is not None and chosen.score.details is not None
    counts = np.array(chosen.score.details["confusion"]["counts"])
    table = cells(source, "The commonest confusions, layer 8: 117 errors among 800 items.")
    assert counts.sum() - np.trace(counts) == 117
    assert table[1] == ["Ukrainian", "English", "19", "19.0 %", "100"]
    assert [int(row[2]) for row in table[1:]] == sorted(
        (int(row[2]) for row in table[1:]), reverse=True
    )
    label = re.search(r'aria-label="F1 by class, Language identification: ([^"]*)"', source)
    assert label is not None
    told = [float(part.rsplit(" ", 1)[1]) for part in label[1].split(", ")]
    assert told == sorted(told) and told[0] == round(chosen.score.details["f1"]["ukr_Cyrl"], 2)


def test_many_classes_are_split_into_panels_and_the_map_keeps_those_with_errors(
    tmp_path: Path,
) -> None:
    labels = [f"l{i:02d}" for i in range(60)]
    rows = list(
        label_scores(
            "language_id", 2, 600, 0.9, 0.02, tuple(labels), control="shuffled_labels", encoder="e"
        )
    )
    counts = np.diag([10] * 60)
    # these 16 have errors as true classes, the next 16 as answers
    counts[range(20, 36), range(36, 52)] = 4 + np.arange(16) % 3
    counts[range(20, 36), range(20, 36)] -= 4
    counts[36, 20] = 1
    rows = [
        dataclasses.replace(
            s,
            details={
                **(s.details or {}),
                "confusion": {"labels": labels, "counts": counts.tolist()},
            },
        )
        for s in rows
    ]
    source = probe_page(make_probe_run(tmp_path / "run", rows))
    words = Page(source).text
    assert "Classes 1 to 25 of 60" in words and "Classes 51 to 60 of 60" in words
    assert "the 16 of 60 classes with the most errors" in words
    shown = next(
        f for f in re.findall(r"<figure .*?</figure>", source) if "what is taken for what" in f
    )
    errors = {
        label: counts[i].sum() + counts[:, i].sum() - 2 * counts[i, i]
        for i, label in enumerate(labels)
    }
    named = [label for label in labels if f">{label}<" in shown]
    assert len(named) == 16 and "l20" in named
    assert (
        min(errors[label] for label in named)
        >= max(errors[label] for label in labels if label not in named)
        > 0
    )


def test_no_file_is_opened_by_the_name_that_a_score_gives(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "confusion.npz",
        labels=np.array(["ADJ", "NOUN"]),
        counts=np.array([[200, 50], [3, 247]]),
    )
    named = [
        dataclasses.replace(s, details={**(s.details or {}), "confusion": "../confusion.npz"})
        for s in upos_with_classes()
    ]
    assert "errors among" not in Page(probe_page(make_probe_run(tmp_path / "run", named))).text


# ---------------------------------------------------------------- minimal pairs and paired tests


def test_pairs_have_the_table_of_coverage_and_categories_at_chance_are_named(
    page: Page, source: str
) -> None:
    table = cells(source, "Minimal pairs: coverage and accuracy by category")
    assert table[0] == ["Category", "Pairs", "Covered", "Per cent", "Accuracy", "Random encoder"]
    assert table[1] == [
        "sva simple",
        "400",
        "300",
        "75.0",
        "0.800 [0.751, 0.841]",
        "0.500 [0.444, 0.556]",
    ]
    assert table[2][:5] == [
        "sva sentential complement",
        "400",
        "0",
        "0.0",
        "not computed: none of the pairs can be scored",
    ]
    assert table[5][4] == "0.500 [0.444, 0.556]not clearly above chance"
    assert table[6][:5] == ["subject–verb agreement (mean of 3 categories)", "–", "–", "–", "0.800"]
    assert table[7][:4] == ["all pairs", "2,000", "1,200", "60.0"]
    words = page.text
    assert (
        "clearly above chance (0.5) in 3 of 4 categories. Not clearly above chance in "
        "reflexive across relative clause."
    ) in words
    assert "1,200 of 2,000 pairs could be scored (60.0 %)." in words
    assert "pairs that could not be scored: 800 (a word of several subwords)." in words


def test_what_papers_print_stands_beside_the_same_tasks_and_categories(tmp_path: Path) -> None:
    """Marvin & Linzen's categories by name, WiC by its main quantity; of fine-tuned encoders
    nothing."""

    def page_of(scores: list[Score], name: str) -> str:
        run = make_probe_run(tmp_path / name, scores, not_measured={})
        return probe_page(run)

    names = ("simple agreement", "long VP coordination", "of my own")
    table = cells(page_of(list(pair_scores("e", categories=names)), "pairs"), "Printed by Artetxe")
    assert table[0][1:4] == [
        "Covered, English model",
        "English model",
        "transferred to English from English",
    ]
    assert table[1][:4] == ["simple agreement", "80", "0.912", "0.762"]
    assert [row[0] for row in table[1:]] == ["simple agreement", "long VP coordination"]
    assert table[0][-1].endswith("from mean") and table[2][-1] == "0.654"
    wic = cells(page_of(list(wic_scores(2, 638, "e")), "wic"), "Printed by Artetxe")
    assert wic[1][1:5] == ["0.591", "0.582", "0.625", "0.596"]
    assert "Printed by" not in page_of(upos(), "upos")


def test_pictures_are_described_without_values_that_there_are_not(tmp_path: Path) -> None:
    lost = {"value": math.nan, "low": None, "high": None}
    scores = [
        dataclasses.replace(score, **lost) if score.condition is None else score
        for score in battery_scores("tiny", 3)
    ]
    page = Page(render_report(make_probe_run(tmp_path / "run", scores)))
    labels = [one["aria-label"] for one in page.all("svg")]
    assert any("all pairs –" in label for label in labels)
    assert not any("nan" in label for label in labels)


def test_pairs_below_chance_are_said_to_be_so(tmp_path: Path) -> None:
    words = made(tmp_path, list(pair_scores("e", 0.3)), not_measured={})
    assert (
        "Below chance in sva simple, sva across prepositional phrase and reflexive simple." in words
    )
    assert "clearly above chance (0.5) in 0 of 4 categories" in words
    assert "It is clearly above the random encoder in 0 of 4 categories." in words


def test_paired_tests_have_all_their_numbers_and_a_verdict(source: str) -> None:
    table = cells(source, "Paired tests.")
    assert table[1] == [
        "Part of speech",
        "layer 8",
        "layer 0",
        "600",
        "60",
        "30",
        "−0.050 [−0.080, −0.020]",
        "< 0.001",
        "< 0.001different",
    ]
    assert table[2][-2:] == ["0.200", "0.400not told apart"]


# ---------------------------------------------------------------- several runs


def test_runs_stand_side_by_side_with_a_line_each(both: str, two: list[Path]) -> None:
    page = Page(both)
    assert "Probes of 2 runs" in page.text
    figures = {
        re.search(r"Figure \d+\. ([^<]*)", f)[1]: f
        for f in re.findall(r"<figure .*?</figure>", both)
    }  # type: ignore[index]
    together = figures["Part of speech: the encoders."]
    assert re.findall(r'aria-label="solid line: ([^"]*)"', together) == ["small", "large"]
    assert together.count('class="panel"') == 1
    beside = figures["Part of speech by layer, beside its controls."]
    assert beside.count('class="panel"') == 2
    assert re.search(r"small, by layer.*large, by layer", page.text)
    assert (
        "highest is large on the n = 1,000 test items that all share: clearly above small."
        in page.text
    )
    ahead = (
        r"On the test items that all share \(n = 638 to [\d,]+\), one encoder is clearly above "
        r"all others in 2 of 3 tasks: large in 2\."
    )
    assert re.search(ahead, page.text)
    # paired tests of layers within each
    assert "Part of speech (small)" in page.text and "Part of speech (large)" in page.text
    assert [
        row[1]
        for row in cells(both, "Each task at the layer")
        if row[0].startswith("Part of speech")
    ] == ["small", "large"]
    assert [subject.run for subject in load_probe_runs(two).subjects] == [0, 1]


def test_runs_may_have_different_tasks(tmp_path: Path) -> None:
    first = make_probe_run(tmp_path / "a", upos(3))
    second = make_probe_run(
        tmp_path / "b",
        [dataclasses.replace(s, encoder="f") for s in tree_scores(5, "f")],
        not_measured={},
    )
    words = Page(probe_runs_page([first, second])).text
    assert (
        "Part of speech" in words
        and "Tree distance" in words
        and "a: Topic was not measured" in words
    )
    assert "the encoders." not in words  # no task has two of them


def test_one_encoder_in_two_runs_is_told_apart_by_the_folders(tmp_path: Path) -> None:
    runs = [make_probe_run(tmp_path / name, upos(3)) for name in ("one", "two")]
    assert [subject.label for subject in load_probe_runs(runs).subjects] == ["e (one)", "e (two)"]
    same = [make_probe_run(tmp_path / name / "run", upos(3)) for name in ("one", "two")]
    assert [subject.label for subject in load_probe_runs(same).subjects] == [
        "e (run, run 1)",
        "e (run, run 2)",
    ]


def test_several_encoders_in_one_run_are_several_lines(tmp_path: Path) -> None:
    rows = [*upos(3), *(dataclasses.replace(s, encoder="f") for s in upos(3, 0.6))]
    # of no encoder: belongs to both
    rows.append(share(0.4, 500, condition="fasttext", task="upos", details={"part": "test"}))
    folder = make_probe_run(
        tmp_path / "run",
        [*rows, paired_row("upos", "e, layer 2", "f, layer 2", 0.01, encoder="e / f")],
    )
    runs = load_probe_runs([folder])
    assert [subject.label for subject in runs.subjects] == ["e", "f"]
    assert all(
        len(runs.curve(subject, "upos", "accuracy", "fasttext")) == 3 for subject in runs.subjects
    )
    words = Page(probe_page(folder)).text
    assert (
        "Probes of 2 encoders" in words
        and "highest is e: its interval lies wholly above that of f." in words
    )


# ---------------------------------------------------------------- odd and broken folders


def test_no_scores_at_all_and_an_empty_configuration(tmp_path: Path) -> None:
    words = made(tmp_path, [], settings=None, versions=None, not_measured=None)
    assert "Nothing was measured." in words and "not recorded" in words
    words = made(tmp_path, [], notes="one note")
    assert "one note" in words and "Topic was not measured: no sib200" in words


def test_one_task_with_one_layer(tmp_path: Path) -> None:
    words = made(tmp_path, upos(1))
    assert "at layer 0 (test, n = 500)" in words


def test_what_has_no_figure_is_counted(tmp_path: Path) -> None:
    rows = [
        *upos(2),
        upos(2)[1],
        Score(quantity="perplexity", value=3.0, n=5, task="masked_lm", condition="half"),
    ]
    words = made(tmp_path, rows)
    assert re.search(r"masked_lm · perplexity · half\s*1", words)
    assert "1 line of scores.jsonl repeat the keys of an earlier line" in words


def test_refusals_name_the_folder_and_the_remedy(tmp_path: Path, small: Path) -> None:
    with pytest.raises(InputError, match="folder: expected"):
        probe_page(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"kind": "probe", "settings": {}}))
    with pytest.raises(InputError, match=r"a finished probe run with scores\.jsonl"):
        write_report(tmp_path)
    write_scores([], tmp_path / "scores.jsonl")
    (tmp_path / "config.json").write_text(json.dumps({"kind": "align", "settings": {}}))
    with pytest.raises(
        InputError,
        match=r"expected a run of crosslens probe, got .* of kind 'align'; name runs that",
    ):
        write_comparison([small, tmp_path], tmp_path / "page.html")
    with pytest.raises(InputError, match=r"folders: .*got .* twice"):
        probe_runs_page([small, small / ".." / small.name])
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(StoreError, match="expected an object, got a list; "):
        probe_page(tmp_path)
    assert not (tmp_path / "page.html").exists() and not (tmp_path / "report.html").exists()


def test_confusion_counts_of_another_shape_are_refused(tmp_path: Path) -> None:
    rows = [
        dataclasses.replace(
            s, details={**(s.details or {}), "confusion": {"labels": ["a"], "counts": [[1, 2]]}}
        )
        for s in upos(2)
    ]
    with pytest.raises(
        StoreError, match=r"expected confusion counts of 1 label, got shape \(1, 2\)"
    ):
        made(tmp_path, rows)


# ---------------------------------------------------------------- the parts


def test_axes_end_at_tenths_and_are_never_narrow() -> None:
    def score(value: float, **keys: float) -> Score:
        return Score(quantity="accuracy", value=value, n=10, **keys)

    assert fraction_ends([score(0.52, low=0.47, high=0.61)]) == (0.4, 0.7)
    assert fraction_ends([score(1.0)])[1] == 1.0
    assert fraction_ends([score(0.01, low=-0.05)])[0] == -0.1
    assert fraction_ends([]) == (0.0, 1.0)
    for value in (-1.0, -0.5, 0.0, 0.05, 0.5, 0.95, 1.0):
        low, high = fraction_ends([score(value), None, score(math.nan)], 0.5)
        assert -1 <= low <= value <= high <= 1 and low <= 0.5 <= high and high - low > 0.29


def test_maps_of_cells_leave_out_what_is_missing() -> None:
    rows = [("a", [0.123, None, math.nan], 0), ("b", [0.0, 1.0, -0.5], None)]
    source = heat_rows("label", ["0", "1", "2"], rows, (0.0, 1.0), "axis")
    assert re.findall(r">([^<>]+)</text>", source) == [
        "a",
        ".12*",
        "–",
        "b",
        ".00",
        "1.00",
        "−.50",
        "0",
        "1",
        "2",
        "axis",
    ]
    assert source.count('fill="#f7fbff"') == 2  # 0 and what is below it
    assert re.findall(r'<text[^>]*fill="#ffffff"[^>]*>([^<]*)', source) == ["1.00"]
    narrow = heat_rows(
        "label", [str(i) for i in range(25)], [("a", [0.5] * 25, 3)], (0.0, 1.0), "axis"
    )
    assert ">.50<" not in narrow and narrow.count(">*</text>") == 1


def test_dots_lie_where_their_values_are_and_long_names_stand_above() -> None:
    scores = [
        Score(quantity="accuracy", value=value, n=4, low=0.1, high=0.9) for value in (0.4, 0.7, 1.0)
    ]
    series = [Dots(Style("#000000", marker="o"), [*scores, None])]
    source = dot_panel("label", ["a", "b", "c", "d"], series, (0.4, 1.0), "axis", 0.7)
    x = [float(circle["cx"]) for circle in Page(source).all("circle")]
    assert (
        len(x) == 3
        and 14 < x[0]
        and x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.02)
        and x[2] == pytest.approx(346.0)
    )
    level = [line for line in Page(source).all("line") if line["stroke-dasharray"] == "1 2"]
    assert len(level) == 1 and float(level[0]["x1"]) == pytest.approx(x[1], abs=0.02)
    long = dot_panel(
        "label", ["a category with quite a long name", "b", "c", "d"], series, (0.0, 1.0), "axis"
    )
    assert "a category with quite a long name" in long
    assert {words["text-anchor"] for words in Page(long).all("text")} == {"start", "middle"}


def test_conditions_of_a_panel_differ_in_more_than_colour() -> None:
    assert set(STYLES) == set(CONDITIONS)
    shapes = [(style.dash, style.marker) for style in STYLES.values()]
    # fastText's and word order's lines never meet in one panel
    assert len(shapes) - len(set(shapes)) <= 1
