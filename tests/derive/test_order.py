"""Sentences in the order of another language: what stays, what is drawn, what is refused."""

import collections
import itertools

import numpy as np
import pytest
from ground_tools import GRAMMAR

from crosslens.corpus import Corpus
from crosslens.derive.composition import Composition
from crosslens.derive.labels import derived_heads
from crosslens.derive.order import WordOrder, learn_word_order, order_coverage
from crosslens.derive.order_features import size_events
from crosslens.derive.order_nodes import canonical, laid_out, nodes
from crosslens.derive.transformation import Derived, Sentence
from crosslens.derive.transliteration import Transliteration
from crosslens.errors import InputError
from crosslens.trees import crossing_edges

TAGS = ["NOUN", "VERB", "ADJ", "DET", "PUNCT", "PROPN"]
RELATIONS = ["amod", "det", "obj", "nsubj:pass", "punct", "nmod"]


def random_sentence(rng, n):
    """A random tree with random tags, mostly with edges that cross."""
    order, heads = rng.permutation(n), [0] * n
    for i in range(1, n):
        heads[order[i]] = int(order[rng.integers(i)]) + 1
    columns = {
        "upos": [TAGS[i] for i in rng.integers(len(TAGS), size=n)],
        "deprel": [RELATIONS[i] for i in rng.integers(len(RELATIONS), size=n)],
    }
    return Sentence([f"w{i}" for i in range(n)], columns, heads)


def treebank(sentences, language="fra"):
    """A treebank of such sentences."""
    columns = {name: [list(one.columns[name]) for one in sentences] for name in ("upos", "deprel")}
    columns["head"] = [[str(head) for head in one.heads] for one in sentences]
    columns["form"] = [list(one.tokens) for one in sentences]
    text = [" ".join(one.tokens) for one in sentences]
    words = []
    for one in sentences:
        ends = np.cumsum([len(token) + 1 for token in one.tokens]).tolist()
        words.append(
            [(end - 1 - len(token), end - 1) for token, end in zip(one.tokens, ends, strict=True)]
        )
    ids = [str(i) for i in range(len(sentences))]
    return Corpus(language, text, ids, "toy.conllu", words, columns)


def projective(count, seed=0):
    rng = np.random.default_rng(seed)
    drawn = (random_sentence(rng, int(rng.integers(2, 9))) for _ in range(100 * count))
    return list(itertools.islice((one for one in drawn if not crossing_edges(one.heads)), count))


@pytest.fixture(scope="module")
def order():
    return learn_word_order(treebank(projective(120)))


@pytest.mark.parametrize("choice", ["sampled", "best"])
@pytest.mark.parametrize("model", ["log-linear", "relation-weights"])
def test_the_result_is_a_projective_tree_with_the_same_labelled_edges(model, choice):
    learnt = learn_word_order(treebank(projective(60)), model=model, choice=choice)
    rng = np.random.default_rng(1)
    for number in range(60):
        one = random_sentence(rng, int(rng.integers(1, 14)))
        made = learnt.derive(one, 0, number)
        assert made.is_reordering(len(one.tokens))
        assert made.tokens == [one.tokens[source] for source in made.sources]
        heads = derived_heads(made, one.heads, "toy")
        assert crossing_edges(heads) == 0
        edges = {(w, h and one.tokens[h - 1]) for w, h in zip(one.tokens, one.heads, strict=True)}
        now = {(w, h and made.tokens[h - 1]) for w, h in zip(made.tokens, heads, strict=True)}
        assert edges == now


def test_a_sentence_depends_on_its_seed_and_number_alone(order):
    rng = np.random.default_rng(2)
    some = [random_sentence(rng, 9) for _ in range(30)]
    first = [order.derive(one, 3, number).sources for number, one in enumerate(some)]
    again = [order.derive(one, 3, number).sources for number, one in reversed([*enumerate(some)])]
    fresh = learn_word_order(treebank(projective(120)))
    assert first == again[::-1] == [fresh.derive(one, 3, i).sources for i, one in enumerate(some)]
    assert first != [order.derive(one, 4, number).sources for number, one in enumerate(some)]
    assert len({tuple(order.derive(some[0], 3, number).sources) for number in range(40)}) > 5


def test_orders_are_drawn_as_often_as_the_model_says(order):
    columns = {"upos": ["NOUN", "ADJ", "DET", "NOUN"], "deprel": ["root", "amod", "det", "nmod"]}
    one = Sentence("a b c d".split(), columns, heads=[0, 1, 1, 1])
    scores = order.models["N"].scores(canonical(nodes(one)[0]))
    share = np.exp(scores) / np.exp(scores).sum()
    words = canonical(nodes(one)[0]).words
    n = 2500
    seen = collections.Counter(tuple(order.derive(one, 0, i).sources) for i in range(n))
    for row, expected in zip(size_events(4).orders, share, strict=True):
        found = seen[tuple(words[item] for item in row)] / n
        # four standard errors, of 24 orders
        assert found == pytest.approx(expected, abs=4 * (expected / n) ** 0.5 + 1e-9)


