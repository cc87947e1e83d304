"""Runs of transfer: what is trained, chosen and tested, means over seeds, controls, and resuming."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from battery_data import add_treebanks, make_data, write
from safetensors.numpy import load_file, save_file

from crosslens.errors import InputError, OutputError
from crosslens.grid_settings import chosen_outcomes
from crosslens.models.saved.loading import load_encoder
from crosslens.models.training import loop
from crosslens.outcomes import Outcomes, read_outcomes
from crosslens.probes.methods.span_scores import count_spans
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.readers.tagged_words import read_tagged_words
from crosslens.readers.words import SEGMENTERS
from crosslens.recipes.quickstart import DATA
from crosslens.report.pages.transfer import transfer_page
from crosslens.run import engine
from crosslens.run.transfer import fits as transfer_fits
from crosslens.run.transfer import presets as transfer_presets
from crosslens.run.transfer.data import languages_by_task, transfer_data
from crosslens.run.transfer.measures import Answers, counted, outcomes
from crosslens.run.transfer.presets import PRESETS, find_preset
from crosslens.run.transfer.resegmented import resegmented
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.shortfall import shortfall, unread_told
from crosslens.run.transfer.summary import tables
from crosslens.run.transfer.transfer import checked_settings, preset_of, run_transfer
from crosslens.score import Score, read_scores

ENCODER = str(DATA / "tiny-encoder")
NAMES = ("Ada", "Grace", "Emmy", "Sofja")
TOWNS = ("Paris", "Rome", "Oslo", "Kyiv")


def ner_lines(n, start=0):
    for i in range(start, start + n):
        name, town = NAMES[i % 4], TOWNS[(i // 2) % 4]
        yield from (
            f"{name}\tB-PER",
            f"Person{i}\tI-PER",
            "lives\tO",
            "in\tO",
            f"{town}\tB-LOC",
            "",
        )


def pair_lines(n, start=0):
    for i in range(start, start + n):
        animal = "dog" if i % 2 else "cat"
        yield f"The {animal} sleeps in house {i}.\tA {animal}.\t{'entailment' if i % 2 else 'neutral'}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = make_data(tmp_path_factory.mktemp("data"))
    for name in ("ner", "xnli"):
        (folder / name).mkdir()
    for split, n, start in (("train", 24, 0), ("dev", 8, 24), ("test", 12, 32)):
        write(folder / "ner" / f"en_ewt-ud-{split}.iob2", list(ner_lines(n, start)))
        write(folder / "xnli" / f"{split}-en.tsv", list(pair_lines(n, start)))
    for name in ("en_pud", "de_pud"):
        write(folder / "ner" / f"{name}-ud-test.iob2", list(ner_lines(9, 50)))
    for split, n, start in (("dev", 20, 60), ("test", 10, 80)):
        write(folder / "xnli" / f"{split}-de.tsv", list(pair_lines(n, start)))
    return folder


def settings(data, **changes):
    told = {
        "encoders": [ENCODER],
        "tasks": ["xnli"],
        "data": str(data),
        "train": ["eng"],
        "test": ["eng", "deu"],
        "epochs": 2,
        "batch_size": 8,
        "peak_rate": 1e-3,
        "seeds": 2,
    }
    return Transfer(**{**told, **changes})


def test_a_gpu_is_asked_for_by_its_number(data, tmp_path, monkeypatch):
    asked = []

    def join(device):
        asked.append(device)
        raise KeyboardInterrupt

    monkeypatch.setattr("crosslens.models.machine.distributed.join_world", join)
    with pytest.raises(KeyboardInterrupt):
        run_transfer(settings(data, device="cuda:1"), tmp_path / "run")
    assert asked == ["cuda:1"]


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    told = settings(data, tasks=["xnli", "ner"], in_language=True, keep=True)
    return run_transfer(told, folder), told


def found(folder, **wanted):
    rows = []
    for score in read_scores(folder / "scores.jsonl"):
        values = {**(score.details or {}), **score.as_dict()}
        if all(values.get(name) == value for name, value in wanted.items()):
            rows.append(score)
    return rows


# -- runs


def test_every_language_stands_beside_its_controls(finished):
    folder, _ = finished
    for target in ("eng", "deu"):
        for condition in (None, "majority", "random_encoder"):
            for task, quantity in (("xnli", "accuracy"), ("ner", "span_f1")):
                (score, *_) = found(
                    folder,
                    task=task,
                    quantity=quantity,
                    condition=condition,
                    target=target,
                    part="test",
                )
                assert score.source == "eng" and 0 <= score.low <= score.value <= score.high <= 1
                seeds = score.details["over_seeds"]
                many = 2 if condition is None else 1
                assert len(seeds["seeds"]) == many
                assert score.value == pytest.approx(np.mean(seeds["values"]))
    (majority,) = found(folder, task="xnli", condition="majority", target="deu", part="test")
    assert (majority.value, majority.n) == (0.5, 10)


def test_what_is_learnt_is_transferred(finished):
    folder, _ = finished
    for condition, least in ((None, 0.9), ("averaged_epochs", 0.4), ("last_epoch", 0.9)):
        (score,) = found(folder, task="xnli", condition=condition, target="deu", part="test")
        assert score.value >= least
    (oracle,) = found(folder, task="xnli", condition="target_dev_oracle", part="test")
    assert oracle.target == "deu"  # nobody needs one for the language of training


def test_all_readings_of_spans_are_there_and_the_strict_one_is_first(finished):
    folder, _ = finished
    rows = found(folder, task="ner", condition=None, target="deu", quantity="span_f1", part="test")
    assert [row.details["counted_as"] for row in rows] == ["strict", "wu_dredze", "conneau"]
    assert {row.n for row in rows} == {18}
    (words,) = found(
        folder, task="ner", condition=None, target="deu", quantity="accuracy", part="test"
    )
    assert words.n == 45


def test_means_follow_from_the_outcomes_that_are_kept(finished):
    folder, _ = finished
    every = read_outcomes(
        folder, task="ner", suite="dev", target="deu", quantity="span_f1", method="strict"
    )
    mine = [one for one in every if one.condition is None]
    (score, *_) = found(
        folder,
        task="ner",
        quantity="span_f1",
        condition=None,
        target="deu",
        counted_as="strict",
        part="test",
    )
    assert len(mine) == 2 and score.value == pytest.approx(np.mean([one.mean for one in mine]))
    assert mine[0].gold[0] == "B-PER I-PER O O B-LOC" and len(mine[0]) == 9


def test_in_language_is_a_training_of_its_own_with_a_difference(finished):
    folder, _ = finished
    (own,) = found(folder, task="xnli", condition="in_language", target="deu", part="test")
    assert own.source == "deu"
    (gap,) = found(folder, task="xnli", condition="zero_shot_less_in_language")
    (zero,) = found(folder, task="xnli", condition=None, target="deu", part="test")
    assert gap.value == pytest.approx(zero.value - own.value) and gap.low <= gap.value <= gap.high
    # German names have a test split alone
    assert not found(folder, task="ner", condition="in_language")


def test_dev_of_each_seed_is_kept_with_its_epochs(finished):
    folder, _ = finished
    rows = found(folder, task="xnli", condition=None, part="dev", source="eng")
    assert [row.seed for row in rows] == [0, 1]
    for row in rows:
        epochs = row.details["epochs"]
        assert sorted(epochs) == ["1", "2"] and {"dev", "dev of deu"} == epochs["1"].keys()
        assert (
            row.value
            == epochs[str(row.details["epoch"])]["dev"]
            == max(e["dev"] for e in epochs.values())
        )


def test_weights_go_but_for_those_that_are_kept(finished):
    folder, _ = finished
    assert not list((folder / "models").rglob("*.safetensors"))
    kept = sorted(path.name for path in (folder / "encoders").iterdir())
    assert any(name.startswith("xnli-eng-tiny-encoder-encoder") for name in kept)
    assert all(name.endswith("-0") for name in kept)
    assert load_encoder(folder / "encoders" / kept[0]).layers == 5


def test_tables_say_what_was_measured(finished):
    folder, _ = finished
    told = {
        title: rows for title, rows, _ in tables(folder, list(read_scores(folder / "scores.jsonl")))
    }
    head, *rows = told["xnli: Accuracy in per cent"]
    assert head[:2] == ("target", "zero-shot") and [row[0] for row in rows] == [
        "eng → eng",
        "eng → deu",
    ]
    alike = [title for title in told if title.startswith("Settings, ") and "xnli" in title]
    assert len(alike) == 1 and told[alike[0]][1] == ("peak_rate", "0.001", "asked for")
    assert len(
        {tuple(rows) for title, rows in told.items() if title.startswith("Settings")}
    ) == len([title for title in told if title.startswith("Settings")])


def test_a_test_without_names_ends_no_run(data, tmp_path):
    """The most frequent label finds none there, so there is nothing to count of it."""
    shutil.copytree(data, tmp_path / "data")
    path = tmp_path / "data" / "ner" / "de_pud-ud-test.iob2"
    path.write_text(
        path.read_text().replace("B-PER", "O").replace("I-PER", "O").replace("B-LOC", "O")
    )
    told = settings(tmp_path / "data", tasks=["ner"], epochs=1, random_control=False)
    folder = run_transfer(told, tmp_path / "run")
    lost, *_ = found(folder, condition="majority", target="deu", counted_as="strict")
    assert np.isnan(lost.value) and lost.details["over_seeds"]["values"] == [None]
    scores = list(read_scores(folder / "scores.jsonl"))
    (_, rows, _), *_ = tables(folder, scores)
    assert rows[-1][0] == "eng → deu" and rows[-1][4] == "-"
    assert "not computed: nothing to count" in transfer_page(folder)


def test_a_finished_run_is_opened_and_another_refused(finished, data):
    folder, told = finished
    before = (folder / "scores.jsonl").read_bytes()
    assert run_transfer(told, folder) == folder
    assert (folder / "scores.jsonl").read_bytes() == before
    with pytest.raises(OutputError, match="seeds"):
        run_transfer(dataclasses.replace(told, seeds=3), folder)


@pytest.mark.parametrize("stop_at", [0, 2])
def test_a_run_that_was_stopped_ends_in_the_same_scores(data, tmp_path, monkeypatch, stop_at):
    told = settings(data, random_control=False, checkpoints=False)
    whole = run_transfer(told, tmp_path / "whole")
    compute, calls = transfer_fits._compute, []

    def stopping(*arguments):
        calls.append(1)
        if len(calls) > stop_at:
            raise KeyboardInterrupt
        return compute(*arguments)

    if stop_at < 2:
        with monkeypatch.context() as patched:
            patched.setattr(transfer_fits, "_compute", stopping)
            with pytest.raises(KeyboardInterrupt):
                run_transfer(told, tmp_path / "run")
    again = run_transfer(told, tmp_path / "run")
    for name in ("scores.jsonl", "outcomes.parquet", "examples.jsonl"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


def test_a_full_disk_after_the_training_costs_no_training(data, tmp_path, monkeypatch):
    told = settings(data, random_control=False, checkpoints=False, seeds=1)
    whole = run_transfer(told, tmp_path / "whole")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "write_outcomes", full)
        with pytest.raises(OSError, match="No space left"):
            run_transfer(told, tmp_path / "run")
    monkeypatch.setattr(loop, "learning_rate", lambda *_: pytest.fail("trained again"))
    again = run_transfer(told, tmp_path / "run")
    for name in ("scores.jsonl", "outcomes.parquet"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()
    assert not list((again / "models").rglob("*.safetensors"))


def test_a_grid_is_chosen_on_dev_with_the_first_seed(data, tmp_path, monkeypatch):
    monkeypatch.setitem(
        transfer_presets._TABLE,
        "default",
        [
            (
                ("pair",),
                {
                    "peak_rate": ((1e-7, 1e-3), "a test"),
                    "epochs": (2, "a test"),
                    "batch_size": (8, ""),
                },
            )
        ],
    )
    told = settings(
        data, peak_rate=None, epochs=None, batch_size=None, test=["deu"], random_control=False
    )
    told = dataclasses.replace(told, checkpoints=False)
    folder = run_transfer(dataclasses.replace(told, keep=True), tmp_path / "run")
    (kept,) = (folder / "encoders").iterdir()
    assert kept.name.endswith("-setting1-0")
    dev = found(folder, part="dev")
    tried = {(row.details["setting"], row.seed): row.value for row in dev}
    assert tried.keys() == {(0, 0), (1, 0), (1, 1)} and tried[1, 0] > tried[0, 0]
    (score,) = found(folder, part="test", condition=None)
    assert score.details["setting"] == 1 and score.value > 0.8
    once = dataclasses.replace(told, seeds=1, random_control=True)
    folder = run_transfer(once, tmp_path / "once")  # of one seed, too, and of random weights
    assert len(found(folder, part="dev")) == 4
    for condition in (None, "random_encoder"):
        (score,) = found(folder, part="test", condition=condition)
        mine = [row for row in found(folder, part="dev") if row.condition == condition]
        better = max(mine, key=lambda row: row.value)
        assert [score.details["setting"]] == mine[0].details["chosen"]
        assert better.details["setting"] == score.details["setting"]


@pytest.mark.parametrize(
    ("preset", "rates", "tested", "taken"),
    [
        ("default", (1e-3, 1e-7, 1e-8), {0}, [0]),
        ("default", (1e-7, 1e-3, 1e-8), {0, 1}, [1]),
        ("conneau", (1e-3, 1e-7, 1e-8, 2e-3), {0, 1, 3}, [3, 0]),
    ],
)
def test_a_setting_that_others_have_beaten_on_dev_is_not_tested(
    data, tmp_path, monkeypatch, preset, rates, tested, taken
):
    values = {"peak_rate": (rates, "a test"), "epochs": (1, "a test"), "batch_size": (8, "")}
    monkeypatch.setitem(transfer_presets._TABLE, preset, [(("pair",), values)])
    on_dev = {1e-3: 0.9, 1e-7: 0.4, 1e-8: 0.3, 2e-3: 0.95}
    tune = transfer_fits._tune

    def judged(transfer, fit, *rest):
        tuned, answer = tune(transfer, fit, *rest)
        (only,) = tuned.epochs
        value = {only: {"dev": on_dev[fit.point["peak_rate"]]}}
        monkeypatch.setattr(type(tuned), "epochs", property(lambda _: value))
        return tuned, answer

    monkeypatch.setattr(transfer_fits, "_tune", judged)
    told = settings(
        data, preset=preset, peak_rate=None, epochs=None, batch_size=None, test=["deu"], seeds=1,
        random_control=False, checkpoints=False,
    )  # fmt: skip
    folder = run_transfer(told, tmp_path / "run")
    answered = {one.representation.partition(",")[0] for one in read_outcomes(folder)}
    assert answered == {f"setting {number}" for number in tested}
    assert {tuple(row.details["chosen"]) for row in found(folder, part="dev")} == {tuple(taken)}
    assert len(found(folder, part="test", condition=None)) == 1
    told = "; and ".join(f"peak_rate {rates[number]}" for number in taken)
    *_, (_, rows, _) = tables(folder, list(read_scores(folder / "scores.jsonl")))
    assert rows[-1] == ("taken on dev", told, "tiny-encoder, trained on eng")
    page = transfer_page(folder).replace("<wbr>", "")
    assert "taken on dev: tiny-encoder, trained on eng" in page and told in page


def test_of_two_settings_that_are_taken_each_seed_has_the_mean():
    def answered(setting, seed, right, condition=None):
        ids = np.array(["a", "b", "c", "d"])
        return Outcomes(
            task="t", quantity="accuracy", item=np.arange(4), item_id=ids, group=ids, encoder="e",
            outcome=np.array(right, float), condition=condition, seed=seed, source="eng",
            target="deu", suite="dev", representation=f"setting {setting}, freeze -1",
        )  # fmt: skip

    every = [
        answered(0, 0, [1, 0, 0, 0]),
        answered(1, 0, [0, 0, 0, 0]),
        answered(2, 0, [1, 1, 0, 1]),
        answered(2, 1, [1, 1, 1, 1]),
        answered(0, 1, [1, 0, 1, 0]),
        answered(1, 0, [0, 0, 0, 1], "random_encoder"),
    ]
    details = {"part": "dev", "setting": 0, "chosen": [2, 0]}
    dev = [Score(quantity="accuracy", value=1, n=4, task="t", encoder="e", source="eng",
                 seed=0, details=details)]  # fmt: skip
    kept = chosen_outcomes(every, dev)
    assert [key[4] for key in kept] == ["setting 2, freeze -1", "setting 1, freeze -1"]
    mine, control = kept.values()
    assert mine[0].outcome.tolist() == [1, 0.5, 0, 0.5] and mine[1].mean == 0.75
    assert control[0].mean == 0.25


def test_names_are_counted_by_windows_where_these_are_examples_of_their_own(
    data, tmp_path, monkeypatch
):
    told = dict(tasks=["ner"], test=["deu"], seeds=1, epochs=1, checkpoints=False)
    told = settings(data, **told, peak_rate=1e-3, random_control=False, max_length=6)
    plain = find_preset("default", "tag")
    values = {name: (value, "a test") for name, value in plain.values.items()}
    found = {}
    for windows in ("stitched", "wu_dredze"):
        made = {**values, "windows": (windows, "a test")}
        monkeypatch.setitem(transfer_presets._TABLE, "default", [(("tag",), made)])
        run = run_transfer(told, tmp_path / windows)
        for one in read_outcomes(run, task="ner", suite="dev", quantity="span_f1"):
            gold, predicted = ([row.split() for row in side] for side in (one.gold, one.predicted))
            whole = count_spans(gold, predicted, one.method)
            same = (
                whole.found.tolist() == one.outcome.tolist()
                and whole.of.tolist() == one.of.tolist()
            )
            found[windows, one.method] = same
    assert found.pop(("wu_dredze", "wu_dredze")) is False and set(found.values()) == {True}


def test_frozen_layers_are_measured_one_after_the_other(data, tmp_path):
    told = settings(
        data, freeze=(-1, 2), seeds=1, epochs=1, checkpoints=False, random_control=False
    )
    folder = run_transfer(told, tmp_path / "run")
    rows = found(folder, part="test", condition=None, target="deu")
    assert [row.details.get("freeze") for row in rows] == [None, 2]


def test_encoders_are_compared_on_the_same_items(data, small_encoder, tmp_path):
    told = settings(
        data,
        encoders=[ENCODER, str(small_encoder)],
        seeds=2,
        epochs=1,
        checkpoints=False,
        random_control=False,
    )
    folder = run_transfer(told, tmp_path / "run")
    rows = found(folder, condition="encoders")
    assert {row.target for row in rows} == {"eng", "deu"}
    values = {
        row.encoder: row.value for row in found(folder, condition=None, part="test", target="deu")
    }
    (gap,) = (row for row in rows if row.target == "deu")
    assert gap.value == pytest.approx(values["tiny-encoder"] - values["small-encoder"])


# -- data


def test_a_dev_split_is_held_out_where_there_is_none(data):
    both = transfer_data("xnli", DataFolder(data), ["deu"], ["eng", "deu"])
    assert both.facts["splits"] == {
        "deu": "trained on the dev split; dev is a random 10 % of the training items, seed 0"
    }
    assert len(both.train[0]) + len(both.dev[0]) == 20 and not both.target_devs.keys() - {"eng"}


def test_a_language_of_training_by_another_code_has_no_oracle(data):
    """Its dev split is the one that weights are chosen on anyway."""
    same, other = (
        transfer_data("xnli", DataFolder(data), ["en"], ["eng", one]).target_devs.keys()
        for one in ("de", "deu")
    )
    assert [*same] == [*other] == ["deu"]


def test_treebanks_of_one_language_are_told_apart(data):
    one = transfer_data("ner", DataFolder(data), ["en_ewt"], ["en_ewt", "en_pud", "de_pud"])
    assert list(one.tests) == ["en_ewt", "en_pud", "deu"]


def test_all_is_every_language_with_data(data, finished):
    one = transfer_data("xnli", DataFolder(data), ["eng"], ["all"])
    assert list(one.tests) == ["deu", "eng"]


def test_a_limit_holds_for_each_split(data):
    one = transfer_data("xnli", DataFolder(data), ["eng"], ["eng"], limit=6)
    assert (len(one.train[0]), len(one.dev[0]), len(one.tests["eng"])) == (6, 6, 6)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"tasks": ["scws"]}, "^task: expected one that can be fine-tuned"),
        ({"tasks": ["nothing"]}, "^task: expected one that can be fine-tuned"),
        ({"test": ["fra"]}, "task xnli: expected a language of the data"),
        ({"test": ["deu", "de"]}, "--test: expected each treebank once, got deu and de, which"),
        (
            {"test": ["eng", "fra"], "tasks": ["xnli", "ner"]},
            "--test: expected languages that one of",
        ),
        (
            {"tasks": ["ner"], "train": ["de_pud"]},
            "--train: expected a language with a train or dev",
        ),
        ({"preset": "best"}, "--preset: expected one of"),
        ({"train": []}, "--train: expected a language"),
        ({"seeds": 0}, "--seeds: expected 1 or more"),
        ({"seeds": 1.5}, "--seeds: expected 1 or more"),
        ({"seed": -1}, "--seed: expected a whole number from 0 to 4294967294, got -1"),
        ({"seed": 2**32 - 1}, "--seed: expected a whole number from 0 to 4294967294"),
        ({"average": "3"}, "--average: expected 1 or more epochs, got '3'"),
        ({"limit": 0}, "--limit: expected 1 or more"),
        ({"limit": 2.5}, "--limit: expected 1 or more"),
        ({"peak_rate": -1.0}, "peak_rate: expected"),
        ({"freeze": [9]}, "--freeze: expected numbers of layers"),
        ({"freeze": [-1, -2]}, "--freeze: expected whole numbers from -1, got -2"),
        ({"encoders": ["/no/such/folder"]}, "encoder"),
        ({"crf": True}, "--crf: expected a task on the tags of words, which it is for, got xnli"),
        ({"gold_pos": True}, "--gold-pos: expected a task on trees"),
        ({"parser": "supar", "tasks": ["xnli", "ner"]}, "--parser: .* trees, .*got xnli, ner"),
        ({"words_apart": True}, "--words-apart: expected a task on the words of treebanks"),
        ({"pool": "max", "tasks": ["ner"]}, "--pool: expected a task on texts, .* got ner"),
        ({"unseen": "random"}, "--unseen: expected a derived language"),
        ({"average": 7, "checkpoints": False}, "--average: expected checkpoints, .*leave one"),
        ({"device": "auto"}, "--device: expected cpu, cuda or cuda:NUMBER"),
        ({"device": "mps"}, "--device: expected cpu, cuda or cuda:NUMBER"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(data, tmp_path, changes, match):
    with pytest.raises(InputError, match=match):
        run_transfer(settings(data, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_there_is_named(data, tmp_path):
    told = dataclasses.replace(settings(data), data=str(tmp_path / "missing"))
    with pytest.raises(InputError, match="--data: expected a folder with data sets, got .*missing"):
        run_transfer(told, tmp_path / "run")


def test_an_option_of_one_task_passes_beside_others(data):
    told = settings(
        data, tasks=["xnli", "ner"], crf=True, pool="max", preset="wu_dredze", average=3
    )
    checked_settings(dataclasses.replace(told, checkpoints=False))


def test_whole_numbers_of_numpy_are_numbers_like_any_other(data):
    numbers = {"seed": np.int64(1), "seeds": np.int32(2), "limit": np.int64(4)}
    told = settings(data, **numbers, freeze=[*np.arange(2)])
    assert {type(getattr(told, name)) for name in (*numbers, "average")} == {int}
    assert json.dumps(told.all_seeds) == "[1, 2]" and json.dumps(told.freeze) == "[0, 1]"


def test_of_several_tasks_each_is_tested_in_the_languages_it_has_data_in(data, tmp_path, capsys):
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("*-de.tsv"))
    told = settings(
        tmp_path / "data", tasks=["xnli", "ner"], seeds=1, epochs=1, random_control=False
    )
    folder = run_transfer(told, tmp_path / "run")
    assert "task xnli has no data in deu: not tested there" in capsys.readouterr().err
    targets = {
        task: {one.target for one in found(folder, task=task, condition=None, part="test")}
        for task in ("xnli", "ner")
    }
    assert targets == {"xnli": {"eng"}, "ner": {"eng", "deu"}}
    facts = json.loads((folder / "config.json").read_text())["data"]["tasks"]
    assert facts["xnli"]["no_data_in"] == ["deu"] and "no_data_in" not in facts["ner"]
    assert "no data in German, so it was not tested there" in transfer_page(folder)


def test_a_treebank_that_a_task_lacks_is_not_tested_in_another_one(data, tmp_path):
    add_treebanks(shutil.copytree(data, tmp_path / "data"))
    folder = DataFolder(tmp_path / "data")
    tested = languages_by_task(["upos", "ner"], folder, ["fr_gsd", "de_pud", "eng"])
    assert tested == {"upos": ["fr_gsd", "eng"], "ner": ["de_pud", "eng"]}
    with pytest.raises(InputError, match=r"task ner: expected its data in de_gsd.*there is de_pud"):
        transfer_data("ner", folder, ["eng"], ["de_gsd"])
    one = transfer_data("xnli", folder, ["eng"], ["de_gsd"])  # whose files know no treebanks
    assert list(one.tests) == ["deu"]


def test_trainings_that_learn_nothing_are_named_where_one_looks(data, tmp_path, capsys):
    told = settings(data, peak_rate=1e-9, head_rate=1e-9, random_control=False, freeze=[0])
    folder = run_transfer(told, tmp_path / "run")
    scores = list(read_scores(folder / "scores.jsonl"))
    (warning,) = (warning for score in scores for warning in score.evidence.warnings or ())
    assert warning.startswith("frozen to layer 0, 2 of 2 trainings learnt nothing: on dev accuracy")
    assert "50.0 per cent after 6 updates" in warning
    assert warning in capsys.readouterr().err and warning in transfer_page(folder)
    assert any(warning in note for _, _, note in tables(folder, scores))


def trainings(*curves, updates=900):
    details = [
        {
            "updates": updates,
            "most_frequent": 0.3,
            "epochs": {str(n): {"dev": v} for n, v in enumerate(curve, 1)},
        }
        for curve in curves
    ]
    told = {"quantity": "accuracy", "n": 100}
    return [
        Score(**told, value=max(curve), details=one)
        for one, curve in zip(details, curves, strict=True)
    ]


def test_a_training_that_still_rises_at_its_end_is_named():
    rising = shortfall(trainings([0.3, 0.5, 0.8], [0.4, 0.4, 0.5]))
    assert rising.startswith("on dev accuracy still rose by 20.0 points in the last of 3 epochs")
    late = shortfall(trainings([*[0.4] * 9, 0.8]))  # epochs are numbers: 10 comes after 9
    assert late.startswith("on dev accuracy still rose by 40.0 points in the last of 10 epochs")
    for settled in ([0.4, 0.75, 0.79], [0.4, 0.8, 0.7], [0.8, 0.3, 0.7], [0.5], [float("nan")]):
        assert shortfall(trainings(settled)) == ""
    (empty,) = trainings([float("nan")])  # no gold and no predicted span on dev
    told = {**empty.details, "most_frequent": None, "epochs": {"1": {"dev": None}}}
    assert shortfall([dataclasses.replace(empty, details=told)]) == ""
    (old,) = trainings([0.3, 0.8])
    assert shortfall([dataclasses.replace(old, details={"epochs": {}})]) == ""


def test_what_is_not_read_is_said_from_one_per_cent_on():
    assert unread_told({"eng": 0.0099}, "words") == ""
    told = unread_told({"eng": 0.0099, "fra": 0.01}, "texts")
    assert told == "of fra 1.0 per cent of the texts are longer than the input and are cut"
    told = unread_told({"fra": 0.25}, "questions")
    assert (
        told
        == "of fra 25.0 per cent of the questions are longer than a question may be and are cut"
    )


def test_few_updates_are_named_where_dev_has_settled():
    few = trainings([0.4, 0.79, 0.78], updates=171)
    assert shortfall(few).startswith("171 updates are few, and dev may be far")
    assert shortfall(few).endswith("--epochs 9 makes 513")
    assert shortfall(trainings([0.4, 0.79, 0.78], updates=500)) == ""
    (one,) = few  # a parser that stops by itself, after validations that were no better
    assert shortfall([dataclasses.replace(one, details={**one.details, "stopped": True})]) == ""


def test_only_the_trainings_that_learn_nothing_count():
    found = shortfall(trainings([0.2, 0.3], [0.3, 0.32]))
    assert found.startswith("1 of 2 trainings learnt nothing: on dev accuracy is 30.0 per cent")
    assert "always giving the most frequent label has 30.0" in found
    trees = [dataclasses.replace(one, quantity="las") for one in trainings([0.2, 0.3])]
    assert "each word below its neighbour, by the most frequent relation, has 30.0" in shortfall(
        trees
    )


# -- words of a segmenter


def pairs_of_characters(text):
    return [text[n : n + 2] for n in range(0, len(text), 2)]


def test_names_are_projected_onto_a_segmenter_s_words(data, tmp_path, monkeypatch):
    monkeypatch.setitem(SEGMENTERS, "rjieba", lambda: pairs_of_characters)
    lines = [
        "北\tB-LOC",
        "京\tI-LOC",
        "王\tB-PER",
        "在\tO",
        "A\tB-PER",
        "B\tI-PER",
        "",
        "京\tB-LOC",
    ]
    write(tmp_path / "zh.iob2", lines)
    corpus = read_tagged_words(tmp_path / "zh.iob2", "zho")
    assert corpus.sentences[0] == "北 京 王 在 A B"
    made, moved = resegmented(corpus, "ner", "rjieba")
    assert made.sentences == ["北京王在A B", "京"] and moved == 1
    assert made.words == [[(0, 2), (2, 4), (4, 5), (6, 7)], [(0, 1)]]
    assert made.annotations == {"ner": [["B-LOC", "B-PER", "B-PER", "I-PER"], ["B-LOC"]]}
    (tmp_path / "ner").mkdir()
    for name in ("en_ewt-ud-train", "en_ewt-ud-dev"):
        write(tmp_path / "ner" / f"{name}.iob2", list(ner_lines(8)))
    write(tmp_path / "ner" / "zh_x-ud-test.iob2", lines)
    told = settings(tmp_path, tasks=["ner"], test=["zho"], epochs=1, seeds=1, segment="rjieba")
    run = run_transfer(dataclasses.replace(told, random_control=False), tmp_path / "run")
    facts = json.loads((run / "config.json").read_text())["data"]["tasks"]["ner"]
    assert facts["segment"] == {"segmenter": "rjieba", "names_with_other_borders": {"cmn": 1}}
    (one, *_) = read_outcomes(run, task="ner", suite="dev", quantity="span_f1")
    assert one.gold[0] == "B-LOC B-PER B-PER I-PER"
    with pytest.raises(
        InputError, match="--segment: expected names in tha, which pythainlp is for"
    ):
        run_transfer(dataclasses.replace(told, segment="pythainlp"), tmp_path / "other")
    with pytest.raises(InputError, match="--segment: expected one of rjieba"):
        dataclasses.replace(told, segment="jieba")


# -- presets


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", ["classify", "pair", "tag"])
def test_each_preset_says_where_each_value_is_from(name, kind):
    preset = find_preset(name, kind)
    assert preset.values.keys() == preset.sources.keys() and all(preset.sources.values())
    for point in preset.grid():
        transfer_fits.settings_of(point, kind, -1, 0, settings("data"))


def test_noise_is_none_of_the_presets_and_is_fine_tuned_with_where_it_is_asked_for(data):
    task = transfer_data("xnli", DataFolder(data), ["eng"], ["deu"])
    quiet, noisy = (preset_of(settings(data, **told), task) for told in ({}, {"noise": 0.075}))
    assert "noise" not in quiet.values and noisy.sources["noise"] == "asked for"
    (point,) = noisy.grid()
    assert transfer_fits.settings_of(point, "pair", -1, 0, settings(data)).noise == 0.075


def test_batches_by_length_are_made_where_they_are_asked_for(data):
    task = transfer_data("xnli", DataFolder(data), ["eng"], ["deu"])
    made = [preset_of(settings(data, **told), task) for told in ({}, {"group_by_length": True})]
    assert [preset.sources.get("group_by_length") for preset in made] == [None, "asked for"]
    (point,) = made[1].grid()
    assert transfer_fits.settings_of(point, "pair", -1, 0, settings(data)).group_by_length


def test_the_grids_of_the_papers():
    assert len(find_preset("wu_dredze", "tag").grid()) == 12
    assert len(find_preset("conneau", "pair").grid()) == 18
    first = find_preset("conneau", "pair").grid()[0]
    assert (first["decay"], first["warmup"]) == ("constant", 0.0)
    assert find_preset("wu_dredze", "tag").values["weight_decay"] == 0.01
    assert find_preset("wu_dredze_code", "tag").values["weight_decay"] == 0.0
    for name in ("wu_dredze", "wu_dredze_code"):
        assert find_preset(name, "tag").values["windows"] == "wu_dredze"
        assert find_preset(name, "tree").values["roots"] == "any"
        assert not {"windows", "roots"} & find_preset(name, "pair").values.keys()
    assert json.loads(json.dumps(find_preset("xtreme", "pair").values))["epochs"] == 5


# -- trees


def tree_lines(n, start=0):
    for i in range(start, start + n):
        animal = ("dog", "cat", "fox")[i % 3]
        yield f"# sent_id = s{i}"
        rows = (
            ("1", "The", "DET", "2", "det"),
            ("2", animal, "NOUN", "3", "nsubj:pass" if i % 2 else "nsubj"),
            ("3-4", "sleepsin", "_", "_", "_"),
            ("3", "sleeps", "VERB", "0", "root"),
            ("4", "in", "ADP", "5", "case"),
            ("5", f"house{i}", "NOUN", "3", "obl"),
            ("6", ".", "PUNCT", "3", "punct"),
        )
        for number, form, tag, head, relation in rows:
            yield f"{number}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_"
        yield ""


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    (folder / "ud").mkdir()
    for split, n, start in (("train", 24, 0), ("dev", 8, 24), ("test", 12, 32)):
        write(folder / "ud" / f"en_toy-ud-{split}.conllu", list(tree_lines(n, start)))
    write(folder / "ud" / "de_toy-ud-test.conllu", list(tree_lines(9, 50)))
    return folder


def test_trees_are_parsed_and_counted_in_three_ways(trees, tmp_path):
    told = settings(trees, tasks=["parsing"], epochs=12, seeds=1, gold_pos=True, parser="supar")
    folder = run_transfer(told, tmp_path / "run")
    scores = list(read_scores(folder / "scores.jsonl"))
    main = [s for s in scores if s.condition is None and s.details["part"] == "test"]
    assert [(s.quantity, s.details["counted_as"]) for s in main if s.target == "deu"] == [
        (quantity, preset)
        for preset in ("wu_dredze", "conll18", "supar")
        for quantity in ("las", "uas")
    ]
    by = {(s.target, s.quantity, s.details["counted_as"]): s for s in main}
    assert by["eng", "las", "wu_dredze"].n == 5 * 12 and by["eng", "las", "conll18"].n == 6 * 12
    assert by["eng", "uas", "conll18"].value > 0.7
    assert {s.n for s in found(folder, part="dev")} == {5 * 8}  # words, as its value is a share of
    (majority,) = [
        s for s in scores
        if s.condition == "majority" and s.target == "eng" and s.quantity == "uas"
        and s.details["counted_as"] == "conll18"
    ]  # fmt: skip
    assert majority.value == pytest.approx(3 / 6)  # The -> dog, dog -> sleeps, in -> house
    titles = [title for title, rows, _ in tables(folder, scores) if title and len(rows) > 1]
    assert titles[0].startswith("parsing: LAS")
    gold = read_outcomes(folder, task="parsing", quantity="las", target="deu")[0].gold
    assert gold[0] == "2:det 3:nsubj 0:root 5:case 3:obl 3:punct"


def test_subtypes_of_relations_count_where_supar_counts(tmp_path):
    (tmp_path / "ud").mkdir()
    for split, n in (("train", 9), ("test", 4)):
        lines = [line.replace("obl", "obl:arg") for line in tree_lines(n)]
        write(tmp_path / "ud" / f"en_toy-ud-{split}.conllu", lines)
    data = transfer_data("parsing", DataFolder(tmp_path), ["eng"], ["eng"])
    split = data.tests["eng"]
    answers = Answers(split.labels, heads=split.heads)  # all that can be learnt of it
    names = [name for row in split.corpus.annotations["deprel"] for name in row if name != "punct"]
    plain = np.mean([":" not in name for name in names])
    every = {(one.quantity, one.preset): one for one in counted(data.task, split, answers, "")}
    for preset, share in (("wu_dredze", 1), ("conll18", 1), ("supar", plain)):
        assert every["uas", preset].value == 1 and every["las", preset].value == pytest.approx(
            share
        )
    made = {
        preset: outcomes(split, answers, every["las", preset], task="parsing")
        for _, preset in every
    }
    assert "3:obl:arg" in made["supar"].gold[0] and "obl:arg" not in made["conll18"].gold[0]
    assert made["supar"].item_id.tolist() == made["conll18"].item_id.tolist()


def test_words_of_a_token_are_read_apart(trees):
    (train,) = transfer_data("parsing", DataFolder(str(trees)), ["eng"], ["deu"]).train
    assert train.texts[0] != train.corpus.sentences[0]
    assert train.corpus.sentences[0] == "The dog sleeps in house0 ."
    assert [train.corpus.sentences[0][a:b] for a, b in train.corpus.words[0]][2:4] == [
        "sleeps",
        "in",
    ]
    assert set(train.labels[1]) == {"det", "nsubj", "root", "case", "obl", "punct"}


def test_a_treebank_with_a_circle_is_refused_before_anything_is_written(trees, tmp_path):
    folder = tmp_path / "data"
    (folder / "ud").mkdir(parents=True)
    for path in (trees / "ud").glob("en_*"):
        (folder / "ud" / path.name).write_bytes(path.read_bytes())
    lines = [line.replace("\t0\troot", "\t2\troot") for line in tree_lines(3)]
    write(folder / "ud" / "de_toy-ud-test.conllu", lines)
    with pytest.raises(InputError, match=r"de_toy-ud-test.conllu: heads: expected one root"):
        run_transfer(settings(folder, tasks=["parsing"]), tmp_path / "run")
    assert not (tmp_path / "run" / "scores.jsonl").exists()


def test_words_that_are_not_read_are_counted_in_the_scores(trees, tmp_path, monkeypatch):
    def short(split, data, longest=None):
        examples = plain(split, data, longest)
        return dataclasses.replace(examples, longest=5)

    plain = transfer_fits.examples_of
    monkeypatch.setattr(transfer_fits, "examples_of", short)
    told = settings(trees, tasks=["parsing"], epochs=1, seeds=1, random_control=False)
    folder = run_transfer(told, tmp_path / "run")
    (dev,) = [s for s in read_scores(folder / "scores.jsonl") if s.details["part"] == "dev"]
    assert dev.details["without_subword"].keys() == {"eng", "deu"}
    assert 0 < dev.details["without_subword"]["deu"] < 6 * 9
    assert dev.details["unread"]["deu"] == dev.details["without_subword"]["deu"] / (6 * 9)
    told = next(one for one in dev.details["warnings"] if "not read" in one)
    assert (
        f"deu {100 * dev.details['unread']['deu']:.1f}" in told and "per cent of the words" in told
    )
    _, rows, beside = next(tables(folder, list(read_scores(folder / "scores.jsonl"))))
    assert "are not read: they stand behind the longest input" in beside


def test_tags_that_are_chosen_together_are_another_run(data, tmp_path):
    told = settings(data, tasks=["ner"], epochs=1, seeds=1, random_control=False, crf=True)
    folder = run_transfer(told, tmp_path / "run")
    assert found(folder, part="test", condition=None, quantity="span_f1", target="deu")
    with pytest.raises(OutputError, match="crf"):
        run_transfer(dataclasses.replace(told, crf=False), tmp_path / "run")


@pytest.mark.parametrize("longest", [12, 13, 128])
def test_texts_that_are_cut_are_counted(data, tmp_path, longest):
    told = settings(data, epochs=1, seeds=1, random_control=False, max_length=longest)
    folder = run_transfer(dataclasses.replace(told, checkpoints=False), tmp_path / "run")
    (dev,) = found(folder, part="dev")
    tokenizer, cut = load_encoder(ENCODER).tokenizer, {}
    for split, code in (("eng", "en"), ("deu", "de")):
        lines = (data / "xnli" / f"test-{code}.tsv").read_text().splitlines()
        lengths = [len(tokenizer(*line.split("\t")[:2])["input_ids"]) for line in lines]
        cut[split] = sum(n > longest for n in lengths) / len(lines)
    if longest == 128:
        assert "unread" not in dev.details and not any(cut.values())
    else:
        assert dev.details["unread"] == pytest.approx(cut) and max(cut.values()) > 0
        assert any("are cut" in one for one in dev.details["warnings"])


def other_encoder(folder):
    """The packaged encoder with other weights."""
    shutil.copytree(ENCODER, folder)
    path = folder / "model.safetensors"
    weights = load_file(path)
    made = {name: value * 1.25 if value.ndim == 2 else value for name, value in weights.items()}
    path.unlink()
    save_file(made, path, metadata={"format": "pt"})
    return folder


def test_of_two_treebanks_each_has_the_setting_that_its_own_dev_chose():
    def answered(target, setting, right):
        ids = np.array(["a", "b"])
        return Outcomes(
            task="t", quantity="accuracy", item=np.arange(2), item_id=ids, group=ids, encoder="e",
            outcome=np.array(right, float), condition="in_language", seed=0, source="deu",
            target=target, suite="dev", representation=f"setting {setting}, freeze -1",
        )  # fmt: skip

    dev = [
        Score(quantity="accuracy", value=1, n=2, task="t", encoder="e", condition="in_language",
              source="deu", target=target, seed=0, details={"setting": n, "chosen": [chosen]})
        for target, chosen in (("de_one", 0), ("de_two", 1))
        for n in (0, 1)
    ]  # fmt: skip
    every = [answered(target, n, [n, 1]) for target in ("de_one", "de_two") for n in (0, 1)]
    kept = {key[6]: (key[4], seeds[0].mean) for key, seeds in chosen_outcomes(every, dev).items()}
    assert kept == {"de_one": ("setting 0, freeze -1", 0.5), "de_two": ("setting 1, freeze -1", 1)}


def test_encoders_whose_folders_have_one_name_are_told_apart(data, tmp_path):
    shutil.copytree(ENCODER, tmp_path / "a" / "model")
    encoders = [str(tmp_path / "a" / "model"), str(other_encoder(tmp_path / "b" / "model"))]
    told = settings(data, encoders=encoders, epochs=2, seeds=1, random_control=True, keep=True)
    folder = run_transfer(dataclasses.replace(told, checkpoints=False), tmp_path / "run")
    names = ["a/model", "b/model"]
    kept = [path.parent.name for path in sorted(folder.glob("encoders/*/config.json"))]
    for name, one in zip(kept, "ab", strict=True):  # no random weights; a_model has another name
        assert name.startswith(f"xnli-eng-{one}--model-encoder-")
    tested = found(folder, part="test", condition=None)
    assert [score.encoder for score in tested] == [name for name in names for _ in range(2)]
    assert list(json.loads((folder / "config.json").read_text())["settings"]["encoders"]) == names
    both = {s.target: s.value for s in tested if s.encoder == "a/model"}
    for score in found(folder, condition="encoders"):
        (theirs,) = [s for s in tested if (s.encoder, s.target) == ("b/model", score.target)]
        assert score.value == pytest.approx(both.pop(score.target) - theirs.value)
    assert not both
    same = dataclasses.replace(told, encoders=[ENCODER, encoders[0]])
    with pytest.raises(InputError, match="--encoder: expected different encoders, got .*are one"):
        run_transfer(same, tmp_path / "same")


def test_nothing_is_kept_of_a_run_that_was_begun_without_it(data, tmp_path):
    told = settings(data, test=["deu"], epochs=1, seeds=1, random_control=False, checkpoints=False)
    folder = run_transfer(told, tmp_path / "run")
    kept = dataclasses.replace(told, keep=True)
    with pytest.raises(OutputError, match="--keep: expected a new folder, or a run that was begun"):
        run_transfer(kept, folder)
    again = run_transfer(kept, tmp_path / "kept")
    assert run_transfer(kept, again) == again and list((again / "encoders").iterdir())


def test_a_test_language_that_is_named_twice_is_trained_on_once(data, tmp_path):
    told = settings(data, test=["deu", "deu"], epochs=1, seeds=1, in_language=True)
    told = dataclasses.replace(told, random_control=False, checkpoints=False)
    folder = run_transfer(told, tmp_path / "run")
    assert len(read_outcomes(folder, condition="in_language")) == 1
    assert len(found(folder, condition="in_language", part="dev")) == 1


def test_two_treebanks_of_a_language_are_each_trained_on_and_tested(tmp_path):
    folder = tmp_path / "data"
    (folder / "ner").mkdir(parents=True)
    for name, first in (("en_ewt", 0), ("de_one", 40), ("de_two", 80)):
        for split, n, start in (("train", 9, 0), ("dev", 20, 9), ("test", 5, 30)):
            if (name, split) != ("de_two", "train"):
                lines = list(ner_lines(n, first + start))
                write(folder / "ner" / f"{name}-ud-{split}.iob2", lines)
    told = settings(folder, tasks=["ner"], test=["de_one", "de_two"], in_language=True, epochs=1)
    told = dataclasses.replace(told, seeds=1, random_control=False, checkpoints=False)
    run = run_transfer(told, tmp_path / "run")
    taught = found(run, part="test", condition="in_language", counted_as="strict")
    assert [(s.source, s.target) for s in taught if s.quantity == "span_f1"] == [
        ("deu", "de_one"),
        ("deu", "de_two"),
    ]
    less = found(run, condition="zero_shot_less_in_language", counted_as="strict")
    assert [s.target for s in less] == ["de_one", "de_two"]
    facts = json.loads((run / "config.json").read_text())["in_language"]["ner"]
    assert facts["de_one"]["train_items"] == {"deu": 9}
    assert facts["de_two"]["train_items"] == {"deu": 18}
    assert facts["de_two"]["splits"]["deu"].startswith("trained on the dev split")
    page = transfer_page(run)
    assert "trained in it: 9 items." in page and facts["de_two"]["splits"]["deu"] in page


def test_training_on_two_treebanks_of_a_language_counts_both(tmp_path):
    folder = tmp_path / "data"
    (folder / "ner").mkdir(parents=True)
    for name, n in (("en_ewt", 9), ("en_two", 5)):
        for split in ("train", "dev", "test"):
            write(folder / "ner" / f"{name}-ud-{split}.iob2", list(ner_lines(n, n)))
    data = DataFolder(str(folder))
    made = transfer_data("ner", data, ["en_ewt", "en_two"], ["eng"])
    assert made.facts["train_items"] == {"en_ewt": 9, "en_two": 5}
    assert list(made.facts["splits"]) == ["en_ewt", "en_two"]
    with pytest.raises(
        InputError, match="--train: expected each treebank once, got eng and en_ewt"
    ):
        transfer_data("ner", data, ["eng", "en_ewt"], ["eng"])


def test_frozen_layers_have_each_their_own_difference(data, tmp_path):
    told = settings(data, freeze=(-1, 2), seeds=1, epochs=2, in_language=True, test=["deu"])
    told = dataclasses.replace(told, checkpoints=False, random_control=False)
    folder = run_transfer(told, tmp_path / "run")
    less = found(folder, condition="zero_shot_less_in_language")
    assert [s.details.get("freeze") for s in less] == [None, 2]
    page = transfer_page(folder)
    scores = list(read_scores(folder / "scores.jsonl"))
    rows = next(rows for _, rows, _ in tables(folder, scores) if rows[0][0] == "difference")
    assert [row[0].partition("in-language")[2] for row in rows[1:]] == [
        " (nothing frozen)",
        " (frozen to layer 2)",
    ]
    for score in less:
        assert f">{score.value:.3f}".replace("-", "−") in page.replace("> ", ">")
