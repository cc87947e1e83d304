"""What the tests of the report share: the same panel is drawn once, and a module's page is taken
apart once."""

import pytest
from pages import Page
from panels_drawn_once import drawn_once

__all__ = ["drawn_once", "page"]


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    """A module's page, its ``source``, taken apart."""
    return Page(source)
