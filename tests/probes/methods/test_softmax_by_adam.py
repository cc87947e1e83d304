"""Adam for a fixed number of epochs: torch's optimiser as the reference, layers that do not touch,
and every refusal."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from crosslens.errors import InputError
from crosslens.probes.methods.linear.softmax_by_adam import SoftmaxByAdam


def data(seed=0, n=130, d=5, layers=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return [rng.normal(size=(n, d)) + rng.normal(size=(3, d))[y] for _ in range(layers)], np.array(
        ["deu", "eng", "swa"]
    )[y]


def by_torch(x, y, probe):
    """The same steps by torch.optim.Adam; batches in the documented order."""
    codes = torch.tensor(np.unique(y, return_inverse=True)[1])
    linear = torch.nn.Linear(x.shape[1], 3, dtype=torch.float64)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    adam, rng = (
        torch.optim.Adam(linear.parameters(), lr=probe.learning_rate),
        np.random.default_rng([probe.seed, 0xADA3]),
    )
    for _ in range(probe.epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x), probe.batch):
            rows = order[start : start + probe.batch]
            adam.zero_grad()
            torch.nn.functional.cross_entropy(linear(torch.tensor(x[rows])), codes[rows]).backward()
            adam.step()
    return linear.weight.detach().numpy(), linear.bias.detach().numpy()


def test_it_takes_torchs_steps_on_every_layer():
    layers, y = data()
    probe = SoftmaxByAdam(epochs=4, batch=32, learning_rate=0.01, seed=3).fit(layers, y)
    for i, x in enumerate(layers):
        weight, bias = by_torch(x, y, probe)
        assert np.allclose(probe.coef_[i], weight, atol=1e-6)
        assert np.allclose(probe.intercept_[i], bias, atol=1e-6)
        assert np.array_equal(
            probe.predict(layers)[i], probe.classes_[(x @ weight.T + bias).argmax(axis=1)]
        )


def test_more_epochs_learn_more_and_the_seed_is_used():
    layers, y = data(n=400, layers=1)
    short, long = (SoftmaxByAdam(epochs=epochs).fit(layers, y) for epochs in (1, 40))
    assert np.abs(long.coef_).max() > 3 * np.abs(short.coef_).max()
    assert (long.predict(layers)[0] == y).mean() > 0.6
    again, other = (SoftmaxByAdam(epochs=1, seed=seed).fit(layers, y) for seed in (0, 1))
    assert np.array_equal(again.coef_, short.coef_)
    assert not np.array_equal(other.coef_, short.coef_)


def test_it_is_not_invariant_to_the_scale_of_vectors():
    """Unlike probes that standardise: what is published with these settings depends on it."""
    layers, y = data(layers=1)
    plain = SoftmaxByAdam(epochs=3).fit(layers, y).predict(layers)
    small = [layers[0] * [1e-4, 1, 1, 1, 1]]
    assert not np.array_equal(SoftmaxByAdam(epochs=3).fit(small, y).predict(small), plain)


def test_float32_and_float16_stay_and_inputs_are_not_written_to():
    layers, y = data()
    small = np.stack(layers).astype(np.float32)
    small.setflags(write=False)
    probe = clone(SoftmaxByAdam(epochs=2)).fit(small, y, small, y)
    assert probe.coef_.dtype == probe.intercept_.dtype == np.float32
    assert np.allclose(probe.coef_, SoftmaxByAdam(epochs=2).fit(layers, y).coef_, atol=1e-4)
    assert SoftmaxByAdam(epochs=1).fit(small.astype(np.float16), y).coef_.dtype == np.float32


def test_refusals():
    layers, y = data()
    with pytest.raises(InputError, match=r"y: .*got only deu"):
        SoftmaxByAdam().fit(layers, np.full(130, "deu"))
    with pytest.raises(InputError, match=r"epochs: .*got 0"):
        SoftmaxByAdam(epochs=0).fit(layers, y)
    for rate in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="learning_rate: expected"):
            SoftmaxByAdam(learning_rate=rate).fit(layers, y)
    broken = [layers[0], layers[1].copy()]
    broken[1][7, 2] = np.nan
    with pytest.raises(InputError, match=r"layers\[1\]: .*got NaN or infinity"):
        SoftmaxByAdam(epochs=1).fit(broken, y)
    fitted = SoftmaxByAdam(epochs=1).fit(layers, y)
    with pytest.raises(InputError, match=r"layers\[1\]: .*got NaN or infinity"):
        fitted.predict(broken)
    with pytest.raises(InputError, match=r"layers: .*got 1"):
        fitted.predict(layers[:1])
    with pytest.raises(InputError, match=r"layers: .*got 4 columns"):
        fitted.predict([x[:, :4] for x in layers])
    with pytest.raises(InputError, match=r"SoftmaxByAdam: .*got one without"):
        SoftmaxByAdam().predict(layers)
