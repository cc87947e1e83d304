"""Probes of every layer with their controls: scikit-learn's scores, an explicit pipeline, planted
controls, and every refusal."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslens.errors import InputError
from crosslens.probes.methods.control_tasks import control_labels, selectivity
from crosslens.probes.methods.controls import majority_accuracy
from crosslens.probes.methods.description_length import description_length
from crosslens.probes.methods.evaluation import probe_layers
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.results import Answers
from crosslens.probes.methods.splits import Parts
from crosslens.stats import share_interval, wilson_interval

TRAIN, DEV, TEST = range(300), range(300, 380), range(380, 500)
PARTS = Parts(TRAIN, TEST, DEV)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def data(rng, n=500, d=6, apart=(0.0, 1.2), classes=3):
    y = rng.integers(0, classes, n)
    centres = rng.normal(size=(classes, d))
    return [share * centres[y] + rng.normal(size=(n, d)) for share in apart], np.array(
        ["ADJ", "NOUN", "VERB", "X"]
    )[y]


def sure(model, x):
    """Items that the model would answer alike if it had stopped a little earlier."""
    best = np.sort(model.predict_proba(x), axis=1)
    return best[:, -1] - best[:, -2] > 0.01


def reference(x, y, train, strength):
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)
    )
    return model.fit(x[train], y[train])


def test_every_layer_is_the_pipeline_with_the_penalty_that_dev_likes_best(rng):
    layers, y = data(rng)
    result = probe_layers(layers, y, PARTS, seeds=(), penalties=(0.0005, 0.05, 5.0))
    dev, test = np.array(DEV), np.array(TEST)
    for i, x in enumerate(layers):
        models = {
            strength: reference(x, y, np.array(TRAIN), strength) for strength in (0.0005, 0.05, 5.0)
        }
        best = max(model.score(x[dev], y[dev]) for model in models.values())
        assert result.dev_accuracy[i] == pytest.approx(best, abs=0.015)  # one item
        chosen = models[result.C[i]]
        assert chosen.score(x[dev], y[dev]) == pytest.approx(best, abs=0.015)
        answers, certain = result.answers.labels[result.answers.given[i]], sure(chosen, x[test])
        assert certain.mean() > 0.9
        assert np.array_equal(answers[certain], chosen.predict(x[test])[certain])
        assert np.array_equal(result.answers.correct[i], answers == y[test])
        assert result.accuracy[i].value == np.mean(answers == y[test])
        assert (result.accuracy[i].low, result.accuracy[i].high) == wilson_interval(
            float((answers == y[test]).sum()), 120
        )
        assert result.answers.macro_f1[i] == pytest.approx(
            f1_score(y[test], answers, average="macro")
        )
        names = ["ADJ", "NOUN", "VERB"]
        assert result.answers.f1[i] == pytest.approx(
            f1_score(y[test], answers, average=None, labels=names)
        )
        assert np.array_equal(
            result.answers.confusion(i), confusion_matrix(y[test], answers, labels=names)
        )
    assert result.majority == majority_accuracy(y[:300], y[test])
    assert (result.sizes, result.drawn, result.unseen) == (
        {"train": 300, "dev": 80, "test": 120},
        "given",
        {"dev": {}, "test": {}},
    )
    assert (result.control, result.random_encoder, result.code, result.resampled.shape) == (
        None,
        None,
        None,
        (0, 2),
    )


def test_shuffled_labels_are_near_chance_and_selectivity_is_the_rest(rng):
    layers, y = data(rng, apart=(0.0, 3.0))
    result = probe_layers(layers, y, PARTS, seeds=(0, 1, 2))
    control = result.control
    assert control.kind == "shuffled_labels"
    assert control.accuracy.shape == (3, 2)
    assert (control.accuracy < 0.6).all()
    assert np.array_equal(control.accuracy, control.correct.mean(axis=2))
    for layer in range(2):
        expected = selectivity(result.answers.correct[layer], control.correct[:, layer])
        assert (control.selectivity[layer], control.low[layer], control.high[layer]) == expected
    assert control.low[0] < 0 < control.high[0]
    assert control.low[1] > 0.3


def test_a_layer_that_knows_types_does_well_on_the_control_task_and_is_not_selective(rng):
    """Two layers with the same accuracy; one knows word types, and so memorises any label of
    theirs."""
    types = rng.integers(0, 12, 500)
    tags = np.array(["ADJ", "NOUN", "VERB"])[np.arange(12) % 3]
    y = tags[types]
    knows_types = 6 * np.eye(12)[types] + rng.normal(size=(500, 12))
    knows_tags = 6 * np.eye(12)[types % 3] + rng.normal(size=(500, 12))
    names = np.array([f"word {i}" for i in types])
    result = probe_layers([knows_types, knows_tags], y, PARTS, types=names, seeds=(0, 1))
    assert min(accuracy.value for accuracy in result.accuracy) > 0.95
    assert result.control.kind == "word_types"
    assert (result.control.accuracy[:, 0] > 0.9).all()
    assert result.control.selectivity[0] < 0.1 < 0.2 < result.control.selectivity[1]
    expected = control_labels(names, y[:300], 0)
    probe = LayerProbe(float(result.C[1])).fit([knows_tags[:300]], expected[:300])
    assert result.control.accuracy[0, 1] == probe.score([knows_tags[380:]], expected[380:])[0]


def test_types_whatever_their_order_give_the_same_control(rng):
    layers, y = data(rng, apart=(1.0,))
    types = rng.integers(0, 40, 500)
    plain = probe_layers(layers, y, PARTS, types=types, seeds=(4,))
    order = np.random.default_rng(0).permutation(500)
    place = np.argsort(order)
    moved = Parts(place[TRAIN], place[TEST], place[DEV])
    turned = probe_layers([layers[0][order]], y[order], moved, types=types[order], seeds=(4,))
    assert turned.control.accuracy == pytest.approx(plain.control.accuracy)
    assert turned.accuracy == plain.accuracy


def test_seeds_draw_bootstrap_samples_within_each_label(rng):
    layers, y = data(rng, apart=(0.8,))
    result = probe_layers(layers, y, PARTS, seeds=(0, 5), penalties=(0.1,))
    for accuracy, seed in zip(result.resampled[:, 0], (0, 5), strict=True):
        draw = np.random.default_rng([seed, 0xB007])
        rows = np.sort(
            np.concatenate(
                [
                    draw.choice(some, len(some))
                    for some in (np.flatnonzero(y[:300] == name) for name in np.unique(y))
                ]
            )
        )
        assert (
            accuracy
            == LayerProbe(0.1).fit([layers[0][rows]], y[rows]).score([layers[0][380:]], y[380:])[0]
        )
    assert result.resampled[0, 0] != result.resampled[1, 0]


def test_the_random_encoder_is_scored_by_the_same_rules(rng):
    layers, y = data(rng)
    others, _ = data(np.random.default_rng(1))
    result = probe_layers(layers, y, PARTS, random_layers=others, seeds=())
    alone = probe_layers(others, y, PARTS, seeds=())
    assert np.array_equal(result.random_encoder.given, alone.answers.given)
    assert not np.array_equal(result.random_encoder.given, result.answers.given)


def test_labels_that_training_lacks_are_named_counted_and_wrong(rng):
    layers, y = data(rng)
    y = y.astype(object)
    y[[400, 401, 450]], y[305] = "INTJ", "SYM"
    result = probe_layers(layers, y, PARTS, seeds=(0,))
    assert result.unseen == {"dev": {"SYM": 1}, "test": {"INTJ": 3}}
    assert not result.answers.correct[:, [20, 21, 70]].any()
    assert result.accuracy[0].n == 120
    names = result.answers.labels.tolist()
    assert names == ["ADJ", "NOUN", "VERB", "INTJ", "SYM"]
    answers = result.answers.labels[result.answers.given[1]]
    assert result.answers.f1[1, 3] == 0
    assert np.isnan(result.answers.f1[1, 4])  # neither in test nor answered
    expected = f1_score(y[380:].astype(str), answers.astype(str), average="macro", zero_division=0)
    assert result.answers.macro_f1[1] == pytest.approx(expected)
    clean = probe_layers(layers, y, Parts(TRAIN, TEST, np.setdiff1d(DEV, [305])), seeds=())
    assert np.array_equal(clean.C, result.C)
    assert result.dev_accuracy == pytest.approx(clean.dev_accuracy * 79 / 80)


def test_description_length_is_that_of_the_training_items(rng):
    layers, y = data(rng)
    result = probe_layers(layers, y, PARTS, seeds=(3,), mdl=True)
    expected = description_length([x[:300] for x in layers], y[:300], result.C, seed=3)
    assert result.code.bits == pytest.approx(expected.bits, rel=1e-6)
    assert result.code.seed == 3


class MostFrequent(BaseEstimator):
    """A probe of somebody's own."""

    def fit(self, layers, y, dev_layers=None, dev_y=None):
        self.answer_, self.dev_ = (
            int(np.bincount(y).argmax()),
            None if dev_y is None else len(dev_y),
        )
        return self

    def predict(self, layers):
        return np.full((len(layers), len(layers[0])), self.answer_)


