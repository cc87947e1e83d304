"""F1 and exact match of answers: golden cases, and both definitions told a second time."""

import itertools
import random
import unicodedata

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.answer_scores import (
    ANSWER_PRESETS,
    answer_presets,
    answer_tokens,
    count_answers,
)

ASCII = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "hi": "",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
    "zh": "",
}
SOUP = {
    "en": ["The", "a", "an", "Anna's", "the-cat", "“quoted”", "U.S.", "a_b", "é", "theatre", "½"],
    "es": ["El", "la", "Las", "niño", "unas", "¿qué?", "él", "un/una", "la,"],
    "hi": ["में", "है।", "दो", "the", "अ-ब", "॥"],
    "vi": ["của", "Là", "chiếc", "thành", "phố", "những."],
    "de": ["Der", "den", "dem", "einer", "Straße", "DAS", "»die«", "des-"],
    "zh": ["第24次", "北京 大学", "the", "《红楼梦》", "ABC公司", "龥", "㐀", "、"],
    "ar": ["البيت", "كتاب", "في", "والكتاب،", "العالم"],
}


def words_kept(text, left_out):
    """Runs of letters and digits that are no article, and what stands between them."""
    runs = itertools.groupby(text, key=lambda c: c.isalnum() or c == "_")
    return "".join(
        " " if inside and run in left_out else run
        for inside, run in ((k, "".join(g)) for k, g in runs)
    )


def tokens_of(text, language, preset):
    """The definitions told a second time."""
    english = preset == "squad"
    kept = []
    for char in text.lower():
        if char not in ASCII and (english or unicodedata.category(char)[0] != "P"):
            kept.append(char)
    text = "".join(kept)
    if language == "ar" and not english:
        text = " ".join(text.split("ال"))
    else:
        text = words_kept(text, set(ARTICLES["en" if english else language].split()))
    if language == "zh" and not english:
        text = "".join(f" {c} " if 0x4E00 <= ord(c) <= 0x9FA5 else c for c in text)
    return text.split()


def f1_of(mine, theirs):
    left, same = list(theirs), 0
    for token in mine:
        if token in left:
            left.remove(token)
            same += 1
    if not same:
        return 0.0
    precision, recall = same / len(mine), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def drawn(rng, language, most=6):
    return " ".join(rng.choice(SOUP[language]) for _ in range(rng.randrange(1, most)))


@pytest.mark.parametrize("preset", ANSWER_PRESETS)
@pytest.mark.parametrize("language", SOUP)
def test_a_second_account_finds_the_same(language, preset):
    rng = random.Random(0)
    gold = [[drawn(rng, language) for _ in range(rng.randrange(1, 4))] for _ in range(300)]
    predicted = [drawn(rng, language) for _ in gold]
    for text in predicted:
        assert answer_tokens(text, language, preset) == tokens_of(text, language, preset), text
    f1, exact = count_answers(gold, predicted, language, preset)
    assert (f1.quantity, exact.quantity, f1.preset) == ("answer_f1", "exact_match", preset)
    pairs = [
        (tokens_of(mine, language, preset), [tokens_of(one, language, preset) for one in some])
        for mine, some in zip(predicted, gold, strict=True)
    ]
    expected = [max(f1_of(mine, one) for one in some) for mine, some in pairs]
    np.testing.assert_allclose(f1.found, expected, atol=1e-12)
    assert exact.found.tolist() == [float(any(m == one for one in some)) for m, some in pairs]
    assert (f1.of == 1).all() and 0 < f1.value < 1
    # equal tokens are all found; only where none is left has one side more
    assert ((f1.found > 1 - 1e-12) >= (exact.found == 1))[[bool(m) for m, _ in pairs]].all()


@pytest.mark.parametrize(
    ("language", "preset", "gold", "given", "f1", "exact"),
    [
        ("eng", "squad", "the cat", "Cat.", 1, 1),
        ("eng", "squad", "cat", "a black cat", 2 / 3, 0),
        ("eng", "squad", "cat cat", "cat", 2 / 3, 0),
        ("eng", "squad", "the", "a", 0, 1),  # nothing is left of both
        ("eng", "squad", "1–2", "1 2", 0, 0),  # a dash that is none of ASCII's
        ("eng", "mlqa", "1–2", "12", 1, 1),
        ("deu", "squad", "der Hund", "Hund", 2 / 3, 0),
        ("deu", "mlqa", "der Hund", "den Hund", 1, 1),
        ("deu", "mlqa", "the Hund", "Hund", 2 / 3, 0),
        ("hin", "mlqa", "दो।", "दो", 1, 1),
        ("hin", "squad", "दो।", "दो", 0, 0),
        ("cmn", "squad", "北京大学", "北京", 0, 0),
        ("zho", "mlqa", "北京大学", "北京", 2 / 3, 0),
        ("zho", "mlqa", "24 次", "24次", 1, 1),
        ("arb", "mlqa", "البيت", "بيت", 1, 1),
        ("ara", "squad", "البيت", "بيت", 0, 0),
        ("eng", "squad", "cat", "", 0, 0),
    ],
)
def test_golden_cases(language, preset, gold, given, f1, exact):
    found = count_answers([[gold]], [given], language, preset)
    assert [one.value for one in found] == [pytest.approx(f1), exact]


def test_the_best_of_several_gold_answers_counts():
    f1, exact = count_answers([["a dog", "dog house", "dog"]], ["dog"], "eng")
    assert (f1.value, exact.value) == (1, 1)


def test_refusals():
    with pytest.raises(InputError, match="preset: expected one of squad, mlqa"):
        answer_tokens("x", "eng", "xquad")
    with pytest.raises(InputError, match="language: expected one of MLQA's languages .* got 'fra'"):
        answer_tokens("x", "fra", "mlqa")
    with pytest.raises(InputError, match="predicted: expected 1 answers"):
        count_answers([["x"]], ["x", "y"], "eng")
    with pytest.raises(InputError, match="gold: expected an answer to each question"):
        count_answers([["x"], []], ["x", "y"], "eng")
    known = [answer_presets(code) for code in ("en", "zh-Hans", "arb", "rus")]
    assert known == [("squad", "mlqa")] * 3 + [("squad",)]
