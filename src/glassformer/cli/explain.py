"""`glassformer explain`: every number behind one translation."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import Reporter
from glassformer.cli.inputs import read_pairs
from glassformer.cli.narrate import warn_unknown
from glassformer.cli.narrate_trace import LIST, print_names, print_summary, print_tensor
from glassformer.cli.options import (
    AsJson,
    Beam,
    InputValues,
    Model,
    Quiet,
    SetDecoding,
    data_options,
    decoding_options,
    source_of,
)
from glassformer.errors import RunError, UsageError
from glassformer.ship.storage.files import check_writable

if TYPE_CHECKING:
    from glassformer.glassbox.run_records import HeadEffects
    from glassformer.glassbox.schema import Trace

WEIGHTS = (".weight", ".bias", ".table")
"""The ends of the names of weights, which a trace leaves out by default."""

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text to translate and explain.")]
Target = Annotated[
    str | None, typer.Option("--target", help="A gold target: explain it too, with teacher forcing and its loss.")
]
TensorName = Annotated[
    str | None,
    typer.Option(
        "--tensor", help=f"Print one tensor, such as decoder.0.cross.weights or logits; {LIST} prints all names."
    ),
]
Head = Annotated[
    int | None, typer.Option("--head", min=0, help="Print only this head of --tensor; heads count from 0.")
]
EditList = Annotated[
    list[str] | None,
    typer.Option("--edit", help='What if: "token 3=7", "head encoder.0.self 2 off", "positions off", …'),
]
PadTo = Annotated[
    int, typer.Option("--pad-to", min=0, help="Pad the source with <pad> to this many tokens (changes no answer).")
]
Html = Annotated[Path | None, typer.Option("--html", help="Write the page that shows all of it, as one file.")]
HeadTable = Annotated[
    str | None,
    typer.Option(
        "--heads",
        metavar="TABLE",
        help="Measure each head on this table, as the verb heads does, for --html and --json.",
    ),
]
OverwriteHtml = Annotated[bool, typer.Option("--overwrite", help="Replace --html.")]


def explain(
    model: Model,
    text: Text,
    features: InputValues = None,
    target: Target = None,
    tensor: TensorName = None,
    head: Head = None,
    edit: EditList = None,
    beam: Beam = None,
    assignments: SetDecoding = None,
    pad_to: PadTo = 0,
    heads: HeadTable = None,
    html: Html = None,
    overwrite: OverwriteHtml = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Explain one translation: tokens, attention, the search with its pruned candidates, and the effect of edits.

    Every step is recomputed from its inputs; the logits and the answer are compared with those of the PyTorch model.
    --json prints the whole trace, or with --tensor one tensor. Edits (repeat --edit): token 3=7 · prefix Jan · head
    encoder.0.self 2 off · attention decoder.1.cross off · feed-forward decoder.1 off · layer encoder.2 off · positions
    off · causal off · scale off · attention decoder.0.cross head 1 row 2 = 0,1,0 …
    """
    if head is not None and tensor in (None, LIST):
        raise UsageError("--head needs the name of a tensor", hint="--tensor decoder.0.cross.weights")
    if heads is not None and html is None and not (as_json and tensor is None):
        raise UsageError("--heads is shown in the page and in --json", hint="--html FILE, or glassformer heads")
    _check_page(html, overwrite)
    from glassformer.glassbox.trace import explain as explain_text
    from glassformer.ship.storage.modelfile import ModelFile

    options = decoding_options(assignments, num_beams=beam)
    weights = html is not None or (tensor or "").endswith(WEIGHTS)
    history = html is not None or (as_json and tensor is None)
    given: Any = text
    if features:
        given = source_of(text, ModelFile.load(model).source_tokenizer.inputs, features)
    trace = explain_text(
        model, given, target=target, edits=edit or (), weights=weights, history=history, pad_to=pad_to, **options
    )
    reporter = Reporter(quiet)
    if heads is not None:
        trace = replace(trace, heads=_measure_heads(reporter, model, heads, options))
    warn_unknown(reporter, [[token.given for token in trace.tokens.source if token.given is not None]])
    if html is not None:
        _write_page(reporter, trace, html)
    _print(trace, tensor, head, as_json, with_summary=html is None)
    if failed := [check.step for check in trace.checks if check.passed is False]:
        raise RunError("the trace does not pass its own checks", got=", ".join(failed[:10]))


def _measure_heads(reporter: Reporter, model: Path, table: str, options: dict[str, Any]) -> HeadEffects:
    """Exact match on a table, with the columns of the model, without each head."""
    from glassformer.glassbox.evidence import head_effects
    from glassformer.ship.storage.modelfile import ModelFile

    file = ModelFile.load(model)
    pairs = read_pairs(reporter, table, data_options(None, None, None, None), None, overwrite=False, model_file=file)
    decoding = file.settings.decoding.override(options)
    return head_effects(file, pairs.pairs, decoding=decoding, where=pairs.locations)


def _check_page(path: Path | None, overwrite: bool) -> None:
    """Refuse a page that cannot be written, before the work."""
    if path is not None:
        check_writable(path)
        if path.exists() and not overwrite:
            raise RunError(
                "the page exists already; nothing was written", where=str(path), hint="--overwrite, or another --html"
            )


def _write_page(reporter: Reporter, trace: Trace, path: Path) -> None:
    from glassformer.glassbox.report import write_report

    written = write_report(trace, path)
    reporter.success(f"wrote {path} ({written.n_bytes / 1e6:.1f} MB)")
    if written.left_out:
        reporter.warn(f"left out to stay below 20 MB: {'; '.join(written.left_out)}. glassformer serve can make edits")


def _print(trace: Trace, tensor: str | None, head: int | None, as_json: bool, *, with_summary: bool) -> None:
    if tensor == LIST:
        print_names(trace, as_json)
    elif tensor is not None:
        print_tensor(trace, tensor, head, as_json)
    elif as_json:
        sys.stdout.write(trace.dumps() + "\n")
    elif with_summary:
        print_summary(trace)
