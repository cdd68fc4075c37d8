"""`glassformer score`: how probable given pairs are under a model."""

from __future__ import annotations

import sys

from glassformer.cli.console import Reporter, print_json, printable
from glassformer.cli.narrate import warn_unknown
from glassformer.cli.options import ColumnsWithLedger, Computing, Model, PairTable

_ONE_CELL = str.maketrans("\t\r\n", "   ")


def score(model: Model, table: PairTable, columns: ColumnsWithLedger, computing: Computing, reporter: Reporter) -> None:
    """Print the log-probability (nats) of each target of a table, given its source.

    Tab-separated: score, source, target (a tab or line break in them becomes a space, another control character an
    escape such as \\x1b). With --json one object a row, with the text as it is and the score of every token.
    """
    from glassformer.text.inputs import as_given, readable

    translator = computing.load(model)
    pairs = columns.read(reporter, table, translator.model_file)
    scores = translator.score(pairs.pairs, where=pairs.locations)
    warn_unknown(reporter, (scored.unknown for scored in scores))
    columns.write_ledger(reporter, pairs)
    for row, (source, target), scored in zip(pairs.rows, pairs.pairs, scores, strict=True):
        if reporter.as_json:
            given = as_given(source, translator.inputs)
            print_json({"row": row, "source": given, "target": target, **scored.to_json()}, indent=None)
        else:
            cells = (text.translate(_ONE_CELL) for text in (readable(source, translator.inputs), target))
            sys.stdout.write("\t".join([f"{scored.score:.4f}", *map(printable, cells)]) + "\n")
