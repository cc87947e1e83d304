"""A training run's folder as the report sees it: what was asked for, and what its log says so far.

A run may still be going on: whatever is not there yet is simply missing, and a last line of the log
that is only half written is passed over.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any, TypedDict

from crosslens.errors import StoreError
from crosslens.files import parse_json, read_json
from crosslens.report.folders.log import (
    Point,
    as_count,
    as_number,
    as_table,
    begun_run,
    read_log,
)
from crosslens.report.folders.study import Curve
from crosslens.report.parts.wording import language
from crosslens.score import Score
from crosslens.selection import Best, best_layer
from crosslens.stats import wilson_interval

__all__ = [
    "Training",
    "Validation",
    "load_training",
    "split_stream",
    "validation_scores",
]

_LONGEST_HEADER = 1 << 24  # bytes; no model file of ours comes near it


@dataclasses.dataclass(frozen=True)
class Validation:
    """A validation: perplexity per language, and P@1 per layer of each pair of a source; NaN where
    it is no number."""

    step: int
    tokens: float
    perplexity: dict[str, float]
    retrieval: dict[str, list[float]]

    @property
    def mean_perplexity(self) -> float:
        """Geometric mean over languages; NaN unless all are numbers."""
        values = list(self.perplexity.values())
        if not values or not all(0 < value < math.inf for value in values):
            return math.nan
        return math.exp(math.fsum(map(math.log, values)) / len(values))


class _Tensor(TypedDict):
    """A tensor in the header of a safetensors file."""

    shape: list[int]


@dataclasses.dataclass
class Training:
    """What a run folder says; points and validations in the order of their steps."""

    folder: Path
    config: dict[str, Any]
    data: dict[str, Any]
    points: list[Point]
    validations: list[Validation]
    half_written: bool
    unknown: int
    parameters: int | None
    vocabulary: int | None

    @property
    def settings(self) -> dict[str, Any]:
        """The recipe."""
        return as_table(self.config.get("settings"))

    @property
    def name(self) -> str:
        """What the recipe is called."""
        return str(self.settings.get("name") or "an encoder without a name")

    @property
    def finished(self) -> bool:
        """Whether the model has been written."""
        return (self.folder / "model" / "config.json").is_file()

    @property
    def steps(self) -> int | None:
        """The number of steps of the recipe."""
        return as_count(self.settings.get("steps"))

    @property
    def done(self) -> tuple[int, float]:
        """Steps and tokens that are logged."""
        logged = [(point.step, point.tokens) for point in self.points]
        return max(
            logged + [(validation.step, validation.tokens) for validation in self.validations],
            default=(0, 0.0),
        )

    def sources(self) -> dict[str, dict[str, Any]]:
        """Each source's settings by its name, in the order of the recipe; sources that only the log
        knows come last."""
        given = self.settings.get("sources")
        found = (
            {str(entry.get("name")): entry for entry in map(as_table, given) if entry}
            if isinstance(given, list)
            else {}
        )
        for validation in self.validations:
            for stream in validation.retrieval:
                found.setdefault(split_stream(stream)[0], {})
        return found

    def languages(self) -> list[str]:
        """Language codes in the order of the sources, then others that were validated."""
        named = [
            str(code) for entry in self.sources().values() for code in as_table(entry.get("texts"))
        ]
        return list(
            dict.fromkeys(
                [
                    *named,
                    *(code for validation in self.validations for code in validation.perplexity),
                ]
            )
        )

    def pairs(self) -> list[str]:
        """What the log calls the pairs, in order."""
        streams = (stream for validation in self.validations for stream in validation.retrieval)
        return list(dict.fromkeys(split_stream(stream)[1] for stream in streams))

    def streams(self, source: str) -> list[str]:
        """The pairs of a source that were validated, as streams."""
        streams = dict.fromkeys(
            stream for validation in self.validations for stream in validation.retrieval
        )
        return [stream for stream in streams if split_stream(stream)[0] == source]

    def sides(self, pair: str) -> tuple[str, str] | None:
        """The two languages of a pair, None where they cannot be told."""
        codes = self.languages()
        return next(((a, b) for a in codes for b in codes if f"{a}-{b}" == pair), None)

    def called(self, stream: str) -> str:
        """A stream with its languages by name."""
        source, what = split_stream(stream)
        names = " – ".join(map(language, self.sides(what) or (what,)))
        return f"{source}, {names}" if source else names

    def held_out(self, stream: str) -> int | None:
        """How many held-out sentences or pairs a stream has."""
        return as_count(as_table(self.data.get("held_out")).get(stream))

    def held_out_sentences(self, code: str) -> int | None:
        """How many held-out sentences a language has, over all sources."""
        counts = [
            as_count(n)
            for stream, n in as_table(self.data.get("held_out")).items()
            if split_stream(stream)[1] == code
        ]
        return sum(n for n in counts if n is not None) if counts else None

    def subwords_used(self) -> dict[str, dict[str, int]]:
        """Language to "vocabulary", "used", "cover_99" and "tokens": how many subwords of its
        vocabulary its training text uses, once and for 99 % of its tokens. Empty where it was not
        counted."""
        told = as_table(as_table(self.data.get("vocabulary")).get("used"))
        names = ("vocabulary", "used", "cover_99", "tokens")
        found = {
            code: {name: n for name in names if (n := as_count(as_table(of).get(name))) is not None}
            for code, of in told.items()
        }
        return {code: of for code, of in found.items() if len(of) == len(names)}

    def curve(self, validation: Validation, stream: str) -> Curve:
        """P@1 by layer with 95 % intervals where n is known."""
        n, curve = self.held_out(stream), {}
        for layer, value in enumerate(validation.retrieval.get(stream, [])):
            if not 0 <= value <= 1:
                curve[layer] = Score(
                    quantity="precision_at_1",
                    value=math.nan,
                    n=n or 0,
                    layer=layer,
                    details={"reason": "no fraction in the log"},
                )
                continue
            low, high = wilson_interval(round(value * n), n) if n else (None, None)
            curve[layer] = Score(
                quantity="precision_at_1", value=value, n=n or 0, low=low, high=high, layer=layer
            )
        return curve

    def best(self, source: str) -> Best | None:
        """The layer with the highest mean over a source's pairs at the last validation."""
        return (
            best_layer(self.curve(self.validations[-1], stream) for stream in self.streams(source))
            if self.validations
            else None
        )


