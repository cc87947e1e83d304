"""XLM with its own tokeniser: what transformers gives, its pieces' places in the text, and the
language that it is told."""

import json
import shutil
import sys
import types
import unicodedata

import numpy as np
import pytest
import torch
from transformers import XLMTokenizer, XLMWithLMHeadModel
from xlm_models import reference, save_xlm

from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError
from crosslens.models.extraction.extract import check_text, extract
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.locate import encoder_fingerprint
from crosslens.models.saved.xlm_tokeniser import with_offsets
from crosslens.models.scoring.cloze import load_scorer

CLOSE = 1e-5  # another order of sums
TEXTS = {
    "en": [
        "It's a cat, isn't it?",
        "“Naïve”, he said… 1\u00a0000 dogs!",
        "the cat </s> sat <special3> here",
        "the mat " * 40,
    ],
    "fr": ["L'homme a dit: « oui ».", "L’été, c'est là…", "l'homme a dit non " * 3],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_xlm(tmp_path_factory.mktemp("xlm") / "xlm", head=True)


@pytest.fixture(scope="module")
def encoder(folder):
    return load_encoder(str(folder))


def corpus(language, sentences):
    return Corpus(language, sentences, [str(i) for i in range(len(sentences))], f"{language}.txt")


@pytest.mark.parametrize(("language", "code"), [("en", "eng"), ("fr", "fra")])
@pytest.mark.parametrize(
    "kind", [{}, {"embedded": False}, {"lower": False}, {"embedded": False, "listed": False}]
)
def test_states_are_those_that_transformers_gives_with_its_langs(tmp_path, kind, language, code):
    mine = load_encoder(str(save_xlm(tmp_path / "xlm", **kind)))
    texts = TEXTS[language][:3]
    store = extract(
        mine, corpus(code, texts), tmp_path / "tokens", unit="token", special_tokens=True
    )
    means = extract(mine, corpus(code, texts), tmp_path / "sentences")
    expected = [reference(tmp_path / "xlm", text, language) for text in texts if "<" not in text]
    rows = [
        np.flatnonzero(np.array(store.index(["text"])["text"]) == i)
        for i, text in enumerate(texts)
        if "<" not in text
    ]
    assert store.layers == 4
    for (ids, states), mine_rows, row in zip(
        expected, rows, [i for i, text in enumerate(texts) if "<" not in text], strict=True
    ):
        tokens = store.index(["token"])["token"]
        assert [tokens[i] for i in mine_rows] == mine.tokenizer.convert_ids_to_tokens(ids)
        for layer, state in enumerate(states):
            np.testing.assert_allclose(store.layer(layer)[mine_rows], state, atol=CLOSE)
            np.testing.assert_allclose(means.layer(layer)[row], state[1:-1].mean(0), atol=CLOSE)


def test_ids_are_those_of_the_tokeniser_called_as_transformers_calls_it(folder, encoder):
    theirs = XLMTokenizer.from_pretrained(folder)
    for text in TEXTS["en"]:
        assert encoder.tokenizer([text]).encodings[0].ids == theirs(text)["input_ids"]
    for first, second in [("the cat", "it's a dog"), ("a", "")]:
        pair = encoder.tokenizer([first], [second]).encodings[0]
        assert pair.ids == theirs(first, second)["input_ids"]
        assert pair.type_ids == theirs(first, second, return_token_type_ids=True)["token_type_ids"]
    for most in (4, 5, 6, 8, 9):
        cut = encoder.tokenizer(
            ["the cat sat"], ["it's a dog"], truncation="longest_first", max_length=most
        ).encodings[0]
        assert (
            cut.ids
            == theirs("the cat sat", "it's a dog", truncation="longest_first", max_length=most)[
                "input_ids"
            ]
        )
        assert (
            len(cut.ids)
            == len(cut.offsets)
            == len(cut.word_ids)
            == len(cut.special_tokens_mask)
            == most
        )
    assert (
        encoder.tokenizer(["the cat"], add_special_tokens=False).encodings[0].ids
        == theirs("the cat", add_special_tokens=False)["input_ids"]
    )


def test_languages_have_rules_and_embeddings_of_their_own(encoder, tmp_path):
    text = ["l'homme a dit oui"]
    stores = {
        code: extract(encoder, corpus(code, text), tmp_path / code, unit="token")
        for code in ("eng", "fra")
    }
    words = {
        code: "".join(store.index(["token"])["token"]).split("</w>")[:2]
        for code, store in stores.items()
    }
    assert words == {"eng": ["l", "'homme"], "fra": ["l'", "homme"]}
    same = {
        code: extract(encoder, corpus(code, ["oui"]), tmp_path / f"one-{code}")
        for code in ("eng", "fra")
    }
    assert same["eng"].n == same["fra"].n == 1
    for layer in range(4):
        assert (
            np.abs(np.array(same["eng"].layer(layer)) - np.array(same["fra"].layer(layer))).max()
            > 0.01
        )


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "en",
            "“Don’t”  the 'x'.",
            [
                ("“", '"'),
                ("Don", "don"),
                ("’t", "'t"),
                ("”", '"'),
                ("the", "the"),
                ("'", "'"),
                ("x", "x"),
                ("'", "'"),
                (".", "."),
            ],
        ),
        (
            "en",
            'He said "no", "yes"',
            [
                *(
                    (word, word.lower())
                    for word in ("He", "said", '"', "no", ",", '"', '"', "yes", '"')
                )
            ],
        ),
        (
            "de",
            'sagte,"gut"',
            [("sagte", "sagte"), ('"', '"'), (",", ","), ("gut", "gut"), ('"', '"')],
        ),
        ("fr", "«\u00a0L’homme\u00a0»", [("«", '"'), ("L’", "l'"), ("homme", "homme"), ("»", '"')]),
        ("fr", "1\u00a0000 pas…", [("1\u00a0000", "1,000"), ("pas", "pas"), ("…", "...")]),
        ("en", "``ok''", [("``", '"'), ("ok", "ok"), ("''", '"')]),
        (
            "en",
            "e\u0301te\u0301 İs ΟΔΟΣ",
            [("e", "e"), ("te", "te"), ("İs", "is"), ("ΟΔΟΣ", "οδος")],
        ),
        ("en", "한국 ½ ¨", [("한", "한"), ("국", "국"), ("½", "½"), ("¨", "¨")]),
        (
            "zh",
            "这是猫。好！",
            [("这是", "这是"), ("猫", "猫"), ("。", "."), ("好", "好"), ("！", "!")],
        ),
    ],
)
def test_each_word_is_found_where_it_stands(encoder, monkeypatch, language, text, expected):
    """Words as Moses has them, by the characters of the text that they were written for."""
    monkeypatch.setitem(
        sys.modules,
        "rjieba",
        types.SimpleNamespace(cut=lambda line: ["这是", "猫", "。", "好", "！"]),
    )
    found = encoder.tokenizer.in_languages(language, language)([text]).encodings[0]
    plain = [
        (word, *span)
        for word, span in zip(found.word_ids, found.offsets, strict=True)
        if word is not None
    ]
    spans = {number: [one[1:] for one in plain if one[0] == number] for number, *_ in plain}
    assert [text[min(some)[0] : max(end for _, end in some)] for some in spans.values()] == [
        part for part, _ in expected
    ]
    words = "".join(encoder.tokenizer.slow._tokenize(text, lang=language)).split("</w>")[:-1]
    assert words == [unicodedata.normalize("NFD", word) for _, word in expected]


