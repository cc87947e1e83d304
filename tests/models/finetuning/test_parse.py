"""The parser: its loss beside a loop, its trees beside all trees there are, words that are not read,
and training."""

import itertools

import numpy as np
import pytest
import torch

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.finetuning.batches import padded
from crosslens.models.finetuning.examples import TreeExamples
from crosslens.models.finetuning.finetune import fine_tune
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.parse import Parse
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.spanning_trees import best_projective_tree, best_tree
from crosslens.models.network.parser import ParserHead
from crosslens.models.network.parser_sizes import PARSERS
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.words import whitespace_spans
from crosslens.recipes.quickstart import DATA
from crosslens.trees import crossing_edges

LINES = ["the dog sleeps", "a cat sees the old dog here", "rain falls", "it rains on the house"]
HEADS = [[2, 3, 0], [2, 3, 0, 6, 6, 3, 3], [2, 0], [2, 0, 5, 5, 2]]
RELATIONS = [[0, 1, 2], [0, 1, 2, 0, 3, 1, 3], [1, 2], [1, 2, 3, 0, 3]]


def trees_of(lines=LINES, heads=HEADS, relations=RELATIONS, **changes):
    words = [whitespace_spans(line) for line in lines]
    corpus = Corpus("eng", lines, [str(i) for i in range(len(lines))], "toy", words=words)
    tags = [np.arange(len(row)) % 4 for row in heads]
    arrays = [[np.array(row) for row in rows] for rows in (heads, relations)]
    return TreeExamples(corpus, *arrays, tags, **changes)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(DATA / "tiny-encoder")


# -- trees


def is_tree(heads):
    for word in range(1, len(heads) + 1):
        seen, at = set(), word
        while at:
            if at in seen:
                return False
            seen.add(at)
            at = heads[at - 1]
    return True


def best_of_all(rng, allowed):
    """Scores of a short sentence's arcs, and the best of its trees that are allowed."""
    n = int(rng.integers(1, 6))
    scores = rng.normal(size=(n, n + 1)) * rng.choice([0.1, 30])
    scores[np.arange(n), np.arange(1, n + 1)] = -np.inf
    every = (h for h in itertools.product(range(n + 1), repeat=n) if is_tree(h) and allowed(h))
    return scores, max(every, key=lambda heads: sum(scores[i, h] for i, h in enumerate(heads)))


@pytest.mark.parametrize("single_root", [True, False])
def test_the_best_tree_is_the_best_of_all(single_root):
    rng = np.random.default_rng(1)
    several = 0
    for _ in range(60):
        scores, best = best_of_all(rng, lambda heads: heads.count(0) == 1 or not single_root)
        assert tuple(best_tree(scores, single_root=single_root).tolist()) == best
        several += best.count(0) > 1
    assert single_root or several > 5


def test_the_best_projective_tree_is_the_best_of_those_without_crossing_arcs():
    rng = np.random.default_rng(2)
    others = 0
    for _ in range(60):
        scores, best = best_of_all(rng, lambda h: h.count(0) == 1 and not crossing_edges(h))
        assert tuple(best_projective_tree(scores).tolist()) == best
        others += tuple(best_tree(scores).tolist()) != best
    assert others > 5


def test_a_long_projective_tree_is_the_one_that_the_scores_have():
    rng = np.random.default_rng(3)
    for n in (40, 90):
        heads, todo = [0] * n, [(0, n, 0)]
        while todo:  # a word of each span is the head of what is left and right of it
            start, end, above = todo.pop()
            if start < end:
                word = int(rng.integers(start, end))
                heads[word] = above
                todo += [(start, word, word + 1), (word + 1, end, word + 1)]
        assert not crossing_edges(heads)
        scores = rng.normal(size=(n, n + 1))
        scores[np.arange(n), heads] += 20
        assert best_projective_tree(scores).tolist() == heads == best_tree(scores).tolist()


