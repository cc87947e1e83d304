"""What a run writes down: log lines, and TensorBoard events where they are asked for."""

import json
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_texts import log, weights

from crosslens.errors import InputError
from crosslens.models.training.events import Events, cut_log
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import with_overrides

LINES = [
    {"step": 2, "tokens": 20, "loss": 3.5},
    {"step": 4, "tokens": 40, "perplexity": {"eng": 7.5}, "retrieval": {"a b": [0.25, 0.5]}},
]


def scalars(folder):
    """(name, step) to value of everything that TensorBoard would show."""
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    found = [
        ((name, event.step), event.value)
        for name in events.Tags()["scalars"]
        for event in events.Scalars(name)
    ]
    # no step has two values (the two lines of a validated step say their tokens twice)
    assert len(dict(found)) == len(set(found))
    return dict(found)


def test_lines_are_written_one_by_one(tmp_path):
    events = Events(tmp_path, 0)
    for number, line in enumerate(LINES, 1):
        events.write(line)
        assert log(tmp_path) == LINES[:number]  # on disk already
    events.close()
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_other_processes_write_nothing(tmp_path):
    events = Events(tmp_path, 0, tensorboard=True, silent=True)
    events.write(LINES[0])
    events.close()
    assert not list(tmp_path.iterdir())


def test_lines_after_the_checkpoint_and_a_half_line_are_dropped(tmp_path):
    path = tmp_path / "log.jsonl"
    cut_log(path, 3)  # no log yet: nothing to cut, and none is made
    assert not path.exists()
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + '{"step": 1, "lo')
    cut_log(path, 3)
    assert log(tmp_path) == LINES[:1]


def test_every_number_is_an_event_under_its_path(tmp_path):
    events = Events(tmp_path, 0, tensorboard=True)
    for line in LINES:
        events.write(line)
    events.close()
    assert scalars(tmp_path) == {
        ("tokens", 2): 20,
        ("loss", 2): 3.5,
        ("tokens", 4): 40,
        ("perplexity/eng", 4): 7.5,
        ("retrieval/a b/layer_0", 4): 0.25,
        ("retrieval/a b/layer_1", 4): 0.5,
    }


def test_events_of_a_resumed_run_stand_there_once(tmp_path):
    """What was written after the checkpoint is purged, as in the log."""
    for done, losses in ((0, [5.0, 4.0, 3.0]), (1, [2.0, 1.0])):
        events = Events(tmp_path, done, tensorboard=True)
        for step, loss in enumerate(losses, done + 1):
            events.write({"step": step, "loss": loss})
        events.close()
    assert scalars(tmp_path) == {("loss", 1): 5, ("loss", 2): 2, ("loss", 3): 1}
    assert [line["loss"] for line in log(tmp_path)] == [5, 2, 1]


def test_a_run_that_begins_anew_has_no_old_events(tmp_path):
    for loss in (5.0, 4.0):
        events = Events(tmp_path, 0, tensorboard=True)
        events.write({"step": 3 if loss == 5 else 1, "loss": loss})
        events.close()
    assert scalars(tmp_path) == {("loss", 1): 4}


def test_a_run_with_tensorboard_has_the_log_as_events_and_the_same_weights(toy, tmp_path):
    short = with_overrides(toy, {"steps": 4, "log_every": 2})
    train(short, tmp_path / "without")
    train(with_overrides(short, {"tensorboard": True}), tmp_path / "run")
    found = scalars(tmp_path / "run")
    lines = log(tmp_path / "run")
    for line in lines:
        for name in {"loss", "tokens"} & line.keys():
            assert found[name, line["step"]] == pytest.approx(line[name])  # events hold float32
    assert found["perplexity/nld", 4] == pytest.approx(lines[-1]["perplexity"]["nld"])
    assert weights(tmp_path / "run") == weights(tmp_path / "without")
    assert not (tmp_path / "without" / "tensorboard").exists()


def test_a_machine_without_tensorboard_is_told_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # how Python says that there is none
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InputError, match=r"tensorboard: .*got none installed"):
        Events(tmp_path, 0, tensorboard=True)
