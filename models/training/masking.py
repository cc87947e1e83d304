"""Which tokens a masked language model must predict, and what it sees in their place.

15 % of the tokens are chosen; of these 80 % become the mask token, 10 % a random
token and 10 % stay (Devlin et al. 2019, § 3.1). Special tokens are never chosen.
How many are chosen, which ones, and where the random tokens come from are options,
among them those of Conneau & Lample (2019), whose program chooses rare subwords more
often. The draw is a pure function of the generator that is passed: a run that makes
one from (seed, step) masks after a resume as the undisturbed run would have.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from crosslens.errors import check_choice, refuse
from crosslens.models.limits import check_numbers

__all__ = ["Masker", "Masking", "Pieces", "choose_masked", "draw_weighted"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking:
    """How tokens are masked.

    Attributes
    ----------
    rate: share of the ordinary tokens of a batch that is predicted.
    masked, random: shares of these that become the mask token and a random token; the rest stays.
    count: "exact" picks exactly ceil(rate * candidates) tokens of the batch; "bernoulli" picks each
        with probability rate; "xlm" draws ceil(rate * positions) tokens, padding counted, gives
        back those at the first position of a row and cuts the number to a multiple of 8 (fewer than
        8 stay), as the program of Conneau & Lample (2019) does with its exponent of 0.5. (That
        program cuts in half precision alone, and with exponent 0 picks as "bernoulli" does.)
    exponent: tokens are sampled without replacement with weight (occurrences of their subword in its
        language) ** -exponent: 0 draws evenly, 0.5 (which Conneau & Lample used) a subword that is
        100 times as rare 10 times as readily. Subwords that never occur are never drawn.
    counts: whose occurrences the exponent is about: those in the token's own "language", or in all
        of them ("joint", as the program of Conneau & Lample counts them in its one dictionary;
        where languages have ids of their own, it is the same). None: "joint" with count xlm, else
        "language".
    scope: where random tokens come from: the subwords of "all" languages; those that occur in the
        token's own "language"; or in the "original", the language that the token's is a copy of (as
        the program of Deshpande et al. 2022), which is the own one where it is no copy.
    whole_words: choose words, not subwords; with "exact" a word that would exceed the number is left
        out, but one is always chosen.
    protect_first: never choose the first position of a row (which "xlm" implies).
    """

    rate: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    count: str = "exact"
    exponent: float = 0.0
    counts: str | None = None
    scope: str = "all"
    whole_words: bool = False
    protect_first: bool = False

    def __post_init__(self) -> None:
        check_numbers(self, "masking.")
        # where all stay, the answer stands in the text and nothing is learnt
        if not 0 < self.masked + self.random <= 1 + 1e-9:
            got = f"{self.masked} + {self.random}"
            remedy = "0.8 and 0.1 are usual"
            refuse("masking.masked + masking.random", "above 0, and at most 1", got, remedy)
        check_choice(self.count, "masking.count", ("exact", "bernoulli", "xlm"))
        check_choice(self.counts, "masking.counts", (None, "language", "joint"))
        check_choice(self.scope, "masking.scope", ("all", "language", "original"))
        if self.exponent and self.count == "bernoulli":
            remedy = "weights need a number to sample: choose exact or xlm"
            refuse("masking.exponent", "0 with count bernoulli", repr(self.exponent), remedy)
        if self.whole_words and (self.exponent or self.count == "xlm"):
            got = "count xlm" if self.count == "xlm" else f"exponent {self.exponent}"
            remedy = "weights and xlm's number are about subwords"
            refuse("masking.whole_words", "exponent 0 and count exact or bernoulli", got, remedy)

    def number_of(self, n: int) -> int:
        """ceil(rate * n), though the product in floats may be a little more.

        >>> Masking(rate=0.07).number_of(100), Masking(rate=0.07).number_of(101)
        (7, 8)
        """
        return math.ceil(round(self.rate * n, 9))

    @property
    def counted(self) -> str:
        """Whose occurrences count, "language" or "joint"."""
        return self.counts or ("joint" if self.count == "xlm" else "language")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """What masking must know of the ids that a language's text may hold; three arrays of length
    vocab.

    Attributes
    ----------
    special: True for ids that are never chosen nor drawn as random tokens (padding is one).
    counts: how often each id occurs in the training text of the language.
    starts: True for ids that begin a word.
    """

    special: np.ndarray
    counts: np.ndarray
    starts: np.ndarray

    def __post_init__(self) -> None:
        for name, kinds, expected in (
            ("special", "b", "bool"),
            ("counts", "iu", "integers"),
            ("starts", "b", "bool"),
        ):
            array, n = getattr(self, name), len(self.special)
            if array.dtype.kind not in kinds or array.shape != (n,):
                got = f"{array.dtype} of shape {array.shape}"
                refuse(f"pieces.{name}", f"{n} {expected}", got, "give one value per id")
        if self.counts.min(initial=0) < 0:
            remedy = "count the ids of the training text"
            refuse("pieces.counts", "numbers from 0 up", str(self.counts.min()), remedy)


def choose_masked(candidates: np.ndarray, masking: Masking, rng: np.random.Generator) -> np.ndarray:
    """Sorted choice of the (n,) indices ``candidates``, each as likely; at least one.

    ``masking.count`` "bernoulli" chooses each with probability rate, anything else ceil(rate * n)
    of them.

    Raises
    ------
    InputError: there are no candidates.

    >>> len(choose_masked(np.arange(100), Masking(), np.random.default_rng(0)))
    15
    """
    if len(candidates) == 0:
        refuse(
            "batch", "at least one ordinary token", "only special tokens", "drop empty sentences"
        )
    if masking.count == "bernoulli":
        chosen = candidates[rng.random(len(candidates)) < masking.rate]
        if len(chosen):
            return chosen
    count = 1 if masking.count == "bernoulli" else masking.number_of(len(candidates))
    return np.sort(rng.choice(candidates, size=count, replace=False, shuffle=False))


def draw_weighted(weights: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ``k`` of n items one after the other, none twice, each time in proportion to the weights
    of those that are left.

    Item i gets a waiting time, exponential with rate ``weights[i]``, and the k shortest are taken
    in their order: the same distribution as the k draws (Efraimidis & Spirakis 2006), in one pass.

    Parameters
    ----------
    weights: (n,) numbers above 0; only their ratios matter.
    k: how many, from 1 to n.

    Returns
    -------
    (k,) indices in the order in which they were sampled; the first j of them are a draw of j.

    Raises
    ------
    InputError: k is not from 1 to n, or a weight is not above 0.

    >>> draw_weighted(np.array([1.0, 1e-30, 1.0, 1e30]), 4, np.random.default_rng(0))[[0, -1]].tolist()
    [3, 1]
    """
    if not 1 <= k <= len(weights):
        refuse(
            "k", f"a whole number from 1 to {len(weights)}", str(k), "sample no more than there are"
        )
    if not weights.min() > 0:
        refuse(
            "weights", "numbers above 0", str(weights.min()), "leave out what must never be sampled"
        )
    waits = rng.standard_exponential(len(weights)) / weights
    first = np.argpartition(waits, k - 1)[:k] if k < len(waits) else np.arange(k)
    return first[np.argsort(waits[first])]