def test_a_probe_of_ones_own_gets_the_same_controls(rng):
    layers, y = data(rng)
    own = MostFrequent()
    result = probe_layers(layers, y, PARTS, probe=own, seeds=(0,))
    assert not hasattr(own, "answer_"), "the probe that was given is not fitted"
    assert result.C is None
    assert [accuracy.value for accuracy in result.accuracy] == [result.majority.value] * 2
    assert result.resampled.tolist() == [[result.majority.value] * 2]
    with pytest.raises(InputError, match=r"penalties: .*got \(1.0,\)"):
        probe_layers(layers, y, PARTS, probe=own, penalties=(1.0,))
    with pytest.raises(InputError, match=r"mdl: .*got True"):
        probe_layers(layers, y, PARTS, probe=own, mdl=True)


def test_layers_on_disk_and_in_float16_are_read_where_they_lie(rng, tmp_path):
    layers, y = data(rng)
    stack = np.stack(layers).astype(np.float16)
    stored = np.memmap(tmp_path / "layers", np.float16, "w+", shape=stack.shape)
    stored[:] = stack
    before = stack.copy()
    plain = probe_layers([x.astype(np.float32) for x in stack], y, PARTS, seeds=())
    assert np.array_equal(
        probe_layers(list(stored), y, PARTS, seeds=()).answers.given, plain.answers.given
    )
    assert np.array_equal(
        probe_layers(stack, y, PARTS, seeds=()).answers.given, plain.answers.given
    )
    assert np.array_equal(stack, before)


