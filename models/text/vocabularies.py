"""The vocabularies of several languages, and which model ids their subwords have.

A tokeniser numbers the subwords of its own vocabulary. A model with one embedding
matrix needs one numbering for all languages, and how identical subwords are numbered
decides what the languages share there: one id (the anchors of Conneau et al. 2020,
§ 4.1) or two. A table per language leads from a tokeniser's ids to the model's.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from tokenizers import Tokenizer, pre_tokenizers

from crosslens.errors import StoreError, check_choice, refuse
from crosslens.files import check_name, make_folder, read_json, sha256_file, write_json
from crosslens.models.text.tokenisation import (
    SPECIAL_TOKENS,
    Vocabulary,
    load_tokenizer,
    save_tokenizer,
    train_tokenizer,
)

__all__ = [
    "Overlap",
    "Vocabularies",
    "check_separate",
    "join_vocabularies",
    "learn_vocabularies",
    "load_vocabularies",
    "save_vocabularies",
]

_SPECIAL = len(SPECIAL_TOKENS)
_INDEX = "vocabulary.json"


class _Told(TypedDict):
    sha256: str


class _Index(TypedDict):
    """vocabulary.json."""

    mode: Literal["joint", "union", "disjoint", "separate"]
    languages: dict[str, _Told]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overlap:
    """What two vocabularies have in common; special tokens are not counted.

    Attributes
    ----------
    first, second: number of subwords of each.
    identical: subwords that stand in both, letter by letter.
    shared: subwords of both that are one model id: all identical ones in "joint" and "union", none in
        "disjoint" and "separate".
    """

    first: int
    second: int
    identical: int
    shared: int

    @property
    def jaccard(self) -> float:
        """Shared subwords over all different ones of the two languages, 0 to 1."""
        every = self.first + self.second - self.shared
        return self.shared / every if every else 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabularies:
    """The tokenisers of all languages, and the numbering of their subwords in a model.

    Attributes
    ----------
    mode: "joint", "union", "disjoint" or "separate"; see
        :class:`crosslens.models.text.tokenisation.Vocabulary`.
    tokenizers: language to its tokeniser; in "joint" one object for all.
    tables: language to an int64 array, one entry for each id of its tokeniser: the id in the model.
        Special tokens are 0 to 4 in all.
    sizes: language to the number of model ids, which is the number of rows of the embedding that
        they index; where ids are shared, it is the same for all languages.

    >>> toy = {"eng": ["a cat and a dog"] * 9, "nld": ["a kat and a hond"] * 9}
    >>> both = learn_vocabularies(toy, Vocabulary(size=30, kind="bpe", sentences=9, mode="union"), seed=0)
    >>> model_ids = both.tables["nld"][both.tokenizers["nld"].encode("a kat").ids]
    >>> [both.pieces("nld")[i] for i in model_ids]
    ['[CLS]', '▁a', '▁kat', '[SEP]']
    >>> bool(both.tables["eng"][both.tokenizers["eng"].token_to_id("▁a")] == model_ids[1])
    True
    """

    mode: str
    tokenizers: Mapping[str, Tokenizer]
    tables: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, in the order in which they were learnt."""
        return tuple(self.tokenizers)

    @property
    def shared_ids(self) -> bool:
        """Whether an id means the same subword in every language."""
        return self.mode != "separate"

    def pieces(self, language: str) -> list[str]:
        """The subword of each of the ``sizes[language]`` model ids; where ids are shared, those of
        the other languages too.

        Raises
        ------
        InputError: there is no such language.
        """
        self._check(language)
        names = [""] * self.sizes[language]
        for other in self.languages if self.shared_ids else (language,):
            for i, piece in zip(
                self.tables[other].tolist(), _names(self.tokenizers[other]), strict=True
            ):
                names[i] = piece
        return names

    def starts(self, language: str) -> np.ndarray:
        """Which model ids begin a word: (``sizes[language]``,) bool.

        A subword begins a word if it begins with the sign for a space, "▁", or with a punctuation
        mark, which the tokeniser cuts off from what stands before it. So "cat," is two words and
        "(cat" two as well: "▁", and "(" with "cat", for the subword "cat" does not tell that it
        follows a mark. Scripts without spaces have words of whole clauses here. Special tokens
        begin none.

        Raises
        ------
        InputError: there is no such language.
        """
        # the library's own notion of a mark: it parts "x" from one
        cut = pre_tokenizers.Punctuation()
        begins = [
            piece.startswith("▁") or len(cut.pre_tokenize_str("x" + piece[:1])) > 1
            for piece in self.pieces(language)
        ]
        begins[:_SPECIAL] = [False] * _SPECIAL
        return np.array(begins, bool)

    def overlap(self, a: str, b: str) -> Overlap:
        """How many subwords the vocabularies of two languages have in common.

        In "joint" both have the same vocabulary; how much of it occurs in both languages' text is a
        question to the text.

        Raises
        ------
        InputError: there is no such language.
        """
        for language in (a, b):
            self._check(language)
        first, second = (set(_names(self.tokenizers[language])[_SPECIAL:]) for language in (a, b))
        shared = (
            len(np.intersect1d(self.tables[a][_SPECIAL:], self.tables[b][_SPECIAL:]))
            if self.shared_ids or a == b
            else 0
        )
        return Overlap(
            first=len(first), second=len(second), identical=len(first & second), shared=shared
        )

    def _check(self, language: str) -> None:
        check_choice(language, "language", self.tokenizers, "choose one that has a vocabulary")


