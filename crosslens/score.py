"""Measurements: numbers with what they measure, and their life as JSON lines.

A :class:`Score` is one measurement. Its keys are the same in every study, null
where they do not apply, so that results of different runs can be put in one table.
What a quantity means (unit, range, whether more is better) is declared once, in
:data:`QUANTITIES`, and looked up by whoever draws or prints it.
"""

import dataclasses
import functools
import json
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

from crosslens.errors import InputError, StoreError, check_choice, quote, refuse
from crosslens.evidence import Evidence, SharedTexts
from crosslens.files import parse_json, write_whole

__all__ = [
    "QUANTITIES",
    "Quantity",
    "Score",
    "by_language",
    "few_pairs",
    "first_seed",
    "headline_quantities",
    "is_headline",
    "not_measured",
    "over_seeds",
    "read_scores",
    "set_aside",
    "shared_texts",
    "write_scores",
]

_LABELS_TOLD = 6


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What a measured quantity is: its name for people, unit, range and direction."""

    label: str
    unit: str
    low: float
    high: float
    higher_is_better: bool | None


QUANTITIES = {
    "precision_at_1": Quantity("Retrieval P@1", "fraction of items", 0.0, 1.0, True),
    "precision_at_5": Quantity("Retrieval P@5", "fraction of items", 0.0, 1.0, True),
    "precision_at_10": Quantity("Retrieval P@10", "fraction of items", 0.0, 1.0, True),
    "mrr": Quantity("Mean reciprocal rank", "mean of 1 / rank", 0.0, 1.0, True),
    "pearson": Quantity("Pearson correlation", "correlation", -1.0, 1.0, None),
    "linear_cka": Quantity("Linear CKA (biased)", "similarity", 0.0, 1.0, None),
    "debiased_linear_cka": Quantity("Linear CKA (debiased)", "similarity", -1.0, 1.0, None),
    "uncentred_cka": Quantity("Linear CKA without centring", "similarity", 0.0, 1.0, None),
    "rbf_cka": Quantity("CKA, Gaussian kernel", "similarity", 0.0, 1.0, None),
    "minibatch_cka": Quantity("Linear CKA over batches (debiased)", "similarity", -1.0, 1.0, None),
    "mean_cca": Quantity("Mean canonical correlation", "correlation", 0.0, 1.0, None),
    "svcca": Quantity("SVCCA", "correlation", 0.0, 1.0, None),
    "pwcca": Quantity("PWCCA", "correlation", 0.0, 1.0, None),
    "rsa": Quantity("RSA", "Spearman correlation", -1.0, 1.0, None),
    "procrustes_distance": Quantity(
        "Procrustes distance", "squared distance at unit norm", 0.0, 2.0, None
    ),
    "mutual_knn": Quantity("Mutual nearest neighbours", "fraction of neighbours", 0.0, 1.0, None),
    "accuracy": Quantity("Accuracy", "fraction of items", 0.0, 1.0, True),
    "macro_f1": Quantity("Macro F1", "mean F1 over classes", 0.0, 1.0, True),
    "macro_accuracy": Quantity("Macro-averaged accuracy", "mean over categories", 0.0, 1.0, True),
    "span_f1": Quantity("F1 of spans", "micro-averaged F1", 0.0, 1.0, True),
    "answer_f1": Quantity("F1 of answers", "mean F1 of tokens over questions", 0.0, 1.0, True),
    "exact_match": Quantity("Exact match", "fraction of questions", 0.0, 1.0, True),
    "selectivity": Quantity("Selectivity", "accuracy minus control accuracy", -1.0, 1.0, True),
    "codelength": Quantity("Codelength of the labels", "bits", 0.0, math.inf, False),
    "compression": Quantity(
        "Compression of the labels", "uniform code / code", 0.0, math.inf, True
    ),
    "spearman": Quantity("Spearman correlation", "correlation", -1.0, 1.0, True),
    "r2": Quantity("R²", "1 - squared errors / those of the mean", -math.inf, 1.0, True),
    "las": Quantity("LAS", "fraction of words", 0.0, 1.0, True),
    "uas": Quantity("UAS", "fraction of words", 0.0, 1.0, True),
    "uuas": Quantity("UUAS", "fraction of edges", 0.0, 1.0, True),
    "distance_spearman": Quantity(
        "Spearman correlation of tree distances", "correlation", -1.0, 1.0, True
    ),
    "root_accuracy": Quantity("Root accuracy", "fraction of sentences", 0.0, 1.0, True),
    "depth_spearman": Quantity(
        "Spearman correlation of tree depths", "correlation", -1.0, 1.0, True
    ),
    "accuracy_difference": Quantity(
        "Difference of accuracies", "fraction of items", -1.0, 1.0, None
    ),
    "span_f1_difference": Quantity("Difference of F1 of spans", "F1", -1.0, 1.0, None),
    "las_difference": Quantity("Difference of LAS", "fraction of words", -1.0, 1.0, None),
    "uas_difference": Quantity("Difference of UAS", "fraction of words", -1.0, 1.0, None),
    "answer_f1_difference": Quantity("Difference of F1 of answers", "F1", -1.0, 1.0, None),
    "exact_match_difference": Quantity(
        "Difference of exact matches", "fraction of questions", -1.0, 1.0, None
    ),
    "spearman_difference": Quantity(
        "Difference of Spearman correlations", "correlation", -2.0, 2.0, None
    ),
    "uuas_difference": Quantity("Difference of UUAS", "fraction of edges", -1.0, 1.0, None),
    "root_accuracy_difference": Quantity(
        "Difference of root accuracies", "fraction of sentences", -1.0, 1.0, None
    ),
    "subword_overlap_types": Quantity(
        "Subword overlap by type", "fraction of different subwords", 0.0, 1.0, None
    ),
    "subword_overlap_tokens": Quantity(
        "Subword overlap by token", "fraction of subwords", 0.0, 1.0, None
    ),
    "subword_jaccard": Quantity(
        "Jaccard index of subwords", "fraction of different subwords", 0.0, 1.0, None
    ),
    "neighbours_kept": Quantity("Neighbours kept", "fraction of neighbours", 0.0, 1.0, None),
    "contexts_kept": Quantity("Contexts kept", "fraction of pairs nearby", 0.0, 1.0, None),
    "words_replaced": Quantity("Words replaced", "fraction of words", 0.0, 1.0, None),
    "sentences_cut": Quantity("Sentences cut", "fraction of pairs", 0.0, 1.0, None),
    "word_order_distance": Quantity(
        "Word-order distance", "mean difference of shares", 0.0, 1.0, None
    ),
    "perplexity": Quantity(
        "Perplexity", "effective choices per masked token", 1.0, math.inf, False
    ),
    "alignment_error_rate": Quantity("Alignment error rate", "fraction of links", 0.0, 1.0, False),
    "token_alignment": Quantity("Token alignment P@1", "fraction of subwords", 0.0, 1.0, True),
    "loss": Quantity("Loss", "nats per masked token", 0.0, math.inf, False),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """One measurement.

    Attributes
    ----------
    quantity: what was measured, a key of :data:`QUANTITIES`.
    value: the number; fractions as 0-1. NaN means "could not be computed", with the reason in
        ``details``.
    n: number of items that it was measured on.
    low, high: 95 % interval, None where there is none.
    layer, other_layer: 0 is the embedding layer's output.
    source, target: languages (ISO 639-3); the direction is source to target.
    condition: unaligned, procrustes, random_encoder, majority, shuffled_labels, ...
    task: sentence_retrieval, similarity, language_id, masked_lm, ...
    encoder: name of the encoder (two encoders are joined by " / ").
    seed: seed of whatever was sampled at random.
    details: anything else that is needed to understand the number; what the report reads of it is
        declared in :mod:`crosslens.evidence` and read by ``evidence``.

    >>> Score(quantity="accuracy", value=0.5, n=40, low=0.35, high=0.65, layer=3, task="language_id", condition="random_encoder")
    Score(accuracy 0.500 [0.350, 0.650], n 40, layer 3, random_encoder, language_id)
    """

    quantity: str
    value: int | float
    n: int
    low: int | float | None = None
    high: int | float | None = None
    layer: int | None = None
    other_layer: int | None = None
    source: str | None = None
    target: str | None = None
    condition: str | None = None
    task: str | None = None
    encoder: str | None = None
    seed: int | None = None
    details: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_choice(self.quantity, "quantity", sorted(QUANTITIES), "use a declared quantity")

    def __repr__(self) -> str:
        within = (
            "" if self.low is None or self.high is None else f" [{self.low:.3f}, {self.high:.3f}]"
        )
        layers = [
            str(layer)
            for layer in dict.fromkeys((self.layer, self.other_layer))
            if layer is not None
        ]
        ways = [way for way in (self.source, self.target) if way is not None]
        where = [f"layer {' and '.join(layers)}"] * bool(layers) + [" → ".join(ways)] * bool(ways)
        about = [part for part in (*where, self.condition, self.task, self.encoder) if part]
        return f"Score({', '.join([f'{self.quantity} {self.value:.3f}{within}', f'n {self.n:,}', *about])})"

    @functools.cached_property
    def evidence(self) -> Evidence:
        """What ``details`` say of what is declared."""
        return Evidence.read(self.details)

    def as_dict(self) -> dict[str, Any]:
        """The measurement as a flat dictionary, keys in their fixed order."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def as_json(self) -> str:
        """The measurement as one line of JSON. NaN is written as null, which JSON has a word for.

        >>> Score(quantity="accuracy", value=math.nan, n=0).as_json()[:40]
        '{"quantity": "accuracy", "value": null, '

        Raises
        ------
        InputError: a number is infinite, or ``details`` holds something that JSON has no word for.
        """
        numbers = {name: getattr(self, name) for name in ("value", "low", "high")}
        try:
            told = {
                name: None if number is None or math.isnan(number) else float(number)
                for name, number in numbers.items()
            }
            return json.dumps(
                {**self.as_dict(), **told}, ensure_ascii=False, allow_nan=False, default=_whole
            )
        except (TypeError, ValueError) as error:
            expected = "finite numbers and details made of JSON types"
            refuse(f"score {self.quantity}", expected, str(error), "repair the measurement")