def validation_scores(training: Training, found: Validation) -> list[Score]:
    """What one validation measured: the perplexity of each language, and retrieval by layer of each
    pair, both directions together; ``step`` and ``tokens`` are in the details."""
    seed = training.settings.get("seed")
    told: dict[str, Any] = {
        "encoder": training.name,
        "seed": seed if isinstance(seed, int) else None,
    }
    about = {"step": found.step, "tokens": found.tokens}
    scores = [
        Score(
            quantity="perplexity",
            value=value,
            n=training.held_out_sentences(code) or 0,
            source=code,
            task="masked_language_modelling",
            details=about,
            **told,
        )
        for code, value in found.perplexity.items()
    ]
    for stream in found.retrieval:
        text, pair = split_stream(stream)
        source, target = training.sides(pair) or (pair, None)
        fields = {**told, "source": source, "target": target, "condition": "unaligned"}
        for score in training.curve(found, stream).values():
            details = {**(score.details or {}), "part": "held_out", "text": text, **about}
            scores.append(
                dataclasses.replace(score, task="sentence_retrieval", details=details, **fields)
            )
    return scores


def split_stream(stream: str) -> tuple[str, str]:
    """Source, and language or pair, of a stream's name.

    >>> split_stream("bible eng-fra")
    ('bible', 'eng-fra')
    """
    source, _, what = stream.rpartition(" ")
    return source, what


def load_training(folder: str | Path) -> Training:
    """Read the folder of a training run, finished or not.

    Raises
    ------
    InputError: the folder holds no training run.
    StoreError: one of its files is damaged.
    """
    folder = Path(folder)
    config = begun_run(folder, "train", "crosslens train")
    data = read_json(folder / "data.json") if (folder / "data.json").is_file() else {}
    log = read_log(folder / "log.jsonl", "perplexity", "retrieval")
    validations: dict[int, Validation] = {}
    for step, tokens, row in log.rows:
        if "perplexity" in row or "retrieval" in row:
            perplexity = {
                code: as_number(value) for code, value in as_table(row.get("perplexity")).items()
            }
            retrieval = {
                k: [as_number(p) for p in v]
                for k, v in as_table(row.get("retrieval")).items()
                if isinstance(v, list)
            }
            validations[step] = Validation(step, tokens, perplexity, retrieval)
    return Training(
        folder=folder,
        config=config,
        data=as_table(data),
        points=log.points,
        validations=[validations[step] for step in sorted(validations)],
        half_written=log.half_written,
        unknown=log.unknown,
        parameters=_parameters(folder / "model" / "model.safetensors"),
        vocabulary=_vocabulary(folder),
    )


def _vocabulary(folder: Path) -> int | None:
    """The size of the vocabulary that was learnt, where a file tells it."""
    model = folder / "model" / "config.json"
    if model.is_file():
        return as_count(as_table(read_json(model)).get("vocab_size"))
    tokenizer = folder / "tokenizer" / "tokenizer.json"
    pieces = (
        as_table(as_table(read_json(tokenizer)).get("model")).get("vocab")
        if tokenizer.is_file()
        else None
    )
    return len(pieces) if isinstance(pieces, (list, dict)) else None


def _parameters(path: Path) -> int | None:
    """How many numbers a safetensors file holds, from its header alone; None where that cannot be
    told."""
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            content = file.read(min(length, _LONGEST_HEADER))
        header = parse_json(content, str(path), dict[str, _Tensor | dict[str, str]])
        return (
            sum(
                math.prod(entry["shape"])
                for name, entry in header.items()
                if name != "__metadata__"
            )
            or None
        )
    except (OSError, KeyError, StoreError):
        return None
