"""Trained on several languages together: what is joined, how it is called, and what is refused."""

import json

import numpy as np
import pytest
from battery_data import PARTS, add_treebanks, make_data

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.outcomes import read_outcomes
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.readers.treebank import word_labels
from crosslens.report.pages.probes import probe_page
from crosslens.run.probing.battery import Battery
from crosslens.run.probing.data import Sources, read_tasks
from crosslens.score import read_scores

TASKS = ("upos", "topic", "dependency_arcs", "structural_depth")
BOTH = "eng+fra"
FIRST = {"upos": "accuracy", "topic": "accuracy", "dependency_arcs": "accuracy"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = make_data(tmp_path_factory.mktemp("joined") / "data")
    add_treebanks(folder)
    return folder


@pytest.fixture(scope="module")
def run(small_encoder, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("joined") / "run"
    command = ["probe", "--encoder", str(small_encoder), "--data", str(data), "--quiet"]
    command += ["--no-random-control", "--mdl", "--tasks", ",".join(TASKS)]
    command += ["--train", "en, fra", "--test", "rus", "--out", str(out)]
    assert main(command) == 0
    return out, command


def scores(run, task, **wanted):
    quantity = FIRST.get(task, "root_accuracy")
    return [
        s
        for s in read_scores(run[0] / "scores.jsonl")
        if (s.task, s.quantity, s.condition) == (task, quantity, None)
        and all(
            ((s.details or {}).get("part") if name == "part" else getattr(s, name)) == value
            for name, value in wanted.items()
        )
    ]


@pytest.mark.parametrize("task", TASKS)
def test_every_score_says_all_languages_of_training(run, task):
    assert {s.source for s in scores(run, task)} == {BOTH}
    assert {s.target for s in scores(run, task, part="test")} == {BOTH, "eng", "fra", "rus"}
    assert {s.target for s in scores(run, task, part="dev")} == {BOTH}
    of_training = [s for s in read_scores(run[0] / "scores.jsonl") if s.quantity == "codelength"]
    assert {(s.source, s.target) for s in of_training} == {(BOTH, BOTH)}


@pytest.mark.parametrize("task", TASKS)
def test_the_languages_together_are_the_items_of_each(run, task):
    for layer in range(3):
        ((whole,), *each) = (
            scores(run, task, part="test", layer=layer, target=code)
            for code in (BOTH, "eng", "fra")
        )
        parts = [one for (one,) in each]
        assert whole.n == sum(one.n for one in parts)
        assert whole.value == pytest.approx(sum(one.n * one.value for one in parts) / whole.n)
        assert whole.low < whole.value < whole.high or whole.value in (0, 1)
    (joined,), *found = (
        read_outcomes(run[0], task=task, target=code, layer=1, condition=None, part="test")
        for code in (BOTH, "eng", "fra")
    )
    assert np.array_equal(joined.outcome, np.concatenate([one.outcome for (one,) in found]))
    assert len(set(joined.item_id)) == len(joined)


def test_the_probe_is_that_of_all_their_training_items(run):
    stores = {}
    for folder in (run[0] / "activations" / "small-encoder" / "encoder").glob("words-*"):
        store = Activations(folder)
        stores[store.manifest["language"]] = (
            store,
            word_labels(store.index(["pieces", "upos"]), "upos"),
        )
    asked = json.loads((run[0] / "config.json").read_text())["asked"]
    task = read_tasks(Battery(**asked).sources).tasks["upos"]
    vectors, labels = [], []
    for bank in task.trained:
        store, gold = stores[bank.language]
        part = bank.part_of[np.asarray(store.index(["text"])["text"])[gold.rows]]
        vectors.append(np.asarray(store.layer(1))[gold.rows[part == "train"]])
        labels.append(gold.labels[part == "train"])
    (score,) = scores(run, "upos", part="test", layer=1, target="rus")
    assert score.details["n_train"] == sum(map(len, labels))
    probe = LinearProbe(C=score.details["penalty"]).fit(
        np.concatenate(vectors), np.concatenate(labels)
    )
    store, gold = stores["rus"]
    given = probe.predict(np.asarray(store.layer(1))[gold.rows])
    assert score.value == pytest.approx((given == gold.labels).mean())


def test_the_record_counts_what_each_language_gives(run):
    config = json.loads((run[0] / "config.json").read_text())
    told = config["data"]["tasks"]
    assert config["settings"]["train"] == "en,fra"
    assert told["topic"]["train_in"] == {"eng": PARTS["train"], "fra": PARTS["train"]}
    assert told["topic"]["train"] == 2 * PARTS["train"] and told["topic"]["test_in"] == {
        "rus": PARTS["test"]
    }
    assert told["upos"]["train_sentences_in"] == {"eng": 24, "fra": 5}
    assert told["upos"]["test_sentences"] == 22  # 12 and 10
    assert "fra: the files of dev to train on" in told["upos"]["drawn"]


def test_the_terminal_and_the_page_name_them_all(run, capsys):
    assert main(run[1]) == 0
    told, page = capsys.readouterr().out, probe_page(run[0])
    for code in ("eng", "fra", "rus"):
        assert f"upos [{BOTH}->{code}]" in told
    assert "Part of speech, English + French to Russian" in page
    assert "English + French (trained on)" in page and BOTH not in page.split("scores.jsonl")[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ["wic"], "train": ["eng", "fra"]}, "wic: it is trained on one language"),
        ({"tasks": ["upos"], "train": ["eng", "rus"]}, "a treebank with a train or dev file"),
        ({"tasks": ["upos"], "train": ["fra", "fr_pud"]}, "--train: expected each language once"),
        ({"tasks": ["topic"], "train": ["eng", "hin"]}, "no items in hin"),
    ],
)
def test_what_cannot_be_trained_on_together_is_refused(data, settings, message):
    with pytest.raises(Exception, match=message):
        read_tasks(Sources(folder=data, labels={}, **settings))


def test_translations_stand_and_fall_together(run):
    (joined,) = read_outcomes(
        run[0], task="topic", target=BOTH, layer=1, condition=None, part="test"
    )
    assert len(joined) == 2 * PARTS["test"] and len(set(joined.group)) == PARTS["test"]
    (score,) = scores(run, "topic", part="test", layer=1, target=BOTH)
    assert score.details["groups"] == PARTS["test"]


def test_one_language_is_measured_as_before_whether_it_is_listed_or_not(data):
    one, listed = (
        Battery(encoders=["x"], only=["topic"], data=str(data), train=train)
        for train in ("eng", ["eng"])
    )
    assert one.trained_on == listed.trained_on == ("eng",)
    assert one.sources == listed.sources
    assert Battery(encoders=["x"], only=["topic"], data=str(data)).trained_on == ()
