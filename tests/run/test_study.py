"""The study from files to scores: completeness, references, what is refused before any work, and
life after kill -9."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests_run_helpers import other_encoder, store

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.models.saved import loading
from crosslens.run import Study, run_study
from crosslens.run.measures import (
    language_id_scores,
    make_split,
    retrieval_scores,
    similarity_scores,
)
from crosslens.run.study import summary
from crosslens.score import Score, read_scores


@pytest.fixture(scope="module")
def finished(small_encoder, kept_texts, tmp_path_factory):
    """A finished study, and what was asked. Not to be written to."""
    study = Study(encoders={"*": str(small_encoder)}, texts=kept_texts)
    return run_study(study, tmp_path_factory.mktemp("study") / "run"), study


def test_every_measurement_stands_beside_its_controls(finished):
    folder, _ = finished
    scores = list(read_scores(folder / "scores.jsonl"))
    found = {(s.task, s.quantity, s.condition, (s.details or {}).get("part")) for s in scores}
    retrieval = {
        ("sentence_retrieval", "precision_at_1", c, "held_out")
        for c in ("unaligned", "procrustes", "random_encoder", "random_encoder_procrustes")
    }
    retrieval |= {
        ("sentence_retrieval", "precision_at_1", c, "all") for c in ("unaligned", "random_encoder")
    }
    retrieval |= {
        ("sentence_retrieval", "precision_at_1", c, "train") for c in ("unaligned", "procrustes")
    }
    similarity = {
        ("similarity", q, c, None)
        for q in ("linear_cka", "debiased_linear_cka")
        for c in (None, "shuffled_items", "random_encoder")
    }
    language = {
        ("language_id", "accuracy", c, None)
        for c in (None, "majority", "shuffled_labels", "random_encoder")
    }
    means = {
        ("mean_sentence_retrieval", "precision_at_1", c, "held_out")
        for c in ("unaligned", "procrustes")
    }
    assert found == retrieval | means | similarity | language
    layers, pairs = 3, 3
    assert (
        len(scores)
        == pairs * 2 * layers * 8
        + 2 * layers
        + pairs * (2 * layers**2 + 2 * 2 * layers)
        + layers * 4
    )
    assert all(s.n > 0 and s.seed == 0 and s.encoder == "small-encoder" for s in scores)
    assert all(s.low <= s.value <= s.high for s in scores if s.low is not None)


def test_retrieval_of_the_study_is_the_plain_loops(finished):
    folder, _ = finished
    a, b = (
        np.array(Activations(folder / "activations" / "encoder" / language).layer(2), np.float64)
        for language in ("eng", "rus")
    )
    hits = 0
    for i in range(len(a)):
        cosines = [row @ a[i] / np.linalg.norm(row) / np.linalg.norm(a[i]) for row in b]
        hits += int(np.argmax(cosines)) == i
    (score,) = [
        s
        for s in read_scores(folder / "scores.jsonl")
        if (s.source, s.target, s.layer, s.condition) == ("eng", "rus", 2, "unaligned")
        and s.details["part"] == "all"
    ]
    assert score.value == hits / len(a) and score.n == 60


def test_every_sentence_is_for_training_or_held_out():
    split = make_split(60, 0.5, seed=3)
    assert sorted([*split.train, *split.held_out]) == list(range(60))


def test_nothing_is_found_where_there_is_nothing(tmp_path):
    """Noise, fewer sentences than dimensions: what is fitted on a sentence finds it again, so
    chance on held-out ones means no leak."""
    rng = np.random.default_rng(0)
    a, b = (
        store(tmp_path / name, name, [rng.normal(size=(100, 128)).astype(np.float32)])
        for name in ("eng", "fra")
    )
    split, common = make_split(100, 0.5, 0), {"encoder": "x", "seed": 0}
    found = {
        s.condition: s.value
        for s in retrieval_scores(a, b, split, common)
        if s.details["part"] == "held_out"
    }
    assert found["procrustes"] <= 0.08  # chance is 0.02 of 50
    found = {s.condition: (s.low, s.high) for s in language_id_scores([a, b], split, common)}
    assert found[None][0] < 0.5 < found[None][1]
    cka = {(s.quantity, s.condition): s.value for s in similarity_scores(a, b, common)}
    # d / (n + d)
    assert cka["linear_cka", "shuffled_items"] == pytest.approx(128 / (100 + 128), abs=0.05)
    assert abs(cka["debiased_linear_cka", "shuffled_items"]) < 0.05


def test_the_random_control_has_other_weights_and_the_same_tokens(finished):
    folder, _ = finished
    real, control = (
        Activations(folder / "activations" / c / "eng") for c in ("encoder", "random_encoder")
    )
    assert real.index() == control.index()
    assert np.abs(real.layer(0) - control.layer(0)).max() > 0.01


def test_a_finished_study_is_not_computed_again(finished, monkeypatch):
    folder, study = finished
    before = (folder / "scores.jsonl").read_bytes()
    monkeypatch.setattr(
        "crosslens.models.saved.loading.load_encoder", lambda *a: pytest.fail("loaded again")
    )
    monkeypatch.setattr(
        "crosslens.run.study.retrieval_scores", lambda *a: pytest.fail("measured again")
    )
    assert run_study(study, folder) == folder
    assert (folder / "scores.jsonl").read_bytes() == before


def test_the_same_seed_gives_the_same_scores_in_another_folder(finished, tmp_path):
    folder, study = finished
    again = run_study(study, tmp_path / "again")
    assert (again / "scores.jsonl").read_bytes() == (folder / "scores.jsonl").read_bytes()


def test_other_settings_are_refused_and_named(finished, texts, small_encoder):
    folder, _ = finished
    with pytest.raises(
        OutputError, match=r"expected the same settings, got other ones \(seed: 0 there, 1 here\)"
    ):
        run_study(Study(encoders={"*": str(small_encoder)}, texts=texts, seed=1), folder)
    Path(texts["fra"]).write_text(
        Path(texts["fra"]).read_text(encoding="utf-8").replace("e", "é", 1), encoding="utf-8"
    )
    with pytest.raises(OutputError, match=r"got other ones \(texts\.fra: .+ there, .+ here\)"):
        run_study(Study(encoders={"*": str(small_encoder)}, texts=texts), folder)


def test_a_seed_of_numpy_is_a_number_like_any_other():
    study = Study(encoders={"*": "model"}, texts={"eng": "e", "fra": "f"}, seed=np.int64(3))
    assert type(study.seed) is int and study.seed == 3


@pytest.mark.parametrize("seed", [-1, 1.5, "a", 2**32])
def test_numbers_that_are_no_seeds_are_refused_by_name(seed):
    with pytest.raises(InputError, match="^seed: expected a whole number from 0 to 4294967295"):
        Study(encoders={"*": "model"}, texts={"eng": "en.txt", "fra": "fr.txt"}, seed=seed)


def test_monolingual_encoders_have_no_language_identification(small_encoder, texts, tmp_path):

    second = other_encoder(tmp_path / "second", layers=2, width=16)
    texts.pop("rus")
    folder = run_study(
        Study(encoders={"eng": str(small_encoder), "fra": str(second)}, texts=texts),
        tmp_path / "mono",
    )
    scores = list(read_scores(folder / "scores.jsonl"))
    assert {s.task for s in scores} == {
        "sentence_retrieval",
        "mean_sentence_retrieval",
        "similarity",
    }
    assert {s.encoder for s in scores} == {"small-encoder / second"}
    notes = json.loads((folder / "config.json").read_text())["notes"]
    assert any(note.startswith("Language identification was not measured") for note in notes)
    rows, text = summary(folder)
    assert len(rows) == 2 and "Language identification" not in text


def test_the_layer_told_of_is_chosen_on_the_training_sentences_and_few_pairs_are_said(tmp_path):
    """The best of the held-out sentences is layer 0, of the training sentences layer 1."""
    held, train = {0: 0.9, 1: 0.5}, {0: 0.2, 1: 0.6}
    common = {"quantity": "precision_at_1", "n": 20, "task": "sentence_retrieval"}
    lines = []
    for layer, way in itertools.product((0, 1), (("eng", "fra"), ("fra", "eng"))):
        place = {**common, "layer": layer, "source": way[0], "target": way[1]}
        for condition in ("unaligned", "procrustes", "random_encoder", "random_encoder_procrustes"):
            details = {"part": "held_out", "chance": 0.05} | (
                {"fitted_on": 20} if condition.endswith("procrustes") else {}
            )
            lines.append(Score(**place, condition=condition, value=held[layer], details=details))
        lines.append(
            Score(
                **place,
                condition="procrustes",
                value=train[layer],
                details={"part": "train", "chance": 0.1, "fitted_on": 10},
            )
        )
    for layer in (0, 1):
        place = {
            "layer": layer,
            "other_layer": layer,
            "source": "eng",
            "target": "fra",
            "task": "similarity",
            "n": 20,
        }
        lines.append(Score(**place, quantity="debiased_linear_cka", value=0.5))
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in lines))
    (tmp_path / "config.json").write_text(json.dumps({"data": {"d": 32}}))
    rows, text = summary(tmp_path)
    assert (
        text.startswith("Layer 1 of 0-1 (chosen on the training sentences by cross-validation")
        and rows[1][2] == "50.0 / 50.0"
    )
    assert "With 20 pairs for 32 dimensions Procrustes" in text
    old = [score for score in lines if (score.details or {}).get("part") != "train"]
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in old))
    assert summary(tmp_path)[1].startswith("Layer 0 of 0-1 (the best mean on these very sentences")


def test_codes_with_hyphens_are_told_apart(small_encoder, texts, tmp_path):
    """eng-fra with eng is another pair than eng with fra-eng: one took the other's place."""
    named = dict(zip(("eng-fra", "eng", "fra-eng"), texts.values(), strict=True))
    encoders = {"*": str(small_encoder)}
    study = Study(encoders=encoders, texts=named)
    scores = list(read_scores(run_study(study, tmp_path / "run") / "scores.jsonl"))
    found = {(s.source, s.target) for s in scores if s.task == "sentence_retrieval"}
    assert found == set(itertools.permutations(named, 2))


