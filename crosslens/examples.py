"""Examples: a few items that a fine-tuned encoder answered wrongly, as people read them.

A run keeps them as ``examples.jsonl``, one JSON object per line, and the report shows them.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from crosslens.errors import InputError, StoreError, refuse
from crosslens.files import parse_json, write_whole

__all__ = ["EXAMPLES", "Example", "read_examples", "write_examples"]

EXAMPLES = "examples.jsonl"
_REMEDY = "run it again"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """An item, what is right, and what was answered.

    Attributes
    ----------
    task, encoder, source, target, seed: whose answer it is, as in :class:`crosslens.score.Score`.
    freeze: layers that were frozen; -1: none.
    item: the item's position among the test items, from 0.
    texts: what is read: a text, both texts of a pair, a sentence, or a question.
    marks: spans of the first text, as characters, that the answers are about; rising.
    gold, predicted: answers in words; of names those that are missing, and those that are wrong.

    Raises
    ------
    InputError: no text, or a span that is not in it.

    >>> Example(task="upos", encoder="e", source="eng", target="fra", seed=0, item=3, texts=["Le chat"], marks=[(3, 7)],
    ...         gold=["NOUN"], predicted=["VERB"]).marked
    'chat'
    """

    task: str
    encoder: str
    source: str
    target: str
    seed: int
    item: int
    texts: Sequence[str]
    gold: Sequence[str]
    predicted: Sequence[str]
    marks: Sequence[Sequence[int]] = ()
    freeze: int = -1

    def __post_init__(self) -> None:
        if not self.texts:
            refuse("texts", "a text or more", "none", "give what is read")
        ends = [0, *(end for mark in self.marks for end in mark), len(self.texts[0])]
        if ends != sorted(ends) or any(len(mark) != 2 for mark in self.marks):
            expected, got = "spans of the first text, rising", str(list(self.marks))[:80]
            refuse("marks", expected, got, "give the first character and the one behind the last")

    @property
    def marked(self) -> str:
        """The marked spans, with … between them."""
        return "…".join(self.texts[0][start:end] for start, end in self.marks)


class _Row(TypedDict):
    """A line of examples.jsonl."""

    task: str
    encoder: str
    source: str
    target: str
    seed: int
    item: int
    texts: list[str]
    gold: list[str]
    predicted: list[str]
    marks: list[list[int]]
    freeze: int


def write_examples(examples: Iterable[Example], path: str | Path) -> None:
    """Write one JSON object per line; the file appears whole or not at all."""
    rows = (json.dumps(dataclasses.asdict(one), ensure_ascii=False) + "\n" for one in examples)
    write_whole(path, "".join(rows))


def read_examples(path: str | Path) -> list[Example]:
    """The examples of a file, in their order.

    Raises
    ------
    StoreError: there is no such file, or a line of it is no example; the message names it.
    """
    if not Path(path).is_file():
        refuse(str(path), "a file of examples", "none", _REMEDY, StoreError)
    found = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            row: dict[str, Any] = parse_json(line, where, _Row, _REMEDY)
            try:
                found.append(Example(**{name: row[name] for name in _Row.__annotations__}))
            except InputError as error:
                raise StoreError(f"{where}: {error}") from None
    return found
