"""Translate the sources of a table, compare the answers with its targets, and report.

The target is the text of the table; both sides are normalized to NFC and nothing else, whatever normalization the model
applies to its input.

Rows with one source and several targets (a word with two pronunciations) are one item with several references: the
source is translated once, and any of its targets is right.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.data.column_settings import settings_of_model
from glassformer.data.given import Given, read_columns
from glassformer.data.ledger import Fault, Reason
from glassformer.data.pairs import checked_pairs
from glassformer.data.tables import Table, read_table
from glassformer.errors import TableError, TooLongError
from glassformer.evaluation.metrics import (
    NAMES,
    Item,
    Measure,
    References,
    bleu_scorer,
    exact_matches,
    group_by_source,
    measured,
    nearest_errors,
    nearest_references,
    row_statistics,
)
from glassformer.evaluation.reliability import Reliability, reliability
from glassformer.inference.confidence import all_of_the_beam, check_calibrated
from glassformer.inference.encoding import encode_sources
from glassformer.settings import DataSettings, DecodingSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import TakenColumns
from glassformer.text.inputs import Inputs, readable

if TYPE_CHECKING:
    from glassformer.inference.translator import Translation, Translator

WORST_EXAMPLES = 20


@dataclass(frozen=True)
class WorstAnswer:
    """A wrong answer; `edits` in tokens of the target side, `score` its log-probability under the model.

    `target` is the nearest of `n_references`, as the table has it.
    """

    source: str
    target: str
    answer: str
    edits: int
    score: float
    n_references: int = 1


@dataclass(frozen=True)
class TrainedOn:
    """The rows whose source the model was trained on (in NFC), and the metrics of all other rows.

    `unknown` says why there may be more than `rows`, or is empty. `metrics_without` are those of the `items_without`
    items with other sources; empty if there are none, or if no row has a source that was trained on.
    """

    rows: int
    unknown: str
    items_without: int
    metrics_without: dict[str, Measure]


@dataclass(frozen=True)
class Report:
    """The result of an evaluation.

    Metrics and counts are of `items`: sources with all their targets, or single rows where they were not grouped.
    `metrics` are those of `score_texts`, in its order; `seconds` is the time of translation, with the preparation of
    the engine at its first use; `decoding` holds the settings of the search; `unfinished` counts answers that were
    cut off at the maximum number of tokens; `examples` are wrong answers, the most edits per reference token first.
    `answered` are all items and their answers, which the JSON does not have. `reliability` is how good the
    confidence of the answers is, if it was requested.
    """

    rows_read: int
    rows_scored: int
    items: int
    items_with_several_references: int
    metrics: dict[str, Measure]
    seconds: float
    decoding: dict[str, Any]
    unfinished: int
    examples: tuple[WorstAnswer, ...]
    trained_on: TrainedOn
    answered: Sequence[tuple[Item, Translation]] = ()
    reliability: Reliability | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers, for `json.dumps`."""
        return {
            "rows": {
                "read": self.rows_read,
                "scored": self.rows_scored,
                "items": self.items,
                "items_with_several_references": self.items_with_several_references,
            },
            "metrics": _metrics_json(self.metrics),
            "trained_on": {
                **asdict(self.trained_on),
                "metrics_without": _metrics_json(self.trained_on.metrics_without),
            },
            "seconds": self.seconds,
            "decoding": dict(self.decoding),
            "unfinished": self.unfinished,
            "examples": [asdict(example) for example in self.examples],
        } | ({} if self.reliability is None else {"reliability": asdict(self.reliability)})


def _metrics_json(metrics: dict[str, Measure]) -> dict[str, Any]:
    """Return the metrics as dicts; the numbers of an undefined one are None."""
    without = dict.fromkeys(("value", "low", "high"))
    return {
        name: {key: part for key, part in asdict(measure).items() if part is not None}
        | ({} if measure.undefined is None else without)
        for name, measure in metrics.items()
    }


