"""Text that several verbs print: how a table was read, the plan and the events of a run, warnings, reports."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from glassformer.cli.console import Reporter, plain_table, print_line, print_table, printable
from glassformer.errors import counted, shortened

if TYPE_CHECKING:
    from glassformer.data.rows import OpenRows
    from glassformer.data.tables import Table
    from glassformer.evaluation.evaluate import Report
    from glassformer.evaluation.metrics import Measure
    from glassformer.evaluation.reliability import Reliability
    from glassformer.inference.translator import Translator
    from glassformer.planning.plan import Plan
    from glassformer.settings import DecodingSettings
    from glassformer.storage.modelfile import ModelFile

QUOTED = 300  # characters of a text in a table
QUOTED_IN_EXAMPLE = 100  # characters of a text of the first row
SHOWN_UNLIKE = 3  # texts that are unlike the training, in a warning
SHOWN_OTHERS = 8  # columns that are not read

# Tables


def print_reading(reporter: Reporter, table: Table | OpenRows, taken: str = "", *, arrives: bool = False) -> None:
    """Print how a table was read, with its columns as `taken`; `arrives`: its rows are yet to come."""
    from glassformer.data.rows import first_row_note

    header = "with a header" if table.header else "without a header"
    if not table.first:  # a format with column names
        header = "named columns" if table.header else "line by line"
    read = "reading" if arrives else "read"
    counts = "" if arrives else f": {table.ledger.summary()}"
    reporter.print(f"{read} {printable(table.path)} ({table.format}, {header}){counts}")
    reporter.print(printable(taken or _taken_text(cast("Table", table))))
    for note in filter(None, (first_row_note(table), *table.notes)):
        reporter.print(printable(note))


def _taken_text(table: Table) -> str:
    """Return which columns are source and target, and which of a few others are not read."""
    source, target = table.labels
    text = f"source: {source} · target: {target}"
    if not 0 < len(table.unread) <= SHOWN_OTHERS:
        return text
    return f"{text} · not read: {', '.join(map(shortened, table.unread))}"


def print_ledger(reporter: Reporter, table: Table | OpenRows, ledger: Path | None) -> None:
    """Print which file lists the rows that are not kept, or which option would."""
    if table.ledger.entries and ledger is not None:
        reporter.print(f"each row that is not kept will be listed in {ledger}")
    elif table.ledger.entries:
        reporter.print("list each row that was not kept with --ledger FILE")


# Training


def print_plan(reporter: Reporter, planned: Plan, ledger: Path | None = None, *, verbose: bool = False) -> None:
    """Print the plan of a run: rows, columns with an example, what was decided in two sentences, and the notices.

    With `verbose`: how each table was read, and all choices with their reasons. `ledger` lists the rows that are not
    kept.
    """
    from glassformer.planning.notices import notices_of
    from glassformer.planning.summary import summary_of

    for table in (planned.table, planned.valid, planned.test):
        if table is not None and verbose:
            print_reading(reporter, table)
            print_ledger(reporter, table, ledger)
        elif table is not None:
            _print_rows(reporter, table, ledger)
    if not verbose:
        _print_example(reporter, planned.table)
    if verbose and planned.choices:
        rows = [(choice.setting, str(choice.value), choice.reason) for choice in planned.choices]
        title = "chosen from the data (change any with --set)"
        reporter.console.print(plain_table(title, ("setting", "value", "reason"), rows))
    for sentence in summary_of(planned):
        reporter.print(sentence)
    for notice in notices_of(planned):
        if notice.kind in ("changed", "environment", "no checkpoint", "new tokens", "sample"):
            reporter.print(notice.text)
        elif notice.kind == "audit" and not verbose:
            first, *more = notice.text.split("\n")
            command = f"glassformer audit {shlex.quote(notice.table)}"
            reporter.warn(f"{first} ({counted(len(more), 'more finding')}: {command})" if more else first)
        elif notice.kind not in ("first row", "reading"):  # printed with their table
            reporter.warn(notice.text)


def _print_rows(reporter: Reporter, table: Table, ledger: Path | None) -> None:
    """Print how many rows were read and kept, and why others were not, in one line."""
    counts = table.ledger.counts()
    text = f"{printable(table.path)}: {counted(counts.pop('read'), 'row')} read, {counts.pop('kept'):,} kept"
    reasons = [f"{count:,} × {reason}" for reason, count in counts.items()]
    if table.ledger.changed:
        reasons.append(f"{table.ledger.changed:,} without their control characters")
    where = f": {ledger}" if ledger is not None and counts else ""
    reporter.print(f"{text} ({', '.join(reasons)}{where})" if reasons else text)
    for note in table.notes:
        reporter.print(printable(note))


def _print_example(reporter: Reporter, table: Table) -> None:
    """Print which columns are source and target, their first row, and how the first row of the table was read if that
    is a guess.
    """
    from glassformer.data.rows import first_row_note
    from glassformer.text.inputs import readable

    source, target = table.pairs[0]
    pair = (shortened(text, QUOTED_IN_EXAMPLE) for text in (readable(source, table.inputs), target))
    reporter.print(printable(_taken_text(table)))
    reporter.print(printable(f"such as: {' → '.join(pair)}"))
    if table.header_guessed and not table.header:
        reporter.print(printable(first_row_note(table)))


# Answers


def print_report(report: Report, table: str, translator: Translator) -> None:
    """Print the main metric of a report and what is wrong most, then all metrics, and the worst answers."""
    from glassformer.evaluation.failures import KINDS, largest_kind, most_wrong

    main = translator.settings.training.metric
    print_line(_verdict(report, main if main in report.metrics else "exact_match"), style="bold")
    if group := most_wrong(translator, report.answered):
        right, of_others = (f"{share.count:,} of {share.of:,} right" for share in (group.share, group.others))
        print_line(f"wrong most: {group.rows} ({right}; of all others {of_others})")
    elif kind := largest_kind(translator, report.answered):
        answers = f"{kind.answers.count:,} of {counted(kind.answers.of, 'wrong answer')}"
        print_line(f"wrong most: {KINDS[kind.name]} ({answers})")
    print_line(_trained_on(report), style="" if report.trained_on.rows else "dim")
    if report.items < report.rows_scored:
        print_line(
            f"{report.rows_scored:,} rows, {counted(report.items, 'source')}, "
            f"{report.items_with_several_references:,} of them with several targets "
            "(evaluate --no-group scores every row by itself)",
            style="dim",
        )
    rows = []
    without = report.trained_on.metrics_without
    for name, measure in report.metrics.items():
        value_without = (_measured(name, without[name])[0],) if without else ()
        rows.append((name, *_measured(name, measure), *value_without))
    title = f"{report.rows_scored:,} of {report.rows_read:,} rows of {table} in {report.seconds:.1f} s"
    print_table(title, ("metric", "value", "95 % interval", *(("not trained on",) if without else ())), rows, dim=True)
    if report.reliability is not None:
        _print_reliability(report.reliability)
    if report.examples:
        worst = [
            (
                *(shortened(text, QUOTED) for text in (example.source, example.target, example.answer)),
                example.edits,
                example.n_references,
            )
            for example in report.examples[:5]
        ]
        columns = ("source", "nearest target", "answer", "edits", "targets")
        print_table("the worst answers", columns, worst, dim=True)


def _verdict(report: Report, name: str) -> str:
    """Return a metric, its interval and the number of answers in a sentence."""
    from glassformer.evaluation.metrics import metric_name

    measure = report.metrics[name]
    value, interval = _measured(name, measure)
    if measure.undefined is not None:
        return f"{metric_name(name)} is {value}: {interval}"
    text = f"{metric_name(name)} {value} (95 % interval {interval.replace('–', 'to')})"
    if name != "exact_match":
        return f"{text} on {counted(report.items, 'answer')}"
    return f"{round(measure.value * report.items):,} of {counted(report.items, 'answer')} are right: {text}"


def _print_reliability(reliability: Reliability) -> None:
    """Print what the confidence of the answers promises, next to what is right."""
    rows = []
    for level in reliability.levels:
        right = interval = ""
        if level.accuracy is not None and level.low is not None and level.high is not None:
            right, interval = f"{100 * level.accuracy:.1f} %", f"{100 * level.low:.1f} – {100 * level.high:.1f}"
        rows.append((f"{level.minimum:g}", level.answers, f"{100 * level.coverage:.1f} %", right, interval))
    error = f"expected calibration error {100 * reliability.calibration_error:.1f} points"
    brier = f"Brier score {reliability.brier:.4f} ({reliability.brier_constant:.4f} with one confidence for all)"
    title = f"answers with a minimum confidence: {error}, {brier}"
    print_table(title, ("minimum", "answers", "of all", "right", "95 % interval"), rows)


def _measured(name: str, measure: Measure) -> tuple[str, str]:
    """Return the value and the interval of a metric as text."""
    from glassformer.evaluation.metrics import is_fraction

    if measure.undefined is not None:
        return "undefined", measure.undefined
    value, low, high = (measured_number(name, number) for number in (measure.value, measure.low, measure.high))
    return f"{value} %" if is_fraction(name) else value, f"{low} – {high}"


def _trained_on(report: Report) -> str:
    """Return how many rows have a source that was trained on, and the exact match without them."""
    trained, total = report.trained_on, report.rows_scored
    if trained.unknown and not trained.rows:
        return f"rows with a source that was trained on: unknown, because {trained.unknown}"
    rows = f"{trained.rows:,} of {total:,} rows have" if trained.rows else "no row has"
    text = f"{rows} a source that was trained on"
    if trained.metrics_without:
        text += f"; without them: exact match {_measured('exact_match', trained.metrics_without['exact_match'])[0]}"
    return text + (f"; there may be more, because {trained.unknown}" if trained.unknown else "")


def measured_text(metric: str, value: float) -> str:
    """Return a metric and its value as text."""
    from glassformer.evaluation.metrics import is_fraction, metric_name

    if metric == "loss":
        return f"loss {value:.4f}"
    return f"{metric_name(metric)} {measured_number(metric, value)}{' %' if is_fraction(metric) else ''}"


def measured_number(metric: str, value: float) -> str:
    """Return a value as text; fractions become percentages."""
    from glassformer.evaluation.metrics import is_fraction

    return f"{100 * value if is_fraction(metric) else value:.2f}"


def warn_unknown(reporter: Reporter, unknown: Iterable[Sequence[str]]) -> None:
    """Warn about tokens that the vocabulary does not have; `unknown` holds them for each line."""
    lines = [tokens for tokens in unknown if tokens]
    warn_unknown_tokens(reporter, Counter(chain.from_iterable(lines)), len(lines))


def warn_unknown_tokens(reporter: Reporter, counts: Mapping[str, int], n_lines: int) -> None:
    """Warn about these counts of tokens that the vocabulary does not have, in a number of lines."""
    if counts:
        token_counts = ", ".join(f"{token!r} ({count:,})" for token, count in Counter(counts).most_common(10))
        total = sum(counts.values())
        where = f"{counted(total, 'unknown token')} in {counted(n_lines, 'line')}"
        reporter.warn(f"{where} {'was' if total == 1 else 'were'} read as <unk>: {token_counts}")


def warn_about_sources(reporter: Reporter, translator: Translator, table: Table) -> None:
    """Warn about the sources of a table that have unknown tokens or are unlike the training."""
    tokenizer, unlike_rows = translator.source_tokenizer, []
    unknown = list(map(tokenizer.unknown, table.sources))
    warn_unknown(reporter, unknown)
    for row, ids, lacking in zip(table.rows, tokenizer.encode_many(table.sources), unknown, strict=True):
        if unlike := translator.model_file.unlike(tokenizer.frame(ids), lacking):
            unlike_rows.append(f"row {row} ({unlike})")
    warn_unlike(reporter, len(unlike_rows), unlike_rows)


def warn_unlike(reporter: Reporter, count: int, first: Sequence[str]) -> None:
    """Warn about a number of texts that are unlike the training; `first` are some of them, with the reason."""
    if count:
        texts = counted(count, "text is", "texts are")
        more = f" and {count - SHOWN_UNLIKE:,} more" if count > SHOWN_UNLIKE else ""
        reporter.warn(f"{texts} unlike all that the model was trained on: {', '.join(first[:SHOWN_UNLIKE])}{more}")


def warn_cut_off(reporter: Reporter, count: int, first: Sequence[str] = ()) -> None:
    """Warn about a number of answers that the maximum number of tokens cut off; `first` are the lines of some."""
    if count:
        lines = f", in lines {', '.join(first)}{', …' if count > len(first) else ''}" if first else ""
        cut = f"{counted(count, 'answer was', 'answers were')} cut off at the maximum number of tokens"
        reporter.warn(f"{cut}{lines}; --set decoding.max_new_tokens=N allows more, unless learned positions end there")


def warn_short_limit(reporter: Reporter, model_file: ModelFile, decoding: DecodingSettings) -> None:
    """Warn about a maximum number of tokens that the targets of the training do not fit."""
    if text := model_file.data.short_limit(decoding.max_new_tokens):
        reporter.warn(text)
