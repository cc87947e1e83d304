"""Runs of transfer on one page: on the items that all of them have, however many each was given."""

import json

import numpy as np
import pytest
from pages import Page

from crosslens.errors import InputError
from crosslens.outcomes import FILE, Outcomes, write_outcomes
from crosslens.report.folders.transfer import load_transfer
from crosslens.report.folders.transfers import contests
from crosslens.report.pages.page import render_report, write_comparison
from crosslens.report.sections.transfer_compared import compared_sentence, compared_table
from crosslens.score import Score, read_scores, write_scores
from crosslens.seed_intervals import seeds_difference, seeds_share

N = 60


def answers(rate, seed, n=N, start=0, seed_of=None, **fields):
    """Of n items of fifteen documents, the share that is right; ``seed_of`` the training's, where
    that is another one than that of the answers."""
    ids = np.array([f"item {i:02}" for i in range(start, start + n)])
    right = np.random.default_rng(seed).random(len(ids)) < rate
    groups = np.array([f"document {i % 15:02}" for i in range(start, start + n)])
    told = {
        "task": "topic",
        "quantity": "accuracy",
        "suite": "dev",
        "part": "test",
        "source": "eng",
    }
    given = {"item": np.arange(len(ids)), "item_id": ids, "group": groups}
    told = {"representation": "setting 0, freeze -1", "encoder": "tiny", "target": "deu", **told}
    return Outcomes(
        **given,
        outcome=right.astype(float),
        seed=seed if seed_of is None else seed_of,
        **{**told, **fields},
    )


def run_folder(folder, measured, seeds=2):
    folder.mkdir()
    settings = {"train": ["eng"], "encoders": {"tiny": "x"}, "seeds": seeds}
    config = {"kind": "transfer", "settings": settings, "cards": {"topic": {"title": "Topic"}}}
    (folder / "config.json").write_text(json.dumps(config))
    systems = dict.fromkeys((one.target, one.representation) for one in measured)
    freeze = {where: int(where.rpartition(" ")[2]) for _, where in systems}
    write_scores(
        [
            Score(quantity="accuracy", value=0.5, n=N, task="topic", encoder="tiny", source="eng",
                  target=target, details={"part": "test", "setting": int(where.split(",")[0][-1]),
                                          **({} if freeze[where] < 0 else {"freeze": freeze[where]})})
            for target, where in systems
        ],
        folder / "scores.jsonl",
    )  # fmt: skip
    write_outcomes(measured, folder / FILE)
    return folder


def share(*measured, items):
    """Sums by document, one item after another."""
    found, of = (np.zeros((len(measured), 15)) for _ in range(2))
    for row, one in enumerate(measured):
        for name, group, outcome in zip(one.item_id, one.group, one.outcome, strict=True):
            if name in items:
                found[row, int(group[-2:])] += outcome
                of[row, int(group[-2:])] += 1
    return found, of


def test_systems_are_compared_on_the_items_that_all_have(tmp_path):
    mine, theirs = ([answers(0.8, s) for s in (0, 1)], [answers(0.3, s, start=10) for s in (2, 3)])
    turned = [
        Outcomes(**{**vars(one), **{k: getattr(one, k)[::-1] for k in ("item_id", "group", "outcome")}})
        for one in theirs
    ]  # fmt: skip
    first, second = run_folder(tmp_path / "a", mine), run_folder(tmp_path / "b", turned, seeds=5)
    (one,) = contests([load_transfer(first), load_transfer(second)])
    items = {f"item {i:02}" for i in range(10, N)}
    assert (one.task, one.target, one.left_out, list(one.scores)) == (
        "topic",
        "deu",
        20,
        ["a", "b"],
    )
    sides = {"a": share(*mine, items=items), "b": share(*theirs, items=items)}
    for name, side in sides.items():
        score = one.scores[name]
        assert (score.value, score.low, score.high) == pytest.approx(seeds_share(*side))
        assert score.n == 50
    less = one.less["b"]
    expected = seeds_difference(sides["b"], sides["a"])
    assert (less.value, less.low, less.high) == pytest.approx(expected) and list(one.less) == ["b"]

    page = Page(write_comparison([first, second], tmp_path / "both.html").read_text())
    assert "b below in 1 of 1" in page.text and "20 items in German" in page.text
    assert "seeds is 2 in a and 5 in b" in page.text
    assert f"{less.value:.3f}".replace("-", "−") in page.text


