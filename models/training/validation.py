"""What is measured during training, on text that is held out: perplexity, retrieval of
translations, alignment of token embeddings."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import functional as F

from crosslens.alignment.words.token_embeddings import copy_alignment
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.training.batches import Batch, Stream
from crosslens.models.training.masked_batches import MaskedBatches, tensors_of
from crosslens.models.training.objective import moved, need_number

__all__ = ["Losses", "choice_measure", "held_out_losses", "sentence_vectors", "validate"]


_PAIRS = 1_000_000  # of tokens, counted at a time at least


class Losses(NamedTuple):
    """Mean losses of a language's masked held-out tokens, in nats: a model's, and those of a unigram
    and a bigram model of its training text; and the number of these tokens."""

    model: float
    unigram: float
    bigram: float
    n: int


@torch.no_grad()
def validate(
    model: MaskedLM, batches: MaskedBatches, device: torch.device, copies: Mapping[str, str]
) -> dict[str, Any]:
    """Perplexity per language; retrieval of held-out pairs per layer; and, for copies of a
    language, alignment of the token embeddings.

    Parameters
    ----------
    copies: language to the language whose subwords it repeats under ids of its own.

    Returns
    -------
    ``perplexity``: language to e ** (mean loss of a masked token). ``retrieval``: pair to P@1 per
    layer, nearest neighbour by cosine of the mean of ordinary tokens. ``alignment``, where there
    are copies: see :func:`crosslens.alignment.words.token_embeddings.copy_alignment`.
    """
    model.eval()
    sums: dict[str, list[float]] = {}
    retrieval = {}
    for name, stream in batches.data.held_out.items():
        if len(stream.languages) == 1:
            total = sums.setdefault(stream.languages[0], [0.0, 0.0])
            loss, count = _masked_loss(model, stream, batches, device)
            total[0] += loss
            total[1] += count
        elif isinstance(stream, Stream) and len(stream.sides) == 2:
            a, b = (
                [
                    F.normalize(h, dim=-1)
                    for h in sentence_vectors(model, stream.side(which), device)
                ]
                for which in (0, 1)
            )
            hits = (
                (x @ y.T).argmax(1).cpu() == torch.arange(len(x)) for x, y in zip(a, b, strict=True)
            )
            retrieval[name] = [round(hit.float().mean().item(), 4) for hit in hits]
    model.train()
    means = {language: loss / count for language, (loss, count) in sums.items()}
    for language, mean in means.items():
        # e ** 710 is beyond a float
        need_number(f"validation loss of {language}", math.inf if mean > 700 else mean)
    found: dict[str, Any] = {
        "perplexity": {language: math.exp(mean) for language, mean in means.items()},
        "retrieval": retrieval,
    }
    if copies:
        found["alignment"] = {
            name: value
            for copy, original in copies.items()
            for name, value in _token_alignment(model, batches, original, copy).items()
        }
    return found


def choice_measure(found: Mapping[str, Any], select: str) -> float:
    """What the best checkpoint is chosen by: a language's perplexity, or the geometric mean over
    languages; lower is better."""
    perplexity = found["perplexity"]
    return (
        perplexity[select]
        if select in perplexity
        else math.exp(sum(map(math.log, perplexity.values())) / len(perplexity))
    )


def _token_alignment(
    model: MaskedLM, batches: MaskedBatches, language: str, copy: str
) -> dict[str, dict[str, float]]:
    """Whether each subword of a language that occurs in its text has its copy as its nearest
    neighbour; both ways ("eng>eng-x")."""
    rows, copy_rows = (
        batches.vocabularies.tables[name][len(SPECIAL_TOKENS) :] for name in (language, copy)
    )
    counts = batches.data.counts[language][rows]
    occur = counts > 0
    weights = (
        model.encoder.token_table(name).detach().float().cpu().numpy() for name in (language, copy)
    )
    x, y = (weight[ids[occur]] for weight, ids in zip(weights, (rows, copy_rows), strict=True))
    both = zip(
        (f"{language}>{copy}", f"{copy}>{language}"),
        copy_alignment(x, y, counts[occur]),
        strict=True,
    )
    return {
        name: {"value": found.precision, "by_frequency": found.by_frequency, "n": found.n}
        for name, found in both
    }


def _masked_loss(
    model: MaskedLM, stream: Any, batches: MaskedBatches, device: torch.device
) -> tuple[float, int]:
    """Sum of the losses over a held-out stream, masked the same way every time, and how many tokens
    were masked."""
    total, count, recipe = 0.0, 0, batches.recipe
    for batch, inputs, masked, labels in _masked(stream, batches):
        for part in range(recipe.accumulate):  # what fits in training fits here
            arrays = tensors_of(
                batch, inputs, masked, labels, recipe, part=part, parts=recipe.accumulate
            )
            loss = model(**moved(arrays, device))
            total += (loss[0] if isinstance(loss, tuple) else loss).item()
        count += len(labels)
    return total, count


def _masked(
    stream: Any, batches: MaskedBatches
) -> Iterator[tuple[Batch, np.ndarray, np.ndarray, np.ndarray]]:
    """The batches of a held-out stream: each, what the model sees, masked places, and what stood
    there."""
    seed = batches.recipe.seed
    rng = np.random.default_rng([seed, 3])
    for items in stream.plan([seed, 3]):
        batch = stream.collate(items)
        yield batch, *batches.masker(batch.ids, batch.languages, rng)


@torch.no_grad()
def held_out_losses(
    model: MaskedLM, batches: MaskedBatches, device: torch.device
) -> dict[str, Losses]:
    """Language to the losses of its held-out tokens, masked as in every validation.

    The unigram model gives each ordinary subword a probability in proportion to its occurrences in
    training and one more. The bigram model also knows the token before, even where that is masked
    for the model, which knows all others in its place; both are interpolated as Witten & Bell 1991
    do.

    The model is in the mode that it is in: a finished one is put into ``eval`` by the caller.
    """
    sums: dict[str, list[float]] = {}
    for stream in batches.data.held_out.values():
        if len(stream.languages) != 1:
            continue
        (language,) = stream.languages
        counts = batches.data.counts[language] + 1.0
        counts[: len(SPECIAL_TOKENS)] = 0
        shares = counts / counts.sum()
        pairs = _pairs(batches, language, len(shares))
        mine = sums.setdefault(language, [0.0, 0.0, 0.0, 0.0])
        mine[0] += (found := _masked_loss(model, stream, batches, device))[0]
        for batch, _, masked, labels in _masked(stream, batches):
            alone = shares[labels]
            first = masked % batch.ids.shape[1] == 0  # of a row without [CLS]: nothing is before it
            before = batch.ids.ravel()[masked - 1]
            paired = np.where(first, alone, _interpolated(pairs, before, labels, alone))
            mine[1] -= float(np.log(alone).sum())
            mine[2] -= float(np.log(paired).sum())
        mine[3] += found[1]
    return {
        language: Losses(loss / n, alone / n, paired / n, int(n))
        for language, (loss, alone, paired, n) in sums.items()
        if n
    }


def _pairs(batches: MaskedBatches, language: str, size: int) -> scipy.sparse.csr_array:
    """(size, size) how often each token follows each other one in a language's training rows, those
    of sentence pairs left out."""
    found = scipy.sparse.csr_array((size, size), dtype=np.int64)
    number, kept, waiting = batches.recipe.languages.index(language), list[np.ndarray](), 0
    for stream in batches.data.streams:
        if language not in stream.languages or (
            isinstance(stream, Stream) and len(stream.sides) == 2
        ):
            continue
        for items in stream.plan([batches.recipe.seed, 4]):
            batch = stream.collate(items)
            real = np.arange(1, batch.ids.shape[1]) < batch.lengths[:, None]
            real &= batch.languages[:, :1] == number
            kept.append(np.stack([batch.ids[:, :-1][real], batch.ids[:, 1:][real]]))
            waiting += kept[-1].shape[1]
            # a sum takes as long as what has been found is large: so there are few of them
            if waiting > max(_PAIRS, found.nnz):
                found, kept, waiting = found + _counted(kept, size), [], 0
    return found + _counted(kept, size) if kept else found


def _counted(pairs: list[np.ndarray], size: int) -> scipy.sparse.csr_array:
    """(size, size) how often each pair stands there, from arrays (2, m) of pairs."""
    both = np.concatenate(pairs, axis=1)
    ones = np.ones(both.shape[1], np.int64)
    return scipy.sparse.coo_array((ones, tuple(both)), shape=(size, size)).tocsr()


def _interpolated(
    pairs: scipy.sparse.csr_array, before: np.ndarray, labels: np.ndarray, alone: np.ndarray
) -> np.ndarray:
    """(m,) probabilities of tokens behind others: (c(h, w) + t(h) p(w)) / (c(h) + t(h)), where t(h)
    is how many different tokens follow h."""
    total, kinds = np.asarray(pairs.sum(1)).ravel()[before], np.diff(pairs.indptr)[before]
    together = np.asarray(pairs[before, labels]).ravel()
    return np.where(total > 0, (together + kinds * alone) / np.maximum(total + kinds, 1), alone)


@torch.no_grad()
def sentence_vectors(model: MaskedLM, stream: Stream, device: torch.device) -> list[Tensor]:
    """(n, d) means of the ordinary tokens of every sentence of a one-sided stream, per layer.

    The model is in the mode that it is in: a finished one is put into ``eval`` by the caller.
    """
    parts = []
    for start in range(0, stream.n, 300):
        batch = stream.collate(np.arange(start, min(start + 300, stream.n)))
        ids, positions, lengths = (
            torch.from_numpy(a).to(device) for a in (batch.ids, batch.positions, batch.lengths)
        )
        place = torch.arange(ids.shape[1], device=device)
        ordinary = ((place > 0) & (place < lengths[:, None] - 1)).float()[:, :, None]
        states = model.encoder(ids, positions, lengths, (Group(stream.languages[0], len(ids), 0),))
        parts.append([(h.float() * ordinary).sum(1) / ordinary.sum(1) for h in states])
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]
