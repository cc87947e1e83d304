"""Measurements of tasks on activations made by hand: what is found where it is, which items count,
and what tests compare."""

import dataclasses
import math

import numpy as np
import pytest
from tests_run_helpers import word_store

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.outcomes import Outcomes, item_ids
from crosslens.run.probing.comparison import paired_tests
from crosslens.run.probing.kinds.parse import StructuralTask
from crosslens.run.probing.kinds.tag import WordsText, WordTask
from crosslens.run.probing.kinds.task import Given, Text
from crosslens.score import Score
from crosslens.stats import cluster_sums, paired_interval, share_interval

TAGS = ("DET", "NOUN", "VERB", "NOUN")
SENTENCES, D = 40, 6


@pytest.fixture
def treebank():
    """Sentences of four words: text, part of each sentence."""
    n = SENTENCES
    sentences = [f"the w{i} does x{i % 5}" for i in range(n)]
    words = [
        [
            (0, 3),
            (4, 4 + len(f"w{i}")),
            (5 + len(f"w{i}"), 9 + len(f"w{i}")),
            (10 + len(f"w{i}"), len(s)),
        ]
        for i, s in enumerate(sentences)
    ]
    forms = [[s[a:b] for a, b in spans] for s, spans in zip(sentences, words, strict=True)]
    annotations = {
        "form": forms,
        "upos": [list(TAGS)] * n,
        "feats": [["_"] * 4] * n,
        "head": [["2", "3", "0", "3"]] * n,
    }
    annotations["deprel"] = [["det", "nsubj", "root", "obj"]] * n
    corpus = Corpus("eng", sentences, [str(i) for i in range(n)], "made", words, annotations)
    return Text(corpus, "word"), np.array(["train"] * 20 + ["dev"] * 8 + ["test"] * 12)


def given_of(task, tmp_path, layers, random=None, pieces=None):
    """Stores with these layers, under the name that the task asks for."""
    (name,) = task.texts
    corpus = task.text.corpus
    index = {
        "text": np.repeat(np.arange(len(corpus)), 4),
        "position": np.tile(np.arange(4), len(corpus)),
    }
    index["pieces"] = np.ones(len(index["text"]), np.int32) if pieces is None else pieces
    index |= {
        column: [value for row in rows for value in row]
        for column, rows in corpus.annotations.items()
    }
    stores = {name: word_store(tmp_path / "encoder", "eng", layers, index, "word")}
    others = (
        None
        if random is None
        else {name: word_store(tmp_path / "random", "eng", random, index, "word")}
    )
    return Given(
        stores,
        others,
        lambda _: pytest.fail("asked for a language model"),
        {"encoder": "made", "seed": 0},
        mdl=False,
    )


def vectors(seed, told=None):
    """Noise, or vectors that say the tag."""
    noise = np.random.default_rng(seed).normal(size=(4 * SENTENCES, D)).astype(np.float32)
    if told is None:
        return noise
    return noise + 9 * np.eye(D, dtype=np.float32)[np.unique(told, return_inverse=True)[1]]


def only(outcomes, **fields):
    (one,) = [
        one
        for one in outcomes
        if all(getattr(one, name) == value for name, value in fields.items())
    ]
    return one


def test_a_layer_that_knows_is_told_from_one_that_does_not(treebank, tmp_path):
    task = WordTask("upos", *treebank, "given", label="upos")
    tags = np.tile(TAGS, SENTENCES)
    given = given_of(
        task, tmp_path, [vectors(0), vectors(1, tags)], random=[vectors(2), vectors(3)]
    )
    scores, outcomes = task.measure(given)
    test = {
        (s.layer, s.condition): s
        for s in scores
        if s.quantity == "accuracy" and (s.details or {}).get("part") == "test"
    }
    assert (
        test[1, None].value == 1.0
        and test[0, None].low < 0.5 < 0.6 < test[1, None].low
        and test[1, None].n == 48
    )
    assert test[None, "majority"].value == 0.5
    assert test[1, "random_encoder"].value < 0.75 and test[1, "control_task"].value < 1
    details = test[1, None].details
    assert details["n_train"] == 80 and details["classes"] == 3 and details["groups"] == 12
    words = only(outcomes, layer=1, condition=None)
    assert (
        words.outcome.tolist() == [1] * 48
        and words.gold.tolist() == words.predicted.tolist() == list(TAGS) * 12
    )
    assert len({*words.group}) == 12 and words.group[0] == words.group[3] != words.group[4]
    assert {one.condition for one in outcomes} == {
        None,
        "random_encoder",
        "control_task",
        "majority",
        "word_majority",
    }
    for one in outcomes:
        assert one.mean == pytest.approx(test[one.layer, one.condition].value)
    assert details["f1"] == {"DET": 1.0, "NOUN": 1.0, "VERB": 1.0}
    (selectivity,) = [s for s in scores if s.quantity == "selectivity" and s.layer == 1]
    assert selectivity.value == pytest.approx(1 - test[1, "control_task"].value)
    dev = {
        s.layer: s.value
        for s in scores
        if s.quantity == "accuracy" and (s.details or {}).get("part") == "dev"
    }
    assert dev[1] == 1.0 and set(dev) == {0, 1}


