"""`glassformer split`: a table in parts to train, validate and test on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, print_json
from glassformer.cli.narrate import print_parts, print_reading

PartsOut = Annotated[Path, typer.Option("--out", "-o", help="The folder to write: new, or empty.")]
_SIZE = "Rows to {} on: a fraction below 1, or a number of rows; 0: none."
ValidSize = Annotated[float, typer.Option("--valid", help=_SIZE.format("validate"))]
TestSize = Annotated[float, typer.Option("--test", help=_SIZE.format("test"))]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed of the choice.", rich_help_panel=opt.COMMON)]


def split(
    table: opt.PairTable,
    out: PartsOut,
    source: opt.SourceColumns = None,
    features: opt.FeatureColumns = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    valid: ValidSize = 0.1,
    test: TestSize = 0.1,
    seed: Seed = 1,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Split a table into files to train, validate and test on, so that no source is in two of them.

    Rows are copied as they are, with all columns, in the format of the table. rows.csv has the part of each row by its
    number, ledger.jsonl the rows that are in no part. A folder of tables, or a pattern, gives a folder for each part.
    """
    from glassformer.data.extracts import write_parts
    from glassformer.data.remote import is_address
    from glassformer.data.splits import split
    from glassformer.data.stored import source_hashes
    from glassformer.data.tables import read_table
    from glassformer.errors import UsageError
    from glassformer.paper.settings import DataSettings
    from glassformer.ship.storage.files import check_empty

    reporter = Reporter(quiet)
    check_empty(out)
    if is_address(table):
        raise UsageError("the parts of a remote table cannot be copied", where=table, hint="download it first")
    data = DataSettings(**opt.data_options(source, target, header, bad_rows, features)["data"])
    read = read_table(table, data)
    print_reading(reporter, read, out / "ledger.jsonl")
    parts = split(read.pairs, valid, test, seed)
    files = write_parts(read, data, parts, out)
    hashes = source_hashes(read.pairs)
    found = {
        name: {
            "rows": len(indices),
            "sources": len(set(hashes[indices].tolist())),
            "files": [str(file) for file in files[name]],
        }
        for name, indices in parts.items()
    }
    if as_json:
        print_json({"seed": seed, "left_out": len(read.ledger.entries), "parts": found})
    else:
        print_parts(found)
