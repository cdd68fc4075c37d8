"""`glassformer settings`: every setting, its meaning, default and limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import Reporter, print_line, print_table

if TYPE_CHECKING:
    from glassformer.planning.settings_reference import SettingInfo

COLUMNS = ("setting", "default", "limits or choices", "meaning")


def settings(
    reporter: Reporter,
    word: Annotated[
        str, Argument(metavar="WORD", help="Print only settings with this word in name, meaning, choices or synonyms.")
    ] = "",
    recipes: Annotated[bool, Option("--recipes", help="Print the recipes that `train` takes by name instead.")] = False,
) -> None:
    """Print every setting with its meaning, default and limits.

    The defaults are the paper's. `train` chooses many settings from the data, and writes the reasons into the recipe of
    the run.

    Examples:
        glassformer settings dropout
        glassformer settings --recipes
    """
    from glassformer.errors import SettingsError, nearest
    from glassformer.planning.recipes import description, list_recipes
    from glassformer.planning.settings_reference import find_settings

    if recipes:
        all_recipes = [(name, description(path)) for name, path in list_recipes().items()]
        listed = [row for row in all_recipes if any(word.casefold() in text.casefold() for text in row)]
        if not listed:
            raise SettingsError(f"no recipe contains {word!r}", hint=nearest(word, [name for name, _ in all_recipes]))
        values = [{"name": name, "description": text} for name, text in listed]
        reporter.result(values, lambda: print_table("recipes", ("name", "description"), listed))
    else:
        matches = find_settings(word)
        reporter.result([asdict(info) for info in matches], lambda: _print_settings(matches))


def _print_settings(matches: Sequence[SettingInfo]) -> None:
    for i, (section, members) in enumerate(groupby(matches, key=lambda info: info.section)):
        if i:
            print_line()
        rows = [(info.name, _value(info.default), limits(info), info.description) for info in members]
        print_table(section, COLUMNS, rows)


def limits(info: SettingInfo) -> str:
    """Return the choices of a setting, or its limits; empty for any text or a boolean."""
    from glassformer.planning.settings_reference import SIGNS

    return ", ".join(info.choices or (f"{SIGNS[name]} {_value(limit)}" for name, limit in info.limits.items()))


def _value(value: Any) -> str:
    """Return a value as text, in the form of a recipe; 2**53 as 2^53."""
    if value is None or value == 2**53:
        return "unset" if value is None else "2^53"
    return value if isinstance(value, str) else json.dumps(value)
