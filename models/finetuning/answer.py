"""Answers to questions: where in the context an answer starts and where it ends."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosslens.errors import refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.answer_windows import Window, answer_windows
from crosslens.models.finetuning.examples import QuestionExamples
from crosslens.models.finetuning.kind import Row
from crosslens.models.network.heads import AnswerHead

__all__ = ["Answer", "Candidate"]

_NOT_COUNTED = -100


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer.

    Attributes
    ----------
    text: as it stands in the context; start: its first character there.
    score: the sum of the two scores (logits) of its first and its last token; higher is better.
    """

    text: str
    start: int
    score: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer to each question, out of its context.

    A long context is read through windows (:func:`answer_windows`). Trained are all windows of a
    question; where the answer is not whole in one, both targets are position 0, as in BERT's
    program. Predicted is never "no answer": of all windows' spans the one whose two scores sum up
    highest.

    Attributes
    ----------
    max_length, stride, max_question: in subwords, see :func:`answer_windows`.
    max_answer: most subwords of an answer. n_best: spans that are kept of each window.
    classes: the head's outputs: start and end.

    References
    ----------
    Devlin et al. 2019, § 4.2. Their program, and transformers', look for the best span among the
    best 20 starts and the best 20 ends; here every span is looked at. The head has no dropout.
    """

    max_length: int = 384
    stride: int = 128
    max_question: int = 64
    max_answer: int = 30
    n_best: int = 20
    classes: int = dataclasses.field(default=2, init=False)

    def __post_init__(self) -> None:
        for name in ("max_length", "stride", "max_question", "max_answer", "n_best"):
            if getattr(self, name) < 1:
                refuse(name, "1 or more", str(getattr(self, name)), "raise it")

    def head(self, d: int) -> nn.Module:
        """See :class:`crosslens.models.network.heads.AnswerHead`."""
        return AnswerHead(d)

    def rows(self, encoder: Encoder, examples: QuestionExamples) -> list[Row]:
        """The windows of all questions."""
        languages = (examples.corpus.language, examples.second.language)
        sizes = (self.max_length, self.stride, self.max_question)
        rows = []
        for window in answer_windows(encoder, examples, *sizes):
            targets: dict[str, Any] = {"allowed": window.starts >= 0, "window": window}
            counted = 0
            if window.targets:
                first = window.targets[0]
                counted = int(first is not None)
                targets["bounds"] = first or (_NOT_COUNTED, _NOT_COUNTED)
            items = np.array([window.number])
            rows.append(Row(window.ids, window.segments, items, targets, counted, languages))
        return rows

    def batch(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """``allowed`` (batch, length), what an answer may begin and end with, and ``bounds``
        (batch, 2), columns of first and last tokens, where they are known."""
        allowed = np.zeros((len(rows), max(len(row.ids) for row in rows)), bool)
        for number, row in enumerate(rows):
            allowed[number, : len(row.ids)] = row.targets["allowed"]
        found = {"allowed": torch.from_numpy(allowed)}
        if "bounds" in rows[0].targets:
            found["bounds"] = torch.tensor([row.targets["bounds"] for row in rows])
        return found

    def loss(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> Tensor:
        """Cross-entropy in nats of starts and of ends over all tokens of a window, halved, summed
        over windows.

        What fills rows up takes no part, so that a window's loss does not depend on those beside
        it; in transformers it does.
        """
        scores = head(states, mask).float()
        both = [
            F.cross_entropy(
                scores[..., k], targets["bounds"][:, k], ignore_index=_NOT_COUNTED, reduction="sum"
            )
            for k in (0, 1)
        ]
        return (both[0] + both[1]) / 2

    def outputs(
        self, head: nn.Module, states: Tensor, mask: Tensor, targets: Mapping[str, Tensor]
    ) -> list[Any]:
        """The best spans of each row: (k, 3) columns of first and last tokens, and scores, the
        highest first; k is at most ``n_best``."""
        scores = head(states, targets["allowed"]).float()
        most = min(self.max_answer, scores.shape[1])
        ends = F.pad(scores[..., 1], (0, most - 1), value=-torch.inf).unfold(1, most, 1)
        sums = (scores[..., :1] + ends).flatten(1)  # (batch, length * most)
        best = sums.topk(min(self.n_best, sums.shape[1]), dim=1)
        first = best.indices // most
        found = torch.stack([first, first + best.indices % most, best.values], -1).cpu().numpy()
        return [row[np.isfinite(row[:, 2])] for row in found]

    def candidates(
        self, examples: QuestionExamples, rows: Sequence[Row], outputs: Sequence[Any]
    ) -> list[list[Candidate]]:
        """The best answers to each question over all its windows, the highest score first, each text
        and place once; at most ``n_best``."""
        found: list[dict[tuple[int, int], float]] = [{} for _ in range(len(examples))]
        for row, spans in zip(rows, outputs, strict=True):
            window: Window = row.targets["window"]
            there = found[window.number]
            for first, last, score in np.asarray(spans, float).tolist():
                ends = [int(first), int(last)]  # turned round where the language is
                place = int(window.starts[ends].min()), int(window.ends[ends].max())
                there[place] = max(score, there.get(place, score))
        ranked = []
        for context, there in zip(examples.second.sentences, found, strict=True):
            order = sorted(there, key=lambda place: (-there[place], place))[: self.n_best]
            ranked.append([Candidate(context[a:b], a, there[a, b]) for a, b in order])
        return ranked

    def join(
        self, examples: QuestionExamples, rows: Sequence[Row], outputs: Sequence[Any]
    ) -> list[str]:
        """The best answer to each question; "" where its context has nothing but white space."""
        every = self.candidates(examples, rows, outputs)
        return [some[0].text if some else "" for some in every]
