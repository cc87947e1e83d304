"""Links between words: in files, as rows of vectors, and judged by gold; every refusal."""

import gzip

import numpy as np
import pytest
from scipy.stats import norm, t

from crosslens.alignment.words.links import (
    aligned_rows,
    alignment_error_interval,
    alignment_error_rate,
    check_links,
    read_pharaoh,
    sentence_offsets,
    write_pharaoh,
)
from crosslens.errors import InputError, OutputError


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def some_links(rng, count, sentences=6, words=7):
    return np.column_stack(
        [rng.integers(0, most, size=count) for most in (sentences, words, words)]
    )


def test_scores_are_those_of_sets(rng):
    for _ in range(20):
        found, sure, possible = (some_links(rng, count) for count in (60, 50, 40))
        a, s = set(map(tuple, found.tolist())), set(map(tuple, sure.tolist()))
        p = s | set(map(tuple, possible.tolist()))
        scores = alignment_error_rate(found, sure, possible)
        assert scores.error_rate == pytest.approx(
            1 - (len(a & s) + len(a & p)) / (len(a) + len(s)), abs=1e-15
        )
        assert (scores.precision, scores.recall) == (len(a & p) / len(a), len(a & s) / len(s))
        assert (scores.predicted, scores.sure, scores.possible) == (len(a), len(s), len(p))
        assert scores.f1 == pytest.approx(
            2 * scores.precision * scores.recall / (scores.precision + scores.recall), abs=1e-15
        )


def test_the_bounds_of_the_scores(rng):
    gold = check_links(some_links(rng, 30), "gold")
    perfect = alignment_error_rate(gold, gold)
    assert (perfect.error_rate, perfect.precision, perfect.recall, perfect.f1) == (0, 1, 1, 1)
    none = alignment_error_rate(gold + 100, gold)
    assert (none.error_rate, none.precision, none.recall, none.f1) == (1, 0, 0, 0)
    # possible links cost nothing when they are found, and nothing when they are not
    more = gold + [0, 20, 20]
    assert alignment_error_rate(np.concatenate([gold, more]), gold, more).error_rate == 0
    assert alignment_error_rate(gold, gold, more).error_rate == 0
    assert alignment_error_rate(np.concatenate([gold, more]), gold).error_rate > 0.3


def test_without_possible_links_the_error_is_one_minus_f1_and_only_the_set_of_links_counts(rng):
    found, sure = some_links(rng, 60), some_links(rng, 50)
    scores = alignment_error_rate(found, sure)
    assert scores.error_rate == pytest.approx(1 - scores.f1, abs=1e-15)
    assert (
        alignment_error_rate(np.concatenate([found, found])[rng.permutation(120)], sure) == scores
    )
    both = (found[:, [0, 2, 1]], sure[:, [0, 2, 1]])
    assert alignment_error_rate(*both) == scores  # the sides can be exchanged
    assert alignment_error_rate(both[0], sure) != scores  # but not of one set alone


def test_shares_of_nothing_are_refused():
    link = [[0, 0, 0]]
    with pytest.raises(InputError, match=r"predicted: .*got none"):
        alignment_error_rate([], link)
    with pytest.raises(InputError, match=r"sure: .*got none"):
        alignment_error_rate(link, [], link)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (
            [[0, 1]],
            (r"links: expected links of shape \(k, 3\), whole numbers"),
        ),
        ([[0.0, 1.0, 2.0]], r"links: expected links of shape \(k, 3\), whole numbers"),
        (
            [[0, 1, 2], [0, 1]],
            r"links: expected links of shape \(k, 3\)",
        ),
        ([[0, -1, 2]], "links: expected numbers from 0"),
    ],
)
def test_what_is_no_link_is_refused(links, message):
    with pytest.raises(InputError, match=message):
        check_links(links, "links")


def test_files_are_read_and_written_with_both_kinds_of_links(tmp_path, rng):
    path = tmp_path / "gold.txt"
    sure, possible = some_links(rng, 30), some_links(rng, 30)
    for first in (0, 1):
        write_pharaoh(path, sure, 9, possible=possible, first=first)
        gold = read_pharaoh(path, first=first)
        assert np.array_equal(gold.sure, check_links(sure, "sure"))
        assert np.array_equal(
            gold.possible, check_links(np.concatenate([sure, possible]), "possible")
        )
        assert gold.sentences == 9
    packed = tmp_path / "gold.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(read_pharaoh(packed, first=1).sure, gold.sure)


