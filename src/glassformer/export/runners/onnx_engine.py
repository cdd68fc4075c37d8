"""The exported model in onnxruntime, and the search for the best answers. It needs numpy and onnxruntime alone.

Axes: N sentences, K live hypotheses of each, R = N·K rows, C candidates of a sentence, t tokens so far, V vocabulary.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else the library reports to its maker
import onnxruntime
from lines import NOT_FINITE, Answer, best_of, penalty, ranked
from source import Export
from text import InputError

HERE = Path(__file__).resolve().parent
BATCH_POSITIONS = 2048  # maximum of source positions times hypotheses in a batch


class Engine:
    """Encoder and decoder, and the search for the best answer. `threads` batches are computed at once."""

    def __init__(self, export: Export, options: argparse.Namespace) -> None:
        self.threads = options.threads
        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(HERE / f"{name}.onnx", session, ["CPUExecutionProvider"])
            for name in ("encoder", "decoder")
        )
        inputs = [past for past in self.decoder.get_inputs() if past.name.startswith("past_")]
        self.cache = {past.name: (past.shape[1], 0, past.shape[3]) for past in inputs}  # past_key_0 [P H t d_k], …
        parts = [name.removeprefix("past_") for name in self.cache]
        self.memory = [tensor.name for tensor in self.encoder.get_outputs()]
        self.outputs = ["log_probs", *(f"present_{part}" for part in parts)]
        self.search, self.bos_id, self.eos_id = export.search, export.target.bos_id, export.target.eos_id

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        n_cores = os.cpu_count() or 1
        parser.add_argument("--threads", type=int, default=n_cores, help="number of batches computed at once")

    def start(self, sources: Sequence[Sequence[int]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Encode the sources of a batch: what every step of the decoder reads, and an empty cache."""
        shape = len(sources), max(map(len, sources))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, bool)
        for row, source in enumerate(sources):
            ids[row, : len(source)], mask[row, : len(source)] = source, True
        memory = self.encoder.run(self.memory, {"source_ids": ids, "source_mask": mask})
        cache = {name: np.zeros((len(sources), *shape), np.float32) for name, shape in self.cache.items()}
        return {"source_mask": mask, **dict(zip(self.memory, memory, strict=True))}, cache

    def step(self, last: Any, rows: Any, memory: dict[str, Any], cache: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Feed the last token [N K] of hypotheses that extend `rows` [R] of the cache: log-probabilities [N K V]."""
        feeds = {"last_ids": last, "rows": rows.ravel(), **memory, **cache}
        log_probs, *grown = self.decoder.run(self.outputs, feeds)
        return log_probs.reshape(*last.shape, -1), dict(zip(cache, grown, strict=True))

    def answer(self, sources: Sequence[Sequence[int]], num_beams: int, *, all_answers: bool) -> list[Answer]:
        """Return the best answer to each source. Those of almost the same length share batches."""
        by_length: dict[int, list[int]] = {}
        for i, source in enumerate(sources):
            multiple = 1 + len(source) // 16
            by_length.setdefault(-(-len(source) // multiple) * multiple, []).append(i)
        batches = []
        for length, numbers in by_length.items():
            size = max(1, BATCH_POSITIONS // (length * num_beams))
            batches += [numbers[start : start + size] for start in range(0, len(numbers), size)]
        n_best = num_beams if all_answers else 1
        with ThreadPoolExecutor(self.threads) as pool:
            beams = pool.map(lambda batch: self.beam_search([sources[i] for i in batch], num_beams, n_best), batches)
            answers = dict(zip(chain(*batches), chain(*beams), strict=True))
        return [answers[i] for i in range(len(sources))]

    def beam_search(self, sources: Sequence[Sequence[int]], num_beams: int, n_best: int) -> list[Answer]:
        """Return the best answer to each source. A finished hypothesis keeps its slot; a width of 1 is greedy search.

        The search of a sentence ends when no live hypothesis can be one of its `n_best`, even at the maximum length.
        """
        longest, n = self.search["max_new_tokens"], len(sources)
        finished: list[list[Answer]] = [[] for _ in range(n)]
        alive, stay = np.arange(n), np.ones(n, bool)
        ids: Any = np.zeros((n, 1, 0), np.int64)  # of live hypotheses [N K t]
        scores: Any = np.zeros((n, 1))
        last, rows = np.full((n, 1), self.bos_id), np.arange(n)
        memory, cache = self.start(sources)
        for time in range(longest):
            log_probs, cache = self.step(last, rows, memory, cache)
            log_probs[..., self.search["forbidden_ids"]] = -np.inf
            parents, tokens, scores = extend(log_probs, scores, num_beams)
            slots = stay * [num_beams - len(finished[i]) for i in alive]
            scores[np.arange(scores.shape[1]) >= slots[:, None]] = -np.inf
            if np.isnan(scores).any():
                raise InputError(NOT_FINITE)
            ids = np.concatenate([ids[np.arange(len(ids))[:, None], parents], tokens[..., None]], 2)
            for line, slot in np.argwhere((tokens == self.eos_id) & (scores > -np.inf)):
                finished[alive[line]].append(self.ranked(ids[line, slot], scores[line, slot]))
            scores[tokens == self.eos_id] = -np.inf
            bounds = scores.max(1) / penalty(longest, self.search["length_alpha"])
            stay = np.array([bound > nth_rank(finished[i], n_best) for bound, i in zip(bounds, alive, strict=True)])
            if time + 1 == longest or not stay.any():
                break
            rows, last = parents + np.arange(len(alive))[:, None] * last.shape[1], tokens
            if stay.mean() <= 0.9:  # sentences leave the batch in groups, because moving the others costs time
                alive, ids, scores, rows, last = (array[stay] for array in (alive, ids, scores, rows, last))
                memory, stay = {name: array[stay] for name, array in memory.items()}, stay[stay]
        for line, slot in np.argwhere(scores > -np.inf):  # cut off at the maximum length
            finished[alive[line]].append(self.ranked(ids[line, slot], scores[line, slot]))
        if not all(finished):
            raise InputError(NOT_FINITE)
        return [best_of(answers) for answers in finished]

    def ranked(self, ids: Any, score: float) -> Answer:
        return ranked(ids.tolist(), float(score), self.eos_id, self.search["length_alpha"])


def nth_rank(answers: Sequence[Answer], n: int) -> float:
    """Return the n-th largest rank score; -inf where there are fewer."""
    return sorted((answer.rank_score for answer in answers), reverse=True)[n - 1] if len(answers) >= n else -np.inf


def extend(log_probs: Any, scores: Any, num_beams: int) -> tuple[Any, Any, Any]:
    """Return the C best extensions of each sentence, best first: hypothesis, token and score, each [N C].

    NaN is first. Ties: the lower hypothesis wins, then the lower token.
    """
    totals = (scores[:, :, None] + log_probs).reshape(len(scores), -1)  # [N K·V]
    n = min(num_beams, totals.shape[1])
    top = np.stack([largest(line, n) for line in totals]) if n > 1 else totals.argmax(1)[:, None]
    return *np.divmod(top, log_probs.shape[2]), np.take_along_axis(totals, top, 1)


def largest(numbers: Any, n: int) -> Any:
    """Return the positions of the n largest numbers, largest first. Ties: the lowest position wins."""
    near = np.flatnonzero(~(numbers < np.partition(numbers, -n)[-n]))[::-1]
    return near[np.argsort(numbers[near], kind="stable")[: -n - 1 : -1]]
