"""Word orders from treebanks on disk."""

from pathlib import Path
from typing import Literal

from crosslens.derive.order import (
    OrderCoverage,
    WordOrder,
    check_trees,
    learn_word_order,
    order_coverage,
)
from crosslens.derive.order_files import read_word_order, save_word_order
from crosslens.errors import quote, refuse
from crosslens.front.derived import sentence_places
from crosslens.readers.words import read_conllu

__all__ = ["check_treebank", "save_word_order", "word_order", "word_order_coverage"]


def word_order(
    path: str | Path,
    language: str,
    *,
    parts: str = "NV",
    model: Literal["log-linear", "relation-weights"] = "log-linear",
    choice: Literal["sampled", "best"] = "sampled",
) -> WordOrder:
    """The word order of a language, learnt from a treebank of it or saved before: a transformation
    for :func:`crosslens.derive_files` and :func:`crosslens.derive_corpus`.

    Parameters
    ----------
    path: CoNLL-U (``.conllu`` or ``.conllu.gz``), or what :func:`save_word_order` wrote
        (``.json``). language: its code.
    parts: whose words are put in order: those of nouns (proper nouns and pronouns), "N"; of verbs,
        "V"; or of both.
    model: "log-linear" (Wang & Eisner 2016) or "relation-weights" (Hahn et al. 2020).
    choice: "sampled" draws an order by its probability, from the seed of the derived language;
        "best" takes the most probable one.

    Raises
    ------
    InputError: the file cannot be read, a sentence of it is no tree (the message names its line), or
        there is nothing to learn from; of a saved order, it has other classes of heads, another model
        or another language.

    >>> import tempfile
    >>> import crosslens as cl
    >>> path = Path(tempfile.mkdtemp()) / "fra.conllu"
    >>> lines = "1 le _ DET _ _ 2 det _ _", "2 chat _ NOUN _ _ 0 root _ _", "3 noir _ ADJ _ _ 2 amod _ _"
    >>> _ = path.write_text("\\n".join(line.replace(" ", "\\t") for line in lines) + "\\n\\n")
    >>> order = cl.word_order(path, "fra", parts="N", choice="best")
    >>> order.name, cl.word_order_coverage(path, "fra", order).reordered
    ('order:fra,N,best', 1)
    """
    if str(path).endswith(".json"):
        order = read_word_order(path, parts=parts, model=model, choice=choice)
        if not order.is_of(language):
            got = quote(language)
            refuse("language", f"{order.language}, whose order {path} has", got, "name it so")
        return order
    treebank, places = read_conllu(path, language), sentence_places(path)
    return learn_word_order(treebank, parts=parts, model=model, choice=choice, places=places)


def check_treebank(path: str | Path, language: str) -> None:
    """Pass if a treebank's words can be put in order.

    Parameters
    ----------
    path: CoNLL-U. language: its code.

    Raises
    ------
    InputError: the file cannot be read, or a sentence of it is no tree; the message names its line.
    """
    check_trees(read_conllu(path, language), sentence_places(path))


def word_order_coverage(path: str | Path, language: str, order: WordOrder) -> OrderCoverage:
    """How many heads of a treebank a word order applies to, and to which not.

    Parameters
    ----------
    path: CoNLL-U. language: its code. order: of :func:`word_order`.

    Raises
    ------
    InputError: as for :func:`word_order`.

    >>> import tempfile
    >>> import crosslens as cl
    >>> path = Path(tempfile.mkdtemp()) / "fra.conllu"
    >>> lines = "1 le _ DET _ _ 2 det _ _", "2 chat _ NOUN _ _ 0 root _ _", "3 noir _ ADJ _ _ 2 amod _ _"
    >>> _ = path.write_text("\\n".join(line.replace(" ", "\\t") for line in lines) + "\\n\\n")
    >>> found = cl.word_order_coverage(path, "fra", cl.word_order(path, "fra", parts="N"))
    >>> found.reordered
    1
    """
    return order_coverage(read_conllu(path, language), order, sentence_places(path))
