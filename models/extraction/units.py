"""Where the items of a text are: which subwords of which input make up each token, word or sentence.

    text --tokeniser--> subwords --windows--> inputs of the encoder
                          \\--spans----> items (token, word, sentence): the places of their subwords
                          in the inputs

Words are found by the character offsets that the tokeniser itself gives for its subwords, never by
tokenising them again and searching: a subword belongs to every word whose characters it covers. A
subword that is only a marker of a space ("▁", "Ġ") is left out of a word that has others.

Text longer than the encoder's longest input is read through windows that overlap by half, and each
subword is taken from the window with the most context that the encoder can see: the one in which the
subword stands farthest from an edge that cuts the text (Wu & Dredze 2019, § 3, shift windows by half,
too), or, in an encoder that sees nothing behind a subword, the one in which it stands farthest from
the left edge. So a causal encoder's subwords have all the text before them in the first window, and
at least half a window in the others. Where attention slides, and a layer sees w subwords to the left,
more context never takes any away, so the same window is the right one; beyond w for each layer it
changes nothing. Or the text is cut, and counted.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from crosslens.corpus import Corpus
from crosslens.errors import check_choice, refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.text.tokenisation import by_bytes, tokenised
from crosslens.readers.words import whitespace_spans

__all__ = ["LONG_INPUTS", "POOLS", "UNITS", "Located", "Reading", "locate"]

UNITS = ("sentence", "pair", "word", "token", "type", "embedding")
POOLS = ("mean", "max", "first", "last")
LONG_INPUTS = ("window", "truncate")
# how SentencePiece, and byte-level BPE, write a space; the second is elsewhere a Maltese letter
_MARKER, _OF_BYTES = "▁", "Ġ"
# encodings say all; lists of it would only burden Python's memory
_BARE = {"return_attention_mask": False, "return_token_type_ids": False}


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a text is read.

    Attributes
    ----------
    unit: "sentence", "pair" (two sentences in one input), "word" or "token". ("type" and
        "embedding" are read as words.)
    pool: which subwords stand for an item: their "mean" or "max", the "first" or the "last".
    special_tokens: whether special tokens ([CLS], </s>) count as subwords of a sentence or pair, and
        as tokens.
    long_input: "window", or "truncate" to the longest input.
    """

    unit: str = "sentence"
    pool: str = "mean"
    special_tokens: bool = False
    long_input: str = "window"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("unit", self.unit, UNITS),
            ("pool", self.pool, POOLS),
            ("long_input", self.long_input, LONG_INPUTS),
        ):
            check_choice(value, name, known)
        if self.special_tokens and self.unit not in ("sentence", "pair", "token"):
            expected = "False for words (no special token is part of one)"
            refuse("special_tokens", expected, "True", "leave it out, or take another unit")


@dataclasses.dataclass(frozen=True)
class Located:
    """Some sentences as inputs of an encoder, and their items.

    Attributes
    ----------
    ids: (p,) token ids of all sentences on end, special tokens among them.
    segments: (p,) segment of each token: 1 for the second sentence of a pair.
    special: (p,) whether a token is a special one.
    inputs: for each input of the encoder the tokens in it, at least one, as places in ``ids``.
    owner, column: (p,) the input from which a token's vector is taken and its place in that; -1
        where it was cut off.
    entry_token, entry_item: (e,) which tokens make up which item, sorted by item.
    items: number of items.
    columns: the items' rows of the index.
    pieces: (items,) number of tokens of each item; 0 where the encoder has none, or they were cut
        off.
    cut: number of sentences that were truncated.
    """

    ids: np.ndarray
    segments: np.ndarray
    special: np.ndarray
    inputs: list[np.ndarray]
    owner: np.ndarray
    column: np.ndarray
    entry_token: np.ndarray
    entry_item: np.ndarray
    items: int
    columns: dict[str, Any]
    pieces: np.ndarray
    cut: int


@dataclasses.dataclass(frozen=True)
class _Tokens:
    """Tokens of some sentences on end: ids, segments, whether special, character spans, where each
    sentence begins, which were cut."""

    ids: np.ndarray
    segments: np.ndarray
    special: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    base: np.ndarray
    cut: np.ndarray


