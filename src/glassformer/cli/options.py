"""The options that verbs share: each is declared once, and means the same for every verb.

An `OptionGroup` has options with what they decide.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from glassformer.cli.console import COMMON, OptionGroup, Reporter, check_output
from glassformer.cli.narrate import print_ledger, print_reading
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.data.tables import Table
    from glassformer.inference.translator import Translator
    from glassformer.planning.plan import Plan
    from glassformer.storage.modelfile import ModelFile
    from glassformer.text.inputs import Inputs

Device = Annotated[
    str, Option("--device", metavar="DEVICE", help="auto, cpu, cuda, cuda:1, mps.", rich_help_panel=COMMON)
]

# Models


def local(text: str, *, as_folder: bool = False) -> Path:
    """The path of a model; one of the hub is fetched, and its revision told."""
    if not text.startswith("hf:/"):
        return Path(text)
    from glassformer.storage.hub import fetch, model_of

    quiet = not {"--quiet", "-q"}.isdisjoint(sys.argv)  # options that follow are not parsed yet
    fetched = fetch(text, quiet=quiet or not sys.stderr.isatty())
    Reporter(quiet=quiet).print(f"{fetched}, in {fetched.folder}")
    return fetched.folder if as_folder else model_of(fetched)


Model = Annotated[
    Path,
    Argument(metavar="MODEL", help="A .safetensors model file, a run directory, or hf://owner/name.", parser=local),
]
MarianFolder = Annotated[
    Path,
    Argument(metavar="DIR", help="A MarianMT folder of Hugging Face.", parser=lambda text: local(text, as_folder=True)),
]
Ensemble = Annotated[
    list[Path] | None,
    Option(
        "--ensemble", metavar="MODEL", help="A further model; probabilities are averaged (repeatable).", parser=local
    ),
]


class Computing(OptionGroup):
    """Which models compute together, on what, and how exactly."""

    ensemble: Ensemble = None
    device: Device = "auto"
    precision: Annotated[
        str,
        Option(
            metavar="TYPE",
            help="float32, bfloat16 or auto. Only float32 promises the same answer in any batch.",
            rich_help_panel=COMMON,
        ),
    ] = "float32"

    def load(self, model: Path) -> Translator:
        """Load the translator of a model."""
        from glassformer.inference.translator import Translator
        from glassformer.storage.modelfile import ModelFile

        options = vars(self) | {"ensemble": [ModelFile.load(path) for path in self.ensemble or ()]}
        return Translator(ModelFile.load(model), **options)


# Tables

PairTable = Annotated[
    str,
    Argument(metavar="TABLE", help="CSV, TSV, JSON Lines or Parquet (also .gz, .zst), or two text files: a.en,a.de"),
]
Header = Annotated[
    bool | None,
    Option("--header/--no-header", help="Whether the first row contains the column names (default: detected)."),
]
InputValues = Annotated[
    list[str] | None,
    Option("--feature", metavar="NAME=VALUE", help="A further input of the model, as in tags=V;PST (repeatable)."),
]


class ColumnOptions(OptionGroup):
    """How a table of pairs is read."""

    source: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="Source column: a name, or a position from 0 (repeatable: several texts)."),
    ] = None
    features: Annotated[
        list[str] | None,
        Option(
            "--feature",
            metavar="NAME=COLUMN",
            help="A further source column whose values are symbols, such as tags; NAME alone is its column "
            "(repeatable).",
        ),
    ] = None
    target: Annotated[str | None, Option(metavar="COLUMN", help="Target column: a name, or a position from 0.")] = None
    header: Header = None
    bad_rows: Annotated[
        str | None,
        Option(
            metavar="ACTION",
            help="A damaged row, or one too long for a model: stop (an error, the default) or skip (in the ledger).",
        ),
    ] = None

    @property
    def data(self) -> dict[str, Any]:
        """The options that are given, as fields of DataSettings."""
        source = self.source or None
        return given(
            source=source[0] if source and len(source) == 1 else source,
            features=self.features or None,
            target=self.target,
            header=header_setting(self.header),
            bad_rows=self.bad_rows,
        )

    def read(
        self, reporter: Reporter, path: str, model_file: ModelFile | None = None, *, like: Table | None = None
    ) -> Table:
        """Read the pairs of a table, and print how; the columns of a model, or as those of another table.

        A column of a model is replaced by one that is given.
        """
        from glassformer.data.given import read_given, read_like
        from glassformer.evaluation.evaluate import read_for
        from glassformer.settings import DataSettings

        if model_file is not None:
            table = read_for(model_file, path, self.data)
        else:
            data = DataSettings(**self.data)
            table = read_given(path, data) if like is None else read_like(like, path, data)
        print_reading(reporter, table)
        return table


class LedgerOptions(ColumnOptions):
    """The same, with a file for the rows that are not kept."""

    ledger: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write each row that is not kept, with its reason, as JSON Lines."),
    ] = None
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the files to write.")] = False

    def read(
        self, reporter: Reporter, path: str, model_file: ModelFile | None = None, *, like: Table | None = None
    ) -> Table:
        """Read the pairs of a table; the path of the ledger is checked before."""
        check_output(self.ledger, "--ledger", overwrite=self.overwrite)
        table = super().read(reporter, path, model_file, like=like)
        print_ledger(reporter, table, self.ledger)
        return table


def header_setting(header: bool | None) -> str | None:
    """--header or --no-header as the setting data.header; None if neither is given."""
    return None if header is None else "yes" if header else "no"


Side = Literal["source", "target"]

# Search

Beam = Annotated[
    int | None, Option("--beam", min=1, metavar="N", help="Beam width; 1 is greedy search (default: the model's).")
]
SetDecoding = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="A setting of the search, such as decoding.num_beams=8 (repeatable)."),
]

# Metrics

BleuTokenize = Annotated[
    str, Option("--bleu-tokenize", metavar="NAME", help="sacreBLEU's tokenizer: 13a, none, char, intl, zh, …")
]
NoGroup = Annotated[bool, Option("--no-group", help="Score each row separately, even if rows have the same source.")]

# Training


class TrainingOptions(ColumnOptions):
    """The settings of a training, and where it starts."""

    valid: Annotated[
        str | None,
        Option(metavar="TABLE", help="A table to validate on (default: held-out rows)."),
    ] = None
    recipe: Annotated[
        str | None,
        Option(metavar="RECIPE", help="Settings to use: a TOML file, or a name that `settings --recipes` prints."),
    ] = None
    assignments: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="One setting, such as training.steps=500; it replaces that of --recipe (repeatable).",
        ),
    ] = None
    init: Annotated[
        Path | None,
        Option(metavar="MODEL", help="A model to start from; new characters or words are added.", parser=local),
    ] = None
    device: Device = "auto"
    precision: Annotated[
        str | None, Option(metavar="TYPE", help="auto, float32 or bfloat16.", rich_help_panel=COMMON)
    ] = None
    seed: Annotated[
        int | None,
        Option(
            min=0,
            metavar="N",
            help="Random seed of the split, the weights, dropout and batches.",
            rich_help_panel=COMMON,
        ),
    ] = None

    def plan(self, table: str, out: Path, **more: Any) -> Plan:
        """Plan the training, with the settings of the recipe, `--set` over it, and options over both."""
        from glassformer.planning.plan import plan
        from glassformer.planning.recipes import find_recipe
        from glassformer.planning.recipes.overrides import merge, parse_assignments, read_recipe
        from glassformer.runtime.devices import find_device

        base = read_recipe(find_recipe(self.recipe)) if self.recipe is not None else {}
        options = {"data": self.data, "training": given(seed=self.seed, precision=self.precision)}
        overrides = merge(base, parse_assignments(self.assignments or []), options)
        find_device(self.device)
        return plan(table, out, overrides=overrides, valid=self.valid, init=self.init, **more)


def source_of(text: str, inputs: Inputs, features: list[str] | None) -> str | dict[str, str]:
    """A text with the further inputs of a model, by name; the text alone for a model with one input."""
    from glassformer.text.inputs import named_values

    further = named_values(inputs[1:], features or (), is_column=False)
    return {inputs[0].name: text, **further} if inputs else text


def decoding_options(assignments: list[str] | None, **options: Any) -> dict[str, Any]:
    """`--set decoding.…` and the options of a verb as fields of DecodingSettings."""
    if not assignments:
        return given(**options)
    from glassformer.planning.recipes.overrides import parse_assignments

    parsed: dict[str, dict[str, Any]] = parse_assignments(assignments)
    if fixed := sorted(parsed.keys() - {"decoding"}):
        raise SettingsError(f"{fixed[0]!r} is fixed when a model is trained", expected="decoding.name=value")
    return parsed.get("decoding", {}) | given(**options)


def given(**options: Any) -> dict[str, Any]:
    """The options that have a value."""
    return {name: value for name, value in options.items() if value is not None}
