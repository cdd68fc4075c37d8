"""Output of the verbs: to the terminal, and to files.

Results go to standard output; everything else goes to standard error, and `--quiet` leaves only errors.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.data.digits import six_digits
from glassformer.errors import RunError, counted
from glassformer.storage.files import check_path, check_writable, shown

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

    from glassformer.data.ledger import Ledger

COMMON = "Common options"
WARNING = "warning:"
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but results and errors.", rich_help_panel=COMMON)]
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Escape control characters in text from a table, a model or a path, so that a terminal shows them: \x1b.

    These include line breaks, marks of writing direction and lone surrogates.
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """Make each line of a message printable; its line breaks stay."""
    return "\n".join(map(printable, text.split("\n")))


def is_first_process() -> bool:
    """Whether this is the first of the processes that `torchrun` started, which speaks for all."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK") == "0"


class OptionGroup:
    """Options that several verbs share, as attributes with a default (see `command.as_options`)."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)


class Reporter(OptionGroup):
    """The options of what is printed, and what prints: results to standard output, messages to standard error.

    With `quiet`, and in all but the first process, it prints no messages.
    """

    quiet: Quiet = False
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.", rich_help_panel=COMMON)] = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        warnings.showwarning = lambda message, *_, **__: self.warn(str(message))

    @cached_property
    def console(self) -> Console:
        """The terminal or file of the messages."""
        return _console(stderr=True, quiet=self.quiet or not is_first_process())

    def result(self, value: Any, show: Callable[[], None], *, is_exact: bool = False) -> None:
        """Print the result of a verb: with --json as JSON, otherwise as `show` prints it."""
        print_json(value, is_exact=is_exact) if self.as_json else show()

    def print(self, text: str, *, style: str = "") -> None:
        """Print text without markup; control characters are escaped."""
        self.console.print(_text((wrapped(printable_lines(text), self.console), style)), soft_wrap=True)

    def success(self, text: str) -> None:
        self.print(text, style="green")

    def command(self, command: str) -> None:
        """Print a command on a line of its own, without line breaks, so that it can be copied."""
        self.console.print(_text(f"  {printable(command)}"), soft_wrap=True)

    def warn(self, text: str) -> None:
        first, rest = WARNING, wrapped(f"{WARNING} {printable_lines(text)}", self.console).removeprefix(WARNING)
        self.console.print(_text((first, "yellow"), rest), soft_wrap=True)


def wrapped(text: str, console: Console) -> str:
    """Return a text for a terminal, whose lines break between words only; for a file as it is."""
    if not console.is_terminal:
        return text
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapper = textwrap.TextWrapper(console.width, subsequent_indent=indent, replace_whitespace=False)
        wrapper.break_long_words = wrapper.break_on_hyphens = False
        lines += wrapper.wrap(line) or [""]
    return "\n".join(lines)


def plain_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], *, dim: bool = False) -> Group:
    """Return a table to print under its title; a cell is text without markup or line breaks, a number, or None."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, style="dim" if dim else "")
    for column in columns:
        table.add_column(column, style=None if column else "dim", overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(_cell(value))) for value in row))
    # A title of a Table is no wider than its rows.
    return Group(_text((printable(title), "dim" if dim else "bold")), table)


def _cell(value: Any) -> str:
    """Return a number as text: 1,234 or 0.1234; None is empty."""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], *, dim: bool = False) -> None:
    """Print the result of a verb as a table on standard output."""
    standard_output().print(plain_table(title, columns, rows, dim=dim))


def print_line(text: str = "", *, style: str = "") -> None:
    """Print a line of the result of a verb."""
    console = standard_output()
    console.print(_text((wrapped(printable(text), console), style)), soft_wrap=True)


def standard_output() -> Console:
    """The terminal or file of the results; nothing is printed to it in all but the first process."""
    return _console(quiet=not is_first_process())


def _console(**options: Any) -> Console:
    from rich.console import Console  # here and above: a verb that prints no message does not import it

    return Console(highlight=False, emoji=False, **options)


def _text(*parts: str | tuple[str, str]) -> Text:
    from rich.text import Text

    return Text.assemble(*parts)


def print_json(value: Any, indent: int | None = 2, *, is_exact: bool = False) -> None:
    """Print the result of a verb as one JSON document on standard output, in the first process.

    Numbers have six significant digits, unless `is_exact`.
    """
    if is_first_process():
        sys.stdout.write(
            shown(json.dumps(value if is_exact else six_digits(value), ensure_ascii=False, indent=indent)) + "\n"
        )


def check_output(path: Path | None, option: str, *, overwrite: bool) -> None:
    """Check an output before any work. Raises an error for one that exists or cannot be written."""
    if path is None:
        return
    check_path(path)
    if path.exists() and not overwrite:
        what, hint = "the output exists already; nothing was written", f"--overwrite, or another {option}"
        raise RunError(what, where=str(path), hint=hint)
    check_writable(path)


def write_ledger(reporter: Reporter, ledger: Ledger, path: Path | None) -> None:
    """Write the entries to the file of `--ledger`, if there is one."""
    if path is not None:
        ledger.write(path)
        reporter.print(f"wrote {counted(len(ledger.entries), 'entry', 'entries')} to {path}")


def print_error(text: str) -> None:
    """Print an error, also where nothing else is printed; what to do next may be a command, and is not wrapped."""
    text = printable_lines(text)
    with contextlib.suppress(OSError):
        if sys.stderr.isatty():
            said, separator, command = text.partition("\n  next: ")
            text = wrapped(said, _console(stderr=True)) + separator + command
        sys.stderr.write(text + "\n")
