"""The data of transfer: what is trained on, what settings are chosen by, and what is tested in
which language.

    a task's items in a language  ->  a split's texts, labels and groups, as models and measures
                                      read them
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.corpus import Corpus
from crosslens.errors import InputError, quote, refuse
from crosslens.languages import same_language
from crosslens.models.saved.derived_languages import DerivedLanguage
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.probes.tasks.catalogue import TASKS, find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import Items, Questions, TextPairs, Texts, Words
from crosslens.probes.tasks.task import Task
from crosslens.readers.treebank import trees, word_labels, words_apart
from crosslens.run.probing.splits import (
    PARTS,
    SHARES,
    some,
    some_sentences,
)
from crosslens.run.repeats import normal_texts, text_names
from crosslens.run.transfer.resegmented import SEGMENTED, resegmented

__all__ = ["Reading", "Split", "TaskData", "heads_of", "languages_by_task", "transfer_data"]


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """How an encoder reads a derived language.

    Attributes
    ----------
    how: the derivation.
    told: the language that the encoder is told: the derived one where it has it, or the original.
    unseen: what it reads in the place of subwords that it has no embedding of
        (:data:`crosslens.models.finetuning.derived.UNSEEN`); None where it has them.
    """

    how: DerivedLanguage
    told: str
    unseen: str | None = None

    @property
    def moves(self) -> bool:
        """Whether subwords are in another order."""
        return self.how.derivation.transformation is not None


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Items of one split in one language.

    Attributes
    ----------
    language: ISO 639-3.
    texts: n texts: a sentence or, of pairs, the first one.
    seconds: n second texts; None where there are none.
    labels: of tasks on texts the class of each; of tasks on words one label per word, "" for
        words that are not counted; of questions on second texts their answers.
    groups: shape (n,), which items stand and fall together: equal texts, translations of one
        sentence.
    corpus: of tasks on words, the sentences with their words; None for others.
    places: of tasks on texts, ``file:line`` of each, for messages.
    original: of a derived language, the one whose items these are, as they were; "" of others.
    reading: how the encoder at hand reads a derived language.
    heads: of tasks on trees, for each sentence the numbers of its words' heads, from 1; 0 for the
        root. ``labels`` are the relations, and ``corpus`` has the words apart from each other.
    """

    language: str
    texts: Sequence[str]
    labels: Sequence[Any]
    groups: np.ndarray
    seconds: Sequence[str] | None = None
    corpus: Corpus | None = None
    heads: Sequence[np.ndarray] | None = None
    places: Sequence[str] | None = None
    original: str = ""
    reading: Reading | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: np.ndarray) -> "Split":
        """The items of these rows, in this order."""
        chosen = rows.tolist()
        return Split(
            self.language,
            [self.texts[row] for row in chosen],
            [self.labels[row] for row in chosen],
            self.groups[rows],
            None if self.seconds is None else [self.seconds[row] for row in chosen],
            None if self.corpus is None else some_sentences(self.corpus, rows),
            None if self.heads is None else [self.heads[row] for row in chosen],
            None if self.places is None else [self.places[row] for row in chosen],
            self.original,
            self.reading,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TaskData:
    """A task in the languages of a run.

    Attributes
    ----------
    task: its declaration.
    classes: labels of the training items, sorted; none of questions.
    train, dev: of each training language.
    tests: language -> its test items.
    target_devs: language that is not trained on -> its dev split, where there is one.
    facts: sizes, how splits came about, and what was left out, for the record.
    """

    task: Task
    classes: tuple[str, ...]
    train: Sequence[Split]
    dev: Sequence[Split]
    tests: Mapping[str, Split]
    target_devs: Mapping[str, Split]
    facts: Mapping[str, Any]


def languages_by_task(
    tasks: Sequence[str],
    data: DataFolder,
    test: Sequence[str],
    derived: Mapping[str, str] | None = None,
) -> dict[str, list[str]]:
    """What each task is tested in: of several tasks the languages that it has data in.

    Few languages have data of every task. A single task, and one that has data in none of them,
    keeps all, and :func:`transfer_data` refuses what it lacks.

    Parameters
    ----------
    tasks: of the catalogue. test: languages, names of treebanks, or "all" alone.
    derived: language -> the one that it is derived from.

    Raises
    ------
    InputError: no task has data in one of the languages.
    """
    names, derived = list(dict.fromkeys(tasks)), derived or {}
    if len(names) < 2 or list(test) == ["all"]:
        return {name: list(test) for name in names}
    found = dict[str, list[str]]()
    for name in names:
        task = find_task(name)
        there = [] if task is None else task.languages(data)
        found[name] = [
            language
            for language in test
            if not there or any(same_language(derived.get(language, language), t) for t in there)
        ]
    if nowhere := [one for one in test if not any(one in some for some in found.values())]:
        expected = f"languages that one of the tasks ({', '.join(names)}) has data in"
        refuse("--test", expected, ", ".join(nowhere), "leave it out, or add its files")
    return {name: some or list(test) for name, some in found.items()}


def transfer_data(
    name: str,
    data: DataFolder,
    train: Sequence[str],
    test: Sequence[str],
    *,
    limit: int | None = None,
    seed: int = 0,
    segment: str | None = None,
    derived: Mapping[str, str] | None = None,
) -> TaskData:
    """A task's items to train, choose and test on.

    A language without a training split is trained on its dev split, and one whose files know no
    splits is divided at random (70, 10, 20 %); a tenth of the training items is held out where
    there is no dev split. Groups are never divided. Where the division is ours, test items whose
    group is trained on are left out and counted: the same paragraph or sentence in another language
    is no unseen item.

    Parameters
    ----------
    name: of a task of the catalogue.
    train, test: languages, in codes of any kind, or names of treebanks; "all" tests on every
        language that there is data in.
    limit: most items of each split, sampled with the seed; None for all.
    segment: of names, the segmenter whose words are taken in its language; None for the files'.
    derived: language -> the one that it is derived from, whose items are its items.

    Raises
    ------
    InputError: no such task, one that cannot be fine-tuned, a language without data, labels of one
        class only, or no test item left.
    """
    task = find_task(name)
    if task is None or task.kind not in _READ:
        known = ", ".join(one.name for one in TASKS if one.kind in _READ)
        expected = f"tasks that can be fine-tuned ({known})"
        refuse("--tasks", expected, repr(name), "choose among these")
    test = task.languages(data) if list(test) == ["all"] else test
    derived, found = derived or {}, dict[str, _Splits]()
    for language in dict.fromkeys([*train, *test]):
        found[language] = _read(task, data, derived.get(language, language), segment)
        if language in derived:
            found[language] = _called(found[language], language)
    _check_labels([found[language] for language in train], [*found.values()])
    trained = {language: _divided(found[language], seed) for language in dict.fromkeys(train)}
    parts = {
        part: [_limited(one.splits[part], limit, seed, task) for one in trained.values()]
        for part in ("train", "dev")
    }
    seen = {group for some in parts.values() for one in some for group in one.groups.tolist()}
    sampled = any(one.how.startswith("a random") for one in trained.values())
    tests, shared, target_devs = dict[str, Split](), dict[str, int](), dict[str, Split]()
    called = _target_names(found, test)
    for language in dict.fromkeys(test):
        one = trained.get(language)
        if one is None and derived.get(language) in trained:  # the very items, in the same order
            one = _called(trained[derived[language]], language)
        if one is None or "test" not in one.splits:
            one = _tested(found[language])
        split, target = one.splits["test"], called[language]
        fresh = np.array([group not in seen for group in split.groups.tolist()], bool)
        if not fresh.all():
            shared[target] = int((~fresh).sum())
        if sampled and not fresh.any():
            refuse(
                f"task {name}",
                f"test items in {language} whose texts are not trained on",
                "none",
                "choose other languages, or other data",
            )
        split = split.take(np.flatnonzero(fresh)) if sampled else split
        tests[target] = _limited(split, limit, seed, task)
        if language not in trained and "dev" in found[language].splits:
            target_devs[target] = _limited(found[language].splits["dev"], limit, seed, task)
    classes = sorted(
        {label for one in parts["train"] for row in one.labels for label in _each(row)} - {""}
    )
    if len(classes) < 2 and task.kind != "answer":
        got = ", ".join(map(repr, classes)) or "none"
        refuse(f"task {name}", "training items of two classes or more", got, "give more items")
    facts: dict[str, Any] = {
        **{f"{part}_items": {one.language: len(one) for one in parts[part]} for part in parts},
        "test_items": {language: len(split) for language, split in tests.items()},
        "classes": classes,
        "splits": {one.language: one.how for one in trained.values()},
    }
    if moved := {one.language: one.moved for one in found.values() if one.moved is not None}:
        facts["segment"] = {"segmenter": segment, "names_with_other_borders": moved}
    if shared:
        facts["left_out_of_test" if sampled else "also_in_training"] = shared
    return TaskData(task, tuple(classes), parts["train"], parts["dev"], tests, target_devs, facts)


# -- one language


@dataclasses.dataclass(frozen=True, eq=False)
class _Splits:
    """What a language has: "train", "dev", "test"; "" for items that belong to no split; and how many
    names have other borders among a segmenter's words."""

    language: str
    splits: Mapping[str, Split]
    how: str = "as published"
    moved: int | None = None


def _read(task: Task, data: DataFolder, language: str, segment: str | None) -> _Splits:
    there = task.languages(data)
    if there and not any(same_language(language, one) for one in there):
        told = ", ".join(there) if len(there) <= 8 else f"{len(there)} languages"
        refuse(f"task {task.name}", f"a language of the data ({told})", language, "choose another")
    try:
        items = task.read(data, language)
    except Absent as absent:
        refuse(f"task {task.name}", f"its data in {language}", str(absent), "add the files")
    if segment and task.spans and isinstance(items, Words) and task.label:
        if same_language(items.language, SEGMENTED[segment]):
            made = {p: resegmented(c, task.label, segment) for p, c in items.splits.items()}
            corpora = {part: corpus for part, (corpus, _) in made.items()}
            found = _read_words(task, dataclasses.replace(items, splits=corpora))
            return dataclasses.replace(found, moved=sum(n for _, n in made.values()))
    return _READ[task.kind](task, items)


def _called(found: _Splits, language: str) -> _Splits:
    """The same items as those of a derived language."""
    splits = {
        part: dataclasses.replace(split, language=language, original=split.language)
        for part, split in found.splits.items()
    }
    return dataclasses.replace(found, language=language, splits=splits)


def _read_texts(task: Task, items: Items) -> _Splits:
    if not isinstance(items, Texts):
        refuse(
            f"task {task.name}", "a label for each text", "something else", "choose another task"
        )
    texts = items.texts
    groups = (
        text_names(normal_texts(texts.texts)) if texts.groups is None else np.array(texts.groups)
    )
    told = items.language, list(texts.texts), list(texts.labels), groups
    whole = Split(*told, places=texts.places)
    if texts.parts is None:
        return _Splits(items.language, {"": whole})
    names = np.array(texts.parts)
    parts = {part: np.flatnonzero(names == part) for part in PARTS}
    return _Splits(items.language, {p: whole.take(rows) for p, rows in parts.items() if len(rows)})


def _read_words(task: Task, items: Items) -> _Splits:
    if not isinstance(items, Words) or task.label is None:
        refuse(
            f"task {task.name}", "a label for each word", "something else", "choose another task"
        )
    return _Splits(
        items.language,
        {
            part: _of_words(corpus, items.language, task.label)
            for part, corpus in items.splits.items()
        },
    )


def _of_words(corpus: Corpus, language: str, label: str) -> Split:
    lengths = [len(spans) for spans in corpus.words or ()]
    columns = {
        column: [value for row in rows for value in row]
        for column, rows in (corpus.annotations or {}).items()
    }
    flat = np.full(sum(lengths), "", object)
    found = word_labels(columns, label)
    flat[found.rows] = found.labels
    labels = [row.tolist() for row in np.split(flat, np.cumsum(lengths)[:-1])]
    sentences = list(corpus.sentences)
    return Split(language, sentences, labels, text_names(normal_texts(sentences)), corpus=corpus)


def _read_trees(task: Task, items: Items) -> _Splits:
    found = _read_words(task, items)
    assert isinstance(items, Words)
    made = {}
    for part, split in found.splits.items():
        corpus = words_apart(items.splits[part])
        made[part] = dataclasses.replace(split, corpus=corpus, heads=heads_of(corpus))
    return _Splits(found.language, made)


def heads_of(corpus: Corpus) -> list[np.ndarray]:
    """The heads of each sentence of a treebank.

    Raises
    ------
    InputError: a sentence is no tree.
    """
    columns: dict[str, list[Any]] = {
        name: [value for row in (corpus.annotations or {})[name] for value in row]
        for name in ("head", "upos")
    }
    lengths = [len(spans) for spans in corpus.words or ()]
    columns["text"] = np.repeat(np.arange(len(lengths)), lengths).tolist()
    try:
        return np.split(trees(columns, corpus.ids).heads, np.cumsum(lengths)[:-1])
    except InputError as error:
        raise InputError(f"{corpus.name}: {error}") from None


def _read_pairs(task: Task, items: Items) -> _Splits:
    if not isinstance(items, TextPairs):
        expected = "a label for each pair of texts"
        refuse(f"task {task.name}", expected, "something else", "choose another task")
    splits = {}
    for part, pairs in items.splits.items():
        names = text_names(normal_texts(pairs.firsts))
        firsts, seconds = list(pairs.firsts), list(pairs.seconds)
        told = items.language, firsts, list(pairs.labels), names, seconds
        splits[part] = Split(*told, places=pairs.places)
    return _Splits(items.language, splits)


def _read_questions(task: Task, items: Items) -> _Splits:
    if not isinstance(items, Questions):
        expected = "answers to questions"
        refuse(f"task {task.name}", expected, "something else", "choose another task")
    splits = {}
    for part, questions in items.splits.items():
        firsts, contexts = [one.question for one in questions], [one.context for one in questions]
        groups = text_names([one.place for one in questions])
        answers = [tuple(one.answers) for one in questions]
        splits[part] = Split(items.language, firsts, answers, groups, contexts)
    return _Splits(items.language, splits)


_READ: Mapping[str, Callable[[Task, Items], _Splits]] = {
    "classify": _read_texts,
    "pair": _read_pairs,
    "tag": _read_words,
    "tree": _read_trees,
    "answer": _read_questions,
}


# -- splits


def _divided(found: _Splits, seed: int) -> _Splits:
    """The same with train, dev and test, drawn where the files do not say them."""
    splits = dict(found.splits)
    if list(splits) == [""]:
        whole = splits[""]
        strata = _strata(whole)
        parts = stratified_parts(strata, SHARES, seed, groups=whole.groups)
        rows = {"train": parts.train, "dev": parts.dev, "test": parts.test}
        if not len(parts.dev):
            held = hold_out_dev(parts, strata, seed=seed, groups=whole.groups)
            rows |= {"train": held.train, "dev": held.dev}
        made = {part: whole.take(chosen) for part, chosen in rows.items()}
        together = len(set(whole.groups.tolist())) < len(whole)
        how = f"{parts.drawn}{'; what belongs to one text is in one split' * together}"
        return _Splits(found.language, made, how)
    how = found.how
    if "train" not in splits:
        if "dev" not in splits:
            got = f"{found.language}, which has test items only"
            remedy = "give it to --test, and another language to --train"
            refuse("--train", "a language with a train or dev split", got, remedy)
        splits["train"], how = splits.pop("dev"), "trained on the dev split"
    if "dev" not in splits:
        train = splits["train"]
        everything = Parts(np.arange(len(train)), [len(train)])
        held = hold_out_dev(
            everything, np.append(_strata(train), ""), seed=seed, groups=np.append(train.groups, "")
        )
        splits |= {"train": train.take(held.train), "dev": train.take(held.dev)}
        how += f"; dev is a random 10 % of the training items, seed {seed}"
    return _Splits(found.language, splits, how)


def _strata(split: Split) -> np.ndarray:
    """What items are divided by: their class, where they have one."""
    return np.array([label if isinstance(label, str) else "sentence" for label in split.labels])


def _tested(found: _Splits) -> _Splits:
    """A language that is tested on alone: its test split, or all that it has."""
    if "test" in found.splits or "" in found.splits:
        test = found.splits.get("test", found.splits.get(""))
        assert test is not None
        return _Splits(found.language, {"test": test})
    got = f"{found.language}, which has {', '.join(found.splits)} only"
    refuse("--test", "languages with a test split", got, "choose another language")


def _target_names(found: Mapping[str, "_Splits"], test: Sequence[str]) -> dict[str, str]:
    """What each test language is called: its code, or, where two treebanks of one language are
    tested, their names."""
    codes = [found[name].language for name in dict.fromkeys(test)]
    return {
        name: found[name].language if codes.count(found[name].language) == 1 else name
        for name in dict.fromkeys(test)
    }


def _limited(split: Split, limit: int | None, seed: int, task: Task) -> Split:
    plain = all(isinstance(label, str) for label in split.labels)
    labels = np.array([*split.labels], str) if plain else None
    return split.take(some(np.arange(len(split)), limit, seed, labels))


def _check_labels(trained: Sequence[_Splits], every: Sequence[_Splits]) -> None:
    """Refuse a text whose label no training item has. (Words may have such: a rare relation, say.)"""
    sources = (
        next(one.splits[p] for p in ("train", "dev", "", "test") if p in one.splits)
        for one in trained
    )
    known = {label for split in sources for label in split.labels if split.places}
    for split in (split for one in every for split in one.splits.values()):
        for place, label in zip(split.places or (), split.labels, strict=False):
            if label not in known:
                expected = f"a label that training items have ({', '.join(sorted(known))})"
                refuse(place, expected, quote(label), "repair it, or add training items")


def _each(labels: Any) -> Sequence[str]:
    """The classes of an item; answers are none."""
    if isinstance(labels, tuple):
        return ()
    return [labels] if isinstance(labels, str) else labels
