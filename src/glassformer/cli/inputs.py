"""Input of the verbs: the pairs of a table, or texts. The path of the ledger is checked before they are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.console import Reporter, check_output
from glassformer.cli.narrate import print_column_reading, print_reading
from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.data.ledger import Ledger
    from glassformer.data.tables import Table
    from glassformer.modelfile import ModelFile
    from glassformer.text.inputs import Inputs

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")


def read_pairs(
    reporter: Reporter,
    path: str,
    data: dict[str, Any],
    ledger: Path | None,
    *,
    overwrite: bool,
    model_file: ModelFile | None = None,
) -> Table:
    """Read the pairs of a table; `data` is that of `data_options`, `ledger` the file for rows not kept.

    With a model that has several inputs, columns that were not given have the names that it was trained with.
    """
    from glassformer.data.columns import columns_of_model
    from glassformer.data.tables import read_table
    from glassformer.settings import DataSettings

    check_output(ledger, "--ledger", overwrite=overwrite, inputs=path)
    given = data["data"]
    if model_file is not None:
        given = columns_of_model(model_file.source_tokenizer.inputs, model_file.data.columns[1], given)
    table = read_table(path, DataSettings(**given))
    print_reading(reporter, table, ledger)
    return table


def read_texts(
    reporter: Reporter,
    source: str,
    column: str | None,
    data: dict[str, Any],
    ledger: Path | None,
    *,
    inputs: Inputs = (),
    features: Sequence[str] = (),
) -> tuple[list[str], Ledger]:
    """Read the texts to translate, plain lines or a column, and return them with the ledger of their table.

    `inputs` are those of a model with several; `features` are the options `--feature` for all but the first.
    """
    from glassformer.data.tables import Ledger, read_column, read_lines
    from glassformer.settings import DataSettings
    from glassformer.text.inputs import compose_cells, named_values

    is_table = source != "-" and Path(source.removesuffix(".gz").removesuffix(".zst")).suffix.lower() in TABLE_SUFFIXES
    if is_table and column is None and inputs:
        column = inputs[0].name
    others = list(named_values(inputs[1:], features, is_column=column is not None).values())
    if column is not None:
        if source == "-":
            raise UsageError("--column needs a table", got="standard input", hint="name a file: .csv, .tsv, .jsonl, …")
        found = read_column(source, column, DataSettings(**data["data"]), inputs=inputs, others=others)
        print_column_reading(reporter, found, ledger)
        return found.cells, found.ledger
    if is_table:
        raise UsageError(
            "this input is a table",
            where=source,
            hint="name the column to translate: --column NAME (or a position from 0)",
        )
    if data["data"] or ledger is not None:
        raise UsageError(
            "--header, --bad-rows and --ledger are for tables, and the input is plain lines", hint="--column NAME"
        )
    lines = read_lines(sys.stdin.buffer if source == "-" else source)
    if inputs:
        lines = [compose_cells([line, *others], inputs, f"line {row}") for row, line in enumerate(lines, 1)]
    return lines, Ledger()
