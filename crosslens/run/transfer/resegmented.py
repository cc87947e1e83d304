"""Sentences whose words have tags of spans, with the words of a segmenter instead."""

import dataclasses

from crosslens.corpus import Corpus
from crosslens.probes.methods.span_projection import project_spans
from crosslens.readers.words import locate_words, segment

__all__ = ["SEGMENTED", "resegmented"]

SEGMENTED = {"rjieba": "zho", "pythainlp": "tha", "sudachipy": "jpn"}
"""Segmenter -> the language that it is for."""


def resegmented(corpus: Corpus, label: str, segmenter: str) -> tuple[Corpus, int]:
    """The same names on a segmenter's words; and how many have other borders there.

    Parameters
    ----------
    label: the annotation with BIO tags; others are left out.
    segmenter: a name of :data:`crosslens.readers.words.SEGMENTERS`.

    A text whose words stand between single spaces, as files without ``# text`` are read, is joined
    first; spaces stay between Latin letters or digits.

    Raises
    ------
    InputError: no such segmenter, or its package is not installed.
    """
    texts, places = [], []
    for text, words in zip(corpus.sentences, corpus.words or (), strict=True):
        forms = [text[start:end] for start, end in words]
        if text == " ".join(forms):
            text = forms[0]
            for before, form in zip(forms[:-1], forms[1:], strict=True):
                text += " " * (
                    (before[-1] + form[0]).isascii() and (before[-1] + form[0]).isalnum()
                )
                text += form
            words = locate_words(text, forms, corpus.name)
        texts.append(text)
        places.append(words)
    other = segment(
        dataclasses.replace(corpus, sentences=texts, words=None, annotations=None), segmenter
    )
    spans = [list(some) for some in other.words or ()]
    tags = (corpus.annotations or {})[label]
    made = [project_spans(*one) for one in zip(tags, places, spans, strict=True)]
    labels = {label: [row for row, _ in made]}
    joined = dataclasses.replace(other, words=spans, annotations=labels)
    return joined, sum(moved for _, moved in made)
