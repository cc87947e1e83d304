"""Run by test_killed_trainings.py, in each process that torchrun starts: a run of several trainings, in
which one process may be killed with SIGKILL.

    torchrun ... killed_together.py NAME FOLDER OUT WHERE PROCESS       writes FOLDER/OUT

WHERE is a place of killed_trainings.py at which the process of that number dies; or "resumed", or
"undisturbed".
"""

import os
import sys
from pathlib import Path

from killed_trainings import TRAPS, runner

from crosslens import progress

if __name__ == "__main__":
    name, place, out, where, process = sys.argv[1:]
    progress.be_quiet()
    if os.environ["RANK"] == process and where in TRAPS.get(name, ()):
        TRAPS[name][where]()
    runner(name, Path(place))(Path(place) / out, where == "resumed")
