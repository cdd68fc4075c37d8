"""The PyTorch model of an explained text: its results, to compare a trace with, and gradient times input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.glassbox.checks import unchecked
from glassformer.glassbox.evidence import Numbers
from glassformer.glassbox.explained import Explained, ForwardPass, Ids
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.schema import Check, Searches
from glassformer.inference.engines import search
from glassformer.inference.engines.torch import TorchEngine, build_model
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.model import Transformer

RELATIVE, ABSOLUTE = 1e-5, 1e-4  # of logits in float32
SCORE = 1e-3  # of a sum of log-probabilities in float32


class PyTorchModel:
    """The model as it translates: in float32, with the edits that change only text and weights."""

    def __init__(self, explained: Explained, forward: ForwardPass) -> None:
        self.explained, self.forward = explained, forward
        tensors = forward.edits.weights(explained.file.tensors, forward.model)
        self.model: Transformer = build_model(replace(explained.file, tensors=tensors))

    def checks(self, recorder: Recorder, fed: Ids, searches: Searches) -> list[Check]:
        """The recorded logits and the answer of the trace, compared with this model."""
        if not self.forward.edits.supported_by_pytorch:
            return unchecked("the PyTorch model does not support these edits")
        return [self._check_logits(recorder, fed), self._check_search(searches)]

    def gradient_times_input(self, fed: Ids, targets: Ids) -> Numbers:
        """The measure of that name for the tokens fed to the decoder and its targets `[T S]`."""
        return gradient_times_input(self.model, self.forward.ids, self.forward.visible, fed, targets)

    def _check_logits(self, recorder: Recorder, fed: Ids) -> Check:
        """The recorded logits against those of the PyTorch model, within 1e-5 relative + 1e-4."""
        with torch.inference_mode():
            source, visible = torch.tensor([self.forward.ids]), torch.from_numpy(self.forward.visible)[None]
            logits = self.model(source, visible, torch.tensor([list(fed)]))[0].double().numpy()
        recorded = recorder.arrays["logits"]
        difference = np.abs(logits - recorded)
        allowed = RELATIVE * np.abs(recorded) + ABSOLUTE
        worst = np.unravel_index(np.argmax(difference / allowed), difference.shape)
        largest, tolerance = float(difference[worst]), float(allowed[worst])
        return Check("logits", "pytorch", largest, tolerance, largest <= tolerance, "PyTorch in float32")

    def _check_search(self, searches: Searches) -> Check:
        """The answer of the trace against that of `translate`."""
        explained, edits = self.explained, self.forward.edits
        constraints, tokenizer = explained.constraints(edits), explained.file.target_tokenizer
        ids = edits.source_ids(explained.source_ids, explained.file.source_tokenizer)
        engine = TorchEngine.of([self.model], tokenizer)
        found = search(engine, [ids], explained.decoding, constraints.max_new_tokens, constraints.prefixes)[0][0]
        answer = searches.beam.answers[0]
        largest = abs(found.score - answer.score)
        same = list(found.ids) == answer.ids and found.finished == answer.finished
        note = "the same tokens" if same else f"the answer of PyTorch is {tokenizer.decode(found.ids)!r}"
        return Check("answer", "search", largest, SCORE, same and largest <= SCORE, note)


def gradient_times_input(
    model: Transformer, source: Sequence[int], visible: NDArray[np.bool_], fed: Sequence[int], targets: Sequence[int]
) -> Numbers:
    """Gradient of the log-probability of each output token by each source embedding, times that embedding `[T S]`.

    The embedding is a row of the matrix, before scale and position are applied.
    """
    embeddings: list[Tensor] = []

    def keep(_module: Any, _inputs: Any, output: Tensor) -> None:
        embeddings.append(output)

    with torch.enable_grad():
        handle = model.source_embedding.register_forward_hook(keep)
        source_visible = torch.from_numpy(visible)[None]
        memory = model.encode(torch.tensor([list(source)]), source_visible)
        handle.remove()  # with one matrix for all, the target's rows come from the same module
        logits = model.project(model.decode(torch.tensor([list(fed)]), memory, source_visible))[0]
        chosen = logits.log_softmax(dim=1).gather(1, torch.tensor(list(targets))[:, None])[:, 0]
        rows = embeddings[0]
        gradients = []
        for log_prob in chosen:
            check_time_limit()
            gradients.append(torch.autograd.grad(log_prob, rows, retain_graph=True)[0][0])
    products = torch.stack([(gradient * rows[0]).sum(dim=1) for gradient in gradients])
    result: Numbers = products.detach().double().numpy()
    return result
