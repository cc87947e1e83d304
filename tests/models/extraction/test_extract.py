"""Extraction: a plain transformers loop as the reference, and stores that survive being stopped."""

import functools
import json

import numpy as np
import pytest
import torch
from model_families import save_family
from toy_models import HARD, KINDS, PLACES, change_weights
from transformers import AutoModel, AutoTokenizer

from crosslens.activations import OUTPUTS
from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError
from crosslens.models.extraction import encode
from crosslens.models.extraction import extract as module
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.loading import load_encoder

LONG = 7  # the row of HARD that no encoder takes whole


def text(sentences=HARD, language="und"):
    return Corpus(language, sentences, [f"s{i}" for i in range(len(sentences))], "hard.txt")


@torch.no_grad()
def plain_loop(folder, sentences, longest):
    """(layer, sentence, d): every sentence alone, mean over the tokens that the tokeniser did not
    add."""
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    rows, pieces = [], []
    for sentence in sentences:
        encoded = tokenizer(
            sentence,
            truncation=True,
            max_length=longest,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        ordinary = encoded.pop("special_tokens_mask")[0] == 0
        states = model(**encoded, output_hidden_states=True).hidden_states
        rows.append([state[0][ordinary].mean(0).numpy() for state in states])
        pieces.append(int(ordinary.sum()))
    return np.array(rows).swapaxes(0, 1), pieces


def layers(store):
    return np.stack([store.layer(layer) for layer in range(store.layers)])


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def small_blocks(monkeypatch, tokens=60):
    """Blocks of a few sentences, batches of a few inputs."""
    monkeypatch.setattr(module, "_block_text", lambda *_: 90)
    monkeypatch.setattr(encode, "_BATCH_TOKENS", {"cpu": tokens})


@pytest.mark.parametrize("blocks", ["one block", "many blocks"])
@pytest.mark.parametrize("kind", [*KINDS, "ours"])
def test_it_is_the_plain_loop_for_every_architecture(
    originals, tmp_path, monkeypatch, kind, blocks
):
    encoder = load_encoder(str(originals[kind]))
    if blocks == "many blocks":
        small_blocks(monkeypatch)
    store = extract(encoder, text(), tmp_path / "store", long_input="truncate")
    longest = 32 if kind == "ours" else PLACES
    expected, pieces = plain_loop(originals[kind], HARD, longest)
    # float32: values near 1, sums in another order
    assert np.allclose(layers(store), expected, atol=1e-5)
    assert np.abs(expected).max() > 0.3
    index = store.index()
    assert index["pieces"] == pieces and index["pieces"][LONG] == longest - 2
    assert index["truncated"] == [row == LONG for row in range(len(HARD))]
    assert index["id"] == [f"s{i}" for i in range(len(HARD))] and set(index["language"]) == {"und"}


@pytest.mark.parametrize("kind", [*KINDS, "ours"])
def test_a_sentence_is_cut_only_where_it_is_too_long(originals, tmp_path, kind):
    encoder = load_encoder(str(originals[kind]))
    sentences = ["the"]
    while len(encoder.tokenizer(sentences[-1])["input_ids"]) <= encoder.max_length:
        longer = [sentences[-1] + more for more in (" the", " x", "x")]
        pieces = [
            len(encoder.tokenizer(sentence)["input_ids"]) for sentence in (sentences[-1], *longer)
        ]
        # one piece more, so that one sentence is a perfect fit
        sentences.append(longer[pieces.index(pieces[0] + 1) - 1])
    index = extract(encoder, text(sentences), tmp_path / "store", long_input="truncate").index()
    assert (
        index["truncated"] == [False] * (len(sentences) - 1) + [True]
        and index["pieces"][-2:] == [encoder.max_length - 2] * 2
    )


def test_the_manifest_says_what_was_encoded(originals, tmp_path):
    encoder = load_encoder(str(originals["roberta"]))
    corpus = text(language="mul")
    manifest = extract(encoder, corpus, tmp_path / "store", long_input="truncate").manifest
    assert (
        manifest["truncated"] == 1
        and manifest["language"] == "mul"
        and manifest["text"] == "hard.txt"
    )
    assert (
        manifest["encoder"] == "roberta"
        and manifest["dtype"] == "float32"
        and manifest["versions"]["torch"] == torch.__version__
    )
    assert manifest["settings"] == {
        "encoder": encoder.fingerprint,
        "text": corpus.fingerprint,
        "unit": "sentence",
        "pooling": "mean",
        "special_tokens": False,
        "long_input": "truncate",
        "arrays": ["layer_00", "layer_01", "layer_02"],
        "dtype": "float32",
        "precision": "float32",
    }
    assert manifest["unit"] == "sentence" and manifest["without_pieces"] == 0


def test_a_sentence_has_the_same_vectors_wherever_it_stands(originals, tmp_path):
    encoder = load_encoder(str(originals["bert"]))
    forwards, backwards = (
        extract(encoder, text(), tmp_path / "a"),
        extract(encoder, text(HARD[::-1]), tmp_path / "b"),
    )
    # other batches, other sums
    assert np.allclose(layers(forwards), layers(backwards)[:, ::-1], atol=1e-5)


@pytest.mark.parametrize("written", [1, 2])
def test_a_stopped_extraction_goes_on_to_the_same_bytes(originals, tmp_path, monkeypatch, written):
    encoder = load_encoder(str(originals["bert"]))
    small_blocks(monkeypatch)
    arrays = extract(encoder, text(), tmp_path / "undisturbed").arrays
    texts = []

    def counting(encoder, blocks, *given, most=None):
        def counted():
            for found in blocks:
                if len(texts) == most:
                    raise KeyboardInterrupt
                texts.append(found.ids.tobytes())
                yield found

        return encode.encode(encoder, counted(), *given)

    monkeypatch.setattr(module, "encode", functools.partial(counting, most=written))
    with pytest.raises(KeyboardInterrupt):
        extract(encoder, text(), tmp_path / "store")
    assert not (tmp_path / "store").exists()
    monkeypatch.setattr(module, "encode", counting)
    extract(encoder, text(), tmp_path / "store").verify()
    assert (
        len(texts)
        == len(set(texts))
        == (tmp_path / "undisturbed" / "checksums.bin").stat().st_size // (8 + 32 * len(arrays))
        > 3
    )  # no block is encoded a second time
    assert files(tmp_path / "store") == files(tmp_path / "undisturbed")
    assert not (tmp_path / "store.partial").exists()


def test_what_was_stopped_is_resumed_whatever_is_kept_of_it(tmp_path, monkeypatch):
    save_family(tmp_path / "gpt", "gpt2")
    encoder = load_encoder(tmp_path / "gpt")
    lines, outputs = ["the cat sat", "and lay there"], tuple(OUTPUTS)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, "encode", stopped)
        extract(encoder, lines, tmp_path / "store", outputs=outputs)
    names = {path.name.split("_")[0] for path in (tmp_path / "store.partial").glob("*_0*")}
    assert names == set(OUTPUTS.values())
    extract(encoder, lines, tmp_path / "store", outputs=outputs)
    extract(encoder, lines, tmp_path / "undisturbed", outputs=outputs)
    assert files(tmp_path / "store") == files(tmp_path / "undisturbed")


