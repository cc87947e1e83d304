"""The data of a run of probes: tasks of the catalogue and of one's own, in the languages that are
wanted."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.checks import is_whole
from crosslens.errors import InputError, quote, refuse
from crosslens.languages import SEVERAL, code_of, same_language, treebank_of
from crosslens.probes.tasks.catalogue import TASKS, choose_tasks, find_task, task_names
from crosslens.probes.tasks.data_folder import Absent, DataFolder, check_folder
from crosslens.probes.tasks.items import (
    Items,
    PairsOfSentences,
    RatedWords,
    Texts,
    WordPairs,
    Words,
)
from crosslens.probes.tasks.task import TUNED, Card
from crosslens.probes.tasks.task import Task as Declared
from crosslens.probes.tasks.treebanks import read_files
from crosslens.progress import say
from crosslens.readers.labelled_text import LabelledText, read_labelled_text
from crosslens.readers.minimal_pairs import read_minimal_pairs
from crosslens.run.probing.kinds.build import JOINED, Drawing, build, numbers
from crosslens.run.probing.kinds.task import Task
from crosslens.run.probing.splits import PARTS

__all__ = ["Found", "Sources", "choose_tasks", "read_tasks"]

_ENGLISH = "eng"
_TREEBANK = "en_ewt"
# other kinds of tasks train nothing
_TRAINED = ("classify", "classify_pair", "tag", "span", "parse")
_OF_TREEBANKS = ("tag", "span", "parse")
_PAIRS = (".jsonl", ".tab")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the tasks of a run come from.

    Attributes
    ----------
    folder: with the official files; "hf:" for the hub, "hf:FOLDER" for copies of its data sets;
        None where all tasks are the user's own.
    tasks: names of tasks of the catalogue.
    labels: name of a task of the user's own (or of one that it replaces) -> one file, or three for
        train, dev and test.
    numbers: the same for tasks whose labels are numbers to be told, not classes.
    treebank: what the treebank's files begin with; None for the language's own.
    train: the language that probes are trained on, or several that they are trained on together;
        English without it.
    test: further languages that they are tested on. A task that trains nothing is measured in these
        alone.
    limit: most items of each part (sentences of a treebank, pairs of a category), sampled with the
        seed; None for all.
    seed: of what is sampled.
    pll: how sentences of minimal pairs are scored by masked models: "pll" or "pll_word_l2r".
    """

    folder: str | Path | None
    tasks: Sequence[str]
    labels: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    treebank: str | None = None
    train: Sequence[str] = ()
    test: Sequence[str] = ()
    limit: int | None = None
    seed: int = 0
    pll: str = "pll"


@dataclasses.dataclass(frozen=True)
class Found:
    """Tasks by name, why others cannot be measured, the files that were read, with their SHA-256,
    cards of the catalogue's tasks, and the commit of each data set of the hub."""

    tasks: Mapping[str, Task]
    not_measured: Mapping[str, str]
    files: Mapping[str, str]
    cards: Mapping[str, Mapping[str, Any]]
    revisions: Mapping[str, str | None]


def read_tasks(sources: Sources, required: Sequence[str] = ()) -> Found:
    """Read the data of every task.

    Parameters
    ----------
    required: tasks that are refused, rather than left out, where their files are not there.

    Raises
    ------
    InputError: a file that is there cannot be read, with its place; or nothing is left to measure,
        with what was looked for.
    """
    if sources.folder is not None:
        check_folder(sources.folder)
    if sources.limit is not None and not (is_whole(sources.limit) and sources.limit >= 1):
        refuse("--limit", "1 or more items", quote(sources.limit), "leave it out to take all")
    reader = _Reader(sources)
    tasks: dict[str, Task] = {}
    not_measured: dict[str, str] = {}
    for name in dict.fromkeys([*sources.tasks, *sources.labels, *sources.numbers]):
        try:
            tasks[name] = (
                reader.own(name)
                if name in {**sources.labels, **sources.numbers}
                else reader.official(name)
            )
        except Absent as absent:
            if name in required:
                if (task := find_task(name)) is not None and task.kind in TUNED:
                    got, remedy = (
                        "one that an encoder is fine-tuned for",
                        "crosslens transfer has it",
                    )
                    refuse(f"task {name}", "one that probes are trained for", got, remedy)
                refuse(
                    f"task {name}", "its data", str(absent), "leave the task out, or add the files"
                )
            not_measured[name] = str(absent)
    if not tasks:
        got = "; ".join(f"{name}: {reason}" for name, reason in not_measured.items()) or "no task"
        remedy = "name the folder that holds them, or choose other tasks"
        refuse("--data", "the files of at least one task", got, remedy)
    cards = {name: task.record() for name in tasks if (task := find_task(name)) is not None}
    return Found(
        tasks,
        not_measured,
        reader.data.files,
        cards,
        reader.data.revisions,
    )


