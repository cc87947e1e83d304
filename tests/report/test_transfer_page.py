"""The page of a run of transfer: what may predict it, and what was answered wrongly."""

import dataclasses
import json
import math
import re
from html import escape

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from pages import Page

from crosslens.examples import Example, write_examples
from crosslens.outcomes import FILE, Outcomes, write_outcomes
from crosslens.report.pages.page import render_report
from crosslens.report.parts import intervals
from crosslens.report.parts.drawing import (
    Axis,
    Line,
    draw_line,
    plain_style,
    series_panel,
    series_style,
)
from crosslens.report.parts.scatter import _meet, _names, scatter_panel
from crosslens.score import Score, read_scores, write_scores

CODES = ("deu", "fra", "spa", "bul", "zho", "heb")


def run_folder(folder, codes):
    """A finished run with scores, two numbers of each language, and their correlations."""
    config = {"kind": "transfer", "settings": {"train": ["eng"], "encoders": {"tiny": "x"}}}
    config["cards"] = {"topic": {"title": "Topic", "kind": "classify"}}
    (folder / "config.json").write_text(json.dumps(config))
    place = {"task": "topic", "encoder": "tiny", "source": "eng"}
    points = {code: [0.1 * k, 0.9 - 0.1 * k] for k, code in enumerate(codes)}
    scores = [
        Score(quantity="accuracy", value=y, low=y - 0.1, high=y + 0.1, n=40, target=code,
              details={"part": "test"}, **place)
        for code, (_, y) in points.items()
    ]  # fmt: skip
    for name in ("subword_jaccard", "word_order_distance"):
        own = {**place, "encoder": None} if name == "word_order_distance" else place
        scores += [
            Score(
                quantity=name,
                value=x,
                n=9,
                target=code,
                condition="predictor",
                details={"part": "train and test"},
                **own,
            )
            for code, (x, _) in points.items()
        ]
        told = {"part": "train and test", "of": "accuracy", "points": points, "p": 0.0004}
        scores += [
            Score(quantity=kind, value=-0.9, low=-1, high=-0.5, n=len(codes), condition=name,
                  details=told, **place)
            for kind in ("pearson", "spearman")
        ]  # fmt: skip
    write_scores(scores, folder / "scores.jsonl")
    return folder


def test_scores_stand_over_what_may_predict_them(tmp_path):
    page = Page(source := render_report(run_folder(tmp_path, CODES)))
    assert "What goes with transfer." in page.text and "r = −0.90, 6 languages" in page.text
    labels = [one["aria-label"] for one in page.all("svg") if "aria-label" in one]
    assert "Accuracy over word-order distance, r = −0.90, 6 languages" in labels
    assert all(source.count(f">{code}<") >= 2 for code in CODES)
    assert "−0.900 [−1.000, −0.500]" in page.text and "< .001" in page.text
    assert "Jaccard index of subwords" in page.text and "0.500" in page.text


def test_many_languages_have_one_curve_by_frozen_layer(tmp_path):
    for n in (12, 13):
        codes = [
            "eng",
            "deu",
            "fra",
            "spa",
            "bul",
            "zho",
            "heb",
            "nld",
            "swe",
            "dan",
            "ita",
            "por",
            "ron",
        ][:n]
        place = {
            "quantity": "accuracy",
            "task": "topic",
            "encoder": "tiny",
            "source": "eng",
            "n": 9,
        }
        scores = [
            Score(value=0.5 + 0.1 * freeze, target=code, details={"part": "test", "freeze": freeze}, **place)
            for freeze in (0, 2) for code in codes
        ]  # fmt: skip
        write_scores(scores, run_folder(tmp_path, CODES) / "scores.jsonl")
        told = Page(render_report(tmp_path)).text
        assert ("mean of 12 others" in told) == (n == 13) and "How much is frozen." in told


def test_other_test_sets_of_the_language_of_training_are_none_of_the_others(tmp_path):
    codes = ["eng", "eng_pud", *CODES, "nld", "swe", "dan", "ita", "por"]
    place = {"quantity": "accuracy", "task": "topic", "encoder": "tiny", "source": "eng", "n": 9}
    scores = [
        Score(value=0.5, target=code, details={"part": "test", "freeze": freeze}, **place)
        for freeze in (0, 2)
        for code in codes
    ]
    write_scores(scores, run_folder(tmp_path, CODES) / "scores.jsonl")
    told = Page(render_report(tmp_path)).text
    assert "mean of 11 others" in told and "mean of 12 others" not in told


def test_four_languages_have_numbers_and_no_picture(tmp_path):
    text = Page(render_report(run_folder(tmp_path, CODES[:4]))).text
    assert "What goes with transfer." not in text and "Pearson" not in text
    assert "What may predict transfer" in text and "Word-order distance" in text


