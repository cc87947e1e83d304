"""XLM's own tokeniser, with the characters that each subword stands for.

transformers has it in Python only: Moses' rules for the language of the text (by sacremoses;
Chinese, Thai and Japanese have segmenters of their own), lowercase letters without accents, then
BPE (Conneau & Lample 2019, § 5.1). It gives subwords, and not where they stand in the text. They are
its subwords to the last one here, too, and are found in the text afterwards: both are folded (case,
width, accents, quotation marks), and what then still differs lies between stretches that agree.

``tokenize`` of transformers 5 takes a language and does not hand it on: every text is split by
English rules. Here it is split by its own.
"""

import copy
import dataclasses
import functools
import importlib.metadata
import importlib.util
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import refuse

__all__ = ["XlmTokeniser", "check_segmenter", "with_offsets"]

_END = "</w>"  # of a word's last subword
_MOST_WORDS = 1 << 18  # whose subwords the tokeniser remembers; it would remember all
_QUOTES = dict.fromkeys("„“”«»《》「」", '"') | dict.fromkeys("‘’‚`´", "'")
_SIGNS = (
    _QUOTES
    | dict.fromkeys("–—━", "-")
    | {"、": ",", "。": ".", "〈": "<", "〉": ">", "【": "[", "】": "]", "∶": ":"}
)
_NEAR, _SURE = 12, 4  # keys that may differ on end; keys that must agree behind them
_SEGMENTERS = {
    "zh": ("rjieba", "pip install 'crosslens[segment]'"),
    "th": ("pythainlp", "pip install 'crosslens[segment]'"),
    "ja": (
        "Mykytea",
        (
            "build KyTea (https://github.com/neubig/kytea) with --prefix=$HOME/local, and pip "
            "install kytea"
        ),
    ),
}
_KYTEA = "local/share/kytea/model.bin"  # below the home folder: where transformers has it read from


@dataclasses.dataclass(frozen=True)
class _Encoding:
    """One text's tokens, under the names that those of fast tokenisers have."""

    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]
    word_ids: list[int | None]
    sequence_ids: list[int | None]
    overflowing: list[Any]


@dataclasses.dataclass
class _Pieces:
    """The subwords of one text: ids, characters, and the number of each one's word."""

    ids: list[int]
    spans: list[tuple[int, int]]
    words: list[int | None]

    def drop_last(self) -> None:
        for one in (self.ids, self.spans, self.words):
            one.pop()


