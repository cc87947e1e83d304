"""The command as a process of its own: whenever it is interrupted, it says so in one line and ends
with status 130.

This module imports what Python has loaded already and nothing else, so that Ctrl-C is answered as
early as can be. (Before Python has begun with the program, it answers itself.)
"""

import os
import signal
import sys

__all__ = ["end_at_once", "run"]


def end_at_once(number: int = signal.SIGINT, frame: object = None) -> None:
    """The handler of Ctrl-C for when nothing has been begun, or all is done.

    An exception would do harm then: raised within an import it becomes another error, or leaves
    half a module.
    """
    os.write(2, b"crosslens: stopped\n")
    os._exit(130)


def run() -> None:
    """What the script ``crosslens`` calls; it does not return."""
    signal.signal(signal.SIGINT, end_at_once)
    try:
        from crosslens.cli.main import main

        status = main()
        sys.stdout.flush()
        # all is tidied away: Python itself would end by the signal, where code that it compiled was
        # interrupted
        if status == 130:
            sys.stderr.flush()
            os._exit(status)
    except KeyboardInterrupt:  # a second one, while the first was being answered
        end_at_once()
    except BrokenPipeError:  # nobody reads what is printed any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    sys.exit(status)
