"""Edge probing of arcs: every arc once, and as often a pair of words without one."""

from collections import Counter

import numpy as np

from crosslens.probes.tasks.dependency_arcs import NO_ARC, pick_arcs


def columns(*heads, relation="dep:sub"):
    """Sentences given by the heads of their words."""
    return {
        "text": [i for i, some in enumerate(heads) for _ in some],
        "head": [str(head) for some in heads for head in some],
        "upos": ["X" for some in heads for _ in some],
        "deprel": [relation if head else "root" for some in heads for head in some],
    }


TREES = columns([2, 0, 2, 3], [0], [0, 1], [3, 1, 0, 3, 4, 4])


def test_every_arc_is_there_once_with_its_relation_and_as_many_pairs_have_none():
    found = pick_arcs(TREES, seed=0)
    pairs = list(
        zip(found.first.tolist(), found.second.tolist(), found.labels.tolist(), strict=True)
    )
    begins = np.searchsorted(TREES["text"], TREES["text"]).tolist()
    arcs = [
        (i, begins[i] + int(head) - 1, "dep") for i, head in enumerate(TREES["head"]) if head != "0"
    ]
    assert [pair for pair in pairs if pair[2] != NO_ARC] == arcs
    negatives = [pair for pair in pairs if pair[2] == NO_ARC]
    assert [i for i, _, _ in negatives] == [
        i for i, _, _ in arcs if TREES["text"].count(TREES["text"][i]) > 2
    ]
    for i, j, _ in negatives:
        assert i != j and TREES["text"][i] == TREES["text"][j] and (i, j, "dep") not in arcs


def test_negatives_are_uniform_and_follow_the_seed():
    heads = [0, *[1] * 5]
    counts = Counter(
        j
        for seed in range(300)
        for i, j in zip(
            *(
                pick_arcs(columns(heads), seed).__dict__[k][1::2].tolist()
                for k in ("first", "second")
            ),
            strict=True,
        )
        if i == 1
    )
    # 75 expected, less five standard deviations
    assert set(counts) == {2, 3, 4, 5} and min(counts.values()) > 37
    assert np.array_equal(pick_arcs(TREES, 3).second, pick_arcs(TREES, 3).second)