def test_it_is_the_same_every_time_and_global_random_state_is_left_alone(rng):
    layers, y = data(rng)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (probe_layers(layers, y, PARTS, seeds=(0,)) for _ in range(2))
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert np.array_equal(first.answers.given, second.answers.given)
    assert np.array_equal(first.control.correct, second.control.correct)
    assert np.array_equal(first.resampled, second.resampled)


def test_macro_f1_of_answers_is_scikit_learns(rng):
    true, given = rng.integers(0, 6, 80), rng.integers(0, 4, (3, 80))
    true[true == 5] = 4
    answers = Answers(np.arange(7), true, given)  # 5 and 6 are nowhere
    assert answers.macro_f1 == pytest.approx(
        [f1_score(true, row, average="macro", zero_division=0) for row in given]
    )
    assert np.isnan(answers.f1[:, 5:]).all()


def test_macro_f1_of_items_that_are_all_right_has_an_interval():
    true = np.arange(60) % 3
    low, high = Answers(np.arange(3), true, true[None]).macro_f1_interval(0)
    assert (low, high) == share_interval(np.ones(60), np.ones(60))[1:] and low < 0.95
    # the ten words of a sentence count once, and so do items of labels of which others have few
    grouped = Answers(
        np.arange(3), np.repeat(true, 10), np.repeat(true, 10)[None], np.arange(600) // 10
    )
    assert grouped.macro_f1_interval(0) == pytest.approx((low, high))
    rare = np.repeat([0, 1, 2], [50, 5, 5])
    weight = (3 / (1 / 50 + 1 / 5 + 1 / 5)) * 3
    t = student.ppf(0.975, 59)
    assert Answers(np.arange(3), rare, rare[None]).macro_f1_interval(0) == pytest.approx(
        (weight / (weight + t**2), 1)
    )


