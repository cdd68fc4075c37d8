"""`glassformer translate`: one row out for each row in."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from typer import Argument, Exit, Option

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, check_output, write_ledger
from glassformer.cli.narrate import (
    print_ledger,
    print_reading,
    warn_cut_off,
    warn_short_limit,
    warn_unknown_tokens,
    warn_unlike,
)
from glassformer.cli.progress import show_progress
from glassformer.errors import EXIT_LEFT_OUT, TableError, UsageError, counted, shortened

if TYPE_CHECKING:
    from glassformer.data.rows import OpenRows
    from glassformer.jobs.inputs import JobInput
    from glassformer.jobs.job import Job
    from glassformer.jobs.progress import JobProgress

_PATH = re.compile(r"\S*[/\\]\S*|~.*|.*\.[A-Za-z]\w{0,9}", re.DOTALL)  # of a file that does not exist
SHOWN_TEXT = 60  # characters of a text in a command


def translate(
    model: opt.Model,
    reporter: Reporter,
    source: Annotated[
        str,
        Argument(metavar="INPUT", help="A text, a file of plain lines, or a table file; - is standard input."),
    ] = "-",
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="FILE", help="A file to write (default and -: standard output).")
    ] = None,
    ledger: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Leave damaged rows empty, and write each row that has no text, with its reason, as JSON Lines.",
        ),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Resume the interrupted job of --out.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace --out and --ledger.")] = False,
    column: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="The input is a table; translate this column. Default for a table file: that of the training.",
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        Option(
            "--feature",
            metavar="NAME=VALUE",
            help="A further input of the model: its column in a table (default: the one of that name), or its value "
            "for plain lines, as in tags=V;PST (repeatable).",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None, Option(metavar="COLUMN,…", help="Columns to pass through, before the answers (repeatable).")
    ] = None,
    header: opt.Header = None,
    prefix: Annotated[
        str | None,
        Option(metavar="TEXT", help="The forced start of every answer; in a table, the column with that of each row."),
    ] = None,
    nbest: Annotated[
        int | None, Option(min=1, metavar="N", help="Number of answers for each line, as JSON Lines.")
    ] = None,
    min_confidence: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            metavar="P",
            help="Leave an answer empty if its confidence, the probability that it is right, is below P, such as 0.95. "
            "JSON and tables have it, with 0 too.",
        ),
    ] = None,
    alignments: Annotated[
        bool, Option("--alignments", help="Add pairs of source token and token of the answer, by attention: 0-0 1-2.")
    ] = False,
    must_match: Annotated[
        str | None, Option(metavar="REGEX", help="A regular expression for the whole answer (extra: constraints).")
    ] = None,
    choices: Annotated[
        Path | None, Option(metavar="FILE", help="A file with all possible answers, one a line.")
    ] = None,
    lexicon: Annotated[
        str | None,
        Option(metavar="TABLE", help="A table of pairs: its sources get its targets, other texts the model's."),
    ] = None,
    ensemble: opt.Ensemble = None,
    beam: opt.Beam = None,
    long: Annotated[
        str,
        Option(
            metavar="ACTION",
            help="A text longer than the model takes: skip (its row is left empty; exit code 4), stop (an error), or "
            "split (prose, at its sentences). A row without an input of the model: an error with stop, else left "
            "empty.",
        ),
    ] = "skip",
    assignments: opt.SetDecoding = None,
    device: opt.Device = "auto",
    on: Annotated[
        str | None, Option(metavar="ray", help="Translate on the machines of a Ray cluster (extra), or on all cores.")
    ] = None,
) -> None:
    """Translate lines of text, or a column of a table.

    Row i of the output answers row i of the input; an empty one is empty. With --json or --nbest: one JSON object each.

    Examples:
        glassformer translate run "July 20, 1969"
        glassformer translate run names.csv --column name --keep id --out answers.csv
    """
    from glassformer.jobs import requests
    from glassformer.storage.modelfile import ModelFile

    out = None if out == Path("-") else out
    options = opt.decoding_options(assignments, num_beams=beam, num_return_sequences=nbest)
    requests.check_cluster(on, source)
    check_output(ledger, "--ledger", overwrite=overwrite or resume)
    check_output(out, "--out", overwrite=True)  # it may be one to resume
    output, resumed = requests.choose_output(out, resume=resume, overwrite=overwrite)
    if output is not None and resumed is not None and output.is_finished(resumed):
        output.finish(resumed)
        reporter.print(f"{out} is complete; there was nothing left to do")
        return
    models = [ModelFile.load(path) for path in (model, *(ensemble or ()))]
    kept_columns = tuple(name for names in keep or () for name in names.split(",") if name)
    columns: dict[str, Any] = {"column": column, "features": features or (), "keep": kept_columns, "prefix": prefix}
    stream = _open_input(reporter, source, model, column, may_be_text=column is None and on is None)
    data = opt.given(header=opt.header_setting(header))
    given = requests.choose_input(stream, models[0], data=data, ledger=ledger is not None, **columns)
    allowed: dict[str, Any] = {"must_match": must_match, "choices": choices, "lexicon": lexicon}
    more: dict[str, Any] = {"long": long, "alignments": alignments, "min_confidence": min_confidence}
    decoding = models[0].settings.decoding.override(options)
    search = requests.choose_search(models, decoding, prefixes=bool(prefix), **allowed, **more)
    warn_short_limit(reporter, models[0], search.decoding)
    scanned = None if given.arrives else given.scan()
    with given.open() as opened:
        _print_input(reporter, given, scanned or opened, ledger)
        is_nbest = "num_return_sequences" in options
        layout = requests.choose_form(given, opened, out, search, full=reporter.as_json or is_nbest)
        with requests.job_output(output, out, sys.stdout.buffer) as destination:
            job = requests.make_job(given, opened, models, search, layout, destination, device=device, on=on)
            progress = _follow(reporter, job, opened, resumed, None if scanned is None else scanned.ledger.read)
    write_ledger(reporter, opened.ledger, ledger)
    if output is not None:
        reporter.print(f"wrote {counted(progress.rows, 'line' if layout.format == 'lines' else 'row')} to {out}")
    if progress.left_out.count:
        raise Exit(EXIT_LEFT_OUT)


def _is_text(source: str) -> bool:
    """Whether INPUT is no file, and does not have the form of a path."""
    return bool(source.strip("- ")) and not os.path.lexists(source) and not _PATH.fullmatch(source)


def _open_input(
    reporter: Reporter, source: str, model: Path, column: str | None, *, may_be_text: bool
) -> str | BinaryIO:
    """Return INPUT, a path or a stream. Raises TableError where it is no file, with how texts are translated."""
    from glassformer.data.formats import table_files
    from glassformer.data.lines import system_errors

    if not source:
        raise UsageError("there is nothing to translate", got="''", expected="a text, or a file")
    if source == "-":
        if sys.stdin.isatty():
            reporter.print("reading lines from the terminal; Ctrl-D ends")
        return _standard_input()
    if may_be_text and _is_text(source):
        reporter.print(f"there is no file {shortened(source)!r}: it is translated as a text")
        return io.BytesIO(f"{source}\n".encode())
    try:
        with system_errors(source):
            for path in [Path(source)] if column is None else table_files(source):
                path.stat()
    except TableError as error:
        if column is None:
            text = shlex.quote(source) if len(source) <= SHOWN_TEXT else "TEXT"
            command = f"as a text: echo {text} | glassformer translate {shlex.quote(str(model))}"
            error.hint = f"{error.hint} ({command})" if error.hint else command
        elif not _PATH.fullmatch(source):
            error.hint = "with --column, INPUT is a table; without --column, this text is translated"
        raise
    return source


def _standard_input() -> BinaryIO:
    """Return standard input as a stream of its own, which a thread can still be reading when the program ends."""
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, AttributeError):  # a stream that is not a file, as in a test
        return sys.stdin.buffer


def _follow(
    reporter: Reporter, job: Job, opened: OpenRows, resumed: JobProgress | None, total: int | None
) -> JobProgress:
    """Run a job to its end, with its progress and its warnings."""
    from glassformer.jobs.answers import UNMATCHED
    from glassformer.jobs.output import FileOutput
    from glassformer.jobs.progress import JobProgress

    progress = resumed or JobProgress()
    to_terminal = not isinstance(job.output, FileOutput) and sys.stdout.isatty()
    try:
        with show_progress(reporter, total, progress.rows, to_terminal=to_terminal) as on_answers:
            for done in job.run(opened, resumed, on_answers):
                progress = done
    finally:
        file = job.output if isinstance(job.output, FileOutput) else None
        if file is None or file.was_opened:
            if job.search.lexicon:
                rows = counted(progress.from_lexicon, "row was", "rows were")
                reporter.print(f"{rows} answered from the lexicon")
            warn_unknown_tokens(reporter, progress.unknown, progress.unknown_rows)
            warn_unlike(reporter, progress.unlike.count, progress.unlike.named)
            warn_cut_off(reporter, progress.unfinished.count, progress.unfinished.named)
            if progress.held_back:
                rows = counted(progress.held_back, "row is", "rows are")
                reporter.warn(f"{rows} left empty: the answer is too uncertain for --min-confidence")
            left_out = progress.left_out
            if left_out.count:
                rows = counted(left_out.count, "row was", "rows were")
                hint = "" if UNMATCHED in str(left_out) else "; --long stop makes this an error"
                reporter.warn(f"{rows} left empty: {left_out}{hint}")
            if file is not None and file.record.exists():
                reporter.print(f"{progress.rows:,} rows are done, in {file.part}; --resume continues")
    return progress


def _print_input(reporter: Reporter, given: JobInput, opened: OpenRows, ledger: Path | None) -> None:
    """Print how a table was read, or is being read if its rows arrive; `ledger` is the file for rows not kept."""
    if given.column is None:
        return
    n_texts, taken = len(given.texts), opened.taken
    text = f"column: {' + '.join(taken[:n_texts]).removeprefix('column ')}"
    if given.keep:
        text += f" · kept: {', '.join(taken[n_texts:][: len(given.keep)])}"
    if given.prefix is not None:
        text += f" · prefix: {taken[-1]}"
    print_reading(reporter, opened, text, arrives=given.arrives)
    if opened.header_guessed and not opened.header and given.trained and given.trained.target.name is not None:
        reporter.warn("the first row is translated, too; if it has the names of the columns: --header")
    print_ledger(reporter, opened, ledger)
    if n_empty := len(opened.ledger.entries):
        reporter.warn(f"{counted(n_empty, 'row has no cell and gets', 'rows have no cell and get')} an empty line")
