"""Features of a frozen encoder: the loss and gradient of a loop, padding, states that are computed
once, the schedule, and resuming."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_fine_tuning import DUTCH, ENGLISH, right, texts_of, weights_of, words_of
from test_parse import trees_of
from torch.nn import functional as F

from crosslens import files, progress
from crosslens.errors import InputError, OutputError
from crosslens.models.finetuning import batches
from crosslens.models.finetuning.batches import padded
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.finetune import fine_tune
from crosslens.models.finetuning.frozen import FeatureModel, FrozenStates
from crosslens.models.finetuning.parse import Parse
from crosslens.models.finetuning.save import save_fine_tuned
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.tag import Tag
from crosslens.models.saved.loading import load_encoder
from crosslens.models.training import loop
from crosslens.recipes.quickstart import DATA

SETTINGS = FineTuning(
    epochs=4, batch_size=8, peak_rate=1e-3, warmup=0.0, weight_decay=0.0, features="mix+bilstm",
    decay="plateau", pool="max",
)  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(DATA / "tiny-encoder")


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    return tmp_path_factory.mktemp("states")


@pytest.fixture
def encoded(monkeypatch, encoder):
    """How many rows the encoder was given, call by call."""
    given, plain = [], type(encoder).states

    def counting(self, ids, *rest, **more):
        given.append(len(ids))
        return plain(self, ids, *rest, **more)

    monkeypatch.setattr(type(encoder), "states", counting)
    return given


def each_alone(model, encoder, row):
    """The body's states of one row, from the encoder's states as they are, without padding."""
    with torch.no_grad():
        hidden = encoder.states(torch.tensor(row.ids)[None], None)["hidden"]
    shares = torch.exp(model.body.mix.weight) / torch.exp(model.body.mix.weight).sum()
    mixed = sum(share * state.half().float() for share, state in zip(shares, hidden, strict=True))
    return model.body.lstm(mixed)[0][0]


@pytest.mark.parametrize("what", ["texts", "words"])
def test_loss_and_gradient_are_those_of_a_loop_over_sentences(encoder, states, what):
    kind = Tag(3, dropout=0.0) if what == "words" else Classify(2, dropout=0.0, pool="max")
    examples = words_of(ENGLISH[:6]) if what == "words" else texts_of(ENGLISH[:6])
    model = FeatureModel(FrozenStates(encoder, states), kind, SETTINGS)
    with torch.no_grad():
        model.body.mix.weight.copy_(torch.arange(encoder.layers) / 3)
    rows = model.rows(examples)
    assert len({len(row.ids) for row in rows}) > 1  # some are padded
    loss = model(**padded(kind, rows, encoder.pad_id))
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    alone = torch.zeros(())
    for row in rows:
        read = each_alone(model, encoder, row)
        if what == "words":
            read, gold = read[row.targets["first"]], torch.tensor(row.targets["labels"])
        else:
            read, gold = read.max(0).values[None], torch.tensor([row.targets["label"]])
        alone = alone + F.cross_entropy(model.head.classifier(read), gold, reduction="sum")
    alone.backward()
    torch.testing.assert_close(loss, alone)
    for name, p in model.named_parameters():
        torch.testing.assert_close(gradients[name], p.grad, msg=name)


@pytest.mark.parametrize("features", ["mix+bilstm", "transformer"])
def test_padding_changes_no_answer(encoder, states, features):
    kind, settings = Classify(2, pool="max"), dataclasses.replace(SETTINGS, features=features)
    model = FeatureModel(FrozenStates(encoder, states), kind, settings).eval()
    rows = model.rows(texts_of(ENGLISH[:8]))
    given = padded(kind, rows, encoder.pad_id)
    together = model.states(given["states"], given["mask"])
    for row, mine in zip(rows, together, strict=True):
        one = padded(kind, [row], encoder.pad_id)
        alone = model.states(one["states"], one["mask"])[0]
        torch.testing.assert_close(mine[: len(alone)], alone, atol=1e-5, rtol=1e-5)
        assert features == "transformer" or not mine[len(alone) :].any()


def test_new_layers_are_those_of_torch(encoder, states):
    settings = dataclasses.replace(SETTINGS, features="transformer")
    model = FeatureModel(FrozenStates(encoder, states, layer=2), Tag(3), settings).train()
    first, second = (layer.linear1.weight for layer in list(model.body.layers)[:2])
    assert len(model.body.layers) == 4 and not torch.equal(first, second)
    body = torch.nn.TransformerEncoder(model.body.layers[0], 4)
    body.load_state_dict(model.body.state_dict())
    rows = model.rows(words_of(ENGLISH[:6]))
    given = padded(model.kind, rows, encoder.pad_id)
    assert given["states"].shape[2] == 1  # of layer 2 alone
    for each in (model, body):
        for module in each.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            elif isinstance(module, torch.nn.MultiheadAttention):
                module.dropout = 0.0
    there = given["mask"].bool()
    theirs = body(given["states"][:, :, 0].float(), src_key_padding_mask=~there)[there]
    torch.testing.assert_close(model.states(given["states"], given["mask"])[there], theirs)
    with torch.no_grad():
        ids = torch.tensor(rows[0].ids)[None]
        hidden = encoder.states(ids, None)["hidden"][2][0].half().float()
    np.testing.assert_allclose(rows[0].states[:, 0], hidden, atol=2e-3)


def test_one_encoding_serves_all_seeds_and_epochs(encoder, tmp_path, encoded):
    train, dev = texts_of(ENGLISH[:24]), texts_of(ENGLISH[24:32])
    for seed in range(3):
        settings = FineTuning(epochs=2, batch_size=8, features="mix+bilstm", seed=seed)
        folder, shared = tmp_path / str(seed), tmp_path / "states"
        kind, measures = Classify(2), {"dev": right(dev)}
        source = FrozenStates(encoder, shared)
        tuned = fine_tune(encoder, kind, [train], settings, folder, measures, source)
        tuned.predict(dev)
    assert sum(encoded) == 32
    assert len(list((tmp_path / "states").glob("*.npy"))) == 2
    tuned.predict(texts_of(DUTCH[:3], "nld"))
    assert sum(encoded) == 35


def test_states_that_were_stopped_are_encoded_from_there_on(
    encoder, tmp_path, encoded, monkeypatch
):
    monkeypatch.setattr(batches, "_PART_TOKENS", {"cpu": 40})
    kind, examples = Classify(2), texts_of(ENGLISH[:24])
    whole = FrozenStates(encoder, tmp_path / "whole").rows(kind, examples)
    parts = list(encoded)
    assert len(parts) > 6
    encoded.clear()
    counting = type(encoder).states

    def stopping(self, *given, **more):
        if len(encoded) == 4:
            raise KeyboardInterrupt
        return counting(self, *given, **more)

    with monkeypatch.context() as context:
        context.setattr(type(encoder), "states", stopping)
        with pytest.raises(KeyboardInterrupt):
            FrozenStates(encoder, tmp_path / "stopped").rows(kind, examples)
    rest = FrozenStates(encoder, tmp_path / "stopped").rows(kind, examples)
    assert encoded == parts
    for mine, theirs in zip(rest, whole, strict=True):
        assert np.array_equal(mine.states, theirs.states)
    assert [one.suffix for one in (tmp_path / "stopped").iterdir()] == [".npy"]


def test_states_are_encoded_anew_where_their_file_is_gone(encoder, tmp_path, encoded):
    kind, examples = Classify(2), texts_of(ENGLISH[:4])
    FrozenStates(encoder, tmp_path).rows(kind, examples)
    (made,) = tmp_path.iterdir()
    np.save(made.with_suffix(""), np.ones(4, bool))
    made.with_suffix("").with_suffix(".npy").rename(made.with_suffix(".0.encoded"))
    rows = FrozenStates(encoder, tmp_path).rows(kind, examples)
    assert sum(encoded) == 8 and np.abs(rows[0].states).sum() > 0


def test_other_tokens_or_another_encoder_have_states_of_their_own(encoder, tmp_path, encoded):
    source, kind = FrozenStates(encoder, tmp_path), Classify(2)
    for examples in (texts_of(ENGLISH[:2]), texts_of(ENGLISH[:2][::-1]), texts_of(ENGLISH[:2])):
        source.rows(kind, examples)
    assert sum(encoded) == 4
    other = FrozenStates(load_encoder(DATA / "tiny-encoder", random_seed=1), tmp_path)
    mine, theirs = (one.rows(kind, texts_of(ENGLISH[:2]))[0] for one in (source, other))
    assert mine.states.shape == (len(mine.ids), encoder.layers, encoder.d)
    assert sum(encoded) == 6 and not np.array_equal(mine.states, theirs.states)


@pytest.mark.parametrize(
    ("what", "features"),
    [
        ("texts", "mix+bilstm"),
        ("words", "mix+bilstm"),
        ("trees", "mix+bilstm"),
        ("words", "transformer"),
    ],
)
def test_every_kind_learns(encoder, states, tmp_path, what, features):
    kind, examples, measure = {
        "texts": lambda: (Classify(2, pool="max"), texts_of(ENGLISH[:40]), right),
        "words": lambda: (Tag(3), words_of(ENGLISH[:40]), right),
        "trees": lambda: (Parse(4), trees_of(), heads_right),
    }[what]()
    epochs, rate = 25 if what == "trees" else 5, 1e-3 if features == "transformer" else 3e-3
    settings = FineTuning(epochs=epochs, batch_size=4, peak_rate=rate, features=features)
    measures = {"dev": measure(examples)}
    tuned = fine_tune(
        encoder, kind, [examples], settings, tmp_path, measures, FrozenStates(encoder, states)
    )
    assert max(found["dev"] for found in tuned.epochs.values()) > 0.9


def heads_right(examples):
    def measure(predict):
        found = [one.heads for one in predict(examples)]
        return float(np.mean(np.concatenate(found) == np.concatenate(examples.heads)))

    return measure


# -- the schedule


def rates_of(monkeypatch, run):
    """What the first group's rate was at each update."""
    rates, build = [], loop.build_optimiser

    def watched(*arguments):
        optimiser = build(*arguments)
        optimiser.register_step_pre_hook(lambda one, *_: rates.append(one.param_groups[0]["lr"]))
        return optimiser

    monkeypatch.setattr(loop, "build_optimiser", watched)
    return run(), rates


