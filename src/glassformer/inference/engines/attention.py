"""The weights of cross-attention, in PyTorch: those that alignments are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.inference.engines.torch import TorchEngine
from glassformer.paper.model import MultiHeadAttention, Transformer

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@torch.inference_mode()
def cross_attention(engine: TorchEngine, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[NDArray[Any]]:
    """Return [target tokens after `<bos>`, source tokens] of weights for each of the framed (source, target) ids.

    They are those of the penultimate decoder layer (of the only one, where there is one), averaged over its heads: of
    the layers of a Transformer, its average was found to follow alignments of people best (Garg et al. 2019, "Jointly
    Learning to Align and Translate", section 4.1). With several models they are averaged too.
    """
    results: list[NDArray[Any]] = [torch.empty(0).numpy()] * len(pairs)
    for rows, source, visible, target, _ in engine.in_batches(pairs):
        weights = [_weights(model, source, visible, target[:, :-1]) for model in engine.models]
        mean = torch.stack(weights).mean(dim=0).cpu()
        for i, row in enumerate(rows):
            n_source, n_target = len(pairs[row][0]), len(pairs[row][1]) - 1
            results[row] = mean[i, :n_target, :n_source].numpy()
    return results


def _weights(model: Transformer, source: Tensor, visible: Tensor, target: Tensor) -> Float[Tensor, "B T S"]:
    layer: Any = model.decoder[max(0, len(model.decoder) - 2)]
    found: list[Tensor] = []

    def keep(attention: MultiHeadAttention, inputs: tuple[Any, ...]) -> None:
        x, memory, memory_visible = inputs
        found.append(_softmax_weights(attention, x, memory, memory_visible))

    hook = layer.cross_attention.register_forward_pre_hook(keep)
    try:
        model.decode(target, model.encode(source, visible), visible)
    finally:
        hook.remove()
    return found[0]


def _softmax_weights(
    attention: MultiHeadAttention,
    x: Float[Tensor, "B T D"],
    memory: Float[Tensor, "B S D"],
    visible: Bool[Tensor, "B 1 1 S"],
) -> Float[Tensor, "B T S"]:
    """Return softmax(Q K^T / sqrt(d_k)) (section 3.2.1), averaged over the heads."""
    query, key = (
        projection(tokens).unflatten(2, (attention.n_heads, -1)).transpose(1, 2)
        for projection, tokens in ((attention.w_q, x), (attention.w_k, memory))
    )
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    return scores.masked_fill(~visible, -math.inf).softmax(dim=3).mean(dim=1)  # type: ignore[no-any-return]
