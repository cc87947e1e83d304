"""CLWE from end to end, small: vectors, their mapping, the encoder over them and the joined model; what
stands still, stopping, and what cannot be."""

import contextlib
import json
import math

import numpy as np
import pytest
import scipy.linalg
import torch
from clwe_toy import DUTCH, ENGLISH, write_texts
from processes import command
from safetensors.torch import load_file
from toy_texts import log, write_lines
from typed import typed

from crosslens.alignment import MultiStepMap
from crosslens.alignment.maps.induction import self_learning
from crosslens.alignment.normalisation import normalise
from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError
from crosslens.front.calls import training_recipes
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.examples import TextExamples
from crosslens.models.finetuning.finetune import fine_tune
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.machine import distributed
from crosslens.models.machine.distributed import World
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import load_model
from crosslens.models.text.subword_vectors import SubwordVectors
from crosslens.models.training import loop, masked_lm
from crosslens.models.training.masked_lm import build_model
from crosslens.recipes.clwe import clwe
from crosslens.recipes.monotrans import monotrans
from crosslens.report import write_report
from crosslens.run.trainings import clwe as stages
from crosslens.run.trainings.clwe import run_clwe, summary
from crosslens.run.trainings.monotrans import run_monotrans
from crosslens.score import read_scores


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


def run(asked, folder, **how):
    return run_clwe(clwe(asked, folder), folder, device="cpu", asked=asked, **how)


@pytest.fixture(scope="module")
def finished(asked, tmp_path_factory):
    """A finished run, with LAMB and a projection. Not to be written to."""
    told = {**asked, "optimisation.optimiser": "lamb"}
    return run(told, tmp_path_factory.mktemp("clwe") / "run")


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


def vectors(folder, stage, language):
    return SubwordVectors.load(folder / stage / language)


# -- what stands still


@pytest.mark.parametrize("optimiser", ["lamb", pytest.param("adamw", marks=pytest.mark.slow)])
def test_embeddings_stand_still_to_the_bit_under_weight_decay(asked, finished, optimiser, tmp_path):
    folder = finished if optimiser == "lamb" else run({**asked, "steps": 3}, tmp_path / "run")
    joined, trained = weights(folder), weights(folder / "bert")
    for language in ("eng", "nld"):
        rows = torch.from_numpy(vectors(folder, "mapped", language).vectors[5:])
        assert torch.equal(joined[f"encoder.token.own_{language}.weight"], rows)
    assert not joined["output_bias.own_nld.value"].any()
    new = {"encoder.token.own_nld.weight", "output_bias.own_nld.value"}
    assert joined.keys() - trained.keys() == new
    assert all(torch.equal(joined[name], tensor) for name, tensor in trained.items())
    first = build_model(
        clwe({**asked, "steps": 3}, folder).bert, load_model(folder / "bert/model")[1]
    )
    before = dict(first.named_parameters())
    frozen = {name for name, parameter in before.items() if not parameter.requires_grad}
    assert frozen == {"encoder.token.own_eng.weight"}
    assert all(torch.equal(before[name], trained[name]) == (name in frozen) for name in before)
    assert (before["encoder.special.weight"] != trained["encoder.special.weight"]).any(1).all()
    (state,) = (folder / "bert" / "checkpoints").glob("*/optimiser.safetensors")
    assert {name.rpartition("/")[0] for name in load_file(state)} == before.keys() - frozen


