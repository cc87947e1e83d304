"""The encoders of a battery of probes: what they are called, whether they can do what is asked, and
their activations of every text."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.activations import Activations
from crosslens.errors import InputError, refuse
from crosslens.files import need_space
from crosslens.run.encoder_names import encoder_names
from crosslens.run.probing.kinds.task import Task, Text
from crosslens.run.study import random_seed

__all__ = [
    "Plan",
    "Subject",
    "check_encoders",
    "extract_texts",
    "find_subjects",
    "language_models",
    "random_name",
    "texts_of",
]

_LARGE = 4e9  # bytes of activations in float32; more is kept in float16


@dataclasses.dataclass(frozen=True)
class Subject:
    """An encoder that is probed.

    Attributes
    ----------
    given: folder or hub name. name: what it is called in scores. folder: what its activations'
        folder is called.
    fingerprint: of its files. random_seeds: of its randomly re-initialised copies.
    """

    given: str
    name: str
    folder: str
    fingerprint: str
    random_seeds: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was found out about the encoders before anything is written.

    Attributes
    ----------
    dtype: of the activations on disk.
    cannot: (encoder's name, task) -> why the encoder cannot do it.
    told: names of the encoders that can be told the language of their input.
    """

    dtype: str
    cannot: Mapping[tuple[str, str], str]
    told: frozenset[str] = frozenset()

    def loading(self, subject: Subject, loading: Mapping[str, Any]) -> dict[str, Any]:
        """How an encoder is loaded: with a language only where it takes one."""
        return {
            **loading,
            "language": loading.get("language") if subject.name in self.told else None,
        }


def find_subjects(given: Sequence[str], seeds: Sequence[int], trusted: bool) -> list[Subject]:
    """The encoders by name; each has a randomly re-initialised copy for each seed.

    Raises
    ------
    InputError: one cannot be found, or two are the same.
    """
    # torch, once the data are fit
    from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder

    found: list[Subject] = []
    for one, name in zip(given, encoder_names(given), strict=True):
        mark = encoder_fingerprint(resolve_encoder(one, trust_remote_code=trusted))
        drawn = [random_seed(seed, mark, several=len(given) > 1) for seed in seeds]
        folder = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "encoder"
        for other in found:
            if mark == other.fingerprint or folder == other.folder:
                got = f"{other.given} and {one}, which are one"
                refuse("--encoder", "different encoders", got, "name each encoder once")
        found.append(Subject(one, name, folder, mark, tuple(drawn)))
    return found


def random_name(place: int) -> str:
    """What the folder of a re-initialised copy's activations is called.

    >>> random_name(0), random_name(2)
    ('random_encoder', 'random_encoder-2')
    """
    return f"random_encoder-{place}" if place else "random_encoder"


def texts_of(tasks: Mapping[str, Task]) -> dict[str, Text]:
    """The texts that tasks need, each once.

    Raises
    ------
    InputError: two tasks call different texts by one name: one would read the other's vectors.
    """
    found, owner = dict[str, Text](), dict[str, str]()
    for task, texts in ((name, one.texts) for name, one in tasks.items()):
        for name, text in texts.items():
            if found.setdefault(name, text) is not text and not found[name].is_same(text):
                got = f"{name}, which is also the name of a text of task {owner[name]}"
                remedy = "rename the task of your own, or measure the two in two runs"
                refuse(f"task {task}", "a name that no other task uses", got, remedy)
            owner.setdefault(name, task)
    return found


