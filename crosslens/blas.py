"""Work shared among threads, each with a BLAS of its own: small products side by side are faster than one that is cut in parts.

BLAS has one thread in each worker meanwhile, in the whole process, so results do not depend on the number of threads.
"""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import threadpoolctl

__all__ = ["blas_workers", "for_each"]


@contextlib.contextmanager
def blas_workers(most: int) -> Iterator[tuple[concurrent.futures.ThreadPoolExecutor, int]]:
    """A pool of as many threads as BLAS has, but at most so many, and their number.

    >>> with blas_workers(1) as (pool, threads): print(list(pool.map(abs, [-1, 2])), threads)
    [1, 2] 1
    """
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
    threads = max(1, min(most, max((library.num_threads for library in libraries.lib_controllers), default=1)))
    with libraries.limit(limits=1), concurrent.futures.ThreadPoolExecutor(threads) as pool:
        yield pool, threads


def for_each(function: Callable[[int], Any], count: int) -> list[Any]:
    """Results of ``function(0)`` to ``function(count - 1)``, on as many threads as BLAS has.

    >>> for_each(lambda i: i * i, 4)
    [0, 1, 4, 9]
    """
    with blas_workers(count) as (pool, _):
        return list(pool.map(function, range(count)))
