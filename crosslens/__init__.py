"""Train, take apart, align, compare and probe multilingual language models.

Importing this package loads nothing heavy: each room (``crosslens.models``,
``crosslens.alignment``, ``crosslens.probes``) is imported when it is named.
"""

__version__ = "0.1.0"

__all__ = ["CrosslensError", "__version__"]


def __getattr__(name: str) -> object:
    if name == "CrosslensError":
        from crosslens.errors import CrosslensError

        return CrosslensError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
