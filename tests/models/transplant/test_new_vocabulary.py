"""What goes along below a new vocabulary, which rows are whose, and what does not fit."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from torch import nn
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
    PreTrainedTokenizerFast,
)

from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError
from crosslens.models.transplant import learning, new_vocabulary, transplant
from crosslens.models.transplant.new_vocabulary import (
    embedding_table,
    learn_tokenizer,
    new_rows,
    put_rows,
)
from crosslens.models.transplant.transplant import transplant_vocabulary
from crosslens.recipes.quickstart import DATA

FRENCH = (DATA / "corpus" / "fra.txt").read_text(encoding="utf-8").splitlines()[:300]
TEXT = Corpus("fra", FRENCH, [str(n) for n in range(len(FRENCH))], "french")
TINY = DATA / "tiny-encoder"
V, WIDTH = 600, 128  # subwords of the small encoders here, and their width


def small(folder, *, architecture="BertForPreTraining", special=()):
    """BERT as it is published, with a pooler and a head for next sentences, by either name."""
    tokenizer = AutoTokenizer.from_pretrained(TINY).train_new_from_iterator(FRENCH, V)
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    shape = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(**shape, intermediate_size=64, vocab_size=len(tokenizer))
    torch.manual_seed(0)
    BertForPreTraining(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**told, "architectures": [architecture]}))
    return folder


@pytest.mark.parametrize("architecture", ["BertForPreTraining", "BertForMaskedLM"])
@pytest.mark.parametrize(
    ("tokens", "size"),
    [(None, 300), (learning.BATCH_TOKENS, 300), (learning.BATCH_TOKENS, WIDTH)],
)
def test_all_but_the_rows_goes_along(architecture, tokens, size, tmp_path):
    """A pooler, too, for which a model with a head for masked words has no place; whatever else is
    as large as the vocabulary."""
    encoder = small(tmp_path / "bert", architecture=architecture)
    told = {"by": "overlap", "size": size, "tokens": tokens, "device": "cpu"}
    made = transplant_vocabulary(encoder, TEXT, tmp_path / "fra", **told)
    old, new = (load_file(folder / "model.safetensors") for folder in (encoder, made.folder))
    sized = {name for name, tensor in old.items() if tensor.shape[0] == V}
    assert "bert.embeddings.word_embeddings.weight" in sized
    assert {"bert.pooler.dense.weight", "cls.seq_relationship.weight"} <= old.keys() - sized
    for name in old.keys() - sized:
        assert torch.equal(old[name], new[name]), name
    ours = {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"}
    assert all(len(new[name]) == size for name in ours)
    assert new.keys() - ours == old.keys() - sized
    pooler = AutoModel.from_pretrained(made.folder).pooler.dense
    assert torch.equal(pooler.weight, old["bert.pooler.dense.weight"])


def test_a_special_token_without_a_role_keeps_its_row(tmp_path):
    encoder = small(tmp_path / "bert", special=["<fra>", "<deu>"])
    made = transplant_vocabulary(encoder, TEXT, tmp_path / "fra", by="random", size=300)
    folders = (encoder, made.folder)
    first, second = (AutoTokenizer.from_pretrained(folder) for folder in folders)
    old, new = (AutoModel.from_pretrained(f).get_input_embeddings().weight for f in folders)
    for name in ("<fra>", "<deu>", "[CLS]", "[MASK]"):
        there, here = first.convert_tokens_to_ids(name), second.convert_tokens_to_ids(name)
        assert second.convert_ids_to_tokens(here) == name and torch.equal(new[here], old[there])
    assert made.made["copied"] == 7  # the five with a role, and these


def test_a_tokeniser_without_special_tokens_keeps_none():
    words = Tokenizer(models.WordLevel({"cat": 0, "chat": 1}, unk_token="cat"))
    bare = PreTrainedTokenizerFast(tokenizer_object=words)
    assert not bare.all_special_ids
    table = np.arange(4, dtype=np.float32).reshape(2, 2)
    found = new_rows("random", table, ["cat"], bare, bare, None, 0)
    assert found.rows.shape == (2, 2)


def test_static_vectors_are_those_of_the_very_subwords(monkeypatch):
    """Vectors come in another order than ids; what does not occur has none."""
    source = AutoTokenizer.from_pretrained(TINY)
    target = learn_tokenizer(source, FRENCH, 300)
    seen = sorted({i for ids in target(FRENCH, add_special_tokens=False)["input_ids"] for i in ids})

    def trained(rows, settings, folder):
        assert sorted({i for ids in rows for i in ids}) == seen
        return np.array(seen[::-1]), np.array(
            [[float(i)] * settings.dimensions for i in seen[::-1]]
        )

    given = {}

    def combined(table, shared, vectors, seed):
        given.update(shared=shared, vectors=vectors)
        return random(table, len(shared), seed)

    random = new_vocabulary.random_rows
    monkeypatch.setattr(new_vocabulary, "skipgram_of_ids", trained)
    monkeypatch.setattr(new_vocabulary, "similar_rows", combined)
    table = AutoModel.from_pretrained(TINY).get_input_embeddings().weight.detach().numpy()
    new_rows("similarity", table, FRENCH, source, target, None, 0)
    there = ~np.isnan(given["vectors"]).any(1)
    assert np.flatnonzero(there).tolist() == seen
    assert (given["vectors"][there] == np.array(seen)[:, None]).all()
    names = target.convert_ids_to_tokens(range(300))
    for n in seen:
        if (old := given["shared"][n]) >= 0:
            assert source.convert_ids_to_tokens(int(old)) == names[n]


def test_vectors_of_another_vocabulary_are_not_taken(tmp_path, monkeypatch):
    """A kill after the vectors and before the encoder that they are for: WordPiece may number its
    subwords otherwise when they are learnt again."""
    told = {"by": "similarity", "size": 400, "tokens": learning.BATCH_TOKENS, "times": 2}
    calls, static, put = [], new_vocabulary._static_vectors, transplant.put_rows

    def trained(text, target, n):
        calls.append(n)
        return static(text, target, n)

    def killed(*_):
        (tmp_path / "fra.training" / "seed-0").mkdir()  # it began to be written
        raise KeyboardInterrupt

    monkeypatch.setattr(new_vocabulary, "_static_vectors", trained)
    monkeypatch.setattr(transplant, "put_rows", killed)
    with pytest.raises(KeyboardInterrupt):
        transplant_vocabulary(TINY, TEXT, tmp_path / "fra", **told, device="cpu")
    assert len(list((tmp_path / "fra.training").glob("vectors-*.npy"))) == 1
    learn = transplant.learn_tokenizer
    monkeypatch.setattr(transplant, "put_rows", put)
    monkeypatch.setattr(
        transplant, "learn_tokenizer", lambda source, text, size: learn(source, text[50:], size)
    )
    transplant_vocabulary(TINY, TEXT, tmp_path / "fra", **told, device="cpu")
    assert calls == [400, 400]  # once more for the new vocabulary, and not for the second seed


def test_a_folder_beside_that_is_not_a_training_is_kept(tmp_path):
    told = {"by": "overlap", "size": 300, "tokens": learning.BATCH_TOKENS, "device": "cpu"}
    beside = tmp_path / "fra.training"
    (tmp_path / "fra.partial").mkdir()
    transplant_vocabulary(TINY, TEXT, tmp_path / "fra", **told)
    assert (tmp_path / "fra.partial").exists()

    def refused():
        with pytest.raises(OutputError, match="--out: expected a new folder"):
            transplant_vocabulary(TINY, TEXT, tmp_path / "fra", **told)

    beside.mkdir()
    (beside / "thesis.txt").write_text("mine")
    refused()
    assert (beside / "thesis.txt").read_text() == "mine"
    shutil.rmtree(beside)
    shutil.copytree(tmp_path / "fra", beside)  # an encoder that is called so
    refused()
    assert (beside / "model.safetensors").exists()
    shutil.rmtree(beside)
    beside.mkdir()
    made = json.loads((tmp_path / "fra" / "transplant.json").read_text())
    (beside / "transplant.json").write_text(json.dumps({**made, "seed": 5}))  # another training
    refused()
    assert (beside / "transplant.json").exists()


@pytest.mark.parametrize("last", ["seed-0", "transplant.json", ".lock", "the folder"])
def test_a_kill_while_what_lies_beside_is_removed_is_made_good(last, tmp_path):
    told = {"by": "overlap", "size": 300, "tokens": learning.BATCH_TOKENS, "device": "cpu"}
    first = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", **told)
    beside = tmp_path / "fra.training"
    beside.mkdir()
    if last in ("transplant.json", "seed-0"):
        shutil.copy(tmp_path / "fra" / "transplant.json", beside)
    if last != "the folder":
        (beside / ".lock").touch()
    if last == "seed-0":
        (tmp_path / "disk").mkdir()
        (beside / "seed-0").symlink_to(tmp_path / "disk")
        (beside / "notes.txt").write_text("mine")
    assert transplant_vocabulary(TINY, TEXT, tmp_path / "fra", **told) == first
    assert beside.exists() is (last == "seed-0")  # with what is somebody else's
    assert (tmp_path / "disk").exists() is (last == "seed-0")


class _Scaled(nn.Embedding):
    """A table that does more than look rows up."""


def test_what_does_not_fit_is_named():
    source, model = AutoTokenizer.from_pretrained(TINY), AutoModel.from_pretrained(TINY)
    with pytest.raises(InputError, match="--encoder: expected an encoder with a fast tokeniser"):
        learn_tokenizer(object(), FRENCH, 300)

    class Broken:
        def train_new_from_iterator(self, *_, **__):
            raise Exception("Vocabulary size is smaller than required")

    with pytest.raises(InputError, match="--vocabulary: expected a text .* smaller than required"):
        learn_tokenizer(Broken(), FRENCH, 10)
    target = learn_tokenizer(source, FRENCH, 300)
    target.pad_token = "[MASK]"
    rows = embedding_table("tiny", model)[:300]
    assert model.get_input_embeddings().padding_idx == source.pad_token_id
    with pytest.raises(InputError, match="vocabulary: expected padding at id 0, .* got at 4"):
        put_rows(model, rows, source, target)
    table = model.get_input_embeddings()
    model.set_input_embeddings(_Scaled(table.num_embeddings, table.embedding_dim))
    with pytest.raises(InputError, match="plain table of token embeddings, got _Scaled"):
        embedding_table("tiny", model)