def test_two_encoders_of_one_shape_are_two_random_controls(small_encoder, texts, tmp_path):
    second = other_encoder(tmp_path / "second", layers=2, width=16, seed=2)
    texts.pop("rus")
    Path(texts["fra"]).write_bytes(Path(texts["eng"]).read_bytes())
    folder = run_study(
        Study(encoders={"eng": str(small_encoder), "fra": str(second)}, texts=texts),
        tmp_path / "run",
    )
    a, b = (
        Activations(folder / "activations" / "random_encoder" / language).layer(0)
        for language in ("eng", "fra")
    )
    assert np.abs(a - b).max() > 0.01  # one network would give the same sentences the same vectors


def test_a_folder_of_somebody_else_is_left_alone(small_encoder, texts, tmp_path):
    (tmp_path / "mine" / "parts").mkdir(parents=True)
    (tmp_path / "mine" / "scores.jsonl").write_text("my own\n")
    (tmp_path / "mine" / "parts" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="choose another folder"):
        run_study(Study(encoders={"*": str(small_encoder)}, texts=texts), tmp_path / "mine")
    assert (tmp_path / "mine" / "parts" / "thesis.tex").read_text() == "years of work"


def test_a_sentence_without_a_token_is_refused_before_anything_is_written(
    small_encoder, texts, tmp_path, monkeypatch
):
    from crosslens.models.extraction import units

    whole = units._tokenise

    def without_the_eighth(*given, **more):
        tokens = whole(*given, **more)
        tokens.special[tokens.base[7] : tokens.base[8]] = True
        return tokens

    monkeypatch.setattr(units, "_tokenise", without_the_eighth)
    with pytest.raises(InputError, match=r"eng\.txt:8: expected a sentence"):
        run_study(Study(encoders={"*": str(small_encoder)}, texts=texts), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_encoders_of_two_shapes_are_refused_before_anything_is_written(
    small_encoder, texts, tmp_path
):

    texts.pop("rus")
    second = other_encoder(tmp_path / "second", layers=3, width=16)
    with pytest.raises(InputError, match=r"eng: 3 layers, width 16; fra: 4 layers, width 16"):
        run_study(
            Study(encoders={"eng": str(small_encoder), "fra": str(second)}, texts=texts),
            tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_the_best_known_retrieval_is_found_when_it_is_there(tmp_path):
    """Two stores that differ by a rotation: Procrustes finds it, and nothing else could."""

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 16)).astype(np.float32)
    rotation, _ = np.linalg.qr(rng.normal(size=(16, 16)))
    a, b = (
        store(tmp_path / "a", "eng", [x]),
        store(tmp_path / "b", "fra", [(x @ rotation).astype(np.float32)]),
    )
    scores = retrieval_scores(a, b, make_split(200, 0.5, 0), {"encoder": "x", "seed": 0})
    value = {(s.condition, s.details["part"], s.source): s.value for s in scores}
    assert value["procrustes", "held_out", "eng"] == value["procrustes", "held_out", "fra"] == 1.0
    assert value["unaligned", "held_out", "eng"] < 0.1
    cka = {
        (s.quantity, s.condition): s.value
        for s in similarity_scores(a, b, {"encoder": "x", "seed": 0})
    }
    assert cka["linear_cka", None] == pytest.approx(1.0, abs=1e-5)
    assert abs(cka["debiased_linear_cka", "shuffled_items"]) < 0.1


