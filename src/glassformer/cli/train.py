"""`glassformer train`: from a table to a run directory."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, is_first_process, print_json
from glassformer.cli.narrate import follow, print_next, print_plan, print_report, warn_about_sources, warn_cut_off
from glassformer.cli.narrate_check import report_before_training


def train(
    table: opt.PairTable,
    out: opt.RunOut,
    source: opt.SourceColumns = None,
    features: opt.FeatureColumns = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    valid: opt.ValidTable = None,
    test: opt.TestTable = None,
    drop_duplicates: opt.DropDuplicates = None,
    drop_contradictions: opt.DropContradictions = None,
    max_length: opt.MaxLength = None,
    min_ratio: opt.MinRatio = None,
    max_ratio: opt.MaxRatio = None,
    strip_controls: opt.StripControls = None,
    recipe: opt.Recipe = None,
    assignments: opt.SetAny = None,
    init: opt.Init = None,
    resume: opt.Resume = False,
    overwrite: opt.OverwriteRun = False,
    log: opt.Logs = None,
    device: opt.Device = "auto",
    precision: opt.TrainingPrecision = None,
    seed: opt.TrainingSeed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Train a model on a table of pairs.

    Settings that are not given are chosen from the data, printed with the reason, and saved in the recipe of the run.
    """
    from glassformer.before.plan import plan
    from glassformer.before.selftest import check_before_training
    from glassformer.inference.engines.torch import find_device
    from glassformer.training.logs import open_log

    reporter = Reporter(quiet)
    data = opt.data_options(source, target, header, bad_rows, features)
    data["data"] |= opt.cleaning_options(
        max_length, drop_duplicates, drop_contradictions, min_ratio, max_ratio, strip_controls
    )
    given = opt.training_options(recipe, assignments, data, seed=seed, precision=precision)
    logs = [open_log(name, out, reporter.warn) for name in dict.fromkeys(log or []) if is_first_process()]
    find_device(device)  # before a long table is read
    planned = plan(table, out, overrides=given, valid=valid, test=test, init=init, resume=resume, overwrite=overwrite)
    print_plan(reporter, planned)
    report_before_training(reporter, check_before_training(planned, device))
    again = resume_command(table, out, valid=valid, test=test, device=device, logs=log)
    follow(planned.run(device), reporter, again, logs)
    if planned.processes.is_first:
        _finish(reporter, planned, device, as_json)


def _finish(reporter: Reporter, planned: Any, device: str, as_json: bool) -> None:
    """Score the test table, if there is one, and print the result."""
    from glassformer.inference.translator import Translator

    out = planned.directory.path
    result: dict[str, Any] = {"run": str(out)}
    if planned.test is not None:
        translator = Translator.load(out, device=device)
        report = planned.evaluate_test(translator)
        warn_about_sources(reporter, translator, planned.test)
        warn_cut_off(reporter, report.unfinished)
        result["test"] = report.to_json()
        if not as_json:
            print_report(report, planned.test.path)
    if as_json:
        print_json(result)
    print_next(reporter, out)


def resume_command(
    table: str,
    out: Path,
    *,
    valid: str | None = None,
    test: str | None = None,
    device: str,
    logs: list[str] | None = None,
) -> str:
    """The command that resumes a run after it was stopped."""
    words = ["glassformer", "train", table, "--out", str(out), "--resume"]
    options = {"--valid": valid, "--test": test, "--device": None if device == "auto" else device}
    words += [word for name, value in options.items() if value for word in (name, value)]
    return shlex.join([*words, *(word for name in logs or [] for word in ("--log", name))])
