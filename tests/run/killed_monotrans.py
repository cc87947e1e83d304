"""Run by test_killed_monotrans.py: `crosslens train monotrans`, killed with SIGKILL from inside in each
of its steps, and given again.

    python killed_monotrans.py FOLDER PLACE ...     writes FOLDER/PLACE, prints a line for each

FOLDER has eng.txt and nld.txt; PLACE is "undisturbed", or where the run is killed. The parent forks
and waits, so torch is imported once.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from monotrans_toy import SMALL

from crosslens import progress
from crosslens.models.saved import native
from crosslens.models.training import checkpoint, loop
from crosslens.recipes.monotrans import monotrans
from crosslens.run import engine
from crosslens.run.trainings.monotrans import run_monotrans


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(module, name: str, number: int) -> None:
    """Die when a function is called for the so-manieth time."""
    function, left = getattr(module, name), [number]

    def counted(*arguments, **named):
        left[0] -= 1
        return function(*arguments, **named) if left[0] else die()

    setattr(module, name, counted)


TRAPS = {
    "undisturbed": lambda: None,
    "in-step-1": lambda: on_call(loop, "learning_rate", 4),
    "in-the-export-of-step-1": lambda: on_call(native, "write_json", 1),
    "in-step-2": lambda: on_call(loop, "learning_rate", 9),
    "in-a-checkpoint-of-step-2": lambda: on_call(checkpoint, "write_json", 5),
    "in-joining": lambda: on_call(native, "write_json", 3),
    "before-the-scores": lambda: on_call(engine, "write_scores", 1),
}


if __name__ == "__main__":
    place, *names = sys.argv[1:]
    progress.be_quiet()
    torch.optim.AdamW([torch.zeros(1)])  # imports half of torch, which every child would do anew
    texts = {"source": f"eng:{place}/eng.txt", "target": f"nld:{place}/nld.txt"}
    for name in names:
        folder = Path(place) / name
        for turn in range(2):
            child = os.fork()
            if child == 0:
                torch.set_num_threads(1)
                if not turn:
                    TRAPS[name]()
                recipes = monotrans({**SMALL, **texts}, folder)
                run_monotrans(recipes, folder, device="cpu", resume=bool(turn))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            print(name, "killed" if killed else f"status {status}", flush=True)
            if not killed:
                break
