"""Every number behind one translation: `explain(model, text) -> Trace`.

The reference runs with a recorder, greedy and beam search keep their pruned candidates, and edits are applied and
compared with the translation before. The logits are compared with those of the PyTorch model, where PyTorch is
installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.pairs import check_text
from glassformer.glassbox.catalogue import GOLD, weight_axes
from glassformer.glassbox.evidence import occlude
from glassformer.glassbox.explained import Explained
from glassformer.glassbox.forward import ForwardPass, Ids
from glassformer.glassbox.history import errors_of, training_of
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.schema import (
    Evidence,
    Outputs,
    Prediction,
    SearchTrace,
    SearchTraces,
    Tensor,
    Tokens,
    Trace,
    TraceCheck,
    TraceDifference,
)
from glassformer.glassbox.whatif import Edit, Edits
from glassformer.inference.translator import Translator
from glassformer.runtime.pytorch import has_pytorch
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import SourceLike, readable

TOP = 10  # most probable tokens of a prediction


def explain(
    model: Translator | ModelFile | str | Path,
    text: SourceLike,
    *,
    target: str | None = None,
    edits: Sequence[Edit | str] = (),
    decoding: DecodingSettings | None = None,
    evidence: bool = True,
    weights: bool = False,
    history: bool | str | Path = False,
    pad_to: int = 0,
    check: bool = True,
    **options: Any,
) -> Trace:
    """Explain the translation of `text`: every number behind it.

    The text of a model with several inputs is a mapping, as in `Translator.translate`.

    `target` adds the same for a gold target, teacher-forced, with its loss. `edits` are applied first, and the trace
    has what they changed. `options` are fields of DecodingSettings that replace those of `decoding`, by default the
    model's own; answers are searched, never sampled. `weights` adds the weights to the trace, `history` the records of
    a run directory: the directory of `model` where it is a path, or the one that `history` names. `pad_to` pads the
    source, which changes no answer. Without `check` the logits are not compared with those of PyTorch, which takes
    250 MB.

    Raises TextError for a text that the model does not accept, UsageError for edits that do not fit the model, for a
    beam of more than MAX_BEAMS and a source padded to more than MAX_POSITIONS.
    """
    if target is not None:
        check_text(target, "target")
    changes = Edits.of(edits)
    explained = Explained.of(model, text, decoding, options, pad_to)
    changes.check(explained.file.settings.model)
    forward = explained.forward(changes)
    searches = explained.searches(forward)
    fed, targets = explained.rows_of_answer(searches.beam.answers[0])
    changes.check_rows(len(forward.ids), len(fed))
    gold = None if target is None else explained.rows_of_gold(target)
    recorder = forward.record(fed, gold, explained.file.settings.training.label_smoothing)
    tokens = Tokens(
        source=explained.source_tokens(forward.ids, None if forward.other else changes.text),
        target_in=explained.tokens("target", fed),
        target_out=explained.tokens("target", targets),
        gold_in=None if gold is None else explained.tokens("target", gold[0]),
        gold=None if gold is None else explained.tokens("target", gold[1], target),
    )
    axes = explained.axes(tokens)
    tensors = recorder.tensors(axes)
    for name, array in forward.weights.items() if weights else ():
        tensors[name] = Tensor.of(array, list(weight_axes(name, forward.model)), "weight")
    measured = _evidence(forward, recorder, fed, targets) if evidence else None
    if measured is not None:
        for name, numbers in measured[0].items():
            tensors[name] = Tensor.of(numbers, ["target", "source_key"], "given")
    run = explained.path.parent if history is True and explained.path else history
    folder = Path(run) if isinstance(run, str | Path) else None
    return Trace(
        text=readable(explained.text, explained.translator.inputs),
        translation=searches.beam.answers[0].text,
        target=target,
        provenance=explained.provenance(),
        tokens=tokens,
        vocabularies=explained.vocabularies(can_split=weights),
        axes=axes,
        tensors=tensors,
        steps=recorder.steps,
        predictions=_predictions(recorder, tokens, explained.file.target_tokenizer.vocabulary.pieces),
        search=searches,
        evidence=None if measured is None else measured[1],
        edits=[str(edit) for edit in changes.edits],
        difference=_difference(explained, forward, searches) if changes.edits else None,
        check=_check(forward, fed, recorder) if check else TraceCheck(0.0, 0.0, None, "not requested"),
        training=None if folder is None else training_of(folder, explained),
        errors=None if folder is None else errors_of(folder),
        inputs=explained.inputs,
        confidence=explained.confidence(forward),
    )


def _check(forward: ForwardPass, fed: Ids, recorder: Recorder) -> TraceCheck:
    """The logits, compared with the logits of the PyTorch model."""
    if not forward.edits.supported_by_pytorch:
        return TraceCheck(0.0, 0.0, None, "only the reference supports these edits")
    if not has_pytorch():
        return TraceCheck(0.0, 0.0, None, "this needs PyTorch (the extra train)")
    from glassformer.glassbox.pytorch import check_logits

    return check_logits(forward, fed, recorder.arrays["logits"])


def _predictions(recorder: Recorder, tokens: Tokens, pieces: Sequence[str]) -> dict[str, list[Prediction]]:
    """For each tensor of logits, the prediction of each row."""
    predictions = {}
    for name, logits in recorder.arrays.items():
        if name.rpartition(".")[2] == "logits":
            targets = tokens.gold if tokens.gold is not None and name.startswith(GOLD) else tokens.target_out
            predictions[name] = [_prediction(row, token.id, pieces) for row, token in zip(logits, targets, strict=True)]
    return predictions


def _difference(explained: Explained, forward: ForwardPass, after: SearchTraces) -> TraceDifference:
    """What the edits changed: the searches, and each tensor with the decoder fed the answer before the edits."""
    plain = explained.forward(Edits())
    before = explained.searches(plain)
    fed, _ = explained.rows_of_answer(before.beam.answers[0])
    arrays_before, arrays_after = plain.record(fed).arrays, forward.record(fed).arrays
    largest = {
        name: float(np.abs(np.asarray(arrays_after[name], float) - np.asarray(array, float)).max(initial=0.0))
        for name, array in arrays_before.items()
        if np.shape(arrays_after[name]) == np.shape(array)
    }
    return TraceDifference(_outputs(before.greedy, after.greedy), _outputs(before.beam, after.beam), largest)


def _evidence(
    forward: ForwardPass, recorder: Recorder, fed: Ids, targets: Ids
) -> tuple[dict[str, NDArray[np.float64]], Evidence]:
    """Cross-attention (mean over layers and heads), and occlusion."""
    vocabulary, counts = forward.file.source_tokenizer.vocabulary, forward.file.data.source_counts
    unknown = vocabulary.unk_id
    if unknown is not None and not (unknown < len(counts) and counts[unknown]):
        unknown = None  # its embedding was never trained
    by = "mask" if unknown is None else vocabulary.pieces[unknown]
    measured = {
        "evidence.attention": recorder.cross_attention(),
        "evidence.occlusion": occlude(forward, fed, targets, unknown),
    }
    return measured, Evidence("evidence.attention", "evidence.occlusion", by)


def _largest(numbers: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """The positions of the `n` largest numbers, largest first. Ties: the lowest position wins."""
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


def _outputs(before: SearchTrace, after: SearchTrace) -> Outputs:
    answer_before, answer_after = before.answers[0], after.answers[0]
    tokens = [[*answer.ids, *([-1] if answer.finished else [])] for answer in (answer_before, answer_after)]
    pairs = enumerate(zip_longest(*tokens))
    return Outputs(answer_before, answer_after, next((step for step, (left, right) in pairs if left != right), None))
