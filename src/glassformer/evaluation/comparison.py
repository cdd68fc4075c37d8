"""Compare the answers of two sides, A and B, to the same rows: which is better, by how much, and how sure that is.

A side is one model, or several seeds of one recipe. Each metric is a test by itself:

    interval    95 % of the paired bootstrap (Efron 1979, Koehn 2004): rows are drawn, and both sides measured on them
    p           approximate randomization (Noreen 1989): the two answers to a row are exchanged with probability 1/2

With one model a side this says which of these two models is better. Other seeds of a recipe give other models: where a
side has several, the standard error between seeds times a draw of Student's t is added to each resample (the variance
is that of both sides together), and p is the fraction of resamples that are as far from the difference as 0 is. To draw
the seeds themselves, as rows are drawn, makes the interval too narrow: three of three seeds have two thirds of the
variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.data.tables import Table
from glassformer.errors import TableError, UsageError, counted
from glassformer.evaluation.answers import Answers
from glassformer.evaluation.metrics import (
    NAMES,
    Floats,
    Item,
    Statistics,
    group_by_source,
    higher_is_better,
    interval,
    is_fraction,
    nearest_references,
    resampled_sums,
    row_statistics,
)
from glassformer.text.inputs import Inputs, readable

COMPARED = tuple(name for name in NAMES if name != "sequence_error_rate")  # which is 1 - exact_match

MIN_ROWS = 20
SIGNIFICANT = 0.05
POWER = 1 + 0.84 / 1.96  # times half an interval: a difference that is found in four of five cases
N_EXAMPLES = 5  # of each side


@dataclass(frozen=True)
class MetricDifference:
    """One metric: the mean over the seeds of each side, B − A, the limits of its 95 % interval, and p.

    `a_seeds` and `b_seeds` are the values of each model. `better` is "A" or "B" where 0 is outside of the interval and
    p below 0.05, else empty; `verdict` says it in words. `signature` is that of sacreBLEU.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    better: str
    verdict: str
    a_seeds: tuple[float, ...]
    b_seeds: tuple[float, ...]
    signature: str | None = None


