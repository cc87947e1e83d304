"""Work shared among as many threads as BLAS has, with a BLAS of one thread in each."""

import threading

import numpy as np
import pytest
import threadpoolctl

from crosslens.alignment.cka_products import Layer, _gram_form
from crosslens.blas import blas_workers, for_each


def test_for_each_keeps_order_uses_the_threads_there_are_and_gives_blas_one():
    meet = threading.Barrier(2, timeout=30)

    def answer(i):
        meet.wait()  # passes only if two are at work at once
        threads = [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
        return i, max(threads)

    with threadpoolctl.threadpool_limits(2, "blas"):
        assert for_each(answer, 4) == [(0, 1), (1, 1), (2, 1), (3, 1)]
        after = [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    assert set(after) == {2}


def test_for_each_raises_what_its_function_raises():
    with pytest.raises(ZeroDivisionError):
        for_each(lambda i: 1 // (2 - i), 4)


@pytest.mark.parametrize(("there", "most", "threads"), [(1, 8, 1), (2, 8, 2), (3, 2, 2), (2, 0, 1)])
def test_as_many_workers_as_blas_has_threads_and_no_more_than_asked_for(there, most, threads):
    with threadpoolctl.threadpool_limits(there, "blas"), blas_workers(most) as (_, found):
        assert found == threads


@pytest.mark.parametrize("groups", [1, 3])
def test_sums_of_tiles_are_the_same_on_any_number_of_threads(monkeypatch, groups):
    monkeypatch.setattr("crosslens.alignment.cka_products._TILE", 30)
    monkeypatch.setattr("crosslens.alignment.cka_products._PANEL", 70)
    rng, found = np.random.default_rng(0), []
    layers = [Layer.of(rng.normal(size=(400, 40 + 40 * i)).astype(np.float32), f"layers[{i}]", min_rows=4) for i in range(3)]
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads, "blas"):
            found.append(_gram_form(layers, groups))
    for other in found[1:]:
        assert np.array_equal(found[0].cross, other.cross) and np.array_equal(found[0].squares, other.squares)
    rows = [(layer.source - layer.source.mean(axis=0)).astype(np.float64) for layer in layers]
    expected = np.array([[np.square(a.T @ b).sum() for b in rows] for a in rows])
    assert found[0].cross.sum(axis=(0, 1)) == pytest.approx(expected, rel=1e-5)
