"""Classifiers of texts by their letters: what they tell apart, what they must not be misled by, and
every refusal."""

import os
import tempfile

import numpy as np
import pytest
from sklearn.metrics import f1_score

from crosslens.errors import InputError, OutputError
from crosslens.probes.methods.surface_baselines import fasttext_baseline, ngram_baseline

SYLLABLES = {"alpha": "ba be bi bo bu", "beta": "ka ke ki ko ku", "gamma": "ba ke bi ko zu"}


def small_fasttext(*texts, **settings):
    return fasttext_baseline(*texts, **{"buckets": 2000, "epochs": 20, **settings})


def small_ngrams(*texts, **settings):
    return ngram_baseline(*texts, **{"features": 2**12, "epochs": 3, **settings})


BOTH = pytest.mark.parametrize("baseline", [small_ngrams, small_fasttext])


def texts(seed, n=90):
    """Words of syllables, shared in part by three made-up languages."""
    rng, labels = np.random.default_rng(seed), [["alpha", "beta", "gamma"][i % 3] for i in range(n)]
    return [
        " ".join("".join(rng.choice(SYLLABLES[label].split(), 3)) for _ in range(6))
        for label in labels
    ], labels


@BOTH
def test_languages_are_told_apart_and_every_number_follows_from_the_answers(baseline):
    result = baseline(*texts(0), *texts(1, 60))
    truth = np.array(texts(1, 60)[1])
    answers = result.answers.labels[result.answers.given[0]]
    assert result.accuracy.value == np.mean(answers == truth) > 0.9
    assert result.accuracy.n == 60
    assert result.answers.f1[0] == pytest.approx(f1_score(truth, answers, average=None))
    assert result.answers.labels.tolist() == ["alpha", "beta", "gamma"]
    assert result.unseen == {}
    assert result.name in (
        "fastText, supervised",
        "logistic regression on character n-grams, 1 to 4",
    )


@BOTH
def test_texts_that_stand_sorted_by_label_are_learnt_as_well(baseline):
    train, labels = texts(0, 600)
    order = np.argsort(labels, kind="stable")
    result = baseline([train[i] for i in order], np.sort(labels), *texts(1, 60), epochs=1)
    assert result.accuracy.value > 0.8  # fastText, read in this order, forgets the first label: .67


@BOTH
def test_letters_that_say_nothing_give_chance(baseline):
    some, _ = texts(0, 300)
    labels = np.random.default_rng(5).integers(0, 2, 300)
    result = baseline(some[:200], labels[:200], some[200:], labels[200:])
    assert 0.3 < result.accuracy.value < 0.7


