"""The probe for all layers at once: scikit-learn layer by layer as the reference, penalties,
formats, threads and memory."""

import tracemalloc
import warnings

import ml_dtypes
import numpy as np
import pytest
import threadpoolctl
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslens import progress
from crosslens.errors import InputError
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.probes.methods.rows import BLOCK, TakenRows


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def stack(rng, classes=4, n=300, d=6, layers=3):
    """Layers that tell the classes better and better, on scales of their own, with correlated
    features."""
    y = rng.integers(0, classes, size=n)
    shared = rng.normal(size=(classes, d))[y]
    made = [
        (0.5 * i * shared + rng.normal(size=(n, d))) @ rng.normal(size=(d, d)) * 10.0**i + 5
        for i in range(layers)
    ]
    return np.stack(made), np.array(["deu", "eng", "fra", "swa", "urd"])[y]


def reference(strength):
    return make_pipeline(
        StandardScaler(), LogisticRegression(C=strength, tol=1e-10, max_iter=20000)
    )


def objective(x, y, strength, coefficients, intercept):
    """``Σ -log p + ||W||² / 2 C`` over n, for standardised features."""
    z = StandardScaler().fit_transform(x.astype(np.float64))
    logits = z @ coefficients.T.astype(float) + intercept
    logits = np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits
    surprise = -log_softmax(logits, axis=1)[np.arange(len(y)), np.unique(y, return_inverse=True)[1]]
    return surprise.mean() + np.square(coefficients.astype(float)).sum() / (2 * strength * len(y))


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_minimum_is_scikit_learns_at_every_layer(rng, classes, strength, dtype):
    layers, y = stack(rng, classes)
    layers = layers.astype(dtype)
    probe = LayerProbe(strength).fit(layers[:, :200], y[:200])
    rows = 1 if classes == 2 else classes
    assert (probe.coef_.shape, probe.intercept_.shape) == ((3, rows, 6), (3, rows))
    assert probe.coef_.dtype == probe.predict_proba(layers).dtype == dtype
    for i, x in enumerate(layers):
        other = reference(strength).fit(x[:200].astype(np.float64), y[:200])
        best = objective(x[:200], y[:200], strength, other[-1].coef_, other[-1].intercept_)
        assert objective(
            x[:200], y[:200], strength, probe.coef_[i], probe.intercept_[i]
        ) == pytest.approx(best, rel=1e-5)
        assert probe.loss_[i] == pytest.approx(best, rel=1e-5)
        assert np.allclose(probe.predict_proba(layers)[i], other.predict_proba(x), atol=0.01)
        assert (probe.predict(layers)[i] == other.predict(x)).mean() > 0.98


@pytest.mark.parametrize("classes", [2, 3])
def test_with_the_l1_norm_the_minimum_is_scikit_learns_and_sparse(rng, classes):
    layers, y = stack(rng, classes, n=120, layers=2)
    probe = LayerProbe(0.1, norm="l1").fit(layers, y)
    for i, x in enumerate(layers):
        # in float32 saga stops where its random order leaves it
        z = StandardScaler().fit_transform(x.astype(np.float64))
        other = LogisticRegression(
            C=0.1, l1_ratio=1.0, solver="saga", tol=1e-9, max_iter=100_000, random_state=0
        ).fit(z, y)

        def total(w, b, z=z):
            logits = z @ w.T + b
            logits = np.hstack([np.zeros_like(logits), logits]) if classes == 2 else logits
            logs = log_softmax(logits, axis=1)[np.arange(120), np.unique(y, return_inverse=True)[1]]
            return -logs.mean() + np.abs(w).sum() / (0.1 * 120)

        assert total(probe.coef_[i], probe.intercept_[i]) == pytest.approx(
            total(other.coef_, other.intercept_), rel=1e-4
        )
        assert probe.loss_[i] == pytest.approx(total(other.coef_, other.intercept_), rel=1e-4)
        assert np.allclose(probe.predict_proba(layers)[i], other.predict_proba(z), atol=0.01)
        assert 0 < (probe.coef_[i] == 0).sum() >= (other.coef_ == 0).sum() - 2
    assert not (LayerProbe(0.1).fit(layers, y).coef_ == 0).any()


