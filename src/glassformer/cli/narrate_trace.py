"""A trace for the terminal: its summary, one of its tensors, the names of all."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glassformer.cli.console import Reporter, print_line, print_table, printable
from glassformer.errors import QUOTED, UsageError

if TYPE_CHECKING:
    from glassformer.glassbox.schema import Axis, Outputs, Tensor, Token, Trace

MAX_COLUMNS = 64  # of a matrix that is printed
BLOCKS = "·░▒▓█"
"""Below 10, 30, 50 and 70 percent of the largest number of the row, and above."""
MAX_ROWS, MAX_LABEL = 40, 8  # of the picture of the alignment
LIST = "list"  # the value of --tensor that prints the names of all


# One tensor


def print_tensor(reporter: Reporter, trace: Trace, name: str, head: int | None) -> None:
    """Print a tensor, or one head of it. Raises UsageError for a name or a head that does not exist."""
    requested, name = name, name if name in trace.tensors else name.replace("_attention", "")
    if name not in trace.tensors:
        raise UsageError(f"there is no tensor {requested[:QUOTED]!r}", hint=_nearest_names(requested, trace))
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
        lambda: _print_tensor(trace, name, head, numbers, axes),
    )


def _print_tensor(trace: Trace, name: str, head: int | None, numbers: Any, axes: Sequence[str]) -> None:
    for line in _description(trace, name, trace.tensors[name]):
        print_line(line)
    if axes[:1] == ["head"]:
        for index, matrix in enumerate(numbers):
            _print_matrix(trace, f"head {index}", matrix, axes[1:])
    else:
        _print_matrix(trace, "" if head is None else f"head {head}", numbers, axes)


def print_names(reporter: Reporter, trace: Trace) -> None:
    """Print the names of all tensors, by part of the model."""
    names = _names(trace)
    parts: dict[str, list[str]] = {}
    for name in names:
        part, _, last = name.rpartition(".")
        parts.setdefault(part, []).append(last)
    rows = [(part or "(no part)", ", ".join(lasts)) for part, lasts in parts.items()]
    title = f"{len(names)} tensors; a name is part.tensor: decoder.0.cross.weights"
    reporter.result({"tensors": names}, lambda: print_table(title, ("part", "tensors"), rows))


def _names(trace: Trace) -> list[str]:
    """The tensors of a trace, and the weights that are inputs of its steps, which it may leave out."""
    return list(dict.fromkeys([*trace.tensors, *(name for step in trace.steps for name in step.inputs)]))


def _nearest_names(name: str, trace: Trace) -> str:
    """A hint with the names nearest to a wrong one, and how to list all."""
    close = difflib.get_close_matches(name[:QUOTED], _names(trace), n=3, cutoff=0.4)
    return (f"did you mean {' or '.join(map(repr, close))}? " if close else "") + f"all names: --tensor {LIST}"


def _description(trace: Trace, name: str, tensor: Tensor) -> Iterator[str]:
    made = next((step for step in trace.steps if step.output == name), None)
    if made is None:
        yield f"{name}: {'weights of the model' if tensor.origin == 'weight' else 'given'}"
    else:
        section = f" (section {made.section})" if made.section else ""
        yield f"{name}: {made.title}{section}. {made.words}"
        values = ", ".join(f"{key} {value:g}" for key, value in made.attributes.items())
        yield f"{made.op} of {', '.join(made.inputs)}{'; ' + values if values else ''}"
        check = next(check for check in trace.checks if check.step == name and check.kind in ("step", "axes"))
        yield f"recomputed from its inputs: largest difference {check.largest:.1e}{'' if check.passed else ', WRONG'}"
    if name.endswith("_mask"):
        yield ", ".join(f"{code} {reason}" for code, reason in enumerate(trace.mask_reasons))


def _print_matrix(trace: Trace, title: str, numbers: Any, axes: Sequence[str]) -> None:
    """A matrix, a column or one number; what is too wide for the terminal is printed in blocks of columns.

    A terminal too narrow for the row labels and one column wraps the lines: no number is ever cut.
    """
    cells = [[_number(cell) for cell in row] for row in numbers.reshape(len(numbers) if axes else 1, -1)]
    row_labels = _labels(trace.axes[axes[0]]) if axes else [""]
    column_labels = _labels(trace.axes[axes[1]]) if len(axes) == 2 else [""]
    arrows = [f"{axis} {arrow}" for axis, arrow in zip(axes, "↓→", strict=False)]
    title = escape(" · ".join([title, *arrows] if title else arrows))
    n_shown = min(len(column_labels), MAX_COLUMNS)
    label_width = max(map(cell_len, row_labels)) + 1  # with the space after a column
    shown = [*column_labels[:n_shown], *(cell for row in cells for cell in row[:n_shown])]
    width = max(map(cell_len, shown)) + 1
    console = Console(highlight=False, emoji=False, width=max(Console().width, label_width + width))
    fit = (console.width - label_width) // width
    for start in range(0, n_shown, fit):
        block = slice(start, min(start + fit, n_shown))
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        for label in ["", *column_labels[block]]:
            table.add_column(escape(label), justify="right", no_wrap=True)
        for label, row in zip(row_labels, cells, strict=True):
            table.add_row(escape(label), *row[block])
        console.print(table)
    if n_shown < len(column_labels):
        print_line(f"… and {len(column_labels) - n_shown} more columns: --json has them")


def _number(cell: Any) -> str:
    return str(cell) if cell.dtype.kind in "iu" else f"{cell:.4f}"


def _labels(axis: Axis) -> list[str]:
    """Labels with their position, so that equal tokens differ; a decoder row has the token fed and its target."""
    if not axis.labels:
        return [str(position) for position in range(axis.length)]
    labels = [_visible(label) for label in axis.labels]
    if axis.predicted is not None:
        labels = [f"{fed} → {_visible(target)}" for fed, target in zip(labels, axis.predicted, strict=True)]
    return [f"{position} {label}" for position, label in enumerate(labels)]


def _visible(token: str) -> str:
    return printable(token.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))


# The summary


def print_summary(trace: Trace) -> None:
    """Print the translation, its alignment, decoder rows, answers, gold target, edits and checks."""
    best = trace.search.beam.answers[0]
    end = "" if best.finished else f"  (cut off at {trace.search.beam.max_new_tokens:,} tokens)"
    print_line(trace.text)
    print_line(f"→ {trace.translation}   model's probability {math.exp(best.score):.4f}{end}")
    print_line()
    _print_alignment(trace)
    _print_rows(trace)
    _print_evidence(trace)
    _print_answers(trace)
    if trace.tokens.gold is not None:
        _print_gold(trace)
    if trace.difference is not None:
        _print_difference(trace)
    for line in _verdict(trace):
        print_line(line)


def _print_alignment(trace: Trace) -> None:
    """Print a row of blocks for each output token; nothing without evidence, a sentence where it does not fit."""
    if trace.evidence is None:
        return
    columns = [_label(token) for token in trace.tokens.source]
    rows = [_label(token) for token in trace.tokens.target_out]
    width = max(map(cell_len, columns)) + 1
    left = max(map(cell_len, rows)) + 2
    if left + width * len(columns) > Console().width or len(rows) > MAX_ROWS:
        print_line("the picture of the alignment does not fit here: --html FILE has it")
        print_line()
        return
    print_line(" " * left + "".join(_centered(label, width) for label in columns).rstrip())
    for label, numbers in zip(rows, trace.array(trace.evidence.occlusion), strict=True):
        largest = float(numbers.max())
        blocks = "".join(_centered(_block(float(number), largest), width) for number in numbers)
        print_line(f"{' ' * (left - 2 - cell_len(label))}{label}  {blocks.rstrip()}")
    print_line(f"{BLOCKS[-1]} the log-probability of the output token falls most without this source token")
    print_line()


def _label(token: Token) -> str:
    text = _visible(token.text)
    return text if cell_len(text) <= MAX_LABEL else set_cell_size(text, MAX_LABEL - 1) + "…"


def _centered(text: str, width: int) -> str:
    before = (width - cell_len(text)) // 2
    return " " * before + text + " " * (width - cell_len(text) - before)


def _block(number: float, largest: float) -> str:
    if largest <= 0 or number <= 0:
        return BLOCKS[0]
    return BLOCKS[sum(number / largest >= limit for limit in (0.1, 0.3, 0.5, 0.7))]


def _print_rows(trace: Trace) -> None:
    columns = ["row", "fed", "target", "probability", "rank", "next best"]
    measures: list[Any] = []
    if trace.evidence is not None:
        columns += ["attends to", "most influential token"]
        measures = [trace.array(trace.evidence.attention), trace.array(trace.evidence.occlusion)]
    rows = []
    for row, (fed, target) in enumerate(zip(trace.tokens.target_in, trace.tokens.target_out, strict=True)):
        prediction = trace.predictions["logits"][row]
        probability = math.exp(float(trace.array("log_probs")[row, target.id]))
        text, next_best = next(((text, p) for token, text, p in prediction.top if token != target.id), ("", 0.0))
        cells = (row, _visible(fed.text), _visible(target.text), probability, prediction.rank)
        rows.append((*cells, f"{_visible(text)} {next_best:.4f}", *(_peak(trace, table[row]) for table in measures)))
    print_table("decoder rows", tuple(columns), rows)


def _peak(trace: Trace, row: Any) -> str:
    """The source token with the largest number of a row."""
    position = int(row.argmax())
    return f"{position} {_visible(trace.tokens.source[position].text)} {float(row[position]):.2f}"


def _print_evidence(trace: Trace) -> None:
    if trace.evidence is not None:
        token = trace.evidence.occluded_by
        without = "it is hidden" if token == "mask" else f"{token} replaces it"
        print_line("attends to: the source token with the largest weight of cross-attention, mean of layers and heads")
        print_line(f"most influential token: the log-probability falls most when {without}")
        for name, correlation in trace.evidence.correlations.items():
            value = "undefined" if correlation.all is None else f"{correlation.all:.2f}"
            print_line(f"rank correlation of attention with {name}: {value}")
    print_line()


def _print_answers(trace: Trace) -> None:
    search = trace.search.beam
    greedy = trace.search.greedy.answers[0]
    reasons = [*(search.nodes[answer.node].reason for answer in search.answers), "greedy search"]
    rows = [
        (_visible(answer.text), answer.score, answer.rank_score, reason)
        for answer, reason in zip([*search.answers, greedy], reasons, strict=True)
    ]
    title = f"answers of a beam of {search.num_beams}; the encoder ran once, the decoder {search.decoder_runs} times"
    print_table(title, ("answer", "log-probability", "after the penalty", ""), rows)
    print_line(f"stopped: {search.stopped}")
    print_line()


def _print_gold(trace: Trace) -> None:
    losses, log_probs = trace.array("gold.losses"), trace.array("gold.log_probs")
    assert trace.tokens.gold_in is not None
    assert trace.tokens.gold is not None
    rows = [
        (row, _visible(fed.text), _visible(target.text), -float(log_probs[row, target.id]), float(losses[row]))
        for row, (fed, target) in enumerate(zip(trace.tokens.gold_in, trace.tokens.gold, strict=True))
    ]
    smoothing = trace.provenance.settings["training"]["label_smoothing"]
    columns = ("row", "fed", "target", "cross-entropy", f"with label smoothing {smoothing:g}")
    print_table(f"the gold target: mean loss {losses.mean():.4f} nats", columns, rows)
    print_line()


def _print_difference(trace: Trace) -> None:
    difference = trace.difference
    assert difference is not None
    searches = {"greedy": difference.greedy, "beam": difference.beam}
    rows = [(name, *_outputs(outputs)) for name, outputs in searches.items()]
    print_table("what if: " + "; ".join(trace.edits), ("search", "before", "after", "first changed step"), rows)
    largest = sorted(difference.largest.items(), key=lambda item: -item[1])[:5]
    print_table("most changed, when fed the answer before the edits", ("tensor", "largest change"), largest)
    print_line()


def _outputs(outputs: Outputs) -> tuple[str, str, str]:
    step = "none" if outputs.first_changed_step is None else str(outputs.first_changed_step)
    return _visible(outputs.before.text), _visible(outputs.after.text), step


def _verdict(trace: Trace) -> Iterator[str]:
    steps = [check for check in trace.checks if check.kind == "step" and check.passed is not None]
    passed = sum(bool(check.passed) for check in steps)
    yield f"checks: {passed} of {len(steps)} steps recomputed from their inputs, largest difference " + (
        f"{max(check.largest for check in steps):.1e}"
    )
    for check in trace.checks:
        if check.kind in ("pytorch", "search"):
            result = {True: "equal", False: "DIFFERENT", None: "not compared"}[check.passed]
            largest = "" if check.passed is None else f"largest difference {check.largest:.1e} "
            other = "PyTorch" if check.kind == "pytorch" else "translate"
            yield f"        {check.step}, compared with {other}: {result}, {largest}({check.note})"
