"""What every estimator of the library promises, whatever it learns. A new aligner or probe adds one
line to CASES."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from crosslens.alignment import Procrustes
from crosslens.alignment.maps.linear_maps import LeastSquares
from crosslens.alignment.maps.vecmap_maps import MultiStepMap
from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.errors import InputError
from crosslens.probes import LinearProbe


@dataclasses.dataclass(frozen=True)
class Case:
    make: Callable[[], Any]
    # what fit takes beside X, or None where it takes X alone
    target: Callable[[np.ndarray], Any] | None
    apply: str  # the method that maps vectors to numbers
    second: str  # fit's name for its second argument
    tolerance: float  # of float32 against float64, with its reason beside the case


def rotated(x):
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(x.shape[1], x.shape[1])))
    return x @ turn + 0.1 * np.sin(x) + 2


def labelled(x):
    return np.where(
        np.sin(3 * x[:, 0]) + x[:, 1] > 1, "yes", np.where(x[:, 2] > 1, "no", "perhaps")
    )


CASES = {
    # products of float32 values near 5
    "procrustes": Case(Procrustes, rotated, "transform", "Y", 1e-4),
    "procrustes, normalised": Case(
        lambda: Procrustes(normalise=True), rotated, "transform", "Y", 1e-4
    ),
    "procrustes, not centred": Case(
        lambda: Procrustes(centre=False), rotated, "transform", "Y", 1e-4
    ),
    "procrustes, rotation only": Case(
        lambda: Procrustes(rotation_only=True), rotated, "transform", "Y", 1e-4
    ),
    "least squares": Case(LeastSquares, rotated, "transform", "Y", 1e-4),
    "ridge, normalised": Case(
        lambda: LeastSquares(2.5, normalise=True), rotated, "transform", "Y", 1e-4
    ),
    "multi-step": Case(MultiStepMap, rotated, "transform", "Y", 1e-4),
    "multi-step, orthogonal": Case(
        lambda: MultiStepMap(False, 0, 0, None, None, 3), rotated, "transform", "Y", 1e-4
    ),
    "iterative normalisation": Case(IterativeNormalisation, None, "transform", "", 1e-5),
    # where float32's L-BFGS stops
    "linear probe": Case(LinearProbe, labelled, "predict_proba", "y", 2e-3),
    "linear probe, strict": Case(
        lambda: LinearProbe(C=0.01, max_iter=200), labelled, "predict_proba", "y", 2e-3
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return request.param


@pytest.fixture
def x():
    return np.random.default_rng(2).normal(1, 2, size=(80, 6))


def given(case, x):
    """What fit is called with."""
    return (x,) if case.target is None else (x, case.target(x))


def learnt(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


def directed(estimator, case, x):
    """Its numbers for x; a direction of a common space, which may as well be turned round, is
    turned the way its map points."""
    numbers = getattr(estimator, case.apply)(x)
    if not isinstance(estimator, MultiStepMap) or estimator.dewhiten_x is not None:
        return numbers
    peaks = np.abs(estimator.map_x_).argmax(axis=0)
    return numbers * np.sign(estimator.map_x_[peaks, range(len(peaks))])


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def test_the_constructor_only_stores(case):
    estimator = case.make()
    assert vars(estimator).keys() == estimator.get_params().keys()


def test_fit_returns_the_estimator_and_leaves_parameters_alone(case, x):
    estimator = case.make()
    before = estimator.get_params()
    assert estimator.fit(*given(case, x)) is estimator
    assert estimator.get_params() == before
    assert learnt(estimator)
    assert vars(estimator).keys() == before.keys() | learnt(estimator).keys()


def test_clone_has_the_parameters_and_nothing_learnt(case, x):
    fitted = case.make().fit(*given(case, x))
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not learnt(fresh)
    changed = {
        name: (not value) if isinstance(value, bool) else (value or 1) * 2
        for name, value in fitted.get_params().items()
    }
    assert clone(fitted).set_params(**changed).get_params() == changed


def test_refit_forgets(case, x):
    other = np.random.default_rng(3).normal(size=(50, 4))
    refitted = case.make().fit(*given(case, other)).fit(*given(case, x))
    assert same(learnt(refitted), learnt(case.make().fit(*given(case, x))))


def test_inputs_are_not_written_to(case, x):
    arguments = given(case, x)
    copies = [argument.copy() for argument in arguments]
    for argument in arguments:
        argument.setflags(write=False)
    getattr(case.make().fit(*arguments), case.apply)(x)
    assert all(
        np.array_equal(argument, copy) for argument, copy in zip(arguments, copies, strict=True)
    )


def test_applying_it_learns_nothing(case, x):
    estimator = case.make().fit(*given(case, x))
    before = {name: np.copy(value) for name, value in learnt(estimator).items()}
    getattr(estimator, case.apply)(x * 3 + 1)
    assert same(learnt(estimator), before)


def test_the_order_of_rows_does_not_matter(case, x):
    order = np.random.default_rng(4).permutation(len(x))
    plain, shuffled = (
        case.make().fit(*given(case, x)),
        case.make().fit(*(argument[order] for argument in given(case, x))),
    )
    assert np.allclose(directed(plain, case, x), directed(shuffled, case, x), atol=case.tolerance)


def test_float32_stays_and_agrees_with_float64(case, x):
    small = x.astype(np.float32)
    arguments = given(case, x)
    low = case.make().fit(
        *(
            argument.astype(np.float32) if argument.dtype.kind == "f" else argument
            for argument in arguments
        )
    )
    high = case.make().fit(*arguments)
    assert getattr(low, case.apply)(small).dtype == np.float32
    assert getattr(high, case.apply)(x).dtype == np.float64
    assert np.abs(directed(low, case, small) - directed(high, case, x)).max() < case.tolerance
    for name, value in learnt(low).items():
        assert getattr(value, "dtype", None) != np.float64, f"{name} is float64 after a float32 fit"
    # fitted in one precision, applied in the other
    assert getattr(high, case.apply)(small).dtype == np.float32


def test_nan_and_infinity_are_refused_by_row(case, x):
    fitted = case.make().fit(*given(case, x))
    for bad in (np.nan, np.inf):
        broken = x.copy()
        broken[7, 2] = bad
        for call in (
            lambda: case.make().fit(broken, *given(case, x)[1:]),  # noqa: B023
            lambda: getattr(fitted, case.apply)(broken),  # noqa: B023
        ):
            with pytest.raises(InputError, match=r"X: .*got NaN or infinity"):
                call()


def test_rows_that_do_not_match_are_refused(case, x):
    if case.target is not None:
        with pytest.raises(InputError, match=rf"^{case.second}: .*got .*79"):
            case.make().fit(x, case.target(x)[:79])


def test_what_is_no_matrix_is_refused(case, x):
    with pytest.raises(InputError, match=r"X: .*got an array of"):
        case.make().fit(x[0], *given(case, x)[1:])
    with pytest.raises(InputError, match=r"X: expected at least 1 row"):
        case.make().fit(*(argument[:0] for argument in given(case, x)))


def test_other_columns_than_in_fit_are_refused(case, x):
    fitted = case.make().fit(*given(case, x))
    assert fitted.n_features_in_ == 6
    with pytest.raises(InputError, match=r"X: .*got 5 columns"):
        getattr(fitted, case.apply)(x[:, :5])


def test_it_must_be_fitted_first(case, x):
    with pytest.raises(
        InputError, match=r"expected a fitted .*, got one without .*; call fit\(X(, [Yy])?\) first"
    ):
        getattr(case.make(), case.apply)(x)


def test_saved_is_loaded(case, x, tmp_path):
    estimator = case.make()
    if not hasattr(estimator, "save"):
        assert not hasattr(estimator, "load")
        return
    estimator.fit(*given(case, x)).save(tmp_path / "estimator")
    loaded = type(estimator).load(tmp_path / "estimator")
    assert loaded.get_params() == estimator.get_params()
    assert same(learnt(loaded), learnt(estimator))
    assert np.array_equal(getattr(loaded, case.apply)(x), getattr(estimator, case.apply)(x))


SEARCHED = {
    "ridge": (LeastSquares(), {"penalty": [0.01, 1000.0]}),
    "procrustes": (Procrustes(), {"centre": [True, False], "normalise": [True, False]}),
    "multi-step": (MultiStepMap(), {"reweight_x": [0, 0.5]}),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_scikit_learns_searches_and_pipelines_take_aligners_as_they_are(name):
    aligner, grid = SEARCHED[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)) + 3
    y = x @ np.linalg.qr(rng.normal(size=(5, 5)))[0] + 0.3 * rng.normal(size=(60, 5))
    found = GridSearchCV(aligner, grid, cv=3).fit(x, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all() and 0.3 < found.best_score_ <= 1
    assert (
        found.best_estimator_.score(x, y)
        == found.score(x, y)
        > found.best_estimator_.score(x, y[::-1])
    )
    assert found.predict(x).shape == y.shape
    line = Pipeline([("rows", IterativeNormalisation()), ("map", clone(aligner))]).fit(x, y)
    assert line.predict(x).shape == y.shape and line.score(x, y) > 0.3
    errors = (
        np.square(clone(aligner).fit(x, y).predict(x) - y).mean(),
        np.square(y - y.mean(axis=0)).mean(),
    )
    assert errors[0] < 0.5 * errors[1]


def test_the_score_is_the_precision_of_both_directions():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 30, 4))
    aligner = Procrustes(normalise=True).fit(x, y)
    mapped, target = (
        aligner.transform(x) - aligner.mean_y_,
        y / np.linalg.norm(y, axis=1, keepdims=True) - aligner.mean_y_,
    )
    cosines = (
        mapped @ target.T / np.linalg.norm(mapped, axis=1)[:, None] / np.linalg.norm(target, axis=1)
    )
    own = np.arange(30)
    assert aligner.score(x, y) == np.mean(
        [(cosines.argmax(axis=1) == own).mean(), (cosines.argmax(axis=0) == own).mean()]
    )
