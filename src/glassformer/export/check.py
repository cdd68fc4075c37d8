"""The check of an export: the answers in its own runtime are compared with the model's answers, row by row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import EngineError, shortened
from glassformer.evaluation.metrics import quick_metric
from glassformer.export.programs import Beam, ProgramAnswer, max_new_tokens
from glassformer.export.rows import CheckRows
from glassformer.inference.encoding import encode_sources
from glassformer.inference.engines import load_engine, search
from glassformer.paper.search import Hypothesis, length_penalty
from glassformer.settings import DecodingSettings, Metric
from glassformer.storage.modelfile import ModelFile, each_model
from glassformer.text.inputs import is_not_empty, readable

SCORE_BOUND = 1e-3
"""Maximum difference (nats) of the score of an answer between the target's runtime and the NumPy engine, in float32."""
FEWEST_EQUAL = 0.5
"""Minimum fraction of equal answers in a lower precision; with fewer the export is refused."""
MAX_LOSS = 0.1
"""Maximum by which the mean rank score of a runtime's own beam may be below greedy search (nats)."""
MAX_MEDIAN = 1.0
"""Maximum of the median difference (nats) of a score in a lower precision."""
TIE = 1e-3
"""Maximum difference (nats) that rounding makes in a log-probability; tokens that differ by less are a tie."""
BEAM = 4  # of the check where the model's own search is greedy
SHOWN = 3  # rows that an error quotes
EQUAL = f"equal answers, and scores within {SCORE_BOUND:.0e} nats"
BLANK = Hypothesis((), (), 0.0, 0.0, True)  # the answer to a text of white space


