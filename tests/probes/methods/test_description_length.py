"""Online code length: an explicit loop with scikit-learn, what a code must satisfy, and where
labels are met late."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from crosslens.errors import InputError
from crosslens.probes.methods.description_length import PORTIONS, description_length
from crosslens.probes.methods.linear.layer_probe import LayerProbe


def vectors(seed=0, n=600, d=4, apart=2.0, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    x = rng.normal(size=(n, d)) + apart * rng.normal(size=(classes, d))[y]
    return x, np.array(["cat", "dog", "owl"])[y]


def by_loop(x, y, strength, order, ends):
    """Voita & Titov's equation, one item after the other, with the documented rule for labels that
    were not met."""
    kinds, bits = sorted({*y}), [ends[0] * np.log2(len({*y}))]
    for start, end in zip(ends, ends[1:], strict=False):
        seen, block = order[:start], 0.0
        met = sorted({*y[seen]})
        late = len(kinds) - len(met)
        scaler = StandardScaler().fit(x[seen])
        model = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)
        if len(met) > 1:
            model.fit(scaler.transform(x[seen]), y[seen])
        for row in order[start:end]:
            if y[row] not in met:
                p = 1 / (start + late)
            else:
                p = (
                    model.predict_proba(scaler.transform(x[row : row + 1]))[0][met.index(y[row])]
                    if len(met) > 1
                    else 1.0
                )
                p *= start / (start + late)
            block -= np.log2(p)
        bits.append(block)
    return bits


def order_of(length, n):
    """The order that a seed draws is the only one: read it back from the documented generator."""
    return np.random.default_rng([length.seed, 0x3D1]).permutation(n)


@pytest.mark.parametrize("strength", [0.05, 1.0])
def test_it_is_the_papers_sum_block_by_block(strength):
    x, y = vectors()
    length = description_length([x], y, strength, seed=3)
    # of 0.6, 1.2, 2.4 … items
    assert length.ends.tolist() == [1, 2, 5, 10, 19, 38, 75, 150, 300, 600]
    expected = by_loop(x, y, strength, order_of(length, len(y)), length.ends)
    # probes stop within a share of the loss of the minimum
    assert length.blocks[0] == pytest.approx(expected, rel=5e-3, abs=0.03)
    assert length.bits[0] == pytest.approx(sum(expected), rel=2e-3)
    assert length.uniform == pytest.approx(600 * np.log2(3))
    assert length.compression[0] == pytest.approx(length.uniform / length.bits[0])


def test_each_layer_has_its_own_penalty_and_is_coded_alone():
    (x, y), other = vectors(), vectors(seed=5)[0]
    both = description_length([x, other], y, [1.0, 0.05])
    assert both.bits[0] == pytest.approx(description_length([x], y, 1.0).bits[0], rel=1e-6)
    assert both.bits[1] == pytest.approx(description_length([other], y, 0.05).bits[0], rel=1e-6)


def test_vectors_that_tell_more_have_the_shorter_code():
    n, y = 2000, np.arange(2000) % 4
    rng = np.random.default_rng(0)
    centres = np.eye(8)[y]
    length = description_length(
        [rng.normal(size=(n, 8)) + apart * centres for apart in (0, 2, 6)], y
    )
    assert (np.diff(length.bits) < 0).all()
    assert length.compression[0] < 1, "what tells nothing costs more than knowing nothing"
    assert length.compression[2] > 5
    assert length.classes == 4


def test_accuracy_may_be_equal_where_code_lengths_are_not():
    """What Voita & Titov propose it for: a layer that is easier to learn from has the shorter
    code."""
    n, y, rng = 1000, np.arange(1000) % 2, np.random.default_rng(1)
    hard = rng.normal(size=(n, 60)) + 6 * np.eye(60)[0] * y[:, None]
    easy = hard * np.eye(60)[0]  # nothing else varies
    accurate = [
        np.mean(answers == y[500:])
        for answers in LayerProbe()
        .fit([easy[:500], hard[:500]], y[:500])
        .predict([easy[500:], hard[500:]])
    ]
    assert accurate == pytest.approx([1.0, 1.0], abs=0.01)
    length = description_length([easy, hard], y)
    assert length.bits[0] < length.bits[1] / 2


def test_labels_that_are_met_late_cost_what_is_left_for_them():
    """Vectors that say nothing and penalties that allow nothing: the code is one of frequencies,
    computed by hand."""
    x, y = (
        np.random.default_rng(0).normal(size=(8, 2)),
        np.array(["a", "a", "a", "b", "b", "b", "c", "a"]),
    )
    length = description_length([x], y, 1e-9, portions=(0.25, 0.5, 1.0), seed=0)
    labels = y[order_of(length, 8)]
    expected = [2 * np.log2(3)]
    for start, end in ((2, 4), (4, 8)):
        met = {*labels[:start]}
        late, block = 3 - len(met), 0.0
        for label in labels[start:end]:
            share = np.mean(labels[:start] == label) * start if label in met else 1
            block -= np.log2(share / (start + late))
        expected.append(block)
    assert len({*labels[:2]}) < 3, "no label is met late"
    assert length.blocks[0] == pytest.approx(expected, abs=1e-3)


def test_the_seed_decides_the_order_and_nothing_else():
    x, y = vectors(n=200)
    first, again, other = (description_length([x], y, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.blocks, again.blocks)
    assert first.bits[0] != other.bits[0]
    assert first.uniform == other.uniform


def test_the_order_of_rows_matters_because_the_code_goes_through_them():
    """The invariance that it must not have; a mean over orders would be another measure."""
    x, y = vectors(n=200)
    order = np.random.default_rng(9).permutation(200)
    assert description_length([x], y).bits[0] != description_length([x[order]], y[order]).bits[0]


def test_the_portions_are_the_papers():
    assert PORTIONS == (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
    x, y = vectors(n=8000, d=2)
    assert description_length([x], y).ends.tolist() == [
        8,
        16,
        32,
        64,
        128,
        256,
        500,
        1000,
        2000,
        4000,
        8000,
    ]


def test_refusals():
    x, y = vectors(n=50)
    with pytest.raises(InputError, match=r"y: .*got only cat"):
        description_length([x], np.full(50, "cat"))
    for portions in ((0.5, 0.9), (0.0, 1.0), (0.5, 0.5, 1.0), ()):
        with pytest.raises(InputError, match="portions: expected"):
            description_length([x], y, portions=portions)
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        description_length([x], y, seed=-1)
    with pytest.raises(InputError, match=r"y: .*got an array of"):
        description_length([x], y[:-1])
    for strength in ([1.0, 2.0], 0, -1.0, float("nan"), "1"):
        with pytest.raises(InputError, match="C: expected"):
            description_length([x], y, strength)


def test_a_probability_too_small_for_a_number_has_a_length_all_the_same():
    """Far outliers with the other label: the probe of the first half is surer than float64 can
    say."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 2)) + 8 * y[:, None]
    last = np.random.default_rng([1, 0x3D1]).permutation(60)[-5:]
    x[last] = 1e4 * (1 - 2 * y[last, None])
    length = description_length([x, x.astype(np.float32)], y, 1000.0, seed=1)
    assert (
        np.isfinite(length.bits).all()
        and (length.bits > 10 * length.uniform).all()
        and (length.compression < 0.1).all()
    )
