"""What can be read off vectors: small supervised questions, each with the controls that give its answer meaning.

This room takes arrays and labels and gives arrays or small result objects. It knows
nothing of models or of text, and importing it loads no torch.

    linear          a linear classifier with its standardisation, trained to convergence
    controls        what is reached without looking at the vectors: the majority label, shuffled labels
    language_id     which language a sentence vector comes from
"""

if __name__ != "crosslens.probes":
    raise ImportError("import this package as crosslens.probes, not as probes")

from crosslens.probes.controls import Accuracy, majority_accuracy, shuffled_labels
from crosslens.probes.language_id import LanguageIdResult, language_id
from crosslens.probes.linear import LinearProbe

__all__ = [
    "Accuracy",
    "LanguageIdResult",
    "LinearProbe",
    "language_id",
    "majority_accuracy",
    "shuffled_labels",
]