def learn_vocabularies(
    texts: Mapping[str, Sequence[str]], vocabulary: Vocabulary, seed: int
) -> Vocabularies:
    """Learn the vocabularies of all languages.

    In "union" and "disjoint" the model ids are: the special tokens, the first language's subwords in
    their own order, then those of the next language that are not there yet (in "disjoint": all of
    them), and so on. A language's tokeniser does not depend on the other languages, except in
    "joint".

    Parameters
    ----------
    texts: language to its sentences.
    vocabulary: how they are learnt; ``sample_exponent`` matters to "joint" only.
    seed: seed of the samples. The vocabularies are a function of (texts, vocabulary, seed),
        whatever the number of threads.

    Raises
    ------
    InputError: there are no languages, one has no sentences, or a vocabulary is too small for its
        characters.

    >>> toy = {"eng": ["a cat and a dog"] * 9, "nld": ["a kat and a hond"] * 9}
    >>> settings = Vocabulary(size=30, kind="bpe", sentences=9, mode="union")
    >>> learn_vocabularies(toy, settings, seed=0).overlap("eng", "nld").shared > 0
    True
    """
    if not texts:
        refuse("texts", "at least one language", "none", "give the sentences of a language")
    if vocabulary.mode == "joint":
        return _number("joint", dict.fromkeys(texts, train_tokenizer(texts, vocabulary, seed)))
    for copy, original in vocabulary.copies.items():
        if copy not in texts or original not in texts or original in vocabulary.copies:
            known = ", ".join(name for name in texts if name not in vocabulary.copies)
            expected = f"languages of the texts, copies of {known}"
            refuse("vocabulary.copies", expected, f"{copy} of {original}", "check the codes")
    learnt = {
        name: train_tokenizer({name: lines}, vocabulary, seed)
        for name, lines in texts.items()
        if name not in vocabulary.copies
    }
    return _number(
        vocabulary.mode, {name: learnt[vocabulary.copies.get(name, name)] for name in texts}
    )


def check_separate(vocabularies: Vocabularies) -> None:
    """Refuse vocabularies that cannot stand beside others in one model.

    Raises
    ------
    InputError: ids are shared between languages, or special tokens are not ids 0 to 4 in each.
    """
    if vocabularies.shared_ids:
        expected, remedy = "ids of each language's own", 'learn them with mode="separate"'
        refuse("vocabularies", expected, f"mode {vocabularies.mode}", remedy)
    for language, tokenizer in vocabularies.tokenizers.items():
        for number, token in enumerate(SPECIAL_TOKENS):
            if (found := tokenizer.token_to_id(token)) != number:
                got = f"{token} as {found}" if found is not None else f"none called {token}"
                expected = f"the special tokens {', '.join(SPECIAL_TOKENS)} as ids 0 to 4"
                refuse(f"vocabulary of {language}", expected, got, "learn it anew")


def join_vocabularies(one: Vocabularies, other: Vocabularies) -> Vocabularies:
    """The vocabularies of two models, whose languages have ids of their own, as those of one model.

    Raises
    ------
    InputError: ids are shared between languages, both have a language, or special tokens are not
        ids 0 to 4 in each.

    >>> settings = Vocabulary(size=30, kind="bpe", sentences=9, mode="separate")
    >>> one, other = (learn_vocabularies({name: [text] * 9}, settings, seed=0)
    ...               for name, text in (("eng", "a cat and a dog"), ("nld", "een kat")))
    >>> both = join_vocabularies(one, other)
    >>> both.languages, both.sizes["nld"] == other.sizes["nld"]
    (('eng', 'nld'), True)
    """
    check_separate(one)
    check_separate(other)
    if twice := [language for language in other.languages if language in one.languages]:
        refuse("vocabularies", "different languages", f"{twice[0]} twice", "rename one")
    return _number("separate", {**one.tokenizers, **other.tokenizers})


