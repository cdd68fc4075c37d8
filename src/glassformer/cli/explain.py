"""`glassformer explain`: every number behind one translation."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import Reporter, check_output, print_line, print_table, printable
from glassformer.cli.narrate import warn_unknown
from glassformer.cli.options import Beam, ColumnOptions, InputValues, Model, SetDecoding, decoding_options, source_of
from glassformer.errors import QUOTED, RunError, UsageError, nearest

if TYPE_CHECKING:
    from glassformer.glassbox.run_records import HeadEffects
    from glassformer.glassbox.schema import Axis, Token, Trace
    from glassformer.storage.modelfile import ModelFile

WEIGHTS = (".weight", ".bias", ".table")
"""The ends of the names of weights, which a trace leaves out by default."""
LIST = "list"  # the value of --tensor that prints the names of all


def explain(
    model: Model,
    text: Annotated[str, Argument(metavar="TEXT", help="The text to translate and explain.")],
    reporter: Reporter,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Write the page that shows all of it, as one file that works offline.")
    ] = None,
    features: InputValues = None,
    target: Annotated[
        str | None, Option(metavar="TEXT", help="The right answer: explain it too, with teacher forcing and its loss.")
    ] = None,
    tensor: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help=f"Print one tensor, such as decoder.0.cross.weights or logits; {LIST} prints all names.",
        ),
    ] = None,
    head: Annotated[
        int | None, Option(min=0, metavar="N", help="Print only this head of --tensor; heads count from 0.")
    ] = None,
    edit: Annotated[
        list[str] | None,
        Option(metavar="EDIT", help='What if: "token 3=7", "head encoder.0.self 2 off", "positions off", …'),
    ] = None,
    beam: Beam = None,
    assignments: SetDecoding = None,
    pad_to: Annotated[
        int, Option(min=0, metavar="N", help="Pad the source with <pad> to this many tokens (changes no answer).")
    ] = 0,
    heads: Annotated[
        str | None,
        Option(metavar="TABLE", help="Measure exact match on this table without each head, for --html and --json."),
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace --html.")] = False,
) -> None:
    """Explain one translation: tokens, attention, the answers of the search, and the effect of edits.

    --html FILE writes the page with every number; without it, the tokens and the answer are printed. The logits are
    compared with those of the PyTorch model, where PyTorch is installed.
    --json prints the whole trace, or with --tensor one tensor. Edits (repeat --edit): text x · token 3=7 · prefix Jan ·
    head encoder.0.self 2 off · attention decoder.1.cross off · feed-forward decoder.1 off · layer encoder.2 off ·
    positions off · causal off · scale off · attention decoder.0.cross head 1 row 2 = 0,1,0 · patch encoder.0 row 2 …

    Examples:
        glassformer explain run "July 20, 1969" --html report.html
        glassformer explain run "July 20, 1969" --edit "head encoder.0.self 2 off"
    """
    whole_trace = html is not None or (reporter.as_json and tensor is None)
    _check_options(tensor, head, heads, whole_trace=whole_trace)
    check_output(html, "--html", overwrite=overwrite)
    from glassformer.glassbox.trace import explain as explain_text
    from glassformer.storage.modelfile import ModelFile

    file = ModelFile.load(model)
    if file.members:
        reporter.warn(f"the first of the {len(file.seeds)} members is explained; translate answers with all of them")
    options = decoding_options(assignments, num_beams=beam)
    trace = explain_text(
        model,
        source_of(text, file.source_tokenizer.inputs, features) if features else text,
        target=target,
        edits=edit or (),
        evidence=whole_trace or tensor is not None,
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
    if tensor is not None:
        _print_tensor(reporter, trace, tensor, head)
    elif reporter.as_json or html is None:
        _print_trace(reporter, trace)
    if not trace.passed:
        raise RunError("the logits are not those of PyTorch", got=f"a difference of {trace.check.largest:.1e}")


def _check_options(tensor: str | None, head: int | None, heads: str | None, *, whole_trace: bool) -> None:
    if head is not None and tensor in (None, LIST):
        raise UsageError("--head needs the name of a tensor", hint="--tensor decoder.0.cross.weights")
    if heads is not None and not whole_trace:
        raise UsageError("--heads is shown in the page and in --json", hint="--html FILE")


def _measure_heads(reporter: Reporter, file: ModelFile, table: str, options: dict[str, Any]) -> HeadEffects:
    """Exact match on a table, with the columns of the model, without each head."""
    from glassformer.glassbox.evidence import head_effects

    pairs = ColumnOptions().read(reporter, table, file)
    decoding = file.settings.decoding.override(options)
    return head_effects(file, pairs.pairs, decoding=decoding, where=pairs.locations)


def _write_page(reporter: Reporter, trace: Trace, path: Path) -> None:
    from glassformer.glassbox.report import write_report

    written = write_report(trace, path)
    reporter.success(f"wrote {path} ({written.n_bytes / 1e6:.1f} MB)")
    if written.left_out:
        reporter.warn(f"left out to stay below 20 MB: {'; '.join(written.left_out)}. glassformer serve can make edits")


def _print_trace(reporter: Reporter, trace: Trace) -> None:
    """Print the trace as JSON; or the answer, the tokens, what edits changed, and the command that writes the page."""
    if reporter.as_json:
        sys.stdout.write(trace.dumps() + "\n")
        return
    best, tokens = trace.search.beam.answers[0], trace.tokens
    end = "" if best.finished else f"  (cut off at {trace.search.beam.max_new_tokens:,} tokens)"
    confidence = "" if trace.confidence is None else f", confidence {100 * trace.confidence:.1f} %"
    print_line(trace.text)
    print_line(f"→ {best.text}   score {best.score:.4f}{confidence}{end}")
    print_line(f"source: {_joined(tokens.source)}")
    print_line(f"answer: {_joined(tokens.target_out)}")
    if trace.difference is not None:
        print_line(f"before the edits: {trace.difference.beam.before.text}")
    if tokens.gold is not None:
        print_line(f"target: {_joined(tokens.gold)}   mean loss {trace.array('gold.losses').mean():.4f} nats")
    words = shlex.join(["glassformer", "explain", "--html", "explained.html", *sys.argv[2:]])
    print_line(f"every number, as a page: {words}")


def _joined(tokens: list[Token]) -> str:
    return " ".join(_visible(token.text) for token in tokens)


def _visible(token: str) -> str:
    return printable(token.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))


def _print_tensor(reporter: Reporter, trace: Trace, requested: str, head: int | None) -> None:
    """Print a tensor, one head of it, or the names of all. Raises UsageError for one that does not exist."""
    # The weights that are inputs of its steps are left out of most traces.
    names = list(dict.fromkeys([*trace.tensors, *(name for step in trace.steps for name in step.inputs)]))
    if requested == LIST:
        reporter.result({"tensors": names}, lambda: print_table("", ("name",), [(name,) for name in names]))
        return
    name = requested if requested in trace.tensors else requested.replace("_attention", "")
    if name not in trace.tensors:
        hint = f"{nearest(requested[:QUOTED], names)}; all names: --tensor {LIST}"
        raise UsageError(f"there is no tensor {requested[:QUOTED]!r}", hint=hint)
    numbers, axes = trace.array(name), list(trace.tensors[name].axes)
    if head is not None:
        if axes[:1] != ["head"]:
            raise UsageError(f"{name!r} has no heads", got=f"axes {', '.join(axes) or 'none'}", hint="leave out --head")
        if head >= len(numbers):
            raise UsageError(f"there is no head {head} in {name!r}", expected=f"0 to {len(numbers) - 1}")
        numbers, axes = numbers[head], axes[1:]
    described = [{"name": axis, **vars(trace.axes[axis])} for axis in axes]
    reporter.result(
        {"name": name, "head": head, "axes": described, "numbers": numbers.tolist()},
        lambda: _print_numbers(trace, name, numbers, axes),
        is_exact=True,
    )


def _print_numbers(trace: Trace, name: str, numbers: Any, axes: list[str]) -> None:
    """The numbers as matrices, one for each head, with a line for each row."""
    made = next((step for step in trace.steps if step.output == name), None)
    print_line(f"{name}: {made.title}. {made.words}" if made else name)
    matrices = numbers if axes[:1] == ["head"] else [numbers]
    rows, columns, *_ = *(_labels(trace.axes[axis]) for axis in axes[-2:]), [""], [""]
    for head, matrix in enumerate(matrices):
        cells = [[f"{x:.4f}" if x.dtype.kind == "f" else str(x) for x in row] for row in matrix.reshape(len(rows), -1)]
        width, left = max(len(text) for line in [columns, *cells] for text in line), max(map(len, rows))
        print_line(" · ".join([*([f"head {head}"] if len(matrices) > 1 else []), *axes[-2:]]))
        for label, line in zip(["", *rows], [columns, *cells], strict=True):
            print_line("  ".join([label.rjust(left), *(text.rjust(width) for text in line)]))


def _labels(axis: Axis) -> list[str]:
    """Labels with their position, so that equal tokens differ; a decoder row has the token fed and its target."""
    if axis.predicted is None:
        return [f"{i} {_visible(label)}" for i, label in enumerate(axis.labels)] or [str(i) for i in range(axis.length)]
    pairs = enumerate(zip(axis.labels, axis.predicted, strict=True))
    return [f"{i} {_visible(fed)} → {_visible(target)}" for i, (fed, target) in pairs]
