"""What several tests of runs make for themselves."""

from crosslens.activation_files import ActivationsWriter
from crosslens.models.encoder import EncoderConfig, MaskedLM
from crosslens.models.interop import export_model
from crosslens.models.tokenisation import Vocabulary, train_tokenizer
from crosslens.recipes.quickstart import DATA


def first_lines(language, n):
    """The first sentences of the package's own corpus."""
    return (DATA / "corpus" / f"{language}.txt").read_text(encoding="utf-8").splitlines()[:n]


def other_encoder(folder, layers, width, seed=1):
    """A random multilingual encoder in a folder."""
    texts = {language: first_lines(language, 200) for language in ("eng", "fra", "rus")}
    tokenizer = train_tokenizer(texts, Vocabulary(size=300, kind="bpe", sentences=600))
    shape = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=width, layers=layers, heads=2, ffn_size=32, max_positions=64)
    export_model(MaskedLM(shape, seed=seed), tokenizer, folder)
    return folder


def store(folder, language, states):
    """A finished store of the given layers."""
    n, d = states[0].shape
    index = {"id": [str(i) for i in range(n)], "language": [language] * n, "pieces": [1] * n, "truncated": [False] * n}
    names = [f"layer_{layer:02d}" for layer in range(len(states))]
    writer = ActivationsWriter(folder, {"made": "here"}, arrays=names, d=d, dtype="float32")
    with writer.plan() as plan:
        plan.add(index)
        plan.end_block()
    writer.write(writer.blocks[0], dict(zip(names, states, strict=True)))
    return writer.finish(language=language, text="made", encoder="made", unit="sentence", truncated=0, versions={})
