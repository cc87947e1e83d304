"""Masking: how many, which, and what stands in their place."""

import itertools
import math

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.models.training.masking import Masker, Masking, Pieces, choose_masked, draw_weighted

VOCABULARY, MASK = 200, 4
SPECIAL = np.arange(VOCABULARY) < 5
EVERY_CHOICE = [
    {},
    {"count": "bernoulli"},
    {"count": "xlm"},
    {"exponent": 0.5},
    {"count": "xlm", "exponent": 0.5},
    {"whole_words": True},
    {"whole_words": True, "count": "bernoulli"},
    {"protect_first": True},
]


@pytest.fixture
def rng():
    return np.random.default_rng(21)


def some_pieces(n=VOCABULARY, special=None, seed=0, counts=None):
    rng = np.random.default_rng(seed)
    special = np.arange(n) < 5 if special is None else special
    drawn = np.where(special | (rng.random(n) < 0.3), 0, rng.integers(1, 1000, size=n))
    return Pieces(
        special=special,
        counts=drawn if counts is None else counts,
        starts=(np.arange(n) % 3 == 0) & ~special,
    )


def mask(ids, masking, rng, pieces=None, languages=None, shared_ids=True):
    pieces = [some_pieces()] if pieces is None else pieces
    languages = np.zeros_like(ids) if languages is None else languages
    return Masker(masking, pieces, MASK, shared_ids)(ids, languages, rng)


def sentences(rng, rows=40, length=50):
    ids = rng.integers(5, VOCABULARY, size=(rows, length))
    ids[:, 0], ids[:, -1] = 2, 3
    ids[: rows // 2, -10:] = 0
    return ids


def near(share, n):
    """Five standard deviations of a binomial share: a chance of one in a million for a right one to
    fail."""
    return pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / n))


# --- what the default options do


def first_algorithm(ids, is_special, mask_id, masking, rng):
    """The masking of the library's first encoders, whose training must go on as it began."""
    flat = ids.ravel()
    candidates = np.flatnonzero(~is_special[flat])
    masked = np.zeros(0, int)
    if masking.count == "bernoulli":
        masked = candidates[rng.random(len(candidates)) < masking.rate]
    if not len(masked):
        count = math.ceil(masking.rate * len(candidates)) if masking.count == "exact" else 1
        masked = np.sort(rng.choice(candidates, size=count, replace=False, shuffle=False))
    inputs = flat.copy()
    draw, ordinary = rng.random(len(masked)), np.flatnonzero(~is_special)
    replacements = ordinary[rng.integers(len(ordinary), size=len(masked))]
    for i, at in enumerate(masked):
        inputs[at] = (
            mask_id
            if draw[i] < masking.masked
            else replacements[i]
            if draw[i] < masking.masked + masking.random
            else flat[at]
        )
    return inputs.reshape(ids.shape), masked, flat[masked]


@pytest.mark.parametrize("count", ["exact", "bernoulli"])
@pytest.mark.parametrize("languages", [1, 3])
def test_the_first_options_draw_what_they_always_drew(count, languages):
    pieces = [some_pieces(seed=i) for i in range(languages)]
    for seed, masking in enumerate(
        [
            Masking(count=count),
            Masking(count=count, rate=0.3, masked=0.5, random=0.4),
            Masking(count=count),
        ]
    ):
        ids = sentences(np.random.default_rng(seed), 10 + seed)
        of_token = np.random.default_rng(seed).integers(languages, size=ids.shape)
        one, other = np.random.default_rng([seed, 1, 7]), np.random.default_rng([seed, 1, 7])
        got, expected = (
            mask(ids, masking, one, pieces, of_token),
            first_algorithm(ids, SPECIAL, MASK, masking, other),
        )
        assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))
        assert one.random() == other.random()  # and no draw more


@pytest.mark.parametrize(
    ("rate", "n", "count"),
    # .07 of 100 is 7, though the product of floats is more
    [(0.15, 100, 15), (0.15, 101, 16), (0.15, 1, 1), (0.4, 7, 3), (0.999, 5, 5), (0.07, 100, 7)],
)
def test_exactly_the_ceiling_of_the_share_is_chosen(rng, rate, n, count):
    candidates = np.sort(rng.permutation(10 * n)[:n])
    chosen = choose_masked(candidates, Masking(rate=rate), rng)
    assert len(chosen) == count
    assert np.isin(chosen, candidates).all() and (np.diff(chosen) > 0).all()