def test_the_difference_from_the_random_encoder_is_over_the_same_items(treebank, tmp_path):
    task = WordTask("upos", *treebank, "given", label="upos")
    scores, outcomes = task.measure(
        given_of(task, tmp_path, [vectors(1, np.tile(TAGS, SENTENCES))], random=[vectors(2)])
    )
    mine, random = (
        next(
            s
            for s in scores
            if (s.quantity, s.condition, (s.details or {}).get("part")) == ("accuracy", c, "test")
        )
        for c in (None, "random_encoder")
    )
    right = only(outcomes, condition="random_encoder").outcome == 1
    difference, low, high = paired_interval(np.ones(48, bool), right, np.repeat(np.arange(12), 4))
    assert mine.details["above_control"] == pytest.approx(
        {"difference": difference, "low": low, "high": high}
    )


def test_words_without_a_vector_are_left_out_and_counted(treebank, tmp_path):
    task = WordTask("upos", *treebank, "given", label="upos")
    pieces, layer = np.ones(4 * SENTENCES, np.int32), vectors(1, np.tile(TAGS, SENTENCES))
    pieces[[0, 4 * 28 + 1]] = 0  # a training word, and the second word of the test part
    layer[pieces == 0] = np.nan
    scores, outcomes = task.measure(given_of(task, tmp_path, [layer], pieces=pieces))
    test = next(
        s
        for s in scores
        if s.quantity == "accuracy" and s.condition is None and s.details["part"] == "test"
    )
    assert (
        test.n == 47
        and test.details["n_train"] == 79
        and test.details["dropped"] == {"no subword in the encoder": 2}
    )
    words = only(outcomes, layer=0, condition=None)
    assert (
        np.flatnonzero(~words.measured).tolist() == [1]
        and words.predicted[1] is None
        and words.gold[1] == "NOUN"
    )
    assert (
        words.item.tolist() == list(range(48))
        and words.outcome[words.measured].tolist() == [1] * 47
    )


def test_a_treebank_whose_parts_cannot_be_probed_is_refused(treebank):
    text, parts = treebank
    with pytest.raises(InputError, match=r"upos: .*got none"):
        WordTask("upos", text, np.full(SENTENCES, "train"), "given", label="upos")
    with pytest.raises(InputError, match=r"feature:Case: .*got none of 160"):
        WordTask("feature_Case", text, parts, "given", label="feature:Case")
    with pytest.raises(InputError, match=r"structural_depth: .*got none"):
        StructuralTask("structural_depth", text, np.where(parts == "dev", "train", parts), "given")


def test_a_planted_tree_is_found_and_noise_is_not(treebank, tmp_path):
    """Vectors that embed each tree exactly: a word's vector differs from its head's by one new
    axis."""
    task = StructuralTask("structural_distance", *treebank, "given")
    planted = np.tile(
        np.array(
            [[1, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]],
            np.float32,
        ),
        (SENTENCES, 1),
    )
    scores, outcomes = task.measure(given_of(task, tmp_path, [planted], random=[vectors(2)]))
    uuas = {s.condition: s for s in scores if s.quantity == "uuas" and s.details["part"] == "test"}
    assert uuas[None].value == 1.0 and uuas[None].n == 3 * 12 and uuas[None].layer == 0
    assert uuas["random_encoder"].value < 0.9
    # this tree joins neighbours
    assert uuas["word_order"].value == 1.0 and uuas["word_order"].layer is None
    # sentences of four words are too short for it
    distances = [s for s in scores if s.quantity == "distance_spearman"]
    assert all(math.isnan(s.value) and "reason" in s.details for s in distances)


