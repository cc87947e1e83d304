"""Stores in float16 and bfloat16, and of some layers only: they are measured as the same numbers in
float32, to the last bit."""

import json

import ml_dtypes
import numpy as np
import pytest
from tests_run_helpers import store

from crosslens.activations import DTYPES
from crosslens.activations_writer import ActivationsWriter
from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.progress import be_quiet
from crosslens.run.measures import (
    language_id_scores,
    make_split,
    retrieval_scores,
    similarity_scores,
)
from crosslens.run.similarities import (
    MEASURES,
    compare_stores,
    correlation_scores,
    measure_layers,
    read_layer,
)
from crosslens.run.word_alignment import gold_of_dictionaries, word_scores

N, D = 64, 8
COMMON = {"encoder": "made", "seed": 0}
HALF = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def stored(folder, language, states, dtype="float32", numbers=None, unit="sentence", **index):
    """A finished store of the given precision and numbers of layers."""
    names = [f"layer_{number:02d}" for number in (numbers or range(len(states)))]
    writer = ActivationsWriter(folder, {}, arrays=names, d=states[0].shape[1], dtype=dtype)
    n = len(states[0])
    with writer.plan() as plan:
        plan.add({"id": [str(i) for i in range(n)], "language": [language] * n, **index})
        plan.end_block()
    writer.write(writer.blocks[0], dict(zip(names, states, strict=True)))
    return writer.finish(language=language, text="made", encoder="made", unit=unit, versions={})


