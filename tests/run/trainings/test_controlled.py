"""Controlled studies from end to end, small: all conditions and seeds from one command, stopped,
resumed, measured as a study measures, and what is said of them at the end."""

import collections
import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from controlled_toy import KEPT, SMALL, sentences
from scipy.stats import pearsonr, spearmanr

from crosslens.cli.main import main
from crosslens.derive.registry import transformation
from crosslens.derive.reorderings import neighbours_kept
from crosslens.errors import InputError, OutputError, StoreError
from crosslens.files import lock_folder
from crosslens.front.calls import train, training_recipes
from crosslens.hits import equal_items, hits_of
from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.text.token_files import open_tokens
from crosslens.models.text.vocabularies import load_vocabularies
from crosslens.models.training.estimate import estimate
from crosslens.models.training.settings import TrainRecipe, from_dict, resolve, with_overrides
from crosslens.progress import duration
from crosslens.readers.plain import read_text
from crosslens.recipes import STUDIES
from crosslens.recipes.controlled import controlled_study, study_texts
from crosslens.recipes.controlled_settings import named_conditions
from crosslens.recipes.quickstart import DATA
from crosslens.report import write_report
from crosslens.report.folders import controlled_findings
from crosslens.report.folders.controlled import (
    Learning,
    StudyFolder,
    load_study,
    measured_so_far,
    onset,
)
from crosslens.report.folders.controlled_findings import (
    comparisons,
    differences,
    findings,
    verdict,
    welch,
)
from crosslens.report.folders.controlled_kept_order import kept_order
from crosslens.report.folders.controlled_sentences import (
    cut_told,
    few_trainings_told,
    overlap_told,
)
from crosslens.report.folders.controlled_similarity import similarity_told
from crosslens.report.folders.controlled_summary import summary
from crosslens.run.measures import make_split
from crosslens.run.repeats import groups_of
from crosslens.run.study import Study, run_study
from crosslens.run.trainings import controlled as run_module
from crosslens.run.trainings.controlled import Condition, expected_cost, run_controlled, seeds_of
from crosslens.run.trainings.controlled_measures import measure
from crosslens.score import Score, read_scores
from crosslens.seed_intervals import seeds_contrast, seeds_share
from crosslens.seed_means import means
from crosslens.stats import mean_interval