def test_trees_left_out_are_counted_in_their_part_and_equal_texts_are_one_group(treebank, tmp_path):
    text, parts = treebank
    sentences = list(text.corpus.sentences)
    # of eleven test sentences that are left nine have one text, and one has a text of training
    sentences[29:38] = [sentences[29]] * 9
    sentences[38] = sentences[10]
    text = dataclasses.replace(text, corpus=dataclasses.replace(text.corpus, sentences=sentences))
    pieces = np.ones(4 * SENTENCES, np.int32)
    pieces[[4 * 1, 4 * 2, 4 * 21, 4 * 28 + 1]] = (
        0  # two sentences of train, one each of dev and test
    )
    layer = vectors(1)
    layer[pieces == 0] = np.nan
    task = StructuralTask("structural_depth", text, parts, "given", shape="depth")
    scores, outcomes = task.measure(given_of(task, tmp_path, [layer], pieces=pieces))
    test, dev = (
        next(s for s in scores if s.condition is None and s.details["part"] == part)
        for part in ("test", "dev")
    )
    assert test.quantity == dev.quantity == "root_accuracy" and (test.n, dev.n) == (11, 7)
    for one in (test, dev):
        assert one.details["dropped"] == {"sentences with a word that has no subword": 1}
    found, of = cluster_sums(outcomes[0].outcome, outcomes[0].group)
    assert sorted(of) == [1, 1, 9]
    assert (test.value, test.low, test.high) == pytest.approx(share_interval(found, of))
    left = outcomes[0].group != outcomes[0].group[9]
    expected = share_interval(*cluster_sums(outcomes[0].outcome[left], outcomes[0].group[left]))
    without = test.details["without_shared"]
    assert (without["value"], without["low"], without["high"]) == pytest.approx(expected)


def test_a_probe_of_trees_is_tested_on_other_languages_as_it_was_trained(treebank, tmp_path):
    """One language has vectors that embed its trees as those of training do, the other has
    noise."""
    text, parts = treebank
    planted = np.tile(
        np.array(
            [[1, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]],
            np.float32,
        ),
        (SENTENCES, 1),
    )
    alone = StructuralTask("trees", text, parts, "given", "eng")
    others, stores = [], {}
    for language, states in (("fra", planted), ("rus", vectors(2))):
        corpus = dataclasses.replace(
            text.corpus, language=language, ids=[f"{language}{i}" for i in range(SENTENCES)]
        )
        others.append(
            WordsText(
                dataclasses.replace(text, corpus=corpus), np.full(SENTENCES, "test"), language
            )
        )
        stores |= given_of(
            dataclasses.replace(alone, text=others[-1].text), tmp_path / language, [states]
        ).stores
    given = given_of(alone, tmp_path, [planted])
    task = dataclasses.replace(alone, tested=tuple(others))
    scores, outcomes = task.measure(dataclasses.replace(given, stores={**given.stores, **stores}))
    uuas = {
        s.target: s
        for s in scores
        if (s.quantity, s.condition, s.details["part"]) == ("uuas", None, "test")
    }
    assert uuas["fra"].value == 1.0 and uuas["fra"].n == 3 * SENTENCES and uuas["rus"].value < 0.9
    assert {s.source for s in scores} == {"eng"} and {one.target for one in outcomes} == {
        "eng",
        "fra",
        "rus",
    }
    assert uuas["fra"].details["shared_texts"]["train"] == 3 * 20  # edges of sentences of training
    (mine,) = [
        s
        for s in alone.measure(given)[0]
        if (s.quantity, s.condition, s.details["part"]) == ("uuas", None, "test")
    ]
    assert (mine.value, mine.low, mine.high) == (
        uuas["eng"].value,
        uuas["eng"].low,
        uuas["eng"].high,
    )


def row(layer, hits, encoder="a", **fields):
    """Outcomes of items that are told apart by their number: 1 right, 0 wrong, "." not measured."""
    ids = item_ids((i,) for i in range(len(hits)))
    outcome = np.array([np.nan if mark == "." else float(mark) for mark in hits])
    told = {"task": "t", "quantity": "accuracy", "part": "test", "group": ids, **fields}
    return Outcomes(
        layer=layer,
        encoder=encoder,
        item=np.arange(len(hits)),
        item_id=ids,
        outcome=outcome,
        **told,
    )


def dev(layer, value, encoder="a"):
    return Score(
        quantity="accuracy",
        value=value,
        n=9,
        task="t",
        layer=layer,
        encoder=encoder,
        details={"part": "dev"},
    )


