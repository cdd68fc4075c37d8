"""`glassformer explain`: every number behind one translation."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glassformer.cli.console import Reporter, print_json, print_table, printable
from glassformer.cli.narrate import warn_unknown
from glassformer.cli.options import AsJson, Beam, Model, Quiet, SetDecoding, decoding_options
from glassformer.errors import QUOTED, RunError, UsageError
from glassformer.files import check_writable

if TYPE_CHECKING:
    from glassformer.glassbox.schema import Axis, Node, Outputs, Search, Tensor, Trace

COLUMNS = 64  # most columns of a matrix that are printed
LIST = "list"  # what --tensor takes for the names of all


def explain(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to translate and explain.")],
    target: Annotated[
        str | None, typer.Option("--target", help="A given target too, teacher-forced, with its loss.")
    ] = None,
    tensor: Annotated[
        str | None,
        typer.Option(
            "--tensor", help="Print one tensor, such as decoder.0.cross.weights or logits; list prints all names."
        ),
    ] = None,
    head: Annotated[int | None, typer.Option("--head", min=0, help="Only this head of --tensor, from 0.")] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option("--edit", help='What if: "token 3=7", "head encoder.0.self 2 off", "positions off", …'),
    ] = None,
    beam: Beam = None,
    assignments: SetDecoding = None,
    pad_to: Annotated[
        int, typer.Option("--pad-to", min=0, help="Pad the source with <pad> to this many tokens (changes no answer).")
    ] = 0,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the page that shows all of it, as one file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --html.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Open one translation: tokens, attention, the search with its losers, and what happens after an edit.

    Every step is redone from its inputs and compared with the fast path. With --json the whole trace, or with --tensor
    one tensor. Edits (repeat --edit): token 3=7 · prefix Jan · head encoder.0.self 2 off · attention decoder.1.cross
    off · feed-forward decoder.1 off · layer encoder.2 off · positions off · causal off · scale off · attention
    decoder.0.cross head 1 row 2 = 0,1,0 …
    """
    if head is not None and tensor in (None, LIST):
        raise UsageError("--head needs the name of a tensor", hint="--tensor decoder.0.cross.weights")
    if html is not None:
        check_writable(html)
        if html.exists() and not overwrite:
            raise RunError(
                "the page exists already; nothing was written", where=str(html), hint="--overwrite, or another --html"
            )
    from glassformer.glassbox.trace import explain as explain_text

    options = decoding_options(assignments, num_beams=beam)
    reporter = Reporter(quiet)
    with_weights = html is not None or (tensor or "").endswith((".weight", ".bias", ".table"))
    history = html is not None or (as_json and tensor is None)
    trace = explain_text(
        model,
        text,
        target=target,
        edits=edit or (),
        weights=with_weights,
        history=history,
        pad_to=pad_to,
        **options,
    )
    warn_unknown(reporter, [[token.given for token in trace.tokens.source if token.given is not None]])
    if html is not None:
        from glassformer.glassbox.report import write_report

        written = write_report(trace, html)
        reporter.success(f"wrote {html} ({written.n_bytes / 1e6:.1f} MB)")
        if not written.has_weights:
            reporter.warn("the weights were left out to stay below 20 MB; glassformer serve can make edits")
    if tensor == LIST:
        _print_names(trace, as_json)
    elif tensor is not None:
        _print_tensor(trace, tensor, head, as_json)
    elif as_json:
        sys.stdout.write(trace.dumps() + "\n")
    elif html is None:
        _print_summary(trace)
    if not trace.passed:
        failed = [check.step for check in trace.checks if check.passed is False]
        raise RunError("the trace does not stand up to its own checks", got=", ".join(failed[:10]))


# One tensor


def _names(trace: Trace) -> list[str]:
    """The tensors of a trace, and the weights that its steps use, which it need not hold."""
    return list(dict.fromkeys([*trace.tensors, *(name for step in trace.steps for name in step.inputs)]))


