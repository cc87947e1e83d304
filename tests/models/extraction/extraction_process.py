"""Extraction in a process of its own, for the tests: several of them under torchrun, or one that is
killed.

extraction_process.py ENCODER TEXT [FOLDER UNIT ...]            these, one after the other
extraction_process.py ENCODER TEXT FOLDER UNIT PLACE NUMBER     kill -9 at the NUMBERth time that
PLACE is reached
"""

import os
import signal
import subprocess
import sys

import torch

from crosslens.activations_writer import ActivationsWriter
from crosslens.models.extraction import encode, type_averages
from crosslens.models.extraction import extract as module
from crosslens.models.saved.loading import load_encoder
from crosslens.progress import be_quiet
from crosslens.readers.plain import open_text


def kill_at(place: str, number: int) -> None:
    """Let the process end without warning at the ``number``th time that ``place`` is reached."""
    owner, name = {
        "plan": (module, "locate"),
        "encode": (encode._Plan, "encoded"),  # a batch
        "put": (ActivationsWriter, "put"),  # rows of a batch
        "write": (ActivationsWriter, "end"),  # of a block
        "save": (type_averages._Sums, "save"),
        "finish": (ActivationsWriter, "finish"),
    }[place]
    function, left = getattr(owner, name), [number]

    def counted(*given, **more):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **more)

    setattr(owner, name, counted)


def work(encoder: str, text: str, folder: str, unit: str, place: str = "", number: int = 0) -> None:
    """Extract with small blocks; sums are saved after every block."""
    # what is killed need not have the threads of what goes on
    torch.set_num_threads(2 if place else 1)
    be_quiet()
    module._block_text = lambda *_: 400
    type_averages._SAVE_EVERY = 0.0
    if place:
        kill_at(place, number)
    module.extract(
        load_encoder(encoder), open_text(text, "eng"), folder, unit=unit, dtype="float16"
    )


def in_a_process(*arguments) -> int:
    """Do that in a new interpreter (a forked child can hang in the thread pools it inherits); its
    exit status, -9 where it was killed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, env=environment, timeout=300, check=False).returncode


if __name__ == "__main__":
    encoder, text, *rest = sys.argv[1:]
    if rest[-1].isdigit():
        work(encoder, text, *rest[:3], int(rest[3]))
    else:
        if "WORLD_SIZE" in os.environ:  # one group for all of them
            torch.distributed.init_process_group("gloo")
        for folder, unit in zip(rest[::2], rest[1::2], strict=True):
            work(encoder, text, folder, unit)
