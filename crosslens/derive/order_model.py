"""A log-linear model of the order of a head and its dependents (Wang & Eisner 2016).

For a node with items ``x`` the probability of an order ``y`` of them is

    p(y | x) = exp(w · f(x, y)) / sum over all n! orders y' of exp(w · f(x, y'))

where ``f`` counts features (:mod:`crosslens.derive.order_features`). Weights maximise the likelihood
of the orders of a treebank, less a quadratic penalty; the sum over orders is exact.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Float, Int

from crosslens.derive.order_features import (
    Symbols,
    pair_codes,
    recoded,
    run_codes,
    size_events,
)
from crosslens.derive.order_nodes import Node, canonical
from crosslens.errors import TrainingError, refuse

__all__ = ["LARGEST", "LARGEST_TRAINED", "OrderModel", "fit_order", "likelihood", "mixed"]

LARGEST = 7
"""Items of the largest node whose orders are listed (7! = 5,040), as in GalacticDependencies."""
LARGEST_TRAINED = 6
"""Items of the largest node that a model learns from."""
_RUNS = 0.1  # the most frequent of the runs that are features
_CLOSE = 1e-7  # the last step's gain, as a share of the loss: later ones change no third digit
_VARIANCE = 0.1  # of the weights' Gaussian prior, chosen on the dev part of EWT


@dataclasses.dataclass(frozen=True, eq=False)
class OrderModel:
    """Weights of features.

    Attributes
    ----------
    symbols: what features are made of.
    codes: shape (f,), rising: the features. weights: shape (f,).
    nodes: how many nodes the weights were learnt from.
    """

    symbols: Symbols
    codes: Int[np.ndarray, " f"]
    weights: Float[np.ndarray, " f"]
    nodes: int

    def scores(self, node: Node) -> Float[np.ndarray, " p"]:
        """``w · f`` of every order of a node's items, in the order of
        :func:`~crosslens.derive.order_features.size_events`.

        Parameters
        ----------
        node: of 2 to 7 items. Symbols that were not seen in training weigh nothing.
        """
        events, numbers = size_events(len(node.items)), _numbers(self.symbols, [node])
        pairs = self._weights_of(pair_codes(events, numbers)[0]).sum(axis=1)
        found: np.ndarray = events.has_pair @ pairs
        runs = self._weights_of(run_codes(events, numbers)[0])
        (some,) = np.nonzero(runs)
        return found + events.has_run[:, some] @ runs[some]

    def _weights_of(self, codes: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        at, there = _found(self.codes, codes)
        return np.where(there, self.weights[at], 0.0)


def _found(codes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each wanted feature is, and whether it is there at all."""
    at = np.searchsorted(codes, wanted)
    at[at == len(codes)] = 0
    return at, codes[at] == wanted


def _numbers(symbols: Symbols, some: Sequence[Node]) -> Int[np.ndarray, "m n 3"]:
    return np.array([[symbols.numbers(item) for item in node.items] for node in some])


@dataclasses.dataclass(frozen=True, eq=False)
class _Size:
    """All nodes of one size, nodes of the same items as one.

    pairs: shape (m, e, 3), the feature of each event. runs: shape (m * n!, f), sparse: how often
    each order has each feature that is a run. counts: shape (m, n!), how often the order was seen.
    """

    pairs: Int[np.ndarray, "m e 3"]
    runs: scipy.sparse.csr_array
    counts: Float[np.ndarray, "m p"]
    has_pair: Float[np.ndarray, "p e"]


def fit_order(some: Iterable[Node], variance: float = _VARIANCE) -> OrderModel:
    """Learn the weights from the orders of nodes.

    Parameters
    ----------
    some: nodes of one class of heads; those with more than six items are not learnt from.
    variance: of the Gaussian prior of each weight.

    Raises
    ------
    InputError: no node of 2 to 6 items.
    TrainingError: the optimiser did not converge.
    """
    seen = [node for node in some if 2 <= len(node.items) <= LARGEST_TRAINED]
    if not seen:
        refuse("treebank", "heads with dependents", "none of 2 to 6 words", "give another treebank")
    symbols = Symbols(name for node in seen for item in node.items for name in item)
    codes, sizes = _training(symbols, seen)
    loss = functools.partial(likelihood, sizes=sizes, variance=variance)
    options = {"maxiter": 1000, "ftol": _CLOSE}
    found = scipy.optimize.minimize(
        loss, np.zeros(len(codes)), jac=True, method="L-BFGS-B", options=options
    )
    if not found.success:
        got = f"none after {found.nit} steps ({found.message})"
        refuse("treebank", "a minimum", got, "give other nodes", TrainingError)
    return OrderModel(symbols, codes, found.x, len(seen))


