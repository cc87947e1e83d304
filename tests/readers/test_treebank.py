"""Labels and trees of treebank words, against loops that know nothing of arrays."""

import collections

import numpy as np
import pytest
from ground_tools import GRAMMAR

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.readers.treebank import conllu_text, trees, word_labels
from crosslens.readers.words import read_conllu
from crosslens.trees import check_heads, tree_depths, tree_distances

CONLLU = """# text = Don't run, dogs _
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp|VerbForm=Fin\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod:neg\t_\t_
2.1\tx\tx\tVERB\t_\tNumber=Dual\t_\t_\t0:root\t_
3\trun\trun\tVERB\tVB\tMood=Imp|Number=Sing\t0\troot\t_\tSpaceAfter=No
4\t,\t,\tPUNCT\t,\t_\t5\tpunct\t_\t_
5\tdogs\tdog\tNOUN\tNNS\tNumber=Plur\t3\tvocative\t_\t_
6\t_\t_\tSYM\t_\tNumber[psor]=Plur\t3\tdep\t_\t_

# text = Go
1\tGo\tgo\t_\tVB\tNumber=Plur,Sing\t0\troot\t_\t_
"""


@pytest.fixture
def columns(tmp_path):
    """What the index of a store of words holds, made from the file as the extraction makes it."""
    (tmp_path / "some.conllu").write_text(CONLLU, encoding="utf-8")
    return index_of(read_conllu(tmp_path / "some.conllu", "eng"))


def index_of(corpus):
    found = collections.defaultdict(list)
    for number, spans in enumerate(corpus.words):
        for position, (start, end) in enumerate(spans):
            for name, value in {
                "text": number,
                "position": position,
                "start": start,
                "end": end,
                "pieces": 1,
            }.items():
                found[name].append(value)
            for name, values in corpus.annotations.items():
                found[name].append(values[number][position])
    return dict(found)


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    assert GRAMMAR.fullmatch(str(refused.value)) and "\n" not in str(refused.value)
    return str(refused.value)


def random_heads(rng, n):
    """A random tree: each word but the root hangs on a word that is in the tree already, in random
    places of the sentence."""
    order, heads = rng.permutation(n), np.zeros(n, np.int64)
    for i in range(1, n):
        heads[order[i]] = order[rng.integers(i)] + 1
    return heads


@pytest.mark.parametrize(
    ("what", "rows", "labels"),
    [
        ("upos", [0, 1, 2, 3, 4, 5], ["AUX", "PART", "VERB", "PUNCT", "NOUN", "SYM"]),
        ("xpos", [0, 1, 2, 3, 4, 6], ["VB", "RB", "VB", ",", "NNS", "VB"]),
        ("deprel", range(7), ["aux", "advmod:neg", "root", "punct", "vocative", "dep", "root"]),
        ("coarse_deprel", range(7), ["aux", "advmod", "root", "punct", "vocative", "dep", "root"]),
        ("feature:Number", [2, 4, 6], ["Sing", "Plur", "Plur,Sing"]),
        ("feature:Number[psor]", [5], ["Plur"]),
        ("feature:Mood", [0, 2], ["Imp", "Imp"]),
        # here "_" is the word itself
        ("lemma", range(7), ["do", "not", "run", ",", "dog", "_", "go"]),
        ("form", range(7), ["Do", "n't", "run", ",", "dogs", "_", "Go"]),
    ],
)
def test_labels_are_those_of_the_file(columns, what, rows, labels):
    found = word_labels(columns, what)
    assert found.rows.tolist() == [*rows]
    assert found.labels.tolist() == labels
    assert (found.without_label, found.without_vector) == (7 - len(labels), 0)


