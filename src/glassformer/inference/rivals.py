"""The rivals of the tokens of an answer: the other tokens that the model held most probable in their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.inference.engines import Ids
from glassformer.inference.engines.batches import plan_equal_lengths
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.translator import Translation, Translator
from glassformer.paper.search import State, Step

Rivals = tuple[tuple[str, float], ...]
"""Tokens and their log-probabilities (nats), the most probable first."""


def with_rivals(
    translator: Translator, sources: Sequence[str], answers: Sequence[Translation], n: int
) -> list[Translation]:
    """Return the answers with the `n` rivals of each of their tokens and of their `<eos>`; fewer if there are fewer.

    They are those of the model after the tokens before, whatever the search or a forced start excluded. Alternatives
    are left as they are.
    """
    engine = translator.engine
    source, target = translator.source_tokenizer, translator.target_tokenizer
    id_of, forbidden = target.vocabulary.ordinary, target.vocabulary.forbidden_ids
    rows = [row for row, answer in enumerate(answers) if answer.tokens or answer.token_scores]
    framed = [source.frame(ids) for ids in source.encode_many([sources[row] for row in rows])]
    framed_targets = [
        target.frame([id_of[piece] for piece in answer.tokens])[: None if answer.finished else -1]
        for answer in (answers[row] for row in rows)
    ]

    @np.errstate(all="ignore")
    def find(batch: Sequence[int]) -> list[list[Rivals]]:
        state = engine.start([framed[i] for i in batch])
        targets = [framed_targets[i] for i in batch]
        found = _rivals(engine.step, state, targets, forbidden, n)
        return [[_named(pairs, target.vocabulary.pieces) for pairs in of_target] for of_target in found]

    batches = plan_equal_lengths(list(map(len, framed)), 1)
    run: Any = engine.on_every_core if isinstance(engine, NumPyEngine) else map
    results = list(answers)
    for batch, found in zip(batches, run(find, batches), strict=True):
        for i, rivals in zip(batch, found, strict=True):
            results[rows[i]] = replace(results[rows[i]], rivals=tuple(rivals))
    return results


def _rivals(
    step: Step, state: State, targets: Sequence[Ids], forbidden: Sequence[int], n: int
) -> list[list[list[tuple[int, float]]]]:
    """Return the rivals of every token after `<bos>` of given targets, as ids."""
    longest = max(map(len, targets))
    ids = np.array([[*target, *[0] * (longest - len(target))] for target in targets])
    sums = np.zeros((len(targets), 1), np.float32)
    found: list[list[list[tuple[int, float]]]] = [[] for _ in targets]
    for time in range(longest - 1):
        log_probs, state = step(ids[:, time, None], state)
        best = log_probs.allowing(forbidden, {}).best(sums, n + 1)
        for row, target in enumerate(targets):
            if time + 1 < len(target):
                pairs = zip(best.token[row].tolist(), best.newest[row].tolist(), strict=True)
                others = [(token, p) for token, p in pairs if token != target[time + 1] and math.isfinite(p)]
                found[row].append(others[:n])
    return found


def _named(rivals: Sequence[tuple[int, float]], pieces: Sequence[str]) -> Rivals:
    return tuple((pieces[token], log_prob) for token, log_prob in rivals)
