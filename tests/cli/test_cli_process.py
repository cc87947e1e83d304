"""Ctrl-C at any moment is one line and status 130, and never a traceback."""

import signal
import subprocess
import sys
import time

import pytest

# Interrupts itself at the n-th import that follows the program's own first line.
AT_IMPORT = """
import builtins, os, signal, sys
left, load = int(sys.argv.pop(1)), builtins.__import__
def counting(*given, **named):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return load(*given, **named)
from crosslens.cli.process import run
signal.signal(signal.SIGINT, sys.modules["crosslens.cli.process"].end_at_once)
builtins.__import__ = counting
run()
"""


def at_import(number: int, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT, str(number), *arguments], capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [1, 20, 150])
def test_an_interrupt_while_it_is_imported_is_one_line(number):
    assert at_import(number, "doctor") == (130, "", "crosslens: stopped\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [*range(1, 100, 7), *range(100, 1000, 90), *range(1000, 20_000, 1500)]
)
def test_an_interrupt_within_any_import_of_the_verbs_is_one_line(number, tmp_path):
    status, out, err = at_import(
        number,
        "extract",
        "--encoder",
        "no/encoder",
        "--text",
        f"eng={tmp_path / 'none.txt'}",
        "--out",
        str(tmp_path / "out"),
    )
    assert out == "" and err.count("\n") == 1 and err.startswith("crosslens: ")
    # or it was done before so many imports
    assert status == 130 and "stopped" in err or status == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["-m", "crosslens.cli.main"], ["-c", "from crosslens.cli.process import run; run()"]],
    ids=["module", "script"],
)
def test_an_interrupt_at_any_time_is_one_line(command):
    answered = 0
    for milliseconds in [*range(0, 200, 5), *range(200, 3000, 100)]:
        process = subprocess.Popen(
            [sys.executable, *command, "doctor"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        mine = process.returncode == 130 and err == "crosslens: stopped\n"
        python_s_own = (
            process.returncode in (-signal.SIGINT, 1)
            and "argparse" not in err
            and "crosslens:" not in err
        )
        assert mine or python_s_own or process.returncode == 0, err
        answered += mine
    assert answered > 5