def test_every_piece_has_the_characters_that_it_is_written_with(encoder):
    """Of text with everything in it: what a piece covers is what it says, but for what the rules
    rewrite."""
    rng = np.random.default_rng(0)
    signs = np.array(
        [
            *"abcXYZ  ..,-()!?:%0123",
            "\u00a0",
            "«",
            "»",
            "“",
            "”",
            "’",
            "…",
            "—",
            "，",
            "。",
            "１",
            "é",
            "한",
            "ß",
            "Σ",
            "\u200b",
        ]
    )
    whole = part = 0
    for number in range(150):
        text = "".join(rng.choice(signs, int(rng.integers(0, 40))))
        language = ("en", "fr", "de", "ro")[number % 4]
        found = encoder.tokenizer.in_languages(language, language)
        encoding = found([text]).encodings[0]
        pieces = found._by_language[0].tokenize(text)
        assert len(encoding.offsets) == len(pieces) + 2 and encoding.offsets[0] == encoding.offsets[
            -1
        ] == (0, 0)
        for piece, (start, end) in zip(pieces, encoding.offsets[1:-1], strict=True):
            assert 0 <= start <= end <= len(text)
            letters = [
                char for char in piece.removesuffix("</w>") if char.isalnum() and char.isascii()
            ]
            whole, part = (
                whole + len(letters),
                part
                + sum(
                    char in unicodedata.normalize("NFKD", text[start:end].lower())
                    for char in letters
                ),
            )
    assert part == whole > 500


