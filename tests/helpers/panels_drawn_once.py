"""The same panel is drawn once for all tests, since drawing is nearly all that a page costs: a
conftest imports this fixture."""

import sys
from collections.abc import Callable, Iterator

import pytest

_DRAWN = ("curve_panel", "series_panel", "heat_panel", "colour_bar")


def _once(draw: Callable[..., str], kept: dict[str, str]) -> Callable[..., str]:
    """``draw``, which keeps what it has drawn, but for the key of the ids."""

    def drawn(key: str, *args: object, **settings: object) -> str:
        told = [part.tolist() if hasattr(part, "tolist") else part for part in args]
        name = f"{draw.__name__}{told!r}{settings!r}"
        if name not in kept:
            kept[name] = draw("KEY", *args, **settings)
        return kept[name].replace("KEY-", f"{key}-")

    return drawn


@pytest.fixture(autouse=True, scope="session")
def drawn_once() -> Iterator[None]:
    """Tests that draw in another process, without this, get the same characters."""
    import crosslens.report.pages.page  # noqa: F401  (so that all its modules are there)
    from crosslens.report.parts import drawing, heat

    kept: dict[str, str] = {}
    modules = [
        module for name, module in sys.modules.items() if name.startswith("crosslens.report.")
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name in _DRAWN:
            home = drawing if hasattr(drawing, name) else heat
            draw = getattr(home, name)
            made = _once(draw, kept)
            for module in modules:
                if getattr(module, name, None) is draw and module is not home:
                    patch.setattr(module, name, made)
        yield
