"""The reference pages of the site, written from the code: settings, command line, Python."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import groupby
from typing import Any

import typer.main

import glassformer
from glassformer.cli import command_line
from glassformer.cli.settings import _value, limits
from glassformer.planning.recipes import description, list_recipes
from glassformer.planning.settings_reference import SettingInfo, list_settings

MODULES = {
    "glassformer": tuple(glassformer.__all__),
    "glassformer.paper.model": None,
    "glassformer.paper.reference": None,
    "glassformer.errors": None,
}
"""Module -> the names that the Python page has; None: all functions and classes that it defines."""


def cell(text: object) -> str:
    """Return a text as a cell of a Markdown table."""
    return re.sub(r"([|<*_])", r"\\\1", str(text)).replace("\n", " ")


def code(text: object) -> str:
    """Return a text as code in a cell of a Markdown table; nothing for an empty text."""
    escaped = str(text).replace("|", "\\|")
    return f"`{escaped}`" if escaped else ""


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def settings_page() -> str:
    """Return every setting by section, and the recipes."""
    parts = ["# Settings\n\nWritten from the code. `glassformer settings WORD` prints the settings with a word. "]
    parts.append("The defaults are those of the paper; `train` chooses many settings from the data and prints ")
    parts.append("each with its reason ([zero configuration](../docs/defaults.md)).\n\n")
    columns = ("setting", "default", "meaning, and limits or choices")
    for section, members in groupby(list_settings(), key=lambda info: info.section):
        rows = [(code(info.name), code(_value(info.default)), meaning(info)) for info in members]
        parts.append(f"## {section}\n\n{table(columns, rows)}")
    recipes = [(code(name), cell(description(path))) for name, path in list_recipes().items()]
    parts.append("## Recipes\n\n`train --recipe NAME` takes one of these, or a TOML file.\n\n")
    return "".join(parts) + table(("recipe", "what it is for"), recipes)


def meaning(info: SettingInfo) -> str:
    """Return the description of a setting, with its limits or choices on a line of their own."""
    limit = limits(info)
    return cell(info.description) + (f"<br>{code(limit)}" if limit else "")


def commands_page() -> str:
    """Return every verb with its arguments and options."""
    parts = ["# Command line\n\nWritten from the code. `glassformer VERB --help` prints the same.\n\n"]
    verbs: dict[str, Any] = getattr(typer.main.get_command(command_line()), "commands", {})
    for name, command in verbs.items():
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        names = " ".join(one.metavar if one.required else f"[{one.metavar}]" for one in arguments)
        parts.append(f"## {name}\n\n```\n{f'glassformer {name} {names}'.rstrip()} [OPTIONS]\n```\n\n")
        parts.append(f"{paragraphs(command.help)}\n\n")
        rows = [(code(one.metavar), "", cell(one.help or "")) for one in arguments]
        rows += [
            (
                ", ".join(map(code, [*one.opts, *one.secondary_opts])),
                "" if one.is_flag else code(one.metavar),
                cell(one.help or "") + default(one),
            )
            for one in command.params
            if one.param_type_name == "option"
        ]
        parts.append(table(("option", "value", "meaning"), rows))
    return "".join(parts)


def default(option: Any) -> str:
    shown = option.default not in (None, False, True, ()) and not option.is_flag
    return f" Default: {code(getattr(option.default, 'value', option.default))}." if shown else ""


def python_page() -> str:
    """Return the public names of the package with their docstrings, then the paper's functions and the errors."""
    parts = [f"# Python\n\n{paragraphs(glassformer.__doc__)}\n\n"]
    for name, names in MODULES.items():
        module = __import__(name, fromlist=["_"])
        if name != "glassformer":
            parts.append(f"## {name}\n\n{paragraphs(module.__doc__)}\n\n")
        parts.append(f"```{{py:module}} {name}\n```\n\n")
        parts += [entry(getattr(module, one), one, depth=4) for one in names or defined(module)]
    return "".join(parts)


def defined(module: Any) -> list[str]:
    """Return the public functions and classes that a module defines, in the order of its text."""
    members = [one for one in vars(module).values() if inspect.isfunction(one) or inspect.isclass(one)]
    own = [one for one in members if one.__module__ == module.__name__ and not one.__name__.startswith("_")]
    return [one.__name__ for one in sorted(own, key=lambda one: inspect.getsourcelines(one)[1])]


def entry(found: Any, name: str, depth: int) -> str:
    """Return a function or a class with its public members as a directive; `depth` is the number of its ticks."""
    fence = "`" * depth
    kind = "class" if inspect.isclass(found) else "function"
    body = paragraphs(inspect.getdoc(found))
    if inspect.isclass(found):
        body += "\n\n" + "".join(members(found, depth - 1))
    return f"{fence}{{py:{kind}}} {name}{signature(found)}\n\n{body}\n{fence}\n\n"


def members(found: type, depth: int) -> Iterator[str]:
    """Yield the public methods and properties that a class defines and documents, in the order of its text."""
    fence = "`" * depth
    for name, member in list(vars(found).items()):
        function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        is_property = function is not member and not isinstance(member, classmethod | staticmethod)
        kind = "property" if is_property else "classmethod" if isinstance(member, classmethod) else "method"
        listed = "" if is_property else signature(function, is_method=not isinstance(member, staticmethod))
        yield f"{fence}{{py:{kind}}} {name}{listed}\n\n{paragraphs(inspect.getdoc(function))}\n{fence}\n\n"


def signature(found: Any, *, is_method: bool = False) -> str:
    """Return the parameters of a function or class with their defaults; annotations are in the source."""
    if inspect.isclass(found) and (issubclass(found, BaseException) or not has_own_parameters(found)):
        return ""
    parameters = list(inspect.signature(found).parameters.values())[is_method:]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    text = str(inspect.Signature(bare))
    return re.sub(r"<[\w.]+ object at \w+>|<factory>|<[^>]*>", "…", text)


def has_own_parameters(found: type) -> bool:
    return is_dataclass(found) or "__init__" in vars(found) or issubclass(found, tuple)


def paragraphs(text: str | None) -> str:
    """Return a docstring as Markdown: outside of code, `<`, `|`, underscores and asterisks are text."""

    def escaped(line: str) -> str:
        if line.startswith("    "):
            return line
        return re.sub(r"(`[^`]*`)|([<*_|])", lambda found: found[1] or "\\" + found[2], line)

    return "\n".join(map(escaped, inspect.cleandoc(text or "").splitlines()))


def documented(module: str) -> list[str]:
    """Return the names of a module that the Python page has."""
    return list(MODULES[module] or defined(__import__(module, fromlist=["_"])))
