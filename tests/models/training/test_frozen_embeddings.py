"""A training over embeddings of a folder, and such of other languages joined to it."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from toy_texts import two_languages

from crosslens.errors import InputError
from crosslens.models.saved.joining import join_vectors
from crosslens.models.saved.native import load_model
from crosslens.models.text.subword_vectors import SubwordVectors
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies
from crosslens.models.training.estimate import estimate
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import Source, resolve, with_overrides
from crosslens.recipes import load_recipe


def vectors(language, lines, wide):
    how = Vocabulary(size=70, kind="bpe", sentences=200, mode="separate")
    vocabulary = learn_vocabularies({language: lines}, how, seed=5)
    size = vocabulary.sizes[language]
    rows = np.random.default_rng(size).normal(size=(size, wide)).astype(np.float32)
    return SubwordVectors(vocabulary, rows, np.ones(size, np.int64))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Vectors of English and Dutch, of 20 dimensions, and of Dutch, of 6."""
    folder = tmp_path_factory.mktemp("vectors")
    one, other = two_languages(160)
    vectors("eng", one, 20).save(folder / "eng")
    vectors("nld", other, 20).save(folder / "nld")
    vectors("nld", other, 6).save(folder / "narrow")
    return folder


@pytest.fixture(scope="module")
def recipe(toy, place):
    english = {"eng": toy.sources[0].texts["eng"]}
    told = {
        "embeddings": str(place / "eng"),
        "sharing": "sep=token",
        "tlm_share": 0.0,
        "steps": 2,
        "vocabulary.mode": "separate",
        "masking.scope": "language",
        "encoder.embedding_size": 20,
        "encoder.special_table": True,
        "optimisation.weight_decay": 0.3,
    }
    alone = dataclasses.replace(toy, sources=(Source(name="toy", texts=english),))
    return with_overrides(alone, told)


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    return train(recipe, tmp_path_factory.mktemp("run") / "run", device="cpu").parent


def test_vocabulary_and_rows_are_the_folder_s_and_stand_still(run, place):
    model, vocabularies = load_model(run / "model")
    given = SubwordVectors.load(place / "eng")
    assert vocabularies.pieces("eng") == given.vocabulary.pieces("eng")
    rows = model.encoder.token.of("eng").weight.detach().numpy()
    assert np.array_equal(rows, given.vectors[5:])
    told = json.loads((run / "config.json").read_text())
    assert len(told["settings"]["embeddings"]) == 16
    assert told["asked"]["recipe"]["embeddings"] == str(place / "eng")


def test_other_embeddings_are_another_run(recipe, run, place, tmp_path):
    given = SubwordVectors.load(place / "eng")
    dataclasses.replace(given, vectors=given.vectors + 1).save(tmp_path / "eng")
    other = dataclasses.replace(recipe, embeddings=str(tmp_path / "eng"))
    with pytest.raises(Exception, match="expected the same settings"):
        train(other, run, resume=True, device="cpu")


def test_languages_are_joined_by_their_vectors(run, place):
    model, vocabularies = join_vectors(run / "model", [place / "nld"])
    assert model.languages == ("eng", "nld") == vocabularies.languages
    given = SubwordVectors.load(place / "nld")
    assert np.array_equal(model.encoder.token.of("nld").weight.detach().numpy(), given.vectors[5:])
    assert not model.output_bias.of("nld").value.any()
    before = load_model(run / "model")[0].state_dict()
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("narrow", "embeddings: expected vectors of 20 dimensions, .*got 6; set encoder.embedding"),
        ("eng", "vocabularies: expected different languages, got eng twice"),
        ("none", "none: expected a folder of subword vectors"),
    ],
)
def test_vectors_that_do_not_fit_are_not_joined(run, place, folder, told):
    with pytest.raises(InputError, match=told):
        join_vectors(run / "model", [place / folder])


def test_a_base_that_owns_more_is_not_joined(recipe, place, tmp_path):
    told = {"sharing": "sep=token,position", "steps": 1}
    other = train(with_overrides(recipe, told), tmp_path / "run", device="cpu")
    with pytest.raises(
        InputError, match="own their token embeddings alone, got sep=token,position"
    ):
        join_vectors(other, [place / "nld"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"start": "x"}, "embeddings: expected no embeddings where a model is started from"),
        ({"sharing": "", "vocabulary.mode": "joint"}, "sharing: expected a language that owns"),
        ({"encoder.special_table": False}, "encoder.special_table: expected true over token"),
    ],
)
def test_settings_that_do_not_go_with_embeddings_are_refused(recipe, changes, told):
    with pytest.raises(InputError, match=told):
        resolve(with_overrides(recipe, changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"encoder.embedding_size": 0}, "expected vectors of 32 dimensions, .*got 20"),
        ({"embeddings": "nld"}, "embeddings: expected vectors of eng, got those of nld"),
        ({"embeddings": "none"}, "none: expected a folder of subword vectors"),
    ],
)
def test_embeddings_that_do_not_fit_are_refused_and_leave_nothing(
    recipe, place, changes, told, tmp_path
):
    if "embeddings" in changes:
        changes = {"embeddings": str(place / changes["embeddings"])}
    with pytest.raises(InputError, match=told):
        train(with_overrides(recipe, changes), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_two_languages_are_refused(toy, recipe):
    told = dataclasses.replace(recipe, sources=toy.sources)
    with pytest.raises(InputError, match="embeddings: expected sources of one language"):
        resolve(told)


def test_a_dry_run_counts_what_is_trained(recipe):
    parts = {row[0] for row in estimate(recipe).table}
    assert {"special", "projection", "bias"} <= parts and "token, softmax" not in parts


def test_a_dry_run_takes_the_size_of_the_vectors(recipe, run):
    """The recipe says nothing of how many there are."""
    model, _ = load_model(run / "model")
    other = with_overrides(recipe, {"vocabulary.size": 5000})
    for one in (recipe, other):
        assert estimate(one).parameters == sum(each.numel() for each in model.parameters())
    away = dataclasses.replace(recipe, embeddings="not-made-yet")
    assert estimate(away).parameters != estimate(recipe).parameters


def test_a_recipe_names_its_embeddings_beside_itself(tmp_path):
    text = 'name = "x"\nsteps = 3\nembeddings = "v"\n[[sources]]\nname = "s"\ntexts = {eng = "e"}\n'
    (tmp_path / "x.toml").write_text(text)
    assert load_recipe(str(tmp_path / "x.toml")).embeddings == str(tmp_path / "v")
