"""Words of whole treebanks in a real encoder's pieces: none lost, none misplaced, and the vectors
of single sentences."""

import numpy as np
import pytest
from plain_extraction import Plain

from crosslens.corpus import Corpus
from crosslens.models.extraction.extract import extract
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.words import read_conllu, split_words

pytestmark = pytest.mark.slow

PUD = [f"{language}_pud-ud-test" for language in ("en", "fr", "de", "ru", "zh", "hi")]
EWT = [f"en_ewt-ud-{part}" for part in ("train", "dev", "test")]

# What real text does: scripts without spaces, marks that combine, emoji, characters of no width,
# runs of spaces, a very long line.
HARD = [
    "The cat sat on the mat, didn't it?  Two  spaces.",
    "我们 喜欢 猫 和 狗 。 未来 的 城市",
    "यह एक परीक्षण वाक्य है , कृपया ध्यान दें ।",
    "هذا اختبارٌ بسيطٌ للكلمات العربية .",
    "นี่คือ ประโยค ภาษาไทย ที่ ไม่มี ช่องว่าง",
    "🙂 the dog 👩🏽‍🚀 ran 🎉🎉 e\u0301te\u0301 cre\u0300me",
    "zero\u200bwidth \u200b joiner\u200ds and \ufefffeff",
    "ﬁne ½ ① ﷺ Ⅳ",
    " ".join(f"word{i % 37} the cats" for i in range(200)),
]


@pytest.fixture(scope="module")
def encoder(real_encoder):
    return load_encoder(str(real_encoder))


@pytest.mark.parametrize("treebank", [*EWT, *PUD])
def test_no_word_of_a_treebank_is_lost_or_misplaced(encoder, shared_data, treebank):
    """The pieces of a word, put together, are the word as the tokeniser normalises it."""
    text = read_conllu(shared_data / "ud" / f"{treebank}.conllu.gz", treebank[:2])
    normalise = encoder.tokenizer.backend_tokenizer.normalizer.normalize_str
    words = lost = misplaced = crossing = 0
    for start in range(0, len(text), 500):
        found = locate(encoder, text, range(start, min(start + 500, len(text))), Reading("word"))
        pieces = encoder.tokenizer.convert_ids_to_tokens(found.ids[found.entry_token].tolist())
        shared = np.bincount(found.entry_token, minlength=len(found.ids))[found.entry_token] > 1
        bounds = np.searchsorted(found.entry_item, np.arange(found.items + 1))
        for item, word in enumerate(found.columns["word"]):
            mine = slice(bounds[item], bounds[item + 1])
            words += 1
            lost += found.pieces[item] == 0
            # a piece that covers two words, as where Chinese is written without spaces
            if shared[mine].any():
                crossing += 1
                continue
            whole = "".join(pieces[mine]).replace("▁", "")
            misplaced += (
                whole != normalise(word).replace(" ", "").replace("▁", "") and "<unk>" not in whole
            )
    print(
        f"{treebank}: {words} words, {lost} lost, {misplaced} misplaced, {crossing} share a "
        f"piece with another word"
    )
    assert words == sum(map(len, text.words)) > 10_000
    assert lost == 0 and misplaced == 0
    assert crossing < (0.5 if treebank.startswith("zh") else 0.2) * words


@pytest.mark.parametrize("pool", ["mean", "first"])
def test_hard_text_has_the_vectors_of_single_sentences(encoder, real_encoder, tmp_path, pool):
    text = split_words(Corpus("und", HARD, [str(i) for i in range(len(HARD))], "hard.txt"))
    store = extract(encoder, text, tmp_path / "store", unit="word", pool=pool)
    plain, row, worst = Plain(real_encoder, encoder.max_length), 0, 0.0
    for sentence, spans in zip(HARD, text.words, strict=True):
        for vector in plain.words(sentence, spans, pool)[0]:
            mine = np.stack([store.layer(layer)[row] for layer in range(store.layers)])
            assert np.isnan(mine).all() == (vector is None)
            worst = max(
                worst, 0.0 if vector is None else float(np.abs(mine - vector.numpy()).max())
            )
            row += 1
    assert row == store.n and worst < 1e-5


def test_words_of_a_treebank_have_the_vectors_of_word_numbers(
    encoder, real_encoder, shared_data, tmp_path
):
    """The way of transformers' own examples: the words as a list, and word_ids()."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tree = read_conllu(shared_data / "ud" / "en_ewt-ud-dev.conllu.gz", "eng")
    forms = [
        [sentence[start:end] for start, end in dict.fromkeys(spans)]
        for sentence, spans in zip(tree.sentences, tree.words, strict=True)
    ]
    lines = [" ".join(form for form in some if " " not in form) for some in forms[:200]]
    text = split_words(Corpus("eng", lines, [str(i) for i in range(len(lines))], "ewt"))
    store = extract(encoder, text, tmp_path / "store", unit="word", layers=[0, 6, 12])
    tokenizer, model = (
        AutoTokenizer.from_pretrained(real_encoder),
        AutoModel.from_pretrained(real_encoder, dtype=torch.float32).eval(),
    )
    lone, row, worst = tokenizer.convert_tokens_to_ids("▁"), 0, 0.0
    for line in lines:
        encoded = tokenizer(line.split(), is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            states = torch.stack(model(**encoded, output_hidden_states=True).hidden_states)[
                [0, 6, 12], 0
            ]
        numbers = encoded.word_ids()
        for word in range(len(line.split())):
            pieces = [i for i, number in enumerate(numbers) if number == word]
            pieces = [i for i in pieces if encoded["input_ids"][0, i] != lone] or pieces
            mine = np.stack([store.layer(layer)[row] for layer in (0, 6, 12)])
            worst = max(worst, float(np.abs(mine - states[:, pieces].mean(1).numpy()).max()))
            row += 1
    assert row == store.n > 2000 and worst < 1e-5


def test_type_averages_of_the_bible_are_those_of_two_passes(encoder, shared_data, tmp_path):
    """Words first, all of them on disk; then their mean by type, in float64."""
    import gzip

    with gzip.open(
        shared_data / "text" / "bible.en.WEB2000.tsv.gz", "rt", encoding="utf-8"
    ) as file:
        verses = [next(file).rstrip("\n").split("\t")[1] for _ in range(300)]
    text = split_words(Corpus("eng", verses, [str(i) for i in range(len(verses))], "bible"))
    words = extract(encoder, text, tmp_path / "words", unit="word", layers=[0, 6, 12])
    types = extract(
        encoder, text, tmp_path / "types", unit="type", layers=[0, 6, 12], lowercase=True
    )
    forms = np.array([word.lower() for word in words.index(["word"])["word"]])
    index = types.index(["word", "count"])
    assert sum(index["count"]) == words.n and set(index["word"]) == set(forms)
    for layer in (0, 6, 12):
        states = words.layer(layer).astype(np.float64)
        for row in [*range(50), *range(types.n - 50, types.n)]:
            assert np.allclose(
                types.layer(layer)[row], states[forms == index["word"][row]].mean(0), atol=1e-5
            )