def test_a_words_vector_is_the_mean_of_the_pieces_that_the_tokeniser_makes_of_it(
    folder, encoder, tmp_path
):
    text = "the mat là homme dog"
    store = extract(encoder, corpus("fra", [text]), tmp_path / "words", unit="word")
    theirs = XLMTokenizer.from_pretrained(folder)
    _, states = reference(folder, text, "fr")
    begin = 1
    for row, word in enumerate(text.split()):
        count = len(theirs._tokenize(word, lang="fr"))
        for layer, state in enumerate(states):
            np.testing.assert_allclose(
                store.layer(layer)[row], state[begin : begin + count].mean(0), atol=CLOSE
            )
        assert store.index(["pieces"])["pieces"][row] == count
        begin += count
    assert begin + 1 == len(states[0])


def test_words_of_a_treebank_share_the_pieces_that_they_share_characters_with(encoder, tmp_path):
    text = Corpus("eng", ["It isn't"], ["s"], "x.conllu", words=[[(0, 2), (3, 5), (5, 8)]])
    store = extract(encoder, text, tmp_path / "words", unit="word")
    tokens = extract(encoder, text, tmp_path / "tokens", unit="token")
    index = tokens.index(["token", "start", "end"])
    assert "".join(index["token"]) == "it</w>isn</w>'t</w>"
    assert (
        store.index(["word"])["word"] == ["It", "is", "n't"]
        and 0 not in store.index(["pieces"])["pieces"]
    )


def test_types_and_embeddings_are_of_xlm_s_pieces(folder, encoder, tmp_path):
    text = corpus("eng", ["the cat the dog", "the mat"])
    types_ = extract(encoder, text, tmp_path / "types", unit="type")
    assert types_.index(["word"])["word"][0] == "the" and types_.n == 4
    rows = extract(encoder, text, tmp_path / "rows", unit="embedding")
    table = encoder.model.embeddings.weight.detach()
    vocabulary = json.loads((folder / "vocab.json").read_text())
    for row, word in enumerate(rows.index(["word"])["word"]):
        np.testing.assert_array_equal(rows.layer(0)[row], table[vocabulary[f"{word}</w>"]])


