"""The check of an export: the answers in its own runtime are compared with those of the model, row by row."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassformer.errors import EngineError, shortened
from glassformer.inference.engines import search
from glassformer.inference.engines.agreement import framed, tied_rows
from glassformer.inference.engines.torch import TorchEngine
from glassformer.inference.metrics import quick_metric
from glassformer.inference.translator import encode_sources
from glassformer.paper.search import Hypothesis, length_penalty
from glassformer.paper.settings import DecodingSettings, Metric
from glassformer.ship.export.answer import Answer
from glassformer.ship.export.description import max_new_tokens
from glassformer.ship.export.rows import Row, Rows
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.inputs import readable

SCORE_BOUND = 1e-3
"""Maximum difference (nats) of the score of an answer between the target's runtime and PyTorch, both in float32."""
FEWEST_EQUAL = 0.5
"""Minimum fraction of equal answers in a lower precision; with fewer the export is refused."""
MAX_LOSS = 0.1
"""Maximum by which the mean rank score of a runtime's own beam may be below that of greedy search (nats)."""
MAX_MEDIAN = 1.0
"""Maximum of the median difference (nats) of a score in a lower precision."""
BEAM = 4  # of the check where the model's own search is greedy
SHOWN = 3  # rows that an error quotes
BLANK = Hypothesis((), (), 0.0, 0.0, True)  # the answer to a text of white space

Beam = Literal["same", "own", "none"]
"""A runtime has our beam search, one with rules of its own, or none."""


@dataclass(frozen=True)
class SearchCheck:
    """The agreement of one search, in rows. `num_beams` is 1 for greedy search.

    `ties` are other answers that are as probable, `other` those that a beam with rules of its own found; both have the
    score that the model gives them. `rank_score` is the mean score after the length penalty, as the model scores the
    answers of the export, and `expected_rank_score` that of its own.
    """

    num_beams: int
    rows: int
    equal: int
    ties: int
    other: int
    rank_score: float
    expected_rank_score: float


@dataclass(frozen=True)
class MetricCheck:
    """The metric of the model and of the export on the rows with a right answer."""

    name: Metric
    rows: int
    before: float
    after: float


@dataclass(frozen=True)
class Check:
    """What was compared. `score_difference` (nats) is the maximum over all answers."""

    rows_from: str
    searches: tuple[SearchCheck, ...]
    score_difference: float
    score_bound: float | None
    metric: MetricCheck | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return asdict(self)


@dataclass(frozen=True)
class _Compared:
    """The rows of one search that are not as expected, by number."""

    search: SearchCheck
    other_ids: list[int]
    other_text: list[int]
    other_score: list[int]
    other_rank: list[int]
    score_difference: float
    median_difference: float


