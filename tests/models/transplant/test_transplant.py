"""Encoders with another vocabulary: what is shared, what stays, what is written, and what is refused."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    ElectraConfig,
    ElectraForPreTraining,
    T5Config,
    T5EncoderModel,
)

import crosslens as cl
from crosslens.cli.main import main
from crosslens.corpus import Corpus
from crosslens.errors import CrosslensError, InputError
from crosslens.models.saved.loading import load_encoder
from crosslens.models.text.tokenisation import (
    Vocabulary,
    train_tokenizer,
    with_special_tokens,
)
from crosslens.models.transplant import transplant as module
from crosslens.models.transplant.learning import held_out
from crosslens.models.transplant.subwords import (
    retokenised_weights,
    shared_subwords,
    subword_texts,
    translation_weights,
)
from crosslens.models.transplant.transplant import INITIALISERS, transplant_vocabulary
from crosslens.progress import be_quiet
from crosslens.recipes.quickstart import DATA

FRENCH = (DATA / "corpus" / "fra.txt").read_text(encoding="utf-8").splitlines()[:300]
TEXT = Corpus("fra", FRENCH, [str(n) for n in range(len(FRENCH))], "french")
TINY = DATA / "tiny-encoder"
PAIRS = {("dog", "chien"): 1.0, ("the house", "maison"): 2.0}


def given(by):
    return {"by": by, "pairs": PAIRS} if by == "translation" else {"by": by}


@pytest.mark.parametrize("by", INITIALISERS)
def test_the_body_keeps_its_bits_and_the_folder_is_an_ordinary_one(by, tmp_path):
    made = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", size=500, **given(by))
    old, new = (load_file(folder / "model.safetensors") for folder in (TINY, made.folder))
    ours = {name for name, tensor in new.items() if tensor.shape[0] == 500}
    rest = new.keys() - ours
    assert rest and all(torch.equal(old[name].float(), new[name]) for name in rest)
    assert ours == {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"}
    model = AutoModelForMaskedLM.from_pretrained(made.folder)
    assert model.config.vocab_size == 500 == model.get_output_embeddings().weight.shape[0]
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert table.weight is head.weight or torch.equal(table.weight, head.weight)
    assert torch.equal(head.bias, new["cls.predictions.bias"])
    encoder = load_encoder(made.folder)
    assert (encoder.layers, encoder.d) == (5, 128) and len(encoder.tokenizer) == 500
    told = json.loads((made.folder / "transplant.json").read_text())
    assert told["rows"] == dict(made.made) and sum(made.made.values()) == 500


def test_shared_and_special_rows_are_the_old_ones(tmp_path):
    made = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", by="overlap", size=500)
    old, new = (AutoTokenizer.from_pretrained(folder) for folder in (TINY, made.folder))
    tables = [load_encoder(folder).token_embeddings() for folder in (TINY, made.folder)]
    words = set(old.get_vocab()) & set(new.get_vocab())
    assert len(words) > 100 and {"[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"} <= words
    for word in words:
        mine, theirs = new.convert_tokens_to_ids(word), old.convert_tokens_to_ids(word)
        assert torch.equal(tables[1][mine], tables[0][theirs]), word
    assert made.made["copied"] == len(words)


def test_an_encoder_with_its_own_text_s_vocabulary_is_itself(tmp_path):
    """Where every subword is shared and texts are cut alike, states are the same."""
    made = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", by="overlap", size=500)
    once = load_encoder(made.folder)
    again = transplant_vocabulary(made.folder, TEXT, tmp_path / "again", by="overlap", size=500)
    assert again.made == {"sampled": 0, "copied": 500, "combined": 0}
    twice, ids = load_encoder(again.folder), torch.tensor([[5, 40, 300, 7]])
    with torch.inference_mode():
        for a, b in zip(once.hidden_states(ids, None), twice.hidden_states(ids, None), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "xlmr"])
def test_every_kind_of_tokeniser_finds_its_own_subwords(originals, family, tmp_path):
    if family not in originals:
        family = next(name for name in originals if name.startswith(family[:3]))
    tokenizer = AutoTokenizer.from_pretrained(originals[family])
    found = shared_subwords(tokenizer, tokenizer)
    texts = subword_texts(tokenizer)
    assert found.shape == (len(tokenizer),) and len(texts) == len(tokenizer)
    twice = {text for text in texts if texts.count(text) > 1}
    for number, text in enumerate(texts):
        assert found[number] == number or not text or text in twice, (number, text)
    assert any(text.startswith(" ") for text in texts)


def test_words_of_other_tokenisers_are_the_same_text(originals):
    """A word of WordPiece, of byte-level BPE and of SentencePiece has a space in front in each."""
    every = {
        name: set(subword_texts(AutoTokenizer.from_pretrained(folder)))
        for name, folder in originals.items()
        if name in ("bert", "roberta", "xlmr")
    }
    assert len(every) > 1 and all(" the" in texts for texts in every.values()), every.keys()


def test_a_letter_that_byte_level_bpe_writes_for_a_space_is_a_letter_elsewhere():
    """Maltese has Ġ, and every large multilingual vocabulary has it."""
    tokenizer = with_special_tokens(
        train_tokenizer(
            {"mlt": ["Ġorġ mar id-dar", "Ġorġ u Ġanna"] * 9}, Vocabulary(size=60, kind="bpe")
        )
    )
    texts = subword_texts(tokenizer)
    assert any(text.startswith(" Ġ") for text in texts), texts
    assert not any("\ufffd" in text for text in texts)
    found = shared_subwords(tokenizer, tokenizer)
    assert (found >= 0).all()


def test_a_translation_gives_its_weight_to_the_subwords_of_both_words(tmp_path):
    made = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", by="overlap", size=500)
    old, new = (AutoTokenizer.from_pretrained(folder) for folder in (TINY, made.folder))
    found = translation_weights(PAIRS, old, new, len(old)).toarray()
    chien, dog = (t.encode(w, add_special_tokens=False) for t, w in ((new, "chien"), (old, "dog")))
    for row in chien:
        expected = np.zeros(len(old))
        for column in dog:
            expected[column] += chien.count(row) / len(dog)
        house = new.encode("maison", add_special_tokens=False)
        if row not in house:
            np.testing.assert_allclose(found[row], expected)
    np.testing.assert_allclose(
        found.sum(), len(chien) + 2 * len(new.encode("maison", add_special_tokens=False))
    )


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_old_subwords_count_by_the_characters_that_new_ones_share_with_them(
    originals, family, tmp_path
):
    """Against all pairs of subwords, in every kind of tokeniser, one that knows the text and one that
    does not."""
    made = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", by="overlap", size=500)
    tokenizers = [AutoTokenizer.from_pretrained(p) for p in (originals[family], made.folder)]
    some = [line for line in FRENCH[:40] if line.isascii()]  # bytes of a letter share one place
    for old, new in (tokenizers, tokenizers[::-1]):
        found = retokenised_weights(some, old, new, len(old)).toarray()
        expected = np.zeros(found.shape)
        for line in some:
            sides = [
                t(line, add_special_tokens=False, return_offsets_mapping=True) for t in (new, old)
            ]
            pairs = [zip(side["input_ids"], side["offset_mapping"], strict=True) for side in sides]
            theirs = list(pairs[1])
            for row, (begin, end) in pairs[0]:
                for column, (start, stop) in theirs:
                    if column not in old.all_special_ids:  # nothing is known of what is unknown
                        expected[row, column] += max(0, min(end, stop) - max(begin, start))
        np.testing.assert_array_equal(found, expected)
        assert found.sum() > 50


def test_a_retokenised_subword_is_the_mean_of_what_stood_there(tmp_path):
    made = transplant_vocabulary(TINY, TEXT, tmp_path / "fra", by="retokenised", size=500)
    old, new = (AutoTokenizer.from_pretrained(folder) for folder in (TINY, made.folder))
    tables = [load_encoder(folder).token_embeddings().numpy() for folder in (TINY, made.folder)]
    weights = retokenised_weights(FRENCH, old, new, len(old)).toarray()
    shared = shared_subwords(old, new)
    combined = [n for n in range(500) if shared[n] < 0 and weights[n].sum()]
    assert len(combined) == made.made["combined"] > 30
    for n in combined:
        mean = weights[n] @ tables[0] / weights[n].sum()
        np.testing.assert_allclose(tables[1][n], mean, atol=1e-5)
    for n in np.flatnonzero(shared >= 0):
        assert (tables[1][n] == tables[0][shared[n]]).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"by": "guess"}, "--by: expected one of random, overlap"),
        ({"by": "translation"}, "--dictionary: expected translations with --by translation"),
        ({"by": "overlap", "pairs": PAIRS}, "--dictionary: expected translations"),
        ({"by": "translation", "pairs": {("qqq", "zzz"): 0.0}}, "weights: expected a translation"),
        ({"size": 3}, "--vocabulary: expected 100 subwords"),
        ({"encoder": "no/such/folder"}, "encoder"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(changes, match, tmp_path):
    told = {"encoder": TINY, "text": TEXT, "out": tmp_path / "out", "size": 300, "by": "overlap"}
    with pytest.raises(CrosslensError, match=match):
        transplant_vocabulary(**{**told, **changes})
    assert not list(tmp_path.iterdir())


def test_a_head_with_a_table_of_its_own_is_refused(tmp_path):
    """Equal numbers are no promise that both are one."""
    model = AutoModelForMaskedLM.from_pretrained(TINY)
    model.config.tie_word_embeddings = False
    head = model.get_output_embeddings()
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    model.save_pretrained(tmp_path / "two")
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path / "two")
    with pytest.raises(CrosslensError, match="with a head that shares its embeddings"):
        transplant_vocabulary(tmp_path / "two", TEXT, tmp_path / "fra", by="random", size=300)
    assert not (tmp_path / "fra").exists()


def test_a_folder_that_is_there_is_kept(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(CrosslensError, match="--out: expected a new folder"):
        transplant_vocabulary(TINY, TEXT, tmp_path / "out", by="random", size=300)


def test_the_command_takes_links_of_a_parallel_text(tmp_path, capsys):
    (tmp_path / "fra.txt").write_text("\n".join(FRENCH), encoding="utf-8")
    (tmp_path / "en").write_text("the dog sleeps\n" * 3, encoding="utf-8")
    (tmp_path / "fr").write_text("le chien dort\n" * 3, encoding="utf-8")
    (tmp_path / "links").write_text("0-0 1-1 2-2\n" * 3, encoding="utf-8")
    line = [
        "transplant",
        "--encoder",
        str(TINY),
        "--text",
        f"fra={tmp_path / 'fra.txt'}",
        "--by",
        "translation",
    ]
    line += [
        "--vocabulary",
        "300",
        "--links",
        str(tmp_path / "links"),
        "--out",
        str(tmp_path / "out"),
    ]
    line += ["--parallel", f"eng={tmp_path / 'en'}", f"fra={tmp_path / 'fr'}", "--json"]
    assert main(line) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["subwords"] == 300 and told["combined"] > 0
    assert main([*line[:-1], "--dictionary", str(tmp_path / "links"), "--quiet"]) == 2
    assert "--links: expected a dictionary, or links" in capsys.readouterr().err
    other = [*line[:-1], "--out", str(tmp_path / "again"), "--quiet"]
    (tmp_path / "links").write_text("0-0 1-1 2-3\n" * 3, encoding="utf-8")
    assert main(other) == 2
    assert "links:1: expected words 0-0 to 2-2, got 2-3" in capsys.readouterr().err
    at = other.index("--parallel") + 1
    other[at : at + 2] = other[at : at + 2][::-1]
    assert main(other) == 2
    assert "expected two texts, the second in fra, as --text" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def test_links_of_sentences_that_are_held_out_shape_nothing(tmp_path, monkeypatch, capsys):
    """However a sentence is divided by spaces, or its letters written."""
    kept = held_out(FRENCH, 5)[1]
    spaced = [" ".join(line.replace(".", " .").split()).lower() for line in FRENCH]
    (tmp_path / "fr").write_text("\n".join(spaced) + "\n", encoding="utf-8")
    old = "\n".join(f"line{n}" for n in range(300))
    (tmp_path / "en").write_text(old + "\n", encoding="utf-8")
    links = "\n".join(["0-0"] * 300)
    (tmp_path / "links").write_text(links + "\n", encoding="utf-8")
    given = []

    def stop(*_, pairs, **__):
        given.append(pairs)

    monkeypatch.setattr(module, "transplant_vocabulary", stop)
    told = {"by": "translation", "language": "fra", "links": tmp_path / "links", "seed": 5}
    told["parallel"] = {"eng": tmp_path / "en", "fra": tmp_path / "fr"}
    be_quiet(False)
    cl.transplant(TINY, FRENCH, tmp_path / "out", **told)
    assert "held out" not in capsys.readouterr().err
    cl.transplant(TINY, FRENCH, tmp_path / "out", tokens=5000, **told)
    assert "15 of 300 lines of --parallel are left out" in capsys.readouterr().err
    every, fewer = ({int(old[4:]) for old, _ in pairs} for pairs in given)
    assert every == {*range(300)}
    assert every - fewer == {n for n, line in enumerate(FRENCH) if line in kept}


@pytest.mark.parametrize("seed", [-1, 0.5, 2**32])
def test_a_seed_that_is_none_is_refused(seed, tmp_path):
    (tmp_path / "en").write_text("the\n" * 3)
    (tmp_path / "links").write_text("0-0\n" * 3)
    told = {"links": tmp_path / "links", "by": "translation", "tokens": 5000}
    told["parallel"] = {"eng": tmp_path / "en", "fra": tmp_path / "en"}
    for more in ({"by": "overlap"}, told):
        with pytest.raises(InputError, match="seed: expected a whole number from 0"):
            cl.transplant(TINY, FRENCH, tmp_path / "out", language="fra", seed=seed, **more)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["many", 5000.5, -1])
def test_numbers_that_are_none_are_refused_by_name(value, tmp_path):
    for name, option in (("tokens", "--tokens"), ("size", "--vocabulary")):
        with pytest.raises(InputError, match=f"{option}: expected a whole number from 1"):
            transplant_vocabulary(TINY, TEXT, tmp_path / "out", by="overlap", **{name: value})
    assert not (tmp_path / "out").exists()


def test_a_dictionary_whose_columns_are_exchanged_is_refused(tmp_path):
    words = {word for line in FRENCH for word in line.split() if word.isalpha()}
    lines = [f"{word} x{n}" for n, word in enumerate(sorted(words)[:40])]
    (tmp_path / "fr-en.txt").write_text("\n".join(lines), encoding="utf-8")
    told = {"by": "translation", "size": 300, "dictionary": tmp_path / "fr-en.txt"}
    with pytest.raises(
        CrosslensError, match=r"--dictionary: expected the encoder's language first"
    ):
        cl.transplant(TINY, FRENCH, tmp_path / "fra", language="fra", **told)
    assert not (tmp_path / "fra").exists()
    turned = [" ".join(line.split()[::-1]) for line in lines]
    (tmp_path / "en-fr.txt").write_text("\n".join(turned), encoding="utf-8")
    told["dictionary"] = tmp_path / "en-fr.txt"
    cl.transplant(TINY, FRENCH, tmp_path / "fra", language="fra", **told)


def test_a_weight_below_0_is_refused_with_its_file_and_pair(tmp_path):
    path = tmp_path / "en-fr.txt"
    path.write_text("dog\tchien\t2\ncat\tchat\t-1\n", encoding="utf-8")
    told = {"by": "translation", "size": 300, "dictionary": path, "language": "fra"}
    with pytest.raises(InputError, match=r"en-fr.txt: expected scores above 0, .*-1 of 'cat chat'"):
        cl.transplant(TINY, ["le chien et le chat"] * 50, tmp_path / "out", **told)
    assert not (tmp_path / "out").exists()


def test_weights_that_a_folder_lacks_are_refused(tmp_path):
    """transformers would sample a whole layer, and say so in passing."""
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path / "half")
    (tmp_path / "half" / "config.json").write_bytes((TINY / "config.json").read_bytes())
    weights = load_file(TINY / "model.safetensors")
    there = {name: one for name, one in weights.items() if "layer.1." not in name}
    save_file(there, tmp_path / "half" / "model.safetensors", {"format": "pt"})
    with pytest.raises(CrosslensError, match=r"weights for the whole model, got 16 missing"):
        transplant_vocabulary(tmp_path / "half", TEXT, tmp_path / "fra", by="overlap", size=300)
    assert not (tmp_path / "fra").exists()


def test_a_head_that_is_none_for_masked_words_is_left_out(tmp_path):
    """ELECTRA's folders say ForPreTraining as BERT's do, and their head tells words apart."""
    shape = {"hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 1, "vocab_size": 600}
    shape |= {"num_attention_heads": 2, "intermediate_size": 64}
    ElectraForPreTraining(ElectraConfig(**shape)).save_pretrained(tmp_path / "electra")
    tokenizer = AutoTokenizer.from_pretrained(TINY).train_new_from_iterator(FRENCH, 600)
    tokenizer.save_pretrained(tmp_path / "electra")
    told = {"by": "overlap", "size": 300, "tokens": 4096, "device": "cpu"}
    made = transplant_vocabulary(tmp_path / "electra", TEXT, tmp_path / "fra", **told)
    assert not [name for name in load_file(made.folder / "model.safetensors") if "head" in name]
    assert made.learnt.perplexities[0] > 1  # embeddings narrower than the body: its head is, too


@pytest.mark.parametrize("kept_by", ["transformers", "transfer"])
def test_a_task_model_whose_embeddings_were_trained_is_refused(tmp_path, kept_by):
    if kept_by == "transformers":
        model = AutoModelForSequenceClassification.from_pretrained(TINY, num_labels=3)
    else:  # the encoder alone where transformers has no such head, and that beside it
        model = AutoModelForMaskedLM.from_pretrained(TINY).base_model
    model.save_pretrained(tmp_path / "topics")
    if kept_by == "transfer":
        (tmp_path / "topics" / "head.json").write_text("{}")
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path / "topics")
    with pytest.raises(
        CrosslensError, match="--encoder: expected an encoder that is not fine-tuned"
    ):
        transplant_vocabulary(tmp_path / "topics", TEXT, tmp_path / "fra", by="overlap", size=300)
    assert not (tmp_path / "fra").exists()


def test_a_head_that_lacks_some_of_its_weights_is_refused(originals, tmp_path):
    model = AutoModelForMaskedLM.from_pretrained(originals["roberta"])
    weights = {k: v.clone() for k, v in model.state_dict().items() if "decoder" not in k}
    del weights["lm_head.dense.weight"]
    AutoTokenizer.from_pretrained(originals["roberta"]).save_pretrained(tmp_path / "half")
    model.config.save_pretrained(tmp_path / "half")
    save_file(weights, tmp_path / "half" / "model.safetensors", {"format": "pt"})
    with pytest.raises(CrosslensError, match=r"whole model, got 1 missing \(lm_head.dense.weight"):
        transplant_vocabulary(tmp_path / "half", TEXT, tmp_path / "fra", by="random", size=300)


def test_the_encoder_of_an_encoder_decoder_is_whole_without_its_decoder(originals, tmp_path):
    shape = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    tokenizer = AutoTokenizer.from_pretrained(originals["bert"])
    T5EncoderModel(T5Config(vocab_size=len(tokenizer), **shape)).save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    made = transplant_vocabulary(tmp_path / "t5", TEXT, tmp_path / "fra", by="random", size=300)
    assert load_encoder(made.folder).token_embeddings().shape[0] == len(
        AutoTokenizer.from_pretrained(made.folder)
    )


def test_words_of_a_language_without_spaces_have_none_in_front(originals):
    """Neither does the space become a translation of all of them."""
    lines = ["学校很大的", "他在学校里", "学生去学校"] * 30
    source = AutoTokenizer.from_pretrained(originals["roberta"])
    target = source.train_new_from_iterator(lines, 400)
    weights = translation_weights({("the", "学校"): 1.0}, source, target, len(source)).tocoo()
    assert {target.decode([n]) for n in weights.row} == {"学校"}
    back = translation_weights({("学校", "the"): 1.0}, target, source, len(target)).tocoo()
    assert {target.decode([n]) for n in back.col} == {"学校"}


def test_nothing_is_said_of_the_direction_of_words_that_nobody_sees(tmp_path):
    """Chinese has no spaces, and its texts have English words."""
    lines = [f"学校{n}很大 the school is big" for n in range(200)]
    pairs = "the 这\nschool 学校\nis 是\nbig 大\n"
    (tmp_path / "en-zh.txt").write_text(pairs, encoding="utf-8")
    told = {"by": "translation", "size": 300, "dictionary": tmp_path / "en-zh.txt"}
    made = cl.transplant(TINY, lines, tmp_path / "cmn", language="cmn", **told)
    assert made.made["combined"] > 0
    (tmp_path / "links").write_text("0p0\n" * 3)
    (tmp_path / "en").write_text("the\n" * 3)
    (tmp_path / "zh").write_text("这\n" * 3)
    told = {
        "links": tmp_path / "links",
        "parallel": {"eng": tmp_path / "en", "cmn": tmp_path / "zh"},
    }
    with pytest.raises(CrosslensError, match="--links: expected pairs of words, got none"):
        cl.transplant(
            TINY, lines, tmp_path / "b", by="translation", size=300, language="cmn", **told
        )


def test_words_are_divided_as_they_are_within_a_sentence(originals, tmp_path):
    """Byte-level BPE has another subword for a word behind a space, which texts are full of."""
    source = AutoTokenizer.from_pretrained(originals["roberta"])
    target = source.train_new_from_iterator(FRENCH * 9, 700)
    behind = translation_weights({("the", "est"): 1.0}, source, target, len(source)).tocoo()
    rows, columns = (
        {t.decode([n]) for n in ids} for t, ids in ((target, behind.row), (source, behind.col))
    )
    assert rows == {" est"} and " the" in columns


def test_what_is_unknown_to_the_encoder_is_no_subword_of_it(originals, tmp_path):
    """WordPiece has one token for all that it does not know, which is no translation of anything."""
    words = "строка слово кошка собака дом река лес".split()
    lines = [f"{words[n % 7]} и {words[n % 5]} {words[n % 3]}" for n in range(200)]
    text = Corpus("rus", lines, [str(n) for n in range(200)], "russian")
    latin = AutoTokenizer.from_pretrained(originals["bert"])
    source = latin.train_new_from_iterator(["the cat sat on a mat"] * 50, 60)
    model = AutoModelForMaskedLM.from_pretrained(originals["bert"])
    model.resize_token_embeddings(len(source))
    model.save_pretrained(tmp_path / "latin")
    source.save_pretrained(tmp_path / "latin")
    for by in ("overlap", "similarity", "factorised", "retokenised"):
        with pytest.raises(CrosslensError, match=f"--by {by}: expected a subword that both"):
            transplant_vocabulary(tmp_path / "latin", text, tmp_path / "rus", by=by, size=150)
        assert not (tmp_path / "rus").exists()
