"""Work on several threads: in order, little ahead, on twins, and the number of threads put back
whatever happens."""

import threading
import time

import pytest
import torch
from torch import nn

from crosslens.models.machine import threads as module
from crosslens.models.machine.threads import in_order, same_weights


class Counted:
    """A model that counts its twins."""

    device = torch.device("cpu")

    def __init__(self, made):
        self.made, self.busy = made, False

    def twin(self):
        self.made.append(Counted(self.made))
        return self.made[-1]


@pytest.fixture
def threads():
    """Set the number of threads; it is put back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def slow_square(model, task):
    assert not model.busy  # nobody else has it
    model.busy = True
    time.sleep(0.02 if task % 3 == 0 else 0.001)  # later ones are done first
    model.busy = False
    return task**2, torch.get_num_threads(), threading.current_thread().name


@pytest.mark.parametrize(
    ("number", "most", "workers", "each"),
    [(1, 8, 1, 1), (2, 8, 2, 1), (5, 3, 2, 2), (7, 4, 3, 2), (9, 4, 3, 3)],
)
def test_results_come_in_order_and_threads_are_shared_out(
    threads, monkeypatch, number, most, workers, each
):
    monkeypatch.setattr(module, "_MOST_WORKERS", most)
    threads(number)
    made, taken = [], []

    def tasks():
        for task in range(30):
            taken.append(task)
            yield task

    found = []
    for task, (square, inner, name) in in_order(slow_square, Counted(made), tasks()):
        assert square == task**2 and inner == each
        found.append((task, name))
        assert len(taken) - len(found) <= 2 * workers
    assert [task for task, _ in found] == list(range(30))
    assert len(made) == (0 if workers == 1 else workers)
    names = {name for _, name in found}
    assert names == {"MainThread"} if workers == 1 else len(names) > 1
    assert torch.get_num_threads() == number


def test_a_failure_is_raised_in_its_turn_and_nothing_is_left_running(threads):
    threads(2)

    def fails(model, task):
        if task == 5:
            raise ValueError("five")
        return slow_square(model, task)

    found = []
    with pytest.raises(ValueError, match="five"):
        for task, _ in in_order(fails, Counted([]), range(20)):
            found.append(task)
    assert found == list(range(5))
    assert torch.get_num_threads() == 2 and not [
        one for one in threading.enumerate() if one.name.startswith("encoder")
    ]


def test_a_closed_generator_puts_the_threads_back(threads):
    threads(2)
    work = in_order(slow_square, Counted([]), range(20))
    next(work)
    assert torch.get_num_threads() == 1
    work.close()
    assert torch.get_num_threads() == 2 and not [
        one for one in threading.enumerate() if one.name.startswith("encoder")
    ]


def test_elsewhere_than_on_a_cpu_everything_is_done_in_turn(threads):
    threads(2)
    made = []
    model = Counted(made)
    model.device = torch.device("meta")
    assert {name for _, (_, _, name) in in_order(slow_square, model, range(4))} == {
        "MainThread"
    } and not made


def test_the_same_weights_with_modules_of_their_own():
    inner = nn.Linear(3, 3)
    net = nn.Sequential(inner, nn.BatchNorm1d(3), inner)
    other = same_weights(net)
    assert other[0] is other[2] and other[0] is not inner
    assert other[0].weight is inner.weight and other[1].running_mean is net[1].running_mean
    other[0].register_forward_hook(lambda *_: None)
    assert not inner._forward_hooks
