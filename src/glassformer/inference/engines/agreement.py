"""A comparison of an engine with that of NumPy, on sources that are drawn from what a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.errors import EngineError, NotFiniteError
from glassformer.inference.engines import Engine, Ids, load_engine, search
from glassformer.paper.search import Hypothesis
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.vocabulary import Vocabulary

ROWS = 64
MAX_TOKENS = 40
"""Maximum length of the sources drawn and of their answers: a large model takes seconds for these, not minutes."""
TOLERANCE = 1e-3
"""Maximum difference (nats) that rounding makes in a log-probability; tokens that differ by less are a tie."""

GREEDY = DecodingSettings(num_beams=1)


@dataclass(frozen=True)
class Agreement:
    """How often an engine gives NumPy's answer: `equal` of `rows`, and `ties` of these another one that is as likely.

    `str()` gives the text for people.
    """

    name: str
    precision: str
    rows: int
    equal: int
    ties: int

    @property
    def is_exact(self) -> bool:
        """Whether answers must be equal (float32), and are not only counted."""
        return self.precision == "float32"

    def __str__(self) -> str:
        ties = f" ({self.ties} of them a tie)" if self.ties else ""
        return f"{self.name} in {self.precision}: equal to numpy on {self.equal} of {self.rows} drawn sources{ties}"


def compare(name: str, engine: Engine, model_file: ModelFile) -> Agreement:
    """Compare the greedy answers of an engine with those of NumPy in float32, on ROWS drawn sources.

    Raises EngineError in float32 when answers differ, except for ties, or the log-probabilities of their tokens differ
    by more than TOLERANCE.
    """
    oracle, vocabulary = load_engine("numpy", [model_file], "cpu", "float32"), model_file.target_tokenizer.vocabulary
    sources = drawn_sources(model_file)
    try:
        ours, expected = (
            [answers[0] for answers in search(one, sources, GREEDY, MAX_TOKENS)] for one in (engine, oracle)
        )
    except NotFiniteError as error:  # its row is not one of the texts to translate
        raise EngineError(
            f"{name} cannot be compared with numpy: {error.what}", got=error.got, hint=error.hint
        ) from None
    tied = tied_rows(oracle, vocabulary, sources, ours, expected)
    wrong = {row for row in range(ROWS) if ours[row].ids != expected[row].ids} - tied
    agreement = Agreement(name, engine.precision, ROWS, ROWS - len(wrong), len(tied))
    if agreement.is_exact:
        pairs = [(source, framed(vocabulary, answer)) for source, answer in zip(sources, expected, strict=True)]
        _check_equal(name, wrong, engine.score(pairs), oracle.score(pairs))
    return agreement


def drawn_sources(model_file: ModelFile) -> list[list[int]]:
    """Return ROWS framed sources, always the same: up to MAX_TOKENS tokens, as frequent as those trained on."""
    tokenizer, counts = model_file.source_tokenizer, model_file.data.source_counts
    weights = np.array(counts if len(counts) == len(tokenizer) else [1] * len(tokenizer), dtype=float)
    weights[list(tokenizer.vocabulary.special_ids)] = 0
    if not weights.any():
        return [tokenizer.frame([])] * ROWS
    longest = min(MAX_TOKENS, model_file.settings.max_source_tokens, model_file.data.longest_source or MAX_TOKENS)
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, max(0, longest), ROWS, endpoint=True)
    return [tokenizer.frame(generator.choice(len(weights), n, p=weights / weights.sum()).tolist()) for n in lengths]


def _check_equal(
    name: str, wrong: set[int], ours: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]
) -> None:
    drifts = [
        max(abs(a - b) for a, b in zip(one, other, strict=True)) for one, other in zip(ours, expected, strict=True)
    ]
    if wrong := wrong | {row for row, drift in enumerate(drifts) if drift > TOLERANCE}:
        raise EngineError(
            f"{name} does not compute this model as numpy does; nothing was translated",
            where=f"{len(wrong)} of {len(drifts)} sources drawn from what the model was trained on",
            got=f"other answers, or log-probabilities that differ by up to {max(drifts):.1e}",
            expected=f"the same answers, and at most {TOLERANCE:.0e}",
            hint="--engine numpy, and please report this",
        )


def tied_rows(
    oracle: Engine,
    vocabulary: Vocabulary,
    sources: Sequence[Ids],
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
