"""The help of the commands: what each argument is, in the words of its metavar, and two examples.

The names of arguments and options are never wrapped, and no type is printed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from glassformer.cli.console import standard_output

_EXAMPLES = "\nExamples:\n"  # in the docstring of a verb


def description_of(verb: Callable[..., None]) -> tuple[str, str]:
    """Return the paragraphs of a verb's docstring, and its examples, one a line."""
    text, _, examples = inspect.cleandoc(verb.__doc__ or "").partition(_EXAMPLES)
    paragraphs = (" ".join(paragraph.split("\n")) for paragraph in text.strip().split("\n\n"))
    return "\n\n".join(paragraphs), "\n".join(map(str.strip, examples.strip().splitlines()))


def usage_of(parameters: Sequence[Any]) -> list[str]:
    """Return what follows the name of a command: its arguments, the options that it needs, and the others."""
    words = []
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            word = parameter.metavar if parameter.nargs == 1 else f"{parameter.metavar}..."
            words.append(word if parameter.required else f"[{word}]")
    needed = [each for each in parameters if each.param_type_name == "option" and each.required]
    return [*words, *(f"{option.opts[0]} {option.metavar}" for option in needed), "[OPTIONS]"]


def print_help(command: Any, context: Any) -> None:
    """Print the help of a command, or of a group of commands, as wide as the terminal."""
    from rich.padding import Padding
    from rich.text import Text

    console = standard_output()
    console.print(Padding(Text(command.get_usage(context), style="bold"), (1, 1)))
    first, *more = (command.help or "").split("\n\n")
    console.print(Padding(Text(first), (0, 1, 1, 1)))
    for paragraph in more:
        console.print(Padding(Text(paragraph, style="dim"), (0, 1, 1, 1)))
    panels: dict[str, list[tuple[str, str]]] = {}
    for panel, name, text in (*_parameters(command, context), *_commands(command, context)):
        panels.setdefault(panel, []).append((name, text))
    width = max(len(name) for rows in panels.values() for name, _ in rows)
    for panel, rows in panels.items():
        _print_panel(panel, rows, width)
    if command.epilog:
        console.print(Text("Examples", style="bold"))
        console.print(Text("".join(f"  {line}\n" for line in command.epilog.splitlines())), soft_wrap=True)


def _parameters(command: Any, context: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the panel, the name and the text of each argument and option, those of `COMMON` last."""
    parameters = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
    for each in sorted(parameters, key=lambda each: (each.param_type_name != "argument", each.rich_help_panel or "")):
        if each.param_type_name == "argument":
            yield "Arguments", each.metavar, each.help or ""
            continue
        name = ", ".join(sorted((*each.opts, *each.secondary_opts), key=lambda name: not name.startswith("--")))
        if not each.is_flag and each.metavar is not None:
            name = f"{name} {each.metavar}"
        text = each.help or ""
        if each.show_default and not each.required and each.default not in (None, False, ()):
            text = f"{text} [default: {each.default}]"
        yield each.rich_help_panel or "Options", name, text


def _commands(command: Any, context: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the panel, the name and the first sentence of each command of a group."""
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        verb = command.get_command(context, name)
        yield verb.rich_help_panel, name, (verb.help or "").partition("\n\n")[0]


def _print_panel(title: str, rows: Sequence[tuple[str, str]], width: int) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, min_width=width, style="cyan")
    table.add_column(ratio=1)
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    standard_output().print(Panel(table, title=title, title_align="left", border_style="dim"))
