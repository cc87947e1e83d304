"""What can be read off vectors: small supervised questions, each with the controls that give its
answer meaning.

``probes.tasks`` says what is asked, ``probes.methods`` takes arrays and labels and gives arrays or
small result objects. This room knows nothing of models, and importing it loads no torch; what needs
a model takes a callable.

    tasks/task, tasks/items                   what a task declares, and the items of each kind of
                                              task
    tasks/catalogue                           all tasks, one file and one line each
    tasks/data_folder, tasks/treebanks        where their files are found
    methods/linear/linear                     a linear classifier for one layer
    methods/linear/layer_probe                the same for all layers at once (linear/solver,
                                              linear/refit, rows: how)
    methods/linear/regression                 ridge regression of numbers on all layers;
                                              number_probes scores it
    methods/linear/mlp_probe                  a classifier with one hidden layer
    methods/linear/layer_mix                  one classifier on a learnt mix of layers
    methods/evaluation, methods/results       probes of every layer with all their controls
    methods/splits                            which items train, choose and test
    methods/controls, methods/control_tasks   majority, shuffled labels, random labels of word types
    methods/surface_baselines                 what the letters alone say
    methods/description_length                how many bits the labels take, given the vectors
    methods/paired_tests                      two layers, or two models, on the same items
    methods/language_id                       which language a sentence vector comes from
    methods/wic, methods/scws                 whether words mean the same in two contexts, and how
                                              alike they are
    methods/structural                        syntax trees as distances and depths;
                                              structural_scores judges them
    methods/minimal_pairs                     grammatical against ungrammatical; marvin_linzen makes
                                              such pairs
"""

if __name__ != "crosslens.probes":
    raise ImportError("import this package as crosslens.probes, not as probes")

from crosslens.probes.methods.control_tasks import control_labels
from crosslens.probes.methods.controls import Accuracy, majority_accuracy, shuffled_labels
from crosslens.probes.methods.description_length import DescriptionLength, description_length
from crosslens.probes.methods.evaluation import probe_layers
from crosslens.probes.methods.language_id import (
    LanguageIdResult,
    LanguageIdSettings,
    identify_languages,
    language_id,
)
from crosslens.probes.methods.linear.layer_mix import LayerMix
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.probes.methods.linear.mlp_probe import MLPProbe
from crosslens.probes.methods.linear.regression import LayerRidge
from crosslens.probes.methods.number_probes import probe_numbers
from crosslens.probes.methods.paired_tests import (
    PairedTest,
    compare_all,
    holm,
    mcnemar,
    permutation_test,
)
from crosslens.probes.methods.results import ProbeResult
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