def _whole(value: Any) -> int:
    """A whole number of numpy's, as a user may give it."""
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"{type(value).__name__} is of no type that JSON has")
    return int(value)


class _Row(TypedDict):
    """A line of scores.jsonl."""

    quantity: str
    value: float | None
    n: int
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    layer: NotRequired[int | None]
    other_layer: NotRequired[int | None]
    source: NotRequired[str | None]
    target: NotRequired[str | None]
    condition: NotRequired[str | None]
    task: NotRequired[str | None]
    encoder: NotRequired[str | None]
    seed: NotRequired[int | None]
    details: NotRequired[dict[str, Any] | None]


def shared_texts(score: Score) -> tuple[SharedTexts, Score | None] | None:
    """What a score's parts have in common, and the score without these items; None where they share
    no text.

    The second is None where no item is left, or where the score does not say it.

    >>> told = {"train": 2, "same_label": 1, "dev": 0, "dev_train": 0}
    >>> details = {"shared_texts": told, "without_shared": {"value": 0.5, "low": 0.2, "high": 0.8, "n": 8}}
    >>> shared, without = shared_texts(Score(quantity="accuracy", value=0.6, n=10, details=details))
    >>> shared.train, without.value, without.n
    (2, 0.5, 8)
    """
    told = score.evidence
    shared, without = told.shared_texts, told.without_shared
    if shared is None:
        return None
    if without is None or without.value is None:
        return shared, None
    return shared, dataclasses.replace(score, **without.as_dict(), details=None)


