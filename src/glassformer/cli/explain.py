"""`glassformer explain`: every number behind one translation."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import Reporter, check_output
from glassformer.cli.narrate import warn_unknown
from glassformer.cli.narrate_trace import LIST, print_names, print_summary, print_tensor
from glassformer.cli.options import Beam, Columns, InputValues, Model, SetDecoding, decoding_options, source_of
from glassformer.errors import RunError, UsageError

if TYPE_CHECKING:
    from glassformer.glassbox.run_records import HeadEffects
    from glassformer.glassbox.schema import Trace
    from glassformer.ship.storage.modelfile import ModelFile

WEIGHTS = (".weight", ".bias", ".table")
"""The ends of the names of weights, which a trace leaves out by default."""


def explain(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to translate and explain.")],
    reporter: Reporter,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the page that shows all of it, as one file that works offline.")
    ] = None,
    features: InputValues = None,
    target: Annotated[
        str | None, typer.Option("--target", help="A gold target: explain it too, with teacher forcing and its loss.")
    ] = None,
    tensor: Annotated[
        str | None,
        typer.Option(
            "--tensor", help=f"Print one tensor, such as decoder.0.cross.weights or logits; {LIST} prints all names."
        ),
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, help="Print only this head of --tensor; heads count from 0.")
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option("--edit", help='What if: "token 3=7", "head encoder.0.self 2 off", "positions off", …'),
    ] = None,
    beam: Beam = None,
    assignments: SetDecoding = None,
    pad_to: Annotated[
        int, typer.Option("--pad-to", min=0, help="Pad the source with <pad> to this many tokens (changes no answer).")
    ] = 0,
    heads: Annotated[
        str | None,
        typer.Option(
            "--heads",
            metavar="TABLE",
            help="Measure exact match on this table without each head, for --html and --json.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --html.")] = False,
) -> None:
    """Explain one translation: tokens, attention, the answers of the search, and the effect of edits.

    --html FILE writes the page with every number; without it, a summary is printed. Every step is recomputed from its
    inputs; the answer is compared with that of translate, the logits with those of the PyTorch model, where PyTorch is
    installed.
    --json prints the whole trace, or with --tensor one tensor. Edits (repeat --edit): text x · token 3=7 · prefix Jan ·
    head encoder.0.self 2 off · attention decoder.1.cross off · feed-forward decoder.1 off · layer encoder.2 off ·
    positions off · causal off · scale off · attention decoder.0.cross head 1 row 2 = 0,1,0 · patch encoder.0 row 2 …
    """
    if head is not None and tensor in (None, LIST):
        raise UsageError("--head needs the name of a tensor", hint="--tensor decoder.0.cross.weights")
    whole_trace = html is not None or (reporter.as_json and tensor is None)
    if heads is not None and not whole_trace:
        raise UsageError("--heads is shown in the page and in --json", hint="--html FILE")
    check_output(html, "--html", overwrite=overwrite)
    from glassformer.glassbox.trace import explain as explain_text
    from glassformer.ship.storage.modelfile import ModelFile

    file = ModelFile.load(model)
    if file.members:
        reporter.warn(f"the first of the {len(file.seeds)} members is explained; translate answers with all of them")
    options = decoding_options(assignments, num_beams=beam)
    trace = explain_text(
        model,
        source_of(text, file.source_tokenizer.inputs, features) if features else text,
        target=target,
        edits=edit or (),
        weights=html is not None or (tensor or "").endswith(WEIGHTS),
        history=whole_trace,
        pad_to=pad_to,
        **options,
    )
    if heads is not None:
        trace = replace(trace, heads=_measure_heads(reporter, file, heads, options))
    warn_unknown(reporter, [[token.given for token in trace.tokens.source if token.given is not None]])
    if html is not None:
        _write_page(reporter, trace, html)
    _print(reporter, trace, tensor, head, with_summary=html is None)
    if failed := [check.step for check in trace.checks if check.passed is False]:
        raise RunError("the trace does not pass its own checks", got=", ".join(failed[:10]))


def _measure_heads(reporter: Reporter, file: ModelFile, table: str, options: dict[str, Any]) -> HeadEffects:
    """Exact match on a table, with the columns of the model, without each head."""
    from glassformer.glassbox.evidence import head_effects

    pairs = Columns().read(reporter, table, file)
    decoding = file.settings.decoding.override(options)
    return head_effects(file, pairs.pairs, decoding=decoding, where=pairs.locations)


def _write_page(reporter: Reporter, trace: Trace, path: Path) -> None:
    from glassformer.glassbox.report import write_report

    written = write_report(trace, path)
    reporter.success(f"wrote {path} ({written.n_bytes / 1e6:.1f} MB)")
    if written.left_out:
        reporter.warn(f"left out to stay below 20 MB: {'; '.join(written.left_out)}. glassformer serve can make edits")


def _print(reporter: Reporter, trace: Trace, tensor: str | None, head: int | None, *, with_summary: bool) -> None:
    if tensor == LIST:
        print_names(reporter, trace)
    elif tensor is not None:
        print_tensor(reporter, trace, tensor, head)
    elif reporter.as_json:
        sys.stdout.write(trace.dumps() + "\n")
    elif with_summary:
        print_summary(trace)