def _print_names(trace: Trace, as_json: bool) -> None:
    names = _names(trace)
    if as_json:
        print_json({"tensors": names})
        return
    parts: dict[str, list[str]] = {}
    for name in names:
        part, _, last = name.rpartition(".")
        parts.setdefault(part, []).append(last)
    rows = [(part or "(no part)", ", ".join(lasts)) for part, lasts in parts.items()]
    print_table(f"{len(names)} tensors; a name is part.tensor: decoder.0.cross.weights", ("part", "tensors"), rows)


def _print_tensor(trace: Trace, name: str, head: int | None, as_json: bool) -> None:
    requested, name = name, name if name in trace.tensors else name.replace("_attention", "")
    if name not in trace.tensors:
        raise UsageError(f"there is no tensor {requested[:QUOTED]!r}", hint=_nearest_names(requested, trace))
    tensor, numbers = trace.tensors[name], trace.array(name)
    axes = list(tensor.axes)
    if head is not None:
        if axes[:1] != ["head"]:
            raise UsageError(f"{name!r} has no heads", got=f"axes {', '.join(axes) or 'none'}", hint="leave out --head")
        if head >= len(numbers):
            raise UsageError(f"there is no head {head} in {name!r}", expected=f"0 to {len(numbers) - 1}")
        numbers, axes = numbers[head], axes[1:]
    if as_json:
        named = [{"name": axis, **vars(trace.axes[axis])} for axis in axes]
        print_json({"name": name, "head": head, "axes": named, "numbers": numbers.tolist()})
        return
    for line in _about(trace, name, tensor):
        sys.stdout.write(line + "\n")
    if axes[:1] == ["head"]:
        for each, matrix in enumerate(numbers):
            _print_matrix(trace, f"head {each}", matrix, axes[1:])
    else:
        _print_matrix(trace, "" if head is None else f"head {head}", numbers, axes)


def _nearest_names(name: str, trace: Trace) -> str:
    """The names most like a wrong one, and how to see all."""
    close = difflib.get_close_matches(name[:QUOTED], _names(trace), n=3, cutoff=0.4)
    return (f"did you mean {' or '.join(map(repr, close))}? " if close else "") + f"all names: --tensor {LIST}"


def _about(trace: Trace, name: str, tensor: Tensor) -> Iterator[str]:
    made = next((step for step in trace.steps if step.output == name), None)
    if made is None:
        yield f"{name}: {'weights of the model' if tensor.origin == 'weight' else 'given'}"
    else:
        section = f" (section {made.section})" if made.section else ""
        yield f"{name}: {made.title}{section}. {made.words}"
        values = ", ".join(f"{key} {value:g}" for key, value in made.attributes.items())
        yield f"{made.op} of {', '.join(made.inputs)}{'; ' + values if values else ''}"
        check = next(check for check in trace.checks if check.step == name and check.kind in ("step", "axes"))
        yield f"redone from its inputs: largest difference {check.largest:.1e}{'' if check.passed else ', WRONG'}"
    if name.endswith("_mask"):
        yield ", ".join(f"{code} {reason}" for code, reason in enumerate(trace.mask_reasons))