def over_seeds(score: Score) -> tuple[Score, int] | None:
    """The mean over seeds with Student's 95 % interval over them, in place of the first seed's
    value, and how many seeds there are.

    None where the score is of one seed, or where a seed's value could not be computed.

    >>> told = {"seeds": [0, 1], "values": [0.5, 0.7], "mean": 0.6, "low": 0.0, "high": 1.0}
    >>> mean, seeds = over_seeds(Score(quantity="accuracy", value=0.5, n=10, details={"over_seeds": told}))
    >>> mean.value, mean.high, seeds
    (0.6, 1.0, 2)
    """
    told = score.evidence.over_seeds
    if told is None or told.mean is None or told.low is None or told.high is None:
        return None
    mean = dataclasses.replace(score, value=told.mean, low=told.low, high=told.high)
    return mean, len(told.values)


def first_seed(scores: Iterable[Score], settings: Mapping[str, Any]) -> list[Score]:
    """Measurements without those of further seeds, of a run whose settings say that it has several
    (``crosslens probe --seeds``).

    >>> rows = [Score(quantity="accuracy", value=0.5, n=10, seed=seed) for seed in (7, 8)]
    >>> [row.seed for row in first_seed(rows, {"seed": 7, "seeds": 2})], len(first_seed(rows, {"seed": 7}))
    ([7], 2)
    """
    return [
        score
        for score in scores
        # of another run "seeds" may be what a dictionary begins with
        if not isinstance(settings.get("seeds"), int) or score.seed in (None, settings.get("seed"))
    ]


# what has a task, a source and a target: scores, outcomes
_OfLanguages = TypeVar("_OfLanguages", bound=Any)


