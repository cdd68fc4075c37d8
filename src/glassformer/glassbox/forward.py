"""The NumPy reference on one source, with edits: what an explained text searches, scores and records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import NotFiniteError
from glassformer.glassbox.catalogue import GOLD, trace_name
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.whatif import Edits
from glassformer.inference.engines.batches import cores
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper import reference
from glassformer.paper.reference import Array, Value
from glassformer.paper.search import LogProbs, Step
from glassformer.settings import ModelSettings
from glassformer.storage.modelfile import ModelFile

Ids = Sequence[int]

POSITIONS_TOGETHER = 4096  # of several sources that are scored at the same time
LENS_CELLS = 100_000  # the logits after each layer are recorded when all rows have fewer of them


def _finite(log_probs: Array) -> Array:
    if not np.isfinite(log_probs).all():
        raise NotFiniteError.at(0, "a log-probability that is not finite")
    return log_probs


@dataclass
class _Prefixes:
    """The state of a search that has no cache: the ids fed to the decoder so far, for each hypothesis."""

    fed: list[tuple[int, ...]]

    def select(self, rows: NDArray[np.int64]) -> _Prefixes:
        return _Prefixes([self.fed[row] for row in rows.ravel()])


@dataclass(frozen=True)
class ForwardPass:
    """The reference on one source, with edits. `visible` is False for padding.

    `file` has the edited weights, and `weights` the same in float64: converted once, not in every product.

    `other` is the pass on the text that patches are from; `positions` are positions of its source, see `counterparts`.
    """

    file: ModelFile
    weights: dict[str, Array]
    ids: tuple[int, ...]
    visible: NDArray[np.bool_]
    edits: Edits
    other: ForwardPass | None = None
    positions: Mapping[int, int] = field(default_factory=dict)

    @property
    def model(self) -> ModelSettings:
        return self.file.settings.model

    @cached_property
    def engine(self) -> NumPyEngine:
        """The engine of `translate`: in float32, with a cache. Of the edits it knows edited weights only."""
        return NumPyEngine.of_files([self.file])

    @cached_property
    def memory(self) -> Array:
        """The output of the encoder, which runs once."""
        return reference.encode(self.weights, self.model, np.array(self.ids), self.visible, self._note((0,)))

    def searched(self) -> tuple[Step, Any]:
        """Return the step function of a search and its first state.

        It is the step of `translate`, or has no cache where an edit changes what the decoder computes.
        """
        if self.edits.supported_by_pytorch:
            return self.engine.step, self.engine.start([np.array(self.ids)[self.visible].tolist()])
        return self._step, _Prefixes([()])

    def _step(self, last: NDArray[np.int64], state: _Prefixes) -> tuple[LogProbs, _Prefixes]:
        state = _Prefixes([(*fed, token) for fed, token in zip(state.fed, last[0].tolist(), strict=True)])
        return LogProbs(np.stack([self._log_probs(self._hidden(fed)[-1:]) for fed in state.fed], axis=1)), state

    def token_scores(self, fed: Ids, targets: Ids) -> NDArray[np.float64]:
        """The log-probability of each target token `[T]`."""
        return self._log_probs(self._hidden(fed))[np.arange(len(targets)), list(targets)]

    def scores_of(
        self, sources: NDArray[np.int64], visible: NDArray[np.bool_], fed: Ids, targets: Ids
    ) -> NDArray[np.float64]:
        """The log-probability of each target token `[N T]`, for N other sources of the same length."""
        if not (self.edits.supported_by_pytorch and visible.any(axis=1).all()):
            passes = (replace(self, ids=tuple(ids), visible=seen) for ids, seen in zip(sources, visible, strict=True))
            return np.stack([forward.token_scores(fed, targets) for forward in passes])
        decoder: Any = self.engine.models[0]

        def score(rows: Sequence[int]) -> NDArray[np.float64]:
            cache, scores = decoder.encode(sources[rows], visible[rows]), np.empty((len(rows), len(fed)))
            for step, (token, target) in enumerate(zip(fed, targets, strict=True)):
                check_time_limit()
                scores[:, step] = decoder.step(np.full((len(rows), 1), token), cache)[:, 0, target]
            return scores

        at_once = POSITIONS_TOGETHER // max(len(fed), sources.shape[1])
        size = max(1, min(at_once, -(-len(sources) // cores())))
        jobs = [range(first, min(first + size, len(sources))) for first in range(0, len(sources), size)]
        scores = self.engine.on_every_core(score, jobs)
        return _finite(np.concatenate(list(scores)))

    def _hidden(self, fed: Ids) -> Array:
        check_time_limit()
        return reference.decode(self.weights, self.model, np.array(fed), self.memory, self.visible, self._note(fed))

    def _log_probs(self, hidden: Array) -> Array:
        logits = reference.project(self.weights, self.model, hidden, copies=self._copies)
        return _finite(reference.log_softmax(logits))

    @cached_property
    def _copies(self) -> reference.Copies | None:
        return reference.copies(self.weights, self.model, np.array(self.ids), self.memory, self.visible)

    def record(self, fed: Ids, gold: tuple[Ids, Ids] | None = None, label_smoothing: float = 0.0) -> Recorder:
        """Every quantity up to the logits after each token fed; for `gold`, fed and targets, up to its loss too."""
        recorder = Recorder(self.weights, self.model, self._edit(fed, gold), label_smoothing)
        ids = np.array(self.ids)
        memory = reference.encode(self.weights, self.model, ids, self.visible, recorder)
        copies = reference.copies(self.weights, self.model, ids, memory, self.visible, recorder)
        logits = self._record_decoder(recorder, fed, memory, copies)
        reference.log_softmax(logits, recorder)
        if gold is not None:
            targets, note = np.array(gold[1]), reference.under(recorder, GOLD[:-1])
            note("target_ids", targets)
            logits = self._record_decoder(recorder, gold[0], memory, copies, GOLD)
            reference.cross_entropy(logits, targets, label_smoothing, note)
        return recorder

    def _record_decoder(
        self, recorder: Recorder, fed: Ids, memory: Array, copies: reference.Copies | None, prefix: str = ""
    ) -> Array:
        """The logits, under names that begin with `prefix`; and the logits after each layer, as if it were the last."""
        check_time_limit()
        note = reference.under(recorder, prefix[:-1]) if prefix else recorder
        hidden = reference.decode(self.weights, self.model, np.array(fed), memory, self.visible, note)
        logits = reference.project(self.weights, self.model, hidden, note, copies)
        earlier_layers = range(self.model.n_decoder_layers - 1)
        for i in earlier_layers if logits.size * len(earlier_layers) <= LENS_CELLS else ():
            lens = reference.under(note, f"decoder.{i}.lens")
            hidden = recorder.last_of(f"{prefix}decoder.{i}.feed_forward")
            if self.model.norm == "pre":
                hidden = reference.norm(self.weights, "decoder_norm", hidden, self.model, lens)
            reference.project(self.weights, self.model, hidden, lens, copies)
        return logits

    def _edit(self, fed: Ids, gold: tuple[Ids, Ids] | None = None) -> Callable[[str, Any], Any]:
        """The value of a quantity after the edits, by its name in a trace; the decoder is fed these tokens."""
        if self.other is None:
            return lambda name, value: self.edits.quantity(name, value, {}, {})
        arrays = self.other.record(fed, gold).arrays
        return lambda name, value: self.edits.quantity(name, value, arrays, self.positions)

    def _note(self, fed: Ids) -> reference.Note:
        """The note of a pass that is not recorded."""
        edit = self._edit(fed)

        def edited(name: str, value: Value, /, *made_of: Any) -> Value:  # noqa: ARG001
            edited_value: Value = edit(trace_name(name), value)
            return edited_value

        return edited
