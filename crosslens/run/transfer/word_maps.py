"""Maps between the same layer of two encoders, learnt from linked words of parallel sentences
(Conneau et al. 2020, § 5.1.2).

    words in context of both sides, links --normalised, Procrustes--> a map of the target's states
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from crosslens.activations import Activations
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.alignment.words.links import aligned_rows, sentence_offsets
from crosslens.errors import refuse

__all__ = ["LayerMap", "learn_map"]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerMap:
    """A map between one layer of two encoders.

    Attributes
    ----------
    source, target: what each side's states are normalised by: means over the words of the parallel
        text, which are kept for all other states.
    rotation: from the target's normalised states to the source's.
    pairs: linked words that it was learnt from.
    """

    source: IterativeNormalisation
    target: IterativeNormalisation
    rotation: Procrustes
    pairs: int

    def of_source(self, states: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The source's states as a head reads them."""
        return self.source.transform(states)

    def of_target(self, states: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The target's states in the place of the source's."""
        return self.rotation.transform(self.target.transform(states))


def learn_map(
    source: Activations, target: Activations, links: np.ndarray, sentences: int, layer: int
) -> LayerMap:
    """Learn the map of a layer: iterative normalisation over all words of each side (Zhang et al.
    2019), then orthogonal Procrustes from target to source over the linked ones.

    Parameters
    ----------
    source, target: words in context of parallel sentences.
    links: (k, 3) sentence, word of the source's side, word of the target's, from 0.
    sentences: how many there are.

    Raises
    ------
    InputError: a link names a word that a sentence does not have, no linked word has a subword on
        both sides, or nothing can be learnt.
    """
    words = [np.asarray(store.layer(layer), np.float32) for store in (source, target)]
    texts = [np.asarray(store.index(["text"])["text"]) for store in (source, target)]
    rows = np.stack(aligned_rows(links, *(sentence_offsets(t, sentences) for t in texts)))
    there = [np.isfinite(side[:, 0]) for side in words]
    rows = rows[:, there[0][rows[0]] & there[1][rows[1]]]
    if not rows.size:
        expected = "links of words that both encoders have subwords for"
        refuse("links", expected, "none", "check files and their order")
    ways = [
        IterativeNormalisation().fit(side[seen]) for side, seen in zip(words, there, strict=True)
    ]
    mine, theirs = (
        way.transform(side[some]) for way, side, some in zip(ways, words, rows, strict=True)
    )
    rotation = Procrustes(centre=False).fit(theirs, mine)
    return LayerMap(ways[0], ways[1], rotation, rows.shape[1])
