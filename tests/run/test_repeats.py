"""Sentences that say the same are on one side of a division: what is judged was not learnt from."""

import json
import time

import ml_dtypes
import numpy as np
import pytest
from tests_run_helpers import context_stores, first_lines, store, word_store

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.run import Study, run_study
from crosslens.run.collapse import is_collapsed
from crosslens.run.measures import language_id_scores, make_split, retrieval_scores
from crosslens.run.repeats import equal_rows, groups_of, repeats_told, sentence_groups, store_groups
from crosslens.score import read_scores
from crosslens.stats import share_interval, wilson_interval


def test_items_are_together_that_are_equal_on_any_side():
    assert groups_of([["a", "b", "c", "d"], ["x", "y", "y", "z"]]).tolist() == [0, 1, 1, 2]
    assert groups_of([["a", "b", "a", "d"], ["x", "y", "z", "y"]]).tolist() == [0, 1, 0, 1]
    # one by way of another
    assert groups_of([["a", "b", "a", "d"], ["x", "x", "z", "y"]]).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("seed", [0, 3])
def test_without_repeats_the_split_is_what_it_was(seed):
    order = np.random.default_rng([seed, 0x5917]).permutation(60)
    for groups in (None, np.arange(60), np.arange(60)[::-1]):
        split = make_split(60, 0.4, seed, groups)
        assert (
            split.train.tolist() == sorted(order[:24])
            and split.held_out.tolist() == sorted(order[24:])
            and split.groups is None
        )
        assert [half.tolist() for half in split.halves()] == [
            [i % 2 == 0 for i in range(24)],
            [i % 2 == 1 for i in range(24)],
        ]


def test_no_group_is_on_both_sides_or_in_both_halves():
    groups = np.random.default_rng(0).integers(0, 40, 200)
    split = make_split(200, 0.5, 0, groups)
    assert not set(groups[split.train]) & set(groups[split.held_out])
    assert (
        sorted([*split.train, *split.held_out]) == list(range(200))
        and abs(len(split.train) - 100) < 10
    )
    one, other = (set(groups[split.train][half]) for half in split.halves())
    assert one and other and not one & other