def test_the_second_texts_of_pairs_have_their_own_language(encoder, tmp_path):
    first, second = corpus("eng", ["the cat"]), corpus("fra", ["l'homme a dit"])
    store = extract(
        encoder, first, tmp_path / "pair", unit="pair", second=second, special_tokens=True
    )
    ids = encoder.for_text("eng", "fra").tokenizer(["the cat"], ["l'homme a dit"]).encodings[0]
    langs = torch.tensor(
        [[encoder.model.config.lang2id["fr" if kind else "en"] for kind in ids.type_ids]]
    )
    with torch.inference_mode():
        expected = encoder.model(
            input_ids=torch.tensor([ids.ids]), langs=langs, output_hidden_states=True
        ).hidden_states
    for layer, state in enumerate(expected):
        np.testing.assert_allclose(store.layer(layer)[0], state[0].mean(0), atol=CLOSE)
    assert store.manifest["settings"]["language_embedding"] == "en+fr"


# --- the language


def test_the_language_is_kept_with_the_numbers_and_another_is_refused(folder, encoder, tmp_path):
    text = corpus("eng", ["the cat sat"])
    store = extract(encoder, text, tmp_path / "store")
    assert (
        store.manifest["settings"]["language_embedding"]
        == store.manifest["settings"]["tokeniser_language"]
        == "en"
    )
    assert store.manifest["versions"]["sacremoses"] and store.language == "eng"
    with pytest.raises(OutputError, match="language_embedding"):
        extract(load_encoder(str(folder), language="fr"), text, tmp_path / "store")
    assert extract(encoder.in_language("en"), text, tmp_path / "store").n == 1


def test_a_language_that_is_asked_for_wins(folder, encoder, tmp_path):
    asked = load_encoder(str(folder), language="fr")
    assert asked.language == "fr" and encoder.language is None
    store = extract(asked, corpus("eng", ["l'homme a dit oui"]), tmp_path / "store", unit="token")
    _, states = reference(folder, "l'homme a dit oui", "fr")
    np.testing.assert_allclose(store.layer(3), states[3][1:-1], atol=CLOSE)
    assert asked.for_text("eng") is asked


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ({"cmn_Hans", "zho", "zh", "cmn"}, "zh"),
        ({"fra", "fr", "fra_Latn"}, "fr"),
        ({"eng", "eng-x"}, "en"),
        ({"als"}, "sq"),
        ({"nno"}, "no"),
        ({"yue", "zh_yue", "zh-yue"}, "zh_yue"),
    ],
)
def test_codes_of_texts_are_found_under_the_models_names(tmp_path, monkeypatch, codes, told):
    monkeypatch.setitem(sys.modules, "rjieba", types.SimpleNamespace())  # no text is split here
    names = ("en", "fr", "zh", "als", "sq", "no", "zh_yue")
    languages = load_encoder(str(save_xlm(tmp_path / "xlm", languages=names))).languages
    assert {languages.choose(code) for code in codes if told != "zh" or languages} == {told}
    assert languages.choose("als", given=True) == "als" and languages.choose("zh-yue") == "zh_yue"


def test_a_language_that_the_model_lacks_is_refused_with_those_it_has(folder, encoder, tmp_path):
    remedy = r"call the text by one of them, or name one \(--language, language=\)"
    told = rf"language: expected one that encoder xlm has \(en, fr, zh\), got 'deu'; {remedy}"
    for refused in (
        lambda: extract(encoder, corpus("deu", ["x"]), tmp_path / "s"),
        lambda: check_text(encoder, corpus("deu", ["x"])),
    ):
        with pytest.raises(InputError, match=told):
            refused()
    assert not (tmp_path / "s").exists()
    with pytest.raises(InputError, match=r"language: .*got 'de'"):
        load_encoder(str(folder), language="de")
    with pytest.raises(InputError, match=r"encoder xlm: .*got none"), torch.inference_mode():
        encoder.hidden_states(torch.tensor([[0, 20, 1]]), None)


