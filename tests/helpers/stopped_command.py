"""A command of `crosslens` stopped from outside at random moments, and given again until it is done.

The parent forks and waits, so torch is imported once and a run takes a second or a few.

    python stopped_command.py RUNS SEED COMMAND JOB ...     a JSON line for each JOB, "how number":
    kill 3, interrupt 0, full 7

COMMAND is a JSON list, of arguments but --out; RUNS gets a folder for each job, and `undisturbed`.
"kill" is SIGKILL, up to three times, "interrupt" is SIGINT, and "full" a disk on which no file
grows beyond a random size. A line says what happened each time: after how many seconds, or with how
many bytes, the exit status (negative: the signal), and what was printed.
"""

import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import torch

from crosslens.cli.main import main

LONGEST = 300.0  # seconds


def start(command: list[str], folder: Path, *, again: bool, most: int | None = None) -> int:
    """Fork a process that runs the command; no file of it grows beyond ``most`` bytes."""
    child = os.fork()
    if child:
        return child
    os.setpgrp()
    with open(folder.with_suffix(".said"), "w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    if most is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    torch.set_num_threads(1)
    status = 99
    with contextlib.suppress(SystemExit):
        resumed = ["--resume"] if again and command[0] == "train" else []
        status = main([*command, "--out", str(folder), "--quiet", *resumed])
    os._exit(status)


def ended(child: int, after: float | None = None, how: signal.Signals = signal.SIGKILL) -> int:
    """Exit status of a process, to which a signal is sent after so many seconds."""
    began = time.monotonic()
    while time.monotonic() - began < LONGEST:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if after is not None and time.monotonic() - began >= after:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, how)
            after = None
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"{LONGEST} s")


def disturbed(
    command: list[str], folder: Path, how: str, usual: float, largest: int, draw: random.Random
) -> list[dict]:
    """One run with what happened to it, resumed until it is done."""
    story = []
    for turn in range(draw.randint(1, 3) if how != "full" else 1):
        after = most = None
        if how == "full":
            # room for what is said, which goes to a file as well
            most = max(1000, int(largest ** draw.uniform(0.3, 1.0)))
        else:
            after = draw.uniform(0, 1.05 * usual)
        status = ended(
            start(command, folder, again=turn > 0, most=most),
            after,
            signal.SIGINT if how == "interrupt" else signal.SIGKILL,
        )
        story.append(
            {
                "after": after,
                "most": most,
                "status": status,
                "said": folder.with_suffix(".said").read_text()[-500:],
            }
        )
    status = ended(start(command, folder, again=True))
    return [
        *story,
        {
            "after": None,
            "most": None,
            "status": status,
            "said": folder.with_suffix(".said").read_text()[-500:],
        },
    ]


if __name__ == "__main__":
    base, seed, told, *jobs = sys.argv[1:]
    runs, command = Path(base), json.loads(told)
    torch.optim.AdamW([torch.zeros(1)])  # imports half of torch, which every child would do anew
    import crosslens.models.training.masked_lm
    import crosslens.report  # noqa: F401

    began = time.monotonic()
    if ended(start(command, runs / "undisturbed", again=False)):
        raise SystemExit((runs / "undisturbed.said").read_text())
    usual = time.monotonic() - began
    largest = max(
        path.stat().st_size for path in (runs / "undisturbed").rglob("*") if path.is_file()
    )
    for job in jobs:
        how, _, number = job.partition(" ")
        draw = random.Random(f"{seed} {job}")
        story = disturbed(command, runs / f"{how}-{number}", how, usual, largest, draw)
        print(json.dumps({"job": job, "story": story}), flush=True)