DEV = [0.5, 0.6, 0.6, 0.4, 0.7, 0.7, 0.1, 0.2, 0.3, 0.4]
"""Two that are better than all before, then 0.7: seven halvings in all."""


def told(encoder, folder, states, epochs=20):
    left = {"dev": DEV, "other": DEV[::-1]}
    calls = dict.fromkeys(left, 0)

    def measure(name):
        def value(predict):
            calls[name] += 1
            return left[name][len(json_epochs(folder))]

        return value

    settings = FineTuning(
        epochs=epochs, batch_size=8, peak_rate=1e-3, warmup=0.0, features="mix+bilstm",
        decay="plateau",
    )  # fmt: skip
    measures = {name: measure(name) for name in left}
    return fine_tune(
        encoder,
        Classify(2),
        [texts_of(ENGLISH[:16])],
        settings,
        folder,
        measures,
        FrozenStates(encoder, states),
    )


def json_epochs(folder):
    path = folder / "epochs.json"
    return json.loads(path.read_text())["epochs"] if path.exists() else {}


def test_the_rate_is_halved_where_dev_is_no_better_and_training_ends_below_a_hundredth(
    encoder, states, tmp_path, monkeypatch, capsys
):
    progress.be_quiet(False)
    tuned, rates = rates_of(monkeypatch, lambda: told(encoder, tmp_path, states))
    progress.be_quiet()
    assert "stopped at step 20: the rate was halved 7 times" in capsys.readouterr().err
    halved = [0, 0, 0, 1, 2, 2, 3, 4, 5, 6]  # before each epoch, of two updates
    assert rates == [1e-3 * 0.5**n for n in halved for _ in range(2)]
    assert sorted(tuned.epochs) == list(range(1, 11)) and tuned.best_epoch("dev") == 5
    before = weights_of(tuned)
    again, more = rates_of(monkeypatch, lambda: told(encoder, tmp_path, states))
    assert more == [] and all(torch.equal(t, before[n]) for n, t in weights_of(again).items())


