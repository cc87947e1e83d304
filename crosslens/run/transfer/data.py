"""The data of transfer: what is trained on, what settings are chosen by, and what is tested in
which language.

    a task's items in a language  ->  a split's texts, labels and groups, as models and measures
                                      read them
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.errors import quote, refuse
from crosslens.languages import same_language, subtag_of, treebank_of
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.probes.tasks.catalogue import TASKS, find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.task import Task
from crosslens.progress import say
from crosslens.run.probing.splits import SHARES, some
from crosslens.run.transfer.splits import READ, LanguageSplits, Split, called, splits_of

__all__ = ["TaskData", "languages_by_task", "transfer_data"]


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
    names: what was asked for (a code, or a treebank) -> what its test items are called.
    """

    task: Task
    classes: tuple[str, ...]
    train: Sequence[Split]
    dev: Sequence[Split]
    tests: Mapping[str, Split]
    target_devs: Mapping[str, Split]
    facts: Mapping[str, Any]
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def trained_on(self) -> str:
        """The languages that are trained on, as a score's source: "eng+fra"."""
        return "+".join(one.language for one in self.train)


def languages_by_task(
    tasks: Sequence[str],
    data: DataFolder,
    test: Sequence[str],
    data_of: Mapping[str, str] | None = None,
) -> dict[str, list[str]]:
    """What each task is tested in: of several tasks the languages that it has data in.

    Few languages have data of every task. A single task, and one that has data in none of them,
    keeps all, and :func:`transfer_data` refuses what it lacks.

    Parameters
    ----------
    tasks: of the catalogue. test: languages, names of treebanks, or "all" alone.
    data_of: language -> the one in the folder whose data are its own.

    Raises
    ------
    InputError: no task has data in one of the languages.
    """
    names, data_of = list(dict.fromkeys(tasks)), data_of or {}
    if len(names) < 2 or list(test) == ["all"]:
        return {name: list(test) for name in names}
    found = dict[str, list[str]]()
    for name in names:
        task = find_task(name)
        there = [] if task is None else task.languages(data)
        found[name] = [one for one in test if _has(task, data, data_of.get(one, one), there)]
    if nowhere := [one for one in test if not any(one in some for some in found.values())]:
        expected = f"languages that one of the tasks ({', '.join(names)}) has data in"
        refuse("--test", expected, ", ".join(nowhere), "leave it out, or add its files")
    return {name: some or list(test) for name, some in found.items()}


def _has(task: Task | None, data: DataFolder, language: str, there: Sequence[str]) -> bool:
    """Whether a task has data in a language, one of ``there``, or in that very treebank or script,
    and labels of words in them."""
    if task is None or not there:
        return True
    if not any(same_language(language, one) for one in there):
        return False
    labelled = task.kind in ("tag", "tree")
    if not (labelled or treebank_of(language) or subtag_of(language)):
        return True
    try:
        items = task.read(data, language)
        return not labelled or READ[task.kind](task, items) is not None
    except Absent as absent:
        say(f"{task.name} is not tested in {language}: {absent}")
        return False