def test_each_layer_has_the_linear_probe_s_answer(rng):
    layers, y = stack(rng)
    probe = LayerProbe(0.1).fit(layers, y)
    for i, x in enumerate(layers):
        single = LinearProbe(C=0.1).fit(x, y)
        assert np.array_equal(probe.mean_[i], single.mean_) and np.array_equal(
            probe.scale_[i], single.scale_
        )
        assert np.allclose(probe.predict_proba(layers)[i], single.predict_proba(x), atol=5e-3)
    assert np.array_equal(probe.score(layers, y), (probe.predict(layers) == y).mean(axis=1))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_layers_on_disk_give_what_the_same_numbers_in_memory_give(rng, dtype, tmp_path):
    layers, y = stack(rng, n=BLOCK + 200)
    stored = (layers / np.abs(layers).max(axis=(1, 2), keepdims=True)).astype(dtype)
    stored.tofile(tmp_path / "layers")
    mapped = np.memmap(tmp_path / "layers", dtype, "r", shape=stored.shape)
    rows = rng.permutation(len(y))[: BLOCK + 50]
    there = LayerProbe().fit([TakenRows(layer, rows) for layer in mapped], y[rows])
    here = LayerProbe().fit(stored.astype(np.float32)[:, rows], y[rows])
    assert there.coef_.dtype == np.float32
    assert np.array_equal(there.coef_, here.coef_) and np.array_equal(there.loss_, here.loss_)
    assert np.array_equal(
        there.predict_proba(list(mapped)), here.predict_proba(stored.astype(np.float32))
    )


def test_each_layer_takes_the_penalty_that_its_development_part_likes_best(rng):
    layers, y = stack(rng, n=260)
    strengths = (10.0, 0.001, 0.1)
    probe = LayerProbe(strengths).fit(layers[:, :60], y[:60], layers[:, 60:160], y[60:160])
    alone = [LayerProbe(strength).fit(layers[:, :60], y[:60]) for strength in strengths]
    correct = np.array([one.score(layers[:, 60:160], y[60:160]) for one in alone]).T
    codes = np.searchsorted(probe.classes_, y[60:160])
    surprise = np.array(
        [
            -np.log(one.predict_proba(layers[:, 60:160])[:, np.arange(100), codes]).mean(axis=1)
            for one in alone
        ]
    ).T
    assert np.allclose(probe.dev_accuracy_, correct, atol=0.011)
    assert np.allclose(probe.dev_loss_, surprise, rtol=0.02)
    for i in range(3):
        order = sorted(
            range(3),
            key=lambda k: (-probe.dev_accuracy_[i, k], probe.dev_loss_[i, k], strengths[k]),
        )  # noqa: B023
        assert probe.C_[i] == strengths[order[0]]
        # each is within 1e-4 of the minimum
        assert probe.loss_[i] == pytest.approx(alone[order[0]].loss_[i], rel=1e-4)
    assert len(set(probe.C_)) > 1, "the layers differ in what they need"


def test_of_equally_accurate_penalties_the_lower_surprise_decides_then_the_stricter(rng):
    y = np.repeat(["a", "b"], 50)
    told = np.where(y == "a", -1.0, 1.0)[:, None] + 0.01 * rng.normal(size=(100, 2))
    probe = LayerProbe((0.01, 1.0, 0.1)).fit(
        [told, np.full((100, 2), 0.5)], y, [told, np.full((100, 2), 0.5)], y
    )
    assert np.all(probe.dev_accuracy_[0] == 1) and probe.dev_loss_[0].argmin() == 1
    assert np.ptp(probe.dev_loss_[1]) == 0
    assert probe.C_.tolist() == [1.0, 0.01]


def test_a_layer_that_does_not_vary_answers_with_the_frequencies_of_classes(rng):
    layers, y = stack(rng)
    layers[1] = 0.1
    probe = LayerProbe().fit(layers, y)
    _, counts = np.unique(y, return_counts=True)
    assert np.allclose(probe.predict_proba(layers)[1], counts / counts.sum(), atol=1e-3)
    assert not probe.coef_[1].any() and (probe.scale_[1] == 1).all()
    assert np.array_equal(LayerProbe().fit(layers[[0]], y).coef_[0], probe.coef_[0])


