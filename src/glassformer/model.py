"""The Transformer of Vaswani et al. 2017, "Attention Is All You Need", in the paper's order.

    3.2.1  attention             softmax(Q Kᵀ / sqrt(d_k)) V
    3.2.2  MultiHeadAttention    every head reads all of its inputs through its own projections
    3.3    FeedForward           max(0, x W_1 + b_1) W_2 + b_2
    3.1    add_and_norm          LayerNorm(x + Dropout(Sublayer(x)))
    3.1    EncoderLayer, DecoderLayer
    3.5    sinusoids             position encodings
    3.4    Transformer           embeddings, both stacks, the output projection

Axes: B batch · S source positions · T target positions · N sentences · K hypotheses of a sentence · H heads ·
V vocabulary · D d_model. `memory` is the encoder's output. A mask is `*_visible`: True means "may attend"; sequences
are padded on the right. Of loss, optimiser, tokens, devices and files this module knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

from glassformer.errors import SettingsError, TextError
from glassformer.settings import ModelSettings

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
    """Scaled dot-product attention (section 3.2.1, equation 1).

    The scale is 1 / sqrt(d_k) of the head. `causal` lets position t see positions up to t. A query that sees nothing
    yields zeros, never NaN.
    """
    if query.device.type == "cpu" and query.dtype == torch.bfloat16:  # where the fused kernel is the slower one
        return _attention_by_steps(query, key, value, visible, causal, dropout)
    return F.scaled_dot_product_attention(query, key, value, visible, dropout, is_causal=causal)


def _attention_by_steps(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """The same, matrix product by matrix product."""
    if causal:
        visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(2, 3)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    output = drop(scores.softmax(dim=3), dropout) @ value
    return output if visible is None else output * visible.any(dim=-1, keepdim=True)


def drop(x: Float[Tensor, "*shape"], share: float) -> Float[Tensor, "*shape"]:
    """Dropout (section 5.4): zero that share of the numbers, and scale the others so that the mean stays.

    On a CPU, drawing is what costs, so one draw of 64 bits serves four numbers; the share is rounded to 1 / 65,536.
    """
    if share == 0 or x.device.type != "cpu":
        return F.dropout(x, share)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    dropped = min(65_535, round(share * 65_536))
    kept = (draws.view(torch.int16)[: x.numel()] >= dropped - 32_768).view(x.shape)
    return x * kept.to(x.dtype).mul_(65_536 / (65_536 - dropped))


class Dropout(nn.Module):
    """`drop` while training, nothing otherwise."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return drop(x, self.share) if self.training else x


