"""`glassformer translate`: one row out for each row in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter
from glassformer.cli.jobs import Files, Models, Rows, Shape, run_job

Input = Annotated[str, typer.Argument(metavar="INPUT", help="Plain lines; - is standard input. A table with --column.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="A file to write (default: standard output).")]
TextColumn = Annotated[str | None, typer.Option("--column", help="The input is a table; translate this column.")]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="NAME=VALUE",
        help="A further input of the model: its column in a table (default: the one of that name), or its value for "
        "plain lines, as in tags=V;PST (repeatable).",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN,…", help="Columns to pass through, before the answers (repeatable)."),
]
From = Annotated[
    str | None,
    typer.Option("--from", help="Table on standard input: csv, tsv, jsonl, parquet (default: by its first line)."),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="lines, csv, tsv, jsonl or parquet (default: by the suffix of --out; with --keep as the input; or lines).",
    ),
]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="The forced start of every answer.")]
PrefixColumn = Annotated[str | None, typer.Option("--prefix-column", help="The column with the forced starts.")]
Scores = Annotated[bool, typer.Option("--scores", help="Add the log-probability (nats) of each answer and its tokens.")]
Alignments = Annotated[
    bool, typer.Option("--alignments", help="Add pairs of source token and token of the answer, by attention: 0-0 1-2.")
]
Long = Annotated[
    str,
    typer.Option(
        "--long",
        help="A text longer than the model takes: skip (its row is left empty; exit code 4), stop (an error), or "
        "split (prose, at its sentences). A row without an input of the model: an error with stop, else left empty.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the interrupted job of --out.")]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="ray", help="Translate on the machines of a Ray cluster (extra), or on all cores."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace --out and --ledger.")]


def translate(
    model: opt.Model,
    source: Input = "-",
    out: Out = None,
    beam: opt.Beam = None,
    nbest: opt.NBest = None,
    column: TextColumn = None,
    features: Features = None,
    keep: Keep = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    ledger: opt.LedgerFile = None,
    from_: From = None,
    to: To = None,
    prefix: Prefix = "",
    prefix_column: PrefixColumn = None,
    scores: Scores = False,
    alignments: Alignments = False,
    long: Long = "skip",
    ensemble: opt.Ensemble = None,
    assignments: opt.SetDecoding = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    on: On = None,
    device: opt.Device = "auto",
    precision: opt.DecodePrecision = "float32",
    engine: opt.Engine = "torch",
    seed: opt.SamplingSeed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Translate lines of text, or a column of a table.

    Row i of the output answers row i of the input; an empty one is empty. With --json or --nbest: one JSON object each.
    """
    options = opt.decoding_options(assignments, num_beams=beam, num_return_sequences=nbest, seed=seed)
    files = Files(out, ledger, resume, overwrite)
    models = Models(model, ensemble or [], device, precision, engine, on)
    rows = Rows(source, column, features or [], keep or [], prefix_column, from_, header, bad_rows)
    shape = Shape(to, as_json or "num_return_sequences" in options, scores, alignments)
    run_job(Reporter(quiet), files, models, rows, shape, options, prefix=prefix, long=long)