def check_encoders(
    subjects: Sequence[Subject],
    tasks: Mapping[str, Task],
    out: Path,
    *,
    copies: int,
    loading: Mapping[str, Any],
) -> Plan:
    """Load each encoder and let it read every text; nothing is written.

    Parameters
    ----------
    copies: how many re-initialised copies of each are to be measured. The dtype does not depend on
        how many there are beyond the first.
    loading: arguments of :func:`crosslens.models.saved.loading.load_encoder`: device, whether an
        encoder's own code may be run, and the language of those that are told one.

    Raises
    ------
    InputError: an encoder cannot be loaded, or cannot read a text; or a language is given, and none
        takes one.
    OutputError: the disk is too full.
    """
    from crosslens.models.extraction.extract import check_text
    from crosslens.models.extraction.units import Reading
    from crosslens.models.saved.loading import load_encoder

    plan = Plan("float32", {})
    cannot: dict[tuple[str, str], str] = {}
    numbers = 0
    for subject in subjects:
        encoder = load_encoder(subject.given, **{**loading, "language": None})
        if encoder.languages is not None:
            plan = dataclasses.replace(plan, told=plan.told | {subject.name})
        if (language := plan.loading(subject, loading)["language"]) is not None:
            encoder = encoder.in_language(language)
        cannot |= {
            (subject.name, name): reason
            for name, task in tasks.items()
            if (reason := _no_language(encoder, task))
        }
        for text in texts_of(
            {name: task for name, task in tasks.items() if (subject.name, name) not in cannot}
        ).values():
            settings = dict(text.settings)
            second = settings.pop("second", None)
            check_text(encoder, text.corpus, Reading(**settings), second)
            numbers += text.items * encoder.layers * encoder.d
        cloze = [
            task
            for name, task in tasks.items()
            if task.cloze and (subject.name, name) not in cannot
        ]
        telling = plan.loading(subject, loading)
        if cloze and (reason := _no_head(subject, telling, cloze[0], plan)):
            cannot |= {(subject.name, task.name): reason for task in cloze}
    if loading.get("language") is not None and not plan.told:
        expected = "an encoder that is told the language of its input (XLM)"
        refuse("--language", expected, "none such", "leave it out")
    dtype = "float16" if 4 * numbers * (1 + min(copies, 1)) > _LARGE else "float32"
    if not out.exists():
        need_space(out, numbers * (1 + copies) * (2 if dtype == "float16" else 4), str(out))
    return dataclasses.replace(plan, dtype=dtype, cannot=cannot)


def _no_language(encoder: Any, task: Task) -> str | None:
    """Why an encoder cannot be told the language of a task's texts, or of its pairs; None if it
    can, or needs none."""
    try:
        for text in task.texts.values():
            encoder.for_text(text.corpus.language)
        for language in task.languages:
            encoder.for_text(language or "und")
    except InputError as error:
        return str(error)
    return None


def _no_head(subject: Subject, loading: Mapping[str, Any], task: Task, plan: Plan) -> str | None:
    """Why an encoder cannot be asked for the probability of a word; None if it can."""
    try:
        language_models(subject, loading, 0, subject.name in plan.told, False)(task.languages[0])
    except InputError as error:
        return str(error)
    return None


def language_models(
    subject: Subject, loading: Mapping[str, Any], copy: int, told: bool, random: bool
) -> Callable[[str | None], Any]:
    """Language -> the encoder with its head, or this one of its re-initialised copies, to score
    words and sentences in that language with.

    Parameters
    ----------
    told: whether the encoder is told each text's language (``loading`` may name one for all);
        others are loaded once for all languages.
    """
    from crosslens.models.scoring.cloze import load_scorer

    seed = subject.random_seeds[copy] if random else None
    load = functools.partial(load_scorer, subject.given, random_seed=seed)
    if told and loading.get("language") is None:
        return lambda language: load(**{**loading, "language": language})
    scorer = load(**loading)
    return lambda language: scorer


def extract_texts(
    subject: Subject,
    tasks: Mapping[str, Task],
    folder: Path,
    dtype: str,
    *,
    random: bool,
    loading: Mapping[str, Any],
) -> dict[str, dict[str, Activations]]:
    """Stores of every text: condition ("encoder", "random_encoder", "random_encoder-1", ...) ->
    name of the text -> store."""
    from crosslens.models.extraction.extract import extract
    from crosslens.models.saved.loading import load_encoder

    texts = texts_of(tasks)
    conditions: dict[str, int | None] = {"encoder": None}
    conditions |= {
        random_name(place): seed for place, seed in enumerate(subject.random_seeds) if random
    }
    stores: dict[str, dict[str, Activations]] = {}
    for condition, seed in conditions.items():
        stores[condition] = {}
        if not texts:
            continue
        encoder: Any = load_encoder(subject.given, random_seed=seed, **loading)
        for name, text in texts.items():
            place = folder / subject.folder / condition / name
            stores[condition][name] = extract(
                encoder, text.corpus, place, dtype=dtype, **text.settings
            )
    return stores
