"""The settings of a run of transfer."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from crosslens.checks import check_seed, is_whole
from crosslens.errors import check_choice, quote, refuse
from crosslens.models.network.parser_sizes import PARSERS
from crosslens.run.transfer.presets import PRESETS, SPANS_BY
from crosslens.run.transfer.resegmented import SEGMENTED

__all__ = ["STANDARD_NORMAL", "Transfer"]

STANDARD_NORMAL = "standard-normal"
"""Noise of a deviation of 1, by name: the other reading of Artetxe et al. 2020."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer:
    """The settings of a run of transfer.

    Attributes
    ----------
    encoders: folders or hub names, one or more; each is fine-tuned, and they are compared.
    tasks: names of the catalogue's tasks.
    data: the folder with the data sets, or "hf:".
    train: the languages that are trained on, together; names of treebanks will do.
    test: the languages that are tested on; "all" for every one that there is data in.
    preset: settings of fine-tuning by name (:data:`crosslens.run.transfer.presets.PRESETS`); where it
        is a grid, the setting that is best on dev is taken.
    epochs, batch_size, peak_rate, head_rate, max_length, pool, warmup: in the place of the preset's.
    group_by_length: inputs of an update are of like length, which saves padding; None as the preset.
    noise: standard deviation of what is added to token, position and segment embeddings in training
        (0.075 in Artetxe et al. 2020); None adds none.
    parser: of tasks on trees, sizes by name (:data:`crosslens.models.network.parser_sizes.PARSERS`).
    gold_pos: a parser is given the words' parts of speech as the treebank has them.
    crf: of tags, a conditional random field over the words of an input
        (:mod:`crosslens.models.network.crf`).
    features: the encoder is frozen whole and encodes each text once; beside the head "mix+bilstm"
        learns a mean of its layers and an LSTM, "transformer" four new layers on the last one, by a
        schedule of their own (:func:`crosslens.run.transfer.presets.with_features`). None: the
        encoder is fine-tuned.
    segment: of names, a segmenter by name (:data:`crosslens.run.transfer.resegmented.SEGMENTED`), on whose words
        those of its language are projected; None takes the words of the files.
    derived: derived language -> ``ORIGINAL:TRANSFORMATIONS`` (``eng:transliteration+inversion``, with
        ``@SEED`` behind it where that is not 0), for encoders whose folder does not say it. Its items
        are the original's, their subwords transformed.
    data_of: language -> the one in the data folder whose items are taken for it, where that has another
        code: of a copy that was trained on as a text of its own, in another word order.
    words_apart: words with tags have a space between any two, as parsers read them and as
        ``crosslens derive`` writes them; otherwise as the sentence has them, where two words of one
        token (French du = de + le) have one vector, and so one prediction. The presets in
        :data:`crosslens.run.transfer.presets.WORDS_APART` have them apart.
    unseen: what an encoder of the original alone reads in the place of a transliterated language's
        subwords: "unknown", its unknown token, or "random", new rows with random weights.
    freeze: -1 trains everything, 0 all but the embeddings, n all but these and the first n layers;
        several are measured one after the other.
    seeds: how many seeds, ``seed`` and those behind it: heads, order of examples, dropout.
    seed: the first of them, and that of what is sampled.
    in_language: fine-tune on each test language, too, where it can be trained on, and give the
        differences.
    random_control: fine-tune a randomly re-initialised copy of each encoder, too, with one seed.
    checkpoints: measure beside the epoch that is best on dev of the training language the last one,
        the average of the last ones, and that which is best on the target's dev (an oracle).
    average: how many of the last epochs are averaged.
    limit: most items of each split, sampled; None for all.
    keep: keep the fine-tuned encoders of the first seed, as folders that transformers loads; of a grid
        those at the settings that are taken.
    precision: "float32", or "bfloat16" for products under autocast, in training and in answers.
    device: "cpu", "cuda", …; trust_remote_code: run the Python code that an encoder brings.

    >>> Transfer(encoders=["model"], tasks=["upos"], data="data", train=["eng"], test=["fra"]).all_seeds
    (0, 1, 2)
    """

    encoders: Sequence[str]
    tasks: Sequence[str]
    data: str
    train: Sequence[str]
    test: Sequence[str]
    preset: str = "default"
    epochs: int | None = None
    batch_size: int | None = None
    peak_rate: float | None = None
    head_rate: float | None = None
    max_length: int | None = None
    pool: str | None = None
    warmup: float | None = None
    group_by_length: bool | None = None
    noise: float | None = None
    parser: str = "wu_dredze"
    gold_pos: bool = False
    crf: bool = False
    features: str | None = None
    segment: str | None = None
    derived: Mapping[str, str] = dataclasses.field(default_factory=dict)
    data_of: Mapping[str, str] = dataclasses.field(default_factory=dict)
    words_apart: bool = False
    unseen: str = "unknown"
    freeze: Sequence[int] = (-1,)
    seeds: int = 3
    seed: int = 0
    in_language: bool = False
    random_control: bool = True
    checkpoints: bool = True
    average: int = 3
    limit: int | None = None
    keep: bool = False
    precision: str = "float32"
    device: str = "cpu"
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        for option, values, what in (
            ("--encoder", self.encoders, "an encoder"),
            ("--tasks", self.tasks, "a task"),
            ("--train", self.train, "a language to train on"),
            ("--test", self.test, "a language to test on"),
            ("--freeze", self.freeze, "a number of layers"),
        ):
            if not values:
                refuse(option, what, "none", f"add {option}")
        check_choice(self.preset, "--preset", PRESETS)
        check_choice(self.parser, "--parser", PARSERS)
        if self.features is not None and tuple(self.freeze) != (-1,):
            refuse(
                "--freeze", "none with --features", str(self.freeze), "features freeze all layers"
            )
        if self.features is not None and self.keep:
            expected, remedy = "no --keep with --features", "transformers has no such head"
            refuse("--keep", expected, "both", f"leave one out: {remedy}")
        check_choice(self.segment, "--segment", (*SEGMENTED, None))
        check_choice(self.unseen, "--unseen", ("unknown", "random"))
        if self.unseen == "random" and self.keep:
            expected, remedy = "no --keep with random rows", "leave one out"
            refuse("--keep", expected, "both", f"they are no part of the model: {remedy}")
        for language in self.derived:
            if language not in (*self.train, *self.test):
                expected = "languages that are trained on or tested"
                refuse("--derived", expected, language, "add it to --test, or leave it out")
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            expected = "cpu, cuda or cuda:NUMBER, where encoders can be trained"
            refuse("--device", expected, repr(self.device), "choose one of them")
        # a number that a later training only would refuse costs those before it
        for option, value, expected, remedy in (
            ("--seeds", self.seeds, "1 or more", "three show how seeds differ"),
            ("--average", self.average, "1 or more epochs", "1 averages nothing"),
            ("--limit", 1 if self.limit is None else self.limit, "1 or more items", "leave it out"),
        ):
            if not is_whole(value) or value < 1:
                refuse(option, expected, quote(value), remedy)
        if not self.checkpoints and self.average != type(self).average:
            expected = "checkpoints, of which the average of the last epochs is one"
            refuse("--average", expected, "--no-checkpoints", "leave one of them out")
        check_seed(self.seed, most=(1 << 32) - int(self.seeds), name="--seed")
        for layers in self.freeze:
            if not is_whole(layers) or layers < -1:
                refuse("--freeze", "whole numbers from -1", quote(layers), "-1 freezes nothing")
        for name in ("seed", "seeds", "average", "limit"):  # numpy's whole numbers as Python's
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, int(value))
        object.__setattr__(self, "freeze", tuple(map(int, self.freeze)))

    @property
    def spans_by(self) -> str:
        """Whose definition of a span the preset counts by (of names)."""
        return SPANS_BY.get(self.preset, "strict")

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds, the first one first."""
        return tuple(range(self.seed, self.seed + self.seeds))
