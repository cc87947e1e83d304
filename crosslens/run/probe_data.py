"""The data of a battery of probes: which files there are, and the tasks that they make.

A folder holds the official files under the names that they are published with:

    wic/{train,dev,test}.{data,gold}.txt                    Word-in-Context
    scws/ratings.txt                                        Stanford's contextual word similarity
    sib200/sib200.tsv, or wili*/{x,y}_{train,test}.txt      language identification; SIB-200 has topics, too
    ud/PREFIX-ud-{train,dev,test}.conllu                    Universal Dependencies
    marvin_linzen/pairs.tsv, blimp/*.jsonl                  minimal pairs (without the first they are generated)

Any of them may have ``.gz`` behind its name. A task whose files are not there is not measured, and what was looked for is told.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from crosslens.corpus import Corpus
from crosslens.errors import InputError, refuse
from crosslens.files import sha256_file
from crosslens.probes.methods.language_id import LANGUAGE_ID_SETTINGS
from crosslens.probes.methods.marvin_linzen import GROUPS, marvin_linzen_pairs
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.readers.labelled_text import LabelledText, first_two_sentences, read_labelled_text, read_table, read_wili
from crosslens.readers.minimal_pairs import MinimalPair, read_minimal_pairs
from crosslens.readers.scws import read_scws
from crosslens.readers.wic import Wic, read_wic
from crosslens.readers.words import read_conllu
from crosslens.run.probe_cloze import PairsTask
from crosslens.run.probe_items import text_names
from crosslens.run.probe_meaning import ScwsTask, WicTask
from crosslens.run.probe_numbers import NumberTask, number_parts, read_numbers
from crosslens.run.probe_splits import PARTS, SHARES, choose, normal_texts, ranges, some, treebank_parts
from crosslens.run.probe_tasks import SentenceTask, Task, Text, WordTask
from crosslens.run.probe_trees import StructuralTask
from crosslens.run.repeats import groups_of

__all__ = ["BATTERIES", "Found", "Sources", "choose_tasks", "read_tasks"]

BATTERIES = {
    "semantic": ("wic", "scws", "topic"),
    "syntactic": ("minimal_pairs", "blimp", "upos", "deprel", "feature_Number", "structural_distance", "structural_depth"),
    "language": ("language_id",),
}
"""Battery -> its tasks; "all" has the tasks of all of them. Any other feature of the treebank is a task, too: feature_Tense, say."""

_PAPER = "language_id_paper"  # the settings of Wu & Dredze 2019, for those who name it

_FEATURE = "feature_"
_OF_WORDS = ("upos", "xpos", "deprel")
_LANGUAGES = "mul"  # the language of a text in several ones (ISO 639-2)
_ENGLISH = "eng_Latn"  # as SIB-200 writes it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the tasks of a battery come from.

    Attributes
    ----------
    folder: with the official files; None where all tasks are the user's own.
    tasks: names of the tasks of the battery.
    labels: name of a task of the user's own (or of one that it replaces) -> one file, or three for train, dev and test.
    numbers: the same for tasks whose labels are numbers to be told, not classes.
    treebank: what the treebank's files begin with.
    limit: most items of each part (sentences of a treebank, pairs of a category), drawn with the seed; None for all.
    seed: of what is drawn.
    pll: how sentences of minimal pairs are scored by masked models: "pll" or "pll_word_l2r".
    """

    folder: Path | None
    tasks: Sequence[str]
    labels: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    treebank: str = "en_ewt"
    limit: int | None = None
    seed: int = 0
    pll: str = "pll"


@dataclasses.dataclass(frozen=True)
class Found:
    """Tasks by name, why others cannot be measured, and the files that were read, with their SHA-256."""

    tasks: Mapping[str, Task]
    not_measured: Mapping[str, str]
    files: Mapping[str, str]


class _Absent(Exception):
    """What a task needs is not there."""


