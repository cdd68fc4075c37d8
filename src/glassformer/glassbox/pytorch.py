"""The logits of a trace, compared with the logits of the PyTorch model."""

from __future__ import annotations

import numpy as np
import torch

from glassformer.glassbox.forward import ForwardPass, Ids
from glassformer.glassbox.schema import TraceCheck
from glassformer.paper.model import padded
from glassformer.paper.reference import Array
from glassformer.storage.weights import build_model

RELATIVE, ABSOLUTE = 1e-5, 1e-4  # of logits in float32


def check_logits(forward: ForwardPass, fed: Ids, recorded: Array) -> TraceCheck:
    """Compare the recorded logits `[T V]` with the logits of the model that translates, within 1e-5 relative + 1e-4."""
    model = build_model(forward.file)
    with torch.inference_mode():
        source, visible = torch.tensor([forward.ids]), torch.from_numpy(forward.visible)[None]
        logits = model(source, torch.tensor([list(fed)]), padded(visible, len(fed)))[0].double().numpy()
    difference = np.abs(logits - recorded)
    allowed = RELATIVE * np.abs(recorded) + ABSOLUTE
    worst = np.unravel_index(np.argmax(difference / allowed), difference.shape)
    largest, tolerance = float(difference[worst]), float(allowed[worst])
    return TraceCheck(largest, tolerance, largest <= tolerance, "PyTorch in float32")
