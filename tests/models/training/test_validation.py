"""What is measured during training: perplexity, retrieval, alignment of token embeddings, and the
choice of the best weights."""

import collections
import dataclasses
import itertools
import math
import shutil

import numpy as np
import pytest
import torch
from toy_texts import deep, log, prepared
from transformers import AutoTokenizer

from crosslens.errors import TrainingError
from crosslens.models.saved.native import load_model
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.training import validation
from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import build_model, train
from crosslens.models.training.objective import need_number
from crosslens.models.training.settings import Source, with_overrides
from crosslens.models.training.validation import (
    _masked,
    choice_measure,
    held_out_losses,
    validate,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def source(toy, tmp_path_factory):
    return MaskedBatches(*prepared(toy, tmp_path_factory.mktemp("tokens")))


@pytest.fixture
def model(source):
    return build_model(source.recipe, source.vocabularies)


def with_copy(toy, tmp_path, mode):
    """The toy run with a copy of English for its other language: the same text, under ids of its
    own."""
    english = toy.sources[0].texts["eng"]
    texts = {"eng": english, "eng-x": str(shutil.copy(english, tmp_path / "copy.txt"))}
    recipe = deep(
        toy,
        sources=(Source(name="toy", texts=texts),),
        steps=4,
        sharing="sep=emb" if mode == "separate" else "",
    )
    return with_overrides(
        recipe,
        {"vocabulary.mode": mode, "vocabulary.copies": {"eng-x": "eng"}, "encoder.layers": 1},
    )


def test_a_model_that_knows_nothing_is_as_perplexed_as_the_vocabulary_is_large(source, model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    told = validate(model, source, CPU, {})
    assert told["perplexity"] == pytest.approx(dict.fromkeys(["eng", "nld"], 110), rel=1e-5)
    assert "alignment" not in told


@pytest.mark.parametrize("units", ["sentences", "stream", "packed", "nsp"])
def test_each_language_of_each_unit_is_measured_alone(toy, tmp_path, units):
    """Languages that own everything, one of which knows nothing: the other's perplexity is another
    one's business."""
    changes = {"encoder.segments": 2, "encoder.next_sentence": True} if units == "nsp" else {}
    recipe = with_overrides(
        deep(toy, sharing="monolingual", batch_languages="mixed"),
        {"units": units, "encoder.layers": 1, **changes},
    )
    recipe, data, vocabularies = prepared(recipe, tmp_path)
    model, feed = build_model(recipe, vocabularies), MaskedBatches(recipe, data, vocabularies)
    before = validate(model, feed, CPU, {})["perplexity"]
    with torch.no_grad():
        model.encoder.token.of("nld").weight.zero_()
        model.output_bias.of("nld").value.zero_()
    after = validate(model, feed, CPU, {})["perplexity"]
    assert (
        after["eng"] == before["eng"]
        and after["nld"] == pytest.approx(vocabularies.sizes["nld"], rel=1e-5) != before["nld"]
    )


@pytest.mark.parametrize("languages", ["one", "mixed"])
def test_simple_models_know_the_training_text_whoever_shares_its_batches(
    toy, tmp_path, model, languages, monkeypatch
):
    """The bigram model against a loop over the lines; in mixed batches it knew no pairs."""
    monkeypatch.setattr("crosslens.models.training.validation._PAIRS", 100)
    recipe, data, vocabularies = prepared(
        with_overrides(toy, {"batch_languages": languages, "tlm_share": 0.0}), tmp_path
    )
    batches = MaskedBatches(recipe, data, vocabularies)
    found = held_out_losses(model.eval(), batches, CPU)
    alone = prepared(with_overrides(toy, {"tlm_share": 0.0}), tmp_path / "alone")[1]
    cls, sep = (SPECIAL_TOKENS.index(name) for name in ("[CLS]", "[SEP]"))
    for language, stream in zip(recipe.languages, alone.streams, strict=False):
        follow, times = collections.defaultdict(collections.Counter), data.counts[language] + 1.0
        times[: len(SPECIAL_TOKENS)] = 0
        for row in stream.rows.tolist():
            line = [cls, *stream.sides[0][row].tolist(), sep]
            for one, other in itertools.pairwise(line):
                follow[one][other] += 1
        losses = []
        for batch, _, masked, labels in _masked(data.held_out[stream.name], batches):
            for place, label in zip(masked.tolist(), labels.tolist(), strict=True):
                behind = follow[int(batch.ids.ravel()[place - 1])]
                kinds, share = len(behind), times[label] / times.sum()
                losses.append(-math.log((behind[label] + kinds * share) / (behind.total() + kinds)))
        assert found[language].n == len(losses)
        assert found[language].bigram == pytest.approx(np.mean(losses))
        assert found[language].bigram < found[language].unigram


def test_a_validation_loss_beyond_every_perplexity_is_told_as_such(source, model):
    """A model that is certain of one token: the loss is a number, its exponential is beyond a
    float."""
    with torch.no_grad():
        model.output_bias.of("eng").value[0] = 1e5
    with pytest.raises(TrainingError, match="validation loss of eng: .*got inf"):
        validate(model, source, CPU, {})


def test_validation_retrieves_as_a_loop_does(toy, source, model):
    model.train()
    told = validate(model, source, CPU, {})["retrieval"]["toy eng-nld"]
    assert model.training
    model.eval()
    stream = source.data.held_out["toy eng-nld"]
    hits = []
    for layer in range(toy.encoder.layers + 1):
        sides = []
        for side in stream.sides:
            vectors = []
            for row in stream.rows:
                ids = torch.tensor([[2, *side[row].tolist(), 3]])
                with torch.no_grad():
                    mean = model.encoder(ids, torch.arange(ids.shape[1])[None])[layer][
                        0, 1:-1
                    ].mean(0)
                vectors.append((mean / mean.norm()).numpy())
            sides.append(np.array(vectors))
        hits.append(
            float(((sides[0] @ sides[1].T).argmax(1) == np.arange(len(stream.rows))).mean())
        )
    assert told == pytest.approx(hits, abs=1e-4)  # four decimals


def test_validation_changes_nothing_and_says_the_same_twice(source, model):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.random.get_rng_state()
    assert validate(model, source, CPU, {}) == validate(model, source, CPU, {})
    assert torch.equal(torch.random.get_rng_state(), state) and model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("mode", ["separate", "disjoint"])
def test_a_copy_is_aligned_when_its_rows_are_its_originals(toy, tmp_path, mode):
    recipe, data, vocabularies = prepared(with_copy(toy, tmp_path, mode), tmp_path)
    model, feed, copies = (
        build_model(recipe, vocabularies),
        MaskedBatches(recipe, data, vocabularies),
        recipe.vocabulary.copies,
    )
    chance = validate(model, feed, CPU, copies)["alignment"]
    n = chance["eng>eng-x"]["n"]
    occurring = (data.counts["eng"][vocabularies.tables["eng"]][len(SPECIAL_TOKENS) :] > 0).sum()
    assert n == occurring >= 20
    # 1 in n is expected by chance; 6 in n has a probability below 1 in 1000 (Poisson).
    assert all(told["value"] <= 5 / n for told in chance.values())
    tables = [torch.from_numpy(vocabularies.tables[name]) for name in ("eng", "eng-x")]
    with torch.no_grad():
        model.encoder.token.of("eng-x").weight[tables[1]] = model.encoder.token.of("eng").weight[
            tables[0]
        ]
    # groups of about 20, each neighbour in its own
    aligned = {"value": 1.0, "by_frequency": pytest.approx(1 / 20, rel=0.2), "n": n}
    assert validate(model, feed, CPU, copies)["alignment"] == {
        "eng>eng-x": aligned,
        "eng-x>eng": aligned,
    }


@pytest.mark.parametrize("mode", ["separate", "disjoint"])
def test_a_run_with_a_copy_logs_its_alignment_and_writes_its_view(toy, tmp_path, mode):
    recipe = with_copy(toy, tmp_path, mode)
    folder = train(recipe, tmp_path / "run").parent
    told = log(folder)[-1]["alignment"]
    assert told.keys() == {"eng>eng-x", "eng-x>eng"} and all(
        0 <= value["value"] <= 1 for value in told.values()
    )
    _, vocabularies = load_model(folder / "model")
    assert (
        not set(vocabularies.tables["eng"][5:]) & set(vocabularies.tables["eng-x"][5:])
        or mode == "separate"
    )
    one, other = (
        AutoTokenizer.from_pretrained(folder / "views" / name) for name in ("eng", "eng-x")
    )
    assert one("the cat sees")["input_ids"] == other("the cat sees")["input_ids"]


def test_the_choice_is_by_geometric_mean_or_by_a_language():
    found = {"perplexity": {"eng": 2.0, "nld": 8.0}}
    assert choice_measure(found, "best") == pytest.approx(4) and choice_measure(
        found, "last"
    ) == pytest.approx(4)
    assert choice_measure(found, "eng") == 2 and choice_measure(found, "nld") == 8


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value):
    need_number("loss", 3.0)
    with pytest.raises(TrainingError, match=f"loss: .*got {value}"):
        need_number("loss", value)


def test_what_is_measured_does_not_depend_on_the_parts_of_a_batch(source, model, monkeypatch):
    rows, once = list[int](), validation.tensors_of

    def counting(*told, **parts):
        found = once(*told, **parts)
        rows.append(len(found["ids"]))
        return found

    monkeypatch.setattr(validation, "tensors_of", counting)
    cut = MaskedBatches(
        dataclasses.replace(source.recipe, accumulate=7), source.data, source.vocabularies
    )
    whole, largest = validate(model, source, CPU, {}), max(rows)
    rows.clear()
    found = validate(model, cut, CPU, {})
    assert found["perplexity"] == pytest.approx(whole["perplexity"], rel=1e-6)
    assert found["retrieval"] == whole["retrieval"]
    assert max(rows) == -(-largest // 7)  # no more at a time than in training
