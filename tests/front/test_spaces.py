"""Alignment and comparison in Python: the same scores as the steps below them give, on activations,
folders and arrays."""

import numpy as np
import pytest

from crosslens.activations_memory import as_activations
from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.front.results import Run
from crosslens.front.spaces import align, compare, identify_languages
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.loading import load_encoder
from crosslens.recipes.quickstart import DATA
from crosslens.run.measures import make_split, retrieval_scores
from crosslens.run.similarities import compare_stores

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(60, 6)).astype(np.float32) for _ in range(2)]
Y = [(layer @ np.linalg.qr(RNG.normal(size=(6, 6)))[0]).astype(np.float32) for layer in X]
ENG, FRA = (
    as_activations(X, language="eng", unit="sentence"),
    as_activations(Y, language="fra", unit="sentence"),
)
WORDS = [f"w{i}" for i in range(60)]
TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]


def words(layers, language, prefix):
    found = as_activations(layers, language=language, unit="type")
    table = found.table().append_column("word", [[prefix + word for word in WORDS]])
    found.index = lambda columns=None: (
        table.to_pydict() if columns is None else table.select(columns).to_pydict()
    )
    return found


def test_sentences_are_found_after_the_rotation():
    scores = align(ENG, FRA)
    split = make_split(60, 0.5, 0)
    assert list(scores)[: len(scores) - 2] == retrieval_scores(
        ENG, FRA, split, {"encoder": "", "seed": 0}
    )
    after = scores.where(condition="procrustes", quantity="precision_at_1")
    assert [score.value for score in after] == [1.0] * 4 and {score.n for score in after} == {30}
    assert [score.quantity for score in scores[-2:]] == ["pearson", "pearson"]


def test_arrays_folders_and_lists_of_layers_are_sides_as_well():
    names = {(score.source, score.target) for score in align(X, Y, seed=1, train_fraction=0.4)}
    assert names == {("x", "y"), ("y", "x")}
    one = align(X[0], Y[0]).where(condition="procrustes", quantity="precision_at_1")
    assert {score.layer for score in one} == {0}


def test_word_types_are_translated_by_a_dictionary(tmp_path):
    (tmp_path / "d.txt").write_text("".join(f"a{word} b{word}\n" for word in WORDS))
    scores = align(words(X, "eng", "a"), words(Y, "fra", "b"), dictionary=tmp_path / "d.txt")
    after = scores.where(quantity="precision_at_1", condition="procrustes")
    assert {score.task for score in scores} == {"word_translation"} and all(
        score.value > 0.9 for score in after
    )


def test_a_folder_keeps_what_was_measured_and_what_was_asked(tmp_path):
    """As the command line writes it; the same call goes on with it, and others are refused."""
    encoder = load_encoder(DATA / "tiny-encoder")
    for language in ("eng", "fra"):
        text = (DATA / "corpus" / f"{language}.txt").read_text("utf-8").splitlines()[:24]
        extract(encoder, text, tmp_path / language, language=language)
    sides = [tmp_path / language for language in ("eng", "fra")]
    for call, verb in ((align, "align"), (compare, "compare")):
        scores = call(*sides, out=tmp_path / verb, seed=3)
        kept = (tmp_path / verb / "scores.jsonl").read_bytes()
        typed = [verb, *map(str, sides), "--seed", "3", "--out", str(tmp_path / verb), "--quiet"]
        assert main(typed) == 0 and (tmp_path / verb / "scores.jsonl").read_bytes() == kept
        run = Run(tmp_path / verb)
        assert list(run.scores) == list(scores) and run.kind == verb
        assert run.config["asked"]["stores"] == [str(side) for side in sides]
        assert run.config["notes"] == list(scores.notes)
        with pytest.raises(OutputError, match="seed"):
            call(*sides, out=tmp_path / verb)
    assert "n = 24 < 3 d = 384" in scores.notes[0]
    align(X, Y, out=tmp_path / "arrays")  # arrays cannot be asked for again
    assert "stores" not in Run(tmp_path / "arrays").config["asked"]


def test_equal_sentences_are_on_one_side_of_the_division():
    doubled = [[np.concatenate([side[0], side[0]])] for side in (X, Y)]
    scores = align(*doubled)
    assert "120 of 120 items repeat another one" in scores.notes[0]
    assert scores.where(layer=0).notes == scores[:2].notes == scores.notes


