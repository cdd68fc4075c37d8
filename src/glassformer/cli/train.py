"""`glassformer train`: from a table to a run directory."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import (
    AsJson,
    BadRows,
    Device,
    Header,
    PairTable,
    Quiet,
    Seed,
    SourceColumn,
    TargetColumn,
    Voice,
    data_options,
    print_json,
    warn_unknown,
)
from glassformer.cli.narrate import follow, say_plan, say_report

if TYPE_CHECKING:
    pass


def train(
    table: PairTable,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run directory to write.")],
    source: SourceColumn = None,
    target: TargetColumn = None,
    header: Header = None,
    bad_rows: BadRows = None,
    valid: Annotated[
        str | None, typer.Option("--valid", help="A table to validate on (default: held-out rows).")
    ] = None,
    test: Annotated[str | None, typer.Option("--test", help="A table to evaluate on at the end.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", help="Settings over the advice: a TOML file or a name (glassformer settings --recipes)."
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, over all others: --set training.steps=500")
    ] = None,
    init: Annotated[Path | None, typer.Option("--init", help="A model to start from.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    device: Device = "auto",
    precision: Annotated[
        str | None,
        typer.Option("--precision", help="auto, float32 or bfloat16.", rich_help_panel="Everywhere"),
    ] = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a table of pairs.

    Whatever you do not say is chosen from the data, printed with its reason, and saved as the run's recipe.
    """
    from glassformer.engines.torch import find_device
    from glassformer.recipes import find_recipe
    from glassformer.recipes.overrides import merge, parse_assignments, read_recipe
    from glassformer.training.plan import plan
    from glassformer.translator import Translator

    voice = Voice(quiet)
    given = merge(
        read_recipe(find_recipe(recipe)) if recipe is not None else {},
        parse_assignments(assignments or []),
        data_options(source, target, header, bad_rows),
        {"training": {k: v for k, v in (("seed", seed), ("precision", precision)) if v is not None}},
    )
    find_device(device)  # before a long table is read
    planned = plan(table, out, overrides=given, valid=valid, test=test, init=init, resume=resume, overwrite=overwrite)
    say_plan(voice, planned)
    follow(planned.run(device), voice, resume_command(table, out, valid=valid, test=test, device=device))
    result: dict[str, Any] = {"run": str(out)}
    if planned.test is not None:
        translator = Translator.load(out, device=device)
        report = planned.evaluate_test(translator)
        warn_unknown(voice, map(translator.source_tokenizer.unknown, (pair.source for pair in planned.test.pairs)))
        result["test"] = report.to_json()
        if not as_json:
            say_report(report, planned.test.path)
    if as_json:
        print_json(result)
    voice.say(f"next: glassformer translate {out} INPUT    glassformer evaluate {out} TABLE    glassformer info {out}")


def resume_command(table: str, out: Path, *, valid: str | None = None, test: str | None = None, device: str) -> str:
    """The words that go on with a run after it was stopped."""
    words = ["glassformer", "train", table, "--out", str(out), "--resume"]
    options = {"--valid": valid, "--test": test, "--device": None if device == "auto" else device}
    return shlex.join([*words, *(word for name, value in options.items() if value for word in (name, value))])
