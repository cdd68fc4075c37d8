"""The format of ONNX, for onnxruntime in Python, Node, browsers, C++ and on phones. Every model can be exported.

A folder with `encoder.onnx`, `decoder.onnx`, `weights.bin` of both, `glassformer.json` and `run.py`, which needs
numpy and onnxruntime. `tokenizer.json` is there for other programs, where the `tokenizers` library can represent the
tokenizer.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from glassformer.errors import MissingExtraError
from glassformer.export.programs import Format, script_answers, write_programs
from glassformer.export.tokenizer_json import tokenizer_files
from glassformer.storage.modelfile import ModelFile

WEIGHTS_FILE = "weights.bin"


def check_supported(_: ModelFile) -> None:
    """Raise MissingExtraError without the libraries."""
    for package, feature in (("onnx", "--to onnx"), ("onnxruntime", "the check of --to onnx")):
        if find_spec(package) is None:
            raise MissingExtraError(feature, package=package, extra="onnx")


def write(model_file: ModelFile, folder: Path, precision: str) -> None:
    """Write the folder."""
    write_graphs(model_file, folder, precision)
    for name, content in tokenizer_files(model_file).items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8", newline="\n")
    write_programs(model_file, folder, "onnx_engine.py")


def write_graphs(model_file: ModelFile, folder: Path, precision: str) -> None:
    """Write both graphs and their weights, and check the graphs with the library."""
    import onnx

    from glassformer.export.onnx_builder import Weights
    from glassformer.export.onnx_graph import decoder, encoder

    settings = model_file.settings.model
    with (folder / WEIGHTS_FILE).open("wb") as file:
        weights = [Weights(member.tensors, file, prefix) for prefix, member in model_file.models.items()]
        graphs = {
            "encoder": encoder(settings, weights, precision),
            "decoder": decoder(settings, weights, precision, len(model_file.target_tokenizer)),
        }
    for name, graph in graphs.items():
        path = folder / f"{name}.onnx"
        onnx.save(graph, path)
        onnx.checker.check_model(path, full_check=True)


FORMAT = Format(
    precisions=("float32", "int8", "float16"),
    beam="same",
    packages=("glassformer", "onnx", "onnxruntime", "numpy"),
    check_supported=check_supported,
    write=write,
    answer=script_answers,
)
