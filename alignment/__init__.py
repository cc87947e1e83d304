"""Whose vectors lie where: mapping, matching and comparing two sets of vectors, whoever made them.

This room takes arrays (one row per item) and gives arrays or small result objects.
It knows nothing of models or of text, and importing it loads no torch.

    normalisation   rows of length 1
    procrustes      the best rotation of one space onto another, as a function and as a fitted aligner
    retrieval       nearest neighbours by cosine, and how often the right one is found
    similarity      linear CKA of two matrices, or of all layers of two encoders

Rows pair up: row i of one side belongs to row i of the other, unless a function
takes ``gold`` to say otherwise. float32 stays float32.
"""

if __name__ != "crosslens.alignment":
    raise ImportError("import this package as crosslens.alignment, not as alignment")

from crosslens.alignment.normalisation import unit_rows
from crosslens.alignment.procrustes import Procrustes, orthogonal_procrustes
from crosslens.alignment.retrieval import RetrievalResult, nearest_neighbours, retrieval_both_directions, retrieval_precision
from crosslens.alignment.similarity import LayerCKA, linear_cka, linear_cka_layers

__all__ = [
    "LayerCKA",
    "Procrustes",
    "RetrievalResult",
    "linear_cka",
    "linear_cka_layers",
    "nearest_neighbours",
    "orthogonal_procrustes",
    "retrieval_both_directions",
    "retrieval_precision",
    "unit_rows",
]
