"""Translate the sources of a table, compare with its targets, and report.

The gold is the text as the table has it; both sides are brought to NFC and nothing else, whatever
normalisation the model applies to its own input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from glassformer.errors import TableError
from glassformer.metrics import (
    Counts,
    Interval,
    bleu,
    bootstrap,
    check_bleu_tokenizer,
    chrf,
    error_rate,
    exact_matches,
    nfc,
)
from glassformer.settings import DecodingSettings

WORST_EXAMPLES = 20


class _Answer(Protocol):
    """What is read of a translation."""

    @property
    def text(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def finished(self) -> bool: ...


class _Splits(Protocol):
    def split(self, text: str, /) -> list[str]: ...


class _HasDecoding(Protocol):
    @property
    def decoding(self) -> DecodingSettings: ...


class _Translates(Protocol):
    """What is asked of a translator; `glassformer.translator.Translator` is one."""

    @property
    def target_tokenizer(self) -> _Splits: ...
    @property
    def settings(self) -> _HasDecoding: ...
    def translate(
        self, texts: Sequence[str], /, *, decoding: DecodingSettings, where: Sequence[str] | None
    ) -> Sequence[_Answer]: ...


@dataclass(frozen=True)
class Measure:
    """A metric: its value, its 95 % bootstrap interval, and sacreBLEU's signature for BLEU and chrF."""

    value: float
    low: float
    high: float
    signature: str | None = None


@dataclass(frozen=True)
class Example:
    """A wrong answer; `edits` in tokens of the target side, `score` its log-probability under the model."""

    source: str
    gold: str
    answer: str
    edits: int
    score: float


@dataclass(frozen=True)
class Report:
    """What an evaluation found.

    `metrics` are those of `score_texts`, in its order; `seconds` is the time of translating, with all that an engine
    makes ready when it is first used; `decoding` holds the settings of the search; `unfinished` counts answers that
    reached the limit of tokens; `examples` are wrong answers, those with the most edits per reference token first.
    """

    rows_read: int
    rows_scored: int
    metrics: dict[str, Measure]
    seconds: float
    decoding: dict[str, Any]
    unfinished: int
    examples: tuple[Example, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for `json.dumps`."""
        return {
            "rows": {"read": self.rows_read, "scored": self.rows_scored},
            "metrics": {
                name: {key: part for key, part in asdict(measure).items() if part is not None}
                for name, measure in self.metrics.items()
            },
            "seconds": self.seconds,
            "decoding": dict(self.decoding),
            "unfinished": self.unfinished,
            "examples": [asdict(example) for example in self.examples],
        }


def evaluate(
    translator: _Translates,
    pairs: Sequence[tuple[str, str]],
    *,
    decoding: DecodingSettings | None = None,
    bleu_tokenize: str = "13a",
    rows_read: int | None = None,
    where: Sequence[str] | None = None,
) -> Report:
    """Translate the source of each (source, target) pair and score the answers against the targets.

    `decoding` defaults to the model's own settings; `rows_read` is how many rows the table had before some
    were not kept, and defaults to the number of pairs; `where[i]` names pair i in errors. Raises TableError
    when there are no pairs, and SettingsError for a BLEU tokenizer that cannot be used; both before anything
    is translated.
    """
    read = len(pairs) if rows_read is None else rows_read
    if not pairs:
        raise TableError(
            "there are no rows to score",
            got=f"{read} read, 0 kept",
            expected="at least one pair of source and target",
        )
    check_bleu_tokenizer(bleu_tokenize)
    search = translator.settings.decoding if decoding is None else decoding
    sources, golds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    start = time.perf_counter()
    answers = translator.translate(sources, decoding=search, where=where)
    seconds = time.perf_counter() - start
    measures, edits, lengths = _score(
        [answer.text for answer in answers],
        golds,
        translator.target_tokenizer.split,
        bleu_tokenize,
        resamples=1000,
    )
    return Report(
        rows_read=read,
        rows_scored=len(pairs),
        metrics=measures,
        seconds=seconds,
        decoding=search.model_dump(),
        unfinished=sum(not answer.finished for answer in answers),
        examples=_worst(sources, golds, answers, edits, lengths),
    )


def score_texts(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    split_tokens: Callable[[str], list[str]],
    bleu_tokenize: str = "13a",
    resamples: int = 1000,
) -> dict[str, Measure]:
    """All metrics of the answers, by name.

    exact_match; sequence_error_rate, which is 1 - exact_match (what tables of G2P call WER);
    token_error_rate, word_error_rate (words between white space) and char_error_rate (code points), each the
    edits over the length of all references; bleu and chrf. `split_tokens` gives the tokens of a text and
    should not change its letters: what it makes equal, token_error_rate takes for equal. Raises UsageError
    when the sides differ in number or are empty, SettingsError for a BLEU tokenizer that cannot be used.
    """
    return _score(hypotheses, references, split_tokens, bleu_tokenize, resamples=resamples)[0]


def _score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    split_tokens: Callable[[str], list[str]],
    bleu_tokenize: str,
    *,
    resamples: int,
) -> tuple[dict[str, Measure], Counts, Counts]:
    """The metrics, and the edits and reference lengths in tokens of each row."""
    matches = exact_matches(hypotheses, references)
    answers, golds = nfc(hypotheses), nfc(references)

    def rate(numerators: Any, denominators: Any) -> Measure:
        return _measure(bootstrap(numerators, denominators, resamples=resamples))

    def edits_by(split: Callable[[str], Sequence[str]]) -> tuple[Counts, Counts]:
        return error_rate([split(text) for text in answers], [split(text) for text in golds])

    ones = np.ones_like(matches)
    edits, lengths = edits_by(split_tokens)
    measures = {
        "exact_match": rate(matches, ones),
        "sequence_error_rate": rate(1 - matches, ones),
        "token_error_rate": rate(edits, lengths),
        "word_error_rate": rate(*edits_by(str.split)),
        "char_error_rate": rate(*edits_by(str)),
        "bleu": _measure(*bleu(answers, golds, tokenize=bleu_tokenize, resamples=resamples)),
        "chrf": _measure(*chrf(answers, golds, resamples=resamples)),
    }
    return measures, edits, lengths


def _measure(interval: Interval, signature: str | None = None) -> Measure:
    return Measure(interval.value, interval.low, interval.high, signature)


def _worst(
    sources: Sequence[str], golds: Sequence[str], answers: Sequence[_Answer], edits: Counts, lengths: Counts
) -> tuple[Example, ...]:
    wrong = np.flatnonzero(exact_matches([answer.text for answer in answers], golds) == 0)
    rates = edits / np.maximum(lengths, 1)
    order = sorted(wrong.tolist(), key=lambda row: (-rates[row], -edits[row], row))
    return tuple(
        Example(sources[row], golds[row], answers[row].text, int(edits[row]), float(answers[row].score))
        for row in order[:WORST_EXAMPLES]
    )