pytestmark = pytest.mark.usefixtures("few_kept")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Two sources of made-up sentences, and the small size."""
    folder = tmp_path_factory.mktemp("texts")
    lines = sentences(700)
    (folder / "data.txt").write_text("".join(line + "\n" for line in lines))
    other = [line.upper() for line in sentences(400)]
    (folder / "other.txt").write_text("".join(line + "\n" for line in other))
    turned = [" ".join(line.split()[::-1]) for line in lines]
    (folder / "syntax.txt").write_text("".join(line + "\n" for line in turned))
    shuffled = [*turned[1:], turned[0]]
    (folder / "shuffled.txt").write_text("".join(line + "\n" for line in shuffled))
    names = ("data", "other", "syntax", "shuffled")
    return {**SMALL, **{name: str(folder / f"{name}.txt") for name in names}}


READ = {
    "other": ["deshpande-corpora"],
    "syntax": ["deshpande-pairs", "deshpande-compositions"],
    "shuffled": [],
    "paraphrase": ["conneau-cka"],
}


def own(name, settings):
    """What a study reads of these."""
    return {key: value for key, value in settings.items() if name in READ.get(key, [name])}


def made(name, settings, only=None):
    settings = {**settings, "conditions": ",".join(only)} if only else settings
    study = controlled_study(name, settings)
    return study, study_texts(study, settings)


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    """A finished study of two seeds. Not to be written to."""
    study, texts = made(
        "deshpande-corpora", own("deshpande-corpora", settings), ("parallel", "different")
    )
    return run_controlled(study, texts, tmp_path_factory.mktemp("controlled") / "run", seeds=2)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_conditions_that_can_be_trained(name, settings):
    files = {key: settings[key] for key in ("data", "other", "syntax")}
    files["paraphrase"] = settings["syntax"]
    study, texts = made(name, own(name, files))
    assert study.control in study.conditions
    assert {one for group in study.order for one in group} <= set(study.conditions)
    for condition in study.conditions.values():
        assert estimate(condition.recipe).tokens == 5859 * 2048
        assert resolve(condition.recipe).masking.scope in ("original", "language", "all")
    run_module._check_texts(study, texts, 3)


def test_marks_that_a_parser_sets_apart_are_no_words(tmp_path):
    lines = [line.replace(" ", " , ") + " ." for line in sentences(700)]
    (tmp_path / "data.txt").write_text("".join(line + "\n" for line in lines))
    turned = [" ".join(line.split()[::-1]) for line in lines]
    (tmp_path / "syntax.txt").write_text("".join(line + "\n" for line in turned))
    files = {name: str(tmp_path / f"{name}.txt") for name in ("data", "syntax")}
    _, texts = made("deshpande-compositions", {**SMALL, **files})
    assert len(texts["kept"]) == KEPT and min(len(line.split()) for line in texts["kept"]) > 10
    with pytest.raises(InputError, match="sentences of 5 to 10 words, got 0"):
        made("deshpande-corpora", {**SMALL, "data": files["data"], "other": files["data"]})


def test_conditions_differ_in_what_they_are_about_alone(settings):
    def without(recipe, *names):
        return str({k: v for k, v in dataclasses.asdict(recipe).items() if k not in names})

    name = "deshpande-compositions"
    recipes = training_recipes(name, own(name, settings))
    assert list(recipes) == [
        "transliteration",
        "transliteration-syntax",
        "transliteration-inversion",
        "transliteration-permutation",
    ]
    changing = ("derived", "sources", "vocabulary")
    assert len({without(recipe, *changing) for recipe in recipes.values()}) == 1
    plans = training_recipes("conneau-sharing", {"data": "x"})
    assert [recipe.sharing for recipe in plans.values()] == [
        "",
        "sep=emb",
        "sep=1-3",
        "sep=emb,1-3",
        "sep=1-6",
        "sep=emb,1-6",
        "sep=all",
    ]
    assert {recipe.encoder.layers for recipe in plans.values()} == {8}
    wide = training_recipes("deshpande-pairs", {"model": 128, "tokens": 1e9})["inversion"]
    assert (wide.encoder.hidden_size, wide.encoder.heads, wide.steps) == (128, 4, 488_281)


def test_the_papers_size_is_what_they_print():
    for name, wide, steps, tokens, rate in (
        ("deshpande-pairs", 512, 500_000, 128 * 512, 1e-4),
        ("conneau-sharing", 768, 417_000, 8 * 96 * 256, 1e-4),
    ):
        for recipe in training_recipes(name, {"scale": "paper", "data": "x"}).values():
            shape, by = recipe.encoder, recipe.optimisation
            assert (shape.layers, shape.hidden_size, recipe.vocabulary.size) == (8, wide, 40_000)
            assert (recipe.steps, recipe.batch_tokens, by.peak_rate) == (steps, tokens, rate)
            assert resolve(recipe).masking.rate == 0.15
            # § 2.1 of Conneau et al.: the best by English dev perplexity
            assert recipe.select == ("eng" if name.startswith("conneau") else "last")
    cka = {"scale": "paper", "data": "x", "paraphrase": "y", "pair": "fra:z"}
    chosen = {name: one.select for name, one in training_recipes("conneau-cka", cka).items()}
    assert chosen == {
        "english": "eng",
        "bilingual-paraphrase": "eng",
        "monolingual-paraphrase": "eng-x",
        "bilingual-fra": "eng",
        "monolingual-fra": "fra",
    }
    assert training_recipes("conneau-sharing", {"data": "x"})["default"].select == "last"
    few = training_recipes("conneau-anchors", {"scale": "paper", "tokens": 1e9, "data": "x"})
    assert {(one.steps, one.optimisation.warmup) for one in few.values()} == {(5086, 1271)}


def test_the_texts_of_corpora_have_as_many_tokens_on_both_sides(finished):
    for name in ("parallel", "different"):
        told = json.loads((finished / name / "seed-0" / "data.json").read_text())
        assert told["vocabulary"]["overlap"]["eng-eng-x"]["shared"] == 0
        place = finished / name / "seed-0" / "tokens"
        files = [open_tokens(one) for one in place.iterdir() if not one.name.startswith("kept")]
        sizes = [len(file.ids) + len(file) for file in files]  # a [SEP] behind each
        assert len(sizes) == 2 and abs(sizes[0] - sizes[1]) < 0.02 * sizes[0]
    texts = {
        name: set((finished / "text" / f"{name}.txt").read_text().splitlines())
        for name in ("kept", "first", "second", "other")
    }
    assert len(texts["kept"]) == KEPT
    names = list(texts)
    assert not any(texts[a] & texts[b] for i, a in enumerate(names) for b in names[i + 1 :])


def test_a_finished_study_has_scores_of_each_seed_and_their_means(finished):
    scores = list(read_scores(finished / "scores.jsonl"))
    for name in ("parallel", "different"):
        mine = [score for score in scores if score.encoder == name]
        for condition in ("unaligned", "procrustes"):
            of = [s for s in mine if s.quantity == "token_alignment" and s.condition == condition]
            assert [s.seed for s in of] == [0, 1, None]
            assert of[-1].value == pytest.approx((of[0].value + of[1].value) / 2)
            assert of[-1].low <= of[-1].value <= of[-1].high
        for condition in ("unaligned", "procrustes", "random_encoder"):
            mean = [
                s
                for s in mine
                if s.quantity == "precision_at_1" and s.condition == condition and s.seed is None
            ]
            assert [s.layer for s in mean] == [0, 1, 2]
            for one in mean:
                rows = [
                    s
                    for s in mine
                    if s.quantity == "precision_at_1"
                    and (s.condition, s.layer) == (condition, one.layer)
                    and s.seed is not None
                    and s.details["part"] == "held_out"
                ]
                assert len(rows) == 4
                assert one.value == pytest.approx(np.mean([s.value for s in rows]))
                assert (one.low, one.high) == seeds_share(*hits_of(rows, equal_items(rows)))[1:]
    overlap = {
        s.encoder: s.value for s in scores if s.quantity == "subword_overlap_tokens" and s.seed == 0
    }
    assert overlap["parallel"] == 1.0 and overlap["different"] < 0.5


@pytest.mark.slow  # further trainings, and a study of them
def test_a_transliteration_is_measured_as_a_study_measures_it(finished, tmp_path):
    """The same sentences, read by the two exported views, through the whole of `crosslens study`."""
    run = finished / "parallel" / "seed-0"
    study = Study(
        encoders={language: str(run / "views" / language) for language in ("eng", "eng-x")},
        texts=dict.fromkeys(("eng", "eng-x"), str(finished / "text" / "kept.txt")),
    )
    run_study(study, tmp_path / "study")
    wanted = {
        (s.quantity, s.condition, s.layer, s.source): s.value
        for s in read_scores(tmp_path / "study" / "scores.jsonl")
        if s.other_layer in (None, s.layer) and (s.details or {}).get("part", "all") == "all"
    }
    checked = 0
    for score in read_scores(finished / "scores.jsonl"):
        told = (score.quantity, score.condition, score.layer, score.source)
        if score.encoder == "parallel" and score.seed == 0 and told in wanted:
            if score.condition == "unaligned" and score.details["part"] == "all":
                assert score.value == wanted[told]
                checked += 1
            if score.quantity == "debiased_linear_cka" and score.condition is None:
                assert score.value == pytest.approx(wanted[told], abs=1e-5)
                checked += 1
    assert checked == 2 * 3 + 3


def test_kept_sentences_are_derived_as_the_training_text_is(settings, tmp_path):
    named = "fra-translit+inversion"  # a condition of one's own, by name
    run = train(named, tmp_path / "run", seeds=1, settings=own(named, settings)).folder
    place = run / "transliteration-inversion" / "seed-0" / "tokens"
    kept = {language: open_tokens(place / f"kept.{language}") for language in ("fra", "fra-x")}
    shift = int(kept["fra-x"].ids.min()) - int(kept["fra"].ids.min())
    for i in range(KEPT):
        first = kept["fra"][i].astype(int)
        assert len(first) <= 30 and kept["fra-x"][i].tolist() == (first[::-1] + shift).tolist()
    title, rows, *_ = summary(run)
    assert title.startswith("French and a copy of it by transliteration and inversion: does it")
    assert rows[1][:3] == ("transliteration-inversion", "1", "0.00")
    (control,) = [part for part in summary(run) if str(part).startswith("Nothing here is known")]
    assert "so what is not found says nothing" in control
    assert rows[0][-1] == "CKA there"  # a column in which no row has anything is none
    asked = json.loads((run / "config.json").read_text())["asked"]
    assert asked["recipe"] == named and asked["settings"]["data"] == settings["data"]
    again = training_recipes(str(run))  # an earlier run is a recipe, too
    assert list(again) == ["transliteration-inversion"]
    assert resolve(again["transliteration-inversion"]).derived["fra-x"].order == "inversion"


@pytest.mark.slow  # further trainings, and a study of them
def test_a_stopped_study_goes_on_to_the_same_scores(settings, finished, tmp_path, monkeypatch):
    study, texts = made(
        "deshpande-corpora", own("deshpande-corpora", settings), ("parallel", "different")
    )
    folder, measured = tmp_path / "run", []

    def stop(*given, **more):
        measured.append(given[-1])
        if len(measured) == 2:
            raise KeyboardInterrupt
        return measure(*given, **more)

    measure = run_module.measure
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            run_controlled(study, texts, folder, seeds=1)
    assert measured == ["parallel", "different"] and not (folder / "scores.jsonl").exists()
    assert {score.encoder for score in measured_so_far(folder)} == {"parallel"}
    assert summary(folder)[1][1][0] == "parallel"  # what there is can be looked at
    with pytest.raises(OutputError, match="add --resume to continue it"):
        run_controlled(study, texts, folder, seeds=1)
    run_controlled(study, texts, folder, seeds=1, resume=True)
    first, both = (
        [s.as_json() for s in read_scores(one / "scores.jsonl") if s.seed == 0]
        for one in (folder, finished)
    )
    assert first == both


@pytest.mark.parametrize("scored", [True, False])
def test_a_study_that_is_resumed_may_have_more_seeds(scored, tmp_path, monkeypatch):
    """What there is stays, the means are over all, and fewer are refused; of a finished study as of
    one that was stopped."""
    study, texts = one_condition(tmp_path)
    trained = []

    def train(recipe, where, **how):
        trained.append(recipe.seed)

    def measured(run, recipe, kept, name, **more):
        values = {"token_alignment": 0.2 + 0.1 * recipe.seed, "neighbours_kept": 1.0}
        return [
            Score(quantity=quantity, value=value, n=9, encoder=name, seed=recipe.seed)
            for quantity, value in values.items()
        ]

    monkeypatch.setattr("crosslens.models.training.masked_lm.train", train)
    monkeypatch.setattr(run_module, "measure", measured)
    folder = tmp_path / "run"
    asked = {"settings": {"tokens": 5}}
    run_controlled(study, texts, folder, seeds=2, asked=asked)
    before = (folder / "scores.jsonl").read_text()
    if not scored:  # as if it had been stopped before the means were there
        told = json.loads((folder / "config.json").read_text())
        run_module._reopen(study, folder, told["settings"])
        assert not (folder / "scores.jsonl").exists()
        assert [s.seed for s in measured_so_far(folder)] == [0, 0, 1, 1, None, None]
    with pytest.raises(OutputError, match="add --resume to continue it"):
        run_controlled(study, texts, folder, seeds=3)
    with pytest.raises(
        OutputError, match="got other ones .conditions.transliteration.recipe.steps"
    ):
        longer = dataclasses.replace(study.conditions["transliteration"].recipe, steps=9)
        other = {"transliteration": Condition(recipe=longer)}
        changed = dataclasses.replace(study, conditions=other)
        run_controlled(changed, texts, folder, seeds=3, resume=True)
    assert trained == [0, 1]
    run_controlled(study, texts, folder, seeds=3, resume=True, asked=asked)
    assert trained == [0, 1, 2]
    assert seeds_of(folder) == 3 and seeds_of(tmp_path) is None  # asked again without a number
    scores = list(read_scores(folder / "scores.jsonl"))
    assert [s.as_json() for s in scores[:4]] == before.splitlines()[:4]
    assert [s.seed for s in scores] == [0, 0, 1, 1, 2, 2, None, None]
    assert scores[-2].value == pytest.approx(0.3) and scores[-2].details["seeds"] == [0, 1, 2]
    told = json.loads((folder / "config.json").read_text())
    assert (told["settings"]["seeds"], told["asked"]["seeds"]) == (3, 3)
    assert not (folder / "parts").exists()
    with pytest.raises(OutputError, match="got other ones .seeds: 3 there, 2 here."):
        run_controlled(study, texts, folder, seeds=2, resume=True)
    with lock_folder(folder, shared=True), pytest.raises(OutputError, match="nobody else"):
        run_controlled(study, texts, folder, seeds=4, resume=True)
    assert json.loads((folder / "config.json").read_text()) == told
    settings, given = run_module._settings(study, texts, 4), {"seeds": 4}
    plain = lock_folder

    @contextlib.contextmanager
    def late(folder):  # another process was here first, and trains by now
        monkeypatch.setattr(run_module, "lock_folder", plain)
        run_module._grow(study, folder, settings, given)
        with plain(folder, shared=True), plain(folder):
            yield

    monkeypatch.setattr(run_module, "lock_folder", late)
    run_module._grow(study, folder, settings, given)
    assert seeds_of(folder) == 4


def test_a_study_that_is_resumed_may_have_more_conditions(tmp_path, monkeypatch):
    """Those that it has stay as they are, of a finished study too; fewer, or others, are refused."""
    (tmp_path / "other.txt").write_text("".join(f"{line} too .\n" for line in sentences(400)))
    files = {name: str(tmp_path / f"{name}.txt") for name in ("data", "other")}
    _data(tmp_path)
    trained = []

    def train(recipe, where, **how):
        trained.append(where.relative_to(tmp_path / "run").as_posix())

    def measured(run, recipe, kept, name, **more):
        told = {"quantity": "neighbours_kept", "value": 0.5 + recipe.seed / 10, "n": 9}
        return [Score(**told, encoder=name, seed=recipe.seed)]

    monkeypatch.setattr("crosslens.models.training.masked_lm.train", train)
    monkeypatch.setattr(run_module, "measure", measured)

    def run(conditions, seeds, resume=True):
        more = {} if conditions is None else {"conditions": conditions}
        settings = {**SMALL, **files, **more}
        told = made("deshpande-corpora", settings)
        asked = {"asked": settings, "seeds": seeds, "resume": resume}
        run_controlled(*told, tmp_path / "run", **asked)
        config = json.loads((tmp_path / "run" / "config.json").read_text())
        assert list(config["settings"]["conditions"]) == list(config["study"]["published"])
        assert config["asked"]["settings"].get("conditions") == conditions
        scores = list(read_scores(tmp_path / "run" / "scores.jsonl"))
        return [(one.encoder, one.seed, one.value) for one in scores]

    first = run("different", 2, resume=False)
    assert first == [("different", 0, 0.5), ("different", 1, 0.6), ("different", None, 0.55)]
    with pytest.raises(OutputError, match="add --resume to continue it"):
        run("parallel,different", 2, resume=False)
    both = run("different,parallel", 3)
    assert both[:2] == [("parallel", 0, 0.5), ("different", 0, 0.5)] and both[-1][1] is None
    parts = [f"{name}/seed-{seed}" for name in ("different", "parallel") for seed in range(3)]
    assert trained[:2] == parts[:2] and sorted(trained) == sorted(parts)  # each of them once
    for fewer, seeds in (("different", 3), (None, 2)):
        with pytest.raises(OutputError, match="got other ones"):
            run(fewer, seeds)
    every = run(None, 3)
    assert [one[:2] for one in every[:3]] == [(n, 0) for n in ("parallel", "same", "different")]
    assert trained[6:] == [f"same/seed-{seed}" for seed in range(3)]
    with pytest.raises(OutputError, match="got other ones"):  # the other source is another text
        (tmp_path / "other.txt").write_text("".join(f"{s} too !\n" for s in sentences(400)))
        run(None, 3)


@pytest.mark.parametrize("some", ["different", "same,different"])
def test_some_conditions_are_trained_as_in_the_whole_study(some, tmp_path):
    (tmp_path / "other.txt").write_text("".join(f"{line} too .\n" for line in sentences(400)))
    files = {"data": str(_data(tmp_path)), "other": str(tmp_path / "other.txt")}
    study, texts = made("deshpande-corpora", {**SMALL, **files})
    less, same = made("deshpande-corpora", {**SMALL, **files, "conditions": some})
    assert list(less.conditions) == some.split(",") and same == texts
    listed = controlled_study("deshpande-corpora", {**SMALL, "conditions": some.split(",")})
    assert list(listed.conditions) == some.split(",")
    assert all(less.conditions[name] == study.conditions[name] for name in less.conditions)
    assert (less.order, less.control) == (study.order, study.control)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("", "expected one or more of english, bilingual-x, monolingual-x, with commas .*, got ''"),
        ("bilingual-x,other", "got 'bilingual-x,other'; leave it out for all of them"),
        (["other"], "expected one or more of english"),
        (3, "with commas between them, got '3'"),
        ("monolingual-x", "got monolingual-x without english, .*; add english"),
        ("english", "got english, which is there for others"),
    ],
)
def test_conditions_that_a_study_does_not_have_or_cannot_measure_are_refused(told, message):
    beside = {"english": "", "bilingual-x": "", "monolingual-x": "english"}
    with pytest.raises(InputError, match=message):
        named_conditions({"conditions": told}, beside)


def test_a_control_that_is_not_among_the_conditions_is_told(tmp_path):
    scores = [*toy_scores("same", [0.8] * 3, 45), *toy_scores("different", [0.3] * 3, 20)]
    study_of(tmp_path, [*scores, *means(scores)], ("same", "different"), control="parallel")
    told = "The positive control, parallel, is not trained here: what is not found says nothing."
    assert summary(tmp_path)[-1] == told and told in write_report(tmp_path).read_text()


def one_condition(folder):
    """A study of one condition, and its texts."""
    data = folder / "data.txt"
    data.write_text("".join(line + "\n" for line in sentences(300)))
    return made("eng-translit", {**SMALL, "data": str(data)})


def test_names_of_conditions_are_read_as_they_are_typed():
    named = "fra-translit+local-shuffle:3,permutation:epoch,limited-permutation"
    recipes = training_recipes(named, {"data": "x"})
    assert list(recipes) == [
        "transliteration-local-shuffle-3",
        "permutation-epoch",
        "limited-permutation-3",
    ]
    assert {one.languages for one in recipes.values()} == {("fra", "fra-x")}
    assert {one.of for recipe in recipes.values() for one in recipe.derived.values()} == {"fra"}
    study = controlled_study("fra-translit", {"data": "x"})
    assert study.question == "does what is derived from French come to lie on it?"
    assert study.conditions["transliteration"].published == ""  # the paper has it of English


@pytest.mark.slow  # three processes that import torch
def test_two_processes_of_torchrun_have_the_scores_of_one(tmp_path):
    small = {**SMALL, "data": DATA / "everyday" / "eng.txt"}
    line = [f"{key}={value}" for key, value in small.items()]
    line = ["train", "deshpande-pairs", *line, "--seeds", "1", "--quiet", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name, before in (("one", []), ("two", ["torch.distributed.run", "--nproc-per-node", "2"])):
        command = [sys.executable, *(["-m", *before] if before else []), "-m", "crosslens.cli.main"]
        command += [*line, "--out", str(tmp_path / name)]
        subprocess.run(command, env=environment, check=True, timeout=300)
    one, two = (list(read_scores(tmp_path / name / "scores.jsonl")) for name in ("one", "two"))
    assert len(one) == len(two) > 100
    for first, second in zip(one, two, strict=True):
        assert (first.quantity, first.layer, first.seed) == (
            second.quantity,
            second.layer,
            second.seed,
        )
        if first.quantity == "debiased_linear_cka":
            assert first.value == pytest.approx(second.value, abs=1e-4)


@pytest.mark.slow  # four processes
def test_processes_divide_the_trainings_and_one_that_is_killed_is_replaced(tmp_path):
    """Two of three that work in one folder, one of them killed: the others end with the bytes of a
    single one, and no training has been done twice."""
    small = {**SMALL, "data": DATA / "everyday" / "eng.txt"}
    line = [sys.executable, "-m", "crosslens.cli.main", "train", "deshpande-pairs"]
    line += [f"{key}={value}" for key, value in small.items()]
    line += ["--seeds", "1", "--resume", "--quiet", "--json", "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    alone = subprocess.run(
        [*line, str(tmp_path / "alone")], env=environment, stdout=subprocess.PIPE, check=True
    )
    killed, *others = (
        subprocess.Popen([*line, str(tmp_path / "run")], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    )
    while not list((tmp_path / "run").glob("*/seed-*/log.jsonl")):
        assert all(one.poll() is None for one in (killed, *others))
        time.sleep(0.05)
    killed.kill()
    told = [one.communicate(timeout=300)[0] for one in others]
    assert told == [alone.stdout] * 2 and alone.stdout.count(b"token_alignment") == 4
    assert [one.returncode for one in others] == [0, 0] and killed.wait() == -9
    first, second = (tmp_path / name for name in ("alone", "run"))
    for name in ("scores.jsonl", "config.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert sorted(path.name for path in second.iterdir()) == sorted(
        path.name for path in first.iterdir()
    )
    steps = [[told["step"] for told in map(json.loads, path.read_text().splitlines())]
             for folder in (first, second) for path in sorted(folder.glob("*/seed-0/log.jsonl"))]  # fmt: skip
    assert len(steps) == 6 and steps[:3] == steps[3:]


def toy_scores(name, alignment, hits, seeds=3, mapped=False):
    """Alignment of each seed, and the sentences that are found at two layers."""
    found = []
    for seed in range(seeds):
        common = {"encoder": name, "seed": seed, "condition": "unaligned"}
        found.append(
            Score(
                quantity="token_alignment",
                value=alignment[seed],
                n=100,
                details={"by_frequency": 0.01, "chance": 0.01},
                **common,
            )
        )
        if mapped:  # in the other order
            other = {"value": 1 - alignment[seed], "condition": "procrustes"}
            found.append(dataclasses.replace(found[-1], **other))
        for layer in (0, 1):
            for part in ("held_out", "train"):
                marks = "".join("1" if i < (hits if layer else 1) else "0" for i in range(50))
                details = {"part": part, "chance": 0.02}
                details |= {"hits": marks} if part == "held_out" else {}
                for source, target in (("eng", "eng-x"), ("eng-x", "eng")):
                    found.append(
                        Score(
                            quantity="precision_at_1",
                            value=marks.count("1") / 50,
                            n=50,
                            layer=layer,
                            source=source,
                            target=target,
                            details=details,
                            **common,
                        )
                    )
    return found


def test_what_the_paper_found_is_found_open_or_reversed(tmp_path):
    scores = [
        *toy_scores("parallel", [0.8, 0.82, 0.81], 45, mapped=True),
        *toy_scores("same", [0.5, 0.3, 0.52], 20, mapped=True),
        *toy_scores("different", [0.45, 0.5, 0.4], 40, mapped=True),
    ]
    scores += means(scores)
    told = {
        "name": "deshpande-corpora",
        "question": "?",
        "paper": "deshpande",
        "order": [["parallel"], ["same"], ["different"]],
        "control": "parallel",
        "published": {"parallel": "transliteration, parallel corpora"},
    }
    (tmp_path / "config.json").write_text(json.dumps({"kind": "controlled", "study": told}))
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in scores))
    _, rows, _, findings, counted, control = summary(tmp_path)
    assert [row[0] for row in rows[1:]] == ["parallel", "same", "different"]
    assert rows[1][-1] == "90" and rows[2][-1] == "-"
    row = dict(zip(rows[0], rows[1], strict=True))
    assert row["P@1 of subwords"].startswith("0.810 [0.785, 0.835") and row["at layer"] == "1"
    assert "kept" not in row and "contexts" not in row
    # .5, .3, .52 against .45, .5, .4 leaves both orders open
    assert findings[0][1:] == ("subwords", "subwords after a map", "sentences")
    assert [(row[0], *(cell.rpartition(" ")[2] for cell in row[1:])) for row in findings[1:]] == [
        ("parallel > same", "found", "reversed", "found"),
        ("parallel > different", "found", "reversed", "found"),  # not neighbours in that order
        ("same > different", "open", "open", "reversed"),
    ]
    assert counted.startswith("9 comparisons, each with an interval of its own")
    assert "reached 0.81" in control and "of an open one these seeds cannot tell" in control
    study = dataclasses.replace(load_study(tmp_path), layers={"parallel": None, "same": None})
    found = differences(study, "parallel", "same")
    assert list(found) == ["subwords", "subwords after a map"]  # no layer, no sentences
    low = [dataclasses.replace(s, value=s.value / 2) for s in scores]
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in low))
    assert "says nothing" in summary(tmp_path)[-1]


@pytest.mark.parametrize("seeds", [(1, 1), (2, 1), (1, 2)])
def test_with_one_training_on_a_side_no_order_is_judged(tmp_path, seeds):
    """The sentences of one training say nothing of another one."""
    scores = [
        *toy_scores("parallel", [0.8, 0.82], 45, seeds[0]),
        *toy_scores("same", [0.3, 0.32], 20, seeds[1]),
    ]
    scores += means(scores)
    study_of(tmp_path, scores, ("parallel", "same"), order=[["parallel"], ["same"]])
    study = load_study(tmp_path)
    assert differences(study, "parallel", "same") == {}
    _, rows, how, found, *others = summary(tmp_path)
    assert found[1] == ("parallel > same", *"---")
    assert not any(part.startswith("comparison") for part in others)
    assert others[-1].startswith("An order is judged where both sides have two trainings or more")
    page = write_report(tmp_path).read_text()
    single = [name for name, n in zip(("parallel", "same"), seeds, strict=True) if n == 1]
    if len(single) == 2:
        told = "over the subwords, or sentences, of one training, and say nothing of other seeds"
        assert "over seeds" not in how.partition("Brackets")[2]
        assert "over seeds and sentences" not in page
    else:
        told = f"of {single[0]} over the subwords, or sentences, of one training"
    assert told in how and page.count(told) >= 3
    several = "that of three holds their mean of P@1 of subwords in 34 to 81 %, not in 95."
    assert (several in how, several in page) == (len(single) < 2,) * 2
    assert "in at most 3 %" not in page  # of two trainings it would be more
    assert "none can be told yet" in page and "where both sides have two trainings or more" in page


def study_of(folder, scores, names, **more):
    """A finished study of made-up scores."""
    told = {"name": "deshpande-corpora", "question": "?", "paper": "deshpande", "order": []}
    told |= {"control": names[0], "published": dict.fromkeys(names, "")} | more
    (folder / "config.json").write_text(json.dumps({"kind": "controlled", "study": told}))
    lines = "".join(score.as_json() + "\n" for score in scores)
    (folder / "scores.jsonl").write_text(lines)


def natural_scores(name, hits, untrained):
    """Sentences of a natural pair: which are found when trained, and which before."""
    scores = toy_scores(name, [0.0] * 3, hits)
    before = [
        dataclasses.replace(one, condition="random_encoder")
        for one in toy_scores(name, [0.0] * 3, untrained)
        if one.details.get("part") == "held_out"
    ]
    return [one for one in (*scores, *before) if one.quantity == "precision_at_1"]


def test_a_gain_over_untrained_encoders_is_no_merit_of_words_in_common(tmp_path):
    """Both conditions differ from an untrained encoder by one sentence: only their words differ."""
    scores = [*natural_scores("default", 21, 20), *natural_scores("none", 3, 2)]
    scores += means(scores)
    study_of(tmp_path, scores, ("default", "none"), order=[["default"], ["none"]])
    study = load_study(tmp_path)
    found = differences(study, "default", "none")
    assert list(found) == ["sentences", "gain of sentences"]
    assert found["sentences"][0] == pytest.approx(18 / 50) and found["sentences"][1] > 0
    assert found["gain of sentences"][0] == pytest.approx(0) and found["gain of sentences"][1] < 0
    _, rows, how, orders, _, control = summary(tmp_path)
    row = dict(zip(rows[0], rows[1], strict=True))
    assert row["untrained"] == "0.400" and "gain: what training adds" in how
    assert orders[1][1].endswith("found") and orders[1][2].endswith("open")
    assert "An untrained encoder finds 0.40 of the sentences. By sentences, words in com" in control
    assert control.endswith("not found, or reversed, by sentences or their gain says nothing.")
    assert "an interval over few of them is too narrow. " in f"{how} " and "34 to 81" not in how
    write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Neighbours kept" not in page and "untrained" in page  # no column is empty


def test_gains_over_the_same_untrained_encoder_differ_as_the_sentences_do(tmp_path):
    """It drops out of the difference, and is no second comparison."""
    scores = [*natural_scores("extra", 30, 20), *natural_scores("default", 21, 20)]
    scores += [*natural_scores("none", 3, 2)]
    scores += means(scores)
    names = ("default", "extra", "none")
    study_of(tmp_path, scores, names, order=[["extra"], ["default"], ["none"]])
    study = load_study(tmp_path)
    found = differences(study, "extra", "default")
    assert found["gain of sentences"] == found["sentences"]
    other = differences(study, "extra", "none")
    assert other["gain of sentences"][0] == pytest.approx(other["sentences"][0] - 18 / 50)
    assert summary(tmp_path)[-2].startswith("5 comparisons, ")


def test_what_extra_anchors_bring_is_held_against_what_sharing_brings(tmp_path):
    """In a study whose order has no place for them: 30, 21 and 3 of 50 sentences in each of three
    seeds, of which untrained encoders find 20, the same 20, and 2."""
    scores = [*natural_scores("extra", 30, 20), *natural_scores("default", 21, 20)]
    scores += [*natural_scores("sep-emb", 3, 2)]
    scores += means(scores)
    printed = {"default": "Default", "sep-emb": "Sep Emb", "extra": "Extra anchors"}
    order = [["default"], ["sep-emb"]]
    study_of(tmp_path, scores, tuple(printed), order=order, published=printed)
    found = findings(load_study(tmp_path))
    less = "default - sep-emb > extra - default"
    assert [row[0] for row in found.rows[1:]] == ["default > sep-emb", "extra > default", less]
    assert found.rows[0][1::2] == ("sentences", "gain of sentences")
    study = load_study(tmp_path)
    hits = {name: controlled_findings._hits(study, name) for name in printed}
    before = {name: controlled_findings._hits(study, name, "random_encoder") for name in printed}
    default, part, more = (
        (weight, *hits[n]) for n, weight in zip(printed, (2.0, -1.0, -1.0), strict=True)
    )
    by_sentences = seeds_contrast([default], [part], [more])
    assert by_sentences[0] == pytest.approx((21 - 3) / 50 - (30 - 21) / 50)
    # of the 20 that both found before they were trained, those of one side are left
    by_gain = seeds_contrast(
        [default, (-1.0, *before["default"])], [part, (1.0, *before["sep-emb"])], [more]
    )
    assert by_gain[0] == pytest.approx((21 - 20 - (3 - 2)) / 50 - (30 - 21) / 50)
    assert found.rows[3] == (less, *verdict(by_sentences), *verdict(by_gain))
    assert found.compared.startswith("5 comparisons, ")
    assert less.replace(">", "&gt;") in write_report(tmp_path).read_text()


@pytest.mark.parametrize(
    ("other", "number", "head"),
    [
        ("fra", "0.4", "XNLI, French, less Default"),
        ("fr", "0.4", "XNLI, French, less Default"),
        ("deu", "1.8", "XNLI, mean of 3, less Default"),
    ],
)
def test_a_pair_stands_beside_the_papers_numbers_of_that_very_language(
    tmp_path, other, number, head
):
    scores = [
        dataclasses.replace(s, **{side: getattr(s, side).replace("eng-x", other)
                                  for side in ("source", "target")})
        for name, hits in (("default", 20), ("extra", 30), ("none", 20))
        for s in natural_scores(name, hits, 2)
    ]  # fmt: skip
    published = {
        "default": "Default",
        "extra": "Extra anchors",
        "none": "No anchors",
    }
    order = [["extra"], ["default"], ["none"]]
    study_of(tmp_path, scores + list(means(scores)), ("default",), paper="conneau",
             published=published, order=order)  # fmt: skip
    _, rows, _, orders, *_ = summary(tmp_path)
    assert rows[0][-1] == f"Conneau et al. 2020: {head}" and rows[2][-1] == number
    assert orders[0][0] == "the paper's order, by its mean of XNLI"
    page = write_report(tmp_path).read_text()
    assert ">−1.5<" in page or other == "deu"
    assert head in page and "The paper's order, by its mean of XNLI" in page


def learnt(folder, name, curves, first=0):
    """Logs of trainings: for each seed, P@1 of subwords in both directions after each million."""
    for seed, curve in enumerate(curves, first):
        (folder / name / f"seed-{seed}").mkdir(parents=True)
        lines = [{"step": 1, "tokens": 5e5, "loss": 3.0}]
        for step, value in enumerate(curve, 1):
            ways = {"a>b": {"value": value - 0.1}, "b>a": {"value": value + 0.1}}
            lines.append({"step": step * 10, "tokens": step * 1e6, "alignment": ways})
        log = folder / name / f"seed-{seed}" / "log.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3')


def test_the_page_has_the_numbers_and_when_half_of_the_subwords_were_found(tmp_path):
    scores = [
        *toy_scores("parallel", [0.8, 0.82, 0.81], 45),
        *toy_scores("same", [0.5, 0.3, 0.52], 20),
    ]
    names = ("parallel", "same", "different")
    recipe = {"steps": 40, "batch_tokens": 1e5, "encoder": {"layers": 2, "hidden_size": 64}}
    told = {
        "name": "deshpande-corpora",
        "question": "what <b>?",
        "paper": "deshpande",
        "order": [["parallel"], ["same"], ["different"]],
        "control": "parallel",
        "published": {"parallel": "transliteration, parallel corpora", "same": "", "different": ""},
    }
    conditions = {name: {"recipe": {**recipe, "sources": name}} for name in names}
    settings = {"seeds": 3, "conditions": conditions}
    config = {"kind": "controlled", "study": told, "settings": settings}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "parts").mkdir()
    for name in ("parallel", "same"):
        rows = [s.as_json() + "\n" for s in scores if s.encoder == name]
        (tmp_path / "parts" / f"{name}.seed-0.jsonl").write_text("".join(rows))
    learnt(tmp_path, "parallel", [[0.1, 0.4, 0.6, 0.8], [0.2, 0.5, 0.7, 0.8], [0.1, 0.3, 0.7, 0.9]])
    learnt(tmp_path, "same", [[0.1, 0.2, 0.3, 0.6], [0.1, 0.1, 0.1, 0.1]])
    learnt(tmp_path, "different", [[0.1]])
    study = load_study(tmp_path)
    assert study.names == ["parallel", "same"] and list(study.learning) == list(names)
    curve = study.learning["parallel"].curve()
    assert curve[1e6][0] == pytest.approx(0.4 / 3) and curve[1e6][1] == 0 <= curve[1e6][2] < 0.3
    assert curve[4e6] == pytest.approx(mean_interval(np.array([0.8, 0.8, 0.9])))
    assert [study.learning[name].reached() for name in names] == [
        "2.3 M [1.6, 3.1]",  # 2.5, 2.0, 2.5 M
        "1 of 2 seeds, at 3.7 M",
        "not by 1.0 M (1 seed is under way)",
    ]
    page = write_report(tmp_path).read_text()
    assert "0.810" in page and "[0.785, 0.835]" in page and "2.3 M [1.6, 3.1]" in page
    assert "what &lt;b&gt;?" in page and "<b>" not in page and "not finished" in page
    assert "found: by subwords 1 found; by sentences 1 found." in page  # names are in the section
    assert page.count("by subwords 1 found") == 2 and page.count("<svg") >= 3
    (single,) = load_study(tmp_path).learning["different"].curve().values()
    assert single[0] == pytest.approx(0.1) and np.isnan(single[1:]).all()  # and no band
    with pytest.raises(StoreError, match="expected a training that is measured"):
        for part in (tmp_path / "parts").iterdir():
            part.unlink()
        write_report(tmp_path)


def test_seeds_that_are_under_way_are_not_counted_as_if_they_never_got_there(tmp_path):
    scores = [s for name in "abc" for s in toy_scores(name, [0.5], 10, 1)]
    study_of(tmp_path, [*scores, *means(scores)], "abc")
    config = json.loads((tmp_path / "config.json").read_text())
    recipe = {"steps": 40, "batch_tokens": 1e5}
    config["settings"] = {"conditions": {name: {"recipe": recipe} for name in "abc"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    learnt(tmp_path, "a", [[0.1, 0.3, 0.6, 0.8], [0.1, 0.2], [0.1, 0.7]])
    learnt(tmp_path, "b", [[0.1, 0.1, 0.1, 0.1], [0.1, 0.1], [0.1]])
    learnt(tmp_path, "c", [[0.1, 0.6, 0.6, 0.6], [0.1, 0.2, 0.2, 0.2], [0.1]])
    (tmp_path / "b" / "seed-2" / "model").mkdir()  # stopped early: nothing improved any more
    (tmp_path / "b" / "seed-2" / "model" / "config.json").write_text("{}")
    learning = load_study(tmp_path).learning
    assert {name: sorted(one.ended) for name, one in learning.items()} == {
        "a": [0],
        "b": [0, 2],
        "c": [0, 1],
    }
    _, *interval = mean_interval(np.array([2 + 2 / 3, 1 + 2 / 3]))
    assert learning["a"].reached() == f"2.2 M [0.0, {interval[1]:.1f}] (1 seed is under way)"
    assert learning["b"].reached() == "not by 1.0 to 4.0 M (1 seed is under way)"
    assert learning["c"].reached() == "1 of 2 seeds, at 1.8 M (1 seed is under way)"


def test_a_study_may_have_any_number_of_named_conditions():
    named = "eng-translit," + ",".join(f"translit+local-shuffle:{n}" for n in range(2, 12))
    recipes = training_recipes(named, {"data": "x"})
    assert len(recipes) == 11 and {len(one.name) for one in recipes.values()} == {80}


def test_the_ladder_has_thirty_orders_that_keep_more_and_less():
    recipes = training_recipes("deshpande-ladder", {"data": "x"})
    orders = {one.derived["eng-x"].order for one in recipes.values()}
    assert len(recipes) == len(orders) == 30 and "" in orders
    assert {resolve(one).vocabulary.mode for one in recipes.values()} == {"disjoint"}
    kept = [neighbours_kept(transformation(one or "identity"), [20] * 50, 0) for one in orders]
    assert max(kept) == 1 and min(kept) == 0 and len(set(kept)) > 20


def test_alignment_is_held_against_how_much_of_the_order_is_kept(tmp_path):
    """Against scipy; conditions that never got to .5 share the last rank."""
    kept = [1, 0.8, 0.6, 0.5, 0.3, 0.2, 0.1, 0.0, 0.05]
    aligned = [0.8, 0.7, 0.75, 0.55, 0.2, 0.1, 0.02, 0.03, 0.01]
    curves = [[0.1, 0.6, 0.8], [0.1, 0.55, 0.7], [0.1, 0.3, 0.75], [0.1, 0.2, 0.55]]
    curves += [[0.1, 0.1, value] for value in aligned[4:]]
    scores, names = [], [f"transliteration-{i}" for i in range(9)]
    for name, share, value, curve in zip(names, kept, aligned, curves, strict=True):
        mine = toy_scores(name, [value] * 3, 10)
        order = {"quantity": "neighbours_kept", "value": share, "n": 99, "encoder": name}
        near = {**order, "quantity": "contexts_kept", "value": 1 - share}
        scores += [*mine, *(Score(**told, seed=n) for n in range(3) for told in (order, near))]
        learnt(tmp_path, name, [curve, curve])
    told = {
        "name": "deshpande-ladder",
        "question": "how much?",
        "paper": "deshpande",
        "order": [],
        "control": names[0],
        "published": dict.fromkeys(names, ""),
    }
    recipe = {"steps": 30, "batch_tokens": 1e5, "encoder": {"layers": 2, "hidden_size": 64}}
    settings = {"seeds": 3, "conditions": {name: {"recipe": recipe} for name in names}}
    config = {"kind": "controlled", "study": told, "settings": settings}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = [*scores, *means(scores)]
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in found))
    ladder = kept_order(load_study(tmp_path))
    tied = np.maximum(aligned, 0.05)  # what differs below is chance
    assert ladder.correlation(ladder.kept)[0] == pytest.approx(spearmanr(kept, tied)[0])
    assert ladder.correlation(ladder.contexts)[0] == pytest.approx(-spearmanr(kept, tied)[0])
    turned = dataclasses.replace(ladder, mapped=dict(zip(names, aligned[::-1], strict=True)))
    expected = spearmanr(kept, np.maximum(aligned[::-1], 0.05))[0]
    assert turned.mapped_correlation(ladder.kept)[0] == pytest.approx(expected)
    assert "After a map: Spearman's" in turned.told() and "3 are tied" in turned.told()
    onsets = [1.8, 17 / 9, 2 + 4 / 9, 2 + 6 / 7, 9, 9, 9, 9, 9]
    assert ladder.onset_correlation(ladder.kept)[0] == pytest.approx(spearmanr(kept, onsets)[0])
    assert sum(map(np.isinf, ladder.onsets.values())) == 5
    assert "3 of them are below 0.05" in ladder.told() and "5 did not get there" in ladder.told()
    for name in names:  # two more seeds of each that have only begun
        learnt(tmp_path, name, [[0.1], [0.1]], first=2)
    begun = kept_order(load_study(tmp_path))
    assert begun.onsets == ladder.onsets and begun.under_way == 18 and ladder.under_way == 0
    assert "; 18 seeds that are under way are left out." in begun.told()
    assert "under way" not in ladder.told()
    page = write_report(tmp_path).read_text()
    assert "neighbours kept" in page and "5 never" in page and page.count("<svg") == 3
    assert np.isnan(ladder.correlation(dict([*ladder.kept.items()][:7]))).all()
    same = dataclasses.replace(ladder, onsets=dict.fromkeys(names, np.inf))
    assert (
        np.isnan(same.onset_correlation(ladder.kept)).all()
        and "nothing to hold them against" in same.told()
    )


def dutch(line):
    """Words of another language; one is the same in both."""
    return " ".join(word if word == "in" else f"{word}o" for word in line.split())


@pytest.fixture(scope="module")
def natural(settings, tmp_path_factory):
    """What a study of a natural pair is asked: the other language has words of its own, some of them
    in a dictionary."""
    folder = tmp_path_factory.mktemp("pair")
    lines = [dutch(line) for line in Path(settings["data"]).read_text().splitlines()]
    (folder / "nld.txt").write_text("".join(line + "\n" for line in lines))
    (folder / "words.txt").write_text("cat cato\ndog dogo\nruns runso\n")
    own = {
        name: value
        for name, value in settings.items()
        if name not in ("other", "syntax", "shuffled")
    }
    pair = f"nld:{folder / 'nld.txt'}"
    return {**own, "pair": pair, "dictionary": str(folder / "words.txt")}


def test_studies_of_several_pairs_stand_on_one_page(tmp_path, capsys):
    """Each condition in each pair, and less the control of its own study."""
    folders = []
    for place, (other, value) in enumerate({"fra": 0.6, "rus": 0.2}.items()):
        names = {"default": value, "sep-emb": value / 2}
        scores = [
            dataclasses.replace(
                s,
                source=s.source and s.source.replace("eng-x", other),
                target=s.target and s.target.replace("eng-x", other),
            )
            for name, one in names.items()
            for s in toy_scores(name, [one, one + 0.01, one - 0.01], 10)
        ]
        folder = tmp_path / f"run-{place}"
        folder.mkdir()
        told = {"name": "conneau-sharing", "question": "which?", "paper": "conneau", "order": []}
        told |= {"control": "default", "published": dict.fromkeys(names, "")}
        recipe = {"steps": 40 + place, "batch_tokens": 9, "encoder": {"layers": 2}}
        names = [*names, *["extra"][place:]]  # one of the first study alone
        conditions = {name: {"recipe": recipe} for name in names}
        settings = {"seeds": 3, "conditions": conditions}
        config = {"kind": "controlled", "study": told, "settings": settings}
        (folder / "config.json").write_text(json.dumps(config))
        lines = [score.as_json() + "\n" for score in [*scores, *means(scores)]]
        (folder / "scores.jsonl").write_text("".join(lines))
        folders.append(str(folder))
    out = tmp_path / "distance.html"
    assert main(["report", *folders, "--out", str(out)]) == 0
    page = out.read_text()
    assert "conneau-sharing: English–French and English–Russian" in page
    assert "4 comparisons, each with" in page  # less the control, beside those of two pairs
    assert "2 comparisons, each with" in page
    assert "English–French: the positive control, default, reached 0.60 by subwords" in page
    assert "−0.300 [" in page and "−0.100 [" in page  # each less its own control
    assert "higher than in English–French" in page and "+0.200 [" in page  # −.1 is above −.3
    assert "steps is 40 in English–French and 41 in English–Russian" in page
    assert "not recorded" not in page
    scores = [json.loads(line) for line in open(f"{folders[1]}/scores.jsonl", encoding="utf-8")]
    left = [s for s in scores if (s["encoder"], s.get("seed")) != ("sep-emb", 2)]
    Path(folders[1], "scores.jsonl").write_text("".join(json.dumps(s) + "\n" for s in left))
    assert main(["report", *folders, "--out", str(out)]) == 0
    assert "3 and 2 to 3" in out.read_text()  # seeds of each
    assert main(["report", folders[0], folders[0], "--out", str(out)]) == 2
    assert "each folder once" in capsys.readouterr().err


def test_no_line_that_is_trained_on_has_a_side_that_is_kept(natural, tmp_path):
    """Other English beside the same translation says the kept sentence as well; long sides, and
    paraphrases in the same words, are not kept."""
    english, other = (Path(natural["data"]), Path(natural["pair"].partition(":")[2]))
    lines, sides = english.read_text().splitlines(), other.read_text().splitlines()
    sides[:400] = [f"{line} zzo zzo zzo zzo zzo zzo zzo" for line in sides[:400]]  # too long
    told = {**natural, "dictionary": None, "pair": f"nld:{tmp_path / 'nld'}"}
    (tmp_path / "nld").write_text("\n".join(sides))
    study = controlled_study("conneau-sharing", told)
    kept = set(study_texts(study, told)["kept"])
    assert len(kept) == KEPT and not kept & set(lines[:400])
    first = next(i for i, line in enumerate(lines) if line in kept)
    again = next(i for i, line in enumerate(lines) if i >= 400 and line not in kept)
    sides[again] = sides[first]
    (tmp_path / "nld").write_text("\n".join(sides))
    texts = study_texts(study, told)
    assert set(texts["kept"]) == kept and lines[again] not in texts["training"]
    assert not set(texts["kept-pair"]) & set(texts["training-pair"])
    assert len(texts["training"]) == len(texts["training-pair"])
    cka = {"data": natural["data"], "paraphrase": str(tmp_path / "kjv")}
    (tmp_path / "kjv").write_text("\n".join([*lines[:300], *(f"{x} so" for x in lines[300:])]))
    found = study_texts(controlled_study("conneau-cka", cka), cka)
    assert all(a != b for a, b in zip(found["kept"], found["kept-paraphrase"], strict=True))


def test_a_natural_pair_is_trained_with_and_without_anchors(natural, tmp_path):
    short = natural | {"max_length": 14, "encoder.max_positions": 14}  # cuts some of what is kept
    short |= {"encoder.layers": 2}
    run = train("conneau-anchors", tmp_path / "run", seeds=1, settings=short).folder
    scores = [s for s in read_scores(run / "scores.jsonl") if s.seed == 0]
    assert {s.encoder for s in scores} == {"none", "default-anchors", "default", "extra"}
    assert {s.quantity for s in scores} == {
        "precision_at_1",
        "linear_cka",
        "debiased_linear_cka",
        "words_replaced",
        "sentences_cut",
        "subword_overlap_types",
        "subword_overlap_tokens",
    }
    assert {(s.source, s.target) for s in scores} == {("eng", "nld"), ("nld", "eng")}
    kept = [(run / "text" / f"kept{side}.txt").read_text().splitlines() for side in ("", "-pair")]
    assert len(kept[0]) == KEPT
    assert [*map(dutch, kept[0])] == kept[1]
    told = json.loads((run / "extra" / "seed-0" / "anchors.json").read_text())
    assert 0 < told["of_words"] <= 0.15
    asked = json.loads((run / "config.json").read_text())["asked"]["settings"]
    assert asked["pair"] == natural["pair"] and asked["dictionary"] == natural["dictionary"]
    (replaced,) = [s for s in scores if s.quantity == "words_replaced"]
    assert (replaced.encoder, replaced.value, replaced.n) == (
        "extra",
        told["of_words"],
        told["words"],
    )
    said = f"Words replaced: extra {100 * told['of_words']:.1f} % of all"
    assert any(said in str(part) for part in summary(run))
    page = write_report(run).read_text()
    for name in ("none", "extra"):  # a vocabulary for each language, and one of both
        place, recipe = run / name / "seed-0", json.loads((run / "config.json").read_text())
        shape = recipe["settings"]["conditions"][name]["recipe"]["encoder"]
        most = shape["max_positions"] - 2
        tokenizers = load_vocabularies(place / "tokenizer").tokenizers
        sides = [
            [len(tokenizers[language].encode(line, add_special_tokens=False).ids) for line in mine]
            for language, mine in zip(("eng", "nld"), kept, strict=True)
        ]
        cut = [max(lengths) > most for lengths in zip(*sides, strict=True)]
        (told,) = [s for s in scores if (s.encoder, s.quantity) == (name, "sentences_cut")]
        assert (told.value, told.n) == (sum(cut) / KEPT, KEPT) and sum(cut) < KEPT
    _check_overlaps(run, scores, ("none", "default-anchors", "default"), page)
    told = {s.quantity for s in scores if s.encoder == "extra"}
    assert not {"subword_overlap_types", "subword_overlap_tokens"} & told  # its words change
    _check_split(run, "none")
    share = max(s.value for s in scores if s.quantity == "sentences_cut")
    assert share > 0
    worst = next(s.encoder for s in scores if (s.quantity, s.value) == ("sentences_cut", share))
    sentence = f"At most {100 * share:.1f} % of the kept sentences ({worst}; of a pair, one or both"
    assert sentence in page and any(sentence in str(part) for part in summary(run))
    assert said in page and "extra &gt; default" in page
    assert "Default anchors" not in page  # as we call them
    recipes = training_recipes("conneau-anchors", natural)
    assert recipes["extra"].vocabulary == recipes["default"].vocabulary  # one, as the paper's


def _check_overlaps(run, scores, names, page):
    """By the subwords that have one id: counted as text, a subword a word; of languages without
    anchors there is none."""
    for name in names:
        place = run / name / "seed-0"
        vocabularies, texts = load_vocabularies(place / "tokenizer"), {}
        for language in ("eng", "nld"):
            pieces = vocabularies.pieces(language)
            ids = open_tokens(place / "tokens" / f"text.{language}").ids
            mine = "" if name != "none" else f"{language}:"
            texts[language] = collections.Counter(mine + pieces[i] for i in ids.tolist() if i > 4)
        english, dutch = texts["eng"], texts["nld"]
        both = [one for one in dutch if one in english]
        wanted = {
            "subword_overlap_types": (len(both) / len(dutch), len(dutch)),
            "subword_overlap_tokens": (
                sum(dutch[one] for one in both) / dutch.total(),
                dutch.total(),
            ),
        }
        for quantity, told in wanted.items():
            (found,) = [s for s in scores if (s.encoder, s.quantity) == (name, quantity)]
            assert (found.value, found.n) == (pytest.approx(told[0]), told[1])
    shares = {s.encoder: s.value for s in scores if s.quantity == "subword_overlap_tokens"}
    assert shares["none"] == 0 < min(shares["default-anchors"], shares["default"])
    (sentence,) = [part for part in summary(run) if str(part).startswith("Of the subwords of ")]
    assert f"({100 * shares['default']:.1f} % of all that occur) in default" in sentence
    assert "0.0 % (0.0 % of all that occur) in none; " in sentence
    assert "Subwords in common" in page and "of all that occur" in page


def test_kept_sentences_that_repeat_on_any_side_are_together_in_all_conditions(natural, tmp_path):
    lines = Path(natural["data"]).read_text().splitlines()
    (tmp_path / "so.txt").write_text("".join(f"{line} so\n" for line in lines))
    asked = {key: natural[key] for key in ("data", "pair")}
    asked |= {"paraphrase": str(tmp_path / "so.txt")}
    study, texts = made("conneau-cka", asked)
    texts["kept-pair"][1], texts["kept-paraphrase"][3] = "een  kat", texts["kept-paraphrase"][2]
    texts["kept-pair"][0] = "een kat"
    groups = run_module._groups(study, texts)
    assert groups.tolist()[:5] == [0, 0, 1, 1, 2] and groups.max() == KEPT - 3
    assert run_module._settings(study, texts, 1)["repeated"] == 4
    alone = {**texts, "kept-pair": texts["kept"], "kept-paraphrase": texts["kept"]}
    assert "repeated" not in run_module._settings(study, alone, 1)


def _check_split(run, name):
    """Translations that come twice are on one side of the division, whatever the other side says."""
    study = json.loads((run / "config.json").read_text())["settings"]["conditions"][name]
    recipe = from_dict(TrainRecipe, study["recipe"])
    kept = {language: read_text(str(run / "text" / f"kept{side}.txt"), language)
            for language, side in (("eng", ""), ("nld", "-pair"))}  # fmt: skip
    half = [kept["nld"].sentences[i // 2] for i in range(KEPT)]
    kept["nld"] = dataclasses.replace(kept["nld"], sentences=half)
    groups = groups_of([kept["eng"].sentences, half])
    placed = run_module.placed(recipe, recipe.seed, run / "text")
    found = measure(run / name / "seed-0", placed, kept, name, groups=groups)
    split = make_split(KEPT, 0.5, 0, groups)
    rows = [s for s in found if (s.details or {}).get("part") == "held_out"]
    assert rows and {s.n for s in rows} == {len(split.held_out)}
    assert not set(groups[split.held_out]) & set(groups[split.train])


def test_the_systems_of_a_natural_pair_are_those_of_the_papers_table(natural):
    plans = training_recipes("conneau-sharing", {**natural, "dictionary": None})
    assert list(plans) == list(SYSTEMS)
    for name, recipe in plans.items():
        made = resolve(recipe)
        assert made.languages == ("eng", "nld") and not made.derived
        assert (recipe.sharing, made.vocabulary.mode) == (
            SYSTEMS[name].plan,
            SYSTEMS[name].vocabulary,
        )
    sizes = {name: recipe.vocabulary.size for name, recipe in plans.items()}
    own = sizes.pop("sep-emb")
    assert sizes.pop("default") == 2 * own  # 80,000 beside 40,000 and 40,000
    assert set(sizes.values()) == {own}


def test_a_dictionary_without_a_known_word_is_refused_by_its_file(natural, tmp_path):
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("Qxz Zxq\n")
    study = controlled_study("conneau-sharing", natural)
    with pytest.raises(
        InputError, match=r"wrong\.txt: expected words of eng, each with one of nld"
    ):
        study_texts(study, {**natural, "dictionary": str(wrong)})


def test_with_a_dictionary_and_another_text_they_are_all_ten(natural, tmp_path):
    lines = [f"{n} zzo {'mmo ' * (n % 9)}" for n in range(3000)]
    kept = study_texts(controlled_study("conneau-sharing", natural), natural)
    same = [kept["kept"][0], kept["kept-pair"][0], kept["training-pair"][0]]
    (tmp_path / "other").write_text("\n".join([*same, *lines]))
    told = {**natural, "other": str(tmp_path / "other")}
    study = controlled_study("conneau-sharing", told)
    assert list(study.conditions) == [*SYSTEMS, "extra", "other-source"]
    printed = [one.published for one in study.conditions.values()]
    assert printed.count("") == 1 and {"Extra anchors", "Wiki-CC"} <= {*printed}
    default, extra, apart = (
        study.conditions[n].recipe for n in ("default", "extra", "other-source")
    )
    assert dataclasses.replace(extra, anchors=default.anchors) == default
    assert extra.anchors.dictionary == "dictionary" and not default.anchors.dictionary
    assert dataclasses.replace(apart, sources=default.sources) == default
    assert [s.texts for s in apart.sources] == [{"eng": "training"}, {"nld": "training-other"}]
    texts = study_texts(study, told)
    other = texts["training-other"]
    assert {*other} <= {line.strip() for line in lines}  # no kept sentence, and none of pair's
    sizes = [sum(map(len, texts[name])) for name in ("training-other", "training-pair")]
    assert 0 <= sizes[1] - sizes[0] < 60 and other == study_texts(study, told)["training-other"]
    place = tmp_path / "text"
    place.mkdir()
    for name in ("training", "training-other"):
        (place / f"{name}.txt").write_text("".join(f"{line}\n" for line in texts[name]))
    recipe = run_module.placed(dataclasses.replace(apart, steps=2), 0, place)
    train(recipe, tmp_path / "trained", settings={}, device="cpu")  # it can be trained
    (tmp_path / "other").write_text("\n".join(lines[:20]))
    with pytest.raises(InputError, match="other: expected other lines than those of pair, of"):
        study_texts(study, told)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("deshpande-pairs", {}, "pair: expected none with deshpande-pairs"),
        ("conneau-cka", {}, "dictionary: expected none with conneau-cka"),
        ("conneau-sharing", {"pair": None}, "dictionary: expected none without pair"),
        (
            "conneau-sharing",
            {"pair": None, "dictionary": None, "other": "x"},
            "other: expected none without pair",
        ),
        ("conneau-anchors", {"other": "x"}, "other: expected none with conneau-anchors"),
        ("conneau-anchors", {"pair": "fra.txt"}, "pair: expected LANGUAGE:FILE"),
        ("conneau-anchors", {"pair": "eng:x"}, "pair: expected LANGUAGE:FILE, another one"),
        ("conneau-anchors", {"pair": "en:x"}, "pair: expected LANGUAGE:FILE, another one"),
        ("conneau-anchors", {"pair": "eng-x:x"}, "pair: expected LANGUAGE:FILE, another one"),
        ("conneau-anchors", {"pair": "paraphrase:x"}, "pair: expected .*, not called eng-x or p"),
        ("conneau-anchors", {"pair": "../x:y"}, "pair: expected a name of letters"),
        ("conneau-anchors", {"pair": None}, "dictionary: expected none without pair"),
        ("conneau-anchors", {"pair": "nld:short"}, "pair: expected 700 lines, as data has, got 9"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(natural, name, changes, message, tmp_path):
    if changes.get("pair") == "nld:short":
        (tmp_path / "short").write_text("een kat\n" * 9)
        changes = {"pair": f"nld:{tmp_path / 'short'}"}
    with pytest.raises(InputError, match=message):
        made(name, {**natural, **changes})


def test_a_run_of_another_kind_is_no_study(tmp_path):
    (tmp_path / "config.json").write_text('{"kind": "probe", "settings": {}}')
    with pytest.raises(InputError, match="expected a controlled study, got a run of kind 'probe'"):
        load_study(tmp_path)


def test_cka_and_retrieval_are_correlated_over_conditions(tmp_path):
    scores, points = [], []
    for place, (hits, cka) in enumerate(((5, 0.1), (20, 0.4), (30, 0.35), (45, 0.9))):
        name = f"c{place}"
        scores += toy_scores(name, [0.5, 0.5, 0.5], hits)
        scores += [
            Score(quantity="debiased_linear_cka", value=cka, n=50, layer=1, other_layer=1,
                  encoder=name, seed=seed, source="eng", target="eng-x")
            for seed in range(3)
        ]  # fmt: skip
        points.append((hits / 50, cka))
    told = {"name": "x", "question": "?", "paper": "conneau", "order": [], "control": "c3"}
    told["published"] = {f"c{place}": "" for place in range(4)}
    (tmp_path / "config.json").write_text(json.dumps({"kind": "controlled", "study": told}))
    found = [*scores, *means(scores)]
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in found))
    (sentence,) = similarity_told(load_study(tmp_path))
    r = pearsonr(*zip(*points, strict=True))[0]
    assert sentence.startswith("Over 4 conditions, ")
    assert sentence.endswith(f"Pearson's {r:.2f}.")  # of so few there is no interval
    few = [s for s in found if s.encoder != "c0"]
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in few))
    assert similarity_told(load_study(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("eng-invertion", {}, "did you mean inversion"),
        ("eng-inversion,inversion", {}, "conditions that differ, got inversion twice"),
        (
            "eng-translit+inversion,inversion+translit",
            {},
            "that differ, got inversion.transliteration, the language of transliteration.inversion",
        ),
        ("eng-translit,identity+translit", {}, "the language of transliteration; leave one of "),
        ("eng-token-hop", {}, "transformations of the order of subwords"),
        ("deshpande-pairs", {"model": 65}, "model: expected a width that is a multiple of 32"),
        ("deshpande-pairs", {"scale": "big"}, "scale: expected small or paper, got 'big'"),
        ("deshpande-pairs", {"scale": "paper", "model": 64}, "model: expected none with scale=p"),
        (
            "conneau-sharing",
            {"masking.scope": "language"},
            "masking.scope: expected what goes with",
        ),
        ("deshpande-pairs", {"tokens": 10}, "tokens: expected a number from 256 up, got 10"),
        ("deshpande-pairs", {"sharing": "sep=all"}, "sharing: expected what the conditions of"),
        ("deshpande-pairs", {"anchors.rate": 0.2}, "anchors.rate: expected what the conditions"),
        (
            "deshpande-pairs",
            {"seeds": 5},
            "seeds: expected none among the settings, got 5; give --s",
        ),
        *(
            (name, {key: value}, f"{key}: expected what the conditions of the study leave open")
            for name in ("deshpande-pairs", "deshpande-corpora", "conneau-sharing")
            for key, value in (("vocabulary.mode", "union"), ("vocabulary.copies", {}))
        ),
        (
            "deshpande-pairs",
            {"steps": 5},
            "steps: expected none beside tokens, got 5; leave one of",
        ),
        ("deshpande-corpora", {"other": ""}, "other: expected a file, a sentence per line, got n"),
        (
            "deshpande-pairs",
            {"syntax": "other"},
            "syntax: expected 700 lines, as data has, got 400",
        ),
        ("deshpande-pairs", {"syntax": "data"}, "syntax: expected words of data in another order"),
        (
            "deshpande-pairs",
            {"syntax": "shuffled"},
            "syntax: expected the words of each line of data in another order, got line 1, ",
        ),
        ("deshpande-pairs", {"data": "no.txt"}, "no.txt"),
        ("deshpande-pairs", {"data": 2024}, "data: expected the name of a file, got 2024"),
        ("deshpande-pears", {}, "recipe: expected one of deshpande-pairs"),
        ("deshpande-pairs", {"other": "x"}, "other: expected none with deshpande-pairs, got 'x'"),
        ("eng-inversion", {"syntax": "x"}, "syntax: expected none with eng-inversion, got 'x'"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(settings, name, changes, message):
    given = {**own(name, settings), **changes}
    if changes.get("syntax") in ("other", "data", "shuffled"):
        given["syntax"] = settings[changes["syntax"]]
    with pytest.raises(InputError, match=message):
        made(name, given)


def test_the_same_text_is_no_other_one(settings, tmp_path):
    """White space makes no other sentence, nor another source."""
    spaced = tmp_path / "spaced.txt"
    lines = Path(settings["data"]).read_text().splitlines()
    spaced.write_text("".join(f" {line.replace(' ', '  ', 1)}\n" for line in lines))
    data = {name: value for name, value in settings.items() if name not in READ}
    for name, value, message in (
        ("conneau-sharing", {"pair": f"fra:{spaced}"}, "pair: expected lines in another language"),
        ("conneau-cka", {"paraphrase": str(spaced)}, "paraphrase: expected .* 700 of 700 lines"),
        (
            "deshpande-corpora",
            {"other": str(spaced)},
            "other: expected lines that data lacks.*got 0",
        ),
    ):
        with pytest.raises(InputError, match=message):
            made(name, {**data, **value})
    few = tmp_path / "few.txt"
    few.write_text("".join(Path(settings["other"]).read_text().splitlines(keepends=True)[:60]))
    with pytest.raises(
        InputError, match=r"other: expected lines that data lacks, of [0-9,]+ tokens"
    ):
        made("deshpande-corpora", {**data, "other": str(few)})


def test_sentences_that_are_the_same_in_both_languages_are_not_kept(settings, tmp_path):
    lines = Path(settings["data"]).read_text().splitlines()
    pair = [line if n % 3 == 0 else line.upper() for n, line in enumerate(lines)]
    (tmp_path / "fra.txt").write_text("".join(f"{line}\n" for line in pair))
    data = {name: value for name, value in settings.items() if name not in READ}
    _, texts = made("conneau-sharing", {**data, "pair": f"fra:{tmp_path / 'fra.txt'}"})
    assert len(texts["kept"]) == KEPT
    assert not {*texts["kept"]} & {*texts["kept-pair"]}


def test_seeds_are_a_study_s(tmp_path):
    with pytest.raises(
        InputError, match="seeds: expected a controlled study by name, got emergenc"
    ):
        train("emergence", tmp_path / "run", seeds=2)
    with pytest.raises(InputError, match="seeds: expected 1 or more, got 0"):
        study, texts = made("conneau-anchors", {"data": str(_data(tmp_path))})
        run_controlled(study, texts, tmp_path / "run", seeds=0)
    assert not (tmp_path / "run").exists()


def _data(folder):
    path = folder / "data.txt"
    path.write_text("".join(line + "\n" for line in sentences(300)))
    return path


def test_a_text_that_is_too_short_is_refused_as_the_user_calls_it(tmp_path):
    (tmp_path / "short.txt").write_text("".join(line + "\n" for line in sentences(20)))
    with pytest.raises(InputError, match="data: expected at least [0-9]+ different sentences of "):
        made("deshpande-pairs", {"data": str(tmp_path / "short.txt")})


def test_trainings_that_agree_to_the_last_digit_have_no_interval_without_width():
    one = Score(quantity="token_alignment", value=0.025, n=238, low=0.01, high=0.06, encoder="a")
    (mean,) = means([dataclasses.replace(one, seed=seed) for seed in range(3)])
    assert (mean.value, mean.low, mean.high) == (0.025, 0.01, 0.06)  # of the first one's subwords
    difference, *ends = welch(np.full(3, 0.1), np.zeros(3))
    assert difference == pytest.approx(0.1) and np.isnan(ends).all()
    assert verdict((difference, *ends)) == ("+0.100", "open")


def test_measures_that_differ_by_the_same_are_comparisons_of_their_own():
    same, other = (0.1, 0.0, 0.2), (0.2, 0.1, 0.3)
    assert comparisons([{"subwords": same, "sentences": same}]) == 2
    assert comparisons([{"sentences": same, "gain of sentences": other}]) == 2
    assert comparisons([{"sentences": same, "gain of sentences": same}]) == 1
    assert comparisons([{}, {"subwords": same}]) == 1


def test_trainings_that_do_not_differ_are_compared_over_subwords(tmp_path):
    """All subwords in three trainings against none in three: no seed tells how far means may be off."""
    ends = {"a": (1.0, 0.98, 1.0), "b": (0.0, 0.0, 0.02), "c": (0.01, 0.0, 0.03)}
    told = {"quantity": "token_alignment", "n": 200, "condition": "unaligned"}
    scores = [
        Score(value=value, low=low, high=high, encoder=name, seed=seed, **told)
        for name, (value, low, high) in ends.items()
        for seed in range(3)
    ]
    scores += [s for name in "abc" for s in toy_scores(name, [0.5], 10, 1) if s.layer is not None]
    study_of(tmp_path, [*scores, *means(scores)], "abc")
    study = load_study(tmp_path)
    assert differences(study, "a", "b")["subwords"] == pytest.approx((1, 1 - 0.02 * 2**0.5, 1))
    assert verdict(differences(study, "a", "b")["subwords"])[1] == "found"
    assert verdict(differences(study, "c", "b")["subwords"])[1] == "open"


def test_anchors_are_the_most_frequent_words(tmp_path, capsys):
    study, texts = made("conneau-anchors", {"data": str(_data(tmp_path))})
    words = [line.split("\t") for line in texts["identity-100"]]
    assert all(a == b for a, b in words) and len(words) == 20  # the text has no more
    assert "data has 20 different words: extra-100 has no more anchors" in capsys.readouterr().err
    counts = [sum(line.split().count(a) for line in texts["training"]) for a, _ in words]
    assert counts == sorted(counts, reverse=True)
    assert study.conditions["extra-100"].recipe.anchors.dictionary == "identity-100"


@pytest.mark.parametrize(
    ("tokens", "rate", "in_toml"),
    [(".2e6", ".3", ("200_000", "0.3")), ("2.E5", "+.3", ("2e5", "3e-1"))],
)
def test_numbers_may_begin_or_end_with_their_point(capsys, tokens, rate, in_toml):
    shown = []
    for size, share in ((tokens, rate), in_toml):
        line = ["eng-translit", "data=x", f"tokens={size}", f"masking.rate={share}", "--dry-run"]
        assert main(["train", *line]) == 0
        shown.append(capsys.readouterr().out.partition("time: ")[0])
    assert shown[0] == shown[1] and "rate = 0.3" in shown[0]


def test_a_dry_run_shows_every_condition(settings, capsys):
    given = {name: value for name, value in settings.items() if name not in READ}
    asked = [f"{name}={value}" for name, value in given.items()]
    for line in ([*asked, "--dry-run"], ["--dry-run", *asked]):  # settings behind options, too
        assert main(["train", "deshpande-pairs", *line]) == 0
        shown = capsys.readouterr().out
        assert "# inversion" in shown and "# transliteration" in shown
        assert shown.count("deshpande-pairs: 9 trainings (3 conditions, 3 seeds)") == 1
    assert main(["train", "deshpande-pairs", *asked, "--dry-run", "--seeds", "5"]) == 0
    assert "deshpande-pairs: 15 trainings (3 conditions, 5 seeds)" in capsys.readouterr().out
    assert main(["train", "deshpande-pairs", *asked, "--dry-run", "--device", "cuda"]) == 0
    total = capsys.readouterr().out.splitlines()[-1]
    assert total.endswith("on one H100 at 0.25 % of its bfloat16 peak")
    assert main(["train", "deshpande-pairs", *asked, "--dry-run", "--json"]) == 0
    *told, total = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["training"] for one in told] == ["transliteration", "permutation", "inversion"]
    assert all(one["recipe"]["steps"] and one["seconds"]["cpu"] > 0 for one in told)
    assert total["in_all"].startswith("deshpande-pairs: 9 trainings")
    with pytest.raises(SystemExit):
        main(["train", "deshpande-pairs", "--dry-run", *asked, "word"])
    assert "unrecognized arguments: word" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tokens", "seeds", "told"),
    [
        (
            2e5,
            1,
            "1 training (1 condition, 1 seed), 0.2 M tokens in all; ",
        ),
        (3e9, 3, "3 trainings (1 condition, 3 seeds), 9,000 M tokens in all; "),
    ],
)
def test_what_a_study_costs_is_said_in_numbers_that_can_be_read(tokens, seeds, told):
    study = controlled_study("eng-translit", {"data": "x", "tokens": tokens})
    said = expected_cost(study, seeds)
    assert said.startswith(f"eng-translit: {told}") and " of pure products on " in said
    assert (" h of" in said or " days of" in said) == (seeds == 3)
    on_gpu = expected_cost(study, seeds, gpu=True)
    (recipe,) = [condition.recipe for condition in study.conditions.values()]
    one = estimate(recipe)
    # float32, of which an H100 has 67 teraflops
    for width, share in ((64, 0.0025), (128, 0.02), (256, 0.02), (768, 0.4 * 67 / 989)):
        size = {"encoder.hidden_size": width, "encoder.heads": width // 32}
        wide = estimate(with_overrides(recipe, size))
        assert wide.on_gpu == pytest.approx(wide.flops_per_token * wide.tokens / (share * 989e12))
    assert (
        f"; {duration(max(seeds * one.on_gpu, 1))} on one H100 at 0.25 % of its bfloat16 peak"
        in on_gpu
    )


@pytest.mark.slow  # three trainings, which the other tests have made of other conditions
def test_the_command_line_trains_a_study_and_prints_it(settings, tmp_path, capsys):
    given = {name: value for name, value in settings.items() if name not in READ}
    asked = [f"{name}={value}" for name, value in given.items()]
    folder = str(tmp_path / "run")
    main(["train", "deshpande-pairs", *asked, "--seeds", "1", "--out", folder, "--device", "cpu"])
    shown = capsys.readouterr().out
    assert "P@1 of sentences" in shown and "permutation" in shown and "scores.jsonl" in shown
    main(["train", folder, "--seeds", "1", "--out", folder, "--resume", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["encoder"] for line in lines} == {"transliteration", "permutation", "inversion"}
    assert len(read_text(str(tmp_path / "run/text/kept.txt"), "eng")) == KEPT


def test_a_difference_of_shares_ends_at_one():
    """Welch's interval of three trainings is wider than shares can differ by."""

    def score(name, seed, value):
        told = {"condition": "unaligned", "encoder": name, "seed": seed}
        return Score(quantity="token_alignment", value=value, n=9, **told)

    values = {"a": (0.2, 0.9, 0.9), "b": (0.0, 0.1, 0.0)}
    scores = [score(name, n, value) for name, x in values.items() for n, value in enumerate(x)]
    study = StudyFolder({}, scores, ["a", "b"], {}, {}, {}, {})
    difference, low, high = differences(study, "a", "b")["subwords"]
    whole = welch(*map(np.array, values.values()))
    assert whole[2] > 1.0 == high and (difference, low) == whole[:2]
    assert differences(study, "b", "a")["subwords"][1] == -1.0