def by_language(rows: Iterable[_OfLanguages]) -> list[_OfLanguages]:
    """Measurements whose task is named by its languages where there are several, so that each is a
    row, or a curve, of its own.

    What is tested on the language of training keeps its name. Layers are chosen on dev, in that
    language: the measurements of dev stand with every language.

    >>> rows = [Score(quantity="accuracy", value=0.9, n=9, task="upos", source="eng", target=code) for code in ("eng", "fra")]
    >>> [row.task for row in by_language(rows)]
    ['upos', 'upos [eng->fra]']
    """
    rows = list(rows)
    untrained: dict[str | None, dict[str, None]] = {}
    crossed: dict[tuple[str | None, str], dict[str, None]] = {}
    for row in rows:
        if row.source is None and row.target is not None:
            untrained.setdefault(row.task, {})[row.target] = None
        elif row.source is not None and row.target not in (None, row.source):
            crossed.setdefault((row.task, row.source), {})[row.target] = None
    found = []
    for row in rows:
        name = row.task
        if row.source is None:
            name = (
                f"{row.task} [{row.target}]"
                if row.target is not None and len(untrained[row.task]) > 1
                else name
            )
        elif row.target not in (None, row.source):
            name = f"{row.task} [{row.source}->{row.target}]"
        found.append(row if name == row.task else dataclasses.replace(row, task=name))
        details = getattr(row, "details", None) or {}
        if row.source is not None and details.get("part") == "dev":
            told = {name: details[name] for name in ("part", "representation") if name in details}
            for target in crossed.get((row.task, row.source), ()):
                found.append(
                    dataclasses.replace(
                        row,
                        task=f"{row.task} [{row.source}->{target}]",
                        target=target,
                        details=told,
                    )
                )
    return found


def headline_quantities(scores: Iterable[Score]) -> dict[str, tuple[str, str]]:
    """Task -> the quantity that it is judged by after fine-tuning, and by whose definition ("" where
    there is but one): what was counted first on test items.

    >>> told = {"part": "test", "counted_as": "strict"}
    >>> headline_quantities([Score(quantity="span_f1", value=0.5, n=9, task="names", details=told)])
    {'names': ('span_f1', 'strict')}
    """
    found: dict[str, tuple[str, str]] = {}
    for score in scores:
        details = score.details or {}
        if score.task and details.get("part") == "test":
            found.setdefault(score.task, (score.quantity, str(details.get("counted_as", ""))))
    return found


def is_headline(
    score: Score, main: Mapping[str, tuple[str, str]], *, differences: bool = False
) -> bool:
    """Whether a score is of the quantity that its task is judged by, as that is counted.

    Parameters
    ----------
    main: of :func:`headline_quantities`.
    differences: also take differences of that quantity.

    >>> score = Score(quantity="accuracy", value=0.5, n=9, task="topic")
    >>> is_headline(score, {"topic": ("accuracy", "")}), is_headline(score, {})
    (True, False)
    """
    quantity = score.quantity.removesuffix("_difference") if differences else score.quantity
    return (quantity, score.evidence.counted_as or "") == main.get(str(score.task))


def set_aside(score: Score) -> dict[str, int]:
    """What happened to items that a measurement does not take as they are -> how many; from its
    ``details``.

    ``dropped``: reason -> items left out. ``truncated``: items cut to fit the encoder.
        ``unseen_in_training``: part -> label -> items.

    >>> details = {"dropped": {"no such label": 2}, "unseen_in_training": {"test": {"fr": 1}}}
    >>> set_aside(Score(quantity="accuracy", value=0.5, n=4, details=details))
    {'left out: no such label': 2, 'in test with a label that training lacks (fr), counted as wrong': 1}
    """
    told, both = score.evidence, shared_texts(score)
    found = {f"left out: {reason}": count for reason, count in (told.dropped or {}).items()}
    found["cut to fit the encoder"] = told.truncated or 0
    if both is not None and told.part != "dev":
        found[
            "in test whose text is in train, too (with the same label: "
            + f"{both[0].same_label:,})"
        ] = both[0].train
        found["in test whose text is in dev, too"] = both[0].dev
        found["in dev whose text is in train, too"] = both[0].dev_train
    for part, labels in (told.unseen_in_training or {}).items():
        if labels:
            names = list(labels)
            listed = ", ".join(
                names
                if len(names) <= _LABELS_TOLD + 1
                else [*names[:_LABELS_TOLD], f"{len(names) - _LABELS_TOLD} more"]
            )
            found[f"in {part} with a label that training lacks ({listed}), counted as wrong"] = sum(
                labels.values()
            )
    return {what: count for what, count in found.items() if count > 0}


