"""The parts of a job, decided from what was requested: its input, its output, their form, and what translates.

Each function raises UsageError, before any work, for a request that no job can fulfil.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.data.column_settings import ColumnName
from glassformer.data.formats import FORMATS, suffix_of
from glassformer.data.rows import PLAIN, OpenRows, check_rows, open_lines
from glassformer.errors import UsageError
from glassformer.inference.allowed import Constraint
from glassformer.inference.translator import Translator
from glassformer.jobs.inputs import JobInput
from glassformer.jobs.job import Job, describe_job, here
from glassformer.jobs.layout import OutputForm, choose_format, free_name
from glassformer.jobs.output import FileOutput, StreamOutput
from glassformer.jobs.progress import JobProgress
from glassformer.jobs.stream import SearchOptions
from glassformer.settings import DataSettings, DecodingSettings
from glassformer.storage.files import cannot_write, is_device
from glassformer.storage.modelfile import ModelFile, each_model
from glassformer.text.inputs import Source, named_values
from glassformer.text.normalization import nfc_source

Output = StreamOutput | FileOutput


def choose_input(
    source: str | BinaryIO,
    model: ModelFile,
    *,
    column: ColumnName = None,
    features: Sequence[str] = (),
    data: dict[str, Any] | None = None,
    ledger: bool = False,
    **fields: Any,
) -> JobInput:
    """Return the input of a model: a table where a column is named or the file is one, plain lines otherwise.

    Without `column`, that of the training is taken, by its name or its position. `data` and `fields` are fields of
    DataSettings and of JobInput. `ledger`: there is one, and damaged rows are left empty and listed in it.
    """
    inputs, trained = model.source_tokenizer.inputs, model.data.columns
    is_table = isinstance(source, str) and suffix_of(Path(source)) in FORMATS
    if column is None and is_table:
        column = trained.inputs[0].key if trained else inputs[0].name if inputs else None
    if column is None and is_table:
        hint = "name the column to translate: --column NAME (or a position from 0)"
        raise UsageError("this input is a table", where=str(source), hint=hint)
    if column is None and (data or ledger):
        raise UsageError("--header and --ledger are for tables, and the input is plain lines", hint="--column NAME")
    return JobInput(
        source,
        column,
        inputs=inputs,
        further=tuple(named_values(inputs[1:], features, is_column=column is not None).values()),
        data=DataSettings(**(data or {}), bad_rows="skip" if ledger else "stop"),
        trained=trained,
        **fields,
    )


def choose_output(out: Path | None, *, resume: bool, overwrite: bool) -> tuple[FileOutput | None, JobProgress | None]:
    """Return the file to write, or None for a stream, and the progress of an interrupted job to resume."""
    if out is None or is_device(out):
        if resume:
            raise UsageError("only a file can be resumed", hint="--out FILE")
        return None, None
    output = FileOutput(out)
    return output, output.check(resume=resume, overwrite=overwrite)


@contextmanager
def job_output(file: FileOutput | None, out: Path | None, standard_output: BinaryIO) -> Iterator[Output]:
    """Open the output: a file, or else `out` as a device or pipe, or else standard output."""
    if file is not None or out is None:
        yield file or StreamOutput(standard_output)
        return
    try:
        with out.open("wb") as stream:
            yield StreamOutput(stream)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write(out, error) from None


def choose_form(
    job_input: JobInput, opened: OpenRows, out: Path | None, search: SearchOptions, *, full: bool
) -> OutputForm:
    """Return the form of the output: JSON Lines if `full`, or else the form of `out` or of the input."""
    form = choose_format(out, opened.format, full=full, columns=bool(job_input.keep) or search.alignments)
    names = opened.names[len(job_input.texts) :][: len(job_input.keep)]
    header, confidence = opened.header or opened.format in (PLAIN, "parallel text"), search.min_confidence is not None
    layout = OutputForm(form, full, search.alignments, names, free_name(names), header, confidence)
    if len(set(layout.names)) < len(layout.names):
        what = "two columns of the output have the same name"
        raise UsageError(what, got=", ".join(layout.names), hint="leave one out of --keep")
    return layout


def check_cluster(on: str | None, source: str) -> None:
    """Check where a job is to run: Ray, which cannot have a stream; None is this process."""
    if on is None:
        return
    from glassformer.jobs.on_ray import load_ray

    if on != "ray":
        raise UsageError(f"--on {on} is not available", expected="ray")
    if source == "-":
        raise UsageError("--on ray is for a file, and the input is standard input", hint="a table, or lines")
    load_ray()


def choose_search(
    models: Sequence[ModelFile],
    decoding: DecodingSettings,
    *,
    must_match: str | None,
    choices: Path | None,
    lexicon: str | None,
    **options: Any,
) -> SearchOptions:
    """Return how texts are translated; `lexicon` and `choices` are files, `options` are those of `SearchOptions.of`."""
    constraint = Constraint.of(must_match, None if choices is None else _lines(choices))
    answers = {} if lexicon is None else _read_lexicon(lexicon, models[0])
    return SearchOptions.of(each_model(models), decoding, constraint=constraint, lexicon=answers, **options)


def _lines(path: Path) -> list[str]:
    """Return the lines of a file of choices. Raises UsageError for a blank line."""
    with open_lines(str(path)) as opened:
        lines = list(opened.rows)
        check_rows(opened, lines)
    for line in lines:
        if not line.cells[0].strip():
            raise UsageError("a choice is empty", where=f"{path}, line {line.number}", expected="one answer a line")
    return [line.cells[0] for line in lines]


def _read_lexicon(path: str, model: ModelFile) -> dict[Source, str]:
    """Return the target of each source (in NFC) of a table of pairs; the first of several targets.

    It has the columns that the model was trained on. Raises the errors of `read_table`.
    """
    from glassformer.evaluation.evaluate import read_for

    table = read_for(model, path, {})
    pairs = zip(table.sources, (pair.target for pair in table.pairs), strict=True)
    return {nfc_source(source): target for source, target in reversed(list(pairs))}


def make_job(
    job_input: JobInput,
    opened: OpenRows,
    models: Sequence[ModelFile],
    search: SearchOptions,
    layout: OutputForm,
    output: Output,
    *,
    device: str = "auto",
    on: str | None = None,
) -> Job:
    """Return the job of these parts, on a device of this computer or of each process of a cluster."""
    # A job that writes a file can be resumed.
    name = describe_job(models, search, layout, opened, job_input.prefix) if isinstance(output, FileOutput) else None

    def load(files: Sequence[ModelFile]) -> Translator:
        return Translator(files[0], ensemble=files[1:], device=device)

    if on is None:
        return Job(job_input, here(load(models)), search, layout, output, name)
    from glassformer.jobs.on_ray import OnRay

    return Job(job_input, OnRay(load, models, int(device.startswith("cuda"))), search, layout, output, name)