class XlmTokeniser:
    """transformers' ``XLMTokenizer`` for texts of one language, called as a fast tokeniser is; what
    else it has is asked of it.

    Parameters
    ----------
    slow: the tokeniser.
    languages: of the text, and of the second text of a pair, as XLM has them ("en"); they choose
        the rules.
    """

    def __init__(self, slow: Any, languages: tuple[str, str] = ("en", "en")) -> None:
        self.slow, self.languages = slow, languages
        self._by_language = tuple(_bound(slow, language) for language in languages)
        self._added = frozenset(slow.added_tokens_encoder)  # which it sorts whenever it is asked

    def __getattr__(self, name: str) -> Any:
        if name == "slow":  # not yet there, in a copy
            raise AttributeError(name)
        return getattr(self.slow, name)

    def __len__(self) -> int:
        return len(self.slow)

    def __call__(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        *,
        add_special_tokens: bool = True,
        truncation: str | None = None,
        max_length: int | None = None,
        **_: Any,
    ) -> Any:
        """Texts, or pairs of them, as a ``BatchEncoding``; those too long are cut at the end of the
        longer one with ``truncation``."""
        from transformers import BatchEncoding

        most = max_length if truncation else None
        pairs = zip(texts, [None] * len(texts) if seconds is None else seconds, strict=True)
        found: list[Any] = [
            self._encode(text, second, add_special_tokens, most) for text, second in pairs
        ]
        return BatchEncoding(
            {"input_ids": [one.ids for one in found]},
            found,
            n_sequences=1 if seconds is None else 2,
        )

    def in_languages(self, first: str, second: str) -> "XlmTokeniser":
        """The same for texts of other languages."""
        return XlmTokeniser(self.slow, (first, second))

    def packages(self) -> dict[str, str]:
        """The versions of the packages that split text."""
        named = [
            "sacremoses",
            *(_SEGMENTERS[one][0] for one in dict.fromkeys(self.languages) if one in _SEGMENTERS),
        ]
        return {name: _version("kytea" if name == "Mykytea" else name) for name in named}

    def _encode(self, text: str, second: str | None, special: bool, most: int | None) -> _Encoding:
        sides = [self._split(text, 0)] + ([] if second is None else [self._split(second, 1)])
        given = [side.ids for side in sides]
        mask: list[int] = (
            self.slow.get_special_tokens_mask(*given) if special else [0] * sum(map(len, given))
        )
        over = max(0, len(mask) - (most or len(mask)))
        for _ in range(over):  # as transformers cuts the longest first
            sides[0 if len(sides) == 1 or len(sides[0].ids) > len(sides[1].ids) else 1].drop_last()
        if special:
            mask = self.slow.get_special_tokens_mask(*given)
            ids = self.slow.build_inputs_with_special_tokens(*given)
        else:
            mask, ids = [0] * sum(map(len, given)), [one for side in given for one in side]
        spans = iter([span for side in sides for span in side.spans])
        words = iter([word for side in sides for word in side.words])
        first = len(given[0]) + (2 if special else 0)  # the sign that ends it is the first text's
        return _Encoding(
            ids,
            [int(place >= first) for place in range(len(ids))],
            [(0, 0) if added else next(spans) for added in mask],
            mask,
            [None if added else next(words) for added in mask],
            [None if added else int(place >= first) for place, added in enumerate(mask)],
            [None] * bool(over),
        )

    def _split(self, text: str, side: int) -> _Pieces:
        slow = self._by_language[side]
        pieces: list[str] = slow.tokenize(text)
        if len(slow.cache) > _MOST_WORDS:
            slow.cache.clear()
        ids: list[int | None] = slow.convert_tokens_to_ids(pieces)
        known = [one for one in ids if one is not None]
        if len(known) < len(ids):
            raise ValueError(
                f"no id for {slow.unk_token!r}, which stands for what it does not know"
            )
        words: list[int | None] = []
        number, inside = -1, False
        for piece in pieces:
            if not inside or piece in self._added:
                number += 1
            words.append(number)
            inside = not piece.endswith(_END) and piece not in self._added
        return _Pieces(
            known, _spans(text, pieces, marks=not slow.do_lowercase_and_remove_accent), words
        )


def with_offsets(name: str, tokenizer: Any) -> Any:
    """The tokeniser of an encoder as one that says where its subwords stand: itself where it is fast.

    Parameters
    ----------
    name: of the encoder, for messages. tokenizer: transformers'.

    Raises
    ------
    InputError: it is neither fast nor XLM's, or the vocabulary is none.
    """
    if tokenizer.is_fast:
        return tokenizer
    from transformers import XLMTokenizer

    if type(tokenizer) is not XLMTokenizer:
        remedy = "save it with tokenizer.json"
        refuse(f"encoder {name}", "a fast tokeniser, or XLM's", type(tokenizer).__name__, remedy)
    if not all(type(number) is int and number >= 0 for number in tokenizer.encoder.values()):
        expected = "subwords and their numbers (vocab.json)"
        refuse(f"encoder {name}", expected, "something else", "restore the folder")
    return XlmTokeniser(tokenizer)


def check_segmenter(encoder: str, language: str) -> None:
    """Refuse a language whose words XLM's tokeniser cannot find here.

    Parameters
    ----------
    encoder: what it is called in messages. language: as XLM has it.

    Raises
    ------
    InputError: what it takes for Chinese, Thai or Japanese is not installed.
    """
    package, remedy = _SEGMENTERS.get(language, ("", ""))
    if not package:
        return
    if sys.modules.get(package) is None and importlib.util.find_spec(package) is None:
        wanted = f"{package}, which its tokeniser finds words of {language!r} with"
        refuse(f"encoder {encoder}", wanted, "none installed", f"type: {remedy}")
    if language == "ja" and not (Path.home() / _KYTEA).is_file():
        refuse(f"encoder {encoder}", f"KyTea's model, ~/{_KYTEA}", "none", remedy)


