"""`glassformer audit`: what is suspicious in a table, before a model is trained on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, check_output, print_json
from glassformer.cli.inputs import read_pairs
from glassformer.cli.narrate_audit import audit_page, print_audit
from glassformer.errors import EXIT_FINDINGS

if TYPE_CHECKING:
    from glassformer.data.tables import Table
    from glassformer.paper.settings import Settings

ValidTable = Annotated[str | None, typer.Option("--valid", metavar="TABLE", help="The table to validate on.")]
TestTable = Annotated[str | None, typer.Option("--test", metavar="TABLE", help="The table to test on.")]
SetTraining = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the training, such as data.max_source_length=64 (repeatable)."),
]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write the audit as one page that works offline.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there is an error or a warning.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace --html.")]


def audit(
    table: opt.PairTable,
    valid: ValidTable = None,
    test: TestTable = None,
    source: opt.SourceColumns = None,
    features: opt.FeatureColumns = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    drop_duplicates: opt.DropDuplicates = None,
    drop_contradictions: opt.DropContradictions = None,
    max_length: opt.MaxLength = None,
    min_ratio: opt.MinRatio = None,
    max_ratio: opt.MaxRatio = None,
    strip_controls: opt.StripControls = None,
    assignments: SetTraining = None,
    html: HtmlFile = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Examine a table before training: duplicates, contradictions, overlap with --valid and --test, odd characters.

    Each finding has a severity, the number of rows, examples with their row numbers, and what to do.
    Nothing is changed. With options that clean, what is examined is what they would leave to train on.
    """
    from glassformer.before.audit import audit

    reporter = Reporter(quiet)
    data = opt.data_options(source, target, header, bad_rows, features)
    paths = [path for path in (table, valid, test) if path is not None]
    check_output(html, "--html", overwrite=overwrite, inputs=",".join(paths))
    train, held, tested = _read(reporter, (table, valid, test), data)
    assert train is not None
    data["data"] |= opt.cleaning_options(
        max_length, drop_duplicates, drop_contradictions, min_ratio, max_ratio, strip_controls
    )
    train, settings = _cleaned(reporter, train, data, assignments)
    found = audit(train, held, tested, settings)
    if html is not None:
        from glassformer.ship.storage.files import write_text

        write_text(html, audit_page(found))
        reporter.print(f"wrote {html}")
    print_json(found.to_json()) if as_json else print_audit(found)
    if strict and not found.is_clean:
        raise typer.Exit(EXIT_FINDINGS)


def _read(reporter: Reporter, paths: tuple[str | None, ...], data: dict[str, Any]) -> list[Table | None]:
    """Read the tables; the columns of the first one are those of all."""
    from glassformer.data.tables import check_same_columns

    tables = [None if path is None else read_pairs(reporter, path, data, None, overwrite=False) for path in paths]
    for other in tables[1:]:
        if other is not None and tables[0] is not None:
            check_same_columns(tables[0], other)
    return tables


def _cleaned(
    reporter: Reporter, table: Table, data: dict[str, Any], assignments: list[str] | None
) -> tuple[Table, Settings]:
    """The table that training would clean, and the settings of that training: advised, with `--set` over them."""
    from glassformer.before.advise import advise
    from glassformer.before.recipes.overrides import check_settings, merge, parse_assignments
    from glassformer.data.cleaning import clean
    from glassformer.paper.settings import DataSettings, Settings

    given = check_settings(merge(parse_assignments(assignments or []), data))
    cleaned = clean(table, DataSettings(**given.get("data", {})))
    if cleaned is not table:
        reporter.print(f"after cleaning: {cleaned.ledger.summary()}")
    return cleaned, Settings(**merge(advise(cleaned.pairs, given, cleaned.inputs).settings, given))
