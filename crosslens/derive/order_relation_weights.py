"""A small model of word order: two numbers for each relation (Hahn et al. 2020).

Each dependent stands before its head with a probability of its relation's own. The dependents of one
side are placed one after the other, those further from the head first on the left: the next one is
chosen among those that are left with a probability proportional to ``exp(distance)`` of its relation;
on the right, where the nearest comes first, to ``exp(-distance)``.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.optimize
from jaxtyping import Float, Int

from crosslens.derive.order_features import size_events
from crosslens.derive.order_nodes import Node
from crosslens.errors import TrainingError, refuse

__all__ = ["RelationWeights", "fit_relation_weights", "relation_likelihood"]

_VARIANCE = 1.0  # of the weights' Gaussian prior, as Hahn et al. have it


@dataclasses.dataclass(frozen=True, eq=False)
class RelationWeights:
    """Weights of relations; those that were not seen have 0.

    Attributes
    ----------
    relations: names, without subtypes, sorted.
    direction: shape (r,): the log-odds that such a dependent stands before its head.
    distance: shape (r,): the larger, the further from the head.
    nodes: how many nodes the weights were learnt from.
    """

    relations: tuple[str, ...]
    direction: Float[np.ndarray, " r"]
    distance: Float[np.ndarray, " r"]
    nodes: int

    def scores(self, node: Node) -> Float[np.ndarray, " p"]:
        """The logarithm of the probability of every order of a node's items, in the order of
        :func:`~crosslens.derive.order_features.size_events`.

        Parameters
        ----------
        node: of 2 to 7 items.
        """
        number = {relation: i for i, relation in enumerate(self.relations)}
        rows = [number.get(relation, -1) for _, relation, _ in node.items[1:]]
        direction = np.r_[0.0, np.r_[self.direction, 0.0][rows]]
        distance = np.r_[0.0, np.r_[self.distance, 0.0][rows]]
        orders = size_events(len(node.items)).orders
        found = np.zeros(len(orders))
        head = np.argsort(orders, axis=1)[:, :1]
        places = np.arange(orders.shape[1])
        left, right = places < head, places > head
        odds = direction[orders]
        found -= (
            np.logaddexp(0, np.where(left, -odds, odds))[left | right]
            .reshape(len(orders), -1)
            .sum(axis=1)
        )
        for side, sign in ((left, 1.0), (right, -1.0)):
            utility = np.where(side, sign * distance[orders], -np.inf)
            # of all that are still to be placed
            rest = np.logaddexp.accumulate(utility[:, ::-1], axis=1)[:, ::-1]
            found += np.where(side, utility - np.where(side, rest, 0), 0).sum(axis=1)
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class _Seen:
    """What the weights are learnt from.

    before, after: shape (r,), dependents of each relation on either side of their heads.
    choices: shape (s, k), relations in the order in which they are placed, -1 behind the last.
    signs: shape (s,), 1 on the left and -1 on the right. times: shape (s,), how often each was seen.
    """

    before: Float[np.ndarray, " r"]
    after: Float[np.ndarray, " r"]
    choices: Int[np.ndarray, "s k"]
    signs: Float[np.ndarray, " s"]
    times: Float[np.ndarray, " s"]


def fit_relation_weights(some: Iterable[Node]) -> RelationWeights:
    """Learn the weights from the orders of nodes of any size: the most probable ones under a
    Gaussian prior of variance 1.

    Raises
    ------
    InputError: no nodes.
    TrainingError: the optimiser did not converge.
    """
    nodes = list(some)
    if not nodes:
        refuse("treebank", "heads with dependents", "none", "give another treebank")
    relations = tuple(sorted({relation for node in nodes for _, relation, _ in node.items[1:]}))
    seen = _seen(nodes, relations)
    found = scipy.optimize.minimize(
        functools.partial(relation_likelihood, seen=seen),
        np.zeros(2 * len(relations)),
        jac=True,
        method="L-BFGS-B",
    )
    if not found.success:
        got = f"none after {found.nit} steps ({found.message})"
        refuse("treebank", "a minimum", got, "give other nodes", TrainingError)
    direction, distance = np.split(found.x, 2)
    return RelationWeights(relations, direction, distance, len(nodes))


def _seen(nodes: Sequence[Node], relations: tuple[str, ...]) -> _Seen:
    number = {relation: i for i, relation in enumerate(relations)}
    counts = np.zeros((2, len(relations)))
    placed: collections.Counter[tuple[int, tuple[int, ...]]] = collections.Counter()
    for node in nodes:
        at = node.order.index(0)
        for side, items in enumerate((node.order[:at], node.order[at + 1 :])):
            rows = tuple(number[node.items[item][1]] for item in items)
            np.add.at(counts[side], list(rows), 1)
            if len(rows) > 1:
                placed[1 - 2 * side, rows] += 1
    width = max((len(rows) for _, rows in placed), default=1)
    choices = np.full((len(placed), width), -1)
    for row, (_, rows) in enumerate(placed):
        choices[row, : len(rows)] = rows
    signs = np.array([sign for sign, _ in placed], np.float64)
    times = np.array([*placed.values()], np.float64)
    return _Seen(counts[0], counts[1], choices, signs, times)


def relation_likelihood(
    weights: Float[np.ndarray, " w"], seen: _Seen
) -> tuple[float, Float[np.ndarray, " w"]]:
    """The negative log-likelihood of the orders with the penalty, and its gradient.

    Parameters
    ----------
    weights: directions, then distances.
    """
    direction, distance = np.split(weights, 2)
    value = weights @ weights / (2 * _VARIANCE)
    value += seen.before @ np.logaddexp(0, -direction) + seen.after @ np.logaddexp(0, direction)
    share = 1 / (1 + np.exp(-direction))
    of_direction = share * (seen.before + seen.after) - seen.before
    there = seen.choices >= 0
    utility = np.where(there, seen.signs[:, None] * distance[seen.choices], -np.inf)
    rest = np.logaddexp.accumulate(utility[:, ::-1], axis=1)[:, ::-1]
    value += seen.times @ np.where(there, rest - np.where(there, utility, 0), 0).sum(axis=1)
    # each item is a candidate at its own step and at all before it
    steps = np.cumsum(np.where(there, np.exp(-np.where(there, rest, 0)), 0), axis=1)
    slope = np.where(there, np.exp(utility) * steps - 1, 0) * (seen.times * seen.signs)[:, None]
    of_distance = np.bincount(seen.choices[there], slope[there], minlength=len(distance))
    return float(value), np.concatenate([of_direction, of_distance]) + weights / _VARIANCE
