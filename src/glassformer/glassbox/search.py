"""Beam search for one sentence that keeps its pruned candidates.

A second, slow implementation of `paper.search.beam_search` (with one beam, of `greedy_search`); a test compares them.
Axes: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import counted
from glassformer.glassbox.schema import Answer, Node, Search
from glassformer.paper.search import SearchConstraints, length_penalty, rank_key

NextLogProbs = Callable[[Sequence[Sequence[int]]], Sequence[NDArray[np.float64]]]
"""The ids from `<bos>` on of each live hypothesis -> the log-probabilities `[V]` of the token after each.

Each has one token more than one of the call before."""


@dataclass
class _Record:
    """The state of a search: all nodes, the ids of each, the finished nodes."""

    nodes: list[Node] = field(default_factory=list)
    ids: dict[int | None, tuple[int, ...]] = field(default_factory=lambda: {None: ()})
    found: list[Node] = field(default_factory=list)

    def add(self, candidate: Node) -> Node:
        """The candidate with an id."""
        node = replace(candidate, id=len(self.nodes))
        self.nodes.append(node)
        self.ids[node.id] = (*self.ids[node.parent], node.token)
        return node

    def set_reason(self, node: Node, reason: str) -> None:
        self.nodes[node.id] = replace(node, reason=reason)


_Steps = Generator[list[tuple[int, ...]], Sequence[NDArray[np.float64]], Search]
"""A search: it yields the prefixes of a step, is sent the log-probabilities after each, and returns its record."""


def search(
    next_log_probs: NextLogProbs,
    constraints: SearchConstraints,
    token_text: Callable[[int], str],
    decode: Callable[[Sequence[int]], str],
    *,
    widths: Sequence[int],
    alpha: float,
    n_best: int = 1,
) -> list[Search]:
    """The searches of one sentence, one for each width, with the 2·width best candidates of each step.

    They run side by side, and what several of them ask for is computed once. `constraints.prefixes` has the forced
    prefix, if there is one.
    """
    steps = [_steps(constraints, token_text, decode, width, alpha, min(n_best, width)) for width in widths]
    asked, found = {number: next(one) for number, one in enumerate(steps)}, dict[int, Search]()
    while asked:
        prefixes = list(dict.fromkeys(prefix for prefixes in asked.values() for prefix in prefixes))
        log_probs = dict(zip(prefixes, next_log_probs(prefixes), strict=True))
        for number, wanted in list(asked.items()):
            try:
                asked[number] = steps[number].send([log_probs[prefix] for prefix in wanted])
            except StopIteration as end:
                found[number] = end.value
                del asked[number]
    return [found[number] for number in range(len(widths))]


def _steps(
    constraints: SearchConstraints,
    token_text: Callable[[int], str],
    decode: Callable[[Sequence[int]], str],
    num_beams: int,
    alpha: float,
    n_best: int,
) -> _Steps:
    record = _Record()
    live: list[Node | None] = [None]
    decoder_runs = 0
    reason = ""
    for time in range(constraints.max_new_tokens):
        candidates: list[Node] = []
        prefixes = [(constraints.bos_id, *record.ids[None if node is None else node.id]) for node in live]
        for node, log_probs in zip(live, (yield prefixes), strict=True):
            allowed = _constrain(log_probs, constraints, time)
            candidates += _extensions(node, allowed, 2 * num_beams, time, alpha, token_text)
            decoder_runs += 1
        slots = num_beams - len(record.found)
        best = sorted(candidates, key=lambda candidate: -candidate.sum)[: 2 * num_beams]
        nodes = [record.add(node) for node in _ranked(best, slots, constraints.eos_id)]
        record.found += [node for node in nodes if node.state == "finished"]
        live = [node for node in nodes if node.state == "kept"]
        if reason := _reason_to_stop(live, record.found, n_best, constraints, alpha):
            break
    stopped = reason or f"the limit of {constraints.max_new_tokens} tokens"
    left = [node for node in live if node is not None]
    for node in left:
        record.set_reason(node, f"still live when the search stopped: {stopped}")
    answers = _answers(record, [] if reason else left, constraints.eos_id, decode)
    return Search(
        num_beams=num_beams,
        length_alpha=alpha,
        max_new_tokens=constraints.max_new_tokens,
        forced=list(constraints.prefixes[0]) if constraints.prefixes else [],
        encoder_runs=1,
        decoder_runs=decoder_runs,
        nodes=record.nodes,
        answers=answers,
        stopped=stopped,
    )


def _constrain(log_probs: NDArray[np.float64], constraints: SearchConstraints, time: int) -> NDArray[np.float64]:
    """`log_probs` with -inf for tokens that must not be next."""
    allowed = np.ones(len(log_probs), dtype=bool)
    allowed[list(constraints.forbidden)] = False
    forced = constraints.prefixes[0] if constraints.prefixes else ()
    if time < len(forced):
        allowed &= np.arange(len(log_probs)) == forced[time]
    return np.where(allowed, log_probs, -np.inf)


def _extensions(
    parent: Node | None,
    log_probs: NDArray[np.float64],
    n: int,
    time: int,
    alpha: float,
    token_text: Callable[[int], str],
) -> Iterator[Node]:
    """The `n` most probable tokens after a node; id, rank, state and reason are not decided yet."""
    for token in largest(log_probs, n).tolist():
        log_prob = float(log_probs[token])
        if log_prob > -np.inf:
            total = (0.0 if parent is None else parent.sum) + log_prob
            rank_score = total / length_penalty(time + 1, alpha)
            before = None if parent is None else parent.id
            yield Node(-1, before, time, token, token_text(token), log_prob, total, rank_score, 0, "pruned", "")


def largest(numbers: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """The positions of the `n` largest numbers, largest first; of equal ones the first."""
    n = min(n, len(numbers))
    candidates = np.flatnonzero(numbers >= np.partition(numbers, -n)[-n])  # sorting all of a vocabulary takes longer
    return candidates[np.argsort(-numbers[candidates], kind="stable")[:n]]


def _ranked(best: Sequence[Node], slots: int, eos_id: int) -> Iterator[Node]:
    """The candidates of a step, best first, with their rank; only the first `slots` are not pruned."""
    for rank, node in enumerate(best, 1):
        reason = f"rank {rank} for {counted(slots, 'slot')}"
        if rank > slots:
            last_kept = best[slots - 1].sum if slots else 0.0
            yield replace(node, rank=rank, reason=f"{reason}, {last_kept - node.sum:.3g} nats short")
        elif node.token == eos_id:
            yield replace(node, rank=rank, state="finished", reason="it ends here and keeps its slot")
        else:
            yield replace(node, rank=rank, state="kept", reason=reason)


def _reason_to_stop(
    live: Sequence[Node | None], found: Sequence[Node], n_best: int, constraints: SearchConstraints, alpha: float
) -> str:
    """Why no live hypothesis can still be among the `n_best`, or "": a sum only falls, the last penalty is largest."""
    sums = [node.sum for node in live if node is not None]
    if not sums:
        return "every hypothesis is finished"
    if len(found) < n_best:
        return ""
    worst = sorted((node.rank_score for node in found), reverse=True)[n_best - 1]
    hope = max(sums) / length_penalty(constraints.max_new_tokens, alpha)
    if hope > worst:
        return ""
    return f"no live hypothesis can still win: at best {hope:.4g} after the penalty, against {worst:.4g}"


def _answers(
    record: _Record, cut_off: Sequence[Node], eos_id: int, decode: Callable[[Sequence[int]], str]
) -> list[Answer]:
    """All answers, best first: finished ones, and those that the limit cut off."""
    ended = [*record.found, *cut_off]
    ranked = sorted(ended, key=lambda node: rank_key(node.state == "finished", node.rank_score))
    answers = []
    for position, node in enumerate(ranked):
        behind = f", {ranked[0].rank_score - node.rank_score:.3g} behind the best" if position else ""
        end = "finished" if node.state == "finished" else "cut off"
        record.set_reason(node, f"{end}, answer {position + 1} of {len(ranked)}{behind}")
        ids = [token for token in record.ids[node.id] if token != eos_id]
        answers.append(Answer(node.id, decode(ids), ids, node.sum, node.rank_score, node.state == "finished"))
    return answers
