"""Models with adapters, a [CLS] without position, a table of special tokens and noise are trained,
resumed, saved, read and taken apart like any other; only transformers has no class for them."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from toy_texts import deep, log, prepared, two_languages, weights
from typed import typed

from crosslens.errors import InputError
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.extract import extract
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.surgery import split_special
from crosslens.models.saved.interop import check_exportable, import_model
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import export_run, export_view, load_model, save_model
from crosslens.models.scoring.cloze import load_scorer
from crosslens.models.training.masked_lm import build_model, train
from crosslens.models.training.settings import with_overrides
from crosslens.score import read_scores

TEXTS = dict(zip(("eng", "nld"), two_languages(60, seed=1), strict=True))
PARTS = {
    "encoder.layers": 3,
    "encoder.segments": 2,
    "encoder.adapters": 4,
    "encoder.cls_position": False,
    "encoder.noise": 0.075,
    "encoder.special_table": True,
    "vocabulary.mode": "separate",
    "masking.scope": "language",
    "save_every": 2,
}


@pytest.fixture(scope="module")
def recipe(toy):
    return with_overrides(deep(toy, sharing="sep=token,position,adapters", steps=4), PARTS)


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    return train(recipe, tmp_path_factory.mktemp("run") / "run").parent


@pytest.fixture(scope="module")
def native(run):
    return load_encoder(run / "model")


def test_a_run_ends_in_a_model_of_ours_alone(run):
    assert all(math.isfinite(line["loss"]) for line in log(run) if "loss" in line)
    assert not (run / "views").exists()
    owners = json.loads((run / "sharing.json").read_text())
    each = 3 * 2 * (2 * 16 * 4 + 4 + 16)
    assert owners["adapters"] == {"": 0, "eng": each, "nld": each}
    assert owners["special"][""] == 5 * 16
    said = json.loads((run / "config.json").read_text())["settings"]["encoder"]
    assert {
        name: said[name] for name in ("adapters", "cls_position", "noise", "special_table")
    } == {
        "adapters": 4,
        "cls_position": False,
        "noise": 0.075,
        "special_table": True,
    }


def test_what_was_read_is_written_as_it_was(run, tmp_path):
    model, vocabularies = load_model(run / "model")
    save_model(model, vocabularies, tmp_path / "again")
    for path in (path for path in (run / "model").rglob("*") if path.is_file()):
        assert (
            path.read_bytes() == (tmp_path / "again" / path.relative_to(run / "model")).read_bytes()
        )


def test_a_stopped_run_goes_on_to_the_same_bytes(recipe, run, stopped_at):
    """With noise, dropout and what the optimiser remembers of adapters."""
    folder = stopped_at(recipe, 3)
    train(recipe, folder, resume=True)
    assert weights(folder) == weights(run)


def test_files_say_nothing_of_what_came_later_unless_it_is_asked_for(made, tmp_path):
    """So that folders, runs and content hashes from before are what they were."""
    model, vocabularies = made
    save_model(model, vocabularies, tmp_path / "model")
    told = json.loads((tmp_path / "model" / "config.json").read_text())["encoder"]
    later = {
        "adapter_norms",
        "adapters",
        "cls_position",
        "embedding_size",
        "noise",
        "special_table",
    }
    assert told.keys() | later == {field.name for field in dataclasses.fields(EncoderConfig)}
    assert not told.keys() & later


@pytest.fixture
def made(toy, tmp_path):
    """An untrained model of today's parts, with separate vocabularies, and these."""
    plain = with_overrides(deep(toy, sharing="sep-emb"), {"encoder.layers": 2})
    recipe, _, vocabularies = prepared(plain, tmp_path / "prepared")
    return build_model(recipe, vocabularies), vocabularies