def test_scale_and_shift_of_features_change_nothing_but_a_rotation_does(rng):
    layers, y = stack(rng)
    plain = LayerProbe(0.1).fit(layers, y).predict_proba(layers)
    stretched = layers * np.array([1e-3, 1, 7, 1e3, 1, 1]) + np.array([0, 300, 0, 0, -5, 0])
    assert np.allclose(LayerProbe(0.1).fit(stretched, y).predict_proba(stretched), plain, atol=2e-3)
    turned = layers @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    assert not np.allclose(LayerProbe(0.1).fit(turned, y).predict_proba(turned), plain, atol=2e-3)


def test_the_order_of_rows_does_not_matter_and_that_of_layers_is_kept(rng):
    layers, y = stack(rng)
    plain, order = LayerProbe().fit(layers, y), rng.permutation(len(y))
    assert np.allclose(
        LayerProbe().fit(layers[:, order], y[order]).predict_proba(layers),
        plain.predict_proba(layers),
        atol=2e-3,
    )
    assert np.array_equal(LayerProbe().fit(layers[::-1], y).coef_, plain.coef_[::-1])


def test_the_number_of_threads_changes_no_bit(rng):
    layers, y = stack(rng, n=2500, d=40, layers=5)
    layers = layers.astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads, "blas"):
            found.append(
                LayerProbe((0.01, 1.0)).fit(layers[:, :2000], y[:2000], layers[:, 2000:], y[2000:])
            )
    for other in found[1:]:
        assert np.array_equal(other.coef_, found[0].coef_) and np.array_equal(
            other.intercept_, found[0].intercept_
        )
        assert np.array_equal(other.dev_loss_, found[0].dev_loss_)


def test_inputs_are_not_written_to(rng):
    layers, y = stack(rng)
    copies = layers.copy(), y.copy()
    for array in (layers, y):
        array.setflags(write=False)
    LayerProbe((0.1, 1.0)).fit(layers, y, layers, y).predict(layers)
    assert np.array_equal(layers, copies[0]) and np.array_equal(y, copies[1])


def test_memory_is_a_block_for_each_thread_not_the_layers(rng, tmp_path):
    # wide, so that what is kept for each row, its class say, is little beside half a layer
    n, d = 50 * BLOCK, 128
    y = rng.integers(0, 3, size=n)
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (3, n, d))
    for layer in stored:
        layer[:] = rng.normal(size=(n, d)) + y[:, None]
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    LayerProbe().fit(mapped[:, :100], y[:100])

    def peak():
        tracemalloc.start()
        with threadpoolctl.threadpool_limits(2, "blas"):
            LayerProbe(max_iter=12).fit(list(mapped), y)
        _, reached = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return reached

    most = min(mapped[0].nbytes / 2, 2 * 8 * BLOCK * d * 8 + 4 * y.nbytes)
    # what anything else in the process allocates meanwhile is counted, too: one of three will do
    assert any(peak() < most for _ in range(3))


def test_stopping_early_is_said_with_the_layers_and_the_remedy(rng):
    layers, y = stack(rng)
    layers[0] = 0.5
    message = (
        r"max_iter: expected convergence, got none in 2 steps for layers\[1\], layers\[2\]; raise "
        r"max_iter or lower C"
    )
    with pytest.warns(ConvergenceWarning, match=message) as seen:
        probe = LayerProbe(max_iter=2).fit(layers, y)
    assert len(seen) == 1
    assert probe.n_iter_[1:].tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LayerProbe().fit(layers, y)


def test_it_keeps_the_contract_of_estimators(rng):
    layers, y = stack(rng)
    probe = LayerProbe((0.1, 1.0), max_iter=500)
    assert probe.get_params() == {"penalties": (0.1, 1.0), "max_iter": 500, "norm": "l2"}
    assert probe.fit(layers, y, layers, y) is probe
    assert not [name for name in vars(clone(probe)) if name.endswith("_")]
    refitted = probe.fit(layers[:2, :, :4], y, layers[:2, :, :4], y)
    assert refitted.coef_.shape == (2, 4, 4) and refitted.n_features_in_ == 4


