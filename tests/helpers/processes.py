"""The command line in one process, or in several that torchrun starts."""

import os
import subprocess
import sys


def command(words, processes: int = 1) -> subprocess.CompletedProcess:
    """Run a command of crosslens to its end; it must succeed."""
    before = ["-m"]
    if processes > 1:
        before += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        before += ["-m"]
    line = [sys.executable, *before, "crosslens.cli.main", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done
