"""Attachment scores beside a count written apart, by hand-made and random trees."""

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.parse_scores import PARSE_PRESETS, Tree, count_attachments

GOLD = Tree(
    [2, 3, 0, 3, 3, 3],
    ["amod", "nsubj:pass", "root", "obl:agent", "punct", "dep"],
    ["Big", "dogs", "seen", "$", "?!", "¿x"],
    ["ADJ", "NOUN", "VERB", "SYM", "PUNCT", "X"],
)
ANSWER = Tree([2, 3, 0, 1, 1, 3], ["amod", "nsubj", "root", "obl:agent", "punct", "dep"])


def test_what_each_definition_counts():
    # wu_dredze: without $ and ?!, subtypes equal; conll18: all; supar: without ?!, subtypes count
    wanted = {"wu_dredze": (4, 4, 4), "conll18": (4, 4, 6), "supar": (3, 4, 5)}
    for preset, (las, uas, of) in wanted.items():
        found = count_attachments([GOLD], [ANSWER], preset)
        assert [one.quantity for one in found] == ["las", "uas"]
        assert (found[0].found[0], found[1].found[0], found[0].of[0]) == (las, uas, of), preset


def by_words(gold, answers, preset):
    """CoNLL-18's and the others' definitions, word by word over the whole test set."""
    right, heads, n = 0, 0, 0
    for mine, theirs in zip(gold, answers, strict=True):
        for k, tag in enumerate(mine.upos):
            if preset == "wu_dredze" and tag in {"PUNCT", "SYM"}:
                continue
            if preset == "supar" and all(sign in ".,;!?" for sign in mine.forms[k]):
                continue
            n += 1
            same = mine.relations[k] == theirs.relations[k]
            if preset != "supar":
                same = mine.relations[k].split(":", 1)[0] == theirs.relations[k].split(":", 1)[0]
            if mine.heads[k] == theirs.heads[k]:
                heads, right = heads + 1, right + same
    return right / n, heads / n


@pytest.mark.parametrize("preset", PARSE_PRESETS)
def test_random_trees_are_counted_as_word_by_word(preset):
    rng = np.random.default_rng(3)
    names = ["nsubj", "nsubj:pass", "obj", "punct"]

    def tree(n):
        return Tree(
            [int(rng.integers(0, i + 1)) for i in range(n)],
            rng.choice(names, n).tolist(),
            rng.choice(["a", "b", ".", "?!"], n).tolist(),
            rng.choice(["NOUN", "PUNCT", "SYM"], n).tolist(),
        )

    gold = [tree(n) for n in rng.integers(1, 9, 60)]
    answers = [
        Tree(
            [h if rng.random() < 0.7 else 0 for h in one.heads],
            [r if rng.random() < 0.5 else "nsubj" for r in one.relations],
        )
        for one in gold
    ]
    las, uas = count_attachments(gold, answers, preset)
    assert (las.value, uas.value) == pytest.approx(by_words(gold, answers, preset), abs=1e-12)
    assert las.found.sum() <= uas.found.sum()


def test_other_words_are_refused():
    with pytest.raises(InputError, match="predicted: expected a head for each word"):
        count_attachments([GOLD], [Tree([0], ["root"])])
    with pytest.raises(InputError, match="preset: expected one of wu_dredze"):
        count_attachments([GOLD], [GOLD], "las")
