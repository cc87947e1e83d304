"""The report of a study: what is on the page, that it tells the truth, and that nothing from a run
can break it."""

import ast
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

import matplotlib
import numpy as np
import pytest
from pages import Page
from synthetic_study import make_study

import crosslens.report
from crosslens.errors import InputError, OutputError, StoreError
from crosslens.report import render_report, write_report
from crosslens.report.folders.study import CONTROL_OF, clear_of, load_study
from crosslens.report.parts.drawing import Style, plain_style, upper_limit
from crosslens.report.parts.heat import colour_bar, heat_panel
from crosslens.report.parts.wording import (
    count_of,
    decimal,
    estimate,
    join,
    language,
    short,
    tag,
    text,
    with_minus,
)
from crosslens.report.sections.retrieval import retrieval_findings, retrieval_sentence
from crosslens.score import Score, read_scores, write_scores
from crosslens.selection import best_layer, chosen_layer


def change(folder: Path, edit: Callable[[Score], Score | None]) -> Path:
    """Replace or drop measurements of a run."""
    rows = [edit(score) for score in read_scores(folder / "scores.jsonl")]
    write_scores([row for row in rows if row is not None], folder / "scores.jsonl")
    return folder


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three languages and four layers."""
    return make_study(tmp_path_factory.mktemp("three") / "run", 3, 4)


@pytest.fixture(scope="module")
def source(three: Path) -> str:
    """Its report."""
    return render_report(three)


# ---------------------------------------------------------------- the page as a whole


def test_every_section_is_there(page: Page) -> None:
    assert [attributes["id"] for attributes in page.all("section")] == [
        "retrieval",
        "similarity",
        "language-id",
        "made",
    ]
    for words in (
        "English, French and German",
        "Englisheng",
        "tiny-encoder",
        "n = 600",
        "(n = 300)",
        "Seed",
        "What came out",
    ):
        assert words in page.text
    for reference in ("Kornblith et al. 2019", "Wu & Dredze 2019", "Conneau et al. 2020"):
        assert reference in page.text


def test_same_folder_same_characters(three: Path, source: str) -> None:
    assert render_report(three) == source


def test_two_processes_draw_the_same(three: Path, source: str) -> None:
    command = (
        "import sys; from crosslens.report import render_report; "
        "sys.stdout.reconfigure(encoding='utf-8'); "
    )
    command += f"sys.stdout.write(render_report({str(three)!r}))"
    other = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.decode() == source


def test_the_report_does_not_change_by_being_written(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 2)
    before = render_report(folder)
    path = write_report(folder)
    assert path == folder / "report.html"
    assert path.read_text(encoding="utf-8") == before
    assert render_report(folder) == before
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.json",
        "report.html",
        "scores.jsonl",
    ]


def test_no_id_occurs_twice_and_every_reference_has_its_target(page: Page, source: str) -> None:
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    wanted = set(re.findall(r"url\(#([^)]+)\)", source)) | {
        value[1:]
        for _, attributes in page.tags
        for key, value in attributes.items()
        if key in ("href", "xlink:href") and value[:1] == "#"
    }
    assert len(wanted) > 20
    assert wanted <= set(ids)


def test_every_picture_is_labelled(page: Page) -> None:
    pictures = page.all("svg")
    assert len(pictures) > 10
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 15


def test_every_figure_has_one_caption_that_says_how_to_read_it(source: str) -> None:
    figures = re.findall(r"<figure .*?</figure>", source, re.DOTALL)
    assert len(figures) == 6
    for number, figure in enumerate(figures, 1):
        (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", figure, re.DOTALL)
        assert f"Figure {number}." in caption
        assert "<summary>How to read it</summary>" in figure
        if number == 1:  # what was measured differs from panel to panel, and so do their legends
            continue
        assert 'class="legend' in figure
        assert figure.index('class="legend') < figure.index('class="panel"')


def test_every_panel_and_every_table_of_numbers_has_its_n(source: str) -> None:
    heads = re.findall(r"<h4>(.*?)</h4>", source)
    # all at once, matrices, retrieval, CKA curves, CKA maps, language identification
    assert len(heads) == 3 + 4 + 3 + 3 + 3 + 2
    assert all(re.search(r"n&nbsp;=&nbsp;\d", head) for head in heads)
    tables = re.findall(r'<table class="numbers".*?</thead>', source)
    assert len(tables) == 4
    # the fourth lists the texts
    assert sum(bool(re.search(r">n( |<)", table)) for table in tables) == 3


def test_no_attribute_loads_anything(page: Page) -> None:
    for _, attributes in page.tags:
        for key, value in attributes.items():
            if key in ("src", "href", "xlink:href", "data", "action"):
                assert value.startswith(("#", "data:image/png;base64,"))
            assert not key.startswith("on")


def test_no_style_of_a_picture_leaks_into_the_page(page: Page) -> None:
    assert len(page.all("style")) == 1


def test_a_page_stays_small(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 3, 13)
    # for each of three pairs: fifteen are then about 3 MB
    assert len(render_report(folder).encode()) < 200_000 * 3 + 100_000


# ---------------------------------------------------------------- what it says


def test_the_story_names_the_best_layer_its_mean_and_its_control(three: Path, page: Page) -> None:
    rows = [
        s
        for s in read_scores(three / "scores.jsonl")
        if s.task == "sentence_retrieval" and (s.details or {})["part"] == "held_out"
    ]

    def mean(condition: str, layer: int) -> float:
        return float(
            np.mean([s.value for s in rows if s.condition == condition and s.layer == layer])
        )

    for condition, lead in (
        ("unaligned", "Without alignment"),
        ("procrustes", "After Procrustes alignment"),
    ):
        best = max(range(4), key=lambda layer: mean(condition, layer))
        control = {"unaligned": "random_encoder", "procrustes": "random_encoder_procrustes"}[
            condition
        ]
        assert (
            f"{lead}, sentence retrieval is best at layer {best}: mean P@1 "
            f"{mean(condition, best):.3f} over 6 directions"
        ) in page.text
        assert f"has {mean(control, best):.3f} there (n = 300)" in page.text
    assert "chance 0.003" in page.text
    assert page.text.count("In all 6 directions its 95 % interval lies wholly above") == 2
    assert (
        "best of 4, chosen on the same held-out sentences: read their means as slightly optimistic"
        in page.text
    )


def test_the_layers_shown_are_chosen_on_the_training_sentences_and_few_pairs_are_said(
    tmp_path: Path,
) -> None:
    """The best of the held-out sentences is layer 2 in each condition, of the training sentences
    layer 0."""
    folder = make_study(tmp_path / "run", 2, 3, data={"n": 600, "d": 384})
    scores = []
    for score in read_scores(folder / "scores.jsonl"):
        if (
            score.task == "sentence_retrieval"
            and (score.details or {})["part"] == "held_out"
            and score.condition in CONTROL_OF
        ):
            few = {"fitted_on": 300} if score.condition == "procrustes" else {}
            score = dataclasses.replace(
                score, value=0.1 + 0.2 * (score.layer or 0), details={"part": "held_out", **few}
            )
            scores.append(
                dataclasses.replace(
                    score, value=0.9 - 0.2 * (score.layer or 0), details={"part": "train"}
                )
            )
        scores.append(score)
    write_scores(scores, folder / "scores.jsonl")
    study = load_study(folder)
    found = [re.sub("<[^>]+>", "", sentence) for sentence in retrieval_findings(study)]
    for sentence, lead in zip(
        found, ("Without alignment", "After Procrustes alignment"), strict=False
    ):
        assert sentence.startswith(
            f"{lead}, sentence retrieval at the layer that is best on the training sentences, "
            f"0: mean P@1 0.100"
        )
    assert (
        "chosen by mean P@1 on the training sentences (unaligned 0.900 and after Procrustes 0.900)"
        in found[-1]
    )
    assert "(layer 0, " in retrieval_sentence(study) and "layer 2" not in retrieval_sentence(study)
    words = Page(render_report(folder)).text
    assert (
        "is highest on the training sentences; a random encoder" in words
        and "optimistic" not in words
    )
    assert "With 300 pairs for 384 dimensions Procrustes" in words
    (folder / "config.json").write_text(json.dumps({"data": {"d": 300}}))
    assert "pairs for" not in Page(render_report(folder)).text


def test_a_layer_is_chosen_among_those_that_can_be_judged() -> None:
    """On the training part layer 1 is best, but held out it lacks a direction."""
    held_out = [{0: _score(0.5), 1: _score(0.9)}, {0: _score(0.3), 1: _score(math.nan)}]
    best = chosen_layer(held_out, [{0: _score(0.2), 1: _score(0.8)}] * 2)
    assert best is not None and (best.layer, best.mean, best.on_train) == (0, 0.4, 0.2)
    best = chosen_layer(iter(held_out), iter([{}]))
    assert best is not None and (best.layer, best.on_train) == (0, None)
    assert chosen_layer([{}], [{0: _score(0.5)}]) is None


def test_pairs_that_are_not_above_their_control_are_named(tmp_path: Path) -> None:
    def weaken(score: Score) -> Score:
        if score.condition == "unaligned" and {score.source, score.target} == {"eng", "deu"}:
            return dataclasses.replace(score, low=0.0)
        if score.condition == "unaligned" and (score.source, score.target) == ("fra", "deu"):
            return dataclasses.replace(score, value=0.0, low=0.0, high=0.001)
        return score

    words = Page(render_report(change(make_study(tmp_path / "run", 3, 3), weaken))).text
    assert "Not clearly above the random encoder in 3 of 6 directions" in words
    assert "English ↔ German and French → German." in words
    assert words.count("not clearly above random") == 3
    assert "In all 6 directions" in words  # Procrustes is as it was


def test_without_random_control_the_story_says_so(tmp_path: Path) -> None:
    folder = change(
        make_study(tmp_path / "run", 2, 3), lambda s: None if "random" in (s.condition or "") else s
    )
    words = Page(render_report(folder)).text
    assert "There is no random control with an interval to compare this with." in words
    assert "random weights has" not in words


def test_bias_of_cka_is_told_by_the_shuffled_control(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 3)
    shuffled = [
        s.value
        for s in read_scores(folder / "scores.jsonl")
        if s.condition == "shuffled_items" and s.quantity == "linear_cka"
    ]
    words = Page(render_report(folder)).text
    assert (
        f"biased CKA still gives {min(shuffled):.3f} to {max(shuffled):.3f} (3 values, n = 600)"
        in words
    )
    words = Page(
        render_report(change(folder, lambda s: None if s.condition == "shuffled_items" else s))
    ).text
    assert "No shuffled control was measured in this run" in words


def test_a_control_without_a_value_is_left_out_of_the_sentence(tmp_path: Path) -> None:
    def lost(score: Score) -> Score:
        if score.condition != "random_encoder":
            return score
        return dataclasses.replace(
            score, value=math.nan, low=None, high=None, details={"reason": "all alike"}
        )

    words = Page(render_report(change(make_study(tmp_path / "run", 2, 3), lost))).text
    sentence = words.partition("Which language a sentence is in")[2].partition(";")[0]
    assert sentence.endswith("(0.500 for the most frequent language)") and "nan" not in words


def test_a_direction_that_was_not_measured_has_dashes(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 3)
    change(folder, lambda s: None if (s.source, s.target) == ("fra", "eng") else s)
    source = render_report(folder)
    row = source.partition("French → English</th>")[2].partition("</tr>")[0]
    assert set(re.findall(r"<span>(.*?)</span>", row)) == {"–"}


@pytest.mark.parametrize(
    ("by", "told"),
    [(None, "(cosine similarity of their vectors)"), ("csls", "(csls of the cosines of their")],
)
def test_what_sentences_are_looked_up_by_is_said(by: str | None, told: str, tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 2)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "kind": "align", "settings": {**config["settings"], "by": by}})
    )
    assert told in Page(render_report(folder)).text


def test_two_encoders_of_one_language_are_called_so(tmp_path: Path) -> None:
    """``crosslens compare`` calls its sides by language and encoder where these share a language."""
    sides = ["eng base", "eng large"]
    encoders = {side: side.partition(" ")[2] for side in sides}
    folder = make_study(tmp_path / "run", sides, 2, kind="compare", settings={"encoders": encoders})
    change(folder, lambda score: score if score.task == "similarity" else None)
    words = Page(render_report(folder)).text
    assert "1 language in 2 encoders" in words and "Two encoders are most alike" in words
    assert "two languages" not in words.partition("How this was made")[0].lower()


def test_missing_language_identification_is_explained(tmp_path: Path) -> None:
    note = "Language identification was not measured: every language has an encoder of its own."
    folder = make_study(tmp_path / "run", 2, 3, notes=[note])
    source = render_report(change(folder, lambda s: None if s.task == "language_id" else s))
    assert Page(source).text.count(note) == 3  # at the top, folded and unfolded, and in the section
    assert '<section id="language-id">' in source


def test_two_monolingual_encoders(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 3)
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["encoders"] = {"eng": "models/eng-small", "fra": "models/fra-small"}
    (folder / "config.json").write_text(json.dumps(config))
    words = Page(
        render_report(change(folder, lambda s: None if s.task == "language_id" else s))
    ).text
    assert "2 languages in 2 encoders" in words
    assert "models/eng-small for English and models/fra-small for French" in words
    assert "In both directions its 95 % interval lies wholly above" in words
    assert "for the one pair" in words


def test_both_directions_are_drawn_and_told_apart(three: Path, source: str) -> None:
    (panels,) = re.findall(r"Figure 3\..*?</figure>", source, re.DOTALL)
    pictures = [
        picture
        for picture in re.findall(r"<svg .*?</svg>", panels, re.DOTALL)
        if "Retrieval P@1 by layer" in picture
    ]
    assert len(pictures) == 3
    for picture in pictures:
        for colour in ("#0072b2", "#d55e00", "#8a9097", "#5f656c"):
            lines = re.findall(
                (
                    rf'<path d="[^"]*"[^>]*style="fill: none; stroke(?:-dasharray: '
                    rf'([^;]*))?[^"]*stroke: {colour}'
                ),
                picture,
            )
            plain = re.findall(rf'style="fill: none; stroke: {colour}', picture)
            assert len([dashes for dashes in lines if dashes]) == 1
            assert len(plain) == 1


def test_values_that_could_not_be_computed_are_shown_with_their_reason(tmp_path: Path) -> None:
    def spoil(score: Score) -> Score:
        if (score.condition, score.source, score.layer) == ("procrustes", "fra", 1) or (
            score.condition is None and score.layer == 2
        ):
            details = {**(score.details or {}), "reason": "all vectors are <equal>"}
            return dataclasses.replace(score, value=math.nan, low=None, high=None, details=details)
        return score

    source = render_report(change(make_study(tmp_path / "run", 2, 3), spoil))
    words = Page(source).text
    assert (
        "Not computed: After Procrustes, French → English, layer 1 (all vectors are <equal>)."
        in words
    )
    assert "Not computed: Encoder, debiased, layer 2 (all vectors are <equal>)." in words
    # in the table of language identification
    assert "not computed: all vectors are <equal>" in words
    assert not re.search(r"\bnan\b", source, re.IGNORECASE)


def test_other_measures_of_layers_have_a_figure_each_with_what_is_known_of_them(
    tmp_path: Path,
) -> None:
    folder = make_study(tmp_path / "run", 2, 4)
    rows = list(read_scores(folder / "scores.jsonl"))
    first = next(score for score in rows if score.task == "similarity")
    for quantity, bottom in (("rsa", -0.35), ("mutual_knn", 0.2)):
        keys = {"quantity": quantity, "low": None, "high": None}
        for layer in range(4):
            ends = {"low": bottom - 0.1, "high": bottom + 0.1} if quantity == "rsa" else {}
            place = {"layer": layer, "other_layer": layer, "value": bottom + 0.1 * layer}
            rows.append(dataclasses.replace(first, **{**keys, **place, **ends}, condition=None))
            rows.append(dataclasses.replace(first, **{**keys, **place}, condition="shuffled_items"))
    rows[-2] = dataclasses.replace(rows[-2], value=math.nan, details={"reason": "too few <items>"})
    write_scores(rows, folder / "scores.jsonl")
    source = render_report(folder)
    found = re.split(r"<strong>Figure \d+\. ", source)[1:]
    figures = {part.partition("</strong>")[0]: part for part in found}
    with_band, without = figures["RSA by layer."], figures["Mutual nearest neighbours by layer."]
    assert "The measure goes from -1 to 1; higher is more alike." in with_band
    assert "Encoder, RSA: highest −0.050 at layer 3" in with_band
    assert "Shuffled sentences, RSA: highest −0.050 at layer 3" in with_band
    assert "Spearman correlation" in with_band and "fraction of neighbours" in without
    # a band where there is an interval
    assert with_band.count("opacity: 0.16") == 1 + without.count("opacity: 0.16")
    assert (
        "Not computed: Encoder, Mutual nearest neighbours, layer 3 (too few &lt;items&gt;)."
        in without
    )
    assert "has no figure for" not in source


def test_nothing_but_nan(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 2)
    words = Page(
        render_report(
            change(folder, lambda s: dataclasses.replace(s, value=math.nan, low=None, high=None))
        )
    ).text
    assert "Nothing was measured in this run." in words


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    # to matplotlib the third would be mathematics, and broken
    names = ["<script>alert(1)</script>", 'a"b\'c id="p1" onload="x', "$\\q$ & url(#p) </svg>"]
    encoder = "</title><img src=x onerror=alert(1)>"
    folder = make_study(
        tmp_path / "run",
        names,
        2,
        notes=["<iframe src=//evil>"],
        extraction={names[0]: {"truncated": 2}},
    )
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["encoders"] = {"*": encoder}
    config["settings"]["<b>key</b>"] = {"deep": ["<i>", None]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "<u>file").write_text("")
    page = Page(render_report(folder))
    assert (
        not {tag for tag, _ in page.tags} & {"img", "iframe", "b", "i", "u"}
        and len(page.all("script")) == 1
    )
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert max(ids.values()) == 1
    for shown in (
        *names,
        encoder,
        "<iframe src=//evil>",
        "<b>key</b>",
        '{"deep": ["<i>", null]}',
        "<u>file",
        "2 sentences had to be cut",
    ):
        assert shown in page.text


def test_what_has_no_figure_is_counted(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "run", 2, 2)
    rows = list(read_scores(folder / "scores.jsonl"))
    rows += [rows[0], Score(quantity="perplexity", value=12.0, n=5, task="masked_lm", layer=1)]
    write_scores(rows, folder / "scores.jsonl")
    words = Page(render_report(folder)).text
    assert "masked_lm · perplexity1" in words.replace(" 1", "1")
    assert "1 line of scores.jsonl repeat the keys of an earlier line" in words


def test_an_empty_configuration_and_no_scores(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "scores.jsonl").write_text("")
    words = Page(render_report(tmp_path)).text
    assert "Nothing was measured in this run." in words
    assert "not recorded" in words
    odd = {
        "settings": [],
        "data": None,
        "extraction": {"eng": 3},
        "notes": "one note",
        "versions": "x",
    }
    (tmp_path / "config.json").write_text(json.dumps(odd))
    assert "one note" in Page(render_report(tmp_path)).text


def test_a_majority_without_layers_is_drawn_at_every_layer(tmp_path: Path) -> None:
    def flat(score: Score) -> Score | None:
        if score.condition != "majority":
            return score
        return dataclasses.replace(score, layer=None) if score.layer == 0 else None

    folder = change(make_study(tmp_path / "run", 2, 3), flat)
    study = load_study(folder)
    assert sorted(study.curve("language_id", "accuracy", "majority")) == [0, 1, 2]
    assert study.undrawn == {}


def test_refusals_name_the_folder_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder: expected"):
        render_report(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    told = r"x\.html: expected a file in a folder that is there, got no folder .*no/such; make"
    with pytest.raises(OutputError, match=told):
        write_report(tmp_path, tmp_path / "no" / "such" / "x.html")
    with pytest.raises(InputError, match=r"a run folder with scores\.jsonl"):
        render_report(tmp_path)
    (tmp_path / "scores.jsonl").write_text("")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(StoreError, match="expected an object, got a list; "):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


# ---------------------------------------------------------------- the parts


def _score(value: float, **keys: object) -> Score:
    return Score(quantity="accuracy", value=value, n=10, **keys)  # type: ignore[arg-type]


def test_best_layer_takes_only_layers_where_all_were_computed() -> None:
    easy, hard = {0: _score(0.5), 1: _score(0.9)}, {0: _score(0.3), 1: _score(math.nan)}
    best = best_layer([easy, hard])
    assert best is not None
    assert (best.layer, best.layers, len(best.scores)) == (0, 1, 2)
    assert best.mean == pytest.approx(0.4)
    assert best_layer([{}, {3: _score(math.nan)}]) is None
    tied = best_layer([{0: _score(0.5), 1: _score(0.5)}])
    assert tied is not None and tied.layer == 0


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.4, 0.39, True), (0.4, 0.4, False), (0.1, 0.4, False), (None, 0.4, None), (0.4, None, None)],
)
def test_clear_of(low: float | None, high: float | None, expected: bool | None) -> None:
    assert clear_of(_score(0.5, low=low), _score(0.3, high=high)) is expected
    assert clear_of(None, _score(0.3, high=high)) is None


@pytest.mark.parametrize(("low", "expected"), [(0.01, True), (0.0, False), (-0.2, False)])
def test_what_was_compared_sentence_by_sentence_is_judged_by_the_difference(
    low: float, expected: bool
) -> None:
    paired = _score(
        0.5, low=0.1, details={"above_control": {"difference": 0.2, "low": low, "high": 0.4}}
    )
    assert clear_of(paired, _score(0.3, high=0.39)) is expected
    assert clear_of(paired, None) is None


def test_numbers_as_people_read_them() -> None:
    assert decimal(-0.0004) == "0.000"
    assert decimal(-0.25, 2) == "−0.25"
    assert estimate(_score(0.5, low=0.25, high=0.75)) == "0.500 [0.250, 0.750]"
    assert estimate(_score(math.nan, details={"reason": "why not"})) == "not computed: why not"
    assert estimate(None) == "–"
    assert count_of([_score(0.5), None]) == "n = 10"
    assert count_of([]) == "n not recorded"
    assert join([]) == ""
    assert join(["a", "b", "c"], most=2) == "a, b and c"  # "and 1 others" would say less
    assert short("a  b") == "a b"
    assert len(short("x" * 50, 8)) == 8


def test_languages_are_called_by_one_name() -> None:
    for code, name in {
        "eng": "English",
        "cmn": "Mandarin Chinese",
        "hin": "Hindi",
        "zh": "Mandarin Chinese",
        "rus": "Russian",
    }.items():
        assert language(code) == name
    assert (
        language("hin_Deva") == "Hindi"
        and language("eng-x") == "English (x)"
        and language("pt-BR") == "Portuguese (BR)"
    )
    assert [language(f"srp_{script}") for script in ("Cyrl", "Latn")] == [
        "Serbian (Cyrillic)",
        "Serbian (Latin script)",
    ]
    assert (language("khk_Cyrl"), language("srp")) == ("Halh Mongolian", "Serbian")
    assert [language(odd) for odd in ("", "_", "qqq", "-")] == ["", "_", "qqq", "-"]


def test_hyphens_before_numbers_become_minus_signs_and_others_stay() -> None:
    told = with_minus("zero-shot and sep-1-3 by -.9 [-1.2, -0.1], P@1-5")
    assert told == "zero-shot and sep-1-3 by −.9 [−1.2, −0.1], P@1-5"


def test_html_is_escaped_in_text_and_attributes() -> None:
    assert text("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"
    assert (
        tag("a", "x", aria_label='"><b>', class_="c")
        == '<a aria-label="&quot;&gt;&lt;b&gt;" class="c">x</a>'
    )


def test_axes_of_fractions_end_at_a_round_number() -> None:
    assert upper_limit([{0: _score(0.03, high=0.04)}]) == 0.05
    assert upper_limit([{0: _score(0.03, high=0.31)}, {0: _score(math.nan)}]) == 0.4
    assert upper_limit([{0: _score(1.0)}]) == 1.0
    assert upper_limit([]) == 1.0


def test_maps_write_numbers_only_where_they_fit() -> None:
    with plain_style():
        small = heat_panel(
            "a",
            "label",
            np.full((7, 7), 0.25),
            ([str(i) for i in range(7)],) * 2,
            ("y", "x"),
            upward=True,
        )
        large = heat_panel(
            "b",
            "label",
            np.full((13, 13), 0.25),
            ([str(i) for i in range(13)],) * 2,
            ("y", "x"),
            upward=True,
        )
        hole = heat_panel(
            "c",
            "label",
            np.array([[math.nan, 1.0], [0.0, 0.5]]),
            (["p", "q"],) * 2,
            ("y", "x"),
            diagonal=False,
        )
    assert small.count(">0.25<") == 49
    assert large.count(">0.25<") == 0
    assert hole.count(">1.00<") == hole.count(">0.00<") == 1
    assert ">–<" not in hole and ">0.50<" not in hole  # the diagonal means nothing here


def test_the_callers_matplotlib_settings_change_nothing_and_are_kept() -> None:
    with plain_style():
        plain = colour_bar("a", "label")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        with plain_style():
            assert colour_bar("a", "label") == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_styles_of_a_panel_differ_in_more_than_colour() -> None:
    from crosslens.report.sections import language_id, retrieval

    for styles in (retrieval._STYLES, language_id._STYLES):
        shapes = [(style.dash, style.marker) for style in styles.values()]
        assert len(set(shapes)) == len(shapes)
    assert dataclasses.is_dataclass(Style)


# ---------------------------------------------------------------- what it stands on


def test_torch_and_pyplot_are_never_imported(three: Path) -> None:
    program = f"""