def _print_matrix(trace: Trace, title: str, numbers: Any, axes: Sequence[str]) -> None:
    """A matrix, a column or one number; what is too wide for the terminal is printed in blocks of columns.

    A terminal too narrow for the row labels and one column wraps the lines: no number is ever cut.
    """
    written = [[_number(cell) for cell in row] for row in numbers.reshape(len(numbers) if axes else 1, -1)]
    down = _labels(trace.axes[axes[0]]) if axes else [""]
    across = _labels(trace.axes[axes[1]]) if len(axes) == 2 else [""]
    named = " · ".join([title] * bool(title) + [f"{axis} {arrow}" for axis, arrow in zip(axes, "↓→", strict=False)])
    shown = min(len(across), COLUMNS)
    label_width = max(map(cell_len, down)) + 1  # with the space after a column
    width = max(cell_len(cell) for cell in [*across[:shown], *(cell for row in written for cell in row[:shown])]) + 1
    console = Console(highlight=False, emoji=False, width=max(Console().width, label_width + width))
    fit = (console.width - label_width) // width
    for start in range(0, shown, fit):
        block = slice(start, min(start + fit, shown))
        table = Table(title=escape(named), title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        for label in ["", *across[block]]:
            table.add_column(escape(label), justify="right", no_wrap=True)
        for label, row in zip(down, written, strict=True):
            table.add_row(escape(label), *row[block])
        console.print(table)
    if shown < len(across):
        sys.stdout.write(f"… and {len(across) - shown} more columns: --json has them\n")


def _number(cell: Any) -> str:
    return str(cell) if cell.dtype.kind in "iu" else f"{cell:.4f}"


def _labels(axis: Axis) -> list[str]:
    """Numbered, so that two equal tokens are told apart; a decoder row says what it is fed and asked for."""
    if not axis.labels:
        return [str(place) for place in range(axis.length)]
    labels = [_visible(label) for label in axis.labels]
    if axis.predicted is not None:
        labels = [f"{fed} → {_visible(asked)}" for fed, asked in zip(labels, axis.predicted, strict=True)]
    return [f"{place} {label}" for place, label in enumerate(labels)]


def _visible(token: str) -> str:
    return printable(token.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))


# The summary


def _print_summary(trace: Trace) -> None:
    best = trace.search.beam.answers[0]
    end = "" if best.finished else "  (unfinished: the limit of tokens was reached)"
    text, translation = printable(trace.text), printable(trace.translation)
    sys.stdout.write(f"{text}\n→ {translation}   probability {math.exp(best.score):.4f}{end}\n\n")
    source = [
        (
            str(place),
            _visible(token.text),
            str(token.id),
            token.kind,
            "?" if token.count is None else f"{token.count:,}",
        )
        for place, token in enumerate(trace.tokens.source)
    ]
    print_table("the source, as the encoder reads it", ("position", "token", "id", "kind", "times trained"), source)
    sys.stdout.write("\n")
    _print_rows(trace)
    _print_search(trace)
    if trace.tokens.gold is not None:
        _print_gold(trace)
    if trace.difference is not None:
        _print_difference(trace)
    for line in _verdict(trace):
        sys.stdout.write(line + "\n")


def _print_rows(trace: Trace) -> None:
    columns = ["row", "fed", "asked for", "probability", "rank", "next best"]
    looks: list[tuple[str, Any]] = []
    if trace.evidence is not None:
        looks = [
            ("attends to", trace.array(trace.evidence.attention)),
            ("leans on", trace.array(trace.evidence.occlusion)),
        ]
    rows = []
    for row, (fed, asked) in enumerate(zip(trace.tokens.target_in, trace.tokens.target_out, strict=True)):
        prediction = trace.predictions["logits"][row]
        share = math.exp(float(trace.array("log_probs")[row, asked.id]))
        other = next(((text, each) for token, text, each in prediction.top if token != asked.id), ("", 0.0))
        cells = [str(row), _visible(fed.text), _visible(asked.text), f"{share:.4f}", str(prediction.rank)]
        rows.append((*cells, f"{_visible(other[0])} {other[1]:.4f}", *(_peak(trace, table[row]) for _, table in looks)))
    names = (*columns, *(name for name, _ in looks))
    print_table("the decoder, row by row", names, rows)
    if trace.evidence is not None:
        way = (
            "hidden" if trace.evidence.occluded_by == "mask" else f"replaced by {printable(trace.evidence.occluded_by)}"
        )
        sys.stdout.write(
            "attends to: largest weight of cross-attention, mean of layers and heads\n"
            f"leans on: the source token without which ({way}) the log-probability falls most\n"
        )
        for name, found in trace.evidence.correlations.items():
            agreement = "none to be found" if found.all is None else f"{found.all:.2f}"
            sys.stdout.write(f"rank correlation of attention with {name}: {agreement}\n")
    sys.stdout.write("\n")


def _peak(trace: Trace, row: Any) -> str:
    place = int(row.argmax())
    return f"{place} {_visible(trace.tokens.source[place].text)} {float(row[place]):.2f}"


