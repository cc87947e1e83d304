"""Self-learning that is stopped goes on where it was, to the same bits."""

import dataclasses
import re
import types

import numpy as np
import pytest

from crosslens.alignment import Procrustes, self_learning
from crosslens.alignment.maps import induction, learning_state
from crosslens.errors import OutputError, StoreError

SETTINGS = {"patience": 2, "keep_probability": 0.3, "vocabulary": 80, "k": 5}


@pytest.fixture
def spaces():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(9, 6))[rng.integers(0, 9, 100)] + 0.6 * rng.normal(size=(100, 6))).astype(
        np.float32
    )
    y = (x @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 0.5 * rng.normal(size=(100, 6))).astype(
        np.float32
    )
    return x, y, np.stack([np.arange(80, 100)] * 2, axis=1)


@pytest.fixture
def every_iteration(monkeypatch):
    monkeypatch.setattr(learning_state, "_EVERY", 0)


class KilledError(BaseException):
    """Stands for kill -9: nothing catches it."""


def stopped_after(monkeypatch, iterations, *arguments, **settings):
    """Learn, but for a stop within the iteration that follows."""
    with monkeypatch.context() as patch:
        induce, count = induction._induce, 0

        def counted(*given):
            nonlocal count
            count += 1
            if count > iterations:
                raise KilledError
            return induce(*given)

        patch.setattr(induction, "_induce", counted)
        with pytest.raises(KilledError):
            self_learning(*arguments, **settings)


def bits(result):
    return {
        field.name: (getattr(result, field.name).dtype, getattr(result, field.name).tobytes())
        for field in dataclasses.fields(result)
    }


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_wherever_it_stops_it_goes_on_to_the_same_bits(
    spaces, tmp_path, monkeypatch, every_iteration, every
):
    whole = self_learning(*spaces, **SETTINGS)
    total = len(whole.objectives)
    assert len(set(whole.keep_probabilities)) == 3 and total > 8
    for stop in range(0, total, every):
        path = tmp_path / f"{stop}"
        stopped_after(monkeypatch, stop, *spaces, **SETTINGS, state=path)
        assert path.exists() == (stop > 0)
        assert bits(self_learning(*spaces, **SETTINGS, state=path)) == bits(whole), stop
    path = tmp_path / "often"
    for _ in range(total - 1):
        stopped_after(monkeypatch, 1, *spaces, **SETTINGS, state=path)
    assert bits(self_learning(*spaces, **SETTINGS, state=path)) == bits(whole)


def test_what_has_ended_is_not_learnt_again(spaces, tmp_path, monkeypatch):
    first = self_learning(*spaces, **SETTINGS, state=tmp_path / "state")
    monkeypatch.setattr(induction, "_induce", None)
    assert bits(self_learning(*spaces, **SETTINGS, state=tmp_path / "state")) == bits(first)


def test_within_ten_seconds_it_is_written_at_the_end_only(spaces, tmp_path, monkeypatch):
    path = tmp_path / "state"
    stopped_after(monkeypatch, 5, *spaces, **SETTINGS, state=path)
    assert not path.exists()
    # an iteration takes six seconds, and so does writing: every second one is written
    clock = iter(range(0, 10_000, 6))
    monkeypatch.setattr(
        learning_state, "time", types.SimpleNamespace(monotonic=lambda: next(clock))
    )
    stopped_after(monkeypatch, 5, *spaces, **SETTINGS, state=path)
    arrays, _ = learning_state.read_tensors(path, "")
    assert len(arrays["objectives"]) == 4


OTHERS = {
    "seed": ({"seed": 1}, "seed: 0 there, 1 here"),
    "patience": ({"patience": 4}, "patience: 2 there, 4 here"),
    "keep probability": ({"keep_probability": 0.4}, "keep_probability: 0.3 there, 0.4 here"),
    "vocabulary": ({"vocabulary": 90}, "vocabulary: 80 there, 90 here"),
    "k": ({"k": 6}, "k: 5 there, 6 here"),
}


@pytest.mark.parametrize(("change", "told"), OTHERS.values(), ids=OTHERS.keys())
def test_a_state_of_other_settings_is_refused(spaces, tmp_path, change, told):
    path = tmp_path / "state"
    self_learning(*spaces, **SETTINGS, state=path)
    with pytest.raises(
        OutputError,
        match=re.escape(
            f"state {path}: expected the same settings, got other ones ({told}); choose another"
        ),
    ):
        self_learning(*spaces, **(SETTINGS | change), state=path)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["x", "y", "pairs"])
def test_a_state_of_other_data_is_refused(spaces, tmp_path, which):
    self_learning(*spaces, **SETTINGS, state=tmp_path / "state")
    others = [array.copy() for array in spaces]
    others[which][-1] = others[which][-2]
    with pytest.raises(
        OutputError,
        match=rf"expected the same settings, got other ones \({('x', 'y', 'pairs')[which]}: ",
    ):
        self_learning(*others, **SETTINGS, state=tmp_path / "state")


def test_what_is_no_state_is_refused(spaces, tmp_path):
    x, y, pairs = spaces
    result = self_learning(*spaces, **SETTINGS, state=tmp_path / "state")
    result.save(tmp_path / "maps")
    Procrustes().fit(x, y).save(tmp_path / "rotation")
    whole = (tmp_path / "state").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-9])
    (tmp_path / "text").write_bytes(b"hello")
    for old, new in (
        (b'\\"stage\\"', b'\\"steps\\"'),
        (b'\\"settings\\"', b'\\"sittings\\"'),
        (b"PCG64", b"PCG46"),
        (b"order_x", b"ardor_x"),
    ):
        assert whole.count(old) == 1
        (tmp_path / new.decode().strip('\\"')).write_bytes(whole.replace(old, new))
    for name in ("maps", "rotation", "cut", "text", "steps", "sittings", "PCG46", "ardor_x"):
        with pytest.raises(StoreError, match=r"(state|path).*: expected"):
            self_learning(*spaces, **SETTINGS, state=tmp_path / name)


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_learnt(
    spaces, tmp_path, monkeypatch
):
    monkeypatch.setattr(induction, "_induce", None)
    with pytest.raises(OutputError, match="state: .*got .*no/state"):
        self_learning(*spaces, **SETTINGS, state=tmp_path / "no" / "state")