@pytest.mark.parametrize(
    ("untrained", "sentences", "expected"),
    [
        (0.02, 0.6, "By subwords, subwords after a map and sentences an order that is rev"),
        (
            0.48,
            0.52,
            "An untrained encoder already finds 0.48 of the sentences, and training did not",
        ),
        (0.48, 0.75, "By subwords, subwords after a map and sentences an order that is rev"),
        (0.02, 0.4, "Below 0.5: what is not found, or reversed, by sentences says nothing."),
        (1.0, 1.0, "what is not found, or reversed, by sentences says nothing."),
    ],
)
def test_a_control_is_held_against_an_untrained_encoder(untrained, sentences, expected):
    """On a natural pair such an encoder finds what is written alike."""

    class Study:
        told = {"control": "default", "order": [["default"]], "published": {"default": ""}}
        compares_gains, names = False, ["default"]

        def mean(self, name, quantity, condition):
            assert quantity == "token_alignment"
            details = {"values": [0.4, 0.9, 0.8] if condition == "unaligned" else [0.7] * 3}
            return Score(quantity=quantity, value=0.7, n=9, details=details)

        def sentences(self, name, condition="unaligned"):
            value = untrained if condition == "random_encoder" else sentences
            return Score(quantity="precision_at_1", value=value, n=9)

    told = controlled_findings.control_told(Study())
    assert expected in told
    assert "0.70 by subwords (2 of 3 trainings 0.5 or more), 0.70 by subwords after a map " in told
    assert ("sentences an order" in told) is (expected.startswith("By"))


