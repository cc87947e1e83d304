"""A command as a user types it."""

from crosslens.cli.main import main

__all__ = ["typed"]


def typed(line: str, *more: str) -> int:
    """Run ``crosslens LINE``, whose words are divided at white space, with ``more`` words behind it
    as they are; returns the exit status."""
    return main([*line.split(), *more])
