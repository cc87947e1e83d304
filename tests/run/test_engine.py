"""A run's folder: looked at, claimed, resumed, finished; and names of its parts, which become names
of files."""

import types

import pytest

from crosslens.errors import InputError, OutputError, StoreError
from crosslens.files import fingerprint
from crosslens.run.engine import Run
from crosslens.score import Score, write_scores

SCORE = Score(quantity="mrr", value=1.0, n=1)


def test_a_part_of_long_names_is_kept_and_found_again(tmp_path):
    run = Run(tmp_path, "study", {})
    score = Score(encoder="e", task="t", quantity="mrr", value=1.0, n=1, seed=0)
    names = [f"retrieval.{'н' * 99}-{'м' * count}.random_encoder" for count in (98, 99)]
    assert [run.part(name, lambda: [score]) for name in names] == [[score], [score]]
    assert run.part(names[0], lambda: pytest.fail("it was measured before")) == [score]
    assert len(list((tmp_path / "parts").iterdir())) == 2


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/b", "eng.-deu..encoder", ""])
def test_a_part_is_never_written_elsewhere(tmp_path, name):
    run = Run(tmp_path / "run", "study", {})
    with run.open():
        run.part(name, list)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    parts = tmp_path / "run" / "parts"
    assert [path.name for path in parts.iterdir()] == [f"{fingerprint(name)}.jsonl"]


def test_nothing_is_written_before_a_run_is_opened(tmp_path):
    run = Run(tmp_path / "a" / "run", "study", {"seed": 0})
    assert not run.begun and not run.finished and not list(tmp_path.iterdir())
    with run.open():
        assert (tmp_path / "a" / "run" / "config.json").exists()
    assert Run(tmp_path / "a" / "run", "study", {"seed": 0}).begun
    with pytest.raises(OutputError, match="seed: 0 there, 1 here"):
        Run(tmp_path / "a" / "run", "study", {"seed": 1})


def test_a_place_that_cannot_be_written_to_is_refused_at_the_first_look(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="a folder that can be written to"):
        Run(tmp_path / "file" / "run", "study", {})


def test_nobody_else_works_in_an_open_run_and_it_is_free_behind_it(tmp_path):
    run = Run(tmp_path, "study", {})
    with (
        pytest.raises(OutputError, match="nobody else works in"),
        run.open(),
        Run(tmp_path, "study", {}).open(),
    ):
        pass
    with run.open():
        run.finish([SCORE])
    assert run.finished


def test_parts_that_a_kill_left_behind_the_end_are_tidied(tmp_path):
    run = Run(tmp_path, "study", {})
    with run.open():
        run.part("a", lambda: [SCORE])
        write_scores([SCORE], run.scores)  # killed before the parts were removed
    with run.open():
        assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("given_back", [None, ["state"]])
def test_refused_work_gives_a_new_folder_back_where_it_is_told_to(tmp_path, given_back):
    out = tmp_path / "run"
    with pytest.raises(InputError), Run(out, "align", {}).open(given_back=given_back):
        (out / "state").write_text("half")
        raise InputError("unfit")
    assert out.exists() == (given_back is None)


def test_refused_work_leaves_what_was_there_before(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError), Run(tmp_path / "run", "align", {}).open(given_back=[]):
        raise InputError("unfit")
    assert (tmp_path / "run").exists() and not list((tmp_path / "run").iterdir())
    with Run(tmp_path / "run", "align", {}).open():
        pass
    with (
        pytest.raises(InputError),
        Run(tmp_path / "run", "align", {}).open(given_back=["config.json"]),
    ):
        raise InputError("unfit")
    assert (tmp_path / "run" / "config.json").exists()


def test_processes_that_share_a_run_divide_its_parts(tmp_path, monkeypatch, capsys):
    """Each part is computed once; what needs another one waits for it; a part whose process ends is
    taken up by the next."""
    needed = {"a": (), "b": (), "c": ("a",)}
    first, second, third = (Run(tmp_path, "study", {}) for _ in range(3))
    with first.open(shared=True), second.open(shared=True):
        mine, yours = first.free_parts(needed), second.free_parts(needed)
        assert (next(mine), next(yours)) == ("a", "b")
        first.part("a", lambda: [SCORE])
        assert next(mine) == "c"
        yours.close()  # it ends without its part
        with third.open(shared=True):
            others = third.free_parts(needed)
            assert next(others) == "b"
            third.part("b", lambda: [SCORE])
            looks = []

            def wait(seconds):  # c is under way; its process gives it up
                looks.append(seconds)
                mine.close()

            monkeypatch.setattr("crosslens.run.engine.time.sleep", wait)
            assert next(others) == "c" and len(looks) == 1
            assert "waiting for 1 of 3 parts" in capsys.readouterr().err
            third.part("c", lambda: [SCORE])
            assert list(others) == []
    assert not list(tmp_path.glob(".*.part"))
    assert first.whole(needed) == [SCORE] * 3
    with pytest.raises(StoreError, match="d.jsonl"):
        first.whole([*needed, "d"])
    with first.open(shared=True):
        first.finish([SCORE])
        assert list(second.free_parts(needed)) == []  # its parts are tidied, and none is missing


def test_before_each_part_it_is_said_how_many_are_there_and_how_long_the_others_take(
    tmp_path, monkeypatch, capsys
):
    """The time left is by what came since the process began, whoever computed it."""
    needed = {f"{name}.seed-{seed}": () for seed in (0, 1) for name in ("a", "b", "c")}
    now = 0.0
    monkeypatch.setattr(
        "crosslens.run.engine.time", types.SimpleNamespace(monotonic=lambda: now, sleep=None)
    )
    run = Run(tmp_path, "study", {})
    with run.open(shared=True):
        run.part("a.seed-0", lambda: [SCORE])  # by a run before this one
        parts = run.free_parts(needed)
        for name, passed in zip(parts, (700.0, 300.0, 3000.0, 0.0), strict=False):
            now += passed
            run.part(name, lambda: [SCORE])
            if passed == 300.0:  # another process has had one meanwhile
                run.part("c.seed-1", lambda: [SCORE])
    assert capsys.readouterr().err.splitlines() == [
        "b, seed 0: 1 of 6 are done",
        "c, seed 0: 2 of 6 are done, about 47 min left",
        "a, seed 1: 4 of 6 are done, about 11 min left",
        "b, seed 1: 5 of 6 are done, about 17 min left",
    ]


def test_a_run_is_shared_by_those_alone_that_ask_for_it(tmp_path):
    run = Run(tmp_path, "study", {})
    with run.open(shared=True), pytest.raises(OutputError, match="nobody else works in"):
        Run(tmp_path, "study", {}).open().__enter__()
    with run.open(), pytest.raises(OutputError, match="nobody else works in"):
        Run(tmp_path, "study", {}).open(shared=True).__enter__()
