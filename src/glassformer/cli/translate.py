"""`glassformer translate`: one line out for each line in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import (
    AsJson,
    BadRows,
    Beam,
    DecodePrecision,
    Device,
    Engine,
    Ensemble,
    Header,
    LedgerFile,
    Model,
    Quiet,
    Seed,
    SetDecoding,
    Voice,
    check_ledger,
    data_options,
    decoding_options,
    warn_unknown,
    write_ledger,
)
from glassformer.cli.narrate import say_column
from glassformer.errors import RunError, UsageError
from glassformer.files import check_path, check_writable, write_text

if TYPE_CHECKING:
    from glassformer.data.ledger import Ledger
    from glassformer.translator import Translation

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")


def translate(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="Plain lines; - is standard input. A table with --column."),
    ] = "-",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file to write (default: standard output).")] = None,
    beam: Beam = None,
    nbest: Annotated[int | None, typer.Option("--nbest", min=1, help="Answers for each line, as JSON Lines.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="The input is a table; translate this column.")] = None,
    header: Header = None,
    bad_rows: BadRows = None,
    ledger: LedgerFile = None,
    ensemble: Ensemble = None,
    assignments: SetDecoding = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out and --ledger.")] = False,
    device: Device = "auto",
    precision: DecodePrecision = "float32",
    engine: Engine = "torch",
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Translate lines of text, or a column of a table.

    Answer i belongs to line i; an empty line gives an empty line. With --json or --nbest an answer is one JSON object.
    """
    voice = Voice(quiet)
    if out is not None:
        check_path(out)
    if out is not None and out.exists() and not overwrite:
        raise RunError(
            "the output exists already; nothing was written",
            where=str(out),
            hint="--overwrite, or another --out",
        )
    if out is not None:
        check_writable(out)
    if ledger is not None and out is not None and ledger.resolve() == out.resolve():
        raise UsageError("--out and --ledger are the same file", where=str(out), hint="another --ledger")
    check_ledger(ledger, source, overwrite=overwrite)
    texts, found = _read(source, column, header, bad_rows, ledger, voice)
    from glassformer.translator import Translator

    options = decoding_options(assignments, num_beams=beam, num_return_sequences=nbest, seed=seed)
    n_best = options.get("num_return_sequences")
    if nbest is not None and "num_beams" not in options and "do_sample" not in options:
        options["num_beams"] = max(nbest, 5)
    translator = Translator.load(model, ensemble=ensemble or [], device=device, precision=precision, engine=engine)
    answers = translator.translate(texts, **options)
    if translator.proof:
        voice.say(str(translator.proof))
    _warn(voice, answers)
    write_ledger(voice, found, ledger)
    if as_json or n_best is not None:
        lines = [
            _json_line(row, text, answer) for row, (text, answer) in enumerate(zip(texts, answers, strict=True), 1)
        ]
    else:
        lines = [_one_line(answer.text) for answer in answers]
    _write(lines, out)
    if out is not None:
        voice.say(f"wrote {len(lines):,} lines to {out}")


def _read(
    source: str, column: str | None, header: bool | None, bad_rows: str | None, ledger: Path | None, voice: Voice
) -> tuple[list[str], Ledger]:
    """The texts to translate, and the ledger of the table that they are from."""
    from glassformer.data.tables import Ledger, read_column, read_lines
    from glassformer.settings import DataSettings

    if column is not None:
        if source == "-":
            raise UsageError("--column needs a table", got="standard input", hint="name a file: .csv, .tsv, .jsonl, …")
        found = read_column(source, column, DataSettings(**data_options(None, None, header, bad_rows)["data"]))
        say_column(voice, found, ledger)
        return found.cells, found.ledger
    if source != "-" and Path(source.removesuffix(".gz").removesuffix(".zst")).suffix.lower() in TABLE_SUFFIXES:
        raise UsageError(
            "this input is a table",
            where=source,
            hint="say which column to translate: --column NAME (or a position from 0)",
        )
    if header is not None or bad_rows is not None or ledger is not None:
        raise UsageError(
            "--header, --bad-rows and --ledger are for tables, and the input is plain lines", hint="--column NAME"
        )
    return read_lines(sys.stdin.buffer if source == "-" else source), Ledger()


def _warn(voice: Voice, answers: list[Translation]) -> None:
    warn_unknown(voice, (answer.unknown for answer in answers))
    cut = [row for row, answer in enumerate(answers, 1) if not answer.finished]
    if cut:
        named = ", ".join(map(str, cut[:10])) + (", …" if len(cut) > 10 else "")
        voice.warn(
            f"{len(cut):,} answers reached the longest length before their end, in lines {named}; "
            "--set decoding.max_new_tokens=N allows more"
        )


def _one_line(text: str) -> str:
    """An answer on one line, whatever it holds, so that line i stays the answer to line i."""
    return text.replace("\r", " ").replace("\n", " ")


def _json_line(row: int, text: str, answer: Translation) -> str:
    import json

    return json.dumps(
        {
            "row": row,
            "source": text,
            **_facts(answer),
            "alternatives": [_facts(each) for each in answer.alternatives],
        },
        ensure_ascii=False,
    )


def _facts(answer: Translation) -> dict[str, Any]:
    return {
        "text": answer.text,
        "score": answer.score,
        "rank_score": answer.rank_score,
        "finished": answer.finished,
        "tokens": list(answer.tokens),
    }


def _write(lines: list[str], out: Path | None) -> None:
    text = "".join(line + "\n" for line in lines)
    if out is not None:
        write_text(out, text)
        return
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.flush()
