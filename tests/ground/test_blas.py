"""Work shared among as many threads as BLAS has, with a BLAS of one thread in each."""

import concurrent.futures
import sys
import threading

import numpy as np
import pytest
import threadpoolctl

from crosslens.alignment.similarity.cka_products import Layer, _gram_form
from crosslens.blas import _libraries, blas_workers, for_each, share


def test_for_each_keeps_order_uses_the_threads_there_are_and_gives_blas_one():
    meet = threading.Barrier(2, timeout=30)

    def answer(i):
        meet.wait()  # passes only if two are at work at once
        threads = [
            library["num_threads"]
            for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"
        ]
        return i, max(threads)

    with threadpoolctl.threadpool_limits(2, "blas"):
        assert for_each(answer, 4) == [(0, 1), (1, 1), (2, 1), (3, 1)]
        after = [
            library["num_threads"]
            for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"
        ]
    assert set(after) == {2}


def test_for_each_raises_what_its_function_raises():
    with pytest.raises(ZeroDivisionError):
        for_each(lambda i: 1 // (2 - i), 4)


def test_a_worker_without_work_of_its_own_helps_another():
    meet = threading.Barrier(2, timeout=30)

    def part(i):
        meet.wait()  # passes only if two are at work at once
        return i, threading.current_thread().name

    with threadpoolctl.threadpool_limits(2, "blas"):
        (shared,) = for_each(lambda _: share(part, range(6)), 1)
    assert [i for i, _ in shared] == list(range(6))
    assert len({name for _, name in shared}) == 2


def test_workers_that_are_busy_do_not_wait_for_each_other():
    with threadpoolctl.threadpool_limits(3, "blas"):
        found = for_each(lambda i: [share(lambda j: (i, j), range(4)) for _ in range(50)], 20)
    assert found == [[[(i, j) for j in range(4)]] * 50 for i in range(20)]


def test_help_is_not_asked_for_while_there_is_work_for_all(monkeypatch):
    submitted, plain = [], concurrent.futures.ThreadPoolExecutor.submit
    monkeypatch.setattr(
        concurrent.futures.ThreadPoolExecutor,
        "submit",
        lambda self, *call, **named: submitted.append(1) or plain(self, *call, **named),
    )
    with threadpoolctl.threadpool_limits(2, "blas"):
        for_each(lambda i: share(lambda j: j, range(20)), 40)
    assert len(submitted) <= 40 + 2 * 20, (
        "what nobody takes would lie in the pool, with all that it holds"
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_share_raises_what_its_function_raises(threads):
    with threadpoolctl.threadpool_limits(threads, "blas"), pytest.raises(ZeroDivisionError):
        for_each(lambda _: share(lambda i: 1 // (2 - i), range(4)), 1)


def test_outside_for_each_the_caller_does_all():
    assert share(lambda i: (i, threading.current_thread()), range(3)) == [
        (i, threading.current_thread()) for i in range(3)
    ]


@pytest.mark.parametrize(("there", "most", "threads"), [(1, 8, 1), (2, 8, 2), (3, 2, 2), (2, 0, 1)])
def test_as_many_workers_as_blas_has_threads_and_no_more_than_asked_for(there, most, threads):
    with threadpoolctl.threadpool_limits(there, "blas"), blas_workers(most) as (_, found):
        assert found == threads


@pytest.mark.parametrize("groups", [1, 3])
def test_sums_of_tiles_are_the_same_on_any_number_of_threads(monkeypatch, groups):
    monkeypatch.setattr("crosslens.alignment.similarity.cka_products._TILE", 30)
    monkeypatch.setattr("crosslens.alignment.similarity.cka_products._PANEL", 70)
    rng, found = np.random.default_rng(0), []
    layers = [
        Layer.of(rng.normal(size=(400, 40 + 40 * i)).astype(np.float32), f"layers[{i}]", min_rows=4)
        for i in range(3)
    ]
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads, "blas"):
            found.append(_gram_form(layers, groups))
    for other in found[1:]:
        assert np.array_equal(found[0].cross, other.cross) and np.array_equal(
            found[0].squares, other.squares
        )
    rows = [(layer.source - layer.source.mean(axis=0)).astype(np.float64) for layer in layers]
    expected = np.array([[np.square(a.T @ b).sum() for b in rows] for a in rows])
    assert found[0].cross.sum(axis=(0, 1)) == pytest.approx(expected, rel=1e-5)


def test_libraries_are_looked_for_again_where_one_module_came_for_another(monkeypatch):
    """The number of modules is the same then, and a library may be new."""
    monkeypatch.setitem(sys.modules, "a_module_that_goes", sys)
    there = _libraries()
    assert _libraries() is there
    monkeypatch.delitem(sys.modules, "a_module_that_goes")
    monkeypatch.setitem(sys.modules, "a_module_that_comes", sys)
    assert _libraries() is not there
