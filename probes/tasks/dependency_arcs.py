"""Edge probing of dependency arcs: given two words of a sentence, is there an arc, and which
relation does it have?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.probes.tasks.items import Spans
from crosslens.probes.tasks.task import Card, Task
from crosslens.probes.tasks.treebanks import (
    ADDRESS,
    CITATION,
    FILES,
    LICENCE,
    read_treebank,
    treebank_languages,
)
from crosslens.readers.treebank import trees

__all__ = ["NO_ARC", "TASK", "pick_arcs"]

NO_ARC = "no arc"
"""The label of two words without an arc."""


def pick_arcs(columns: Mapping[str, Sequence[Any]], seed: int) -> Spans:
    """Every word with its head, labelled by the relation without its subtype, and as often with a
    word that is not its head.

    For each arc one negative is sampled among the other words of the sentence, as Liu et al. (2019)
    do; Tenney et al. (2019) give arcs alone. A dependent whose sentence has no other word has no
    negative. Relations of the root, which has no head, are left out.

    Parameters
    ----------
    columns: text, head, upos and deprel of a treebank's words. seed: of the negatives.

    Returns
    -------
    first: the dependents. second: their heads, or other words.

    >>> columns = {"text": [0, 0, 0], "head": ["2", "0", "2"], "upos": ["DET", "NOUN", "PUNCT"], "deprel": ["det", "root", "punct"]}
    >>> found = pick_arcs(columns, seed=0)
    >>> list(zip(found.first.tolist(), found.second.tolist(), found.labels.tolist()))
    [(0, 1, 'det'), (0, 2, 'no arc'), (2, 1, 'punct'), (2, 0, 'no arc')]
    """
    found = trees({name: columns[name] for name in ("text", "head", "upos")})
    rng, begin = np.random.default_rng([seed, 0xA2C5]), 0
    pairs: list[tuple[int, int, str]] = []
    for length in found.lengths.tolist():
        for word, head in enumerate(found.heads[begin : begin + length].tolist()):
            if head == 0:
                continue
            relation = str(columns["deprel"][begin + word]).split(":")[0]
            pairs.append((begin + word, begin + head - 1, relation))
            others = [other for other in range(length) if other not in (word, head - 1)]
            if others:
                pairs.append((begin + word, begin + others[rng.integers(len(others))], NO_ARC))
        begin += length
    first, second, labels = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Spans(np.array(first, np.int64), np.array(second, np.int64), np.array(labels))


TASK = Task(
    name="dependency_arcs",
    kind="span",
    group="syntactic",
    metrics=("accuracy", "macro_f1", "selectivity"),
    read=read_treebank,
    languages=treebank_languages,
    pick=pick_arcs,
    usual=(),
    card=Card(
        title="Dependency arcs (edge probing)",
        says="A classifier is given the vectors of two words and their product, and says whether "
        "the second is the head of the first, and "
        "by which relation (Tenney et al. 2019). Half of the pairs have no arc.",
        data=FILES,
        languages="any that has a treebank",
        chance="about 0.5: always “no arc”",
        citation=f"""@inproceedings{{tenney2019edge,
  author = {{Tenney, Ian and Xia, Patrick and Chen, Berlin and Wang, Alex and Poliak, Adam and McCoy, R. Thomas and Kim, Najoung and
    Van Durme, Benjamin and Bowman, Samuel R. and Das, Dipanjan and Pavlick, Ellie}},
  title = {{What do you learn from context? Probing for sentence structure in contextualized word representations}},
  booktitle = {{Proceedings of ICLR}}, year = {{2019}}
}}
@inproceedings{{liu2019linguistic,
  author = {{Liu, Nelson F. and Gardner, Matt and Belinkov, Yonatan and Peters, Matthew E. and Smith, Noah A.}},
  title = {{Linguistic Knowledge and Transferability of Contextual Representations}},
  booktitle = {{Proceedings of NAACL-HLT}}, year = {{2019}}
}}
{CITATION}""",
        licence=LICENCE,
        address=ADDRESS,
    ),
)
