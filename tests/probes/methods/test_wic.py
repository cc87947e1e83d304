"""Word-in-Context probes: features by hand, a classifier by scikit-learn, thresholds by trying all,
and no look at scored items."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from crosslens.errors import InputError
from crosslens.probes.methods.controls import Accuracy, shuffled_labels
from crosslens.probes.methods.linear.layer_probe import LayerProbe
from crosslens.probes.methods.splits import stratified_parts
from crosslens.probes.methods.wic import REPRESENTATIONS, WicVectors, best_threshold, wic

D = 5


def part(seed, n=120, layers=2, apart=1.0):
    """Items whose second vector is near the first one where the meaning is the same; more so in
    later layers."""
    rng, same = np.random.default_rng(seed), np.random.default_rng(seed + 100).random(n) < 0.6
    first = rng.normal(size=(layers, n, D))
    noise = rng.normal(size=(layers, n, D))
    share = np.array([0.5, 0.9, 0.99])[:layers, None, None] * apart
    second = np.where(same[:, None], share * first + (1 - share) * noise, noise)
    pair = rng.normal(size=(layers, n, D)) + 2 * share * (same - 0.5)[:, None] * np.eye(D)[0]
    return WicVectors(same, pair=pair, first=first, second=second)


def features(vectors, representation, layer):
    u, v = vectors.first[layer], vectors.second[layer]
    if representation == "pair_cls":
        return vectors.pair[layer]
    made = {"concatenation": [u, v], "difference": [np.abs(u - v)], "product": [u * v]}
    made["concatenation+difference+product"] = [u, v, np.abs(u - v), u * v]
    return np.concatenate(made[representation], axis=1)


@pytest.mark.parametrize("representation", REPRESENTATIONS[:-1])
def test_answers_are_those_of_a_classifier_on_features_made_by_hand(representation):
    train, dev, test = part(0, 200), part(1), part(2)
    result = wic({"train": train, "dev": dev, "test": test}, representation, penalties=(0.1,))
    assert result.chosen.tolist() == [0.1, 0.1]
    assert list(result.parts) == ["dev", "test"]
    for layer in range(2):
        x = features(train, representation, layer)
        mean, scale = x.mean(axis=0), x.std(axis=0)
        peer = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000).fit(
            (x - mean) / scale, train.same
        )
        for name, vectors in (("dev", dev), ("test", test)):
            correct = (
                peer.predict((features(vectors, representation, layer) - mean) / scale)
                == vectors.same
            )
            # rounding may turn an item at the border
            assert (result.parts[name].correct[layer] == correct).mean() > 0.98
            assert result.parts[name].accuracy[layer] == Accuracy.of(
                result.parts[name].correct[layer]
            )


def test_the_penalty_is_chosen_without_the_scored_items():
    train, dev = part(0, 200), part(1)
    result = wic({"train": train, "dev": dev})
    turned = dataclasses.replace(dev, same=~dev.same)
    other = wic({"train": train, "dev": turned})
    assert np.array_equal(other.chosen, result.chosen)
    assert np.array_equal(other.parts["dev"].correct, ~result.parts["dev"].correct), (
        "the answers are the same, all of them now wrong"
    )
    with_test = wic({"train": train, "dev": dev, "test": part(2)})
    assert np.array_equal(with_test.parts["dev"].correct, result.parts["dev"].correct)
    assert set(result.chosen.tolist()) <= {1e-5, 1e-4, 1e-3, 1e-2, 1e-1}


def test_the_penalty_is_the_best_one_for_training_items_that_are_held_out():
    train, penalties = part(0, 200), (1e-4, 1e-2, 1.0, 100.0)
    x = [features(train, "product", layer) for layer in range(2)]
    drawn = stratified_parts(train.same, (0.7, 0.0, 0.3), seed=4)
    fitted, held = ([layer[rows] for layer in x] for rows in (drawn.train, drawn.test))
    expected = (
        LayerProbe(penalties).fit(fitted, train.same[drawn.train], held, train.same[drawn.test]).C_
    )
    result = wic(
        {"train": train, "dev": part(1)}, "product", penalties=penalties, held_out=0.3, seed=4
    )
    assert result.chosen.tolist() == expected.tolist()
    by_heart = LayerProbe(penalties).fit(x, train.same, x, train.same).C_
    assert result.chosen.tolist() != by_heart.tolist(), (
        "what fits the items best that it was trained on is another one"
    )


def test_layers_that_know_more_answer_more_and_controls_do_not():
    parts = {"train": part(0, 600, 3), "dev": part(1, 400, 3)}
    random = {"train": part(0, 600, 3, apart=0.0), "dev": part(1, 400, 3, apart=0.0)}
    for representation in ("difference", "product", "cosine_threshold"):
        found = wic(parts, representation, random_encoder=random).parts["dev"]
        values = [accuracy.value for accuracy in found.accuracy]
        assert values[0] < values[2], "a layer in which words of one meaning are nearer"
        assert values[2] > 0.78 > 0.65 > found.majority.value > 0.5
        assert max(accuracy.value for accuracy in found.shuffled) < 0.75
        assert max(accuracy.value for accuracy in found.random_encoder) < 0.7


def test_the_shuffled_control_is_the_probe_of_shuffled_answers():
    train, dev = part(0, 200), part(1)
    for representation in ("product", "cosine_threshold"):
        result = wic({"train": train, "dev": dev}, representation, seed=3)
        control = dataclasses.replace(train, same=shuffled_labels(train.same, 3))
        assert (
            wic({"train": control, "dev": dev}, representation, seed=3).parts["dev"].accuracy
            == result.parts["dev"].shuffled
        )
        assert result.parts["dev"].random_encoder is None


def test_thresholds_are_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        values, same = rng.integers(0, 4, n) / 4, rng.random(n) < 0.5
        best = best_threshold(values, same)
        tried = [-1.0, *np.arange(0, 1.01, 0.125), 9.0]
        assert ((values >= best) == same).sum() == max(((values >= t) == same).sum() for t in tried)
    assert best_threshold(np.array([0.3, 0.2]), np.array([True, True])) == 0.2
    assert best_threshold(np.array([0.3, 0.2]), np.array([False, False])) == np.inf
    assert best_threshold(np.array([0.0, 1.0, 2.0]), np.array([True, False, True])) == 0.0, (
        "of equally good ones the lowest"
    )


def test_the_cosine_threshold_is_learnt_from_the_training_items_alone():
    train, dev = part(0, 200), part(1)
    result = wic({"train": train, "dev": dev}, "cosine_threshold")

    def cosine(vectors, layer):
        u, v = vectors.first[layer], vectors.second[layer]
        return (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)

    for layer in range(2):
        assert result.chosen[layer] == pytest.approx(
            best_threshold(cosine(train, layer), train.same), abs=1e-12
        )
        assert np.array_equal(
            result.parts["dev"].correct[layer],
            (cosine(dev, layer) >= result.chosen[layer]) == dev.same,
        )


def test_only_what_is_symmetric_survives_an_exchange_of_the_sentences():
    train, dev = part(0, 200), part(1)
    turned = dataclasses.replace(dev, first=dev.second, second=dev.first)
    for representation in ("difference", "product", "cosine_threshold"):
        result, other = (
            wic({"train": train, "dev": some}, representation, penalties=(0.1,)).parts["dev"]
            for some in (dev, turned)
        )
        assert np.array_equal(result.correct, other.correct)
    result, other = (
        wic({"train": train, "dev": some}, "concatenation", penalties=(0.1,)).parts["dev"]
        for some in (dev, turned)
    )
    assert not np.array_equal(result.correct, other.correct)


def test_words_without_a_vector_are_left_out_and_counted():
    train, dev = part(0, 200), part(1)
    first, second = train.first.copy(), dev.second.copy()
    first[:, [4, 9]], second[:, 7] = np.nan, np.nan
    kept, held = np.delete(np.arange(200), [4, 9]), np.delete(np.arange(120), 7)
    whole = {
        name: WicVectors(p.same[rows], first=p.first[:, rows], second=p.second[:, rows])
        for name, p, rows in (("train", train, kept), ("dev", dev, held))
    }
    holes = {
        "train": dataclasses.replace(train, first=first),
        "dev": dataclasses.replace(dev, second=second),
    }
    for representation in ("product", "cosine_threshold"):
        result, expected = wic(holes, representation), wic(whole, representation)
        assert (result.left_out, result.parts["dev"].left_out) == (2, 1)
        assert np.array_equal(result.parts["dev"].correct, expected.parts["dev"].correct)
        assert np.array_equal(result.parts["dev"].items, held)


def test_layers_on_disk_in_float16_are_read_and_not_written_to(tmp_path):
    parts, mapped = {"train": part(0, 200), "dev": part(1)}, {}
    for name, vectors in parts.items():
        sides = {}
        for side in ("first", "second"):
            sides[side] = []
            for i, layer in enumerate(getattr(vectors, side)):
                np.save(tmp_path / f"{name}{side}{i}.npy", layer.astype(np.float16))
                sides[side].append(np.load(tmp_path / f"{name}{side}{i}.npy", mmap_mode="r"))
        mapped[name] = WicVectors(vectors.same, **sides)
    for representation in ("concatenation+difference+product", "cosine_threshold"):
        correct = [wic(some, representation).parts["dev"].correct for some in (parts, mapped)]
        assert (correct[0] == correct[1]).mean() > 0.97


def test_refusals():
    train, dev = part(0), part(1)
    parts = {"train": train, "dev": dev}

    def changed(**fields):
        return {"train": train, "dev": dataclasses.replace(dev, **fields)}

    with pytest.raises(InputError, match=r"parts: .*got dev"):
        wic({"dev": dev})
    with pytest.raises(InputError, match=r"representation: .*got 'cls'"):
        wic(parts, "cls")
    with pytest.raises(InputError, match=r"parts\['dev'\].pair: .*got none"):
        wic(changed(pair=None))
    with pytest.raises(InputError, match=r"parts\['dev'\].first, second: .*got 2 layers"):
        wic(changed(first=dev.first[:, 1:]), "product")
    with pytest.raises(InputError, match=r"parts\['dev'\].first\[0\]: .*got an array of"):
        wic(changed(first=dev.first[None]), "product")
    with pytest.raises(InputError, match=r"parts\['dev'\].first\[0\]: .*got an array of <U32"):
        wic(changed(first=dev.first.astype(str)), "product")
    with pytest.raises(InputError, match=r"parts\['dev'\].same: .*got an array of"):
        wic(changed(same=dev.same[1:]))
    with pytest.raises(InputError, match=r"parts\['dev'\].same: .*got values of <U1"):
        wic(changed(same=np.where(dev.same, "T", "F")))
    with pytest.raises(InputError, match=r"dev: .*got 1 layers of"):
        wic(changed(pair=dev.pair[:1]))
    with pytest.raises(InputError, match=r"random_encoder: .*got train"):
        wic(parts, random_encoder={"train": train})
    with pytest.raises(InputError, match=r"random_encoder\['dev'\]: .*got 100 items"):
        wic(parts, random_encoder={"train": train, "dev": part(1, 100)}, penalties=(1.0,))
    with pytest.raises(InputError, match=r"parts\['dev'\]: .*got one in 120"):
        wic(changed(first=np.zeros_like(dev.first)), "cosine_threshold")
    with pytest.raises(InputError, match=r"parts\['dev'\]: .*got none of 120"):
        wic(changed(first=np.full_like(dev.first, np.nan)), "product")
    with pytest.raises(InputError, match=r"at least two classes"):
        wic({"train": dataclasses.replace(train, same=np.ones(120, bool)), "dev": dev})
    alike = {"train": dataclasses.replace(train, same=np.ones(120, bool)), "dev": dev}
    with pytest.raises(InputError, match=r"at least two classes.*got True for all 120 training"):
        wic(alike, "cosine_threshold")
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        wic(parts, seed=-1)
    with pytest.raises(InputError, match="held_out: expected a fraction"):
        wic(parts, held_out=1.0)
    with pytest.raises(InputError, match=r"same: .*got bool of shape"):
        best_threshold(np.zeros(2), np.ones(1, bool))


def test_a_threshold_between_neighbouring_floats_tells_them_apart():
    low, high = 0.5, float(np.nextafter(0.5, 1))
    found = best_threshold([low, high], [False, True])
    assert (low >= found, high >= found) == (False, True)
