"""The weights of an ONNX export: one file for both graphs, in one of three precisions.

    float32   as trained
    float16   matrices are stored in float16; they are converted to float32 when a session is created
    int8      matrices are stored in eight bits with one scale for each row; each product has integers only. Inputs
              are quantized with one scale for each token, so that no token depends on the others of its batch

Eight bits are unsigned, with 128 for zero: onnxruntime is 25 to 60 times slower with signed inputs, and with unsigned
inputs and signed weights its sums saturate on processors without the instructions of VNNI.

Norms, biases and positions stay float32. A shared matrix is stored once, under its first name, in the order of the
model file: rows are outputs, y = x Wᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BufferedWriter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import MissingExtraError
from glassformer.modelfile import Arrays

if TYPE_CHECKING:
    from glassformer.export.onnx_graph import Graph

ZERO = np.uint8(128)
ALIGNMENT = 64  # bytes: the width of a cache line
SHARED = {"output_projection.weight": "target_embedding.weight", "target_embedding.weight": "source_embedding.weight"}
"""Name of a matrix -> name of the matrix that it shares where the model file does not have it."""


def library() -> Any:
    """Return the `onnx` library. Raises MissingExtraError when it is not installed."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("--to onnx", package="onnx", extra="onnx") from None
    return onnx


@final
class Weights:
    """The tensors of a model, written to `file` when a graph first uses them."""

    def __init__(self, tensors: Arrays, precision: str, file: BufferedWriter) -> None:
        self._tensors, self._file = tensors, file
        self._written: dict[str, Any] = {}
        self.linear, self.look_up = PRECISIONS[precision]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def find(self, name: str) -> str:
        """Return the name under which the model file has a tensor."""
        while name not in self._tensors and name in SHARED:
            name = SHARED[name]
        return name

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        array: NDArray[np.float32] = self._tensors[self.find(name)]
        return array

    def store(self, name: str, make: Callable[[], NDArray[Any]]) -> Any:
        """Return a reference to the tensor `name` in the file; `make` is called where it is not there yet."""
        if name not in self._written:
            array = np.ascontiguousarray(make())
            self._file.write(bytes(-self._file.tell() % ALIGNMENT))
            location = {"location": self._file.name.rpartition("/")[2], "offset": self._file.tell()}
            self._file.write(array.tobytes())
            self._written[name] = _reference(name, array, location | {"length": array.nbytes})
        return self._written[name]


def _reference(name: str, array: NDArray[Any], location: dict[str, Any]) -> Any:
    onnx = library()
    tensor = onnx.TensorProto(name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in location.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _float32_linear(graph: Graph, x: str, name: str) -> str:
    return graph.op("Gemm", x, graph.weight(f"{name}.weight"), *graph.bias(name), transB=1)


def _float32_look_up(graph: Graph, ids: str, name: str) -> str:
    return graph.op("Gather", graph.weight(f"{name}.weight"), ids)


def _float16_linear(graph: Graph, x: str, name: str) -> str:
    matrix = graph.cast(graph.weight(f"{name}.weight", _float16), "float32")
    return graph.op("Gemm", x, matrix, *graph.bias(name), transB=1)


def _float16_look_up(graph: Graph, ids: str, name: str) -> str:
    return graph.cast(graph.op("Gather", graph.weight(f"{name}.weight", _float16), ids), "float32")


def _int8_linear(graph: Graph, x: str, name: str) -> str:
    """y = scale of the token · scale of the output · (integers of x times integers of W)."""
    integers, scale = graph.once(f"int8 of {x}", lambda: _quantized_tokens(graph, x))
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


def _float16(matrix: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round to float16, at most to its largest number."""
    limit = np.finfo(np.float16).max
    return np.clip(matrix, -limit, limit).astype(np.float16)


def _int8(matrix: NDArray[np.float32]) -> NDArray[np.uint8]:
    integers: NDArray[np.uint8] = (np.rint(matrix / _scales(matrix)[:, None]) + ZERO).astype(np.uint8)
    return integers


def _scales(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scale of each row: its largest absolute value is 127 from zero."""
    peaks: NDArray[np.float32] = np.maximum(np.abs(matrix).max(axis=1), np.float32(1e-30)) / np.float32(127)
    return peaks
