"""Every number behind one translation: `explain(model, text) -> Trace`.

The reference runs with a recorder, greedy and beam search keep their pruned candidates, and edits are applied and
compared with the translation before. Every step is recomputed from its inputs; the answer is compared with that of
`translate`, and the logits with those of the PyTorch model, where PyTorch is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.pairs import check_text
from glassformer.glassbox.catalogue import GOLD
from glassformer.glassbox.checks import check
from glassformer.glassbox.evidence import correlate, occlude
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
from glassformer.glassbox.search import largest
from glassformer.glassbox.whatif import Edit, Edits, attentions
from glassformer.inference.probability import probability
from glassformer.inference.translator import Source, Translator
from glassformer.paper.pytorch import has_pytorch
from glassformer.paper.search import Hypothesis
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.inputs import readable

if TYPE_CHECKING:
    from glassformer.glassbox.pytorch import PyTorchModel

TOP = 10  # most probable tokens of a prediction
SCORE = 1e-3  # tolerance of a sum of log-probabilities in float32


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
    numbers_as_text: bool = False,
    pad_to: int = 0,
    **options: Any,
) -> Trace:
    """Explain the translation of `text`: every number behind it, with checks.

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
    trace = opened.trace(evidence=evidence, weights=weights, as_text=numbers_as_text)
    run = explained.path.parent if history is True and explained.path else history
    if isinstance(run, str | Path):
        folder = Path(run)
        trace = replace(trace, training=training_of(folder, explained, opened.targets), errors=errors_of(folder))
    return replace(trace, checks=[*check(trace, opened.forward.named_weights()), *opened.compare()])


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

    @cached_property
    def pytorch(self) -> PyTorchModel | None:
        """The PyTorch model with these edits; None where PyTorch is not installed."""
        if not has_pytorch():
            return None
        from glassformer.glassbox.pytorch import PyTorchModel

        return PyTorchModel(self.explained, self.forward)

    @cached_property
    def translated(self) -> list[Hypothesis]:
        """The answers of `translate` with these edits, best first."""
        return self.explained.translated(self.forward.edits)

    def _probability(self) -> float | None:
        """The probability that the answer is right, if it is known."""
        calibration, edits = self.explained.calibration, self.forward.edits.edits
        if calibration is None or edits:
            return None
        unlike = self.explained.file.unlike(self.explained.source_ids)
        limit = 1.0 if self.translated[0].finished and not unlike else calibration.unusual_limit
        return probability(calibration.weights, [one.score for one in self.translated], limit)

    def compare(self) -> list[Check]:
        """The logits, compared with those of the PyTorch model, and the answer with that of `translate`."""
        if not self.forward.edits.supported_by_pytorch:
            why = "only the reference supports these edits"
            return [Check("logits", "pytorch", 0.0, 0.0, None, why), Check("answer", "search", 0.0, 0.0, None, why)]
        if self.pytorch is None:
            why = "this needs PyTorch: pip install 'glassformer[train]'"
            return [Check("logits", "pytorch", 0.0, 0.0, None, why), self._check_answer()]
        return [self.pytorch.check_logits(self.recorder, self.fed), self._check_answer()]

    def _check_answer(self) -> Check:
        """The answer of the trace against that of `translate`."""
        found, answer = self.translated[0], self.searches.beam.answers[0]
        largest = abs(found.score - answer.score)
        same = list(found.ids) == answer.ids and found.finished == answer.finished
        text = self.explained.file.target_tokenizer.decode(found.ids)
        note = "the same tokens" if same else f"the answer of translate is {text!r}"
        return Check("answer", "search", largest, SCORE, same and largest <= SCORE, note)

    def trace(self, *, evidence: bool, weights: bool, as_text: bool) -> Trace:
        """The trace, without checks and without the records of a run."""
        explained, edits, tokens = self.explained, self.forward.edits, self._tokens()
        axes = explained.axes(tokens)
        tensors = self.recorder.tensors(axes, as_text=as_text)
        if weights:
            for name, (array, names) in self.forward.named_weights().items():
                tensors[name] = Tensor.of(array, list(names), "weight", text=as_text)
        measured, found = self._evidence() if evidence else ({}, None)
        for name, numbers in measured.items():
            tensors[name] = Tensor.of(numbers, ["target", "source_key"], "given", text=as_text)
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
            checks=[],
            inputs=explained.inputs,
            probability=self._probability(),
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
        """Cross-attention (mean over layers and heads), occlusion, and their correlations.

        With PyTorch also gradient times input; without it no tensor has the name that the evidence gives it.
        """
        forward, fed, targets = self.forward, self.fed, self.targets
        cross = [name for name in attentions(forward.model) if name.endswith(".cross")]
        vocabulary = self.explained.file.source_tokenizer.vocabulary
        counts = self.explained.file.data.source_counts
        unknown = vocabulary.unk_id
        if unknown is not None and not (unknown < len(counts) and counts[unknown]):
            unknown = None  # its embedding was never trained

        attention = np.mean([self.recorder.arrays[f"{name}.weights"].mean(axis=0) for name in cross], axis=0)
        others = {"occlusion": occlude(forward, fed, targets, unknown)}
        if self.pytorch is not None:
            others["gradient"] = self.pytorch.gradient_times_input(fed, targets)
        measured = {f"evidence.{name}": numbers for name, numbers in {"attention": attention, **others}.items()}
        return measured, Evidence(
            attention="evidence.attention",
            occlusion="evidence.occlusion",
            gradient="evidence.gradient",
            occluded_by="mask" if unknown is None else vocabulary.pieces[unknown],
            gradient_before_edits="gradient" in others and not forward.edits.supported_by_pytorch,
            correlations={name: correlate(attention, numbers) for name, numbers in others.items()},
        )


def _prediction(logits: NDArray[np.float64], target: int, pieces: Sequence[str]) -> Prediction:
    order = largest(logits, TOP)
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
