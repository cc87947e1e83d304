"""The papers' numbers, by their own averages and differences."""

import collections
import statistics

import pytest

from crosslens.errors import InputError
from crosslens.languages import code_of
from crosslens.probes.methods.marvin_linzen import GROUPS as AGREEMENT_AND_REFLEXIVES
from crosslens.probes.methods.marvin_linzen import PUBLISHED_TOTALS
from crosslens.probes.tasks.catalogue import find_task
from crosslens.readers.published import PAPERS, published
from crosslens.score import QUANTITIES

OTHERWISE = {"distance", "covered"}
BEYOND = 0.0605  # a mean of rounded numbers, itself rounded, and printed from unrounded ones
GROUPS = collections.defaultdict(dict)
for one in published():
    GROUPS[one.paper, one.table, one.system, one.task, one.metric][one.language] = one.value


def test_every_number_is_there_once():
    assert len(published()) == sum(map(len, GROUPS.values())) > 2000
    assert {one.paper for one in published()} == set(PAPERS)
    languages = {one.language for one in published() if not one.language.startswith("mean")}
    assert all(code_of(code) == code and len(code) == 3 for code in languages)
    assert {one.metric for one in published()} - QUANTITIES.keys() == OTHERWISE


@pytest.mark.parametrize(
    "key", [key for key, found in GROUPS.items() if "mean" in found and len(found) > 2]
)
def test_printed_means_are_those_of_the_numbers(key):
    found = GROUPS[key]
    mine = [value for name, value in found.items() if not name.startswith("mean")]
    beyond = 0.0051 if key[4] == "distance" else BEYOND
    assert found["mean"] == pytest.approx(statistics.mean(mine), abs=beyond)


@pytest.mark.parametrize(
    "what, beyond", [("mean of deu nld spa", 0.006), ("mean without eng", BEYOND)]
)
def test_means_over_some_languages(what, beyond):
    met = 0
    for found in GROUPS.values():
        if what in found:
            left = (
                what.removeprefix("mean of ").split()
                if " of " in what
                else set(found) - {"eng", what}
            )
            assert found[what] == pytest.approx(statistics.mean(found[c] for c in left), abs=beyond)
            met += 1
    assert met == 2


def test_differences_of_conneau_are_those_of_their_rows():
    default = {
        task: GROUPS["conneau", "Table 1", "Default", task, metric]
        for task, metric in (("xnli", "accuracy"), ("ner", "span_f1"), ("parsing", "las"))
    }
    met = 0
    for (paper, table, system, task, metric), found in GROUPS.items():
        if paper == "conneau" and metric.endswith("_difference"):
            mine = GROUPS[paper, table, system, task, metric.removesuffix("_difference")]
            told = statistics.mean(mine[code] - default[task][code] for code in mine)
            assert found["mean"] == pytest.approx(told, abs=0.11), (system, task)
            met += 1
    assert met == 30


def test_frozen_layers_help_as_the_paper_says_but_for_parts_of_speech():
    def mean(system, task, metric):
        return GROUPS["wu_dredze", "Figure 1", system, task, metric]["mean"]

    best = {
        task: max(mean(f"mBERT, frozen to layer {n}", task, metric) for n in (0, 3, 6, 9))
        for task, metric in (("xnli", "accuracy"), ("upos", "accuracy"), ("parsing", "las"))
    }
    plain = GROUPS["wu_dredze", "Table 5", "mBERT, zero-shot", "upos", "accuracy"]
    assert best["upos"] - statistics.mean(v for k, v in plain.items() if len(k) == 3) < 0.1
    assert best["xnli"] - 66.3 > 0.7 and best["parsing"] - 54.2 > 1


def test_what_is_asked_for():
    assert {one.task for one in published(paper="wu_dredze")} >= {
        "mldoc",
        "xnli",
        "ner",
        "upos",
        "parsing",
    }
    assert all(find_task(task) for task in ("mldoc", "xnli", "ner", "upos", "parsing", "paws_x"))
    one = published(task="ner", language="deu", metric="span_f1")[0]
    assert (one.value, one.system, one.table) == (69.56, "mBERT, zero-shot", "Table 4")
    with pytest.raises(InputError, match="paper: expected one of wu_dredze"):
        published(paper="bert")


def test_categories_of_minimal_pairs_are_those_that_are_measured():
    """Their averages recompute from the rows, and no more pairs are covered than there are."""
    covered = {one.task: one.value for one in published(metric="covered")}
    totals = {f"minimal_pairs, {name}": n for name, n in PUBLISHED_TOTALS.items()}
    assert covered.keys() == totals.keys()
    assert all(covered[name] <= n for name, n in totals.items())
    met = 0
    for group, names in AGREEMENT_AND_REFLEXIVES.items():
        for system in ("English model", "transferred to English from"):
            rows = [
                GROUPS["artetxe", "Table 11", system, f"minimal_pairs, {name}", "accuracy"]
                for name in names
            ]
            key = (system, f"minimal_pairs, {group}", "macro_accuracy")
            for language, value in GROUPS["artetxe", "Table 11", *key].items():
                mean = statistics.mean(row[language] for row in rows)
                assert value == pytest.approx(mean, abs=0.0605), (group, system, language)
                assert GROUPS["artetxe", "Table 4", *key][language] == value
                met += 1
    assert met == 2 * 13


def test_encoders_that_stand_still_are_told_from_those_that_are_fine_tuned():
    still = {(one.task, one.table) for one in published() if one.frozen}
    assert {task.partition(",")[0] for task, _ in still} == {"wic", "scws", "minimal_pairs"}
    assert not any(one.frozen for one in published(task="xnli"))
