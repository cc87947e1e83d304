"""Whether a language's items are those of another one in another order of words, as a condition with
syntax is tested on: sentence by sentence the same words with the same labels."""

from collections.abc import Sequence
from typing import Any

from crosslens.errors import InputError, quote, refuse
from crosslens.languages import same_language
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.run.transfer.data import TaskData, transfer_data
from crosslens.run.transfer.splits import Split

__all__ = ["check_reordered"]

_REMEDY = "put every split in that order: crosslens derive --treebank … --order-of …"


def check_reordered(
    tasks: Sequence[str], data: DataFolder, original: str, syntax: str, **told: Any
) -> None:
    """Refuse a language whose items are not the original's in another order of words.

    By which model they were put in order, and whether it is the one of the study's text, is not
    checked: any order of the same words but the original's is taken.

    Parameters
    ----------
    tasks: of the catalogue. data: the folder that has both languages.
    original, syntax: the two languages.
    told: as :func:`crosslens.run.transfer.data.transfer_data` has it.

    Raises
    ------
    InputError: it has no data of a task, or others, or a split in the original's order; a task on texts as a whole.
    """
    if same_language(original, syntax):
        expected = f"a language whose data are those of {original} in another order"
        refuse("--syntax", expected, quote(syntax), f"name it: {original}-orderfra, say")
    for name in tasks:
        first = transfer_data(name, data, [original], [original], **told)
        try:
            second = transfer_data(name, data, [syntax], [syntax], **told)
        except InputError as error:
            expected = f"a language with data of task {name}"
            refuse("--syntax", expected, f"{quote(syntax)} ({error})", _REMEDY)
        if first.train[0].corpus is None:
            expected = "tasks whose words have labels or heads"
            refuse("--syntax", expected, name, "choose among these")
        sides = zip(_parts(first), _parts(second), strict=True)
        for part, (one, other) in zip(("train", "dev", "test"), sides, strict=True):
            if difference := _differ(one, other):
                expected = f"the items of {original} in another order of words"
                got = f"{syntax}, {part} of task {name}: {difference}"
                refuse("--syntax", expected, got, _REMEDY)
            if _orders(one) == _orders(other):
                expected = f"the items of {original} in another order of words"
                got = f"{syntax}, {part} of task {name}: each in the order that it has there"
                refuse("--syntax", expected, got, _REMEDY)


def _parts(data: TaskData) -> list[Split]:
    return [data.train[0], data.dev[0], next(iter(data.tests.values()))]


def _orders(split: Split) -> list[list[str]]:
    """The words of each item, in their order."""
    assert split.corpus is not None
    pairs = zip(split.corpus.sentences, split.corpus.words or (), strict=True)
    return [[text[start:end] for start, end in spans] for text, spans in pairs]


def _differ(one: Split, other: Split) -> str:
    """What differs in more than the order of words; "" where nothing does."""
    if len(one) != len(other):
        return f"{len(other):,} items, where there are {len(one):,}"
    pairs = zip(_content(one), _content(other), strict=True)
    for number, (text, (mine, theirs)) in enumerate(zip(other.texts, pairs, strict=True), 1):
        if mine != theirs:
            return f"item {number} ({quote(text)}) is another one"
    return ""


def _content(split: Split) -> list[Any]:
    """What sentences are but for the order of their words: each word with its label and its head."""
    assert split.corpus is not None
    found = []
    for number, (sentence, spans) in enumerate(
        zip(split.corpus.sentences, split.corpus.words or (), strict=True)
    ):
        words = [sentence[start:end] for start, end in spans]
        heads = [] if split.heads is None else split.heads[number].tolist()
        above = [words[head - 1] if head else "" for head in heads] or [""] * len(words)
        labels = [label.rpartition("-")[2] for label in split.labels[number]]  # names may be torn
        found.append(sorted(zip(words, labels, above, strict=True)))
    return found