def locate(
    encoder: Encoder, corpus: Corpus, rows: range, reading: Reading, second: Corpus | None = None
) -> Located:
    """Tokenise some sentences of a text and say where their items are.

    Parameters
    ----------
    encoder: gives the tokeniser and the longest input.
    corpus: the text; its words, where it has them, else what stands between white space.
    rows: which sentences.
    reading: unit, pooling, special tokens, long input.
    second: for pairs, the text of the second sentences; where one is empty, the first is an input
        by itself.

    Raises
    ------
    InputError: a sentence has no token at all, or a pair is too long and may not be cut.
    """
    encoder = encoder.for_text(corpus.language, None if second is None else second.language)
    tokens = _tokenise(encoder, corpus, rows, second, cut_pairs=reading.long_input == "truncate")
    inputs, owner, column = _windows(tokens, encoder, reading.long_input)
    rows_of = np.repeat(np.arange(len(rows)), np.diff(tokens.base))
    if reading.unit in ("sentence", "pair"):
        token, item, columns = _sentences(encoder, corpus, rows, tokens, rows_of, reading)
    elif reading.unit == "token":
        token, item, columns = _tokens(encoder, corpus, rows, tokens, rows_of, reading)
    else:
        token, item, columns = _words(encoder, corpus, rows, tokens, rows_of)
    truncated = tokens.cut | (np.bincount(rows_of[owner < 0], minlength=len(rows)) > 0)
    items = len(columns["id"])
    there = owner[token] >= 0
    token, item = token[there], item[there]
    pieces = np.bincount(item, minlength=items)
    columns = {**columns, "pieces": pieces.astype(np.int32)}
    if reading.unit in ("sentence", "pair"):
        columns["truncated"] = truncated
        empty = np.flatnonzero(pieces == 0)
        if len(empty):
            where = f"{corpus.name}:{rows.start + int(empty[0]) + 1}"
            got = repr(corpus.sentences[rows.start + int(empty[0])])
            refuse(
                where, "a sentence with at least one token", got, "remove or replace the sentence"
            )
    if reading.pool in ("first", "last"):
        keep = np.flatnonzero(
            np.diff(item, prepend=-1) if reading.pool == "first" else np.diff(item, append=items)
        )
        token, item = token[keep], item[keep]
    return Located(
        tokens.ids,
        tokens.segments,
        tokens.special,
        inputs,
        owner,
        column,
        token,
        item,
        items,
        columns,
        pieces,
        int(truncated.sum()),
    )


def _tokenise(
    encoder: Encoder, corpus: Corpus, rows: range, second: Corpus | None, *, cut_pairs: bool
) -> _Tokens:
    texts = list(corpus.sentences[rows.start : rows.stop])
    if second is None:
        encodings = tokenised(encoder.name, encoder.tokenizer, texts, **_BARE)
    else:
        encodings = _encode_pairs(
            encoder, texts, list(second.sentences[rows.start : rows.stop]), cut_pairs
        )
    ids = [encoding.ids for encoding in encodings]
    kinds = [encoding.type_ids for encoding in encodings] if second is not None else []
    counts = [len(one) for one in ids]
    if second is not None and not cut_pairs and max(counts) > encoder.max_length:
        place = int(np.argmax(counts))
        got = f"{counts[place]} at {corpus.name}:{rows.start + place + 1}"
        remedy = 'shorten it, or set long_input="truncate"'
        refuse("pair", f"at most {encoder.max_length} tokens", got, remedy)
    total, chain = sum(counts), itertools.chain.from_iterable
    numbers = np.fromiter(chain(ids), np.int64, total)
    encoder.check_ids(numbers)
    offsets = np.fromiter(
        chain(chain(encoding.offsets for encoding in encodings)), np.int64, 2 * total
    ).reshape(-1, 2)
    return _Tokens(
        numbers,
        np.fromiter(chain(kinds), np.int64, total)
        if second is not None
        else np.zeros(total, np.int64),
        np.fromiter(chain(encoding.special_tokens_mask for encoding in encodings), bool, total),
        offsets[:, 0],
        offsets[:, 1],
        np.r_[0, np.cumsum(counts)],
        np.array([bool(encoding.overflowing) for encoding in encodings]),
    )


