"""The beam search of one sentence as a record that keeps the pruned candidates.

Axes: C candidates of a step · V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import counted
from glassformer.glassbox.schema import Node, NodeState, SearchTrace, TraceAnswer
from glassformer.paper.search import Extensions, SearchConstraints, beam_search, length_penalty, rank_key
from glassformer.paper.search.constraints import Step


def search(
    step: Step,
    state: Any,
    constraints: SearchConstraints,
    token_text: Callable[[int], str],
    decode: Callable[[Sequence[int]], str],
    *,
    num_beams: int,
    alpha: float,
    n_best: int = 1,
) -> SearchTrace:
    """The search of one sentence, with the 2·`num_beams` best candidates of each step.

    `constraints.prefixes` has the forced prefix, if there is one.
    """
    n_best = min(n_best, num_beams)
    record = _StepRecord(token_text, constraints.eos_id, alpha)
    beam_search(
        *(step, state, 1, constraints), num_beams=num_beams, alpha=alpha, n_best=n_best, observe=record.add_candidates
    )
    live = [node for node in record.last if node.state == "kept"]
    finished = [node for node in record.nodes if node.state == "finished"]
    if record.hope > 0:
        stopped, ended = f"the limit of {constraints.max_new_tokens} tokens", [*finished, *live]
    elif live:
        worst = sorted((node.rank_score for node in finished), reverse=True)[n_best - 1]
        best = f"at best {worst + record.hope:.4g} after the penalty, against {worst:.4g}"
        stopped, ended = f"no live hypothesis can still win: {best}", finished
    else:
        stopped, ended = "every hypothesis is finished", finished
    for node in live:
        record.set_reason(node, f"still live when the search stopped: {stopped}")
    return SearchTrace(
        num_beams=num_beams,
        length_alpha=alpha,
        max_new_tokens=constraints.max_new_tokens,
        forced=list(constraints.prefixes[0]) if constraints.prefixes else [],
        encoder_runs=1,
        decoder_runs=record.decoder_runs,
        answers=list(_answers(record, ended, decode)),
        nodes=record.nodes,
        stopped=stopped,
    )


class _StepRecord:
    """All candidates of a search as nodes; `last` has the candidates of the last step, numbered as its hypotheses."""

    def __init__(self, token_text: Callable[[int], str], eos_id: int, alpha: float) -> None:
        self.token_text, self.eos_id, self.alpha = token_text, eos_id, alpha
        self.nodes: list[Node] = []
        self.last: list[Node] = []
        self.decoder_runs = 0
        self.hope = 0.0

    def add_candidates(self, candidates: Extensions, slots: NDArray[np.int64], hopes: NDArray[np.float64]) -> None:
        """Add the candidates of a step; a sum of -inf means that a candidate was excluded."""
        self.decoder_runs += sum(node.state == "kept" for node in self.last) if self.last else 1
        self.hope, n_slots, sums = float(hopes[0]), int(slots[0]), candidates.sums[0].tolist()
        last_kept = sums[min(n_slots, len(sums)) - 1]
        parents, time = self.last, self.last[0].step + 1 if self.last else 0
        self.last = []
        for rank, (total, log_prob, parent, token) in enumerate(
            zip(*(x[0].tolist() for x in candidates), strict=True), 1
        ):
            if total == -np.inf:
                break
            state: NodeState = "kept"
            reason = f"rank {rank} for {counted(n_slots, 'slot')}"
            if rank > n_slots:
                state, reason = "pruned", f"{reason}, {last_kept - total:.3g} nats short"
            elif token == self.eos_id:
                state, reason = "finished", "it ends here and keeps its slot"
            node = Node(
                id=len(self.nodes),
                parent=parents[parent].id if parents else None,
                step=time,
                token=token,
                text=self.token_text(token),
                log_prob=log_prob,
                sum=total,
                rank_score=total / length_penalty(time + 1, self.alpha),
                rank=rank,
                state=state,
                reason=reason,
            )
            self.nodes.append(node)
            self.last.append(node)

    def set_reason(self, node: Node, reason: str) -> None:
        self.nodes[node.id] = replace(node, reason=reason)

    def ids_of(self, node: Node) -> list[int]:
        """The tokens up to a node, without `<eos>`."""
        ids = [] if node.token == self.eos_id else [node.token]
        while node.parent is not None:
            node = self.nodes[node.parent]
            ids.append(node.token)
        return ids[::-1]


def _answers(
    record: _StepRecord, ended: Sequence[Node], decode: Callable[[Sequence[int]], str]
) -> Iterator[TraceAnswer]:
    """All answers, best first: finished ones, and answers that the limit cut off."""
    ranked = sorted(ended, key=lambda node: rank_key(node.state == "finished", node.rank_score))
    for position, node in enumerate(ranked):
        is_finished, ids = node.state == "finished", record.ids_of(node)
        behind = f", {ranked[0].rank_score - node.rank_score:.3g} behind the best" if position else ""
        end = "finished" if is_finished else "cut off"
        record.set_reason(node, f"{end}, answer {position + 1} of {len(ranked)}{behind}")
        yield TraceAnswer(node.id, decode(ids), ids, node.sum, node.rank_score, is_finished)