def test_a_finished_store_is_opened_without_encoding(originals, tmp_path, monkeypatch):
    encoder = load_encoder(str(originals["bert"]))
    first = extract(encoder, text(), tmp_path / "store")
    monkeypatch.setattr(module, "locate", lambda *_: pytest.fail("read again"))
    again = extract(encoder, text(), tmp_path / "store")
    assert np.array_equal(layers(again), layers(first)) and again.manifest == first.manifest


def test_a_store_of_another_encoder_or_text_is_refused_naming_which(originals, copy_of, tmp_path):
    encoder = load_encoder(str(originals["bert"]))
    extract(encoder, text(), tmp_path / "store")
    before = files(tmp_path / "store")
    folder = copy_of("bert")
    change_weights(folder, lambda weights: weights["bert.embeddings.LayerNorm.bias"].add_(0.1))
    other = load_encoder(str(folder))
    told = (
        rf"got other ones \(encoder: '{encoder.fingerprint}' there, '{other.fingerprint}' here\); "
        rf"choose another folder, or delete this one"
    )
    with pytest.raises(OutputError, match=told):
        extract(other, text(), tmp_path / "store")
    with pytest.raises(OutputError, match=r"got other ones \(text: '\w+' there, '\w+' here\)"):
        extract(encoder, text(HARD[:-1]), tmp_path / "store")
    with pytest.raises(OutputError, match=r"got other ones \(language: 'und' there, 'fra' here\)"):
        extract(encoder, text(language="fra"), tmp_path / "store")
    assert files(tmp_path / "store") == before


