"""`glassformer score`: how probable given pairs are under a model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, print_json_line, printable, write_ledger
from glassformer.cli.inputs import read_pairs
from glassformer.cli.narrate import warn_unknown

if TYPE_CHECKING:
    from glassformer.data.tables import Table
    from glassformer.inference.translator import PairScore
    from glassformer.text.inputs import Inputs

_ONE_CELL = str.maketrans("\t\r\n", "   ")


def score(
    model: opt.Model,
    table: opt.PairTable,
    source: opt.SourceColumns = None,
    features: opt.ModelFeatures = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    ledger: opt.LedgerFile = None,
    overwrite: opt.OverwriteLedger = False,
    ensemble: opt.Ensemble = None,
    device: opt.Device = "auto",
    precision: opt.DecodePrecision = "float32",
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Print the log-probability (nats) of each target of a table, given its source.

    Tab-separated: score, source, target (a tab or line break in them becomes a space, another control character an
    escape such as \\x1b). With --json one object a row, with the text as it is and the score of every token.
    """
    from glassformer.inference.translator import Translator

    reporter = Reporter(quiet)
    data = opt.data_options(source, target, header, bad_rows, features)
    translator = Translator.load(model, ensemble=ensemble or [], device=device, precision=precision)
    pairs = read_pairs(reporter, table, data, ledger, overwrite=overwrite, model_file=translator.model_file)
    scores = translator.score(pairs.pairs, where=pairs.locations)
    warn_unknown(reporter, (scored.unknown for scored in scores))
    write_ledger(reporter, pairs.ledger, ledger)
    _print(pairs, scores, translator.inputs, as_json)


def _print(table: Table, scores: list[PairScore], inputs: Inputs, as_json: bool) -> None:
    from glassformer.text.inputs import as_given, readable

    for row, pair, scored in zip(table.rows, table.pairs, scores, strict=True):
        if as_json:
            source_given = as_given(pair.source, inputs)
            print_json_line({"row": row, "source": source_given, "target": pair.target, **scored.to_json()})
        else:
            cells = (readable(pair.source, inputs), pair.target)
            source_cell, target_cell = (printable(text.translate(_ONE_CELL)) for text in cells)
            sys.stdout.write(f"{scored.score:.4f}\t{source_cell}\t{target_cell}\n")
