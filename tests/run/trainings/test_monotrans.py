"""MonoTrans from end to end, small: both trainings and the joined model from one command, what moves
in which step and what stands still, stopping, and what cannot be."""

import dataclasses
import json
import math
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from monotrans_toy import SMALL
from safetensors.torch import load_file
from toy_texts import log, two_languages, write_lines
from typed import typed

from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError, TrainingError
from crosslens.front.calls import training_recipes
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.examples import TextExamples
from crosslens.models.finetuning.finetune import fine_tune
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.saved.joining import join_languages
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import load_model
from crosslens.models.training import loop, masked_lm
from crosslens.models.training.estimate import estimate
from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import build_model, prepare
from crosslens.models.training.sources import fit_to_text, read_source, split_rows
from crosslens.models.training.validation import held_out_losses
from crosslens.recipes.clwe import clwe
from crosslens.recipes.joint import joint
from crosslens.recipes.monotrans import VARIANTS, monotrans
from crosslens.report import write_report
from crosslens.report.pages import monotrans_runs
from crosslens.report.pages.page import write_comparison
from crosslens.run.trainings.monotrans import run_monotrans, summary, trained_rows
from crosslens.score import read_scores
from crosslens.stats import mean_interval

ENGLISH, DUTCH = two_languages(160)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two languages, and a third that is the second in capitals."""
    folder = tmp_path_factory.mktemp("texts")
    write_lines(folder / "eng.txt", ENGLISH[:120])
    write_lines(folder / "nld.txt", DUTCH[40:])
    write_lines(folder / "deu.txt", [line.upper() for line in DUTCH[20:]])
    return folder


@pytest.fixture(scope="module")
def asked(texts):
    return {**SMALL, "source": f"eng:{texts}/eng.txt", "target": f"nld:{texts}/nld.txt"}


def run(asked, folder, **how):
    return run_monotrans(monotrans(asked, folder), folder, device="cpu", **how)


@pytest.fixture(scope="module")
def finished(asked, texts, tmp_path_factory):
    """A finished run with two targets and LAMB. Not to be written to."""
    two = {
        "target": f"nld:{texts}/nld.txt,deu:{texts}/deu.txt",
        "optimisation.optimiser": "lamb",
    }
    return run({**asked, **two}, tmp_path_factory.mktemp("monotrans") / "run")


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


# -- pages


def test_the_picture_of_the_steps_is_of_the_runs_own_models(finished):
    page = write_report(finished).read_text()
    picture = re.search(r'<svg[^>]*aria-label="(bias: [^"]*)"', page).group(1)
    told = dict(one.split(": ", 1) for one in picture.split("; "))
    moved = ["step 1 trained", "step 2 stands still", "step 3 trained", "step 4 stands still"]
    assert told["layers 1 to 2"] == told["special"] == ", ".join(moved)
    assert told["adapters"] == "step 2 trained, step 4 put in"
    own = "step 1 trained, step 2 trained, step 3 stands still, step 4 put in"
    assert told["token, softmax"] == told["position"] == own
    assert told["transform"] == "step 1 trained, step 2 stands still"


def test_a_model_that_learnt_next_sentences_reads_pairs_by_its_segments(finished, asked):
    encoder = load_encoder(finished / "model").in_language("eng")
    first, second = (encoder.tokenizer(text).encodings[0].ids for text in ENGLISH[:2])
    (pair,) = encoder.tokenizer(*ENGLISH[:2]).encodings
    assert pair.ids == [*first, *second[1:]]
    assert pair.type_ids == [0] * len(first) + [1] * (len(second) - 1)


def test_runs_of_several_variants_and_seeds_are_one_page(
    asked, texts, finished, tmp_path, monkeypatch
):
    told = {**asked, "target": f"nld:{texts}/nld.txt", "variant": "token"}
    folders = []
    for seed in (0, 1):
        mine, place = {**told, "seed": seed}, tmp_path / f"token-{seed}"
        folders.append(run_monotrans(monotrans(mine, place), place, device="cpu", asked=mine))
    drawn, real = dict[str, list](), monotrans_runs.series_panel

    def recorded(name, title, lines, *more):
        drawn[title.partition(" in step 2")[0]] = lines
        return real(name, title, lines, *more)

    monkeypatch.setattr(monotrans_runs, "series_panel", recorded)
    page = write_comparison([*folders, finished], tmp_path / "page.html").read_text()
    assert "How each variant learns a language in step 2." in page
    for code, name, runs in (("nld", "Dutch", [*folders, finished]), ("deu", "German", [finished])):
        lines = drawn[f"held-out perplexity of {name}"]
        for run_, line in zip(runs, lines, strict=True):  # a line for each training
            log = map(json.loads, (run_ / f"step-2/{code}/log.jsonl").read_text().splitlines())
            logged = [one["perplexity"][code] for one in log if "perplexity" in one]
            assert logged and [*line.values] == pytest.approx(logged)
    values = []
    for folder in folders:
        found = {(s.encoder, s.condition): s.value for s in read_scores(folder / "scores.jsonl")}
        values.append(found["step-2/nld", None])
    mean, low, high = mean_interval(np.array(values))
    assert f"token {mean:.1f} [" in page and f"{high:.1f}]" in page
    assert "MonoTrans, English to Dutch and German" in page and "Dutch</strong>, perplexity" in page
    assert "67.8" in page and "66.8" in page  # printed of token and of adapters
    names = [f"{name} ({n})" for name, n in (("token", 2), ("adapters", 1))]
    assert all(name in page for name in names)
    alone = write_comparison(folders, tmp_path / "seeds.html").read_text()
    assert f"token {mean:.1f} [" in alone
    mine, place = {**told, "seed": 2, "steps": 3}, tmp_path / "shorter"
    run_monotrans(monotrans(mine, place), place, device="cpu", asked=mine)
    page = write_comparison([*folders, place], tmp_path / "apart.html").read_text()
    assert "shorter" in page and "token-0" in page and "token 4" not in page  # no repetitions
    with pytest.raises(InputError, match="report: expected each folder once"):
        write_comparison([finished, finished], tmp_path / "twice.html")
    other = run({**told, "target": f"deu:{texts}/deu.txt"}, tmp_path / "deu")
    with pytest.raises(InputError, match="that learn one target language"):
        write_comparison([folders[0], other], tmp_path / "other.html")


# -- what moves in which step


def test_step_2_leaves_every_bit_of_the_body_and_moves_all_that_is_the_languages_own(finished):
    """Golden checks 18 and 20 for step 2, with LAMB and weight decay."""
    body = weights(finished / "step-1")
    for language in ("nld", "deu"):
        now = weights(finished / "step-2" / language)
        own = {name for name in now if f".own_{language}." in name}
        others = {name for name in now if name not in body and name not in own}
        assert all(torch.equal(now[name], tensor) for name, tensor in body.items())
        assert all("adapters" in name and ".own_eng." in name for name in others)
        assert all(not now[name].any() for name in others if ".up." in name)
        assert {name.split(".")[1] for name in own} == {
            "token",
            "position",
            "adapters",
            f"own_{language}",
        }
        recipe = json.loads((finished / "step-2" / language / "config.json").read_text())
        assert (
            recipe["settings"]["start"] == load_encoder(finished / "step-1" / "model").fingerprint
        )
        state = load_file(
            finished
            / "step-2"
            / language
            / "checkpoints"
            / "step-00000005"
            / "optimiser.safetensors"
        )
        assert {name.rpartition("/")[0] for name in state} == own


@pytest.mark.parametrize("variant", ["token", "positions"])
def test_what_a_variant_learns_in_step_2_with_adamw(asked, variant, tmp_path):
    folder = run({**asked, "variant": variant, "steps": 2}, tmp_path / "run")
    body, now = weights(folder / "step-1"), weights(folder)
    assert all(torch.equal(now[name], tensor) for name, tensor in body.items())
    own = {"encoder.token.own_nld.weight", "output_bias.own_nld.value"}
    own |= {"encoder.position.own_nld.weight"} if variant == "positions" else set()
    assert now.keys() - body.keys() == own
    model, _ = load_model(folder / "model")
    first = build_model(
        monotrans({**asked, "variant": variant}, folder)["step-2/nld"],
        load_model(folder / "model")[1],
    )
    before = dict(first.named_parameters())
    assert {n for n, p in before.items() if p.requires_grad} == own
    assert all(not torch.equal(before[name], now[name]) for name in own)
    assert model.config.cls_position == (variant == "token") and not model.config.adapters
    assert (folder / "step-2" / "nld" / "views").exists() == (variant == "token")


def test_noise_has_the_trainings_of_positions(asked):
    made = {name: monotrans({**asked, "variant": name}) for name in VARIANTS}
    assert made["noise"] == made["positions"] != made["adapters"]
    assert made["adapters"]["step-1"] == made["positions"]["step-1"]
    assert all(recipe.encoder.noise == 0 for steps in made.values() for recipe in steps.values())


def test_in_step_3_special_rows_are_the_only_token_rows_that_move(finished, tmp_path):
    """Golden check 18, and that the source's positions and adapters stand still, on the run's model."""
    encoder = load_encoder(finished / "model")
    corpus = Corpus("eng", ENGLISH[:32], [str(i) for i in range(32)], "toy")
    train = TextExamples(corpus, np.arange(32) % 2)
    settings = FineTuning(epochs=1, batch_size=8, peak_rate=1e-2, weight_decay=0.3, noise=0.075)
    tuned = fine_tune(encoder, Classify(2), [train], settings, tmp_path, {"dev": lambda _: 1.0})
    before, now = encoder.model, tuned.model.module
    old = dict(before.named_parameters())
    for name, parameter in now.named_parameters():
        still = ".own_" in name or not name.startswith("encoder.")
        assert torch.equal(parameter, old[name]) == still, name
    assert (now.encoder.special.weight != before.encoder.special.weight).any(1).all()
    assert not torch.equal(
        now.encoder.segment.of("eng").weight, old["encoder.segment.shared.weight"]
    )
    swapped = by_hand(now.state_dict(), weights(finished / "step-2" / "nld"), before, "nld")
    lines = DUTCH[:6]
    found = tuned.predict(
        TextExamples(Corpus("nld", lines, list("abcdef"), "toy"), np.zeros(6, int))
    )
    told = encoder.for_text("nld")
    for line, scores in zip(lines, found, strict=True):
        ids = torch.tensor(told.tokenizer(line)["input_ids"])[None]
        with torch.no_grad():
            last = states(swapped, ids, "nld")
            wanted = tuned.model.head.eval()(last, torch.ones_like(ids))[0].log_softmax(-1)
        np.testing.assert_allclose(scores, wanted.numpy(), atol=1e-5)


def by_hand(body, own, like, language):
    """A model of one language: the tensors of a body, and the language's own of another's."""
    alone = MaskedLM(like.config, languages=(language,), sizes={language: like.sizes[language]})
    taken = {}
    for name in alone.state_dict():
        mine = name.replace(".shared.", f".own_{language}.")
        taken[name] = own[mine] if mine != name and mine in own else body[name]
    alone.load_state_dict(taken)
    return alone.eval()


def states(model, ids, language):
    places = torch.arange(ids.shape[1])[None]
    return model.encoder(ids, places, None, (Group(language, 1, 0),))[-1]


@pytest.mark.parametrize("language", ["eng", "nld", "deu"])
def test_logits_after_the_swap_are_those_of_a_model_put_together_by_hand(finished, language):
    model, vocabularies = load_model(finished / "model")
    assert model.languages == ("eng", "nld", "deu") == vocabularies.languages
    body = weights(finished / "step-1")
    step = finished / "step-1" if language == "eng" else finished / "step-2" / language
    own = weights(step)
    if language == "eng":  # which has no adapters at all
        model_of_step = load_model(step / "model")[0]
        alone = by_hand(body, own, model_of_step, "eng")
    else:
        alone = by_hand(body, own, model, language)
    ids = torch.tensor([vocabularies.tokenizers[language].encode(ENGLISH[0]).ids])
    with torch.no_grad():
        mine, other = (states(one.eval(), ids, language) for one in (model, alone))
        assert torch.equal(model.scores(mine, language), alone.scores(other, language))


def test_one_target_joined_is_the_model_of_its_training(finished):
    first, step = finished / "step-1" / "model", finished / "step-2" / "deu" / "model"
    model, vocabularies = join_languages(first, [step])
    mine, theirs = model.state_dict(), load_file(step / "model.safetensors")
    assert mine.keys() == theirs.keys()
    for name, tensor in theirs.items():  # what a language without adapters has in their place
        free = "adapters" in name and ".own_eng." in name and ".down." in name
        assert free or torch.equal(mine[name], tensor), name
    assert vocabularies.sizes == load_model(step)[1].sizes


# -- the run


def test_scores_are_the_last_validations_beside_a_unigram_model(finished):
    found = {(s.encoder, s.condition): s for s in read_scores(finished / "scores.jsonl")}
    assert len(found) == 9
    for name, language in (("step-1", "eng"), ("step-2/nld", "nld"), ("step-2/deu", "deu")):
        score, floor = found[name, None], found[name, "unigram"]
        last = [line for line in log(finished / name) if "perplexity" in line][-1]
        assert score.value == pytest.approx(last["perplexity"][language], rel=1e-6)
        assert score.source == score.target == language and score.n == floor.n > 9
        assert 1 < floor.value < 90


def test_the_models_beside_it_are_counted_by_hand(finished, asked):
    recipe = monotrans(asked, finished)["step-2/nld"]
    corpora = {source.name: read_source(source) for source in recipe.sources}
    recipe = fit_to_text(recipe, corpora)
    vocabularies, data = prepare(recipe, corpora, finished / "step-2" / "nld")
    batches = MaskedBatches(recipe, data, vocabularies)
    (stream,) = data.held_out.values()
    counts = data.counts["nld"][5:] + 1
    labels, before = [], []
    rng = np.random.default_rng([recipe.seed, 3])
    for items in stream.plan([recipe.seed, 3]):
        batch = stream.collate(items)
        _, masked, found = batches.masker(batch.ids, batch.languages, rng)
        labels += found.tolist()
        before += [int(batch.ids[divmod(n - 1, batch.ids.shape[1])]) for n in masked.tolist()]
    follow = {}
    (training,) = data.streams
    for items in training.plan([recipe.seed, 4]):
        batch = training.collate(items)
        for row, n in zip(batch.ids.tolist(), batch.lengths.tolist(), strict=True):
            for h, w in zip(row[: n - 1], row[1:n], strict=True):
                follow.setdefault(h, Counter())[w] += 1
    paired = []
    for h, w in zip(before, labels, strict=True):
        seen, alone = follow.get(h, Counter()), counts[w - 5] / counts.sum()
        kinds, total = len(seen), seen.total()
        paired.append(-math.log((seen[w] + kinds * alone) / (total + kinds) if seen else alone))
    expected = np.mean([-math.log(counts[label - 5] / counts.sum()) for label in labels])
    model, _ = load_model(finished / "step-2" / "nld" / "model")
    found = held_out_losses(model.eval(), batches, torch.device("cpu"))
    assert found.keys() == {"nld"} and found["nld"].n == len(labels)
    assert found["nld"].unigram == pytest.approx(expected)
    assert found["nld"].bigram == pytest.approx(np.mean(paired))
    assert abs(np.mean(paired) - expected) > 0.001  # of so little text it is no better


def test_step_2_is_repeated_and_the_best_training_is_taken(asked, tmp_path):
    """Best by what it gains on a unigram model of its own held-out text."""
    told = {**asked, "target": asked["target"].split(",")[0], "times": 3}
    recipes = monotrans(told, tmp_path / "run")
    assert list(recipes) == ["step-1", "step-2/nld-1", "step-2/nld-2", "step-2/nld-3"]
    assert [recipe.seed for recipe in recipes.values()] == [0, 0, 1, 2]
    run = run_monotrans(recipes, tmp_path / "run", asked=told)
    found = {(s.encoder, s.condition): s.value for s in read_scores(run / "scores.jsonl")}
    best = max(list(recipes)[1:], key=lambda n: math.log(found[n, "unigram"] / found[n, None]))
    assert json.loads((run / "config.json").read_text())["chosen"] == {"nld": best}
    own, joined = weights(run / best), weights(run)
    names = [name for name in own if "own_nld" in name]
    assert names and all(torch.equal(own[name], joined[name]) for name in names)
    other = next(name for name in list(recipes)[1:] if name != best)
    assert any(not torch.equal(weights(run / other)[name], own[name]) for name in names)
    *_, said, lost, last = summary(run)  # so short a training learns nothing
    assert f"gain most: {best} (" in said and "3 of 3" in lost and "tasks=TASK" in last
    page = write_report(run).read_text()
    assert "English to Dutch<" in page and f"Dutch, step 2, training {best[-1]}" in page


def test_all_systems_hold_out_the_same_sentences_of_a_text(asked):
    """So that their perplexities are of the same sentences, and a repeat has not seen those of another;
    and the control, which learns a language twice, has not seen them in step 1."""

    def held_out(recipe):
        corpora = {source.name: read_source(source) for source in recipe.sources}
        recipe = fit_to_text(recipe, corpora)
        return {
            next(iter(corpora[name])): np.flatnonzero(rows.held_out).tolist()
            for name, rows in split_rows(recipe, corpora).items()
        }

    told = {**asked, "target": asked["target"].split(",")[0], "seed": 3}
    told.pop("variant", None)
    two = {"source": told["source"], "target": told["target"]}
    plain = {k: v for k, v in told.items() if k not in (*two, "times", "encoder.adapters")}
    first, *repeats = monotrans({**told, "times": 3}).values()
    nld = held_out(repeats[0])["nld"]
    assert nld and all(held_out(one) == {"nld": nld} for one in repeats)
    both = held_out(joint("joint-pair", {**two, **plain, "vocabulary.mode": "separate"}))
    assert both == {**held_out(first), "nld": nld}
    path = told["source"].partition(":")[2]
    _, again = monotrans({**told, "target": f"eng-x:{path}"}).values()
    assert held_out(again)["eng-x"] == held_out(first)["eng"]
    assert held_out(monotrans({**told, "seed": 4})["step-1"]) != held_out(first)


def test_further_parts_are_each_languages_own_where_that_is_asked(asked, tmp_path):
    """Segments, norm and transform of the target move in step 2, those of the source and the body do
    not; in step 3 none of them does."""
    run = run_monotrans(
        monotrans({**asked, "own": "transform, norm,segment"}, tmp_path / "run"),
        tmp_path / "run",
        device="cpu",
    )
    first, second, joined = (weights(run / name) for name in ("step-1", "step-2/nld", "."))
    parts = ("segment", "norm", "transform")
    assert all(torch.equal(second[name], one) for name, one in first.items() if name in second)
    for part in parts:
        names = [n for n in joined if f"{part}.own_" in n]
        assert {"own_eng", "own_nld"} <= {n.split(f"{part}.")[1].split(".")[0] for n in names}, part
    rows = {row[0]: row[1:] for row in summary(run)[0]}
    assert all(rows[part][1] != "-" for part in parts), rows
    assert rows["segment"][2] == rows["norm"][2] == "-"
    plain = monotrans({**asked, "own": ""}, tmp_path / "other")
    assert plain["step-2/nld"].sharing == "sep=token,position,adapters"


def test_special_tokens_are_each_languages_own_where_that_is_asked(asked, tmp_path):
    """They are rows of its token embeddings then: learnt in step 2, and still in step 3."""
    told = {**asked, "own": "special"}
    run = run_monotrans(monotrans(told, tmp_path / "run"), tmp_path / "run", device="cpu")
    first, joined = (weights(run / name) for name in ("step-1", "."))
    assert not [name for name in joined if "special" in name]
    tables = {name: one for name, one in joined.items() if "token.own_" in name}
    english, dutch = (tables[f"encoder.token.own_{code}.weight"] for code in ("eng", "nld"))
    assert torch.equal(english, first["encoder.token.own_eng.weight"])
    assert not torch.equal(english[:5], dutch[:5])
    encoder = load_encoder(run / "model")
    assert {"eng", "nld"} <= set(encoder.languages)


def test_norms_beside_adapters_are_trained_where_that_is_asked(asked, tmp_path):
    """As Houlsby et al.'s program does: each language rescales what the body's norms give, which stand
    still; the source's are the identity."""
    told = {**asked, "encoder.adapter_norms": True, "optimisation.weight_decay": 0.9}
    run = run_monotrans(monotrans(told, tmp_path / "run"), tmp_path / "run", device="cpu")
    first, second, joined = (weights(run / name) for name in ("step-1", "step-2/nld", "."))
    assert all(torch.equal(second[name], one) for name, one in first.items() if name in second)
    scales = {name: one for name, one in joined.items() if "_norm" in name and "adapters" in name}
    for name, one in scales.items():
        start = torch.ones_like(one) if name.endswith("weight") else torch.zeros_like(one)
        assert torch.equal(one, start) == ("own_eng" in name), name
    assert len(scales) == 2 * 2 * 2 * 2  # layers, languages, norms, weight and bias
    model, _ = load_model(run / "model")
    assert model.config.adapter_norms and model.config.told()["adapter_norms"]
    plain = monotrans(asked, tmp_path / "other")["step-2/nld"].encoder
    assert "adapter_norms" not in plain.told()
    with pytest.raises(InputError, match="encoder.adapter_norms: expected false without adapters"):
        monotrans({**told, "variant": "noise"})


