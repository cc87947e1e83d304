"""Items that stand and fall together: translations of one sentence, and what WiC's training has of
its test."""

import numpy as np
import pytest
from battery_data import LANGUAGES, PARTS, make_data, write
from tests_run_helpers import store

from crosslens.probes.methods.controls import Accuracy
from crosslens.probes.methods.wic import REPRESENTATIONS
from crosslens.readers.labelled_text import read_table
from crosslens.run.probing.data import Sources, read_tasks
from crosslens.run.probing.kinds.task import Given
from crosslens.score import shared_texts


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Of WiC the first four test items are those of training, two of them with the other answer."""
    folder = make_data(tmp_path_factory.mktemp("groups") / "data")
    lines = {
        part: (folder / "wic" / f"{part}.data.txt").read_text(encoding="utf-8").splitlines()
        for part in PARTS
    }
    write(folder / "wic" / "test.data.txt", [*lines["train"][:4], *lines["test"][4:]])
    write(
        folder / "wic" / "test.gold.txt",
        ["F", "F", "F", "F", *("T" if i % 2 else "F" for i in range(4, 24))],
    )
    return folder


def measure(task, folder):
    """A task's measurements on vectors drawn at random."""
    rng, stores = np.random.default_rng(0), {}
    for name, text in task.texts.items():
        n = len(text.corpus)  # of WiC a target each
        stores[name] = store(
            folder / name, "mul", [rng.normal(size=(n, 4)).astype(np.float32) for _ in range(2)]
        )
    return task.measure(
        Given(stores, None, lambda random: None, {"encoder": "x", "seed": 0}, mdl=False)
    )


def test_a_table_names_what_says_the_same(data):
    texts = read_table(data / "sib200" / "sib200.tsv", "language", group="index_id")
    n = sum(PARTS.values())
    assert list(texts.groups) == [str(i) for _ in LANGUAGES for i in range(n)]


def test_translations_of_a_sentence_are_one_group_of_language_identification(data, tmp_path):
    task = read_tasks(Sources(folder=data, tasks=["language_id"], labels={})).tasks["language_id"]
    counts = np.unique(task.groups, return_counts=True)[1]
    assert len(counts) == sum(PARTS.values()) and set(counts) == {len(LANGUAGES)}
    rows = [set(task.groups[getattr(task.parts, part)]) for part in PARTS]
    assert not rows[0] & rows[1] and not rows[0] & rows[2] and not rows[1] & rows[2]
    measured = measure(task, tmp_path)
    items = next(one for one in measured.outcomes if one.layer == 0 and one.condition is None)
    assert len(set(items.group)) == PARTS["test"] and len(items.group) == PARTS["test"] * len(
        LANGUAGES
    )
    score = next(
        s
        for s in measured.scores
        if s.layer == 0
        and s.condition is None
        and s.quantity == "accuracy"
        and "dev" != s.details["part"]
    )
    clustered = Accuracy.of(items.outcome == 1, np.asarray(items.group))
    assert (score.value, score.low, score.high) == pytest.approx(
        (clustered.value, clustered.low, clustered.high)
    )


def test_a_division_that_is_drawn_keeps_translations_together(data, tmp_path):
    lines = (data / "sib200" / "sib200.tsv").read_text(encoding="utf-8").splitlines()
    without_dev = [
        line.replace("dev\t", "train\t", 1) if line.startswith("dev\t") else line for line in lines
    ]
    (tmp_path / "sib200").mkdir()
    write(tmp_path / "sib200" / "sib200.tsv", without_dev)
    task = read_tasks(Sources(folder=tmp_path, tasks=["language_id"], labels={})).tasks[
        "language_id"
    ]
    assert len(task.parts.dev)
    assert set(task.groups[task.parts.dev]).isdisjoint(task.groups[task.parts.train])


def test_wic_is_told_without_the_items_that_training_has(data, tmp_path):
    measured = measure(
        read_tasks(Sources(folder=data, tasks=["wic"], labels={})).tasks["wic"], tmp_path
    )
    scores = [score for score in measured.scores if score.layer is not None]
    for score in scores:
        if score.details["part"] == "dev":
            assert "without_shared" not in score.details
            continue
        shared, without = shared_texts(score)
        assert (shared.train, shared.same_label, without.n) == (4, 2, 20)
        place = (score.layer, score.details["representation"], score.condition)
        (items,) = [
            one
            for one in measured.outcomes
            if (one.layer, one.representation, one.condition) == place
        ]
        assert (
            without.value == pytest.approx(np.mean(items.outcome[4:]))
            and without.low <= without.value <= without.high
        )
    assert {score.details["representation"] for score in scores} == set(REPRESENTATIONS)