@dataclass(frozen=True)
class SearchCheck:
    """The agreement of one search, in rows. `num_beams` is 1 for greedy search.

    `ties` are other answers that are as probable, `other` are answers of a beam with its own rules; both have the
    score that the model gives them. `rank_score` is the mean score after the length penalty, as the model scores the
    answers of the export, and `expected_rank_score` the mean for its own answers.
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
class ExportCheck:
    """What was compared. `score_difference` (nats) is the maximum over all answers."""

    rows_from: str
    searches: tuple[SearchCheck, ...]
    score_difference: float
    score_bound: float | None
    metric: MetricCheck | None = None


class Checker:
    """Compares answers to some rows with the answers of the model: the NumPy engine, in float32."""

    def __init__(self, model_file: ModelFile, rows: CheckRows) -> None:
        self.model_file, self.rows = model_file, rows
        self.decoding, self._decode = model_file.settings.decoding, model_file.target_tokenizer.decode
        self._engine = load_engine("numpy", each_model([model_file]), "cpu", "float32")
        self._filled = [i for i, text in enumerate(rows.texts) if is_not_empty(text, rows.inputs)]
        texts, names = [rows.texts[i] for i in self._filled], [rows.rows[i].name for i in self._filled]
        self._sources = encode_sources(texts, names, model_file.source_tokenizer, model_file.settings)
        self.widths = (1, self.decoding.num_beams if self.decoding.num_beams > 1 else BEAM)
        """The beam widths that are checked."""

    def check(self, answers: Sequence[Sequence[ProgramAnswer]], beam: Beam, *, exact: bool) -> ExportCheck:
        """Compare the answers of each of `widths`.

        `exact`: ids and texts must be equal except for ties, and scores within SCORE_BOUND. Otherwise equal answers are
        counted, and the metric of the last search is measured before and after on rows with a right answer. In every
        precision texts and length penalties must be the model's, and a beam of the runtime's own must find the
        same answers to most texts, on average not less probable than the answers of greedy search.
        Raises EngineError with the first rows that differ.
        """
        searches: list[SearchCheck] = []
        differences = []
        for num_beams, exported in zip(self.widths, answers, strict=True):
            expected = self._search(num_beams)
            agreement, difference = self._compare(exported, expected, num_beams, own_beam=beam == "own", exact=exact)
            searches.append(agreement)
            differences.append(difference)
            is_worse = not agreement.rank_score >= searches[0].expected_rank_score - MAX_LOSS
            if agreement.other > FEWEST_EQUAL * len(self._filled) or (agreement.other and is_worse):
                wrong = _differing(exported, expected)
                self._refuse("its own beam finds other answers to most texts, or worse ones", wrong, exported, expected)
        metric = None if exact else self._metric(answers[-1], expected)
        bound = SCORE_BOUND if exact else None
        return ExportCheck(self.rows.origin, tuple(searches), float(np.max(differences)), bound, metric)

    def _search(self, num_beams: int) -> list[Hypothesis]:
        """Return the model's best answer to each row."""
        decoding = DecodingSettings(num_beams=num_beams, length_alpha=self.decoding.length_alpha)
        beams = search(self._engine, self._sources, decoding, max_new_tokens(self.model_file))
        answers = [BLANK] * len(self.rows.rows)
        for i, (best, *_) in zip(self._filled, beams, strict=True):
            answers[i] = best
        return answers

    def _compare(
        self,
        answers: Sequence[ProgramAnswer],
        expected: Sequence[Hypothesis],
        num_beams: int,
        *,
        own_beam: bool,
        exact: bool,
    ) -> tuple[SearchCheck, float]:
        """Compare one search; return its agreement and the maximum difference of a score. Raises EngineError."""
        self._check_ids(answers)
        exported_scores = np.array([answer.score for answer in answers])
        exported_ranks = np.array([answer.rank_score for answer in answers])
        lengths = (max(1, len(answer.ids) + answer.finished) for answer in answers)
        penalties = np.array([length_penalty(length, self.decoding.length_alpha) for length in lengths])
        scores = self._scores(answers)
        ranks = scores / penalties
        differ = _differing(answers, expected)
        if num_beams == 1:
            ties = self._ties(differ, answers, expected)
        else:
            ties = {i for i in differ if abs(ranks[i] - expected[i].rank_score) <= SCORE_BOUND}
        other = set(differ) - ties if own_beam and num_beams > 1 else set()
        wrong = [i for i in differ if i not in ties | other]
        drifts = np.maximum(abs(exported_scores - scores), abs(exported_ranks - ranks))
        drifted = _above_bound(drifts)
        how = "greedily" if num_beams == 1 else f"with a beam of {num_beams}"
        if exact and wrong:
            self._refuse(f"the exported model gives other answers {how}", wrong, answers, expected)
        if exact and drifted:
            what = f"the exported model gives other scores {how} (by up to {drifts.max():.1e} nats)"
            self._refuse(what, drifted, answers, expected)
        if rewritten := [i for i, answer in enumerate(answers) if answer.text != self._decode(answer.ids)]:
            self._refuse("the exported model writes tokens as another text", rewritten, answers, expected)
        if unranked := _above_bound(abs(exported_ranks - exported_scores / penalties)):
            self._refuse("the exported model has another length penalty", unranked, answers, expected)
        n_wrong = len(set(wrong) & set(self._filled))
        if n_wrong > (1 - FEWEST_EQUAL) * len(self._filled) or not np.median(drifts) <= MAX_MEDIAN:
            self._refuse(
                "in this precision the model gives other answers or scores to most texts",
                wrong or drifted,
                answers,
                expected,
                bound=f"at least {FEWEST_EQUAL:.0%} equal answers, and a median score within {MAX_MEDIAN:g} nat",
                hint="choose another --precision",
            )
        counts = len(answers), len(answers) - len(differ), len(ties), len(other)
        means = statistics.fmean(ranks), statistics.fmean(right.rank_score for right in expected)
        return SearchCheck(num_beams, *counts, *means), float(drifts.max())

    def _check_ids(self, answers: Sequence[ProgramAnswer]) -> None:
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

    def _scores(self, answers: Sequence[ProgramAnswer]) -> NDArray[np.float64]:
        """Return the score that the model gives each answer."""
        pairs = [(source, self._framed(answers[i])) for i, source in zip(self._filled, self._sources, strict=True)]
        scores = np.zeros(len(answers))
        scores[self._filled] = [sum(tokens) for tokens in self._engine.score(pairs)]
        return scores

    def _ties(
        self, differ: Sequence[int], answers: Sequence[ProgramAnswer], expected: Sequence[Hypothesis]
    ) -> set[int]:
        """Return the rows where two answers first differ at tokens that are equally probable (within TIE)."""
        sources = dict(zip(self._filled, self._sources, strict=True))
        rows = [i for i in differ if i in sources]
        targets = [(self._framed(answers[i]), self._framed(expected[i])) for i in rows]
        pairs = [(sources[i], target) for i, pair in zip(rows, targets, strict=True) for target in pair]
        scores = iter(self._engine.score(pairs))
        ties = set()
        for i, (ids, right_ids) in zip(rows, targets, strict=True):
            position = next((t for t, (a, b) in enumerate(zip(ids[1:], right_ids[1:], strict=False)) if a != b), None)
            first, second = next(scores), next(scores)
            if position is not None and abs(first[position] - second[position]) <= TIE:
                ties.add(i)
        return ties

    def _framed(self, answer: ProgramAnswer | Hypothesis) -> tuple[int, ...]:
        """Return the ids of an answer with `<bos>`, and with `<eos>` where it is finished."""
        vocabulary = self.model_file.target_tokenizer.vocabulary
        return (vocabulary.bos_id, *answer.ids, *([vocabulary.eos_id] if answer.finished else []))

    def _metric(self, answers: Sequence[ProgramAnswer], expected: Sequence[Hypothesis]) -> MetricCheck | None:
        metric = self.model_file.settings.training.metric
        name: Metric = "exact_match" if metric == "loss" else metric
        targets = {i: row.target for i, row in enumerate(self.rows.rows) if row.target is not None}
        if not targets:
            return None
        split = self.model_file.target_tokenizer.split
        texts_before, texts_after = [self._decode(expected[i].ids) for i in targets], [answers[i].text for i in targets]
        before, after = (
            quick_metric(name, texts, list(targets.values()), split) for texts in (texts_before, texts_after)
        )
        return MetricCheck(name, len(targets), before, after)

    def _refuse(
        self,
        what: str,
        wrong: Sequence[int],
        answers: Sequence[ProgramAnswer],
        expected: Sequence[Hypothesis],
        *,
        bound: str = EQUAL,
        hint: str = "please report this",
    ) -> NoReturn:
        """Raise EngineError, which quotes the first rows that are wrong."""
        quotes = []
        for row, answer, right in ((self.rows.rows[i], answers[i], expected[i]) for i in wrong[:SHOWN]):
            texts = readable(row.text, self.rows.inputs), answer.text, self._decode(right.ids)
            source, got, right_text = (repr(shortened(text, 40)) for text in texts)
            difference = f"{source} gives {got} ({answer.score:.4f}), expected {right_text} ({right.score:.4f})"
            quotes.append(f"{row.name}: {difference}")
        raise EngineError(
            f"{what}; nothing was written",
            where=self.rows.origin,
            got=f"{len(wrong)} of {len(answers)} rows differ. " + "; ".join(quotes),
            expected=bound,
            hint=hint,
        )


def _differing(answers: Sequence[ProgramAnswer], expected: Sequence[Hypothesis]) -> list[int]:
    """Return the rows with other ids than expected."""
    return [i for i, (answer, right) in enumerate(zip(answers, expected, strict=True)) if answer.ids != right.ids]


def _above_bound(differences: NDArray[np.float64]) -> list[int]:
    """Return the rows where a difference is above SCORE_BOUND, or NaN."""
    rows: list[int] = np.flatnonzero(~(differences <= SCORE_BOUND)).tolist()
    return rows