def save_vocabularies(vocabularies: Vocabularies, folder: str | Path, max_length: int) -> None:
    """Write tokeniser folders that transformers reads: ``folder`` itself in "joint", otherwise a
    folder in it for each language.

    ``vocabulary.json`` (mode, languages, and what their tokenisers were) is written last: where it
    stands, everything does.

    Parameters
    ----------
    folder: made if need be; tokenisers in it are written over.
    max_length: longest sequence in tokens, for transformers.

    Raises
    ------
    InputError: the name of a language cannot be that of a folder.
    OutputError: the folder cannot be written to.
    """
    folder = Path(folder)
    joint = vocabularies.mode == "joint"
    for language in vocabularies.languages:
        check_name(language, "language")
    make_folder(folder, "folder")
    # an older one would vouch for what is being written over
    (folder / _INDEX).unlink(missing_ok=True)
    index: dict[str, Any] = {"mode": vocabularies.mode, "languages": {}}
    for number, language in enumerate(vocabularies.languages):
        where = folder if joint else make_folder(folder / language, "folder")
        if not joint or number == 0:
            save_tokenizer(vocabularies.tokenizers[language], where, max_length)
        size = vocabularies.tokenizers[language].get_vocab_size()
        index["languages"][language] = {
            "size": size,
            "sha256": sha256_file(where / "tokenizer.json"),
        }
    write_json(folder / _INDEX, index)


def load_vocabularies(folder: str | Path) -> Vocabularies:
    """Read what :func:`save_vocabularies` wrote.

    Raises
    ------
    InputError: the folder holds no finished vocabularies, or a tokeniser is missing or unreadable.
    StoreError: ``vocabulary.json`` is damaged, or a tokeniser is not the one that was saved.
    """
    folder = Path(folder)
    path = folder / _INDEX
    if not path.exists():
        refuse(
            str(folder),
            f"a folder with {_INDEX}",
            "none there",
            "give a folder of saved vocabularies, or learn them again",
        )
    remedy = "restore it, or learn the vocabularies again"
    index: _Index = read_json(path, _Index, remedy)
    mode, sums = index["mode"], {name: told["sha256"] for name, told in index["languages"].items()}
    if not sums:
        refuse(
            f"{path}, key languages", "languages, each with a folder", "none", remedy, StoreError
        )
    for language in sums:
        check_name(language, f"{path}, key languages", StoreError)
    loaded: dict[str, Tokenizer] = {}
    for language, expected in sums.items():
        where = folder if mode == "joint" else folder / language
        if mode == "joint" and loaded:
            loaded[language] = next(iter(loaded.values()))
            continue
        loaded[language] = load_tokenizer(where)
        if sha256_file(where / "tokenizer.json") != expected:
            refuse(
                str(where / "tokenizer.json"),
                "the tokeniser that was saved",
                "another",
                remedy,
                StoreError,
            )
    return _number(mode, loaded)


def _names(tokenizer: Tokenizer) -> list[str]:
    """The subwords of a tokeniser in the order of its ids."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _number(mode: str, tokenizers: Mapping[str, Tokenizer]) -> Vocabularies:
    """Give the subwords of all tokenisers their model ids."""
    if mode in ("joint", "separate"):
        sizes = {language: tokenizer.get_vocab_size() for language, tokenizer in tokenizers.items()}
        return Vocabularies(
            mode, tokenizers, {language: np.arange(size) for language, size in sizes.items()}, sizes
        )
    ids: dict[str, int] = {}
    tables, size = {}, _SPECIAL
    for language, tokenizer in tokenizers.items():
        if mode == "disjoint":
            ids = {}  # what the other languages have is not looked at, so every subword is a new one
        names = _names(tokenizer)
        for piece in names[_SPECIAL:]:
            if piece not in ids:
                ids[piece] = size
                size += 1
        tables[language] = np.array([*range(_SPECIAL), *(ids[piece] for piece in names[_SPECIAL:])])
    return Vocabularies(mode, tokenizers, tables, dict.fromkeys(tokenizers, size))
