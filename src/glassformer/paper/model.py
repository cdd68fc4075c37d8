"""The Transformer of Vaswani et al. 2017, "Attention Is All You Need", in the paper's order.

    3.2.1  attention             softmax(Q Kᵀ / sqrt(d_k)) V
    3.2.2  MultiHeadAttention    every head reads all of its inputs through its own projections
    3.3    FeedForward           max(0, x W_1 + b_1) W_2 + b_2
    3.1    add_and_norm          LayerNorm(x + Dropout(Sublayer(x)))
    3.1    EncoderLayer, DecoderLayer
    3.5    sinusoids             position encodings
    3.4    Transformer           embeddings, both stacks, the output projection

Axes: B batch · S source positions · T target positions · P tokens of a batch, packed · H heads ·
V vocabulary · D d_model. `memory` is the encoder's output. A mask is `*_visible`: True means "may attend"; sequences
are padded on the right.

Only attention reads other positions. Everything else computes one token at a time, so the layers also take packed
tokens, `[P D]` instead of `[B T D]`, together with their `Layout`.

This module does not depend on losses, optimizers, tokenizers, devices or files. Fast implementations are in `kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)
from torch.utils.checkpoint import checkpoint

from glassformer.errors import SettingsError, TextError
from glassformer.paper.copying import Copies, CopyMechanism, add_copies
from glassformer.paper.kernels.attention import fastest_attention
from glassformer.paper.kernels.dropout import Dropout
from glassformer.paper.kernels.packed_attention import PackedAttention
from glassformer.paper.kernels.packing import Layout
from glassformer.paper.kernels.products import side_by_side
from glassformer.paper.settings import ModelSettings

if TYPE_CHECKING:  # shapes are checked in the tests; at run time they cost nothing
    from jaxtyping import Bool, Float, Int


def attention(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H S d_k"],
    value: Float[Tensor, "B H S d_v"],
    visible: Bool[Tensor, "B #H #T S"] | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T d_v"]:
    """Scaled dot-product attention (section 3.2.1, equation 1): softmax(Q Kᵀ / sqrt(d_k)) V.

    The softmax is over the keys that a query may attend to: those `visible`, or, if `causal`, those up to its own
    position; one of the two may be given. A query without a visible key gives zeros, never NaN. `dropout` is the
    probability that a weight is dropped.
    """
    return fastest_attention(query, key, value, visible, causal, dropout)


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, …, head_h) W_O, head_i = attention(x W_Q_i, memory W_K_i, memory W_V_i).

    `d_memory` is the width of what keys and values are made of; it may differ from d_model.
    """

    def __init__(self, settings: ModelSettings, d_memory: int | None = None) -> None:
        super().__init__()
        self.n_heads, self.dropout = settings.n_heads, settings.attention_dropout
        self.widths = settings.d_k, settings.d_v
        d_memory, bias = d_memory or settings.d_model, settings.attention_bias
        self.w_q = nn.Linear(settings.d_model, settings.n_heads * settings.d_k, bias=bias)
        self.w_k = nn.Linear(d_memory, settings.n_heads * settings.d_k, bias=bias)
        self.w_v = nn.Linear(d_memory, settings.n_heads * settings.d_v, bias=bias)
        self.w_o = nn.Linear(settings.n_heads * settings.d_v, settings.d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "*tokens D"],
        memory: Float[Tensor, "*memory_tokens d_memory"] | None = None,
        visible: Bool[Tensor, "B #H #T S"] | None = None,
        *,
        causal: bool = False,
        layout: Layout | None = None,
        memory_layout: Layout | None = None,
    ) -> Float[Tensor, "*tokens D"]:
        """Compute attention of x to a memory; without one, self-attention."""
        projections, n = [self.w_q, self.w_k, self.w_v], 3 if memory is None else 1
        projected = [(projections[:n], side_by_side(projections[:n], x), layout)]
        if memory is not None:
            projected.append((projections[n:], side_by_side(projections[n:], memory), memory_layout))
        dropout = self.dropout if self.training else 0.0
        if layout is not None:
            packed = PackedAttention(layout, memory_layout or layout, self.n_heads, *self.widths, causal, dropout)
            if packed.serves(x):
                return self.w_o(packed(*[y for _, y, _ in projected]))  # type: ignore[no-any-return]
        query, key, value = (head for one in projected for head in self._heads(*one))
        heads = attention(query, key, value, visible, causal=causal, dropout=dropout)
        heads = heads.transpose(1, 2).flatten(2)  # [B T H·d_v]
        return self.w_o(heads if layout is None else layout.pack(heads))  # type: ignore[no-any-return]

    def _heads(self, projections: Sequence[nn.Linear], y: Tensor, layout: Layout | None) -> list[Tensor]:
        """Each of the projections, which are side by side in y, as [B H T d]."""
        y = y if layout is None else layout.pad(y)
        parts = y.split([projection.out_features for projection in projections], dim=2)  # type: ignore[no-untyped-call]
        return [part.unflatten(2, (self.n_heads, -1)).transpose(1, 2) for part in parts]