def test_a_batch_has_the_share_of_its_ordinary_tokens_masked(rng):
    ids = sentences(rng)
    _, masked, _ = mask(ids, Masking(), rng)
    assert len(masked) == math.ceil(0.15 * (ids >= 5).sum())


def test_replacements_have_their_shares(rng):
    ids = sentences(rng, 2000)
    inputs, masked, labels = mask(ids, Masking(), rng)
    seen, n = inputs.ravel()[masked], len(masked)
    # a random token that happens to be the right one looks like one that stays
    by_chance = 0.1 / (VOCABULARY - 5)
    for share, told in [
        (0.8, seen == MASK),
        (0.1 + by_chance, seen == labels),
        (0.1 - by_chance, (seen != MASK) & (seen != labels)),
    ]:
        assert told.mean() == near(share, n)
    assert n > 10_000


def test_bernoulli_picks_each_token_with_the_rate():
    rng, n = np.random.default_rng(3), 100_000
    assert len(choose_masked(np.arange(n), Masking(count="bernoulli"), rng)) / n == near(0.15, n)
    counts = {len(choose_masked(np.arange(30), Masking(count="bernoulli"), rng)) for _ in range(50)}
    assert len(counts) > 3 and min(counts) >= 1


def test_at_least_one_token_is_chosen_even_by_bernoulli():
    for seed in range(20):
        chosen = choose_masked(
            np.array([3, 8]), Masking(rate=0.001, count="bernoulli"), np.random.default_rng(seed)
        )
        assert len(chosen) == 1 and chosen[0] in (3, 8)


def test_every_candidate_is_as_likely(rng):
    draws = 4000
    hits = sum(
        np.bincount(choose_masked(np.arange(10), Masking(rate=0.3), rng), minlength=10)
        for _ in range(draws)
    )
    assert all(share == near(0.3, draws) for share in hits / draws)


# --- what every option keeps


@pytest.mark.parametrize("scope", ["all", "language"])
@pytest.mark.parametrize("options", EVERY_CHOICE, ids=str)
def test_every_option_keeps_the_contract(rng, options, scope):
    masking = Masking(rate=0.6, masked=0.3, random=0.4, scope=scope, **options)
    pieces = [some_pieces(seed=i) for i in range(2)]
    for _ in range(20):
        ids = sentences(rng, int(rng.integers(1, 12)), int(rng.integers(15, 40)))
        languages, before = rng.integers(2, size=ids.shape), ids.copy()
        inputs, masked, labels = mask(ids, masking, rng, pieces, languages)
        assert (
            np.array_equal(ids, before)
            and not np.shares_memory(ids, inputs)
            and inputs.shape == ids.shape
        )
        assert (
            len(masked)
            and (np.diff(masked) > 0).all()
            and np.array_equal(labels, before.ravel()[masked])
        )
        assert not SPECIAL[labels].any()
        restored = inputs.ravel().copy()
        assert not (SPECIAL & (np.arange(VOCABULARY) != MASK))[restored[masked]].any()
        restored[masked] = labels
        assert np.array_equal(restored.reshape(ids.shape), before)