class Masker:
    """Masks batches; what follows from the vocabulary is worked out once, at construction.

    Parameters
    ----------
    masking: the options.
    pieces: one for each language. With shared ids all have the same length, and what is special and
        what starts a word is the same.
    mask_id: id of the mask token, a special one (in every language).
    shared_ids: an id means the same subword in all languages. Otherwise each language has its own
        ids, and random tokens come from the token's own language whatever ``masking.scope`` says.
    originals: for each language the one whose subwords scope "original" draws; () for its own.

    Raises
    ------
    InputError: the subwords do not fit each other, the mask token is not special, or a language has
        nothing to draw from.

    >>> vocabulary = Pieces(special=np.arange(20) < 5, counts=np.ones(20, int), starts=np.ones(20, bool))
    >>> masker = Masker(Masking(), [vocabulary], mask_id=4)
    >>> ids = np.array([[0, 7, 8, 9, 1]])
    >>> inputs, masked, labels = masker(ids, np.zeros_like(ids), np.random.default_rng(0))
    >>> len(masked), bool((ids.ravel()[masked] == labels).all())
    (1, True)
    """

    def __init__(
        self,
        masking: Masking,
        pieces: Sequence[Pieces],
        mask_id: int,
        shared_ids: bool = True,
        originals: Sequence[int] = (),
    ) -> None:
        self.masking, self.mask_id = masking, mask_id
        _check_pieces(pieces, mask_id, shared_ids)
        # a token's language matters
        of_language = not shared_ids or bool(masking.exponent) or masking.scope != "all"
        pieces = pieces if of_language else pieces[:1]
        self._sizes = np.array([len(p.special) for p in pieces])
        # where a language's rows of the tables begin
        self._offsets = np.cumsum(self._sizes) - self._sizes if of_language else None
        special, counts = (
            np.concatenate([getattr(p, name) for p in pieces]) for name in ("special", "counts")
        )
        self._starts = np.concatenate([p.starts for p in pieces])
        if shared_ids and masking.counted == "joint":
            counts = np.tile(np.sum([p.counts for p in pieces], axis=0), len(pieces))
        self._eligible = ~special & (counts > 0) if masking.exponent else ~special
        self._weights = (
            np.maximum(counts, 1).astype(float) ** -masking.exponent if masking.exponent else None
        )
        own = masking.scope != "all"
        pools = [np.flatnonzero(~p.special & (p.counts > 0) if own else ~p.special) for p in pieces]
        if shared_ids and not own:
            pools = pools[:1]
        for i, pool in enumerate(pools):
            if not len(pool):
                got = "none" + (" that occurs" if own else "")
                remedy = "leave the language out or give it text"
                refuse(f"pieces[{i}]", "at least one ordinary subword to sample", got, remedy)
        if masking.scope == "original":
            pools = [pools[i] for i in originals or range(len(pools))]
        self._pool = np.concatenate(pools)
        self._pool_sizes = np.array([len(pool) for pool in pools])
        self._pool_begins = np.cumsum(self._pool_sizes) - self._pool_sizes

    def __call__(
        self, ids: np.ndarray, languages: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mask a batch.

        Parameters
        ----------
        ids: (batch, length) token ids.
        languages: (batch, length) index into ``pieces`` of each token's language; of padding, any.
        rng: where the draws come from.

        Returns
        -------
        inputs: (batch, length) what the model sees, a new array.
        masked: (m,) sorted indices into the flattened batch, m at least 1.
        labels: (m,) the original ids there.

        Raises
        ------
        InputError: the batch holds no token that may be chosen, or an id or a language that does
            not exist.
        """
        flat, rows, language = ids.ravel(), ids.ravel(), None
        if self._offsets is not None:
            language = self._check_batch(ids, languages)
            # of the tables, which stand one language after the other
            rows = flat + self._offsets[language]
        masked = self._choose(rows, ids.shape[1], rng)
        labels = flat[masked]
        inputs = flat.copy()
        draw = rng.random(len(masked))
        if len(self._pool_sizes) == 1 or language is None:
            replacements = self._pool[rng.integers(len(self._pool), size=len(masked))]
        else:
            which = language[masked]
            replacements = self._pool[
                self._pool_begins[which] + rng.integers(self._pool_sizes[which])
            ]
        share = self.masking.masked
        inputs[masked] = np.where(
            draw < share,
            self.mask_id,
            np.where(draw < share + self.masking.random, replacements, labels),
        )
        return inputs.reshape(ids.shape), masked, labels

    def _check_batch(self, ids: np.ndarray, languages: np.ndarray) -> np.ndarray:
        """The flattened languages, once ids and languages are known to exist: a wrong one would
        read another language's rows."""
        if languages.shape != ids.shape:
            refuse(
                "languages",
                f"one for each id, shape {ids.shape}",
                f"shape {languages.shape}",
                "give the language of every token",
            )
        flat = languages.ravel()
        if flat.min(initial=0) < 0 or flat.max(initial=0) >= len(self._sizes):
            got = str(flat.min() if flat.min() < 0 else flat.max())
            remedy = "number the languages in the order of the subwords"
            refuse("languages", f"indices from 0 to {len(self._sizes) - 1}", got, remedy)
        limit = self._sizes[flat] if len(set(self._sizes.tolist())) > 1 else self._sizes[0]
        wrong = (ids.ravel() < 0) | (ids.ravel() >= limit)
        if wrong.any():
            at = int(wrong.argmax())
            expected = f"ids below {self._sizes[flat[at]]} in language {flat[at]}"
            refuse(
                "ids", expected, str(ids.ravel()[at]), "use the vocabulary that the subwords are of"
            )
        return flat

    def _choose(self, rows: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
        """Sorted indices of the tokens to predict."""
        free = self._eligible[rows]
        # xlm draws them, and then gives them back
        if self.masking.protect_first and self.masking.count != "xlm":
            free[::length] = False
        candidates = np.flatnonzero(free)
        if len(candidates) == 0:
            self._refuse_batch()
        if self.masking.whole_words:
            return self._choose_words(candidates, free, self._starts[rows], length, rng)
        weights = (
            np.ones(len(candidates)) if self._weights is None else self._weights[rows[candidates]]
        )
        if self.masking.count == "xlm":
            return self._choose_xlm(candidates, weights, len(rows), length, rng)
        if self._weights is not None:
            return np.sort(
                candidates[draw_weighted(weights, self.masking.number_of(len(candidates)), rng)]
            )
        return choose_masked(candidates, self.masking, rng)

    def _refuse_batch(self) -> NoReturn:
        never = [
            name
            for name, told in (
                ("first", self.masking.protect_first),
                ("uncounted", self.masking.exponent),
            )
            if told
        ]
        got = " or ".join(["only special", *never]) + " tokens"
        refuse("batch", "at least one ordinary token", got, "drop empty sentences")

    def _choose_xlm(
        self,
        candidates: np.ndarray,
        weights: np.ndarray,
        positions: int,
        length: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """As Conneau & Lample (2019): the tokens over a multiple of 8 are the last drawn here, the
        first of the batch there."""
        count = min(self.masking.number_of(positions), len(candidates))
        drawn = candidates[draw_weighted(weights, count, rng)]
        kept = drawn[drawn % length > 0]
        # a tiny batch: what was sampled stands first in its row, so another token is sampled among the
        # others
        if not len(kept):
            inner = candidates % length > 0
            if not inner.any():
                expected = "an ordinary token after the first position of a row"
                refuse("batch", expected, "none", "drop empty sentences")
            kept = candidates[inner][draw_weighted(weights[inner], 1, rng)]
        return np.sort(kept[: len(kept) // 8 * 8] if len(kept) >= 8 else kept)

    def _choose_words(
        self,
        candidates: np.ndarray,
        free: np.ndarray,
        begins: np.ndarray,
        length: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """All subwords of words sampled evenly; whatever follows a special token, or the edge of a row,
        begins a word."""
        begins[::length] = True
        begins[1:] |= ~free[:-1]
        word = np.cumsum(begins[candidates]) - 1
        sizes = np.bincount(word)
        if self.masking.count == "bernoulli":
            chosen = choose_masked(np.arange(len(sizes)), self.masking, rng)
        else:
            order = rng.permutation(len(sizes))
            chosen = order[_fill(sizes[order], self.masking.number_of(len(candidates)))]
        taken = np.zeros(len(sizes), bool)
        taken[chosen] = True
        return candidates[taken[word]]


def _fill(sizes: np.ndarray, room: int) -> np.ndarray:
    """Which items are packed when they come in this order and those for which there is no room are
    passed over; at least the first."""
    ends = np.cumsum(sizes)
    at = int(np.searchsorted(ends, room, side="right"))
    packed = [np.arange(at)]
    room -= int(ends[at - 1]) if at else 0
    # each turn packs an item, so there are few: the room left is less than the size of a word
    while room > 0:
        fits = sizes[at:] <= room
        if not fits.any():
            break
        at += int(fits.argmax())
        packed.append(np.array([at]))
        room -= int(sizes[at])
        at += 1
    return np.concatenate(packed) if len(packed) > 1 or len(packed[0]) else np.array([0])


def _check_pieces(pieces: Sequence[Pieces], mask_id: int, shared_ids: bool) -> None:
    if not pieces:
        refuse("pieces", "one record per language", "none", "give those of every language")
    for i, other in enumerate(pieces):
        if shared_ids:
            for name in ("special", "starts"):
                if not np.array_equal(getattr(other, name), getattr(pieces[0], name)):
                    remedy = (
                        "ids that all languages share mean the same in each; or pass "
                        "shared_ids=False"
                    )
                    refuse(f"pieces[{i}].{name}", "that of the first language", "another", remedy)
        if not 0 <= mask_id < len(other.special) or not other.special[mask_id]:
            got = (
                "an ordinary one"
                if 0 <= mask_id < len(other.special)
                else f"none of the {len(other.special)}"
            )
            expected = f"a special id of language {i}"
            refuse("mask_id", expected, f"{mask_id}, {got}", "give the id of the mask token")
