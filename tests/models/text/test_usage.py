"""How many subwords a text uses, against counting them one by one."""

import collections

import numpy as np
import pytest

from crosslens.errors import InputError
from crosslens.models.text.usage import SubwordsUsed, subwords_used


@pytest.mark.parametrize("seed", range(5))
def test_what_is_used_is_what_a_loop_counts(seed):
    rng = np.random.default_rng(seed)
    ids = rng.zipf(1.4, 3000) % 60
    met = collections.Counter(i for i in ids.tolist() if i >= 5)
    left, most = met.total(), 0
    for _, n in met.most_common():
        if 100 * (met.total() - left) >= 99 * met.total():
            break
        left, most = left - n, most + 1
    found = subwords_used(np.bincount(ids, minlength=64))
    assert found == SubwordsUsed(vocabulary=59, used=len(met), cover_99=most, tokens=met.total())
    assert 0 < found.cover_99 < found.used


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([9] * 5, (0, 0, 0, 0)),  # special tokens alone
        ([0] * 5 + [0, 0], (2, 0, 0, 0)),
        ([0] * 5 + [99, 1], (2, 2, 1, 100)),  # 99 % exactly
        ([0] * 5 + [98, 2], (2, 2, 2, 100)),
        ([0] * 5 + [1] * 100, (100, 100, 99, 100)),
    ],
)
def test_small_texts(counts, told):
    found = subwords_used(np.array(counts))
    assert (found.vocabulary, found.used, found.cover_99, found.tokens) == told


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="vocabulary: expected 2 or more, which the text uses"):
        subwords_used(np.array([0] * 5 + [1, 1]), 1)
    with pytest.raises(InputError, match="counts: expected 0 or more each, got -1"):
        subwords_used(np.array([0] * 5 + [1, -1]))