def test_the_form_of_a_file(tmp_path):
    path = tmp_path / "links.txt"
    write_pharaoh(path, [[2, 1, 0], [0, 0, 0], [0, 10, 2]], 4, possible=[[0, 0, 0], [0, 0, 1]])
    assert path.read_text() == "0-0 0p1 10-2\n\n1-0\n\n"
    path.write_text("0-0  1-1\t1-1\r\n\n2p0")
    links = read_pharaoh(path)
    assert links.sure.tolist() == [[0, 0, 0], [0, 1, 1]]
    assert links.possible.tolist() == [[0, 0, 0], [0, 1, 1], [2, 2, 0]]


@pytest.mark.parametrize("piece", ["0:0", "0-", "-1-0", "0-0-0", "a-b", "0p", "0P1", "1", "١-٢"])
def test_lines_that_hold_something_else_are_refused_by_number(tmp_path, piece):
    path = tmp_path / "links.txt"
    path.write_text(f"0-0\n0-0 {piece}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"links\.txt:2: .*got '{piece}'"):
        read_pharaoh(path)


def test_files_that_are_wrong_are_refused(tmp_path):
    path = tmp_path / "links.txt"
    path.write_text("0-1\n")
    with pytest.raises(InputError, match=r"links\.txt:1: .*got '0-1'"):
        read_pharaoh(path, first=1)
    with pytest.raises(InputError, match=r"first: .*got 2"):
        read_pharaoh(path, first=2)
    with pytest.raises(InputError, match=r"none\.txt: .*got no such file"):
        read_pharaoh(tmp_path / "none.txt")
    with pytest.raises(InputError, match=r"links: .*got one of sentence"):
        write_pharaoh(path, [[2, 0, 0]], 2)
    with pytest.raises(OutputError, match="path: expected a file"):
        write_pharaoh(tmp_path / "none" / "links.txt", [[0, 0, 0]], 1)
    assert path.read_text() == "0-1\n"


def test_offsets_and_rows_are_those_of_a_loop(rng):
    ids = np.sort(rng.integers(0, 12, size=30))
    offsets = sentence_offsets(ids, 14)
    for sentence in range(14):
        assert np.array_equal(
            np.arange(30)[offsets[sentence] : offsets[sentence + 1]],
            np.flatnonzero(ids == sentence),
        )
    lengths_x, lengths_y = rng.integers(0, 5, size=(2, 8))
    words_x, words_y = (
        [(i, j) for i in range(8) for j in range(lengths[i])] for lengths in (lengths_x, lengths_y)
    )
    links = [
        (s, i, j)
        for s in range(8)
        for i in range(lengths_x[s])
        for j in range(lengths_y[s])
        if rng.random() < 0.4
    ]
    begin_x, begin_y = (sentence_offsets([i for i, _ in words], 8) for words in (words_x, words_y))
    rows_x, rows_y = aligned_rows(links, begin_x, begin_y)
    assert [(*words_x[i], words_y[j][1]) for i, j in zip(rows_x, rows_y, strict=True)] == links
    assert all(words_y[j][0] == s for j, (s, _, _) in zip(rows_y, links, strict=True))
    assert [len(rows) for rows in aligned_rows([], begin_x, begin_y)] == [0, 0]


def test_offsets_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"sentence_ids: .*got numbers from"):
        sentence_offsets([0, 2], 2)
    with pytest.raises(InputError, match=r"got numbers from 0 to 1, not in order"):
        sentence_offsets([1, 0], 2)
    with pytest.raises(InputError, match=r"sentence_ids: .*got float64"):
        sentence_offsets([0.0, 1.0], 2)
    with pytest.raises(InputError, match=r"got word 2 where there are 2, .*\(line 2\); align"):
        aligned_rows([[1, 0, 2]], [0, 1, 2], [0, 3, 5])
    with pytest.raises(InputError, match=r"got word 3 where .*counted from 1: subtract 1"):
        aligned_rows([[0, 1, 2], [0, 1, 3]], [0, 2], [0, 3])
    with pytest.raises(InputError, match=r"links: .*got word 1 where"):
        aligned_rows([[0, 1, 0]], [0, 1, 2], [0, 3, 5])
    with pytest.raises(InputError, match=r"links: .*got one of sentence"):
        aligned_rows([[2, 0, 0]], [0, 1, 2], [0, 3, 5])
    with pytest.raises(InputError, match=r"offsets_y: .*got 1"):
        aligned_rows([[0, 0, 0]], [0, 1, 2], [0, 3])
    for offsets in ([1, 2], [0, 2, 1], [0], [0.0, 1.0]):
        with pytest.raises(InputError, match="offsets_x: expected whole numbers"):
            aligned_rows([[0, 0, 0]], offsets, [0, 1])