def not_measured(scores: Iterable[Score]) -> list[str]:
    """A sentence for each reason why layers have no value (NaN), with the layers, and with the
    quantities where these layers have values of others; of means, which follow from others, there is
    none.

    >>> lost = {"value": math.nan, "n": 5, "details": {"reason": "all vectors of eng are alike"}}
    >>> not_measured([Score(quantity="linear_cka", layer=layer, **lost) for layer in (0, 3)])
    ['Not measured: layers 0, 3 (all vectors of eng are alike).']
    """
    found: dict[tuple[str, str], set[tuple[int, str]]] = {}
    measured = set[tuple[str, int, str]]()
    for score in scores:
        layers = {layer for layer in (score.layer, score.other_layer) if layer is not None}
        if len(layers) != 1 or score.task == "mean_sentence_retrieval":
            continue
        who = "random encoder, " if (score.condition or "").startswith("random_encoder") else ""
        (layer,) = layers
        if not math.isnan(score.value):
            measured.add((who, layer, score.quantity))
            continue
        for reason in str(score.evidence.reason).split("; "):
            found.setdefault((who, reason), set()).add((layer, score.quantity))
    together: dict[str, list[str]] = {}
    for (who, reason), lost in found.items():
        numbers = sorted({layer for layer, _ in lost})
        where = f"{who}layer{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        others = {of for one, layer, of in measured if one == who and layer in numbers}
        if others and not others & {quantity for _, quantity in lost}:
            where += f", {', '.join(sorted({quantity for _, quantity in lost}))}"
        together.setdefault(where, []).append(reason)
    return [f"Not measured: {where} ({'; '.join(reasons)})." for where, reasons in together.items()]


def few_pairs(scores: Iterable[Score], d: object = None) -> str:
    """A warning where a rotation was learnt from fewer pairs than dimensions; empty where not, or
    where that is not recorded.

    Parameters
    ----------
    scores: those of rotations have ``fitted_on`` and ``dimensions`` in their details.
    d: dimensions of the vectors, where the scores do not say it (those of earlier versions).

    >>> fitted = [Score(quantity="precision_at_1", value=0.5, n=9, details={"fitted_on": 200, "dimensions": 384})]
    >>> few_pairs(fitted)[:39], few_pairs(fitted, 64), few_pairs([])
    ('With 200 pairs for 384 dimensions Procr', '', '')
    """
    # self-learning finds pairs of its own
    fits = [s.evidence for s in scores if s.condition != "self_learning"]
    most = max((fit.fitted_on for fit in fits if fit.fitted_on is not None), default=None)
    if d is None:
        d = next((fit.dimensions for fit in fits if fit.dimensions is not None), None)
    if most is None or not isinstance(d, int) or most >= d:
        return ""
    told = f"With {most:,} pair{'s' if most > 1 else ''} for {d:,} dimensions"
    return f"{told} Procrustes is fixed on a part of the space only. It may do harm."


def write_scores(scores: Iterable[Score], path: str | Path) -> None:
    """Write one JSON object per line; the file appears whole or not at all.

    Raises
    ------
    InputError: a measurement cannot be written as JSON (:meth:`Score.as_json`).
    """
    write_whole(path, "".join(score.as_json() + "\n" for score in scores))


def read_scores(path: str | Path) -> Iterator[Score]:
    """Yield the measurements of a ``scores.jsonl`` file in their order.

    Raises
    ------
    StoreError: a line is not a measurement; the message names it.
    """
    remedy = "run the study again"
    if not Path(path).is_file():
        got = "a folder" if Path(path).is_dir() else "no such file"
        refuse(str(path), "a file of measurements", got, remedy, StoreError)
    with open(path, "rb") as lines:  # decoded line by line, so that a damaged one can be named
        for number, line in enumerate(lines, 1):
            row: dict[str, Any] = parse_json(line, f"{path}:{number}", _Row, remedy)
            if unknown := sorted(row.keys() - _Row.__annotations__.keys()):
                refuse(
                    f"{path}:{number}",
                    "the keys of a measurement",
                    f"{quote(unknown[0])} as well",
                    remedy,
                    StoreError,
                )
            for name in ("value", "low", "high"):
                # Python reads 1e999, and NaN and Infinity, which are no JSON
                if row.get(name) is not None and not math.isfinite(row[name]):
                    where = f"{path}:{number}, key {name}"
                    refuse(where, "a finite number or null", str(row[name]), remedy, StoreError)
            try:
                yield Score(**{**row, "value": math.nan if row["value"] is None else row["value"]})
            except InputError:
                expected = "a declared quantity"
                refuse(f"{path}:{number}", expected, quote(row["quantity"]), remedy, StoreError)
