"""`glassformer export`: a model for other runtimes, checked there before it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, print_json
from glassformer.cli.inputs import read_pairs
from glassformer.cli.narrate import print_export

To = Annotated[str, typer.Option("--to", help="onnx, ctranslate2, huggingface or html.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="Precision of the weights: float32, float16 or int8 (default: the format's)."),
]
CheckTable = Annotated[
    str | None,
    typer.Option("--check", metavar="TABLE", help="A table to check the answers on (default: held-out rows)."),
]


def export(
    model: opt.Model,
    to: To,
    out: Out,
    precision: Precision = None,
    check: CheckTable = None,
    source: opt.SourceColumns = None,
    features: opt.ModelFeatures = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    ensemble: opt.Ensemble = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Write a model for another runtime, and check its answers there.

    The exported model answers up to 200 rows in its own runtime and a fresh process. In float32 its answers must be
    those of the model, with scores within a bound; otherwise nothing is written. check.json says what was compared.
    """
    from glassformer.ship.export import export
    from glassformer.ship.storage.hub import local_model
    from glassformer.ship.storage.modelfile import ModelFile

    reporter = Reporter(quiet)
    data = opt.data_options(source, target, header, bad_rows, features)
    table = None
    if check is not None:
        model_file = ModelFile.load(local_model(model))
        table = read_pairs(reporter, check, data, None, overwrite=False, model_file=model_file)
    exported = export(
        model,
        to,
        out,
        precision=precision,
        ensemble=ensemble or [],
        rows=table.pairs if table else None,
        where=table.locations if table else None,
        progress=reporter.print,
    )
    print_export(reporter, exported)
    if as_json:
        print_json(exported.to_json())
