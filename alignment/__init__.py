"""Whose vectors lie where: mapping, matching and comparing two sets of vectors, whoever made them.

This room takes arrays (one row per item) and gives arrays or small result objects.
It knows nothing of models or of text, and importing it loads no torch.

    rows, normalisation                     rows of length 1, centred; iterative normalisation
    maps/procrustes                         the best rotation of one space onto another, as a
                                            function and as a fitted aligner
    maps/linear_maps, maps/vecmap_maps      least squares and ridge; VecMap's whitening,
                                            re-weighting and de-whitening
    maps/pivot                              several languages into one
    maps/induction, maps/seeds              a map and a dictionary that learn from each other, begun
                                            with few pairs or none
    neighbours/retrieval                    nearest neighbours by cosine, and how often the right
                                            one is found
    neighbours/csls                         CSLS and other hubness-corrected retrieval: inverted
                                            softmax, margins
    neighbours/sentences                    sentence retrieval by Tatoeba's and xSIM's rules
    neighbours/approximate                  faiss indices for vocabularies beyond a million
    neighbours/products, neighbours/tiles   the blocked passes over products that all of these share
    neighbours/copies                       rows that are equal to the last bit, looked up once
    similarity/linear_cka                   linear CKA of two matrices, or of all layers of two
                                            encoders
    similarity/cka_stream                   the same of many encoders, from arrays or from blocks
                                            that pass once
    similarity/kernels                      CKA with a Gaussian kernel, without centring, over
                                            batches
    similarity/canonical                    mean CCA, SVCCA, PWCCA
    similarity/geometry                     RSA, Procrustes distance, mutual neighbours
    similarity/resampling                   intervals of CKA, permutation baseline
    words/lexicon                           word translation by MUSE's and VecMap's rules;
                                            dictionaries that a map makes
    words/links                             which word is linked with which: files, rows, error rate
    words/argmax, words/ibm                 links from vectors, and by statistics alone
    words/token_embeddings                  a model's own two vocabularies

Rows pair up: row i of one side belongs to row i of the other, unless a function
takes ``gold`` or ``pairs`` to say otherwise. float32 stays float32.
"""

if __name__ != "crosslens.alignment":
    raise ImportError("import this package as crosslens.alignment, not as alignment")

from crosslens.alignment.maps.induction import (
    RefinementResult,
    SelfLearningResult,
    refine,
    self_learning,
)
from crosslens.alignment.maps.linear_maps import LeastSquares
from crosslens.alignment.maps.pivot import PivotMaps, map_to_pivot
from crosslens.alignment.maps.procrustes import Procrustes, orthogonal_procrustes
from crosslens.alignment.maps.vecmap_maps import MultiStepMap, multi_step_maps
from crosslens.alignment.neighbours.approximate import ApproximateNeighbours, approximate_neighbours
from crosslens.alignment.neighbours.csls import (
    adjusted_neighbours,
    csls_neighbours,
    neighbours_both,
)
from crosslens.alignment.neighbours.retrieval import (
    RetrievalResult,
    nearest_neighbours,
    retrieval_both_directions,
    retrieval_precision,
)
from crosslens.alignment.neighbours.sentences import SentenceRetrieval, sentence_retrieval
from crosslens.alignment.normalisation import IterativeNormalisation, normalise
from crosslens.alignment.rows import unit_rows
from crosslens.alignment.similarity.canonical import (
    CanonicalCorrelations,
    canonical_correlations,
    mean_cca,
    pwcca,
    svcca,
)
from crosslens.alignment.similarity.cka_stream import LinearCKAStream, linear_cka_encoders
from crosslens.alignment.similarity.geometry import mutual_knn, procrustes_distance, rsa
from crosslens.alignment.similarity.kernels import minibatch_cka, rbf_cka, uncentred_cka
from crosslens.alignment.similarity.linear_cka import LayerCKA, linear_cka, linear_cka_layers
from crosslens.alignment.similarity.resampling import PermutationBaseline, permutation_baseline
from crosslens.alignment.words.argmax import align_argmax, align_itermax, align_softmax
from crosslens.alignment.words.lexicon import (
    InducedDictionary,
    LexiconResult,
    evaluate_lexicon,
    induced_dictionary,
    mutual_neighbours,
)
from crosslens.alignment.words.links import (
    AlignmentScores,
    PharaohFile,
    aligned_rows,
    alignment_error_interval,
    alignment_error_rate,
    read_pharaoh,
    write_pharaoh,
)
from crosslens.alignment.words.token_embeddings import TokenAlignment, token_embedding_alignment

__all__ = [
    "AlignmentScores",
    "ApproximateNeighbours",
    "CanonicalCorrelations",
    "InducedDictionary",
    "IterativeNormalisation",
    "LayerCKA",
    "LeastSquares",
    "LexiconResult",
    "LinearCKAStream",
    "MultiStepMap",
    "PermutationBaseline",
    "PharaohFile",
    "PivotMaps",
    "Procrustes",
    "RefinementResult",
    "RetrievalResult",
    "SelfLearningResult",
    "SentenceRetrieval",
    "TokenAlignment",
    "adjusted_neighbours",
    "align_argmax",
    "align_itermax",
    "align_softmax",
    "aligned_rows",
    "alignment_error_interval",
    "alignment_error_rate",
    "approximate_neighbours",
    "canonical_correlations",
    "csls_neighbours",
    "evaluate_lexicon",
    "induced_dictionary",
    "linear_cka",
    "linear_cka_encoders",
    "linear_cka_layers",
    "map_to_pivot",
    "mean_cca",
    "minibatch_cka",
    "multi_step_maps",
    "mutual_knn",
    "mutual_neighbours",
    "nearest_neighbours",
    "neighbours_both",
    "normalise",
    "orthogonal_procrustes",
    "permutation_baseline",
    "procrustes_distance",
    "pwcca",
    "rbf_cka",
    "read_pharaoh",
    "refine",
    "retrieval_both_directions",
    "retrieval_precision",
    "rsa",
    "self_learning",
    "sentence_retrieval",
    "svcca",
    "token_embedding_alignment",
    "uncentred_cka",
    "unit_rows",
    "write_pharaoh",
]
