"""The PyTorch model of an explained text: its results, to compare a trace with, and gradient times input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.glassbox.evidence import Numbers
from glassformer.glassbox.explained import Explained
from glassformer.glassbox.forward import ForwardPass, Ids
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.schema import Check
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.model import Transformer, padded
from glassformer.ship.storage.weights import build_model

RELATIVE, ABSOLUTE = 1e-5, 1e-4  # of logits in float32
POSITIONS_TOGETHER = 256  # of several copies of a sentence, on either side, whose gradients are computed at once


class PyTorchModel:
    """The model as it translates: in float32, with the edits that change only text and weights."""

    def __init__(self, explained: Explained, forward: ForwardPass) -> None:
        self.explained, self.forward = explained, forward
        tensors = forward.edits.weights(explained.file.tensors, forward.model)
        self.model: Transformer = build_model(replace(explained.file, tensors=tensors))

    def gradient_times_input(self, fed: Ids, targets: Ids) -> Numbers:
        """The measure of that name for the tokens fed to the decoder and its targets `[T S]`."""
        return gradient_times_input(self.model, self.forward.ids, self.forward.visible, fed, targets)

    def check_logits(self, recorder: Recorder, fed: Ids) -> Check:
        """The recorded logits against those of the PyTorch model, within 1e-5 relative + 1e-4."""
        with torch.inference_mode():
            source, visible = torch.tensor([self.forward.ids]), torch.from_numpy(self.forward.visible)[None]
            logits = self.model(source, torch.tensor([list(fed)]), padded(visible, len(fed)))[0].double().numpy()
        recorded = recorder.arrays["logits"]
        difference = np.abs(logits - recorded)
        allowed = RELATIVE * np.abs(recorded) + ABSOLUTE
        worst = np.unravel_index(np.argmax(difference / allowed), difference.shape)
        largest, tolerance = float(difference[worst]), float(allowed[worst])
        return Check("logits", "pytorch", largest, tolerance, largest <= tolerance, "PyTorch in float32")


def gradient_times_input(
    model: Transformer, source: Sequence[int], visible: NDArray[np.bool_], fed: Sequence[int], targets: Sequence[int]
) -> Numbers:
    """Gradient of the log-probability of each output token by each source embedding, times that embedding `[T S]`.

    The embedding is a row of the matrix, before scale and position are applied.
    """
    products = []
    size = max(1, POSITIONS_TOGETHER // max(len(source), len(fed)))
    for first in range(0, len(targets), size):
        check_time_limit()
        rows = range(first, min(first + size, len(targets)))
        gradients, embeddings = _gradients(model, source, visible, fed[: rows.stop], rows, targets[first : rows.stop])
        products.append((gradients * embeddings).sum(dim=2))
    result: Numbers = torch.cat(products).detach().double().numpy()
    return result


def _gradients(
    model: Transformer,
    source: Sequence[int],
    visible: NDArray[np.bool_],
    fed: Sequence[int],
    rows: Sequence[int],
    targets: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The gradients of some output tokens, those of the decoder's `rows`, and the embeddings `[N S D]`.

    Each token has a copy of the sentence, so that one backward pass is enough.
    """
    n, embeddings = len(rows), list[Tensor]()

    def keep(_module: Any, _inputs: Any, output: Tensor) -> None:
        embeddings.append(output)

    with torch.enable_grad():
        handle = model.source_embedding.register_forward_hook(keep)
        seen = padded(torch.from_numpy(visible).expand(n, -1), len(fed))
        memory = model.encode(torch.tensor([list(source)] * n), seen.source)
        handle.remove()  # with one matrix for all, the target's rows come from the same module
        hidden = model.decode(torch.tensor([list(fed)] * n), memory, seen.target, seen.cross)
        hidden = hidden[range(n), rows][:, None]
        sources = torch.tensor([list(source)] * n)
        copies = model.copy_mechanism(hidden, memory, sources, seen.cross) if model.copy_mechanism else None
        log_probs = model.project(hidden, copies)[:, 0].log_softmax(dim=1)
        (gradients,) = torch.autograd.grad(log_probs[range(n), targets].sum(), embeddings)
    return gradients, embeddings[0]
