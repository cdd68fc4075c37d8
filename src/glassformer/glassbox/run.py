"""One source through the reference, with edits: encoded, searched, recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer import reference
from glassformer.decoding import SearchConstraints
from glassformer.errors import NotFiniteError
from glassformer.glassbox.catalogue import shown
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.schema import Search
from glassformer.glassbox.search import search
from glassformer.glassbox.whatif import Edits
from glassformer.reference import Array, Note, Value
from glassformer.settings import DecodingSettings, ModelSettings
from glassformer.text import Tokenizer
from glassformer.timelimit import check_time_limit

Ids = Sequence[int]

LENS_CELLS = 100_000  # the logits after each layer are recorded when all rows have fewer of them


@dataclass(frozen=True)
class Run:
    """Framed source ids, which of them are visible, and a model with edits. `weights` are edited, and float64."""

    weights: dict[str, Array]
    model: ModelSettings
    ids: tuple[int, ...]
    visible: NDArray[np.bool_]
    edits: Edits

    @cached_property
    def memory(self) -> Array:
        """What the encoder makes of the source; it runs once."""
        return reference.encode(self.weights, self.model, np.array(self.ids), self.visible, self._edited)

    def next_log_probs(self, fed: Ids) -> NDArray[np.float64]:
        """Log-probabilities `[V]` of the token after all that is fed."""
        last: NDArray[np.float64] = self._log_probs(self._hidden(fed)[-1:])[0]
        return last

    def token_scores(self, fed: Ids, asked: Ids) -> NDArray[np.float64]:
        """The log-probability of each token asked for `[T]`."""
        return self._log_probs(self._hidden(fed))[np.arange(len(asked)), list(asked)]

    def _hidden(self, fed: Ids) -> Array:
        check_time_limit()
        return reference.decode(self.weights, self.model, np.array(fed), self.memory, self.visible, self._edited)

    def _log_probs(self, hidden: Array) -> Array:
        log_probs: Array = reference.log_softmax(reference.project(self.weights, self.model, hidden))
        if not np.isfinite(log_probs).all():
            raise NotFiniteError.at(0, "a log-probability that is not finite")
        return log_probs

    def search(
        self, space: SearchConstraints, tokenizer: Tokenizer, decoding: DecodingSettings, num_beams: int
    ) -> Search:
        """A search with all near candidates."""
        return search(
            lambda ids: self.next_log_probs([space.bos_id, *ids]),
            space,
            lambda token: tokenizer.tokens([token])[0],
            tokenizer.decode,
            num_beams=num_beams,
            alpha=decoding.length_alpha,
            n_best=min(decoding.num_return_sequences, num_beams),
        )

    def record(self, fed: Ids, gold: tuple[Ids, Ids] | None = None, label_smoothing: float = 0.0) -> Recorder:
        """Everything on the way to the logits after each token fed; for `gold`, fed and asked, to its loss too."""
        recorder = Recorder(self.weights, self.model, self.edits.quantity, label_smoothing)
        memory = reference.encode(self.weights, self.model, np.array(self.ids), self.visible, recorder)
        logits = self._record_decoder(recorder, fed, memory)
        reference.log_softmax(logits, recorder)
        if gold is not None:
            recorder.gold = True
            asked = np.array(gold[1])
            recorder.know("target_ids", asked)
            logits = self._record_decoder(recorder, gold[0], memory)
            reference.cross_entropy(logits, asked, label_smoothing, recorder)
        return recorder

    def _record_decoder(self, recorder: Recorder, fed: Ids, memory: Array) -> Array:
        check_time_limit()
        hidden = reference.decode(self.weights, self.model, np.array(fed), memory, self.visible, recorder)
        logits = reference.project(self.weights, self.model, hidden, recorder)
        if logits.size * (self.model.n_decoder_layers - 1) <= LENS_CELLS:
            self._record_lens(recorder)
        return logits

    def _record_lens(self, recorder: Recorder) -> None:
        """The prediction read off after each layer but the last, as if the others were not there."""
        for i in range(self.model.n_decoder_layers - 1):
            note = reference.under(recorder, f"decoder.{i}.lens")
            hidden = recorder.last_of(f"decoder.{i}.feed_forward")
            if self.model.norm == "pre":
                hidden = reference.norm(self.weights, "decoder_norm", hidden, self.model, note)
            reference.project(self.weights, self.model, hidden, note)

    @property
    def _edited(self) -> Note:
        def note(name: str, value: Value, /, *made_of: Any) -> Value:  # noqa: ARG001
            edited: Value = self.edits.quantity(shown(name), value)
            return edited

        return note
