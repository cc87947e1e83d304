"""The page of a run of transfer: what may predict it, and what was answered wrongly."""

import json
import re

import numpy as np
import pytest
from pages import Page

from crosslens.report.pages.page import render_report
from crosslens.report.parts.drawing import Axis, plain_style
from crosslens.report.parts.scatter import _meet, _names, scatter_panel
from crosslens.score import Score, write_scores

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
                details={"part": "test"},
                **own,
            )
            for code, (x, _) in points.items()
        ]
        told = {"part": "test", "of": "accuracy", "points": points, "p": 0.0004}
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


def test_four_languages_have_numbers_and_no_picture(tmp_path):
    text = Page(render_report(run_folder(tmp_path, CODES[:4]))).text
    assert "What goes with transfer." not in text and "Pearson" not in text
    assert "What may predict transfer" in text and "Word-order distance" in text


@pytest.mark.parametrize("n", [2, 20, 60])
def test_names_are_beside_their_points_and_cover_nothing(n):
    rng = np.random.default_rng(n)
    pixels = rng.uniform(0, [288, 232], (n, 2))
    named = dict(_names([f"{k:03d}" for k in range(n)], pixels, (288.0, 232.0)))
    boxes = [(x - 8.4, y - 4.75, x + 8.4, y + 4.75) for x, y in named.values()]
    assert len(named) >= 0.9 * n
    assert not any(_meet(a, b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert not any(b[0] < x < b[2] and b[1] < y < b[3] for b in boxes for x, y in pixels)
    for name, middle in named.items():
        assert np.hypot(*(np.array(middle) - pixels[int(name)])) < 40


def test_points_are_drawn_where_they_are():
    points = {"deu": [0.0, 0.0], "fra": [1.0, 1.0]}
    axes = Axis("x", (0.0, 1.0)), Axis("y", (0.0, 1.0))
    with plain_style():
        svg = scatter_panel("p1", "label", points, axes)
    dots = re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg)
    assert ("58", "242") in [(x.partition(".")[0], y.partition(".")[0]) for x, y in dots]
