"""`glassformer settings`: every setting, its meaning, default and limits."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import print_json, print_table
from glassformer.cli.options import AsJson

if TYPE_CHECKING:
    from glassformer.before.settings_reference import SettingInfo

COLUMNS = ("setting", "default", "limits or choices", "meaning")


def settings(
    word: Annotated[
        str,
        typer.Argument(
            metavar="WORD", help="Print only settings with this word in name, meaning, choices or synonyms."
        ),
    ] = "",
    recipes: Annotated[
        bool, typer.Option("--recipes", help="Print the recipes that `train` takes by name instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print every setting with its meaning, default and limits.

    The defaults are the paper's. `train` chooses many settings from the data, and prints what it chose.
    """
    if recipes:
        _print_recipes(word, as_json)
        return
    from glassformer.before.settings_reference import find_settings

    found = find_settings(word)
    if as_json:
        print_json([asdict(info) for info in found])
        return
    for i, (section, members) in enumerate(groupby(found, key=lambda info: info.section)):
        if i:
            sys.stdout.write("\n")
        rows = [(info.name, _value(info.default), limits(info), info.description) for info in members]
        print_table(section, COLUMNS, rows)


def _print_recipes(word: str, as_json: bool) -> None:
    """Print the recipes whose name or description contains the word. Raises SettingsError when there is none."""
    from glassformer.before.recipes import description, list_recipes
    from glassformer.errors import SettingsError, nearest

    known = [(name, description(path)) for name, path in list_recipes().items()]
    found = [row for row in known if any(word.casefold() in text.casefold() for text in row)]
    if not found:
        raise SettingsError(f"no recipe contains {word!r}", hint=nearest(word, [name for name, _ in known]))
    if as_json:
        print_json([{"name": name, "description": text} for name, text in found])
    else:
        print_table("recipes", ("name", "description"), found)


def limits(info: SettingInfo) -> str:
    """Return the choices of a setting, or its limits; empty for any text or a boolean."""
    if info.choices:
        return ", ".join(info.choices)
    signs = {
        "≥": info.minimum,
        ">": info.exclusive_minimum,
        "≤": info.maximum,
        "<": info.exclusive_maximum,
    }
    return ", ".join(f"{sign} {_value(limit)}" for sign, limit in signs.items() if limit is not None)


def _value(value: Any) -> str:
    """Return a value as text, in the form of a recipe; 2**53 as 2^53."""
    if value is None or value == 2**53:
        return "unset" if value is None else "2^53"
    return value if isinstance(value, str) else json.dumps(value)
