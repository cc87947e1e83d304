"""Words, tokens, pairs and types on disk: against single texts in plain transformers and against
averages taken by hand."""

import copy

import numpy as np
import pytest
import torch
from plain_extraction import Plain, pooled
from tokenizers import Tokenizer, models, pre_tokenizers
from toy_models import HARD, KINDS
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    BigBirdConfig,
    BigBirdModel,
    PreTrainedTokenizerFast,
)

from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError, StoreError
from crosslens.models.extraction import encode, type_averages
from crosslens.models.extraction import extract as module
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.arrays import as_tensor
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.pretrained import PretrainedEncoder
from crosslens.readers.words import split_words, whitespace_spans

ROUNDING = 1e-5  # float32, values near 1, sums in another order


def text(sentences=HARD, language="und"):
    return split_words(
        Corpus(language, sentences, [f"s{i}" for i in range(len(sentences))], "hard.txt")
    )


def layers(store):
    return np.stack([store.layer(layer) for layer in store.layer_numbers])


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def small_blocks(monkeypatch, tokens=60):
    monkeypatch.setattr(module, "_block_text", lambda *_: 90)
    monkeypatch.setattr(encode, "_BATCH_TOKENS", {"cpu": tokens})


def plain_words(folder, sentences, longest, pool="mean"):
    """(layer, word, d), NaN for words without pieces."""
    plain = Plain(folder, longest)
    found = [
        vector
        for sentence in sentences
        for vector in plain.words(sentence, whitespace_spans(sentence), pool)[0]
    ]
    shape = next(vector.shape for vector in found if vector is not None)
    return torch.stack(
        [torch.full(shape, torch.nan) if vector is None else vector for vector in found], 1
    ).numpy()


@pytest.mark.parametrize("pool", ["mean", "max", "first", "last"])
@pytest.mark.parametrize("kind", [*KINDS, "ours"])
def test_words_are_those_of_single_texts(originals, tmp_path, monkeypatch, kind, pool):
    """Long lines too: the reference stitches windows by its own loop."""
    small_blocks(monkeypatch)
    encoder = load_encoder(str(originals[kind]))
    store = extract(encoder, text(), tmp_path / "store", unit="word", pool=pool)
    expected = plain_words(originals[kind], HARD, encoder.max_length, pool)
    assert (
        np.allclose(layers(store), expected, atol=ROUNDING, equal_nan=True)
        and np.nanmax(np.abs(expected)) > 0.3
    )
    index = store.index()
    assert index["word"] == [word for sentence in HARD for word in sentence.split()]
    assert np.isnan(expected).all(axis=(0, 2)).tolist() == [count == 0 for count in index["pieces"]]
    assert store.manifest["without_pieces"] == index["pieces"].count(0) and store.unit == "word"


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_a_sentence_longer_than_the_encoder_is_pooled_over_its_windows(originals, tmp_path, pool):
    encoder = load_encoder(str(originals["roberta"]))
    store = extract(encoder, text(), tmp_path / "store", pool=pool)
    plain = Plain(originals["roberta"], encoder.max_length)
    for row, sentence in enumerate(HARD):
        _, _, special, states = plain.tokens(sentence)
        ordinary = [i for i, added in enumerate(special) if not added]
        assert np.allclose(layers(store)[:, row], pooled(states[:, ordinary], pool), atol=ROUNDING)
    assert not any(store.index()["truncated"])


@pytest.mark.parametrize("special", [False, True])
def test_tokens_are_the_states_themselves(originals, tmp_path, special):
    encoder = load_encoder(str(originals["xlm-roberta"]))
    store = extract(encoder, text(), tmp_path / "store", unit="token", special_tokens=special)
    plain = Plain(originals["xlm-roberta"], encoder.max_length)
    expected = []
    for sentence in HARD:
        _, _, added, states = plain.tokens(sentence)
        expected.append(states[:, [i for i in range(len(added)) if special or not added[i]]])
    assert np.allclose(layers(store), torch.cat(expected, 1), atol=ROUNDING)
    assert store.n == sum(part.shape[1] for part in expected)


