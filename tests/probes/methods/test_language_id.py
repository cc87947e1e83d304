"""Language identification on sentence vectors, beside its controls."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score

from crosslens.errors import InputError
from crosslens.probes import LinearProbe, language_id, majority_accuracy, shuffled_labels
from crosslens.probes.methods.evaluation import probe_layers
from crosslens.probes.methods.language_id import LANGUAGE_ID_SETTINGS, identify_languages
from crosslens.probes.methods.linear.softmax_by_adam import SoftmaxByAdam
from crosslens.probes.methods.splits import stratified_parts
from crosslens.stats import cluster_sums, share_interval, wilson_interval

LANGUAGES = ("swa", "deu", "eng")  # not in sorted order


def vectors(seed, sizes=(40, 60, 50), apart=1.0, d=5):
    rng, centres = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(3, d))
    return {
        name: apart * centre + rng.normal(size=(n, d))
        for name, centre, n in zip(LANGUAGES, centres, sizes, strict=True)
    }


def test_every_number_follows_from_the_probes_answers():
    train, test = vectors(1), vectors(2, sizes=(30, 20, 25))
    result = language_id(train, test)
    names = ["deu", "eng", "swa"]
    x, y = np.concatenate([train[name] for name in names]), np.repeat(names, [60, 50, 40])
    true = np.repeat(names, [20, 25, 30])
    answers = LinearProbe().fit(x, y).predict(np.concatenate([test[name] for name in names]))
    assert result.languages == ("deu", "eng", "swa")
    assert result.n == 75
    assert result.accuracy == (answers == true).mean()
    assert 0.4 < result.accuracy < 0.95, "the case is too easy or too hard to show anything"
    assert result.interval == wilson_interval(float((answers == true).sum()), 75)
    assert np.array_equal(result.confusion, confusion_matrix(true, answers, labels=names))
    assert [result.f1[name] for name in names] == pytest.approx(
        f1_score(true, answers, labels=names, average=None)
    )
    assert result.majority == majority_accuracy(y, true)
    control = (
        LinearProbe()
        .fit(x, shuffled_labels(y, 0))
        .predict(np.concatenate([test[name] for name in names]))
    )
    assert result.shuffled.value == (control == true).mean()
    assert (result.shuffled.low, result.shuffled.high) == wilson_interval(
        float((control == true).sum()), 75
    )


def test_translations_of_a_sentence_are_one_unit_of_the_intervals():
    train, test = vectors(1), vectors(2, sizes=(40, 40, 40), apart=5)
    for name, rows in test.items():
        rows[:12] = 5 * vectors(3, sizes=(12, 12, 12), apart=0)[name]  # nobody can tell these
    alone = language_id(train, test)
    names = [str(i) for i in range(40)]
    result = language_id(train, test, groups=names)
    answers = np.concatenate(
        [np.repeat(true, 40) == probe_answers(train, test[true]) for true in ("deu", "eng", "swa")]
    )
    found = cluster_sums(answers, np.tile(names, 3))
    assert (result.accuracy, *result.interval) == share_interval(*found)
    assert result.accuracy == alone.accuracy and result.interval != alone.interval
    assert np.array_equal(result.confusion, alone.confusion)
    with pytest.raises(InputError, match="groups: expected 40 labels, one per row"):
        language_id(train, test, groups=names[:-1])
    with pytest.raises(InputError, match="test: expected as many rows in every language"):
        language_id(train, vectors(2), groups=names)


def probe_answers(train, rows):
    """What the probe says of some vectors."""
    labels = np.repeat([*train], [len(some) for some in train.values()])
    return LinearProbe().fit(np.concatenate([*train.values()]), labels).predict(rows)


def test_languages_that_differ_are_told_apart_and_shuffled_labels_are_not():
    sizes = (300, 300, 300)
    result = language_id(vectors(1, sizes, apart=5), vectors(2, sizes, apart=5))
    assert result.accuracy > 0.98
    assert result.majority.value == pytest.approx(1 / 3)
    # few labels of a blob can win by chance, but no probe is right about all
    assert result.shuffled.value < 0.75


def test_vectors_without_language_give_chance():
    sizes = (300, 300, 300)
    result = language_id(vectors(1, sizes, apart=0), vectors(2, sizes, apart=0))
    assert result.interval[0] < 1 / 3 < result.interval[1]


def test_the_order_of_languages_does_not_matter_and_the_seed_moves_the_control_only():
    train, test = vectors(1), vectors(2)
    result = language_id(train, test)
    turned = language_id(dict(reversed(train.items())), test)
    assert np.array_equal(turned.confusion, result.confusion)
    assert turned.shuffled == result.shuffled
    other = language_id(train, test, seed=5)
    assert np.array_equal(other.confusion, result.confusion)
    assert other.shuffled != result.shuffled


def test_a_language_that_is_never_recognised_has_f1_zero():
    train = {"deu": np.zeros((50, 2)) + np.arange(50)[:, None] % 2, "eng": np.array([[0.5, 0.5]])}
    result = language_id(train, {"deu": [[0.0, 0.0], [1.0, 1.0]], "eng": [[1.0, 1.0]]})
    assert result.f1 == {"deu": 0.8, "eng": 0.0}


def test_refusals():
    train, test = vectors(1), vectors(2)
    with pytest.raises(InputError, match=r"train: .*got deu"):
        language_id({"deu": train["deu"]}, {"deu": test["deu"]})
    with pytest.raises(InputError, match=r"test: .*got swa in only"):
        language_id(train, {name: test[name] for name in ("deu", "eng")})
    with pytest.raises(InputError, match=r"train\['swa'\]: .*got 4 columns"):
        language_id({**train, "swa": train["swa"][:, :4]}, test)
    with pytest.raises(InputError, match=r"test: .*got 4 columns"):
        language_id(train, vectors(2, d=4))
    with pytest.raises(InputError, match=r"test\['eng'\]: .*got NaN or infinity"):
        language_id(train, {**test, "eng": test["eng"] * np.nan})
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        language_id(train, test, seed=-1)


def stacked(seed=1, n=120):
    """Two layers of vectors of three languages, and the language of each."""
    near, far = vectors(seed, (n, n, n)), vectors(seed, (n, n, n), apart=4.0)
    return [np.concatenate([*layer.values()]) for layer in (near, far)], np.repeat(LANGUAGES, n)


def test_every_layer_at_once_is_the_probe_of_each_with_its_controls():
    layers, languages = stacked()
    parts = stratified_parts(languages, (0.6, 0.1, 0.3))
    result = identify_languages(layers, languages, parts, seeds=(0, 1))
    expected = probe_layers(layers, languages, parts, seeds=(0, 1))
    assert np.array_equal(result.answers.given, expected.answers.given)
    assert np.array_equal(result.control.accuracy, expected.control.accuracy)
    assert result.accuracy[1].value > result.accuracy[0].value
    assert result.answers.labels.tolist() == ["deu", "eng", "swa"]


def test_the_papers_settings_train_by_adam_and_say_what_differs():
    paper, default = LANGUAGE_ID_SETTINGS["paper"], LANGUAGE_ID_SETTINGS["default"]
    assert (paper.unit, paper.special_tokens, paper.epochs, paper.batch, paper.learning_rate) == (
        "pair",
        True,
        10,
        32,
        1e-3,
    )
    assert (default.unit, default.special_tokens, default.probe(0)) == ("sentence", False, None)
    layers, languages = stacked()
    # no penalty to choose, no development part needed
    parts = stratified_parts(languages, (0.7, 0.0, 0.3))
    result = identify_languages(layers, languages, parts, settings=paper, seeds=(4,))
    probe = SoftmaxByAdam(10, 32, 1e-3, 4).fit(
        [layer[parts.train] for layer in layers], languages[parts.train]
    )
    assert np.array_equal(
        result.answers.labels[result.answers.given],
        probe.predict([layer[parts.test] for layer in layers]),
    )
    assert result.control.accuracy.max() < 0.6
    assert result.C is None
    assert "NLTK" in paper.differs and "dropout" in paper.differs