def sides_of(seed, n, languages=("eng", "fra")):
    """Two sides that a rotation would turn into each other, but for noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    y = (x @ TURN + 0.3 * rng.normal(size=(n, 6))).astype(np.float32)
    return [
        as_activations([side], language=name, unit="sentence")
        for side, name in zip((x, y), languages, strict=True)
    ]


def test_a_rotation_is_learnt_from_one_corpus_and_judged_by_all_of_another():
    """Against the same with numpy alone; what is judged by is never learnt from."""
    judged, learnt = sides_of(1, 40), sides_of(2, 50)
    shared = [
        as_activations(
            [np.concatenate([one.layer(0), other.layer(0)[:7]])],
            language=one.language,
            unit="sentence",
        )
        for one, other in zip(learnt, judged, strict=True)
    ]
    scores = align(*judged, fit=shared)
    assert scores.notes[0] == (
        "The rotation is learnt from 50 sentences of another corpus; 7 that are judged by are left out."
    )
    assert list(scores) == list(align(*judged, fit=learnt))
    a, b, c, d = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (np.float64(side.layer(0)) for side in (*learnt, *judged))
    )
    u, _, v = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
    turned, target = (c - a.mean(0)) @ (u @ v), d - b.mean(0)
    near = (
        turned @ target.T / np.linalg.norm(turned, axis=1)[:, None] / np.linalg.norm(target, axis=1)
    )
    expected = [float((near.argmax(axis) == np.arange(40)).mean()) for axis in (1, 0)]
    after = scores.where(condition="procrustes", quantity="precision_at_1")
    assert [score.value for score in after] == expected and 0.2 < min(expected) < 1
    assert {(s.n, s.details["fitted_on"], s.details["chance"]) for s in after} == {(40, 50, 1 / 40)}


def test_what_a_rotation_is_judged_by_counts_once_where_it_stands_there_twice():
    learnt, once = sides_of(2, 50), sides_of(1, 40)
    twice = [
        as_activations([np.tile(side.layer(0), (2, 1))], language=side.language, unit="sentence")
        for side in once
    ]
    plain, doubled = align(*once, fit=learnt), align(*twice, fit=learnt)
    assert {s.details["groups"] for s in doubled.where(quantity="precision_at_1")} == {40}
    for one, two in zip(plain, doubled.where(quantity="precision_at_1"), strict=False):
        assert (one.n, two.n) == (40, 80) and "groups" not in one.details
    few = [
        as_activations([np.tile(x.layer(0)[:19], (3, 1))], language=x.language, unit="sentence")
        for x in once
    ]
    with pytest.raises(InputError, match="texts: expected at least 20 different sentences, got 19"):
        align(*few, fit=learnt)


@pytest.mark.parametrize(
    ("fit", "more", "argument"),
    [
        (sides_of(2, 50), {"train_fraction": 0.6}, "train_fraction"),
        (sides_of(2, 50, ("fra", "eng")), {}, "fit"),
        (sides_of(2, 50)[:1], {}, "fit"),
        ("folder", {}, "fit"),
        (sides_of(2, 12), {}, "fit"),
        (sides_of(1, 40), {}, "fit"),  # all are judged by
        ([sides_of(2, 50)[0], sides_of(2, 49)[1]], {}, "fit, second"),
    ],
)
def test_a_corpus_that_no_rotation_can_be_learnt_from_is_refused(fit, more, argument):
    with pytest.raises(InputError, match=f"^{argument}: expected"):
        align(*sides_of(1, 40), fit=fit, **more)


def test_words_are_not_fitted_elsewhere():
    with pytest.raises(InputError, match="^fit: expected"):
        align(words(X, "eng", "a"), words(Y, "fra", "b"), dictionary="d", fit=(ENG, FRA))


def test_comparison_is_that_of_the_steps_below_and_takes_names():
    assert list(compare(ENG, FRA)) == compare_stores({"eng": ENG, "fra": FRA}, 0)
    named = compare({"a": X, "b": X[0]}, also=["rsa"])
    assert {(score.source, score.target) for score in named} == {("a", "b")} and named.where(
        quantity="rsa", condition=None
    )[0].value == 1.0
    assert {(s.source, s.target) for s in compare(X[0], Y[0], X[1])} == {
        ("1", "2"),
        ("1", "3"),
        ("2", "3"),
    }


@pytest.mark.parametrize(
    ("sides", "more", "argument"),
    [
        ((ENG, as_activations(Y, language="fra", unit="word")), {}, "unit"),
        ((ENG, as_activations(Y, language="fra", unit="sentence", ids=WORDS)), {}, "fra"),
        ((X, [layer[:50] for layer in Y]), {}, "y"),
        ((ENG, FRA), {"dictionary": "d.txt"}, "dictionary"),
        ((ENG, FRA), {"test": "d.txt"}, "test"),
        ((words(X, "eng", "a"), words(Y, "fra", "b")), {}, "dictionary"),
        ((words(X, "eng", "a"), words(Y, "fra", "b")), {"dictionary": "d", "links": "l"}, "links"),
        (
            (words(X, "eng", "a"), words(Y, "fra", "b")),
            {"dictionary": "d", "test": "t", "train_fraction": 0.7},
            "train_fraction",
        ),
        ((X[0][:10], Y[0][:10]), {}, "texts"),
        ((X, Y), {"by": "nearest"}, "by"),
        ((X, Y), {"train_fraction": 1.0}, "train_fraction"),
        ((ENG, ENG), {}, "language"),
        ((ENG, as_activations(Y, language="eng", unit="sentence", encoder="b")), {}, "language"),
        ((as_activations(X, language="eng", unit="token"), Y), {}, "unit"),
    ],
)
def test_what_is_no_pair_is_refused(sides, more, argument):
    with pytest.raises(InputError, match=f"^{argument}: expected"):
        align(*sides, **more)


@pytest.mark.parametrize(
    ("sides", "more", "argument"),
    [
        ((ENG,), {}, "sides"),
        ((), {}, "sides"),
        ((ENG, FRA), {"also": ["cka"]}, "also"),
        ((X[0], X[0][:20]), {}, "2"),
    ],
)
def test_what_cannot_be_compared_is_refused(sides, more, argument):
    with pytest.raises(InputError, match=f"^{argument}: expected"):
        compare(*sides, **more)


def test_languages_are_told_apart_on_held_out_sentences():
    apart = as_activations([layer + 9 for layer in X], language="fra", unit="sentence")
    found = identify_languages(ENG, apart, seed=2).where(quantity="accuracy", condition=None)
    assert [(score.layer, score.value, score.n) for score in found] == [(0, 1.0, 60), (1, 1.0, 60)]
    for sides, argument in (((ENG,), "sides"), ((ENG, ENG), "language"), ((ENG, X), "unit")):
        with pytest.raises(InputError, match=f"^{argument}: expected"):
            identify_languages(*sides)
    narrow = as_activations([layer[:, :5] for layer in X], language="fra", unit="sentence")
    with pytest.raises(InputError, match="activations: expected one width on all sides, got"):
        identify_languages(ENG, narrow)
