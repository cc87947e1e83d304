"""Memory that a training keeps, and gives back."""

import resource

import pytest
import torch

from crosslens.models.machine import memory
from crosslens.models.machine.memory import freed_memory_kept

MEGABYTE = 1 << 20


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def after_steps(n):
    """What is resident when 64 megabytes have been taken, written and freed n times."""
    for _ in range(n):
        torch.zeros(64 * MEGABYTE // 4).add_(1.0)
    return resident()


@pytest.mark.skipif(memory._gnu() is None, reason="this C library is not GNU's: nothing is done")
def test_what_is_freed_is_kept_and_given_back_at_the_end():
    # not the page faults: with pages of two megabytes there are few of them to begin with
    memory._gnu().malloc_trim(0)  # what other tests have freed would be taken first
    before = resident()
    with freed_memory_kept(torch.device("cpu")):
        kept = after_steps(20)
    after = resident()
    assert before + 48 * MEGABYTE < kept < before + 10 * 64 * MEGABYTE, (before, kept)
    assert after < kept - 48 * MEGABYTE, (kept, after)


@pytest.mark.parametrize("error", [None, ValueError])
def test_it_is_undone_whatever_happens(monkeypatch, error):
    calls = []

    class Library:
        """Notes what is asked of it."""

        def mallopt(self, what, value):
            calls.append((what, value))

        def malloc_trim(self, kept):
            calls.append("trim")

    monkeypatch.setattr(memory, "_gnu", Library)
    try:
        with freed_memory_kept(torch.device("cpu")):
            entered = list(calls)
            if error:
                raise error
    except ValueError:
        pass
    assert len(entered) == 2 and {what for what, _ in entered} == {what for what, _ in calls[2:4]}
    assert calls[-1] == "trim"
    calls.clear()
    with freed_memory_kept(torch.device("cuda")):
        pass
    assert not calls
