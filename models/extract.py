"""Text to activations: every layer of an encoder, averaged over each sentence's tokens.

Sentences are sorted by length within a block, so that a batch holds little padding,
and pooled as soon as they are encoded: memory holds one batch and one block, whatever
the size of the text. Special tokens are not part of the mean.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crosslens.activations import Activations, ActivationsWriter
from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.models.loading import PretrainedEncoder
from crosslens.progress import Progress

__all__ = ["count_pieces", "extract"]

_BATCH_TOKENS = 4096
_CHUNK = 10_000  # sentences tokenised at a time
_BLOCK_BYTES = 32 << 20  # of one block, all layers together


def extract(encoder: PretrainedEncoder, corpus: Corpus, folder: str | Path) -> Activations:
    """Encode a text into a store of activations, one row per sentence and layer.

    A store that is finished already is opened; one that was begun is gone on with.

    Parameters
    ----------
    encoder: from :func:`crosslens.models.loading.load_encoder`.
    corpus: the text. Sentences beyond the encoder's longest input are cut there; the store's index says which.
    folder: where the store will be.

    Raises
    ------
    InputError: a sentence has no token but special ones.
    OutputError: the folder has a store with other settings, or there is no room.
    """
    settings = {"encoder": encoder.fingerprint, "text": corpus.fingerprint, "unit": "sentence", "pooling": "mean", "special_tokens": False}
    finished = ActivationsWriter.finished(folder, settings)
    if finished is not None:
        return finished
    pieces, truncated = count_pieces(encoder, corpus)
    index: dict[str, Sequence[Any]] = {
        "id": list(corpus.ids),
        "language": [corpus.language] * len(corpus),
        "pieces": pieces.tolist(),
        "truncated": truncated.tolist(),
    }
    block = max(1, _BLOCK_BYTES // (encoder.layers * encoder.d * 4))
    writer = ActivationsWriter(folder, settings, index, layers=encoder.layers, d=encoder.d, dtype="float32", block=block)
    left = writer.blocks()
    with Progress(len(corpus), f"encoding {corpus.name} with {encoder.name}", "sentences", len(corpus) - sum(map(len, left))) as progress:
        for rows in left:
            writer.write(rows, _encode_block(encoder, corpus, rows, progress))
    return writer.finish(
        language=corpus.language, text=corpus.name, encoder=encoder.name, truncated=int(truncated.sum()), versions=_versions()
    )


def count_pieces(encoder: PretrainedEncoder, corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """Number of tokens of each sentence, special ones not counted, and which sentences are cut at the encoder's longest input.

    Raises
    ------
    InputError: a sentence has no token but special ones.
    """
    pieces, truncated = np.empty(len(corpus), np.int64), np.empty(len(corpus), bool)
    with Progress(len(corpus), f"tokenising {corpus.name}", "sentences") as progress:
        for start in range(0, len(corpus), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(corpus)))
            _, weights, cut = _tokenise(encoder, corpus, rows)
            pieces[rows.start : rows.stop] = [int(weight.sum()) for weight in weights]
            truncated[rows.start : rows.stop] = cut
            progress.add(len(rows))
    empty = np.flatnonzero(pieces == 0)
    if len(empty):
        got, where = repr(corpus.sentences[empty[0]]), f"{corpus.name}:{empty[0] + 1}"
        refuse(where, "a sentence with at least one token", got, "remove or replace the sentence")
    return pieces, truncated


def _tokenise(encoder: PretrainedEncoder, corpus: Corpus, rows: range) -> tuple[list[np.ndarray], list[np.ndarray], list[bool]]:
    """Ids of some sentences, 1 for the tokens that count and 0 for special ones, and which sentences were cut."""
    some = list(corpus.sentences[rows.start : rows.stop])
    encoded = encoder.tokenizer(
        some, truncation=True, max_length=encoder.max_length, return_special_tokens_mask=True, return_attention_mask=False
    )
    ids = [np.asarray(row, np.int64) for row in encoded["input_ids"]]
    weights = [1 - np.asarray(row, np.int64) for row in encoded["special_tokens_mask"]]
    return ids, weights, [bool(encoding.overflowing) for encoding in encoded.encodings]


@torch.inference_mode()
def _encode_block(encoder: PretrainedEncoder, corpus: Corpus, rows: range, progress: Progress) -> list[np.ndarray]:
    """The sentence vectors of some rows, one array per layer."""
    ids, weights, _ = _tokenise(encoder, corpus, rows)
    states = [np.empty((len(rows), encoder.d), np.float32) for _ in range(encoder.layers)]
    order = sorted(range(len(rows)), key=lambda i: len(ids[i]))
    pad = encoder.tokenizer.pad_token_id or 0
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and len(ids[order[end]]) * (end + 1 - at) <= _BATCH_TOKENS:
            end += 1
        batch = order[at:end]
        width = len(ids[batch[-1]])
        tokens, mask = np.full((len(batch), width), pad), np.zeros((len(batch), width), np.int64)
        share = np.zeros((len(batch), 1, width), np.float32)
        for row, i in enumerate(batch):
            tokens[row, : len(ids[i])], mask[row, : len(ids[i])] = ids[i], 1
            share[row, 0, : len(ids[i])] = weights[i] / weights[i].sum()
        hidden_states = encoder.hidden_states(torch.from_numpy(tokens), torch.from_numpy(mask))
        for state, hidden in zip(states, hidden_states, strict=True):
            state[batch] = torch.bmm(torch.from_numpy(share), hidden).squeeze(1).numpy()
        progress.add(len(batch))
        at = end
    return states


def _versions() -> dict[str, Any]:
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__}