def choose_tasks(battery: str, only: Sequence[str] = ()) -> tuple[str, ...]:
    """The tasks of a battery, or those of them that are named.

    Raises
    ------
    InputError: no such battery, or a task that it has not.

    >>> choose_tasks("semantic"), choose_tasks("all", ["wic", "feature_Tense"])
    (('wic', 'scws', 'topic'), ('wic', 'feature_Tense'))
    """
    if battery not in (*BATTERIES, "all"):
        refuse("--battery", f"one of {', '.join(BATTERIES)}, all", repr(battery), "choose one of them")
    there = tuple(task for name, tasks in BATTERIES.items() if battery in (name, "all") for task in tasks)
    features, languages = battery in ("syntactic", "all"), battery in ("language", "all")
    for name in only:
        if name not in there and not (features and name.startswith(_FEATURE) and name != _FEATURE) and not (languages and name == _PAPER):
            more = (f", {_PAPER}" if languages else "") + (f", {_FEATURE}NAME for another feature" if features else "")
            refuse("--tasks", f"tasks of the battery {battery} ({', '.join(there)}{more})", repr(name), "choose among these")
    return tuple(dict.fromkeys(only)) or there


def read_tasks(sources: Sources, required: Sequence[str] = ()) -> Found:
    """Read the data of every task.

    Parameters
    ----------
    required: tasks that are refused, rather than left out, where their files are not there.

    Raises
    ------
    InputError: a file that is there cannot be read, with its place; or nothing is left to measure, with what was looked for.
    """
    if sources.folder is not None and not sources.folder.is_dir():
        refuse("--data", "a folder with data sets", str(sources.folder), "name the folder that holds wic/, scws/, ud/ and so on")
    if sources.limit is not None and sources.limit < 1:
        refuse("--limit", "1 or more items", str(sources.limit), "leave it out to take all")
    reader = _Reader(sources)
    tasks: dict[str, Task] = {}
    not_measured: dict[str, str] = {}
    for name in dict.fromkeys([*sources.tasks, *sources.labels, *sources.numbers]):
        try:
            tasks[name] = reader.own(name) if name in {**sources.labels, **sources.numbers} else reader.official(name)
        except _Absent as absent:
            if name in required:
                refuse(f"task {name}", "its data", str(absent), "leave the task out, or add the files")
            not_measured[name] = str(absent)
    if not tasks:
        told = "; ".join(f"{name}: {reason}" for name, reason in not_measured.items()) or "no task"
        refuse("--data", "the files of at least one task", told, "name the folder that holds them, or choose other tasks")
    return Found(tasks, not_measured, reader.files)