import sys
from crosslens.report import render_report
from crosslens.selection import best_layer, chosen_layer
render_report({str(three)!r})
heavy = {{"torch", "transformers", "sklearn", "scipy", "faiss", "matplotlib.pyplot"}}
rooms = ("crosslens.models", "crosslens.alignment", "crosslens.probes")
print(sorted(heavy & set(sys.modules)), [name for name in sys.modules if name.startswith(rooms)])
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[] []"


def test_the_report_stands_on_the_ground_floor() -> None:
    folder = Path(crosslens.report.__file__).parent
    ground = {
        "crosslens",  # its version
        "crosslens.errors",
        "crosslens.files",
        "crosslens.score",
        "crosslens.checks",
        "crosslens.stats",
        "crosslens.version",
        "crosslens.outcomes",
        "crosslens.selection",
    }
    # several runs are compared by the methods of a room
    tests = ("probes_comparison.py", "crosslens.probes.methods.paired_tests")
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                module = node.module or ""
                known = (
                    module in ground
                    or module.startswith("crosslens.report.")
                    or (path.name, module) == tests
                )
                assert known or not module.startswith("crosslens"), (path, module)


def test_doors_are_sorted() -> None:
    assert crosslens.report.__all__ == [
        "render_report",
        "run_kind",
        "training_figure",
        "write_report",
    ]


