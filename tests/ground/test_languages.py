"""Codes of languages: two letters, three, and those of a group."""

import pytest

from crosslens.languages import NAMES, code_of, same_language, treebank_of


def test_every_name_is_found_by_its_codes():
    assert (
        NAMES["en"] == NAMES["eng"] == "English"
        and NAMES["zh"] == NAMES["cmn"] == "Mandarin Chinese"
    )
    assert all(len(code) in (2, 3) and code == code.lower() for code in NAMES)
    assert all(NAMES[code] == NAMES[code_of(code)] for code in NAMES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("en", "eng"),
        ("zh", "zho_Hans"),
        ("cmn", "zho"),
        ("no", "nb"),
        ("et", "ekk"),
        ("xcl", "xcl"),
    ],
)
def test_codes_of_one_language(one, other):
    assert same_language(one, other) and same_language(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("en", "enm"), ("hin", "urd"), ("nn", "nb"), ("", "eng")]
)
def test_codes_of_two_languages(one, other):
    assert not same_language(one, other)


def test_a_language_of_a_transformation_of_ones_own_is_no_language_of_the_table():
    for code in ("eng-ownfirstlast", "eng-inversion-ownlatn", "eng_ownswap"):
        assert not same_language(code, "eng") and treebank_of(code) == ""
    for code in ("eng-Latn", "en_ewt", "eng-GB", "eng-x", "eng-oxendict"):
        assert same_language(code, "eng")