class _Reader:
    """Reads each file once, and remembers which files it read."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        given = sources.treebank or (None if sources.train or sources.test else _TREEBANK)
        self.data = DataFolder(sources.folder, given)
        self.drawing = Drawing(sources.limit, sources.seed, sources.pll)

    def official(self, name: str) -> Task:
        """A task of the catalogue, in the languages that are wanted."""
        task = find_task(name)
        assert task is not None, name
        if task.kind in TUNED:
            raise Absent("nothing is probed for it, an encoder is fine-tuned: crosslens transfer")
        train, test = self._languages(task)
        sources = self._read(task, train, {}, "--train")
        targets = self._read(task, test, sources, "--test")
        trained, tested = [*sources.values()], [*targets.values()]
        self._check_splits(task, trained, tested)
        try:
            return build(task, trained, tested, self.drawing)
        except InputError as error:
            if task.kind == "tag":  # no treebank has every label
                raise Absent(str(error)) from error
            raise

    def _languages(self, task: Declared) -> tuple[list[str], list[str]]:
        """Those of training, and those of the test alone; of tasks that train nothing the first of
        the latter (or of all that there are), and the others."""
        sources, there = self.sources, list(task.languages(self.data))
        if there == [SEVERAL]:
            if sources.train or sources.test:
                raise Absent("its labels are languages: leave out --train and --test")
            return there, []
        treebank = sources.treebank if task.kind in _OF_TREEBANKS else None
        train = list(sources.train) or [code_of(treebank) if treebank is not None else _ENGLISH]
        if task.kind not in _TRAINED:
            asked = sources.train or sources.test
            found, first = (list(sources.test) or train) if asked else (there or train), 1
        else:
            found, first = [*train, *sources.test], len(train)
        several = not all(same_language(train[0], other) for other in train)
        if several and task.kind in _TRAINED and task.kind not in JOINED:
            raise Absent(
                f"it is trained on one language: leave out all of {', '.join(train)} but one"
            )
        missing = [
            language
            for language in found
            if not any(same_language(language, other) for other in there)
        ]
        if missing and there and (sources.train or sources.test):
            many = f"{len(there)} languages" if len(there) > 8 else ", ".join(there)
            raise Absent(f"no items in {', '.join(missing)} (there are some in {many})")
        return found[:first], found[first:]

    def _read(
        self, task: Declared, languages: Sequence[str], before: Mapping[str, Items], option: str
    ) -> dict[str, Items]:
        """What there is in each of these languages, but for those that were read ``before`` or under
        another code, which is said; another treebank of one of them is refused."""
        found: dict[str, Items] = {}
        for language in languages:
            if language in {**before, **found}:
                continue
            same = {o: i for o, i in {**before, **found}.items() if same_language(language, o)}
            items = None if same and treebank_of(language) else task.read(self.data, language)
            for other, others in same.items():
                if items is not None and _content(items) == _content(others):
                    say(f"{task.name}: {language} is {other}, and is taken once")
                    break
                if items is None or _called(items) == _called(others):
                    remedy = "take a language's other treebank in a run of its own"
                    refuse(option, "each language once", f"{language} beside {other}", remedy)
            else:
                assert items is not None
                found[language] = items
        return found

    def _check_splits(
        self, task: Declared, trained: Sequence[Items], tested: Sequence[Items]
    ) -> None:
        """Pass if treebanks have sentences to train on (where that is asked), or to test on."""
        for one in trained:
            if isinstance(one, Words) and self.sources.train and list(one.splits) == ["test"]:
                expected = f"a treebank with a train or dev file for {task.name}"
                remedy = "give it to --test, and another language to --train"
                refuse("--train", expected, f"{one.name}, which has a test file only", remedy)
            if isinstance(one, WordPairs) and "train" not in one.splits:
                raise Absent(f"no items to train on in {one.splits['test'].language}: test on it")
        for one in tested:
            if isinstance(one, Words) and "test" not in one.splits:
                raise Absent(f"{one.name} has no test split (ud/{one.name}-ud-test.conllu)")

    # -- one's own
    # ------------------------------------------------------------------------------------------------------------

    def own(self, name: str) -> Task:
        """A task of the user's own files."""
        if name in self.sources.numbers:
            paths = self._own_paths("--numbers", name, self.sources.numbers[name])
            return numbers(
                name, _joined([read_labelled_text(path) for path in paths], name), self.drawing
            )
        paths = self._own_paths("--labels", name, self.sources.labels[name])
        task, names = find_task(name), [Path(path).name.removesuffix(".gz") for path in paths]
        if all(one.endswith(_PAIRS) for one in names):
            pairs = [pair for path in paths for pair in read_minimal_pairs(path)]
            items = PairsOfSentences(pairs, ", ".join(Path(path).name for path in paths))
            return build(_own_task(name, "minimal_pairs"), [items], (), self.drawing)
        if any(one.endswith(".conllu") for one in names):
            if (
                not all(one.endswith(".conllu") for one in names)
                or task is None
                or task.kind not in _OF_TREEBANKS
            ):
                known = [
                    name
                    for name, one in zip(task_names(), TASKS, strict=True)
                    if one.kind in _OF_TREEBANKS
                ]
                described = (
                    f"{', '.join(known)}, which say what to predict for the words of a treebank"
                )
                refuse(
                    "--labels", described, repr(name), f"write {known[0]}={','.join(paths)}, say"
                )
            splits = dict(
                zip(PARTS if len(paths) > 1 else ("test",), map(Path, paths), strict=True)
            )
            return build(task, [read_files(splits, Path(paths[0]).name)], (), self.drawing)
        if task is not None and task.kind != "classify":
            described = f"{Path(paths[0]).name}, whose labels are of whole texts"
            wanted = {"minimal_pairs": "pairs (.jsonl)"}.get(
                task.kind, "the official files in --data"
            )
            wanted = (
                "a treebank (.conllu), whose words have labels"
                if task.kind in _OF_TREEBANKS
                else wanted
            )
            remedy = f"call the task otherwise, as in my_{name}={paths[0]}"
            refuse("--labels", f"{wanted} for {name}", described, remedy)
        texts = _joined([read_labelled_text(path) for path in paths], name)
        surface = task is not None and list(task.languages(self.data)) == [SEVERAL]
        whole = Texts(texts, SEVERAL, surface=surface)
        return build(_own_task(name, "classify"), [whole], (), self.drawing)

    def _own_paths(self, option: str, name: str, paths: Sequence[str]) -> Sequence[str]:
        for path in paths:
            if not Path(path).is_file():
                expected = f"{name}=FILE, or {name}=TRAIN,DEV,TEST"
                refuse(option, expected, f"{path!r}, which is no file", "check the path")
        if len(paths) not in (1, 3):
            expected = "one file, or three (train, dev, test)"
            refuse(option, expected, f"{len(paths)} for {name}", "give one or three")
        self.data.note(paths)
        return paths


