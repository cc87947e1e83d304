"""Tasks of questions: where their files are found, and what of SQuAD is trained on."""

import json

import pytest

from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder


def put(folder, name, title, n=2):
    context = "It is in Rome."
    answers = [{"text": "Rome", "answer_start": 9}]
    asked = [{"id": f"{name} {i}", "question": "Where?", "answers": answers} for i in range(n)]
    paragraphs = [{"context": context, "qas": asked}]
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"data": [{"title": title, "paragraphs": paragraphs}]}))


@pytest.fixture
def data(tmp_path):
    put(tmp_path, "xquad/xquad.en.json", "Ada")
    put(tmp_path, "xquad/xquad.zh.json", "Ada")
    for pair in ("en-question-en", "de-question-de", "de-question-en"):
        put(tmp_path, f"mlqa/dev-context-{pair}.json", pair)
    put(tmp_path, "MLQA_V1/test/test-context-de-question-de.json", "test")
    put(tmp_path, "MLQA_V1/test/dev-context-hi-question-hi.json", "in another folder")
    put(tmp_path, "squad/dev-v1.1.json", "Ada", 3)
    return tmp_path


def sizes(task, folder, language):
    return {
        split: len(some)
        for split, some in find_task(task).read(DataFolder(folder), language).splits.items()
    }


def test_files_are_found_and_cross_pairs_are_not(data):
    there = {
        task: list(find_task(task).languages(DataFolder(data)))
        for task in ("xquad", "mlqa", "squad")
    }
    assert there == {"xquad": ["cmn", "eng"], "mlqa": ["deu", "eng"], "squad": ["eng"]}
    assert sizes("xquad", data, "eng") == sizes("xquad", data, "zho") == {"": 2}
    assert sizes("mlqa", data, "deu") == {"dev": 2, "test": 2}
    assert sizes("mlqa", data, "eng") == {"dev": 2}
    assert sizes("squad", data, "eng") == {"test": 3}
    folder = DataFolder(data)
    (first, _) = find_task("mlqa").read(folder, "deu").splits["dev"]
    assert first.title == "de-question-de"
    assert "mlqa/dev-context-de-question-de.json" in folder.files
    with pytest.raises(Absent, match="of fra"):
        find_task("xquad").read(DataFolder(data), "fra")


def test_squad_is_trained_on_in_english_and_its_documents_are_apart(data):
    put(data, "squad/train-v1.1.json", "Ada", 5)
    assert sizes("xquad", data, "eng") == {"train": 5, "test": 2}
    assert sizes("xquad", data, "zho") == {"": 2}
    assert sizes("mlqa", data, "eng") == {"train": 5, "dev": 2}
    assert sizes("mlqa", data, "deu") == {"dev": 2, "test": 2}
    assert sizes("squad", data, "eng") == {"train": 5, "test": 3}
    folder = DataFolder(data)
    found = find_task("xquad").read(folder, "eng").splits
    assert {one.place for one in found["train"]}.isdisjoint(one.place for one in found["test"])
    assert "squad/train-v1.1.json" in folder.files
    assert find_task("mlqa").answers == "mlqa" and find_task("xquad").answers == "squad"
