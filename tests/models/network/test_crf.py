"""The conditional random field beside all paths there are."""

import itertools

import pytest
import torch

from crosslens.models.network.crf import LinearChainCRF


def sampled(seed, classes=3, lengths=(4, 1, 3)):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    crf = LinearChainCRF(classes).double()
    with torch.no_grad():
        for p in crf.parameters():
            p.copy_(normal(*p.shape))
    scores = normal(len(lengths), max(lengths), classes).requires_grad_()
    labels = torch.randint(classes, scores.shape[:2], generator=generator)
    return crf, scores, torch.tensor(lengths), labels


def every_path(crf, scores, n):
    """Path -> its score, for the first n words of one sequence."""
    paths = {}
    for path in itertools.product(range(scores.shape[-1]), repeat=n):
        value = crf.start[path[0]] + crf.end[path[-1]]
        value = value + sum(scores[t, c] for t, c in enumerate(path))
        paths[path] = value + sum(crf.moves[a, b] for a, b in itertools.pairwise(path))
    return paths


def enumerated(crf, scores, words, labels):
    total = torch.zeros((), dtype=torch.float64)
    for row, n in enumerate(words.tolist()):
        paths = every_path(crf, scores[row], n)
        gold = labels[row, :n].tolist()
        fits = [
            v
            for p, v in paths.items()
            if all(g < 0 or g == c for g, c in zip(gold, p, strict=True))
        ]
        every = torch.stack(list(paths.values())).exp().sum()
        total = total - (torch.stack(fits).exp().sum() / every).log()
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unknown", [[], [(0, 1), (2, 2)], [(0, 0), (0, 1), (0, 2), (0, 3)]])
def test_loss_and_gradient_are_those_of_all_paths(seed, unknown):
    crf, scores, words, labels = sampled(seed)
    for place in unknown:
        labels[place] = -100
    found = []
    for way in (crf.loss, lambda *given: enumerated(crf, *given)):
        loss = way(scores, words, labels)
        found.append([loss, *torch.autograd.grad(loss, [scores, *crf.parameters()])])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-10)
    assert not found[0][1][1, 1:].any()  # behind the last word


@pytest.mark.parametrize("seed", range(6))
def test_the_best_path_is_the_best_of_all(seed):
    crf, scores, words, _ = sampled(seed)
    best = crf.best(scores, words)
    alone = 0
    for row, n in enumerate(words.tolist()):
        paths = every_path(crf, scores[row], n)
        assert tuple(best[row, :n].tolist()) == max(paths, key=paths.get)
        alone += best[row, :n].tolist() != scores[row, :n].argmax(-1).tolist()
    assert alone  # neighbours count


def test_without_scores_of_neighbours_it_is_cross_entropy():
    _, scores, words, labels = sampled(0)
    crf = LinearChainCRF(3).double()
    inside = torch.arange(4) < words.unsqueeze(1)
    theirs = torch.nn.functional.cross_entropy(scores[inside], labels[inside], reduction="sum")
    torch.testing.assert_close(crf.loss(scores, words, labels), theirs)
    assert torch.equal(crf.best(scores, words)[inside], scores.argmax(-1)[inside])


def test_large_scores_stay_numbers():
    crf, scores, words, labels = sampled(0)
    loss = crf.float().loss((1e4 * scores).float(), words, labels)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.isfinite() and gradient.isfinite().all()
