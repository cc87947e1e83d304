"""Finished models: what every named system leaves behind, and that models are read as they were
written."""

import itertools
import json
import math

import pytest
import torch
from safetensors.torch import load_file
from toy_texts import deep, log, prepared
from transformers import AutoModelForMaskedLM, AutoTokenizer

from crosslens.errors import InputError, StoreError
from crosslens.models.network.encoder import Group
from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.saved.interop import import_model
from crosslens.models.saved.native import export_view, load_model, save_model
from crosslens.models.training.masked_lm import build_model, train
from crosslens.models.training.settings import with_overrides

UNITS = ("sentences", "stream", "packed")
ALL = list(itertools.product(SYSTEMS, UNITS, ("one", "mixed")))
# Each system once in the fast tests, units and batches taking turns; the rest is slow.
FAST = {(system, UNITS[i % 3], ("one", "mixed")[i % 2]) for i, system in enumerate(SYSTEMS)}
GRID = [
    pytest.param(*case, id="/".join(case), marks=() if case in FAST else pytest.mark.slow)
    for case in ALL
]
SENTENCES = {"eng": "the cat sees a mat", "nld": "de ket zieht een mate"}


def scores(model, vocabularies, language, text):
    """(1, length, pieces) scores over the pieces of a language's own tokeniser, from the
    multilingual model."""
    table = torch.from_numpy(vocabularies.tables[language])
    ids = table[torch.tensor(vocabularies.tokenizers[language].encode(text).ids)][None]
    groups = (Group(language, 1, 0),)
    with torch.no_grad():
        last = model.eval().encoder(ids, torch.arange(ids.shape[1])[None], None, groups)[-1]
        return model.scores(last, language)[..., table]