def test_fine_tuning_leaves_all_embeddings_and_reads_the_target_through_its_own(finished, tmp_path):
    encoder = load_encoder(finished / "model")
    corpus = Corpus("eng", ENGLISH[:32], [str(i) for i in range(32)], "toy")
    settings = FineTuning(epochs=1, batch_size=8, peak_rate=1e-2, weight_decay=0.3)
    train = [TextExamples(corpus, np.arange(32) % 2)]
    tuned = fine_tune(encoder, Classify(2), train, settings, tmp_path, {"dev": lambda _: 1.0})
    old, now = dict(encoder.model.named_parameters()), tuned.model.module
    for name, parameter in now.named_parameters():
        still = ".own_" in name or not name.startswith("encoder.")
        assert torch.equal(parameter, old[name]) == still, name
    by_hand = put_together(now.state_dict(), vectors(finished, "mapped", "nld"), now.config)
    lines = DUTCH[:4]
    found = tuned.predict(TextExamples(Corpus("nld", lines, list("abcd"), "toy"), np.zeros(4, int)))
    told = encoder.for_text("nld")
    for line, scores in zip(lines, found, strict=True):
        ids = torch.tensor(told.tokenizer(line)["input_ids"])[None]
        with torch.no_grad():
            last = states(by_hand, ids)[-1]
            wanted = tuned.model.head.eval()(last, torch.ones_like(ids))[0].log_softmax(-1)
        np.testing.assert_allclose(scores, wanted.numpy(), atol=1e-5)


def put_together(body, given, config):
    """An ordinary model of one language whose token embeddings are as wide as it is: special rows and
    mapped vectors, multiplied by the projection."""
    shape = dict(
        config.told(), special_table=False, embedding_size=0, vocab_size=len(given.vectors)
    )
    alone = MaskedLM(type(config)(**shape))
    rows = np.concatenate([body["encoder.special.weight"].numpy(), given.vectors[5:]])
    table = torch.from_numpy(rows @ body["encoder.projection.weight"].numpy().T)
    taken = {name: body[name] for name in alone.state_dict() if name in body}
    taken |= {"encoder.token.shared.weight": table}
    taken |= {"output_bias.shared.value": torch.zeros(len(rows))}
    alone.load_state_dict(taken)
    return alone.eval()


def states(model, ids, language="und"):
    places = torch.arange(ids.shape[1])[None]
    with torch.no_grad():
        return model.encoder(ids, places, None, (Group(language, 1, 0),))


