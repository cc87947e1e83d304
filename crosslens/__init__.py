"""Train, take apart, align, compare and probe multilingual language models.

    import crosslens as cl

    run = cl.study("xlm-roberta-base", {"eng": "eng.txt", "fra": "fra.txt"}, "runs/eng-fra")
    run.figure("sentence_retrieval").savefig("retrieval.pdf")

``dir(cl)`` names what there is, and ``help(cl.study)`` says what it does. Everything is imported
when it is first named: this package by itself loads nothing heavy. The rooms have more than is
named here: ``crosslens.alignment``, ``crosslens.probes``, ``crosslens.models``, ``crosslens.derive``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslens.version import __version__

# for editors and type checkers; the same names are found by _FROM when they are asked for
if TYPE_CHECKING:
    from crosslens import alignment, derive, models, probes
    from crosslens.activations import Activations, join
    from crosslens.activations_memory import as_activations
    from crosslens.alignment import (
        IterativeNormalisation,
        LeastSquares,
        MultiStepMap,
        Procrustes,
        linear_cka,
        map_to_pivot,
        retrieval_both_directions,
        self_learning,
    )
    from crosslens.corpus import Corpus
    from crosslens.derive.corpora import derive_corpus
    from crosslens.errors import CrosslensError
    from crosslens.front.calls import probe, study, train, transfer
    from crosslens.front.derived import derive_files
    from crosslens.front.mapped import mapped_transfer
    from crosslens.front.parsed import parse_files
    from crosslens.front.results import Run, Scores
    from crosslens.front.spaces import align, compare, identify_languages
    from crosslens.front.study_transferred import study_transfer
    from crosslens.front.texts import extract_files
    from crosslens.front.transplanted import transplant
    from crosslens.front.vectors import align_vectors
    from crosslens.front.word_orders import save_word_order, word_order, word_order_coverage
    from crosslens.models.extraction.extract import extract
    from crosslens.models.saved.loading import load_encoder
    from crosslens.probes import (
        LayerMix,
        LayerProbe,
        LayerRidge,
        LinearProbe,
        MLPProbe,
        StructuralProbe,
        probe_layers,
        stratified_parts,
    )
    from crosslens.readers.data_set import read_dataset
    from crosslens.readers.plain import open_text, read_text, read_tsv
    from crosslens.readers.words import read_conllu, read_words, split_words
    from crosslens.score import Score

_FROM = {
    "activations": ("Activations", "join"),
    "activations_memory": ("as_activations",),
    "alignment": (
        "IterativeNormalisation",
        "LeastSquares",
        "MultiStepMap",
        "Procrustes",
        "linear_cka",
        "map_to_pivot",
        "retrieval_both_directions",
        "self_learning",
    ),
    "corpus": ("Corpus",),
    "derive.corpora": ("derive_corpus",),
    "errors": ("CrosslensError",),
    "front.calls": ("probe", "study", "train", "transfer"),
    "front.derived": ("derive_files",),
    "front.mapped": ("mapped_transfer",),
    "front.parsed": ("parse_files",),
    "front.results": ("Run", "Scores"),
    "front.spaces": ("align", "compare", "identify_languages"),
    "front.study_transferred": ("study_transfer",),
    "front.texts": ("extract_files",),
    "front.transplanted": ("transplant",),
    "front.vectors": ("align_vectors",),
    "front.word_orders": ("save_word_order", "word_order", "word_order_coverage"),
    "models.extraction.extract": ("extract",),
    "models.saved.loading": ("load_encoder",),
    "probes": (
        "LayerMix",
        "LayerProbe",
        "LayerRidge",
        "LinearProbe",
        "MLPProbe",
        "StructuralProbe",
        "probe_layers",
        "stratified_parts",
    ),
    "readers.data_set": ("read_dataset",),
    "readers.plain": ("open_text", "read_text", "read_tsv"),
    "readers.words": ("read_conllu", "read_words", "split_words"),
    "score": ("Score",),
}
_ROOMS = ("alignment", "derive", "models", "probes")
_WHERE = {name: module for module, names in _FROM.items() for name in names}

__all__ = [
    "Activations",
    "Corpus",
    "CrosslensError",
    "IterativeNormalisation",
    "LayerMix",
    "LayerProbe",
    "LayerRidge",
    "LeastSquares",
    "LinearProbe",
    "MLPProbe",
    "MultiStepMap",
    "Procrustes",
    "Run",
    "Score",
    "Scores",
    "StructuralProbe",
    "__version__",
    "align",
    "align_vectors",
    "alignment",
    "as_activations",
    "compare",
    "derive",
    "derive_corpus",
    "derive_files",
    "extract",
    "extract_files",
    "identify_languages",
    "join",
    "linear_cka",
    "load_encoder",
    "map_to_pivot",
    "mapped_transfer",
    "models",
    "open_text",
    "parse_files",
    "probe",
    "probe_layers",
    "probes",
    "read_conllu",
    "read_dataset",
    "read_text",
    "read_tsv",
    "read_words",
    "retrieval_both_directions",
    "save_word_order",
    "self_learning",
    "split_words",
    "stratified_parts",
    "study",
    "study_transfer",
    "train",
    "transfer",
    "transplant",
    "word_order",
    "word_order_coverage",
]


if not TYPE_CHECKING:  # a type checker that saw it would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name in _ROOMS:
            return import_module(f"crosslens.{name}")
        if name not in _WHERE:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}; dir({__name__}) says what it has"
            )
        found = globals()[name] = getattr(import_module(f"crosslens.{_WHERE[name]}"), name)
        return found


def __dir__() -> list[str]:
    return __all__