@pytest.mark.parametrize("batch", [1024, 4096, 8192])
def test_tokens_are_tokens_whatever_a_batch_has(batch):
    told = {"source": "eng:e.txt", "target": "fra:f.txt", "tokens": 1e6, "batch_tokens": batch}
    for recipe in (*monotrans(told).values(), clwe(told).bert):
        assert recipe.batch_tokens == batch and 0 <= 1e6 - recipe.steps * batch < batch
    pair = joint("joint-pair", told)
    assert pair.steps == 2 * (10**6 // batch)


def test_tokens_are_counted_of_the_rows_that_a_batch_has_room_for():
    told = {"source": "eng:e.txt", "target": "fra:f.txt", "tokens": 1e6, "batch_tokens": 1000}
    told["encoder.max_positions"] = 512
    steps = {recipe.steps for recipe in monotrans({**told, "max_length": 512}).values()}
    assert steps == {10**6 // 512}  # one row of 512 in each batch
    told |= {"units": "sentences", "encoder.next_sentence": False, "encoder.max_positions": 514}
    steps = {recipe.steps for recipe in monotrans({**told, "max_length": 512}).values()}
    assert steps == {1000}


def test_a_repeat_whose_loss_is_no_number_is_counted_and_the_others_go_on(
    asked, tmp_path, monkeypatch
):
    told = {**asked, "target": asked["target"].split(",")[0], "times": 2}
    recipes, whole = monotrans(told, tmp_path / "run"), masked_lm.train
    gone = ["step-2/nld-1"]

    def train(recipe, folder, **more):
        if str(folder.relative_to(tmp_path / "run")) in gone:
            raise TrainingError("the loss is nan at step 3")
        return whole(recipe, folder, **more)

    monkeypatch.setattr(masked_lm, "train", train)
    run = run_monotrans(recipes, tmp_path / "run", asked=told)
    config = json.loads((run / "config.json").read_text())
    assert config["chosen"] == {"nld": "step-2/nld-2"}
    assert config["lost"] == {"step-2/nld-1": "the loss is nan at step 3"}
    assert {s.encoder for s in read_scores(run / "scores.jsonl")} == {"step-1", "step-2/nld-2"}
    assert "of 2 trainings of step 2 did not converge" in "".join(map(str, summary(run)))
    assert "step-2/nld-1 was given up" in write_report(run).read_text()
    (run / "scores.jsonl").unlink()
    gone.append("step-2/nld-2")
    with pytest.raises(TrainingError, match="nan"):  # nothing is left of the language
        run_monotrans(recipes, tmp_path / "run", asked=told, resume=True)


def test_a_training_that_learnt_nothing_is_counted(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    told = {"step-2/nld": 2.0, "step-2/deu": 999.0}
    scores = [
        s if s.condition else dataclasses.replace(s, value=told.get(s.encoder, s.value))
        for s in read_scores(finished / "scores.jsonl")
    ]
    (tmp_path / "run" / "scores.jsonl").write_text("".join(s.as_json() + "\n" for s in scores))
    assert "1 of 2 trainings of step 2 did not converge" in summary(tmp_path / "run")[-2]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["lost"] = {"step-2/nld-2": "its loss < 0 & no number"}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    page = write_report(tmp_path / "run").read_text()
    assert "No better than a unigram model: German, step 2" in page
    assert "step-2/nld-2 was given up: its loss &lt; 0 &amp; no number." in page
    with pytest.raises(InputError, match="times: expected"):
        monotrans({"source": "eng:x", "target": "nld:y", "times": 0})


def test_the_table_of_what_is_trained_is_counted_in_the_models(finished):
    head, *rows = trained_rows(finished, {"nld": "step-2/nld"})
    assert head == ("trained", "step 1", "step 2", "step 3")
    cells = {part: told for part, *told in rows}
    assert cells["special"] == ["80", "-", "80"] and cells["segment"] == ["32", "-", "32"]
    assert cells["position"] == ["512", "512", "-"] and cells["1"][1] == "-"
    assert cells["adapters"] == ["-", f"{2 * 2 * (2 * 16 * 64 + 64 + 16):,}", "-"]
    assert cells["transform"][1:] == cells["next_sentence"][1:] == ["-", "-"]
    *_, last = summary(finished)
    assert (
        last
        == f"Steps 3 and 4: crosslens train {finished} tasks=TASK data=DATA --resume --out {finished}"
    )
    page = write_report(finished, finished.parent / "page.html").read_text()
    for told in (
        "MonoTrans, English to Dutch and German",
        "layer 1",
        "next sentence",
        *cells["special"],
    ):
        assert told.replace("-", "–") in page
    for score in read_scores(finished / "scores.jsonl"):
        assert f"{score.value:.1f}" in page


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("step-1", marks=pytest.mark.slow),
        "step-2/nld",
        pytest.param("joining", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(asked, finished, where, tmp_path, monkeypatch):
    folder, rate = tmp_path / "run", loop.learning_rate
    one = {**asked, "optimisation.optimiser": "lamb"}
    calls = []

    def learning_rate(step, *rest):
        calls.append(step)
        if len(calls) == {"step-1": 4, "step-2/nld": 9}.get(where):
            raise KeyboardInterrupt
        return rate(step, *rest)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "learning_rate", learning_rate)
        if where == "joining":
            patched.setattr("crosslens.run.trainings.monotrans._join", stop)
        with pytest.raises(KeyboardInterrupt):
            run(one, folder)
    assert not (folder / "model").exists()
    with pytest.raises(OutputError, match="add --resume to continue it"):
        run(one, folder)
    run(one, folder, resume=True)
    for name in ("step-1", "step-2/nld"):
        mine, other = (at / name / "model" / "model.safetensors" for at in (folder, finished))
        assert mine.read_bytes() == other.read_bytes()


def test_it_is_asked_on_the_command_line_and_again_from_its_run(
    texts, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(texts)
    given = [f"{name}={value}" for name, value in {**SMALL, "steps": 2}.items()]
    line = ["train", "monotrans", "source=eng:eng.txt", "target=nld:nld.txt", *given]
    assert typed(*line, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "# step-1" in said and "# step-2/nld" in said
    assert typed(*line, "--out", str(tmp_path / "run"), "--quiet") == 0
    said = capsys.readouterr().out
    assert "nld, step-2/nld" in said and "tasks=TASK data=DATA" in said
    asked = json.loads((tmp_path / "run" / "config.json").read_text())["asked"]["settings"]
    assert asked["target"] == f"nld:{texts}/nld.txt" and asked["steps"] == 2
    again = training_recipes(tmp_path / "run", {"steps": 3})
    assert again["step-2/nld"].steps == 3 and again["step-2/nld"].languages == ("nld",)
    monkeypatch.chdir(tmp_path)
    assert (
        typed("train", "run", "--out", "run", "--resume", "--quiet") == 0
    )  # finished: nothing is done


def test_what_a_step_costs_is_told_of_what_it_trains():
    """At BERT-base's shape. The gradients of the body's weights, a third of all, are not computed;
    step 2's are more by the adapters."""
    size = {"model": 768, "encoder.layers": 12, "vocabulary.size": 32_000, "max_length": 512}
    texts = {"source": "eng:eng.txt", "target": "nld:nld.txt", "encoder.max_positions": 512}
    made = monotrans({**size, **texts, "variant": "positions"})
    first, second = (estimate(recipe) for recipe in made.values())
    assert first.parameters == second.parameters
    assert 0.66 < second.flops_per_token / first.flops_per_token < 0.75
    parts = {row[0] for row in second.table}
    assert {"token, softmax", "position", "bias"} <= parts and not {"1", "special"} & parts


def test_a_checkpoint_of_step_2_is_an_encoder_of_both_languages(finished):
    place = finished / "step-2" / "deu" / "checkpoints" / "step-00000005"
    one, other = load_encoder(place), load_encoder(finished / "step-2" / "deu" / "model")
    assert one.languages == ("eng", "deu")
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name])


# -- what cannot be


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"variant": "notes"}, "variant: expected one of token, positions, noise, adapters"),
        ({"target": "eng:other.txt"}, "target: expected languages that differ, got eng twice"),
        ({"source": "eng.txt"}, "source: expected LANGUAGE:FILE, got 'eng.txt'"),
        ({"target": ""}, "target: expected LANGUAGE:FILE, got none"),
        ({"model": 33}, "model: expected a width that is a multiple of 32"),
        ({"tokens": 5, "steps": None}, "tokens: expected a number from 256 up"),
        ({"steps": 9, "tokens": 1e6}, "steps: expected none beside tokens, got 9; leave one of"),
        ({"sharing": "sep=emb"}, "sharing: expected what the steps and the variant leave open"),
        ({"encoder.cls_position": True}, "encoder.cls_position: expected what the steps"),
        ({"variant": "token", "encoder.adapters": 4}, "encoder.adapters: expected some units with"),
        ({"variants": "token"}, "variants: expected a setting of TrainRecipe"),
        ({"own": "norm,token"}, "own: expected some of special, segment, norm, tr"),
    ],
)
def test_settings_that_cannot_be_are_refused(asked, changes, told):
    with pytest.raises(InputError, match=told):
        monotrans({**asked, **changes})


