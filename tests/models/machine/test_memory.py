"""Memory that a training keeps, and gives back."""

import resource

import pytest
import torch

from crosslens.models.machine import memory
from crosslens.models.machine.memory import freed_memory_kept

MEGABYTE = 1 << 20


def faults_of(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        torch.zeros(64 * MEGABYTE // 4).add_(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(memory._gnu() is None, reason="this C library is not GNU's: nothing is done")
def test_what_is_freed_is_taken_again_without_new_pages_and_given_back_at_the_end():
    outside = faults_of(10)
    before = resident()
    with freed_memory_kept(torch.device("cpu")):
        faults_of(1)
        inside = faults_of(10)
        kept = resident()
    after = resident()
    assert inside < outside / 2, (outside, inside)
    assert kept > before + 48 * MEGABYTE and after < kept - 48 * MEGABYTE, (before, kept, after)


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
