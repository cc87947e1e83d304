"""What can be read off vectors: small supervised questions, each with the controls that give its answer meaning.

This room takes arrays and labels and gives arrays or small result objects. It knows
nothing of models, and importing it loads no torch; what needs a model takes a callable.

    linear, layer_probe      a linear classifier for one layer, and for all layers at once (solver, rows, refit, fitted: how)
    regression               ridge regression of numbers on all layers; number_probes scores it
    mlp_probe, layer_mix     a classifier with one hidden layer; one classifier on a learnt mix of layers
    evaluation               probes of every layer with all their controls (parts: which items train, choose and test)
    controls, control_tasks  what is reached without the vectors: majority, shuffled labels, random labels of word types
    description_length       how many bits the labels take, given the vectors
    paired_tests             two layers, or two models, on the same items
    language_id              which language a sentence vector comes from; surface_baselines, softmax_by_adam beside it
    wic, scws                whether words mean the same in two contexts, and how alike they are
    structural               syntax trees as distances and depths; structural_scores judges them
    minimal_pairs            grammatical against ungrammatical; marvin_linzen makes such pairs
"""

if __name__ != "crosslens.probes":
    raise ImportError("import this package as crosslens.probes, not as probes")

from crosslens.probes.methods.control_tasks import control_labels
from crosslens.probes.methods.controls import Accuracy, majority_accuracy, shuffled_labels
from crosslens.probes.methods.description_length import DescriptionLength, description_length
from crosslens.probes.methods.evaluation import ProbeResult, probe_layers
from crosslens.probes.methods.language_id import LanguageIdResult, LanguageIdSettings, identify_languages, language_id
from crosslens.probes.methods.linear.layer_mix import LayerMix
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.probes.methods.linear.mlp_probe import MLPProbe
from crosslens.probes.methods.linear.regression import LayerRidge
from crosslens.probes.methods.number_probes import probe_numbers
from crosslens.probes.methods.paired_tests import PairedTest, compare_all, holm, mcnemar, permutation_test
from crosslens.probes.methods.rows import TakenRows
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts
from crosslens.probes.methods.structural import StructuralProbe
from crosslens.probes.methods.structural_scores import structural_scores
from crosslens.probes.methods.surface_baselines import fasttext_baseline, ngram_baseline

__all__ = [
    "Accuracy",
    "DescriptionLength",
    "LanguageIdResult",
    "LanguageIdSettings",
    "LayerMix",
    "LayerProbe",
    "LayerRidge",
    "LinearProbe",
    "MLPProbe",
    "PairedTest",
    "Parts",
    "ProbeResult",
    "StructuralProbe",
    "TakenRows",
    "compare_all",
    "control_labels",
    "description_length",
    "fasttext_baseline",
    "hold_out_dev",
    "holm",
    "identify_languages",
    "language_id",
    "majority_accuracy",
    "mcnemar",
    "ngram_baseline",
    "permutation_test",
    "probe_layers",
    "probe_numbers",
    "shuffled_labels",
    "stratified_parts",
    "structural_scores",
]
