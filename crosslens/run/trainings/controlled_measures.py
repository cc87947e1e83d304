"""What a training of a controlled study is measured by: alignment of subwords' embeddings as
Deshpande et al. 2022 define it, retrieval of sentences and CKA at every layer as a study measures
them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.activations import Activations
from crosslens.activations_memory import as_activations
from crosslens.alignment.words.token_embeddings import copy_alignment, token_embedding_alignment
from crosslens.corpus import Corpus
from crosslens.derive.reorderings import Identity, contexts_kept, neighbours_kept
from crosslens.files import read_json
from crosslens.run.measures import make_split, retrieval_scores, similarity_scores
from crosslens.score import Score

__all__ = ["measure"]

_COUNTED = 2000  # sentences by which it is counted how much of an order is kept
_OVERLAPS = ("subword_overlap_types", "subword_overlap_tokens")


def measure(
    run: Path,
    recipe: Any,
    kept: Mapping[str, Corpus],
    name: str,
    *,
    beside: tuple[Path, Any] | None = None,
    groups: np.ndarray | None = None,
) -> list[Score]:
    """All measurements of one training.

    Parameters
    ----------
    run: folder of the training. recipe: its recipe, as the run was given it.
    kept: language to the sentences of the end, rows parallel; of a derived language those that it
        is derived from. What is longer than the encoder reads is cut before it is derived.
    name: of the condition.
    beside: folder and recipe of the training whose model reads the first language, where this one's
        reads the second alone. Untrained is the second one's encoder then.
    groups: (n,) which of the kept sentences say the same (:mod:`crosslens.run.repeats`): these are on
        one side of the division. None: no two do.

    Returns
    -------
    P@1 of sentences (there and back, unaligned and after Procrustes) and CKA per layer; alignment
    of subwords where the languages have ids of their own; overlap of the texts' subwords where one
    model reads both and no words are replaced; which share of neighbouring subwords stay neighbours,
    and of subwords near each other stay so, where the second language is derived; how many words are
    replaced where there are extra anchors; how many kept sentences are cut.
    """
    from crosslens.models.training.masked_lm import build_model
    from crosslens.models.training.settings import resolve

    recipe = resolve(recipe)
    model, vocabularies = _trained(run, recipe)
    common = {"encoder": name, "seed": recipe.seed}
    n = len(next(iter(kept.values())))
    split = make_split(n, 0.5, 0, groups)  # the same for all conditions and seeds
    first = [_sentence_vectors(beside[0], resolve(beside[1]), kept)] if beside else []
    scores = []
    for one, condition in ((model, None), (build_model(recipe, vocabularies), "random_encoder")):
        read = [*first, _sentence_vectors(run, recipe, kept, (one, vocabularies))]
        x, y = [vectors for found, _ in read for vectors in found]
        cut = np.any([is_cut for _, is_cut in read], axis=0)
        on_train = condition is None
        scores += retrieval_scores(x, y, split, common, condition, hits=True, on_train=on_train)
        scores += [
            score
            for score in similarity_scores(x, y, common, control=condition)
            if score.layer == score.other_layer and score.condition != "shuffled_items"
        ]
    fields = {**common, "source": x.language, "target": y.language}
    scores.append(Score(**fields, quantity="sentences_cut", value=float(cut.mean()), n=n))
    if len(recipe.languages) == 2:
        scores += _subword_scores(run, recipe, model, vocabularies, fields)
    if recipe.anchors.dictionary:
        scores.append(_anchor_score(run, fields))
    if (derivation := recipe.derived.get(y.language)) is not None:
        scores += _order_scores(run, recipe, derivation, fields)
    return scores


def _subword_scores(
    run: Path, recipe: Any, model: Any, vocabularies: Any, fields: Mapping[str, Any]
) -> list[Score]:
    """Alignment of subwords, where the languages have ids of their own, and their overlap."""
    counts, by_id = _counts(run, recipe, vocabularies)
    is_copy, scores = bool(recipe.vocabulary.copies), []
    if is_copy and vocabularies.mode != "union":
        scores += _token_scores(model, vocabularies, counts, fields)
    if not recipe.anchors.dictionary:  # words that are replaced stand in no file
        scores += _overlap_scores(counts if is_copy else by_id, fields)
    return scores


def _anchor_score(run: Path, fields: Mapping[str, Any]) -> Score:
    """Which share of words is replaced by extra anchors."""
    told = read_json(run / "anchors.json", dict[str, Any])
    return Score(
        **fields,
        quantity="words_replaced",
        value=told["of_words"],
        n=told["words"],
        details={"of_known": told["of_known"]},
    )


def _sentence_vectors(
    run: Path, recipe: Any, kept: Mapping[str, Corpus], model: tuple[Any, Any] | None = None
) -> tuple[list[Activations], np.ndarray]:
    """What a model and its vocabularies, by default the training's own, make of the kept sentences of
    the training's languages, and which of them are cut."""
    mine = {language: kept[language] for language in recipe.languages}
    return _activations(*(model or _trained(run, recipe)), recipe, mine, run / "tokens")


