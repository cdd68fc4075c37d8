"""The recipes of the package: settings of published results as TOML files, found by name."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import SettingsError, nearest

FOLDER = Path(__file__).parent


def list_recipes() -> dict[str, Path]:
    """Return name -> file of every recipe; a name is the path in this folder without suffix, as "paper/base"."""
    names = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in FOLDER.rglob("*.toml")}
    return dict(sorted(names.items(), key=lambda item: ("/" in item[0], item[0])))


def find_recipe(text: str) -> Path:
    """Return the file of a recipe given by path or name. An existing file has priority.

    Raises SettingsError, with the known names, when `text` is neither.
    """
    path, recipes = Path(text), list_recipes()
    if text and path.exists() and not path.is_dir():
        return path
    if text not in recipes:
        what, expected = "there is no recipe with this name, and no such file", "a TOML file or a name"
        raise SettingsError(what, got=repr(text), expected=expected, hint=nearest(text, recipes))
    return recipes[text]


def description(path: Path) -> str:
    """Return the description of a recipe: its first line, a comment."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
