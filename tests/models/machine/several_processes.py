"""Trainings that several processes share, for the tests; every process that torchrun starts runs
this file.

    torchrun ... several_processes.py TEXTS RUNS JOBS      JOBS is a JSON list of {"recipe",
    "folder", "parallel", "trap", "resume"}

Each job trains one of RECIPES in RUNS/folder. What is raised is printed as a line: [folder,
process, kind of error, its text]. A trap is the name of something that goes wrong, with the step
where there is one; "seeds" only prints the seeds that were set.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from toy_texts import toy_recipe

from crosslens.errors import InputError, TrainingError, refuse
from crosslens.models.network.encoder import EncoderConfig
from crosslens.models.training import checkpoint, loop
from crosslens.models.training import masked_lm as train
from crosslens.models.training.settings import TrainRecipe, with_overrides
from crosslens.progress import is_quiet

_SMALL = EncoderConfig(
    vocab_size=110, hidden_size=32, layers=2, heads=2, ffn_size=64, max_positions=32, dropout=0.0
)
# About four rows a batch: with mixed batches a language is often in the share of one process only,
# and sometimes in no row at all.
_ALIKE = {
    "steps": 20,
    "tlm_share": 0.0,
    "log_every": 1,
    "validate_every": 20,
    "save_every": 10,
    "batch_tokens": 36,
    "encoder": _SMALL,
}

RECIPES = {
    # clipping and Adam would hide gradients that are all too small
    "shared": {"tlm_share": 0.5, "optimisation.clip": 0.0},
    "shared, mixed": {"batch_languages": "mixed", "accumulate": 2},
    "embeddings": {"sharing": "sep-emb", "vocabulary.mode": "separate", "accumulate": 2},
    "embeddings, mixed": {"sharing": "sep=emb", "batch_languages": "mixed"},
    "all": {"sharing": "sep=all"},
    "all, mixed": {
        "sharing": "sep=all",
        "batch_languages": "mixed",
        "accumulate": 3,
        "select": "best",
    },
    "pairs of segments": {
        "units": "nsp",
        "max_length": 24,
        "batch_tokens": 24 * 5,
        "accumulate": 3,
        "encoder.segments": 2,
        "encoder.next_sentence": True,
    },
    "lamb": {"sharing": "sep=1", "optimisation.optimiser": "lamb", "optimisation.clip": 0.5},
    "dropout": {
        "sharing": "sep=1",
        "batch_languages": "mixed",
        "encoder.dropout": 0.1,
        "steps": 20,
        "save_every": 10,
    },
}


def recipe_of(texts: Path, name: str, **changes) -> TrainRecipe:
    return with_overrides(toy_recipe(texts, **_ALIKE), {**RECIPES[name], **changes})


def lay_trap(trap: str, rank: int):
    """Replace a function by one that fails in the middle of the training; returns what takes it
    away again."""
    what, _, step = trap.partition(" ")
    module, name = {
        "kill": (loop, "learning_rate"),
        "stop": (loop, "learning_rate"),
        "unreadable": (train, "read_source"),
        "full": (checkpoint, "write_json"),
        "broken": (train, "MaskedBatches"),
        "seeds": (torch, "manual_seed"),
    }[what]
    function, seeds = getattr(module, name), []

    def trapped(*arguments, **named):
        if what in ("kill", "stop") and arguments[0] == int(step):
            if what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            refuse("step", "another one", step, "go on", TrainingError)
        if what == "unreadable" and rank == 1:
            refuse("text", "a file", "none here", "share the disk", InputError)
        if what == "full" and rank == 0:
            raise OSError(28, "No space left on device")
        if what == "broken" and rank == 1:
            raise ZeroDivisionError("a fault of ours")
        seeds.extend(arguments if what == "seeds" else ())
        return function(*arguments, **named)

    def untrap():
        setattr(module, name, function)
        if what == "seeds":
            tell("seeds", rank, seeds)

    setattr(module, name, trapped)
    return untrap


def tell(*words) -> None:
    """Print a line in one write, so that lines of two processes do not mix."""
    os.write(1, (json.dumps(words) + "\n").encode())


if __name__ == "__main__":
    texts, runs, jobs = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")  # once for all jobs
    for job in json.loads(jobs):
        untrap = lay_trap(job["trap"], dist.get_rank()) if job.get("trap") else lambda: None
        recipe = recipe_of(Path(texts), job["recipe"])
        try:
            train.train(
                recipe,
                Path(runs) / job["folder"],
                resume=job.get("resume", False),
                device="cpu",
                parallel=job.get("parallel", "ddp"),
            )
        except Exception as error:
            tell(job["folder"], dist.get_rank(), type(error).__name__, str(error))
        untrap()
        assert not is_quiet()
    dist.destroy_process_group()
