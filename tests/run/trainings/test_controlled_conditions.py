"""The conditions of Deshpande et al. 2022: which texts and ids each has, in which order, and beside
which number of the paper it stands."""

import pytest

from crosslens.readers.published import published
from crosslens.recipes.controlled import controlled_study


def test_the_order_of_the_compositions_is_that_of_the_paper():
    study = controlled_study("deshpande-compositions", {"data": "x", "syntax": "y"})
    assert study.order == [
        ["transliteration"],
        ["transliteration-syntax"],
        ["transliteration-inversion", "transliteration-permutation"],
    ]
    syntax = study.conditions["transliteration-syntax"]
    assert syntax.kept == {"eng-x": "kept-syntax"}
    assert syntax.recipe.vocabulary.mode == "disjoint"
    assert (
        controlled_study("deshpande-pairs", {"data": "x", "syntax": "y"})
        .conditions["syntax"]
        .recipe.vocabulary.mode
        == "union"
    )  # the same words, with the same ids


@pytest.mark.parametrize("name", ["deshpande-compositions", "deshpande-corpora"])
def test_each_condition_stands_beside_its_own_number_of_the_paper(name):
    other = {"other": "y"} if name == "deshpande-corpora" else {"syntax": "y"}
    study = controlled_study(name, {"data": "x", **other})
    told = {condition: one.published for condition, one in study.conditions.items()}
    assert {*told.values()} <= {one.system for one in published(paper="deshpande")}
    assert len({*told.values()}) == len(told)
    words = {"same": "same", "parallel": "parallel", "different": "diff"}
    for condition, system in told.items():
        parts = condition.split("-") if "-" in condition else [words.get(condition, condition)]
        assert all(part in system for part in parts)


def test_only_the_same_half_of_a_text_is_read_line_by_line():
    study = controlled_study("deshpande-corpora", {"data": "x", "other": "y"})
    sources = {name: len(one.recipe.sources) for name, one in study.conditions.items()}
    assert sources == {"parallel": 1, "same": 2, "different": 2}
