"""`glassformer export`: a model for other runtimes, checked there before it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from glassformer.cli.console import Reporter, print_json
from glassformer.cli.options import ColumnOptions, Model


def export(
    model: Model,
    to: Annotated[str, Option(metavar="FORMAT", help="onnx or html (both hold members), ctranslate2 or huggingface.")],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The folder to write.")],
    columns: ColumnOptions,
    reporter: Reporter,
    precision: Annotated[
        str | None,
        Option(metavar="TYPE", help="Precision of the weights: float32, float16 or int8 (default: the format's)."),
    ] = None,
    check: Annotated[
        str | None, Option(metavar="TABLE", help="A table to check the answers on (default: held-out rows).")
    ] = None,
    title: Annotated[
        str | None, Option(metavar="TEXT", help="Title of the page of html (default: the names of the columns).")
    ] = None,
) -> None:
    """Write a model for another runtime, and check its answers there.

    The exported model answers up to 200 rows in its own runtime and a fresh process. In float32 its answers must be
    those of the model, with scores within a bound; otherwise nothing is written. check.json says what was compared.

    Examples:
        glassformer export run --to html --out page
        glassformer export run --to onnx --out onnx --check test.csv
    """
    from glassformer.export import export
    from glassformer.storage.modelfile import ModelFile

    table = None if check is None else columns.read(reporter, check, ModelFile.load(model))
    exported = export(
        model,
        to,
        out,
        precision=precision,
        rows=table.pairs if table else None,
        where=table.locations if table else None,
        title=title,
        progress=reporter.print,
    )
    for search in exported.check.searches:
        name = "greedy search" if search.num_beams == 1 else f"beam of {search.num_beams}"
        parts = [f"{search.equal:,} of {search.rows:,} answers equal"]
        parts += [f"{search.ties:,} tied (as probable)"] if search.ties else []
        parts += [f"{search.other:,} found by the rules of its own beam"] if search.other else []
        reporter.print(f"{name}: {', '.join(parts)}")
    bound = exported.check.score_bound
    limit = "" if bound is None else f" (at most {bound:g} allowed)"
    reporter.print(f"scores differ by at most {exported.check.score_difference:.1e} nats{limit}")
    if metric := exported.check.metric:
        change = f"{metric.before:.4f} in float32, {metric.after:.4f} in {exported.precision}"
        reporter.print(f"{metric.name} on {metric.rows:,} rows: {change}")
    size = f"{exported.n_bytes / 1e6:.1f} MB"
    written = exported.folder / "index.html" if exported.format == "html" else exported.folder
    reporter.success(f"wrote {written} ({exported.format}, {exported.precision}, {size})")
    if reporter.as_json:
        print_json(exported.to_json())