@pytest.mark.parametrize("n", [2, 20, 60])
def test_names_are_beside_their_points_and_cover_nothing(n):
    rng = np.random.default_rng(n)
    pixels = rng.uniform(0, [288, 232], (n, 2))
    found = _names([f"{k:03d}" for k in range(n)], pixels, (288.0, 232.0))
    named = {name: middle for name, middle, _ in found}
    boxes = [(x - 9, y - 5.75, x + 9, y + 5.75) for x, y in named.values()]
    assert len(named) >= 0.8 * n
    assert not any(_meet(a, b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert not any(b[0] < x < b[2] and b[1] < y < b[3] for b in boxes for x, y in pixels)
    for name, middle in named.items():
        assert np.hypot(*(np.array(middle) - pixels[int(name)])) < 45


def test_epochs_and_frozen_layers_have_their_numbers_below_the_axis():
    for places, told in (([1.0, 2.0], ["1", "2"]), ([-1.0, 0.0, 9.0], ["−1", "0", "9"])):
        lines = [Line(places, [0.5] * len(places), series_style(0))]
        with plain_style():
            svg = series_panel("p1", "label", lines, "x", Axis("y", (0.0, 1.0)))
        assert re.findall(r">(−?\d+)</text>", svg)[: len(told)] == told


def test_points_are_drawn_where_they_are():
    points = {"deu": [0.0, 0.0], "fra": [1.0, 1.0]}
    axes = Axis("x", (0.0, 1.0)), Axis("y", (0.0, 1.0))
    with plain_style():
        svg = scatter_panel("p1", "label", points, axes)
    dots = re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg)
    assert ("58", "242") in [(x.partition(".")[0], y.partition(".")[0]) for x, y in dots]


# -- examples


def shown(folder, **changes):
    """The page of a run with one example."""
    told = {"task": "topic", "encoder": "tiny", "source": "eng", "target": "heb", "seed": 3}
    told |= {"item": 0, "texts": ["a b"], "gold": ["x"], "predicted": ["y"], **changes}
    write_examples([Example(**told)], run_folder(folder, CODES) / "examples.jsonl")
    return render_report(folder)


def test_what_was_answered_wrongly_is_shown_in_the_direction_of_its_script(tmp_path):
    page = shown(tmp_path, texts=["הכלב ישן"], marks=[(0, 4)], gold=["NOUN"], predicted=["VERB"])
    assert "Hebrew: some of what was answered wrongly, seed 3." in page
    assert '<div dir="auto"><mark>הכלב</mark> ישן</div>' in page
    assert '<div dir="auto">NOUN</div>' in page and '<div dir="auto">VERB</div>' in page


def test_markup_in_an_example_is_text(tmp_path):
    bad = '<script>alert(1)</script>&"'
    page = shown(tmp_path, texts=[f"a {bad}", bad], marks=[(2, 9)], gold=[bad], predicted=[bad])
    assert "<script>alert" not in page and page.count(escape(bad)) == 3
    assert "<mark>&lt;script</mark>" in page


def test_a_long_text_is_cut_around_what_is_marked(tmp_path):
    text = "".join(f"{k:04d} " for k in range(400))
    page = shown(tmp_path, texts=[text, text], marks=[(1000, 1004), (1700, 1704)])
    (first,) = re.findall(r'<div dir="auto">(…[^…]*…)</div>', page)
    assert "<mark>0200</mark>" in first and "0340" not in first and len(first) < 430
    assert f'<div dir="auto">{text[:400]}…</div>' in page


def test_nothing_predicted_is_a_dash_and_other_tasks_have_no_examples(tmp_path):
    page = shown(tmp_path, predicted=[])
    assert "<td>–</td>" in page and "Examples of errors" in page
    assert "Examples of errors" not in shown(tmp_path, task="another")


# -- relations of trees


def tree_run(folder, kind="tree"):
    """A finished run of two sentences with relations that are right and wrong."""
    config = {"kind": "transfer", "settings": {"train": ["eng"], "encoders": {"tiny": "x"}}}
    config["cards"] = {"parsing": {"title": "Parsing", "kind": kind}}
    (folder / "config.json").write_text(json.dumps(config))
    place = {"task": "parsing", "encoder": "tiny", "source": "eng", "target": "deu"}
    score = Score(quantity="las", value=0.5, low=0.4, high=0.6, n=6,
                  details={"part": "test", "counted_as": "conll18"}, **place)  # fmt: skip
    write_scores([score], folder / "scores.jsonl")
    gold = np.array(["2:nsubj 0:root 2:obj", "2:det 3:nsubj 0:root"], object)
    predicted = np.array(["2:nsubj 0:root 1:obj", "2:det 3:obj 0:root"], object)
    one = Outcomes(
        quantity="las", item=np.arange(2), item_id=np.array(["a", "b"], object),
        group=np.array(["a", "b"], object), outcome=np.array([2.0, 2.0]), of=np.array([3.0, 3.0]),
        gold=gold, predicted=predicted, method="conll18", suite="dev", part="test", seed=7, **place,
    )  # fmt: skip
    write_outcomes([one], folder / FILE)
    return folder


def test_relations_stand_with_what_they_are_taken_for(tmp_path):
    page = render_report(tree_run(tmp_path))
    (table,) = re.findall(
        r"<table.*?</table>", page[page.index("of 4 relations") - 200 :], re.DOTALL
    )[:1]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr")[1:]]
    assert [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in rows] == [
        ["Relation", "n", "Head right", "Head and relation", "Taken for"],
        ["nsubj", "2", "1.000", "0.500", "obj 0.500"],
        ["root", "2", "1.000", "1.000", "–"],
        ["det", "1", "1.000", "1.000", "–"],
        ["obj", "1", "0.000", "0.000", "–"],
    ]


def test_tasks_without_trees_have_no_relations(tmp_path):
    assert "Head right" not in render_report(tree_run(tmp_path, kind="tag"))


def test_a_layer_between_gaps_has_an_interval_that_can_be_seen():
    figure, axes = plt.subplots()
    nan = math.nan
    style = dataclasses.replace(series_style(0), band=True)
    line = Line(range(5), [0.4, nan, 0.3, 0.2, nan], style, [0.3, nan, 0.2, 0.1, nan],
                [0.5, nan, 0.4, 0.3, nan])  # fmt: skip
    draw_line(axes, line)
    (bars,) = (one for one in axes.collections if isinstance(one, LineCollection))
    assert [part.tolist() for part in bars.get_segments()] == [[[0.0, 0.3], [0.0, 0.5]]]
    plt.close(figure)


def test_one_task_shows_each_language_with_its_interval_and_controls(tmp_path):
    folder = run_folder(tmp_path, CODES)
    scores = [*read_scores(folder / "scores.jsonl")]
    scores += [
        Score(quantity="accuracy", value=0.2, n=40, task="topic", source="eng", target=code, condition="majority",
              details={"part": "test"})
        for code in CODES
    ]  # fmt: skip
    write_scores(scores, folder / "scores.jsonl")
    page = Page(render_report(folder))
    labels = [one["aria-label"] for one in page.all("svg") if "aria-label" in one]
    assert "Topic: Accuracy by language, with 95\u00a0% intervals" in labels
    assert "most frequent label" in page.text and "random weights" not in page.text
    many = [f"language {n}" for n in range(41)]
    write_scores(
        [Score(quantity="accuracy", value=0.5, n=9, task="topic", encoder="tiny", source="eng", target=one,
               details={"part": "test"}) for one in many],
        folder / "scores.jsonl",
    )  # fmt: skip
    labels = [one.get("aria-label", "") for one in Page(render_report(folder)).all("svg")]
    assert not any("by language" in one for one in labels)
    assert any("languages and tasks" in one for one in labels)


def test_points_and_their_intervals_stand_at_their_values():
    scores = [
        Score(quantity="accuracy", value=v, low=v - 0.1, high=v + 0.1, n=9) for v in (0.3, 0.5)
    ]
    bare = Score(quantity="accuracy", value=0.4, n=9)
    drawn = []

    def keep(figure, key, label):
        drawn.append(figure)
        return ""

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(intervals, "inline_svg", keep)
        series = [(series_style(0), scores), (series_style(1), [bare, None])]
        intervals.interval_panel("p1", "label", ["German", "French"], series, "Accuracy")
    (axes,) = drawn[0].axes
    lines = [line.get_xydata().round(3).tolist() for line in axes.lines]
    assert [[x for x, _ in line] for line in lines] == [
        [0.2, 0.4],
        [0.3],
        [0.4, 0.6],
        [0.5],
        [0.4, 0.4],
        [0.4],
    ]
    assert [round(line[0][1]) for line in lines] == [0, 0, 1, 1, 0, 0]
    assert axes.get_xlim() == (0.0, 0.6) and axes.get_ylim() == (1.5, -0.5)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["German", "French"]


def test_another_script_is_not_what_was_trained_in(tmp_path):
    place = {"task": "topic", "encoder": "tiny", "source": "zho_Hans", "quantity": "accuracy"}
    scores = [
        Score(value=value, low=0.0, high=1.0, n=9, target=code, details={"part": "test"}, **place)
        for code, value in (("zho_Hans", 0.9), ("zho_Hant", 0.8), ("fra", 0.7), ("deu", 0.6))
    ]
    other = dataclasses.replace(scores[0], target="spa", value=0.5)
    run = run_folder(tmp_path, CODES)
    write_scores([*scores, other], run / "scores.jsonl")
    text = Page(render_report(run)).text
    assert "0.900 [0.000, 1.000] in Chinese (simplified), 0.650 on average of 4" in text
