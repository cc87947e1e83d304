"""The command line without dropout, which is drawn anew in each process; torchrun starts this file
for the tests.

shared_transfer.py WORDS OF THE COMMAND ...
"""

import sys

from crosslens.cli.main import main
from crosslens.run.transfer import presets as transfer_presets

if __name__ == "__main__":
    for _, values in transfer_presets._TABLE["default"]:
        values["dropout"] = (0.0, "a test")
    sys.exit(main(sys.argv[1:]))
