"""Tables of measurements and folders of runs: what they say, how they are narrowed down, and what
they refuse."""

import json
import math

import numpy as np
import pytest

from crosslens.errors import InputError, StoreError
from crosslens.front.results import Run, Scores
from crosslens.outcomes import Outcomes, item_ids, write_outcomes
from crosslens.score import Score

ROWS = [
    Score(
        quantity="precision_at_1",
        value=0.1 * k,
        n=50,
        layer=k,
        source=a,
        target=b,
        condition=c,
        task="sentence_retrieval",
        details={"part": part, "n": 7},
    )
    for k in range(3)
    for a, b in (("eng", "fra"), ("fra", "eng"))
    for c in ("unaligned", "procrustes")
    for part in ("all", "held_out")
]
ROWS += [
    Score(
        quantity="accuracy",
        value=math.nan,
        n=0,
        task="language_id",
        details={"reason": "one language"},
    )
]
SCORES = Scores(ROWS)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"kind": "align", "settings": {"languages": ["eng", "fra"]}})
    )
    SCORES.save(tmp_path / "scores.jsonl")
    return tmp_path


def test_they_are_a_sequence_and_say_what_they_are():
    assert (
        list(SCORES) == ROWS
        and SCORES[0] == ROWS[0]
        and list(SCORES[1:3]) == ROWS[1:3]
        and len(SCORES) == 25
    )
    assert repr(SCORES) == "Scores(25 of precision_at_1, accuracy, layers 0–2)"
    assert repr(Scores([])) == "Scores(0)" and repr(SCORES[-1:]) == "Scores(1 of accuracy)"


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({}, 25),
        ({"layer": 1}, 8),
        ({"layer": [1, 2], "source": "eng"}, 8),
        ({"part": "held_out", "condition": "procrustes"}, 6),
        ({"condition": None}, 1),
        ({"n": 50}, 24),  # the field, and not the entry of details that is called like it
        ({"layer": 9}, 0),
    ],
)
def test_they_are_narrowed_down_by_fields_and_by_details(wanted, count):
    assert len(SCORES.where(**wanted)) == count


def test_a_field_that_no_score_has_is_refused_and_the_others_are_named():
    with pytest.raises(InputError, match="^where: expected one of"):
        SCORES.where(langauge="eng")


def test_the_data_frame_loses_nothing():
    frame = SCORES.to_pandas()
    assert (
        len(frame) == 25
        and frame["value"].isna().sum() == 1
        and frame["reason"].tolist()[-1] == "one language"
    )
    assert (
        frame["details_n"].tolist()[0] == 7
        and frame["n"].tolist()[0] == 50
        and "details" not in frame
    )
    assert str(frame["layer"].dtype) == "Int64" and frame["layer"].isna().sum() == 1
    assert frame.query("part == 'held_out' and condition == 'procrustes'").groupby("layer")[
        "value"
    ].mean().round(1).tolist() == [0, 0.1, 0.2]
    assert list(Scores([]).to_pandas().columns) == [
        name for name in vars(ROWS[0]) if name != "details"
    ]


def test_a_run_is_opened_again(folder):
    run = Run(folder)
    assert (
        list(run.scores)[:-1] == ROWS[:-1]
        and math.isnan(run.scores[-1].value)
        and run.kind == "align"
    )
    assert repr(run) == f"Run(align, {folder}, 25 scores)" and len(run.to_pandas()) == 25
    assert run.report() == folder / "report.html" and run.report().read_text().startswith(
        "<!DOCTYPE html>"
    )
    assert run.report(folder / "other.html").exists()


def test_a_figure_has_a_panel_for_each_task_and_lines_for_conditions(folder):
    figure = Run(folder).figure()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "Unaligned",
        "After Procrustes",
    ]
    drawn = [line for line in axes.get_lines() if len(line.get_xdata()) == 3]
    # the mean of both directions
    assert [np.round(line.get_ydata(), 6).tolist() for line in drawn] == [[0, 0.1, 0.2]] * 2
    assert figure._repr_png_()[:4] == b"\x89PNG"
    figure.savefig(folder / "figure.pdf")
    assert (folder / "figure.pdf").read_bytes()[:4] == b"%PDF"


