"""A check that CTranslate2 agrees with PyTorch, which answers the first sources too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch

from glassformer.errors import EngineError
from glassformer.inference.engines.ctranslate2 import CTranslate2Engine
from glassformer.inference.engines.torch import TorchEngine, build_model
from glassformer.paper.search import GreedyFirst, Hypothesis, OnAnswers
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile

ROWS = 200
TOLERANCE = 1e-3
"""Maximum difference (nats) that rounding makes in a log-probability; tokens that differ by less are a tie."""

GREEDY = DecodingSettings(num_beams=1)


@dataclass(frozen=True)
class Agreement:
    """The number of rows whose greedy answers were compared with PyTorch's, and of those that are equal.

    `ties` of the equal ones are other answers that are as likely. `str()` gives the text for people.
    """

    precision: str
    rows: int = 0
    equal: int = 0
    ties: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether answers must be equal (float32), and are not only counted."""
        return self.precision == "float32"

    def __str__(self) -> str:
        ties = f" ({self.ties} of them a tie)" if self.ties else ""
        return f"ctranslate2 in {self.precision}: equal to torch on {self.equal} of {self.rows} rows{ties}"


@final
class CheckedEngine:
    """CTranslate2, compared with PyTorch on the first ROWS sources (greedy search, in float32 on the CPU).

    In float32 the answers must be equal, except for ties, and the log-probabilities of their tokens within TOLERANCE;
    otherwise a search raises EngineError. In a lower precision `agreement` counts the equal answers.
    """

    def __init__(self, engine: CTranslate2Engine, model_file: ModelFile) -> None:
        self.engine = engine
        self.agreement = Agreement(engine.precision)
        self._oracle: TorchEngine | None = TorchEngine.of(
            [build_model(model_file)], model_file.target_tokenizer, torch.device("cpu")
        )

    def search(
        self,
        sources: Sequence[Sequence[int]],
        decoding: DecodingSettings,
        max_new_tokens: int,
        prefixes: Sequence[Sequence[int]] = (),
        on_answers: OnAnswers | None = None,
        greedy_first: GreedyFirst | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the answers for each framed source, best first, in the order of `sources`."""
        if self._oracle and not decoding.do_sample:
            self._compare(self._oracle, sources[: ROWS - self.agreement.rows], max_new_tokens)
        return self.engine.search(sources, decoding, max_new_tokens, prefixes, on_answers, greedy_first)

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probability (nats) of every target token after `<bos>`. Not checked."""
        return self.engine.score(pairs)

    def _compare(self, oracle: TorchEngine, sources: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        ours, expected = (
            [answers[0] for answers in engine.search(sources, GREEDY, max_new_tokens)]
            for engine in (self.engine, oracle)
        )
        tied = tied_rows(oracle, sources, ours, expected)
        wrong = [row for row in range(len(sources)) if ours[row].ids != expected[row].ids and row not in tied]
        if self.agreement.is_exact:
            pairs = [(source, framed(oracle, answer)) for source, answer in zip(sources, expected, strict=True)]
            scored = zip(self.engine.score(pairs), oracle.score(pairs), strict=True)
            drifts = [max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) for ours, theirs in scored]
            wrong += [row for row, drift in enumerate(drifts) if drift > TOLERANCE and row not in wrong]
            if wrong:
                named = ", ".join(str(self.agreement.rows + row + 1) for row in sorted(wrong)[:10])
                raise EngineError(
                    "ctranslate2 does not compute this model as torch does; nothing was translated",
                    where=f"of the first {len(sources)} texts that are not empty: number {named}",
                    got=f"{len(wrong)} other answers; log-probabilities differ by up to {max(drifts):.1e}",
                    expected=f"the same answers, and at most {TOLERANCE:.0e}",
                    hint="--engine torch, and please report this",
                )
        self.agreement = replace(
            self.agreement,
            rows=self.agreement.rows + len(sources),
            equal=self.agreement.equal + len(sources) - len(wrong),
            ties=self.agreement.ties + len(tied),
        )
        if self.agreement.rows >= ROWS:
            self._oracle = None


def tied_rows(
    oracle: TorchEngine,
    sources: Sequence[Sequence[int]],
    ours: Sequence[Hypothesis],
    expected: Sequence[Hypothesis],
) -> set[int]:
    """Return the rows where two answers first differ at tokens that are equally probable (within TOLERANCE)."""
    rows = [row for row in range(len(sources)) if ours[row].ids != expected[row].ids]
    targets = [(framed(oracle, ours[row]), framed(oracle, expected[row])) for row in rows]
    scores = iter(
        oracle.score([(sources[row], target) for row, both in zip(rows, targets, strict=True) for target in both])
    )
    tied = set()
    for row, (one, other) in zip(rows, targets, strict=True):
        position = next((i for i, (a, b) in enumerate(zip(one[1:], other[1:], strict=False)) if a != b), None)
        first, second = next(scores), next(scores)
        if position is not None and abs(first[position] - second[position]) <= TOLERANCE:
            tied.add(row)
    return tied


def framed(oracle: TorchEngine, answer: Hypothesis) -> tuple[int, ...]:
    """Return the ids of an answer with `<bos>`, and with `<eos>` where it is finished."""
    return (oracle.bos_id, *answer.ids, *([oracle.eos_id] if answer.finished else []))