class _Reader:
    """Reads each file once, and remembers which files it read."""

    def __init__(self, sources: Sources) -> None:
        self.sources, self.files = sources, dict[str, str]()
        self._treebank: tuple[Text, np.ndarray, str] | None = None
        self._languages: SentenceTask | None = None

    # -- files ---------------------------------------------------------------------------------------------------------------

    def find(self, *names: str) -> list[Path]:
        """These files of the folder, each with or without ``.gz``; absent if one of them is."""
        found = [self._path(name) for name in names]
        missing = [name for name, path in zip(names, found, strict=True) if path is None]
        if missing:
            raise _Absent(f"no {', '.join(missing)} (nor .gz) in the data folder")
        return [path for path in found if path is not None]

    def _path(self, name: str) -> Path | None:
        if self.sources.folder is None:
            return None
        paths = (self.sources.folder / f"{name}{ending}" for ending in ("", ".gz"))
        return next((path for path in paths if path.is_file()), None)

    def note(self, paths: Sequence[str | Path]) -> None:
        """Remember what was read."""
        for path in map(Path, paths):
            folder = self.sources.folder
            name = path.relative_to(folder).as_posix() if folder is not None and path.is_relative_to(folder) else path.name
            self.files[name] = sha256_file(path)

    # -- tasks ---------------------------------------------------------------------------------------------------------------

    def official(self, name: str) -> Task:
        """A task of a battery."""
        if name in _OF_WORDS or name.startswith(_FEATURE):
            treebank = self.treebank()
            try:
                return WordTask(name, *treebank)
            except InputError as error:  # no treebank has every feature
                raise _Absent(str(error)) from error
        if name.startswith("structural_"):
            return StructuralTask(name, *self.treebank())
        readers: dict[str, Callable[[], Task]] = {
            "wic": self._wic,
            "scws": self._scws,
            "topic": self._topic,
            "language_id": self._language_id,
            _PAPER: self._language_id_paper,
            "minimal_pairs": self._marvin_linzen,
            "blimp": self._blimp,
        }
        return readers[name]()

    def own(self, name: str) -> Task:
        """A task of the user's own files."""
        if name in self.sources.numbers:
            return self._numbers(name, self._own_paths("--numbers", name, self.sources.numbers[name]))
        paths = self._own_paths("--labels", name, self.sources.labels[name])
        if all(Path(path).name.removesuffix(".gz").endswith((".jsonl", ".tab")) for path in paths):
            pairs = [pair for path in paths for pair in read_minimal_pairs(path)]
            return PairsTask(name, self._some_pairs(pairs), ", ".join(Path(path).name for path in paths), self.sources.pll)
        treebank = [Path(path).name.removesuffix(".gz").endswith(".conllu") for path in paths]
        if any(treebank):
            if not all(treebank) or not (name in _OF_WORDS or name.startswith(_FEATURE)):
                told = f"{', '.join(_OF_WORDS)} or {_FEATURE}NAME, which say what to predict for the words of a treebank"
                refuse("--labels", told, repr(name), f"write upos={','.join(paths)}, say")
            return WordTask(name, *self._read_treebank(dict(zip(PARTS if len(paths) > 1 else ("test",), paths, strict=True))))
        if name in _OF_WORDS or name.startswith((_FEATURE, "structural_")) or name in ("wic", "scws", "minimal_pairs", "blimp"):
            told = f"{Path(paths[0]).name}, whose labels are of whole texts"
            wanted = "pairs (.jsonl)" if name in ("minimal_pairs", "blimp") else "the official files in --data"
            wanted = wanted if name in ("wic", "scws", "minimal_pairs", "blimp") else "a treebank (.conllu), whose words have labels"
            refuse("--labels", f"{wanted} for {name}", told, f"call the task otherwise, as in my_{name}={paths[0]}")
        return self._sentences(name, _joined([read_labelled_text(path) for path in paths], name), surface=name == "language_id")

    def _own_paths(self, option: str, name: str, paths: Sequence[str]) -> Sequence[str]:
        for path in paths:
            if not Path(path).is_file():
                refuse(option, f"{name}=FILE, or {name}=TRAIN,DEV,TEST", f"{path!r}, which is no file", "check the path")
        if len(paths) not in (1, 3):
            refuse(option, "one file, or three (train, dev, test)", f"{len(paths)} for {name}", "give one or three")
        self.note(paths)
        return paths

    def _numbers(self, name: str, paths: Sequence[str]) -> NumberTask:
        texts = _joined([read_labelled_text(path) for path in paths], name)
        numbers = read_numbers(texts)
        with _refusals_of(name):
            rows, chosen = self._choose(number_parts(texts, self.sources.seed))
        return NumberTask(name, Text(texts.corpus(_LANGUAGES, rows.tolist())), numbers[rows], chosen)

    def _wic(self) -> WicTask:
        paths = self.find(*(f"wic/{part}.{kind}.txt" for part in PARTS for kind in ("data", "gold")))
        self.note(paths)
        parts = [read_wic(paths[i], paths[i + 1]) for i in (0, 2, 4)]
        items, labels = [item for part in parts for item in part.items], np.concatenate([part.labels for part in parts])
        where = ranges([len(part) for part in parts])
        rows, chosen = self._choose(Parts(where["train"], where["test"], where["dev"]), labels)
        return WicTask("wic", Wic([items[row] for row in rows], "eng", "wic"), chosen)

    def _scws(self) -> ScwsTask:
        (path,) = self.find("scws/ratings.txt")
        self.note([path])
        scws = read_scws(path)
        rows = some(np.arange(len(scws)), self.sources.limit, self.sources.seed)
        return ScwsTask("scws", dataclasses.replace(scws, items=[scws.items[row] for row in rows]))

    def _topic(self) -> SentenceTask:
        (path,) = self.find("sib200/sib200.tsv")
        self.note([path])
        topics = read_table(path, "topic", only={"language": _ENGLISH})
        if "language_id" in self.sources.tasks and "language_id" not in self.sources.labels and self.sources.limit is None:
            task = self._sentences("topic", topics)
            languages = self._language_id()  # whose sentences include these: they are encoded once
            row_of = {place: row for row, place in enumerate(languages.places)}
            rows = np.array([row_of[place] for place in task.places])
            return dataclasses.replace(task, source=languages.source, rows=rows)
        return self._sentences("topic", topics, "eng")

    def _language_id(self) -> SentenceTask:
        if self._languages is None:
            table, wili = self._path("sib200/sib200.tsv"), self._wili()
            if table is None and wili is None:
                raise _Absent("no sib200/sib200.tsv (nor .gz) and no wili*/x_train.txt in the data folder")
            if table is not None:
                self.note([table])
                texts = read_table(table, "language", group="index_id")
            else:
                assert wili is not None
                self.note([wili / f"{kind}_{part}.txt" for kind in "xy" for part in ("train", "test")])
                texts = read_wili(wili)
            self._languages = self._sentences("language_id", texts, surface=True)
        return self._languages

    def _language_id_paper(self) -> SentenceTask:
        """The same texts as Wu & Dredze 2019 read them: the first two sentences as a pair, the mean over all tokens, Adam."""
        task, settings = self._language_id(), LANGUAGE_ID_SETTINGS["paper"]
        corpus = task.source[1].corpus
        firsts, seconds = zip(*map(first_two_sentences, task.sentences), strict=True)
        first = dataclasses.replace(corpus, sentences=firsts)
        second = dataclasses.replace(corpus, sentences=[sentence or "" for sentence in seconds])
        text = Text(first, settings.unit, second, pool="mean")
        return dataclasses.replace(task, name=_PAPER, source=(_PAPER, text), sentences=firsts, surface=False, settings=settings)

    def _wili(self) -> Path | None:
        folder = self.sources.folder
        there = sorted(path.parent for path in folder.glob("wili*/x_train.txt")) if folder is not None else []
        return there[0] if there else None

    def _marvin_linzen(self) -> PairsTask:
        path = self._path("marvin_linzen/pairs.tsv")
        if path is None:
            pairs, source = marvin_linzen_pairs(), "generated from the grammar's templates"
        else:
            self.note([path])
            pairs, source = read_minimal_pairs(path), "marvin_linzen/pairs.tsv"
        return PairsTask("minimal_pairs", self._some_pairs(pairs), source, "single_mask", GROUPS)

    def _blimp(self) -> PairsTask:
        folder = self.sources.folder
        paths = [] if folder is None else sorted([*folder.glob("blimp/*.jsonl"), *folder.glob("blimp/*.jsonl.gz")])
        if not paths:
            raise _Absent("no blimp/*.jsonl (nor .gz) in the data folder")
        self.note(paths)
        pairs = [pair for path in paths for pair in read_minimal_pairs(path)]
        return PairsTask("blimp", self._some_pairs(pairs), f"blimp, {len(paths)} files", self.sources.pll)

    # -- helpers -------------------------------------------------------------------------------------------------------------

    def treebank(self) -> tuple[Text, np.ndarray, str]:
        """The treebank's text, the part of each sentence, and how the parts came about."""
        if self._treebank is None:
            names = {part: f"ud/{self.sources.treebank}-ud-{part}.conllu" for part in PARTS}
            there = {part: path for part, name in names.items() if (path := self._path(name)) is not None}
            if not there:
                raise _Absent(f"no {', '.join(names.values())} (nor .gz) in the data folder")
            self.note(list(there.values()))
            self._treebank = self._read_treebank(there)
        return self._treebank

    def _read_treebank(self, paths: Mapping[str, str | Path]) -> tuple[Text, np.ndarray, str]:
        """The files of some parts, by their names; of a single file the name does not matter."""
        first = Path(next(iter(paths.values()))).name
        language = first.split("_")[0].split(".")[0] or "und"
        corpora = {part: read_conllu(path, language) for part, path in paths.items()}
        with _refusals_of(first):
            parts = treebank_parts(corpora, self.sources.seed)
        rows, chosen = self._choose(parts)
        names = np.empty(len(rows), dtype="<U5")
        for part in PARTS:
            names[getattr(chosen, part)] = part
        return Text(_sentences_of(_on_end(list(corpora.values())), rows), "word"), names, chosen.drawn

    def _sentences(self, name: str, texts: LabelledText, language: str = _LANGUAGES, *, surface: bool = False) -> SentenceTask:
        labels = np.array(texts.labels)
        with _refusals_of(name):
            sides = [text_names(normal_texts(texts.texts)), *([] if texts.groups is None else [np.array(texts.groups)])]
            same = groups_of(sides)
            if texts.parts is None:
                parts = stratified_parts(labels, SHARES, self.sources.seed, groups=same)
            else:
                parts = Parts.of_names(texts.parts)
            if not len(parts.dev):
                parts = hold_out_dev(parts, labels, seed=self.sources.seed, groups=same)
        rows, chosen = self._choose(parts, labels)
        text = Text(texts.corpus(language, rows.tolist()))
        places = [texts.places[row] for row in rows]
        task = SentenceTask(name, (name, text), np.arange(len(rows)), labels[rows], chosen, text.corpus.sentences, places, surface)
        if texts.groups is None:
            return task
        first = np.unique(same, return_index=True)[1]
        return dataclasses.replace(task, groups=np.array(texts.groups)[first][same][rows])

    def _choose(self, parts: Parts, labels: np.ndarray | None = None) -> tuple[np.ndarray, Parts]:
        return choose(parts, self.sources.limit, self.sources.seed, labels)

    def _some_pairs(self, pairs: Sequence[MinimalPair]) -> list[MinimalPair]:
        if self.sources.limit is None:
            return list(pairs)
        categories: dict[str, list[int]] = {}
        for number, pair in enumerate(pairs):
            categories.setdefault(pair.category, []).append(number)
        taken = [some(np.array(mine), self.sources.limit, self.sources.seed) for mine in categories.values()]
        return [pairs[number] for number in np.sort(np.concatenate(taken))]


