"""Counts of words and spans: against seqeval, definitions restated here, and golden cases."""

import random
import warnings

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.probes.methods.counted import Counted, share
from crosslens.probes.methods.span_scores import SPAN_PRESETS, count_spans, spans
from crosslens.probes.methods.tag_scores import count_tags, count_tags_xtreme

TYPES = ("PER", "LOC", "ORG")


def random_tags(rng, n):
    tags = [rng.choice(["O", "B-", "I-"]) for _ in range(n)]
    return [tag + rng.choice(TYPES) if tag != "O" else tag for tag in tags]


def test_the_golden_case_of_three_readings():
    tags = ["B-PER", "I-LOC", "I-ORG"]
    assert spans(tags, "wu_dredze") == [("PER", 0, 1), ("LOC", 1, 2), ("ORG", 2, 3)]
    assert spans(tags, "conneau") == [("ORG", 0, 3)]
    for preset in ("wu_dredze", "conneau"):
        assert spans(["O", "I-PER", "I-PER"], preset) == [("PER", 1, 3)]
    assert spans(["O", "I-PER", "B-PER", "I-PER"]) == [("PER", 2, 4)]
    assert spans(["B-PER", "B-PER", "I-PER"]) == [("PER", 0, 1), ("PER", 1, 3)]


def test_a_span_across_windows_is_two_on_both_sides():
    gold, predicted = [["B-PER", "I-PER", "O", "I-PER"]], [["B-PER", "I-PER", "I-PER", "O"]]
    windows = [[np.array([0]), np.array([1, 3])]]  # word 2 is in none
    counted = count_spans(gold, predicted, "wu_dredze", windows)
    assert (counted.found.tolist(), counted.of.tolist()) == ([2.0], [4.0])
    assert count_spans(gold, gold, "wu_dredze", windows).of.tolist() == [4.0]
    whole = [[np.arange(4)]]
    assert count_spans(gold, predicted, "wu_dredze", whole).of.tolist() == [3.0]
    assert count_spans(gold, predicted, "wu_dredze").of.tolist() == [3.0]
    assert count_spans(gold, predicted, "wu_dredze", [[]]).of.tolist() == [0.0]


def repaired(tags, preset):
    """The tags as strict ones, by a second account of the presets: rewrite, then read."""
    found = list(tags)
    for place, tag in enumerate(found):
        open_type = found[place - 1][2:] if place and found[place - 1] != "O" else ""
        if tag.startswith("I-") and (
            not open_type or (preset == "wu_dredze" and tag[2:] != open_type)
        ):
            found[place] = "B-" + tag[2:]
    if preset == "conneau":  # the last type holds for the whole span
        for place in range(len(found) - 1, 0, -1):
            if found[place].startswith("I-"):
                found[place - 1] = found[place - 1][:2] + found[place][2:]
    return found


@pytest.mark.parametrize("preset", ["wu_dredze", "conneau"])
def test_a_preset_is_the_strict_reading_of_repaired_tags(preset):
    rng = random.Random(0)
    for _ in range(500):
        tags = random_tags(rng, rng.randrange(1, 9))
        assert spans(tags, preset) == spans(repaired(tags, preset), "strict"), tags


def test_f1_is_that_of_seqeval():
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    rng = random.Random(1)
    for _ in range(60):
        lengths = [rng.randrange(1, 9) for _ in range(6)]
        gold, predicted = ([random_tags(rng, n) for n in lengths] for _ in range(2))
        predicted[0] = gold[0]
        strict = f1_score(gold, predicted, mode="strict", scheme=IOB2, zero_division=0)
        counted = count_spans(gold, predicted, "strict")
        assert (0.0 if np.isnan(counted.value) else counted.value) == pytest.approx(strict)
        assert counted.found.shape == counted.of.shape == (6,)
        # its default repairs as Wu & Dredze's program does
        default = f1_score(gold, predicted, zero_division=0)
        assert count_spans(gold, predicted, "wu_dredze").value == pytest.approx(default)


def test_f1_is_that_of_nervaluate():
    from nervaluate import Evaluator

    rng = random.Random(3)
    for _ in range(60):
        lengths = [rng.randrange(1, 9) for _ in range(6)]
        gold, predicted = (
            [repaired(random_tags(rng, n), "wu_dredze") for n in lengths] for _ in range(2)
        )  # it reads tags that are right
        predicted[:2] = gold[:2]
        theirs = Evaluator(gold, predicted, tags=list(TYPES), loader="list").evaluate()
        mine = count_spans(gold, predicted, "strict").value
        assert (0.0 if np.isnan(mine) else mine) == pytest.approx(theirs["overall"]["strict"].f1)


def test_parts_of_speech_as_xtreme_has_them():
    from seqeval.metrics import f1_score

    tags = "NOUN VERB ADJ SCONJ CCONJ X PUNCT INTJ SYM PROPN ADP AUX DET ADV PRON PART NUM".split()
    rng, weights = random.Random(2), [10 if tag == "X" else 1 for tag in tags]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(100):
            lengths = [rng.randrange(1, 12) for _ in range(5)]
            gold = [rng.choices(tags, weights, k=n) for n in lengths]  # X often begins one
            predicted = [
                [t if rng.random() < 0.7 else rng.choice(tags) for t in row] for row in gold
            ]
            theirs = f1_score(gold, predicted, zero_division=0)
            mine = count_tags_xtreme(gold, predicted).value
            assert (0.0 if np.isnan(mine) else mine) == pytest.approx(theirs)
    golden = count_tags_xtreme([["NOUN"] * 4], [["NOUN"] * 3 + ["VERB"]])
    assert golden.value == 0.0
    assert count_tags([["NOUN"] * 4], [["NOUN"] * 3 + ["VERB"]]).value == 0.75


def test_words_without_a_tag_are_not_counted():
    counted = count_tags([["A", ""], ["", "B"]], [["A", "A"], ["B", "A"]])
    assert (counted.found.tolist(), counted.of.tolist()) == ([1.0, 0.0], [1.0, 1.0])


def test_nothing_to_count_is_no_number():
    assert np.isnan(count_spans([["O"]], [["O"]]).value)
    assert np.isnan(share(np.zeros(2), np.zeros(2)))


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="preset: expected one of"):
        spans(["O"], "loose")
    for tag in ("B", "O-PER", "S-PER", "PER"):
        with pytest.raises(InputError, match="tags: expected B-TYPE"):
            spans([tag])
    for count in (count_spans, count_tags, count_tags_xtreme):
        with pytest.raises(InputError, match="predicted: expected a tag for each word"):
            count([["O", "O"]], [["O"]])
    with pytest.raises(InputError, match="found: expected one number per item"):
        Counted("accuracy", np.zeros(2), np.zeros(3))
    with pytest.raises(InputError, match="found: expected from 0"):
        Counted("accuracy", np.ones(2), np.zeros(2))
    assert SPAN_PRESETS == ("strict", "wu_dredze", "conneau")
