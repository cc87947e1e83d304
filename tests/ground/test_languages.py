"""Codes of languages: two letters, three, and those of a group."""

import pytest

from crosslens.languages import NAMES, code_of, same_language, subtag_of, treebank_of


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
        ("be-x-old", "be"),
        ("no_bokmaal", "no"),
        ("no_nynorsklia", "nn"),
    ],
)
def test_codes_of_one_language(one, other):
    assert same_language(one, other) and same_language(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("en", "enm"),
        ("hin", "urd"),
        ("nn", "nb"),
        ("", "eng"),
        ("zh-yue", "zh"),
        ("zh-min-nan-inversion", "nan"),
        ("no_nynorsk", "nb"),
        ("no_bokmaal", "nn"),
    ],
)
def test_codes_of_two_languages(one, other):
    assert not same_language(one, other)


def test_a_language_of_a_transformation_of_ones_own_is_no_language_of_the_table():
    for code in ("eng-ownfirstlast", "eng-inversion-ownlatn", "eng_ownswap"):
        assert not same_language(code, "eng") and treebank_of(code) == ""
    for code in ("eng-Latn", "en_ewt", "eng-GB", "eng-x", "eng-oxendict"):
        assert same_language(code, "eng")


@pytest.mark.parametrize(
    ("old", "code", "subtag"),
    [
        ("zh-yue", "yue", ""),
        ("zh_min_nan", "nan", ""),
        ("zh-classical", "lzh", ""),
        ("bat-smg", "sgs", ""),
        ("fiu-vro", "vro", ""),
        ("roa-rup", "rup", ""),
        ("roa-tara", "nap", "tara"),
        ("map-bms", "jav", "bms"),
        ("be-x-old", "bel", "tarask"),
        ("be-tarask", "bel", "tarask"),
        ("nds-nl", "nds", "nl"),
        ("cbk-zam", "cbk", "zam"),
    ],
)
def test_old_codes_of_wikipedia_are_those_of_their_own_languages(old, code, subtag):
    assert (code_of(old), subtag_of(old), treebank_of(old)) == (code, subtag, "")
    assert code_of(f"{old}-inversion") == f"{code}-inversion"


def test_a_treebank_s_name_is_no_subtag():
    assert treebank_of("no_nynorsk") == "nynorsk"
    assert subtag_of("no_nynorsk") == subtag_of("en_ewt") == subtag_of("eng-inversion") == ""
    assert subtag_of("zho_Hant-inversion") == "hant"