def test_a_sentence_of_many_words_is_written_and_read_again(tmp_path):
    """Looking for the token of each word among all of them would take a minute."""
    spans, forms = [], []
    for start in range(0, 30_000, 6):  # "du ab." and so on: de + le, ab, "."
        spans += [(start, start + 2), (start, start + 2), (start + 3, start + 5)]
        spans += [(start + 5, start + 6)]
        forms += ["de", "le", "ab", "."]
    columns = {"form": [forms]}
    corpus = Corpus("fra", ["du ab." * 5000], ["a"], "toy", words=[spans], annotations=columns)
    (tmp_path / "long.conllu").write_text(conllu_text(corpus), encoding="utf-8")
    again = read_conllu(tmp_path / "long.conllu", "fra")
    assert again.words == [spans] and again.annotations["form"] == [forms]
    assert (tmp_path / "long.conllu").read_text().count("SpaceAfter=No") == 2 * 5000 - 1


def test_words_without_a_lemma_are_left_out_and_counted(columns):
    columns["lemma"][1] = columns["lemma"][4] = "_"
    found = word_labels(columns, "lemma")
    assert found.labels.tolist() == ["do", "run", ",", "_", "go"] and found.without_label == 2
    del columns["form"]
    assert word_labels(columns, "lemma").labels.tolist() == ["do", "run", ",", "go"]


def test_words_without_a_label_may_be_a_class(columns):
    found = word_labels(columns, "feature:Number", none="none")
    assert found.labels.tolist() == ["none", "none", "Sing", "none", "Plur", "none", "Plur,Sing"]
    assert (found.rows.tolist(), found.without_label) == ([*range(7)], 0)


def test_words_without_a_vector_are_left_out_and_counted(columns):
    found = word_labels({**columns, "pieces": [1, 1, 0, 0, 2, 1, 1]}, "feature:Number")
    assert found.rows.tolist() == [4, 6]
    assert (found.without_label, found.without_vector) == (4, 1), (
        "a word that lacks both is counted once"
    )


def test_words_of_a_multiword_token_share_its_vector_and_are_counted(columns):
    assert word_labels(columns, "upos").sharing == 2
    assert word_labels(columns, "feature:VerbForm").sharing == 1
    assert word_labels({"upos": columns["upos"]}, "upos").sharing == 0


def test_columns_are_not_written_to(columns):
    before = {name: list(values) for name, values in columns.items()}
    word_labels(columns, "feature:Number", none="none")
    trees(columns)
    assert columns == before


def test_bad_labels_are_refused(columns):
    assert refusal(word_labels, columns, "pos").startswith(
        "what: expected one of form, lemma, upos, xpos, deprel, ner, coarse_deprel, or feature:NAME"
    )
    assert "got 'feature:'" in refusal(word_labels, columns, "feature:")
    told = refusal(word_labels, {"text": [0]}, "upos")
    assert told.startswith(
        "columns: expected the column 'upos', got text; extract words of a CoNLL-U file"
    )
    told = refusal(word_labels, columns, "feature:Tense")
    assert told == (
        "feature:Tense: expected words with such a label, got none of 7; choose another, or "
        'set none="none"'
    )
    told = refusal(word_labels, {**columns, "pieces": [1]}, "upos")
    assert told.startswith("columns['pieces']: expected 7 values, one per word, got 1;")


def test_trees_are_those_of_the_file(columns):
    found = trees(columns)
    assert found.heads.tolist() == [3, 3, 0, 5, 3, 3, 0]
    assert found.lengths.tolist() == [6, 1]
    assert found.rows.tolist() == [*range(7)]
    assert found.punctuation.tolist() == [False, False, False, True, False, False, False]
    assert found.left_out == 0


def test_sentences_with_a_word_without_vector_are_left_out_and_counted(columns):
    found = trees({**columns, "pieces": [1, 1, 1, 1, 0, 1, 1]})
    assert (found.rows.tolist(), found.heads.tolist(), found.lengths.tolist(), found.left_out) == (
        [6],
        [0],
        [1],
        1,
    )
    told = refusal(trees, {**columns, "pieces": [0] * 7})
    assert told.startswith(
        "columns: expected a sentence whose words all have vectors, got none of 2;"
    )