def _content(items: Items) -> Any:
    """What tells items of a task from those of another name of their language."""
    if isinstance(items, Texts):
        return items.texts.texts
    if isinstance(items, Words):
        return items.name
    return items.pairs if isinstance(items, PairsOfSentences) else None


def _called(items: Items) -> str | None:
    """The language of the items' scores."""
    return None if isinstance(items, WordPairs | RatedWords) else items.language


def _own_task(name: str, kind: str) -> Declared:
    """A declaration for a user's own files, which are read already."""

    def read(data: DataFolder, language: str) -> Items:
        raise Absent("the files of one's own tasks are given")

    told = ("says", "data", "languages", "chance", "citation", "licence", "address")
    card = Card(title=name, **dict.fromkeys(told, ""))
    return Declared(
        name=name,
        kind=kind,
        group="semantic",
        metrics=("accuracy",),
        read=read,
        languages=lambda data: (),
        card=card,
    )


def _joined(texts: Sequence[LabelledText], name: str) -> LabelledText:
    """One text, or three as the parts of one."""
    if len(texts) == 1:
        return texts[0]
    labels, sentences, places = (
        [v for some in texts for v in getattr(some, column)]
        for column in ("labels", "texts", "places")
    )
    return LabelledText(
        labels,
        sentences,
        places,
        name,
        [part for part, some in zip(PARTS, texts, strict=True) for _ in some.texts],
    )