def test_a_circle_is_broken():
    scores = np.array([[1.0, -9.0, 5.0, 2.0], [1.5, 6.0, -9.0, 2.0], [0.0, 1.0, 3.0, -9.0]])
    assert scores.argmax(1).tolist() == [2, 1, 2] and not is_tree([2, 1, 2])
    assert best_tree(scores).tolist() == [0, 1, 2]


def test_without_a_tree_of_arcs_that_can_be_there_is_none():
    """Two roots where one is asked for, or an arc that cannot be, would be a tree nobody scored."""
    apart = np.array([[0.0, -np.inf, -np.inf]] * 2)  # both words below the root, or nowhere
    with pytest.raises(InputError, match="scores: expected a tree with one root of arcs that can"):
        best_tree(apart)
    assert best_tree(apart, single_root=False).tolist() == [0, 0]
    circle = np.array([[-np.inf, -np.inf, 0.0], [-np.inf, 0.0, -np.inf]])  # neither below the root
    for single_root in (True, False):
        with pytest.raises(InputError, match="scores: expected a tree"):
            best_tree(circle, single_root=single_root)


@pytest.mark.parametrize("single_root", [True, False])
def test_the_best_tree_avoids_arcs_that_cannot_be_wherever_it_can(single_root):
    rng = np.random.default_rng(4)
    none = 0
    for _ in range(60):
        n = int(rng.integers(2, 5))
        scores = rng.normal(size=(n, n + 1)) * rng.choice([0.1, 30])
        scores[rng.random((n, n + 1)) < 0.7] = -np.inf
        scores[np.arange(n), np.arange(1, n + 1)] = -np.inf
        lonely = np.flatnonzero(np.isneginf(scores).all(1))
        scores[lonely, np.where(lonely > 0, 1, 2)] = 1.0
        every = [
            h
            for h in itertools.product(range(n + 1), repeat=n)
            if is_tree(h)
            and (h.count(0) == 1 or not single_root)
            and np.isfinite(scores[np.arange(n), h]).all()
        ]
        if not every:
            none += 1
            with pytest.raises(InputError, match="scores: expected a tree"):
                best_tree(scores, single_root=single_root)
            continue
        best = max(every, key=lambda h: sum(scores[i, k] for i, k in enumerate(h)))
        assert tuple(best_tree(scores, single_root=single_root).tolist()) == best
    assert 5 < none < 50


def test_scores_that_are_none_are_refused():
    for wrong in (np.zeros((2, 2)), np.full((1, 2), np.nan), np.full((1, 2), -np.inf)):
        with pytest.raises(InputError, match="scores: expected"):
            best_tree(wrong)
        with pytest.raises(InputError, match="scores: expected"):
            best_projective_tree(wrong)
    assert best_tree(np.zeros((0, 1))).tolist() == []
    assert best_projective_tree(np.zeros((0, 1))).tolist() == []
    crossing = np.full((4, 5), -np.inf)  # 1 <- 3 and 2 <- 4 alone can be
    crossing[[0, 1, 2, 3], [3, 4, 0, 3]] = 0.0
    assert best_tree(crossing).tolist() == [3, 4, 0, 3]
    with pytest.raises(InputError, match="scores: expected a projective tree"):
        best_projective_tree(crossing)


# -- the head


