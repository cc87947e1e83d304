"""A record of a treebank on the hub as lines of CoNLL-U.

The layout is that of ``commul/universal_dependencies``, as its generator (ud-hf-parquet-tools)
writes it: a sentence a record, with the columns sent_id, text, tokens, lemmas, upos, xpos, feats,
head, deprel, deps and misc of the syntactic words (None for "_"), and a list ``mwt`` of multiword
tokens with id ("3-4"), form and misc. Empty nodes are not read.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["COLUMNS", "conllu_lines"]

_WORDS = ("tokens", "lemmas", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
COLUMNS = ("sent_id", "text", *_WORDS, "mwt")
"""The columns that are read."""


def conllu_lines(record: Mapping[str, Any]) -> list[str]:
    """The lines of a sentence, with the blank line behind it.

    >>> words = {"tokens": ["de", "le"], "lemmas": ["de", "le"], "upos": ["ADP", "DET"], "xpos": [None, None], "feats": [None, None]}
    >>> words |= {"head": [0, 1], "deprel": ["root", "det"], "deps": [None, None], "misc": [None, None]}
    >>> mwt = [{"id": "1-2", "form": "du", "feats": None, "misc": None}]
    >>> for line in conllu_lines({"sent_id": "s1", "text": "du", **words, "mwt": mwt}):
    ...     print(line.replace("\\t", " "))
    # sent_id = s1
    # text = du
    1-2 du _ _ _ _ _ _ _ _
    1 de de ADP _ _ 0 root _ _
    2 le le DET _ _ 1 det _ _
    <BLANKLINE>
    """
    lines = [f"# sent_id = {record['sent_id']}", f"# text = {record['text']}"]
    whole = {str(one["id"]).partition("-")[0]: one for one in record["mwt"] or ()}
    for number, cells in enumerate(zip(*(record[name] for name in _WORDS), strict=True), 1):
        if (one := whole.get(str(number))) is not None:
            lines.append("\t".join([one["id"], one["form"], *["_"] * 7, one.get("misc") or "_"]))
        lines.append("\t".join([str(number), *("_" if c is None else str(c) for c in cells)]))
    return [*lines, ""]
