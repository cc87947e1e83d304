"""The generated pairs of Marvin & Linzen: published totals, and the released files."""

import collections

import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.marvin_linzen import (
    AGREEMENT,
    GROUPS,
    PUBLISHED_TOTALS,
    REFLEXIVES,
    marvin_linzen_pairs,
)
from crosslens.readers.minimal_pairs import MARVIN_LINZEN_CATEGORIES, read_minimal_pairs

# Artetxe et al. 2020, table 10
TOTALS = [140, 1680, 840, 400, 22400, 11200, 22400, 22400, 22400, 22400, 280, 3360, 22400]


@pytest.fixture(scope="module")
def published():
    return marvin_linzen_pairs()


@pytest.fixture(scope="module")
def revised():
    return marvin_linzen_pairs("revised")


def by_category(pairs):
    found = collections.defaultdict(list)
    for pair in pairs:
        found[pair.category].append((pair.good, pair.bad))
    return dict(found)


def test_totals_are_those_of_the_paper_in_its_order(published):
    found = by_category(published)
    assert [len(found[category]) for category in (*AGREEMENT, *REFLEXIVES)] == TOTALS
    assert {category: len(pairs) for category, pairs in found.items()} == dict(PUBLISHED_TOTALS)
    assert list(found) == [*AGREEMENT, *REFLEXIVES]


def test_the_groups_are_ten_and_three_categories():
    assert [len(group) for group in GROUPS.values()] == [10, 3]
    assert {one for group in GROUPS.values() for one in group} == set(
        MARVIN_LINZEN_CATEGORIES.values()
    )


def test_no_pair_is_there_twice(published, revised):
    for release in (published, revised):
        for pairs in by_category(release).values():
            assert len(set(pairs)) == len(pairs)


def test_sentences_of_a_pair_differ_in_one_word(published):
    for pair in published:
        good, bad = pair.good.split(), pair.bad.split()
        assert len(good) == len(bad)
        assert sum(a != b for a, b in zip(good, bad, strict=True)) == 1


def test_no_sentence_is_good_in_one_pair_and_bad_in_another(published):
    assert not {pair.good for pair in published} & {pair.bad for pair in published}


def test_examples_of_the_paper_are_there(published):
    found = {(pair.good, pair.bad, pair.category) for pair in published}
    for good, bad, category in [
        ("the author laughs", "the author laugh", "simple agreement"),
        (
            "the bankers knew the officer smiles",
            "the bankers knew the officer smile",
            "in a sentential complement",
        ),
        (
            "the farmer near the parents smiles",
            "the farmer near the parents smile",
            "across a prepositional phrase",
        ),
        (
            "the officers that love the skater smile",
            "the officers that love the skater smiles",
            "across a subject relative clause",
        ),
        (
            "the farmer that the parents love swims",
            "the farmer that the parents love swim",
            "across an object relative clause",
        ),
        (
            "the farmer that the parents love swims",
            "the farmer that the parents loves swims",
            "in an object relative clause",
        ),
        ("the pilots injured themselves", "the pilots injured herself", "simple reflexive"),
    ]:
        assert (good, bad, category) in found


def test_the_revised_pairs_are_those_of_the_released_file(revised, shared_data):
    theirs = by_category(read_minimal_pairs(shared_data / "marvin_linzen" / "pairs.tsv.gz"))
    ours = by_category(revised)
    assert ours.keys() == theirs.keys()
    for category, pairs in ours.items():
        assert len(pairs) == len(theirs[category])
        assert set(pairs) == set(theirs[category]), category


def test_the_releases_differ_in_two_nouns(published, revised):
    without = [pair for pair in published if not pair.good.startswith("the television show")]
    spoken = {
        (pair.good.replace("security guard", "guard"), pair.bad.replace("security guard", "guard"))
        for pair in without
    }
    assert spoken == {(pair.good, pair.bad) for pair in revised}
    assert len(published) - len(revised) == 5040


def test_refusal():
    with pytest.raises(InputError, match=r"release: .*got 'old'"):
        marvin_linzen_pairs("old")