def by_loops(head, states, first, n, heads, relations):
    """Dozat & Manning's equations, one number after the other, in double precision."""
    sizes, w = head.sizes, {k: v.detach().double() for k, v in head.state_dict().items()}

    def perceived(name, x):
        y = w[f"perceptrons.{name}.weight"] @ x + w[f"perceptrons.{name}.bias"]
        if sizes.leaky is None:
            return torch.where(y > 0, y, torch.exp(y) - 1)
        return torch.where(y > 0, y, sizes.leaky * y)

    one = torch.ones(1, dtype=torch.float64)
    nodes = [states[0].double(), *(states[first[k]].double() for k in range(n))]
    loss = torch.zeros((), dtype=torch.float64)
    for word in range(1, n + 1):
        scores = []
        for other in range(n + 1):
            if other == word:
                scores.append(torch.tensor(float("-inf"), dtype=torch.float64))
                continue
            dependent = torch.cat([perceived("arc_dependent", nodes[word]), one])
            at = perceived("arc_head", nodes[other])
            at = torch.cat([at, one]) if sizes.head_bias else at
            scores.append(dependent @ w["arc"] @ at)
        gold = heads[word - 1]
        loss = loss - torch.log_softmax(torch.stack(scores), 0)[gold]
        dependent = perceived("relation_dependent", nodes[word])
        at = perceived("relation_head", nodes[gold])
        if sizes.relation_bias:
            dependent, at = torch.cat([dependent, one]), torch.cat([at, one])
        named = torch.stack([dependent @ product @ at for product in w["relation"]])
        named = named if head.bias is None else named + w["bias"]
        loss = loss - torch.log_softmax(named, 0)[relations[word - 1]]
    return loss


@pytest.mark.parametrize("sizes", PARSERS)
def test_the_loss_is_that_of_loops(encoder, sizes):
    kind, examples = Parse(4, sizes=sizes), trees_of()
    model = FineTunedModel(encoder, kind, FineTuning()).eval()
    for product in (model.head.arc, model.head.relation):  # SuPar's begin at 0
        torch.nn.init.normal_(product, std=0.3)
    rows = kind.rows(model.encoder, examples)
    given = padded(kind, rows, encoder.pad_id)
    with torch.no_grad():
        found = model(**given)
        states = model.states(given["ids"], given["mask"], given["segments"], "eng", None)
    wanted = sum(
        by_loops(model.head, states[k], given["first"][k].tolist(), len(heads), heads, names)
        for k, (heads, names) in enumerate(zip(HEADS, RELATIONS, strict=True))
    )
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_differences():
    torch.manual_seed(0)
    head = ParserHead(5, 3, "supar").double().eval()
    for product in (head.arc, head.relation):
        torch.nn.init.normal_(product, std=0.1)
    kind = Parse(3)
    targets = {
        "first": torch.tensor([[1, 3, 4], [2, 0, 0]]),
        "words": torch.tensor([3, 1]),
        "heads": torch.tensor([[2, 0, -100], [0, -100, -100]]),
        "relations": torch.tensor([[1, 2, -100], [0, -100, -100]]),
    }
    states = torch.randn(2, 6, 5, dtype=torch.float64, requires_grad=True)
    loss = kind.loss(head, states, torch.ones(2, 6), targets)  # in single precision inside
    (found,) = torch.autograd.grad(loss, states)
    assert found[1, 3:].abs().max() == 0  # what no word reads has no part in it
    direction = torch.randn_like(states)
    with torch.no_grad():
        ends = [
            kind.loss(head, states + step * direction, torch.ones(2, 6), targets).item()
            for step in (1e-2, -1e-2)
        ]
    assert (found * direction).sum().item() == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=0.02)


def test_padding_changes_nothing(encoder):
    kind, examples = Parse(4), trees_of()
    model = FineTunedModel(encoder, kind, FineTuning()).eval()
    rows = kind.rows(model.encoder, examples)
    together = model(**padded(kind, rows, encoder.pad_id))
    apart = sum(model(**padded(kind, [row], encoder.pad_id)) for row in rows)
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-4)


def test_in_a_sentence_the_same_outputs_are_dropped():
    torch.manual_seed(0)
    head = ParserHead(8, 3).train()
    seen = head._perceived("arc_head", torch.randn(2, 40, 8)) == 0
    assert (seen == seen[:, :1]).all() and not (seen[0] == seen[1]).all()
    assert 0.25 < seen[:, 0].float().mean() < 0.42


# -- rows


