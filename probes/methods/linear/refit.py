"""The probe of every layer once more, with the penalty that each layer chose before: on control
labels, on other rows."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike

from crosslens.errors import refuse
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.linear.regression import LayerRidge

__all__ = ["LayerProbes"]


class LayerProbes:
    """Linear probes of L layers, each with a penalty of its own.

    Parameters
    ----------
    penalties: shape (L,), one for each layer, as the probe takes it.
    probe: :class:`crosslens.probes.methods.linear.layer_probe.LayerProbe`, or
        :class:`crosslens.probes.methods.linear.regression.LayerRidge` for numbers.

    >>> x = np.array([[0.0, 1.0], [0.2, 1.1], [1.0, 0.9], [1.2, 1.0]])
    >>> probes = LayerProbes([1.0, 0.1]).fit([x, x], ["de", "de", "fr", "fr"])
    >>> probes.predict([x[1:3], x[1:3]]).tolist()
    [['de', 'fr'], ['de', 'fr']]
    """

    def __init__(
        self, penalties: ArrayLike, probe: type[LayerProbe] | type[LayerRidge] = LayerProbe
    ) -> None:
        self.penalties = np.asarray(penalties, np.float64)
        self.probe = probe

    def fit(self, layers: Any, y: ArrayLike) -> "LayerProbes":
        """Learn each layer's probe.

        Parameters
        ----------
        layers: L layers of shape (n, d). y: shape (n,).

        Raises
        ------
        InputError: not one penalty per layer; or as the probe refuses.
        """
        if self.penalties.shape != (len(layers),):
            got = f"shape {self.penalties.shape}"
            expected = f"{len(layers)} penalties, one per layer"
            refuse("penalties", expected, got, "give each layer its own")
        self._groups = []
        for penalty in np.unique(self.penalties):
            rows = np.flatnonzero(self.penalties == penalty)
            self._groups.append(
                (rows, self.probe(penalties=float(penalty)).fit([layers[i] for i in rows], y))
            )
        return self

    def predict(self, layers: Any) -> Shaped[np.ndarray, "L n"]:
        """The most probable label of each row, or its number, by each layer.

        Parameters
        ----------
        layers: L layers of shape (n, d).
        """
        return self._gather(
            [probe.predict([layers[i] for i in rows]) for rows, probe in self._groups]
        )

    def predict_log_proba(self, layers: Any) -> Float[np.ndarray, "L n c"]:
        """Natural logarithm of the probability of each class of training, in sorted order.

        Parameters
        ----------
        layers: L layers of shape (n, d).
        """
        # only of LayerProbe
        return self._gather(
            [probe.predict_log_proba([layers[i] for i in rows]) for rows, probe in self._groups]
        )

    def _gather(self, parts: list[np.ndarray]) -> np.ndarray:
        """What the groups found, in the order of the layers."""
        order = np.argsort(np.concatenate([rows for rows, _ in self._groups]))
        return np.concatenate(parts)[order]