class KeysValues(NamedTuple):
    """Projected keys `[B H S d_k]` and values `[B H S d_v]`."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, …, head_h) W_O, head_i = attention(x W_Q_i, memory W_K_i, memory W_V_i).

    `d_memory` is the width of what keys and values are made of; it may differ from d_model.
    """

    def __init__(self, settings: ModelSettings, d_memory: int | None = None) -> None:
        super().__init__()
        self.n_heads, self.dropout = settings.n_heads, settings.attention_dropout
        d_memory, bias = d_memory or settings.d_model, settings.attention_bias
        self.w_q = nn.Linear(settings.d_model, settings.n_heads * settings.d_k, bias=bias)
        self.w_k = nn.Linear(d_memory, settings.n_heads * settings.d_k, bias=bias)
        self.w_v = nn.Linear(d_memory, settings.n_heads * settings.d_v, bias=bias)
        self.w_o = nn.Linear(settings.n_heads * settings.d_v, settings.d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: KeysValues,
        visible: Bool[Tensor, "B #H #T S"] | None = None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        dropout = self.dropout if self.training else 0.0
        heads = attention(self._split(self.w_q(x)), *memory, visible, causal=causal, dropout=dropout)
        return self.w_o(heads.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # [B T H·d_v] -> [B T D]

    def keys_values(self, memory: Float[Tensor, "B S d_memory"]) -> KeysValues:
        return KeysValues(self._split(self.w_k(memory)), self._split(self.w_v(memory)))

    def _split(self, x: Float[Tensor, "B T H_d"]) -> Float[Tensor, "B H T d"]:
        return x.reshape(*x.shape[:2], self.n_heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """Section 3.3, equation 2, at each position by itself."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.w_1 = nn.Linear(settings.d_model, settings.d_ff)
        self.w_2 = nn.Linear(settings.d_ff, settings.d_model)
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
        self.activation = activations[settings.activation]  # gelu is a Departure
        self.dropout = Dropout(settings.feed_forward_dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        inner: Tensor = self.dropout(self.activation(self.w_1(x)))
        return self.w_2(inner)  # type: ignore[no-any-return]


def add_and_norm(
    layer: EncoderLayer | DecoderLayer, norm: nn.LayerNorm, x: Tensor, sublayer: Callable[[Tensor], Tensor]
) -> Float[Tensor, "B T D"]:
    """Section 3.1 with the dropout of 5.4: the residual stream around one sublayer."""
    if layer.norm_first:  # Departure: pre-norm leaves the stream itself unnormed until the end of the stack
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
        self, x: Float[Tensor, "B S D"], visible: Bool[Tensor, "B 1 1 S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        def attend(y: Tensor) -> Tensor:
            return self.self_attention(y, self.self_attention.keys_values(y), visible)  # type: ignore[no-any-return]

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
        x: Float[Tensor, "B T D"],
        memory: KeysValues,
        memory_visible: Bool[Tensor, "N 1 1 S"] | None = None,
        past: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "B T D"], KeysValues]:
        """`past` holds keys and values of earlier positions; then x is the one position after them.

        The memory is of N sentences; the B = N·K rows of x are K adjacent hypotheses of each. Returns the new stream
        and the keys and values of all positions so far.
        """
        present = past

        def attend(y: Tensor) -> Tensor:
            nonlocal present
            present = self.self_attention.keys_values(y)
            if past is not None:
                present = KeysValues(*(torch.cat(pair, dim=2) for pair in zip(past, present, strict=True)))
            return self.self_attention(y, present, causal=past is None)  # type: ignore[no-any-return]

        def attend_memory(y: Tensor) -> Tensor:
            by_sentence = y.reshape(len(memory.keys), -1, y.shape[-1])  # hypotheses stand side by side as queries
            return self.cross_attention(by_sentence, memory, memory_visible).reshape(y.shape)  # type: ignore[no-any-return]

        x = add_and_norm(self, self.self_attention_norm, x, attend)
        x = add_and_norm(self, self.cross_attention_norm, x, attend_memory)
        assert present is not None
        return add_and_norm(self, self.feed_forward_norm, x, self.feed_forward), present


def sinusoids(length: int, d_model: int, base: float = 10_000.0) -> Float[Tensor, "length d_model"]:
    """Section 3.5: PE(p, 2i) = sin(p / base^(2i/d_model)), PE(p, 2i+1) = cos of the same, 0 <= i < d_model / 2."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * rate
    return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1).float()  # [length d/2 2] -> [length d]


class Positions(nn.Module):
    """Section 3.5: what is added to an embedding to say where it stands."""

    table: Tensor

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings
        if settings.positions == "learned":
            self.table = nn.Parameter(torch.empty(settings.max_length, settings.d_model))
        else:
            length = min(settings.max_length, 1024)  # it grows when needed
            self.register_buffer("table", self._sinusoids(length), persistent=False)

    def _sinusoids(self, length: int) -> Tensor:
        return sinusoids(length, self.settings.d_model, self.settings.position_base)

    def forward(self, start: int, stop: int) -> Float[Tensor, "T D"]:
        """Rows start … stop-1. Raises TextError past the last learned position; sinusoids go on."""
        if stop > len(self.table):
            if self.settings.positions == "learned":
                raise TextError(
                    f"a sequence of {stop} tokens is longer than the {len(self.table)} learned positions",
                    hint="train with a larger model.max_length, or with sinusoidal positions",
                )
            self.table = self._sinusoids(2 * stop).to(self.table)
        return self.table[start:stop]


@dataclass(frozen=True)
class Cache:
    """What the decoder remembers between two steps, for K hypotheses of each of N sentences.

    `memory`: per layer, keys and values of the memory `[N H S d]`, computed once. `past`: per layer, those of the
    target so far `[N·K H t d]`, None before the first step. `length` is t.
    """

    memory: tuple[KeysValues, ...]
    memory_visible: Tensor
    past: tuple[KeysValues, ...] | None = None
    length: int = 0

    def select(self, rows: Int[Tensor, "N2 K2"]) -> Cache:
        """Keep the hypotheses `rows`, numbered 0 … N·K-1; each line of `rows` stays within one sentence."""
        past = self.past
        if past is not None:
            n_hypotheses = len(past[0].keys) // len(self.memory_visible)
            flat = rows.flatten()
            past = tuple(KeysValues(keys[flat], values[flat]) for keys, values in past)
            sentences = rows[:, 0] // n_hypotheses
        else:
            sentences = rows[:, 0]
        if len(sentences) == len(self.memory_visible):  # sentences leave, but never change their order
            return Cache(self.memory, self.memory_visible, past, self.length)
        memory = tuple(KeysValues(keys[sentences], values[sentences]) for keys, values in self.memory)
        return Cache(memory, self.memory_visible[sentences], past, self.length)


class Transformer(nn.Module):
    """The encoder-decoder (figure 1). Weights are drawn from torch's global generator.

    `source_size` and `target_size` are the vocabularies' sizes. Raises SettingsError when one matrix is to serve
    vocabularies of different sizes.
    """

    def __init__(self, settings: ModelSettings, source_size: int, target_size: int) -> None:
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
        self.output_projection = nn.Linear(settings.d_model, target_size, bias=False)
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
        self._initialise()

    def _initialise(self) -> None:
        """Embeddings and learned positions from N(0, 1/d_model), Xavier elsewhere, biases zero."""
        for name, parameter in self.named_parameters():
            if "embedding" in name or "positions" in name:
                nn.init.normal_(parameter, std=self.settings.d_model**-0.5)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_visible: Bool[Tensor, "B S"] | None,
        target: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each prefix of `target`, teacher-forced."""
        return self.project(self.decode(target, self.encode(source, source_visible), source_visible))

    def encode(
        self, source: Int[Tensor, "B S"], source_visible: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """The memory of framed source ids."""
        visible = None if source_visible is None else source_visible[:, None, None, :]
        x = self._embed(source, self.source_embedding, self.source_positions)
        for layer in self.encoder:
            x = layer(x, visible)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        memory_visible: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Hidden states of all target positions at once; position t sees positions up to t."""
        visible = None if memory_visible is None else memory_visible[:, None, None, :]
        x = self._embed(target, self.target_embedding, self.target_positions)
        for layer in cast("list[DecoderLayer]", self.decoder):
            x, _ = layer(x, layer.cross_attention.keys_values(memory), visible)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Hidden states as logits."""
        return self.output_projection(hidden)  # type: ignore[no-any-return]

    def start(self, memory: Float[Tensor, "N S D"], memory_visible: Bool[Tensor, "N S"]) -> Cache:
        """The cache before the first step: cross-attention's keys and values, computed once for each sentence."""
        layers = cast("list[DecoderLayer]", self.decoder)
        keys_values = tuple(layer.cross_attention.keys_values(memory) for layer in layers)
        return Cache(keys_values, memory_visible[:, None, None, :])

    def step(self, last: Int[Tensor, "N K"], cache: Cache) -> tuple[Float[Tensor, "N K V"], Cache]:
        """Feed the last token of K hypotheses of N sentences; logits of the next one, and the cache after it."""
        x = self._embed(last.reshape(-1, 1), self.target_embedding, self.target_positions, cache.length)
        present = []
        for i, layer in enumerate(self.decoder):
            x, so_far = layer(x, cache.memory[i], cache.memory_visible, cache.past[i] if cache.past else None)
            present.append(so_far)
        logits = self.project(self.decoder_norm(x)).reshape(*last.shape, -1)
        return logits, Cache(cache.memory, cache.memory_visible, tuple(present), cache.length + 1)

    def _embed(
        self, ids: Int[Tensor, "B T"], embedding: nn.Embedding, positions: Positions, start: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Section 3.4 and 3.5: embeddings · sqrt(d_model) + positions, dropout over the sum."""
        x = embedding(ids)
        if self.settings.scale_embeddings:
            x = x * math.sqrt(self.settings.d_model)
        return self.dropout(x + positions(start, start + ids.shape[1]))  # type: ignore[no-any-return]
