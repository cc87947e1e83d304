"""Fine-tuning in one language for another, as in the third and fourth step of MonoTrans: what stands
still, the special tokens that do not, noise, and the model with the other language's parts."""

import json

import numpy as np
import pytest
import torch
from test_fine_tuning import DUTCH, ENGLISH, right, texts_of

from crosslens.errors import InputError
from crosslens.models.finetuning.batches import padded
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.finetune import fine_tune
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import save_model
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 16,
    "layers": 2,
    "heads": 2,
    "ffn_size": 24,
    "max_positions": 32,
    "segments": 2,
    "adapters": 4,
    "cls_position": False,
    "special_table": True,
}
SETTINGS = FineTuning(epochs=2, batch_size=16, peak_rate=1e-2, weight_decay=0.3, noise=0.075)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Two languages with token embeddings, positions and adapters of their own; untrained."""
    vocabularies = learn_vocabularies(
        {"eng": ENGLISH, "nld": DUTCH},
        Vocabulary(size=90, kind="bpe", sentences=96, mode="separate"),
        0,
    )
    model = MaskedLM(
        EncoderConfig(**SHAPE),
        languages=("eng", "nld"),
        plan=SharingPlan.parse("sep=token,position,adapters", layers=2),
        sizes=vocabularies.sizes,
    )
    folder = tmp_path_factory.mktemp("native") / "model"
    save_model(model, vocabularies, folder)
    return load_encoder(folder)


@pytest.fixture(scope="module")
def tuned(encoder, tmp_path_factory):
    train = texts_of(ENGLISH)
    folder = tmp_path_factory.mktemp("tuned")
    return fine_tune(encoder, Classify(2), [train], SETTINGS, folder, {"dev": right(train)})


def test_special_tokens_and_the_body_are_trained_and_nothing_else(encoder, tuned):
    """Golden check 18, with AdamW and weight decay: of the token rows, the special ones alone."""
    before, now = encoder.model, tuned.model.module
    old = dict(before.named_parameters())
    assert not torch.equal(now.encoder.special.weight, before.encoder.special.weight)
    for language in ("eng", "nld"):
        mine, its = (model.encoder.token_table(language) for model in (now, before))
        assert torch.equal(mine[5:], its[5:])
        changed = (mine[:5] != its[:5]).any(1)
        assert changed.tolist() == [True] * 5
    for name, parameter in now.named_parameters():
        still = ".own_" in name or not name.startswith("encoder.")
        assert torch.equal(parameter, old[name]) == still, name
    assert not torch.equal(
        now.encoder.segment["shared"].weight, old["encoder.segment.shared.weight"]
    )


def test_the_other_language_is_the_body_with_its_own_parts_put_together_by_hand(encoder, tuned):
    whole, ours = tuned.model.module.state_dict(), encoder.model
    alone = MaskedLM(EncoderConfig(**SHAPE), languages=("nld",), sizes={"nld": ours.sizes["nld"]})
    state = {}
    for name in alone.state_dict():
        own = name.replace(".shared", ".own_nld")
        state[name] = (
            ours.state_dict()[own] if own in ours.state_dict() and own != name else whole[name]
        )
    assert sum("adapters" in name for name in state) == 2 * 2 * 4
    alone.load_state_dict(state)
    examples = texts_of(DUTCH, "nld")
    found = tuned.predict(examples)
    told = encoder.for_text("nld")
    table = told._tables["nld"]
    for line, scores in zip(DUTCH, found, strict=True):
        ids = table[torch.tensor(told.tokenizer(line)["input_ids"])][None]
        places = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            last = alone.eval().encoder(ids, places, None, (Group("nld", 1, 0),))[-1]
            wanted = tuned.model.head.eval()(last, torch.ones_like(ids))[0].log_softmax(-1)
        np.testing.assert_allclose(scores, wanted.numpy(), atol=1e-5)


def test_noise_is_there_in_training_alone(encoder, tuned):
    assert tuned.model.module.encoder.noise == 0.075 and encoder.model.encoder.noise == 0
    examples = texts_of(ENGLISH[:8])
    assert np.array_equal(tuned.predict(examples), tuned.predict(examples))
    kind = Classify(2, dropout=0.0)
    quiet, noisy = (
        FineTunedModel(encoder, kind, FineTuning(noise=noise)).train() for noise in (0.0, 0.075)
    )
    given = padded(kind, quiet.rows(examples), 0)

    def loss(model, seed):
        torch.manual_seed(seed)
        return model(**given).item()

    assert loss(quiet.eval(), 0) == loss(noisy.eval(), 0)
    assert loss(noisy.train(), 0) == loss(noisy, 0) != loss(quiet.train(), 0)


def test_noise_that_cannot_be_is_refused_and_bert_s_is_added(originals):
    with pytest.raises(InputError, match="noise: expected 0 where a frozen"):
        FineTuning(noise=0.1, features="transformer")
    with pytest.raises(InputError, match="noise: expected a number from 0"):
        FineTuning(noise=-0.1)
    bert = FineTunedModel(load_encoder(originals["bert"]), Classify(2), FineTuning(noise=0.1))
    assert bert.module.embeddings.noise is not None


def test_a_checkpoint_says_nothing_of_noise_that_is_not_asked_for(encoder, tmp_path):
    """So that a fine-tuning from before goes on."""
    train, kind = texts_of(ENGLISH[:16]), Classify(2)
    for noise in (0.0, 0.075):
        settings = FineTuning(epochs=1, batch_size=16, noise=noise)
        folder = tmp_path / str(noise)
        fine_tune(encoder, kind, [train], settings, folder, {"dev": right(train)})
        [state] = (folder / "checkpoints").glob("step-*/state.json")
        assert ("noise" in json.loads(state.read_text())["settings"]["settings"]) == (noise > 0)
