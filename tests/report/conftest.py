"""What the tests of the report share: the same panel is drawn once."""

from panels_drawn_once import drawn_once

__all__ = ["drawn_once"]
