"""Heads for fine-tuning: an encoder's last states to scores of classes.

    ClassificationHead   one text                 -> (batch, classes)
    TaggingHead          the words of a sentence  -> (batch, words, classes)
    ChainTaggingHead     the same, and what neighbours' classes are worth
    AnswerHead           a question and a context -> (batch, length, 2): where the answer starts and ends

Each head is one matrix over the encoder's states; what fine-tuning adds to an encoder is no more than
that (Devlin et al. 2019, § 4; Wu & Dredze 2019, § 3).
"""

import torch
from torch import Tensor, nn

from crosslens.errors import check_choice, refuse
from crosslens.models.network.crf import LinearChainCRF
from crosslens.models.network.dropout import dropout

__all__ = ["POOLINGS", "AnswerHead", "ChainTaggingHead", "ClassificationHead", "TaggingHead"]

POOLINGS = ("first", "pooled", "mean", "max")


class _Head(nn.Module):
    """Dropout and one matrix, sampled as BERT samples its own: normal, deviation 0.02, no bias."""

    def __init__(self, d: int, classes: int, rate: float) -> None:
        super().__init__()
        if classes < 2:
            refuse("classes", "at least 2", str(classes), "give the names of all classes")
        if not 0 <= rate < 1:
            refuse("dropout", "from 0 up to 1 (excluded)", str(rate), "lower it")
        self.rate = rate
        self.classifier = nn.Linear(d, classes)
        nn.init.normal_(self.classifier.weight, std=0.02)
        nn.init.zeros_(self.classifier.bias)

    def _scores(self, x: Tensor) -> Tensor:
        return self.classifier(dropout(x, self.rate, self.training))


class ClassificationHead(_Head):
    """Scores of a text's classes.

    Parameters
    ----------
    d: width of the encoder's states.
    classes: their number, at least 2.
    rate: dropout before the matrix, while training.
    pool: "first", the state at position 0 as it is (Wu & Dredze's program has no pooler); "pooled",
        that through a matrix and tanh, sampled anew (the heads of BERT and RoBERTa in
        transformers); "mean" or "max", over all tokens that are no padding, special ones included.

    >>> import torch
    >>> states, mask = torch.ones(1, 3, 4), torch.tensor([[1, 1, 0]])
    >>> ClassificationHead(4, 2, pool="mean")(states, mask).shape
    torch.Size([1, 2])
    """

    def __init__(self, d: int, classes: int, rate: float = 0.1, pool: str = "first") -> None:
        super().__init__(d, classes, rate)
        check_choice(pool, "pool", POOLINGS)
        self.pool = pool
        if pool == "pooled":
            self.dense = nn.Linear(d, d)
            nn.init.normal_(self.dense.weight, std=0.02)
            nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, classes) of (batch, length, d) states; ``mask`` (batch, length) is 0 at padding."""
        if self.pool == "first":
            return self._scores(states[:, 0])
        if self.pool == "pooled":
            return self._scores(torch.tanh(self.dense(states[:, 0])))
        if self.pool == "max":
            gone = ~mask.bool().unsqueeze(-1)
            return self._scores(states.masked_fill(gone, float("-inf")).amax(1))
        weights = mask.unsqueeze(-1).to(states.dtype)
        return self._scores((states * weights).sum(1) / weights.sum(1).clamp(min=1))


class TaggingHead(_Head):
    """Scores of each word's classes, from the state of its first subword.

    >>> import torch
    >>> TaggingHead(4, 3)(torch.ones(1, 5, 4), torch.tensor([[1, 3]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(self, d: int, classes: int, rate: float = 0.1) -> None:
        super().__init__(d, classes, rate)

    def forward(self, states: Tensor, first: Tensor) -> Tensor:
        """(batch, words, classes) of (batch, length, d) states.

        ``first`` (batch, words) is the column of each word's first subword; what stands where a row
        has fewer words is any column, and its scores are to be left out of the loss.
        """
        return self._scores(states.gather(1, first.unsqueeze(-1).expand(-1, -1, states.shape[-1])))


class ChainTaggingHead(TaggingHead):
    """The same with a conditional random field on them, ``crf``
    (:class:`crosslens.models.network.crf.LinearChainCRF`)."""

    def __init__(self, d: int, classes: int, rate: float = 0.1) -> None:
        super().__init__(d, classes, rate)
        self.crf = LinearChainCRF(classes)


class AnswerHead(_Head):
    """Scores of each token as the first and as the last one of an answer; no dropout, as in BERT.

    >>> import torch
    >>> AnswerHead(4)(torch.ones(1, 5, 4), torch.tensor([[0, 0, 1, 1, 0]]))[0, :, 0].isinf().tolist()
    [True, True, False, False, True]
    """

    def __init__(self, d: int) -> None:
        super().__init__(d, 2, 0.0)

    def forward(self, states: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(batch, length, 2) of (batch, length, d) states.

        Where ``allowed`` (batch, length) is 0, outside the context, the score is minus infinity.
        """
        scores = self._scores(states)
        return (
            scores
            if allowed is None
            else scores.masked_fill(~allowed.bool().unsqueeze(-1), float("-inf"))
        )
