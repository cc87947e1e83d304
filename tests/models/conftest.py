"""What the tests of this room share: encoders made once, and a machine that is not disturbed by them."""

import shutil

import pytest
import torch
import toy_models
import toy_texts

from crosslens import progress
from crosslens.models.encoder import EncoderConfig, MaskedLM
from crosslens.models.interop import export_model
from crosslens.models.tokenisation import Vocabulary, train_tokenizer


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
    return train_tokenizer({"eng": one, "nld": other}, Vocabulary(size=110, kind="bpe", sentences=200))


@pytest.fixture(scope="session")
def toy_model(toy_tokenizer):
    """One of ours with every weight at random."""
    config = EncoderConfig(vocab_size=toy_tokenizer.get_vocab_size(), hidden_size=16, layers=3, heads=4, ffn_size=24, max_positions=32)
    return toy_models.lively(MaskedLM(config))


@pytest.fixture(scope="session")
def originals(tmp_path_factory, toy_model, toy_tokenizer):
    """Kind to the folder of a small encoder with random weights: ours, and what transformers writes. Not to be written to."""
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