def test_what_is_cut_off_is_attached_to_the_word_before(encoder):
    heads = [[0, *range(1, 60)], [2, 0, 2]]
    long = " ".join(["dog"] * 60)
    examples = trees_of([long, "the dog sleeps"], heads, [[2, *[1] * 59], [0, 2, 1]], longest=20)
    kind = Parse(4)
    rows = kind.rows(encoder, examples)
    assert len(rows) == 2 and len(rows[0].ids) <= 20
    read = len(rows[0].items) - 1
    assert 0 < read < 60 and rows[0].counted == read
    found = kind.join(
        examples, rows, [(np.array([0] * read), np.zeros(read, int)), (np.array([2, 0, 2]), np.ones(3, int))]
    )  # fmt: skip
    assert found[0].relations.tolist() == [0] * read + [-1] * (60 - read)
    assert found[0].heads[read:].tolist() == list(range(read, 60))
    assert found[1].heads.tolist() == [2, 0, 2]


def test_a_head_that_is_cut_off_is_not_learnt(encoder):
    heads = [[60, *range(1, 59), 0]]
    heads[0][1:] = [1] * 58 + [0]
    examples = trees_of([" ".join(["dog"] * 60)], heads, [[1] * 60], longest=20)
    (row,) = Parse(4).rows(encoder, examples)
    assert row.targets["heads"][0] == -100 and row.targets["relations"][0] == -100
    assert row.counted == len(row.items) - 2


def test_circles_are_refused_by_the_name_of_the_sentence():
    with pytest.raises(InputError, match="heads: expected a tree in sentence 1"):
        trees_of(["a b", "a b c"], [[0, 1], [0, 3, 2]], [[0, 0], [0, 0, 0]])


@pytest.mark.parametrize("roots", ["single", "any"])
def test_sentences_have_the_roots_that_are_asked_for(encoder, monkeypatch, roots):
    """Against every tree, of scores under which two roots are best now and then."""
    rng, several = np.random.default_rng(3), 0
    kind = Parse(4, roots=roots)
    head = kind.head(8)
    lengths, nothing = torch.tensor([4, 3, 1]), torch.zeros((3, 1, 8))
    targets = {"first": torch.zeros((3, 4), dtype=torch.int64), "words": lengths}
    for _ in range(8):
        arcs = torch.from_numpy(rng.normal(size=(3, 4, 5)) * 3)
        monkeypatch.setattr(head, "forward", lambda *_, arcs=arcs: (arcs, None))
        monkeypatch.setattr(head, "relations", lambda _, heads: torch.zeros((*heads.shape, 4)))
        for number, (heads, _) in enumerate(kind.outputs(head, nothing, nothing, targets)):
            n = int(lengths[number])
            scores = arcs[number, :n, : n + 1].log_softmax(-1)
            every = (
                heads
                for heads in itertools.product(range(n + 1), repeat=n)
                if is_tree(heads) and (heads.count(0) == 1 or roots == "any")
            )
            best = max(every, key=lambda heads: sum(scores[i, h] for i, h in enumerate(heads)))
            assert tuple(heads.tolist()) == best
            several += best.count(0) > 1
    assert (several > 2) == (roots == "any")
    with pytest.raises(InputError, match="roots: expected one of single, any, got 'two'"):
        Parse(4, roots="two")


# -- training


@pytest.mark.parametrize("tags", [0, 4])
def test_trees_are_learnt(encoder, tmp_path, tags):
    examples = trees_of(LINES * 4, HEADS * 4, RELATIONS * 4)

    def las(predict):
        right = [
            (tree.heads == heads) & (tree.relations == names)
            for tree, heads, names in zip(
                predict(examples), examples.heads, examples.relations, strict=True
            )
        ]
        return float(np.concatenate(right).mean())

    settings = FineTuning(epochs=12, batch_size=4, peak_rate=2e-3, warmup=0.1)
    tuned = fine_tune(encoder, Parse(4, tags=tags), [examples], settings, tmp_path, {"dev": las})
    assert las(tuned.predict) > 0.9
    assert all(is_tree(tree.heads.tolist()) for tree in tuned.predict(examples))
