"""Run by test_resume.py: starts a run several times and kills each one somewhere else, with
SIGKILL, from inside.

A kill from outside hits where chance will have it; this one hits the worst places on every machine.
The parent only forks and waits, so torch is imported once.

    python interrupted_runs.py TEXTS RUNS RUN:PLACE ...      writes RUNS/RUN:PLACE, prints a line
    for each

RUN names a recipe of RECIPES, PLACE where it is killed.
"""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import torch
from toy_texts import deep, toy_recipe

from crosslens import progress
from crosslens.models.saved import interop
from crosslens.models.text import vocabularies
from crosslens.models.training import checkpoint, loop
from crosslens.models.training import masked_lm as train
from crosslens.models.training.settings import TrainRecipe


def _two_tasks(recipe: TrainRecipe) -> TrainRecipe:
    """Next sentences and masked tokens, languages mixed, everything but the middle layers
    separate."""
    shape = dataclasses.replace(deep(recipe).encoder, layers=4, segments=2, next_sentence=True)
    return deep(
        recipe,
        units="nsp",
        batch_languages="mixed",
        sharing="sep-emb-1-3",
        encoder=shape,
        accumulate=2,
    )


RECIPES = {
    "toy": lambda recipe: recipe,
    "nsp": _two_tasks,
    "stream": lambda recipe: deep(
        recipe, units="stream", batch_languages="mixed", sharing="sep-1-6"
    ),
    # Validations at 15 and 30, checkpoints at 10, 20 and 30.
    "best": lambda recipe: dataclasses.replace(recipe, select="best"),
    "unigram": lambda recipe: dataclasses.replace(
        recipe, steps=8, vocabulary=dataclasses.replace(recipe.vocabulary, kind="unigram")
    ),
}


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def die_when(function, condition):
    return lambda *arguments, **named: (
        die() if condition(*arguments) else function(*arguments, **named)
    )


def after(function, condition):
    def both(*arguments, **named):
        done = function(*arguments, **named)
        return die() if condition(*arguments) else done

    return both


def lay_trap(place: str) -> None:
    if place.startswith("step-"):
        loop.learning_rate = die_when(
            loop.learning_rate, lambda step, *_: step == int(place.removeprefix("step-"))
        )
    elif place == "before-the-vocabulary-stands":
        vocabularies.write_json = die
    elif place == "in-the-second-checkpoint":
        checkpoint.write_json = die_when(
            checkpoint.write_json, lambda path, _: "step-00000020" in str(path)
        )
    elif place == "between-log-and-checkpoint":
        loop.save_checkpoint = die_when(loop.save_checkpoint, lambda _, step, *rest: step == 20)
    elif place == "before-old-checkpoints-go":
        checkpoint.shutil.rmtree = die_when(
            checkpoint.shutil.rmtree, lambda path, *_: path.name == "step-00000010"
        )
    elif place == "in-the-best":
        checkpoint.os.replace = die_when(
            checkpoint.os.replace, lambda _, path: Path(path).name.startswith("best")
        )
    elif place == "between-best-and-last":
        loop.save_best = after(loop.save_best, lambda *_: True)
    elif place == "in-the-export":
        interop.save_tokenizer = die
    else:
        raise KeyError(place)


if __name__ == "__main__":
    texts, runs, *names = sys.argv[1:]
    progress.be_quiet()
    torch.optim.AdamW([torch.zeros(1)])  # imports half of torch, which every child would do anew
    for name in names:
        run, _, place = name.partition(":")
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            lay_trap(place)
            train.train(RECIPES[run](toy_recipe(Path(texts))), Path(runs) / name)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(
            name,
            "killed"
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            else f"status {status}",
            flush=True,
        )
