"""The statistical aligner: it finds a cipher's words, gives the same links every time, and passes
over nothing in silence."""

import sys

import numpy as np
import pytest

from crosslens.alignment.words.ibm import MODELS, SYMMETRISATIONS, align_words
from crosslens.errors import InputError


@pytest.fixture
def installed():
    """The aligner's package, without which these tests cannot run."""
    try:
        import thot.alignment
    except ImportError:
        pytest.skip(reason="no aligner: pip install 'crosslens[align]'")
    return thot.alignment


@pytest.fixture(scope="module")
def cipher():
    """Sentences, their translations word by word with neighbours sometimes exchanged, and the links
    that are right."""
    rng = np.random.default_rng(0)
    x, y, links = [], [], []
    for sentence in range(400):
        words = rng.permutation(60)[: rng.integers(3, 12)]
        order = np.arange(len(words))
        if rng.random() < 0.5:
            at = rng.integers(0, len(words) - 1)
            order[at : at + 2] = order[at : at + 2][::-1]
        x.append([f"x{word}" for word in words])
        y.append([f"y{words[i]}" for i in order])
        links += [(sentence, int(i), j) for j, i in enumerate(order)]
    return x, y, set(links)


def as_set(links):
    return set(map(tuple, links.tolist()))


@pytest.mark.parametrize("model", MODELS)
def test_a_cipher_is_found(installed, cipher, model):
    x, y, right = cipher
    links = align_words(x, y, model=model, symmetrisation="intersection")
    assert len(as_set(links) & right) / len(right) > 0.95
    assert len(as_set(links) & right) / len(links) > 0.95
    assert links.tolist() == sorted(links.tolist())
    back = align_words(y, x, model=model, symmetrisation="intersection")
    assert as_set(back[:, [0, 2, 1]]) == as_set(links)


def test_the_same_sentences_give_the_same_links_and_symmetrisations_contain_each_other(
    installed, cipher
):
    x, y, _ = cipher
    found = {
        name: as_set(align_words(x[:60], y[:60], symmetrisation=name, iterations=2))
        for name in SYMMETRISATIONS
    }
    again = {
        name: as_set(align_words(x[:60], y[:60], symmetrisation=name, iterations=2))
        for name in SYMMETRISATIONS
    }
    assert found == again
    assert (
        found["intersection"]
        < found["grow-diag"]
        <= found["grow-diag-final-and"]
        <= found["grow-diag-final"]
        <= found["union"]
    )
    assert found["intersection"] < found["union"]


def test_empty_sentences_have_no_links_and_keep_their_number(installed, cipher):
    x, y, _ = cipher
    plain = align_words(x[:50], y[:50])
    links = align_words([[], *x[:50], ["x1"]], [["y1"], *y[:50], []])
    assert as_set(links) == as_set(plain + [1, 0, 0])


def test_words_that_the_package_uses_itself_are_words(installed, cipher):
    x, y, right = cipher
    own = {"x0": "NULL", "x1": "UNKNOWN_WORD", "x2": "<UNUSED_WORD>"}
    renamed = [[own.get(word, word) for word in sentence] for sentence in x]
    assert as_set(align_words(renamed, y)) == as_set(align_words(x, y))


def test_the_longest_sentences_are_aligned_and_longer_ones_are_refused(installed):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in rng.permutation(200)]
    some = [[words[i] for i in rng.integers(0, 200, size=8)] for _ in range(60)]
    links = align_words([*some, words], [*some, words], iterations=2, symmetrisation="union")
    # the package itself gives none to a sentence of 201 words
    assert (links[:, 0] == 60).sum() > 180
    for model, most in (("hmm", 200), ("fast_align", 1024), ("ibm1", 1024)):
        with pytest.raises(InputError, match=rf"sentences_y\[1\]: .*got {most + 1}"):
            align_words([words, words], [words, ["w"] * (most + 1)], model=model)


def test_bad_words_are_refused(installed):
    with pytest.raises(InputError, match=r"sentences_x: .*got none"):
        align_words([[], ["a"]], [["b"], []])
    with pytest.raises(InputError, match=r"sentences_x\[1\]: .*got ''"):
        align_words([["a"], ["b", ""]], [["a"], ["b"]])
    with pytest.raises(InputError, match=r"sentences_y\[0\]: .*got a lone surrogate"):
        align_words([["a"]], [["\ud83d"]])


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match=r"model: .*got 'ibm4'"):
        align_words([["a"]], [["b"]], model="ibm4")
    with pytest.raises(InputError, match=r"symmetrisation: .*got 'none'"):
        align_words([["a"]], [["b"]], symmetrisation="none")
    with pytest.raises(InputError, match=r"iterations: .*got 0"):
        align_words([["a"]], [["b"]], iterations=0)
    with pytest.raises(InputError, match=r"sentences_y: .*got 0"):
        align_words([["a"]], [])


def test_without_the_package_the_refusal_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "thot", None)
    with pytest.raises(InputError, match=r"align_words: .*got none installed"):
        align_words([["a"]], [["b"]])
