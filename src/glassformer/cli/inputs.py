"""Input of the verbs: the pairs of a table. The path of the ledger is checked before they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.console import Reporter, check_output
from glassformer.cli.narrate import print_reading

if TYPE_CHECKING:
    from glassformer.data.tables import Table
    from glassformer.ship.storage.modelfile import ModelFile


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
    from glassformer.paper.settings import DataSettings

    check_output(ledger, "--ledger", overwrite=overwrite, inputs=path)
    given = data["data"]
    if model_file is not None:
        given = columns_of_model(model_file.source_tokenizer.inputs, model_file.data.columns[1], given)
    table = read_table(path, DataSettings(**given))
    print_reading(reporter, table, ledger)
    return table