def test_the_mean_over_directions_is_told_with_its_difference_to_the_control(
    tmp_path: Path,
) -> None:
    """Paired outcomes in the scores: the page judges by them, and says how far the mean is from the
    control's."""
    folder = tmp_path / "run"
    folder.mkdir()
    scores = []
    for condition, value in (("unaligned", 0.5), ("random_encoder", 0.4)):
        for way, low in ((("eng", "fra"), 0.02), (("fra", "eng"), -0.01)):
            above = (
                {"above_control": {"difference": 0.1, "low": low, "high": 0.2}}
                if condition == "unaligned"
                else {}
            )
            scores.append(
                Score(
                    quantity="precision_at_1",
                    value=value,
                    n=100,
                    low=value - 0.1,
                    high=value + 0.1,
                    layer=0,
                    source=way[0],
                    target=way[1],
                    condition=condition,
                    task="sentence_retrieval",
                    details={"part": "held_out", **above},
                )
            )
    above = {"difference": 0.1, "low": 0.05, "high": 0.15}
    details = {"part": "held_out", "directions": 2, "control": 0.4, "above_control": above}
    mean = Score(
        quantity="precision_at_1",
        value=0.5,
        n=100,
        low=0.4,
        high=0.6,
        layer=0,
        condition="unaligned",
        task="mean_sentence_retrieval",
        details=details,
    )
    write_scores([*scores, mean], folder / "scores.jsonl")
    (folder / "config.json").write_text(
        json.dumps({"kind": "study", "settings": {"languages": ["eng", "fra"]}})
    )
    words = re.sub(r"<[^>]+>", "", render_report(folder)).replace("&nbsp;", " ")
    assert (
        "On the same sentences the mean lies 0.100 above the random encoder’s (95 % interval "
        "0.050 to 0.150)."
    ) in words
    behind = (
        "Not clearly above the random encoder in 1 of 2 directions (the 95 % interval of the "
        "difference reaches 0): French → English."
    )
    assert behind in words
