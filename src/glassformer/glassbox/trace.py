"""Every number behind one translation: `explain(model, text) -> Trace`.

The reference runs with a recorder, greedy and beam search keep their pruned candidates, and edits are applied and
compared with the translation before. The logits are compared with those of the PyTorch model, where PyTorch is
installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.pairs import check_text
from glassformer.glassbox.catalogue import GOLD
from glassformer.glassbox.evidence import occlude
from glassformer.glassbox.explained import Explained
from glassformer.glassbox.forward import ForwardPass, Ids
from glassformer.glassbox.history import errors_of, training_of
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.schema import (
    Check,
    Difference,
    Evidence,
    Outputs,
    Prediction,
    Search,
    Searches,
    Tensor,
    Tokens,
    Trace,
)
from glassformer.glassbox.whatif import Edit, Edits
from glassformer.inference.translator import Source, Translator
from glassformer.paper.pytorch import has_pytorch
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.inputs import readable

TOP = 10  # most probable tokens of a prediction


def explain(
    model: Translator | ModelFile | str | Path,
    text: Source,
    *,
    target: str | None = None,
    edits: Sequence[Edit | str] = (),
    decoding: DecodingSettings | None = None,
    evidence: bool = True,
    weights: bool = False,
    history: bool | str | Path = False,
    pad_to: int = 0,
    **options: Any,
) -> Trace:
    """Explain the translation of `text`: every number behind it.

    The text of a model with several inputs is a mapping, as in `Translator.translate`.

    `target` adds the same for a gold target, teacher-forced, with its loss. `edits` are applied first, and the trace
    has what they changed. `options` are fields of DecodingSettings that replace those of `decoding`, by default the
    model's own; answers are searched, never sampled. `weights` adds the weights to the trace, `history` the records of
    a run directory: that of `model` where it is a path, or the one that `history` names. `pad_to` pads the source,
    which changes no answer.

    Raises TextError for a text that the model does not accept, UsageError for edits that do not fit the model, for a
    beam of more than MAX_BEAMS and a source padded to more than MAX_POSITIONS.
    """
    if not isinstance(text, Mapping):
        check_text(text, "text to explain")
    if target is not None:
        check_text(target, "target")
    changes = Edits.of(edits)
    explained = Explained.of(model, text, decoding, options, pad_to)
    changes.check(explained.file.settings.model)
    opened = _Opened.of(explained, changes, target)
    trace = opened.trace(evidence=evidence, weights=weights)
    run = explained.path.parent if history is True and explained.path else history
    if isinstance(run, str | Path):
        folder = Path(run)
        trace = replace(trace, training=training_of(folder, explained), errors=errors_of(folder))
    return trace


@dataclass(frozen=True)
class _Opened:
    """One translation, computed. `fed` and `targets` are the decoder rows of its answer, `gold` those of a target."""

    explained: Explained
    forward: ForwardPass
    searches: Searches
    fed: Ids
    targets: Ids
    target: str | None
    gold: tuple[Ids, Ids] | None
    recorder: Recorder

    @classmethod
    def of(cls, explained: Explained, edits: Edits, target: str | None) -> _Opened:
        """Search and record."""
        forward = explained.forward(edits)
        searches = explained.searches(forward)
        fed, targets = explained.rows_of_answer(searches.beam.answers[0])
        edits.check_rows(len(forward.ids), len(fed))
        gold = None if target is None else explained.rows_of_gold(target)
        recorder = forward.record(fed, gold, explained.file.settings.training.label_smoothing)
        return cls(explained, forward, searches, fed, targets, target, gold, recorder)

    def check(self) -> Check:
        """The logits, compared with those of the PyTorch model."""
        if not self.forward.edits.supported_by_pytorch:
            return Check(0.0, 0.0, None, "only the reference supports these edits")
        if not has_pytorch():
            return Check(0.0, 0.0, None, "this needs PyTorch: pip install 'glassformer[train]'")
        from glassformer.glassbox.pytorch import check_logits

        return check_logits(self.forward, self.fed, self.recorder.arrays["logits"])

    def trace(self, *, evidence: bool, weights: bool) -> Trace:
        """The trace, without the records of a run."""
        explained, edits, tokens = self.explained, self.forward.edits, self._tokens()
        axes = explained.axes(tokens)
        tensors = self.recorder.tensors(axes)
        if weights:
            for name, (array, names) in self.forward.named_weights().items():
                tensors[name] = Tensor.of(array, list(names), "weight")
        measured, found = self._evidence() if evidence else ({}, None)
        for name, numbers in measured.items():
            tensors[name] = Tensor.of(numbers, ["target", "source_key"], "given")
        return Trace(
            text=readable(explained.text, explained.translator.inputs),
            translation=self.searches.beam.answers[0].text,
            target=self.target,
            provenance=explained.provenance(),
            tokens=tokens,
            vocabularies=explained.vocabularies(can_split=weights),
            axes=axes,
            tensors=tensors,
            steps=self.recorder.steps,
            predictions=self._predictions(),
            search=self.searches,
            evidence=found,
            edits=[str(edit) for edit in edits.edits],
            difference=self._difference() if edits.edits else None,
            check=self.check(),
            inputs=explained.inputs,
            probability=explained.probability(self.forward),
        )

    def _tokens(self) -> Tokens:
        explained, gold = self.explained, self.gold
        return Tokens(
            source=explained.source_tokens(self.forward.ids, None if self.forward.other else self.forward.edits.text),
            target_in=explained.tokens("target", self.fed),
            target_out=explained.tokens("target", self.targets),
            gold_in=None if gold is None else explained.tokens("target", gold[0]),
            gold=None if gold is None else explained.tokens("target", gold[1], self.target),
        )

    def _predictions(self) -> dict[str, list[Prediction]]:
        """For each tensor of logits, the prediction of each row."""
        pieces = self.explained.file.target_tokenizer.vocabulary.pieces
        predictions = {}
        for name, logits in self.recorder.arrays.items():
            if name.rpartition(".")[2] == "logits":
                targets = self.gold[1] if self.gold is not None and name.startswith(GOLD) else self.targets
                predictions[name] = [_prediction(*row, pieces) for row in zip(logits, targets, strict=True)]
        return predictions

    def _difference(self) -> Difference:
        """What the edits changed: the searches, and each tensor with the decoder fed the answer before the edits."""
        plain, after = self.explained.forward(Edits()), self.searches
        before = self.explained.searches(plain)
        fed, _ = self.explained.rows_of_answer(before.beam.answers[0])
        one, other = plain.record(fed).arrays, self.forward.record(fed).arrays
        largest = {
            name: float(np.abs(np.asarray(other[name], float) - np.asarray(array, float)).max(initial=0.0))
            for name, array in one.items()
            if np.shape(other[name]) == np.shape(array)
        }
        return Difference(_outputs(before.greedy, after.greedy), _outputs(before.beam, after.beam), largest)

    def _evidence(self) -> tuple[dict[str, NDArray[np.float64]], Evidence]:
        """Cross-attention (mean over layers and heads), and occlusion."""
        vocabulary = self.explained.file.source_tokenizer.vocabulary
        counts = self.explained.file.data.source_counts
        unknown = vocabulary.unk_id
        if unknown is not None and not (unknown < len(counts) and counts[unknown]):
            unknown = None  # its embedding was never trained
        by = "mask" if unknown is None else vocabulary.pieces[unknown]
        measured = {
            "evidence.attention": self.recorder.cross_attention(),
            "evidence.occlusion": occlude(self.forward, self.fed, self.targets, unknown),
        }
        return measured, Evidence("evidence.attention", "evidence.occlusion", by)


def _largest(numbers: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """The positions of the `n` largest numbers, largest first; of equal ones the first."""
    n = min(n, len(numbers))
    candidates = np.flatnonzero(numbers >= np.partition(numbers, -n)[-n])  # sorting all of a vocabulary takes longer
    return candidates[np.argsort(-numbers[candidates], kind="stable")[:n]]


def _prediction(logits: NDArray[np.float64], target: int, pieces: Sequence[str]) -> Prediction:
    order = _largest(logits, TOP)
    probabilities = np.exp(logits - np.logaddexp.reduce(logits))
    top = [(token, pieces[token], float(probabilities[token])) for token in order.tolist()]
    rank = int((logits > logits[target]).sum()) + 1
    margin = float(logits[order[0]] - logits[order[1]]) if len(order) > 1 else 0.0
    return Prediction(top, rank, margin)


def _outputs(before: Search, after: Search) -> Outputs:
    one, other = before.answers[0], after.answers[0]
    tokens = [[*answer.ids, *([-1] if answer.finished else [])] for answer in (one, other)]
    pairs = enumerate(zip_longest(*tokens))
    return Outputs(one, other, next((step for step, (left, right) in pairs if left != right), None))