def test_a_figure_says_whose_layers_they_are_and_where_pairs_are_too_few():
    def below(**more):
        told = {"quantity": "precision_at_1", "n": 9, "task": "sentence_retrieval", "encoder": "e"}
        told |= {
            "source": "eng",
            "target": "fra",
            "condition": "procrustes",
            "value": 0.5,
            "low": 0.2,
        }
        details = {"part": "held_out", "fitted_on": 10, **more}
        figure = Scores(Score(**told, high=0.8, layer=k, details=details) for k in (0, 1)).figure()
        return figure.get_supxlabel().replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ")

    assert below() == below(dimensions=10) == "e; English and French; bands: 95 % intervals."
    assert "With 10 pairs for 11 dimensions Procrustes is fixed on a part" in below(dimensions=11)


def test_a_figure_of_probes_has_the_titles_of_the_run_s_tasks(tmp_path):
    cards = {"upos": {"title": "Part of speech"}}
    (tmp_path / "config.json").write_text(json.dumps({"kind": "probe", "cards": cards}))
    told = {"quantity": "accuracy", "n": 9, "task": "upos", "encoder": "e", "value": 0.5}
    scores = Scores(Score(**told, layer=k, details={"part": "test"}) for k in (0, 1))
    scores.save(tmp_path / "scores.jsonl")
    (axes,) = Run(tmp_path).figure("upos").axes
    assert axes.get_title(loc="left") == "Part of speech, n = 9"
    assert scores.figure("upos").axes[0].get_title(loc="left") == "upos, n = 9"


@pytest.mark.parametrize(
    ("tasks", "argument"), [(("retrieval",), "tasks"), (("language_id",), "tasks")]
)
def test_a_figure_of_what_was_not_measured_by_layer_is_refused(folder, tasks, argument):
    with pytest.raises(InputError, match=f"^{argument}: expected some of"):
        Run(folder).figure(*tasks)
    with pytest.raises(InputError, match="^scores"):
        SCORES[-1:].figure()


def test_what_is_no_run_or_has_nothing_of_the_kind_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="^folder: expected a folder"):
        Run(tmp_path / "none")
    with pytest.raises(InputError, match="^model"):
        _ = Run(folder).model
    with pytest.raises(InputError, match=r"outcomes\.parquet"):
        Run(folder).outcomes()
    (folder / "scores.jsonl").unlink()
    assert "no scores" in repr(Run(folder))
    with pytest.raises(StoreError):
        _ = Run(folder).scores


def test_outcomes_of_a_run_become_data_frames(folder):
    names = item_ids([("a dog", 1), ("a king", 2)])
    write_outcomes(
        [
            Outcomes(
                task="t",
                quantity="accuracy",
                layer=2,
                encoder="e",
                item=np.arange(2),
                item_id=names,
                group=names,
                outcome=np.array([1.0, 0.0]),
            )
        ],
        folder / "outcomes.parquet",
    )
    (one,) = Run(folder).outcomes(task="t")
    assert repr(one) == "Outcomes(t, e, layer 2: accuracy of 2 items, mean 0.500)"
    frame = one.to_pandas()
    assert (
        frame["outcome"].tolist() == [1, 0]
        and frame["item_id"].tolist() == names.tolist()
        and frame["gold"].isna().all()
    )


def test_a_score_says_what_it_is_in_one_line():
    both = Score(
        quantity="linear_cka",
        value=0.51234,
        n=1000,
        layer=1,
        other_layer=2,
        source="eng",
        target="fra",
        task="similarity",
    )
    assert repr(both) == "Score(linear_cka 0.512, n 1,000, layer 1 and 2, eng → fra, similarity)"
    assert repr(ROWS[-1]) == "Score(accuracy nan, n 0, language_id)"
