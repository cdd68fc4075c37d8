"""The record of a search has all candidates of each step, and says why some were pruned."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from glassformer.glassbox import search as glassbox_search
from glassformer.glassbox.schema import SearchTrace
from glassformer.glassbox.search import search
from glassformer.paper.search import SearchConstraints, beam_search, length_penalty
from tests.paper.search.toys import Stepper, start

BOS, EOS = 0, 1


def space(max_new_tokens: int, forced: Sequence[int] = ()) -> SearchConstraints:
    return SearchConstraints(BOS, EOS, (BOS,), max_new_tokens, [list(forced)] if forced else ())


def table(seed: int, vocabulary: int) -> Any:
    """Log-probabilities that depend on everything so far."""

    def next_log_probs(ids: Sequence[int]) -> np.ndarray[Any, Any]:
        logits = 2 * np.random.default_rng([seed, *ids]).normal(size=vocabulary)
        return logits - np.logaddexp.reduce(logits)

    return next_log_probs


def stepper(next_log_probs: Any) -> Stepper:
    """The same for the searches of the engine."""
    return Stepper(lambda _sentence, ids: next_log_probs(ids).tolist())


def recorded(
    next_log_probs: Any, where: SearchConstraints, num_beams: int, alpha: float = 0.0, n_best: int = 1
) -> SearchTrace:
    step = stepper(next_log_probs)
    return search(step, start(1), where, str, str, num_beams=num_beams, alpha=alpha, n_best=n_best)


TIED = [-9.0, -3.0, -1.5, -1.25, -1.5, -1.25, -1.25, -1.5]
"""The log-probabilities after every beginning; their sums have no rounding."""
IN_PAGE = """
import { readFileSync } from 'node:fs';
const { search } = await import(process.argv[1]);
const { table, constraints, options } = JSON.parse(readFileSync(0, 'utf-8'));
constraints.forbidden = new Set(constraints.forbidden);
const found = search((live) => live.map(() => table), constraints, options, { tokenText: String, decode: String });
process.stdout.write(JSON.stringify(found.answers.map(({ ids, finished }) => [ids, finished])));
"""


@pytest.mark.parametrize("num_beams", [1, 2, 5, 9])
def test_of_tokens_that_are_tied_the_lowest_id_wins_as_in_the_engine(num_beams: int) -> None:
    where, rows = space(4), np.array(TIED)
    (expected,) = beam_search(stepper(lambda _ids: rows), start(1), 1, where, num_beams=num_beams, n_best=num_beams)
    ids = [(answer.ids, answer.finished) for answer in expected]
    assert ((3, 3, 3, 3), False) in ids
    found = recorded(lambda _ids: rows, where, num_beams, n_best=num_beams).answers[:num_beams]
    assert [(tuple(answer.ids), answer.finished) for answer in found] == ids
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    constraints = {"eos": EOS, "forbidden": [BOS], "maxNewTokens": 4, "forced": []}
    options = {"beams": num_beams, "alpha": 0, "best": num_beams}
    given = json.dumps({"table": TIED, "constraints": constraints, "options": options})
    module = Path(glassbox_search.__file__).parent / "page" / "model" / "search.js"
    command = [node, "--input-type=module", "-e", IN_PAGE, module.as_uri()]
    printed = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    assert [(tuple(ids), finished) for ids, finished in json.loads(printed)[:num_beams]] == ids


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), num_beams=st.integers(1, 4), alpha=st.sampled_from([0.0, 0.6]))
def test_the_record_holds_together(seed: int, num_beams: int, alpha: float) -> None:
    next_log_probs = table(seed, 6)
    found = recorded(next_log_probs, space(5), num_beams, alpha)
    ids: dict[int | None, tuple[int, ...]] = {None: ()}
    for node in found.nodes:
        before = 0.0 if node.parent is None else found.nodes[node.parent].sum
        assert node.log_prob == np.float32(next_log_probs(ids[node.parent])[node.token])
        assert math.isclose(node.sum, before + node.log_prob, rel_tol=1e-6)
        assert math.isclose(node.rank_score, node.sum / length_penalty(node.step + 1, alpha))
        assert node.parent is None or found.nodes[node.parent].state == "kept"
        assert node.reason
        ids[node.id] = (*ids[node.parent], node.token)
    for step in range(max(node.step for node in found.nodes) + 1):
        nodes = [node for node in found.nodes if node.step == step]
        live = [None] if step == 0 else [n.id for n in found.nodes if n.step == step - 1 and n.state == "kept"]
        everything = [
            (found.nodes[parent].sum if parent is not None else 0.0) + log_prob
            for parent in live
            for token, log_prob in enumerate(next_log_probs(ids[parent]).tolist())
            if token != BOS
        ]
        best = sorted(everything, reverse=True)[: 2 * num_beams]
        np.testing.assert_allclose([node.sum for node in nodes], best, rtol=1e-5)
        assert [node.rank for node in nodes] == list(range(1, len(nodes) + 1))
        ended = sum(node.state == "finished" for node in found.nodes if node.step < step)
        stayed = [node.state != "pruned" for node in nodes]
        slots = num_beams - ended
        assert stayed == [place < slots for place in range(len(nodes))]
        assert all((node.token == EOS) == (node.state == "finished") for node in nodes[:slots])
    assert {answer.node for answer in found.answers} >= {node.id for node in found.nodes if node.state == "finished"}


def test_the_toy_where_greed_loses() -> None:
    """p(A) = .6 then .5/.5, p(B) = .4 then .9/.1: greedy search finds .30, a beam of 2 finds .36."""
    odds = {(): [0, 0, 0.6, 0.4], (2,): [0, 0, 0.5, 0.5], (3,): [0, 0, 0.9, 0.1]}

    def next_log_probs(ids: Sequence[int]) -> np.ndarray[Any, Any]:
        with np.errstate(divide="ignore"):
            return np.log(np.array(odds.get(tuple(ids), [0, 1, 0, 0])))

    greedy, beam = recorded(next_log_probs, space(3), 1), recorded(next_log_probs, space(3), 2)
    assert math.isclose(math.exp(greedy.answers[0].score), 0.30, rel_tol=1e-6)
    assert math.isclose(math.exp(beam.answers[0].score), 0.36, rel_tol=1e-6)
    assert beam.answers[0].ids == [3, 2]
    lost = [node for node in greedy.nodes if node.state == "pruned"]
    assert (lost[0].token, lost[0].rank, lost[0].reason) == (
        3,
        2,
        "rank 2 for 1 slot, 0.405 nats short",
    )
    assert (beam.encoder_runs, greedy.decoder_runs, beam.decoder_runs) == (1, 3, 5)
    assert all(math.isfinite(node.sum) for node in [*greedy.nodes, *beam.nodes])
