"""What a person who waits sees: nothing when quiet, lines where there is no terminal, a bar where
there is one."""

import io
import sys
import time

import pytest

from crosslens import progress
from crosslens.progress import Progress, be_quiet, say


@pytest.fixture(autouse=True)
def loud():
    be_quiet(False)
    yield
    be_quiet(False)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    mine = Clock()
    monkeypatch.setattr(time, "monotonic", mine)
    return mine


def run(clock, steps, total=100, **arguments):
    with Progress(total, "encoding", "sentences", **arguments) as shown:
        for seconds, count in steps:
            clock.now += seconds
            shown.add(count)
    return shown


def test_say_is_a_line_on_stderr_unless_quiet(capsys):
    say("learning 100 pieces")
    be_quiet()
    say("not said")
    assert capsys.readouterr() == ("", "learning 100 pieces\n")


def test_short_work_shows_nothing(clock, capsys):
    run(clock, [(0.5, 25), (0.5, 25), (0.9, 50)])
    assert capsys.readouterr() == ("", "")


def test_a_log_file_gets_a_line_after_two_seconds_and_then_every_ten(clock, capsys):
    run(clock, [(1, 10)] * 30, total=400)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "encoding: 20 of 400 sentences, 10 sentences/s, 38 s left",
        "encoding: 120 of 400 sentences, 10 sentences/s, 28 s left",
        "encoding: 220 of 400 sentences, 10 sentences/s, 18 s left",
    ]


def test_the_rate_is_this_process_s_and_the_rest_is_what_is_left(clock, capsys):
    shown = run(clock, [(2, 1)], total=1000, done=900)
    assert (
        capsys.readouterr().err
        == "encoding: 901 of 1,000 sentences, 0.50 sentences/s, 198 s left\n"
    )
    assert shown.done == 901


def test_long_waits_are_told_in_minutes_hours_and_days(clock, capsys):
    for total in (1201, 14_401, 400_001):
        run(clock, [(2, 1)], total=total, done=0)
    told = [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["40 min left", "8 h left", "9 days left"]


def test_a_note_stands_at_the_end_and_no_rate_is_said_to_be_none(clock, capsys):
    with Progress(10, "training", "steps") as shown:
        clock.now += 3
        shown.add(0, "loss 2.31")
    assert (
        capsys.readouterr().err
        == "training: 0 of 10 steps, 0.00 steps/s, rate unknown, loss 2.31\n"
    )


def test_quiet_is_silent(clock, capsys):
    be_quiet()
    run(clock, [(5, 10)] * 10)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_and_quiet_none(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "_SHOW_AFTER", 0.0)
    with Progress(4, "encoding", "sentences") as shown:
        for _ in range(4):
            shown.add(1, "loss 1.00")
            shown._bar.refresh()
    drawn = sys.stderr.getvalue()
    assert (
        "encoding" in drawn
        and "4.00/4.00" in drawn
        and "sentences/s" in drawn
        and "loss 1.00" in drawn
    )
    be_quiet()
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(4, "encoding", "sentences") as shown:
        shown.add(4)
    assert sys.stderr.getvalue() == ""


def test_the_bar_is_taken_away_when_the_work_breaks_off(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyboardInterrupt), Progress(4, "encoding", "sentences") as shown:
        raise KeyboardInterrupt
    assert shown._bar.disable  # closed
