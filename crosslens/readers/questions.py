"""Questions on paragraphs, each with an answer that stands in the paragraph: SQuAD 1.1's format.

One JSON object: ``data``, a list of documents (``title``, ``paragraphs``); a paragraph has a
``context`` and ``qas``, each with ``id``, ``question`` and ``answers`` (``text``, ``answer_start`` in
characters, that is Unicode code points). XQuAD and MLQA are published so, too. Fields beyond these
are passed over.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from crosslens.corpus import check_sentence
from crosslens.errors import InputError, quote, refuse
from crosslens.files import parse_json
from crosslens.readers.plain import read_lines

__all__ = ["Answer", "Question", "questions_text", "read_questions"]

_REMEDY = "take the file as SQuAD 1.1 publishes it"


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer as it stands in its paragraph.

    Attributes
    ----------
    text: the answer. start: its first character in the context, from 0.

    >>> Answer("Rome", 8).end
    12
    """

    text: str
    start: int

    @property
    def end(self) -> int:
        """The character behind its last one."""
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question on a paragraph.

    Attributes
    ----------
    id: its own in the file. question, context: the question and the paragraph.
    answers: what annotators marked, at least one.
    title: of the document, "" where it has none. document, paragraph: their numbers, from 0: of the
        document in the file, of the paragraph in the document.

    >>> Question("q", "Where?", "She is in Rome.", (Answer("Rome", 10),), "", 3, 2).place
    'document 3, paragraph 2'
    """

    id: str
    question: str
    context: str
    answers: Sequence[Answer]
    title: str
    document: int
    paragraph: int

    @property
    def place(self) -> str:
        """The paragraph: the document's title, or its number where it has none, and the paragraph's
        number. Where translations keep titles and order, a paragraph's have one place."""
        return f"{self.title or f'document {self.document}'}, paragraph {self.paragraph}"


class _Answer(TypedDict):
    text: str
    answer_start: int


class _Asked(TypedDict):
    id: str
    question: str
    answers: list[_Answer]


class _Paragraph(TypedDict):
    context: str
    qas: list[_Asked]


class _Document(TypedDict):
    title: NotRequired[str]
    paragraphs: list[_Paragraph]


class _File(TypedDict):
    data: list[_Document]


def read_questions(path: str | Path) -> list[Question]:
    """Read a file of questions (or one with ``.gz`` behind its name).

    Raises
    ------
    InputError: no such file, not UTF-8, no JSON, another shape, a blank question or context, an
        answer that does not stand where the file says, questions without an answer (SQuAD 2.0 has
        such), an id twice, or no question at all.

    >>> import json, tempfile
    >>> path, asked = Path(tempfile.mkdtemp()) / "dev-v1.1.json", {"id": "q1", "question": "Where?"}
    >>> asked["answers"] = [{"text": "Rome", "answer_start": 10}]
    >>> paragraph = {"context": "She is in Rome.", "qas": [asked]}
    >>> _ = path.write_text(json.dumps({"data": [{"title": "Ada", "paragraphs": [paragraph]}]}))
    >>> [(one.answers[0].text, one.place) for one in read_questions(path)]
    [('Rome', 'Ada, paragraph 0')]
    """
    content = "\n".join(read_lines(path))
    whole: _File = parse_json(content, str(path), _File, _REMEDY, InputError)
    found = list(_questions(whole, path))
    if not found:
        refuse(str(path), "questions", "none", "check the file")
    if empty := sum(not one.answers for one in found):
        got = f"{empty:,} of {len(found):,} without one, as in SQuAD 2.0"
        refuse(str(path), "an answer to each question", got, "take SQuAD 1.1, or leave them out")
    seen = set[str]()
    for one in found:
        if one.id in seen:
            refuse(str(path), "an id for each question", f"{quote(one.id)} twice", "repair the ids")
        seen.add(one.id)
    return found


def _questions(whole: _File, path: str | Path) -> Iterator[Question]:
    for document, article in enumerate(whole["data"]):
        title = check_sentence(article.get("title", ""), f"{path}, title {document}")
        for number, paragraph in enumerate(article["paragraphs"]):
            where = f"{path}, document {document}, paragraph {number}"
            context = _text(paragraph["context"], "a context", where)
            for asked in paragraph["qas"]:
                place = f"{path}, question {quote(asked['id'])}"
                question = _text(asked["question"], "a question", place)
                check_sentence(asked["id"], place)
                answers = tuple(_answer(one, context, place) for one in asked["answers"])
                yield Question(asked["id"], question, context, answers, title, document, number)


def _text(text: str, what: str, where: str) -> str:
    if not text.strip():
        refuse(where, what, "a blank one", "repair the file")
    return check_sentence(text, where)


def _answer(one: _Answer, context: str, where: str) -> Answer:
    text, start = one["text"], one["answer_start"]
    if not text.strip():
        refuse(where, "an answer", "a blank one", "repair the file")
    there = context[start : start + len(text)] if start >= 0 else ""
    if there != text:
        expected = f"the answer {quote(text)} at character {start} of its context"
        refuse(where, expected, quote(there), "count characters (code points), from 0")
    return Answer(text, start)


def questions_text(questions: Sequence[Question]) -> str:
    """Questions as a file of SQuAD 1.1 has them: those of one paragraph stand together.

    Parameters
    ----------
    questions: in the order of their paragraphs.

    >>> asked = Question("q1", "Where?", "She is in Rome.", (Answer("Rome", 10),), "Ada", 0, 0)
    >>> questions_text([asked])[:60]
    '{"version": "1.1", "data": [{"title": "Ada", "paragraphs": ['
    """
    data, before = list[dict[str, Any]](), (-1, -1)
    for one in questions:
        here = (one.document, one.paragraph)
        if here[0] != before[0]:
            data.append({"title": one.title, "paragraphs": []})
        if here != before:
            data[-1]["paragraphs"].append({"context": one.context, "qas": []})
        before = here
        answers = [{"text": answer.text, "answer_start": answer.start} for answer in one.answers]
        asked = {"id": one.id, "question": one.question, "answers": answers}
        data[-1]["paragraphs"][-1]["qas"].append(asked)
    return json.dumps({"version": "1.1", "data": data}, ensure_ascii=False) + "\n"