def test_a_model_without_language_embeddings_takes_the_rules_alone(tmp_path):
    mine = load_encoder(str(save_xlm(tmp_path / "listed", embedded=False)))
    store = extract(mine, corpus("fra", ["l'homme"]), tmp_path / "a")
    assert (
        "language_embedding" not in store.manifest["settings"]
        and store.manifest["settings"]["tokeniser_language"] == "fr"
    )
    assert mine.for_text("deu").language == "en"  # transformers' own choice for what is not listed
    with pytest.raises(InputError, match=r"one that encoder listed has \(en, fr, zh\), got 'de'"):
        mine.in_language("de")
    free = load_encoder(str(save_xlm(tmp_path / "free", embedded=False, listed=False)))
    assert (
        free.for_text("deu").language == "de"
        and free.for_text("qqq").language == "en"
        and free.in_language("fr").language == "fr"
    )
    with pytest.raises(InputError, match="got 'qqq'"):
        free.in_language("qqq")


def test_language_embeddings_are_told_with_another_tokeniser_too(tmp_path, originals):
    place = save_xlm(tmp_path / "xlm")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(originals["bert"] / name, place / name)
    settings = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(
        json.dumps(settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
    )
    mine = load_encoder(str(place))
    assert mine.tokenizer.is_fast and mine.in_language("fr").language_settings() == {
        "language_embedding": "fr"
    }
    ids = torch.tensor([[0, 20, 21, 1]])
    with torch.inference_mode():
        expected = mine.model(
            input_ids=ids, langs=torch.full_like(ids, 1), output_hidden_states=True
        ).hidden_states
        states = mine.in_language("fr").hidden_states(ids, None)
    assert all(torch.equal(a, b) for a, b in zip(states, expected, strict=True))
    assert mine.in_language("fr").twin().language == "fr"


def test_an_encoder_that_takes_no_language_refuses_one(originals):
    with pytest.raises(InputError, match=r"language: .*got 'en'"):
        load_encoder(str(originals["bert"]), language="en")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"lang2id": None, "id2lang": None},
            r"the names of its 3 languages \(lang2id\), got none; add them to its config.json",
        ),
        (
            {"lang2id": {"en": 0, "fr": 9}},
            r"the names of its 3 languages \(lang2id\), got the numbers of 2",
        ),
        (
            {"lang2id": {"en": 0, "fr": 0}},
            r"languages and their numbers \(lang2id\), got something else",
        ),
        ({"lang2id": {"en": "0"}}, r"languages and their numbers \(lang2id\), got something else"),
        ({"lang2id": ["en"]}, r"languages and their numbers \(lang2id\), got something else"),
    ],
)
def test_embeddings_of_languages_without_names_are_refused(tmp_path, change, told):
    place = save_xlm(tmp_path / "xlm")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(InputError, match=f"encoder xlm: expected {told}"):
        load_encoder(str(place))


# --- what it needs


def test_without_sacremoses_the_command_that_brings_it_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(
        InputError,
        match=(
            r"expected sacremoses, which splits text for XLM, got none installed; type: pip "
            r"install 'crosslens\[xlm\]'"
        ),
    ):
        load_encoder(str(folder))


@pytest.mark.parametrize(
    ("language", "package"), [("zh", "rjieba"), ("th", "pythainlp"), ("ja", "Mykytea")]
)
def test_scripts_without_spaces_need_their_segmenter(tmp_path, monkeypatch, language, package):
    mine = load_encoder(str(save_xlm(tmp_path / "xlm", languages=("en", language))))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match="encoder xlm: .*got none installed"):
        check_text(mine, corpus(language, ["x"]))
    monkeypatch.setitem(
        sys.modules,
        package,
        types.SimpleNamespace(
            cut=lambda text: [text[:1], text[1:]],
            word_tokenize=lambda text: [text[:1], " ", text[1:]],
            Mykytea=lambda _: types.SimpleNamespace(getWS=lambda text: [text[:1], text[1:]]),
        ),
    )
    if language == "ja":
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(InputError, match="KyTea's model"):
            check_text(mine, corpus(language, ["x"]))
        (tmp_path / "local/share/kytea").mkdir(parents=True)
        (tmp_path / "local/share/kytea/model.bin").write_bytes(b"")
    store = extract(mine, corpus(language, ["theoui"]), tmp_path / "store", unit="token")
    index = store.index(["token", "start", "end"])
    assert (
        "".join(index["token"]).replace("</w>", " ").split() == ["t", "heoui"]
        and index["end"][-1] == 6
    )
    assert package.lower() in {name.lower() for name in store.manifest["versions"]}