def _bound(slow: Any, language: str) -> Any:
    """A copy of the tokeniser, on the same vocabulary, that splits by the rules of a language."""
    other = copy.copy(slow)
    other._tokenize = functools.partial(type(slow)._tokenize, other, lang=language)
    return other


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _spans(text: str, pieces: Sequence[str], *, marks: bool) -> list[tuple[int, int]]:
    """The characters (start, end) of each subword; an empty stretch where it has none.

    Parameters
    ----------
    marks: whether the subwords still have their accents.
    """
    owners = [(place, key) for place, char in enumerate(text) for key in _folded(char, marks)]
    places, keys = [place for place, _ in owners], "".join(key for _, key in owners)
    folded = [
        "".join(_folded(char, marks) for char in piece.removesuffix(_END)) for piece in pieces
    ]
    links = _links(keys, "".join(folded))
    spans, at, last = list[tuple[int, int]](), 0, 0
    for piece in folded:
        mine = links[at : at + len(piece)]
        at += len(piece)
        low, high = (min(a for a, _ in mine), max(b for _, b in mine)) if mine else (0, 0)
        if low < high:
            spans.append((places[low], places[high - 1] + 1))
        elif mine:  # written where the text has only a space: the comma of 1,000
            spans.append(
                (places[low - 1] + 1 if low else 0, places[low] if low < len(places) else len(text))
            )
        else:
            spans.append((last, last))
        last = spans[-1][1]
    return spans


@functools.lru_cache(1 << 16)
def _folded(char: str, marks: bool) -> str:
    """What a character is compared by: nothing for spaces, control characters and, unless they are
    kept, accents."""
    kind = unicodedata.category(char)
    if kind[0] in "CZ" or (kind == "Mn" and not marks):
        return ""
    found = unicodedata.normalize(
        "NFKD", unicodedata.normalize("NFKD", _SIGNS.get(char, char)).casefold()
    )
    kinds = [(one, unicodedata.category(one)) for one in found]
    return (
        "".join(one for one, kind in kinds if kind[0] not in "CZ" and (marks or kind != "Mn"))
        or char
    )


def _links(text: str, pieces: str) -> list[tuple[int, int]]:
    """For each key of the subwords the keys (start, end) of the text that it stands for."""
    if text == pieces:
        return [(i, i + 1) for i in range(len(text))]
    found: list[tuple[int, int]] = []
    i = 0
    while len(found) < len(pieces):
        j = len(found)
        if i < len(text) and text[i] == pieces[j]:
            found.append((i, i + 1))
            i += 1
            continue
        left, right = _gap(text, pieces, i, j)
        free = dict.fromkeys(range(i, i + left))
        for key in pieces[j : j + right]:
            same = next((place for place in free if text[place] == key), -1)
            free.pop(same, None)
            found.append((i, i + left) if same < 0 else (same, same + 1))
        i += left
    return found


def _gap(text: str, pieces: str, i: int, j: int) -> tuple[int, int]:
    """How many keys of each side to pass over until they agree; one of each where they do not
    within reach."""
    for turned in range(2, _NEAR + 1):  # ," is written for ",
        if sorted(text[i : i + turned]) == sorted(pieces[j : j + turned]):
            return turned, turned
    likely: tuple[int, int] | None = None  # two keys agree there: taken unless more do close behind
    for both in range(1, 2 * _NEAR + 1):
        for right in range(max(0, both - _NEAR), min(both, _NEAR) + 1):
            left = both - right
            if i + left > len(text) or j + right > len(pieces):
                continue
            there, here = text[i + left : i + left + _SURE], pieces[j + right : j + right + _SURE]
            if there == here:
                return left, right
            if likely is None and len(here) > 1 and there[:2] == here[:2]:
                likely = left, right
        if likely is not None and both >= sum(likely) + 2:
            return likely
    return likely or (min(1, len(text) - i), 1)