def _encode_pairs(encoder: Encoder, firsts: list[str], seconds: list[str], cut: bool) -> list[Any]:
    """The encodings of pairs; a first without a second gets no separator for it."""
    settings = {"truncation": "longest_first", "max_length": encoder.max_length} if cut else {}
    encodings: dict[int, Any] = {}
    for alone in (False, True):
        mine = [i for i, sentence in enumerate(seconds) if (not sentence) == alone]
        if mine:
            sides = (firsts,) if alone else (firsts, seconds)
            some = tokenised(
                encoder.name,
                encoder.tokenizer,
                *([side[i] for i in mine] for side in sides),
                **_BARE,
                **settings,
            )
            encodings |= dict(zip(mine, some, strict=True))
    return [encodings[i] for i in range(len(firsts))]


def _windows(
    tokens: _Tokens, encoder: Encoder, long_input: str
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """The inputs of the encoder, from which of them each token's vector is taken, and where it
    stands there."""
    owner = np.full(len(tokens.ids), -1)
    column = np.full(len(tokens.ids), -1)
    longest = encoder.max_length
    inputs: list[np.ndarray] = []
    for begin, end in zip(tokens.base[:-1].tolist(), tokens.base[1:].tolist(), strict=True):
        if begin == end:  # a blank line, of a tokeniser without special tokens
            continue
        if end - begin <= longest:
            taken = np.arange(begin, end)
            owner[taken], column[taken] = len(inputs), taken - begin
            inputs.append(taken)
            continue
        plain = np.flatnonzero(~tokens.special[begin:end])
        front, back = np.arange(begin, begin + plain[0]), np.arange(begin + plain[-1] + 1, end)
        body = np.arange(begin + plain[0], begin + plain[-1] + 1)
        room = longest - len(front) - len(back)
        if room < 2:
            expected = "room for two tokens beside the special ones"
            refuse("encoder", expected, f"{longest} in all", "choose another encoder")
        if long_input == "truncate":
            windows = whose = [body[:room]]
        else:
            windows, whose = _overlapping(body, room, causal=encoder.causal)
        for number, (window, mine) in enumerate(zip(windows, whose, strict=True)):
            taken = np.r_[front, window, back]
            mine = np.r_[
                front if number == 0 else front[:0],
                mine,
                back if number == len(windows) - 1 else back[:0],
            ]
            owner[mine] = len(inputs)
            column[mine] = np.searchsorted(taken, mine)
            inputs.append(taken)
    return inputs, owner, column


def _overlapping(
    body: np.ndarray, room: int, *, causal: bool
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Windows of ``room`` tokens, each half a window after the one before, the last one full; and
    the tokens each is asked for."""
    starts = [*range(0, len(body) - room, room - room // 2), len(body) - room]
    if causal:  # only the left edge cuts something off
        edges = [0, *(start + room for start in starts)]
    else:
        edges = [
            0,
            *(
                (before + room + after) // 2
                for before, after in zip(starts[:-1], starts[1:], strict=True)
            ),
            len(body),
        ]
    return [body[start : start + room] for start in starts], [
        body[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]


def _counted(tokens: _Tokens, reading: Reading) -> np.ndarray:
    """Indices of the tokens that count: all, or those that are not special."""
    return np.arange(len(tokens.ids)) if reading.special_tokens else np.flatnonzero(~tokens.special)


def _sentences(
    encoder: Encoder,
    corpus: Corpus,
    rows: range,
    tokens: _Tokens,
    rows_of: np.ndarray,
    reading: Reading,
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    kept = _counted(tokens, reading)
    return (
        kept,
        rows_of[kept],
        {"id": corpus.ids[rows.start : rows.stop], "language": [corpus.language] * len(rows)},
    )


def _tokens(
    encoder: Encoder,
    corpus: Corpus,
    rows: range,
    tokens: _Tokens,
    rows_of: np.ndarray,
    reading: Reading,
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    kept = _counted(tokens, reading)
    row = rows_of[kept]
    ids = corpus.ids[rows.start : rows.stop]
    return (
        kept,
        np.arange(len(kept)),
        {
            "id": [ids[i] for i in row.tolist()],
            "language": [corpus.language] * len(kept),
            "text": row + rows.start,
            "position": kept - tokens.base[row],
            "token": encoder.tokenizer.convert_ids_to_tokens(tokens.ids[kept].tolist()),
            "start": tokens.starts[kept],
            "end": tokens.ends[kept],
            "special": tokens.special[kept],
        },
    )


def _words(
    encoder: Encoder, corpus: Corpus, rows: range, tokens: _Tokens, rows_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    sentences = corpus.sentences[rows.start : rows.stop]
    spans = (
        list(corpus.words[rows.start : rows.stop])
        if corpus.words is not None
        else [whitespace_spans(text) for text in sentences]
    )
    counts = np.array([len(some) for some in spans], np.int64)
    row = np.repeat(np.arange(len(rows)), counts)
    span = np.array([pair for some in spans for pair in some], np.int64).reshape(-1, 2)
    # each sentence's first character on one long line
    begin = np.r_[0, np.cumsum([len(text) + 1 for text in sentences])]
    token, item = _overlaps(tokens, rows_of, span + begin[row][:, None], begin)
    token, item = _without_markers(encoder, tokens, token, item)
    ids = corpus.ids[rows.start : rows.stop]
    position = np.arange(len(span)) - np.repeat(np.r_[0, np.cumsum(counts)[:-1]], counts)
    columns: dict[str, Any] = {
        "id": [ids[i] for i in row.tolist()],
        "language": [corpus.language] * len(span),
        "text": row + rows.start,
        "position": position,
        "word": [
            sentences[i][start:end]
            for i, (start, end) in zip(row.tolist(), span.tolist(), strict=True)
        ],
        "start": span[:, 0],
        "end": span[:, 1],
    }
    for name, values in (corpus.annotations or {}).items():
        columns[name] = [value for some in values[rows.start : rows.stop] for value in some]
    return token, item, columns


def _overlaps(
    tokens: _Tokens, rows_of: np.ndarray, spans: np.ndarray, begin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (token, word) that share a character, sorted by word. ``spans`` and ``begin`` count
    along one line of all sentences."""
    plain = np.flatnonzero(~tokens.special & (tokens.ends > tokens.starts))
    starts = tokens.starts[plain] + begin[rows_of[plain]]
    ends = tokens.ends[plain] + begin[rows_of[plain]]
    # words of a multiword token may repeat its span
    furthest = np.maximum.accumulate(spans[:, 1]) if len(spans) else spans[:, 1]
    first = np.searchsorted(furthest, starts, "right")
    behind = np.searchsorted(spans[:, 0], ends, "left")
    many = np.maximum(behind - first, 0)
    token = np.repeat(plain, many)
    item = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    where = np.repeat(np.arange(len(plain)), many)
    touch = (spans[item, 0] < ends[where]) & (spans[item, 1] > starts[where])
    token, item = token[touch], item[touch]
    order = np.lexsort((token, item))
    return token[order], item[order]


def _without_markers(
    encoder: Encoder, tokens: _Tokens, token: np.ndarray, item: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Leave out subwords that are only the marker of a space, but for words that have nothing
    else."""
    lone = np.isin(tokens.ids[token], space_markers(encoder))
    if not lone.any():
        return token, item
    real = np.bincount(item[~lone], minlength=int(item.max()) + 1)
    keep = ~lone | (real[item] == 0)
    return token[keep], item[keep]


def space_markers(encoder: Encoder) -> np.ndarray:
    """Ids of the tokens that are nothing but the marker of a space."""
    if "space_markers" not in vars(encoder):  # the whole vocabulary is looked through once
        vocabulary = encoder.tokenizer.get_vocab()
        markers = f"{_MARKER} {_OF_BYTES if by_bytes(encoder.tokenizer) else ''}"
        found = sorted(
            number for token, number in vocabulary.items() if token and not token.strip(markers)
        )
        vars(encoder)["space_markers"] = np.array(found, np.int64)
    return np.asarray(vars(encoder)["space_markers"])