def by_drawing(found, sure, possible, resamples):
    """The interval by its definition: whole sentences are drawn, and the links of what was drawn
    are counted as sets."""
    a, s, p = ({sentence: set() for sentence in range(30)} for _ in range(3))
    for sets, links in ((a, found), (s, sure), (p, sure), (p, possible)):
        for sentence, *link in links.tolist():
            sets[sentence].add(tuple(link))
    rng, rates = np.random.default_rng(5), []
    for _ in range(resamples):
        drawn = rng.choice(30, 30)
        right = sum(len(a[i] & s[i]) + len(a[i] & p[i]) for i in drawn)
        rates.append(1 - right / sum(len(a[i]) + len(s[i]) for i in drawn))
    tail = norm.cdf(-np.sqrt(30 / 29) * t.ppf(0.975, 29))
    return np.quantile(rates, (tail, 1 - tail))


def test_the_interval_is_about_that_of_drawing_sentences(rng):
    found, sure, possible = (
        some_links(rng, count, sentences=30, words=3) for count in (150, 120, 60)
    )
    assert len({*found[:, 0]} | {*sure[:, 0]}) == 30
    low, high = alignment_error_interval(found, sure, possible)
    assert high - low > 0.1
    # a link that is possible alone counts half, and varies less than is reckoned with
    drawn = by_drawing(found, sure, possible, 2000)
    assert low <= drawn[0] < drawn[1] <= high and high - low < 1.6 * (drawn[1] - drawn[0])
    assert low < alignment_error_rate(found, sure, possible).error_rate < high


def test_the_interval_knows_sentences_and_not_their_names_or_order(rng):
    found, sure = (some_links(rng, count, sentences=40, words=3) for count in (200, 150))
    interval = alignment_error_interval(found, sure)
    assert alignment_error_interval(found[::-1], sure[rng.permutation(150)]) == interval
    assert alignment_error_interval(found + [7, 0, 0], sure + [7, 0, 0]) == interval
    # What it must not ignore: right and wrong links that come by whole sentences vary more than the
    # same links mixed.
    gold = check_links(
        [(sentence, word, word) for sentence in range(40) for word in range(10)], "gold"
    )
    wrong = gold + [0, 0, 20]
    mixed = np.where(gold[:, [1]] % 2 == 0, gold, wrong)
    whole = np.where(gold[:, [0]] % 2 == 0, gold, wrong)
    assert (
        alignment_error_rate(mixed, gold).error_rate
        == alignment_error_rate(whole, gold).error_rate
        == 0.5
    )
    low, high = alignment_error_interval(mixed, gold)  # as wide as of 400 links by themselves
    assert (low, high) == pytest.approx((0.5 - 0.05, 0.5 + 0.05), abs=0.002)
    low, high = alignment_error_interval(whole, gold)
    assert low == pytest.approx(
        0.5 - 1.96 * np.sqrt(0.25 / 40), abs=0.03
    ) and high == pytest.approx(1 - low, abs=0.03)


def test_a_sentence_with_possible_links_alone_changes_nothing(rng):
    found, sure, possible = (some_links(rng, count, sentences=20) for count in (60, 50, 40))
    more = np.concatenate([possible, [[90, 0, 0], [91, 0, 1]]])
    assert alignment_error_interval(found, sure, more) == alignment_error_interval(
        found, sure, possible
    )


def test_an_interval_of_one_sentence_is_refused():
    with pytest.raises(InputError, match=r"predicted: .*got 1 sentence"):
        alignment_error_interval([[4, 0, 0]], [[4, 0, 0], [4, 1, 1]])
    with pytest.raises(InputError, match=r"sure: .*got none"):
        alignment_error_interval([[4, 0, 0], [5, 0, 0]], [])
