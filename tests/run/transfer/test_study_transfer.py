"""Transfer of a controlled study's models: what each condition has zero-shot, trained on the copy and
of the original alone, beside the same runs asked for one by one."""

import dataclasses
import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from battery_data import write
from controlled_toy import SMALL, sentences
from scipy.stats import pearsonr, spearmanr
from test_transfer import ner_lines

from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.front.calls import train
from crosslens.front.study_transferred import study_transfer
from crosslens.models.saved.derived_languages import derived_languages
from crosslens.models.training.settings import recipe_settings, resolve
from crosslens.outcomes import read_outcomes, sums_by_group, write_outcomes
from crosslens.readers.published import claims
from crosslens.recipes.controlled import controlled_study
from crosslens.report import write_report
from crosslens.report.folders.study_transfer import (
    StudyTransferFolder,
    load_study_transfer,
    printed_head,
    printed_less,
    summary,
)
from crosslens.run.transfer import study_transfer as run_module
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.shortfall import unread_told
from crosslens.run.transfer.study_means import Answered, _warnings, study_means
from crosslens.run.transfer.study_models import StudyModels, study_models
from crosslens.run.transfer.study_transfer import StudyTransfer, monolingual_recipe
from crosslens.run.transfer.transfer import run_transfer
from crosslens.score import Score, read_scores, write_scores
from crosslens.seed_intervals import seeds_contrast, seeds_difference, seeds_share

TINY = {"epochs": 2, "batch_size": 8, "peak_rate": 1e-2, "head_rate": 1e-2}
NAMES = ("transliteration", "transliteration-inversion")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "ner").mkdir()
    for split, n, start in (("train", 12, 0), ("dev", 4, 12), ("test", 8, 16)):
        write(folder / "ner" / f"en_ewt-ud-{split}.iob2", list(ner_lines(n, start)))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory, few_kept):
    """Two conditions, two seeds. Not to be written to."""
    place = tmp_path_factory.mktemp("study")
    (place / "eng.txt").write_text("".join(f"{line}\n" for line in sentences(400)))
    settings = {**SMALL, "data": str(place / "eng.txt")}
    named = "eng-translit,translit+inversion"
    return train(named, place / "run", seeds=2, settings=settings).folder


@pytest.fixture(scope="module")
def finished(study, data, tmp_path_factory):
    """A finished run. Not to be written to."""
    out = tmp_path_factory.mktemp("transfer") / "run"
    run = study_transfer(study, "ner", data, out, monolingual=True, **TINY)
    return run.folder


