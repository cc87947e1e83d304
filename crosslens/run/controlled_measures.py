"""What a training of a controlled study is measured by: alignment of subwords' embeddings as
Deshpande et al. 2022 define it, retrieval of sentences and CKA at every layer as a study measures
them; and means over seeds."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.activations_memory import as_activations
from crosslens.alignment.words.token_embeddings import copy_alignment, token_embedding_alignment
from crosslens.corpus import Corpus
from crosslens.run.measures import make_split, retrieval_scores, similarity_scores
from crosslens.score import QUANTITIES, Score
from crosslens.seed_intervals import seeds_share
from crosslens.stats import mean_interval

__all__ = ["hits_of", "means", "measure"]

_OVERLAPS = ("subword_overlap_types", "subword_overlap_tokens")


def measure(
    run: Path, recipe: Any, kept: Mapping[str, Corpus], name: str, *, control: bool = True
) -> list[Score]:
    """All measurements of one training.

    Parameters
    ----------
    run: folder of the training. recipe: its recipe, as the run was given it.
    kept: language to the sentences of the end, rows parallel; of a derived language those that it
        is derived from. What is longer than the encoder reads is cut before it is derived.
    name: of the condition.
    control: also measure the untrained encoder.

    Returns
    -------
    P@1 of sentences (there and back, unaligned and after Procrustes) and CKA per layer; alignment
    of subwords where the languages have ids of their own; overlap of the texts' subwords.
    """
    from crosslens.models.saved.native import load_model
    from crosslens.models.training.masked_lm import build_model
    from crosslens.models.training.settings import resolve

    model, vocabularies = load_model(run / "model")
    recipe = resolve(recipe)
    common = {"encoder": name, "seed": recipe.seed}
    n = len(next(iter(kept.values())))
    split = make_split(n, 0.5, 0)  # the same for all conditions and seeds
    scores = []
    for one, condition in ((model, None), (build_model(recipe, vocabularies), "random_encoder")):
        if condition is not None and not control:
            continue
        x, y = _activations(one, recipe, vocabularies, kept, run / "tokens")
        on_train = condition is None
        scores += retrieval_scores(x, y, split, common, condition, hits=True, on_train=on_train)
        scores += [
            score
            for score in similarity_scores(x, y, common, control=condition)
            if score.layer == score.other_layer and score.condition != "shuffled_items"
        ]
    fields = {**common, "source": x.language, "target": y.language}
    counts = _counts(run, recipe, vocabularies)
    if recipe.vocabulary.copies and vocabularies.mode != "union":
        scores += _token_scores(model, vocabularies, counts, fields)
    if recipe.vocabulary.copies:
        scores += _overlap_scores(counts, fields)
    return scores


def _activations(
    model: Any, recipe: Any, vocabularies: Any, kept: Mapping[str, Corpus], place: Path
) -> list[Activations]:
    """The kept sentences in each language, per layer."""
    import torch

    from crosslens.models.training.batches import Stream
    from crosslens.models.training.data import encode_sentences
    from crosslens.models.training.validation import sentence_vectors

    found = []
    for language, corpus in kept.items():
        where = place / f"kept.{language}"
        file = encode_sentences(
            vocabularies, corpus, where, recipe, recipe.encoder.max_positions - 2
        )
        number = recipe.languages.index(language)
        rows = np.arange(len(file))
        stream = Stream("kept", (file,), rows, (language,), (number,), recipe.batch_tokens)
        layers = sentence_vectors(model.eval(), stream, torch.device("cpu"))
        arrays = {layer: vectors.numpy() for layer, vectors in enumerate(layers)}
        found.append(as_activations(arrays, language=language, ids=corpus.ids, unit="sentence"))
    return found


def _counts(run: Path, recipe: Any, vocabularies: Any) -> dict[str, np.ndarray]:
    """Language to (ids,) how often each subword of its tokeniser occurs in its text, held-out
    sentences among them."""
    from crosslens.models.text.token_files import open_tokens

    counts = {}
    for language in recipe.languages:
        table = vocabularies.tables[language]
        sums = np.zeros(int(table.max()) + 1, np.int64)
        for source in recipe.sources:
            if language in source.texts:
                file = open_tokens(run / "tokens" / f"{source.name}.{language}")
                sums += np.bincount(file.ids, minlength=len(sums))[: len(sums)]
        counts[language] = sums[table]
    return counts


def _token_scores(
    model: Any, vocabularies: Any, counts: Mapping[str, np.ndarray], fields: Mapping[str, Any]
) -> list[Score]:
    """Alignment of subwords' embeddings by D's definition, and beside it that of all subwords and
    what their frequency alone would give."""
    from crosslens.models.text.tokenisation import SPECIAL_TOKENS

    first, second = fields["source"], fields["target"]
    special = len(SPECIAL_TOKENS)
    x, y = (
        model.encoder.token.of(language)
        .weight.detach()
        .float()
        .numpy()[vocabularies.tables[language][special:]]
        for language in (first, second)
    )
    found = token_embedding_alignment(x, y, seed=fields["seed"])
    there, back = copy_alignment(x, y, counts[first][special:])
    beside = {
        "by_frequency": (there.by_frequency + back.by_frequency) / 2,
        "all_subwords": {"there": there.precision, "back": back.precision, "n": there.n},
    }
    scores = []
    for condition, result in (("unaligned", found.unmapped), ("procrustes", found.mapped)):
        low, high = result.interval
        details: dict[str, Any] = {"chance": 1 / len(y)}
        details |= beside if condition == "unaligned" else {"fitted_on": len(found.learnt_from)}
        scores.append(
            Score(
                **fields,
                quantity="token_alignment",
                value=result.precision,
                n=result.n,
                low=low,
                high=high,
                condition=condition,
                details=details,
            )
        )
    return scores


def _overlap_scores(counts: Mapping[str, np.ndarray], fields: Mapping[str, Any]) -> list[Score]:
    """Which share of the second language's subwords, and of their occurrences, the first one's text
    has too (Wu & Dredze 2019, § 5.5), before they get ids of their own."""
    first, second = counts[fields["source"]] > 0, counts[fields["target"]]
    both = first & (second > 0)
    values = (both.sum() / (second > 0).sum(), second[both].sum() / second.sum())
    sizes = (int((second > 0).sum()), int(second.sum()))
    return [
        Score(**fields, quantity=quantity, value=float(value), n=n, details={"tokens": told})
        for quantity, value, n in zip(_OVERLAPS, values, sizes, strict=True)
        for told in [{language: int(mine.sum()) for language, mine in counts.items()}]
    ]


def hits_of(scores: Iterable[Score]) -> tuple[np.ndarray, np.ndarray]:
    """(seeds, n) right answers of both directions for each held-out sentence, and (seeds, n) of how
    many, from scores of one layer and condition that keep their hits."""
    seeds: dict[int | None, list[np.ndarray]] = {}
    for score in scores:
        hits = np.array([mark == "1" for mark in (score.details or {})["hits"]], float)
        seeds.setdefault(score.seed, []).append(hits)
    found = np.array([np.sum(ways, axis=0) for _, ways in sorted(seeds.items())])
    return found, np.full_like(found, len(next(iter(seeds.values()))))


def means(scores: Sequence[Score]) -> list[Score]:
    """Means over seeds with 95 % intervals, as scores without a seed.

    Retrieval: over both directions, of the held-out sentences, the interval over seeds and
    sentences. Everything else: Student's interval over seeds; with one seed that of the measurement.
    """
    groups: dict[tuple[Any, ...], list[Score]] = {}
    for score in scores:
        is_retrieval = score.quantity == "precision_at_1"
        if is_retrieval and (score.details or {}).get("part") != "held_out":
            continue
        way = () if is_retrieval else (score.source, score.target)
        key = (score.encoder, score.quantity, score.condition, score.layer, *way)
        groups.setdefault(key, []).append(score)
    return [_mean(found) for found in groups.values()]


def _mean(found: Sequence[Score]) -> Score:
    first, seeds = found[0], sorted({score.seed for score in found if score.seed is not None})
    value: float
    low: float | None
    high: float | None
    told: dict[str, Any] = {"seeds": seeds}
    if all("hits" in (score.details or {}) for score in found):
        value, low, high = seeds_share(*hits_of(found))
        told["part"] = "held_out"
    else:
        value, low, high = _over_seeds([score.value for score in found], first)
    told["values"] = [
        float(np.mean([score.value for score in found if score.seed == seed])) for seed in seeds
    ]
    for name in ("chance", "by_frequency"):
        if all(name in (score.details or {}) for score in found):
            told[name] = float(np.mean([(score.details or {})[name] for score in found]))
    return dataclasses.replace(
        first, value=value, low=low, high=high, seed=None, details=_plain(told)
    )


def _over_seeds(values: Sequence[float], first: Score) -> tuple[float, float | None, float | None]:
    if len(values) == 1:
        return first.value, first.low, first.high
    mean, low, high = mean_interval(np.array(values))
    limits = QUANTITIES[first.quantity]
    return mean, max(low, limits.low), min(high, limits.high)


def _plain(told: Mapping[str, Any]) -> dict[str, Any]:
    """Details that JSON has words for: what could not be computed is null."""
    return {
        name: [None if value != value else value for value in item]
        if isinstance(item, list)
        else item
        for name, item in told.items()
    }
