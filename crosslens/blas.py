"""Work shared among threads, each with a BLAS of its own: small products side by side are faster
than one that is cut in parts.

BLAS has one thread in each worker meanwhile, in the whole process, so results do not depend on the
number of threads.
"""

import concurrent.futures
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import threadpoolctl

__all__ = ["blas_workers", "for_each", "share"]

# what is found by reading which files the process has mapped, which takes longer than a small
# product; a library comes with a module that is imported: how many there are, and the newest
_found: tuple[tuple[int, str], threadpoolctl.ThreadpoolController] | None = None
# for each worker of for_each, "idle": the pool if a worker has nothing left to do, else None
_here = threading.local()


@contextlib.contextmanager
def blas_workers(most: int) -> Iterator[tuple[concurrent.futures.ThreadPoolExecutor, int]]:
    """A pool of as many threads as BLAS has, but at most so many, and their number.

    >>> with blas_workers(1) as (pool, threads): print(list(pool.map(abs, [-1, 2])), threads)
    [1, 2] 1
    """
    libraries = _libraries()
    threads = max(
        1, min(most, max((library.num_threads for library in libraries.lib_controllers), default=1))
    )
    with libraries.limit(limits=1), concurrent.futures.ThreadPoolExecutor(threads) as pool:
        yield pool, threads


def _libraries() -> threadpoolctl.ThreadpoolController:
    """The BLAS libraries of the process."""
    global _found
    # their number alone is the same where one was removed before another one came
    modules, found = (len(sys.modules), next(reversed(sys.modules))), _found
    if found is None or found[0] != modules:
        libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
        found = _found = modules, libraries
    return found[1]


def for_each(function: Callable[[int], Any], count: int) -> list[Any]:
    """Results of ``function(0)`` to ``function(count - 1)``, on as many threads as BLAS has.

    >>> for_each(lambda i: i * i, 4)
    [0, 1, 4, 9]
    """
    with blas_workers(sys.maxsize) as (pool, threads):
        done: list[int] = []

        def call(i: int) -> Any:
            _here.idle = lambda: pool if count - len(done) < threads else None
            try:
                return function(i)
            finally:
                done.append(i)

        return list(pool.map(call, range(count)))


def share(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """Results of ``function`` for each argument; inside :func:`for_each`, workers that have nothing
    left to do help.

    >>> for_each(lambda i: share(abs, [-i, -3]), 2)
    [[0, 3], [1, 3]]
    """
    pool = getattr(_here, "idle", lambda: None)()
    if pool is None:
        return [function(each) for each in arguments]
    waiting = [pool.submit(function, each) for each in arguments]
    # helpers begin at the other end
    mine = {i: function(arguments[i]) for i in reversed(range(len(waiting))) if waiting[i].cancel()}
    return [mine[i] if i in mine else waiting[i].result() for i in range(len(waiting))]