def rename(piece: str, number: object):
    def change(folder):
        vocabulary = json.loads((folder / "vocab.json").read_text())
        (folder / "vocab.json").write_text(
            json.dumps({key: number if key == piece else old for key, old in vocabulary.items()})
        )

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda folder: (folder / "merges.txt").unlink(),
            "a model that transformers loads and runs",
        ),
        (
            lambda folder: (folder / "vocab.json").write_text("[]"),
            "a model that transformers loads and runs",
        ),
        (
            lambda folder: (folder / "vocab.json").write_text('{"a</w>": 0}'),
            "a tokeniser that takes every text, got no id for '<unk>'",
        ),
        (rename("the</w>", "7"), r"subwords and their numbers \(vocab.json\)"),
        (rename("the</w>", -7), r"subwords and their numbers \(vocab.json\)"),
        (rename("the</w>", 1.5), r"subwords and their numbers \(vocab.json\)"),
        (
            rename("the</w>", 100_000),
            r"token ids below \d+, got 100000 for 'the</w>'; give the model its own tokeniser",
        ),
    ],
)
def test_a_damaged_tokeniser_is_refused(tmp_path, change, told):
    place = save_xlm(tmp_path / "xlm")
    change(place)
    with pytest.raises(InputError, match=told):
        load_encoder(str(place))


def test_the_fingerprint_covers_the_tokeniser_s_files(tmp_path):
    place = save_xlm(tmp_path / "xlm")
    found = {encoder_fingerprint(place)}
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json", "config.json"):
        (place / name).write_bytes((place / name).read_bytes() + b"\n")
        found.add(encoder_fingerprint(place))
    assert len(found) == 5


def test_other_slow_tokenisers_are_still_refused():
    slow = types.SimpleNamespace(is_fast=False)
    with pytest.raises(InputError, match="encoder x: .*got SimpleNamespace"):
        with_offsets("x", slow)


def test_a_random_copy_is_told_the_language_too(folder, tmp_path):
    mine = load_encoder(str(folder), random_seed=1, language="fr")
    other = load_encoder(str(folder), random_seed=1, language="en")
    ids = torch.tensor([[0, 20, 21, 1]])
    with torch.inference_mode():
        assert (
            mine.hidden_states(ids, None)[-1] - other.hidden_states(ids, None)[-1]
        ).abs().max() > 1e-4


# --- blanks


def test_sentences_are_scored_with_the_language(folder):
    scorer = load_scorer(str(folder), language="fr")
    assert scorer.methods == ("single_mask", "pll", "pll_word_l2r") and scorer.model.head_apart
    model = XLMWithLMHeadModel.from_pretrained(folder).eval()
    sentence = "l'homme a dit"
    ids, _ = reference(folder, sentence, "fr")
    total = 0.0
    for place in range(1, len(ids) - 1):
        blank = torch.tensor([ids])
        blank[0, place] = 5
        with torch.inference_mode():
            scores = (
                model(input_ids=blank, langs=torch.full_like(blank, 1))
                .logits[0, place]
                .log_softmax(-1)
            )
        total += float(scores[ids[place]])
    found = scorer.score_sentences([sentence])
    assert found.total[0] == pytest.approx(total, abs=1e-4)
    assert len(found.by_word(0)) == 4  # l', homme, a, dit
    english = load_scorer(str(folder), language="en").score_sentences([sentence]).total[0]
    assert abs(english - total) > 0.01


def test_sentences_without_a_language_are_refused(folder):
    with pytest.raises(InputError, match=r"encoder xlm: .*got none"):
        load_scorer(str(folder))