_STAGES = {
    "config": ["config.json"],
    "first activations": ["activations/encoder/eng.partial", "activations/encoder/eng"],
    "second store": ["activations/encoder/eng/manifest.json"],
    "random control": ["activations/random_encoder/eng"],
    "first part": ["parts/retrieval.eng-fra.encoder.jsonl", "scores.jsonl"],
    "last part": ["parts/language_id.encoder.jsonl", "scores.jsonl"],
    "scores": ["scores.jsonl"],
}


_USUAL = ("last part",)  # the others, and random moments, are slow suites


@pytest.mark.parametrize(
    "stage",
    [
        stage if stage in _USUAL else pytest.param(stage, marks=pytest.mark.slow)
        for stage in _STAGES
    ],
)
def test_kill_9_and_the_same_command_again_give_the_undisturbed_scores(
    finished, texts, small_encoder, tmp_path, stage
):
    folder, _ = finished
    out = tmp_path / "killed"
    command = [
        sys.executable,
        "-m",
        "crosslens.cli.main",
        "study",
        "--encoder",
        str(small_encoder),
        "--out",
        str(out),
    ]
    command += [f"--text={language}={path}" for language, path in texts.items()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    deadline = time.monotonic() + 120
    while (
        not any((out / name).exists() for name in _STAGES[stage])
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # else nothing was killed
    assert main(command[3:]) == 0
    assert (out / "scores.jsonl").read_bytes() == (folder / "scores.jsonl").read_bytes()
    assert (out / "report.html").stat().st_size > 10_000
    assert not list(out.rglob("*.partial")) and not (out / "parts").exists()


def test_encoders_are_loaded_on_the_device_that_is_asked_for(
    small_encoder, texts, tmp_path, monkeypatch, capsys
):
    given = [
        "study",
        "--encoder",
        str(small_encoder),
        *(part for name, file in texts.items() for part in ("--text", f"{name}={file}")),
    ]
    assert main([*given, "--out", str(tmp_path / "run"), "--device", "tpu"]) == 2
    assert (
        "device: expected cpu, cuda, cuda:NUMBER or mps, got 'tpu'" in capsys.readouterr().err
        and not (tmp_path / "run").exists()
    )
    seen, load = [], loading.load_encoder

    def watched(name, *, device="?", **more):
        seen.append(device)
        return load(name, **more)

    monkeypatch.setattr(loading, "load_encoder", watched)
    run_study(
        Study(encoders={"*": str(small_encoder)}, texts=texts, device="cuda:7"), tmp_path / "run"
    )
    assert seen == ["cuda:7"] * 3  # the check, the encoder, its random copy
