"""Word alignment from vectors: plain loops as references, what leaves it as it is and what does
not, and every refusal."""

import numpy as np
import pytest

from crosslens.alignment.words.argmax import align_argmax, align_itermax, align_softmax
from crosslens.errors import InputError

LENGTHS_X, LENGTHS_Y = (5, 1, 0, 7, 3, 2, 9), (4, 2, 3, 7, 0, 2, 12)


@pytest.fixture(params=[np.float32, np.float64])
def words(request):
    """Vectors of seven sentence pairs, one of them without words of x and one without words of y;
    those of y are noisy copies of x's."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(sum(LENGTHS_X), 6)) + 1
    y = x[rng.integers(0, len(x), size=sum(LENGTHS_Y))] + rng.normal(size=(sum(LENGTHS_Y), 6))
    return x.astype(request.param), y.astype(request.param), offsets(LENGTHS_X), offsets(LENGTHS_Y)


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def sentences(x, y, begin_x, begin_y):
    for s in range(len(begin_x) - 1):
        yield (
            s,
            x[begin_x[s] : begin_x[s + 1]].astype(float),
            y[begin_y[s] : begin_y[s + 1]].astype(float),
        )


def cosine(a, b):
    return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))


def best(values):
    """Both-sided best by the definition: no value before it in its row or column is as high, none
    after it higher."""
    return {
        (i, j)
        for (i, j), value in np.ndenumerate(values)
        if j == max(range(values.shape[1]), key=lambda n: (values[i, n], -n))
        and i == max(range(len(values)), key=lambda m: (values[m, j], -m))
    }


def argmax_by_loop(*words):
    return [
        [s, *pair]
        for s, a, b in sentences(*words)
        for pair in sorted(best(np.array([[cosine(i, j) for j in b] for i in a])) if len(b) else [])
    ]


def itermax_by_loop(x, y, begin_x, begin_y, rounds, alpha):
    """Algorithm 1 of the paper, word by word."""
    found = []
    for s, a, b in sentences(x, y, begin_x, begin_y):
        links = set()
        for _ in range(rounds if len(a) and len(b) else 0):
            masked = np.empty((len(a), len(b)))
            for i in range(len(a)):
                for j in range(len(b)):
                    taken = any(i == k for k, _ in links) + any(j == k for _, k in links)
                    masked[i, j] = (1 + cosine(a[i], b[j])) / 2 * (1, alpha, 0)[taken]
            links |= {(i, j) for i, j in best(masked) if masked[i, j] > 0}
        found += [[s, *pair] for pair in sorted(links)]
    return found


def softmax_by_loop(x, y, begin_x, begin_y, threshold):
    found = []
    for s, a, b in sentences(x, y, begin_x, begin_y):
        for i in range(len(a)):
            for j in range(len(b)):
                there = np.exp(a[i] @ b[j]) / sum(np.exp(a[i] @ other) for other in b)
                back = np.exp(a[i] @ b[j]) / sum(np.exp(other @ b[j]) for other in a)
                if there > threshold and back > threshold:
                    found.append([s, i, j])
    return found


def test_argmax_is_that_of_a_loop(words):
    links = align_argmax(*words)
    assert links.tolist() == argmax_by_loop(*words)
    assert {0, 1, 3, 5, 6} == set(links[:, 0].tolist())


@pytest.mark.parametrize("rounds", [1, 2, 3, 8])
@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_itermax_is_that_of_a_loop(words, rounds, alpha):
    assert align_itermax(*words, rounds=rounds, alpha=alpha).tolist() == itermax_by_loop(
        *words, rounds, alpha
    )


@pytest.mark.parametrize("threshold", [0.001, 0.1, 0.4])
def test_softmax_is_that_of_a_loop(words, threshold):
    assert align_softmax(*words, threshold=threshold).tolist() == softmax_by_loop(*words, threshold)


def as_set(links):
    return set(map(tuple, links.tolist()))


def test_itermax_begins_with_argmax_and_adds_to_it(words):
    first, second, third = (as_set(align_itermax(*words, rounds=rounds)) for rounds in (1, 2, 9))
    assert first == as_set(align_argmax(*words))
    assert first < second <= third


def test_argmax_links_no_word_twice_and_the_sides_can_be_exchanged(words):
    x, y, begin_x, begin_y = words
    links = align_argmax(*words)
    for column in (1, 2):
        assert len(np.unique(links[:, [0, column]], axis=0)) == len(links)
    for align in (align_argmax, align_itermax, align_softmax):
        assert as_set(align(y, x, begin_y, begin_x)) == as_set(align(*words)[:, [0, 2, 1]])


def test_one_sentence_does_not_depend_on_the_others(words):
    x, y, begin_x, begin_y = words
    for align in (align_argmax, align_itermax, align_softmax):
        whole = align(*words)
        s = 6
        alone = align(x[begin_x[s] :], y[begin_y[s] :], [0, LENGTHS_X[s]], [0, LENGTHS_Y[s]])
        assert as_set(alone + [s, 0, 0]) == {link for link in as_set(whole) if link[0] == s}


def test_turning_both_sides_changes_nothing_and_lengths_count_for_softmax_alone(words):
    x, y, begin_x, begin_y = words
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))
    lengths = np.linspace(1, 3, len(y), dtype=y.dtype)[:, None]
    for align in (align_argmax, align_itermax, align_softmax):
        plain = as_set(align(*words))
        assert (
            as_set(align(x.astype(float) @ turn, y.astype(float) @ turn, begin_x, begin_y)) == plain
        )
        scaled = as_set(align(x, y * lengths, begin_x, begin_y))
        assert (scaled == plain) == (align is not align_softmax)
        # one side alone is another space
        assert as_set(align(x, y.astype(float) @ turn, begin_x, begin_y)) != plain


def test_words_of_one_direction_are_linked_in_their_order():
    """Their cosines differ in the last bits, which say nothing."""
    rng = np.random.default_rng(1)
    word = rng.normal(size=(3, 301))
    for n in range(2, 40):
        x, y = word[[0] * n + [1]], word[[0] * (n - 1) + [1, 2]]
        x, y = x * rng.uniform(1, 9, size=(n + 1, 1)), y * rng.uniform(1, 9, size=(n + 1, 1))
        assert align_argmax(x, y, [0, n + 1], [0, n + 1]).tolist() == [[0, 0, 0], [0, n, n - 1]]


def test_inputs_are_not_written_to(words):
    copies = [array.copy() for array in words]
    for align in (align_argmax, align_itermax, align_softmax):
        align(*words)
    assert all(np.array_equal(array, copy) for array, copy in zip(words, copies, strict=True))


def test_sentences_without_words_have_no_links():
    assert align_argmax(np.eye(2), np.eye(2), [0, 0, 2], [0, 2, 2]).shape == (0, 3)


def test_large_products_do_not_overflow():
    x = 300 * np.eye(4, dtype=np.float32)
    assert align_softmax(x, x, [0, 4], [0, 4]).tolist() == [[0, i, i] for i in range(4)]


def test_bad_arguments_are_refused(words):
    x, y, begin_x, begin_y = words
    for align in (align_argmax, align_itermax, align_softmax):
        with pytest.raises(InputError, match=r"y: .*got 5 columns"):
            align(x, y[:, :5], begin_x, begin_y)
        with pytest.raises(InputError, match=r"offsets_x: .*got 27"):
            align(x[:-1], y, begin_x, begin_y)
        with pytest.raises(InputError, match=r"offsets_y: .*got 6"):
            align(x, y, begin_x, begin_y[:-1])
        bad = x.copy()
        bad[3, 2] = np.nan
        with pytest.raises(InputError, match=r"x: .*got NaN or infinity"):
            align(bad, y, begin_x, begin_y)
    bad = x.copy()
    bad[3] = 0
    for align in (align_argmax, align_itermax):
        with pytest.raises(InputError, match=r"x: .*got 1 row\(s\)"):
            align(bad, y, begin_x, begin_y)
    with pytest.raises(InputError, match=r"rounds: .*got 0"):
        align_itermax(*words, rounds=0)
    for alpha in (0.0, 1.0):
        with pytest.raises(InputError, match="alpha: expected a fraction"):
            align_itermax(*words, alpha=alpha)
        with pytest.raises(InputError, match="threshold: expected a fraction"):
            align_softmax(*words, threshold=alpha)
