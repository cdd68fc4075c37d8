"""`glassformer score`: how likely a model finds given pairs."""

from __future__ import annotations

import sys

from glassformer.cli.console import (
    AsJson,
    BadRows,
    DecodePrecision,
    Device,
    Ensemble,
    Header,
    LedgerFile,
    Model,
    OverwriteLedger,
    PairTable,
    Quiet,
    SourceColumn,
    TargetColumn,
    Voice,
    check_ledger,
    data_options,
    print_json_line,
    printable,
    warn_unknown,
    write_ledger,
)
from glassformer.cli.narrate import say_table

_ONE_CELL = str.maketrans("\t\r\n", "   ")


def score(
    model: Model,
    table: PairTable,
    source: SourceColumn = None,
    target: TargetColumn = None,
    header: Header = None,
    bad_rows: BadRows = None,
    ledger: LedgerFile = None,
    overwrite: OverwriteLedger = False,
    ensemble: Ensemble = None,
    device: Device = "auto",
    precision: DecodePrecision = "float32",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Log-probability (nats) of each target of a table, given its source.

    Tab-separated: score, source, target (a tab or line break in them becomes a space, another control character an
    escape such as \\x1b). With --json one object a row, with the text as it is and the score of every token.
    """
    from glassformer.data.tables import read_table
    from glassformer.settings import DataSettings
    from glassformer.translator import Translator

    check_ledger(ledger, table, overwrite=overwrite)
    pairs = read_table(table, DataSettings(**data_options(source, target, header, bad_rows)["data"]))
    voice = Voice(quiet)
    say_table(voice, pairs, ledger)
    translator = Translator.load(model, ensemble=ensemble or [], device=device, precision=precision)
    scores = translator.score(pairs.pairs, where=pairs.places)
    warn_unknown(voice, (each.unknown for each in scores))
    write_ledger(voice, pairs.ledger, ledger)
    for row, pair, scored in zip(pairs.rows, pairs.pairs, scores, strict=True):
        if as_json:
            tokens = [list(each) for each in zip(scored.tokens, scored.token_scores, strict=True)]
            print_json_line(
                {
                    "row": row,
                    "source": pair.source,
                    "target": pair.target,
                    "score": scored.score,
                    "tokens": tokens,
                }
            )
        else:
            source_cell, target_cell = (printable(text.translate(_ONE_CELL)) for text in pair)
            sys.stdout.write(f"{scored.score:.4f}\t{source_cell}\t{target_cell}\n")
