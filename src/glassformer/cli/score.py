"""`glassformer score`: how probable given pairs are under a model, and which of them it finds wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glassformer.cli.console import Reporter, print_json, printable, write_ledger
from glassformer.cli.narrate import warn_unknown
from glassformer.cli.options import Computing, LedgerOptions, Model, PairTable

if TYPE_CHECKING:
    from glassformer.data.tables import Table
    from glassformer.inference.translator import Translator

_ONE_CELL = str.maketrans("\t\r\n", "   ")


def score(
    model: Model,
    table: PairTable,
    columns: LedgerOptions,
    computing: Computing,
    reporter: Reporter,
    suspects: Annotated[
        int | None, Option(min=1, metavar="N", help="Print the N rows whose target is most probably wrong instead.")
    ] = None,
) -> None:
    """Print the log-probability (nats) of each target of a table, given its source.

    Tab-separated: score, source, target (a tab or line break in them becomes a space, another control character an
    escape such as \\x1b). With --json one object a row, with the text as it is and the score of every token.

    With --suspects: the rows for which the model has another answer that is more probable to it, the clearest first.
    Tab-separated: how much more probable (nats), row, source, target, answer.

    Examples:
        glassformer score run pairs.csv > scores.tsv
        glassformer score run pairs.csv --suspects 20
    """
    translator = computing.load(model)
    pairs = columns.read(reporter, table, translator.model_file)
    if suspects is None:
        _print_scores(reporter, translator, pairs)
    else:
        _print_suspects(reporter, translator, pairs, suspects)
    write_ledger(reporter, pairs.ledger, columns.ledger)


def _print_scores(reporter: Reporter, translator: Translator, pairs: Table) -> None:
    from glassformer.text.inputs import as_given, readable

    scores = translator.score(pairs.pairs, where=pairs.locations)
    warn_unknown(reporter, (scored.unknown for scored in scores))
    for row, (source, target), scored in zip(pairs.rows, pairs.pairs, scores, strict=True):
        if reporter.as_json:
            given = as_given(source, translator.inputs)
            print_json({"row": row, "source": given, "target": target, **scored.to_json()}, indent=None)
        else:
            _print_cells(f"{scored.score:.4f}", readable(source, translator.inputs), target)


def _print_suspects(reporter: Reporter, translator: Translator, pairs: Table, count: int) -> None:
    from glassformer.evaluation.suspects import suspects
    from glassformer.text.inputs import as_given, readable

    suspected = suspects(translator, pairs.pairs, where=pairs.locations)
    reporter.print(
        f"the model has a more probable answer for {len(suspected):,} of {len(pairs.pairs):,} rows; "
        f"the first {min(count, len(suspected)):,}:"
    )
    for suspect in suspected[:count]:
        if reporter.as_json:
            given = as_given(suspect.source, translator.inputs)
            where = {"file": pairs.file(suspect.index), "row": pairs.rows[suspect.index]}
            print_json({**where, **suspect.to_json(), "source": given}, indent=None)
        else:
            row = pairs.row_name(suspect.index).removeprefix("row ")
            _print_cells(
                f"{suspect.margin:.4f}",
                row,
                readable(suspect.source, translator.inputs),
                suspect.target,
                suspect.answer,
            )


def _print_cells(*texts: str) -> None:
    sys.stdout.write("\t".join(printable(text.translate(_ONE_CELL)) for text in texts) + "\n")
