"""Classifiers of characters alone must be as good as they can be, or an encoder looks good beside
them."""

import numpy as np

from crosslens.probes.methods.splits import stratified_parts
from crosslens.readers.plain import read_text
from crosslens.recipes.quickstart import DATA
from crosslens.run.probing.kinds.classify import SentenceTask
from crosslens.run.probing.kinds.surface import surface_scores
from crosslens.run.probing.kinds.task import Text


def test_few_texts_are_read_often_enough_to_tell_languages_apart() -> None:
    corpora = {
        code: read_text(DATA / "corpus" / f"{code}.txt", code)
        for code in ("deu", "eng", "fra", "spa")
    }
    sentences = [sentence for corpus in corpora.values() for sentence in corpus.sentences[:100]]
    labels = np.repeat(list(corpora), 100)
    task = SentenceTask(
        name="language_id",
        source=("corpus", Text(corpora["eng"])),
        labels=labels,
        parts=stratified_parts(labels, (0.5, 0.1, 0.4)),
        sentences=sentences,
        places=[""] * len(labels),
        surface=True,
    )
    scores = {
        (score.condition, score.quantity): score for score in surface_scores(task, seed=0).scores
    }
    assert (
        scores["fasttext", "accuracy"].value > 0.9
        and scores["character_ngrams", "accuracy"].value > 0.9
    )
    assert scores["fasttext", "accuracy"].n == 160
