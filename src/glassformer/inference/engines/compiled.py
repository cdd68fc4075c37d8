"""The Transformer for search, compiled: `step.c`, in float32. Where it was not compiled, NumPy computes the same.

Axes: N sentences · K hypotheses of a sentence · R = N·K rows · S source positions · T target positions · H heads ·
L decoder layers · V vocabulary · D d_model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.inference.engines.numpy_cached import CACHE_STEPS, Layer, Norm, NumPyInference, Product, Weights
from glassformer.paper.search.log_probs import Extensions, LogProbs
from glassformer.runtime.compiled import Number, Pointer, load_library
from glassformer.settings import ModelSettings

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Array = NDArray[Any]

PANEL = 16  # columns of a weight matrix that `step.c` multiplies at once
ACTIVATIONS = "relu", "gelu", "swish"
ARGUMENTS = {
    "best": (Pointer, Pointer, *(Number,) * 5, Pointer, Pointer),
    "encode": (Pointer, Pointer, Pointer, Number, Pointer, Pointer, Pointer),
    "step": (Pointer, Pointer, Number, Pointer, Pointer, Number, Number, *(Pointer,) * 4),
}


@cache
def library() -> Any:
    """Return the functions of `step.c`; None where they are not compiled, or not for this processor."""
    return load_library("glassformer.inference.engines._compiled", ARGUMENTS)


class _ProductStruct(ctypes.Structure):
    _fields_ = (("panels", Pointer), ("bias", Pointer), ("k", Number), ("n", Number))


class _NormStruct(ctypes.Structure):
    _fields_ = (("gain", Pointer), ("bias", Pointer))


class _LayerStruct(ctypes.Structure):
    norms = "norm", "cross_norm", "feed_norm"
    products = "project", "w_o", "query", "cross_out", "w_1", "w_2"
    _fields_ = (*((name, _NormStruct) for name in norms), *((name, _ProductStruct) for name in products))


class _Model(ctypes.Structure):
    numbers = "d_model", "n_heads", "d_k", "d_v", "is_pre_norm", "activation"
    _fields_ = (
        *((name, Number) for name in (*numbers, "n_encoder_layers", "n_decoder_layers", "n_words", "wide")),
        ("eps", ctypes.c_double),
        *((name, Pointer) for name in ("source_embedding", "target_embedding", "encoder", "decoder")),
        *((name, _NormStruct) for name in ("encoder_norm", "decoder_norm")),
        *((name, _ProductStruct) for name in ("read_memory", "output")),
        ("copied_ids", Pointer),
    )


def _address(values: Array) -> int:
    """Return the address of contiguous writable values, in a fifth of the time of `values.ctypes.data`."""
    return ctypes.addressof(ctypes.c_byte.from_buffer(values.data))


def prepare_inference(settings: ModelSettings, weights: Weights) -> NumPyInference | Compiled:
    """Prepare a model for search: compiled in float32, in NumPy otherwise."""
    inference = NumPyInference(settings, weights)
    return Compiled(inference) if library() and inference.dtype == np.float32 else inference


class CompiledLogProbs(LogProbs):
    """Log-probabilities of a step, which does not keep them. `step.c` finds the best extensions in one pass.

    The rows of all hypotheses are one after another, at equal distances.
    """

    def _copy(self) -> Array:
        return self.values  # type: ignore[no-any-return]

    def best(self, sums: Float[Array, "N K"], n: int) -> Extensions:
        """Return `LogProbs.best`."""
        values, sums = self.values, np.ascontiguousarray(sums)
        n_sentences, n_hypotheses, n_words = values.shape
        n = min(n, n_hypotheses * n_words)
        scores = np.empty((2, n_sentences, n), dtype=np.float32)
        places = np.empty((2, n_sentences, n), dtype=np.int64)
        library().glassformer_best(
            *(_address(values[0, 0]), _address(sums), n_sentences, n_hypotheses, n_words),
            *(values.strides[1] // values.itemsize, n, _address(scores), _address(places)),
        )
        return Extensions(*scores, *places)


class Compiled:
    """A trained Transformer in float32, prepared for search, with the weights of `inference`."""

    def __init__(self, inference: NumPyInference) -> None:
        self.settings, self._positions = inference.settings, inference.positions
        self._kept: list[Any] = []  # what the addresses point to
        model = self.settings
        encoder, decoder = self._layers(inference.encoder), self._layers(inference.decoder)
        read_memory, output = self._product(inference.read_memory), self._product(inference.output)
        wide = max((max(layer.project.n, layer.w_1.n) for layer in (*encoder, *decoder)), default=0)
        self._n_words, self._output_width = inference.n_words, output.n
        self._memory_width = read_memory.n
        self._past_width = model.n_decoder_layers * model.n_heads * (model.d_k + model.d_v)
        self._row_width = 3 * model.d_model + PANEL + wide + model.n_heads * model.d_v
        self._model = _Model(
            **{name: getattr(model, name) for name in ("d_model", "n_heads", "d_k", "d_v")},
            is_pre_norm=model.norm == "pre",
            activation=ACTIVATIONS.index(model.activation),
            n_encoder_layers=len(encoder),
            n_decoder_layers=len(decoder),
            n_words=self._n_words,
            wide=wide,
            eps=model.norm_eps,
            source_embedding=self._keep(inference.embeddings["source"]),
            target_embedding=self._keep(inference.embeddings["target"]),
            encoder=ctypes.addressof(encoder),
            decoder=ctypes.addressof(decoder),
            encoder_norm=self._norm(inference.encoder_norm),
            decoder_norm=self._norm(inference.decoder_norm),
            read_memory=read_memory,
            output=output,
            copied_ids=self._keep(inference.copied_ids) if model.copy_mechanism else None,
        )
        self._at = ctypes.addressof(self._model)

    def _keep(self, values: Array) -> int:
        self._kept.append(values := np.ascontiguousarray(values, dtype=np.float32))
        return values.ctypes.data

    def _product(self, product: Product | None) -> _ProductStruct:
        if product is None:
            return _ProductStruct()
        k, n = product.weight.shape
        padding = [(0, -n % PANEL)]
        panels = np.pad(product.weight, [(0, 0), *padding]).reshape(k, -1, PANEL).transpose(1, 0, 2)
        bias = None if product.bias is None else self._keep(np.pad(product.bias, padding))
        return _ProductStruct(self._keep(panels), bias, k, n + padding[0][1])

    def _norm(self, norm: Norm | None) -> _NormStruct:
        if norm is None or norm.centered:
            return _NormStruct()
        return _NormStruct(self._keep(norm.gain), self._keep(norm.bias))

    def _layers(self, layers: Sequence[Layer]) -> Any:
        array = (_LayerStruct * len(layers))()
        for to, layer in zip(array, layers, strict=True):
            for name in _LayerStruct.norms:
                setattr(to, name, self._norm(getattr(layer, name, None)))
            for name in _LayerStruct.products:
                setattr(to, name, self._product(getattr(layer, name, None)))
        self._kept.append(array)
        return array

    def start(self, sources: Sequence[Sequence[int]], _length: int = 0) -> CompiledCache:
        """Encode framed sources; return the cache before the first step."""
        lengths = np.array([len(source) for source in sources], dtype=np.int64)
        ids = np.array([token for source in sources for token in source], dtype=np.int64)
        cache = CompiledCache(lengths, self._memory_width)
        self._encode(ids, lengths.cumsum(), self._positions["source"].until(cache.longest), cache)
        return cache

    def encode(self, ids: Int[Array, "N S"], visible: Bool[Array, "N S"]) -> CompiledCache:
        """Encode sources; attention sees their visible positions. Return the cache before the first step."""
        lengths = visible.sum(axis=1)
        cache, positions = CompiledCache(lengths, self._memory_width), self._positions["source"].until(ids.shape[1])
        for row, seen, first in zip(ids, visible, lengths.cumsum() - lengths, strict=True):
            places = np.flatnonzero(seen)
            self._encode(row[places], np.array([len(places)]), positions[places], cache, first)
        return cache

    def _encode(
        self,
        ids: Int[Array, "I"],
        ends: Int[Array, "N"],
        positions: Float[Array, "S D"],
        cache: CompiledCache,
        first: int = 0,
    ) -> None:
        library().glassformer_encode(
            *(self._at, _address(ids), _address(ends), len(ends), positions.ctypes.data),
            *(_address(cache.memory[first:]), cache.room(len(ids) * self._row_width, cache.longest)),
        )

    def step(self, last: Int[Array, "N K"], cache: CompiledCache) -> Float[Array, "N K V"]:
        """Feed the last token of every hypothesis and return the log-probabilities of the next one."""
        log_probs = np.empty((*last.shape, self._output_width), dtype=np.float32)
        cache.extend(self._past_width)
        last, positions = np.ascontiguousarray(last), self._positions["target"].until(cache.length)
        library().glassformer_step(
            *(self._at, _address(last), last.size, positions.ctypes.data + (cache.length - 1) * positions.strides[0]),
            *(cache.past_at, cache.past.shape[1], cache.length, cache.sources_at, cache.lengths_at),
            *(_address(log_probs), cache.room(last.size * self._row_width, max(cache.longest, cache.length))),
        )
        return log_probs[:, :, : self._n_words]


class CompiledCache:
    """The keys and values of R hypotheses. It is changed in place.

    `memory` has what is read of all sources, one after another. `sources` has the address of the memory of each row's
    source, `past` the addresses of the keys and values of each row's target positions; `length` positions are written.
    So a hypothesis is kept by a copy of addresses.
    """

    def __init__(self, lengths: Int[Array, "N"], width: int) -> None:
        self.memory = np.empty((lengths.sum(), width), dtype=np.float32)
        self.length, self.longest, self._kept = 0, int(lengths.max()), list[Array]()
        self._free: Int[Array, "R T"] = np.empty((0, CACHE_STEPS), dtype=np.int64)
        self._numbers: Array = np.empty(0, dtype=np.float32)
        sources = _address(self.memory) + (lengths.cumsum() - lengths) * self.memory.strides[0]
        self._hold(np.empty((len(lengths), CACHE_STEPS), dtype=np.int64), lengths, sources)

    def _hold(self, past: Int[Array, "R T"], lengths: Int[Array, "R"], sources: Int[Array, "R"]) -> None:
        self.past, self.lengths, self.sources = past, lengths, sources
        self.past_at, self.lengths_at, self.sources_at = map(_address, (past, lengths, sources))

    def room(self, n_numbers: int, n_scores: int) -> int:
        """Return the address of memory for the numbers of all rows and the scores of one row."""
        needed = n_numbers + n_scores + PANEL
        if len(self._numbers) < needed:
            self._numbers = np.empty(needed + CACHE_STEPS, dtype=np.float32)
            self._numbers_at = _address(self._numbers)
        return self._numbers_at

    def extend(self, width: int) -> None:
        """Add a position to every row, to be written."""
        n_rows, column = len(self.past), self.length % CACHE_STEPS
        if not column or n_rows > len(self._free):
            block = np.empty((n_rows, CACHE_STEPS, width), dtype=np.float32)
            self._kept.append(block)
            n_free = n_rows * CACHE_STEPS
            self._free = (_address(block) + np.arange(n_free) * block.strides[1]).reshape(n_rows, CACHE_STEPS)
        if self.length == self.past.shape[1]:
            self._hold(np.pad(self.past, [(0, 0), (0, CACHE_STEPS)]), self.lengths, self.sources)
        self.past[:, self.length] = self._free[:n_rows, column]
        self.length += 1

    def select(self, rows: Int[Array, "N2 K2"]) -> None:
        """Keep the hypotheses `rows`, numbered 0 … R-1."""
        flat = rows.ravel()
        self._hold(self.past[flat], self.lengths[flat], self.sources[flat])
