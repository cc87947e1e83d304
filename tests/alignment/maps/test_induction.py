"""Self-learning and refinement: recovery of known rotations, the published rules by plain loops,
the distribution of what is dropped."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from crosslens.alignment.maps.induction import SelfLearningResult, _induce, refine, self_learning
from crosslens.alignment.maps.learning_state import LearningState
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.seeds import unsupervised_seed
from crosslens.alignment.maps.vecmap_maps import MultiStepMap
from crosslens.alignment.normalisation import normalise
from crosslens.alignment.rows import unit_rows
from crosslens.errors import InputError, OutputError, StoreError


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def two_spaces(rng, n, d, noise):
    """Clustered vectors, a rotated and reordered copy with noise, and the row of y that belongs to
    each row of x."""
    scales = rng.gamma(2, 1, size=d)
    x = (
        rng.normal(size=(n // 10, d))[rng.integers(0, n // 10, n)] + 0.6 * rng.normal(size=(n, d))
    ) * scales
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    place = rng.permutation(n)
    return x, (x @ turn + noise * rng.normal(size=x.shape))[place], np.argsort(place)


def precision(result, x, y, own):
    """How often a word's own row is its nearest by cosine, all of y competing."""
    return float(
        (
            (unit_rows(result.transform_x(x)) @ unit_rows(result.transform_y(y)).T).argmax(axis=1)
            == own
        ).mean()
    )


def csls_by_definition(x, y, k):
    cosines = x @ y.T
    return cosines, 2 * cosines - np.sort(cosines, axis=1)[:, -k:].mean(axis=1)[:, None] - np.sort(
        cosines, axis=0
    )[-k:].mean(axis=0)


def test_a_rotation_is_recovered_from_25_pairs(rng):
    x, y, own = two_spaces(rng, 400, 40, 1.0)
    start = np.stack([np.arange(25), own[:25]], axis=1)
    result = self_learning(x, y, start, patience=3)
    rotation = scipy.linalg.orthogonal_procrustes(
        normalise(x)[start[:, 0]], normalise(y)[start[:, 1]]
    )[0]
    before = ((normalise(x) @ rotation @ normalise(y).T).argmax(axis=1) == own).mean()
    assert before < 0.7 < 0.97 < precision(result, x, y, own)
    assert (own[result.pairs[:, 0]] == result.pairs[:, 1]).mean() > 0.97


def test_nothing_but_the_vectors_is_needed_for_an_isometric_space(rng):
    x, y, own = two_spaces(rng, 500, 30, 0.6)
    start = unsupervised_seed(x, y)
    seed_precision = (own[start[:, 0]] == start[:, 1]).mean()
    assert 0.02 < seed_precision < 0.8, (
        "better than chance, 1 in 500, and with something left to learn"
    )
    assert precision(self_learning(x, y, start, patience=2), x, y, own) > 0.9


def test_random_pairs_teach_nothing(rng):
    """The contrast to the tests above: the procedure does not make a result out of nothing."""
    x, y, own = two_spaces(rng, 300, 30, 0.3)
    start = np.stack([np.arange(300), rng.permutation(300)], axis=1)
    assert precision(self_learning(x, rng.normal(size=y.shape), start, patience=2), x, y, own) < 0.1