class FeedForward(nn.Module):
    """Section 3.3, equation 2, at each position: max(0, x W_1 + b_1) W_2 + b_2, with dropout inside if set."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.w_1 = nn.Linear(settings.d_model, settings.d_ff)
        self.w_2 = nn.Linear(settings.d_ff, settings.d_model)
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
        self.activation = activations[settings.activation]  # Departure: gelu, swish
        self.dropout = Dropout(settings.feed_forward_dropout)

    def forward(self, x: Float[Tensor, "*tokens D"]) -> Float[Tensor, "*tokens D"]:
        return self.w_2(self.dropout(self.activation(self.w_1(x))))  # type: ignore[no-any-return]


def add_and_norm(
    layer: EncoderLayer | DecoderLayer, norm: nn.LayerNorm, x: Tensor, sublayer: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*tokens D"]:
    """Section 3.1 with the dropout of 5.4: the residual stream around one sublayer."""
    if layer.norm_first:  # Departure: with pre-norm the stream is normalized only at the end of the stack
        return x + layer.dropout(sublayer(norm(x)))  # type: ignore[no-any-return]
    return norm(x + layer.dropout(sublayer(x)))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Section 3.1: self-attention, feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(settings)
        self.self_attention_norm = nn.LayerNorm(settings.d_model, settings.norm_eps)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_norm = nn.LayerNorm(settings.d_model, settings.norm_eps)
        self.dropout = Dropout(settings.dropout)
        self.norm_first = settings.norm == "pre"

    def forward(
        self,
        x: Float[Tensor, "*tokens D"],
        visible: Bool[Tensor, "B 1 1 S"] | None = None,
        layout: Layout | None = None,
    ) -> Float[Tensor, "*tokens D"]:
        def attend(y: Tensor) -> Tensor:
            return self.self_attention(y, visible=visible, layout=layout)  # type: ignore[no-any-return]

        x = add_and_norm(self, self.self_attention_norm, x, attend)
        return add_and_norm(self, self.feed_forward_norm, x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Section 3.1: masked self-attention, cross-attention over the memory, feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(settings)
        self.self_attention_norm = nn.LayerNorm(settings.d_model, settings.norm_eps)
        self.cross_attention = MultiHeadAttention(settings)
        self.cross_attention_norm = nn.LayerNorm(settings.d_model, settings.norm_eps)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_norm = nn.LayerNorm(settings.d_model, settings.norm_eps)
        self.dropout = Dropout(settings.dropout)
        self.norm_first = settings.norm == "pre"

    def forward(
        self,
        x: Float[Tensor, "*tokens D"],
        memory: Float[Tensor, "*memory_tokens D"],
        memory_visible: Bool[Tensor, "B 1 1 S"] | None = None,
        layout: Layout | None = None,
        memory_layout: Layout | None = None,
    ) -> Float[Tensor, "*tokens D"]:
        def attend(y: Tensor) -> Tensor:
            return self.self_attention(y, causal=True, layout=layout)  # type: ignore[no-any-return]

        def attend_to_memory(y: Tensor) -> Tensor:
            return self.cross_attention(  # type: ignore[no-any-return]
                y, memory, memory_visible, layout=layout, memory_layout=memory_layout
            )

        x = add_and_norm(self, self.self_attention_norm, x, attend)
        x = add_and_norm(self, self.cross_attention_norm, x, attend_to_memory)
        return add_and_norm(self, self.feed_forward_norm, x, self.feed_forward)


def sinusoids(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "length d_model"]:
    """Section 3.5: PE(p, 2i) = sin(p / base^(2i/d_model)), PE(p, 2i+1) = cos of the same, 0 <= i < d_model / 2."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * rate
    return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1).float()  # [length d/2 2] -> [length d]


