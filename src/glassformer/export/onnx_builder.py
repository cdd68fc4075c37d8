"""A graph of ONNX operators under construction, the file of weights that the graphs of a model share, and the products
with its matrices, in one of three precisions:

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

from collections.abc import Callable, Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Any, final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from glassformer.storage.container import Arrays

OPSET = 23  # the newest that onnxruntime 1.23, the oldest accepted release, supports
ALIGNMENT = 64  # bytes: the width of a cache line
SHARED = {"output_projection.weight": "target_embedding.weight", "target_embedding.weight": "source_embedding.weight"}
"""Name of a matrix -> name of the matrix that it shares where the model file does not have it."""
ZERO = np.uint8(128)  # of integers

Shape = Sequence[str | int]


@final
class Weights:
    """The tensors of a model, written to `file` when a graph first uses them; their names there have the prefix."""

    def __init__(self, tensors: Arrays, file: BufferedWriter, prefix: str) -> None:
        self.tensors, self._file, self._prefix = tensors, file, prefix
        self._written: dict[str, Any] = {}

    def find(self, name: str) -> str:
        """Return the name under which the model file has a tensor."""
        while name not in self.tensors and name in SHARED:
            name = SHARED[name]
        return name

    def store(self, name: str, make: Callable[[], NDArray[Any]]) -> Any:
        """Return a reference to the tensor `name` in the file; `make` is called where it is not there yet."""
        if name not in self._written:
            array = np.ascontiguousarray(make())
            self._file.write(bytes(-self._file.tell() % ALIGNMENT))
            offset = self._file.tell()
            self._file.write(array.tobytes())
            tensor = onnx.TensorProto(name=self._prefix + name, data_type=_data_type(array.dtype), dims=array.shape)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            location = {"location": Path(self._file.name).name, "offset": offset, "length": array.nbytes}
            for key, value in location.items():
                tensor.external_data.add(key=key, value=str(value))
            self._written[name] = tensor
        return self._written[name]


@final
class Graph:
    """A graph under construction: operators, inputs, outputs, constants. A value is known by its name.

    `weights` belong to the model whose operators are added. What is computed from the same values in the same way is
    computed once.
    """

    weights: Weights

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._initializers: dict[str, Any] = {}
        self._known: dict[Any, str] = {}  # operator or constant -> its name

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add an operator with one output; return the name of its output, which is `output` or one that is made."""
        key = (kind, inputs, output, repr(attributes))
        if key not in self._known:
            name = f"{kind}_{len(self._nodes)}"
            self._known[key] = output or name
            self._nodes.append(helper.make_node(kind, list(inputs), [output or name], name=name, **attributes))
        return self._known[key]

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        self._inputs.append(_declare(name, dtype, shape))
        return name

    def output(self, name: str, shape: Shape) -> None:
        """Make the value of float32 with this name an output."""
        self._outputs.append(_declare(name, "float32", shape))

    def constant(self, array: NDArray[Any]) -> str:
        """Return the name of a constant, which is stored in the graph itself."""
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._known:
            name = self._known[key] = f"constant_{len(self._initializers)}"
            self._initializers[name] = onnx.numpy_helper.from_array(array, name)
        return self._known[key]

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def weight(self, name: str, change: Callable[[Any], NDArray[Any]] = np.asarray, suffix: str = "") -> str:
        """Return the name of a trained tensor, as `change` returns it; `suffix` names a second tensor made of it."""
        weights, in_file = self.weights, self.weights.find(name)
        tensor = weights.store(f"{in_file}.{suffix}" if suffix else in_file, lambda: change(weights.tensors[in_file]))
        stored: str = tensor.name
        self._initializers[stored] = tensor
        return stored

    def bias(self, name: str) -> list[str]:
        """Return the name of the bias of a linear layer in a list, which is empty where it has none."""
        return [self.weight(f"{name}.bias")] if f"{name}.bias" in self.weights.tensors else []

    def cast(self, x: str, dtype: str) -> str:
        return self.op("Cast", x, to=_data_type(dtype))

    def size(self, x: str, axis: int) -> str:
        """The length of an axis, as [1]."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def model(self) -> Any:
        """Return the graph as a model, which names the release of glassformer nowhere, so that it is reproducible."""
        opsets = [helper.make_opsetid("", OPSET)]
        initializers = list(self._initializers.values())
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, initializers)
        version = helper.find_min_ir_version_for(opsets)
        return helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="glassformer")


def _data_type(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _declare(name: str, dtype: str, shape: Shape) -> Any:
    return helper.make_tensor_value_info(name, _data_type(dtype), list(shape))


# Products with matrices


def linear(graph: Graph, precision: str, x: str, name: str) -> str:
    """X Wᵀ + b, without b where the layer has none. [tokens in] -> [tokens out]."""
    if precision == "int8":
        return _int8_linear(graph, x, name)
    matrix = _to_float32(graph, precision, _float_matrix(graph, precision, name))
    return graph.op("Gemm", x, matrix, *graph.bias(name), transB=1)


def look_up(graph: Graph, precision: str, ids: str, name: str) -> str:
    """Rows of a matrix. [N T] -> [N T D]."""
    if precision == "int8":
        return _int8_look_up(graph, ids, name)
    return _to_float32(graph, precision, graph.op("Gather", _float_matrix(graph, precision, name), ids))


def _float_matrix(graph: Graph, precision: str, name: str) -> str:
    return graph.weight(f"{name}.weight", lambda matrix: matrix.astype(precision))


def _to_float32(graph: Graph, precision: str, x: str) -> str:
    return x if precision == "float32" else graph.cast(x, "float32")


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


def _int8(matrix: NDArray[np.float32]) -> NDArray[np.uint8]:
    integers: NDArray[np.uint8] = (np.rint(matrix / _scales(matrix)[:, None]) + ZERO).astype(np.uint8)
    return integers


def _scales(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scale of each row: its largest absolute value is 127 from zero."""
    peaks: NDArray[np.float32] = np.maximum(np.abs(matrix).max(axis=1), np.float32(1e-30)) / np.float32(127)
    return peaks