def test_a_text_that_is_called_another_language_is_not_mixed_with_what_is_half_done(
    originals, tmp_path, monkeypatch
):
    encoder = load_encoder(str(originals["bert"]))
    with monkeypatch.context() as patched:
        patched.setattr(module, "encode", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            extract(encoder, text(), tmp_path / "store")
    with pytest.raises(OutputError, match=r"language: 'und' there, 'fra' here"):
        extract(encoder, text(language="fra"), tmp_path / "store")
    assert extract(encoder, text(), tmp_path / "store").rows(language="und").size == len(HARD)


def test_a_link_cannot_be_written_over(originals, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "encode", lambda *_: pytest.fail("encoded"))
    encoder = load_encoder(str(originals["bert"]))
    (tmp_path / "real").mkdir()
    for name in ("real", "nowhere"):
        (tmp_path / "link").symlink_to(tmp_path / name)
        with pytest.raises(OutputError, match="link: expected a new or empty folder, got a link"):
            extract(encoder, text(), tmp_path / "link")
        (tmp_path / "link").unlink()


@pytest.mark.parametrize("place", [".", "..", "/"])
def test_a_folder_without_a_name_is_refused(originals, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="out: expected the path of a new folder"):
        extract(load_encoder(str(originals["bert"])), text(), place)
    assert not list(tmp_path.iterdir())


def test_what_another_encoder_left_half_done_is_not_mixed_in(originals, tmp_path, monkeypatch):
    encoders = [load_encoder(str(originals["bert"]), random_seed=seed) for seed in (None, 1)]
    small_blocks(monkeypatch)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module.ActivationsWriter, "finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            extract(encoders[1], text(), tmp_path / "store")
    before = files(tmp_path / "store.partial")
    with pytest.raises(OutputError, match=r"store\.partial: .*got other ones"):
        extract(encoders[0], text(), tmp_path / "store")
    assert files(tmp_path / "store.partial") == before
    extract(encoders[0], text(), tmp_path / "store", restart=True)
    extract(encoders[0], text(), tmp_path / "fresh")
    assert files(tmp_path / "store") == files(tmp_path / "fresh")


@pytest.mark.parametrize("kind", ["ours", "bert"])
def test_a_sentence_without_tokens_is_refused_by_its_line(originals, tmp_path, kind):
    encoder = load_encoder(str(originals[kind]))
    with pytest.raises(InputError, match=r"hard.txt:3: .*got ' '"):
        extract(encoder, text(["the cat", "the dog", " ", "the mat"]), tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_the_text_of_special_tokens_is_text(originals, tmp_path):
    """A sentence that contains the characters "[SEP]" is pooled over them as the plain loop
    does."""
    encoder = load_encoder(str(originals["ours"]))
    sentences = ["the cat [SEP] the dog", "[MASK]", "unknown 的 characters"]
    expected, _ = plain_loop(originals["ours"], sentences, 32)
    assert np.allclose(
        layers(extract(encoder, text(sentences), tmp_path / "store")), expected, atol=1e-5
    )


def test_a_random_copy_has_activations_of_its_own(originals, tmp_path):
    name = str(originals["xlm-roberta"])
    stores = [
        extract(load_encoder(name, random_seed=seed), text(), tmp_path / str(i))
        for i, seed in enumerate((None, 1, 1))
    ]
    assert np.array_equal(layers(stores[1]), layers(stores[2])) and not np.allclose(
        layers(stores[0]), layers(stores[1]), atol=0.1
    )
    assert (
        json.loads((tmp_path / "1" / "manifest.json").read_text())["settings"]["encoder"]
        == load_encoder(name, random_seed=1).fingerprint
    )