def test_the_best_layer_by_dev_is_compared_with_layer_0():
    zero, best = "1" * 10 + "0" * 30, "1" * 30 + "0" * 10
    (test,) = paired_tests([dev(0, 0.2), dev(4, 0.9)], [row(0, zero), row(4, best)], seed=0)
    assert (test.layer, test.other_layer, test.value, test.n) == (4, 0, 0.5, 40)
    assert (
        test.details["p"] == pytest.approx(0.5**20) == test.details["corrected_p"]
        and test.details["tests"] == 1
    )
    assert (test.details["first"], test.details["only_first"], test.details["only_second"]) == (
        "layer 4",
        20,
        0,
    )
    # where dev says that layer 0 is best, there is nothing to compare
    assert paired_tests([dev(0, 0.9), dev(4, 0.2)], [row(0, zero), row(4, best)], seed=0) == []


def test_a_mix_of_layers_is_compared_with_the_layer_that_is_best_on_dev():
    zero, best, mixed = "1" * 10 + "0" * 30, "1" * 20 + "0" * 20, "1" * 30 + "0" * 10
    given = [row(0, zero), row(4, best), row(None, mixed, task="t:mix")]
    first, mix = sorted(
        paired_tests([dev(0, 0.2), dev(4, 0.9)], given, seed=0), key=lambda test: test.task
    )
    assert (mix.task, mix.layer, mix.other_layer, mix.value, mix.low is None) == (
        "t:mix",
        None,
        4,
        0.25,
        False,
    )
    assert (mix.details["first"], mix.details["second"], mix.details["tests"]) == (
        "mix of layers",
        "layer 4",
        2,
    )
    assert (first.details["first"], first.details["second"]) == ("layer 4", "layer 0")
    # the layer is chosen on these very items
    by_test = [one for one in paired_tests([], given, seed=0) if one.task == "t:mix"]
    assert by_test[0].details["p"] == pytest.approx(2 * mix.details["p"]) and by_test[0].low is None


def test_what_further_seeds_measured_is_not_compared():
    zero, best = "1" * 10 + "0" * 30, "1" * 30 + "0" * 10
    first = [row(0, zero, seed=3), row(4, best, seed=3)]
    scores = [dataclasses.replace(one, seed=3) for one in (dev(0, 0.2), dev(4, 0.9))]
    other = [dataclasses.replace(one, seed=4) for one in (dev(0, 0.9), dev(4, 0.2))]
    found = paired_tests(
        [*scores, *other], [*first, row(0, best, seed=4), row(4, zero, seed=4)], seed=3
    )
    assert [one.as_dict() for one in found] == [
        one.as_dict() for one in paired_tests(scores, first, seed=3)
    ] and found[0].value == 0.5


def test_words_of_one_sentence_count_as_one_where_they_stand_and_fall_together():
    """Ten words that all go one way say no more than the sentence that they are in."""
    one, other, group = "1" * 60, "0" * 60, np.repeat(np.arange(6), 10).astype(str)
    (test,) = paired_tests([], [row(1, one, group=group), row(0, other, group=group)], seed=0)
    assert (
        test.details["p"] == pytest.approx(0.5**6) and test.details["groups"] == 6 and test.n == 60
    )
    (alone,) = paired_tests([], [row(1, one), row(0, other)], seed=0)
    assert alone.details["p"] < 1e-15 and "groups" not in alone.details


def test_a_layer_that_was_chosen_on_the_items_tested_pays_for_the_choice():
    layers = [
        row(0, "1" * 20 + "0" * 20),
        *(row(i, "1" * (20 + i) + "0" * (20 - i)) for i in (3, 9, 6)),
    ]
    (test,) = paired_tests([], layers, seed=0)
    assert (test.layer, test.value, test.details["chosen_from"]) == (9, 9 / 40, 3)
    assert test.details["p"] == pytest.approx(3 * 0.5**9) and (test.low, test.high) == (None, None)
    by_dev = paired_tests([dev(i, 0.1 * i) for i in (0, 3, 9, 6)], layers, seed=0)[0]
    assert (
        by_dev.details["p"] == pytest.approx(0.5**9)
        and "chosen_from" not in by_dev.details
        and by_dev.low < by_dev.value < by_dev.high
    )
    other = [row(i, "0" * 20 + "1" * 20, encoder="b") for i in (1, 2)]
    (both,) = (t for t in paired_tests([], [*layers, *other], seed=0) if t.encoder == "a / b")
    assert both.details["chosen_from"] == 4 * 2


def test_encoders_are_compared_on_the_items_that_both_have():
    one, other = "1111111111..", "..0000000011"
    (test,) = paired_tests([], [row(2, one), row(1, other, encoder="b")], seed=0)
    assert (test.encoder, test.n, test.value) == ("a / b", 8, 1.0)
    assert (test.details["first"], test.details["second"]) == ("a, layer 2", "b, layer 1")
    # nothing in common
    assert paired_tests([], [row(2, "11.."), row(1, "..11", encoder="b")], seed=0) == []