def test_what_is_no_tree_is_refused_with_its_sentence(columns):
    for heads, told in [
        (["3", "3", "0", "5", "3", "3", "1"], "one root (head 0) in sentence 1, got 0"),
        (["3", "0", "0", "5", "3", "3", "0"], "one root (head 0) in sentence 0, got 2"),
        (["3", "3", "0", "5", "4", "3", "0"], "a tree in sentence 0, got a circle"),
        (["1", "3", "0", "5", "3", "3", "0"], "a tree in sentence 0, got a circle"),
        (["7", "3", "0", "5", "3", "3", "0"], "numbers from 0 to 6 in sentence 0, got 7"),
        (
            ["_", "3", "0", "5", "3", "3", "0"],
            "a word's number as head, or 0 for the root, got '_'",
        ),
        (
            ["-1", "3", "0", "5", "3", "3", "0"],
            "a word's number as head, or 0 for the root, got '-1'",
        ),
    ]:
        assert f"expected {told}; " in refusal(trees, {**columns, "head": heads})
    assert "the column 'head'" in refusal(trees, {"text": [0], "upos": ["X"]})
    assert "columns['head']: expected 7 values" in refusal(trees, {**columns, "head": ["0"]})
    assert "sentences in their order" in refusal(trees, {**columns, "text": [1, 0, 0, 0, 0, 0, 0]})
    assert "a sentence whose words all have vectors, got none of 0" in refusal(
        trees, {"text": [], "head": [], "upos": []}
    )


def test_heads_and_lengths_must_fit():
    assert (
        "lengths: expected 3 words in sentences of at least one, got 2 in 1 sentence(s)"
        in refusal(check_heads, np.array([0, 1, 1]), np.array([2]))
    )
    assert "got 3 in 2 sentence(s)" in refusal(check_heads, np.array([0, 1, 1]), np.array([3, 0]))
    assert "in sentence b, got 2" in refusal(
        check_heads, np.array([0, 0, 0]), np.array([1, 2]), names=["a", "b"]
    )
    assert "numbers from 0 to 2 in sentence 0, got -1" in refusal(tree_depths, np.array([0, -1]))
    assert "a circle" in refusal(tree_distances, np.array([0, 3, 2]))


def loop_depth(heads, word):
    depth = 0
    while heads[word]:
        word, depth = heads[word] - 1, depth + 1
    return depth


def loop_distance(heads, i, j):
    """Breadth first through the edges without their direction."""
    neighbours = collections.defaultdict(set)
    for word, head in enumerate(heads):
        if head:
            neighbours[word].add(head - 1)
            neighbours[head - 1].add(word)
    seen, queue = {i: 0}, collections.deque([i])
    while queue:
        word = queue.popleft()
        for other in neighbours[word] - seen.keys():
            seen[other] = seen[word] + 1
            queue.append(other)
    return seen[j]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_depths_and_distances_equal_plain_walks_through_the_tree(n):
    rng = np.random.default_rng(n)
    for heads in [random_heads(rng, n) for _ in range(10)] + [
        np.arange(n),
        np.r_[0, np.ones(n - 1, np.int64)],
    ]:
        assert tree_depths(heads).tolist() == [loop_depth(heads, word) for word in range(n)]
        assert tree_distances(heads).tolist() == [
            [loop_distance(heads, i, j) for j in range(n)] for i in range(n)
        ]


def test_distances_forget_the_root_and_depths_do_not():
    chain_from_the_left, chain_from_the_right = np.array([0, 1, 2]), np.array([2, 3, 0])
    assert np.array_equal(tree_distances(chain_from_the_left), tree_distances(chain_from_the_right))
    assert tree_depths(chain_from_the_left).tolist() == [0, 1, 2]
    assert tree_depths(chain_from_the_right).tolist() == [2, 1, 0]


def test_a_whole_treebank_is_read(shared_data):
    columns = index_of(read_conllu(shared_data / "ud" / "en_ewt-ud-dev.conllu.gz", "eng"))
    found = trees(columns)
    assert len(found.lengths) == 2001
    assert (found.left_out, int(found.lengths.sum()), int((found.heads == 0).sum())) == (
        0,
        len(columns["text"]),
        2001,
    )
    labels = word_labels(columns, "upos")
    assert len(set(labels.labels.tolist())) == 17
    assert 0 < labels.sharing < 0.1 * len(labels.labels)