@pytest.mark.parametrize("options", EVERY_CHOICE, ids=str)
def test_the_same_generator_gives_the_same_mask(options):
    ids = sentences(np.random.default_rng(0))
    masker = Masker(Masking(**options), [some_pieces()], MASK)
    first, second, other = (
        masker(ids, np.zeros_like(ids), np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[1], other[1])


@pytest.mark.parametrize("options", EVERY_CHOICE, ids=str)
def test_special_tokens_need_not_be_the_first_ones(rng, options):
    special = np.isin(np.arange(VOCABULARY), [MASK, 100, 199])
    ids = rng.integers(VOCABULARY, size=(50, 40))
    inputs, masked, _ = mask(
        ids,
        Masking(masked=0.0, random=1.0, rate=0.8, **options),
        rng,
        [some_pieces(special=special)],
    )
    assert not special[ids.ravel()[masked]].any() and not special[inputs.ravel()[masked]].any()


# --- weights, and XLM's number


def draw_one_by_one(weights, k, rng):
    left, drawn = list(range(len(weights))), []
    for _ in range(k):
        shares = np.array([weights[i] for i in left]) / sum(weights[i] for i in left)
        drawn.append(left.pop(int(rng.choice(len(left), p=shares))))
    return tuple(drawn)


def chance(weights, order):
    left, p = sum(weights), 1.0
    for i in order:
        p, left = p * weights[i] / left, left - weights[i]
    return p


@pytest.mark.parametrize("k", [1, 2, 3])
def test_weighted_draws_have_the_chances_of_drawing_one_by_one(k):
    weights, n = [1.0, 2.0, 5.0], 6000
    # every order of every subset, against its chance by the definition
    for draw in (draw_weighted, draw_one_by_one):
        rng = np.random.default_rng(k)
        drawn = [tuple(int(i) for i in draw(np.array(weights), k, rng)) for _ in range(n)]
        for order in itertools.permutations(range(3), k):
            assert drawn.count(order) / n == near(chance(weights, order), n)


def test_golden_check_3_the_number(rng):
    """256 positions in 96 rows: ceil(.15 * 24 576) = 3687 are drawn; without the first positions,
    in eights, at most 3680 are kept."""
    assert math.ceil(0.15 * 256 * 96) == 3687
    pieces = some_pieces()
    ids = rng.integers(5, VOCABULARY, size=(96, 256))
    ids[-1, 100:], ids[5] = 0, np.flatnonzero(pieces.counts == 0)[7]
    for exponent, protect_first in itertools.product([0.5, 0.0], [False, True]):
        masking = Masking(count="xlm", exponent=exponent, protect_first=protect_first)
        sizes = []
        for _ in range(20):
            _, masked, labels = mask(ids, masking, rng, [pieces])
            assert len(masked) % 8 == 0 and (masked % 256 > 0).all() and not SPECIAL[labels].any()
            assert exponent == 0 or pieces.counts[labels].min() > 0
            sizes.append(len(masked))
        # About 3687 / 256 = 14 of those drawn stand first; more than 40 would be seven standard
        # deviations away.
        assert 3640 <= min(sizes) and max(sizes) <= 3680 and len(set(sizes)) > 1


def test_golden_check_3_the_ratio():
    """Pieces that occur once and 10 000 times are drawn 100 : 1 at exponent .5, on the first
    draw."""
    counts = np.where(np.arange(VOCABULARY) == 10, 1, np.where(SPECIAL, 0, 10_000))
    row = np.full((1, 201), 11)
    # one token of weight 1 among two hundred of weight 1 / 100
    row[0, :] = np.where(np.arange(201) == 100, 10, 11)
    masker = Masker(Masking(rate=1e-9, exponent=0.5), [some_pieces(counts=counts)], MASK)
    rng, n = np.random.default_rng(1), 6000
    rare = sum(int(masker(row, np.zeros_like(row), rng)[2][0]) == 10 for _ in range(n))
    assert rare / n == near(100 / (100 + 200), n)


def test_weights_are_those_of_the_token_s_language(rng):
    rare, common = (np.where(SPECIAL, 0, count) for count in (1, 10_000))
    pieces = [some_pieces(counts=counts) for counts in (rare, common)]
    ids, languages = np.full((1, 200), 7), np.arange(200)[None] % 2
    hits = 0
    for _ in range(200):
        # one token of 200
        _, masked, _ = mask(ids, Masking(rate=0.005, exponent=0.5), rng, pieces, languages)
        hits += int(masked[0] % 2 == 0)
    assert hits / 200 == near(100 / 101, 200)


def test_weights_of_xlm_are_those_of_the_joint_dictionary(rng):
    """Its ``mask_scores`` are max(counts, 1) ** -alpha with the counts of one dictionary for all
    languages; by language where asked."""
    counts = [
        np.where(SPECIAL, 0, np.where(np.arange(VOCABULARY) == 7, here, 5_000))
        for here in (1, 9_999)
    ]
    pieces = [some_pieces(counts=c) for c in counts]
    joint = np.maximum(np.sum(counts, axis=0), 1.0) ** -0.5
    for options, expected in (
        ({"count": "xlm"}, joint),
        ({"counts": "joint"}, joint),
        ({"count": "xlm", "counts": "language"}, np.maximum(counts[0], 1.0) ** -0.5),
        ({}, np.maximum(counts[0], 1.0) ** -0.5),
    ):
        masker = Masker(Masking(exponent=0.5, **options), pieces, MASK)
        assert np.allclose(masker._weights[:VOCABULARY], expected, rtol=1e-12), options
    ids = np.full((1, 200), 7)
    ids[0, ::2] = 8  # piece 7 is rare in the first language and as common as 8 in both together
    shares = {}
    for which in ("language", "joint"):
        drawn = [
            mask(ids, Masking(rate=0.005, exponent=0.5, counts=which), rng, pieces)[2][0]
            for _ in range(400)
        ]
        shares[which] = sum(int(label) == 7 for label in drawn) / 400
    assert shares == {"language": near(1 / (1 + 5_000**-0.5), 400), "joint": near(0.5, 400)}


def test_languages_with_ids_of_their_own_have_counts_of_their_own():
    counts = [np.where(SPECIAL, 0, count) for count in (1, 100)]
    masker = Masker(
        Masking(exponent=0.5, counts="joint"),
        [some_pieces(counts=c) for c in counts],
        MASK,
        shared_ids=False,
    )
    assert masker._weights[[7, VOCABULARY + 7]].tolist() == [1.0, 0.1]


def test_pieces_without_occurrences_are_not_counted_where_there_are_weights(rng):
    pieces, ids = some_pieces(), sentences(rng)
    _, masked, labels = mask(ids, Masking(exponent=0.7, rate=0.5), rng, [pieces])
    assert (
        len(masked) == math.ceil(0.5 * (pieces.counts[ids] > 0).sum())
        and pieces.counts[labels].min() > 0
    )


def test_xlm_s_number_is_kept_where_nothing_is_cut_and_never_none(rng):
    ids = np.arange(5, 35).reshape(1, 30)
    # ceil(4.5) = 5 drawn, the first position given back
    sizes = {len(mask(ids, Masking(count="xlm"), rng)[1]) for _ in range(60)}
    assert sizes == {4, 5}
    for _ in range(20):
        # one is drawn of two, and one of these is first
        _, masked, _ = mask(np.array([[9, 8], [0, 0]]), Masking(count="xlm"), rng)
        assert masked.tolist() == [1]


def test_xlm_draws_no_more_than_there_are(rng):
    ids = np.array([[2, 7, 8, 9, *[0] * 36]])  # ceil(.15 * 40) = 6 of three
    assert mask(ids, Masking(count="xlm"), rng)[1].tolist() == [1, 2, 3]


def test_what_xlm_cuts_is_not_what_stands_first():
    ids, hits, n = np.full((1, 81), 7), np.zeros(81), 3000
    masker = Masker(Masking(count="xlm"), [some_pieces()], MASK)  # ceil(12.15) = 13 drawn, 8 kept
    rng = np.random.default_rng(2)
    for _ in range(n):
        masked = masker(ids, np.zeros_like(ids), rng)[1]
        assert len(masked) == 8
        hits[masked] += 1
    assert hits[0] == 0 and all(share == near(0.1, n) for share in hits[1:] / n)


# --- languages


def test_random_tokens_come_from_all_languages_or_from_the_token_s_own(rng):
    low, high = (
        np.where(SPECIAL | ((np.arange(VOCABULARY) < 100) != (i == 0)), 0, 3) for i in range(2)
    )
    pieces = [some_pieces(counts=low), some_pieces(counts=high)]
    ids, languages = sentences(rng, 200), np.repeat([[0], [1]], 100, axis=0).repeat(50, axis=1)
    for scope, expected in (
        ("all", [range(5, VOCABULARY)] * 2),
        ("language", [range(5, 100), range(100, VOCABULARY)]),
    ):
        inputs, masked, _ = mask(
            ids, Masking(rate=0.9, masked=0.0, random=1.0, scope=scope), rng, pieces, languages
        )
        for language in (0, 1):
            there = inputs.ravel()[masked[languages.ravel()[masked] == language]]
            # each of them, and no other
            assert np.unique(there).tolist() == list(expected[language])


def test_random_tokens_are_as_likely_whatever_their_language_s_size(rng):
    counts = [
        np.where((np.arange(VOCABULARY) >= 5) & (np.arange(VOCABULARY) < 5 + n), 1, 0)
        for n in (4, 12)
    ]
    ids, languages = np.full((200, 100), 7), np.tile([0, 1], (200, 50))
    masking = Masking(rate=0.9, masked=0.0, random=1.0, scope="language")
    inputs, masked, _ = mask(ids, masking, rng, [some_pieces(counts=c) for c in counts], languages)
    for language, n in ((0, 4), (1, 12)):
        there = inputs.ravel()[masked[masked % 2 == language]]
        assert all(
            share == near(1 / n, len(there))
            for share in np.bincount(there - 5, minlength=n) / len(there)
        )


@pytest.mark.parametrize("scope", ["all", "language"])
def test_separate_ids_get_random_tokens_of_their_own_language(rng, scope):
    pieces = [
        some_pieces(20, counts=np.arange(20) % 2),
        some_pieces(300, special=np.arange(300) % 7 == 4),
    ]
    ids = np.concatenate([rng.integers(20, size=(50, 80)), rng.integers(300, size=(50, 80))])
    languages = np.repeat([[0], [1]], 50, axis=0).repeat(80, axis=1)
    masking = Masking(rate=0.9, masked=0.0, random=1.0, scope=scope)
    inputs, masked, labels = mask(ids, masking, rng, pieces, languages, shared_ids=False)
    of = languages.ravel()[masked]
    for i, own in enumerate(pieces):
        pool = np.flatnonzero(
            ~own.special & (own.counts > 0) if scope == "language" else ~own.special
        )
        assert not own.special[labels[of == i]].any() and np.array_equal(
            np.unique(inputs.ravel()[masked[of == i]]), pool
        )
    assert len(masked) == math.ceil(
        0.9 * ((~pieces[0].special)[ids[:50]].sum() + (~pieces[1].special)[ids[50:]].sum())
    )


def test_one_language_with_ids_of_its_own_is_masked_like_a_shared_one():
    ids = sentences(np.random.default_rng(0))
    shared, own = (
        mask(ids, Masking(), np.random.default_rng(3), shared_ids=shared)
        for shared in (True, False)
    )
    assert all(np.array_equal(a, b) for a, b in zip(shared, own, strict=True))


# --- words, and the first position


def words_of(ids, pieces, free):
    """The words of a batch, as lists of flat indices, position by position."""
    words, length = [], ids.shape[1]
    for row, column in np.ndindex(ids.shape):
        if not free[row, column]:
            continue
        follows = column > 0 and free[row, column - 1] and not pieces.starts[ids[row, column]]
        if follows:
            words[-1].append(row * length + column)
        else:
            words.append([row * length + column])
    return words


@pytest.mark.parametrize("protect_first", [False, True])
@pytest.mark.parametrize("count", ["exact", "bernoulli"])
def test_whole_words_are_chosen_whole(rng, count, protect_first):
    pieces = some_pieces()
    for seed in range(30):
        ids = np.where(rng.random((6, 20)) < 0.1, 0, rng.integers(5, VOCABULARY, size=(6, 20)))
        free = ids >= 5
        if protect_first:
            free[:, 0] = False
        words = words_of(ids, pieces, free)
        masking = Masking(whole_words=True, rate=0.3, count=count, protect_first=protect_first)
        _, masked, _ = mask(ids, masking, np.random.default_rng(seed), [pieces])
        chosen = [word for word in words if word[0] in masked]
        assert sorted(i for word in chosen for i in word) == masked.tolist()
        if count == "exact":
            left = math.ceil(0.3 * free.sum()) - len(masked)
            assert left >= 0 and (
                left == 0 or min(len(word) for word in words if word not in chosen) > left
            )
    assert max(len(word) for word in words) > 2


def pack_one_by_one(sizes, room):
    packed, first = [], 0
    for i, size in enumerate(sizes):
        if size <= room:
            packed.append(i)
            room -= size
    return packed or [first]


def test_words_are_packed_in_the_order_drawn(rng):
    pieces = some_pieces()
    for seed in range(40):
        ids = rng.integers(5, VOCABULARY, size=(3, 25))
        words = words_of(ids, pieces, ids >= 5)
        order = np.random.default_rng(seed).permutation(len(words))  # the first draw
        packed = pack_one_by_one([len(words[i]) for i in order], math.ceil(0.2 * 75))
        _, masked, _ = mask(
            ids, Masking(whole_words=True, rate=0.2), np.random.default_rng(seed), [pieces]
        )
        assert masked.tolist() == sorted(i for at in packed for i in words[order[at]])


def test_a_word_longer_than_the_number_is_chosen_if_there_is_no_other(rng):
    # 9 begins a word; of the others none does but by what stands before it
    ids = np.array([[2, 9, 10, 11, 13, 14, 3]])
    pieces = Pieces(
        special=SPECIAL, counts=np.ones(VOCABULARY, int), starts=np.arange(VOCABULARY) == 9
    )
    assert mask(ids, Masking(whole_words=True), rng, [pieces])[1].tolist() == [1, 2, 3, 4, 5]


def test_words_are_chosen_with_the_rate_by_bernoulli():
    pieces, n = some_pieces(), 20_000
    ids = np.full((1, n), 6)
    ids[0, 1::2] = 7  # 6 begins a word, 7 does not
    _, masked, _ = mask(
        ids, Masking(whole_words=True, count="bernoulli"), np.random.default_rng(0), [pieces]
    )
    assert len(masked) / n == near(0.15, n // 2)


@pytest.mark.parametrize(
    "options", [{}, {"count": "bernoulli"}, {"exponent": 0.5}, {"whole_words": True}], ids=str
)
def test_the_first_position_is_never_chosen_where_it_is_protected(rng, options):
    pieces, ids = some_pieces(counts=np.where(SPECIAL, 0, 1)), np.full((8, 5), 6)
    hit = {protect: np.zeros(5, int) for protect in (False, True)}
    for protect, hits in hit.items():
        for _ in range(40):
            masked = mask(ids, Masking(rate=0.4, protect_first=protect, **options), rng, [pieces])[
                1
            ]
            hits += np.bincount(masked % 5, minlength=5)
    assert hit[True][0] == 0 and hit[False].min() > 0 and hit[True][1:].min() > 0


# --- refusals


@pytest.mark.parametrize(
    ("options", "ids", "got"),
    [
        ({}, [[2, 3, 0]], "only special tokens"),
        ({"whole_words": True}, [[2, 3, 0]], "only special tokens"),
        ({"count": "xlm"}, [[2, 3, 0]], "only special tokens"),
        ({"protect_first": True}, [[9], [8]], "only special or first tokens"),
        ({"exponent": 0.5}, [[2, 6]], "only special or uncounted tokens"),
    ],
)
def test_a_batch_without_a_token_to_choose_is_refused(rng, options, ids, got):
    pieces = some_pieces(counts=np.where(np.arange(VOCABULARY) == 7, 1, 0))
    with pytest.raises(InputError, match=f"batch: .*got {got}"):
        mask(np.array(ids), Masking(**options), rng, [pieces])


def test_xlm_needs_a_token_after_the_first(rng):
    with pytest.raises(InputError, match="batch: .*got none"):
        mask(np.array([[9, 0], [8, 3]]), Masking(count="xlm"), rng)
    with pytest.raises(InputError, match="batch: .*got only special"):
        choose_masked(np.zeros(0, int), Masking(), rng)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"rate": 0.0},
            ("masking.rate: expected a number above 0 and below 1"),
        ),
        ({"rate": 1.0}, "masking.rate: expected a number above 0 and below 1"),
        (
            {"masked": 0.8, "random": 0.3},
            (r"masking.masked \+ masking.random: expected above 0, and at most 1"),
        ),
        ({"random": -0.1}, "masking.random: expected a number from 0 to 1"),
        (
            {"masked": 0.0, "random": 0.0},
            r"masking.masked \+ masking.random: expected above 0, and at most 1",
        ),
        (
            {"count": "some"},
            "masking.count: expected one of exact, bernoulli, xlm",
        ),
        (
            {"exponent": -0.5},
            ("masking.exponent: expected a number from 0 to 5"),
        ),
        ({"exponent": math.nan}, "masking.exponent: expected a number from 0 to 5"),
        (
            {"counts": "batch"},
            "masking.counts: expected one of language, joint",
        ),
        (
            {"scope": "batch"},
            "masking.scope: expected one of all, language, original",
        ),
        (
            {"count": "bernoulli", "exponent": 0.5},
            ("masking.exponent: expected 0 with count bernoulli"),
        ),
        (
            {"whole_words": True, "exponent": 0.5},
            ("masking.whole_words: expected exponent 0 and count exact or bernoulli"),
        ),
        (
            {"whole_words": True, "count": "xlm"},
            "masking.whole_words: expected exponent 0 and count exact or bernoulli",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, told):
    with pytest.raises(InputError, match=told):
        Masking(**changes)


