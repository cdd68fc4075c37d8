"""`glassformer check`: a self-test of the training that would follow."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, print_json
from glassformer.cli.narrate_check import print_check, print_tested, summary
from glassformer.errors import EXIT_FINDINGS

Find = Annotated[bool, typer.Option("--find", help="Test learning rates and batch sizes too.")]


def check(
    table: opt.PairTable,
    source: opt.SourceColumns = None,
    features: opt.FeatureColumns = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    valid: opt.ValidTable = None,
    drop_duplicates: opt.DropDuplicates = None,
    drop_contradictions: opt.DropContradictions = None,
    max_length: opt.MaxLength = None,
    min_ratio: opt.MinRatio = None,
    max_ratio: opt.MaxRatio = None,
    strip_controls: opt.StripControls = None,
    recipe: opt.Recipe = None,
    assignments: opt.SetAny = None,
    init: opt.Init = None,
    find: Find = False,
    device: opt.Device = "auto",
    precision: opt.TrainingPrecision = None,
    seed: opt.TrainingSeed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Test a training before a long run: masks, gradients, tokens, memory, speed, expected time.

    Takes the options of train and writes nothing. Exits with code 3 if a check fails.
    """
    from glassformer.before.plan import plan
    from glassformer.before.selftest import check
    from glassformer.inference.engines.torch import find_device

    reporter = Reporter(quiet)
    data = opt.data_options(source, target, header, bad_rows, features)
    data["data"] |= opt.cleaning_options(
        max_length, drop_duplicates, drop_contradictions, min_ratio, max_ratio, strip_controls
    )
    overrides = opt.training_options(recipe, assignments, data, seed=seed, precision=precision)
    find_device(device)  # before a long table is read
    unused = Path(tempfile.gettempdir()) / f"glassformer-check-{secrets.token_hex(8)}"  # the run that nobody iterates
    planned = plan(table, unused, overrides=overrides, valid=valid, init=init)
    print_tested(reporter, planned)
    tested = check(planned, device, find=find, on_check=lambda one: None if as_json else print_check(one, table))
    print_json(tested.to_json()) if as_json else reporter.print(summary(tested))
    if not tested.passed:
        raise typer.Exit(EXIT_FINDINGS)
