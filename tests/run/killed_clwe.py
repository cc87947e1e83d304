"""Run by test_killed_clwe.py: `crosslens train clwe`, killed with SIGKILL from inside in each of its
stages and between them, and given again.

    python killed_clwe.py FOLDER PLACE ...     writes FOLDER/PLACE, prints a line for each

PLACE is "undisturbed", or where the run is killed. The parent forks and waits, so torch is imported
once.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from clwe_toy import write_texts
from killed_monotrans import on_call

from crosslens import progress
from crosslens.alignment.maps import induction
from crosslens.models.saved import native
from crosslens.models.text import subword_vectors
from crosslens.models.training import loop
from crosslens.recipes.clwe import clwe
from crosslens.run import engine
from crosslens.run.trainings import clwe as stages

TRAPS = {
    "undisturbed": lambda: None,
    "in-skip-gram": lambda: on_call(subword_vectors, "train_skipgram", 2),
    "between-skip-gram-and-mapping": lambda: on_call(stages, "normalised", 1),
    "in-self-learning": lambda: on_call(induction, "_induce", 3),
    "before-mapped-vectors-are-saved": lambda: on_call(subword_vectors, "write_tensors", 4),
    "in-the-training": lambda: on_call(loop, "learning_rate", 4),
    "in-joining": lambda: on_call(native, "write_json", 2),
    "before-the-scores": lambda: on_call(engine, "write_scores", 1),
}


if __name__ == "__main__":
    place, *names = sys.argv[1:]
    progress.be_quiet()
    torch.optim.AdamW([torch.zeros(1)])  # imports half of torch, which every child would do anew
    asked = write_texts(Path(place))
    for name in names:
        folder = Path(place) / name
        for turn in range(2):
            child = os.fork()
            if child == 0:
                torch.set_num_threads(1)
                if not turn:
                    TRAPS[name]()
                stages.run_clwe(clwe(asked, folder), folder, device="cpu", resume=bool(turn))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            print(name, "killed" if killed else f"status {status}", flush=True)
            if not killed:
                break
