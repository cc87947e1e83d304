"""The page of a study: its head and the order of its sections."""

from pathlib import Path

from crosslens.report.folders.study import Study, load_study
from crosslens.report.parts.curves import Curves
from crosslens.report.parts.drawing import plain_style
from crosslens.report.parts.layout import Numbering, document, figure, headline
from crosslens.report.parts.wording import count_of, join, language, named, plural, text
from crosslens.report.sections.language_id import (
    language_id_curves,
    language_id_findings,
    language_id_section,
    language_id_sentence,
)
from crosslens.report.sections.provenance import encoders, languages_of, provenance_section
from crosslens.report.sections.retrieval import (
    retrieval_curves,
    retrieval_findings,
    retrieval_section,
    retrieval_sentence,
)
from crosslens.report.sections.similarity import (
    similarity_curves,
    similarity_findings,
    similarity_section,
    similarity_sentence,
)
from crosslens.report.sections.words import (
    WORD_TASKS,
    words_curves,
    words_findings,
    words_section,
    words_sentence,
)
from crosslens.score import few_pairs

__all__ = ["study_curves", "study_page"]


def study_page(folder: str | Path) -> str:
    """The report of a study.

    Raises
    ------
    InputError: the folder holds no study.
    StoreError: one of its files is damaged.
    """
    study, numbering = load_study(folder), Numbering()
    with plain_style():
        parts = [
            _headline(study, numbering),
            *(_SECTIONS[key][1](study, numbering) for key in _shown(study)),
            provenance_section(study),
        ]
    return document(_title(study), parts)


_SECTIONS = {
    "retrieval": ("Sentence retrieval", retrieval_section),
    "words": ("Words", words_section),
    "similarity": ("Similarity", similarity_section),
    "language-id": ("Language identification", language_id_section),
}
_TASKS = {
    "retrieval": ("sentence_retrieval",),
    "words": WORD_TASKS,
    "similarity": ("similarity",),
    "language-id": ("language_id",),
}


def _shown(study: Study) -> list[str]:
    """The sections of the page: all but words for a study, which says what it lacks; otherwise
    those that something was measured for."""
    if study.config.get("kind", "study") == "study":
        return [key for key in _SECTIONS if key != "words"]
    measured = {score.task for score in study.scores}
    return [key for key, tasks in _TASKS.items() if measured.intersection(tasks)]


def _title(study: Study) -> str:
    names = list(dict.fromkeys(encoders(study).values()))
    what = f"{plural(len(languages_of(study)), 'language')} in "
    if not names:
        return f"{what}an encoder that was not recorded"
    return what + (
        names[0].rstrip("/").rsplit("/", 1)[-1]
        if len(names) == 1
        else plural(len(names), "encoder")
    )


def _headline(study: Study, numbering: Numbering) -> str:
    """Title, the figure of all that was measured, what came out, and the run's notes and facts."""
    findings = [
        *retrieval_findings(study),
        *words_findings(study),
        *similarity_findings(study),
        *language_id_findings(study),
    ]
    told = [
        part(study)
        for part in (retrieval_sentence, words_sentence, similarity_sentence, language_id_sentence)
    ]
    told = [sentence for sentence in told if sentence][:3]
    nothing = "Nothing was measured in this run."
    return headline(
        _title(study),
        _overview(study, numbering),
        told,
        _facts(study),
        _notes(study),
        findings,
        nothing,
    )


def study_curves(study: Study) -> list[Curves]:
    """What was measured by layer, a panel for each."""
    found = [
        retrieval_curves(study),
        *words_curves(study),
        similarity_curves(study),
        language_id_curves(study),
    ]
    return [part for part in found if part is not None]


def _overview(study: Study, numbering: Numbering) -> str:
    """One figure with a panel for each thing that was measured; empty where nothing was."""
    panels = [part.panel(numbering) for part in study_curves(study)]
    reading = (
        "the output of each layer (0 = embeddings) is measured on its own; a curve is the "
        "mean over all languages, directions or pairs, "
        "and a band its 95 % interval, where there is one. A coloured curve says something "
        "about training where it lies clearly above "
        "its control: the same architecture with random weights, shuffled sentences, or the "
        "most frequent language."
    )
    return figure(numbering, "What each layer knows.", reading, "", panels) if panels else ""


def _facts(study: Study) -> dict[str, str]:
    names, settings = encoders(study), study.section("settings")
    if set(names) == {"*"}:
        who = f"{named(names['*'])}, shared by all languages"
    else:
        who = (
            join(
                [
                    f"{named(name)} for {'all others' if code == '*' else named(language(code))}"
                    for code, name in names.items()
                ]
            )
            or "not recorded"
        )
    n = study.section("data").get("n")
    held = [
        s
        for s in study.scores
        if s.task == "sentence_retrieval" and s.evidence.part in (None, "held_out")
    ]
    sentences = f"n = {n:,} in every language" if isinstance(n, int) else "number not recorded"
    sentences += f"; retrieval is judged on held-out ones ({count_of(held)})" if held else ""
    layers = {score.layer for score in study.scores if score.layer is not None}
    return {
        "Languages": join([named(language(code)) for code in languages_of(study)]) or "none",
        "Encoders" if len(names) > 1 else "Encoder": who,
        "Parallel sentences": sentences,
        "Layers": f"{len(layers)}, counted from 0 = the output of the embedding layer"
        if layers
        else "none measured",
        "Seed": text(settings.get("seed", "not recorded")),
    }


def _notes(study: Study) -> list[str]:
    """What the run wants its reader to know, how many sentences were cut, and whether a rotation
    had too few pairs."""
    given = study.config.get("notes")
    notes = (
        [str(note) for note in given] if isinstance(given, list) else [str(given)] if given else []
    )
    for code, facts in study.section("extraction").items():
        cut = facts.get("truncated") if isinstance(facts, dict) else None
        if isinstance(cut, int) and cut > 0:
            notes.append(
                f"{language(str(code))}: {plural(cut, 'sentence')} had to be cut to fit the "
                f"encoder."
            )
    few = few_pairs(study.scores, study.section("data").get("d"))
    return [*notes, few] if few else notes
