"""Training: what a run leaves behind, settings that change no weight, early stops, and losses that
are no numbers."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy_texts import deep, log, toy_recipe, weights, without_times, write_lines
from transformers import AutoModelForMaskedLM, AutoTokenizer

import crosslens
from crosslens import progress
from crosslens.errors import InputError, TrainingError
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.training import masked_lm as train_module
from crosslens.models.training.checkpoint import latest_checkpoint
from crosslens.models.training.estimate import estimate
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import Source, TrainRecipe, resolve, with_overrides
from crosslens.models.training.sources import held_out_size
from crosslens.recipes import load_recipe


@pytest.fixture(scope="module")
def quick(toy):
    """Eight steps without dropout: what parts of a batch compute does not depend on how it is
    cut."""
    return with_overrides(toy, {"steps": 8, "encoder.dropout": 0.0, "optimisation.peak_rate": 2e-3})


@pytest.fixture(scope="module")
def quickly(quick, tmp_path_factory):
    """The folder of its run. Not to be written to."""
    folder = tmp_path_factory.mktemp("quickly") / "run"
    train(quick, folder)
    return folder


def last_weights(folder):
    return load_file(latest_checkpoint(folder / "checkpoints") / "model.safetensors")


def test_the_run_ends_in_a_folder_that_transformers_loads(undisturbed, toy):
    tokenizer = AutoTokenizer.from_pretrained(undisturbed / "model")
    model, info = AutoModelForMaskedLM.from_pretrained(
        undisturbed / "model", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    with torch.no_grad():
        logits = model(
            **tokenizer("the cat sees a [MASK]", return_tensors="pt", return_token_type_ids=False)
        ).logits
    assert (
        logits.isfinite().all()
        and logits.shape[-1] == tokenizer.vocab_size == model.config.vocab_size
    )
    assert (
        model.config.num_hidden_layers == toy.encoder.layers
        and model.config.hidden_size == toy.encoder.hidden_size
    )


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("g++") is None,
    reason="torch.compile needs a C++ compiler on a CPU, and there is none",
)
@pytest.mark.parametrize("sharing", ["", "sep=emb,1"])
def test_compiled_layers_learn_the_same(quick, tmp_path, sharing):
    """Fused kernels add up in another order: the losses agree to rounding, not to the bit."""
    runs = {}
    for compiled in (False, True):
        folder = tmp_path / str(compiled)
        train(
            with_overrides(
                quick, {"sharing": sharing, "compile": compiled, "log_every": 1, "tlm_share": 0.0}
            ),
            folder,
        )
        runs[compiled] = [line["loss"] for line in log(folder) if "loss" in line]
    assert len(runs[True]) == 8
    assert runs[True] == pytest.approx(runs[False], rel=1e-4)
    assert runs[True][-1] < runs[True][0]


def test_the_loss_falls(undisturbed):
    losses = [line["loss"] for line in log(undisturbed) if "loss" in line]
    # nats; from ln 110 = 4.7 towards the entropy of about 23 words, 3.1
    assert losses[-1] < losses[0] - 0.5
    assert 3 < losses[0] < 6


def test_the_log_has_training_and_validation_lines(undisturbed):
    lines = log(undisturbed)
    assert [line["step"] for line in lines if "loss" in line] == [5, 10, 15, 20, 25, 30]
    checked = [line for line in lines if "perplexity" in line]
    assert [line["step"] for line in checked] == [15, 30]
    for line in checked:
        assert line["perplexity"].keys() == {"eng", "nld"} and all(
            1 < p < 200 for p in line["perplexity"].values()
        )
        assert len(line["retrieval"]["toy eng-nld"]) == 3 and all(
            0 <= hit <= 1 for hit in line["retrieval"]["toy eng-nld"]
        )
    for name in ("tokens", "seconds"):
        told = [line[name] for line in lines]
        assert told == sorted(told) and told[0] > 0


def test_the_folder_says_what_was_trained_on(undisturbed, toy):
    data = json.loads((undisturbed / "data.json").read_text())
    names = ["toy eng", "toy nld", "toy eng-nld"]
    assert {name: numbers["items"] for name, numbers in data["streams"].items()} == dict.fromkeys(
        names, 140
    )
    assert [numbers["drawn"] for numbers in data["streams"].values()] == [0.25, 0.25, 0.5]
    assert data["held_out"]["toy eng-nld"] == 20
    # 110 less the marks
    assert (
        data["vocabulary"]["mode"] == "joint"
        and data["vocabulary"]["overlap"]["eng-nld"]["shared"] == 105
    )
    settings = json.loads((undisturbed / "config.json").read_text())["settings"]
    assert settings["masking"]["rate"] == toy.masking.rate and "log_every" not in settings
    assert [path.name for path in (undisturbed / "checkpoints").iterdir()] == ["step-00000030"]


def test_another_run_of_the_recipe_gives_the_same_bytes_and_another_seed_others(
    undisturbed, toy, tmp_path
):
    train(toy, tmp_path / "again")
    assert weights(tmp_path / "again") == weights(undisturbed)
    train(with_overrides(toy, {"seed": 1}), tmp_path / "other")
    assert weights(tmp_path / "other") != weights(undisturbed)


def test_each_step_and_each_seed_has_dropout_of_its_own(toy, tmp_path, monkeypatch):
    forward, seeds = MaskedLM.forward, []

    def noted(model, *arguments, **named):
        if model.training:
            seeds.append(torch.initial_seed())
        return forward(model, *arguments, **named)

    monkeypatch.setattr(MaskedLM, "forward", noted)
    for seed in (0, 1):
        train(with_overrides(toy, {"steps": 5, "seed": seed}), tmp_path / str(seed))
    assert len(set(seeds)) == len(seeds) == 10


def test_a_batch_in_three_parts_gives_the_update_of_one(quick, quickly, tmp_path):
    train(with_overrides(quick, {"accumulate": 3}), tmp_path / "run")
    whole, parts = last_weights(quickly), last_weights(tmp_path / "run")
    for name in whole:
        # Sums in another order differ by 1e-7 of their size; Adam divides small gradients by
        # themselves, which makes more of it.
        torch.testing.assert_close(parts[name], whole[name], atol=2e-4, rtol=0, msg=name)
    told, expected = (
        [line["loss"] for line in log(folder) if "loss" in line]
        for folder in (tmp_path / "run", quickly)
    )
    assert told == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("sharing", ["", "monolingual"])
def test_batches_may_have_fewer_rows_than_parts(quick, tmp_path, sharing):
    """Fifty parts for about thirty rows: the losses are still those of one part."""
    recipe = deep(quick, sharing=sharing, steps=2, batch_languages="mixed")
    losses = []
    for parts in (1, 50):
        train(dataclasses.replace(recipe, accumulate=parts), tmp_path / str(parts))
        losses.append([line["loss"] for line in log(tmp_path / str(parts)) if "loss" in line])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_what_is_computed_again_is_the_same_to_the_byte(toy, tmp_path):
    """With dropout, whose draws must be the same the second time; and a run that began without may
    go on with it."""
    recipe = with_overrides(toy, {"steps": 6})
    for recompute in (False, True):
        train(dataclasses.replace(recipe, recompute=recompute), tmp_path / str(recompute))
    assert weights(tmp_path / "True") == weights(tmp_path / "False")
    assert train(recipe, tmp_path / "True", resume=True)


def test_bfloat16_products_train_to_nearly_the_same_loss(quick, quickly, tmp_path):
    train(with_overrides(quick, {"precision": "bfloat16"}), tmp_path / "run")
    told, expected = (
        [line["loss"] for line in log(folder) if "loss" in line]
        for folder in (tmp_path / "run", quickly)
    )
    # bfloat16 has 8 bits: products are off by up to 1 in 256
    assert told == pytest.approx(expected, rel=0.01)
    assert told != expected
    assert {tensor.dtype for tensor in last_weights(tmp_path / "run").values()} == {torch.float32}


def test_a_recipe_may_ask_for_half_the_size(toy, tmp_path):
    halved = with_overrides(toy, {"half": True, "steps": 2})
    stored = load_file(train(halved, tmp_path / "run") / "model.safetensors")
    whole = last_weights(tmp_path / "run")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16} and {
        t.dtype for t in whole.values()
    } == {torch.float32}
    assert torch.equal(stored["cls.predictions.bias"], whole["output_bias.shared.value"].half())


@pytest.fixture
def told(monkeypatch):
    """Let validation find what a list says instead of what it measures; perplexity per language,
    one pair per validation."""

    def tell(*pairs):
        left = list(pairs)

        def validate(*_):
            eng, nld = left.pop(0)
            return {"perplexity": {"eng": float(eng), "nld": float(nld)}, "retrieval": {}}

        monkeypatch.setattr(train_module, "validate", validate)

    return tell


def test_a_run_stops_when_validation_no_longer_improves_and_stays_stopped(
    told, toy, tmp_path, capsys
):
    recipe = with_overrides(toy, {"validate_every": 2, "patience": 2})
    # the third is worse, the fourth no better than the second
    told((50, 50), (40, 40), (41, 40), (40, 40))
    progress.be_quiet(False)
    folder = train(recipe, tmp_path / "run").parent
    progress.be_quiet()
    assert "stopped at step 8: no better validation in 2" in capsys.readouterr().err
    assert log(folder)[-1]["step"] == 8 and log(folder)[-1]["perplexity"] == {"eng": 40, "nld": 40}
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "best-00000004",
        "step-00000008",
    ]
    before, lines = weights(folder), log(folder)
    (folder / "model" / "config.json").unlink()  # as if killed while it was written
    train(recipe, folder, resume=True)  # a validation more would find the list empty
    assert weights(folder) == before and log(folder) == lines
    stored = load_file(folder / "model" / "model.safetensors")["cls.predictions.bias"]
    # stopped early, and still the last weights
    assert torch.equal(stored, last_weights(folder)["output_bias.shared.value"])


@pytest.mark.parametrize(("select", "step"), [("best", 4), ("eng", 6), ("nld", 2), ("last", 8)])
def test_the_finished_model_has_the_weights_that_were_asked_for(
    told, toy, tmp_path, monkeypatch, select, step
):
    recipe = with_overrides(toy, {"steps": 8, "validate_every": 2, "select": select})
    seen = {}
    told((50, 20), (30, 30), (29, 40), (60, 60))  # geometric means 31.6, 30, 34, 60
    validate = train_module.validate

    def remember(model, *rest):
        seen[len(seen) * 2 + 2] = model.output_bias.of("eng").value.detach().clone()
        return validate(model, *rest)

    monkeypatch.setattr(train_module, "validate", remember)
    folder = train(recipe, tmp_path / "run").parent
    stored = load_file(folder / "model" / "model.safetensors")["cls.predictions.bias"]
    assert [number for number, bias in seen.items() if torch.equal(stored, bias)] == [step]
    best = folder / "checkpoints" / f"best-{step:08d}"
    assert best.exists() == (select != "last")
    if select != "last":
        assert json.loads((best / "state.json").read_text())["step"] == step
        assert torch.equal(
            stored, load_file(best / "model.safetensors")["output_bias.shared.value"]
        )


def test_patience_counts_on_after_a_resume(told, toy, tmp_path, stopped_at):
    recipe = with_overrides(toy, {"validate_every": 2, "save_every": 2, "patience": 2})
    told((50, 50), (60, 60))
    folder = stopped_at(recipe, 4)  # one worse validation so far
    told((55, 55))
    train(recipe, folder, resume=True)
    assert log(folder)[-1]["step"] == 6


def test_a_text_that_is_too_short_or_missing_is_refused_before_anything_is_written(toy, tmp_path):
    with pytest.raises(InputError, match=r"toy: .*got 160"):
        train(with_overrides(toy, {"validation": 80}), tmp_path / "run")
    missing = dataclasses.replace(
        toy, sources=(dataclasses.replace(toy.sources[0], texts={"eng": str(tmp_path / "no.txt")}),)
    )
    with pytest.raises(InputError, match=r"no.txt: .*got no such file"):
        train(missing, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_language_with_nothing_to_train_on_is_refused_by_name(tmp_path):
    recipe = toy_recipe(tmp_path, n=60, validation=10)
    long = write_lines(
        tmp_path / "long.nld", [f"woord{i} " + "lang en breed " * 40 for i in range(60)]
    )
    source = dataclasses.replace(recipe.sources[0], texts={**recipe.sources[0].texts, "nld": long})
    with pytest.raises(InputError, match="text of nld: .*got none that is"):
        train(dataclasses.replace(recipe, sources=(source,)), tmp_path / "run")


def test_a_plan_that_names_a_layer_too_many_is_refused_before_anything_is_written(toy, tmp_path):
    with pytest.raises(InputError, match="sharing: .*got 1-3"):
        train(with_overrides(toy, {"sharing": "sep-1-3", "tlm_share": 0.0}), tmp_path / "run")
    assert not list(tmp_path.iterdir())


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
    model.output_bias.of("eng").value.register_hook(lambda gradient: gradient * math.inf)
    return loss


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint(
    toy, undisturbed, tmp_path, monkeypatch, value
):
    with monkeypatch.context() as patched:
        patched.setattr(MaskedLM, "forward", at_training_step(13, lambda _, loss: loss * value))
        told = (
            f"loss at step 13: expected a number, got {value}; lower optimisation.peak_rate; the "
            f"last checkpoint is kept"
        )
        with pytest.raises(TrainingError, match=told):
            train(toy, tmp_path / "run")
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None and kept.name == "step-00000010"
    train(toy, tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(undisturbed)
    assert without_times(log(tmp_path / "run")) == without_times(log(undisturbed))


@pytest.mark.parametrize(("step", "last"), [(19, "step-00000010"), (29, "step-00000020")])
def test_a_gradient_that_is_no_number_reaches_neither_checkpoint_nor_model(
    toy, tmp_path, monkeypatch, step, last
):
    """In the last step before a checkpoint no later loss would show it."""
    monkeypatch.setattr(MaskedLM, "forward", at_training_step(step, exploding))
    with pytest.raises(TrainingError, match=f"gradient norm at step {step}: .*got (nan|inf)"):
        train(toy, tmp_path / "run")
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None and kept.name == last
    assert all(tensor.isfinite().all() for tensor in load_file(kept / "model.safetensors").values())
    assert not (tmp_path / "run" / "model").exists()


def test_an_absurd_learning_rate_is_told_as_such(toy, tmp_path):
    absurd = with_overrides(
        toy, {"optimisation.peak_rate": 1e9, "optimisation.warmup": 1, "steps": 16}
    )
    with pytest.raises(
        TrainingError, match=r"(loss|gradient norm|validation loss).*: expected a number.*;"
    ):
        train(absurd, tmp_path / "run")


# 600 sentences in each language, line by line the same
CORPUS = Path(crosslens.__file__).parent / "data" / "corpus"
SMALL = {
    "encoder.hidden_size": 16,
    "encoder.layers": 1,
    "encoder.ffn_size": 16,
    "vocabulary.size": 400,
    "vocabulary.sentences": 2000,
    "vocabulary.kind": "bpe",
    "steps": 2,
}


@pytest.mark.parametrize(("languages", "share"), [(("eng",), 0.0), (("eng", "fra"), 0.5)])
def test_the_simplest_recipe_of_one_language_or_two_runs_on_the_package_s_own_text(
    tmp_path, languages, share
):
    """A name, steps and texts, as the README has them: what is left open fits, and is recorded."""
    texts = ", ".join(f'{language} = "{CORPUS / language}.txt"' for language in languages)
    (tmp_path / "recipe.toml").write_text(
        f'name = "mine"\nsteps = 2000\n[[sources]]\nname = "mine"\ntexts = {{{texts}}}\n'
    )
    recipe = load_recipe(str(tmp_path / "recipe.toml"))
    assert resolve(recipe).optimisation.warmup == 500 and estimate(recipe).recipe.tlm_share == share
    folder = train(with_overrides(recipe, SMALL), tmp_path / "run").parent
    settings = json.loads((folder / "config.json").read_text())["settings"]
    assert (settings["tlm_share"], settings["validation"], settings["optimisation"]["warmup"]) == (
        share,
        {"mine": 60},
        1,
    )
    data = json.loads((folder / "data.json").read_text())
    assert all(0 < n <= 60 for n in data["held_out"].values())
    train(with_overrides(recipe, SMALL), folder, resume=True)  # the same choice again


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"tlm_share": 0.5},
            ("tlm_share: expected 0 where no source has two languages"),
        ),
        (
            {"validation": 300},
            (r"mine: expected more than 600 sentences \(validation holds out 300\)"),
        ),
        (
            {"optimisation.warmup": 500},
            ("optimisation.warmup: expected at most steps = 2 .*"),
        ),
    ],
)
def test_what_was_asked_for_is_not_changed_in_silence(tmp_path, changes, told):
    recipe = TrainRecipe(
        name="mine", sources=(Source(name="mine", texts={"eng": str(CORPUS / "eng.txt")}),), steps=2
    )
    with pytest.raises(InputError, match=told):
        train(with_overrides(recipe, {**SMALL, **changes}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pairs_that_nobody_asked_for_are_left_out_where_none_is_a_translation(toy, tmp_path):
    same = {
        "sources": [
            {"name": "s", "texts": dict.fromkeys(("eng", "nld"), toy.sources[0].texts["eng"])}
        ],
        "steps": 2,
    }
    folder = train(with_overrides(toy, same), tmp_path / "run").parent
    assert json.loads((folder / "config.json").read_text())["settings"]["tlm_share"] == 0
    with pytest.raises(InputError, match="tlm_share: .*got 0.5"):
        train(with_overrides(toy, {**same, "tlm_share": 0.5}), tmp_path / "other")


@pytest.mark.parametrize(
    ("n", "units", "held_out"),
    [(10, "sentences", 1), (600, "sentences", 60), (9_000, "stream", 300), (15, "nsp", 2)],
)
def test_a_tenth_of_a_text_is_held_out_up_to_300(toy, n, units, held_out):
    assert held_out_size(dataclasses.replace(toy, units=units, validation=None), n) == held_out
    assert held_out_size(dataclasses.replace(toy, units=units, validation=7), n) == 7


def test_a_run_is_a_recipe_and_the_same_one(undisturbed, toy):
    """What it left open stays open: no folder comes into it."""
    again = load_recipe(str(undisturbed))
    assert (again.start, again.anchors.dictionary) == ("", "")
    assert dataclasses.replace(again, sources=toy.sources) == toy
