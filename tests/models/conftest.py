"""What the tests of this room share: encoders made once, and a machine that is not disturbed by
them."""

import shutil

import pytest
import torch
import toy_models
import toy_texts

from crosslens import progress
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.saved.interop import export_model
from crosslens.models.text.tokenisation import Vocabulary, train_tokenizer
from crosslens.models.training import loop
from crosslens.models.training.masked_lm import train


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Sums over threads are taken in another order: bytes are compared between runs with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def quiet():
    progress.be_quiet()
    yield
    progress.be_quiet(False)


@pytest.fixture(scope="session")
def toy_tokenizer():
    one, other = toy_texts.two_languages(120)
    return train_tokenizer(
        {"eng": one, "nld": other}, Vocabulary(size=110, kind="bpe", sentences=200)
    )


@pytest.fixture(scope="session")
def toy_model(toy_tokenizer):
    """One of ours with every weight at random."""
    config = EncoderConfig(
        vocab_size=toy_tokenizer.get_vocab_size(),
        hidden_size=16,
        layers=3,
        heads=4,
        ffn_size=24,
        max_positions=32,
    )
    return toy_models.lively(MaskedLM(config))


@pytest.fixture(scope="session")
def originals(tmp_path_factory, toy_model, toy_tokenizer):
    """Kind to the folder of a small encoder with random weights: ours, and what transformers
    writes. Not to be written to."""
    base = tmp_path_factory.mktemp("encoders")
    for kind, make in toy_models.KINDS.items():
        make(base / kind)
    export_model(toy_model, toy_tokenizer, base / "ours")
    return {kind: base / kind for kind in [*toy_models.KINDS, "ours"]}


@pytest.fixture
def copy_of(originals, tmp_path):
    """A copy of an encoder's folder that a test may spoil."""

    def make(kind, name="encoder"):
        return shutil.copytree(originals[kind], tmp_path / name)

    return make


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory):
    """Where the toy texts lie."""
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="session")
def toy(toy_folder):
    """The recipe of a run of 30 steps on two made-up languages."""
    return toy_texts.toy_recipe(toy_folder)


@pytest.fixture(scope="session")
def undisturbed(toy, tmp_path_factory):
    """The folder of a run of it that nothing happened to. Not to be written to."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train(toy, folder)
    return folder


@pytest.fixture
def stopped_at(monkeypatch, tmp_path):
    """Start a run and stop it in the given step; returns its folder."""

    def run(recipe, step, folder="run"):
        def learning_rate(now, *rest):
            if now == step:
                raise KeyboardInterrupt
            return rate(now, *rest)

        rate = loop.learning_rate
        with monkeypatch.context() as patched:
            patched.setattr(loop, "learning_rate", learning_rate)
            with pytest.raises(KeyboardInterrupt):
                train(recipe, tmp_path / folder)
        return tmp_path / folder

    return run