def one(folder, **wanted):
    """The score of names, as the run is judged by, that has these fields."""
    found = [
        score
        for score in read_scores(folder / "scores.jsonl")
        if score.details.get("counted_as") == "strict"
        and all(getattr(score, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1
    return found[0]


def test_each_training_has_what_a_run_of_its_own_gives(study, data, finished, tmp_path):
    told = Transfer(
        encoders=[str(study / NAMES[1] / "seed-1" / "model")],
        tasks=["ner"],
        data=str(data),
        train=["eng"],
        test=["eng", "eng-x"],
        seeds=1,
        in_language=True,
        random_control=False,
        checkpoints=False,
        **TINY,
    )
    own = run_transfer(told, tmp_path / "own")
    for condition in (None, "in_language"):
        wanted = {"condition": condition, "target": "eng-x", "quantity": "span_f1"}
        theirs = one(own, **wanted)
        assert one(finished, **wanted, encoder=NAMES[1], seed=1).value == theirs.value
    wanted = {"condition": "zero_shot_less_in_language", "quantity": "span_f1_difference"}
    ours = one(finished, **wanted, encoder=NAMES[1], seed=1)
    assert (ours.value, ours.low) == (one(own, **wanted).value, one(own, **wanted).low)


def test_an_encoder_of_the_original_alone_reads_each_copy(study, data, finished, tmp_path):
    own = finished / "monolingual" / "seed-0"
    recipe = json.loads((own / "config.json").read_text())["settings"]
    theirs = json.loads((study / NAMES[0] / "seed-0" / "config.json").read_text())["settings"]
    assert [list(one["texts"]) for one in recipe["sources"]] == [["eng"]]
    assert "derived" not in recipe
    for name in ("steps", "seed", "encoder", "optimisation", "batch_tokens"):
        assert recipe[name] == theirs[name]
    how = str(derived_languages(study / NAMES[1] / "seed-0" / "model")["eng-x"])
    told = Transfer(
        encoders=[str(own / "model")],
        tasks=["ner"],
        data=str(data),
        train=["eng"],
        test=["eng", "eng-x"],
        derived={"eng-x": how},
        seeds=1,
        random_control=False,
        checkpoints=False,
        **TINY,
    )
    alone = run_transfer(told, tmp_path / "own")
    for target in ("eng", "eng-x"):
        wanted = {"target": target, "quantity": "span_f1"}
        theirs = one(alone, condition=None, **wanted).value
        ours = one(finished, condition="monolingual", encoder=NAMES[1], seed=0, **wanted)
        assert ours.value == theirs


def answers(finished, name, seed, condition=None, target="eng-x"):
    """What one training answered to each item, as names are counted here."""
    place = finished / "transfers" / name / f"seed-{seed}"
    (found,) = read_outcomes(
        place, condition=condition, quantity="span_f1", method="strict", target=target, suite="dev"
    )
    return found


def test_means_are_over_trainings_and_items(finished):
    wanted = {"target": "eng-x", "quantity": "span_f1", "encoder": NAMES[0]}
    counts = {}
    for condition in (None, "in_language"):
        sides = [answers(finished, NAMES[0], seed, condition) for seed in (0, 1)]
        counts[condition] = sums_by_group(sides)
        mean, low, high = seeds_share(*counts[condition])
        found = one(finished, **wanted, condition=condition, seed=None)
        assert (found.value, found.low, found.high) == pytest.approx((mean, low, high))
        values = [one(finished, **wanted, condition=condition, seed=s).value for s in (0, 1)]
        assert found.value == pytest.approx(np.mean(values))
        assert found.details["over_seeds"] == {"seeds": [0, 1], "values": pytest.approx(values)}
    less = one(finished, encoder=NAMES[0], condition="zero_shot_less_in_language", seed=None)
    paired = seeds_contrast([(1.0, *counts[None]), (-1.0, *counts["in_language"])])
    assert (less.value, less.low, less.high) == pytest.approx(paired)
    alone = one(finished, encoder=NAMES[0], condition="monolingual_less_in_language", seed=None)
    sides = [
        one(finished, **wanted, condition=condition, seed=None).value
        for condition in ("monolingual", "in_language")
    ]
    assert alone.value == pytest.approx(sides[0] - sides[1])
    common = one(finished, **wanted, condition="majority", seed=None)
    assert common.value == one(finished, **wanted, condition="majority", seed=1).value


def test_what_trainings_lack_is_told_of_each_condition(finished):
    notes = load_study_transfer(finished).notes("ner")
    (zero,) = [note for note in notes if note.startswith("zero-shot (")]
    assert f"zero-shot ({NAMES[0]}, and 1 further condition): seed" in zero
    assert "learnt nothing" in zero or "updates are few" in zero
    assert any(note.startswith("original alone (") for note in notes)
    assert all(note in summary(finished) for note in notes)
    page = write_report(finished).read_text()
    assert "updates are few" in page and "BZ − BS, points" in page
    less = one(finished, encoder=NAMES[0], condition="zero_shot_less_in_language", seed=None)
    assert f"{100 * less.value:+.1f} [".replace("-", "−") in page  # in points, as the paper's


def test_warnings_name_what_the_study_names_and_each_sentence_once(tmp_path):
    """An encoder of the original alone tests copies of several conditions, and a language that no
    model is trained in; of a grid what is told is of the setting that was taken."""
    runs = []
    for name, code, seeds in (("a", "eng-x-1", (0, 1)), ("b", "eng-x-2", (0, 1))):
        for seed in seeds:
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir()
            unread = {"eng": 0.1, "eng-x-1": 0.2, "eng-x-2": 0.3}
            told = {"part": "dev", "setting": 1, "chosen": [1], "updates": 900, "unread": unread}
            told["warnings"] = ["few", unread_told(unread, "words")]
            other = {"part": "dev", "setting": 0, "chosen": [1], "updates": 9}
            write_scores(
                [
                    Score(quantity="accuracy", value=0.5, n=9, task="t", encoder="e", source="eng",
                          target="eng", seed=0, details=details)
                    for details in (other, told)
                ],
                folder / "scores.jsonl",
            )  # fmt: skip
            why = {"t": {code: {"not_trained": "no items"}}}
            (folder / "config.json").write_text(json.dumps({"in_language": why}))
            called = {"eng": "eng", code: "eng-x"}
            runs.append(Answered(name, seed, folder, called, alone=True))
    share = {"a": 20, "b": 30}
    for (task, name, control), said in _warnings(runs).items():
        assert (task, control) == ("t", "monolingual") and said == [
            "seeds 0, 1: few",
            f"seeds 0, 1: of eng 10.0, of eng-x {share[name]}.0 per cent of the words are not read: "
            "they stand behind the longest input, or have no subword",
            "seeds 0, 1: not fine-tuned on eng-x (no items)",
        ]


def test_data_may_call_a_language_otherwise_than_the_study(finished, tmp_path):
    """The data of "zho" are called "cmn"; an encoder of the original alone has copies by code only."""
    run = Answered("default", 0, tmp_path, {"eng": "eng", "zho": "zho"})
    assert [run.code(one) for one in ("eng", "zho", "cmn", "zh_Hans", "yue")] == [
        *("eng", "zho", "zho", "zho"),
        None,
    ]
    alone = Answered("default", 0, tmp_path, {"eng": "eng", "eng-x-2": "eng-x"}, alone=True)
    assert (alone.code("eng-x-2"), alone.code("eng-x-1"), alone.code("en")) == ("eng-x", None, None)

    # the same answers, under another code of the copy
    told, codes = finished / "transfers", {"eng": "eng", "eng-x": "zho"}
    runs, others = [], []
    for name in NAMES:
        for seed in (0, 1):
            folder = told / name / f"seed-{seed}"
            copy = tmp_path / name / f"seed-{seed}"
            shutil.copytree(folder, copy)
            for file in ("scores.jsonl", "config.json"):
                there = (copy / file).read_text()
                (copy / file).write_text(there.replace('"eng-x"', '"cmn"'))
            renamed = [
                dataclasses.replace(
                    one, **{k: "cmn" for k in ("source", "target") if getattr(one, k) == "eng-x"}
                )
                for one in read_outcomes(copy)
            ]
            write_outcomes(renamed, copy / "outcomes.parquet")
            runs.append(Answered(name, seed, folder, codes))
            others.append(Answered(name, seed, copy, {"eng": "eng", "zho": "zho"}))
    expected = study_means(runs, ("eng", "zho"), "conneau", ())
    assert {score.target for score in expected} == {"eng", "zho"}
    assert study_means(others, ("eng", "zho"), "conneau", ()) == expected


def test_two_conditions_have_no_correlation_and_say_why(finished):
    scores = [
        s
        for s in read_scores(finished / "scores.jsonl")
        if (s.quantity, s.condition) == ("spearman", "token_alignment")
    ]
    assert [(s.n, s.evidence.over) for s in scores] == [(2, "conditions"), (4, "trainings")]
    assert np.isnan(scores[0].value) and "4" in scores[0].details["reason"]
    points = scores[1].evidence.points
    assert list(points) == [f"{name}, seed {seed}" for seed in (0, 1) for name in NAMES]
    for name, seed in ((NAMES[0], 0), (NAMES[1], 1)):
        wanted = {"condition": "zero_shot_less_in_language", "quantity": "span_f1_difference"}
        ours = one(finished, **wanted, encoder=name, seed=seed)
        assert points[f"{name}, seed {seed}"][1] == ours.value


def test_a_stopped_run_goes_on_to_the_same_scores(study, data, finished, tmp_path, monkeypatch):
    """What the study, which is under way, measures meanwhile is read at the end."""
    measured, out = [], tmp_path / "run"
    study = Path(shutil.copytree(study, tmp_path / "study"))
    scores = (study / "scores.jsonl").read_text()
    early = [line for line in scores.splitlines() if "token_alignment" not in line]
    (study / "scores.jsonl").write_text("".join(f"{line}\n" for line in early))
    measure = run_module._training

    def stop(*given):
        measured.append(given[2:4])
        if len(measured) == 2:
            raise KeyboardInterrupt
        return measure(*given)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "_training", stop)
        with pytest.raises(KeyboardInterrupt):
            study_transfer(study, "ner", data, out, **TINY)
    assert not (out / "scores.jsonl").exists()
    (study / "scores.jsonl").write_text(scores)
    study_transfer(study, "ner", data, out, **TINY)
    noted = [json.loads((one / "config.json").read_text())["study"] for one in (out, finished)]
    assert noted[0]["alignment"] == noted[1]["alignment"] != {}
    ours, theirs = (
        [s.as_json() for s in read_scores(place / "scores.jsonl")
         if "monolingual" not in str(s.condition)]
        for place in (out, finished)
    )  # fmt: skip
    assert ours == theirs


def test_tables_and_page_have_a_row_for_each_condition(finished, capsys):
    title, rows = summary(finished)[:2]
    assert title.startswith("ner: F1")
    assert [row[0] for row in rows[1:]] == list(NAMES) and rows[1][1] == "2"
    assert not load_study_transfer(finished).orders("ner")  # a study of conditions by name has none
    assert rows[0][2:5] == ("zero-shot", "trained on it", "original alone")
    columns = {
        "zero-shot": {"condition": None, "target": "eng-x"},
        "trained on it": {"condition": "in_language", "target": "eng-x"},
        "in the original": {"condition": None, "target": "eng"},
        "most frequent": {"condition": "majority", "target": "eng-x"},
    }
    for column, wanted in columns.items():
        mean = one(finished, encoder=NAMES[0], seed=None, **wanted)
        assert re.split(" |$", rows[1][rows[0].index(column)])[0] == f"{100 * mean.value:.1f}"
    assert rows[1][-1] == "-2.1 or -2.3"  # of English names, Tables 5 and 7
    page = write_report(finished).read_text()
    assert "Zero-shot transfer in" in page and "condition by condition" in page
    assert 'aria-label="ner by condition: transliteration' in page
    assert main(["cite", str(finished)]) == 0
    assert "deshpande2022when" in capsys.readouterr().out


def test_over_conditions_the_loss_is_held_against_alignment(finished, tmp_path):
    """Six conditions as Deshpande et al.'s Table 7 has them: their Spearman of parts of speech."""
    from crosslens.run.transfer.study_transfer import _correlations

    less = {"a": -2.3, "b": -14.2, "c": -4.1, "d": -14.3, "e": -51.5, "f": -46.3}
    aligned = {"a": 90.0, "b": 57.3, "c": 43.0, "d": 11.8, "e": 0.16, "f": 0.01}
    scores = [
        Score(quantity="span_f1_difference", value=value / 100, n=9, encoder=name, task="ner",
              condition="zero_shot_less_in_language", source="eng", target="eng-x")
        for name, value in less.items()
    ]  # fmt: skip
    recipe = next(iter(study_models(finished_study(finished)).recipes.values()))
    own = [
        Score(quantity="token_alignment", value=value / 100, n=9, encoder=name, seed=0,
              condition="unaligned")
        for name, value in aligned.items()
    ]  # fmt: skip
    study = StudyModels(tmp_path, {}, {"a": recipe}, [], [0], own)
    rank, _ = _correlations(study, scores)
    assert round(rank.value, 3) == 0.886 and rank.n == 6  # recomputed from the printed rows
    order = dict(zip(less, (1.0, 0.6, 0.6, 0.2, 0.0, 0.0), strict=True))
    own += [
        Score(quantity="contexts_kept", value=value, n=9, encoder=name, seed=0)
        for name, value in order.items()
    ]
    study = dataclasses.replace(study, scores=own)
    found = list(_correlations(study, scores))
    assert [s.condition for s in found] == ["token_alignment"] * 2 + ["contexts_kept"] * 2
    expected = spearmanr([*order.values()], [*less.values()]).statistic
    assert found[2].quantity == "spearman" and found[2].value == pytest.approx(expected)
    assert found[2].details["points"]["b"] == [0.6, pytest.approx(-0.142)]
    told = dataclasses.replace(load_study_transfer(finished), scores=found).with_alignment("ner")
    assert all("[" not in text for text in told)  # of fewer than eight there is no interval
    assert [text.partition(" goes")[0] for text in told] == [
        "Over 6 conditions, P@1 of subwords",
        "Over 6 conditions, the share of contexts that a copy keeps",
    ]


def test_what_a_copy_keeps_is_read_of_the_study(study):
    measured = study_models(study).measured
    scores = list(read_scores(study / "scores.jsonl"))
    for measure in ("neighbours_kept", "contexts_kept"):
        there = {s.encoder: s.value for s in scores if (s.quantity, s.seed) == (measure, None)}
        means = {name: x for (name, seed), x in measured[measure].items() if seed is None}
        assert there and means == pytest.approx(there)


def finished_study(run):
    return Path(json.loads((run / "config.json").read_text())["asked"]["study"])


def test_orders_are_differences_of_what_is_lost(finished, tmp_path):
    called = {"eng": "eng", "eng-x": "eng-x"}
    runs = [
        Answered(name, seed, finished / "transfers" / name / f"seed-{seed}", called)
        for name in NAMES
        for seed in (0, 1)
    ]
    order = [[NAMES[0]], ["not measured"], [NAMES[1]]]
    sides = {
        (name, condition): sums_by_group([answers(finished, name, s, condition) for s in (0, 1)])
        for name in NAMES
        for condition in (None, "in_language")
    }
    for paper, wanted in (
        (
            "deshpande",
            seeds_contrast(
                *(
                    [(sign, *sides[name, None]), (-sign, *sides[name, "in_language"])]
                    for sign, name in zip((1.0, -1.0), NAMES, strict=True)
                )
            ),
        ),
        ("conneau", seeds_difference(sides[NAMES[0], None], sides[NAMES[1], None])),
    ):
        claimed = claims(order, {}, NAMES[0], NAMES)
        scores = study_means(runs, ("eng", "eng-x"), paper, claimed)
        (found,) = [s for s in scores if s.condition == "conditions"]
        assert found.encoder == f"{NAMES[0]} / {NAMES[1]}"
        assert (found.value, found.low, found.high) == pytest.approx(wanted)
    config = json.loads((finished / "config.json").read_text())
    config["study"] |= {"order": order, "control": NAMES[0], "left_out": ["syntax"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    kept = list(read_scores(finished / "scores.jsonl"))
    clear = dataclasses.replace(found, value=0.3, low=0.2, high=0.4)
    for worse, told in (
        (kept, "found"),
        (spoilt(kept), f"undecided: {NAMES[1]} is not clearly above the most frequent label"),
    ):
        write_scores([*worse, clear], tmp_path / "scores.jsonl")
        run = load_study_transfer(tmp_path)
        assert run.names == list(NAMES)
        assert run.orders("ner") == [(" > ".join(NAMES), "+30.0 [+20.0, +40.0]", told)]
        parts = summary(tmp_path)
        assert any("the paper's order" in row[0] for part in parts[1:] for row in part[:1])
        notes = run.notes("ner")
        assert notes[0].startswith(f"The positive control, {NAMES[0]}, has ")
        assert notes[-2].startswith("syntax is left out") and notes[-2] in parts
        assert "an interval over few of them is too narrow." in notes[-1] and notes[-1] in parts
        assert any("says nothing" in note for note in notes) == (told != "found")
        page = write_report(tmp_path).read_text()
        assert told in page
        counted = f"1 {told.partition(':')[0]} of 1 comparisons of the paper&#x27;s order."
        assert f"<strong>ner</strong>: by zero-shot less in-language, {counted}" in page
    once = [s for s in kept if (s.encoder, s.seed) != (NAMES[1], 1)]
    both = dataclasses.replace(clear, encoder=f"{NAMES[0]} - {NAMES[1]} / {NAMES[0]}")
    write_scores([*once, clear, both], tmp_path / "scores.jsonl")
    told = {row[2] for row in load_study_transfer(tmp_path).orders("ner")}
    assert told == {f"undecided: {NAMES[1]} has one training"}


def spoilt(scores):
    """The second condition no better on the copy than the most frequent label."""
    return [
        dataclasses.replace(s, value=0.0, low=0.0, high=0.1)
        if (s.encoder, s.condition, s.seed) == (NAMES[1], "in_language", None)
        else s
        for s in scores
    ]


def test_the_papers_numbers_are_those_of_the_task():
    told = {"paper": "deshpande", "published": {"x": "transliteration and inversion"}}
    assert printed_less(told, "x", "upos", "eng-x") == "-42.7"
    assert printed_less(told, "y", "upos", "eng-x") == ""
    told = {"paper": "conneau", "published": {"x": "Sep Emb"}}
    assert printed_less(told, "x", "ner", "deu") == "-4.1"
    assert printed_less(told, "x", "upos", "deu") == ""
    head = "Conneau et al. 2020: less Default, mean of 3"
    assert printed_head(told, "ner", "span_f1", "deu") == head
    told["published"]["default"] = "Default"  # of French there are numbers of its own
    assert printed_less(told, "x", "ner", "fra") == "-4.3"  # 75.5 less 79.8
    head = "Conneau et al. 2020: less Default, French"
    assert printed_head(told, "ner", "span_f1", "fra") == head
    assert printed_less(told, "x", "ner", "fr") == "-4.3"  # by whichever code
    assert printed_head(told, "ner", "span_f1", "fr") == head
    found = [printed_less(told, "x", "parsing", code) for code in ("cmn", "zho", "zh")]
    assert found == ["-1.3"] * 3
    told["published"]["default"] = "No anchors"  # as on a copy
    assert printed_less(told, "x", "ner", "eng-x") == "-1.7"
    assert printed_less(told, "default", "ner", "eng-x") == "0"
    assert "less No anchors" in printed_head(told, "ner", "span_f1", "eng-x")
    told = {"paper": "deshpande", "published": {"x": "transliteration and inversion"}}
    head = printed_head(told, "upos", "accuracy", "eng-x")  # theirs are F1
    assert head == "Deshpande et al. 2022: BZ - BS, F1 as XTREME counts it"


def natural(finished, folder, other="fra", **settings):
    """The run as if its second language were no copy, and its paper Conneau et al.; its folder."""
    folder.mkdir()
    config = json.loads((finished / "config.json").read_text())
    config["study"] |= {"paper": "conneau", "control": NAMES[0], "order": [[one] for one in NAMES]}
    config["settings"] |= settings
    (folder / "config.json").write_text(json.dumps(config))
    lines = (finished / "scores.jsonl").read_text().replace('"eng-x"', f'"{other}"')
    (folder / "scores.jsonl").write_text(lines)
    return folder


def test_another_language_is_no_copy(finished, tmp_path):
    folder = natural(finished, tmp_path / "run")
    page = html.unescape(write_report(folder).read_text())
    assert "copy" not in page.partition("How it was made")[0]
    assert (
        f"Zero-shot transfer in {load_study_transfer(folder).told['name']}: English–French" in page
    )
    assert "What French has of ner." in page and "English, and French" in page
    assert "zero-shot less trained on French is, in points" in page
    assert "The positive control, transliteration, has" in page and "trained on French" in page


def test_zero_shot_is_compared_however_it_is_when_trained_on(finished, tmp_path):
    """What Conneau et al. compare needs no in-language score; a mean that is not above the most frequent
    label says so."""
    folder = natural(finished, tmp_path / "run")
    scores = spoilt(list(read_scores(folder / "scores.jsonl")))
    clear = Score(quantity="span_f1_difference", value=0.3, low=0.2, high=0.4, n=8, task="ner",
                  encoder=" / ".join(NAMES), condition="conditions", source="eng", target="fra",
                  details={"part": "test", "counted_as": "strict"})  # fmt: skip
    low = {NAMES[0]: (0.5, 0.4, 0.6), NAMES[1]: (0.02, 0.0, 0.1)}
    scores = [
        dataclasses.replace(s, **dict(zip(("value", "low", "high"), low[s.encoder], strict=True)))
        if (s.condition, s.target, s.seed) == (None, "fra", None)
        else dataclasses.replace(s, value=0.05)
        if (s.condition, s.target, s.seed) == ("majority", "fra", None)
        else s
        for s in scores
    ]
    write_scores([*scores, clear], folder / "scores.jsonl")
    run = load_study_transfer(folder)
    assert run.orders("ner") == [(" > ".join(NAMES), "+30.0 [+20.0, +40.0]", "found")]
    assert run.ordered_by == "the paper's order, by its mean of XNLI"
    (note,) = [one for one in run.notes("ner") if one.startswith("Zero-shot, ")]
    assert note == (
        f"Zero-shot, {NAMES[1]} is not clearly above the most frequent label: its place among the "
        "others may be chance."
    )
    other = dataclasses.replace(clear, encoder=" / ".join(NAMES[::-1]))
    write_scores([*scores, clear, other], folder / "scores.jsonl")
    assert any(part.startswith("2 comparisons, ") for part in summary(folder) if part[0] == "2")


def test_a_picture_of_single_trainings_says_so(finished):
    page = write_report(finished).read_text()
    assert ">single trainings<" in page and "means over trainings, tested on the copy" in page
    points, over = load_study_transfer(finished).with_alignment_points("ner")
    assert over == "trainings" and len(points) == 4


def test_studies_without_alignment_are_not_counted_and_settings_are_compared(
    finished, tmp_path, capsys
):
    folders = []
    for place in range(2):
        folder = natural(finished, tmp_path / f"copy-{place}", "eng-x")
        config = json.loads((folder / "config.json").read_text())
        config["study"]["alignment"] = {name: 0.3 + 0.1 * n + 0.05 * place
                                        for n, name in enumerate(NAMES)}  # fmt: skip
        (folder / "config.json").write_text(json.dumps(config))
        scores = [
            dataclasses.replace(s, value=-0.1 * len(s.encoder) / 10 - 0.01 * place)
            if (s.condition, s.seed) == ("zero_shot_less_in_language", None)
            else s
            for s in read_scores(folder / "scores.jsonl")
        ]
        write_scores(scores, folder / "scores.jsonl")
        folders.append(str(folder))
    other = natural(finished, tmp_path / "pair", limit=7)
    config = json.loads((other / "config.json").read_text())
    config["study"]["alignment"] = {}
    (other / "config.json").write_text(json.dumps(config))
    out = tmp_path / "page.html"
    assert main(["report", *folders, str(other), "--out", str(out)]) == 0
    page = html.unescape(out.read_text())
    assert "over 4 conditions of 2 studies (too few for an interval) P@1 of subwords" in page
    assert "The runs differ in their settings: limit is" in page and "7 in pair" in page
    assert "copy-0, copy-1 and pair: Where some trainings" in page  # once for all
    assert "encoders is" not in page and "test is" not in page
    assert "inversion" in page and ", per cent" in page and "Token alignment" not in page
    assert "pair</bdi> (English–French)" in out.read_text()


@pytest.mark.slow  # a second run of all trainings, of which random rows of one are tested elsewhere
def test_random_rows_for_the_copy_are_another_run(study, data, tmp_path):
    """An encoder of the original alone that gets new rows for the subwords of its copy."""
    told = {"monolingual": True, "random_control": False, **TINY}
    random = study_transfer(study, "ner", data, tmp_path / "run", unseen="random", **told)
    wanted = {"condition": "monolingual", "quantity": "span_f1", "encoder": NAMES[0], "seed": 0}
    assert one(random.folder, **wanted, target="eng-x").n > 0
    with pytest.raises(OutputError, match="unseen"):
        study_transfer(study, "ner", data, tmp_path / "run", **told)


def test_a_condition_may_be_called_as_a_control_is(study, tmp_path):
    read = study_models(study)
    recipes = {"monolingual": read.recipes[NAMES[0]], NAMES[1]: read.recipes[NAMES[1]]}
    read = dataclasses.replace(read, recipes=recipes)  # conneau-sharing has one of that name
    told = StudyTransfer(study=read, transfer=None, monolingual=True)
    names = [name for name, _ in run_module._jobs(told, read, tmp_path, None)]
    assert len(names) == len(set(names)) == 6


def test_a_run_keeps_the_seeds_that_it_was_begun_with(study, data, finished, tmp_path, capsys):
    """A study that has a further seed by now, and one that is not finished."""
    begun = tmp_path / "study"
    shutil.copytree(study, begun)
    (begun / "scores.jsonl").unlink()
    for name in NAMES[1:]:
        shutil.move(begun / name / "seed-1", tmp_path / f"{name}-1")
    lines = (study / "scores.jsonl").read_text().splitlines(keepends=True)
    (begun / "parts").mkdir(exist_ok=True)
    for seed in (0, 1):
        kept = [line for line in lines if f'"seed": {seed},' in line]
        (begun / "parts" / f"all.seed-{seed}.jsonl").write_text("".join(kept))
    out = tmp_path / "run"
    told = {"random_control": False, **TINY}
    ours = study_transfer(begun, "ner", data, out, **told)
    left_out = "seed 1 is left out: not every condition is trained with it yet"
    assert left_out in capsys.readouterr().err
    for name in NAMES[1:]:
        shutil.move(tmp_path / f"{name}-1", begun / name / "seed-1")
    scores = (out / "scores.jsonl").read_text()
    study_transfer(begun, "ner", data, out, **told)  # what it has is what it was begun with
    assert (out / "scores.jsonl").read_text() == scores
    aligned = json.loads((out / "config.json").read_text())["study"]["alignment"]
    assert aligned.keys() == set(NAMES)
    first = [s for s in read_scores(study / "scores.jsonl") if s.quantity == "token_alignment"]
    for name, value in aligned.items():
        (mine,) = [s.value for s in first
                   if (s.encoder, s.seed, s.condition) == (name, 0, "unaligned")]  # fmt: skip
        assert value == mine
    assert {s.seed for s in ours.scores} == {None, 0}


def test_data_in_another_order_are_for_a_study_that_has_one(study, data, tmp_path):
    with pytest.raises(InputError, match="--syntax: expected a study whose copy is a text in ano"):
        study_transfer(study, "ner", data, tmp_path / "x", syntax="eng-orderfra", **TINY)


def test_questions_on_paragraphs_want_room(study, data, tmp_path):
    with pytest.raises(InputError, match="study: expected encoders that read 128 subwords or more"):
        study_transfer(study, "xquad", data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_original_alone_shares_nothing(study):
    recipe = study_models(study).recipes[NAMES[0]]
    alone = resolve(monolingual_recipe(dataclasses.replace(recipe, sharing="sep=emb"), "eng"))
    assert alone.languages == ("eng",) and not alone.derived and alone.steps == recipe.steps


def test_of_a_setting_of_two_languages_the_original_alone_has_none(study):
    recipe = study_models(study).recipes[NAMES[0]]
    masking = dataclasses.replace(recipe.masking, counts="joint", scope="original")
    both = dataclasses.replace(recipe, sharing="sep=emb", masking=masking)
    alone = monolingual_recipe(both, "eng")
    assert (alone.sharing, alone.masking.counts, alone.masking.scope) == ("", None, "all")


def test_random_weights_are_fine_tuned_for_one_seed_of_each_condition(finished):
    for name in NAMES:
        for seed, there in ((0, True), (1, False)):
            path = finished / "transfers" / name / f"seed-{seed}" / "scores.jsonl"
            conditions = {score.condition for score in read_scores(path)}
            assert ("random_encoder" in conditions) == there


def test_random_rows_are_asked_of_a_folder_of_their_own(study, data, finished):
    with pytest.raises(OutputError, match="unseen"):
        study_transfer(study, "ner", data, finished, monolingual=True, unseen="random", **TINY)


def less_of(task, values):
    """Zero-shot less in-language of (condition, seed)."""
    return [
        Score(quantity="span_f1_difference", value=value, n=9, encoder=name, task=task, seed=seed,
              condition="zero_shot_less_in_language", source="eng", target="eng-x")
        for (name, seed), value in values.items()
    ]  # fmt: skip


def test_correlations_are_of_one_task_and_of_what_was_counted(finished, tmp_path):
    rng = np.random.default_rng(0)
    recipe = next(iter(study_models(finished_study(finished)).recipes.values()))
    points = [(name, seed) for name in "abcdef" for seed in (0, 1)]
    own = [
        Score(quantity="token_alignment", value=float(rng.uniform()), n=9, encoder=name, seed=seed,
              condition="unaligned")
        for name, seed in [*points, ("a", 7)]
    ]  # fmt: skip
    study = StudyModels(tmp_path, {}, {"a": recipe}, [], [0, 1], own)
    aligned = study.measured["token_alignment"]
    assert ("a", 7) not in aligned and len(aligned) == 18
    assert aligned["a", None] == pytest.approx((own[0].value + own[1].value) / 2)
    values = dict(zip(points, rng.uniform(-1, 0, 12).tolist(), strict=True))
    means = {(name, None): values[name, 0] for name in "abcdef"}
    others = {key: -value for key, value in (values | means).items()}
    values["f", 1] = float("nan")
    found = list(
        run_module._correlations(study, less_of("ner", values | means) + less_of("upos", others))
    )
    by = {(s.task, s.evidence.over, s.quantity): s for s in found}
    assert len(by) == len(found) == 8
    # those of a condition are repetitions: over trainings there is no interval
    over = [by["ner", "trainings", kind] for kind in ("spearman", "pearson")]
    assert [(s.n, s.low, s.high, "p" in s.details) for s in over] == [(11, None, None, False)] * 2
    xy = [(aligned[key], value) for key, value in values.items() if key != ("f", 1)]
    assert over[0].value == pytest.approx(spearmanr(*zip(*xy, strict=True)).statistic)
    assert over[1].value == pytest.approx(pearsonr(*zip(*xy, strict=True)).statistic)
    for kind in ("spearman", "pearson"):
        one, other = (by[task, "conditions", kind] for task in ("ner", "upos"))
        assert one.n == other.n == 6 and one.value == pytest.approx(-other.value)


def test_a_training_that_was_put_aside_is_no_seed(tmp_path):
    ((name, condition),) = controlled_study("eng-inversion", {}).conditions.items()
    for place in ("seed-0", "seed-0-old", "seed-"):
        (tmp_path / name / place / "model").mkdir(parents=True)
        (tmp_path / name / place / "model" / "config.json").write_text("{}")
    told = {"name": "eng-inversion", "paper": "deshpande", "published": {}}
    settings = {"conditions": {name: {"recipe": recipe_settings(condition.recipe)}}}
    whole = {"kind": "controlled", "settings": settings, "study": told}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    assert study_models(tmp_path).seeds == [0]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"select": "eng-x"}, ("eng", 0)),
        ({"select": "best"}, ("best", 0)),
        ({"tlm_share": 0.5}, ("last", 0)),
    ],
)
def test_what_is_of_the_copy_or_of_both_is_no_setting_of_the_original_alone(settings, kept):
    for condition in controlled_study("deshpande-pairs", settings).conditions.values():
        alone = resolve(monolingual_recipe(condition.recipe, "eng"))
        assert (alone.select, alone.tlm_share) == kept


def test_the_original_alone_has_no_vocabulary_of_a_copy():
    """Of a text of its own, in another word order, the recipe names the language that it copies."""
    settings = {"syntax": "syntax.txt"}
    conditions = controlled_study("deshpande-compositions", settings).conditions.values()
    assert any(condition.recipe.vocabulary.copies for condition in conditions)
    for condition in conditions:
        alone = resolve(monolingual_recipe(condition.recipe, "eng"))
        assert alone.vocabulary.copies == {} and alone.languages == ("eng",)


def test_a_mean_is_told_where_every_seed_was_measured():
    fields = {"quantity": "token_alignment", "condition": "unaligned", "n": 9}
    scores = [
        Score(**fields, encoder=name, seed=seed, value=value)
        for name, seed, value in (("a", 0, 0.2), ("a", 1, 0.4), ("b", 0, 0.6), ("b", 2, 0.8))
    ]
    found = StudyModels(Path(), {}, {}, [], [0, 1], scores).measured["token_alignment"]
    assert found == {("a", 0): 0.2, ("a", 1): 0.4, ("a", None): pytest.approx(0.3), ("b", 0): 0.6}


def test_a_run_is_asked_again_from_its_folder(finished, tmp_path):
    line = ["study-transfer", "--config", str(finished), "--quiet"]
    assert main([*line, "--out", str(finished)]) == 0  # the same run: nothing is left to do
    told = json.loads((finished / "config.json").read_text())["asked"]
    assert told["monolingual"] is True and "parser" not in told


def test_what_is_no_study_is_refused(study, data, finished, tmp_path, capsys):
    line = ["study-transfer", "--tasks", "ner", "--data", str(data), "--out", str(tmp_path / "x")]
    assert main([*line, "--study", str(tmp_path)]) == 2
    assert "study: expected the folder of a controlled study" in capsys.readouterr().err
    assert main([*line, "--study", str(finished)]) == 2
    assert main([*line[:2], "no-such", *line[3:], "--study", str(study)]) == 2
    assert not (tmp_path / "x").exists()
    begun = tmp_path / "begun"
    (begun / "transliteration" / "seed-0").mkdir(parents=True)
    (begun / "config.json").write_text((study / "config.json").read_text())
    with pytest.raises(InputError, match="a seed of which every condition is trained"):
        study_transfer(begun, "ner", data, tmp_path / "x")


def test_a_run_that_is_not_finished_has_no_page(finished, tmp_path):
    (tmp_path / "config.json").write_text((finished / "config.json").read_text())
    with pytest.raises(InputError, match="not finished"):
        load_study_transfer(tmp_path)
    write_scores([s for s in read_scores(finished / "scores.jsonl")], tmp_path / "scores.jsonl")
    assert load_study_transfer(tmp_path).names == list(NAMES)


def test_the_transfer_of_several_studies_is_one_page(finished, tmp_path, capsys):
    """Alignment and loss are correlated over the conditions of all of them."""
    losses, aligned = (-0.1, -0.5, -0.3, -0.6, -0.2, -0.4, -0.7, -0.65), (0.9, 0.2, 0.5, 0.3, 0.6, 0.4, 0.05, 0.1)  # fmt: skip
    pairs, folders = iter(zip(aligned, losses, strict=True)), []
    for place in range(4):
        folder = tmp_path / f"run-{place}"
        folder.mkdir()
        config = json.loads((finished / "config.json").read_text())
        made = {name: next(pairs) for name in NAMES}
        encoders = config["settings"]["encoders"]
        config["settings"]["encoders"] = {name: f"{place}, {name}" for name in encoders}
        config["study"]["alignment"] = {name: one for name, (one, _) in made.items()}
        (folder / "config.json").write_text(json.dumps(config))
        scores = [
            dataclasses.replace(s, value=made[s.encoder][1], low=None, high=None)
            if s.condition == "zero_shot_less_in_language" and s.seed is None
            else s
            for s in read_scores(finished / "scores.jsonl")
        ]
        (folder / "scores.jsonl").write_text("".join(f"{s.as_json()}\n" for s in scores))
        folders.append(str(folder))
    out = tmp_path / "page.html"
    assert main(["report", *folders, "--out", str(out)]) == 0
    page = html.unescape(out.read_text())
    rho, r = spearmanr(aligned, losses).statistic, pearsonr(aligned, losses).statistic
    assert "over 8 conditions of 4 studies" in page
    assert f"Spearman's {rho:.2f} [" in page and f"Pearson's {r:.2f} [" in page
    assert "−65.0" in page and "run-3: P@1 of subwords" in page
    assert "What is transferred of ner." in page and "What is lost in ner, and alignment." in page
    assert main(["report", *folders[:2], "--out", str(out)]) == 0
    page = out.read_text()
    assert "over 4 conditions of 2 studies (too few for an interval)" in page
    config = json.loads((Path(folders[1]) / "config.json").read_text())
    config["settings"]["encoders"] = json.loads((Path(folders[0]) / "config.json").read_text())[
        "settings"
    ]["encoders"]  # the models of the first run, at other rates, say
    (Path(folders[1]) / "config.json").write_text(json.dumps(config))
    assert main(["report", *folders, "--out", str(out)]) == 0
    page = html.unescape(out.read_text())
    assert "over 8 conditions of 4 studies (some of the same models: no interval)" in page
    assert f"Spearman's {rho:.2f} and Pearson's {r:.2f}." in page
    capsys.readouterr()
    assert main(["report", folders[0], folders[0], "--out", str(out)]) == 2
    assert "each folder once" in capsys.readouterr().err


def test_notes_of_a_page_are_escaped_once(tmp_path, capsys):
    """Of a run of an earlier version, which has a note with an apostrophe, in a folder with a sign."""
    folders = [tmp_path / "a & b", tmp_path / "c"]
    for folder in folders:
        folder.mkdir()
        told = {"name": "x", "paper": "deshpande", "published": {"a": ""}, "alignment": {}}
        config = {"kind": "study_transfer", "settings": {}, "study": told}
        (folder / "config.json").write_text(json.dumps(config))
        fields = {"task": "ner", "encoder": "a", "source": "eng", "details": {"part": "test"}}
        scores = [
            Score(quantity="span_f1", value=0.5, n=9, target=target, **fields)
            for target in ("eng", "eng-x")
        ]
        write_scores(scores, folder / "scores.jsonl")
    page = write_report(folders[0]).read_text()
    assert "the paper&#x27;s orders are not compared" in page and "&amp;#" not in page
    out = tmp_path / "page.html"
    assert main(["report", *map(str, folders), "--out", str(out)]) == 0
    page = out.read_text()
    assert "a &amp; b and c: This run is of an earlier version" in page
    assert "&amp;amp;" not in page and "&amp;#" not in page


def told_of(paper, *rows):
    """A finished run of (condition, control, seed, value, low, high) on the second language."""
    scores = []
    for name, control, seed, value, *ends in rows:
        quantity = "span_f1_difference" if " / " in name else "span_f1"
        low, high = ends or (None, None)
        scores.append(Score(quantity=quantity, value=value, low=low, high=high, n=9, task="ner", seed=seed,
                            encoder=name, condition=control, source="eng", target="fra"))  # fmt: skip
    told = {"name": "x", "paper": paper, "published": {}, "alignment": {}}
    names = [*dict.fromkeys(row[0] for row in rows if " / " not in row[0])]
    main = {"ner": ("span_f1", "strict")}
    return StudyTransferFolder(told, scores, names, ("eng", "fra"), main, {})


def test_what_is_above_default_is_above_0():
    rows = [("default", None, None, 0.4), ("extra", None, None, 0.5)]
    assert told_of("conneau", *rows).less_default("ner", "extra") == pytest.approx(0.1)
    assert told_of("deshpande", *rows).less_default("ner", "extra") is None
    assert told_of("conneau", rows[1]).less_default("ner", "extra") is None
    some = told_of("conneau", *rows, *(("extra", None, seed, 0.5) for seed in (0, 1)))
    assert some.trainings("ner", "extra") == 2
    unmeasured = dataclasses.replace(some, scores=[s for s in some.scores if s.seed is not None])
    assert unmeasured.trainings("ner", "extra") == 0


@pytest.mark.parametrize(
    ("value", "low", "high", "told"),
    [(0.2, 0.1, 0.3, "found"), (0.2, -0.1, 0.5, "open"), (0.2, 0.0, 0.4, "open"),
     (-0.2, -0.3, -0.1, "reversed"), (0.2, None, None, "open")],
)  # fmt: skip
def test_an_order_is_found_open_or_reversed_by_its_interval(value, low, high, told):
    rows = [(name, None, seed, 0.5) for name in "ab" for seed in (None, 0, 1)]
    run = told_of("conneau", ("a / b", "conditions", None, value, low, high), *rows)
    assert [row[2] for row in run.orders("ner")] == [told]


def test_what_may_be_the_most_frequent_label_is_not_above_it():
    sides = ("a", "in_language", None, 0.5, 0.4, 0.6), ("b", "in_language", None, 0.5, 0.46, 0.6)
    common = [(name, "majority", None, 0.45) for name in "ab"]
    run = told_of("deshpande", *sides, *common)
    assert not run.learnt("ner", "a") and run.learnt("ner", "b")


def test_where_zero_shot_may_be_the_most_frequent_label_a_note_says_so():
    rows = [("a", None, None, 0.5, 0.4, 0.6), ("b", None, None, 0.5, 0.46, 0.6)]
    rows += [(name, "in_language", None, 0.9, 0.8, 1.0) for name in "ab"]
    rows += [(name, "majority", None, 0.45) for name in "ab"]
    run = told_of("deshpande", *rows)
    (note,) = [note for note in run.notes("ner") if "most frequent label" in note]
    assert note.startswith("Zero-shot, a is not clearly above")
    assert any("of an earlier version" in note for note in run.notes("ner"))
    over = {"over_seeds": {"seeds": [0, 1], "values": [0.4, 0.6]}}
    with_seeds = [dataclasses.replace(score, details=over) for score in run.scores]
    run = dataclasses.replace(run, scores=with_seeds)
    assert not any("of an earlier version" in note for note in run.notes("ner"))


@pytest.mark.parametrize(("n", "told"), [(7, "-0.50"), (8, "-0.50 [-0.80, 0.10]")])
def test_a_correlation_has_an_interval_from_eight_conditions_on(n, told):
    run = told_of("deshpande", ("a", None, None, 0.5))
    found = Score(quantity="spearman", value=-0.5, low=-0.8, high=0.1, n=n, task="ner", source="eng",
                  target="eng-x", condition="token_alignment", details={"over": "conditions"})  # fmt: skip
    (sentence,) = dataclasses.replace(run, scores=[found]).with_alignment("ner")
    assert sentence.endswith(f"by Spearman's {told}.")


def test_what_could_not_be_counted_is_held_against_nothing():
    """Of a test without a name the most frequent label finds none, and so has no F1."""
    nothing = float("nan")
    run = told_of("conneau", *((name, None, None, 0.4) for name in ("default", "a")),
                  *((name, "majority", None, nothing) for name in ("default", "a")),
                  ("b", None, None, nothing))  # fmt: skip
    assert run.less_default("ner", "a") == 0 and run.less_default("ner", "b") is None
    assert not any("most frequent label" in note for note in run.notes("ner"))


@pytest.mark.parametrize(("conditions", "points"), [(3, (6, "trainings")), (4, (4, "conditions"))])
def test_points_of_a_picture_are_conditions_from_four_on(conditions, points):
    found = [
        Score(quantity="spearman", value=0.5, n=n, task="ner", source="eng", target="eng-x",
              condition="token_alignment",
              details={"over": over, "points": {str(i): [i / 9, -0.1] for i in range(n)}})
        for over, n in (("conditions", conditions), ("trainings", 2 * conditions))
    ]  # fmt: skip
    run = dataclasses.replace(told_of("deshpande", ("a", None, None, 0.5)), scores=found)
    found_points, what = run.with_alignment_points("ner")
    assert (len(found_points), what) == points
