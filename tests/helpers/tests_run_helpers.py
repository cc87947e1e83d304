"""What several tests of runs make for themselves."""

import numpy as np

from crosslens.activations_writer import ActivationsWriter
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.saved.interop import export_model
from crosslens.models.text.tokenisation import Vocabulary, train_tokenizer
from crosslens.recipes.quickstart import DATA

N, D = 60, 8  # words of a store of types, and their width


def first_lines(language, n):
    """The first sentences of the package's own corpus."""
    return (DATA / "corpus" / f"{language}.txt").read_text(encoding="utf-8").splitlines()[:n]


def other_encoder(folder, layers, width, seed=1):
    """A random multilingual encoder in a folder."""
    texts = {language: first_lines(language, 200) for language in ("eng", "fra", "rus")}
    tokenizer = train_tokenizer(texts, Vocabulary(size=300, kind="bpe", sentences=600))
    shape = EncoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        layers=layers,
        heads=2,
        ffn_size=32,
        max_positions=64,
    )
    export_model(MaskedLM(shape, seed=seed), tokenizer, folder)
    return folder


def store(folder, language, states):
    """A finished store of the given layers."""
    n, d = states[0].shape
    index = {
        "id": [str(i) for i in range(n)],
        "language": [language] * n,
        "pieces": [1] * n,
        "truncated": [False] * n,
    }
    names = [f"layer_{layer:02d}" for layer in range(len(states))]
    writer = ActivationsWriter(folder, {"made": "here"}, arrays=names, d=d, dtype="float32")
    with writer.plan() as plan:
        plan.add(index)
        plan.end_block()
    writer.write(writer.blocks[0], dict(zip(names, states, strict=True)))
    return writer.finish(
        language=language, text="made", encoder="made", unit="sentence", truncated=0, versions={}
    )


def word_store(folder, language, layers, index, unit):
    """A finished store of words."""
    n, d = layers[0].shape
    names = [f"layer_{layer:02d}" for layer in range(len(layers))]
    writer = ActivationsWriter(folder, {}, arrays=names, d=d, dtype="float32")
    with writer.plan() as plan:
        plan.add({"id": [str(i) for i in range(n)], "language": [language] * n, **index})
        plan.end_block()
    writer.write(writer.blocks[0], dict(zip(names, layers, strict=True)))
    return writer.finish(language=language, text="made", encoder="made", unit=unit, versions={})


def context_stores(folder, sentences=40, words=4):
    """Words in context; word j of sentence i of one is word words - 1 - j of the other, turned."""
    rng = np.random.default_rng(1)
    n, turn = sentences * words, np.linalg.qr(rng.normal(size=(D, D)))[0]
    x, order = rng.normal(size=(n, D)), np.arange(n).reshape(sentences, words)[:, ::-1].ravel()
    index = {
        "text": np.repeat(np.arange(sentences), words),
        "position": np.tile(np.arange(words), sentences),
    }
    links = [(i, j, words - 1 - j) for i in range(sentences) for j in range(words)]
    return (
        word_store(folder / "cx", "eng", [x], index, "word"),
        word_store(folder / "cy", "rus", [x[order] @ turn], index, "word"),
        np.array(links),
    )
