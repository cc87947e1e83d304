"""A parser's head: which word each word depends on, and by which relation (deep biaffine attention).

states of first subwords, and of position 0 for the root
    --four perceptrons--> as dependent and as head, for arcs and for relations
    --products--> arcs (batch, words, 1 + words), relations (batch, words, relations)
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosslens.errors import check_choice, refuse
from crosslens.models.network.dropout import dropout
from crosslens.models.network.parser_sizes import PARSERS

__all__ = ["ParserHead"]

_TAG_WIDTH = 100
_DROPPED = 0.33


class ParserHead(nn.Module):
    """Scores of arcs and relations.

    Parameters
    ----------
    d: width of the encoder's states. relations: their number.
    sizes: a name of :data:`crosslens.models.network.parser_sizes.PARSERS`.
    tags: number of parts of speech, if they are given to the parser: their embeddings, 100 wide,
        are appended to the states (Wu & Dredze 2019, table 6); 0 for none.

    References
    ----------
    Dozat & Manning 2017, Deep Biaffine Attention for Neural Dependency Parsing, equations 4 to 8.

    >>> import torch
    >>> head = ParserHead(4, 3)
    >>> arcs, states = head(torch.ones(1, 6, 4), torch.tensor([[1, 3]]), torch.tensor([2]))
    >>> arcs.shape, head.relations(states, torch.tensor([[2, 0]])).shape
    (torch.Size([1, 2, 3]), torch.Size([1, 2, 3]))
    """

    def __init__(self, d: int, relations: int, sizes: str = "wu_dredze", tags: int = 0) -> None:
        super().__init__()
        if relations < 2:
            refuse("relations", "at least 2", str(relations), "give the names of all relations")
        check_choice(sizes, "sizes", PARSERS)
        self.sizes = mine = PARSERS[sizes]
        width = d + (_TAG_WIDTH if tags else 0)
        self.tags = nn.Embedding(tags + 1, _TAG_WIDTH) if tags else None  # the last: the root's
        self.perceptrons = nn.ModuleDict(
            {
                name: nn.Linear(width, mine.arc if name.startswith("arc") else mine.relation)
                for name in ("arc_dependent", "arc_head", "relation_dependent", "relation_head")
            }
        )
        self.arc = nn.Parameter(torch.empty(mine.arc + 1, mine.arc + int(mine.head_bias)))
        extra = int(mine.relation_bias)
        shape = (relations, mine.relation + extra, mine.relation + extra)
        self.relation = nn.Parameter(torch.empty(shape))
        self.bias = None if mine.relation_bias else nn.Parameter(torch.zeros(relations))
        self._sample()

    def _sample(self) -> None:
        zero = self.sizes.zero
        for layer in self.perceptrons.values():
            assert isinstance(layer, nn.Linear)
            (nn.init.orthogonal_ if zero else nn.init.xavier_uniform_)(layer.weight)
            nn.init.zeros_(layer.bias)
        for product in (self.arc, self.relation):
            if zero:
                nn.init.zeros_(product)
            else:
                nn.init.xavier_uniform_(product)

    def forward(
        self, states: Tensor, first: Tensor, words: Tensor, tags: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores of arcs, and what :meth:`relations` needs.

        Parameters
        ----------
        states: (batch, length, d). first: (batch, words) column of each word's first subword.
        words: (batch,) how many words each row has. tags: (batch, words) numbers of parts of speech.

        Returns
        -------
        (batch, words, 1 + words): ``[b, i, j]`` for word i (from 0) below word j (from 1; 0 is the
        root); minus infinity where a row has no word j, and where i would be its own head. And the
        words' vectors, (batch, 1 + words, width), the root's first.
        """
        columns = F.pad(first, (1, 0))  # the root is at position 0
        mine = states.gather(1, columns.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        if self.tags is not None:
            assert tags is not None, "this parser reads parts of speech"
            root = self.tags.num_embeddings - 1
            mine = torch.cat([mine, self.tags(F.pad(tags, (1, 0), value=root))], -1)
        dependent = F.pad(self._perceived("arc_dependent", mine[:, 1:]), (0, 1), value=1.0)
        head = self._perceived("arc_head", mine)
        if self.sizes.head_bias:
            head = F.pad(head, (0, 1), value=1.0)
        arcs = dependent @ self.arc @ head.transpose(1, 2)
        n = arcs.shape[-1]
        there = torch.arange(n, device=arcs.device) <= words.unsqueeze(-1)
        own = torch.eye(n, device=arcs.device, dtype=torch.bool)[1:]
        return arcs.masked_fill(~there.unsqueeze(1) | own, float("-inf")), mine

    def relations(self, vectors: Tensor, heads: Tensor) -> Tensor:
        """(batch, words, relations) for each word and its head, (batch, words) from 0, the root."""
        dependent = self._perceived("relation_dependent", vectors[:, 1:])
        every = self._perceived("relation_head", vectors)
        head = every.gather(1, heads.unsqueeze(-1).expand(-1, -1, every.shape[-1]))
        if self.bias is None:
            dependent, head = (F.pad(side, (0, 1), value=1.0) for side in (dependent, head))
            return torch.einsum("bid,rde,bie->bir", dependent, self.relation, head)
        return torch.einsum("bid,rde,bie->bir", dependent, self.relation, head) + self.bias

    def _perceived(self, name: str, x: Tensor) -> Tensor:
        """One perceptron; of its outputs the same are dropped in all words of a sentence."""
        y, slope = self.perceptrons[name](x), self.sizes.leaky
        y = F.elu(y) if slope is None else F.leaky_relu(y, slope)
        kept = dropout(torch.ones_like(y[:, :1]), _DROPPED, self.training)
        return y * kept
