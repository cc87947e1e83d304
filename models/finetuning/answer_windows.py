"""Questions with their contexts as inputs of an encoder, and where answers stand in these.

    [CLS] question [SEP] the context's tokens 0 to 299 [SEP]
    [CLS] question [SEP] the context's tokens 128 to 427 [SEP]    ...

Windows begin every ``stride`` tokens of the context, as in BERT's and XTREME's programs, where this
is ``doc_stride``. (In transformers' tokenisers ``stride`` is the overlap of two windows; run_qa.py
gives it BERT's 128, and so has other windows.)

An answer is characters, a model says tokens. Tokenisers differ in what characters they say a token
has: with the space before it or without, with the marks that they leave out of a letter or not.
Here a token begins and ends with what is no white space, and marks that no token has (Devanagari's
vowel signs, in a vocabulary without accents) are those of the token before. What is no white space
and begins or ends within a token is still out of reach: :func:`unreachable` lists such answers.
"""

import dataclasses
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crosslens.errors import refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.examples import QuestionExamples
from crosslens.models.text.tokenisation import tokenised
from crosslens.readers.questions import Answer

__all__ = ["Unreachable", "Window", "answer_windows", "unreachable"]

_BLOCK = 2_000  # questions that are tokenised at once
_BARE = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}


@dataclasses.dataclass(frozen=True, eq=False)
class Window:
    """A question and a part of its context, as one input.

    Attributes
    ----------
    number: of the question, among the examples.
    ids, segments: (length,) token ids, and 1 for the context where the encoder tells texts apart.
    starts, ends: (length,) of the context's tokens their first character in the context and the one
        behind their last; -1 for all other tokens, and for those that are white space alone.
    targets: for each answer of the question the columns of its first and last token; (0, 0) where
        it is not whole in the window; None where no token has a character of it.
    cut: whether the question was longer than it may be, and its end is not read.
    """

    number: int
    ids: np.ndarray
    segments: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    targets: Sequence[tuple[int, int] | None]
    cut: bool = False


@dataclasses.dataclass(frozen=True)
class Unreachable:
    """A question that no tokens of a window answer exactly.

    Attributes
    ----------
    number: of the question. answer: its first gold answer.
    nearest: the text of the tokens that cover it; "" where no window has it whole.
    """

    number: int
    answer: str
    nearest: str


def answer_windows(
    encoder: Encoder,
    examples: QuestionExamples,
    max_length: int = 384,
    stride: int = 128,
    max_question: int = 64,
) -> list[Window]:
    """The inputs of some questions, in their order.

    Parameters
    ----------
    encoder: gives the tokeniser, and the longest input where that is shorter than ``max_length``.
    max_length: of an input, in subwords, special tokens included.
    stride: tokens of the context from the beginning of one window to that of the next; less where
        a window has no room for so many, so that no token is passed over.
    max_question: tokens of a question; what is behind them is cut off.

    Raises
    ------
    InputError: a number below 1, or an encoder with no room for the context.

    References
    ----------
    Devlin et al. 2019, § 4.2 and run_squad.py; Hu et al. 2020.

    >>> import crosslens as cl
    >>> from crosslens.corpus import Corpus
    >>> from crosslens.recipes.quickstart import DATA
    >>> asked, there = (Corpus("eng", [text], ["0"], "toy") for text in ("Where?", "She is in Rome."))
    >>> examples = QuestionExamples(asked, there, [[Answer("Rome", 10)]])
    >>> (window,) = answer_windows(cl.load_encoder(DATA / "tiny-encoder"), examples)
    >>> first, last = window.targets[0]
    >>> there.sentences[0][window.starts[first] : window.ends[last]]
    'Rome'
    """
    for name, value in (
        ("max_length", max_length),
        ("stride", stride),
        ("max_question", max_question),
    ):
        if value < 1:
            refuse(name, "1 or more subwords", str(value), "raise it")
    longest = min(max_length, encoder.max_length)
    windows: list[Window] = []
    for begin in range(0, len(examples), _BLOCK):
        block = range(begin, min(begin + _BLOCK, len(examples)))
        sides = (
            list(one.sentences[block.start : block.stop])
            for one in (examples.corpus, examples.second)
        )
        encodings = tokenised(encoder.name, encoder.tokenizer, *sides, **_BARE)
        for number, encoding in zip(block, encodings, strict=True):
            answers = () if examples.answers is None else examples.answers[number]
            context = examples.second.sentences[number]
            whole = _located(encoding, context, number, answers, max_question)
            windows += _parts(encoder, whole, longest, stride)
    encoder.check_ids(np.concatenate([np.arange(0), *(window.ids for window in windows)]))
    return windows


@dataclasses.dataclass(frozen=True, eq=False)
class _Located:
    """A question and its whole context: as a window, and which columns are the context's."""

    window: Window
    body: range


