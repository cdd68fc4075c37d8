"""The loss of packed sentences (sections 3.1 and 5.4): output layer and cross-entropy of a few rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.fast.attention import Packed
from glassformer.fast.packing import TokenLayout
from glassformer.paper.model import Transformer, Visibilities

if TYPE_CHECKING:
    from jaxtyping import Float, Int

CHUNK_NUMBERS = 2**22  # maximum number of logits in memory at once, for the cache of a CPU


def summed_losses(
    model: Transformer,
    source: Int[Tensor, " source_tokens"],
    source_lengths: Int[Tensor, " B"],
    inputs: Int[Tensor, " tokens"],
    targets: Int[Tensor, " tokens"],
    target_lengths: Int[Tensor, " B"],
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed loss and the plain one of packed sentences: sums over their target tokens, in nats.

    `model` is one that `accelerate` has changed. The lengths are on the CPU; `inputs` are what the decoder reads, and
    `targets` what it is to answer there.
    """
    hidden, copies = packed_hidden_states(model, source, source_lengths, inputs, target_lengths)
    if copies is None:
        return cross_entropy(*output_layer(model, hidden), targets, label_smoothing)
    log_probs = model.project(hidden, copies).log_softmax(dim=1)
    plain = -log_probs.gather(1, targets[:, None]).sum()
    return (1 - label_smoothing) * plain - label_smoothing * log_probs.mean(dim=1).sum(), plain.detach()


def packed_hidden_states(
    model: Transformer,
    source: Int[Tensor, " source_tokens"],
    source_lengths: Int[Tensor, " B"],
    inputs: Int[Tensor, " tokens"],
    target_lengths: Int[Tensor, " B"],
) -> tuple[Float[Tensor, "tokens D"], tuple[Tensor, Tensor] | None]:
    """Return `Transformer.hidden_states` of packed sentences."""
    source_layout = TokenLayout.of(source_lengths, device=source.device)
    target_layout = TokenLayout.of(target_lengths, device=source.device)
    seen = Visibilities(
        Packed(source_layout, source_layout),
        Packed(target_layout, target_layout, causal=True),
        Packed(target_layout, source_layout),
    )
    hidden, copies = model.hidden_states(source_layout.fill(source), target_layout.fill(inputs), seen)
    n_tokens = target_layout.n_tokens
    return hidden[:n_tokens], None if copies is None else (copies[0][:n_tokens], copies[1][:n_tokens])


def output_layer(
    model: Transformer, hidden: Float[Tensor, "rows D"]
) -> tuple[Float[Tensor, "rows D2"], Float[Tensor, "V D2"]]:
    """Return hidden states and output matrix whose products are the logits; a bias is a column, its feature is 1."""
    output = model.output_projection
    if not model.settings.output_bias:
        return hidden, output.weight
    ones = hidden.new_ones((len(hidden), 1))
    return torch.cat((hidden, ones), dim=1), torch.cat((output.weight, output.bias[:, None]), dim=1)


def cross_entropy(
    hidden: Float[Tensor, "rows D"],
    projection: Float[Tensor, "V D"],
    target: Int[Tensor, " rows"],
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed loss and the plain one (for the perplexity) of logits `hidden · projectionᵀ`.

    Both are sums over rows, in nats and at least float32; the products are in the precision of autocast. Smoothing
    spreads its probability evenly over the whole vocabulary, the target included (Szegedy et al. 2016).
    """
    device = hidden.device.type
    precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    inputs = hidden.to(precision), projection.to(precision)
    if not torch.is_grad_enabled():
        inputs = inputs[0].detach(), inputs[1].detach()
    smoothed, plain = _CrossEntropy.apply(*inputs, target, label_smoothing)  # type: ignore[no-untyped-call]
    return smoothed, plain.detach()


class _CrossEntropy(torch.autograd.Function):
    """Output layer, loss and both gradients in one pass over a few rows at a time.

    The logits of a batch are never in memory at once. With p the softmax of a row's logits x = W h, the loss is
    (1 - ε) (log Σ exp x - x_target) + ε (log Σ exp x - mean x), and its gradient with respect to x is
    p - (1 - ε) · [target] - ε / V. The term of smoothing is the same for all tokens and needs no pass over the logits:
    mean x = h · mean(W).
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        vocabulary, needs_gradient = len(weight), any(ctx.needs_input_grad)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        mean_weight = weight.mean(dim=0, dtype=wide)
        plain, spread = hidden.new_zeros(2, dtype=wide).unbind()
        for_hidden = torch.empty_like(hidden) if needs_gradient else hidden
        for_weight = torch.zeros_like(weight, dtype=wide) if needs_gradient else weight
        n_rows = max(1, CHUNK_NUMBERS * (1 if hidden.device.type == "cpu" else 16) // vocabulary)
        with torch.autocast(hidden.device.type, enabled=False):
            for h, y, into in zip(*(whole.split(n_rows) for whole in (hidden, target, for_hidden)), strict=True):  # type: ignore[no-untyped-call]
                logits = h @ weight.t()
                y = y[:, None]
                largest = logits.amax(dim=1, keepdim=True).to(wide)
                logits_of_targets = logits.gather(1, y).to(wide)
                p = logits.to(wide).softmax(dim=1)
                log_sum = -p.amax(dim=1, keepdim=True).log()  # of the powers relative to the largest
                plain = plain + ((largest - logits_of_targets) + log_sum).sum()
                spread = spread + ((largest + log_sum)[:, 0] - h.to(wide) @ mean_weight).sum()
                if needs_gradient:
                    p.scatter_add_(1, y, p.new_full(y.shape, smoothing - 1))
                    gradient = p.to(h.dtype)
                    into.copy_((gradient @ weight).to(wide).sub_(smoothing * mean_weight))
                    for_weight += gradient.t() @ h
            if needs_gradient:
                for_weight -= hidden.sum(dim=0, dtype=wide) * (smoothing / vocabulary)
        ctx.save_for_backward(for_hidden, for_weight)
        ctx.mark_non_differentiable(plain)
        return (1 - smoothing) * plain + smoothing * spread, plain

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, Tensor, None, None]:
        for_hidden, for_weight = ctx.saved_tensors
        return for_hidden * outward[0], for_weight * outward[0], None, None
