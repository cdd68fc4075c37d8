"""Proof that CTranslate2 computes the model: PyTorch answers its first sources too, and the answers are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch

from glassformer.decoding import Hypothesis, OnAnswers
from glassformer.engines.ctranslate2 import CTranslate2Engine
from glassformer.engines.torch import TorchEngine, build_model
from glassformer.errors import EngineError
from glassformer.modelfile import ModelFile
from glassformer.settings import DecodingSettings

ROWS = 200
TOLERANCE = 1e-3
"""Largest difference (nats) that rounding may make in a token; tokens that differ by less are a tie."""

GREEDY = DecodingSettings(num_beams=1)


@dataclass(frozen=True)
class Proof:
    """On how many rows greedy search gave PyTorch's answer; on `ties` of them another one that is as likely.

    `str(proof)` is the text for people.
    """

    precision: str
    rows: int = 0
    equal: int = 0
    ties: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether equal answers are demanded, not only counted."""
        return self.precision == "float32"

    def __str__(self) -> str:
        ties = f" ({self.ties} of them a tie)" if self.ties else ""
        return f"ctranslate2 in {self.precision}: equal to torch on {self.equal} of {self.rows} rows{ties}"


@final
class ProvenEngine:
    """CTranslate2, whose first ROWS sources are answered by PyTorch too (greedy search, in float32 on the CPU).

    In float32 the answers must be the same, but for ties, and so must the log-probabilities of their tokens within
    TOLERANCE; else EngineError. In a lower precision `proof` counts what is equal.
    """

    def __init__(self, engine: CTranslate2Engine, model_file: ModelFile) -> None:
        self.engine = engine
        self.proof = Proof(engine.precision)
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
    ) -> list[list[Hypothesis]]:
        """The answers for each framed source, best first, in the order of `sources`."""
        if self._oracle and not decoding.do_sample:
            self._prove(self._oracle, sources[: ROWS - self.proof.rows], max_new_tokens)
        return self.engine.search(sources, decoding, max_new_tokens, prefixes, on_answers)

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Log-probability of every target token after `<bos>`. What the proof of a search covers holds here too."""
        return self.engine.score(pairs)

    def _prove(self, oracle: TorchEngine, sources: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        ours, expected = (
            [answers[0] for answers in engine.search(sources, GREEDY, max_new_tokens)]
            for engine in (self.engine, oracle)
        )
        tied = _ties(oracle, sources, ours, expected)
        wrong = [row for row in range(len(sources)) if ours[row].ids != expected[row].ids and row not in tied]
        if self.proof.is_exact:
            pairs = [(source, _framed(oracle, answer)) for source, answer in zip(sources, expected, strict=True)]
            scored = zip(self.engine.score(pairs), oracle.score(pairs), strict=True)
            drifts = [max(abs(a - b) for a, b in zip(*each, strict=True)) for each in scored]
            wrong += [row for row, drift in enumerate(drifts) if drift > TOLERANCE and row not in wrong]
            if wrong:
                named = ", ".join(str(self.proof.rows + row + 1) for row in sorted(wrong)[:10])
                raise EngineError(
                    "ctranslate2 does not compute this model as torch does; nothing was translated",
                    where=f"of the texts that are not empty, the first {len(sources)}: number {named}",
                    got=f"{len(wrong)} other answers; log-probabilities differ by up to {max(drifts):.1e}",
                    expected=f"the same answers, and at most {TOLERANCE:.0e}",
                    hint="--engine torch, and please report this",
                )
        self.proof = replace(
            self.proof,
            rows=self.proof.rows + len(sources),
            equal=self.proof.equal + len(sources) - len(wrong),
            ties=self.proof.ties + len(tied),
        )
        if self.proof.rows >= ROWS:
            self._oracle = None


def _ties(
    oracle: TorchEngine,
    sources: Sequence[Sequence[int]],
    ours: Sequence[Hypothesis],
    expected: Sequence[Hypothesis],
) -> set[int]:
    """The rows where two answers part at tokens that are equally likely."""
    rows = [row for row in range(len(sources)) if ours[row].ids != expected[row].ids]
    targets = [(_framed(oracle, ours[row]), _framed(oracle, expected[row])) for row in rows]
    scores = iter(
        oracle.score([(sources[row], target) for row, both in zip(rows, targets, strict=True) for target in both])
    )
    tied = set()
    for row, (one, other) in zip(rows, targets, strict=True):
        part = next(at for at, (a, b) in enumerate(zip(one[1:], other[1:], strict=False)) if a != b)
        if abs(next(scores)[part] - next(scores)[part]) <= TOLERANCE:
            tied.add(row)
    return tied


def _framed(oracle: TorchEngine, answer: Hypothesis) -> tuple[int, ...]:
    return (oracle.bos_id, *answer.ids, *([oracle.eos_id] if answer.finished else []))
