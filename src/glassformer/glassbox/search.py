"""Beam search for one sentence, a second time, with a record of every candidate that was near.

It does what `decoding.beam_search` does (with one beam, what `greedy_search` does), plainly and slowly, and keeps the
losers; a test holds the two equal. Axes: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from glassformer.decoding import SearchConstraints, length_penalty, rank_key
from glassformer.glassbox.schema import Answer, Node, Search

NextLogProbs = Callable[[Sequence[int]], NDArray[np.float64]]
"""The ids after `<bos>` so far -> the log-probabilities `[V]` of the next token."""


@dataclass(frozen=True)
class _Candidate:
    """One more token after the node `parent`; `total` is the sum of log-probabilities with it."""

    parent: int | None
    token: int
    log_prob: float
    total: float


@dataclass
class _Record:
    """The search as it goes on: all nodes, the live ones with their ids, the finished ones."""

    space: SearchConstraints
    alpha: float
    token_text: Callable[[int], str]
    nodes: list[Node] = field(default_factory=list)
    ids: dict[int | None, tuple[int, ...]] = field(default_factory=lambda: {None: ()})
    found: list[Node] = field(default_factory=list)

    def add(self, candidate: _Candidate, time: int, rank: int, slots: int, last_kept: float) -> Node:
        """The node of a candidate, kept or not."""
        total = candidate.total
        if rank > slots:
            state, reason = "pruned", f"place {rank} for {slots}, {last_kept - total:.3g} nats short"
        elif candidate.token == self.space.eos_id:
            state, reason = "finished", "it ends here, and keeps its slot"
        else:
            state, reason = "kept", f"place {rank} for {slots}"
        node = Node(
            id=len(self.nodes),
            parent=candidate.parent,
            step=time,
            token=candidate.token,
            text=self.token_text(candidate.token),
            log_prob=candidate.log_prob,
            sum=total,
            normalised=total / length_penalty(time + 1, self.alpha),
            rank=rank,
            state=state,  # type: ignore[arg-type]
            reason=reason,
        )
        self.nodes.append(node)
        self.ids[node.id] = (*self.ids[candidate.parent], candidate.token)
        return node

    def explain(self, node: Node, reason: str) -> None:
        self.nodes[node.id] = replace(node, reason=reason)


def search(
    next_log_probs: NextLogProbs,
    space: SearchConstraints,
    token_text: Callable[[int], str],
    decode: Callable[[Sequence[int]], str],
    *,
    num_beams: int,
    alpha: float,
    n_best: int = 1,
) -> Search:
    """The search of one sentence, with the 2·`num_beams` best candidates of each step.

    `space.prefixes` holds the forced start, where there is one.
    """
    record = _Record(space, alpha, token_text)
    live: list[Node | None] = [None]
    decoder_runs = 0
    stopped = f"the limit of {space.max_new_tokens} tokens"
    for time in range(space.max_new_tokens):
        only_eos = time + 1 == space.max_new_tokens and len(record.found) >= n_best
        candidates: list[_Candidate] = []
        for node in live:
            log_probs = next_log_probs(record.ids[None if node is None else node.id])
            candidates += _extensions(node, _constrain(log_probs, space, time, only_eos), 2 * num_beams)
            decoder_runs += 1
        slots = num_beams - len(record.found)
        best = sorted(candidates, key=lambda candidate: -candidate.total)[: 2 * num_beams]
        last_kept = best[min(slots, len(best)) - 1].total if best and slots else 0.0
        nodes = [record.add(each, time, rank + 1, slots, last_kept) for rank, each in enumerate(best)]
        record.found += [node for node in nodes if node.state == "finished"]
        live = [node for node in nodes if node.state == "kept"]
        if reason := _reason_to_stop(live, record.found, n_best, space, alpha):
            stopped = reason
            break
    answers = _answers(record, live, n_best, stopped, decode)
    return Search(
        num_beams=num_beams,
        length_alpha=alpha,
        max_new_tokens=space.max_new_tokens,
        forced=list(space.prefixes[0]) if space.prefixes else [],
        encoder_runs=1,
        decoder_runs=decoder_runs,
        nodes=record.nodes,
        answers=answers,
        stopped=stopped,
    )


def _constrain(
    log_probs: NDArray[np.float64], space: SearchConstraints, time: int, only_eos: bool
) -> NDArray[np.float64]:
    """`log_probs` with -inf for what may not come next."""
    allowed = np.ones(len(log_probs), dtype=bool)
    allowed[list(space.forbidden)] = False
    forced = space.prefixes[0] if space.prefixes else ()
    if time < len(forced):
        allowed &= np.arange(len(log_probs)) == forced[time]
    if only_eos:
        allowed &= np.arange(len(log_probs)) == space.eos_id
    return np.where(allowed, log_probs, -np.inf)


def _extensions(node: Node | None, log_probs: NDArray[np.float64], most: int) -> list[_Candidate]:
    """The `most` likeliest tokens after a node."""
    parent, before = (None, 0.0) if node is None else (node.id, node.sum)
    best = [token for token in np.argsort(-log_probs, kind="stable")[:most].tolist() if log_probs[token] > -np.inf]
    return [_Candidate(parent, token, float(log_probs[token]), before + float(log_probs[token])) for token in best]


def _reason_to_stop(
    live: Sequence[Node | None], found: Sequence[Node], n_best: int, space: SearchConstraints, alpha: float
) -> str:
    """Why no live hypothesis can still enter the `n_best`, or nothing: a sum falls, and the last penalty is largest."""
    sums = [node.sum for node in live if node is not None]
    if not sums:
        return "every slot is finished"
    if len(found) < n_best:
        return ""
    worst_wanted = sorted((node.normalised for node in found), reverse=True)[n_best - 1]
    hope = max(sums) / length_penalty(space.max_new_tokens, alpha)
    if hope > worst_wanted:
        return ""
    return f"no live hypothesis can still win: at best {hope:.4g} after the penalty, against {worst_wanted:.4g}"


def _answers(
    record: _Record, live: Sequence[Node | None], n_best: int, stopped: str, decode: Callable[[Sequence[int]], str]
) -> list[Answer]:
    """All answers, best first: finished ones, and unfinished ones where those do not suffice."""
    left = [node for node in live if node is not None]
    for node in left:
        record.explain(node, f"still live when the search stopped: {stopped}")
    ended = [*record.found, *(left if len(record.found) < n_best else [])]
    ranked = sorted(ended, key=lambda node: rank_key(node.state == "finished", node.normalised))
    for place, node in enumerate(ranked):
        behind = f", {ranked[0].normalised - node.normalised:.3g} behind the best" if place else ""
        end = "finished" if node.state == "finished" else "unfinished"
        record.explain(node, f"{end}, answer {place + 1} of {len(ranked)}{behind}")
    return [_answer(record, node, decode) for node in ranked]


def _answer(record: _Record, node: Node, decode: Callable[[Sequence[int]], str]) -> Answer:
    finished = node.state == "finished"
    ids = list(record.ids[node.id])
    ids = ids[:-1] if finished else ids
    return Answer(node.id, decode(ids), ids, node.sum, node.normalised, finished)
