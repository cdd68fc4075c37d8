"""A translation job of the command line: its files, its input, its output, and its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import typer

from glassformer.cli.console import Reporter, check_output, write_ledger
from glassformer.cli.narrate import warn_short_limit
from glassformer.cli.narrate_job import print_input, show_progress, warn_about
from glassformer.cli.options import data_options
from glassformer.errors import EXIT_LEFT_OUT, UsageError, nearest

if TYPE_CHECKING:
    from glassformer.data.rows import OpenRows
    from glassformer.inference.jobs.inputs import Input
    from glassformer.inference.jobs.job import Job, Workers
    from glassformer.inference.jobs.layout import Layout
    from glassformer.inference.jobs.output import FileOutput
    from glassformer.inference.jobs.progress import Progress
    from glassformer.inference.jobs.stream import Long
    from glassformer.inference.translator import Translator
    from glassformer.ship.storage.modelfile import ModelFile
    from glassformer.text.inputs import Inputs

RAY = "ray"
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Files:
    """The files that a job writes, and whether it may replace or resume them."""

    out: Path | None
    ledger: Path | None
    resume: bool
    overwrite: bool

    def check(self, source: str) -> tuple[FileOutput | None, Progress | None]:
        """Return the output, and the progress to resume, before any work. Raises an error for files in the way."""
        from glassformer.inference.jobs.output import FileOutput

        out, ledger = self.out, self.ledger
        if ledger is not None and out is not None and ledger.resolve() == out.resolve():
            raise UsageError("--out and --ledger are the same file", where=str(out), hint="another --ledger")
        check_output(ledger, "--ledger", overwrite=self.overwrite or self.resume, inputs=source)
        if out is not None:
            check_output(out, "--out", overwrite=True, inputs=source)
        if out is None or _is_device(out):
            if self.resume:
                raise UsageError("only a file can be resumed", hint="--out FILE")
            return None, None
        output = FileOutput(out)
        return output, output.check(resume=self.resume, overwrite=self.overwrite)


@dataclass(frozen=True)
class Models:
    """The models that translate, and where they run."""

    path: Path
    ensemble: Sequence[Path]
    device: str
    precision: str
    engine: str
    on: str | None = None

    def check(self, source: str) -> None:
        """Raise UsageError for another --on than Ray, and for an input that it cannot have, before any work."""
        if self.on is None:
            return
        from glassformer.inference.jobs.on_ray import load_ray

        if self.on != RAY:
            raise UsageError(f"--on {self.on} is not available", hint=nearest(self.on, [RAY]))
        if source == "-":
            raise UsageError("--on ray is for a file, and the input is standard input", hint="a table, or lines")
        load_ray()

    def read(self) -> list[ModelFile]:
        """Read the model files."""
        from glassformer.ship.storage.modelfile import ModelFile

        return [ModelFile.load(path) for path in (self.path, *self.ensemble)]

    def load(self, files: Sequence[ModelFile]) -> Translator:
        """Create the translator of the files."""
        from glassformer.inference.translator import Translator

        first, *others = files
        return Translator(first, ensemble=others, device=self.device, precision=self.precision, engine=self.engine)

    def workers(self, files: Sequence[ModelFile], *, alignments: bool) -> Workers:
        """Return what translates with these files: this process, or Ray."""
        from glassformer.inference.jobs.job import Here

        if self.on is None:
            return Here.of(self.load(files), alignments=alignments)
        from glassformer.inference.jobs.on_ray import OnRay

        return OnRay(self.load, files, alignments, n_gpus=int(self.device.startswith("cuda")))


@dataclass(frozen=True)
class Rows:
    """The options that say what is translated."""

    source: str
    column: str | None
    features: Sequence[str]
    keep: Sequence[str]
    prefix_column: str | None
    from_: str | None
    header: bool | None
    bad_rows: str | None

    def input(self, inputs: Inputs, ledger: Path | None) -> Input:
        """Return what is translated by a model with these inputs.

        Raises UsageError for a table without a column, and for options of tables with plain lines.
        """
        from glassformer.inference.jobs.inputs import Input
        from glassformer.paper.settings import DataSettings
        from glassformer.text.inputs import named_values

        data = data_options(None, None, self.header, self.bad_rows)["data"]
        is_stdin = self.source == "-"
        name = Path(self.source.removesuffix(".gz").removesuffix(".zst"))
        is_table = self.from_ is not None if is_stdin else name.suffix.lower() in TABLE_SUFFIXES
        column = inputs[0].name if is_table and inputs and self.column is None else self.column
        if column is None and is_table:
            raise UsageError(
                "this input is a table",
                where="standard input" if is_stdin else self.source,
                hint="name the column to translate: --column NAME (or a position from 0)",
            )
        if column is None and (data or ledger is not None):
            raise UsageError(
                "--header, --bad-rows and --ledger are for tables, and the input is plain lines", hint="--column NAME"
            )
        if self.from_ is not None and not is_stdin:
            hint = "a file has the suffix of its format"
            raise UsageError("--from is for standard input", where=self.source, hint=hint)
        return Input(
            _standard_input() if is_stdin else self.source,
            column,
            inputs=inputs,
            others=tuple(named_values(inputs[1:], self.features, is_column=column is not None).values()),
            keep=tuple(name for names in self.keep for name in names.split(",") if name),
            prefix_column=self.prefix_column,
            suffix=None if self.from_ is None else f".{self.from_}",
            data=DataSettings(**data),
        )


@dataclass(frozen=True)
class Shape:
    """What of an answer is written, and how."""

    to: str | None
    full: bool
    scores: bool
    alignments: bool

    def layout(self, given: Input, opened: OpenRows, out: Path | None) -> Layout:
        """Return the form of the output. Raises UsageError for options that conflict."""
        from glassformer.data.rows import PLAIN
        from glassformer.inference.jobs.layout import Layout, choose_format, free_name

        columns = bool(given.keep) or self.scores or self.alignments
        form = choose_format(self.to, out, opened.format, full=self.full, columns=columns and not self.full)
        kept = opened.names[len(given.texts) :][: len(given.keep)]
        header = opened.header or opened.format in (PLAIN, "parallel text")
        layout = Layout(form, self.full, self.scores, self.alignments, kept, free_name(kept), header)
        if len(set(layout.names)) < len(layout.names):
            what = "two columns of the output have the same name"
            raise UsageError(what, got=", ".join(layout.names), hint="leave one out of --keep")
        return layout


def _standard_input() -> BinaryIO:
    """Return standard input as a stream of its own, which a thread can still be reading when the program ends."""
    try:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, AttributeError):  # a stream that is not a file, as in a test
        return sys.stdin.buffer


def run_job(
    reporter: Reporter,
    files: Files,
    models: Models,
    rows: Rows,
    shape: Shape,
    options: dict[str, Any],
    *,
    prefix: str,
    long: str,
) -> None:
    """Translate rows with these models and options of the search. Raises typer.Exit when rows were left out."""
    from glassformer.inference.jobs.job import Job, describe_job
    from glassformer.inference.jobs.output import StreamOutput
    from glassformer.inference.jobs.stream import Search

    if prefix and rows.prefix_column is not None:
        raise UsageError("--prefix and --prefix-column are both given", hint="give one of them")
    models.check(rows.source)
    output, resumed = files.check(rows.source)
    if output is not None and resumed is not None and output.is_finished(resumed):
        output.finish(resumed)
        reporter.print(f"{files.out} is complete; there was nothing left to do")
        return
    model_files = models.read()
    given = rows.input(model_files[0].source_tokenizer.inputs, files.ledger)
    search = Search(model_files[0].settings.decoding.override(options), cast("Long", long))
    warn_short_limit(reporter, model_files[0], search.decoding)
    scanned = None if given.arrives else given.scan()
    if scanned is not None:
        print_input(reporter, given, scanned, files.ledger)
    with ExitStack() as stack:
        opened = stack.enter_context(given.open())
        if scanned is None:
            print_input(reporter, given, opened, files.ledger)
        layout = shape.layout(given, opened, files.out)
        if output is not None and layout.format == "parquet":
            output.parquet = layout.names
        name = describe_job(
            model_files, search, layout, opened, prefix=prefix, precision=models.precision, engine=models.engine
        )
        stream = output or StreamOutput(stack.enter_context(_output_stream(files.out)))
        workers = models.workers(model_files, alignments=shape.alignments)
        job = Job(given, workers, search, layout, stream, prefix, name)
        progress = _follow(reporter, job, opened, resumed, None if scanned is None else scanned.ledger.read)
    write_ledger(reporter, opened.ledger, files.ledger)
    if output is not None:
        reporter.print(f"wrote {progress.rows:,} {'lines' if layout.format == 'lines' else 'rows'} to {files.out}")
    if progress.left_out.count:
        raise typer.Exit(EXIT_LEFT_OUT)


def _follow(reporter: Reporter, job: Job, opened: OpenRows, resumed: Progress | None, total: int | None) -> Progress:
    """Run a job to its end, with its progress and its warnings."""
    from glassformer.inference.jobs.job import Here
    from glassformer.inference.jobs.output import FileOutput
    from glassformer.inference.jobs.progress import Progress

    progress = resumed or Progress()
    to_terminal = not isinstance(job.output, FileOutput) and sys.stdout.isatty()
    try:
        with show_progress(reporter, total, progress.rows, to_terminal=to_terminal) as on_answers:
            for done in job.run(opened, resumed, on_answers):
                progress = done
    finally:
        if isinstance(job.workers, Here) and job.workers.translator.agreement:
            reporter.print(str(job.workers.translator.agreement))
        warn_about(reporter, progress)
        if isinstance(job.output, FileOutput) and job.output.record.exists():
            reporter.print(f"{progress.rows:,} rows are done, in {job.output.part}; --resume continues")
    return progress


@contextmanager
def _output_stream(out: Path | None) -> Iterator[BinaryIO]:
    """Open standard output, or a device or pipe."""
    if out is None:
        yield sys.stdout.buffer
    else:
        from glassformer.ship.storage.files import cannot_write

        try:
            with out.open("wb") as stream:
                yield stream
        except BrokenPipeError:
            raise
        except OSError as error:
            raise cannot_write(out, error) from None


def _is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, which is written to directly."""
    return path.exists() and not path.is_file() and not path.is_dir()