@pytest.mark.parametrize("language", ["eng", "nld"])
def test_every_layer_and_what_it_adds_is_the_model_s_own(run, native, language):
    """Of each token: the states that the model gives, and LN(LN(h + attention) + mlp), which holds
    only if what adapters give is taken for what a block adds."""
    assert isinstance(native, Encoder)
    lines = TEXTS[language][:12]
    outputs = ("hidden", "attention", "mlp")
    store = extract(native, lines, language=language, unit="token", outputs=outputs)
    model, vocabularies = load_model(run / "model")
    table = torch.from_numpy(vocabularies.tables[language])
    own = []
    for line in lines:
        ids = table[torch.tensor(vocabularies.tokenizers[language].encode(line).ids)][None]
        places = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            states = model.eval().encoder(ids, places, None, (Group(language, 1, 0),))
        own.append([state[0] for state in states])
    assert store.layers == 4
    for layer in range(4):
        whole = torch.cat([states[layer][1:-1] for states in own]).numpy()
        np.testing.assert_allclose(store.layer(layer), whole, rtol=0, atol=1e-5)
    for number in range(1, 4):
        layer = model.encoder.layers[number - 1]["shared"]
        h, a, m = (
            torch.from_numpy(np.array(store.layer(at, output), np.float32))
            for at, output in ((number - 1, "hidden"), (number, "attention"), (number, "mlp"))
        )
        with torch.no_grad():
            above = layer.ffn_norm(layer.attention_norm(h + a) + m)
        np.testing.assert_allclose(store.layer(number), above.numpy(), rtol=0, atol=1e-5)


def test_a_checkpoint_and_a_random_copy_are_read(run, native):
    lines = TEXTS["eng"][:10]
    finished, checkpoint, other, again = (
        extract(one, lines, language="eng").layer(3)
        for one in (
            native,
            load_encoder(run / "checkpoints" / "step-00000004"),
            load_encoder(run / "model", random_seed=5),
            load_encoder(run / "model", random_seed=5),
        )
    )
    assert np.array_equal(finished, checkpoint) and np.array_equal(other, again)
    assert not np.allclose(finished, other, atol=1e-2)


def test_embeddings_and_scores_know_the_special_tokens(run, native):
    """The rows of the tokeniser's own subwords, special ones included; and the scores of a sentence
    are those of the model."""
    model, vocabularies = load_model(run / "model")
    told = native.for_text("nld")
    table = torch.from_numpy(vocabularies.tables["nld"])
    rows = model.encoder.token_table("nld")[table]
    assert torch.equal(told.token_embeddings(), rows) and len(rows) == len(told.tokenizer)
    line = TEXTS["nld"][0]
    scored = load_scorer(str(run / "model"), language="nld").score_sentences([line]).total[0]
    ids = table[torch.tensor(vocabularies.tokenizers["nld"].encode(line).ids)]
    total, places = 0.0, torch.arange(len(ids))[None]
    for place in range(1, len(ids) - 1):
        hidden = torch.where(torch.arange(len(ids)) == place, 4, ids)[None]
        with torch.no_grad():
            last = model.eval().encoder(hidden, places, None, (Group("nld", 1, 0),))[-1][0, place]
            shares = model.scores(last[None], "nld")[0, table].log_softmax(-1)
        total += shares[(table == ids[place]).nonzero()[0, 0]].item()
    assert scored == pytest.approx(total, rel=1e-4)


@pytest.mark.slow
def test_it_is_studied_as_it_lies_there(run, tmp_path):
    """Retrieval between its languages, by the command line."""
    texts = []
    for language, lines in TEXTS.items():
        (tmp_path / f"{language}.txt").write_text("".join(f"{line}\n" for line in lines))
        texts += ["--text", f"{language}={tmp_path / f'{language}.txt'}"]
    out = ["--out", str(tmp_path / "study"), "--quiet"]
    assert typed("study", "--encoder", str(run / "model"), *texts, *out) == 0
    scores = read_scores(tmp_path / "study" / "scores.jsonl")
    found = {one.layer for one in scores if one.quantity == "precision_at_1"}
    assert found >= {0, 1, 2, 3} and not (run / "views").exists()


