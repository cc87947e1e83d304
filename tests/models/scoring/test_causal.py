"""Encoders that see the text to the left only: found by trying, and read so that no token loses
what stands before it."""

import numpy as np
import pytest
import torch
from model_families import FAMILIES, WORDS, load_family, save_family

from crosslens.corpus import Corpus
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.loading import load_encoder

CAUSAL = {
    "gpt2",
    "gpt_neox",
    "bloom",
    "opt",
    "opt, norms last",
    "xglm",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "phi3",
    "gemma",
}
CAUSAL |= {"gemma2", "gemma3", "olmo2"}
LONG = " ".join(WORDS[i] for i in np.random.default_rng(0).integers(0, len(WORDS), 150))


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_causal_is_found_by_trying(tmp_path_factory, name):
    assert load_family(name, tmp_path_factory)[1].causal == (name in CAUSAL)


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize(
    ("name", "change", "causal"),
    [("bert", {"is_decoder": True}, True), ("xlm", {"causal": True}, True)],
)
def test_a_family_that_is_turned_into_the_other_kind_is_found_out(
    tmp_path, name, change, causal, seed
):
    assert load_encoder(save_family(tmp_path, name, change), random_seed=seed).causal == causal
    assert not load_encoder(save_family(tmp_path, name), random_seed=seed).causal


def whole_and_stored(encoder, folder):
    """The last layer's states of a long text in one piece, and those of its windows; special tokens
    left out."""
    store = extract(encoder, Corpus("eng", [LONG], ["s"], "x.txt"), folder, unit="token")
    ids = torch.tensor([encoder.tokenizer(LONG)["input_ids"]])
    with torch.inference_mode():
        whole = [state[0, 1:-1].numpy() for state in encoder.hidden_states(ids, None)]
    return whole, [np.array(store.layer(i)) for i in range(encoder.layers)]


@pytest.mark.parametrize("name", ["llama", "bloom", "gemma2"])
def test_a_causal_encoders_first_window_is_the_text_itself(tmp_path, name):
    """Positions are relative in these, so that text beyond the longest input can be computed in one
    piece to compare with."""
    encoder = load_encoder(
        save_family(tmp_path / "model", name, {} if name == "bloom" else None, limit=40)
    )
    assert encoder.max_length == 40 and encoder.causal
    whole, stored = whole_and_stored(encoder, tmp_path / "store")
    room = 38
    for expected, got in zip(whole, stored, strict=True):
        scale = np.abs(expected).max()
        assert np.abs(expected - got)[:room].max() < 1e-5 * scale  # another order of sums
    # what is cut off on the left is missed
    assert np.abs(whole[-1] - stored[-1])[room:].max() > 1e-3 * np.abs(whole[-1]).max()


def test_where_attention_slides_windows_lose_nothing_once_they_reach_as_far_as_the_layers_see(
    tmp_path,
):
    """Three layers that see 4 tokens each, themselves included, see 9 to the left; half a window of
    38 is more."""
    encoder = load_encoder(
        save_family(tmp_path / "model", "mistral", {"sliding_window": 4}, limit=40)
    )
    whole, stored = whole_and_stored(encoder, tmp_path / "store")
    for expected, got in zip(whole, stored, strict=True):
        assert np.abs(expected - got).max() < 1e-5 * np.abs(expected).max()


def test_stores_of_a_causal_encoder_say_which_window_their_tokens_are_from(tmp_path):
    encoder = load_encoder(save_family(tmp_path / "model", "llama"))
    store = extract(encoder, Corpus("eng", ["the cat"], ["s"], "x.txt"), tmp_path / "store")
    assert store.manifest["settings"]["long_input"] == "window, context from the left"
