"""The texts of controlled studies: what is kept, divided at random, refused, and left out."""

import itertools

import pytest
from controlled_toy import SMALL, sentences

from crosslens.errors import InputError
from crosslens.recipes import controlled_texts
from crosslens.recipes.controlled import controlled_study, study_texts

pytestmark = pytest.mark.usefixtures("few_kept")


@pytest.fixture
def write(tmp_path):
    """Write a file of lines, and return its path as a setting."""

    def written(name, lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return str(tmp_path / name)

    return written


def texts_of(name, **settings):
    settings = {**SMALL, **settings}
    return study_texts(controlled_study(name, settings), settings)


@pytest.mark.parametrize("same", [350, 351])
def test_a_pair_that_is_the_data_in_more_than_half_of_its_lines_is_refused(write, same):
    lines = sentences(700)
    others = [*lines[:same], *(line.upper() for line in lines[same:])]
    files = {"data": write("eng", lines), "pair": f"nld:{write('nld', others)}"}
    if same == 350:
        texts = texts_of("conneau-sharing", **files)
        # a kept sentence is not the same in both languages
        assert all(a != b for a, b in zip(texts["kept"], texts["kept-pair"], strict=True))
        return
    message = "pair: expected lines in another language, .*, got 351 of 700 lines as data has them"
    with pytest.raises(InputError, match=message):
        texts_of("conneau-sharing", **files)


def test_halves_are_divided_at_random_and_what_is_cut_is_taken_at_random(write, monkeypatch):
    """Each line ends in its number. All are as long as the shorter half."""
    cut, cut_at_random = [], controlled_texts._cut
    monkeypatch.setattr(
        controlled_texts,
        "_cut",
        lambda lines, *given: cut.append(given[:2]) or cut_at_random(lines, *given),
    )
    lines = [f"{line} {number}" for number, line in enumerate(sentences(700))]
    other = [f"{line} x{number}" for number, line in enumerate(sentences(1500))]
    texts = texts_of("deshpande-corpora", data=write("eng", lines), other=write("more", other))
    numbers = {
        name: [int(line.rpartition(" ")[2].lstrip("x")) for line in texts[name]]
        for name in ("first", "second", "other")
    }
    assert all(one == sorted(one) for one in numbers.values())  # in the order of the text
    for name in ("first", "second"):
        assert 250 < sum(numbers[name]) / len(numbers[name]) < 450  # neither is one end of it
    assert max(numbers["other"]) > 1400 and min(numbers["other"]) < 100
    gaps = [after - before for before, after in itertools.pairwise(numbers["other"])]
    assert max(gaps) > 5  # lines are left out all over
    first, second, _ = tokens = [int(lengths.sum()) for lengths, _ in cut]
    assert first != second and {room for _, room in cut} == {min(tokens)}


@pytest.mark.parametrize("name", ["deshpande-corpora", "conneau-sharing"])
def test_another_text_of_documents_is_refused_before_anything_is_trained(write, name):
    """Whole lines are taken: of a line that is as long as a text nothing would be left."""
    files = {"data": write("eng", sentences(700))}
    if name == "conneau-sharing":
        files["pair"] = "nld:" + write("nld", [line.upper() for line in sentences(700)])
    files["other"] = write("documents", [" ".join(f"{n}x" for n in range(20_000))])
    with pytest.raises(
        InputError, match="^other: expected whole lines that have .* fit have 0; write"
    ):
        texts_of(name, **files)


def test_anchors_of_a_copy_are_words_of_letters(write):
    lines = [f"{line} 12 , it's" for line in sentences(700)]
    words = [
        line.split("\t")[0]
        for line in texts_of("conneau-anchors", data=write("eng", lines))["identity-10"]
    ]
    assert len(words) == 10 and all(word.isalpha() for word in words)


def test_a_dictionary_whose_columns_are_exchanged_is_refused(write):
    lines = sentences(700)
    pair = [" ".join(f"{word}o" for word in line.split()) for line in lines]
    files = {"data": write("eng", lines), "pair": f"nld:{write('nld', pair)}"}
    right = write("right", ["cat cato", "dog dogo", "runs runso"])
    assert texts_of("conneau-anchors", dictionary=right, **files)["dictionary"][0] == "cat cato"
    with pytest.raises(InputError, match="dictionary"):
        texts_of(
            "conneau-anchors",
            dictionary=write("wrong", ["cato cat", "dogo dog", "runso runs"]),
            **files,
        )


def test_nothing_is_trained_on_a_paraphrase(write):
    lines = sentences(700)
    told = [line.upper() for line in lines]
    texts = texts_of("conneau-cka", data=write("eng", lines), paraphrase=write("para", told))
    assert "kept-paraphrase" in texts and "training-paraphrase" not in texts


@pytest.mark.parametrize(("letters", "long"), [(30, False), (31, True)])
def test_a_side_without_spaces_is_long_by_its_letters(letters, long):
    between_spaces = controlled_texts._between_spaces
    assert controlled_texts._is_long("x" * letters, between_spaces) is long
    assert controlled_texts._is_long(f"a b {'x' * letters}", between_spaces) is long


def test_lines_of_other_words_are_no_other_order(write):
    lines = sentences(700)
    turned = [" ".join(line.split()[::-1]) for line in lines]
    turned[4] = turned[4].replace(turned[4].split()[0], "moon", 1)  # as many words
    files = {"data": write("eng", lines), "syntax": write("turned", turned)}
    with pytest.raises(InputError, match="syntax: .* in another order, got line 5, "):
        texts_of("deshpande-pairs", **files)