def test_refusals(rng):
    layers, y = stack(rng)
    probe = LayerProbe().fit(layers, y)
    broken = layers.copy()
    broken[1, 7, 2] = np.nan
    dev = layers[:, :9], y[:9]
    for call, message in [
        (
            lambda: LayerProbe().fit(broken, y),
            (
                r"layers\[1\]: expected finite numbers, got NaN or infinity in 1 row\(s\), the "
                r"first is row 7"
            ),
        ),
        (
            lambda: probe.predict(broken),
            (
                r"layers\[1\]: expected finite numbers, got NaN or infinity in 1 row\(s\), the "
                r"first is row 7"
            ),
        ),
        (
            lambda: LayerProbe().fit(layers, y, broken, y),
            r"dev_layers\[1\]: expected finite numbers",
        ),
        (
            lambda: LayerProbe().fit(layers, y[1:]),
            r"y: expected 300 labels, one per row, got an array of shape \(299,\)",
        ),
        (
            lambda: LayerProbe().fit(layers, np.full(300, "x")),
            r"y: expected at least two classes, got only x",
        ),
        (
            lambda: LayerProbe((0.1, 1)).fit(layers, y),
            (
                r"dev_layers: expected a dev split to choose among several penalties by, "
                r"got None"
            ),
        ),
        (
            lambda: LayerProbe().fit(layers, y, dev[0]),
            r"dev_y: expected both dev_layers and dev_y, or neither, got None",
        ),
        (
            lambda: LayerProbe().fit(layers, y, None, dev[1]),
            r"dev_layers: expected both dev_layers and dev_y, or neither, got None",
        ),
        (
            lambda: LayerProbe().fit(layers, y, dev[0][:2], dev[1]),
            r"dev_layers: expected 3 layers, as in fit, got 2",
        ),
        (
            lambda: LayerProbe().fit(layers, y, dev[0], dev[1][:5]),
            r"dev_y: expected 9 labels, one per row",
        ),
        (
            lambda: LayerProbe().fit(layers, y, dev[0], np.full(9, "ita")),
            r"dev_y: expected labels seen in fit, got 'ita'; train on these",
        ),
        (
            lambda: LayerProbe((1, -1)).fit(layers, y),
            r"penalties: expected finite numbers above 0, got -1",
        ),
        (
            lambda: LayerProbe((1, 1)).fit(layers, y),
            r"penalties: expected one number, or several different ones, got \(1, 1\)",
        ),
        (
            lambda: LayerProbe(max_iter=0).fit(layers, y),
            r"max_iter: expected a whole number from 1 up, got 0",
        ),
        (
            lambda: LayerProbe(norm="L1").fit(layers, y),
            r"norm: expected one of l2, l1, got 'L1'; choose one of these",
        ),
        (lambda: probe.predict(layers[:2]), r"layers: expected 3 layers, as in fit, got 2"),
        (
            lambda: probe.predict(layers[:, :, :4]),
            r"layers: expected 6 columns, as in fit, got 4 columns",
        ),
        (
            lambda: probe.score(layers[:, :2], ["deu", "nld"]),
            r"y: expected labels seen in fit, got 'nld'",
        ),
        (
            lambda: LayerProbe().predict(layers),
            (
                r"LayerProbe: expected a fitted probe, got one without coefficients; call "
                r"fit\(layers, y\) first"
            ),
        ),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InputError, match=message):
                call()
    with pytest.raises(NotFittedError):
        LayerProbe().predict_proba(layers)


def test_a_long_fit_shows_how_many_layers_are_done(rng, monkeypatch, capsys):
    for name in ("_SHOW_AFTER", "_LINE_EVERY"):
        monkeypatch.setattr(progress, name, 0.0)
    monkeypatch.setattr(progress, "_quiet", False)
    LayerProbe().fit(rng.normal(size=(3, 40, 4)), np.tile(["a", "b"], 20))
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" layers, ")[0] for line in told] == [
        f"fitting linear probes: {i} of 3" for i in (1, 2, 3)
    ]
