"""`glassformer translate`: one line out for each line in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, check_output, write_ledger
from glassformer.cli.inputs import read_texts
from glassformer.cli.narrate import warn_unfinished, warn_unknown
from glassformer.errors import UsageError
from glassformer.files import shown, write_text

if TYPE_CHECKING:
    from glassformer.text.inputs import Inputs
    from glassformer.translator import Translation

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
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace --out and --ledger.")]


def translate(
    model: opt.Model,
    source: Input = "-",
    out: Out = None,
    beam: opt.Beam = None,
    nbest: opt.NBest = None,
    column: TextColumn = None,
    features: Features = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    ledger: opt.LedgerFile = None,
    ensemble: opt.Ensemble = None,
    assignments: opt.SetDecoding = None,
    overwrite: Overwrite = False,
    device: opt.Device = "auto",
    precision: opt.DecodePrecision = "float32",
    engine: opt.Engine = "torch",
    seed: opt.SamplingSeed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Translate lines of text, or a column of a table.

    Answer i belongs to line i; an empty line gives an empty line. With --json or --nbest an answer is one JSON object.
    """
    from glassformer.translator import Translator

    reporter = Reporter(quiet)
    _check_outputs(out, ledger, source, overwrite=overwrite)
    options = opt.decoding_options(assignments, num_beams=beam, num_return_sequences=nbest, seed=seed)
    translator = Translator.load(model, ensemble=ensemble or [], device=device, precision=precision, engine=engine)
    data, inputs = opt.data_options(None, None, header, bad_rows), translator.inputs
    texts, found = read_texts(reporter, source, column, data, ledger, inputs=inputs, features=features or ())
    answers = translator.translate(texts, **options)
    if translator.agreement:
        reporter.print(str(translator.agreement))
    warn_unknown(reporter, (answer.unknown for answer in answers))
    warn_unfinished(reporter, answers)
    write_ledger(reporter, found, ledger)
    _write(reporter, _lines(texts, answers, inputs, as_json or "num_return_sequences" in options), out)


def _check_outputs(out: Path | None, ledger: Path | None, source: str, *, overwrite: bool) -> None:
    check_output(out, "--out", overwrite=overwrite)
    if ledger is not None and out is not None and ledger.resolve() == out.resolve():
        raise UsageError("--out and --ledger are the same file", where=str(out), hint="another --ledger")
    check_output(ledger, "--ledger", overwrite=overwrite, inputs=source)


def _lines(texts: list[str], answers: list[Translation], inputs: Inputs, as_json: bool) -> list[str]:
    """One line for each text, whatever the answer holds, so that line i stays the answer to line i."""
    from glassformer.text.inputs import as_given

    if not as_json:
        return [answer.text.replace("\r", " ").replace("\n", " ") for answer in answers]
    rows = enumerate(zip(texts, answers, strict=True), 1)
    objects = ({"row": row, "source": as_given(text, inputs), **answer.to_json()} for row, (text, answer) in rows)
    return [json.dumps(answer, ensure_ascii=False) for answer in objects]


def _write(reporter: Reporter, lines: list[str], out: Path | None) -> None:
    text = "".join(line + "\n" for line in lines)
    if out is None:
        sys.stdout.buffer.write(shown(text).encode())
        sys.stdout.flush()
        return
    write_text(out, text)
    reporter.print(f"wrote {len(lines):,} lines to {out}")
