"""Tables as pandas data frames, where pandas is installed; nothing else in the package needs it."""

from typing import Any

from crosslens.errors import refuse

__all__ = ["need_pandas"]


def need_pandas() -> Any:
    """The pandas module.

    Raises
    ------
    InputError: it is not installed; the message names the command that brings it.
    """
    try:
        import pandas
    except ImportError:
        remedy = "type: pip install 'crosslens[pandas]'"
        refuse("to_pandas", "the library of data frames", "none installed", remedy)
    return pandas