@pytest.mark.parametrize("step", [3, 8, 9, 17])
def test_a_plateau_that_was_stopped_ends_in_the_same_bits(
    encoder, states, tmp_path, monkeypatch, step
):
    whole = told(encoder, tmp_path / "whole", states)
    rate = loop.learning_rate

    def stop(now, *rest):
        if now == step:
            raise KeyboardInterrupt
        return rate(now, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "learning_rate", stop)
        with pytest.raises(KeyboardInterrupt):
            told(encoder, tmp_path / "run", states)
    again = told(encoder, tmp_path / "run", states)
    assert again.epochs == whole.epochs
    for epoch in ("last", "dev"):
        mine, theirs = weights_of(again.use(epoch)), weights_of(whole.use(epoch))
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


# -- refusals


def test_no_folder_of_transformers_is_written(encoder, states, tmp_path):
    settings = FineTuning(epochs=1, features="mix+bilstm")
    examples = texts_of(ENGLISH[:8])
    measures = {"dev": right(examples)}
    tuned = fine_tune(
        encoder,
        Classify(2),
        [examples],
        settings,
        tmp_path / "run",
        measures,
        FrozenStates(encoder, states),
    )
    with pytest.raises(InputError, match="tuned: expected an encoder that is fine-tuned"):
        save_fine_tuned(tuned, ["no", "yes"], tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_states_that_do_not_fit_are_refused_and_nothing_is_left(encoder, tmp_path, monkeypatch):
    plain = type(encoder).states

    def large(self, *given, **more):
        return {"hidden": [1e6 * state for state in plain(self, *given, **more)["hidden"]]}

    source, examples = FrozenStates(encoder, tmp_path), texts_of(ENGLISH[:2])
    with monkeypatch.context() as patched:
        patched.setattr(type(encoder), "states", large)
        with pytest.raises(InputError, match="expected states within float16"):
            source.rows(Classify(2), examples)
    assert not list(tmp_path.glob("*.npy"))
    with monkeypatch.context() as patched:
        patched.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
        with pytest.raises(OutputError, match="states of a frozen encoder: expected"):
            source.rows(Classify(2), examples)
    assert source.rows(Classify(2), examples)[0].states is not None


def test_other_features_are_refused():
    with pytest.raises(InputError, match=r"features: expected one of None, mix\+bilstm"):
        FineTuning(features="lstm")
