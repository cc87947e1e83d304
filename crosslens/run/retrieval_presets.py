"""Sentence retrieval as it is published, by name: which layer stands for a sentence.

    deshpande   the middle layer, n // 2 of n; inputs of at most 128 subwords
    xtreme      layer 8 of 12, 14 of 24; at most 512. Their scripts' 7 and 13 count from the first
                layer behind the embeddings

Both take the mean over all subwords, special tokens included, and the highest cosine, from a language
into English.
"""

from collections.abc import Callable, Iterable, Mapping

from crosslens.corpus import Corpus
from crosslens.errors import check_choice, refuse
from crosslens.score import Score
from crosslens.score_formats import format_value

__all__ = [
    "RETRIEVAL_PRESETS",
    "check_order",
    "longest_input",
    "preset_layer",
    "published_way",
    "sorted_alone",
]

_LAYERS: Mapping[str, Callable[[int], int | None]] = {
    "deshpande": lambda n: n // 2,
    "xtreme": {12: 8, 24: 14}.get,
}
_LONGEST = {"deshpande": 128, "xtreme": 512}
RETRIEVAL_PRESETS = tuple(_LAYERS)
"""Names of all presets."""


def preset_layer(preset: str, layers: int) -> int:
    """The layer that a preset takes, 0 being the embedding layer's output.

    Parameters
    ----------
    layers: how many the encoder has behind the embedding layer.

    Raises
    ------
    InputError: no such preset, or one that says nothing of so many layers.

    References
    ----------
    Deshpande et al. 2022, appendix F, and their code; XTREME's run_tatoeba.sh.

    >>> preset_layer("deshpande", 8), preset_layer("xtreme", 12)
    (4, 8)
    """
    check_choice(preset, "preset", RETRIEVAL_PRESETS)
    found = _LAYERS[preset](layers)
    if found is None:
        got = f"{layers}, of which {preset} says nothing"
        refuse("encoders", "12 or 24 layers", got, "choose another preset, or none")
    return found


def longest_input(preset: str) -> int:
    """The longest input of a preset, in subwords."""
    return _LONGEST[preset]


def check_order(corpora: Mapping[str, Corpus]) -> None:
    """Refuse a text whose sentences are sorted: the English ones of XTREME's Tatoeba are, so that
    nobody can tell which is the translation of which.

    Raises
    ------
    InputError: a text is sorted, and another is not.
    """
    for language in sorted_alone(corpora):
        got = f"sorted ones in {corpora[language].name}, as XTREME's Tatoeba has them"
        remedy = "take the published files, tatoeba.xxx-eng.*"
        refuse(f"texts, {language}", "sentences in the order of their translations", got, remedy)


def sorted_alone(corpora: Mapping[str, Corpus]) -> list[str]:
    """The languages whose sentences are sorted where those of another are not."""
    in_order = {language: list(one.sentences) for language, one in corpora.items()}
    is_sorted = {language: some == sorted(some) for language, some in in_order.items()}
    return [one for one in is_sorted if is_sorted[one] and not all(is_sorted.values())]


def published_way(preset: str, layers: int, scores: Iterable[Score]) -> str:
    """A sentence with what a preset measures, of the scores of a study."""
    layer = preset_layer(preset, layers)
    found = [
        score
        for score in scores
        if (score.task, score.condition, score.layer) == ("sentence_retrieval", "unaligned", layer)
        and (score.details or {}).get("part") == "all"
    ]
    told = ", ".join(f"{s.source} → {s.target} {format_value(100 * s.value, 1)}" for s in found)
    return (
        f"As {preset} measures (layer {layer}, special tokens included, cosine, all "
        f"{found[0].n if found else 0:,} sentences): P@1 {told} %."
    )
