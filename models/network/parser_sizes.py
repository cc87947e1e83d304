"""What the published biaffine parsers differ in, by name."""

import dataclasses

__all__ = ["PARSERS", "ParserSizes"]


@dataclasses.dataclass(frozen=True)
class ParserSizes:
    """What the published parsers differ in.

    Attributes
    ----------
    arc, relation: widths of the perceptrons.
    leaky: slope below 0 of the perceptrons' leaky ReLU; None for ELU.
    zero: products begin at 0 and perceptrons orthogonal; otherwise both by Glorot & Bengio 2010.
    head_bias: arcs have a term for the head by itself besides one for the dependent.
    relation_bias: relations have terms for each of the two words by itself.
    """

    arc: int
    relation: int
    leaky: float | None
    zero: bool
    head_bias: bool
    relation_bias: bool


PARSERS = {
    "wu_dredze": ParserSizes(512, 128, None, False, True, False),
    "allennlp": ParserSizes(500, 100, None, False, True, False),
    "supar": ParserSizes(500, 100, 0.1, True, False, True),
}
"""Name -> sizes: of Wu & Dredze 2019, of AllenNLP's biaffine parser, and of SuPar's."""
