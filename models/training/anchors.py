"""Extra anchors in training: words of a batch replaced by their translations, so that two languages
have words in common (Conneau et al. 2020, § 4.1).

Replaced are whole words of the ids that a batch holds, anew in every step: which they are is a
function of (seed, step), so a training that was stopped is resumed to the same bits. A word at the
edge of a row of continuous text may be the rest of one, and is left alone. What is held out is
never code-switched.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import pre_tokenizers

from crosslens.corpus import Corpus
from crosslens.derive.codeswitch import CodeSwitch, translations_of
from crosslens.errors import refuse
from crosslens.models.limits import check_numbers
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.batches import Batch, lay_out
from crosslens.models.training.masking import Masking
from crosslens.progress import say
from crosslens.readers.dictionary import Dictionary, read_dictionary
from crosslens.readers.words import is_unspaced

__all__ = [
    "AnchorCounts",
    "Anchors",
    "WordSwitch",
    "check_anchors",
    "check_dictionary",
    "check_direction",
    "counted_words",
    "weighted_dictionary",
]

_UNKNOWN, _SPECIAL = SPECIAL_TOKENS.index("[UNK]"), len(SPECIAL_TOKENS)
# Known words with a translation in the text, below which a dictionary is probably another language's.
# Measured with the 5,000 most frequent words of MUSE's dictionaries on 31,102 verses of a Bible: of
# English-French .83 of 2,122 words have one in French verses, of English-German .57 in German ones,
# of English-Russian .70 in Russian ones; of English-German .02 of 2,279 in French verses. The most
# that a dictionary of another language had was .05 (of 20 known words or more; Bible, LibreOffice's
# help, Tatoeba), the least of the right one .19, in 100 lines. But of 100 French verses beside all
# English ones it was .12, and .08 of Russian ones, so that nothing can be refused by it.
_FEW_TRANSLATED, _FEWEST = 0.1, 20
_DICTIONARY = "anchors.dictionary"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anchors:
    """Extra anchors by code-switching.

    Attributes
    ----------
    dictionary: file of word pairs (:mod:`crosslens.readers.dictionary`), used in both directions; a
        third column weighs the translations. "" replaces nothing.
    source, target: languages of its two columns; "" where the recipe has no others.
    rate: probability that a word which the dictionary knows is replaced.
    most: share of a batch's words of a language that are replaced at most.
    """

    dictionary: str = ""
    source: str = ""
    target: str = ""
    rate: float = 0.3
    most: float = 0.15

    def __post_init__(self) -> None:
        check_numbers(self, "anchors.")

    def pair(self, languages: Sequence[str]) -> tuple[str, str]:
        """The languages of the two columns, in a recipe of these.

        Raises
        ------
        InputError: they are not named, and are not the only two; or the recipe lacks one.

        >>> Anchors(dictionary="en-fr.txt").pair(["eng", "fra"])
        ('eng', 'fra')
        """
        if not (self.source or self.target) and len(languages) == 2:
            return languages[0], languages[1]
        named = (self.source, self.target)
        if self.source == self.target or not set(named) <= set(languages):
            got = f"{self.source!r}, {self.target!r}"
            remedy = "name the languages of the dictionary's columns"
            refuse("anchors.source, anchors.target", f"two of {', '.join(languages)}", got, remedy)
        return named


@dataclasses.dataclass
class AnchorCounts:
    """What was replaced in some batches.

    Attributes
    ----------
    words, known, replaced: words and marks, those that the dictionary knows, and those that were
        replaced.
    highest: the largest share that was replaced in one batch.

    >>> counts = AnchorCounts()
    >>> counts.add([(60, 30, 9), (40, 10, 3)])
    >>> counts.told()["of_known"], counts.told()["of_words"]
    (0.3, 0.12)
    """

    words: int = 0
    known: int = 0
    replaced: int = 0
    highest: float = 0.0

    def add(self, batch: Iterable[tuple[int, int, int]]) -> None:
        """Count one batch: words, known and replaced ones of each of its languages."""
        words, known, replaced = (sum(side) for side in zip((0, 0, 0), *batch, strict=True))
        self.words, self.known = self.words + words, self.known + known
        self.replaced += replaced
        self.highest = max(self.highest, replaced / words if words else 0.0)

    def told(self) -> dict[str, Any]:
        """The numbers with the realised rates, as a run keeps them."""
        return {
            **dataclasses.asdict(self),
            "of_known": round(self.replaced / max(1, self.known), 4),
            "of_words": round(self.replaced / max(1, self.words), 4),
        }


def check_anchors(
    anchors: Anchors, languages: Sequence[str], units: str, mode: str, masking: Masking
) -> None:
    """Refuse anchors that do not go with a recipe's languages, rows, vocabulary or masks.

    Parameters
    ----------
    units, mode: of the recipe, and of its vocabulary.

    Raises
    ------
    InputError: as said.
    """
    if not anchors.dictionary:
        if anchors != Anchors():
            expected = "a file of word pairs, which anchors' other settings are about"
            refuse(_DICTIONARY, expected, "none", "name one, or leave these out")
        return
    anchors.pair(languages)
    if units not in ("sentences", "stream"):
        refuse(
            "units", "sentences or stream where there are anchors", units, "choose one of the two"
        )
    if mode == "separate":
        expected = "ids that languages share where there are anchors (joint, union or disjoint)"
        refuse("vocabulary.mode", expected, mode, "choose one of them")
    if masking.exponent and masking.counted == "language":
        got = "language, in which a word of another language never occurs"
        refuse("masking.counts", "joint where there are anchors", got, 'set masking.counts="joint"')


def weighted_dictionary(path: str | Path) -> Dictionary:
    """A dictionary whose scores, where it has them, are weights of translations.

    Raises
    ------
    InputError: it cannot be read, or a score is not above 0.
    """
    dictionary = read_dictionary(path)
    for pair, score in zip(dictionary.pairs, dictionary.scores or (), strict=False):
        if score <= 0:
            got, remedy = f"{score:g} of {' '.join(pair)!r}", "leave out what must not be"
            refuse(str(path), "scores above 0, as weights of translations", got, remedy)
    return dictionary


def check_dictionary(
    anchors: Anchors, languages: Sequence[str], corpora: Mapping[str, Mapping[str, Corpus]]
) -> None:
    """Refuse a dictionary of which no word stands in the text of its language, or no translation of
    one that does, or one that is of the other direction.

    Raises
    ------
    InputError: as said; or the dictionary cannot be read.
    """
    pair, dictionary = anchors.pair(languages), weighted_dictionary(anchors.dictionary)
    texts = [
        itertools.chain.from_iterable(
            source[language].sentences for source in corpora.values() if language in source
        )
        for language in pair
    ]
    check_direction(dictionary.pairs, pair, *texts)


def check_direction(
    pairs: Sequence[tuple[str, str]],
    languages: tuple[str, str],
    first: Iterable[str],
    second: Iterable[str],
    *,
    name: str = _DICTIONARY,
) -> None:
    """Pass if words of a dictionary stand in the texts of their languages, and not twice as many of
    them in the other's, and if a translation of one that is known stands in the other text. Where
    few do, that is said: it may be a dictionary of another language.

    Nothing is said of translations where the second text has no spaces between its words.

    Parameters
    ----------
    pairs: a word of the first language and one of the second. first, second: sentences of each.
    name: what the dictionary is called in a refusal.

    Raises
    ------
    InputError: as said.

    >>> check_direction([("cat", "chat")], ("eng", "fra"), ["A cat."], ["Un chat."])
    """
    sides = [set(side) for side in zip(*pairs, strict=True)]
    wanted = sides[0].union(*map(str.split, sides[1]), sides[1])
    texts = [_all_words(text) for text in (first, second)]
    seen = [_found(words, wanted) for words in texts]
    straight = [len(side & here.keys()) for side, here in zip(sides, seen, strict=True)]
    turned = [len(side & here.keys()) for side, here in zip(sides[::-1], seen, strict=True)]
    if sum(straight) and sum(turned) <= 2 * sum(straight):
        if not is_unspaced(texts[1]):
            _check_translations(pairs, languages, *seen, name=name)
        return
    expected = f"words of {languages[0]}, each with one of {languages[1]}"
    got = f"{straight[0]} and {straight[1]} of {len(pairs)} that stand in their texts"
    if sum(turned):
        got += f", {turned[0]} and {turned[1]} the other way round"
    remedy = "exchange its columns, or check languages and case"
    refuse(name, expected, got, remedy)


def _check_translations(
    pairs: Sequence[tuple[str, str]],
    languages: tuple[str, str],
    first: Collection[str],
    second: Collection[str],
    *,
    name: str,
) -> None:
    """Refuse a dictionary none of whose known words has a translation among those of the second
    text, and say so where few have; names and such, which are the same on both sides, tell nothing.
    """
    known = {a for a, b in pairs if a in first and a != b}
    found = {a for a, b in pairs if a in known and all(one in second for one in b.split())}
    if known and not found:
        expected = f"translations that stand in the text of {languages[1]}"
        got = f"none of those of {len(known):,} words of {languages[0]}"
        remedy = f"check that it is a dictionary of {languages[1]}, and its case"
        refuse(name, expected, got, remedy)
    if len(known) >= _FEWEST and len(found) < _FEW_TRANSLATED * len(known):
        say(
            f"{name}: {len(known):,} words of {languages[0]} are known, of {len(found):,} "
            f"a translation stands in the text of {languages[1]}: is it a dictionary of {languages[1]}?"
        )


def counted_words(sentences: Iterable[str], wanted: Collection[str]) -> Counter[str]:
    """How often each of these words stands in a text, by itself or before a mark of punctuation.

    >>> sorted(counted_words(["Un chat, un chien, un chat."], {"chat", "chien", "cat"}).items())
    [('chat', 2), ('chien', 1)]
    """
    return _found(_all_words(sentences), wanted)


def _all_words(sentences: Iterable[str]) -> Counter[str]:
    """How often each word of a text comes, as white space divides it."""
    words = Counter[str]()
    for sentence in sentences:
        words.update(sentence.split())
    return words


def _found(words: Mapping[str, int], wanted: Collection[str]) -> Counter[str]:
    cut, found = pre_tokenizers.Punctuation(), Counter[str]()
    for word, n in words.items():
        for one in {word, cut.pre_tokenize_str(word)[0][0]}:
            if one in wanted:
                found[one] += n
    return found


class WordSwitch:
    """Replaces words in batches of ids.

    Parameters
    ----------
    languages: all languages of the recipe, in its order.
    vocabularies: how their words become ids; ids are shared.
    room: most tokens of a row, marks included.
    whole: rows are whole sentences: what makes one longer than that is not replaced. Otherwise they
        are stretches of text, and are cut to it.

    Raises
    ------
    InputError: no word of the dictionary can be written in the vocabularies' subwords.
    """

    def __init__(
        self,
        anchors: Anchors,
        languages: Sequence[str],
        vocabularies: Vocabularies,
        *,
        room: int,
        whole: bool,
    ) -> None:
        self.languages, self.room, self.whole = tuple(languages), room, whole
        source, target = anchors.pair(languages)
        dictionary = weighted_dictionary(anchors.dictionary)
        turned = dataclasses.replace(dictionary, pairs=[(b, a) for a, b in dictionary.pairs])
        self._switches: dict[int, CodeSwitch[tuple[int, ...]]] = {}
        self._starts: dict[int, np.ndarray] = {}
        for (a, b), told in (((source, target), dictionary), ((target, source), turned)):
            if found := _in_subwords(told, a, b, vocabularies):
                number = languages.index(a)
                self._switches[number] = CodeSwitch(found, rate=anchors.rate, most=anchors.most)
                self._starts[number] = vocabularies.starts(a)
        if not self._switches:
            expected = f"words that the subwords of {source} and {target} can write"
            got = f"{len(dictionary)} pairs of which none is so, or each is a word and itself"
            refuse(_DICTIONARY, expected, got, "check languages and direction")

    def __call__(
        self, batch: Batch, rng: np.random.Generator
    ) -> tuple[Batch, dict[str, tuple[int, int, int]]]:
        """A batch with some words replaced; and of each language its words, its known words and how
        many were replaced.

        Rows keep their order and language; the languages' rows are code-switched one after the
        other, each within its own limit.
        """
        rows = [row[:length].tolist() for row, length in zip(batch.ids, batch.lengths, strict=True)]
        counts: dict[str, tuple[int, int, int]] = {}
        for number in sorted(self._switches):
            mine = np.flatnonzero(batch.languages[:, 0] == number).tolist()
            bounds = [_words(np.array(rows[i]), self._starts[number]) for i in mine]
            sentences = [
                [tuple(rows[i][a:b]) for a, b in found]
                for i, found in zip(mine, bounds, strict=True)
            ]
            switched = self._switches[number](sentences, rng)
            replaced = 0
            places: dict[int, list[int]] = {}
            for sentence, word in switched.places:
                places.setdefault(sentence, []).append(word)
            for sentence, which in places.items():
                i = mine[sentence]
                rows[i], kept = self._rewritten(
                    rows[i], bounds[sentence], switched.sentences[sentence], which
                )
                replaced += kept
            counts[self.languages[number]] = switched.words, switched.known, replaced
        return _laid_out(rows, batch), counts

    def _rewritten(
        self,
        row: list[int],
        bounds: Sequence[tuple[int, int]],
        words: Sequence[tuple[int, ...]],
        which: list[int],
    ) -> tuple[list[int], int]:
        """A row with the words ``which`` written anew, and how many of them there was room for: a
        row of a stream is cut at its end, where translations are longer."""
        longer = [len(words[j]) - (bounds[j][1] - bounds[j][0]) for j in which]
        while self.whole and which and len(row) + sum(longer) > self.room:
            which, longer = which[:-1], longer[:-1]
        found, at, there = [], 0, 0
        for j in which:
            found += row[at : bounds[j][0]]
            there += len(found) < self.room
            found += words[j]
            at = bounds[j][1]
        return [*found, *row[at:]][: self.room], there


def _in_subwords(
    dictionary: Dictionary, a: str, b: str, vocabularies: Vocabularies
) -> dict[tuple[int, ...], dict[tuple[int, ...], float]]:
    """A dictionary from a to b in the model's ids: pairs that both vocabularies can write, and
    whose first side is one word of a text, but for those that would replace a word by itself."""
    starts, pairs, weights = vocabularies.starts(a), [], []
    sides = [
        [
            tuple(vocabularies.tables[language][ids].tolist())
            for ids in (
                one.ids
                for one in vocabularies.tokenizers[language].encode_batch(
                    [pair[side] for pair in dictionary.pairs], add_special_tokens=False
                )
            )
        ]
        for side, language in enumerate((a, b))
    ]
    scores = dictionary.scores or [1.0] * len(dictionary)
    for word, translation, weight in zip(*sides, scores, strict=True):
        written = word and translation and _UNKNOWN not in word and _UNKNOWN not in translation
        if written and word != translation and starts[list(word)].sum() == 1:
            pairs.append((word, translation))
            weights.append(weight)
    return translations_of(pairs, weights)


def _words(row: np.ndarray, starts: np.ndarray) -> list[tuple[int, int]]:
    """Where the whole words of a row begin and end: not those at its edges, which may go on
    beyond."""
    bounds = np.flatnonzero(starts[row] | (row < _SPECIAL))
    begins, ends = bounds[:-1], bounds[1:]  # the last bound has no end within the row
    inner = (begins > 0) & (row[begins] >= _SPECIAL)
    return list(zip(begins[inner].tolist(), ends[inner].tolist(), strict=True))


def _laid_out(rows: Sequence[Sequence[int]], batch: Batch) -> Batch:
    """Rows as one padded array, as wide as the longest, in the languages of the batch's rows."""
    lengths = np.array([len(row) for row in rows])
    ids, positions = lay_out(lengths)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    languages = np.repeat(batch.languages[:, :1], ids.shape[1], axis=1)
    return Batch(ids, positions, lengths, languages)