def test_minimal_pairs_are_scored(run, tmp_path):
    pairs = [
        json.dumps({"sentence_good": one, "sentence_bad": other})
        for one, other in zip(TEXTS["nld"][:8], TEXTS["nld"][8:16], strict=True)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(pairs))
    given = ["--labels", f"mine={tmp_path / 'pairs.jsonl'}", "--language", "nld", "--quiet"]
    line = ["--no-random-control", "--out", str(tmp_path / "pairs")]
    assert typed("probe", "--encoder", str(run / "model"), *given, *line) == 0
    assert any(one.n == 8 for one in read_scores(tmp_path / "pairs" / "scores.jsonl"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"encoder.adapters": 4}, "adapters"),
        ({"encoder.cls_position": False}, "cls_position=false"),
    ],
)
def test_views_are_refused_by_name_and_a_shared_model_is_kept_as_ours(toy, tmp_path, changes, told):
    recipe, _, vocabularies = prepared(with_overrides(toy, changes), tmp_path / "prepared")
    model = build_model(recipe, vocabularies)
    check_exportable(model.config)  # it can be kept, so it can be trained
    with pytest.raises(InputError, match=f"encoder: .* got {told}; .*save_model"):
        export_view(model, vocabularies, "eng", tmp_path / "view")
    assert not (tmp_path / "view").exists()
    export_run(model, vocabularies, tmp_path / "run")
    encoder = load_encoder(tmp_path / "run" / "model")
    assert encoder.languages is None and not (tmp_path / "run" / "views").exists()
    mine = extract(encoder, TEXTS["eng"][:4], language="eng")
    assert mine.layers == 3 and np.isfinite(mine.layer(2)).all()


def test_a_table_of_special_tokens_is_folded_into_views(made, tmp_path):
    model, vocabularies = made
    export_view(model, vocabularies, "nld", tmp_path / "whole")
    with torch.no_grad():
        for table in model.encoder.token.values():
            table.weight[:5] = model.encoder.token.of("nld").weight[:5]
    split_special(model)
    save_model(model, vocabularies, tmp_path / "model")
    again, _ = load_model(tmp_path / "model")
    export_view(again, vocabularies, "nld", tmp_path / "split")
    one, other = (import_model(tmp_path / name).state_dict() for name in ("whole", "split"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_random_model_is_a_function_of_its_seed():
    config = EncoderConfig(vocab_size=20, hidden_size=8, layers=2, heads=2, adapters=3)
    one, again, other = (MaskedLM(config, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    name = "encoder.adapters.0.shared.ffn.up.weight"
    assert not torch.equal(one[name], other[name])


def test_its_vectors_are_aligned_compared_and_probed_by_layer(run, tmp_path, monkeypatch):
    """From the command line, with each language's own parts, and no export between."""
    monkeypatch.chdir(tmp_path)
    for language, lines in TEXTS.items():
        (tmp_path / f"{language}.txt").write_text("".join(line + "\n" for line in lines))
    encoder = str(run / "model")
    texts = "--text eng=eng.txt nld=nld.txt --out act --quiet"
    assert typed("extract --encoder", encoder, *texts.split()) == 0
    assert typed("align act/eng act/nld --out aligned --quiet") == 0
    assert typed("compare act/eng act/nld --out compared --quiet") == 0
    rows = [f"{part}\t{'AB'[i % 2]}\t{line}" for i, line in enumerate(TEXTS["eng"])
            for part in [("tr", "tr", "tr", "va", "te")[i // 2 % 5]]]  # fmt: skip
    (tmp_path / "odd.txt").write_text("".join(row + "\n" for row in rows))
    more = "--labels odd=odd.txt --language eng --no-random-control --out probed --quiet"
    assert typed("probe --encoder", encoder, *more.split()) == 0
    for folder, quantity, n in (
        ("aligned", "precision_at_1", 4),
        ("compared", "debiased_linear_cka", 4),
        ("probed", "accuracy", 4),
    ):
        found = {
            score.layer: score.value
            for score in read_scores(tmp_path / folder / "scores.jsonl")
            if score.quantity == quantity and score.other_layer in (None, score.layer)
        }
        assert len(found.keys() - {None}) == n and all(map(math.isfinite, found.values()))
