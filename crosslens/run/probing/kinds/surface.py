"""What the characters of texts say without an encoder: classifiers that a probe of sentences is
told beside."""

import dataclasses
import math
from typing import Any

import numpy as np

from crosslens.probes.methods.surface_baselines import fasttext_baseline, ngram_baseline
from crosslens.run.probing.items import Measured
from crosslens.run.probing.kinds.classify import SentenceTask
from crosslens.run.repeats import text_names
from crosslens.score import Score

__all__ = ["surface_scores"]

_SEEDS = 2**31 - 1  # fastText's are smaller
# texts that fastText reads at least: ten times the 60 languages of SIB-200, and few texts as much
# oftener
_READ = 400_000
_EPOCHS = (10, 200)


def surface_scores(task: SentenceTask, seed: int) -> Measured:
    """Accuracy and macro F1 of character n-grams and of fastText, on the same training and test
    sentences.

    They belong to no encoder and to no layer.
    """
    sides = [
        ([task.sentences[row] for row in rows], task.labels[rows])
        for rows in (task.parts.train, task.parts.test)
    ]
    (train, train_labels), (test, test_labels) = sides
    # few of few texts leave it near chance
    epochs = min(max(_EPOCHS[0], math.ceil(_READ / len(train))), _EPOCHS[1])
    results = {
        "character_ngrams": ngram_baseline(train, train_labels, test, test_labels, seed=seed),
        "fasttext": fasttext_baseline(
            train, train_labels, test, test_labels, epochs=epochs, seed=seed % _SEEDS
        ),
    }
    scores, outcomes, items = [], [], task.test_items(text_names(task.sentences))
    for condition, result in results.items():
        answers = dataclasses.replace(result.answers, groups=items.groups)
        (reached,), ends = answers.accuracy, answers.macro_f1_interval(0) or (None, None)
        fields: dict[str, Any] = {
            "task": task.name,
            "condition": condition,
            "seed": seed,
            "n": reached.n,
        }
        told = {
            "part": "test",
            "n_train": len(train),
            "classes": len(answers.labels),
            "trained": result.name,
        }
        scores.append(
            Score(
                **fields,
                quantity="accuracy",
                value=reached.value,
                low=reached.low,
                high=reached.high,
                details=told,
            )
        )
        scores.append(
            Score(
                **fields,
                quantity="macro_f1",
                value=float(answers.macro_f1[0]),
                low=ends[0],
                high=ends[1],
                details=told,
            )
        )
        place: dict[str, Any] = {
            "task": task.name,
            "part": "test",
            "condition": condition,
            "seed": seed,
            "quantity": "accuracy",
        }
        outcomes.append(
            items.outcomes(
                answers.correct[0].astype(np.float64), answers.labels[answers.given[0]], **place
            )
        )
    return Measured(scores, outcomes)
