"""`glassformer split`: a table in parts to train, validate and test on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from glassformer.cli.console import COMMON, Reporter, print_table
from glassformer.cli.narrate import print_ledger, print_reading
from glassformer.cli.options import ColumnOptions, PairTable

_SIZE = "Rows to {} on: a fraction below 1, or a number of rows; 0: none."


def split(
    table: PairTable,
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The folder to write: new, or empty.")],
    columns: ColumnOptions,
    reporter: Reporter,
    valid: Annotated[float, Option(metavar="SIZE", help=_SIZE.format("validate"))] = 0.1,
    test: Annotated[float, Option(metavar="SIZE", help=_SIZE.format("test"))] = 0.1,
    group: Annotated[
        str | None, Option(metavar="COLUMN", help="Keep all rows with the same value together, such as a lemma.")
    ] = None,
    seed: Annotated[int, Option(min=0, metavar="N", help="Random seed of the choice.", rich_help_panel=COMMON)] = 1,
) -> None:
    """Split a table into files to train, validate and test on, so that no source is in two of them.

    With --group, no value of that column is in two of them either: a test of lemmas that were never seen.

    Rows are written with all columns, in the format of the table. rows.csv has the part of each row by its
    number, ledger.jsonl the rows that are in no part. A folder of tables, or a pattern, gives a folder for each part.

    Examples:
        glassformer split pairs.csv --out parts
        glassformer split pairs.csv --out parts --valid 500 --test 0.2 --group lemma
    """
    from glassformer.data.extracts import write_parts
    from glassformer.data.rows import cells_of_column
    from glassformer.data.splits import source_hashes, split, text_hashes
    from glassformer.data.tables import read_table
    from glassformer.settings import DataSettings
    from glassformer.storage.files import check_empty

    check_empty(out)
    read = read_table(table, DataSettings(**columns.data))
    print_reading(reporter, read)
    print_ledger(reporter, read, out / "ledger.jsonl")
    groups = None if group is None else cells_of_column(read, group)
    parts = split(read.pairs, valid, test, seed, groups)
    files = write_parts(read, parts, out)
    hashes = {"sources": source_hashes(read.pairs)} | ({} if groups is None else {"groups": text_hashes(groups)})
    summary: dict[str, dict[str, Any]] = {
        name: {
            "rows": len(indices),
            **{kind: len(set(values[indices].tolist())) for kind, values in hashes.items()},
            "files": [str(file) for file in files[name]],
        }
        for name, indices in parts.items()
    }
    by = "source" if group is None else f"source and {group}"
    reporter.result(
        {"split_by": by, "seed": seed, "left_out": len(read.ledger.entries), "parts": summary},
        lambda: _print_parts(by, group, summary),
    )


def _print_parts(by: str, group: str | None, summary: dict[str, dict[str, Any]]) -> None:
    counts = ("rows", "sources", *(("groups",) if group is not None else ()))
    rows = [(name, *(part[count] for count in counts), ",".join(part["files"])) for name, part in summary.items()]
    kept_together = "no source" if group is None else f"no source and no {group}"
    print_table(f"split by {by}: {kept_together} is in two parts", ("part", *counts, "table"), rows)
