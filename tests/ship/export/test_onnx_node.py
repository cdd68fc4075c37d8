"""The Node runner of the ONNX export: PyTorch's answers and scores.

It needs onnxruntime-node in `node_modules` of the repository, or of the folder that $GLASSFORMER_NODE names:
`npm install --no-save --ignore-scripts onnxruntime-node`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.ship.export.check import SCORE_BOUND
from glassformer.ship.export.onnx import FORMAT
from glassformer.ship.export.programs import read_answers
from glassformer.ship.storage.modelfile import ModelFile
from tests.ship.export.conftest import MODULES, assert_same

pytest.importorskip("onnx", reason="the extra onnx is not installed")
if shutil.which("node") is None or not (MODULES / "onnxruntime-node").is_dir():
    pytest.skip("Node with onnxruntime-node is not here", allow_module_level=True)

Model = Callable[..., ModelFile]
SHAPES: dict[str, dict[str, Any]] = {
    "the paper's": {"kind": "bpe"},
    "pre-norm": {"norm": "pre", "tied_embeddings": "all", "kind": "unigram"},
    "learned positions": {"positions": "learned", "max_length": 42, "kind": "words"},
    "values wider than keys": {"d_k": 5, "d_v": 9, "n_decoder_layers": 3},
}


def write(model_file: ModelFile, folder: Path, precision: str = "float32") -> Path:
    folder.mkdir(exist_ok=True)
    FORMAT.write(model_file, folder, precision)
    (folder / "node_modules").symlink_to(MODULES)
    return folder


def run(folder: Path, data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["node", str(folder / "run.mjs"), *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=False)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("num_beams", [1, 4])
def test_the_answers_are_those_of_torch(
    shape: str, num_beams: int, model: Model, texts_for: Callable[[ModelFile], list[str]], tmp_path: Path
) -> None:
    model_file = model(**SHAPES[shape])
    texts = texts_for(model_file)
    found = run(write(model_file, tmp_path), json_lines(texts), "--json", "--beam", str(num_beams))
    assert found.returncode == 0, found.stderr
    assert_same(read_answers(found.stdout), model_file, texts, num_beams, SCORE_BOUND)


def test_a_reader_that_ends_early_is_no_error(model: Model, tmp_path: Path) -> None:
    command = f"node {write(model(), tmp_path) / 'run.mjs'} | head -n 1"
    found = subprocess.run(command, shell=True, input=b"\n" * 200_000, capture_output=True, check=True)
    assert (found.stdout, found.stderr) == (b"\n", b"")


def test_the_library_does_not_report_to_its_maker(model: Model, tmp_path: Path) -> None:
    folder, home = write(model(), tmp_path / "exported"), tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    del environment["ORT_DISABLE_TELEMETRY"]
    subprocess.run(["node", str(folder / "run.mjs")], input=b"ab\n", env=environment, check=True)
    assert list(home.iterdir()) == []  # else the identifier of the machine is here


def json_lines(texts: list[str]) -> bytes:
    return "".join(f"{json.dumps(text)}\n" for text in texts).encode()