def states(seed=0):
    """Layers of two sides that are ever less alike, with an outlier dimension whose squares float16
    cannot hold."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(N, D))
    sides = [
        [base + scale * rng.normal(size=(N, D)) for scale in (0.1, 0.4, 0.8, 1.2)] for _ in range(2)
    ]
    for side in sides:
        for layer in side:
            layer[:, 3] += 300
    return sides


@pytest.fixture(params=HALF)
def pairs(request, tmp_path):
    """(half precision, the same rounded numbers in float32, the numbers as they were): a pair of
    stores each."""
    kind = HALF[request.param]
    made = {"half": [], "single": [], "exact": []}
    for language, layers in zip(("eng", "fra"), states(), strict=True):
        rounded = [layer.astype(kind).astype(np.float32) for layer in layers]
        made["half"].append(stored(tmp_path / f"half-{language}", language, layers, request.param))
        made["single"].append(stored(tmp_path / f"single-{language}", language, rounded))
        made["exact"].append(stored(tmp_path / f"exact-{language}", language, layers))
    assert made["half"][0].dtype == DTYPES[request.param][1] == kind
    return made.values()


def test_a_layer_is_read_in_float32_and_only_copied_where_it_must_be(pairs, tmp_path):
    half, single, _ = (pair[0] for pair in pairs)
    assert read_layer(half, 2).dtype == np.float32 == read_layer(single, 2).dtype
    assert np.array_equal(read_layer(half, 2), single.layer(2))
    assert isinstance(read_layer(single, 2).base, np.memmap)
    with pytest.raises(InputError, match="layer: expected one that"):
        read_layer(half, 9)


def test_linear_cka_with_intervals_is_that_of_the_rounded_numbers(pairs):
    half, single, exact = (
        [s.as_json() for s in compare_stores(dict(zip("xy", pair, strict=True)), 0)]
        for pair in pairs
    )
    assert half == single != exact


def test_every_other_measure_is_that_of_the_rounded_numbers(pairs):
    half, single, exact = (
        [s.as_json() for s in measure_layers(dict(zip("xy", pair, strict=True)), list(MEASURES), 0)]
        for pair in pairs
    )
    assert half == single != exact


def test_retrieval_and_its_correlation_are_those_of_the_rounded_numbers(pairs):
    found = []
    for x, y in pairs:
        retrieval = retrieval_scores(x, y, make_split(N, 0.5, seed=0), COMMON)
        found.append(
            [
                s.as_json()
                for s in retrieval
                + correlation_scores(x, y, retrieval, COMMON)
                + similarity_scores(x, y, COMMON)
            ]
        )
    assert found[0] == found[1] != found[2]
    mapped = [
        json.loads(line) for line in found[0] if '"procrustes"' in line and '"layer": 0' in line
    ]
    assert all(score["value"] > 0.9 for score in mapped) and mapped  # nothing overflowed on the way


def test_language_identification_is_that_of_the_rounded_numbers(pairs):
    half, single, _ = (
        [s.as_json() for s in language_id_scores(pair, make_split(N, 0.5, seed=0), COMMON)]
        for pair in pairs
    )
    assert half == single


@pytest.mark.parametrize("dtype", HALF)
def test_words_are_aligned_as_the_rounded_numbers(tmp_path, dtype):
    found = []
    for name, kind, precision in (("half", HALF[dtype], dtype), ("single", HALF[dtype], "float32")):
        pair = []
        for language, layers in zip(("eng", "fra"), states(), strict=True):
            rounded = [layer.astype(kind).astype(np.float32) for layer in layers]
            words = [f"{language}{i}" for i in range(N)]
            pair.append(
                stored(
                    tmp_path / f"{name}-{language}",
                    language,
                    rounded,
                    precision,
                    unit="type",
                    word=words,
                )
            )
        from crosslens.readers.dictionary import Dictionary

        parts = (
            Dictionary([(f"eng{i}", f"fra{i}") for i in rows]) for rows in (range(30), range(30, N))
        )
        found.append(
            [s.as_json() for s in word_scores(*pair, gold_of_dictionaries(*pair, *parts), COMMON)]
        )
    assert found[0] == found[1]


def test_the_command_line_reads_half_precision(pairs, capsys):
    printed = []
    for pair in list(pairs)[:2]:
        folders = [str(s.folder) for s in pair]
        try:
            for verb in (["compare", *folders, "--also", "svcca,mutual_knn"], ["align", *folders]):
                assert main([*verb, "--json", "--quiet"]) == 0
        finally:
            be_quiet(False)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and "svcca" in printed[0]


def test_stores_of_some_layers_are_measured_at_these(tmp_path):
    sides = states()
    x, y = (
        stored(tmp_path / name, name, side, numbers=[0, 4, 8, 12])
        for name, side in zip(("eng", "fra"), sides, strict=True)
    )
    whole = [
        store(tmp_path / f"whole-{name}", name, side)
        for name, side in zip(("eng", "fra"), sides, strict=True)
    ]
    split, places = make_split(N, 0.5, seed=0), {0: 0, 1: 4, 2: 8, 3: 12}
    for measured in (
        lambda *pair: retrieval_scores(*pair, split, COMMON),
        lambda *pair: similarity_scores(*pair, COMMON),
        lambda *pair: language_id_scores(pair, split, COMMON),
    ):
        told = [
            [
                (s.quantity, s.condition, s.layer, s.other_layer, s.source, s.value)
                for s in measured(*pair)
            ]
            for pair in ((x, y), whole)
        ]
        assert told[0] == [(q, c, places[a], places.get(b), s, v) for q, c, a, b, s, v in told[1]]


def test_stores_of_other_layers_are_refused(tmp_path):
    x = stored(tmp_path / "x", "eng", states()[0], numbers=[0, 1, 2, 3])
    y = stored(tmp_path / "y", "fra", states()[1], numbers=[4, 5, 6, 7])
    split = make_split(N, 0.5, seed=0)
    with pytest.raises(InputError, match=r"encoders: .*got \[0, 1, 2"):
        retrieval_scores(x, y, split, COMMON)
    with pytest.raises(InputError, match=r"stores: .*got \[0, 1, 2"):
        language_id_scores([x, y], split, COMMON)
    with pytest.raises(InputError, match=r"stores: .*got \[0, 1, 2"):
        measure_layers({"x": x, "y": y}, ["rsa"], 0)
    assert measure_layers({"x": x, "y": y}, [], 0) == []
