"""Names on other words of the same text, against their characters."""

import random

from crosslens.probes.methods.span_projection import project_spans
from crosslens.probes.methods.span_scores import spans


def cut(rng, n):
    borders = [0, *sorted(rng.sample(range(1, n), rng.randrange(n // 2))), n]
    return list(zip(borders[:-1], borders[1:], strict=True))


def characters(tags, words):
    return [(kind, words[a][0], words[b - 1][1]) for kind, a, b in spans(tags)]


def tagged(rng, words):
    tags, kind = [], ""
    for _ in words:
        goes_on = kind and rng.random() < 0.5
        kind = kind if goes_on else rng.choice(["", "", "PER", "LOC"])
        tags.append(f"{'I' if goes_on else 'B'}-{kind}" if kind else "O")
    return tags


def test_words_cut_finer_have_the_same_names_and_none_is_counted():
    rng = random.Random(1)
    for _ in range(200):
        words = cut(rng, 12)
        tags, finer = tagged(rng, words), [(n, n + 1) for n in range(12)]
        found, moved = project_spans(tags, words, finer)
        assert moved == 0 and characters(found, finer) == characters(tags, words)
        assert project_spans(found, finer, words) == (tags, 0)


def test_a_name_covers_every_word_that_it_touches():
    rng = random.Random(2)
    counted = 0
    for _ in range(300):
        words, others = cut(rng, 12), cut(rng, 12)
        tags = tagged(rng, words)
        found, moved = project_spans(tags, words, others)
        taken, expected, other = set(), [], 0
        for kind, begin, end in characters(tags, words):
            touched = [w for w in others if any(begin <= c < end for c in range(*w))]
            other += touched[0][0] != begin or touched[-1][1] != end
            if left := [w for w in touched if w not in taken]:
                expected.append((kind, left[0][0], left[-1][1]))
            taken |= {*touched}
        assert characters(found, others) == expected and moved == other
        counted += moved
    assert counted > 100


def test_a_name_without_words_is_counted():
    assert project_spans(["B-PER", "O"], [(0, 2), (3, 5)], [(3, 5)]) == (["O"], 1)
    assert project_spans(["B-PER"], [(0, 1)], []) == ([], 1)
    assert project_spans([], [], [(0, 1)]) == (["O"], 0)
