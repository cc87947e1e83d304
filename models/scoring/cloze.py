"""How likely a language model holds a sentence, or a word in its place: scores of blanks and of
whole sentences.

    single mask         log P(candidate | sentence with one [MASK]): Goldberg 2019, Assessing BERT's
                        Syntactic Abilities
    pll                 sum over subwords of log P(subword | sentence with this subword masked): Salazar
                        et al. 2020, equation 1
    pll_word_l2r        the same, with the later subwords of the same word masked, too: Kauf & Ivanova
                        2023, § 3 (PLL-word-l2r)
    log_likelihood      sum over subwords of log P(subword | subwords before it), for causal models

Logarithms are natural. Special tokens are never masked nor scored. In sums over a sentence each
copy with its blank is one input of the encoder; equal copies are computed once, inputs of one
length share a batch, so that none is padded, and the head and the softmax are computed at the
blanks alone.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from crosslens.errors import check_choice, refuse
from crosslens.models.machine.threads import in_order
from crosslens.models.scoring.cloze_model import (
    LanguageModel,
    NativeLanguageModel,
    load_language_model,
)
from crosslens.models.text.tokenisation import tokenised
from crosslens.one_line import one_line
from crosslens.progress import Progress
from crosslens.readers.words import whitespace_spans

__all__ = [
    "OUTPUTS",
    "SENTENCE_METHODS",
    "ClozeScorer",
    "SentenceScores",
    "Tokenised",
    "load_scorer",
]

SENTENCE_METHODS = ("pll", "pll_word_l2r", "log_likelihood")
OUTPUTS = ("log_probability", "logit")
_BATCH_TOKENS = {"cpu": 512, "cuda": 32_768}  # a CPU is fastest with what its caches hold
# of the inputs that are sorted by length, and compared with each other, together: 8 MB
_BLOCK_TOKENS = 1 << 20


class Tokenised(NamedTuple):
    """A sentence as a model sees it; l tokens, special ones included.

    Attributes
    ----------
    ids: (l,) token ids.
    spans: (l, 2) first character of each token and the one behind its last; (0, 0) for special
        tokens.
    unknown: (l,) whether the token stands for characters that the vocabulary does not have.
    words: (l,) number of the word that the token is in, or begins in; -1 for special tokens. A word
        is what the tokeniser itself holds for one, and never more than what stands between white
        space.
    """

    ids: Int[np.ndarray, " l"]
    spans: Int[np.ndarray, "l 2"]
    unknown: Bool[np.ndarray, " l"]
    words: Int[np.ndarray, " l"]


@dataclasses.dataclass(frozen=True, eq=False)
class SentenceScores:
    """Scores of n sentences.

    Attributes
    ----------
    total: (n,) natural logarithms, at most 0; higher is likelier. NaN where a subword of the sentence
        is unknown: the probability of "something that I do not know" is no score of what is written
        there.
    pieces: (n,) number of subwords in each sum.
    by_piece: for each sentence the score of each of its subwords, float32; their sum is the total
        where there is one.
    spans: for each sentence the characters (start, end) of these subwords.
    words: for each sentence the number of each subword's word.
    """

    total: Float[np.ndarray, " n"]
    pieces: Int[np.ndarray, " n"]
    by_piece: list[np.ndarray]
    spans: list[np.ndarray]
    words: list[np.ndarray]

    __repr__ = one_line

    def by_word(self, i: int) -> Float[np.ndarray, " words"]:
        """The scores of the words of sentence ``i``, each the sum over its subwords."""
        return np.bincount(
            np.unique(self.words[i], return_inverse=True)[1], self.by_piece[i].astype(np.float64)
        )


class _Blanks(NamedTuple):
    """What is asked about one text: its inputs of one length, (s, l), and k questions: which input,
    which place, which token id."""

    ids: np.ndarray
    which: np.ndarray
    places: np.ndarray
    columns: np.ndarray


class ClozeScorer:
    """Scores sentences and candidates with a language model.

    Attributes
    ----------
    model: the language model, its name and fingerprint among what it tells.
    methods: which of the methods above it can do.
    start_id: the token that causal models are given before the first subword, so that this has a
        score, too: the one that begins a text (BOS), or, where there is none, the one that ends it.
        None for masked models.

    Raises
    ------
    InputError: a causal model has neither token.
    """

    def __init__(self, model: LanguageModel | NativeLanguageModel) -> None:
        self.model = model
        self.methods = (
            ("log_likelihood",) if model.causal else ("single_mask", "pll", "pll_word_l2r")
        )
        self.start_id: int | None = None
        tokenizer = model.tokenizer
        if model.causal:
            self.start_id = (
                tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
            )
            if self.start_id is None:
                remedy = "name one in tokenizer_config.json (bos_token)"
                expected = "a token that begins or ends a text, to condition the first subword on"
                refuse(f"encoder {model.name}", expected, "none", remedy)
        self._batch_tokens = _BATCH_TOKENS.get(model.device.type, _BATCH_TOKENS["cpu"])

    def tokenise(self, sentences: Sequence[str]) -> list[Tokenised]:
        """The tokens of each sentence, special ones included.

        Raises
        ------
        InputError: a sentence has no subword, is longer than the model's longest input, or holds one
            of the tokeniser's special tokens as text; the message names it by its number, from 0.
        """
        return list(self._pieces(sentences, 0))

    def score_sentences(self, sentences: Sequence[str], method: str = "pll") -> SentenceScores:
        """Score whole sentences.

        Parameters
        ----------
        method: "pll" or "pll_word_l2r" for masked models, "log_likelihood" for causal ones.

        Raises
        ------
        InputError: no such method, one that this model cannot do, or as for :meth:`tokenise`.
        """
        self._check_method(method, SENTENCE_METHODS)
        pieces: list[Tokenised] = []

        def asked() -> Iterator[_Blanks]:
            for first in range(0, len(sentences), 1024):  # the tokeniser splits many at a time
                for one in self._pieces(sentences[first : first + 1024], first):
                    pieces.append(one)
                    yield self._blanks(one, method)

        found = self._answers(
            asked(), len(sentences), "scoring sentences", "sentences", "log_probability"
        )
        real = [np.flatnonzero(one.words >= 0) for one in pieces]
        known = np.array([not one.unknown.any() for one in pieces], bool)
        total = np.array([scores.sum(dtype=np.float64) for scores in found], np.float64)
        return SentenceScores(
            total=np.where(known, total, np.nan),
            pieces=np.array([len(scores) for scores in found], np.int64),
            by_piece=found,
            spans=[one.spans[where] for one, where in zip(pieces, real, strict=True)],
            words=[one.words[where] for one, where in zip(pieces, real, strict=True)],
        )

    def score_candidates(
        self,
        texts: Sequence[np.ndarray],
        places: Sequence[int],
        candidates: Sequence[Sequence[int]],
        *,
        output: str = "log_probability",
    ) -> list[Float[np.ndarray, " candidates"]]:
        """Score the candidates for one place of each text, which is masked (Goldberg 2019).

        Parameters
        ----------
        texts: n texts as token ids, special tokens included, as :meth:`tokenise` gives them.
        places: for each text the place to be masked.
        candidates: for each text the token ids to be compared there.
        output: "log_probability" (natural logarithm), or "logit" for what goes into the softmax,
            which bert-syntax compares. Both put the candidates of one place in the same order.

        Returns
        -------
        For each text the scores of its candidates, float32.

        Raises
        ------
        InputError: a causal model, no such output, a text that is too long or has other ids, or a
            place or a candidate that does not exist.
        """
        self._check_method("single_mask", ("single_mask",))
        check_choice(output, "output", OUTPUTS)
        if not len(texts) == len(places) == len(candidates):
            got = f"{len(places)} places and {len(candidates)} times candidates"
            expected = f"one for each of {len(texts)} texts"
            refuse("places, candidates", expected, got, "give every text both")

        def asked() -> Iterator[_Blanks]:
            for number, (ids, place, columns) in enumerate(
                zip(texts, places, candidates, strict=True)
            ):
                ids = np.asarray(ids)
                if len(ids) > self.model.max_length:
                    expected = f"at most {self.model.max_length} tokens"
                    refuse("texts", expected, f"{len(ids)} in text {number}", "shorten it")
                if ((ids < 0) | (ids >= self.model.vocabulary)).any():
                    expected = f"token ids from 0, below {self.model.vocabulary}"
                    refuse("texts", expected, f"others in text {number}", "tokenise it")
                if not 0 <= place < len(ids):
                    expected = f"a place in text {number} ({len(ids)} tokens)"
                    refuse("places", expected, repr(place), "count its tokens from 0")
                if not all(0 <= column < self.model.vocabulary for column in columns):
                    expected = f"ids below {self.model.vocabulary}"
                    remedy = "give token ids"
                    refuse(f"candidates of text {number}", expected, repr(list(columns)), remedy)
                copy = np.array(ids, np.int64)[None]
                copy[0, place] = self.model.tokenizer.mask_token_id
                yield _Blanks(
                    copy,
                    np.zeros(len(columns), np.int64),
                    np.full(len(columns), place),
                    np.array(columns, np.int64),
                )

        return self._answers(asked(), len(texts), "filling blanks", "blanks", output)

    def _check_method(self, method: str, known: Sequence[str]) -> None:
        check_choice(method, "method", known)
        if method not in self.methods:
            kind = "a causal" if self.model.causal else "a masked"
            expected = f"one for {kind} model ({', '.join(self.methods)})"
            refuse("method", expected, repr(method), "choose one of these, or another model")

    def _pieces(self, sentences: Sequence[str], first: int) -> Iterator[Tokenised]:
        """Tokenise sentences that are numbered from ``first``."""
        if isinstance(sentences, str):
            refuse("sentences", "a list of sentences", "a single text", "put it into a list")
        if not len(sentences):
            return
        tokenizer = self.model.tokenizer
        found = tokenised(self.model.name, tokenizer, list(sentences), verbose=False)
        special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        for i, sentence in enumerate(sentences):
            encoding = found[i]
            yield self._checked(sentence, f"sentence {first + i}", encoding, special)

    def _checked(self, sentence: str, where: str, encoding: Any, special: set[int]) -> Tokenised:
        """The subwords of one sentence, which must be text that the model can take whole."""
        ids = np.array(encoding.ids, np.int64)
        spans = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        # by the tokeniser, around the sentence
        added = np.array(encoding.special_tokens_mask, bool)
        if self.start_id is not None and not (added.size and added[0] and ids[0] == self.start_id):
            ids, spans = np.r_[self.start_id, ids], np.r_[[[0, 0]], spans]
            added = np.r_[True, added]
            numbers = [None, *encoding.word_ids]
        else:
            numbers = encoding.word_ids
        spans[added] = 0
        if added.all():
            expected = "a sentence with at least one subword"
            refuse(where, expected, repr(sentence), "remove or replace it")
        if len(ids) > self.model.max_length:
            got = f"{len(ids)} ({sentence[:60]!r} ...)"
            expected = f"at most {self.model.max_length} tokens"
            refuse(where, expected, got, "shorten it; nothing is cut silently")
        for place in np.flatnonzero(~added).tolist():
            if int(ids[place]) in special:
                refuse(
                    where,
                    "text",
                    f"the special token {sentence[slice(*spans[place])]!r} in it",
                    "remove it",
                )
        self.model.encoder.check_ids(ids)
        unknown = (ids == self.model.tokenizer.unk_token_id) & ~added
        return Tokenised(ids, spans, unknown, _word_numbers(sentence, spans, numbers, added))

    def _blanks(self, one: Tokenised, method: str) -> _Blanks:
        """A sentence's copies with their blanks, and what to ask about them: each subword once, in
        order."""
        places = np.flatnonzero(one.words >= 0)
        targets = one.ids[places]
        # what stands behind the sentence (an EOS that a tokeniser adds) is not scored
        if method == "log_likelihood":
            return _Blanks(one.ids[None], np.zeros(len(places), np.int64), places - 1, targets)
        copies = np.repeat(one.ids[None], len(places), 0)
        words = one.words[places]
        blank = places[:, None] == places
        if method == "pll_word_l2r":
            blank |= (words[:, None] == words) & (places > places[:, None])
        copies[:, places] = np.where(blank, self.model.tokenizer.mask_token_id, targets)
        return _Blanks(copies, np.arange(len(places)), places, targets)

    def _answers(
        self, asked: Iterable[_Blanks], total: int, label: str, unit: str, output: str
    ) -> list[np.ndarray]:
        """The scores that answer each text's questions, in order, block by block."""
        answers: list[np.ndarray] = []
        block: list[_Blanks] = []
        tokens = 0
        with Progress(total, label, unit) as progress:
            for one in asked:
                block.append(one)
                tokens += one.ids.size
                if tokens >= _BLOCK_TOKENS:
                    answers += self._block(block, output, progress)
                    block, tokens = [], 0
            if block:
                answers += self._block(block, output, progress)
        return answers

    def _block(self, block: list[_Blanks], output: str, progress: Progress) -> list[np.ndarray]:
        """The answers of some texts; those of one length are computed together."""
        answers: list[np.ndarray] = [np.zeros(0, np.float32)] * len(block)
        lengths = np.array([one.ids.shape[1] for one in block])
        mine = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        groups = [_SameLength([block[i] for i in some], output) for some in mine]
        tasks = ((group, some) for group in groups for some in group.batches(self._batch_tokens))
        left = [len(group.batches(self._batch_tokens)) for group in groups]
        with contextlib.closing(in_order(_answer, self.model, tasks)) as done:
            number = 0
            for _ in done:
                left[number] -= 1
                if not left[number]:
                    for i, values in zip(mine[number], groups[number].by_text(), strict=True):
                        answers[i] = values
                    progress.add(len(mine[number]))
                    number += 1
        return answers