def test_all_tests_are_corrected_together():
    outcomes = [
        row(3, "1" * (20 + 5 * i) + "0" * (30 - 5 * i), encoder=name)
        for i, name in enumerate("abc")
    ]
    tests = paired_tests([], outcomes, seed=0)
    p = sorted(s.details["p"] for s in tests)
    expected = np.minimum(1, np.maximum.accumulate(np.array(p) * [3, 2, 1]))
    assert (
        sorted(s.details["corrected_p"] for s in tests) == pytest.approx(expected.tolist())
        and len(tests) == 3
    )


def similar(layer, cosines, ratings):
    ids = item_ids((i,) for i in range(len(cosines)))
    told = {
        "task": "scws",
        "quantity": "spearman",
        "part": "test",
        "representation": "cosine",
        "encoder": "a",
        "layer": layer,
    }
    return Outcomes(
        **told,
        item=np.arange(len(ids)),
        item_id=ids,
        group=ids,
        outcome=np.array(cosines),
        gold=np.array(ratings).astype(str),
    )


def test_correlations_are_compared_by_ranks():
    """A monotone change of one side's cosines changes nothing: layers have scales of their own."""
    rng = np.random.default_rng(0)
    ratings = rng.normal(size=60)
    near, far = ratings + 0.8 * rng.normal(size=60), ratings + 1.2 * rng.normal(size=60)

    def outcomes(layer, cosines):
        return similar(layer, [np.nan, *cosines], [0.0, *ratings])

    plain, bent = (
        paired_tests([], [outcomes(0, far), outcomes(5, some)], seed=0)[-1]
        for some in (5 + near, 10 * np.exp(near))
    )
    assert (
        plain.value == pytest.approx(bent.value)
        and plain.value > 0.05
        and plain.n == 60
        and 0.005 < plain.details["corrected_p"] < 0.9
    )
    assert (plain.low, plain.details["p"]) == pytest.approx((bent.low, bent.details["p"]))
    assert plain.quantity == "spearman_difference" and (plain.layer, plain.other_layer) == (5, 0)


def test_trees_are_compared_edge_by_edge_in_groups_of_a_sentence(treebank, tmp_path):
    task = StructuralTask("structural_distance", *treebank, "given")
    planted = np.tile(
        np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]], np.float32),
        (SENTENCES, 1),
    )
    scores, outcomes = task.measure(
        given_of(
            task, tmp_path, [vectors(3), np.pad(planted, ((0, 0), (0, vectors(3).shape[1] - 4)))]
        )
    )
    (test,) = paired_tests(scores, outcomes, seed=0)
    mine = {
        s.layer: s
        for s in scores
        if s.quantity == "uuas" and s.condition is None and s.details["part"] == "test"
    }
    for one in outcomes:
        assert one.mean == pytest.approx(mine[one.layer].value) and len(one) == 36
        assert one.gold.tolist() == ["2", "3", "3"] * 12 and len({*one.group}) == 12
    assert (test.quantity, test.layer, test.other_layer, test.n) == ("uuas_difference", 1, 0, 36)
    assert (
        test.value == pytest.approx(mine[1].value - mine[0].value)
        and test.low <= test.value <= test.high
    )
    assert test.details["p"] == test.details["corrected_p"] < 0.05 and test.details["groups"] == 12


def test_a_test_that_cannot_be_made_is_told_with_its_reason():
    outcomes = [similar(layer, [0.1, 0.2 + layer, np.nan], [1.0, 1.0, 2.0]) for layer in (0, 1)]
    *_, test = paired_tests([], [*outcomes, row(0, "1100"), row(2, "1111")], seed=0)
    assert (
        math.isnan(test.value) and "expected 4 or more pairs of numbers" in test.details["reason"]
    )


def test_parts_are_what_the_store_s_sentences_say(treebank, tmp_path):
    """The labels of test are another set: a probe that read the wrong rows would be right."""
    text, parts = treebank
    task = WordTask("upos", text, parts, "given", label="upos")
    tags = np.tile(TAGS, SENTENCES)
    turned = np.where(np.repeat(parts, 4) == "test", np.roll(tags, 1), tags)
    scores, outcomes = task.measure(given_of(task, tmp_path, [vectors(1, turned)]))
    test = next(
        s
        for s in scores
        if s.quantity == "accuracy" and s.condition is None and s.details["part"] == "test"
    )
    assert test.value == np.mean(np.roll(tags, 1) == tags)
