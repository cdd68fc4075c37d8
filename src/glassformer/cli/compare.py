"""`glassformer compare`: which of two models is better on a table, and how sure that is."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glassformer.cli import options as opt
from glassformer.cli.console import COMMON, Reporter, print_line, print_table, write_ledger
from glassformer.cli.narrate import QUOTED, measured_number, warn_cut_off
from glassformer.errors import shortened

if TYPE_CHECKING:
    from glassformer.evaluation.comparison import Comparison

_SIDE = "A model, a run directory, or a file of answers; several seeds of one recipe with commas: {0}1,{0}2,{0}3."


def compare(
    a: Annotated[str, Argument(metavar="A", help=_SIDE.format("A"))],
    b: Annotated[str, Argument(metavar="B", help=_SIDE.format("B"))],
    table: opt.PairTable,
    columns: opt.LedgerOptions,
    reporter: Reporter,
    device: opt.Device = "auto",
    beam: opt.Beam = None,
    bleu_tokenize: opt.BleuTokenize = "13a",
    no_group: opt.NoGroup = False,
    assignments: opt.SetDecoding = None,
    seed: Annotated[int, Option(min=0, metavar="N", help="Random seed of the resampling.", rich_help_panel=COMMON)] = 1,
) -> None:
    """Compare two models on a table: each metric of both, the difference with its 95 % interval, and p.

    A file of answers is what `translate` writes for the sources of the table: plain lines, a table or JSON Lines. With
    several seeds on a side, the difference is that of the recipes: it must exceed what other seeds would change.

    Examples:
        glassformer compare run1 run2 test.csv
        glassformer compare a1,a2,a3 b1,b2,b3 test.csv
    """
    from glassformer.evaluation.answers import Answers
    from glassformer.evaluation.comparison import compare
    from glassformer.inference.translator import Translator
    from glassformer.storage.modelfile import ModelFile

    options = opt.decoding_options(assignments, num_beams=beam)
    sides = [_paths(side) for side in (a, b)]
    models = {path: ModelFile.load(opt.local(path)) for path in (*sides[0], *sides[1]) if _is_model(path)}
    pairs = columns.read(reporter, table, next(iter(models.values()), None))

    def answers(path: str) -> Answers:
        """Translate the table with a model, or read the answers of a file."""
        if path not in models:
            return Answers.read(path, pairs)
        return Answers.of_model(Translator(models[path], device=device), pairs, columns.data, **options)

    of_a, of_b = ([answers(path) for path in side] for side in sides)
    for model in (*of_a, *of_b):
        warn_cut_off(reporter, model.unfinished)
    comparison = compare(of_a, of_b, pairs, bleu_tokenize=bleu_tokenize, group=not no_group, seed=seed)
    reporter.result(comparison.to_json(), lambda: _print_comparison(comparison, pairs.path))
    write_ledger(reporter, pairs.ledger, columns.ledger)


def _paths(side: str) -> list[str]:
    """Return the models of a side; a path that exists may have commas in its name."""
    return [side] if Path(side).exists() else [path for path in side.split(",") if path] or [side]


def _is_model(path: str) -> bool:
    return path.startswith("hf:/") or path.endswith(".safetensors") or Path(path).is_dir()


def _print_comparison(comparison: Comparison, table: str) -> None:
    for name, models in (("A", comparison.a), ("B", comparison.b)):
        seeds = f" ({len(models)} seeds)" if len(models) > 1 else ""
        print_line(f"{name}: {', '.join(models)}{seeds}")
    rows = []
    for name, metric in comparison.metrics.items():
        values = metric.a, metric.b, metric.difference, metric.low, metric.high
        *numbers, low, high = (measured_number(name, value) for value in values)
        rows.append((name, *numbers, f"{low} to {high}", f"{metric.p:.3f}"))
    title = f"{comparison.items:,} {'sources' if comparison.items < comparison.rows else 'rows'} of {table}"
    print_table(title, ("metric", "A", "B", "B − A", "95 % interval", "p"), rows)
    for name, metric in comparison.metrics.items():
        print_line(f"{name}: {metric.verdict}")
    if len(comparison.a) == len(comparison.b) == 1:
        print_line("this is about two models; for two recipes, compare several seeds of each: A1,A2,A3 B1,B2,B3")
    for note in comparison.notes:
        print_line(note)
    print_line(f"B has fewer edits than A in {comparison.won_by_b:,} rows, and more in {comparison.won_by_a:,}")
    for name, examples in (("B", comparison.examples_b), ("A", comparison.examples_a)):
        if examples:
            cells = [tuple(shortened(text, QUOTED) for text in astuple(each)) for each in examples]
            print_table(f"rows in which {name} has fewer edits", ("source", "target", "A", "B"), cells)