def by_step(curve):
    """Tokens -> P@1 as a log has them, a step for each 1,000 tokens."""
    return {int(tokens // 1e3): (tokens, value) for tokens, value in curve.items()}


def ladder_of(curves, contexts=()):
    """Nine conditions that keep less and less, each with these curves; the last without a log."""
    names = [f"c{i}" for i in range(9)]
    scores = []
    for i, name in enumerate(names):
        told = {"n": 9, "encoder": name}
        scores.append(Score(quantity="neighbours_kept", value=1 - i / 9, **told))
        scores.append(
            Score(quantity="token_alignment", value=0.9 - i / 10, condition="unaligned", **told)
        )
        if name in contexts:
            scores.append(Score(quantity="contexts_kept", value=1 - i / 9, **told))
    learning = {
        name: Learning(dict(enumerate(map(by_step, curves))), 3e6, range(len(curves)))
        for name in names[:-1]
    }
    return StudyFolder({}, scores, names, {}, {}, learning, {})


def test_an_onset_is_the_median_over_seeds_and_what_is_not_known_of_all_is_left_out():
    found = kept_order(ladder_of([{1e6: 0.6}, {1e6: 0.1, 3e6: 0.5}, {3e6: 0.1}]))
    assert [*found.kept] == [f"c{i}" for i in range(8)]  # of the last nothing was logged
    assert set(found.onsets.values()) == {3e6}  # one of three that never got there is no matter
    never = kept_order(ladder_of([{1e6: 0.6}, {3e6: 0.1}, {3e6: 0.1}]))
    assert set(never.onsets.values()) == {np.inf}
    every = [f"c{i}" for i in range(8)]
    assert [*kept_order(ladder_of([{1e6: 0.6}], every)).contexts] == every
    assert kept_order(ladder_of([{1e6: 0.6}], every[1:])).contexts == {}


def test_a_level_is_reached_where_it_is_met_and_curves_end_where_a_seed_does():
    assert onset({1e6: 0.1, 2e6: 0.5}, 0.5) == 2e6 and onset({1e6: 0.5}, 0.5) == 1e6
    one = Learning({0: by_step({1e6: 0.1, 2e6: 0.3}), 1: by_step({1e6: 0.3})}, 2e6, ())
    assert list(one.curve()) == [1e6] and one.curve()[1e6][0] == pytest.approx(0.2)


def test_seeds_are_averaged_at_the_same_step_where_their_tokens_differ():
    """Blocks of whole sentences hold more and fewer subwords, by the order of the text."""
    points = {0: {10: (990.0, 0.2), 20: (2010.0, 0.6)}, 1: {10: (1010.0, 0.4), 20: (1990.0, 0.8)}}
    curve = Learning(points, 2e6, ()).curve()
    assert list(curve) == [1000.0, 2000.0]
    assert [one[0] for one in curve.values()] == pytest.approx([0.3, 0.7])
    assert curve[1000.0] == pytest.approx((0.3, 0.0, 1.0))  # of two seeds, within 0 and 1


def test_cka_that_is_everywhere_the_same_is_correlated_with_nothing():
    class Study:
        layers = dict.fromkeys("abcd")

        def sentences(self, name):
            return Score(quantity="precision_at_1", value=ord(name) / 200, n=9)

        def cka(self, name):
            return Score(quantity="debiased_linear_cka", value=0.5, n=9)

    assert similarity_told(Study()) == []


def test_a_natural_pair_is_in_the_title(tmp_path):
    scores = natural_scores("default", 30, 20)
    for one, other, title in (
        ("eng", "eng-x", "deshpande-corpora: ?"),
        ("fra", "eng", "deshpande-corpora, English–French: ?"),
    ):
        codes = {"eng": one, "eng-x": other}
        called = [
            dataclasses.replace(s, source=codes[s.source], target=codes[s.target]) for s in scores
        ]
        study_of(tmp_path, called, ["default"])
        assert load_study(tmp_path).title == title
    two = [*called, *(dataclasses.replace(s, target="deu") for s in called)]
    study_of(tmp_path, two, ["default"])
    assert load_study(tmp_path).title == "deshpande-corpora: ?"


def test_sentences_that_say_the_same_are_counted_together_in_comparisons(tmp_path):
    """Also where trainings of an earlier version, beside newer ones, do not say which do."""
    scores = [*natural_scores("default", 30, 20), *natural_scores("none", 3, 2)]
    together = [[i, i + 25] for i in range(25)]
    told = [
        dataclasses.replace(one, details={**one.details, "equal_items": together})
        if "hits" in one.details and one.encoder == "none"
        else one
        for one in scores
    ]
    study_of(tmp_path, [*told, *means(told)], ("default", "none"), order=[["default"], ["none"]])
    found = differences(load_study(tmp_path), "default", "none")
    groups = np.arange(50) % 25

    def side(name, condition="unaligned"):
        return hits_of(
            [s for s in scores if (s.encoder, s.condition, s.layer) == (name, condition, 1)], groups
        )

    sides = [(1.0, *side("default"))], [(-1.0, *side("none"))]
    assert found["sentences"] == seeds_contrast(*sides)
    for weight, part in zip((-1.0, 1.0), sides, strict=True):
        part.append((weight, *side("default" if weight < 0 else "none", "random_encoder")))
    assert found["gain of sentences"] == seeds_contrast(*sides)


def test_untrained_encoders_that_find_as_many_but_others_are_not_the_same(tmp_path):
    scores = [*natural_scores("default", 30, 20)]
    for one in natural_scores("none", 3, 20):  # as many before training, but the last ones
        if one.condition == "random_encoder":
            one = dataclasses.replace(
                one, details={**one.details, "hits": one.details["hits"][::-1]}
            )
        scores.append(one)
    study_of(
        tmp_path, [*scores, *means(scores)], ("default", "none"), order=[["default"], ["none"]]
    )
    found = differences(load_study(tmp_path), "default", "none")
    assert found["gain of sentences"][0] == pytest.approx(found["sentences"][0])
    assert found["gain of sentences"][1:] != pytest.approx(found["sentences"][1:])


def test_one_side_that_does_not_vary_leaves_an_interval_and_one_that_ends_at_0_is_open():
    same, other = np.full(3, 0.5), np.array([0.1, 0.2, 0.3])
    difference, low, high = welch(same, other)
    half = mean_interval(other)[2] - 0.2  # of the side that varies alone
    assert (difference, low, high) == pytest.approx((0.3, 0.3 - half, 0.3 + half))
    assert verdict((0.2, 0.0, 0.4))[1] == verdict((-0.2, -0.4, 0.0))[1] == "open"


def test_when_few_trainings_are_too_few():
    assert few_trainings_told([10, 12]) == "" != few_trainings_told([9, 12])
    at_most = "in at most 3 %"
    assert at_most in few_trainings_told([3, 3], subwords=True)
    assert at_most not in few_trainings_told([3, 9], subwords=True)  # then it is 10 %


def test_a_control_that_reached_half_has_reached_it():
    class Study:
        told = {"control": "default", "order": [["default"]], "published": {"default": ""}}
        compares_gains, names = False, ["default"]

        def mean(self, name, quantity, condition):
            details = {"values": [0.4, 0.5, 0.6]}
            return Score(quantity=quantity, value=0.5, n=9, details=details)

        def sentences(self, name, condition="unaligned"):
            return None

    told = controlled_findings.control_told(Study())
    assert "0.50 by subwords (2 of 3 trainings 0.5 or more)" in told
    assert "By subwords and subwords after a map an order that is reversed counts" in told
    assert "Below" not in told
    Study.told = {**Study.told, "order": []}  # the ladder
    assert "order that is reversed" not in controlled_findings.control_told(Study())


def test_a_training_without_a_measurement_leaves_no_verdict(tmp_path):
    scores = [*natural_scores("extra", 30, 20), *natural_scores("default", 21, 20)]
    lost = [
        dataclasses.replace(
            one,
            value=math.nan,
            low=None,
            high=None,
            details={"part": one.details.get("part"), "reason": "x"},
        )
        if (one.encoder, one.seed) == ("extra", 2) and one.quantity == "precision_at_1"
        else one
        for one in scores
    ]
    for some, n in ((scores, 2), (lost, 0)):
        study_of(
            tmp_path, [*some, *means(some)], ("extra", "default"), order=[["extra"], ["default"]]
        )
        study = load_study(tmp_path)
        assert len(differences(study, "extra", "default")) == n
    study.told["control"] = "extra"
    assert controlled_findings.control_told(study) == ""


def test_the_condition_with_most_that_is_cut_and_overlap_that_not_all_have():
    cut = [Score(quantity="sentences_cut", value=x, n=500, encoder=str(x)) for x in (0.1, 0.3, 0.2)]
    assert cut_told(cut).startswith("At most 30.0 % of the kept sentences (0.3; ")
    shares = [
        Score(quantity=f"subword_overlap_{what}", value=x, n=9, encoder=name)
        for name in "ab"
        for what, x in (("types", 0.2), ("tokens", 0.4))
    ]
    told = "of the second language's text the first one's has 20.0 % (40.0 % of all that occur) in"
    every = StudyFolder({}, shares, ["a", "b"], {}, {}, {}, {})
    assert overlap_told(every) == [f"Of the subwords {told} every condition."]
    more = dataclasses.replace(every, names=["a", "b", "c"])
    assert overlap_told(more) == [f"Of the subwords {told} a, b."]
    aligned = Score(quantity="token_alignment", value=0.5, n=9, encoder="a")
    copy = dataclasses.replace(every, scores=[*shares, aligned])
    assert "text, before any get ids of their own, the first one's has" in overlap_told(copy)[0]


def test_a_measurement_without_a_number_is_no_point_of_a_curve(tmp_path):
    scores = toy_scores("a", [0.5], 10, 1)
    study_of(tmp_path, [*scores, *means(scores)], "a")
    config = json.loads((tmp_path / "config.json").read_text())
    config["settings"] = {"conditions": {"a": {"recipe": {"steps": 40, "batch_tokens": 1e5}}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    learnt(tmp_path, "a", [[0.1, float("nan"), 0.6, 0.7], []])
    (tmp_path / "a" / "seed-1" / "model").mkdir()  # its training is over, and nothing was logged
    (tmp_path / "a" / "seed-1" / "model" / "config.json").write_text("{}")
    found = load_study(tmp_path).learning["a"]
    assert list(found.seeds[0]) == [1e6, 3e6, 4e6] and found.ended == {0}


def test_the_layer_is_chosen_on_the_other_half_of_the_sentences_of_each_seed(tmp_path):
    """The best layer of the training half, whatever the held-out half would choose."""
    scores = [
        dataclasses.replace(one, value=0.9 if one.layer == 0 else 0.1)
        if one.details.get("part") == "train"
        else one
        for one in toy_scores("a", [0.5] * 3, 40)
    ]
    study_of(tmp_path, [*scores, *means(scores)], "a")
    assert load_study(tmp_path).layers["a"].layer == 0
    assert not load_study(tmp_path).compares_gains
    turned = StudyFolder({}, scores[::-1], ["a"], {}, {}, {}, {})  # whatever was measured first
    assert not turned.compares_gains


def test_a_mean_of_sentences_is_of_both_directions_and_one_of_shares_ends_at_one():
    scores = []
    for one in toy_scores("a", [0.2, 0.9, 0.9], 40):
        if one.source == "eng-x" and "hits" in one.details:  # the other direction finds fewer
            marks = "".join("01"[i < 10 * (1 + one.seed)] for i in range(50))
            details = {**one.details, "hits": marks}
            one = dataclasses.replace(one, value=marks.count("1") / 50, details=details)
        elif one.quantity == "token_alignment":
            details = {"chance": 0.01 * one.seed, "by_frequency": 0.02 * one.seed}
            one = dataclasses.replace(one, details=details)
        scores.append(one)
    found = {(one.quantity, one.layer): one for one in means(scores)}
    assert len(found) == len(means(scores)) == 3
    hits = np.array(
        [[(i < 40) + (i < 10 * (1 + seed)) for i in range(50)] for seed in range(3)], float
    )
    sentences = found["precision_at_1", 1]
    told = (sentences.value, sentences.low, sentences.high)
    assert told == pytest.approx(seeds_share(hits, np.full((3, 50), 2.0)))
    assert sentences.details["values"] == pytest.approx([0.5, 0.6, 0.7])
    subwords = found["token_alignment", None]
    assert (subwords.value, subwords.high) == (pytest.approx(2 / 3), 1.0) and subwords.low == 0.0
    assert subwords.details["chance"] == pytest.approx(0.01)
    assert subwords.details["by_frequency"] == pytest.approx(0.02)