def test_the_first_token_of_a_pair_is_what_the_model_gives_for_it(originals, tmp_path):
    encoder = load_encoder(str(originals["bert"]))
    first, second = (
        text(["the cat sat", "x", "猫 和 狗"]),
        text(["the dog", "the mat and the dog", "kot"]),
    )
    store = extract(
        encoder,
        first,
        tmp_path / "store",
        unit="pair",
        pool="first",
        special_tokens=True,
        second=second,
    )
    model = AutoModel.from_pretrained(originals["bert"], dtype=torch.float32).eval()
    for row, (a, b) in enumerate(zip(first.sentences, second.sentences, strict=True)):
        with torch.no_grad():
            states = model(
                **encoder.tokenizer(a, b, return_tensors="pt"), output_hidden_states=True
            ).hidden_states
        assert np.allclose(layers(store)[:, row], torch.stack(states)[:, 0, 0], atol=ROUNDING)
    assert "second_text" in store.manifest["settings"]
    other = text(["the dog", "the mat and the dog", "kot!"])
    with pytest.raises(OutputError, match=r"got other ones \(second_text: "):
        extract(
            encoder,
            first,
            tmp_path / "store",
            unit="pair",
            pool="first",
            special_tokens=True,
            second=other,
        )


def averages(folder, sentences, longest, lowercase=False):
    """Two passes: all occurrences of all words, then their mean, by word."""
    occurrences: dict[str, list[np.ndarray]] = {}
    vectors = plain_words(folder, sentences, longest)
    for place, word in enumerate(word for sentence in sentences for word in sentence.split()):
        if not np.isnan(vectors[:, place]).any():
            occurrences.setdefault(word.lower() if lowercase else word, []).append(
                vectors[:, place]
            )
    return {word: (len(many), np.mean(many, 0)) for word, many in occurrences.items()}


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "ours"])
def test_a_type_is_the_average_of_all_its_occurrences(
    originals, tmp_path, monkeypatch, kind, lowercase
):
    small_blocks(monkeypatch)
    encoder = load_encoder(str(originals[kind]))
    sentences = [*HARD, "The The THE cat", "Cat and dog"]
    store = extract(encoder, text(sentences), tmp_path / "store", unit="type", lowercase=lowercase)
    expected = averages(originals[kind], sentences, encoder.max_length, lowercase)
    index = store.index()
    assert dict(zip(index["word"], index["count"], strict=True)) == {
        word: count for word, (count, _) in expected.items()
    }
    assert index["count"] == sorted(index["count"], reverse=True) and index["id"] == index["word"]
    assert np.allclose(
        layers(store), np.stack([expected[word][1] for word in index["word"]], 1), atol=ROUNDING
    )
    assert max(index["count"]) > 100  # of a word of the long line


def test_rare_types_are_left_out_and_counted(originals, tmp_path):
    encoder = load_encoder(str(originals["bert"]))
    every = extract(encoder, text(), tmp_path / "all", unit="type")
    common = extract(encoder, text(), tmp_path / "common", unit="type", min_count=3)
    kept = [i for i, count in enumerate(every.index()["count"]) if count >= 3]
    assert common.index()["word"] == [every.index()["word"][i] for i in kept] and common.n < every.n
    assert common.manifest["rare"] == every.n - common.n and every.manifest["rare"] == 0
    assert np.array_equal(layers(common), layers(every)[:, kept])
    with pytest.raises(
        InputError,
        match=(
            "expected a word to make a vector for, got none; give more text, or a smaller min_count"
        ),
    ):
        extract(encoder, text(), tmp_path / "none", unit="type", min_count=10**6)


@pytest.mark.parametrize("place", ["encoding", "writing", "removing", "finishing"])
def test_a_stopped_average_goes_on_to_the_same_bytes(originals, tmp_path, monkeypatch, place):
    encoder = load_encoder(str(originals["bert"]))
    small_blocks(monkeypatch)
    monkeypatch.setattr(type_averages, "_SAVE_EVERY", 0.0)
    extract(encoder, text(), tmp_path / "undisturbed", unit="type")
    encoded = []

    def counting(encoder, blocks, *given):
        def counted():
            for found in blocks:
                encoded.append(found.columns["id"][0])
                if place == "encoding" and len(encoded) == 3:
                    raise KeyboardInterrupt
                yield found

        return encode.encode(encoder, counted(), *given)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "encode", counting)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        if place == "writing":
            patched.setattr(module.ActivationsWriter, "write", stopped)
        if place == "removing":
            patched.setattr(type_averages.Path, "unlink", stopped)
        if place == "finishing":
            patched.setattr(module.ActivationsWriter, "finish", stopped)
        extract(encoder, text(), tmp_path / "store", unit="type")
    before = len(encoded) - (place == "encoding")
    place = "again"
    store = extract(encoder, text(), tmp_path / "store", unit="type")
    # no block is encoded twice but the one that was cut off
    assert len(set(encoded)) == before + len(encoded[before:]) - (before == 2)
    assert files(tmp_path / "store") == files(tmp_path / "undisturbed") and store.n > 20