def test_states_and_logits_of_the_target_are_those_of_a_model_put_together_by_hand(finished):
    model, vocabularies = load_model(finished / "model")
    assert model.languages == ("eng", "nld") == vocabularies.languages
    alone = put_together(model.state_dict(), vectors(finished, "mapped", "nld"), model.config)
    ids = torch.tensor([vocabularies.tokenizers["nld"].encode(DUTCH[0]).ids])
    mine, other = states(model.eval(), ids, "nld"), states(alone, ids)
    for one, same in zip(mine, other, strict=True):
        torch.testing.assert_close(one, same, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        scores = model.scores(mine[-1][0], "nld"), alone.scores(other[-1][0])
    torch.testing.assert_close(*scores, atol=1e-5, rtol=1e-5)
    body, given = model.state_dict(), vectors(finished, "mapped", "nld")
    row = ids[0, 1].item()  # by the formula, at the second token
    summed = given.vectors[row].astype(np.float64) @ body["encoder.projection.weight"].numpy().T
    summed += body["encoder.position.shared.weight"][1].numpy()
    summed += body["encoder.segment.shared.weight"][0].numpy()
    wanted = (summed - summed.mean()) / summed.std()
    wanted = wanted * body["encoder.norm.shared.weight"].numpy()
    wanted += body["encoder.norm.shared.bias"].numpy()
    np.testing.assert_allclose(mine[0][0, 1].numpy(), wanted, atol=1e-4)


# -- vectors and their mapping


def test_the_subwords_are_those_of_monotrans(asked, finished, tmp_path):
    told = {name: asked[name] for name in asked if name != "dimensions" and "skipgram" not in name}
    other = tmp_path / "run"
    run_monotrans(monotrans({**told, "steps": 1}, other), other, device="cpu")
    for step, language in (("step-1", "eng"), ("step-2/nld", "nld")):
        theirs = (other / step / "tokenizer" / language / "tokenizer.json").read_bytes()
        for place in ("model", f"mapped/{language}"):
            mine = finished / place / "tokenizer" / language / "tokenizer.json"
            assert mine.read_bytes() == theirs


def test_the_mapping_is_that_of_the_alignment_room(finished):
    target, source = (vectors(finished, "vectors", name) for name in ("nld", "eng"))
    ids = [one.by_frequency for one in (target, source)]
    x, y = (one.vectors[rows] for one, rows in zip((target, source), ids, strict=True))
    names = [
        [one.vocabulary.pieces(one.language)[i] for i in rows]
        for one, rows in zip((target, source), ids, strict=True)
    ]
    alike = [(i, names[1].index(word)) for i, word in enumerate(names[0]) if word in names[1]]
    assert {names[0][i] for i, _ in alike} == {"▁dog", "▁sun", "▁big"}
    learnt = self_learning(x, y, alike)
    x, y = (normalise(side).astype(np.float64) for side in (x, y))
    there, back = x[learnt.pairs[:, 0]], y[learnt.pairs[:, 1]]
    turn, _ = scipy.linalg.orthogonal_procrustes(there, back)
    mapped = vectors(finished, "mapped", "nld").vectors[ids[0]]
    np.testing.assert_allclose(mapped, x @ turn, atol=1e-5)
    steps = MultiStepMap(False, 0, 0, None, None).fit(there, back)
    np.testing.assert_allclose(mapped, x @ steps.map_x_ @ steps.map_y_.T, atol=1e-5)
    np.testing.assert_allclose(vectors(finished, "mapped", "eng").vectors[ids[1]], y, atol=1e-6)
    np.testing.assert_allclose(mapped @ mapped.T, x @ x.T, atol=1e-5)  # nothing but a turn
    told = json.loads((finished / "mapped" / "nld" / "induction.json").read_text())
    assert told["seeds"] == 3 and told["iterations"] == len(learnt.objectives)
    assert told["objective"] == pytest.approx(learnt.objectives[-1])
    both = {tuple(pair) for pair in learnt.pairs.tolist()}
    assert told["pairs"] == len(both) and told["mutual"] == len(learnt.pairs) - len(both)


def test_what_does_not_occur_has_no_vector(finished):
    for stage in ("vectors", "mapped"):
        for language in ("eng", "nld"):
            one = vectors(finished, stage, language)
            assert np.array_equal(one.vectors.any(1)[5:], one.counts[5:] > 0)
            assert not one.vectors[:5].any() and (one.counts[5:] == 0).any()
            lengths = np.linalg.norm(one.vectors[one.by_frequency], axis=1)
            assert stage == "vectors" or np.allclose(lengths, 1)


def test_scores_are_perplexities_and_what_is_nearest_to_itself(finished):
    found = {(s.quantity, s.condition): s for s in read_scores(finished / "scores.jsonl")}
    assert len(found) == 4 and found["perplexity", None].source == "eng"
    alike = found["precision_at_1", "csls"]
    x, y = (vectors(finished, "mapped", name) for name in ("nld", "eng"))
    words = [one.vocabulary.pieces(one.language) for one in (x, y)]
    a, b = (one.vectors[one.by_frequency].astype(np.float64) for one in (x, y))
    cosines = a @ b.T
    near = [np.sort(side, axis=1)[:, -10:].mean(1) for side in (cosines, cosines.T)]
    best = (2 * cosines - near[0][:, None] - near[1]).argmax(1)
    right = [
        words[0][i] == words[1][y.by_frequency[best[row]]]
        for row, i in enumerate(x.by_frequency)
        if words[0][i] in [words[1][j] for j in y.by_frequency]
    ]
    assert (alike.value, alike.n) == (np.mean(right), 3) and len(right) == 3
    assert (alike.source, alike.target) == ("nld", "eng") and alike.low <= alike.value <= alike.high


# -- the run


def test_a_page_and_tables_tell_of_the_run(finished):
    trained, induced, learnt, last = summary(finished)
    cells = {part: told for part, *told in trained}
    assert cells["token, softmax"] == ["-", "-"] and cells["special"] == ["60", "60"]
    assert cells["projection"] == ["192", "192"] and cells["transform"][1] == "-"
    assert induced[1][:2] == ("nld", "3") and learnt[1][0] == "eng, bert"
    assert last.startswith(f"Fine-tuning: crosslens train {finished} tasks=TASK data=DATA")
    page = write_report(finished, finished.parent / "page.html").read_text()
    for told in (
        "CLWE, English to Dutch",
        "of 3",
        "projection",
        "12 dimensions",
        "identical seeds",
    ):
        assert told in page
    for score in read_scores(finished / "scores.jsonl"):
        assert score.quantity != "perplexity" or f"{score.value:.1f}" in page or score.condition


@pytest.mark.slow  # the same engine is stopped at each step of MonoTrans
@pytest.mark.parametrize(
    "where",
    ["skip-gram", "self-learning", "training", "joining"],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(asked, finished, where, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    place, one = tmp_path / "run", {**asked, "optimisation.optimiser": "lamb"}
    names = {
        "skip-gram": "crosslens.models.text.subword_vectors.train_skipgram",
        "self-learning": "crosslens.alignment.maps.induction.multi_step_maps",
        "joining": "crosslens.run.trainings.clwe._join",
    }
    rate, calls = loop.learning_rate, []

    def learning_rate(*given):
        calls.append(given)
        return rate(*given) if len(calls) < 4 else stop()

    with monkeypatch.context() as patched:
        if where in names:
            patched.setattr(names[where], stop)
        else:
            patched.setattr(loop, "learning_rate", learning_rate)
        with pytest.raises(KeyboardInterrupt):
            run(one, place)
    assert not (place / "model").exists()
    with pytest.raises(OutputError, match="add --resume to continue it"):
        run(one, place)
    run(one, place, resume=True)
    assert {path.name for path in place.iterdir()} == {path.name for path in finished.iterdir()}
    for name in ("model/model.safetensors", "scores.jsonl", "mapped/nld/induction.json"):
        assert (place / name).read_bytes() == (finished / name).read_bytes()


def test_the_first_process_alone_learns_maps_and_joins(asked, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def second(*_):
        yield World(1, 1, torch.device("cpu"))

    trained = []
    monkeypatch.setattr(distributed, "join_world", second)
    monkeypatch.setattr(masked_lm, "train", lambda _, place, **how: trained.append((place, how)))
    for name in ("learn_subword_vectors", "map_subwords", "held_out_scores"):
        monkeypatch.setattr(stages, name, None)
    run(asked, tmp_path / "run")
    how = {"resume": True, "device": "cpu", "parallel": "ddp"}
    assert trained == [(tmp_path / "run" / "bert", how)] and not list(tmp_path.iterdir())


@pytest.mark.slow  # three processes that import torch
def test_two_processes_of_torchrun_have_the_vectors_and_losses_of_one(asked, tmp_path):
    told = {**asked, "encoder.dropout": 0.0}
    line = ["train", "clwe", *(f"{name}={value}" for name, value in told.items())]
    said = []
    for processes in (1, 2):
        out = ["--out", tmp_path / str(processes), "--device", "cpu"]
        said.append(command([*line, *out], processes))
    assert [done.stderr.count("learning skip-gram vectors") for done in said] == [2, 2]
    one, two = tmp_path / "1", tmp_path / "2"
    files = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    assert files == {path.relative_to(two) for path in two.rglob("*") if path.is_file()}
    for path in files:
        if path.parts[0] in ("texts", "vectors", "mapped"):
            assert (one / path).read_bytes() == (two / path).read_bytes(), path
    losses = [
        [line["loss"] for line in log(place / "bert") if "loss" in line] for place in (one, two)
    ]
    assert losses[0] and losses[0] == pytest.approx(losses[1], abs=1e-5)
    for name, tensor in weights(one).items():
        torch.testing.assert_close(weights(two)[name], tensor, rtol=0, atol=1e-4)
    found = [list(read_scores(place / "scores.jsonl")) for place in (one, two)]
    for mine, other in zip(*found, strict=True):
        assert (mine.quantity, mine.condition, mine.n) == (other.quantity, other.condition, other.n)
        assert mine.value == pytest.approx(other.value, rel=1e-5)
    again = command([*line, *out, "--resume"], 2)  # nothing is done
    assert again.stdout == said[1].stdout


def test_it_is_asked_on_the_command_line_and_again_from_its_run(
    asked, tmp_path, capsys, monkeypatch
):
    given = [f"{name}={value}" for name, value in {**asked, "steps": 2}.items()]
    assert typed("train", "clwe", *given, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "skipgram.dimensions = 12" in said and "skipgram.window = 5" in said
    assert "seeds = 'identical'" in said and "embedding_size = 12" in said
    assert typed("train", "clwe", *given, "--out", str(tmp_path / "run"), "--quiet") == 0
    said = capsys.readouterr().out
    assert "spelt alike" in said and "tasks=TASK data=DATA" in said
    assert training_recipes(tmp_path / "run", {"steps": 3})["bert"].steps == 3
    monkeypatch.chdir(tmp_path)
    assert typed("train", "run", "--out", "run", "--resume", "--quiet") == 0  # nothing is done
    assert typed("list", "recipes") == 0
    assert "clwe" in capsys.readouterr().out


# -- what cannot be


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seeds": "guess"}, "seeds: expected one of identical, unsupervised, got 'guess'"),
        ({"dimensions": 1}, "skipgram.dimensions: expected a whole number from 2 to 100,000"),
        ({"skipgram.dimensions": 9}, "skipgram.dimensions: expected the setting dimensions"),
        ({"skipgram.width": 9}, "skipgram.width: expected a setting of SkipGram"),
        ({"target": "eng:other.txt"}, "target: expected languages that differ, got eng twice"),
        ({"target": ""}, "target: expected LANGUAGE:FILE, got none"),
        ({"model": 33}, "model: expected a width that is a multiple of 32"),
        ({"steps": 9, "tokens": 1e6}, "steps: expected none beside tokens, got 9; leave one of"),
        ({"variant": "token"}, "variant: expected a setting of TrainRecipe"),
        *(
            ({name: 1}, f"{name}: expected what the stages leave open")
            for name in ("embeddings", "sharing", "encoder.embedding_size", "vocabulary.mode")
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(asked, changes, told):
    with pytest.raises(InputError, match=told):
        clwe({**asked, **changes})


def test_no_overlap_is_refused_before_any_vector_and_leaves_the_place_free(
    asked, tmp_path, monkeypatch
):
    place = tmp_path / "run"
    told = {**asked, "target": asked["target"].replace("nld", "deu"), "steps": 2}
    with monkeypatch.context() as patched:
        patched.setattr(stages, "learn_subword_vectors", None)
        with pytest.raises(
            InputError, match="seeds: expected subwords that eng and deu spell alike"
        ):
            run(told, place)
    assert not place.exists()
    # with vectors as wide as the model, which need no projection
    run({**told, "seeds": "unsupervised", "dimensions": 16}, place)
    model, _ = load_model(place / "model")
    assert model.config.embedding_size == 0 and "encoder.projection.weight" not in weights(place)
    rows = vectors(place, "mapped", "deu").vectors[5:]
    assert np.array_equal(model.encoder.token.of("deu").weight.detach().numpy(), rows)
    told = json.loads((place / "config.json").read_text())["induced"]["deu"]
    assert told["identical"] is None and told["seeds"] == 40
    scores = list(read_scores(place / "scores.jsonl"))
    assert {s.quantity for s in scores} == {"perplexity"} and math.isfinite(scores[0].value)
    assert "CLWE, English to German" in write_report(place).read_text()


def test_a_target_without_enough_text_is_refused_before_anything(asked, tmp_path):
    write_lines(tmp_path / "short.txt", DUTCH[:3])
    with pytest.raises(InputError, match="text: expected more than 4 sentences"):
        run({**asked, "target": f"nld:{tmp_path}/short.txt"}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_text_is_another_run(asked, finished):
    other = {**asked, "target": asked["target"].replace("nld.txt", "deu.txt")}
    with pytest.raises(OutputError, match="expected the same settings, got other ones"):
        run({**other, "optimisation.optimiser": "lamb"}, finished, resume=True)
