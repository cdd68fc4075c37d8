"""A comparison of the answers of an engine with those of NumPy's, which answers the first sources too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glassformer.errors import EngineError
from glassformer.inference.engines import Engine, load_engine, search
from glassformer.paper.search import Hypothesis
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.vocabulary import Vocabulary

ROWS = 200
TOLERANCE = 1e-3
"""Maximum difference (nats) that rounding makes in a log-probability; tokens that differ by less are a tie."""

GREEDY = DecodingSettings(num_beams=1)


@dataclass
class Agreement:
    """Compares an engine with that of NumPy (greedy search, in float32) on the first ROWS sources.

    `rows` were compared, `equal` of them have the same answer, `ties` of these another one that is as likely. `str()`
    gives the text for people.
    """

    name: str
    engine: Engine
    model_file: ModelFile
    rows: int = field(default=0, init=False)
    equal: int = field(default=0, init=False)
    ties: int = field(default=0, init=False)
    _oracle: Engine | None = field(default=None, init=False, repr=False)

    @property
    def precision(self) -> str:
        """The precision of the engine."""
        return self.engine.precision

    @property
    def is_exact(self) -> bool:
        """Whether answers must be equal (float32), and are not only counted."""
        return self.precision == "float32"

    @property
    def _vocabulary(self) -> Vocabulary:
        return self.model_file.target_tokenizer.vocabulary

    def __str__(self) -> str:
        ties = f" ({self.ties} of them a tie)" if self.ties else ""
        return f"{self.name} in {self.precision}: equal to numpy on {self.equal} of {self.rows} rows{ties}"

    def compare(self, sources: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Compare the answers to those of these sources that are among the first ROWS.

        Raises EngineError in float32 when answers differ, except for ties, or the log-probabilities of their tokens
        differ by more than TOLERANCE.
        """
        sources = sources[: ROWS - self.rows]
        if not sources:
            return
        oracle = self._oracle or load_engine("numpy", [self.model_file], "cpu", "float32")
        ours, expected = (
            [answers[0] for answers in search(engine, sources, GREEDY, max_new_tokens)]
            for engine in (self.engine, oracle)
        )
        tied = tied_rows(oracle, self._vocabulary, sources, ours, expected)
        wrong = {row for row in range(len(sources)) if ours[row].ids != expected[row].ids} - tied
        if self.is_exact:
            self._check_equal(oracle, sources, expected, wrong)
        self.rows += len(sources)
        self.equal += len(sources) - len(wrong)
        self.ties += len(tied)
        self._oracle = oracle if self.rows < ROWS else None

    def _check_equal(
        self, oracle: Engine, sources: Sequence[Sequence[int]], expected: Sequence[Hypothesis], wrong: set[int]
    ) -> None:
        pairs = [(source, framed(self._vocabulary, answer)) for source, answer in zip(sources, expected, strict=True)]
        scored = zip(self.engine.score(pairs), oracle.score(pairs), strict=True)
        drifts = [max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) for ours, theirs in scored]
        if wrong := wrong | {row for row, drift in enumerate(drifts) if drift > TOLERANCE}:
            named = ", ".join(str(self.rows + row + 1) for row in sorted(wrong)[:10])
            raise EngineError(
                f"{self.name} does not compute this model as numpy does; nothing was translated",
                where=f"of the first {len(sources)} texts that are not empty: number {named}",
                got=f"{len(wrong)} other answers; log-probabilities differ by up to {max(drifts):.1e}",
                expected=f"the same answers, and at most {TOLERANCE:.0e}",
                hint="--engine numpy, and please report this",
            )


def tied_rows(
    oracle: Engine,
    vocabulary: Vocabulary,
    sources: Sequence[Sequence[int]],
    ours: Sequence[Hypothesis],
    expected: Sequence[Hypothesis],
) -> set[int]:
    """Return the rows where two answers first differ at tokens that are equally probable (within TOLERANCE)."""
    rows = [row for row in range(len(sources)) if ours[row].ids != expected[row].ids]
    targets = [(framed(vocabulary, ours[row]), framed(vocabulary, expected[row])) for row in rows]
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


def framed(vocabulary: Vocabulary, answer: Hypothesis) -> tuple[int, ...]:
    """Return the ids of an answer with `<bos>`, and with `<eos>` where it is finished."""
    return (vocabulary.bos_id, *answer.ids, *([vocabulary.eos_id] if answer.finished else []))
