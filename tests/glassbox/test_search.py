"""The search with a record is the search that translates, and tells the truth about its losers."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.glassbox import search as glassbox_search
from glassformer.glassbox.schema import Search
from glassformer.glassbox.search import largest, search
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
) -> Search:
    return search(
        lambda prefixes: [next_log_probs(fed[1:]) for fed in prefixes],
        where,
        str,
        str,
        widths=[num_beams],
        alpha=alpha,
        n_best=n_best,
    )[0]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(3, 7),
    longest=st.integers(1, 6),
    num_beams=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 2.0]),
    data=st.data(),
)
def test_it_finds_what_the_search_of_the_engine_finds(
    seed: int, vocabulary: int, longest: int, num_beams: int, alpha: float, data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, num_beams))
    forced = data.draw(st.lists(st.integers(2, vocabulary - 1), max_size=2)) if vocabulary > 2 else []
    next_log_probs, where = table(seed, vocabulary), space(longest, forced)
    found = recorded(next_log_probs, where, num_beams, alpha, n_best).answers[:n_best]
    expected = beam_search(
        stepper(next_log_probs), start(1), 1, where, num_beams=num_beams, alpha=alpha, n_best=n_best
    )[0]
    assert [(tuple(each.ids), each.finished) for each in found] == [(each.ids, each.finished) for each in expected]
    for one, other in zip(found, expected, strict=True):
        assert math.isclose(one.score, other.score, abs_tol=1e-4)
        assert math.isclose(one.rank_score, other.rank_score, abs_tol=1e-4)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), widths=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_searches_side_by_side_are_those_alone_and_compute_nothing_twice(seed: int, widths: list[int]) -> None:
    next_log_probs, computed = table(seed, 6), set[Sequence[int]]()

    def once(prefixes: Sequence[Sequence[int]]) -> list[np.ndarray[Any, Any]]:
        assert len({*computed, *prefixes}) == len(computed) + len(prefixes)
        computed.update(prefixes)
        return [next_log_probs(fed[1:]) for fed in prefixes]

    found = search(once, space(5), str, str, widths=widths, alpha=0.6, n_best=2)
    assert found == [recorded(next_log_probs, space(5), width, 0.6, min(2, width)) for width in widths]


@given(st.lists(st.sampled_from([-math.inf, -2.0, -1.0, 0.0, 3.0]), min_size=1), st.integers(1, 9))
def test_the_largest_numbers_are_the_first_of_a_stable_sort(numbers: list[float], n: int) -> None:
    assert largest(np.array(numbers), n).tolist() == np.argsort(-np.array(numbers), kind="stable")[:n].tolist()


TIED = [-9.0, -3.0, -1.5, -1.25, -1.5, -1.25, -1.25, -1.5]
"""The log-probabilities after every beginning; their sums have no rounding."""
IN_PAGE = """
import { readFileSync } from 'node:fs';
const { search } = await import(process.argv[1]);
const { table, constraints, options } = JSON.parse(readFileSync(0, 'utf-8'));
constraints.forbidden = new Set(constraints.forbidden);
const found = search(() => table, constraints, options, { tokenText: String, decode: String });
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
    module = Path(glassbox_search.__file__).parent / "page" / "search.js"
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
        assert node.log_prob == next_log_probs(ids[node.parent])[node.token]
        assert math.isclose(node.sum, before + node.log_prob)
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
        np.testing.assert_allclose([node.sum for node in nodes], best)
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
    assert math.isclose(math.exp(greedy.answers[0].score), 0.30)
    assert math.isclose(math.exp(beam.answers[0].score), 0.36)
    assert beam.answers[0].ids == [3, 2]
    lost = [node for node in greedy.nodes if node.state == "pruned"]
    assert (lost[0].token, lost[0].rank, lost[0].reason) == (
        3,
        2,
        "rank 2 for 1 slot, 0.405 nats short",
    )
    assert (beam.encoder_runs, greedy.decoder_runs, beam.decoder_runs) == (1, 3, 5)
    assert all(math.isfinite(node.sum) for node in [*greedy.nodes, *beam.nodes])
