"""A controlled study as the terminal shows it: tables and sentences."""

import math
from pathlib import Path

from crosslens.readers.published import PAPERS
from crosslens.report.folders.controlled import (
    REACHED,
    StudyFolder,
    load_study,
    printed,
    printed_what,
)
from crosslens.report.folders.controlled_findings import findings
from crosslens.report.folders.controlled_kept_order import kept_order
from crosslens.report.folders.controlled_sentences import (
    anchors_told,
    comparisons_told,
    cut_told,
    few_trainings_told,
    intervals_told,
    overlap_told,
)
from crosslens.report.folders.controlled_similarity import (
    CKA,
    average_differences,
    curves_by_pair,
    has_two_models,
    over_layers_told,
    shown,
    similarity_told,
)
from crosslens.score import Score
from crosslens.score_formats import format_value, format_with_ends

__all__ = ["summary"]

_Rows = list[tuple[str, ...]]


def summary(folder: str | Path) -> list[_Rows | str]:
    """Tables and sentences on a study: its conditions beside the paper's numbers, and the order of
    the conditions that the paper found.

    Raises
    ------
    StoreError: the folder holds no such study, or nothing of it is measured yet.
    """
    study = load_study(folder)
    rows: _Rows = [
        (
            "condition",
            "seeds",
            "kept",
            "contexts",
            "P@1 of subwords",
            "mapped",
            "by frequency",
            "P@1 of sentences",
            "at layer",
            "untrained",
            "CKA there",
            f"{PAPERS[study.told['paper']]}: {printed_what(study)}",
        ),
        *(_row(study, name) for name in study.names),
    ]
    told = []
    if (ladder := kept_order(study)) is not None:
        told = [ladder.told()]
    elif study.learning:
        reached = [f"{name} {one.reached()}" for name, one in study.learning.items()]
        told = [f"Tokens until P@1 of subwords is {REACHED}: {'; '.join(reached)}."]
    told += [*overlap_told(study), *anchors_told(study)]
    told += [*similarity_told(study), *over_layers_told(study)]
    found = findings(study)
    return [
        study.title,
        _measured(rows),
        _how(study),
        *told,
        *_curves(study),
        *([_joined(found.rows)] if found.rows else []),
        *filter(None, (found.compared, found.control, found.judged)),
    ]


def _joined(rows: _Rows) -> _Rows:
    """Each difference with its verdict in one cell, so that a narrow terminal keeps them together."""
    return [
        (row[0], *(" ".join(cells) if cells[1] not in ("", "-") else cells[0] for cells in pairs))
        for row, pairs in ((row, zip(row[1::2], row[2::2], strict=True)) for row in rows)
    ]


def _measured(rows: _Rows) -> _Rows:
    """The columns that have something in one row at least."""
    kept = [column for column in zip(*rows, strict=True) if set(column[1:]) != {"-"}]
    return list(zip(*kept, strict=True))


def _curves(study: StudyFolder) -> list[_Rows | str]:
    """CKA of two models, where a study compares such."""
    if not has_two_models(study):
        return []
    head = ("second text", "encoders", *(f"{name}, average" for name in CKA.values()))
    rows = [
        (target, one.name, *(shown(one.average(study, quantity)) for quantity in CKA))
        for target, curves in curves_by_pair(study).items()
        for one in curves
    ]
    differences = average_differences(study)
    orders = [("averages of debiased CKA", "difference", ""), *differences]
    return [
        [head, *rows],
        "CKA of English with the second text; averages over layers, brackets 95 % over seeds.",
        orders,
        *filter(None, [comparisons_told(sum(row[1] != "-" for row in differences))]),
    ]


def _row(study: StudyFolder, name: str) -> tuple[str, ...]:
    best = study.layers[name]
    direct, mapped = (
        study.mean(name, "token_alignment", condition) for condition in ("unaligned", "procrustes")
    )
    sentences, untrained = study.sentences(name), study.sentences(name, "random_encoder")
    cka = study.cka(name)
    kept, near = (study.mean(name, f"{what}_kept", None) for what in ("neighbours", "contexts"))
    return (
        name,
        str(study.trainings(name)),
        *("-" if one is None else format_value(one.value, 2) for one in (kept, near)),
        format_with_ends(direct, 3, 1),
        format_with_ends(mapped, 3, 1),
        _frequency(direct),
        format_with_ends(sentences, 3, 1),
        "-" if best is None else str(best.layer),
        "-" if untrained is None else format_value(untrained.value, 3),
        "-" if cka is None else format_value(cka.value, 2),
        printed(study, name),
    )


def _frequency(score: Score | None) -> str:
    found = None if score is None else score.evidence.by_frequency
    return "-" if found is None else f"{found:.3f}"


def _how(study: StudyFolder) -> str:
    scores = study.scores
    n = next((s.n for s in scores if s.quantity == "token_alignment"), None)
    sentences = next(s for s in scores if s.quantity == "precision_at_1" and s.seed is None)
    chance = math.nan if sentences.evidence.chance is None else sentences.evidence.chance
    about_subwords = (
        f"P@1 of subwords: the nearest of all subwords of the other language by cosine, of {n} that "
        "are sampled (Deshpande et al. 2022, § 4.4); mapped: after an orthogonal map learnt from "
        "others; by frequency: what embeddings that told it alone would give. "
        if n is not None
        else ""
    )
    about_order = (
        "Kept: the share of neighbouring subwords that stay neighbours in the same order; contexts: "
        "of pairs at most 5 places apart, those that stay so in any order. "
        if any(s.quantity == "neighbours_kept" for s in scores)
        else ""
    )
    about_gain = (
        "Untrained: the same before training, at its best layer; gain: what training adds to it. "
        if study.compares_gains
        else "Untrained: the same before training, at its best layer. "
    )
    limits = [
        f"{intervals_told(study)}.",
        few_trainings_told(study.all_trainings, subwords=not study.compares_gains),
        cut_told(scores),
    ]
    return (
        f"{about_order}{about_subwords}P@1 of sentences: {sentences.n} held-out sentences, both directions, no "
        f"map, chance {chance:.3f}; the layer is chosen on other sentences. {about_gain}Brackets: 95 % "
        f"{' '.join(filter(None, limits))}"
    )