def evaluate(
    translator: Translator,
    pairs: Given,
    *,
    data: Mapping[str, Any] | None = None,
    decoding: DecodingSettings | None = None,
    bleu_tokenize: str = "13a",
    group: bool = True,
    confidence: bool = False,
    **options: Any,
) -> Report:
    """Translate the source of each (source, target) pair and score the answers against the targets.

    `pairs` is what `plan` takes, such as a path or a frame; its columns are those of `data`, fields of DataSettings, or
    else those of the training.
    Pairs of one source (in NFC) are one item, and its distinct targets its references; with `group=False` every
    pair is an item by itself. `options` are fields of DecodingSettings over `decoding`, by default the model's own (see
    `DecodingSettings.override`). With `confidence` the answers have theirs, and the report their `reliability`.

    Before translation, raises TableError when there are no pairs, UsageError for what is not a pair or when the
    confidence of answers is not known, and SettingsError for a BLEU tokenizer that cannot be used.
    """
    table = read_columns(pairs, lambda: how_to_read(translator.model_file, data or {}))
    if table is not None and (data or {}).get("bad_rows") == "skip":
        table = _without_long(table, translator.model_file)
    checked = list(checked_pairs(pairs if table is None else table.pairs, inputs=translator.inputs))
    read = len(checked) if table is None else table.ledger.read
    if not checked:
        raise TableError(
            "there are no rows to score",
            got=f"{read} read, 0 kept",
            expected="at least one pair of source and target",
        )
    bleu_scorer(bleu_tokenize)
    search = (decoding or translator.settings.decoding).override(options)
    items = group_by_source(checked) if group else [Item(row, pair[0], (pair[1],)) for row, pair in enumerate(checked)]
    names = None if table is None else [table.location(item.row) for item in items]
    if confidence:
        check_calibrated(translator.model_files, search)
        search = all_of_the_beam(search)
    start = time.perf_counter()
    answers = translator.translate([item.source for item in items], decoding=search, where=names)
    seconds = time.perf_counter() - start
    split_tokens = translator.target_tokenizer.split
    score = functools.partial(score_texts, split_tokens=split_tokens, bleu_tokenize=bleu_tokenize)
    texts = [answer.text for answer in answers]
    trained = translator.trained_sources
    n_trained = int(trained.contains(source for source, _ in checked).sum())
    untrained = np.flatnonzero(~trained.contains(item.source for item in items)).tolist()
    without: dict[str, Measure] = {}
    if n_trained and untrained:
        without = score([texts[i] for i in untrained], [items[i].references for i in untrained])
    return Report(
        rows_read=read,
        rows_scored=len(checked),
        items=len(items),
        items_with_several_references=sum(len(item.references) > 1 for item in items),
        metrics=score(texts, [item.references for item in items]),
        seconds=seconds,
        decoding=search.model_dump(),
        unfinished=sum(not answer.finished for answer in answers),
        examples=_worst(items, answers, split_tokens, translator.inputs),
        trained_on=TrainedOn(n_trained, trained.unknown, len(untrained), without),
        answered=list(zip(items, answers, strict=True)),
        reliability=reliability(answers, [item.references for item in items]) if confidence else None,
    )


def read_for(model_file: ModelFile, path: str | Path, fields: Mapping[str, Any]) -> Table:
    """Read a table for a model: the columns that `fields` of DataSettings name, or the columns of its training.

    With `bad_rows="skip"` a row is skipped too if its source is longer than the model takes.
    """
    data, trained = how_to_read(model_file, fields)
    table = read_table(path, data, trained)
    return _without_long(table, model_file) if data.bad_rows == "skip" else table


def _without_long(table: Table, model_file: ModelFile) -> Table:
    """Leave out the rows whose source is longer than the model takes."""
    try:
        encode_sources(table.sources, table.locations, model_file.source_tokenizer, model_file.settings)
    except TooLongError as error:
        for row, n_tokens in error.lengths.items():
            fault = Fault(Reason.SOURCE_TOO_LONG, f"{n_tokens} tokens, of {error.expected}")
            table.ledger.drop(table.rows[row], table.file(row), fault)
        left = [row for row in range(len(table.pairs)) if row not in error.lengths]
        return table.chosen(left, [table.pairs[row] for row in left])
    return table


def how_to_read(model_file: ModelFile, fields: Mapping[str, Any]) -> tuple[DataSettings, TakenColumns | None]:
    """Return how a table is read for a model, and the columns of its training; `fields` are those of DataSettings."""
    trained = model_file.data.columns
    return settings_of_model(model_file.source_tokenizer.inputs, trained, fields), trained


def score_texts(
    hypotheses: Sequence[str],
    references: Sequence[References],
    *,
    split_tokens: Callable[[str], list[str]],
    bleu_tokenize: str = "13a",
    resamples: int = 1000,
) -> dict[str, Measure]:
    """Return all metrics of the answers, by name; a row has one reference, or a list of several.

    exact_match; sequence_error_rate, which is 1 - exact_match (WER in the G2P literature);
    token_error_rate, word_error_rate (words between white space) and char_error_rate (code points), each the
    edits over the length of all references, the nearest in its own tokens where a row has several
    (`metrics.nearest_references`); bleu and chrf. `split_tokens` returns the tokens of a text;
    letters that it makes equal are equal for token_error_rate. Raises UsageError
    when the sides differ in number or are empty, SettingsError for a BLEU tokenizer that cannot be used.
    """
    return {
        name: measured(
            row_statistics(name, hypotheses, references, split_tokens, bleu_tokenize=bleu_tokenize), resamples
        )
        for name in NAMES
    }


def _worst(
    items: Sequence[Item],
    answers: Sequence[Translation],
    split_tokens: Callable[[str], list[str]],
    inputs: Inputs,
) -> tuple[WorstAnswer, ...]:
    """Return the wrong answers with the most edits per token of the nearest reference."""
    texts, references = [answer.text for answer in answers], [item.references for item in items]
    edits, lengths = nearest_errors(texts, references, split_tokens)
    nearest = nearest_references(texts, references, split_tokens)
    wrong = np.flatnonzero(exact_matches(texts, references) == 0)
    rates = edits / np.maximum(lengths, 1)
    order = sorted(wrong.tolist(), key=lambda row: (-rates[row], -edits[row], row))[:WORST_EXAMPLES]
    return tuple(
        WorstAnswer(
            source=readable(items[row].source, inputs),
            target=references[row][nearest[row]],
            answer=texts[row],
            edits=int(edits[row]),
            score=float(answers[row].score),
            n_references=len(references[row]),
        )
        for row in order
    )