def test_the_probability_of_an_order_is_among_all_orders_of_its_words(order):
    columns = {"upos": ["NOUN", "ADJ", "ADJ", "NOUN"], "deprel": ["root", "amod", "amod", "nmod"]}
    one = nodes(Sentence("a b c d".split(), columns, heads=[0, 1, 1, 1]))[0]
    all_of_them = [
        order.log_probability(one._replace(order=some)) for some in itertools.permutations(range(4))
    ]
    assert np.exp(all_of_them).sum() == pytest.approx(1)
    swapped = one._replace(order=(0, 2, 1, 3))
    assert order.log_probability(one) == pytest.approx(order.log_probability(swapped))


def test_the_best_order_is_most_probable_and_equal_words_stay_as_they_are(order):
    best = WordOrder(order.language, order.models, "best")
    columns = {"upos": ["ADJ", "NOUN", "ADJ", "ADJ"], "deprel": ["amod", "root", "amod", "amod"]}
    one = Sentence("a b c d".split(), columns, heads=[2, 0, 2, 2])
    made = best.derive(one, 0, 0)
    assert [word for word in made.sources if word != 1] == [0, 2, 3]
    [node] = nodes(one)
    items = {word: item for item, word in enumerate(node.words)}
    found = order.log_probability(node._replace(order=tuple(items[w] for w in made.sources)))
    every = itertools.permutations(range(4))
    assert found == pytest.approx(
        max(order.log_probability(node._replace(order=some)) for some in every)
    )
    # nothing known of any item: the order of the sentence
    strange = {"upos": ["NOUN", "X", "SYM"], "deprel": ["dep", "root", "list"]}
    for model in best.models.values():
        assert not {"X", "SYM"} & set(model.symbols.names)
    unknown = Sentence("a b c".split(), strange | {"upos": ["X", "NOUN", "SYM"]}, heads=[2, 0, 2])
    weightless = {part: WeighNothing() for part in "NV"}
    assert WordOrder("fra", weightless, "best").derive(unknown, 0, 0).sources == [0, 1, 2]


class WeighNothing:
    def scores(self, node):
        return np.zeros(len(size_events(len(node.items)).orders))


def test_large_nodes_and_other_heads_keep_their_order():
    weightless = WordOrder("fra", {"N": WeighNothing()})
    for tag, n, kept in (
        ("NOUN", 8, True),
        ("VERB", 5, True),
        ("ADJ", 5, True),
        ("NOUN", 7, False),
    ):
        columns = {"upos": [tag, *["DET"] * (n - 1)], "deprel": ["root", *["det"] * (n - 1)]}
        one = Sentence([str(i) for i in range(n)], columns, heads=[0, *[1] * (n - 1)])
        stays = [weightless.derive(one, 0, i).sources == list(range(n)) for i in range(5)]
        assert all(stays) == kept


def test_an_order_reads_words_and_comes_before_another_script():
    """Marks of punctuation are read as what they are, so other marks would have other orders."""
    order = WordOrder("fra", {"N": WeighNothing()})
    assert Composition((Transliteration(), order)).name
    with pytest.raises(InputError, match="words of the language"):
        Composition((order, Transliteration()))


def test_coverage_counts_heads():
    columns = {"upos": ["NOUN", "NOUN", "ADJ", "ADV"], "deprel": ["root", "nmod", "amod", "advmod"]}
    crossing = Sentence("a b c d".split(), columns, heads=[0, 4, 1, 1])
    large = {"upos": ["NOUN"] + ["DET"] * 7, "deprel": ["root"] + ["det"] * 7}
    other = Sentence([str(i) for i in range(8)], large, heads=[0] + [1] * 7)
    order = WordOrder("fra", {"N": WeighNothing()})
    found = order_coverage(treebank([crossing, other]), order)
    assert (found.sentences, found.crossing) == (2, 1)
    assert (found.heads, found.reordered, found.too_large) == (3, 1, 1)


def test_sentences_that_cross_are_not_learnt_from():
    some = projective(60)
    crossing = [one for one in (random_sentence(np.random.default_rng(i), 8) for i in range(40))]
    crossing = [one for one in crossing if crossing_edges(one.heads)]
    assert len(crossing) > 10
    first, second = learn_word_order(treebank(some)), learn_word_order(treebank(some + crossing))
    for part in "NV":
        np.testing.assert_array_equal(first.models[part].weights, second.models[part].weights)


