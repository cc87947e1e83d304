"""Codes of languages: two letters, three, and those of a group."""

import pytest

from crosslens.languages import NAMES, code_of, same_language


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
