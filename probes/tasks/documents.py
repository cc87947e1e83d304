"""Texts of one's own with a label each: topics, sentiment, intents, …"""

from crosslens.probes.tasks.labelled_files import labelled_reader, languages_of_labelled
from crosslens.probes.tasks.task import Card, Task

__all__ = ["TASK"]

_PATTERNS = ("documents/{language}.{split}", "documents/{language}.{split}.tsv")
_SPLITS = {name: name for name in ("train", "dev", "test")}

TASK = Task(
    name="documents",
    kind="classify",
    group="semantic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=labelled_reader("documents", _PATTERNS, _SPLITS),
    languages=languages_of_labelled(_PATTERNS, _SPLITS),
    usual=(),
    card=Card(
        title="Your own labelled texts",
        says="Which of your labels does a text have?",
        data="documents/{language}.{train,dev,test}, or the same with .tsv, lines of label TAB text",
        languages="any",
        chance="the most frequent label's share",
        citation="",
        licence="yours",
        address="",
    ),
)