def test_mixed_with_the_substrate(order):
    other = learn_word_order(treebank(projective(50, seed=5), "eng"))
    assert order.mixed_with(other).name == "order:fra-with-0.05-eng"
    assert order.mixed_with(other, 0.5).name != order.mixed_with(other).name != order.name
    one = canonical(nodes(projective(1, seed=9)[0])[0])._replace(part="N")
    expected = 0.95 * order.models["N"].scores(one) + 0.05 * other.models["N"].scores(one)
    np.testing.assert_allclose(order.mixed_with(other).models["N"].scores(one), expected)
    for share in (float("nan"), -3, 0, 1, 7):
        assert refusal(order.mixed_with, other, share).startswith("share: expected a fraction")
    weights = learn_word_order(treebank(projective(20)), model="relation-weights")
    assert "log-linear" in refusal(order.mixed_with, weights)
    assert "log-linear" in refusal(
        order.mixed_with, learn_word_order(treebank(projective(20)), parts="N")
    )


def refusal(call, *arguments, **keywords):
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    assert GRAMMAR.fullmatch(str(refused.value)) and "\n" not in str(refused.value)
    return str(refused.value)


def test_refusals_name_what_is_wrong(order):
    some = treebank(projective(3))
    assert "parts: expected N, V or NV, got 'NN'" in refusal(learn_word_order, some, parts="NN")
    assert "got 'A'" in refusal(learn_word_order, some, parts="A")
    assert "model: expected one of log-linear" in refusal(learn_word_order, some, model="crf")
    assert "choice: expected" in refusal(WordOrder, "fra", order.models, "worst")
    assert "models: expected" in refusal(WordOrder, "fra", {})
    assert "models: expected" in refusal(WordOrder, "fra", {"A": WeighNothing()})
    assert "language: expected" in refusal(WordOrder, "f/a", order.models)
    plain = Corpus("fra", ["a b"], ["0"], "plain.txt")
    assert "plain.txt: expected the columns" in refusal(learn_word_order, plain)
    assert "upos" in refusal(order.derive, Sentence(["a"], {}, heads=[0]), 0, 0)


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        (["2", "1"], "one root"),
        (["0", "0"], "one root"),
        (["0", "3"], "0 to 2"),
        (["0", "_"], "a word's number"),
        (["0", "-1"], "a word's number"),
    ],
)
def test_what_is_no_tree_is_refused_by_its_place(heads, says):
    good = Sentence(["a", "b"], {"upos": ["NOUN", "DET"], "deprel": ["root", "det"]}, [0, 1])
    some = treebank([good, good])
    some.annotations["head"][1] = heads
    told = refusal(learn_word_order, some, places=["x.conllu:1", "x.conllu:4"])
    assert says in told and "x.conllu:4" in told
    assert "toy.conllu:2" in refusal(order_coverage, some, WordOrder("fra", {"N": WeighNothing()}))


def test_nodes_that_make_no_tree_are_refused():
    columns = {"upos": ["NOUN", "DET"], "deprel": ["root", "det"]}
    circle = nodes(Sentence(["a", "b"], columns, heads=[2, 1]))
    assert "nodes: expected a tree of 2 words" in refusal(
        laid_out, circle, [node.words for node in circle], 2
    )
    assert Derived(["a"], laid_out([], [], 1)).sources == [0]


def test_each_node_of_a_sentence_is_drawn_by_itself():
    """Two nouns with an article each: all four orders."""
    columns = {
        "upos": ["NOUN", "DET", "VERB", "NOUN", "DET"],
        "deprel": ["obj", "det", "root", "obj", "det"],
    }
    one = Sentence([*"abcde"], columns, heads=[3, 1, 0, 3, 4])
    order = WordOrder("fra", {"N": WeighNothing()})
    seen = {tuple(order.derive(one, 0, number).sources) for number in range(60)}
    assert seen == {(0, 1, 2, 3, 4), (1, 0, 2, 3, 4), (0, 1, 2, 4, 3), (1, 0, 2, 4, 3)}


def test_a_sentence_with_several_edges_that_cross_is_one():
    columns = {"upos": ["NOUN"] * 6, "deprel": ["root", *["nmod"] * 5]}
    crossing = Sentence([*"abcdef"], columns, heads=[0, 4, 5, 1, 1, 2])
    assert crossing_edges(crossing.heads) > 1
    assert (
        order_coverage(treebank([crossing]), WordOrder("fra", {"N": WeighNothing()})).crossing == 1
    )


def test_words_that_come_twice_make_no_tree():
    columns = {"upos": ["NOUN", "DET", "DET"], "deprel": ["root", "det", "det"]}
    found = nodes(Sentence([*"abc"], columns, heads=[0, 1, 1]))
    assert "nodes: expected a tree of 3 words" in refusal(laid_out, found, [(0, 1, 1)], 3)