@contextlib.contextmanager
def _refusals_of(name: str) -> Iterator[None]:
    """A name in front of what is refused: too few items to divide, say."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _joined(texts: Sequence[LabelledText], name: str) -> LabelledText:
    """One text, or three as the parts of one."""
    if len(texts) == 1:
        return texts[0]
    labels, sentences, places = ([v for some in texts for v in getattr(some, column)] for column in ("labels", "texts", "places"))
    return LabelledText(labels, sentences, places, name, [part for part, some in zip(PARTS, texts, strict=True) for _ in some.texts])


def _on_end(corpora: Sequence[Corpus]) -> Corpus:
    """Several treebanks as one; the number of the file stands in front of each id."""
    words = [spans for corpus in corpora for spans in corpus.words or ()]
    columns = list(corpora[0].annotations or ())
    annotations = {column: [row for corpus in corpora for row in (corpus.annotations or {})[column]] for column in columns}
    ids = [f"{number}:{name}" for number, corpus in enumerate(corpora) for name in corpus.ids]
    sentences = [sentence for corpus in corpora for sentence in corpus.sentences]
    return Corpus(corpora[0].language, sentences, ids, corpora[0].name, words, annotations)


def _sentences_of(corpus: Corpus, rows: np.ndarray) -> Corpus:
    """Some sentences of a treebank."""
    words, annotations = corpus.words or (), corpus.annotations or {}
    return dataclasses.replace(
        corpus,
        sentences=[corpus.sentences[row] for row in rows],
        ids=[corpus.ids[row] for row in rows],
        words=[words[row] for row in rows],
        annotations={column: [values[row] for row in rows] for column, values in annotations.items()},
    )
