"""The recipes of the package: settings of published results as TOML files, found by name."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import SettingsError, nearest

FOLDER = Path(__file__).parent


def list_recipes() -> dict[str, Path]:
    """Name -> file of every recipe; the name is the path in this folder without its suffix, as "paper/base"."""
    names = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in FOLDER.rglob("*.toml")}
    return dict(sorted(names.items(), key=lambda item: ("/" in item[0], item[0])))


def find_recipe(text: str) -> Path:
    """The recipe that a path or a name means. An existing file is taken first.

    Raises SettingsError, with the known names, when it is neither.
    """
    path, recipes = Path(text), list_recipes()
    if text and path.exists() and not path.is_dir():
        return path
    if text not in recipes:
        raise SettingsError(
            "there is no recipe of this name, and no such file",
            got=repr(text),
            expected="a TOML file or a name",
            hint=nearest(text, recipes),
        )
    return recipes[text]


def description(path: Path) -> str:
    """What a recipe is for: its first line, a comment."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