def test_a_target_without_enough_text_is_refused_before_step_1(asked, tmp_path):
    write_lines(tmp_path / "short.txt", DUTCH[:3])
    with pytest.raises(InputError, match="text: expected more than 4 sentences"):
        run({**asked, "target": f"nld:{tmp_path}/short.txt"}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_without_room_for_a_targets_characters_is_refused_before_step_1(
    asked, texts, tmp_path
):
    signs = [chr(0x4E00 + n) for n in range(300)]
    write_lines(tmp_path / "zho.txt", [" ".join(signs[n : n + 5]) for n in range(290)])
    told = {**asked, "target": f"nld:{texts}/nld.txt,zho:{tmp_path}/zho.txt"}
    told["vocabulary.kind"] = "unigram"
    with pytest.raises(InputError, match="room for every character"):
        run(told, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_target_whose_held_out_sentences_are_too_long_is_refused_before_step_1(asked, tmp_path):
    long = " ".join(DUTCH[0].split() * 30)
    lines = [f"{long} {n}" if n % 2 else line for n, line in enumerate(DUTCH)]
    write_lines(tmp_path / "nld.txt", lines)
    told = {**asked, "target": f"nld:{tmp_path}/nld.txt", "validation": 1}
    told |= {"units": "sentences", "encoder.next_sentence": False, "max_length": 30}
    refused = 0
    for seed in range(6):  # which one is held out is the seed's
        try:
            run({**told, "seed": seed}, tmp_path / f"run-{seed}")
        except InputError as error:
            refused += 1
            assert "text of nld: expected held-out sentences of at most" in str(error)
            assert not (tmp_path / f"run-{seed}").exists()
    assert 0 < refused < 6


def test_held_out_sentences_that_step_1_has_learnt_are_counted(asked, texts, tmp_path):
    """The control on another selection of the same text, of which others are held out."""
    write_lines(tmp_path / "some.txt", ENGLISH[:80])
    told = {**asked, "target": f"eng-x:{tmp_path}/some.txt", "steps": 2}
    recipes = monotrans(told, tmp_path / "run")
    sides = {}
    for name, recipe in recipes.items():
        corpora = {source.name: read_source(source) for source in recipe.sources}
        (rows,) = split_rows(fit_to_text(recipe, corpora), corpora).values()
        ((corpus,),) = (one.values() for one in corpora.values())
        sides[name] = [
            {corpus.sentences[i] for i in np.flatnonzero(some)}
            for some in (rows.train, rows.held_out)
        ]
    seen = len(sides["step-1"][0] & sides["step-2/eng-x"][1])
    n = len(sides["step-2/eng-x"][1])
    assert 0 < seen <= n
    folder = run_monotrans(recipes, tmp_path / "run", asked=told)
    assert json.loads((folder / "config.json").read_text())["seen"] == {"step-2/eng-x": [seen, n]}
    said = f"{seen} of {n} held-out sentences of"
    assert (
        any(said in str(one) for one in summary(folder))
        and said in write_report(folder).read_text()
    )


@pytest.mark.parametrize(
    ("own", "shape"),
    [
        (
            "segment",
            {
                "encoder.segments": 0,
                "units": "sentences",
                "encoder.next_sentence": False,
                "max_length": 30,
            },
        ),
        ("norm", {"encoder.norm_embeddings": False}),
        ("transform", {"encoder.head": "plain"}),
    ],
)
def test_a_part_that_the_encoder_does_not_have_is_no_languages_own(asked, own, shape):
    with pytest.raises(InputError, match=f"own: expected parts that the encoder has, got {own}"):
        monotrans({**asked, **shape, "own": own})


def test_another_text_is_another_run(asked, finished, texts):
    with pytest.raises(OutputError, match="expected the same settings, got other ones"):
        run({**asked, "target": f"nld:{texts}/deu.txt"}, Path(finished), resume=True)
