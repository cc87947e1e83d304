"""Studies and trainings by name, one per file; and recipes read from TOML files."""

import tomllib
from pathlib import Path
from typing import Any, cast

from crosslens.errors import cut, refuse
from crosslens.models.training.settings import TrainRecipe, from_dict

__all__ = ["TRAININGS", "load_recipe"]

TRAININGS = ("tiny-encoder", "emergence")


def load_recipe(name: str, data: str | None = None) -> TrainRecipe:
    """A training recipe by its name, or from a TOML file.

    Parameters
    ----------
    data: folder of a named recipe's texts. Relative paths in a TOML file are counted from the file's own folder.

    Raises
    ------
    InputError: no such recipe or file, or the file is not a recipe.
    """
    if name == "tiny-encoder":
        from crosslens.recipes.tiny_encoder import tiny_encoder

        return tiny_encoder(data or "text")
    if data is not None:
        refuse("data", "a folder for a named recipe", f"the file {name}", "name the texts in the file")
    path = Path(name)
    if not path.is_file():
        refuse("recipe", f"a TOML file or one of {', '.join(TRAININGS)}", repr(name), "check the spelling")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        refuse(name, "a TOML file", "brackets nested too deeply", "repair the file")
    except (OSError, ValueError) as error:  # TOMLDecodeError is a ValueError; so is what a number of 5,000 digits raises
        refuse(name, "a TOML file", f"something else ({cut(str(error), 200)})", "repair the file")
    sources = values.get("sources")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and isinstance(source.get("texts"), dict):
            source["texts"] = {language: _beside(path, file) for language, file in source["texts"].items()}
    if isinstance(values.get("exclude"), list):
        values["exclude"] = [_beside(path, file) for file in values["exclude"]]
    return cast(TrainRecipe, from_dict(TrainRecipe, values))


def _beside(recipe: Path, file: Any) -> Any:
    """A path that is counted from the recipe's folder; anything but a string is left for the type check."""
    return str(recipe.parent / file) if isinstance(file, str) else file
