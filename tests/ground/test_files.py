"""Files appear whole or not at all; a folder belongs to its settings and to one process."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ground_tools import GRAMMAR, snapshot

from crosslens import files
from crosslens.asked import asked_of
from crosslens.errors import OutputError, StoreError
from crosslens.files import (
    claim_folder,
    fingerprint,
    lock_file,
    lock_folder,
    make_folder,
    nearest_there,
    need_space,
    read_json,
    same_settings,
    sha256_file,
    write_json,
    write_whole,
)
from crosslens.score import Score

# ---------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("content", ["", "a\nb", "é 🙂 \r\n", b"\x00\xff", b"x" * 1_000_000])
def test_what_is_written_is_read_byte_for_byte(content, tmp_path):
    write_whole(tmp_path / "f", content)
    assert (tmp_path / "f").read_bytes() == (
        content.encode() if isinstance(content, str) else content
    )
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def fail(code: int):
    def raiser(*_, **__):
        raise OSError(code, os.strerror(code))

    return raiser


class FullDisk:
    """A file on a disk that has room for ``room`` bytes more."""

    def __init__(self, file, room: int) -> None:
        self.file, self.room = file, room

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        self.file.write(data[: self.room])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("there", [None, b"the old content"])
@pytest.mark.parametrize("when", ["writing", "flushing to disk", "renaming", "interrupted"])
def test_a_write_that_fails_leaves_everything_as_it_was(when, there, tmp_path, monkeypatch):
    if there is not None:
        (tmp_path / "f").write_bytes(there)
    before, expected = snapshot(tmp_path), OSError
    if when == "writing":
        monkeypatch.setattr(
            files, "open", lambda *a, **k: FullDisk(open(*a, **k), 3), raising=False
        )
    elif when == "flushing to disk":
        monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    elif when == "renaming":
        monkeypatch.setattr(os, "replace", fail(errno.ENOSPC))
    else:
        expected = KeyboardInterrupt
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(expected):
        write_whole(tmp_path / "f", "the new content")
    assert snapshot(tmp_path) == before


def test_content_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda f: (order.append("disk"), fsync(f)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("name"), replace(a, b)))
    write_whole(tmp_path / "f", "x")
    assert order == ["disk", "name"]


def test_a_reader_never_sees_half_a_file(tmp_path):
    contents, seen, done = [b"a" * 300_000, b"b" * 200_000], set(), threading.Event()
    write_whole(tmp_path / "f", contents[0])

    def read():
        while not done.is_set():
            seen.add((tmp_path / "f").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(40):
        write_whole(tmp_path / "f", contents[turn % 2])
    done.set()
    reader.join()
    assert seen <= set(contents)


def test_json_round_trip_and_damage(tmp_path):
    value = {"name": "é", "list": [1, 2.5, None, True], "nested": {"a": {}}}
    write_json(tmp_path / "v.json", value)
    assert read_json(tmp_path / "v.json") == value
    assert (tmp_path / "v.json").read_bytes().endswith(b"}\n")
    assert "é" in (tmp_path / "v.json").read_text(encoding="utf-8")
    for damaged in (b"", b'{"a": 1', b'{"a": "\xff"}'):
        (tmp_path / "v.json").write_bytes(damaged)
        with pytest.raises(StoreError, match=r"v\.json: expected"):
            read_json(tmp_path / "v.json")


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc" * 100_000)
    assert sha256_file(tmp_path / "f") == hashlib.sha256(b"abc" * 100_000).hexdigest()


def test_fingerprints_follow_values_not_order():
    assert fingerprint({"a": [1, 2], "b": None}) == fingerprint({"b": None, "a": [1, 2]})
    others = [
        {"a": [2, 1], "b": None},
        {"a": [1, 2]},
        {"a": [1, 2], "b": 0},
        {"a": ["1", 2], "b": None},
    ]
    assert len({fingerprint(value) for value in [{"a": [1, 2], "b": None}, *others]}) == 5


# ---------------------------------------------------------------- folders


def test_make_folder_makes_parents_and_leaves_nothing_in_it(tmp_path):
    assert make_folder(tmp_path / "a" / "b", "out") == tmp_path / "a" / "b"
    assert list((tmp_path / "a" / "b").iterdir()) == []
    make_folder(tmp_path / "a" / "b", "out")


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    # root may write anywhere, so the system is asked to refuse
    monkeypatch.setattr("tempfile.TemporaryFile", fail(errno.EROFS))
    with pytest.raises(OutputError, match=r"^--out: .*got .+ \(Read-only"):
        make_folder(tmp_path / "out", "--out")


def test_a_kill_while_a_folder_is_tried_leaves_nothing_in_it(tmp_path):
    kill = "import os, sys, tempfile as t; real = t.TemporaryFile\n"
    kill += "t.TemporaryFile = lambda *a, **k: (real(*a, **k), os.kill(os.getpid(), 9))\n"
    kill += "from crosslens.files import make_folder; make_folder(sys.argv[1], 'out')"
    assert subprocess.run([sys.executable, "-c", kill, tmp_path], check=False).returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "f").write_text("x")
    for path in (tmp_path / "f", tmp_path / "f" / "below"):
        with pytest.raises(OutputError, match="^out: expected"):
            make_folder(path, "out")


def test_space_is_compared_with_what_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    need_space(tmp_path, 2_000_000, "out")
    with pytest.raises(OutputError, match=r"^out: .*got 2\.0 MB at"):
        need_space(tmp_path, 2_100_000, "out")


SETTINGS = {
    "seed": 0,
    "model": {"layers": 4, "name": "a"},
    "texts": [{"file": "x"}, {"file": "y"}],
    "plain": [1, 2],
}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seed": 1}, "seed: 0 there, 1 here"),
        (
            {"model": {"layers": 5, "name": "b"}},
            "model.layers: 4 there, 5 here; model.name: 'a' there, 'b' here",
        ),
        ({"texts": [{"file": "x"}, {"file": "z"}]}, "texts.1.file: 'y' there, 'z' here"),
        ({"plain": [2, 1]}, "plain: [1, 2] there, [2, 1] here"),
        ({"new": True}, "new: None there, True here"),
        ({"seed": 1, "plain": []}, "plain: [1, 2] there, [] here; seed: 0 there, 1 here"),
    ],
)
def test_each_differing_setting_is_named_with_both_values(changed, told):
    with pytest.raises(OutputError) as refused:
        same_settings("runs/a", SETTINGS, {**SETTINGS, **changed}, "choose another folder")
    assert (
        str(refused.value)
        == f"runs/a: expected the same settings, got other ones ({told}); choose another folder"
    )


def test_equal_settings_pass_whatever_their_order_and_sequence_type():
    same_settings("x", SETTINGS, dict(reversed(SETTINGS.items())) | {"plain": (1, 2)}, "")


def test_numbers_of_numpy_in_settings_are_numbers(tmp_path):
    given = {"seed": np.int64(0), "layers": np.arange(2), "rate": np.float32(0.5)}
    for asked in (given, {"seed": 0, "layers": [0, 1], "rate": 0.5}):
        claim_folder(tmp_path / "run", "study", asked, asked_of(given, []))
    told = json.loads((tmp_path / "run" / "config.json").read_text())
    assert told["settings"] == told["asked"] == {"seed": 0, "layers": [0, 1], "rate": 0.5}
    score = Score(quantity="accuracy", value=0.5, n=4, seed=np.int64(3))
    assert json.loads(score.as_json())["seed"] == 3


def test_a_claimed_folder_is_there_again_for_the_same_settings(tmp_path):
    assert claim_folder(tmp_path / "run", "study", SETTINGS) is False
    before = snapshot(tmp_path)
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == {
        "kind": "study",
        "settings": SETTINGS,
    }
    assert claim_folder(tmp_path / "run", "study", SETTINGS) is True
    assert snapshot(tmp_path) == before


def test_what_was_noted_later_is_not_compared(tmp_path):
    claim_folder(tmp_path, "study", SETTINGS)
    write_json(
        tmp_path / "config.json",
        {**read_json(tmp_path / "config.json"), "versions": {"torch": "0"}},
    )
    assert claim_folder(tmp_path, "study", SETTINGS) is True


def test_a_folder_of_other_settings_or_of_another_kind_is_refused_and_unchanged(tmp_path):
    claim_folder(tmp_path / "run", "study", SETTINGS)
    before = snapshot(tmp_path)
    with pytest.raises(OutputError) as refused:
        claim_folder(tmp_path / "run", "study", {**SETTINGS, "seed": 7, "plain": [3]})
    assert "plain: [1, 2] there, [3] here; seed: 0 there, 7 here" in str(refused.value)
    with pytest.raises(
        OutputError,
        match=(
            r"expected a run made by `crosslens train`, got one of `crosslens study`; choose "
            r"another folder"
        ),
    ):
        claim_folder(tmp_path / "run", "train", SETTINGS)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "content", ['{"model_type": "bert"}', "[1]", '"study"', '{"kind": "study"}']
)
def test_somebody_else_s_config_is_refused_and_unchanged(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(
        OutputError, match="got a folder with somebody else's config.json; choose another folder"
    ):
        claim_folder(tmp_path, "study", SETTINGS)
    assert snapshot(tmp_path) == {"config.json": content.encode()}


def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        OutputError,
        match="expected a new folder, or one of a run, got a folder with other files in it",
    ):
        claim_folder(tmp_path, "study", SETTINGS)
    assert snapshot(tmp_path) == {"thesis.tex": b"years of work"}


def test_an_empty_folder_or_one_with_hidden_files_may_be_claimed(tmp_path):
    (tmp_path / ".DS_Store").write_text("")
    assert claim_folder(tmp_path, "study", SETTINGS) is False


# ---------------------------------------------------------------- one process at a time

HOLD = """
import sys, time
from crosslens.files import lock_folder
with lock_folder(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_until_the_first_is_gone_even_by_kill_9(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(
            OutputError,
            match="expected a folder that nobody else works in, got one with a running crosslens",
        ) as refused:
            with lock_folder(tmp_path):
                pass
        assert GRAMMAR.fullmatch(str(refused.value))
        assert holder.poll() is None
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    with lock_folder(tmp_path):
        pass


def test_a_lock_ends_with_its_block_however_that_ends(tmp_path):
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        raise ZeroDivisionError
    with lock_folder(tmp_path):
        with pytest.raises(OutputError), lock_folder(tmp_path):
            pass
    with lock_folder(tmp_path):
        time.sleep(0)


def test_a_lock_file_lets_one_in_and_is_gone_afterwards(tmp_path):
    path = tmp_path / ".store.lock"
    for _ in range(2):
        with lock_file(path, "store"):
            with pytest.raises(OutputError, match="^store: .*got one with a"):
                with lock_file(path, "store"):
                    pass
            assert path.exists()
        assert not path.exists()


def test_a_lock_file_that_is_removed_by_its_holder_is_made_again(tmp_path, monkeypatch):
    """Between opening and locking, the process that held it has removed it."""
    path, lock, calls = tmp_path / ".store.lock", files.fcntl.flock, []

    def flock(file, how):
        if not calls:
            path.unlink()
        calls.append(how)
        lock(file, how)

    monkeypatch.setattr(files.fcntl, "flock", flock)
    with lock_file(path, "store"):
        assert path.exists() and len(calls) == 2


def test_a_lock_file_that_others_remove_at_any_moment_is_made_again(tmp_path, monkeypatch):
    """Before it is looked at again, two others have made it anew and removed it."""
    path, exists, stat = tmp_path / ".store.lock", Path.exists, Path.stat
    calls = []

    def gone(self, **given):
        if self == path and not calls:
            calls.append(path)
            path.unlink()
        return stat(self, **given)

    monkeypatch.setattr(Path, "exists", lambda self: True if self == path else exists(self))
    monkeypatch.setattr(Path, "stat", gone)
    with lock_file(path, "store"):
        assert calls and os.path.exists(path)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_where_a_file_system_has_no_locks_work_is_not_refused(tmp_path, monkeypatch, code):
    monkeypatch.setattr(files.fcntl, "flock", fail(code))
    with lock_folder(tmp_path), lock_file(tmp_path / ".store.lock", "store"):
        pass
    monkeypatch.setattr(files.fcntl, "flock", fail(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"), lock_folder(tmp_path):
        pass


def test_links_that_lead_to_each_other_are_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", tmp_path / "loop" / "run"):
        with pytest.raises(OutputError, match="loop.*: expected a path to a folder, got "):
            nearest_there(path)
    assert nearest_there(tmp_path / "no" / "such") == tmp_path