def test_sums_that_are_damaged_are_refused_and_begun_anew_when_asked(
    originals, tmp_path, monkeypatch
):
    encoder = load_encoder(str(originals["bert"]))

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module.ActivationsWriter, "write", stopped)
        extract(encoder, text(), tmp_path / "store", unit="type")
    (sums,) = (tmp_path / "store.partial").glob("sums-*")
    sums.rename(sums.with_name(sums.name.replace("-0.", "-1.")))  # of another process
    for path in (sums.with_name(sums.name.replace("-0.", "-1.")), sums):
        path.write_bytes(b"\0" * 1000)
        with pytest.raises(StoreError, match=rf"got damaged ones \(no whole {path.name}\)"):
            extract(encoder, text(), tmp_path / "store", unit="type")
    store = extract(encoder, text(), tmp_path / "store", unit="type", restart=True)
    assert store.n > 20 and not list((tmp_path / "store").glob("sums-*"))


def test_sums_that_could_overflow_are_refused(originals, tmp_path, monkeypatch):
    encoder = load_encoder(str(originals["bert"]))
    monkeypatch.setattr(type_averages, "_MOST", 10.0)
    with pytest.raises(InputError, match=r"unit: .*got .* in layer_00"):
        extract(encoder, text(), tmp_path / "store", unit="type")


def test_sums_that_do_not_fit_into_memory_are_refused_before_any_work(
    originals, tmp_path, monkeypatch
):
    encoder = load_encoder(str(originals["bert"]))
    monkeypatch.setattr(type_averages.os, "sysconf", lambda _: 10)
    monkeypatch.setattr(module, "encode", lambda *_: pytest.fail("encoded"))
    with pytest.raises(InputError, match=r"min_count: .*memory.*\d+ types × 4 arrays × 16"):
        extract(encoder, text(), tmp_path / "store", unit="type")


def test_embeddings_are_the_rows_of_words_that_are_one_piece(originals, tmp_path):
    encoder = load_encoder(str(originals["xlm-roberta"]))
    store = extract(encoder, text(), tmp_path / "store", unit="embedding", lowercase=True)
    table = (
        AutoModel.from_pretrained(originals["xlm-roberta"])
        .get_input_embeddings()
        .weight.detach()
        .numpy()
    )
    words = store.index()["word"]
    single = []
    for word in dict.fromkeys(word.lower() for sentence in HARD for word in sentence.split()):
        tokens = [t for t in encoder.tokenizer.tokenize(word) if t != "▁"] or ["▁"]
        if len(tokens) == 1 and tokens != ["<unk>"]:
            single.append(word)
            row = table[encoder.tokenizer.convert_tokens_to_ids(tokens[0])]
            assert np.array_equal(store.layer(0)[words.index(word)], row)
    assert sorted(single) == sorted(words) and len(single) >= 5
    assert store.manifest["of_several_pieces"] > 0 and store.arrays == ["layer_00"]


def test_the_embedding_of_a_word_is_the_row_of_its_subword_as_it_stands_in_a_sentence(
    originals, tmp_path
):
    """Byte-level BPE has another subword for a word that begins a text."""
    encoder = load_encoder(str(originals["roberta"]))
    store = extract(encoder, text(), tmp_path / "store", unit="embedding")
    table = encoder.token_embeddings().numpy()
    behind, first = 0, 0
    for word, row in zip(store.index()["word"], store.layer(0), strict=True):
        (mine,) = [t for t in encoder.tokenizer.tokenize(f" {word}") if t != "Ġ"]
        assert np.array_equal(row, table[encoder.tokenizer.convert_tokens_to_ids(mine)])
        behind += mine.startswith("Ġ")
        first += encoder.tokenizer.tokenize(word) != [mine]
    assert behind and first
    assert store.manifest["settings"]["subword"] == "behind a space"  # an older folder is another