def _located(
    encoding: Any, context: str, number: int, answers: Sequence[Answer], max_question: int
) -> _Located:
    sides = np.array([-1 if side is None else side for side in encoding.sequence_ids])
    asked = np.flatnonzero(sides == 0)
    kept = np.delete(np.arange(len(sides)), asked[max_question:])
    sides = sides[kept]
    mine = np.flatnonzero(sides == 1)
    if not len(mine):
        refuse(f"question {number}", "a context with at least one token", "none", "leave it out")
    starts, ends = (np.full(len(sides), -1, np.int32) for _ in range(2))
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)[kept][mine]
    starts[mine], ends[mine] = _trimmed(context, offsets[:, 0], offsets[:, 1])
    targets = [_covering(starts, ends, one) for one in answers]
    ids, segments = np.array(encoding.ids)[kept], np.array(encoding.type_ids)[kept]
    cut = len(asked) > max_question
    window = Window(number, ids, segments, starts, ends, targets, cut)
    return _Located(window, range(int(mine[0]), int(mine[-1]) + 1))


def _trimmed(context: str, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Character spans of tokens without white space at their ends, and with the marks behind them
    that no token has; -1 for tokens that have nothing else."""
    n = len(context)
    space = np.array([char.isspace() for char in context])
    places = np.arange(n)
    following = np.append(np.where(space, n, places), n)
    following = np.minimum.accumulate(following[::-1])[::-1]
    before = np.maximum.accumulate(np.append(0, np.where(space, 0, places + 1)))
    starts, ends = following[starts], before[ends]
    full = starts < ends
    steps = np.zeros(n + 1, np.int64)
    np.add.at(steps, starts[full], 1)
    np.add.at(steps, ends[full], -1)
    bare = np.flatnonzero((np.cumsum(steps)[:-1] == 0) & ~space)
    reach = np.arange(n + 1)
    for place in bare[::-1].tolist():
        if unicodedata.category(context[place])[0] == "M" or context[place] in _JOINERS:
            reach[place] = reach[place + 1]
    return np.where(full, starts, -1), np.where(full, reach[ends], -1)


_JOINERS = "\u200c\u200d"


def _covering(starts: np.ndarray, ends: np.ndarray, answer: Answer) -> tuple[int, int] | None:
    """Columns of the first and the last token that have a character of an answer."""
    touched = np.flatnonzero((starts >= 0) & (ends > answer.start) & (starts < answer.end))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def _parts(encoder: Encoder, whole: _Located, longest: int, stride: int) -> Iterator[Window]:
    window, body = whole.window, whole.body
    size = len(window.ids)
    room = longest - (size - len(body))
    if room < 1:
        got = f"{longest} subwords, and {size - len(body)} of question {window.number} and special"
        expected = "room for a token of the context beside the question"
        remedy = (
            f"raise max_length (--max-length), to {encoder.max_length} at most for this encoder"
        )
        refuse(f"encoder {encoder.name}", expected, got, remedy)
    first = body.start
    while True:
        behind = min(first + room, body.stop)
        columns = np.r_[: body.start, first:behind, body.stop : size]
        targets = [
            one if one is None else _moved(one, first, behind, body.start) for one in window.targets
        ]
        ids, segments, starts, ends = (
            part[columns] for part in (window.ids, window.segments, window.starts, window.ends)
        )
        yield Window(window.number, ids, segments, starts, ends, targets, window.cut)
        if behind == body.stop:
            return
        first += min(room, stride)


def _moved(target: tuple[int, int], first: int, behind: int, start: int) -> tuple[int, int]:
    """The columns of an answer in a window of the context's columns from ``first`` on."""
    inside = first <= target[0] and target[1] < behind
    return (target[0] - first + start, target[1] - first + start) if inside else (0, 0)


def unreachable(examples: QuestionExamples, windows: Sequence[Window]) -> list[Unreachable]:
    """Questions of which no gold answer is exactly the text of tokens of a window: what even a
    perfect model gets wrong.

    Parameters
    ----------
    windows: of :func:`answer_windows`, of the same examples.

    >>> import crosslens as cl
    >>> from crosslens.corpus import Corpus
    >>> from crosslens.recipes.quickstart import DATA
    >>> asked, there = (Corpus("eng", [text], ["0"], "toy") for text in ("When?", "In the 1990s."))
    >>> examples = QuestionExamples(asked, there, [[Answer("In th", 0)]])
    >>> encoder = cl.load_encoder(DATA / "tiny-encoder")
    >>> unreachable(examples, answer_windows(encoder, examples))
    [Unreachable(number=0, answer='In th', nearest='In the')]
    """
    found = {
        number: Unreachable(number, some[0].text, "")
        for number, some in enumerate(examples.answers or ())
    }
    for window in windows:
        context = examples.second.sentences[window.number]
        answers = () if examples.answers is None else examples.answers[window.number]
        for place, (target, answer) in enumerate(zip(window.targets, answers, strict=True)):
            if target in (None, (0, 0)) or window.number not in found:
                continue
            text = context[window.starts[target[0]] : window.ends[target[1]]]
            if text == answer.text:
                del found[window.number]
            elif place == 0:
                found[window.number] = dataclasses.replace(found[window.number], nearest=text)
    return list(found.values())