def view_scores(folder, text):
    """The same from a folder, by transformers alone."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model, info = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    left = {
        name
        for name in info["unexpected_keys"]
        if "pooler" not in name and "seq_relationship" not in name
    }
    assert not left  # the decision on the next sentence is another class's of transformers
    with torch.no_grad():
        return model.eval()(
            **tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        ).logits


def check_views(folder, languages=("eng", "nld")):
    model, vocabularies = load_model(folder / "model")
    assert sorted(path.name for path in (folder / "views").iterdir()) == sorted(languages)
    for language in languages:
        text = SENTENCES[language]
        # One product of three against one, another order of sums: float32 to six digits.
        torch.testing.assert_close(
            view_scores(folder / "views" / language, text),
            scores(model, vocabularies, language, text),
            atol=1e-5,
            rtol=1e-5,
        )
    return model


@pytest.mark.parametrize(("system", "units", "batches"), GRID)
def test_a_run_of_each_system_ends_in_folders_that_give_the_same_scores(
    toy, tmp_path, system, units, batches
):
    recipe = deep(toy, sharing=system, units=units, batch_languages=batches, steps=3)
    folder = train(recipe, tmp_path / "run").parent
    lines = log(folder)
    assert all(math.isfinite(line["loss"]) for line in lines if "loss" in line) and lines[-1][
        "perplexity"
    ].keys() == {"eng", "nld"}
    trained = load_file(folder / "checkpoints" / "step-00000003" / "model.safetensors")
    if system == "default":  # one ordinary model says it all
        assert not (folder / "views").exists()
        ours = import_model(folder / "model")
        assert view_scores(folder / "model", SENTENCES["eng"]).isfinite().all()
    else:
        ours = check_views(folder)
    state = ours.state_dict()
    assert state.keys() == trained.keys() and all(
        torch.equal(state[name], trained[name]) for name in trained
    )


def test_language_embeddings_are_folded_into_the_views(toy, tmp_path):
    recipe = with_overrides(
        deep(toy, steps=3), {"encoder.language_embeddings": True, "encoder.layers": 2}
    )
    check_views(train(recipe, tmp_path / "run").parent)


def test_a_run_with_pairs_of_segments_leaves_whole_views(toy, tmp_path):
    shape = {
        "encoder.segments": 2,
        "encoder.next_sentence": True,
        "encoder.layers": 2,
        "units": "nsp",
        "steps": 3,
    }
    check_views(
        train(with_overrides(deep(toy, sharing="monolingual"), shape), tmp_path / "run").parent
    )


@pytest.fixture
def made(toy, tmp_path):
    """An untrained model with separate vocabularies, and these."""
    recipe, _, vocabularies = prepared(
        with_overrides(deep(toy, sharing="sep-emb"), {"encoder.layers": 2}), tmp_path / "prepared"
    )
    return build_model(recipe, vocabularies), vocabularies


def test_a_model_is_read_as_it_was_written(made, tmp_path):
    model, vocabularies = made
    save_model(model, vocabularies, tmp_path / "model")
    again, theirs = load_model(tmp_path / "model")
    assert (again.languages, again.plan, again.sizes, again.config) == (
        model.languages,
        model.plan,
        model.sizes,
        model.config,
    )
    assert all(
        torch.equal(tensor, model.state_dict()[name]) for name, tensor in again.state_dict().items()
    )
    for language in vocabularies.languages:
        assert theirs.tokenizers[language].to_str() == vocabularies.tokenizers[language].to_str()
        assert (theirs.tables[language] == vocabularies.tables[language]).all()


def test_half_the_size_is_exact_to_rounding(made, tmp_path):
    model, vocabularies = made
    save_model(model, vocabularies, tmp_path / "half", half=True)
    again, _ = load_model(tmp_path / "half")
    for name, tensor in model.state_dict().items():
        loaded = again.state_dict()[name]
        assert loaded.dtype == torch.float32
        # float16 has 11 bits, so it is off by at most 1 in 2048; below 6e-5 its steps are 6e-8.
        torch.testing.assert_close(loaded, tensor, rtol=1 / 2048, atol=6e-8, msg=name)
    export_view(model, vocabularies, "nld", tmp_path / "view", half=True)
    assert {
        tensor.dtype for tensor in load_file(tmp_path / "view" / "model.safetensors").values()
    } == {torch.float16}


def test_weights_that_float16_does_not_hold_are_refused(made, tmp_path):
    """They were stored as infinity."""
    model, vocabularies = made
    with torch.no_grad():
        model.encoder.position.of("nld").weight[0, 0] = -1e5
    told = r"half: expected weights that float16 holds, got 100000 in .*position.*; store"
    with pytest.raises(InputError, match=told):
        save_model(model, vocabularies, tmp_path / "half", half=True)
    with pytest.raises(InputError, match=told):
        export_view(model, vocabularies, "nld", tmp_path / "view", half=True)
    assert not any((tmp_path / name).exists() for name in ("half", "view"))
    save_model(model, vocabularies, tmp_path / "whole")
    assert load_model(tmp_path / "whole")[0].encoder.position.of("nld").weight[0, 0] == -1e5


@pytest.mark.parametrize("how", ["cut short", "gone", "of another plan"])
def test_damaged_weights_are_refused_by_name(made, tmp_path, how):
    model, vocabularies = made
    save_model(model, vocabularies, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    if how == "of another plan":
        config = tmp_path / "model" / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "sharing": "sep=emb,1"}))
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(StoreError, match="model.safetensors: expected") as told:
        load_model(tmp_path / "model")
    if how == "of another plan":
        assert "encoder.layers.0.own_eng" in str(told.value) and "encoder.layers.0.shared" in str(
            told.value
        )


def test_a_folder_of_another_kind_is_refused(undisturbed, tmp_path):
    with pytest.raises(
        InputError,
        match=(
            "expected a model that save_model wrote, got one of type 'bert'; read transformers' "
            "folders with"
        ),
    ):
        load_model(undisturbed / "model")
    with pytest.raises(InputError, match="expected a model that save_model wrote, got none"):
        load_model(tmp_path)


def test_weights_are_read_from_the_folder_itself(made, tmp_path):
    save_model(*made, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    path.rename(tmp_path / "elsewhere.safetensors")
    path.symlink_to("../elsewhere.safetensors")
    with pytest.raises(
        InputError,
        match=(
            "expected files in its own folder, got model.safetensors, a link to .*; copy the file "
            "into the"
        ),
    ):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "change", [{"encoder": 3}, {"encoder": {"layers": "many"}}, {"languages": None}]
)
def test_a_configuration_of_another_shape_is_refused(made, tmp_path, change):
    save_model(*made, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    with pytest.raises(StoreError, match=r"config.json.*: expected"):
        load_model(tmp_path / "model")
