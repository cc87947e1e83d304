"""scikit-learn's own suite over every aligner, and an exact list of the checks that do not apply,
with why.

The suite's second argument is one label per row, for estimators whose tags ask for a matrix mostly
as a matrix of one column. Least squares takes that. The others want a matrix as wide as X: their
stand-ins here give ``fit`` the columns of X in reverse order instead, and are the library's
estimators in all else.
"""

import jaxtyping
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from crosslens.alignment.maps.linear_maps import LeastSquares
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.vecmap_maps import MultiStepMap
from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.errors import InputError


def reversed_columns(X, Y):
    rows = np.asarray(X)
    return X if rows.ndim != 2 or Y is None else rows[:, ::-1]


class PairedProcrustes(Procrustes):
    def fit(self, X, Y):
        return super().fit(X, Y if Y is None else reversed_columns(X, Y))

    def score(self, X, Y):
        return super().score(X, reversed_columns(X, Y))


class PairedLeastSquares(LeastSquares):
    def fit(self, X, Y):
        return super().fit(X, Y if Y is None else reversed_columns(X, Y))

    def score(self, X, Y):
        return super().score(X, reversed_columns(X, Y))


class PairedMultiStepMap(MultiStepMap):
    def fit(self, X, Y):
        return super().fit(X, Y if Y is None else reversed_columns(X, Y))

    def score(self, X, Y):
        return super().score(X, reversed_columns(X, Y))


# what these demand is refused here, too, as InputError (a ValueError), but in the words of this
# library's grammar
WORDING = {
    "check_complex_data": "wants the words 'Complex data not supported'",
    "check_dtype_object": "wants a TypeError with numpy's words where an object is no number",
    "check_estimator_sparse_array": (
        "wants the word 'sparse'; the refusal names the type, csr_array"
    ),
    "check_estimator_sparse_matrix": (
        "wants the word 'sparse'; the refusal names the type, csr_matrix"
    ),
    "check_estimator_sparse_tag": "wants the word 'sparse'; the refusal names the type",
    "check_estimators_empty_data_messages": (
        "wants the words '0 feature(s)'; the refusal tells the shape"
    ),
    "check_fit2d_predict1d": "wants the words 'Reshape your data'",
    "check_n_features_in_after_fitting": (
        "wants the words 'X has 1 features, but ... is expecting 4 features'"
    ),
}
ONE_ROW = {
    "check_fit2d_1sample": (
        "wants the words '1 sample'; the refusal speaks of 1 equal row: nothing is left once it "
        "is centred"
    )
}
NO_Y = {"check_requires_y_none": "wants scikit-learn's words for a missing y"}
LABELS = {
    "check_transformer_data_not_an_array": "hands labels, not a matrix, whatever the tags ask for",
    "check_transformer_general": "hands labels, not a matrix, whatever the tags ask for",
    "check_transformer_preserve_dtypes": "hands labels, not a matrix, whatever the tags ask for",
}
AT_MEAN = {
    "check_fit_score_takes_y": (
        "its labels are a column some of whose rows are the mean, which has no direction to score"
    )
}
CASES = {
    "procrustes": (PairedProcrustes(), WORDING | ONE_ROW | NO_Y),
    "least squares": (LeastSquares(), WORDING | ONE_ROW | NO_Y | LABELS | AT_MEAN),
    "ridge": (PairedLeastSquares(0.5), WORDING | ONE_ROW | NO_Y),
    "multi-step": (PairedMultiStepMap(), WORDING | NO_Y),
    "iterative normalisation": (
        IterativeNormalisation(),
        WORDING
        | ONE_ROW
        | {
            "check_estimators_dtypes": "its integers hold a row of zeros, which has no direction",
            "check_fit2d_1feature": (
                "wants the words '1 feature(s)'; on a line all rows of length 1 are equal, which "
                "is refused"
            ),
        },
    ),
}
SKIPPED_BY_SKLEARN = {"check_array_api_input": "runs only where SCIPY_ARRAY_API is set"}


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Without the run-time type checks of the tests, which refuse what the suite stores in
    constructors on purpose."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(("estimator", "declared"), CASES.values(), ids=CASES.keys())
def test_scikit_learns_checks_pass_but_for_those_declared_which_are_refusals(estimator, declared):
    results = check_estimator(
        estimator, expected_failed_checks=declared, on_fail=None, on_skip=None
    )
    named = {
        status: {r["check_name"]: r["exception"] for r in results if r["status"] == status}
        for status in ("failed", "xfail", "skipped")
    }
    assert named["failed"] == {}
    assert named["xfail"].keys() == declared.keys()  # a check that passes is not to be listed
    assert named["skipped"].keys() <= SKIPPED_BY_SKLEARN.keys()
    assert sum(result["status"] == "passed" for result in results) >= 30
    for name, raised in named["xfail"].items():
        while not isinstance(raised, InputError):  # the check's own complaint has ours as its cause
            raised = raised.__cause__ or raised.__context__
            assert raised is not None, f"{name} got a result, not a refusal"


@pytest.mark.parametrize(
    "estimator",
    [Procrustes(), LeastSquares(), MultiStepMap(), IterativeNormalisation()],
    ids=lambda e: type(e).__name__,
)
def test_one_that_is_not_fitted_is_refused_by_our_error_and_by_scikit_learns_at_once(estimator):
    for error in (InputError, NotFittedError):
        with pytest.raises(error, match="got one without"):
            estimator.transform([[1.0]])