class _SameLength:
    """Texts whose inputs have one length; equal inputs, and equal places in them, are computed
    once."""

    def __init__(self, texts: list[_Blanks], output: str) -> None:
        self._output = output
        self._ends = np.cumsum([len(one.which) for one in texts])
        first = np.cumsum([0, *(len(one.ids) for one in texts)])
        ids = np.concatenate([one.ids for one in texts])
        which = np.concatenate(
            [one.which + start for one, start in zip(texts, first, strict=False)]
        )
        self._columns = np.concatenate([one.columns for one in texts])
        self._length = ids.shape[1]
        as_bytes = np.ascontiguousarray(ids).view(
            np.dtype((np.void, ids.dtype.itemsize * self._length))
        )[:, 0]
        _, chosen, input_of = np.unique(as_bytes, return_index=True, return_inverse=True)
        places = np.concatenate([one.places for one in texts])
        self._points, point_of = np.unique(
            input_of[which] * self._length + places, return_inverse=True
        )
        self._order = np.argsort(point_of, kind="stable")
        self._asked_of = point_of[self._order]
        self._inputs, self._values = torch.from_numpy(ids[chosen]), np.empty(len(which), np.float32)

    def batches(self, tokens: int) -> list[slice]:
        """The inputs, so many tokens at a time."""
        step = max(1, tokens // self._length)
        return [slice(start, start + step) for start in range(0, len(self._inputs), step)]

    def answer(self, model: LanguageModel | NativeLanguageModel, inputs: slice) -> None:
        """Fill in what is asked about some inputs."""
        length = self._length
        low, high = np.searchsorted(self._points, [inputs.start * length, inputs.stop * length])
        here = torch.from_numpy(self._points[low:high])
        for some, scores in model.scores_at(
            self._inputs[inputs], here // length - inputs.start, here % length
        ):
            begin, end = np.searchsorted(self._asked_of, [low + some.start, low + some.stop])
            questions = self._order[begin:end]
            rows = torch.from_numpy(self._asked_of[begin:end] - (low + some.start)).to(
                scores.device
            )
            picked = scores[rows, torch.from_numpy(self._columns[questions]).to(scores.device)]
            if self._output == "log_probability":
                picked = picked - torch.logsumexp(scores, 1)[rows]
            self._values[questions] = picked.cpu().numpy()

    def by_text(self) -> list[np.ndarray]:
        """The scores that answer each text's questions."""
        return np.split(self._values, self._ends[:-1])


@torch.inference_mode()
def _answer(model: LanguageModel | NativeLanguageModel, task: tuple[_SameLength, slice]) -> None:
    group, inputs = task
    group.answer(model, inputs)


def load_scorer(
    name: str,
    *,
    trust_remote_code: bool = False,
    random_seed: int | None = None,
    device: str = "cpu",
    language: str | None = None,
) -> ClozeScorer:
    """Load a language model to score sentences with: any masked or causal one that transformers
    loads.

    Parameters
    ----------
    name: a folder, or a hub name. Of a model of several languages trained here, a view:
        ``views/LANGUAGE`` in its run's folder.
    trust_remote_code: run the Python code that the folder brings for its model or its tokeniser.
    random_seed: when given, the weights are sampled anew from this seed, as the architecture
        prescribes (the control).
    device: "cpu", "cuda", "cuda:1" or "mps".
    language: the language of all sentences, for a model that is told it (XLM), which needs one;
        others take none.

    Raises
    ------
    InputError: it cannot be loaded, has no language model's head (a head at random would be none),
        is no model of a single language, lacks the language, wants code of its own to be run, or
        its tokeniser has no mask token (or, if it is causal, no token that begins or ends a text).

    >>> import importlib.resources
    >>> scorer = load_scorer(str(importlib.resources.files("crosslens") / "data" / "tiny-encoder"))
    >>> found = scorer.score_sentences(["The house is old.", "The house are old."])
    >>> found.total.shape, found.pieces.tolist(), bool(found.total[0] > found.total[1])
    ((2,), [5, 5], True)
    """
    loading: dict[str, Any] = {
        "trust_remote_code": trust_remote_code,
        "device": device,
        "language": language,
    }
    model = load_language_model(name, random_seed=random_seed, **loading)
    return ClozeScorer(model)


def _word_numbers(
    sentence: str, spans: np.ndarray, numbers: Sequence[int | None], added: np.ndarray
) -> np.ndarray:
    """(l,) the word of each token, counted from 0, and -1 for special tokens.

    A new word begins where the tokeniser's own word changes (punctuation, in BERT) or white space
    stands between two subwords; the latter, because some tokenisers (XLM-R) hold a whole sentence for
    one word.
    """
    ends = np.array([end for _, end in whitespace_spans(sentence)], np.int64)
    # the last character of a subword is never the white space before its word, which some tokenisers
    # count among its characters
    between = np.searchsorted(ends, np.maximum(spans[:, 1], 1))
    words, last, count = np.full(len(spans), -1, np.int64), None, -1
    for place in np.flatnonzero(~added).tolist():
        now = (int(between[place]), numbers[place])
        if now != last:
            count, last = count + 1, now
        words[place] = count
    return words
