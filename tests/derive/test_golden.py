"""What Deshpande et al.'s code does to a few inputs, worked out by hand from the code."""

import numpy as np
import pytest

from crosslens.derive.blocks import SpecialTokens, derive_block, derive_blocks, segments
from crosslens.derive.composition import Composition
from crosslens.derive.labels import derived_span, derived_tags, inverted_labels
from crosslens.derive.reorderings import Inversion, Permutation
from crosslens.derive.transformation import Sentence
from crosslens.derive.transliteration import SubwordTransliteration
from crosslens.errors import InputError

MOVED = SubwordTransliteration(40_000)


def test_transliteration_moves_all_but_the_marks_of_the_sequence():
    assert derive_block([0, 3, 57, 2, 1], MOVED).tokens.tolist() == [0, 40_003, 40_057, 2, 1]
    fixed = derive_block([0, 3, 57, 4, 2, 1], MOVED, style="fixed").tokens.tolist()
    assert fixed == [0, 3, 40_057, 4, 2, 1]


def test_inversion_turns_each_sentence_of_a_pair_round_in_its_place():
    a, b, c, d, e = range(11, 16)
    pair = derive_block([0, a, b, 2, 2, c, d, e, 2], Inversion())
    assert pair.tokens.tolist() == [0, b, a, 2, 2, e, d, c, 2]
    assert derive_block([0, a, b, c], Inversion()).tokens.tolist() == [0, c, b, a]
    assert derive_block([a, b, 2, c], Inversion()).tokens.tolist() == [b, a, 2, c]


def test_labels_reversed_without_their_ends_are_right_only_before_padding():
    ids, labels = [0, 11, 12, 13, 2], [-100, 5, 6, 7, -100]
    derived = derive_block(ids, Inversion())
    assert derived_tags(derived, labels) == inverted_labels(labels) == [-100, 7, 6, 5, -100]
    padded, labels = [*ids, 1, 1], [*labels, -100, -100]
    derived = derive_block(padded, Inversion())
    assert derived_tags(derived, labels) == [-100, 7, 6, 5, -100, -100, -100]
    assert inverted_labels(labels) == [-100, -100, -100, 7, 6, 5, -100]


def test_an_answer_changes_its_ends():
    ids = np.array([0, 11, 12, 2, 2, 21, 22, 23, 24, 25, 2])
    derived = derive_block(ids, Inversion())
    places = {source: place for place, source in enumerate(derived.sources)}
    for start in range(5, 10):
        for end in range(start, 10):
            first, last = derived_span(derived, start, end)
            assert (first, last) == (places[end], places[start])
            assert first <= last
            assert sorted(derived.tokens[first : last + 1]) == sorted(ids[start : end + 1])


@pytest.mark.parametrize("order", [Inversion(), Permutation()])
def test_transliteration_commutes_with_orders(order):
    rng = np.random.default_rng(0)
    blocks = rng.integers(5, 40_000, (20, 64))
    blocks[:, 0], blocks[:, 20:22], blocks[:, 63] = 0, 2, 2
    one, other = Composition((MOVED, order)), Composition((order, MOVED))
    assert derive_blocks(blocks, one).tolist() == derive_blocks(blocks, other).tolist()
    apart = derive_blocks(derive_blocks(blocks, order), MOVED)
    assert derive_blocks(blocks, one).tolist() == apart.tolist()


def test_special_tokens_of_other_tokenisers_and_places_of_fixed_ones():
    bert = SpecialTokens(first=101, last=102, padding=0, unknown=100, mask=103)
    ids = [101, 7, 103, 8, 100, 9, 102, 0, 0]
    assert segments(np.array(ids), bert) == [(1, 6), (7, 9)]
    coded = derive_block(ids, Inversion(), special=bert).tokens.tolist()
    assert coded == [101, 9, 100, 8, 103, 7, 102, 0, 0]
    fixed = derive_block(ids, Inversion(), special=bert, style="fixed")
    assert fixed.tokens.tolist() == [101, 9, 103, 8, 100, 7, 102, 0, 0]
    assert [ids[source] for source in fixed.sources] == fixed.tokens.tolist()


@pytest.mark.parametrize(
    ("ids", "how", "told"),
    [
        ([[0, 1]], Inversion(), "a row of whole numbers, got shape (1, 2)"),
        ([0.5], Inversion(), "got shape (1,) of float64"),
        ([0, 50_000, 2], MOVED, "segment 0: expected numbers from 0 to 39999, got 50000"),
    ],
)
def test_what_is_no_block_is_refused(ids, how, told):
    with pytest.raises(InputError) as refused:
        derive_block(ids, how)
    assert told in str(refused.value)


