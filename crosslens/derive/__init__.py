"""Derived languages: a text turned into another one by a rule, with its labels, its trees and the
way back.

A transformation (:mod:`crosslens.derive.transformation`) is a function of (sentence, seed, number)
that says where each token of its result is from; labels, trees and answers follow from that.
:func:`transformation` makes one from its name, :func:`derive_corpus` derives a text with what is
known of its words, :func:`derive_block` and :func:`derive_blocks` numbers of subwords with special
tokens among them. Nothing here needs more than numpy.

>>> derive_corpus(["The cat sat."], "transliteration+inversion", language="eng").corpus
Corpus(eng-transliteration-inversion, 1 sentence)
"""

from crosslens.derive.blocks import SpecialTokens, derive_block, derive_blocks
from crosslens.derive.composition import Composition
from crosslens.derive.corpora import DerivedCorpus, derive_corpus, restore
from crosslens.derive.registry import TRANSFORMATIONS, derived_code, transformation
from crosslens.derive.transformation import Derived, Sentence, Transformation

__all__ = [
    "TRANSFORMATIONS",
    "Composition",
    "Derived",
    "DerivedCorpus",
    "Sentence",
    "SpecialTokens",
    "Transformation",
    "derive_block",
    "derive_blocks",
    "derive_corpus",
    "derived_code",
    "restore",
    "transformation",
]
