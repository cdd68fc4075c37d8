"""What the verbs share: options that mean the same everywhere, and how to speak.

Results go to standard output; everything else goes to standard error, and `--quiet` leaves only errors.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glassformer.files import shown
from glassformer.recipes.overrides import parse_assignments

if TYPE_CHECKING:
    from glassformer.data.ledger import Ledger

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.", rich_help_panel="Everywhere")]
DecodePrecision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="float32, bfloat16 or auto; int8 with ctranslate2. Only float32 promises the same answer in any batch.",
        rich_help_panel="Everywhere",
    ),
]
Engine = Annotated[
    str, typer.Option("--engine", help="torch, or ctranslate2 (an extra).", rich_help_panel="Everywhere")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel="Everywhere")]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON.", rich_help_panel="Everywhere")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Where chance starts.", rich_help_panel="Everywhere")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A .safetensors model file or a run directory.")]
PairTable = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="CSV, TSV, JSON Lines or Parquet (also .gz, .zst), or two text files: a.en,a.de"
    ),
]
SourceColumn = Annotated[
    str | None, typer.Option("--source", help="Column of the source: a name, or a position from 0.")
]
TargetColumn = Annotated[
    str | None, typer.Option("--target", help="Column of the target: a name, or a position from 0.")
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first row names the columns (default: look)."),
]
BadRows = Annotated[
    str | None, typer.Option("--bad-rows", help="What a damaged row does: stop, or skip (to the ledger).")
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Write each row that is not kept, and why, as JSON Lines.")
]
OverwriteLedger = Annotated[bool, typer.Option("--overwrite", help="Replace --ledger.")]
Beam = Annotated[int | None, typer.Option("--beam", min=1, help="Beam width; 1 is greedy search (default: 5).")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option("--ensemble", metavar="MODEL", help="A further model; probabilities are averaged (repeatable)."),
]
SetDecoding = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of the search: --set decoding.length_alpha=1")
]


def data_options(
    source: str | None, target: str | None, header: bool | None, bad_rows: str | None
) -> dict[str, dict[str, Any]]:
    """The options that say how a table is read, as settings."""
    options = {
        "source": source,
        "target": target,
        "header": {None: None, True: "yes", False: "no"}[header],
        "bad_rows": bad_rows,
    }
    return {"data": {name: value for name, value in options.items() if value is not None}}


def decoding_options(assignments: list[str] | None, **options: Any) -> dict[str, Any]:
    """`--set decoding.…` and the options of a verb as fields of DecodingSettings."""
    from glassformer.errors import SettingsError

    parsed: dict[str, dict[str, Any]] = parse_assignments(assignments or [])
    strangers = sorted(parsed.keys() - {"decoding"})
    if strangers:
        raise SettingsError(f"{strangers[0]!r} was decided when the model was trained", expected="decoding.name=value")
    return parsed.get("decoding", {}) | {name: value for name, value in options.items() if value is not None}


def check_ledger(path: Path | None, table: str, *, overwrite: bool) -> None:
    """Refuse a file for the ledger before work is done: one that exists, cannot be written, or is the table itself."""
    from glassformer.errors import RunError, UsageError
    from glassformer.files import check_writable

    if path is None:
        return
    if path.exists() and not overwrite:
        raise RunError(
            "the ledger exists already; nothing was written", where=str(path), hint="--overwrite, or another --ledger"
        )
    if os.path.realpath(path) in map(os.path.realpath, (table, *table.split(","))):
        raise UsageError("the ledger would replace the table", where=str(path), hint="another --ledger")
    check_writable(path)


def write_ledger(voice: Voice, ledger: Ledger, path: Path | None) -> None:
    """Write the entries to the file of `--ledger`, if there is one."""
    if path is not None:
        ledger.write(path)
        voice.say(f"wrote {len(ledger.entries):,} {'entry' if len(ledger.entries) == 1 else 'entries'} to {path}")


_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Text from a table, a model or a path for a terminal: what would act on it is seen instead, as \x1b is.

    That is control characters, line breaks among them, marks of writing direction and halves of surrogate pairs.
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """A message of ours: its line breaks stay, every line is `printable`."""
    return "\n".join(map(printable, text.split("\n")))


class Voice:
    """Speaks to people on standard error."""

    def __init__(self, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, emoji=False)

    def say(self, text: str) -> None:
        """A plain line; nothing in it is markup, or acts on the terminal."""
        self.console.print(escape(printable_lines(text)), soft_wrap=True)

    def warn(self, text: str) -> None:
        self.console.print(f"[yellow]warning:[/yellow] {escape(printable_lines(text))}", soft_wrap=True)

    def done(self, text: str) -> None:
        self.console.print(f"[green]{escape(printable_lines(text))}[/green]", soft_wrap=True)

    def table(self, title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        self.console.print(plain_table(title, columns, rows))


def warn_unknown(voice: Voice, unknown: Iterable[Sequence[str]]) -> None:
    """Count what the vocabulary did not have; `unknown` holds those tokens for each line."""
    counts: Counter[str] = Counter()
    n_lines = 0
    for tokens in unknown:
        counts.update(tokens)
        n_lines += bool(tokens)
    if counts:
        shown = ", ".join(f"{token!r} ({count:,})" for token, count in counts.most_common(10))
        voice.warn(f"{counts.total():,} unknown tokens in {n_lines:,} lines were read as <unk>: {shown}")


def plain_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """A table for people; cells are text, never markup, each on one line."""
    table = Table(title=escape(printable(title)), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, style=None if column else "dim", overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    return table


def print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """The result of a verb as a table on standard output."""
    Console(highlight=False, emoji=False).print(plain_table(title, columns, rows))


def print_json(value: Any) -> None:
    """The result of a verb as one JSON document on standard output."""
    sys.stdout.write(shown(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")


def print_json_line(value: Any) -> None:
    sys.stdout.write(shown(json.dumps(value, ensure_ascii=False)) + "\n")
