"""Where the answer to a question stands in a derived passage."""

from collections.abc import Sequence

from crosslens.derive.labels import derived_span
from crosslens.derive.transformation import Derived
from crosslens.errors import refuse

__all__ = ["derived_answer"]

Span = tuple[int, int]


def derived_answer(
    answer: Span,
    words: Sequence[Span],
    derived_words: Sequence[Span],
    sources: Sequence[int],
    place: str = "answer",
) -> Span:
    """The (start, end) of an answer in the derived passage, in characters, the end excluded.

    An answer is where its words are. One that begins or ends within a word keeps the letters that
    it has of it, as long as its words keep their order and length; else it grows to whole words.

    Parameters
    ----------
    answer: in the passage. words, derived_words: the spans of the words of both passages.
    sources: where each derived word is from. place: what the answer is called in a refusal.

    Raises
    ------
    InputError: an answer without a word; or one whose words do not stand side by side in the derived
        passage, or are not all there.

    >>> words = [(0, 3), (4, 7), (8, 12), (12, 13)]  # the dog sleeps.
    >>> derived_answer((4, 12), words, [(0, 1), (2, 6), (7, 10), (11, 14)], [3, 2, 1, 0])
    (2, 10)
    """
    start, end = answer
    inside = [i for i, (first, last) in enumerate(words) if first < end and last > start]
    if not inside:
        remedy = "give an answer that has letters or digits"
        refuse(place, "an answer of words", f"characters {start} to {end} without one", remedy)
    derived = Derived(derived_words, sources)
    first, last = derived_span(derived, inside[0], inside[-1], place)
    left, right = derived_words[first][0], derived_words[last][1]
    if list(sources[first : last + 1]) == inside:
        sizes = [b - a for a, b in derived_words[first : last + 1]]
        if sizes == [words[i][1] - words[i][0] for i in inside]:
            left += max(start - words[inside[0]][0], 0)
            right -= max(words[inside[-1]][1] - end, 0)
    return left, right
