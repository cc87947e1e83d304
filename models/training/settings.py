"""The settings of a training run: one frozen record, readable, printable and saved with the run."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from crosslens.errors import check_choice, refuse
from crosslens.files import check_name
from crosslens.models.limits import check_numbers, shown
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.network.sharing import SharingPlan, resolve_system
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.anchors import Anchors, check_anchors
from crosslens.models.training.derivation import Derivation, check_derived
from crosslens.models.training.masking import Masking

__all__ = [
    "LoopSettings",
    "Optimisation",
    "Source",
    "TrainRecipe",
    "describe",
    "from_dict",
    "recipe_settings",
    "resolve",
    "resolve_rows",
    "with_overrides",
]

_WARMUP, _TLM_SHARE = 500, 0.5  # where a recipe leaves them open and the run has room for them
# tokens that a row must have room for
_LEAST_ROW = {"sentences": 1, "stream": 1, "packed": 3, "nsp": 5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """Text of one origin in one or more languages.

    Attributes
    ----------
    name: short name, for logs.
    texts: language to file. Plain text, or tab-separated where ``columns`` says so; ``.gz`` is read
        as it is.
    columns: language to the column of its text in a tab-separated file, counted from 0; empty for
        plain text.
    id_column: column of the ids in tab-separated files, -1 where there is none. With ids, sentences
        of different languages belong together when their ids are equal; without, when their line
        numbers are.
    weight: how much more (or less) often than its size alone says this source is sampled from.
    split: which of its sentences are held out follows from this text, where it is not empty: sources
        of different trainings with as many lines then hold out the same. From the recipe's seed and
        the source's name otherwise.
    """

    name: str
    texts: Mapping[str, str]
    columns: Mapping[str, int] = dataclasses.field(default_factory=dict)
    id_column: int = -1
    weight: float = 1.0
    split: str = ""

    def __post_init__(self) -> None:
        if not self.texts:
            refuse(f"{self.name}.texts", "at least one language", "none", "name a text file")
        check_name(self.name, "sources.name")
        for language in self.texts:
            check_name(language, f"{self.name}.texts")
        check_numbers(self, f"{self.name}.")
        if self.id_column >= 0 and not self.columns:
            refuse(
                f"{self.name}.columns",
                "a column for each text where there is an id column",
                "none",
                "name the columns of the texts",
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimisation:
    """How weights are updated, with warm-up and decay of the learning rate.

    Attributes
    ----------
    optimiser: "adamw" (Loshchilov & Hutter 2019), "adam" (Kingma & Ba 2015; its weight decay is
        part of the gradient), or "lamb" (You et al. 2020).
    peak_rate: highest learning rate.
    first_rate: learning rate from which the warm-up rises (XLM: 1e-7).
    warmup: steps of linear rise to the peak, no more than the run has; None: 500, or a quarter of
        the steps where these are few.
    decay: "linear" or "cosine", to zero one step behind the last; "inverse_sqrt" (Vaswani et al. 2017);
        "constant"; or "plateau", halved after each validation that is no better than all before,
        until it is below a hundredth of the peak: then the training ends (Wu & Dredze 2019, § 5.2).
    weight_decay: decay of matrices (biases and norms have none).
    beta1, beta2: decay of the first and second moment.
    eps: added to the root of the second moment.
    clip: gradients are scaled down to this norm; 0 leaves them alone.
    """

    optimiser: str = "adamw"
    peak_rate: float = 1e-3
    first_rate: float = 0.0
    warmup: int | None = None
    decay: str = "linear"
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self, "optimisation.")
        check_choice(self.optimiser, "optimisation.optimiser", ("adamw", "adam", "lamb"))
        check_choice(
            self.decay,
            "optimisation.decay",
            ("linear", "cosine", "inverse_sqrt", "constant", "plateau"),
        )
        if self.decay == "inverse_sqrt" and self.warmup == 0:
            remedy = "choose 1 or more, or another decay"
            refuse("optimisation.warmup", "at least 1 where decay is inverse_sqrt", "0", remedy)
        if self.first_rate > self.peak_rate:
            refuse(
                "optimisation.first_rate",
                f"at most peak_rate = {self.peak_rate!r}",
                repr(self.first_rate),
                "lower it, or raise peak_rate",
            )

    def warmup_of(self, steps: int) -> int:
        """Steps of the warm-up in a run of ``steps``.

        >>> Optimisation().warmup_of(100_000), Optimisation().warmup_of(20), Optimisation(warmup=5).warmup_of(20)
        (500, 5, 5)
        """
        return min(_WARMUP, max(1, steps // 4)) if self.warmup is None else self.warmup


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What :mod:`crosslens.models.training.loop` must know of any training.

    Attributes
    ----------
    name: name of the run and of the encoder.
    steps: number of updates.
    seed: seed of everything that is sampled.
    precision: "float32", or "bfloat16" for products under autocast (weights and updates stay
        float32).
    select: which weights become the finished model: "last", or "best" by what the objective
        measures in its validation.
    patience: stop after this many validations without a better one; 0 never stops early.
    tensorboard: also write TensorBoard events (extra ``tensorboard``).
    log_every, validate_every, save_every: steps between log lines, validations and checkpoints.
    optimisation: how weights are updated.
    """

    name: str
    steps: int
    seed: int = 0
    precision: str = "float32"
    select: str = "last"
    patience: int = 0
    tensorboard: bool = False
    log_every: int = 100
    validate_every: int = 1000
    save_every: int = 500
    optimisation: Optimisation = Optimisation()

    def __post_init__(self) -> None:
        check_numbers(self)
        check_name(self.name, "name")
        check_choice(self.precision, "precision", ("float32", "bfloat16"))
        if (warmup := self.optimisation.warmup_of(self.steps)) > self.steps:
            remedy = f"lower it, to {Optimisation().warmup_of(self.steps)} say, or raise steps"
            refuse(
                "optimisation.warmup",
                f"at most steps = {self.steps} (the peak rate is never reached)",
                str(warmup),
                remedy,
            )

    @property
    def decided_by_validation(self) -> bool:
        """Whether something follows from what validations measure."""
        plateau = self.optimisation.decay == "plateau"
        return self.select != "last" or self.patience > 0 or plateau


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainRecipe(LoopSettings):
    """Everything that a training of a masked language model depends on: the settings of the loop,
    and these.

    Attributes
    ----------
    sources: the texts.
    units: what a row of a batch is. "sentences": one sentence (or, with TLM, a pair). "stream": a
        stretch of the language's continuous text, sentences joined by [SEP] (Conneau & Lample
        2019). "packed": whole sentences, each with its [CLS] and [SEP], as many as fit. "nsp": two
        segments, the second of which follows the first or not (Devlin et al. 2019), with that to be
        told.
    batch_languages: "one": each batch is of one language, sampled with ``sample_exponent``; "mixed":
        batches hold rows of all languages.
    sharing: what each language owns: a named system ("sep-emb-1-3"), or the text of a plan
        ("sep=emb,1-3"); "" shares everything. See :mod:`crosslens.models.network.sharing`.
    batch_tokens: tokens of a batch, padding included, over all processes and parts together.
    tlm_share: share of the steps on sentence pairs (TLM); the rest is MLM on single sentences.
        None: 0.5 where a source has pairs that can be learnt from, else 0.
    sample_exponent: streams are sampled in proportion to (their sentences) ** exponent, times their
        source's weight; 0 or -1: evenly. Batches of mixed sentences are not
        sampled.
    max_length: longest sentence in subwords; longer ones are left out and counted. For other units:
        tokens of a row.
    validation: sentences of each source that are held out; None: a tenth of the source, at most
        300.
    exclude: files with sentences that must not be trained on (a test set, say).
    accumulate: parts that a batch is computed in, one after the other: less memory, the same update
        but for dropout and noise, which each part draws.
    recompute: compute activations again in the backward pass instead of keeping them (gradient
        checkpointing).
    compile: compile the layers with torch.compile.
    select: which weights become the finished model: "last"; "best", by held-out perplexity
        (geometric mean over languages); or the best by one language's (its code).
    half: store the finished model in float16 (half the size) instead of float32.
    start: folder of a finished model of ours, under whose body the one language of the sources is
        learnt: of that language new parts are trained, and all else stands still
        (:mod:`crosslens.models.training.starts`). "" trains everything from its first weights.
    embeddings: folder of a vocabulary with a vector for each of its subwords
        (:mod:`crosslens.models.training.frozen_embeddings`), which are the token embeddings of the
        sources' one language and stand still. "" learns both.
    derived: derived language to how it is made; its texts are those of the language that it is of.
    vocabulary, encoder, masking, anchors: the parts' own settings; encoder.vocab_size follows the
        vocabulary learnt.
    """

    sources: tuple[Source, ...]
    units: str = "sentences"
    batch_languages: str = "one"
    sharing: str = ""
    batch_tokens: int = 4096
    tlm_share: float | None = None
    sample_exponent: float = 0.7
    max_length: int = 62
    validation: int | None = None
    exclude: tuple[str, ...] = ()
    accumulate: int = 1
    recompute: bool = False
    compile: bool = False
    half: bool = False
    start: str = ""
    embeddings: str = ""
    derived: Mapping[str, Derivation] = dataclasses.field(default_factory=dict)
    vocabulary: Vocabulary = Vocabulary()
    encoder: EncoderConfig = EncoderConfig()
    masking: Masking = Masking()
    anchors: Anchors = Anchors()

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages of the sources, in the order in which they come up; everywhere they are
        numbered so."""
        return tuple(
            dict.fromkeys(language for source in self.sources for language in source.texts)
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = {
            "units": ("sentences", "stream", "packed", "nsp"),
            "batch_languages": ("one", "mixed"),
        }
        for name, known in choices.items():
            check_choice(getattr(self, name), name, known)
        check_choice(self.select, "select", ("last", "best", *self.languages))
        if not self.sources:
            refuse("sources", "at least one text", "none", "name a text file")
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                refuse("sources", "different names", f"{name!r} twice", "rename one")
        marks = 2 if self.units == "sentences" else 0  # rows of other units count their marks
        if self.max_length + marks > self.encoder.max_positions:
            room = (
                f"at most encoder.max_positions{' - 2' if marks else ''} = "
                f"{self.encoder.max_positions - marks}"
            )
            refuse(
                "max_length", room, str(self.max_length), "lower it or raise encoder.max_positions"
            )


def resolve(recipe: TrainRecipe) -> TrainRecipe:
    """The recipe with what a named system of sharing stands for and what it left open, its settings
    checked against each other.

    Left open (None) stays only ``validation``, which depends on the text.

    Raises
    ------
    InputError: a plan that does not fit the encoder, the vocabulary, or sentence pairs.
    """
    text, mode, scope = resolve_system(recipe.sharing, recipe.vocabulary.mode, recipe.masking.scope)
    plan = SharingPlan.parse(text, recipe.encoder.layers, tied=recipe.encoder.tied)
    copies = check_derived(recipe.derived, recipe.languages, mode)
    if mode == "joint":  # one tokeniser reads all
        copies = {}
    if mode == "separate" and not plan.owned("token"):
        refuse(
            "vocabulary.mode",
            "shared ids where token embeddings are shared",
            "separate",
            'use union, or sharing="sep=emb"',
        )
    for part, name in (("softmax", "an output softmax"), ("bias", "an output bias")):
        if mode == "separate" and not plan.owned(part):
            expected = f"{name} for each language where ids are separate"
            refuse("sharing", expected, str(plan), f"add {part}, or use sep=emb")
    if mode == "separate" and scope == "original":
        remedy = 'use language, or vocabulary.mode="disjoint"'
        refuse("masking.scope", "all or language where ids are separate", scope, remedy)
    recipe = resolve_rows(recipe, plan)
    _check_parts(recipe, plan)
    _check_start(recipe, mode)
    _check_embeddings(recipe, plan, mode)
    check_anchors(recipe.anchors, recipe.languages, recipe.units, mode, recipe.masking)
    if recipe.units == "nsp" and not (
        recipe.encoder.next_sentence and recipe.encoder.segments == 2
    ):
        got = f"next_sentence={recipe.encoder.next_sentence}, segments={recipe.encoder.segments}"
        refuse("encoder", 'next_sentence=true and segments=2 for units="nsp"', got, "set both")
    if recipe.encoder.next_sentence and recipe.units != "nsp":
        refuse(
            "encoder.next_sentence",
            'false without units="nsp"',
            "true",
            "nothing would train this head",
        )
    return dataclasses.replace(
        recipe,
        sharing=str(plan),
        vocabulary=dataclasses.replace(
            recipe.vocabulary, mode=mode, copies={**recipe.vocabulary.copies, **copies}
        ),
        masking=dataclasses.replace(recipe.masking, scope=scope, counts=recipe.masking.counted),
        optimisation=dataclasses.replace(
            recipe.optimisation, warmup=recipe.optimisation.warmup_of(recipe.steps)
        ),
    )


def _check_parts(recipe: TrainRecipe, plan: SharingPlan) -> None:
    """Refuse a plan or units that do not go with the parts of the encoder."""
    if plan.owned("adapters") and not recipe.encoder.adapters and str(plan) != "sep=all":
        remedy = "set it, to 64 say, or leave adapters out of sharing"
        refuse("encoder.adapters", f"their units, as languages own them ({plan})", "0", remedy)
    # by name: emb and all may hold more than there is
    for part in str(plan).removeprefix("sep=").split(","):
        if part in recipe.encoder.absent:
            refuse("sharing", "parts that the encoder has", part, "leave it out")
    if recipe.encoder.pad_id and not recipe.start:
        remedy = "leave it out; RoBERTa's layout is encoder.position_offset=1"
        refuse(
            "encoder.pad_id",
            "0, the id of [PAD] in every vocabulary",
            str(recipe.encoder.pad_id),
            remedy,
        )
    if not recipe.encoder.cls_position and recipe.units in ("stream", "packed"):
        rows = {"stream": "no [CLS]", "packed": "a [CLS] at later positions, too"}[recipe.units]
        remedy = "use units=sentences or nsp, or leave cls_position out"
        got = f"units = {recipe.units}, whose rows have {rows}"
        refuse("encoder.cls_position", "true, or rows that begin with their one [CLS]", got, remedy)


def _check_start(recipe: TrainRecipe, mode: str) -> None:
    """Refuse what cannot be learnt under a body that stands still."""
    if not recipe.start:
        return
    if len(recipe.languages) > 1:
        got = ", ".join(recipe.languages)
        refuse("start", "sources of one new language", got, "train one language after the other")
    if mode != "separate":
        expected, remedy = "separate where a new language comes to a model", "set it"
        refuse("vocabulary.mode", expected, repr(mode), remedy)
    if recipe.encoder.language_embeddings:
        expected = "false where a new language comes to a model"
        refuse("encoder.language_embeddings", expected, "true", "leave it out")


def _check_embeddings(recipe: TrainRecipe, plan: SharingPlan, mode: str) -> None:
    """Refuse what cannot be learnt over token embeddings that stand still."""
    if not recipe.embeddings:
        return
    if len(recipe.languages) > 1:
        remedy = "train one language, and plug in the others"
        refuse("embeddings", "sources of one language", ", ".join(recipe.languages), remedy)
    if recipe.start:
        expected = "no embeddings where a model is started from"
        refuse("embeddings", expected, recipe.start, "leave out one of the two")
    if not plan.owned("token") or mode != "separate":
        expected = "a language that owns its token embeddings"
        got, remedy = f"{plan}, vocabulary.mode = {mode}", "set sep=token and separate"
        refuse("sharing", expected, got, remedy)
    if not recipe.encoder.special_table:
        expected = "true over token embeddings that stand still ([MASK] is to be trained)"
        refuse("encoder.special_table", expected, "false", "set it")


def resolve_rows(recipe: TrainRecipe, plan: SharingPlan) -> TrainRecipe:
    """The recipe with its share of sentence pairs; what a batch's rows are to be is checked against
    the other settings.

    Raises
    ------
    InputError: pairs where there can be none, or settings that do not go with the units.
    """
    _check_units(recipe)
    recipe = dataclasses.replace(recipe, tlm_share=_tlm_share(recipe, plan))
    usual = TrainRecipe.__dataclass_fields__["sample_exponent"].default
    mixed = recipe.batch_languages == "mixed" and not recipe.tlm_share
    if mixed and recipe.sample_exponent != usual:
        refuse(
            "sample_exponent",
            f"{usual}, the default, where batches are mixed: nothing is sampled then",
            str(recipe.sample_exponent),
            "leave it out, or use batch_languages=one",
        )
    return recipe


def _tlm_share(recipe: TrainRecipe, plan: SharingPlan) -> float:
    """The share of sentence pairs: what was asked for if it can be had, else what fits."""
    paired = {
        language for source in recipe.sources if len(source.texts) > 1 for language in source.texts
    }
    alone = [language for language in recipe.languages if language not in paired]
    reasons = {
        "0 where languages own parts (a pair is of two languages)": bool(plan.separate),
        "0 with units = nsp (sentence pairs have no next sentence)": recipe.units == "nsp",
        "0 with anchors (sentence pairs are not code-switched)": bool(recipe.anchors.dictionary),
        "0 where no source has two languages": not paired,
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    share = recipe.tlm_share
    if share is None:
        return _TLM_SHARE if reason is None else 0.0
    if share and reason:
        refuse(
            "tlm_share",
            reason,
            str(share),
            "set tlm_share=0" + (", or add parallel text" if not paired else ""),
        )
    if share == 1 and alone:
        refuse(
            "tlm_share",
            f"below 1 where a language has no pairs ({', '.join(alone)})",
            str(share),
            "nothing would train it: lower it",
        )
    return share


def _check_units(recipe: TrainRecipe) -> None:
    """Refuse settings that do not go with the rows that are asked for."""
    if recipe.max_length < _LEAST_ROW[recipe.units]:
        refuse(
            "max_length",
            f"at least {_LEAST_ROW[recipe.units]} tokens a row for these units",
            str(recipe.max_length),
            "raise it",
        )
    if recipe.units != "sentences" and recipe.batch_tokens < recipe.max_length:
        refuse(
            "batch_tokens",
            f"room for a row (max_length = {recipe.max_length} tokens)",
            str(recipe.batch_tokens),
            "raise it",
        )
    if recipe.units == "nsp" and recipe.validation == 1:
        refuse(
            "validation",
            "at least 2 with units = nsp (a pair needs two sentences)",
            str(recipe.validation),
            "raise it",
        )
    for source in recipe.sources:
        if source.weight != 1 and (
            recipe.units != "sentences" or recipe.batch_languages == "mixed"
        ):
            refuse(
                f"{source.name}.weight",
                "1 where sources are joined",
                repr(source.weight),
                "leave it out, or use units=sentences",
            )


def from_dict(kind: type, values: Mapping[str, Any], where: str = "") -> Any:
    """Build a settings dataclass from nested dictionaries (TOML, JSON), refusing names and types
    that do not fit.

    >>> from_dict(Masking, {"rate": 0.3}).rate
    0.3
    """
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            refuse(
                f"{where}{name}",
                f"a setting of {kind.__name__} ({', '.join(sorted(known))})",
                "an unknown name",
                "check the spelling",
            )
    try:
        return kind(
            **{
                name: _convert(hints[name], value, f"{where}{name}")
                for name, value in values.items()
            }
        )
    except TypeError as error:
        refuse(where or kind.__name__, "all required settings", str(error), "add what is missing")


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return from_dict(typing.cast(type, hint), value, f"{where}.")
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (tuple, Sequence) and isinstance(value, (list, tuple)):
        return tuple(_convert(parts[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is types.UnionType:  # a number, or None where it is left open
        return None if value is None else _convert(parts[0], value, where)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {str(key): _convert(parts[1], item, f"{where}.{key}") for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        # beyond a float, and so beyond every range
        return float(value) if value.bit_length() < 1024 else math.inf
    if (
        not isinstance(hint, type)
        or not isinstance(value, hint)
        or (isinstance(value, bool) and hint is not bool)
    ):
        expected = "a list" if origin is Sequence else getattr(hint, "__name__", str(hint))
        refuse(where, expected, shown(value), "give a value of this type")
    return value


def with_overrides(recipe: TrainRecipe, overrides: Mapping[str, Any]) -> TrainRecipe:
    """A copy with some settings changed; nested ones are named with dots.

    >>> recipe = TrainRecipe(name="x", sources=(Source(name="s", texts={"eng": "e.txt"}),), steps=10)
    >>> with_overrides(recipe, {"steps": 20, "masking.rate": 0.3}).masking.rate
    0.3
    """
    values = dataclasses.asdict(recipe)
    for name, value in overrides.items():
        at = values
        *path, last = name.split(".")
        for part in path:
            if not isinstance(at.get(part), dict):
                refuse(
                    name,
                    "a setting of the recipe",
                    "an unknown name",
                    "see `crosslens train RECIPE --dry-run`",
                )
            at = at[part]
        at[last] = value
    return typing.cast(TrainRecipe, from_dict(TrainRecipe, values))


def recipe_settings(recipe: TrainRecipe) -> dict[str, Any]:
    """A recipe as plain data. Without what it makes no use of, and earlier versions did not know:
    their runs are known again."""
    plain = {**dataclasses.asdict(recipe), "encoder": recipe.encoder.told()}
    values: dict[str, Any] = json.loads(json.dumps(plain))
    if not recipe.anchors.dictionary:
        del values["anchors"]
    if not recipe.derived:
        del values["derived"]
    for one in values.get("derived", {}).values():
        if one["seed"] is None:
            del one["seed"]
    for source in values["sources"]:
        if not source["split"]:
            del source["split"]
    for name in ("start", "embeddings"):
        if not values[name]:
            del values[name]
    return values


def describe(recipe: TrainRecipe) -> str:
    """The resolved recipe as TOML-like lines, one setting a line."""
    return "\n".join(_lines(dataclasses.asdict(recipe), ""))


def _lines(value: Any, prefix: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [
            line
            for name, item in value.items()
            for line in _lines(item, f"{prefix}.{name}" if prefix else str(name))
        ]
    if isinstance(value, tuple) and any(isinstance(item, Mapping) for item in value):
        return [line for i, item in enumerate(value) for line in _lines(item, f"{prefix}[{i}]")]
    return [f"{prefix} = {value!r}"]
