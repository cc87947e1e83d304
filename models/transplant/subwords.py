"""What the subwords of two tokenisers have in common, and which of them translate each other."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_matrix, csr_matrix

from crosslens.errors import refuse
from crosslens.models.text.tokenisation import by_bytes, tokenised

__all__ = ["retokenised_weights", "shared_subwords", "subword_texts", "translation_weights"]

_BLOCK = 1000  # sentences that are tokenised at once


def subword_texts(tokenizer: Any) -> list[str]:
    """What each token id of a tokeniser stands for, a space in front where it begins a word; "" for
    special tokens.

    So that the subwords of WordPiece, SentencePiece and byte-level BPE can be compared.
    """
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    special = set(tokenizer.all_special_ids)
    backend = tokenizer.backend_tokenizer
    wordpiece = type(backend.model).__name__ == "WordPiece"
    in_bytes = by_bytes(tokenizer)
    bytes_of = _bytes_of_characters() if in_bytes else None
    texts = []
    for number, name in enumerate(names):
        if name is None or number in special:
            texts.append("")
        elif wordpiece:
            texts.append(name[2:] if name.startswith("##") else f" {name}")
        else:
            text = _decoded(name, bytes_of) if bytes_of is not None else name
            begins = text.startswith(" " if in_bytes else "▁")
            texts.append(f" {text[1:]}" if begins else text)
    return texts


def _decoded(name: str, bytes_of: Mapping[str, int]) -> str:
    """Bytes written as printable characters; as they are where they are no text by themselves."""
    try:
        return bytes(bytes_of[character] for character in name).decode()
    except (KeyError, UnicodeDecodeError):
        return name


def _bytes_of_characters() -> dict[str, int]:
    """Byte-level BPE writes bytes that are no printable characters as others from 256 on."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in kept]
    return {chr(b): b for b in kept} | {chr(256 + n): b for n, b in enumerate(moved)}


def shared_subwords(source: Any, target: Any) -> Int[np.ndarray, " n"]:
    """For each token id of the target's tokeniser the source's id of the same subword, or of the
    special token with the same role or, where it has none, the same name; -1 where there is none.

    Raises
    ------
    InputError: the target has a special token that the source lacks.
    """
    first: dict[str, int] = {}
    for number, text in enumerate(subword_texts(source)):
        if text:
            first.setdefault(text, number)
    found = np.array([first.get(text, -1) if text else -1 for text in subword_texts(target)])
    there = source.get_vocab()
    for name in target.all_special_tokens:  # those that have no role, too
        found[target.convert_tokens_to_ids(name)] = there.get(name, -1)
    for role, name in target.special_tokens_map.items():
        if not isinstance(name, str):
            continue
        theirs = getattr(source, f"{role}_id", None)
        if theirs is None:
            remedy = "learn the vocabulary with this encoder's own tokeniser"
            refuse("vocabulary", f"special tokens of the encoder, not {role}", repr(name), remedy)
        found[target.convert_tokens_to_ids(name)] = theirs
    return found


def translation_weights(
    pairs: Mapping[tuple[str, str], float], source: Any, target: Any, rows: int
) -> csr_matrix:
    """(target subwords, ``rows``) how often subwords translate each other: a pair of words gives its
    weight to each subword of the target's word, divided over those of the source's.

    Parameters
    ----------
    pairs: (source word, target word) -> weight: how often they were linked, say. Each is divided as
        it is within a sentence, behind a space.
    rows: of the source's table of embeddings.
    """
    sides = [
        _subwords_of(name, tokenizer, [pair[k] for pair in pairs])
        for k, (name, tokenizer) in enumerate((("source", source), ("target", target)))
    ]
    lines, columns, values = list[int](), list[int](), list[float]()
    for mine, theirs, weight in zip(*sides, pairs.values(), strict=True):
        for row in theirs:
            lines += [row] * len(mine)
            columns += mine
            values += [weight / len(mine)] * len(mine)
    shape = (len(target), rows)
    return coo_matrix((np.array(values, float), (lines, columns)), shape=shape).tocsr()


def retokenised_weights(
    sentences: Sequence[str], source: Any, target: Any, rows: int
) -> csr_matrix:
    """(target subwords, ``rows``) how many characters of a text subwords of both tokenisers share:
    which old subwords stand where a new one does (Gee et al. 2022, over a text in the place of each
    subword by itself, which has no neighbours to be divided with). What the source does not know is
    no subword of it.

    Parameters
    ----------
    sentences: the text. rows: of the source's table of embeddings.
    """
    found = Counter[tuple[int, int]]()
    special = set(source.all_special_ids)  # its unknown token among them
    for start in range(0, len(sentences), _BLOCK):
        some = list(sentences[start : start + _BLOCK])
        sides = [
            tokenised(name, one, some, add_special_tokens=False, return_offsets_mapping=True)
            for name, one in (("source", source), ("target", target))
        ]
        for old, new in zip(*sides, strict=True):
            for row, column, characters in _overlaps(new, old):
                if column not in special:
                    found[row, column] += characters
    places = np.array([*found], np.int64).reshape(-1, 2).T
    values = np.array([*found.values()], float)
    return coo_matrix((values, tuple(places)), shape=(len(target), rows)).tocsr()


def _overlaps(first: Any, second: Any) -> Iterator[tuple[int, int, int]]:
    """Subwords of two encodings of one text that share characters, and how many."""
    i = j = 0
    while i < len(first.ids) and j < len(second.ids):
        (begin, end), (start, stop) = first.offsets[i], second.offsets[j]
        if (shared := min(end, stop) - max(begin, start)) > 0:
            yield first.ids[i], second.ids[j], shared
        # several of them may be of one character
        following = second.offsets[j + 1][0] if j + 1 < len(second.ids) else end
        if stop < end or following < end:
            j += 1
        else:
            i += 1


def _subwords_of(name: str, tokenizer: Any, words: Sequence[str]) -> list[list[int]]:
    """The subwords of each word, but for special ones, the unknown one among them."""
    special = set(tokenizer.all_special_ids)
    found = [
        [n for n in encoding.ids if n not in special]
        for encoding in tokenised(name, tokenizer, list(words))
    ]
    if not by_bytes(tokenizer):
        return found
    # byte-level BPE has two subwords for a word, and the one without a space begins lines alone;
    # where the space stays by itself, words of this language have none in front
    (space,) = tokenised(name, tokenizer, [" "], add_special_tokens=False)
    behind = tokenised(name, tokenizer, [f" {word}" for word in words], add_special_tokens=False)
    return [
        plain if one.ids[:1] == space.ids[:1] else [n for n in one.ids if n not in special]
        for plain, one in zip(found, behind, strict=True)
    ]