class Checker:
    """Compares answers to some rows with those of the model: PyTorch in float32 on the CPU."""

    def __init__(self, model_file: ModelFile, rows: Rows) -> None:
        self.model_file, self.rows = model_file, rows
        self.decoding = model_file.settings.decoding
        self._engine = TorchEngine.of_files([model_file])
        self._filled = rows.filled
        texts, names = [rows.texts[i] for i in self._filled], [rows.rows[i].name for i in self._filled]
        self._sources = encode_sources(texts, names, model_file.source_tokenizer, model_file.settings)
        self._found: dict[int, list[Hypothesis]] = {}

    def widths(self, beam: Beam) -> tuple[int, ...]:
        """Return the beam widths that are checked: 1, and the model's own (or BEAM) where the runtime has a beam."""
        return (1,) if beam == "none" else (1, self.decoding.num_beams if self.decoding.num_beams > 1 else BEAM)

    def check(self, answers: Sequence[Sequence[Answer]], beam: Beam, *, exact: bool) -> Check:
        """Compare the answers of each of `widths(beam)`.

        `exact`: ids and texts must be equal except for ties, and scores within SCORE_BOUND. Otherwise equal answers are
        counted, and the metric of the last search is measured before and after on rows with a right answer. In every
        precision texts and length penalties must be those of the model, and a beam of the runtime's own must find the
        same answers to most texts, and none that are on average less probable than those of greedy search.
        Raises EngineError with the first rows that differ.
        """
        widths = self.widths(beam)
        compared = []
        for num_beams, given in zip(widths, answers, strict=True):
            self._check_ids(given)
            expected = self._expected(num_beams)
            found = self._compare(given, expected, num_beams, own_beam=beam == "own")
            if exact:
                self._check_exact(found, given, expected)
            self._check_always(found, given, expected)
            if not exact and (
                len(set(found.other_ids) & set(self._filled)) > (1 - FEWEST_EQUAL) * len(self._filled)
                or not found.median_difference <= MAX_MEDIAN
            ):
                raise self._error(
                    "in this precision the model gives other answers or scores to most texts",
                    found.other_ids or found.other_score,
                    given,
                    expected,
                    bound=f"at least {FEWEST_EQUAL:.0%} equal answers, and a median score within {MAX_MEDIAN:g} nat",
                    hint="choose another --precision",
                )
            compared.append(found)
        return Check(
            self.rows.origin,
            tuple(found.search for found in compared),
            _largest(*(found.score_difference for found in compared)),
            SCORE_BOUND if exact else None,
            None if exact else self._metric(answers[-1], self._expected(widths[-1])),
        )

    def _check_ids(self, answers: Sequence[Answer]) -> None:
        """Raise EngineError for an answer with an id that is not in the vocabulary."""
        size = len(self.model_file.target_tokenizer)
        for row, answer in zip(self.rows.rows, answers, strict=True):
            if not all(0 <= token < size for token in answer.ids):
                raise EngineError(
                    "the exported model answers with tokens that are not in the vocabulary; nothing was written",
                    where=row.name,
                    got=str(max(answer.ids)),
                    expected=f"ids from 0 to {size - 1}",
                )

    def _expected(self, num_beams: int) -> list[Hypothesis]:
        """Return the model's best answer to each row."""
        if num_beams not in self._found:
            self._found[num_beams] = self._search(num_beams)
        return self._found[num_beams]

    def _search(self, num_beams: int) -> list[Hypothesis]:
        decoding = DecodingSettings(num_beams=num_beams, length_alpha=self.decoding.length_alpha)
        found = search(self._engine, self._sources, decoding, max_new_tokens(self.model_file))
        answers = [BLANK] * len(self.rows.rows)
        for i, (best, *_) in zip(self._filled, found, strict=True):
            answers[i] = best
        return answers

    def _compare(
        self, answers: Sequence[Answer], expected: Sequence[Hypothesis], num_beams: int, *, own_beam: bool
    ) -> _Compared:
        given = [Hypothesis(one.ids, (), one.score, 0.0, one.finished) for one in answers]
        differ = [i for i, (one, right) in enumerate(zip(given, expected, strict=True)) if one.ids != right.ids]
        scores = self._scores(given)
        ranks = [score / self._penalty(one) for one, score in zip(given, scores, strict=True)]
        ties, other = set(), set()
        if num_beams == 1:
            found = [[answers[i] for i in self._filled] for answers in (given, expected)]
            ties = {self._filled[k] for k in tied_rows(self._engine, self._sources, *found)}
        else:
            ties = {i for i in differ if abs(ranks[i] - expected[i].rank_score) <= SCORE_BOUND}
            other = set(differ) - ties if own_beam else set()
        drifts = [
            _largest(abs(one.score - score), 0.0 if one.rank_score is None else abs(one.rank_score - rank))
            for one, score, rank in zip(answers, scores, ranks, strict=True)
        ]
        decode = self.model_file.target_tokenizer.decode
        means = (statistics.fmean(found) for found in (ranks, [one.rank_score for one in expected]))
        return _Compared(
            SearchCheck(num_beams, len(answers), len(answers) - len(differ), len(ties), len(other), *means),
            [i for i in differ if i not in ties | other],
            [i for i, one in enumerate(answers) if one.text != decode(one.ids)],
            [i for i, drift in enumerate(drifts) if not drift <= SCORE_BOUND],  # NaN too
            [i for i, one in enumerate(answers) if not self._is_ranked(one)],
            _largest(*drifts),
            statistics.median(drifts),
        )

    def _scores(self, given: Sequence[Hypothesis]) -> list[float]:
        """Return the score that the model gives each answer."""
        pairs = [
            (source, framed(self._engine, given[i])) for i, source in zip(self._filled, self._sources, strict=True)
        ]
        scores = [0.0] * len(given)
        for i, tokens in zip(self._filled, self._engine.score(pairs), strict=True):
            scores[i] = sum(tokens)
        return scores

    def _penalty(self, answer: Hypothesis) -> float:
        return length_penalty(max(1, len(answer.ids) + answer.finished), self.decoding.length_alpha)

    def _is_ranked(self, answer: Answer) -> bool:
        """Return whether the rank score of an answer is its score over the model's length penalty."""
        if answer.rank_score is None:
            return True
        given = Hypothesis(answer.ids, (), answer.score, 0.0, answer.finished)
        return abs(answer.rank_score - answer.score / self._penalty(given)) <= SCORE_BOUND

    def _metric(self, answers: Sequence[Answer], expected: Sequence[Hypothesis]) -> MetricCheck | None:
        metric, tokenizer = self.model_file.settings.training.metric, self.model_file.target_tokenizer
        name: Metric = "exact_match" if metric == "loss" else metric
        known = [(i, row.target) for i, row in enumerate(self.rows.rows) if row.target is not None]
        if not known:
            return None
        targets = [target for _, target in known]
        before, after = (
            quick_metric(name, texts, targets, tokenizer.split)
            for texts in ([tokenizer.decode(expected[i].ids) for i, _ in known], [answers[i].text for i, _ in known])
        )
        return MetricCheck(name, len(known), before, after)

    def _check_always(self, found: _Compared, given: Sequence[Answer], expected: Sequence[Hypothesis]) -> None:
        """Raise EngineError for another text of the same tokens, another length penalty, or a beam that finds worse."""
        if found.other_text:
            raise self._error("the exported model writes tokens as another text", found.other_text, given, expected)
        if found.other_rank:
            raise self._error("the exported model has another length penalty", found.other_rank, given, expected)
        greedy = statistics.fmean(one.rank_score for one in self._expected(1))
        is_worse = not found.search.rank_score >= greedy - MAX_LOSS
        if found.search.other > FEWEST_EQUAL * len(self._filled) or (found.search.other and is_worse):
            wrong = [i for i, one in enumerate(given) if one.ids != expected[i].ids]
            raise self._error("its own beam finds other answers to most texts, or worse ones", wrong, given, expected)

    def _check_exact(self, found: _Compared, given: Sequence[Answer], expected: Sequence[Hypothesis]) -> None:
        """Raise EngineError when the ids or the score of an answer differ."""
        how = "greedily" if found.search.num_beams == 1 else f"with a beam of {found.search.num_beams}"
        if found.other_ids:
            raise self._error(f"the exported model gives other answers {how}", found.other_ids, given, expected)
        if found.other_score:
            what = f"the exported model gives other scores {how} (by up to {found.score_difference:.1e} nats)"
            raise self._error(what, found.other_score, given, expected)

    def _error(
        self,
        what: str,
        wrong: Sequence[int],
        given: Sequence[Answer],
        expected: Sequence[Hypothesis],
        *,
        bound: str = f"equal answers, and scores within {SCORE_BOUND:.0e} nats",
        hint: str = "please report this",
    ) -> EngineError:
        decode = self.model_file.target_tokenizer.decode

        def quote(row: Row, answer: Answer, right: Hypothesis) -> str:
            source = readable(row.text, self.rows.inputs)
            text, got, right_text = (shortened(one, 40) for one in (source, answer.text, decode(right.ids)))
            return (
                f"{row.name}: {text!r} gives {got!r} ({answer.score:.4f}), expected {right_text!r} ({right.score:.4f})"
            )

        first = [quote(self.rows.rows[i], given[i], expected[i]) for i in wrong[:SHOWN]]
        return EngineError(
            f"{what}; nothing was written",
            where=self.rows.origin,
            got=f"{len(wrong)} of {len(given)} rows differ. " + "; ".join(first),
            expected=bound,
            hint=hint,
        )


def _largest(*numbers: float) -> float:
    """Return the maximum, or NaN where one number is NaN, wherever it is."""
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)
