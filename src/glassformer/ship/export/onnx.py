"""The format of ONNX, for onnxruntime in Python, Node, browsers, C++ and on phones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from glassformer.errors import MissingExtraError
from glassformer.inference.translator import Source
from glassformer.ship.export.answer import Answer, run_script
from glassformer.ship.export.check import Beam
from glassformer.ship.export.description import copy_program, copy_runner, write_description
from glassformer.ship.export.onnx_builder import Weights, library
from glassformer.ship.export.onnx_graph import decoder, encoder
from glassformer.ship.export.onnx_precision import PRECISIONS
from glassformer.ship.export.tokenizer_json import tokenizer_files
from glassformer.ship.storage.modelfile import ModelFile

WEIGHTS_FILE = "weights.bin"
NODE_FILES = ("run.mjs", "lines.mjs", "engine.mjs", "search.js", "source.js", "text.js", "sentencepiece.js")


@final
class OnnxFormat:
    """A folder with `encoder.onnx`, `decoder.onnx`, `weights.bin` of both, `glassformer.json` and runners.

    `tokenizer.json` is there for other programs, where the `tokenizers` library can represent the tokenizer.
    `run.py` needs numpy and onnxruntime, `run.mjs` needs onnxruntime-node. Every model can be exported.
    """

    precisions = tuple(PRECISIONS)
    beam: Beam = "same"
    packages = ("glassformer", "onnx", "onnxruntime", "numpy")

    def check_supported(self, model_file: ModelFile) -> None:  # noqa: ARG002  (every model is supported)
        library()
        if find_spec("onnxruntime") is None:
            raise MissingExtraError("the check of --to onnx", package="onnxruntime", extra="onnx")

    def write(self, model_file: ModelFile, folder: Path, precision: str) -> None:
        write_graphs(model_file, folder, precision)
        copy_program(model_file, folder, "onnx_engine.py")
        for name, content in tokenizer_files(model_file).items():
            (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8", newline="\n")
        for name in NODE_FILES:
            copy_runner(folder, name, name)
        write_description(model_file, folder)

    def answer(self, folder: Path, texts: Sequence[Source], num_beams: int) -> list[Answer]:
        return run_script(folder, texts, num_beams)


def write_graphs(model_file: ModelFile, folder: Path, precision: str) -> None:
    """Write both graphs and their weights, and check the graphs with the library."""
    onnx, settings = library(), model_file.settings.model
    with (folder / WEIGHTS_FILE).open("wb") as file:
        weights = Weights(model_file.tensors, file)
        graphs: dict[str, Any] = {
            "encoder": encoder(settings, weights, precision),
            "decoder": decoder(settings, weights, precision, len(model_file.target_tokenizer)),
        }
    for name, graph in graphs.items():
        path = folder / f"{name}.onnx"
        onnx.save(graph, path)
        onnx.checker.check_model(path, full_check=True)