def test_g_with_a_dot_is_a_letter_unless_the_vocabulary_is_byte_level(tmp_path):
    """Maltese has it; byte-level BPE writes a space with it."""
    vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] Ġ ##urdan kelb hu".split()
    numbers = {token: number for number, token in enumerate(vocabulary)}
    words = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    told = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=32, **told)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(numbers), intermediate_size=16, **sizes)
    encoder = PretrainedEncoder("mlt", BertModel(config).eval(), tokenizer, "f")
    line = Corpus("mlt", ["hu Ġurdan kelb"], ["0"], "toy")
    found = extract(encoder, split_words(line), tmp_path / "words", unit="word")
    tokens = extract(encoder, line, tmp_path / "tokens", unit="token")
    assert found.index()["pieces"] == [1, 2, 1]
    np.testing.assert_allclose(found.layer(1)[1], tokens.layer(1)[1:3].mean(axis=0), rtol=1e-6)
    alone = extract(encoder, split_words(line), tmp_path / "rows", unit="embedding")
    assert alone.index()["word"] == ["hu", "kelb"]


def test_sparse_attention_reads_long_texts_whatever_short_ones_were_read_before():
    """transformers gives BigBird full attention for good after a short text."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 128, "vocab_size": 40}
    config = BigBirdConfig(block_size=4, num_random_blocks=3, initializer_range=0.2, **sizes)
    model = BigBirdModel(config).eval()
    fresh = copy.deepcopy(model)
    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(40)}, unk_token="w1"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w1", pad_token="w0")
    encoder = PretrainedEncoder("sparse", model, tokenizer, "f")
    assert encoder.padding_free  # beside a long text a short one would be read by other attention
    ids = torch.tensor([[7 + n % 11 for n in range(120)]])
    with torch.inference_mode():
        encoder.hidden_states(ids[:, :8], None)
        found = encoder.hidden_states(ids, None)
        expected = fresh(input_ids=ids, output_hidden_states=True).hidden_states
    assert fresh.attention_type == "block_sparse"
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_only_the_layers_and_outputs_that_were_asked_for_are_stored(originals, tmp_path):
    encoder = load_encoder(str(originals["bert"]))
    every = extract(
        encoder, text(), tmp_path / "all", unit="word", outputs=("hidden", "attention", "mlp")
    )
    assert every.arrays == [f"layer_{i:02d}" for i in range(4)] + [
        f"{name}_{i:02d}" for name in ("attention", "mlp") for i in (1, 2, 3)
    ]
    some = extract(
        encoder, text(), tmp_path / "some", unit="word", layers=(0, 2), outputs=("hidden", "mlp")
    )
    assert some.arrays == ["layer_00", "layer_02", "mlp_02"]
    assert np.array_equal(some.layer(2), every.layer(2), equal_nan=True)
    assert np.array_equal(some.layer(2, "mlp"), every.layer(2, "mlp"), equal_nan=True)
    assert not np.allclose(every.layer(2, "mlp"), every.layer(2), atol=0.1)
    assert not np.allclose(every.layer(2, "attention"), every.layer(2, "mlp"), atol=0.1)
    assert extract(encoder, text(), tmp_path / "one", layers=np.array([2])).layer_numbers == [2]
    for wrong, told in (
        ((0, 4), "got 4"),
        ((1, 1), "got 1, 1"),
        ((), "got none"),
        (2, "got 2; write"),
        ([1.0], r"got \[1.0\]"),
        ("12", "got '12'"),
    ):
        with pytest.raises(InputError, match=f"layers: .*{told}"):
            extract(encoder, text(), tmp_path / "wrong", layers=wrong)
    with pytest.raises(InputError, match="layers: expected layers that"):
        extract(encoder, text(), tmp_path / "wrong", layers=[0], outputs=["mlp"])
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_numbers_on_disk_are_rounded_once(originals, tmp_path, dtype, bits):
    encoder = load_encoder(str(originals["bert"]))
    exact = extract(encoder, text(), tmp_path / "float32")
    store = extract(encoder, text(), tmp_path / dtype, dtype=dtype)
    assert store.dtype == dtype and as_tensor(store.layer(1)).dtype == getattr(torch, dtype)
    for layer in range(store.layers):
        expected = as_tensor(exact.layer(layer)).to(getattr(torch, dtype))
        assert torch.equal(as_tensor(store.layer(layer)), expected)
        assert (
            expected.float() - as_tensor(exact.layer(layer))
        ).abs().max() <= 2.0**-bits * exact.layer(layer).max() * 2
    assert (tmp_path / dtype / "layer_01.safetensors").stat().st_size == 256 + len(
        HARD
    ) * encoder.d * 2


def test_a_number_that_does_not_fit_is_refused(originals, tmp_path, monkeypatch):
    encoder = load_encoder(str(originals["bert"]))
    states = encoder.states
    monkeypatch.setattr(
        encoder,
        "states",
        lambda *a, **k: {"hidden": [1e6 * state for state in states(*a, **k)["hidden"]]},
    )
    with pytest.raises(InputError, match=r"dtype: .*got .* in layer_00"):
        extract(encoder, text(), tmp_path / "store", dtype="float16")
    assert extract(encoder, text(), tmp_path / "wide", dtype="bfloat16").n == len(HARD)
    monkeypatch.setattr(
        encoder,
        "states",
        lambda *a, **k: {"hidden": [0 * state / 0 for state in states(*a, **k)["hidden"]]},
    )
    with pytest.raises(
        InputError,
        match=(
            "expected finite activations, got others in layer_00; choose float32, or another "
            "encoder"
        ),
    ):
        extract(encoder, text(), tmp_path / "broken")


def test_an_encoder_that_padding_changes_gets_no_padding(originals, tmp_path, monkeypatch):
    encoder = load_encoder(str(originals["bert"]))
    encoder.padding_free = True
    states = encoder.states

    def unpadded(ids, mask, *given, **more):
        assert bool(mask.all())
        return states(ids, mask, *given, **more)

    monkeypatch.setattr(encoder, "states", unpadded)
    store = extract(encoder, text(), tmp_path / "store", unit="word")
    assert np.allclose(
        layers(store),
        plain_words(originals["bert"], HARD, encoder.max_length),
        atol=ROUNDING,
        equal_nan=True,
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dtype": "int8"}, "dtype: expected one of float32, float16, bfloat16"),
        (
            {"unit": "pair"},
            "second: expected the second sentences, for pairs and only for them",
        ),
        (
            {"second": text(["x"])},
            "second: expected the second sentences, for pairs and only for them",
        ),
        (
            {"unit": "pair", "second": text(["x"])},
            "second: expected 10 sentences, one for each of hard.txt",
        ),
        (
            {"unit": "word", "lowercase": True},
            "lowercase, min_count: expected no such setting for this unit",
        ),
        ({"unit": "type", "min_count": 0}, "min_count: expected 1 or more"),
        ({"unit": "type", "min_count": 1.5}, "min_count: expected 1 or more, got 1.5"),
        ({"unit": "type", "min_count": "2"}, "min_count: expected 1 or more, got '2'"),
        ({"outputs": ["residual"]}, "outputs: "),
        (
            {"unit": "embedding", "layers": [3]},
            "layers: expected no such setting for unit 'embedding'",
        ),
        ({"unit": "embedding", "outputs": ["mlp"]}, "outputs: expected no such setting"),
        ({"unit": "embedding", "pool": "max"}, "pool: expected no such setting"),
        ({"unit": "embedding", "long_input": "truncate"}, "long_input: expected no such setting"),
        ({"unit": "token", "pool": "first"}, "pool: expected no such setting for unit 'token'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(originals, tmp_path, given, told):
    encoder = load_encoder(str(originals["bert"]))
    with pytest.raises(InputError, match=told):
        extract(encoder, text(), tmp_path / "store", **given)
    assert not list(tmp_path.iterdir())


def test_annotations_of_words_are_columns_of_the_index(originals, tmp_path):
    encoder = load_encoder(str(originals["bert"]))
    tagged = Corpus(
        "eng",
        ["the cat", "x"],
        ["0", "1"],
        "t",
        words=[[(0, 3), (4, 7)], [(0, 1)]],
        annotations={"upos": [["DET", "NOUN"], ["X"]]},
    )
    store = extract(encoder, tagged, tmp_path / "store", unit="word")
    assert store.index()["upos"] == ["DET", "NOUN", "X"] and store.rows(upos="NOUN").tolist() == [1]


def test_the_first_blocks_may_have_no_word(originals, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_block_text", lambda *_: 1)  # a block for each line
    lines, spans = ["...", "the cat", "-"], [[], [(0, 3), (4, 7)], []]
    columns = {"upos": [[], ["DET", "NOUN"], []]}
    corpora = [
        Corpus("eng", some, [str(n) for n in range(len(some))], "t", words=words, annotations=notes)
        for some, words, notes in (
            (lines, spans, columns),
            (lines[1:2], spans[1:2], {"upos": columns["upos"][1:2]}),
        )
    ]
    encoder = load_encoder(str(originals["bert"]))
    stores = [
        extract(encoder, one, tmp_path / str(n), unit="word") for n, one in enumerate(corpora)
    ]
    assert np.array_equal(*map(layers, stores))
    assert [one.index()["upos"] for one in stores] == [["DET", "NOUN"]] * 2


def test_a_stopped_average_begins_anew_where_blocks_are_others(originals, tmp_path, monkeypatch):
    encoder = load_encoder(str(originals["bert"]))
    small_blocks(monkeypatch)
    monkeypatch.setattr(type_averages, "_SAVE_EVERY", 0.0)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module.ActivationsWriter, "write", stopped)
        extract(encoder, text(), tmp_path / "store", unit="type")
    assert list(tmp_path.rglob("sums-*"))
    monkeypatch.setattr(module, "_block_text", lambda *_: 400)  # as on another device
    store = extract(encoder, text(), tmp_path / "store", unit="type")
    fresh = extract(encoder, text(), tmp_path / "fresh", unit="type")
    assert np.array_equal(layers(store), layers(fresh)) and not list(tmp_path.rglob("sums-*"))


def test_blocks_hold_many_batches_of_the_device():
    for device in ("cpu", "cuda", "mps"):
        kind = device if device in encode._BATCH_TOKENS else "cpu"
        # a token is about four bytes
        assert module._block_text(device) >= 8 * 4 * encode._BATCH_TOKENS[kind]


@pytest.mark.parametrize("unit", ["word", "token", "type"])
def test_blank_lines_have_no_items_where_the_tokeniser_adds_no_special_tokens(
    originals, tmp_path, monkeypatch, unit
):
    encoder = load_encoder(str(originals["roberta"]))
    encoder.tokenizer.backend_tokenizer.post_processor = None
    assert encoder.tokenizer("")["input_ids"] == []
    # a block for each line that is not blank
    monkeypatch.setattr(module, "_block_text", lambda *_: 1)
    lines = ["", "the cat", "", "", "sat on the mat", ""]
    corpus, full = (
        Corpus("eng", some, [str(i) for i in range(len(some))], "t")
        for some in (lines, [line for line in lines if line])
    )
    store, other = (
        extract(encoder, corpus, tmp_path / "blank", unit=unit),
        extract(encoder, full, tmp_path / "full", unit=unit),
    )
    assert np.array_equal(layers(store), layers(other)) and store.n == other.n > 4
    if unit != "type":
        none = extract(
            encoder, Corpus("eng", ["", ""], ["0", "1"], "t"), tmp_path / "none", unit=unit
        )
        assert none.n == 0 and (none.folder / "checksums.bin").stat().st_size


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_a_word_of_several_windows_beside_one_without_pieces(originals, tmp_path, pool):
    encoder = load_encoder(str(originals["bert"]))
    long = " ".join(["the cat sat on the mat"] * 30)
    sentence = f"{long} \u200b end"
    spans = [(0, len(long)), (len(long) + 1, len(long) + 2), (len(long) + 3, len(sentence))]
    corpus = Corpus("eng", [sentence], ["0"], "t", words=[spans])
    words, tokens = (
        extract(encoder, corpus, tmp_path / "words", unit="word", pool=pool),
        extract(encoder, corpus, tmp_path / "t", unit="token"),
    )
    pieces = np.array(words.index()["pieces"])
    assert pieces[0] > encoder.max_length and pieces[1] == 0 and pieces.sum() == tokens.n
    states, found = layers(tokens), layers(words)
    for row, some in ((0, slice(0, pieces[0])), (2, slice(pieces[0], None))):
        expected = states[:, some].mean(axis=1) if pool == "mean" else states[:, some].max(axis=1)
        assert np.allclose(found[:, row], expected, atol=ROUNDING)
    assert np.isnan(found[:, 1]).all()