def _print_search(trace: Trace) -> None:
    search = trace.search.beam
    answers = [
        (_visible(answer.text), f"{answer.score:.4f}", f"{answer.rank_score:.4f}", search.nodes[answer.node].reason)
        for answer in search.answers
    ]
    greedy = trace.search.greedy.answers[0]
    answers.append((_visible(greedy.text), f"{greedy.score:.4f}", f"{greedy.rank_score:.4f}", "greedy search"))
    title = f"answers of a beam of {search.num_beams}; the encoder ran once, the decoder {search.decoder_runs} times"
    print_table(title, ("answer", "log-probability", "after the penalty", ""), answers)
    sys.stdout.write(f"it stopped: {search.stopped}\n\n")
    rows = [
        (
            str(node.step),
            _visible(node.text),
            f"{math.exp(node.log_prob):.4f}",
            _so_far(search, loser),
            f"{loser.sum:.4f}",
            loser.reason,
        )
        for node, loser in _winner_and_losers(search)
    ]
    columns = ("step", "winner", "probability", "best that was pruned", "its sum", "why")
    print_table("who lost, and why", columns, rows)
    sys.stdout.write("\n")


def _winner_and_losers(search: Search) -> Iterator[tuple[Node, Node]]:
    """For each step of the best answer, its node and the best node that was pruned."""
    path = _path(search, search.nodes[search.answers[0].node])
    for node in path:
        pruned = [each for each in search.nodes if each.step == node.step and each.state == "pruned"]
        if pruned:
            yield node, pruned[0]


def _path(search: Search, node: Node) -> list[Node]:
    path = [node]
    while path[0].parent is not None:
        path.insert(0, search.nodes[path[0].parent])
    return path


def _so_far(search: Search, node: Node) -> str:
    return " ".join(_visible(each.text) for each in _path(search, node))


def _print_gold(trace: Trace) -> None:
    losses, log_probs = trace.array("gold.losses"), trace.array("gold.log_probs")
    assert trace.tokens.gold_in is not None
    assert trace.tokens.gold is not None
    rows = [
        (str(row), _visible(fed.text), _visible(asked.text), f"{-log_probs[row, asked.id]:.4f}", f"{losses[row]:.4f}")
        for row, (fed, asked) in enumerate(zip(trace.tokens.gold_in, trace.tokens.gold, strict=True))
    ]
    smoothing = trace.provenance.settings["training"]["label_smoothing"]
    columns = ("row", "fed", "asked for", "cross-entropy", f"with label smoothing {smoothing:g}")
    print_table(f"the given target: mean loss {losses.mean():.4f} nats", columns, rows)
    sys.stdout.write("\n")


def _print_difference(trace: Trace) -> None:
    difference = trace.difference
    assert difference is not None
    found = {"greedy": difference.greedy, "beam": difference.beam}
    rows = [(name, *_told(each)) for name, each in found.items()]
    print_table("what if: " + "; ".join(trace.edits), ("search", "before", "after", "first changed step"), rows)
    largest = sorted(difference.largest.items(), key=lambda item: -item[1])[:5]
    changed = [(name, f"{change:.4f}") for name, change in largest]
    print_table("most changed, when fed the answer before", ("quantity", "largest change"), changed)
    sys.stdout.write("\n")


def _told(outputs: Outputs) -> tuple[str, str, str]:
    step = "none" if outputs.first_changed_step is None else str(outputs.first_changed_step)
    return _visible(outputs.before.text), _visible(outputs.after.text), step


def _verdict(trace: Trace) -> Iterator[str]:
    steps = [check for check in trace.checks if check.kind == "step" and check.passed is not None]
    right = sum(bool(check.passed) for check in steps)
    yield f"checks: {right} of {len(steps)} steps redone from their inputs, largest difference " + (
        f"{max(check.largest for check in steps):.1e}"
    )
    for check in trace.checks:
        if check.kind in ("fast path", "search"):
            word = {True: "equal", False: "DIFFERENT", None: "not compared"}[check.passed]
            found = f"{word}, largest difference {check.largest:.1e} ({check.note})"
            yield f"        {check.step} and the fast path: {found}"
