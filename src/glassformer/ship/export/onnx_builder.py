"""A graph of ONNX operators under construction, and the file of weights that the graphs of a model share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import MissingExtraError
from glassformer.ship.storage.container import Arrays

OPSET = 23  # the newest that onnxruntime 1.23, the oldest accepted release, supports
ALIGNMENT = 64  # bytes: the width of a cache line
SHARED = {"output_projection.weight": "target_embedding.weight", "target_embedding.weight": "source_embedding.weight"}
"""Name of a matrix -> name of the matrix that it shares where the model file does not have it."""

Shape = Sequence[str | int]
Made = TypeVar("Made")


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

    def __init__(self, tensors: Arrays, file: BufferedWriter) -> None:
        self._tensors, self._file = tensors, file
        self._written: dict[str, Any] = {}

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
            location = {"location": Path(self._file.name).name, "offset": self._file.tell()}
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


@final
class Graph:
    """A graph under construction: operators, inputs, outputs, constants. A value is known by its name."""

    def __init__(self, name: str, weights: Weights) -> None:
        self._name, self.weights = name, weights
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._initializers: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output; return the name of its output."""
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(library().helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def once(self, key: str, make: Callable[[], Made]) -> Made:
        """Return what `make` returned for this key before, or call it."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        self._inputs.append(_declare(name, dtype, shape))
        return name

    def output(self, value: str, name: str, shape: Shape) -> str:
        """Make a value of float32 an output, and return its new name. No operator may have used it under the old one.

        It is renamed, because an operator that copied it would cost the time of a copy.
        """
        (node,) = (node for node in self._nodes if value in node.output)
        node.output[0] = name
        self._outputs.append(_declare(name, "float32", shape))
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """Return the name of a constant; equal ones are stored once, in the graph itself."""
        key = f"constant_{array.dtype}_{'x'.join(map(str, array.shape))}_{array.tobytes().hex()[:64]}"

        def make() -> str:
            name = f"constant_{len(self._initializers)}"
            self._initializers[name] = library().numpy_helper.from_array(array, name)
            return name

        return self.once(f"{key}_{hash(array.tobytes())}", make)

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def weight(self, name: str, change: Callable[[Any], NDArray[Any]] = np.asarray, suffix: str = "") -> str:
        """Return the name of a trained tensor, as `change` returns it; `suffix` names a second tensor made of it."""
        found = self.weights.find(name)
        stored = f"{found}.{suffix}" if suffix else found
        self._initializers[stored] = self.weights.store(stored, lambda: change(self.weights[found]))
        return stored

    def bias(self, name: str) -> list[str]:
        """Return the name of the bias of a linear layer in a list, which is empty where it has none."""
        return [self.weight(f"{name}.bias")] if f"{name}.bias" in self.weights else []

    def cast(self, x: str, dtype: str) -> str:
        return self.op("Cast", x, to=_data_type(dtype))

    def size(self, x: str, axis: int) -> str:
        """The length of an axis, as [1]."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def model(self) -> Any:
        """Return the graph as a model, which names the release of glassformer nowhere, so that it is reproducible."""
        helper = library().helper
        opsets = [helper.make_opsetid("", OPSET)]
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, list(self._initializers.values())
        )
        return helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
            producer_name="glassformer",
        )


def _data_type(dtype: str) -> int:
    return int(library().helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _declare(name: str, dtype: str, shape: Shape) -> Any:
    return library().helper.make_tensor_value_info(name, _data_type(dtype), list(shape))
