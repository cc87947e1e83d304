"""Windows by the rule of Wu & Dredze's program, against that rule written as a loop over words."""

import copy

import numpy as np
import pytest

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.finetuning.examples import WordExamples
from crosslens.models.finetuning.tag import Tag
from crosslens.models.saved.loading import load_encoder

WORDS = ["the", "cat", "sees", "Dortmund", "internationalisation", "\u200b", "cat" * 9, "a"]


@pytest.fixture(scope="module")
def encoder(originals):
    return load_encoder(originals["bert"])


def examples_of(sentences):
    spans, labels = [], []
    for words in sentences:
        begins = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1].tolist()
        spans.append([(n, n + len(word)) for n, word in zip(begins, words, strict=True)])
        labels.append(np.arange(len(words)) % 7)
    texts = [" ".join(words) for words in sentences]
    ids = [str(n) for n in range(len(texts))]
    return WordExamples(Corpus("eng", texts, ids, "toy", words=spans), labels)


def by_their_rule(tokenizer, words, labels, longest):
    """(token ids, labels; None of what has none) of each window of a sentence."""
    windows, ids, told = [], [], []
    for word, label in zip(words, labels, strict=True):
        mine = tokenizer(word, add_special_tokens=False)["input_ids"]
        if mine and len(ids) + len(mine) >= longest:
            windows.append((ids, told))
            ids = ids[-(longest // 2) :]
            told = [None] * len(ids)
        ids = ids + mine
        told = told + [label if n == 0 else None for n in range(len(mine))]
    return [*windows, (ids, told)]


@pytest.mark.parametrize("longest", [4, 9, 16])
def test_windows_are_those_of_the_loop(encoder, longest):
    rng = np.random.default_rng(longest)
    sentences = [rng.choice(WORDS, size=rng.integers(1, 30)).tolist() for _ in range(60)]
    examples, tokenizer = examples_of(sentences), encoder.tokenizer
    rows = iter(Tag(7, max_length=longest, windows="wu_dredze").rows(encoder, examples))
    several = 0
    for words, labels in zip(sentences, examples.labels, strict=True):
        windows = by_their_rule(tokenizer, words, labels.tolist(), longest)
        windows = [one for one in windows if any(label is not None for label in one[1])]
        several += len(windows) > 1
        for ids, told in windows:
            row = next(rows)
            assert row.ids.tolist() == [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
            columns, given = (row.targets[name].tolist() for name in ("first", "labels"))
            labelled = dict(zip(columns, given, strict=True))
            assert labelled == {n + 1: label for n, label in enumerate(told) if label is not None}
    assert next(rows, None) is None and several > 20


def test_every_word_with_a_subword_is_answered_once_and_named_in_its_window(encoder):
    examples = examples_of([["the", "cat"] * 9, ["\u200b"], ["Dortmund", "\u200b", "cat"] * 5])
    kind = Tag(7, max_length=8, windows="wu_dredze")
    rows = kind.rows(encoder, examples)
    found = kind.join(examples, rows, [row.targets["labels"] for row in rows])
    cuts = kind.cuts(encoder, examples)
    for mine, labels, windows in zip(found, examples.labels, cuts, strict=True):
        read = np.flatnonzero(mine >= 0)
        assert (mine[read] == labels[read]).all()
        assert np.concatenate([*windows, np.arange(0)]).tolist() == read.tolist()
    assert [len(windows) > 1 for windows in cuts] == [True, False, True]
    assert (found[2] < 0).tolist() == [False, True, False] * 5
    assert Tag(7).cuts(encoder, examples) is None


def test_no_input_is_longer_than_the_encoder_reads(encoder):
    short = copy.copy(encoder)
    short.max_length = 10
    rows = Tag(7, windows="wu_dredze").rows(short, examples_of([["the", "cat" * 9, "cat"] * 4]))
    assert max(len(row.ids) for row in rows) == 10
    assert sum(len(row.items) for row in rows) == 12
    short.max_length = 3
    with pytest.raises(InputError, match="max_length: expected room for two tokens"):
        Tag(7, windows="wu_dredze").rows(short, examples_of([["the", "cat"]]))


def test_windows_that_are_none_are_refused():
    with pytest.raises(InputError, match="windows: expected one of stitched, wu_dredze"):
        Tag(7, windows="halves")
