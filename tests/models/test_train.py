"""Training: what a run leaves behind, that a killed run ends where an undisturbed one does, and every refusal."""

import dataclasses
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy_texts import toy_recipe
from transformers import AutoModelForMaskedLM, AutoTokenizer

from crosslens.errors import InputError, OutputError, StoreError, TrainingError
from crosslens.files import lock_folder
from crosslens.models import train as train_module
from crosslens.models.batches import collate
from crosslens.models.checkpoint import latest_checkpoint, load_checkpoint
from crosslens.models.data import build_streams, read_source
from crosslens.models.encoder import MaskedLM
from crosslens.models.optimisers import build_optimiser
from crosslens.models.settings import with_overrides
from crosslens.models.tokenisation import load_tokenizer
from crosslens.models.train import BatchSource, train, validate

KILLS = ["step-4", "step-17", "in-the-second-checkpoint", "between-log-and-checkpoint", "before-old-checkpoints-go", "in-the-export"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def recipe(texts):
    return toy_recipe(texts)


@pytest.fixture(scope="module")
def undisturbed(recipe, tmp_path_factory):
    """The folder of a run that nothing happened to. Not to be written to."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train(recipe, folder)
    return folder


@pytest.fixture(scope="module")
def killed(texts, tmp_path_factory):
    """The folder with the runs that were killed, by place."""
    folder = tmp_path_factory.mktemp("killed")
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(here / "interrupted_runs.py"), str(texts), str(folder), *KILLS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == [f"{place} killed" for place in KILLS], done.stdout + done.stderr
    return folder


@pytest.fixture
def source(recipe, undisturbed):
    """Batches of the finished run, made anew."""
    tokenizer = load_tokenizer(undisturbed / "tokenizer")
    data = build_streams(recipe, {s.name: read_source(s) for s in recipe.sources}, tokenizer, undisturbed / "tokens")
    return BatchSource(recipe, data, tokenizer.get_vocab_size())


@pytest.fixture
def stopped_at(monkeypatch, recipe, tmp_path):
    """Start the run and stop it in the given step; returns its folder."""

    def run(step, folder="run", **overrides):
        def learning_rate(now, *rest):
            if now == step:
                raise KeyboardInterrupt
            return rate(now, *rest)

        rate = train_module.learning_rate
        with monkeypatch.context() as patched:
            patched.setattr(train_module, "learning_rate", learning_rate)
            with pytest.raises(KeyboardInterrupt):
                train(with_overrides(recipe, overrides), tmp_path / folder)
        return tmp_path / folder

    return run


def log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def without_speed(lines):
    return [{name: value for name, value in line.items() if name != "tokens_per_second"} for line in lines]


def weights(folder):
    return (folder / "model" / "model.safetensors").read_bytes()


def test_the_run_ends_in_a_folder_that_transformers_loads(undisturbed, recipe):
    tokenizer = AutoTokenizer.from_pretrained(undisturbed / "model")
    model, info = AutoModelForMaskedLM.from_pretrained(undisturbed / "model", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    with torch.no_grad():
        logits = model(**tokenizer("the cat sees a [MASK]", return_tensors="pt", return_token_type_ids=False)).logits
    assert logits.isfinite().all() and logits.shape[-1] == tokenizer.vocab_size == model.config.vocab_size
    assert model.config.num_hidden_layers == recipe.encoder.layers and model.config.hidden_size == recipe.encoder.hidden_size


def test_the_loss_falls(undisturbed):
    losses = [line["loss"] for line in log(undisturbed) if "loss" in line]
    assert losses[-1] < losses[0] - 0.5  # nats; from ln 110 = 4.7 towards the entropy of about 23 words, 3.1
    assert 3 < losses[0] < 6


def test_the_log_has_training_and_validation_lines(undisturbed):
    lines = log(undisturbed)
    assert [line["step"] for line in lines if "loss" in line] == [5, 10, 15, 20, 25, 30]
    checked = [line for line in lines if "perplexity" in line]
    assert [line["step"] for line in checked] == [15, 30]
    for line in checked:
        assert line["perplexity"].keys() == {"eng", "nld"} and all(1 < p < 200 for p in line["perplexity"].values())
        assert len(line["retrieval"]["toy eng-nld"]) == 3 and all(0 <= hit <= 1 for hit in line["retrieval"]["toy eng-nld"])
    tokens = [line["tokens"] for line in lines]
    assert tokens == sorted(tokens) and tokens[0] > 0


def test_the_log_counts_the_tokens_that_were_trained_on(undisturbed, source):
    assert log(undisturbed)[-1]["tokens"] == sum(int(source[step][0].lengths.sum()) for step in range(30))


def test_the_folder_says_what_was_trained_on(undisturbed, recipe):
    data = json.loads((undisturbed / "data.json").read_text())
    assert {name: numbers["items"] for name, numbers in data["streams"].items()} == dict.fromkeys(
        ["toy eng", "toy nld", "toy eng-nld"], 140
    )
    assert [numbers["drawn"] for numbers in data["streams"].values()] == [0.25, 0.25, 0.5]
    assert data["held_out"]["toy eng-nld"] == 20
    settings = json.loads((undisturbed / "config.json").read_text())["settings"]
    assert settings["masking"]["rate"] == recipe.masking.rate and "log_every" not in settings
    assert [path.name for path in (undisturbed / "checkpoints").iterdir()] == ["step-00000030"]


def test_another_run_of_the_recipe_gives_the_same_bytes_and_another_seed_others(undisturbed, recipe, tmp_path):
    train(recipe, tmp_path / "again")
    assert weights(tmp_path / "again") == weights(undisturbed)
    train(with_overrides(recipe, {"seed": 1}), tmp_path / "other")
    assert weights(tmp_path / "other") != weights(undisturbed)


@pytest.mark.parametrize("place", KILLS)
def test_a_killed_run_goes_on_to_the_same_bytes(killed, undisturbed, recipe, place):
    folder = killed / place
    assert not (folder / "model" / "config.json").exists()
    if place == "step-4":
        assert latest_checkpoint(folder / "checkpoints") is None
    assert train(recipe, folder, resume=True) == folder / "model"
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (folder / "model" / name).read_bytes() == (undisturbed / "model" / name).read_bytes(), name
    assert without_speed(log(folder)) == without_speed(log(undisturbed))
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step-00000030"]


def test_a_recipe_may_ask_for_half_the_size(recipe, tmp_path):
    halved = with_overrides(recipe, {"half": True, "steps": 2})
    stored = load_file(train(halved, tmp_path / "run") / "model.safetensors")
    whole = load_file(tmp_path / "run" / "checkpoints" / "step-00000002" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16} and {t.dtype for t in whole.values()} == {torch.float32}
    assert torch.equal(stored["cls.predictions.bias"], whole["output_bias"].half())


def test_how_often_is_logged_and_saved_changes_no_weight(stopped_at, undisturbed, recipe):
    folder = stopped_at(13, save_every=4, validate_every=6, log_every=3)
    train(with_overrides(recipe, {"save_every": 7}), folder, resume=True)
    assert weights(folder) == weights(undisturbed)


def test_a_log_line_that_was_cut_is_dropped(stopped_at, recipe, undisturbed):
    folder = stopped_at(12)
    with open(folder / "log.jsonl", "a") as file:
        file.write('{"step": 12, "los')
    train(recipe, folder, resume=True)
    assert without_speed(log(folder)) == without_speed(log(undisturbed))


def test_a_finished_run_is_left_as_it_is(undisturbed, recipe, tmp_path):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    assert train(recipe, folder, resume=True) == folder / "model"
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_is_not_continued_unasked(undisturbed, recipe):
    with pytest.raises(OutputError, match="expected a new folder, got a run of this recipe; add --resume to go on with it"):
        train(recipe, undisturbed)


def test_a_run_of_another_recipe_is_refused_naming_the_setting(undisturbed, recipe):
    other = with_overrides(recipe, {"masking.rate": 0.3, "seed": 7})
    for resume in (False, True):
        with pytest.raises(
            OutputError, match=r"expected the same settings, got other ones \(masking.rate: 0.15 there, 0.3 here; seed: 0 there, 7 here\)"
        ):
            train(other, undisturbed, resume=resume)


def test_a_text_that_is_too_short_or_missing_is_refused_before_anything_is_written(recipe, tmp_path):
    with pytest.raises(InputError, match=r"toy: expected more than 160 sentences \(validation holds out 80\), got 160; lower validation"):
        train(with_overrides(recipe, {"validation": 80}), tmp_path / "run")
    missing = dataclasses.replace(recipe, sources=(dataclasses.replace(recipe.sources[0], texts={"eng": str(tmp_path / "no.txt")}),))
    with pytest.raises(InputError, match=r"no.txt: expected a text file that can be read, got no such file; check the path"):
        train(missing, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_things_is_refused(recipe, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match="expected a new folder, or one of a run, got a folder with other files in it; choose another"):
        train(recipe, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_two_runs_do_not_share_a_folder(stopped_at, recipe):
    folder = stopped_at(3)
    with lock_folder(folder), pytest.raises(OutputError, match="expected a folder that nobody else works in, got one with a running"):
        train(recipe, folder, resume=True)


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors"])
@pytest.mark.parametrize("how", ["a flipped bit", "cut short", "gone"])
def test_a_damaged_checkpoint_is_refused_by_name(undisturbed, recipe, tmp_path, name, how):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    shutil.rmtree(folder / "model")
    path = folder / "checkpoints" / "step-00000030" / name
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content if how == "a flipped bit" else content[:-10])
    if how == "gone":
        path.unlink()
    with pytest.raises(StoreError, match=f"step-00000030/{name}: expected the file that was written, got another checksum; delete this"):
        train(recipe, folder, resume=True)


def test_the_latest_checkpoint_is_the_newest_whole_one(tmp_path):
    assert latest_checkpoint(tmp_path / "none yet") is None
    for name in ("step-00000900", "step-00001000", "step-00001100.partial", "step-00001200"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("model.safetensors" if name.endswith("1200") else "state.json")).touch()
    assert latest_checkpoint(tmp_path) == tmp_path / "step-00001000"


def test_a_checkpoint_of_other_settings_is_refused(undisturbed, recipe):
    path = undisturbed / "checkpoints" / "step-00000030"
    settings = json.loads((path / "state.json").read_text())["settings"]
    model = MaskedLM(recipe.encoder)
    optimiser = build_optimiser(model, recipe.optimisation)
    with pytest.raises(StoreError, match=r"got other ones \(seed: 0 there, 5 here\); use another folder, or the settings of this run"):
        load_checkpoint(path, model, optimiser, {**settings, "seed": 5})


def at_training_step(step, change):
    """MaskedLM.forward with ``change`` of its result in one training step."""
    forward, calls = MaskedLM.forward, []

    def changed(model, *arguments, **named):
        loss = forward(model, *arguments, **named)
        if model.training:
            calls.append(loss)
            return change(model, loss) if len(calls) == step + 1 else loss
        return loss

    return changed


def exploding(model, loss):
    """The same loss with a gradient that is too large for a float."""
    model.output_bias.register_hook(lambda gradient: gradient * math.inf)
    return loss


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint(recipe, undisturbed, tmp_path, monkeypatch, value):
    with monkeypatch.context() as patched:
        patched.setattr(MaskedLM, "forward", at_training_step(13, lambda _, loss: loss * value))
        told = f"loss at step 13: expected a number, got {value}; lower optimisation.peak_rate; the last checkpoint is kept"
        with pytest.raises(TrainingError, match=told):
            train(recipe, tmp_path / "run")
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None and kept.name == "step-00000010"
    train(recipe, tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(undisturbed)


@pytest.mark.parametrize(("step", "last"), [(19, "step-00000010"), (29, "step-00000020")])
def test_a_gradient_that_is_no_number_reaches_neither_checkpoint_nor_model(recipe, tmp_path, monkeypatch, step, last):
    """In the last step before a checkpoint no later loss would show it."""
    monkeypatch.setattr(MaskedLM, "forward", at_training_step(step, exploding))
    with pytest.raises(
        TrainingError, match=f"gradient norm at step {step}: expected a number, got (nan|inf); lower optimisation.peak_rate"
    ):
        train(recipe, tmp_path / "run")
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None and kept.name == last
    assert all(tensor.isfinite().all() for tensor in load_file(kept / "model.safetensors").values())
    assert not (tmp_path / "run" / "model").exists()


def test_an_absurd_learning_rate_is_told_as_such(recipe, tmp_path):
    absurd = with_overrides(recipe, {"optimisation.peak_rate": 1e9, "optimisation.warmup": 1, "steps": 16})
    with pytest.raises(TrainingError, match=r"(loss|gradient norm|validation loss).*: expected a number.*; lower optimisation.peak_rate"):
        train(absurd, tmp_path / "run")


def test_a_batch_depends_on_its_step_alone(source, recipe):
    """Asked for in another order, by a source that has just been made: what resuming does."""
    in_order = [source[step] for step in range(30)]
    fresh = BatchSource(recipe, source.data, len(source.is_special))
    for step in (29, 3, 17, 3, 0):
        batch, tensors = fresh[step] if step != 17 else BatchSource(recipe, source.data, len(source.is_special))[17]
        assert np.array_equal(batch.ids, in_order[step][0].ids), step
        assert all(torch.equal(tensor, in_order[step][1][name]) for name, tensor in tensors.items()), step


def test_masks_are_drawn_anew_in_every_step_and_for_every_seed(source, recipe):
    masks = []
    for seed in (recipe.seed, recipe.seed + 1):
        batches = BatchSource(with_overrides(recipe, {"seed": seed}), source.data, len(source.is_special))
        batches._items = lambda *_: np.arange(8)
        batches.which[:] = 0
        assert all(np.array_equal(batches[step][0].ids, batches[0][0].ids) for step in range(6))
        masks += [tuple(batches[step][1]["masked"].tolist()) for step in range(6)]
    assert len(set(masks)) == 12


def test_a_stream_gives_every_sentence_once_before_any_comes_twice(recipe, source):
    long = BatchSource(with_overrides(recipe, {"steps": 400}), source.data, len(source.is_special))
    for which, stream in enumerate(source.data.streams):
        steps = np.flatnonzero(long.which == which)
        items = np.concatenate([long._items(which, stream, int(long.turn[step])) for step in steps])
        n = len(stream.rows)
        epochs = len(items) // n
        assert epochs >= 2
        for epoch in range(epochs):
            assert sorted(items[epoch * n : (epoch + 1) * n].tolist()) == list(range(n))
        assert not np.array_equal(items[:n], items[n : 2 * n])  # the next epoch has its own order


def test_a_model_that_knows_nothing_is_as_perplexed_as_the_vocabulary_is_large(recipe, source):
    model = MaskedLM(with_overrides(recipe, {"encoder.vocab_size": len(source.is_special)}).encoder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    told = validate(recipe, model, source)["perplexity"]
    assert told == pytest.approx(dict.fromkeys(["eng", "nld"], len(source.is_special)), rel=1e-5)


def test_a_validation_loss_beyond_every_perplexity_is_told_as_such(recipe, source):
    """A model that is certain of one token: the loss is a number, its exponential is beyond a float."""
    model = MaskedLM(with_overrides(recipe, {"encoder.vocab_size": len(source.is_special)}).encoder)
    with torch.no_grad():
        model.output_bias[0] = 1e5
    with pytest.raises(TrainingError, match="validation loss of eng: expected a number, got inf; lower optimisation.peak_rate"):
        validate(recipe, model, source)


def test_validation_retrieves_as_a_loop_does(recipe, source):
    model = MaskedLM(with_overrides(recipe, {"encoder.vocab_size": len(source.is_special)}).encoder, 3)
    told = validate(recipe, model, source)["retrieval"]["toy eng-nld"]
    assert model.training
    model.eval()
    stream = source.data.held_out["toy eng-nld"]
    hits = []
    for layer in range(recipe.encoder.layers + 1):
        sides = []
        for side in stream.sides:
            vectors = []
            for row in stream.rows:
                ids = torch.tensor([[2, *side[row].tolist(), 3]])
                with torch.no_grad():
                    mean = model.encoder(ids, torch.arange(ids.shape[1])[None])[layer][0, 1:-1].mean(0)
                vectors.append((mean / mean.norm()).numpy())
            sides.append(np.array(vectors))
        hits.append(float(((sides[0] @ sides[1].T).argmax(1) == np.arange(len(stream.rows))).mean()))
    assert told == pytest.approx(hits, abs=1e-4)  # four decimals


def test_the_first_step_is_the_one_written_out_here(recipe, source, undisturbed):
    """The loss that the loop would see in step 0, from BERT's published formula by transformers, dropout off."""
    batch, tensors = source[0]
    model = AutoModelForMaskedLM.from_pretrained(undisturbed / "model").eval()
    ours = MaskedLM(with_overrides(recipe, {"encoder.vocab_size": len(source.is_special)}).encoder)
    ours.load_state_dict(load_file(undisturbed / "checkpoints" / "step-00000030" / "model.safetensors"))
    real = torch.arange(batch.ids.shape[1]) < tensors["lengths"][:, None]
    labels = torch.full(batch.ids.shape, -100)
    labels.view(-1)[tensors["masked"]] = tensors["labels"]
    with torch.no_grad():
        reference = model(input_ids=tensors["ids"], position_ids=tensors["positions"], attention_mask=real.long(), labels=labels).loss
        loss = ours.eval()(**tensors) / len(tensors["labels"])
    assert loss.item() == pytest.approx(reference.item(), abs=1e-5)
    stream = source.data.streams[int(source.which[0])]
    assert np.array_equal(batch.ids, collate(stream, source._items(int(source.which[0]), stream, 0), 2, 3, 0).ids)
