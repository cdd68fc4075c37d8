"""The products of an ONNX export with its matrices, in one of three precisions.

    float32   as trained
    float16   matrices are stored in float16; they are converted to float32 when a session is created
    int8      matrices are stored in eight bits with one scale for each row; each product has integers only. Inputs
              are quantized with one scale for each token, so that no token depends on the others of its batch

Eight bits are unsigned, with 128 for zero. With signed inputs onnxruntime was measured to be 6 to 50 times slower
(AVX-512). With unsigned inputs and signed weights, its documentation says, sums saturate on processors without VNNI.

Norms, biases and positions stay float32. A shared matrix is stored once, under its first name, in the order of the
model file: rows are outputs, y = x Wᵀ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glassformer.export.onnx_builder import Graph

ZERO = np.uint8(128)


def _float32_linear(graph: Graph, x: str, name: str) -> str:
    return graph.op("Gemm", x, graph.weight(f"{name}.weight"), *graph.bias(name), transB=1)


def _float32_look_up(graph: Graph, ids: str, name: str) -> str:
    return graph.op("Gather", graph.weight(f"{name}.weight"), ids)


def _float16_linear(graph: Graph, x: str, name: str) -> str:
    return graph.op("Gemm", x, graph.cast(_float16_matrix(graph, name), "float32"), *graph.bias(name), transB=1)


def _float16_look_up(graph: Graph, ids: str, name: str) -> str:
    return graph.cast(graph.op("Gather", _float16_matrix(graph, name), ids), "float32")


def _float16_matrix(graph: Graph, name: str) -> str:
    return graph.weight(f"{name}.weight", lambda matrix: matrix.astype(np.float16))


def _int8_linear(graph: Graph, x: str, name: str) -> str:
    """y = scale of the token · scale of the output · (integers of x times integers of W)."""
    integers, scale = _quantized_tokens(graph, x)
    matrix = graph.op("Transpose", graph.weight(f"{name}.weight", _int8), perm=[1, 0])
    zero = graph.constant(np.array(ZERO))
    product = graph.cast(graph.op("MatMulInteger", integers, matrix, zero, zero), "float32")
    y = graph.op("Mul", graph.op("Mul", product, scale), graph.weight(f"{name}.weight", _scales, "scales"))
    return graph.op("Add", y, *graph.bias(name)) if graph.bias(name) else y


def _quantized_tokens(graph: Graph, x: str) -> tuple[str, str]:
    """Return integers [P D] and the scale [P 1] of each token: its largest absolute value is 127 from zero."""
    peak = graph.op("ReduceMax", graph.op("Abs", x), graph.integers(1), keepdims=1)
    scale = graph.op("Mul", graph.op("Max", peak, graph.number(1e-30)), graph.number(1 / 127))
    zero = graph.constant(np.array(ZERO))
    return graph.op("QuantizeLinear", graph.op("Div", x, scale), graph.number(1.0), zero), scale


def _int8_look_up(graph: Graph, ids: str, name: str) -> str:
    rows = graph.cast(graph.op("Gather", graph.weight(f"{name}.weight", _int8), ids), "float32")
    rows = graph.op("Sub", rows, graph.number(float(ZERO)))
    scales = graph.op("Gather", graph.weight(f"{name}.weight", _scales, "scales"), ids)
    return graph.op("Mul", rows, graph.op("Unsqueeze", scales, graph.integers(-1)))


PRECISIONS: dict[str, tuple[Callable[[Graph, str, str], str], Callable[[Graph, str, str], str]]] = {
    "float32": (_float32_linear, _float32_look_up),
    "int8": (_int8_linear, _int8_look_up),
    "float16": (_float16_linear, _float16_look_up),
}
"""Precision -> how a matrix is multiplied with, and how its rows are looked up."""


def _int8(matrix: NDArray[np.float32]) -> NDArray[np.uint8]:
    integers: NDArray[np.uint8] = (np.rint(matrix / _scales(matrix)[:, None]) + ZERO).astype(np.uint8)
    return integers


def _scales(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scale of each row: its largest absolute value is 127 from zero."""
    peaks: NDArray[np.float32] = np.maximum(np.abs(matrix).max(axis=1), np.float32(1e-30)) / np.float32(127)
    return peaks