def test_macro_f1_away_from_its_ends_has_the_jackknife_s_interval(rng):
    true = rng.integers(0, 4, 2000)
    given = np.where(rng.random(2000) < 0.5, true, rng.integers(0, 4, 2000))
    left_out = [
        f1_score(np.delete(true, i), np.delete(given, i), average="macro")
        for i in range(0, 2000, 20)
    ]
    error = np.std(left_out) * np.sqrt(1999)
    low, high = Answers(np.arange(4), true, given[None]).macro_f1_interval(0)
    assert (high - low) / 2 / student.ppf(0.975, 1999) == pytest.approx(error, rel=0.2)
    assert low < f1_score(true, given, average="macro") < high


def test_refusals(rng):
    layers, y = data(rng)
    with pytest.raises(InputError, match=r"y: .*got only NOUN in"):
        probe_layers(layers, np.where(np.arange(500) < 300, "NOUN", y), PARTS)
    with pytest.raises(InputError, match=r"parts: .*got no items of"):
        probe_layers(layers, y, Parts(TRAIN, TEST))
    assert (
        probe_layers(layers, y, Parts(TRAIN, TEST), penalties=(1.0,), seeds=()).dev_accuracy is None
    )
    with pytest.raises(InputError, match=r"parts: .*got row 500"):
        probe_layers(layers, y, Parts(TRAIN, [500], DEV))
    with pytest.raises(InputError, match=r"y: .*got an array of"):
        probe_layers(layers, y[1:], PARTS)
    with pytest.raises(InputError, match=r"types: .*got an array of"):
        probe_layers(layers, y, PARTS, types=["a", "b"])
    with pytest.raises(InputError, match=r"types: .*got one label for"):
        probe_layers(layers, y, PARTS, types=["a"] * 500)
    with pytest.raises(InputError, match=r"random_layers: .*got 1 layers of"):
        probe_layers(layers, y, PARTS, random_layers=layers[:1])
    with pytest.raises(InputError, match=r"seeds: .*got \(1, 1\)"):
        probe_layers(layers, y, PARTS, seeds=(1, 1))
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        probe_layers(layers, y, PARTS, seeds=(-1,))
    with pytest.raises(InputError, match=r"layers: .*got an array of"):
        probe_layers(layers[0], y, PARTS)


def test_a_probe_that_remembers_its_texts_does_as_well_on_the_control():
    """Labels by the toss of a coin, and a test part that is in training: equal texts keep their
    control labels, too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 80)).astype(np.float32)
    y = np.array(["a", "b"])[rng.integers(0, 2, 60)]
    rows, texts = (
        np.r_[np.arange(60), np.arange(20)],
        np.r_[np.arange(60), np.arange(20)].astype(str),
    )
    parts = Parts(range(60), range(60, 80))
    result = probe_layers([x[rows]], y[rows], parts, texts=texts, penalties=(1.0,))
    assert (
        result.accuracy[0].value == 1
        and result.control.accuracy.tolist() == [[1.0]] * 3
        and result.control.selectivity[0] == 0
    )
    apart = np.arange(80).astype(str)
    same = [
        probe_layers([x[rows]], y[rows], parts, texts=t, penalties=(1.0,)).control.correct
        for t in (apart, None)
    ]
    assert np.array_equal(*same)  # where no text is repeated labels are shuffled as ever
