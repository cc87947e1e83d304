"""Examples of errors in a run: what is sampled, and what is said of each kind of task."""

import json

import numpy as np
import pytest
from battery_data import write

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.recipes.quickstart import DATA
from crosslens.run.transfer.data import transfer_data
from crosslens.run.transfer.examples import examples
from crosslens.run.transfer.measures import Answers, counted, outcomes
from crosslens.run.transfer.settings import Transfer
from crosslens.score import Score

TREE = (
    ("1-2", "Du", "_", "_", "_"),
    ("1", "De", "ADP", "3", "case"),
    ("2", "le", "DET", "3", "det"),
    ("3", "chat", "NOUN", "0", "root"),
    ("4", ".", "PUNCT", "3", "punct"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("ner", "xnli", "ud", "xquad"):
        (folder / name).mkdir()
    names = ["Ada\tB-PER", "Lovelace\tI-PER", "left\tO", "Rome\tB-LOC", ""]
    rows = [
        f"{n}\t{form}\t_\t{tag}\t_\t_\t{head}\t{name}\t_\t_" for n, form, tag, head, name in TREE
    ]
    for split in ("train", "dev", "test"):
        write(folder / "ner" / f"en_ewt-ud-{split}.iob2", names * 12)
        write(folder / "ud" / f"en_toy-ud-{split}.conllu", [*rows, ""] * 12)
        pairs = [
            f"Text {i} of {split}.\tAnother {i}.\t{'entailment' if i % 2 else 'neutral'}"
            for i in range(12)
        ]
        write(folder / "xnli" / f"{split}-en.tsv", pairs)
    paragraphs = [
        {"context": f"She is in Rome {i}.",
         "qas": [{"id": str(i), "question": f"Where {i}?", "answers": [{"text": "Rome", "answer_start": 10}]}]}
        for i in range(40)
    ]  # fmt: skip
    whole = {
        "version": "1.1",
        "data": [{"title": str(i), "paragraphs": [p]} for i, p in enumerate(paragraphs)],
    }
    (folder / "xquad" / "xquad.en.json").write_text(json.dumps(whole))
    return folder


def found(data, task, answers, *, run_seed=0, dev=(), point=0, **fields):
    """The examples of a task whose test items were answered so."""
    told = Transfer(
        encoders=[str(DATA / "tiny-encoder")],
        tasks=[task],
        data=str(data),
        train=["eng"],
        test=["eng"],
        seed=run_seed,
    )
    made = transfer_data(task, DataFolder(data), ["eng"], ["eng"])
    split = made.tests["eng"]
    given = answers(split)
    fields = {
        "encoder": "e",
        "suite": "dev",
        "seed": run_seed,
        "source": "eng",
        "target": "eng",
        **fields,
    }
    every = [
        outcomes(
            split, given, one, task=task, representation=f"setting {point}, freeze -1", **fields
        )
        for one in counted(made.task, split, given, "strict")
    ]
    some = list(examples(told, {task: made}, every, dev))
    assert len({one.item for one in some}) == len(some) <= 5
    return split, some


def test_of_texts_five_wrong_ones_are_sampled_with_the_seed(data):
    def two_right(split):
        return Answers([*split.labels[:2], *("maybe" for _ in split.labels[2:])])

    split, some = found(data, "xnli", two_right)
    assert len(some) == 5 and min(one.item for one in some) >= 2
    assert [one.item for one in some] == sorted({one.item for one in some})
    for one in some:
        assert one.texts == [split.texts[one.item], split.seconds[one.item]]
        assert (one.gold, one.predicted) == ([split.labels[one.item]], ["maybe"])
    assert found(data, "xnli", two_right)[1] == some
    assert [one.item for one in found(data, "xnli", two_right, run_seed=1)[1]] != [
        one.item for one in some
    ]


def test_right_answers_are_no_examples(data):
    assert found(data, "xnli", lambda split: Answers(split.labels))[1] == []


@pytest.mark.parametrize(
    "fields",
    [{"condition": "in_language"}, {"suite": "last"}, {"seed": 7}],
    ids=lambda one: next(iter(one)),
)
def test_other_systems_epochs_and_seeds_are_passed_over(data, fields):
    assert found(data, "xnli", lambda split: Answers(["maybe"] * len(split)), **fields)[1] == []


def test_of_a_grid_the_point_that_is_best_on_dev_is_shown(data):
    details = {"part": "dev", "setting": 0, "chosen": [1]}
    dev = [Score(quantity="accuracy", value=0.5, n=9, task="xnli", encoder="e",
                 source="eng", details=details)]  # fmt: skip
    for point, n in ((0, 0), (1, 5)):
        some = found(
            data, "xnli", lambda split: Answers(["maybe"] * len(split)), dev=dev, point=point
        )
        assert len(some[1]) == n


def test_of_names_those_that_are_missing_and_wrong_are_marked(data):
    tags = ["B-PER", "O", "O", "B-LOC"]
    _, (one, *_) = found(data, "ner", lambda split: Answers([tags] * len(split)))
    assert (one.gold, one.predicted) == (["Ada Lovelace (PER)"], ["Ada (PER)"])
    assert one.marked == "Ada Lovelace" and len(one.marks) == 1
    tags = ["B-PER", "I-PER", "B-ORG", "B-LOC"]
    _, (one, *_) = found(data, "ner", lambda split: Answers([tags] * len(split)))
    assert (one.gold, one.predicted, one.marked) == ([], ["left (ORG)"], "left")


def test_of_tags_a_wrong_word_is_marked(data):
    _, (one, *_) = found(
        data, "upos", lambda split: Answers([["ADP", "DET", "VERB", "PUNCT"]] * len(split))
    )
    assert (one.marked, one.gold, one.predicted) == ("chat", ["NOUN"], ["VERB"])


def test_of_trees_a_wrong_word_that_counts_is_marked(data):
    heads, names = np.array([3, 1, 0, 1]), ["case", "det", "root", "punct"]
    _, some = found(
        data, "parsing", lambda split: Answers([names] * len(split), heads=[heads] * len(split))
    )
    assert {(one.marked, *one.gold, *one.predicted) for one in some} == {
        ("le", "det of chat (3)", "det of De (1)")
    }
    heads, names = np.array([0, 3, 1, 3]), ["root", "det", "obj", "punct"]
    _, some = found(
        data, "parsing", lambda split: Answers([names] * len(split), heads=[heads] * len(split))
    )
    assert {(one.marked, *one.gold, *one.predicted) for one in some} <= {
        ("De", "case of chat (3)", "root"), ("chat", "root", "obj of De (1)")
    }  # fmt: skip


def test_of_questions_the_answers_are_told(data):
    split, some = found(data, "xquad", lambda split: Answers(["She"] * len(split)))
    assert [one.texts for one in some] == [[split.texts[one.item]] for one in some]
    assert {(*one.gold, *one.predicted) for one in some} == {("Rome", "She")}
