"""A linear-chain conditional random field over the classes of the words of a sequence.

    score of a path y = start[y_1] + sum of scores[t, y_t] + sum of moves[y_t, y_t+1] + end[y_n]
    p(y) = e ** (score of y) / sum over all paths

Lafferty et al. 2001; Lample et al. 2016, § 2.2. Sums are taken in log space, in the precision of
the scores.
"""

import torch
from torch import Tensor, nn

__all__ = ["LinearChainCRF"]


class LinearChainCRF(nn.Module):
    """Scores of the classes of neighbours.

    Parameters
    ----------
    classes: their number. All scores are 0 at first: each word is then on its own.

    >>> import torch
    >>> crf = LinearChainCRF(2)
    >>> scores, words = torch.tensor([[[1.0, 0.0], [0.4, 0.5]]]), torch.tensor([2])
    >>> with torch.no_grad():
    ...     _ = crf.moves.copy_(torch.eye(2))
    >>> crf.best(scores, words).tolist()
    [[0, 0]]
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(classes))
        self.end = nn.Parameter(torch.zeros(classes))
        self.moves = nn.Parameter(torch.zeros(classes, classes))

    def loss(self, scores: Tensor, words: Tensor, labels: Tensor) -> Tensor:
        """- log p of the labels in nats, summed over sequences.

        Parameters
        ----------
        scores: (batch, most, classes). words: (batch,) how many words each sequence has; the others
            take no part. labels: (batch, most); where one is below 0 all classes are summed over.
        """
        classes = torch.arange(scores.shape[-1], device=scores.device)
        given = labels.unsqueeze(-1)
        other = (given >= 0) & (given != classes)
        allowed = scores.masked_fill(other, float("-inf"))
        return (self._total(scores, words) - self._total(allowed, words)).sum()

    def _total(self, scores: Tensor, words: Tensor) -> Tensor:
        """(batch,) log of the sum over all paths (the forward algorithm)."""
        paths = self.start + scores[:, 0]
        for t in range(1, scores.shape[1]):
            longer = torch.logsumexp(paths.unsqueeze(2) + self.moves, 1) + scores[:, t]
            paths = torch.where((t < words).unsqueeze(1), longer, paths)
        return torch.logsumexp(paths + self.end, 1)

    @torch.no_grad()
    def best(self, scores: Tensor, words: Tensor) -> Tensor:
        """(batch, most) the classes of the likeliest path (Viterbi's algorithm); behind the last word
        that word's class again."""
        paths, before = self.start + scores[:, 0], []
        stay = torch.arange(scores.shape[-1], device=scores.device)
        for t in range(1, scores.shape[1]):
            longer, where = (paths.unsqueeze(2) + self.moves).max(1)
            there = (t < words).unsqueeze(1)
            paths = torch.where(there, longer + scores[:, t], paths)
            before.append(torch.where(there, where, stay))
        chosen = [(paths + self.end).argmax(1)]
        for where in reversed(before):
            chosen.append(where.gather(1, chosen[-1].unsqueeze(1)).squeeze(1))
        return torch.stack(chosen[::-1], 1)