def _training(symbols: Symbols, seen: Sequence[Node]) -> tuple[Int[np.ndarray, " f"], list[_Size]]:
    """All features of the nodes' orders, seen or not, and the nodes by their size."""
    by_size: dict[int, dict[Any, tuple[Node, list[tuple[int, ...]]]]]
    by_size = collections.defaultdict(dict)
    for node in map(canonical, seen):
        _, orders = by_size[len(node.items)].setdefault(node.items, (node, []))
        orders.append(node.order)
    numbers = {
        n: _numbers(symbols, [node for node, _ in groups.values()])
        for n, groups in sorted(by_size.items())
    }
    pairs = {n: pair_codes(size_events(n), some) for n, some in numbers.items()}
    runs = {n: run_codes(size_events(n), some) for n, some in numbers.items()}
    counts = {n: _counts(n, [orders for _, orders in by_size[n].values()]) for n in numbers}
    frequent = _frequent_runs(runs, counts)
    codes = np.unique(np.concatenate([frequent, *(some.ravel() for some in pairs.values())]))
    sizes = []
    for n in numbers:
        events = size_events(n)
        sizes.append(
            _Size(
                np.searchsorted(codes, pairs[n]),
                _run_features(codes, runs[n], events.has_run),
                counts[n],
                events.has_pair,
            )
        )
    return codes, sizes


def _counts(n: int, orders: Sequence[Sequence[tuple[int, ...]]]) -> Float[np.ndarray, "m p"]:
    """How often each order of each node was seen."""
    number = {tuple(order): row for row, order in enumerate(size_events(n).orders.tolist())}
    counts = np.zeros((len(orders), len(number)))
    for row, some in enumerate(orders):
        for order in some:
            counts[row, number[order]] += 1
    return counts


def _frequent_runs(
    runs: Mapping[int, np.ndarray], counts: Mapping[int, np.ndarray]
) -> Int[np.ndarray, " f"]:
    """The tenth of the runs seen that is seen most, of equally frequent ones the first by code."""
    codes = np.concatenate([some.ravel() for some in runs.values()])
    times = np.concatenate([(counts[n] @ size_events(n).has_run).ravel() for n in runs])
    found, at = np.unique(codes[times > 0], return_inverse=True)
    often = np.bincount(at, times[times > 0], minlength=len(found))
    return found[np.lexsort((found, -often))[: math.ceil(len(found) * _RUNS)]]


def _run_features(
    codes: np.ndarray, runs: np.ndarray, has_run: scipy.sparse.csc_array
) -> scipy.sparse.csr_array:
    """How often each order of each node has the features that are runs."""
    at, there = _found(codes, runs)
    nodes, events = np.nonzero(there)
    orders = has_run.shape[0]
    starts, lengths = has_run.indptr[events], np.diff(has_run.indptr)[events]
    # each event of each node, in all orders that have it
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = np.repeat(nodes * orders, lengths) + has_run.indices[np.repeat(starts, lengths) + within]
    columns = np.repeat(at[nodes, events], lengths)
    shape = (len(runs) * orders, len(codes))
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape)


def likelihood(
    weights: Float[np.ndarray, " f"], sizes: Sequence[_Size], variance: float
) -> tuple[float, Float[np.ndarray, " f"]]:
    """The negative log-likelihood of the orders with the penalty, and its gradient."""
    value, gradient = weights @ weights / (2 * variance), weights / variance
    for size in sizes:
        events = weights[size.pairs].sum(axis=2)
        scores = events @ size.has_pair.T + (size.runs @ weights).reshape(size.counts.shape)
        total = size.counts.sum(axis=1, keepdims=True)
        top = scores.max(axis=1, keepdims=True)
        log_sum = top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        value += (total * log_sum).sum() - (size.counts * scores).sum()
        # of each score
        slope = total * np.exp(scores - log_sum) - size.counts
        of_events = np.broadcast_to((slope @ size.has_pair)[:, :, None], size.pairs.shape)
        gradient = gradient + np.bincount(
            size.pairs.ravel(), of_events.ravel(), minlength=len(weights)
        )
        gradient += size.runs.T @ slope.ravel()
    return float(value), gradient


def mixed(superstrate: OrderModel, substrate: OrderModel, share: float = 0.05) -> OrderModel:
    """The model whose weights are ``(1 - share)`` of one and ``share`` of the other."""
    symbols = Symbols([*superstrate.symbols.names, *substrate.symbols.names])
    codes = np.concatenate(
        [recoded(one.codes, one.symbols.moved_to(symbols)) for one in (superstrate, substrate)]
    )
    weights = np.concatenate([(1 - share) * superstrate.weights, share * substrate.weights])
    found, at = np.unique(codes, return_inverse=True)
    return OrderModel(symbols, found, np.bincount(at, weights), superstrate.nodes)