@BOTH
def test_it_is_the_same_every_time_and_the_seed_is_used(baseline):
    some, labels = texts(0, 300)
    # nothing to learn: where small differences show
    labels = np.random.default_rng(5).integers(0, 2, 300)
    given = [
        baseline(some[:200], labels[:200], some[200:], labels[200:], seed=seed).answers.given
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(given[0], given[1])
    assert not np.array_equal(given[0], given[2])


@BOTH
def test_labels_may_be_numbers_or_hold_spaces_and_marks(baseline):
    (train, labels), (test, truth) = texts(0), texts(1, 30)
    plain = baseline(train, labels, test, truth)
    for names in (
        {"alpha": "British English", "beta": "C\tD\n", "gamma": "__label__1"},
        {"alpha": 7, "beta": 30, "gamma": 200},
    ):
        renamed = baseline(
            train, [names[label] for label in labels], test, [names[label] for label in truth]
        )
        assert renamed.accuracy == plain.accuracy
        assert {*renamed.answers.labels.tolist()} == {*names.values()}


@BOTH
def test_unseen_labels_are_named_counted_and_wrong(baseline):
    (train, labels), (test, truth) = texts(0), texts(1, 30)
    result = baseline(train, labels, [*test, "a text", "more"], [*truth, "delta", "delta"])
    assert result.unseen == {"delta": 2}
    assert not result.answers.correct[0, 30:].any()
    assert result.accuracy.n == 32


def test_texts_cannot_name_their_label_to_fasttext():
    """Words that look like fastText's labels, and every sign it ends a word or a text with, are
    only text."""
    (train, labels), (test, truth) = texts(0), texts(1, 30)
    codes = {"alpha": 0, "beta": 1, "gamma": 2}
    lied = [
        f"__label__{(codes[label] + 1) % 3} __label___0 {text}"
        for text, label in zip(train, labels, strict=True)
    ]
    result = small_fasttext(lied, labels, [f"__label__0 {text}" for text in test], truth)
    assert result.accuracy.value > 0.9
    broken = [
        f"</s> {text.replace(' ', sign)}"
        for text, sign in zip(train, "\n\r\t\v\f\0" * 15, strict=True)
    ]
    given = [small_fasttext(some, labels, test, truth).answers.given for some in (train, broken)]
    assert np.array_equal(*given)


@BOTH
def test_texts_without_a_known_letter_are_answered_too(baseline):
    result = baseline(*texts(0), ["語", " ", ""], ["alpha", "beta", "gamma"])
    assert result.answers.given.shape == (1, 3)


def test_case_and_spaces_are_characters_to_n_grams():
    train = ["ab ab", "AB AB"] * 20
    result = small_ngrams(train, [0, 1] * 20, ["ab", "AB"], [0, 1])
    assert result.accuracy.value == 1


def test_fasttext_prints_nothing_and_leaves_no_file(capfd, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:  # and not longer: pytest has temporary files of its own
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        small_fasttext(*texts(0), *texts(1, 30))
        assert os.listdir(tmp_path) == []
        printed = capfd.readouterr()
        with pytest.raises(InputError, match=r"train_texts: .*got Encountered"):
            small_fasttext(*texts(0), *texts(1, 30), learning_rate=1e30)
        assert os.listdir(tmp_path) == []
        patch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        with pytest.raises(OutputError, match=r"TMPDIR: .*got No such file"):
            small_fasttext(*texts(0), *texts(1, 30))
    assert (printed.out, printed.err) == ("", "")


@BOTH
def test_refusals(baseline):
    train, labels = texts(0)
    with pytest.raises(InputError, match=r"train_labels: .*got an array of"):
        baseline(train, labels[1:], train, labels)
    with pytest.raises(InputError, match=r"train_labels: .*got only alpha"):
        baseline(train, ["alpha"] * 90, train, labels)
    with pytest.raises(InputError, match=r"test_texts: .*got none"):
        baseline(train, labels, [], [])
    with pytest.raises(InputError, match=r"train_texts: .*got a text"):
        baseline("train", labels, train, labels)
    with pytest.raises(InputError, match=r"train_texts\[1\]: .*got int"):
        baseline([train[0], 3], labels[:2], train, labels)
    with pytest.raises(InputError, match=r"test_texts\[0\]: .*got a lone surrogate"):
        baseline(train, labels, ["\ud83d"], ["alpha"])
    with pytest.raises(InputError, match=r"labels: .*got words and numbers"):
        baseline(train, labels, train[:1], [3])
    with pytest.raises(InputError, match=r"epochs: .*got 0"):
        baseline(train, labels, train, labels, epochs=0)
    with pytest.raises(InputError, match=r"seed: .*got -1"):
        baseline(train, labels, train, labels, seed=-1)


def test_refusals_of_fasttexts_settings():
    for subwords in ((3, 2), (0, 2)):
        with pytest.raises(InputError, match="subwords: expected"):
            small_fasttext(*texts(0), *texts(1), subwords=subwords)
    with pytest.raises(InputError, match=r"learning_rate: .*got 0"):
        small_fasttext(*texts(0), *texts(1), learning_rate=0)
    with pytest.raises(InputError, match=r"seed \+ 1: .*got 2147483648"):
        small_fasttext(*texts(0), *texts(1), seed=2**31 - 1)
