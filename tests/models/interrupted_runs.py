"""Run by test_train.py: starts the toy run several times and kills each one somewhere else, with SIGKILL, from inside.

A kill from outside hits where chance will have it; this one hits the worst places on every machine. The parent only
forks and waits, so torch is imported once.

    python interrupted_runs.py TEXTS RUNS PLACE ...      writes RUNS/PLACE, prints a line per place
"""

import os
import signal
import sys
from pathlib import Path

import torch
from toy_texts import toy_recipe

from crosslens import progress
from crosslens.models import checkpoint, interop, train


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def die_when(function, condition):
    return lambda *arguments, **named: die() if condition(*arguments) else function(*arguments, **named)


def lay_trap(place: str) -> None:
    if place.startswith("step-"):
        train.learning_rate = die_when(train.learning_rate, lambda step, *_: step == int(place.removeprefix("step-")))
    elif place == "in-the-second-checkpoint":
        checkpoint.write_json = die_when(checkpoint.write_json, lambda path, _: "step-00000020" in str(path))
    elif place == "between-log-and-checkpoint":
        train.save_checkpoint = die_when(train.save_checkpoint, lambda _, step, *rest: step == 20)
    elif place == "before-old-checkpoints-go":
        checkpoint.shutil.rmtree = die_when(checkpoint.shutil.rmtree, lambda path, *_: path.name == "step-00000010")
    elif place == "in-the-export":
        interop.save_tokenizer = die
    else:
        raise KeyError(place)


if __name__ == "__main__":
    texts, runs, *places = sys.argv[1:]
    progress.be_quiet()
    torch.optim.AdamW([torch.zeros(1)])  # imports half of torch, which every child would do anew
    for place in places:
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            lay_trap(place)
            train.train(toy_recipe(Path(texts)), Path(runs) / place)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(place, "killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else f"status {status}", flush=True)