NOTHING = np.zeros(VOCABULARY, int)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: Masker(Masking(), [], MASK),
            "pieces: expected one record per language",
        ),
        (
            lambda: Masker(Masking(), [some_pieces()], 7),
            "mask_id: expected a special id of language 0",
        ),
        (
            lambda: Masker(Masking(), [some_pieces()], 900),
            "mask_id: expected a special id of language 0",
        ),
        (
            lambda: Masker(Masking(), [some_pieces(), some_pieces(150)], MASK),
            (r"pieces\[1\].special: expected that of the first language"),
        ),
        (
            lambda: Masker(
                Masking(),
                [some_pieces(), Pieces(special=SPECIAL, counts=NOTHING, starts=~SPECIAL)],
                MASK,
            ),
            r"pieces\[1\].starts: expected that of the first language",
        ),
        (
            lambda: Masker(
                Masking(scope="language"), [some_pieces(), some_pieces(counts=NOTHING)], MASK
            ),
            (r"pieces\[1\]: expected at least one ordinary subword to sample"),
        ),
        (
            lambda: Masker(Masking(), [some_pieces(special=np.ones(VOCABULARY, bool))], MASK),
            (r"pieces\[0\]: expected at least one ordinary subword to sample"),
        ),
        (
            lambda: Pieces(special=SPECIAL, counts=NOTHING[:9], starts=SPECIAL),
            "pieces.counts: expected 200 integers",
        ),
        (
            lambda: Pieces(special=SPECIAL * 1, counts=NOTHING, starts=SPECIAL),
            "pieces.special: expected 200 bool",
        ),
        (
            lambda: Pieces(special=SPECIAL, counts=NOTHING - 2, starts=SPECIAL),
            "pieces.counts: expected numbers from 0 up",
        ),
        (
            lambda: draw_weighted(np.ones(3), 4, np.random.default_rng()),
            "k: expected a whole number from 1 to 3",
        ),
        (
            lambda: draw_weighted(np.arange(3.0), 1, np.random.default_rng()),
            "weights: expected numbers above 0",
        ),
    ],
)
def test_pieces_and_weights_that_do_not_fit_are_refused(make, told):
    with pytest.raises(InputError, match=told):
        make()


@pytest.mark.parametrize(
    ("ids", "languages", "told"),
    [
        (
            [[7, 8]],
            [[0]],
            (r"languages: expected one for each id, shape \(1, 2\)"),
        ),
        (
            [[7, 8]],
            [[0, 2]],
            ("languages: expected indices from 0 to 1"),
        ),
        ([[7, 8]], [[0, -1]], "languages: expected indices from 0 to 1"),
        (
            [[150, 150]],
            [[0, 1]],
            ("ids: expected ids below 100 in language 1"),
        ),
        ([[-1, 7]], [[1, 1]], "ids: expected ids below 100 in language 1"),
    ],
)
def test_a_batch_of_other_languages_is_refused(rng, ids, languages, told):
    with pytest.raises(InputError, match=told):
        mask(
            np.array(ids),
            Masking(),
            rng,
            [some_pieces(), some_pieces(100)],
            np.array(languages),
            shared_ids=False,
        )