def test_a_text_of_one_sentence_again_and_again_is_refused():
    with pytest.raises(InputError, match=r"texts: .* different sentences .*got \d and \d, in 100"):
        make_split(100, 0.5, 0, np.arange(100) // 95)
    for n in (10, 19):
        with pytest.raises(InputError, match=r"got \d+ and \d+, in 100"):
            make_split(100, 0.5, 0, np.minimum(np.arange(100), n - 1))


def test_intervals_of_retrieval_are_over_different_sentences(tmp_path):
    """Equal sentences stand and fall together but for the ties, so 30 copies of 12 say as much as
    12; a text without repeats keeps Wilson's interval."""
    rng = np.random.default_rng(2)
    base = rng.normal(size=(60, 16)).astype(np.float32)
    noisy = base + 1.2 * rng.normal(size=base.shape).astype(np.float32)
    rows = rng.integers(0, 60, 240)
    stores = [
        store(tmp_path / name, name, [side[rows] + 1e-3 * rng.normal(size=(240, 16))])
        for name, side in (("eng", base), ("fra", noisy))
    ]
    split = make_split(240, 0.5, 0, rows)
    scores = retrieval_scores(*stores, split, {}, hits=True, on_train=True)
    parts = {
        "all": np.arange(240),
        "held_out": split.held_out,
        "train": np.concatenate([split.train[half] for half in split.halves()[::-1]]),
    }
    sides = {s.language: s.layer(0).astype(np.float64) for s in stores}
    for s in scores:
        at = parts[s.details["part"]]
        found, of = np.zeros(60), np.bincount(rows[at], minlength=60)
        if s.condition == "unaligned":
            blocks = (
                [at]
                if s.details["part"] != "train"
                else np.split(at, [int(split.halves()[1].sum())])
            )
            for block in blocks:
                x, y = (sides[code][block] for code in (s.source, s.target))
                x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
                np.add.at(found, rows[block], (x @ y.T).argmax(1) == np.arange(len(block)))
            there = of > 0
            expected = share_interval(found[there], of[there])
            assert (s.value, s.low, s.high) == pytest.approx(expected)
        assert s.details["groups"] == np.sum(of > 0) < s.n
        assert ("equal_items" in s.details) == (s.details["part"] == "held_out")
    for s in retrieval_scores(*stores, make_split(240, 0.5, 0), {}):
        assert "groups" not in s.details
        assert (s.low, s.high) == wilson_interval(round(s.value * s.n), s.n)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_equal_rows_are_those_that_differ_by_rounding(dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(2, 0.3, size=(300, 24))
    rows[100:150] = rows[:50] * (1 + 1e-6 * rng.normal(size=(50, 24)))
    rows[150:160] = rows[7]
    rows[200] = rows[8] * 1.01  # another sentence, if an odd one
    expected = np.arange(300)
    expected[100:150], expected[150:160] = np.arange(50), 7
    assert equal_rows(rows.astype(dtype)).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_a_large_column_makes_no_rows_equal_in_half_precision(kind):
    rows = np.random.default_rng(0).normal(size=(100, 24))
    rows[:, 0] = 3000
    rows[90:] = rows[:10]
    assert equal_rows(rows.astype(kind)).tolist() == [*range(90), *range(10)] and not is_collapsed(
        [rows.astype(kind)]
    )


def noise(folder, n, d, copies):
    """Two languages of noise, of which the first rows come again as the last ones: of the first
    language alone."""
    rng = np.random.default_rng(0)
    sides = rng.normal(size=(2, n, d)).astype(np.float32)
    sides[0, -copies:] = sides[0, :copies]
    return [
        store(folder / name, name, [np.ones((n, d), np.float32), side])
        for name, side in zip(("eng", "fra"), sides, strict=True)
    ]


def test_stores_know_their_repeats_by_the_last_layer_that_varies(tmp_path):
    stores = noise(tmp_path, 100, 16, 30)
    assert store_groups(stores).tolist() == [*range(70), *range(30)]
    assert repeats_told(store_groups(stores)) == [
        (
            "60 of 100 items repeat another one: equal ones are on one side of the division, and "
            "as targets they tie."
        )
    ]


def test_many_equal_rows_are_not_compared_in_pairs():
    rows = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    began = time.process_time()
    assert equal_rows(rows[np.arange(20_000) % 2]).tolist() == [0, 1] * 10_000
    # pair by pair it takes ten seconds
    assert time.process_time() - began < 4


def test_a_probe_of_stores_is_not_trained_on_what_it_is_tested_on(tmp_path, capsys):
    """Every sentence stands twice and is noise: what is remembered of the copies tells the
    language, what is learnt does not."""
    rng = np.random.default_rng(0)
    halves = rng.normal(size=(2, 60, 256)).astype(np.float32)
    stores = [
        store(tmp_path / name, name, [np.tile(side, (2, 1))])
        for name, side in zip(("eng", "fra"), halves, strict=True)
    ]
    common = {"encoder": "x", "seed": 0}
    leaked, plain = (
        language_id_scores(stores, make_split(120, 0.5, 0, g), common)[0]
        for g in (None, store_groups(stores))
    )
    assert leaked.value > 0.7 and plain.low < 0.5 < plain.high
    # a sentence, its copy and its translation are one unit of the interval
    assert (plain.n, plain.details["groups"]) == (120, 30)
    low, high = wilson_interval(plain.n * plain.value, plain.n)
    assert plain.high - plain.low > 1.15 * (high - low)
    assert main(["probe", *(str(s.folder) for s in stores)]) == 0
    told = capsys.readouterr().out
    assert (
        f"    0  {100 * plain.value:.1f}" in told and "120 of 120 items repeat another one" in told
    )
    mapped = {
        g is None: retrieval_scores(*stores, make_split(120, 0.5, 0, g), common, on_train=True)
        for g in (None, store_groups(stores))
    }
    held, train = (
        [s.value for s in mapped[False] if s.condition == "procrustes" and s.details["part"] == p]
        for p in ("held_out", "train")
    )
    assert (
        max(held + train) < 0.1 < max(s.value for s in mapped[True] if s.condition == "procrustes")
    )


def test_a_study_divides_by_different_sentences_and_says_so(small_encoder, tmp_path):
    texts = {}
    for language in ("eng", "fra"):
        lines = first_lines(language, 40)
        lines[-10:] = [f" {line}  " for line in lines[:10]] if language == "fra" else lines[-10:]
        texts[language] = str(tmp_path / f"{language}.txt")
        (tmp_path / f"{language}.txt").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
    folder = run_study(Study(encoders={"*": str(small_encoder)}, texts=texts), tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    assert any(
        note.startswith("20 of 40 sentences have the text of another one, in one language or more")
        for note in config["notes"]
    )
    groups = np.array([*range(30), *range(10)])
    split = make_split(40, 0.5, 0, groups)
    assert config["data"]["n_train"] == len(split.train)
    stores = [
        Activations(folder / "activations" / "encoder" / language) for language in ("eng", "fra")
    ]
    expected = {
        (s.layer, s.condition, s.source): s.value
        for s in retrieval_scores(*stores, split, {})
        if s.details["part"] == "held_out"
    }
    found = {
        (s.layer, s.condition, s.source): s.value
        for s in read_scores(folder / "scores.jsonl")
        if s.task == "sentence_retrieval"
        and s.details["part"] == "held_out"
        and "random" not in s.condition
    }
    assert found == expected


def test_sentences_of_words_are_equal_by_their_words(tmp_path):
    x, y, _ = context_stores(tmp_path)
    index = {name: x.index([name])[name] for name in ("text", "position")}
    words = [
        f"w{text % 30}.{position}"
        for text, position in zip(index["text"], index["position"], strict=True)
    ]
    named = word_store(
        tmp_path / "named", "eng", [np.array(x.layer(0))], {**index, "word": words}, "word"
    )
    assert sentence_groups([named, y], 40).tolist() == [*range(30), *range(10)]
    # stores that do not name their words
    assert sentence_groups([x, y], 40).tolist() == list(range(40))