def by_loops(x, y, pairs, k, iterations):
    """Self-learning without dropping, in float64 and with the whole product."""
    objectives = []
    for _ in range(iterations):
        rotation = scipy.linalg.orthogonal_procrustes(x[pairs[:, 0]], y[pairs[:, 1]])[0]
        cosines, csls = csls_by_definition(x @ rotation, y, k)
        objectives.append((cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2)
        there = [(i, row.argmax()) for i, row in enumerate(csls)]
        pairs = np.array(there + [(column.argmax(), j) for j, column in enumerate(csls.T)])
    return pairs, objectives


def test_without_dropping_it_is_the_plain_procedure(rng):
    x, y, own = two_spaces(rng, 200, 12, 1.0)
    start = np.stack([np.arange(20), own[:20]], axis=1)
    result = self_learning(x, y, start, keep_probability=1, k=7)
    pairs, objectives = by_loops(normalise(x), normalise(y), start, 7, len(result.objectives))
    assert len(objectives) > 3
    assert np.array_equal(result.pairs, pairs)
    assert np.allclose(result.objectives, objectives, rtol=0, atol=1e-12)
    assert set(result.keep_probabilities) == {1.0}
    assert np.array_equal(by_loops(normalise(x), normalise(y), pairs, 7, 3)[0], pairs), (
        "it ended where going on changes nothing"
    )


def ranks_of(there, csls):
    """The rank of the chosen partner of each row; 0 where there is none."""
    order = np.argsort(-csls, axis=1, kind="stable")
    return np.where(there < 0, 0, (order == there[:, None]).argmax(axis=1) + 1)


@pytest.mark.parametrize("keep", [0.1, 0.3, 0.8])
def test_what_survives_is_distributed_as_with_a_mask_over_all_candidates(rng, keep):
    """Against the definition: draw for every candidate, remove, take the best of the rest. Also
    nothing may be left."""
    x, y = unit_rows(rng.normal(size=(3000, 6))), unit_rows(rng.normal(size=(8, 6)))
    now = LearningState(np.empty((0, 2), int), np.arange(3000), np.arange(8), rng)
    _induce(x, y, 3, keep, now)
    pairs = now.pairs
    cut = np.flatnonzero(np.diff(pairs[:, 0]) < 0)[:1] + 1  # where the pairs from y to x begin
    forward = pairs[: int(cut[0]) if len(cut) else -8]
    there = np.full(3000, -1)
    there[forward[:, 0]] = forward[:, 1]
    _, csls = csls_by_definition(x, y, 3)
    kept = np.where(rng.random(csls.shape) < keep, csls, -np.inf)
    masked = np.where(np.isinf(kept.max(axis=1)), -1, kept.argmax(axis=1))
    counts = np.array(
        [np.bincount(ranks_of(choice, csls), minlength=9) for choice in (there, masked)]
    )
    few = counts.sum(axis=0) < 20
    counts = np.column_stack([counts[:, ~few], counts[:, few].sum(axis=1)]) if few.any() else counts
    counts = counts[:, counts.sum(axis=0) > 0]
    assert scipy.stats.chi2_contingency(counts).pvalue > 0.01
    theory = np.array([(1 - keep) ** 8, *(keep * (1 - keep) ** np.arange(8))]) * 3000
    own = np.bincount(ranks_of(there, csls), minlength=9)
    enough = theory > 5
    assert (
        scipy.stats.chisquare(
            [*own[enough], own[~enough].sum() + 1e-9],
            [*theory[enough], theory[~enough].sum() + 1e-9],
        ).pvalue
        > 0.01
    )


def test_each_draw_is_independent_of_the_other_direction_and_of_the_iteration_before(rng):
    x, y = unit_rows(rng.normal(size=(2000, 6))), unit_rows(rng.normal(size=(2000, 6)))
    now = LearningState(np.empty((0, 2), int), np.arange(2000), np.arange(2000), rng)
    _, csls = csls_by_definition(x, y, 3)
    ranks = []
    for _ in range(2):
        _induce(x, y, 3, 0.5, now)
        assert len(now.pairs) == 4000
        ranks += [ranks_of(now.pairs[:2000, 1], csls), ranks_of(now.pairs[2000:, 0], csls.T)]
    correlations = np.corrcoef(ranks)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(2000)  # four standard errors of nothing


def test_the_keep_probability_doubles_after_patience_iterations_without_gain_and_never_before(rng):
    x, y, own = two_spaces(rng, 200, 12, 0.8)
    result = self_learning(
        x, y, np.stack([np.arange(20), own[:20]], axis=1), patience=4, keep_probability=0.15
    )
    keep, best, stale, expected = 0.15, -np.inf, 0, []
    for objective in result.objectives:
        if stale == 4:
            keep, stale = min(1.0, 2 * keep), 0
        expected.append(keep)
        best, stale = (objective, 0) if objective - best >= 1e-6 else (best, stale + 1)
    assert result.keep_probabilities.tolist() == expected
    assert set(expected) == {0.15, 0.3, 0.6, 1.0}


def test_the_same_seed_gives_the_same_bits_and_another_does_not(rng):
    x, y, own = two_spaces(rng, 200, 12, 0.8)
    start = np.stack([np.arange(20), own[:20]], axis=1)
    one, two, other = (
        self_learning(x, y, start, patience=2, keep_probability=0.5, seed=seed)
        for seed in (1, 1, 2)
    )
    for name in ("map_x", "map_y", "pairs", "objectives", "keep_probabilities"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.objectives[:3], other.objectives[:3])


def test_the_hash_seed_of_the_process_changes_nothing():
    code = (
        "import numpy as np, hashlib\n"
        "from crosslens.alignment.maps.induction import self_learning\n"
        "from crosslens.alignment.maps.seeds import dictionary_seed, identical_words, numerals\n"
        "x = np.random.default_rng(0).normal(size=(150, 8)); words = [f'w{i}' for i in "
        "range(148)] + ['1', '2']\n"
        "entries, other = {(word, word) for word in words}, words[::-1]\n"
        "seeds = identical_words(words, other), numerals(words, other), "
        "dictionary_seed(entries, words, other)\n"
        "result = self_learning(x, x[::-1, ::-1], seeds[0], patience=1, keep_probability=0.5)\n"
        "arrays = [result.map_x, result.pairs, result.objectives, *seeds]\n"
        "print([hashlib.sha256(array.tobytes()).hexdigest() for array in arrays])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(printed) == 1


def test_new_vectors_are_mapped_as_those_of_the_vocabulary(rng):
    x, y, own = two_spaces(rng, 200, 12, 0.3)
    result = self_learning(
        x, y, np.stack([np.arange(40), own[:40]], axis=1), patience=2, keep_probability=0.5
    )
    assert np.allclose(result.transform_x(x), normalise(x) @ result.map_x)
    assert np.allclose(result.transform_y(y), normalise(y) @ result.map_y)
    assert np.allclose(result.transform_x(x[7:9] * 5), (normalise(x) @ result.map_x)[7:9]), (
        "one by one, and whatever their length"
    )


def test_only_the_first_rows_take_part_in_the_dictionary(rng):
    x, y, own = two_spaces(rng, 300, 12, 0.3)
    result = self_learning(
        x, y[own], np.stack([np.arange(260, 300)] * 2, axis=1), patience=2, vocabulary=100
    )
    assert result.pairs.max() == 99
    assert len(result.pairs) <= 200


def test_lengths_do_not_matter_but_the_origin_does(rng):
    x, y, own = two_spaces(rng, 200, 12, 0.8)
    start = np.stack([np.arange(20), own[:20]], axis=1)
    result = self_learning(x, y, start, keep_probability=1)
    stretched = self_learning(x * rng.uniform(1, 9, size=(200, 1)), y, start, keep_probability=1)
    shifted = self_learning(x + 5 * np.arange(12), y, start, keep_probability=1)
    assert np.allclose(stretched.objectives, result.objectives)
    assert abs(shifted.objectives[0] - result.objectives[0]) > 1e-3


def test_float32_stays_and_inputs_are_not_written_to(rng):
    x, y, own = two_spaces(rng, 200, 12, 0.3)
    x, y = x.astype(np.float32), y.astype(np.float32)
    start = np.stack([np.arange(40), own[:40]], axis=1)
    for array in (x, y, start):
        array.flags.writeable = False
    result = self_learning(x, y, start, patience=2, keep_probability=0.5)
    assert (
        result.map_x.dtype
        == result.map_y.dtype
        == result.mean_x.dtype
        == result.transform_x(x).dtype
        == np.float32
    )
    refined = refine(x, y, start, rounds=1)
    assert refined.aligner.rotation_.dtype == np.float32


def test_refinement_is_the_published_loop(rng):
    x, y, own = two_spaces(rng, 300, 20, 1.5)
    start = np.stack([np.arange(15), own[:15]], axis=1)
    result = refine(x, y, start, rounds=3, k=8)
    units_x, units_y = unit_rows(x), unit_rows(y)
    pairs, tried, criteria = start, [], []
    for _ in range(4):
        rotation = scipy.linalg.orthogonal_procrustes(units_x[pairs[:, 0]], units_y[pairs[:, 1]])[0]
        cosines, csls = csls_by_definition(units_x @ rotation, units_y, 8)
        there, back = csls.argmax(axis=1), csls.argmax(axis=0)
        pairs = np.array([(i, there[i]) for i in range(300) if back[there[i]] == i])
        criteria.append(np.mean([cosines[i, there[i]] for i in range(300)]))
        tried.append((rotation, pairs))
    assert np.allclose(result.criteria, criteria, rtol=0, atol=1e-12)
    assert result.best_round == int(np.argmax(criteria))
    assert result.best_round > 0
    assert np.allclose(result.aligner.rotation_, tried[result.best_round][0])
    assert np.array_equal(result.pairs, tried[result.best_round][1])


def test_refinement_makes_a_map_from_few_pairs_better(rng):
    x, y, own = two_spaces(rng, 400, 40, 1.0)
    first = Procrustes(centre=False, normalise=True).fit(x[:25], y[own[:25]])
    result = refine(x, y, first)

    def right(aligner):
        return float(
            ((unit_rows(aligner.transform(x)) @ unit_rows(y).T).argmax(axis=1) == own).mean()
        )

    assert right(first) < 0.7 < 0.97 < right(result.aligner)
    assert result.criteria.shape == (6,)


def test_refinement_keeps_the_start_where_no_round_is_better_and_never_changes_it(rng):
    class Worse(Procrustes):
        """Fits what it is told to the first time, and nonsense on refits."""

        def fit(self, X, Y):
            return super().fit(X, np.asarray(Y)[::-1])

    x, y, own = two_spaces(rng, 300, 20, 0.3)
    start = Worse().fit(x, y[own][::-1])
    rotation = start.rotation_.copy()
    result = refine(x, y, start, rounds=2)
    assert result.best_round == 0
    assert result.aligner is start
    assert np.array_equal(start.rotation_, rotation)
    assert result.criteria[0] > result.criteria[1:].max()


GOOD = np.random.default_rng(0).normal(size=(30, 4))
PAIRS = np.stack([np.arange(20)] * 2, axis=1)


@pytest.mark.parametrize("call", [self_learning, refine])
@pytest.mark.parametrize(
    ("x", "y", "pairs", "settings", "message"),
    [
        (GOOD, GOOD, [], {}, "expected at least one pair, got none"),
        (GOOD, GOOD, np.empty((0, 2), int), {}, "expected at least one pair, got none"),
        (
            GOOD,
            GOOD,
            [[0, 1, 2]],
            {},
            r"expected whole numbers of shape \(p, 2\), got int64 of shape \(1, 3\)",
        ),
        (GOOD, GOOD, [[0.0, 1.0]], {}, r"expected whole numbers of shape \(p, 2\), got float64"),
        (
            GOOD,
            GOOD,
            [[0, 1], [2]],
            {},
            r"expected whole numbers of shape \(p, 2\), got rows of different",
        ),
        (
            GOOD,
            GOOD,
            [[0, 1], [2, 30]],
            {},
            r"expected rows of y from 0 to 29, got 30 in pair 1; leave out words",
        ),
        (GOOD, GOOD, [[-1, 1]], {}, r"expected rows of x from 0 to 29, got -1 in pair 0"),
        (
            GOOD,
            GOOD[:9],
            PAIRS[:9],
            {},
            "k: expected at most the number of words that take part, 9",
        ),
        (
            GOOD,
            GOOD,
            PAIRS,
            {"vocabulary": 5},
            "k: expected at most the number of words that take part, 5",
        ),
        (
            GOOD,
            GOOD,
            PAIRS,
            {"vocabulary": 0},
            "vocabulary: expected a whole number from 1 up",
        ),
        (GOOD, GOOD, PAIRS, {"k": 0}, "k: expected a whole number from 1 up"),
        (
            np.where(GOOD == GOOD[3, 1], np.nan, GOOD),
            GOOD,
            PAIRS,
            {},
            "x: expected finite numbers",
        ),
        (
            GOOD,
            np.where(GOOD == GOOD[3, 1], np.inf, GOOD),
            PAIRS,
            {},
            "y: expected finite numbers",
        ),
        (
            GOOD * (np.arange(30) != 4)[:, None],
            GOOD,
            PAIRS,
            {},
            "rows with a direction, got 1 row.s. of zeros, the first is row 4",
        ),
        (GOOD, GOOD[:, :3], PAIRS, {}, "expected as many columns as"),
    ],
)
def test_refusals_of_both(call, x, y, pairs, settings, message):
    with pytest.raises(InputError, match=message):
        call(x, y, pairs, **settings)


@pytest.mark.parametrize("value", [0, -0.1, 1.1, True, float("nan")])
def test_a_keep_probability_is_above_0_and_at_most_1(value):
    with pytest.raises(InputError, match="keep_probability: expected a probability"):
        self_learning(GOOD, GOOD, PAIRS, keep_probability=value)


def test_a_dictionary_of_which_nothing_is_left_is_refused():
    with pytest.raises(InputError, match="keep_probability: .*got 1e-09 with"):
        self_learning(GOOD, GOOD, PAIRS, keep_probability=1e-9)


def test_patience_is_at_least_1():
    with pytest.raises(InputError, match="patience: .*got 0"):
        self_learning(GOOD, GOOD, PAIRS, patience=0)


def test_rounds_are_at_least_1():
    with pytest.raises(InputError, match="rounds: .*got 0"):
        refine(GOOD, GOOD, PAIRS, rounds=0)


def test_mapping_refuses_what_it_was_not_learnt_for():
    result = self_learning(GOOD, GOOD, PAIRS, patience=1)
    with pytest.raises(InputError, match="x: .*got 3 columns"):
        result.transform_x(GOOD[:, :3])
    with pytest.raises(InputError, match="y: expected finite numbers"):
        result.transform_y(np.full((1, 4), np.nan))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_saved_maps_map_as_they_did_and_tell_how_they_were_learnt(rng, tmp_path, precision):
    x, y, own = (
        side.astype(precision) if side.dtype.kind == "f" else side
        for side in two_spaces(rng, 200, 12, 0.3)
    )
    result = self_learning(x, y, np.stack([np.arange(40), own[:40]], axis=1), patience=2)
    result.save(tmp_path / "maps.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["maps.safetensors"]
    loaded = SelfLearningResult.load(tmp_path / "maps.safetensors")
    for field in dataclasses.fields(result):
        before, after = getattr(result, field.name), getattr(loaded, field.name)
        assert (after.dtype, after.tobytes()) == (before.dtype, before.tobytes()), field.name
    new_x, new_y = rng.normal(size=(2, 9, 12)).astype(precision)
    assert np.array_equal(loaded.transform_x(new_x), result.transform_x(new_x))
    assert np.array_equal(loaded.transform_y(new_y), result.transform_y(new_y))
    # the sides keep their places
    assert not np.array_equal(loaded.transform_x(new_x), result.transform_y(new_x))


def test_load_refuses_what_save_did_not_write(tmp_path):
    result = self_learning(GOOD, GOOD, PAIRS, patience=1)
    result.save(tmp_path / "maps")
    whole = (tmp_path / "maps").read_bytes()
    changed = {"cut": whole[:-9], "text": b"hello", "gone": whole.replace(b"mean_y", b"meen_y")}
    for name, content in changed.items():
        (tmp_path / name).write_bytes(content)
    Procrustes().fit(GOOD, GOOD[::-1]).save(tmp_path / "rotation")
    for name in (*changed, "rotation"):
        with pytest.raises(StoreError, match="path: expected"):
            SelfLearningResult.load(tmp_path / name)
    with pytest.raises(
        StoreError,
        match=(
            r"got .*rotation \(of Procrustes, with mean_x_, mean_y_, rotation_\); learn and save "
            r"the maps"
        ),
    ):
        SelfLearningResult.load(tmp_path / "rotation")
    with pytest.raises(StoreError, match=r"path: .*got .*SelfLearningResult"):
        Procrustes.load(tmp_path / "maps")
    with pytest.raises(InputError, match=r"path: .*got .*nowhere"):
        SelfLearningResult.load(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="path: expected"):
        result.save(tmp_path / "no" / "maps")


def test_refinement_refuses_a_map_into_a_space_between_both(rng):
    x, y, _ = two_spaces(rng, 60, 4, 0.1)
    with pytest.raises(InputError, match=r"start: .*got a MultiStepMap"):
        refine(x, y, MultiStepMap().fit(x, y))