def test_a_run_s_own_page_compares_its_numbers_of_frozen_layers_on_the_setting_that_was_chosen(
    tmp_path,
):
    measured = [
        answers(rate, seed, representation=f"setting {setting}, freeze {freeze}")
        for freeze, setting, rate in ((-1, 1, 0.9), (3, 0, 0.5))
        for seed in (0, 1)
    ]
    others = [answers(0.1, 5, representation="setting 2, freeze 3", suite="last")]
    folder = run_folder(tmp_path / "run", measured)
    write_outcomes([*others, *measured], folder / FILE)
    (one,) = contests([load_transfer(folder)])
    assert list(one.scores) == ["nothing frozen", "frozen to layer 3"] and one.left_out == 0
    found = share(*measured[2:], items=set(measured[0].item_id))
    assert one.scores["frozen to layer 3"].value == pytest.approx(seeds_share(*found)[0])
    page = Page(render_report(folder))
    assert "Systems on the same items" in page.text and "Less nothing frozen" in page.text


def test_differences_are_to_the_system_that_the_head_names(tmp_path):
    """The first run was tested in German alone; French has a difference of the others, and none
    to it."""
    folders = []
    for name, rate, targets in (
        ("a", 0.2, ["deu"]),
        ("b", 0.5, ["deu", "fra"]),
        ("c", 0.9, ["deu", "fra"]),
    ):
        measured = [answers(rate, seed, target=t) for t in targets for seed in (0, 1)]
        folders.append(run_folder(tmp_path / name, measured))
    found = contests([load_transfer(folder) for folder in folders])
    assert [one.target for one in found] == ["deu", "fra"] and list(found[1].less) == ["c"]
    french = compared_table(found).partition("French, ")[2]
    assert french.count("<span>–</span>") == 2  # of b and of c
    sentence, less = compared_sentence(found, "Topic"), found[0].less["c"].value
    assert f"c</bdi> above in 1 of 1 ({less:.3f})" in sentence


def test_of_two_settings_that_were_taken_systems_are_compared_by_their_mean(tmp_path):
    measured = [
        answers(
            rate,
            10 * setting + seed,
            representation=f"setting {setting}, freeze {freeze}",
            seed_of=seed,
        )
        for freeze in (-1, 2)
        for setting, rate in ((0, 0.9), (1, 0.1), (2, 0.6))
        for seed in (0, 1)
    ]
    folder = run_folder(tmp_path / "run", measured)
    scores = [s for s in read_scores(folder / "scores.jsonl") if s.details["setting"] == 2]
    dev = [
        Score(quantity="accuracy", value=0.6, n=N, task="topic", encoder="tiny", source="eng", seed=0,
              details={"part": "dev", "setting": 2, "chosen": [2, 0], **({} if freeze < 0 else {"freeze": freeze})})
        for freeze in (-1, 2)
    ]  # fmt: skip
    write_scores([*scores, *dev], folder / "scores.jsonl")
    (found,) = contests([load_transfer(folder)])
    for name, freeze in zip(found.scores, (-1, 2), strict=True):
        mine = [one.mean for one in measured
                if one.representation in (f"setting {n}, freeze {freeze}" for n in (0, 2))]  # fmt: skip
        assert found.scores[name].value == pytest.approx(np.mean(mine))


def test_a_language_with_signs_in_its_name_is_escaped_once(tmp_path):
    runs = [
        run_folder(tmp_path / name, [answers(0.5, seed, start=start, target="a & <b>")])
        for name, seed, start in (("one", 0, 0), ("two", 1, 10))
    ]
    page = write_comparison(runs, tmp_path / "page.html").read_text()
    assert "a &amp; &lt;b&gt;" in page and "&amp;amp;" not in page and "&amp;lt;" not in page


def test_what_cannot_be_compared_is_refused(tmp_path):
    first = run_folder(tmp_path / "a", [answers(0.5, 0)])
    other = run_folder(tmp_path / "b", [answers(0.5, 0, target="fra")])
    apart = run_folder(tmp_path / "c", [answers(0.5, 0, start=N)])
    for second in (other, apart):
        with pytest.raises(InputError, match="share a task, a language and test items"):
            write_comparison([first, second], tmp_path / "page.html")
    with pytest.raises(InputError, match="report: expected each folder once"):
        write_comparison([first, first], tmp_path / "page.html")
    (apart / "config.json").write_text('{"kind": "study"}')
    with pytest.raises(InputError, match=r"/c: expected a finished run of crosslens transfer"):
        write_comparison([first, apart], tmp_path / "page.html")
    (other / "scores.jsonl").unlink()
    with pytest.raises(InputError, match="a finished run of crosslens transfer"):
        write_comparison([first, other], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_names_that_nobody_found_are_no_share_of_anything(tmp_path):
    nothing = [answers(0.0, s, of=np.zeros(N)) for s in (0, 1)]
    runs = [load_transfer(run_folder(tmp_path / name, nothing)) for name in "ab"]
    assert contests(runs) == []