class Positions(nn.Module):
    """Section 3.5: position encodings, which are added to the embeddings."""

    table: Tensor

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.learned = settings.positions == "learned"
        self._shape = settings.d_model, settings.position_base
        if self.learned:
            self.table = nn.Parameter(torch.empty(settings.max_length, settings.d_model))
        else:
            length = min(settings.max_length, 1024)  # it grows when a longer sequence is given
            self.register_buffer("table", sinusoids(length, *self._shape), persistent=False)

    def forward(self, stop: int) -> Float[Tensor, "T D"]:
        """The first `stop` rows. Raises TextError past the last learned position; sinusoids are unlimited."""
        table = self.table
        if stop > len(table):
            if self.learned:
                raise TextError(
                    f"a sequence of {stop} tokens is longer than the {len(table)} learned positions",
                    hint="train with a larger model.max_length, or with sinusoidal positions",
                )
            table = self.table = sinusoids(2 * stop, *self._shape).to(table)
        return table[:stop]


class Transformer(nn.Module):
    """The encoder-decoder (figure 1). Weights are drawn from torch's global generator.

    `source_size` and `target_size` are the sizes of the vocabularies. `copied` are the target ids of all source
    tokens, for a copy mechanism; negative where there is none. Raises SettingsError when `tied_embeddings="all"` and
    the sizes differ.
    """

    def __init__(self, settings: ModelSettings, source_size: int, target_size: int, copied: Sequence[int] = ()) -> None:
        super().__init__()
        self.settings = settings
        tied = settings.tied_embeddings
        if tied == "all" and source_size != target_size:
            raise SettingsError(
                "one embedding for both sides needs one vocabulary",
                got=f"{source_size} source tokens and {target_size} target tokens",
                hint='set tokens.shared=true, or model.tied_embeddings="target"',
            )
        self.source_embedding = nn.Embedding(source_size, settings.d_model)
        self.target_embedding = self.source_embedding if tied == "all" else nn.Embedding(target_size, settings.d_model)
        self.output_projection = nn.Linear(settings.d_model, target_size, bias=settings.output_bias)  # Departure: bias
        if tied != "none":
            self.output_projection.weight = self.target_embedding.weight
        self.source_positions = Positions(settings)
        self.target_positions = Positions(settings) if settings.positions == "learned" else self.source_positions
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.n_decoder_layers))
        final_norm = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(settings.d_model, settings.norm_eps) if final_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(settings.d_model, settings.norm_eps) if final_norm else nn.Identity()
        self.dropout = Dropout(settings.dropout)
        self.copy_mechanism = CopyMechanism(settings, copied or [-1] * source_size) if settings.copy_mechanism else None
        self.recompute = False
        self._initialize()

    def _initialize(self) -> None:
        """Embeddings and learned positions from N(0, 1/d_model), Xavier elsewhere, biases zero."""
        for name, parameter in self.named_parameters():
            if "embedding" in name or "positions" in name:
                nn.init.normal_(parameter, std=self.settings.d_model**-0.5)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self, source: Int[Tensor, "B S"], source_visible: Bool[Tensor, "B S"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token at each position of `target` (teacher forcing)."""
        memory = self.encode(source, source_visible)
        hidden = self.decode(target, memory, source_visible)
        return self.project(hidden, self.copies(hidden, memory, source, source_visible))

    def encode(
        self,
        source: Int[Tensor, "*tokens"],
        source_visible: Bool[Tensor, "B S"] | None = None,
        layout: Layout | None = None,
    ) -> Float[Tensor, "*tokens D"]:
        """Return the memory of framed source ids: padded `[B S]`, or packed `[P]` together with their layout."""
        visible = None if source_visible is None else source_visible[:, None, None]  # for all heads and queries
        x = self._embed(source, self.source_embedding, self.source_positions, layout)
        x = self._run_layers(self.encoder, x, visible, layout)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def decode(
        self,
        target: Int[Tensor, "*tokens"],
        memory: Float[Tensor, "*memory_tokens D"],
        memory_visible: Bool[Tensor, "B S"] | None = None,
        layout: Layout | None = None,
        memory_layout: Layout | None = None,
    ) -> Float[Tensor, "*tokens D"]:
        """Return the hidden states of all target positions, padded or packed; position t sees positions up to t."""
        visible = None if memory_visible is None else memory_visible[:, None, None]
        x = self._embed(target, self.target_embedding, self.target_positions, layout)
        x = self._run_layers(self.decoder, x, memory, visible, layout, memory_layout)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def forward_packed(
        self,
        source: Int[Tensor, " source_tokens"],
        source_layout: Layout,
        target: Int[Tensor, " tokens"],
        target_layout: Layout,
    ) -> tuple[Float[Tensor, "tokens D"], Copies | None]:
        """Return the hidden state and the copies of each target token (teacher forcing), computed on packed tokens."""
        visible, source = source_layout.visible, source_layout.fill(source)
        memory = self.encode(source, visible, source_layout)
        hidden = self.decode(target_layout.fill(target), memory, visible, target_layout, source_layout)
        copies = self.copies(hidden, memory, source, visible, target_layout, source_layout)
        return hidden[: target_layout.n_tokens], copies

    def copies(self, hidden: Tensor, memory: Tensor, source: Tensor, *places: Any) -> Copies | None:
        """Return what `CopyMechanism` returns for these; None for a model without."""
        return None if self.copy_mechanism is None else self.copy_mechanism(hidden, memory, source, *places)

    def project(self, hidden: Float[Tensor, "*rows D"], copies: Copies | None = None) -> Float[Tensor, "*rows V"]:
        """Return the logits of hidden states."""
        logits = self.output_projection(hidden)
        return logits if copies is None else add_copies(logits, *copies)

    def _embed(
        self, ids: Int[Tensor, "*tokens"], embedding: nn.Embedding, positions: Positions, layout: Layout | None
    ) -> Float[Tensor, "*tokens D"]:
        """Section 3.4 and 3.5: embeddings · sqrt(d_model) + positions, dropout over the sum."""
        x = embedding(ids)
        if self.settings.scale_embeddings:
            x = x * math.sqrt(self.settings.d_model)
        table = positions(ids.shape[1]) if layout is None else positions(layout.length)[layout.positions]
        return self.dropout(x + table)  # type: ignore[no-any-return]

    def _run_layers(self, layers: nn.ModuleList, x: Tensor, *inputs: Any) -> Tensor:
        """Run the layers in order. With `recompute` the backward pass computes their activations again."""
        recompute = self.recompute and torch.is_grad_enabled()
        for layer in layers:
            x = checkpoint(layer, x, *inputs, use_reentrant=False) if recompute else layer(x, *inputs)
        return x
