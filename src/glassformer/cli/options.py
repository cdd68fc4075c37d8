"""The options of the command line: each is declared once, and means the same for every verb."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.text.inputs import Inputs

COMMON = "Common options"

# Common options

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.", rich_help_panel=COMMON)]
TrainingPrecision = Annotated[
    str | None, typer.Option("--precision", help="auto, float32 or bfloat16.", rich_help_panel=COMMON)
]
DecodePrecision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="float32, bfloat16 or auto; int8 with ctranslate2. Only float32 promises the same answer in any batch.",
        rich_help_panel=COMMON,
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="torch, or ctranslate2 (an extra).", rich_help_panel=COMMON)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=COMMON)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=COMMON)]
TrainingSeed = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, help="Random seed of the split, the weights, dropout and batches.", rich_help_panel=COMMON
    ),
]
SamplingSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Random seed of sampling (decoding.do_sample=true).", rich_help_panel=COMMON),
]

# Models and tables


def local(text: str) -> Path:
    """The path of a model; one of the hub is fetched, and its revision told."""
    return _fetched(text, as_folder=False)


def _local_folder(text: str) -> Path:
    return _fetched(text, as_folder=True)


def _fetched(text: str, *, as_folder: bool) -> Path:
    if not text.startswith("hf:/"):
        return Path(text)
    from glassformer.cli.console import Reporter
    from glassformer.ship.storage.hub import fetch, model_of

    quiet = not {"--quiet", "-q"}.isdisjoint(sys.argv)  # options that follow are not parsed yet
    fetched = fetch(text, progress=not quiet and sys.stderr.isatty())
    Reporter(quiet).print(f"{fetched}, in {fetched.folder}")
    return fetched.folder if as_folder else model_of(fetched)


Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A .safetensors model file, a run directory, or hf://owner/name.", parser=local
    ),
]
MarianFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A MarianMT folder of Hugging Face.", parser=_local_folder)
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble", metavar="MODEL", help="A further model; probabilities are averaged (repeatable).", parser=local
    ),
]
PairTable = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="CSV, TSV, JSON Lines or Parquet (also .gz, .zst), or two text files: a.en,a.de"
    ),
]
SourceColumns = Annotated[
    list[str] | None,
    typer.Option("--source", help="Source column: a name, or a position from 0 (repeatable: several texts)."),
]
FeatureColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="NAME=COLUMN",
        help="A further source column whose values are symbols, such as tags; NAME alone is its column (repeatable).",
    ),
]
ModelFeatures = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="NAME=COLUMN",
        help="The column of a feature of the model (repeatable; default: NAME alone, the column of that name).",
    ),
]
TargetColumn = Annotated[str | None, typer.Option("--target", help="Target column: a name, or a position from 0.")]
InputValues = Annotated[
    list[str] | None,
    typer.Option(
        "--feature", metavar="NAME=VALUE", help="A further input of the model, as in tags=V;PST (repeatable)."
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first row contains the column names (default: detected)."),
]
BadRows = Annotated[
    str | None,
    typer.Option(
        "--bad-rows", help="A damaged row: stop (an error, the default) or skip (it is listed in the ledger)."
    ),
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Write each row that is not kept, with its reason, as JSON Lines.")
]
OverwriteLedger = Annotated[bool, typer.Option("--overwrite", help="Replace --ledger.")]

# Cleaning of the table to train on

CLEANING = "Cleaning (of the table to train on only)"
DropDuplicates = Annotated[
    bool | None,
    typer.Option("--drop-duplicates", help="Drop rows that repeat an earlier one.", rich_help_panel=CLEANING),
]
DropContradictions = Annotated[
    bool | None,
    typer.Option(
        "--drop-contradictions",
        help="Of a source with several targets, keep the rows with the most frequent one; none if two are.",
        rich_help_panel=CLEANING,
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option("--max-length", min=1, help="Leave out rows with more tokens on a side.", rich_help_panel=CLEANING),
]
_RATIO = "Drop rows with {} target characters for each source character."
MinRatio = Annotated[float | None, typer.Option("--min-ratio", help=_RATIO.format("fewer"), rich_help_panel=CLEANING)]
MaxRatio = Annotated[float | None, typer.Option("--max-ratio", help=_RATIO.format("more"), rich_help_panel=CLEANING)]
StripControls = Annotated[
    bool | None,
    typer.Option(
        "--strip-controls", help="Remove control and invisible characters from the texts.", rich_help_panel=CLEANING
    ),
]


class Side(StrEnum):
    """A tokenizer and an embedding of a model."""

    source = "source"
    target = "target"


# Search

Beam = Annotated[
    int | None, typer.Option("--beam", min=1, help="Beam width; 1 is greedy search (default: the model's).")
]
NBest = Annotated[int | None, typer.Option("--nbest", min=1, help="Number of answers for each line, as JSON Lines.")]
SetDecoding = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the search, such as decoding.length_alpha=1 (repeatable)."),
]
BleuTokenize = Annotated[
    str, typer.Option("--bleu-tokenize", help="sacreBLEU's tokenizer: 13a, none, char, intl, zh, …")
]
NoGroup = Annotated[
    bool, typer.Option("--no-group", help="Score each row separately, even if rows have the same source.")
]

# Training

RunOut = Annotated[Path, typer.Option("--out", "-o", help="The run directory to write.")]
ValidTable = Annotated[str | None, typer.Option("--valid", help="A table to validate on (default: held-out rows).")]
TestTable = Annotated[str | None, typer.Option("--test", help="A table to evaluate on at the end.")]
Recipe = Annotated[
    str | None,
    typer.Option("--recipe", help="Settings to use: a TOML file, or a name that `settings --recipes` prints."),
]
SetAny = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting, such as training.steps=500; it replaces that of --recipe (repeatable)."),
]
Init = Annotated[
    Path | None,
    typer.Option(
        "--init", metavar="MODEL", help="A model to start from; new characters or words are added.", parser=local
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in --out; --set changes its settings.")]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")]

Logs = Annotated[
    list[str] | None,
    typer.Option("--log", help="tensorboard (extra): its event files, in RUN/tensorboard."),
]


def data_options(
    source: list[str] | None,
    target: str | None,
    header: bool | None,
    bad_rows: str | None,
    features: list[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """The options that say how a table is read, as settings."""
    options = {
        "source": source[0] if source and len(source) == 1 else source or None,
        "features": features or None,
        "target": target,
        "header": {None: None, True: "yes", False: "no"}[header],
        "bad_rows": bad_rows,
    }
    return {"data": given(**options)}


def cleaning_options(
    max_length: int | None,
    drop_duplicates: bool | None,
    drop_contradictions: bool | None,
    min_ratio: float | None,
    max_ratio: float | None,
    strip_controls: bool | None,
) -> dict[str, Any]:
    """The options that clean the table to train on, as fields of DataSettings."""
    return given(
        max_source_length=max_length,
        max_target_length=max_length,
        drop_duplicates=drop_duplicates,
        drop_contradictions=drop_contradictions,
        min_ratio=min_ratio,
        max_ratio=max_ratio,
        strip_controls=strip_controls,
    )


def training_options(
    recipe: str | None, assignments: list[str] | None, data: dict[str, Any], **training: Any
) -> dict[str, Any]:
    """The settings of a training that were given: a recipe, `--set` over it, and options over both."""
    from glassformer.before.recipes import find_recipe
    from glassformer.before.recipes.overrides import merge, parse_assignments, read_recipe

    base = read_recipe(find_recipe(recipe)) if recipe is not None else {}
    return merge(base, parse_assignments(assignments or []), data, {"training": given(**training)})


def source_of(text: str, inputs: Inputs, features: list[str] | None) -> str | dict[str, str]:
    """A text with the further inputs of a model, by name; the text alone for a model with one input."""
    from glassformer.text.inputs import named_values

    further = named_values(inputs[1:], features or (), is_column=False)
    return {inputs[0].name: text, **further} if inputs else text


def decoding_options(assignments: list[str] | None, **options: Any) -> dict[str, Any]:
    """`--set decoding.…` and the options of a verb as fields of DecodingSettings."""
    from glassformer.before.recipes.overrides import parse_assignments
    from glassformer.errors import SettingsError

    parsed: dict[str, dict[str, Any]] = parse_assignments(assignments or [])
    others = sorted(parsed.keys() - {"decoding"})
    if others:
        raise SettingsError(f"{others[0]!r} is fixed when a model is trained", expected="decoding.name=value")
    return parsed.get("decoding", {}) | given(**options)


def given(**options: Any) -> dict[str, Any]:
    """The options that have a value."""
    return {name: value for name, value in options.items() if value is not None}
