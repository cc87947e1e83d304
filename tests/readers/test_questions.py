"""Files of questions in SQuAD's format: what is read, and what is refused by name."""

import copy
import gzip
import json

import pytest

from crosslens.errors import InputError
from crosslens.readers.questions import Answer, read_questions

CONTEXT = "Ada 👩🏽‍🚀 lived in Rome."
WHOLE = {
    "version": "1.1",
    "data": [
        {
            "title": "Ada",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "a",
                            "question": "Where?",
                            "answers": [
                                {"text": "Rome", "answer_start": 18},
                                {"text": "in Rome", "answer_start": 15, "more": 1},
                            ],
                        },
                        {
                            "id": "b",
                            "question": "Who?",
                            "answers": [{"text": "Ada", "answer_start": 0}],
                        },
                    ],
                },
                {"context": "None.", "qas": []},
            ],
        },
        {
            "paragraphs": [
                {
                    "context": "दो शब्द",
                    "qas": [
                        {
                            "id": "c",
                            "question": "कितने?",
                            "answers": [{"text": "दो", "answer_start": 0}],
                        }
                    ],
                }
            ]
        },
    ],
}


def put(folder, whole, name="x.json"):
    path, content = folder / name, json.dumps(whole).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_questions_have_their_paragraphs_and_answers(tmp_path, name):
    found = read_questions(put(tmp_path, WHOLE, name))
    assert [one.id for one in found] == ["a", "b", "c"]
    assert found[0].answers == (Answer("Rome", 18), Answer("in Rome", 15))
    assert [CONTEXT[a.start : a.end] for a in found[0].answers] == ["Rome", "in Rome"]
    assert [one.place for one in found] == ["Ada, paragraph 0"] * 2 + ["document 1, paragraph 0"]
    assert (found[2].title, found[2].document, found[2].question) == ("", 1, "कितने?")


def first(whole):
    return whole["data"][0]["paragraphs"][0]


def asked(whole):
    return first(whole)["qas"][0]


SPOILT = {
    "answer_start counts bytes": (
        lambda w: asked(w)["answers"][0].update(answer_start=31),
        r"question 'a': expected the answer 'Rome' at character 31 of its context, got ''",
    ),
    "before the context": (
        lambda w: asked(w)["answers"][0].update(text=".", answer_start=-1),
        r"question 'a': expected the answer '\.' at character -1",
    ),
    "blank answer": (lambda w: asked(w)["answers"][0].update(text=" "), "expected an answer, got"),
    "blank question": (
        lambda w: asked(w).update(question="\n"),
        "question 'a': expected a question",
    ),
    "blank context": (
        lambda w: first(w).update(context=" ", qas=[]),
        "document 0, paragraph 0: expected a context",
    ),
    "no answers": (
        lambda w: asked(w).update(answers=[], is_impossible=True),
        r"x\.json: expected an answer to each question, got 1 of 3 without one, as in SQuAD 2\.0",
    ),
    "an id twice": (lambda w: asked(w).update(id="b"), "expected an id for each question, got 'b'"),
    "no questions": (lambda w: w.update(data=[]), "expected questions, got none"),
    "no data": (lambda w: w.pop("data"), "key data: expected a list, got nothing"),
    "a list": (lambda w: w.update(data={}), "key data: expected a list"),
    "a start that is text": (
        lambda w: asked(w)["answers"][0].update(answer_start="18"),
        r"key data\[0\].paragraphs\[0\].qas\[0\].answers\[0\].answer_start: expected a whole number",
    ),
    "no id": (lambda w: asked(w).pop("id"), r"qas\[0\].id: expected text, got nothing"),
    "a NUL": (lambda w: asked(w).update(question="a\0b"), "question 'a': expected text, got a NUL"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_no_file_of_questions_is_named(tmp_path, what):
    spoil, match = SPOILT[what]
    whole = copy.deepcopy(WHOLE)
    spoil(whole)
    with pytest.raises(InputError, match=match):
        read_questions(put(tmp_path, whole))


def test_no_json_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{'data': []}")
    with pytest.raises(InputError, match=r"x\.json: expected JSON"):
        read_questions(tmp_path / "x.json")
    with pytest.raises(InputError, match="no such file"):
        read_questions(tmp_path / "y.json")


@pytest.mark.slow
def test_translations_of_a_paragraph_have_one_place(shared_data):
    files = sorted((shared_data / "xquad").glob("*.json.gz"))
    there = {path.name: read_questions(path) for path in files}
    assert {len(found) for found in there.values()} == {1190}
    english = {one.id: one.place for one in there["xquad.en.json.gz"]}
    assert len({*english.values()}) == 240
    for found in there.values():
        assert {one.id: one.place for one in found} == english