def test_a_block_keeps_its_length_and_style_has_two_names():
    from crosslens.derive.registry import transformation

    with pytest.raises(InputError, match=r"full-reversal, which changes the length; derive the te"):
        derive_block([0, 5, 2], transformation("full-reversal"))
    with pytest.raises(InputError, match=r"transliteration:greek, which needs words"):
        derive_block([0, 5, 2], transformation("transliteration:greek"))
    with pytest.raises(InputError, match=r"style: expected one of deshpande, fixed, got 'paper'"):
        derive_block([0, 5, 2], Inversion(), style="paper")


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int16, np.int64])
def test_small_numbers_become_large_ones(kind):
    """Files of subwords have 16 bits: the copy's numbers are larger, and must not wrap."""
    top = min(30_000, int(np.iinfo(kind).max))
    block, wanted = np.array([0, top, 39, 2], kind), [0, top + 40_000, 40_039, 2]
    derived = derive_block(block, MOVED)
    assert derived.tokens.tolist() == wanted and derived.tokens.dtype == np.int64
    assert derive_blocks(np.stack([block, block]), MOVED).tolist() == [wanted, wanted]
    assert block.tolist() == [0, top, 39, 2]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": -1}, "seed: expected a whole number from 0 up, got -1"),
        ({"number": -1}, "number: expected a whole number from 0 up, got -1"),
        ({"epoch": 1.5}, "epoch: expected a whole number from 0 up, got 1.5"),
        ({"transformation": None}, "transformation: expected a name or a transformation, got None"),
    ],
)
@pytest.mark.parametrize("how", ["inversion", "permutation"])
def test_what_nothing_can_be_drawn_from_is_refused(how, changes, told):
    from crosslens.derive.registry import transformation

    given = {"transformation": transformation(how), **changes}
    with pytest.raises(InputError) as refused:
        derive_block([0, 5, 6, 7, 2], **given)
    assert told in str(refused.value)
    if "number" not in changes:
        with pytest.raises(InputError) as refused:
            derive_blocks(np.array([[0, 5, 6, 7, 2]]), **given)
        assert told in str(refused.value)


def test_blocks_are_of_one_length():
    with pytest.raises(
        InputError, match="blocks: expected blocks of one length, got lengths from 3"
    ):
        derive_blocks([[0, 5, 2], [0, 6, 7, 2]], MOVED)


def test_each_segment_is_drawn_by_its_number_which_goes_on_from_block_to_block():
    blocks = np.array([[0, *range(10, 20), 2, *range(20, 30), 2], [0, *range(30, 51), 2]])
    how = Permutation(per_epoch=True)
    for epoch in (0, 3):
        rows = [range(10, 20), range(20, 30), range(30, 51)]
        one, two, three = (
            [*how.derive(Sentence([*row]), 5, number, epoch=epoch).tokens]
            for number, row in enumerate(rows)
        )
        made = derive_blocks(blocks, how, 5, epoch=epoch)
        assert made.tolist() == [[0, *one, 2, *two, 2], [0, *three, 2]]


def test_other_tokenisers_special_tokens_stay_within_a_composition():
    """1 and 2 are marks of RoBERTa, and subwords here."""
    bert = SpecialTokens(first=101, last=102, padding=0, unknown=100, mask=103)
    both = Composition((SubwordTransliteration(200), Inversion()))
    made = derive_block([101, 1, 2, 7, 102, 0], both, special=bert).tokens.tolist()
    assert made == [101, 207, 202, 201, 102, 0]


def test_numbers_beyond_the_vocabulary_or_its_copy_are_refused():
    how = SubwordTransliteration(10)
    assert how.derive(Sentence([9]), 0, 0).tokens == [19] and how.undo([19, 10], 0, 0) == [9, 0]
    with pytest.raises(InputError, match="numbers from 0 to 9, got 10"):
        how.derive(Sentence([10]), 0, 0)
    for beyond in (9, 20):
        with pytest.raises(InputError, match=f"undo: expected numbers from 10 to 19, got {beyond}"):
            how.undo([beyond], 0, 0)


def test_a_transliteration_keeps_what_the_block_says_and_no_numbers_of_its_own():
    with pytest.raises(InputError, match="no numbers that stay.*0-1-2-3-4'?; leave them out"):
        derive_block([0, 3, 57, 2, 1], "transliteration:40000,0-1-2-3-4")
    with pytest.raises(InputError, match="leave them out"):
        derive_block([0, 3, 57, 2, 1], "inversion + transliteration:40000,0-7")
    derive_block([0, 3, 57, 2, 1], "transliteration:40000,0-1-2-3-4", style="fixed")
