"""The Transformer of Vaswani et al. 2017, "Attention Is All You Need", in the paper's order.

    3.2.1  attention             softmax(Q Kᵀ / sqrt(d_k)) V
    3.2.2  MultiHeadAttention    every head reads all of its inputs through its own projections
    3.2.3  Padded, padded        who sees whom: source tokens see the source, target tokens see no later ones
    3.3    FeedForward           max(0, x W_1 + b_1) W_2 + b_2
    3.1    add_and_norm          LayerNorm(x + Dropout(Sublayer(x)))
    3.1    EncoderLayer, DecoderLayer
    3.5    sinusoids             position encodings
    3.4    Transformer           embeddings, both stacks, the output projection

Axes: B batch · S source positions · T target positions · H heads · Hd heads next to each other · V vocabulary ·
D d_model. `memory` is the encoder's output. A mask is `visible`: True means "may attend"; sequences are padded on the
right.

Only attention reads other positions; everything else computes one token at a time. So layers take tokens in any order,
`[*tokens D]`, and an object that knows who sees whom (`Visibility`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

from glassformer.errors import SettingsError, TextError
from glassformer.paper.copying import Copies, CopyMechanism, add_copies
from glassformer.settings import ModelSettings

if TYPE_CHECKING:  # shapes are checked in the tests; at run time they cost nothing
    from jaxtyping import Bool, Float, Int


def attention(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H S d_k"],
    value: Float[Tensor, "B H S d_v"],
    visible: Bool[Tensor, "#B #H #T S"],
    dropout: Callable[[Tensor], Tensor] = nn.Identity(),  # noqa: B008  (it has no state)
) -> Float[Tensor, "B H T d_v"]:
    """Scaled dot-product attention (section 3.2.1, equation 1): softmax(Q Kᵀ / sqrt(d_k)) V.

    A query attends to the keys that are visible to it. A query without a visible key gives zeros, never NaN.
    """
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])  # [B H T S]
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=3).masked_fill(~visible, 0.0)  # all 0 where no key is visible
    return dropout(weights) @ value


class Visibility(Protocol):
    """Who sees whom: the tokens that attend, and the tokens that they may attend to."""

    @property
    def length(self) -> int:
        """The positions of the longest of the sequences that are seen."""
        ...

    def attend(self, query: Tensor, key: Tensor, value: Tensor, n_heads: int, dropout: nn.Dropout) -> Tensor:
        """Compute `attention` of all heads, which are side by side in the last axis of all arguments and the result."""
        ...

    def rows(self, table: Float[Tensor, "length D"]) -> Float[Tensor, "*tokens D"]:
        """Return the row of a table, of positions from 0, for each token that attends."""
        ...


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, …, head_h) W_O, head_i = attention(x W_Q_i, memory W_K_i, memory W_V_i)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        bias = settings.attention_bias  # Departure
        self.n_heads = settings.n_heads
        self.w_q = nn.Linear(settings.d_model, settings.n_heads * settings.d_k, bias=bias)
        self.w_k = nn.Linear(settings.d_model, settings.n_heads * settings.d_k, bias=bias)
        self.w_v = nn.Linear(settings.d_model, settings.n_heads * settings.d_v, bias=bias)
        self.w_o = nn.Linear(settings.n_heads * settings.d_v, settings.d_model, bias=bias)
        self.dropout = nn.Dropout(settings.attention_dropout)

    def forward(
        self, x: Float[Tensor, "*tokens D"], memory: Float[Tensor, "*memory_tokens D"], seen: Visibility
    ) -> Float[Tensor, "*tokens D"]:
        """Compute attention of x to a memory; in self-attention that is x."""
        query, key, value = self.w_q(x), self.w_k(memory), self.w_v(memory)
        return self.w_o(seen.attend(query, key, value, self.n_heads, self.dropout))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Padded:
    """Who sees whom among padded sequences: `visible` is the mask of attention, the same for all heads."""

    visible: Bool[Tensor, "#B #T S"]

    @property
    def length(self) -> int:
        return self.visible.shape[2]

    def attend(
        self,
        query: Float[Tensor, "B T Hd_k"],
        key: Float[Tensor, "B S Hd_k"],
        value: Float[Tensor, "B S Hd_v"],
        n_heads: int,
        dropout: nn.Dropout,
    ) -> Float[Tensor, "B T Hd_v"]:
        q, k, v = (split_heads(x, n_heads) for x in (query, key, value))
        return attention(q, k, v, self.visible[:, None], dropout).transpose(1, 2).flatten(2)  # [B H T d] -> [B T H·d]

    def rows(self, table: Float[Tensor, "length D"]) -> Float[Tensor, "length D"]:
        return table


def split_heads(x: Float[Tensor, "B T Hd"], n_heads: int) -> Float[Tensor, "B H T d"]:
    """Return the heads, which are next to each other in the last axis."""
    return x.unflatten(2, (n_heads, -1)).transpose(1, 2)  # type: ignore[no-any-return, no-untyped-call]


class Visibilities(NamedTuple):
    """Who sees whom in all attention of the model: in the encoder, in the decoder, and from decoder to encoder."""

    source: Visibility
    target: Visibility
    cross: Visibility


def padded(source_visible: Bool[Tensor, "B S"], target_length: int) -> Visibilities:
    """Return who sees whom among padded sequences (section 3.2.3).

    All see the visible tokens of the source; a target position sees itself and earlier positions. Padding on the right
    of the target needs no mask: no token sees it.
    """
    source = Padded(source_visible[:, None])
    causal = source_visible.new_ones(1, target_length, target_length).tril()
    return Visibilities(source, Padded(causal), source)


class FeedForward(nn.Module):
    """Section 3.3, equation 2, at each position: max(0, x W_1 + b_1) W_2 + b_2, with dropout inside if set."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.w_1 = nn.Linear(settings.d_model, settings.d_ff)
        self.w_2 = nn.Linear(settings.d_ff, settings.d_model)
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
        self.activation = activations[settings.activation]  # Departure: gelu, swish
        self.dropout = nn.Dropout(settings.feed_forward_dropout)

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
        self.dropout = nn.Dropout(settings.dropout)
        self.norm_first = settings.norm == "pre"

    def forward(self, x: Float[Tensor, "*tokens D"], seen: Visibility) -> Float[Tensor, "*tokens D"]:
        x = add_and_norm(self, self.self_attention_norm, x, lambda y: self.self_attention(y, y, seen))
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
        self.dropout = nn.Dropout(settings.dropout)
        self.norm_first = settings.norm == "pre"

    def forward(
        self,
        x: Float[Tensor, "*tokens D"],
        memory: Float[Tensor, "*memory_tokens D"],
        seen: Visibility,
        cross: Visibility,
    ) -> Float[Tensor, "*tokens D"]:
        x = add_and_norm(self, self.self_attention_norm, x, lambda y: self.self_attention(y, y, seen))
        x = add_and_norm(self, self.cross_attention_norm, x, lambda y: self.cross_attention(y, memory, cross))
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
        self.dropout = nn.Dropout(settings.dropout)
        self.copy_mechanism = CopyMechanism(settings, copied or [-1] * source_size) if settings.copy_mechanism else None
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
        self, source: Int[Tensor, "*source_tokens"], target: Int[Tensor, "*tokens"], seen: Visibilities | None = None
    ) -> Float[Tensor, "*tokens V"]:
        """Return the logits of the next token at each position of `target` (teacher forcing).

        Without `seen` no token of the source is padding.
        """
        seen = seen or padded(torch.ones_like(source, dtype=torch.bool), target.shape[1])
        return self.project(*self.hidden_states(source, target, seen))

    def hidden_states(
        self, source: Int[Tensor, "*source_tokens"], target: Int[Tensor, "*tokens"], seen: Visibilities
    ) -> tuple[Float[Tensor, "*tokens D"], Copies | None]:
        """Return the decoder's hidden state at each position of `target`, and what its copy mechanism returns."""
        memory = self.encode(source, seen.source)
        hidden = self.decode(target, memory, seen.target, seen.cross)
        copies = self.copy_mechanism(hidden, memory, source, seen.cross) if self.copy_mechanism else None
        return hidden, copies

    def encode(self, source: Int[Tensor, "*tokens"], seen: Visibility) -> Float[Tensor, "*tokens D"]:
        """Return the memory of framed source ids."""
        x = self._embed(source, self.source_embedding, self.source_positions, seen)
        for layer in self.encoder:
            x = layer(x, seen)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def decode(
        self,
        target: Int[Tensor, "*tokens"],
        memory: Float[Tensor, "*memory_tokens D"],
        seen: Visibility,
        cross: Visibility,
    ) -> Float[Tensor, "*tokens D"]:
        """Return the hidden state of each target position."""
        x = self._embed(target, self.target_embedding, self.target_positions, seen)
        for layer in self.decoder:
            x = layer(x, memory, seen, cross)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def project(self, hidden: Float[Tensor, "*rows D"], copies: Copies | None = None) -> Float[Tensor, "*rows V"]:
        """Return the logits of hidden states."""
        logits = self.output_projection(hidden)
        return logits if copies is None else add_copies(logits, *copies)

    def _embed(
        self, ids: Int[Tensor, "*tokens"], embedding: nn.Embedding, positions: Positions, seen: Visibility
    ) -> Float[Tensor, "*tokens D"]:
        """Section 3.4 and 3.5: embeddings · sqrt(d_model) + positions, dropout over the sum."""
        x = embedding(ids)
        if self.settings.scale_embeddings:
            x = x * math.sqrt(self.settings.d_model)
        return self.dropout(x + seen.rows(positions(seen.length)))  # type: ignore[no-any-return]
