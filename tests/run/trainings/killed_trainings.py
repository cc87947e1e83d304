"""Run by test_killed_trainings.py: a run of several trainings, killed with SIGKILL from inside in each
of its stages and between them, and given again.

    python killed_trainings.py NAME FOLDER PLACE ...     writes FOLDER/PLACE, prints a line for each

NAME is monotrans or clwe, or one of these and "-plain": without dropout, which is drawn anew for each
process; PLACE is "undisturbed", or where the run is killed. The parent forks and
waits, so torch is imported once.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from clwe_toy import write_texts
from monotrans_toy import SMALL
from toy_texts import two_languages, write_lines

from crosslens import progress
from crosslens.alignment.maps import induction
from crosslens.models.saved import native
from crosslens.models.text import subword_vectors
from crosslens.models.training import checkpoint, loop
from crosslens.recipes.clwe import clwe
from crosslens.recipes.monotrans import monotrans
from crosslens.run import engine
from crosslens.run.trainings import clwe as stages
from crosslens.run.trainings.monotrans import run_monotrans


def on_call(module, name: str, number: int):
    """Die when a function is called for the so-manieth time."""

    def trap():
        function, left = getattr(module, name), [number]

        def counted(*arguments, **named):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        setattr(module, name, counted)

    return trap


TRAPS = {
    "monotrans": {
        "in-step-1": on_call(loop, "learning_rate", 4),
        "in-the-export-of-step-1": on_call(native, "write_json", 1),
        "in-step-2": on_call(loop, "learning_rate", 9),
        "in-a-checkpoint-of-step-2": on_call(checkpoint, "write_json", 5),
        "in-joining": on_call(native, "write_json", 3),
        "before-the-scores": on_call(engine, "write_scores", 1),
    },
    "clwe": {
        "in-skip-gram": on_call(subword_vectors, "train_skipgram", 2),
        "between-skip-gram-and-mapping": on_call(stages, "normalised", 1),
        "in-self-learning": on_call(induction, "_induce", 3),
        "before-mapped-vectors-are-saved": on_call(subword_vectors, "write_tensors", 4),
        "in-the-training": on_call(loop, "learning_rate", 4),
        "in-joining": on_call(native, "write_json", 2),
        "before-the-scores": on_call(engine, "write_scores", 1),
    },
}


def runner(name: str, place: Path):
    """The run, as it is called with a folder and whether it is to be resumed; its texts are
    written."""
    name, _, plain = name.partition("-")
    changes = {"encoder.dropout": 0.0} if plain else {}
    if name == "clwe":
        asked = {**write_texts(place), **changes}
        return lambda folder, resume: stages.run_clwe(
            clwe(asked, folder), folder, device="cpu", resume=resume
        )
    one, other = two_languages(160)
    write_lines(place / "eng.txt", one[:120])
    write_lines(place / "nld.txt", other[40:])
    texts = {"source": f"eng:{place}/eng.txt", "target": f"nld:{place}/nld.txt"}
    return lambda folder, resume: run_monotrans(
        monotrans({**SMALL, **texts, **changes}, folder), folder, device="cpu", resume=resume
    )


if __name__ == "__main__":
    name, place, *places = sys.argv[1:]
    progress.be_quiet()
    torch.optim.AdamW([torch.zeros(1)])  # imports half of torch, which every child would do anew
    run = runner(name, Path(place))
    for where in places:
        for turn in range(2):
            child = os.fork()
            if child == 0:
                torch.set_num_threads(1)
                if not turn and where != "undisturbed":
                    TRAPS[name][where]()
                run(Path(place) / where, bool(turn))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            print(where, "killed" if killed else f"status {status}", flush=True)
            if not killed:
                break
