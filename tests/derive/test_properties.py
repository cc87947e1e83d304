"""What is true of every transformation, on sentences of any kind."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.derive.composition import Composition
from crosslens.derive.markers import is_marked
from crosslens.derive.registry import TRANSFORMATIONS, derived_code, transformation
from crosslens.derive.reorderings import Permutation, Reordering, contexts_kept, neighbours_kept
from crosslens.derive.transformation import INSERTED, Sentence, generator
from crosslens.derive.transliteration import SCRIPTS, Transliteration, exchange
from crosslens.errors import InputError
from crosslens.languages import DERIVED, code_of

NAMES = [
    *TRANSFORMATIONS,
    "permutation:epoch",
    "local-shuffle:2",
    "local-shuffle:10",
    "limited-permutation:1",
    "limited-permutation:20",
    "transliteration:greek",
    "transliteration:georgian-cyrillic",
    "token-hop:0",
    "word-hop:2",
    "transliteration+inversion",
    "permutation+transliteration:armenian",
    "full-reversal+even-odd",
    "inversion+word-hop",
]
MARKED = "Mood=Ind|Number={}|Person=3|Tense=Pres|VerbForm=Fin"
WORDS = st.lists(st.text("abzDйЖωあ.,7ß🙂", min_size=1, max_size=4), min_size=1, max_size=25)
FEATS = st.sampled_from(["_", MARKED.format("Sing"), MARKED.format("Plur"), "Number=Sing|Person=3"])
QUICK = settings(max_examples=10, deadline=None, derandomize=True)


def sentence(words: list[str], feats: list[str]) -> Sentence:
    n = len(words)
    columns = {
        "feats": [feats[i % len(feats)] for i in range(n)],
        "lemma": [w + "L" for w in words],
    }
    return Sentence(words, columns)


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(
    words=WORDS,
    feats=st.lists(FEATS, min_size=1),
    seed=st.integers(0, 99),
    number=st.integers(0, 9),
)
def test_every_transformation(name, words, feats, seed, number):
    how, given_ = transformation(name), sentence(words, feats)
    before = list(words)
    derived = how.derive(given_, seed, number)
    again = how.derive(sentence(list(words), feats), seed, number)
    assert list(derived.tokens) == list(again.tokens) and derived.sources == again.sources
    assert words == before, "what is given stays as it is"
    there = [source for source in derived.sources if source != INSERTED]
    assert sorted(there) == list(range(len(words))), "no word is lost, none comes twice"
    assert ("length" in how.changes) or len(derived.tokens) == len(words)
    if "order" not in how.changes:
        assert there == sorted(there)
    if "tokens" not in how.changes:
        assert all(derived.tokens[i] == words[s] for i, s in enumerate(derived.sources) if s >= 0)
    if how.undoes:
        assert list(how.undo(derived.tokens, seed, number)) == words
    else:
        from crosslens.errors import InputError

        with pytest.raises(InputError, match="undo: expected a transformation that undoes itself"):
            how.undo(derived.tokens, seed, number)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_all_of_a_transformation(name):
    made = transformation(name)
    assert transformation(made.name) == made
    code = derived_code("eng", made)
    assert code_of(code) == code, "a derived language is a language of its own"
    assert {part.split(":")[0].replace("-", "") for part in made.name.split("+")} <= {*DERIVED}


@pytest.mark.parametrize(
    "how", [one for name in NAMES if isinstance(one := transformation(name), Reordering)], ids=str
)
def test_orders_take_arrays_of_numbers(how):
    ids = np.arange(5, 40)
    derived = how.derive(Sentence(ids), 3, 1)
    assert isinstance(derived.tokens, np.ndarray)
    assert derived.tokens.tolist() == [ids[source] for source in derived.sources]
    assert how.undo(derived.tokens, 3, 1).tolist() == ids.tolist()


@QUICK
@given(words=WORDS, seed=st.integers(0, 99))
def test_inversion_is_its_own_inverse_and_commutes_with_transliteration(words, seed):
    inversion, letters = transformation("inversion"), transformation("transliteration")
    once = inversion.derive(Sentence(words), seed, 0)
    assert inversion.derive(Sentence(once.tokens), seed, 0).tokens == words
    one, other = Composition((letters, inversion)), Composition((inversion, letters))
    assert one.derive(Sentence(words), seed, 0) == other.derive(Sentence(words), seed, 0)


@pytest.mark.parametrize("one", SCRIPTS)
@pytest.mark.parametrize("other", SCRIPTS)
def test_scripts_change_places_and_back(one, other):
    if one == other:
        return
    table = exchange(one, other)
    assert len({*table.values()}) == len(table), "no two characters become one"
    assert all(chr(code).translate(table).translate(table) == chr(code) for code in range(0x3000))
    n = min(len(SCRIPTS[one]), len(SCRIPTS[other]))
    for i, letter in enumerate(SCRIPTS[one]):
        partner = letter.translate(table)
        assert (partner == SCRIPTS[other][i]) if i < n else (partner == letter)
        assert letter.upper().translate(table) == (partner.upper() if i < n else letter.upper())
    everything = "".join(map(chr, range(0x21, 0x7F)))
    if one == "latin" and other == "cyrillic":
        assert not {*everything} & {*everything.translate(table)}


def test_of_a_composition_the_last_part_comes_first():
    even_odd = [*"ace", *"bd"]
    made = transformation("inversion+even-odd").derive(Sentence([*"abcde"]), 0, 0)
    assert made.tokens == even_odd[::-1] and made.sources == [3, 1, 4, 2, 0]


def test_parts_of_a_composition_draw_apart():
    """The first that is applied draws as it does alone, the others from streams of their own: the
    same order twice would be its square."""
    words, alone = Sentence([*range(40)]), transformation("permutation")
    for twice in ("permutation+permutation", "limited-permutation:39+permutation"):
        once = alone.derive(words, 3, 7).sources
        both = transformation(twice).derive(words, 3, 7).sources
        second = [once.index(source) for source in both]
        again = transformation(twice.partition("+")[0]).derive(words, 3, 7).sources
        assert sorted(second) == [*range(40)] and second != again
        assert both == transformation(twice).derive(words, 3, 7).sources
        assert both != transformation(twice).derive(words, 4, 7).sources
    three = transformation("permutation+permutation+permutation")
    nested = Composition((alone, Composition((alone, alone))))
    assert nested == three and nested.parts == (alone, alone, alone)
    assert nested.derive(words, 3, 7) == three.derive(words, 3, 7)
    assert list(three.undo(three.derive(words, 0, 1).tokens, 0, 1)) == [*range(40)]


@pytest.mark.parametrize(
    "name",
    ["permutation", "permutation:epoch", "limited-permutation", "deterministic-shuffle",
     "local-shuffle:4", "full-reversal", "no-reversal", "partial-reversal"],
)  # fmt: skip
def test_what_is_drawn_once_in_a_composition_is_what_is_drawn_alone(name):
    """Before, between and behind parts that draw nothing: derived data keep their bits."""
    words, alone = Sentence([*range(20)]), transformation(name)
    drawn = alone.derive(words, 5, 2, epoch=1)
    behind = transformation(f"inversion+even-odd+{name}").derive(words, 5, 2, epoch=1)
    moved = transformation("inversion+even-odd").derive(Sentence(drawn.tokens), 5, 2)
    assert behind.tokens == moved.tokens
    before = transformation(f"{name}+inversion").derive(words, 5, 2, epoch=1)
    assert before.tokens == alone.derive(Sentence([*range(20)][::-1]), 5, 2, epoch=1).tokens


def test_the_mark_of_a_soft_hyphen_and_white_space_stay():
    assert Transliteration().derive(Sentence(["a\u00adb", "c\u00a0d"]), 0, 0).tokens == [
        "а\u00adб",
        "в\u00a0г",
    ]


def test_permutations_are_drawn_by_sentence_and_epoch_only_where_that_is_asked():
    words = Sentence([*range(12)])
    once, anew = Permutation(), Permutation(per_epoch=True)
    assert once.derive(words, 0, 5) == once.derive(words, 0, 5, epoch=3)
    assert anew.derive(words, 0, 5, epoch=0) == once.derive(words, 0, 5)
    assert anew.derive(words, 0, 5, epoch=1) != anew.derive(words, 0, 5, epoch=2)
    assert once.derive(words, 0, 5) != once.derive(words, 0, 6)
    assert once.derive(words, 0, 5) != once.derive(words, 1, 5)
    undone = anew.undo(anew.derive(words, 0, 5, epoch=4).tokens, 0, 5, epoch=4)
    assert undone == words.tokens


def test_all_orders_are_equally_probable():
    counts = {}
    for number in range(2400):
        order = tuple(Permutation().derive(Sentence("abcd"), 7, number).tokens)
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    # chi-squared with 23 degrees of freedom: above 49.7 once in a thousand seeds
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 49.7


@QUICK
@given(places=st.integers(1, 12), seed=st.integers(0, 99), number=st.integers(0, 9))
def test_no_word_goes_farther_than_it_may(places, seed, number):
    how = transformation(f"limited-permutation:{places}")
    order = np.array(how.derive(Sentence([*range(40)]), seed, number).sources)
    assert np.abs(order - np.arange(40)).max() <= places


def test_more_places_keep_fewer_neighbours():
    """From the sentence as it is to a permutation, in which one of n neighbours is kept."""
    kept = [neighbours_kept(transformation(f"limited-permutation:{k}"), [30] * 200, 0)
            for k in (1, 2, 4, 8, 16, 1000)]  # fmt: skip
    assert kept == sorted(kept, reverse=True) and kept[0] < 1
    assert kept[-1] == pytest.approx(1 / 30, abs=0.01)
    assert neighbours_kept(transformation("identity"), [9, 1, 0], 0) == 1
    assert neighbours_kept(transformation("inversion"), [9, 4], 0) == 0
    # of two words, one in eight pairs changes places: P(u > 1 + v) for u, v in (0, 2)
    two = neighbours_kept(transformation("limited-permutation:1"), [2] * 4000, 0)
    assert two == pytest.approx(7 / 8, abs=0.02)


@QUICK
@given(places=st.integers(1, 12), n=st.integers(2, 40), window=st.integers(1, 7))
def test_contexts_are_counted_pair_by_pair(places, n, window):
    how = transformation(f"limited-permutation:{places}")
    found = contexts_kept(how, [n, n], 3, window=window)
    kept = of = 0
    for number in range(2):
        order = how.derive(Sentence([*range(n)]), 3, number).sources
        for a, b in itertools.combinations(range(n), 2):
            if b - a <= window:
                of += 1
                kept += abs(order.index(a) - order.index(b)) <= window
    assert found == pytest.approx(kept / of)


def test_noise_takes_contexts_from_a_sentence_that_is_turned_round():
    """What neighbours in their order do not show: inversion keeps none of them, and noise brings some."""
    names = ["inversion", *(f"inversion+limited-permutation:{k}" for k in (1, 3, 8, 1000))]
    near = [contexts_kept(transformation(one), [40] * 100, 0) for one in names]
    assert near == sorted(near, reverse=True) and near[0] == 1, near
    kept = [neighbours_kept(transformation(one), [40] * 100, 0) for one in names]
    assert kept[0] == 0 < kept[1]
    drawn = contexts_kept(transformation("permutation"), [40] * 100, 0)
    assert drawn == pytest.approx((39 + 38 + 37 + 36 + 35) / (40 * 39 / 2), abs=0.01)


def test_contexts_of_nothing_and_of_markers():
    assert np.isnan(contexts_kept(transformation("inversion"), [0, 1], 0))
    marked = contexts_kept(transformation("no-reversal"), [12] * 20, 0)  # it parts those beside it
    assert 0.8 < marked < 1


def test_a_marker_is_no_neighbour_of_the_first_token():
    # it stands before both, between them or behind, and parts them in the second case alone
    kept = neighbours_kept(transformation("no-reversal"), [2] * 3000, 0)
    assert kept == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize("window", range(2, 13))
def test_a_local_shuffle_moves_something_with_every_seed(window):
    for seed in range(60):
        order = transformation(f"local-shuffle:{window}").order(window, seed, 0, 0)
        assert sorted(order.tolist()) == [*range(window)] != order.tolist(), (window, seed)


def test_a_window_that_no_sentence_fills_costs_nothing():
    tracemalloc.start()
    order = transformation("local-shuffle:5000000").order(7, 0, 0, 0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sorted(order.tolist()) == [*range(7)] and most < 1e6


def test_shuffles_that_are_rules():
    def sources(name, n, number):
        return transformation(name).derive(Sentence([*range(n)]), 4, number).sources

    assert sources("deterministic-shuffle", 9, 0) == sources("deterministic-shuffle", 9, 1)
    local = sources("local-shuffle:3", 11, 0)
    assert local == sources("local-shuffle:3", 11, 8)
    first = local[:3]
    assert local[3:6] == [place + 3 for place in first] and sorted(local[9:]) == [9, 10]
    assert sources("even-odd", 5, 0) == [0, 2, 4, 1, 3]
    assert {tuple(sources("permutation", 9, i)) for i in range(5)} == {
        tuple(generator(4, i, 0).permutation(9).tolist()) for i in range(5)
    }


def test_reversals_have_their_marker_everywhere():
    def derive(name, number):
        return transformation(name).derive(Sentence([*"abcd"]), 0, number).tokens

    seen = set()
    for number in range(60):
        control = derive("no-reversal", number)
        at = control.index("🅁")
        seen.add(at)
        assert [word for word in control if word != "🅁"] == [*"abcd"]
        assert derive("partial-reversal", number) == control[: at + 1] + control[:at:-1]
        assert derive("full-reversal", number) == control[::-1]
    assert seen == {0, 1, 2, 3, 4}


def test_hops_count_tokens_or_words_and_the_sentence_may_end_before():
    words = "He cleans , and they sing : aloud .".split()
    feats = ["_"] * 9
    feats[1], feats[5] = MARKED.format("Sing"), MARKED.format("Plur")
    lemmas = "he clean , and they sing : aloud .".split()
    given_ = Sentence(words, {"feats": feats, "lemma": lemmas})

    def text(name):
        return " ".join(transformation(name).derive(given_, 0, 0).tokens)

    assert text("token-hop:0") == "He clean 🅂 , and they sing 🄿 : aloud ."
    assert text("token-hop:3") == "He clean , and they 🅂 sing : aloud . 🄿"
    assert text("word-hop:3") == "He clean , and they sing 🅂 : aloud . 🄿"
    assert text("word-hop:2") == "He clean , and they 🅂 sing : aloud . 🄿"


@pytest.mark.parametrize("name", ["deterministic-shuffle", "local-shuffle:9", "local-shuffle:20"])
def test_a_rule_of_another_seed_is_another_rule(name):
    """Whole windows, and the one at the end that is shorter."""
    orders = {tuple(transformation(name).order(9, seed, 0, 0).tolist()) for seed in range(20)}
    assert len(orders) > 15


def test_the_third_that_draws_has_another_stream_than_the_second():
    """Of three orders of one stream the last two would be a square."""
    words = Sentence([*range(40)])
    orders = [
        transformation("+".join(["permutation"] * n)).derive(words, 3, 7).sources for n in (1, 2, 3)
    ]
    second, third = (
        [before.index(source) for source in after] for before, after in itertools.pairwise(orders)
    )
    assert second != third


def test_what_is_known_of_words_goes_with_them_through_a_composition():
    words, feats = "He cleans it well".split(), ["_", MARKED.format("Sing"), "_", "_"]
    columns = {"feats": feats, "lemma": ["he", "clean", "it", "well"]}
    known = Sentence(words, columns, heads=[2, 0, 2, 2])
    hopped = transformation("token-hop:0+inversion").derive(known, 0, 0).tokens
    assert hopped == ["well", "it", "clean", "🅂", "He"]
    # where words have come or gone nothing is known of them, and no tree is in the way
    made = transformation("inversion+no-reversal").derive(known, 0, 1)
    assert sorted(made.sources) == [INSERTED, 0, 1, 2, 3]


def test_hops_take_finite_verbs_and_keep_a_word_without_a_lemma():
    for feats in (
        "Number=Sing|Person=3|Tense=Pres|VerbForm=Part",
        "Number=Dual|Person=3|Tense=Pres|VerbForm=Fin",
    ):
        assert not is_marked(feats)
    words, feats = ["costs", "3", "now"], [MARKED.format("Sing"), "_", "_"]
    given_ = Sentence(words, {"feats": feats, "lemma": ["_", "3", "now"]})
    assert transformation("word-hop:1").derive(given_, 0, 0).tokens == ["costs", "3", "🅂", "now"]


def test_a_window_of_no_places_is_refused():
    with pytest.raises(InputError, match="window: expected"):
        contexts_kept(transformation("inversion"), [5], 0, window=0)
    for name in ("permutation", "full-reversal"):
        with pytest.raises(InputError, match="number: expected a whole number from 0 up, got -1"):
            transformation(name).derive(Sentence([*"abc"]), 0, -1)
