"""A layer whose vectors are all alike is no number: it is not measured, with its reason, and the
others go on."""

import html
import json
import math
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests_run_helpers import context_stores, store, word_store
from typed import typed

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.run.collapse import is_collapsed, reason_of, refuse_unmeasured
from crosslens.run.comparison import compare_with_controls
from crosslens.run.measures import (
    language_id_scores,
    make_split,
    retrieval_scores,
    similarity_scores,
)
from crosslens.run.study import summary
from crosslens.run.word_alignment import gold_of_links, word_scores
from crosslens.score import Score, not_measured, read_scores

N, D = 40, 4
ALIKE = "all vectors of eng are alike; all vectors of fra are alike"


def rows(seed):
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def same(seed, noise=0.0):
    """One vector for all items, and what rounding may make of it."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=D) * (1 + noise * rng.normal(size=(N, D)))).astype(np.float32)


@pytest.fixture
def stores(tmp_path):
    """Layer 0 varies, layer 1 is one vector, layer 2 is zero, layer 3 differs by rounding, layer 4
    varies."""
    for at, language in enumerate(("eng", "fra")):
        layers = [rows(at), same(at), np.zeros((N, D), np.float32), same(at, 1e-6), rows(9 + at)]
        store(tmp_path / language, language, layers)
    return [Activations(tmp_path / language) for language in ("eng", "fra")]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_what_rounding_makes_of_one_vector_is_one_vector(dtype):
    assert is_collapsed([same(0, 3e-6).astype(dtype)]) and is_collapsed([np.zeros((3, 2), dtype)])
    assert not is_collapsed([rows(0).astype(dtype)])
    # each language has a vector of its own
    assert not is_collapsed([same(0).astype(dtype), -same(0).astype(dtype)])


def test_small_differences_beside_a_large_column_are_no_rounding():
    layer = rows(0) * 0.01
    layer[:, 0] = 300
    assert not is_collapsed([layer])


def test_words_without_a_vector_are_passed_over():
    layer = same(0)
    layer[3] = np.nan
    assert is_collapsed([layer])
    layer[5] += 1
    assert not is_collapsed([layer])


def test_collapsed_layers_have_no_retrieval_similarity_or_language(stores):
    split, common = make_split(N, 0.5, 0), {"encoder": "x", "seed": 0}
    scores = retrieval_scores(*stores, split, common, hits=True, on_train=True) + similarity_scores(
        *stores, common
    )
    for score in scores:
        lost = {score.layer, score.other_layer} & {1, 2, 3}
        assert math.isnan(score.value) == bool(lost), score
        assert not lost or (
            score.low is None and score.high is None and "alike" in score.details["reason"]
        )
        assert json.loads(score.as_json())["value"] is None or not lost
    found = {s.layer: s for s in language_id_scores(stores, split, common) if s.condition is None}
    # one vector for each language tells the language
    assert {layer for layer, score in found.items() if math.isnan(score.value)} == {2}
    assert found[1].value == 1 and found[2].details["reason"] == ALIKE


def test_a_mean_over_directions_is_missing_where_one_of_them_is(stores, tmp_path):
    third = store(tmp_path / "rus", "rus", [rows(5) for _ in range(5)])
    split, common, scores = make_split(N, 0.5, 0), {"encoder": "x", "seed": 0}, []
    for pair in ((stores[0], stores[1]), (stores[0], third)):
        scores += retrieval_scores(*pair, split, common, hits=True)
        scores += retrieval_scores(*pair, split, common, "random_encoder", hits=True)
    means = {
        s.layer: s
        for s in compare_with_controls(scores)
        if s.task == "mean_sentence_retrieval" and s.condition == "procrustes"
    }
    assert {layer for layer, score in means.items() if math.isnan(score.value)} == {1, 2, 3}
    assert (
        means[1]
        .details["reason"]
        .startswith("4 of 4 directions were not measured: all vectors of eng are alike")
    )


@pytest.mark.parametrize("by", ["cosine", "csls", "margin_ratio", "inverted_softmax"])
def test_align_goes_on_with_the_other_layers(stores, capsys, by):
    assert main(["align", *(str(s.folder) for s in stores), "--by", by]) == 0
    told = capsys.readouterr().out
    assert f"Not measured: layers 1, 2, 3 ({ALIKE})." in told
    assert re.search(r"\n +2  eng → fra  - +- +- +- +20\n", told) and "nan" not in told


def test_compare_goes_on_with_the_other_layers(stores, capsys):
    folders = [str(s.folder) for s in stores]
    assert main(["compare", *folders, "--also", "rsa,mutual_knn", "--json"]) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lost = {(s["layer"], s["other_layer"]) for s in scores if s["value"] is None}
    assert lost == {(i, j) for i in range(5) for j in range(5) if {i, j} & {1, 2, 3}}
    plain = [
        s
        for s in similarity_scores(*stores, {"encoder": "x", "seed": 0})
        if not s.condition and not math.isnan(s.value)
    ]
    there = {
        (s["quantity"], s["layer"], s["other_layer"]): s["value"]
        for s in scores
        if s["condition"] is None
    }
    for score in plain:
        assert there[score.quantity, score.layer, score.other_layer] == pytest.approx(
            score.value, abs=1e-6
        )


def test_stores_of_which_no_layer_varies_are_refused_with_the_reason(tmp_path, capsys):
    folders = [str(tmp_path / language) for language in ("eng", "fra")]
    for folder, language in zip(folders, ("eng", "fra"), strict=True):
        store(folder, language, [same(0), np.zeros((N, D), np.float32)])
    for verb in (["align"], ["compare"], ["probe"]):
        assert main([*verb, *folders]) == 2
        assert (
            f"activations: expected a layer that can be measured, got none ({ALIKE})"
            in capsys.readouterr().err
        )
    assert main(["compare", *folders, "--also", "rsa"]) == 2
    assert "rsa of layer 0: all vectors of eng are alike" in capsys.readouterr().err


def test_words_of_a_collapsed_layer_are_not_measured(tmp_path):
    x, y, links = context_stores(tmp_path)
    index = {name: x.index([name])[name] for name in ("text", "position")}
    ones = np.ones((x.n, x.d))
    x, y = (
        word_store(tmp_path / s.language, s.language, [ones, np.array(s.layer(0))], index, "word")
        for s in (x, y)
    )
    scores = word_scores(
        x, y, gold_of_links(x, y, links, make_split(40, 0.5, 0)), {"encoder": "x", "seed": 0}
    )
    keys = {
        layer: {
            (s.quantity, s.condition, s.source, s.task, s.n) for s in scores if s.layer == layer
        }
        for layer in (0, 1)
    }
    assert keys[0] == keys[1]
    assert all(math.isnan(s.value) == (s.layer == 0) for s in scores)
    assert not_measured(scores) == [
        "Not measured: layer 0 (all vectors of eng are alike; all vectors of rus are alike)."
    ]


@pytest.fixture
def collapsed(small_encoder, tmp_path):
    """Encoders whose last layer, or every layer, is one vector."""

    def make(name, layer_norm):
        folder = tmp_path / name
        shutil.copytree(small_encoder, folder)
        weights = dict(load_file(folder / "model.safetensors"))
        weights[f"bert.{layer_norm}.LayerNorm.weight"] = np.zeros(16, np.float32)
        weights[f"bert.{layer_norm}.LayerNorm.bias"] = np.linspace(-1, 2, 16, dtype=np.float32)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return str(folder)

    return make


def test_a_study_goes_on_without_a_layer_that_has_collapsed(collapsed, texts, tmp_path, capsys):
    told = [f"--text={language}={texts[language]}" for language in ("eng", "fra")]
    assert (
        typed(
            "study",
            "--encoder",
            collapsed("last", "encoder.layer.1.output"),
            *told,
            "--out",
            str(tmp_path / "run"),
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert f"Not measured: layer 2 ({ALIKE})." in shown and not re.search(r"Layer 2 of", shown)
    scores = list(read_scores(tmp_path / "run" / "scores.jsonl"))
    lost = [s for s in scores if math.isnan(s.value)]
    assert {2} == {max(s.layer, s.other_layer or 0) for s in lost}
    assert {s.task for s in lost} == {
        "sentence_retrieval",
        "mean_sentence_retrieval",
        "similarity",
        "language_id",
    }
    page = html.unescape((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert f"layer 2 ({ALIKE})" in page and "recorded no reason" not in page and ">nan<" not in page


def test_a_study_of_which_no_layer_varies_is_refused_before_its_control_is_extracted(
    collapsed, texts, tmp_path, capsys
):
    told = [f"--text={language}={texts[language]}" for language in ("eng", "fra")]
    assert (
        typed(
            "study",
            "--encoder",
            collapsed("all", "embeddings"),
            *told,
            "--out",
            str(tmp_path / "run"),
        )
        == 2
    )
    message = (
        "expected vectors that differ between sentences, got the same vector for every sentence, "
        "at every layer of all"
    )
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "activations" / "random_encoder").exists()


def test_a_study_without_retrieval_at_any_layer_says_so(tmp_path):
    common = {
        "quantity": "precision_at_1",
        "task": "sentence_retrieval",
        "layer": 0,
        "n": 20,
        "source": "eng",
        "target": "fra",
    }
    line = Score(
        **common,
        value=math.nan,
        condition="procrustes",
        details={"part": "held_out", "reason": "none"},
    ).as_json()
    (tmp_path / "scores.jsonl").write_text(line + "\n", encoding="utf-8")
    assert summary(tmp_path) == (
        [],
        "Sentence retrieval could be measured at no layer; scores.jsonl and the report have "
        "the rest.\n"
        "Not measured: layer 0 (none).",
    )


def test_only_a_run_without_any_value_is_refused():
    lost = Score(quantity="accuracy", value=math.nan, n=3, layer=0, details={"reason": "r"})
    refuse_unmeasured([lost, Score(quantity="accuracy", value=0.5, n=3)], "x")
    with pytest.raises(InputError, match=r"x: .*got none \(r\)"):
        refuse_unmeasured([lost], "x")
    assert reason_of(InputError("x: expected a, got b; do c")) == "x: expected a, got b"
