"""Which items train, choose and test: parts share nothing, keep the labels' proportions, and refuse
what they cannot be."""

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.splits import Parts, hold_out_dev, stratified_parts


def rows_of(parts):
    return np.concatenate([parts.train, parts.dev, parts.test])


def test_every_item_is_in_one_part_and_labels_keep_their_shares():
    y = np.random.default_rng(0).permutation(np.repeat(["a", "b", "c"], [100, 50, 10]))
    parts = stratified_parts(y, (0.6, 0.2, 0.2), seed=3)
    assert sorted(rows_of(parts)) == list(range(160))
    for label, n in (("a", 100), ("b", 50), ("c", 10)):
        assert [(y[rows] == label).sum() for rows in (parts.train, parts.dev, parts.test)] == [
            0.6 * n,
            0.2 * n,
            0.2 * n,
        ]
    assert parts.drawn == "a random 60 / 20 / 20 % of each label, seed 3"


def test_the_seed_decides_and_a_label_does_not_depend_on_others():
    y = np.repeat(["a", "b"], 50)
    assert np.array_equal(
        stratified_parts(y, seed=1).train, stratified_parts(y.tolist(), seed=1).train
    )
    assert not np.array_equal(stratified_parts(y, seed=1).train, stratified_parts(y, seed=2).train)
    without = stratified_parts(y[:50], seed=1)
    assert np.array_equal(stratified_parts(y, seed=1).test[:10], without.test)


def test_translations_line_by_line_stay_together():
    parts = stratified_parts(np.repeat(["deu", "eng", "swa"], 40))
    for rows in (parts.train, parts.dev, parts.test):
        assert [*map(set, (rows[rows // 40 == language] % 40 for language in range(3)))] == [
            {*(rows % 40)}
        ] * 3


def test_a_label_with_a_single_item_is_trained_on():
    parts = stratified_parts(["once"] + ["often"] * 9, (0.2, 0.4, 0.4))
    assert 0 in parts.train
    assert len(parts.train) == 3


def test_a_part_may_be_left_out_but_not_train_or_test():
    y = np.repeat(["a", "b"], 10)
    assert len(stratified_parts(y, (0.5, 0.0, 0.5)).dev) == 0
    with pytest.raises(InputError, match=r"test: .*got none"):
        stratified_parts(y, (0.5, 0.5, 0.0))
    with pytest.raises(InputError, match=r"fractions: .*got \(0.5, 0.1"):
        stratified_parts(y, (0.5, 0.1, 0.1))
    with pytest.raises(InputError, match=r"fractions: .*got \(nan, 0.5"):
        stratified_parts(y, (float("nan"), 0.5, 0.5))


def test_dev_is_held_out_of_train_alone():
    y = np.repeat(["a", "b"], 50)
    before = Parts(np.arange(10, 100), np.arange(10))
    after = hold_out_dev(before, y, 0.2, seed=1)
    assert np.array_equal(after.test, before.test)
    assert sorted([*after.train, *after.dev]) == list(range(10, 100))
    assert (y[after.dev] == "a").sum() == 8
    assert after.drawn == "given; dev is a random 20 % of train, each label by itself, seed 1"
    with pytest.raises(InputError, match=r"parts: .*got 18 items in"):
        hold_out_dev(after, y)
    with pytest.raises(InputError, match=r"fraction: .*got 0.1 of at most 1 training item\(s\) of"):
        hold_out_dev(Parts([0, 50], [1]), y)


def test_parts_of_a_column():
    parts = Parts.of_names(np.array(["train", "dev", "test", "train"]))
    assert [part.tolist() for part in (parts.train, parts.dev, parts.test)] == [[0, 3], [1], [2]]
    with pytest.raises(InputError, match=r"names: .*got 'valid'"):
        Parts.of_names(["train", "valid", "test"])


def test_refusals():
    with pytest.raises(InputError, match=r"parts: .*got item 3 2"):
        Parts([0, 3], [3])
    with pytest.raises(InputError, match=r"parts: .*got item 0 2"):
        Parts([0, 0], [3])
    with pytest.raises(InputError, match=r"train: .*got an array of"):
        Parts(np.array([True, False]), [1])
    with pytest.raises(InputError, match=r"dev: .*got an array of"):
        Parts([0], [1], [-1])
    with pytest.raises(InputError, match=r"train: .*got none"):
        Parts([], [1])
    with pytest.raises(InputError, match=r"parts: .*got row 5"):
        Parts([0], [5]).check(3)


def test_items_of_one_group_stay_in_one_part():
    """Texts that are repeated; without repeats the parts are those that are drawn without
    groups."""
    labels = np.array(["a", "b"] * 60)
    texts = np.array([f"text {i % 45}" for i in range(120)])
    parts = stratified_parts(labels, groups=texts)
    sides = [{*texts[rows]} for rows in (parts.train, parts.dev, parts.test)]
    assert (
        sum(map(len, sides)) == 45 and len({*sides[0]} | sides[1] | sides[2]) == 45 and all(sides)
    )
    assert sorted(np.concatenate([parts.train, parts.dev, parts.test])) == list(range(120))
    alone, plain = (
        stratified_parts(labels, seed=3, groups=np.arange(120)[::-1]),
        stratified_parts(labels, seed=3),
    )
    assert all(
        np.array_equal(getattr(alone, part), getattr(plain, part))
        for part in ("train", "dev", "test")
    )
    held = hold_out_dev(Parts(range(100), range(100, 120)), labels, 0.2, groups=texts)
    assert not {*texts[held.train]} & {*texts[held.dev]} and len(held.dev)