def transfer_data(
    name: str,
    data: DataFolder,
    train: Sequence[str],
    test: Sequence[str],
    *,
    limit: int | None = None,
    seed: int = 0,
    segment: str | None = None,
    apart: bool = False,
    data_of: Mapping[str, str] | None = None,
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
        language that there is data in (of words with labels: in which one has a label).
    limit: most items of each split, sampled with the seed; None for all.
    segment: of names, the segmenter whose words are taken in its language; None for the files'.
    apart: words of a treebank have a space between any two.
    data_of: language -> the one in the folder whose data are its own: of a derived language its
        original, say.

    Raises
    ------
    InputError: no such task, one that cannot be fine-tuned, a language without data, labels of one
        class only, or no test item left.
    """
    task = _task_of(name)
    if list(test) == ["all"]:
        there = task.languages(data)
        test = [language for language in there if _has(task, data, language, there)]
    data_of, found = data_of or {}, dict[str, LanguageSplits]()
    for language in dict.fromkeys([*train, *test]):
        own = splits_of(task, data, data_of.get(language, language), segment, apart=apart)
        found[language] = called(own, language) if language in data_of else own
    for option, languages in (("--train", train), ("--test", test)):
        _check_once(option, languages, found)
    _check_labels([found[language] for language in train], [*found.values()])
    trained = {language: _divided(found[language], seed) for language in dict.fromkeys(train)}
    parts = {
        part: [_limited(one.splits[part], limit, seed, task) for one in trained.values()]
        for part in ("train", "dev")
    }
    classes = _classes(task, parts["train"])
    names = _names_of(found, test)
    whole = {
        names[language]: _test_split(language, found, trained, data_of.get(language))
        for language in dict.fromkeys(test)
    }
    seen = {group for some in parts.values() for one in some for group in one.groups.tolist()}
    sampled = any(one.how.startswith("a random") for one in trained.values())
    fresh, shared = _unseen(whole, seen)
    if sampled:
        _check_unseen(task, fresh)
    tests = {
        language: _limited(split, limit, seed, task)
        for language, split in (fresh if sampled else whole).items()
    }
    target_devs = {
        names[language]: _limited(found[language].splits["dev"], limit, seed, task)
        for language in names
        if "dev" in found[language].splits
        and not any(_are_one(found[language], found[one]) for one in trained)
    }
    facts = _facts(_names_of(found, train), trained, parts, tests, found)
    facts["classes"] = classes
    if moved := {one.language: one.moved for one in found.values() if one.moved is not None}:
        facts["segment"] = {"segmenter": segment, "names_with_other_borders": moved}
    if shared:
        facts["left_out_of_test" if sampled else "also_in_training"] = shared
    return TaskData(
        task, tuple(classes), parts["train"], parts["dev"], tests, target_devs, facts, names
    )


def _classes(task: Task, train: Sequence[Split]) -> list[str]:
    """The labels of the training items, in alphabetical order; refused where there is one only."""
    classes = sorted({label for one in train for row in one.labels for label in _each(row)} - {""})
    if len(classes) < 2 and task.kind != "answer":
        expected, got = "training items of two classes or more", ", ".join(map(repr, classes))
        refuse(f"task {task.name}", expected, got or "none", "give more items")
    return classes


def _check_unseen(task: Task, tests: Mapping[str, Split]) -> None:
    """Refuse a language of whose test items all have texts that are trained on."""
    for language, split in tests.items():
        if not len(split):
            expected = f"test items in {language} whose texts are not trained on"
            refuse(f"task {task.name}", expected, "none", "choose other languages, or other data")


def _facts(
    names: Mapping[str, str],
    trained: Mapping[str, LanguageSplits],
    parts: Mapping[str, Sequence[Split]],
    tests: Mapping[str, Split],
    found: Mapping[str, LanguageSplits],
) -> dict[str, Any]:
    """What a run tells of its data: numbers of items, and how splits were made.

    Parameters
    ----------
    names: of the languages that are trained on, as they are called. found: all languages.
    """
    called_so = names.values()
    facts: dict[str, Any] = {
        f"{part}_items": dict(zip(called_so, map(len, splits), strict=True))
        for part, splits in parts.items()
    }
    facts["test_items"] = {language: len(split) for language, split in tests.items()}
    facts["splits"] = dict(zip(called_so, (one.how for one in trained.values()), strict=True))
    if blank := {one.language: one.blank for one in found.values() if one.blank}:
        facts["blank_pairs_left_out"] = blank
    return facts


def _task_of(name: str) -> Task:
    """A task of the catalogue that can be fine-tuned."""
    task = find_task(name)
    if task is None or task.kind not in READ:
        known = ", ".join(one.name for one in TASKS if one.kind in READ)
        refuse("task", f"one that can be fine-tuned ({known})", repr(name), "choose among these")
    return task


def _test_split(
    language: str,
    found: Mapping[str, LanguageSplits],
    trained: Mapping[str, LanguageSplits],
    original: str | None,
) -> Split:
    """The test items of a language: those that its training items were divided from, where they were;
    of a derived language those of its original, in the same order."""
    one = trained.get(language)
    if one is None and original is not None and original in trained:
        one = called(trained[original], language)
    if one is None or "test" not in one.splits:
        one = _tested(found[language])
    return one.splits["test"]


def _unseen(
    tests: Mapping[str, Split], seen: Collection[str]
) -> tuple[dict[str, Split], dict[str, int]]:
    """The test items whose group is not trained on, by language; and how many others there are, where
    there are any."""
    rows = {
        language: np.array([group not in seen for group in split.groups.tolist()], bool)
        for language, split in tests.items()
    }
    fresh = {
        language: split.take(np.flatnonzero(rows[language])) for language, split in tests.items()
    }
    return fresh, {language: int((~new).sum()) for language, new in rows.items() if not new.all()}


# -- splits


def _divided(found: LanguageSplits, seed: int) -> LanguageSplits:
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
        return LanguageSplits(found.language, made, how)
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
    return LanguageSplits(found.language, splits, how)


def _strata(split: Split) -> np.ndarray:
    """What items are divided by: their class, where they have one."""
    return np.array([label if isinstance(label, str) else "sentence" for label in split.labels])


def _tested(found: LanguageSplits) -> LanguageSplits:
    """A language that is tested on alone: its test split, or all that it has."""
    if "test" in found.splits or "" in found.splits:
        test = found.splits.get("test", found.splits.get(""))
        assert test is not None
        return LanguageSplits(found.language, {"test": test})
    got = f"{found.language}, which has {', '.join(found.splits)} only"
    refuse("--test", "languages with a test split", got, "choose another language")


def _names_of(found: Mapping[str, LanguageSplits], asked: Sequence[str]) -> dict[str, str]:
    """What each language is called that is trained on, or tested: its code, or, of two treebanks of
    one language, their names."""
    codes = [found[name].language for name in dict.fromkeys(asked)]
    return {
        name: found[name].language if codes.count(found[name].language) == 1 else name
        for name in dict.fromkeys(asked)
    }


def _check_once(option: str, names: Sequence[str], found: Mapping[str, LanguageSplits]) -> None:
    """Refuse one treebank, or language, under two names: it would count twice."""
    for one, other in itertools.combinations(dict.fromkeys(names), 2):
        if _are_one(found[one], found[other]):
            got = f"{one} and {other}, which are one"
            refuse(option, "each treebank once", got, "leave one of them out")


def _are_one(first: LanguageSplits, second: LanguageSplits) -> bool:
    """Whether two names stand for the same items, as "en" and "eng" do."""
    return first.language == second.language and _items(first) == _items(second)


def _items(found: LanguageSplits) -> dict[str, tuple[list[str], list[Any]]]:
    return {part: ([*split.texts], [*split.labels]) for part, split in found.splits.items()}


def _limited(split: Split, limit: int | None, seed: int, task: Task) -> Split:
    plain = all(isinstance(label, str) for label in split.labels)
    labels = np.array([*split.labels], str) if plain else None
    return split.take(some(np.arange(len(split)), limit, seed, labels))


def _check_labels(trained: Sequence[LanguageSplits], every: Sequence[LanguageSplits]) -> None:
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