@dataclass(frozen=True)
class ComparedRow:
    """A row with the answer of the first model of each side; `target` is the nearest one of the better one."""

    source: str
    target: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    `a` and `b` are the names of the models; `rows` counts the rows of the table, `items` what is compared: sources with
    all their targets, or single rows. A side wins an item when its answers need fewer edits of characters; `examples_a`
    and `examples_b` are the items that A and B win by the most edits. `notes` say what could not be compared.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    rows: int
    items: int
    metrics: dict[str, MetricDifference]
    won_by_a: int
    won_by_b: int
    examples_a: tuple[ComparedRow, ...]
    examples_b: tuple[ComparedRow, ...]
    notes: tuple[str, ...]
    seed: int
    resamples: int

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers, for `json.dumps`."""
        return asdict(self)


def compare(
    a: Sequence[Answers],
    b: Sequence[Answers],
    table: Table,
    *,
    bleu_tokenize: str = "13a",
    group: bool = True,
    resamples: int = 1000,
    seed: int = 1,
) -> Comparison:
    """Compare the answers of two sides to the pairs of a table; a side has the answers of each of its seeds.

    Pairs of one source are one item, as in `evaluate`; with `group=False` each is one by itself. The same `seed` gives
    the same figures. Raises TableError for fewer than MIN_ROWS items, UsageError for a side without answers or with
    another number than pairs, SettingsError for a BLEU tokenizer that cannot be used.
    """
    models = (*a, *b)
    if not a or not b or any(len(model.texts) != len(table.pairs) for model in models):
        raise UsageError(
            "each model needs an answer for each row",
            got=", ".join(f"{len(model.texts):,} of {model.name}" for model in models),
            expected=f"{len(table.pairs):,} answers of at least one model on each side",
        )
    names, split_tokens, notes = _comparable(models)
    if any(model.sources is not None for model in models):
        group = False
        notes.append("the models have different inputs: each row is compared by itself")
    pairs = table.pairs
    items = group_by_source(pairs) if group else [Item(row, pair[0], (pair[1],)) for row, pair in enumerate(pairs)]
    if len(items) < MIN_ROWS:
        raise TableError(
            "there are too few rows to compare two models",
            where=table.path,
            got=counted(len(items), "different source" if len(items) < len(pairs) else "row"),
            expected=f"at least {MIN_ROWS}",
        )
    texts = [[model.texts[item.row] for item in items] for model in models]
    references = [item.references for item in items]
    metrics, edits = {}, np.zeros((len(models), len(items)))
    for name in names:
        statistics = [
            row_statistics(name, answers, references, split_tokens, bleu_tokenize=bleu_tokenize) for answers in texts
        ]
        for model, of_model in zip(models, statistics, strict=True):
            if of_model.undefined:
                notes.append(f"{name} is not compared: {of_model.undefined} ({model.name})")
                break
        else:
            metrics[name] = _difference(name, statistics[: len(a)], statistics[len(a) :], resamples, seed)
        if name == "char_error_rate":
            edits = np.stack([of_model.rows[:, 0] for of_model in statistics])
    saved = edits[: len(a)].mean(axis=0) - edits[len(a) :].mean(axis=0)  # edits that B needs fewer than A
    first_answers = texts[0], texts[len(a)]
    return Comparison(
        a=tuple(model.name for model in a),
        b=tuple(model.name for model in b),
        rows=len(pairs),
        items=len(items),
        metrics=metrics,
        won_by_a=int((saved < 0).sum()),
        won_by_b=int((saved > 0).sum()),
        examples_a=_examples(items, first_answers, 0, -saved, table.inputs),
        examples_b=_examples(items, first_answers, 1, saved, table.inputs),
        notes=tuple(notes),
        seed=seed,
        resamples=resamples,
    )


def _comparable(models: Sequence[Answers]) -> tuple[list[str], Callable[[str], list[str]], list[str]]:
    """Return the metrics that are comparable for all models, how tokens are split, and why a metric is missing.

    Tokens of two vocabularies are of different lengths, so that their error rates are not comparable.
    """
    tokenizers = [model.tokenizer for model in models if model.tokenizer is not None]
    if tokenizers and all(tokenizer.to_dict() == tokenizers[0].to_dict() for tokenizer in tokenizers[1:]):
        return list(COMPARED), tokenizers[0].split, []
    reason = "the models have different target vocabularies" if tokenizers else "its tokens are those of a model"
    without = [name for name in COMPARED if name != "token_error_rate"]
    return without, str.split, [f"token_error_rate is not compared: {reason}"]


def _examples(
    items: Sequence[Item], answers: tuple[list[str], list[str]], winner: int, saved: Floats, inputs: Inputs
) -> tuple[ComparedRow, ...]:
    """Return the items for which the winner, 0 for A or 1 for B, saved the most edits."""
    rows = []
    for row in np.argsort(-saved, kind="stable")[:N_EXAMPLES].tolist():
        if saved[row] > 0:
            source, references = readable(items[row].source, inputs), items[row].references
            (nearest,) = nearest_references([answers[winner][row]], [references], str)
            rows.append(ComparedRow(source, references[nearest], answers[0][row], answers[1][row]))
    return tuple(rows)


def _difference(
    name: str, a: Sequence[Statistics], b: Sequence[Statistics], resamples: int, seed: int
) -> MetricDifference:
    """Test one metric, from the statistics of each model of both sides."""
    models = (*a, *b)
    rows, score = np.concatenate([model.rows for model in models], axis=1), models[0].score

    def scores(sums: Floats) -> Floats:
        """[n, models · columns] -> [n, models]"""
        return np.stack([score(part) for part in np.split(sums, len(models), axis=1)], axis=1)

    def differences(values: Floats) -> Floats:
        """[n, models] -> [n]"""
        return values[:, len(a) :].mean(axis=1) - values[:, : len(a)].mean(axis=1)  # type: ignore[no-any-return]

    values = scores(rows.sum(axis=0, keepdims=True))
    difference = differences(values).item()
    resampled = differences(scores(resampled_sums(rows, resamples, seed)))
    if freedom := len(models) - 2:
        variance = (values[0, : len(a)].var() * len(a) + values[0, len(a) :].var() * len(b)) / freedom
        error = math.sqrt(variance * (1 / len(a) + 1 / len(b)))
        resampled += error * np.random.default_rng(seed).standard_t(freedom, resamples)
        p = _fraction_beyond(resampled - difference, difference)
    else:
        p = _fraction_beyond(_exchanged(a[0], b[0], resamples, seed), difference)
    low, high = interval(resampled)
    better = ""
    if p < SIGNIFICANT and not low <= 0 <= high:
        better = "B" if (difference > 0) == higher_is_better(name) else "A"
    return MetricDifference(
        a=float(values[0, : len(a)].mean()),
        b=float(values[0, len(a) :].mean()),
        difference=difference,
        low=low,
        high=high,
        p=p,
        better=better,
        verdict=_verdict(name, difference, low, high, better, len(rows)),
        a_seeds=tuple(values[0, : len(a)].tolist()),
        b_seeds=tuple(values[0, len(a) :].tolist()),
        signature=models[0].signature,
    )


def _exchanged(a: Statistics, b: Statistics, resamples: int, seed: int) -> Floats:
    """Return the differences after the two answers to a row were exchanged, each with probability 1/2."""
    change, random = b.rows - a.rows, np.random.default_rng(seed)
    # One at a time, so that memory stays that of the rows.
    moved = np.stack([random.integers(2, size=len(change)) @ change for _ in range(resamples)])
    return b.score(b.rows.sum(axis=0) - moved) - a.score(a.rows.sum(axis=0) + moved)


def _fraction_beyond(differences: Floats, observed: float) -> float:
    """Return the fraction of differences at least as far from 0 as the observed one, which counts too."""
    beyond = np.abs(differences) >= abs(observed) * (1 - 1e-9)  # sums in another order round differently
    return float((1 + beyond.sum()) / (1 + len(differences)))


def _verdict(name: str, difference: float, low: float, high: float, better: str, n_rows: int) -> str:
    scale = 100 if is_fraction(name) else 1
    if better:
        ends = sorted((abs(low) * scale, abs(high) * scale))
        return f"{better} is better by {abs(difference) * scale:.2f} points ({ends[0]:.2f} to {ends[1]:.2f})"
    if low == high == 0:
        return f"no difference found in {n_rows:,} rows: both sides have the same figures"
    missed = POWER * (high - low) / 2 * scale
    return f"no difference found in {n_rows:,} rows: one below {missed:.2f} points would often be missed"
