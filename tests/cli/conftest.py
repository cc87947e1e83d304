"""What the tests of the commands share: the same panel of a report is drawn once."""

from panels_drawn_once import drawn_once

__all__ = ["drawn_once"]