def _trained(run: Path, recipe: Any) -> tuple[Any, Any]:
    """A finished training's model and vocabularies; where one vocabulary reads all and nothing is
    owned, the model lies in transformers' format."""
    from crosslens.models.saved.interop import import_model
    from crosslens.models.saved.native import load_model
    from crosslens.models.text.vocabularies import load_vocabularies

    told = read_json(run / "model" / "config.json", dict[str, Any])
    if told.get("model_type") == "crosslens":
        return load_model(run / "model")
    model = import_model(run / "model", language=recipe.languages[0])
    return model, load_vocabularies(run / "tokenizer")


def _activations(
    model: Any, vocabularies: Any, recipe: Any, kept: Mapping[str, Corpus], place: Path
) -> tuple[list[Activations], np.ndarray]:
    """The kept sentences in each language, per layer; and (pairs,) whether one of a pair is cut."""
    import torch

    from crosslens.models.training.batches import Stream
    from crosslens.models.training.data import encode_sentences
    from crosslens.models.training.validation import sentence_vectors

    found, most = [], recipe.encoder.max_positions - 2
    cut = np.zeros(len(next(iter(kept.values()))), bool)
    for language, corpus in kept.items():
        whole = vocabularies.tokenizers[language].encode_batch(
            list(corpus.sentences), add_special_tokens=False
        )
        cut |= np.array([len(sentence.ids) > most for sentence in whole])
        file = encode_sentences(vocabularies, corpus, place / f"kept.{language}", recipe, most)
        number = recipe.languages.index(language)
        rows = np.arange(len(file))
        stream = Stream("kept", (file,), rows, (language,), (number,), recipe.batch_tokens)
        layers = sentence_vectors(model.eval(), stream, torch.device("cpu"))
        arrays = {layer: vectors.numpy() for layer, vectors in enumerate(layers)}
        found.append(as_activations(arrays, language=language, ids=corpus.ids, unit="sentence"))
    return found, cut


def _counts(
    run: Path, recipe: Any, vocabularies: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Language to how often each subword of its tokeniser occurs in its text, held-out sentences
    among them; and to how often each id of the model does, special tokens aside: (ids,) each."""
    from crosslens.models.text.token_files import open_tokens
    from crosslens.models.text.tokenisation import SPECIAL_TOKENS

    special, counts, by_id = len(SPECIAL_TOKENS), {}, {}
    size = max(vocabularies.sizes.values())
    for place, language in enumerate(recipe.languages):
        sums = np.zeros(size, np.int64)
        for source in recipe.sources:
            if language in source.texts:
                file = open_tokens(run / "tokens" / f"{source.name}.{language}")
                sums += np.bincount(file.ids, minlength=size)
        counts[language] = sums[vocabularies.tables[language]]
        # where ids are not shared, the same number is another subword in each language
        apart = 0 if vocabularies.shared_ids else place * size
        by_id[language] = np.zeros(len(recipe.languages) * size, np.int64)
        by_id[language][apart : apart + size - special] = sums[special:]
    return counts, by_id


def _token_scores(
    model: Any, vocabularies: Any, counts: Mapping[str, np.ndarray], fields: Mapping[str, Any]
) -> list[Score]:
    """Alignment of subwords' embeddings as Deshpande et al. define it, and beside it that of all
    subwords and what their frequency alone would give."""
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
    has too (Wu & Dredze 2019, § 5.5): of a copy before they get ids of their own, of natural
    languages by the ids of the model."""
    first, second = counts[fields["source"]] > 0, counts[fields["target"]]
    both = first & (second > 0)
    values = (both.sum() / (second > 0).sum(), second[both].sum() / second.sum())
    sizes = (int((second > 0).sum()), int(second.sum()))
    return [
        Score(**fields, quantity=quantity, value=float(value), n=n, details={"tokens": told})
        for quantity, value, n in zip(_OVERLAPS, values, sizes, strict=True)
        for told in [{language: int(mine.sum()) for language, mine in counts.items()}]
    ]


def _order_scores(
    run: Path, recipe: Any, derivation: Any, fields: Mapping[str, Any]
) -> list[Score]:
    """How much of the order of the original's subwords is left in those that are derived from
    them: of the text and the transformation alone, whatever was learnt."""
    from crosslens.models.text.token_files import open_tokens

    source = next(one for one in recipe.sources if fields["target"] in one.texts)
    file = open_tokens(run / "tokens" / f"{source.name}.{fields['target']}")
    lengths = np.diff(file.offsets)[:_COUNTED].tolist()
    made = derivation.transformation or Identity()
    seed = derivation.seed_in(recipe.seed)
    pairs = {apart: sum(max(0, n - apart) for n in lengths) for apart in range(1, 6)}
    return [
        Score(**fields, quantity=quantity, value=share(made, lengths, seed), n=n)
        for quantity, share, n in (
            ("neighbours_kept", neighbours_kept, pairs[1]),
            ("contexts_kept", contexts_kept, sum(pairs.values())),
        )
    ]
