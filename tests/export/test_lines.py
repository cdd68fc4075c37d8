"""The command line of exported programs: the lines, the notes and the exit codes of `glassformer translate`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import EXIT_LEFT_OUT
from glassformer.export import load_format
from glassformer.modelfile import ModelFile
from tests.cli.conftest import answer_to
from tests.export.test_runner_text import runner

Model = Callable[..., ModelFile]
MODULES = Path(os.environ.get("GLASSFORMER_NODE", Path(__file__).parents[2])) / "node_modules"
PROGRAMS = {
    "onnx": ("onnxruntime", "run.py"),
    "node": ("onnxruntime", "run.mjs"),
    "ctranslate2": ("ctranslate2", "run.py"),
    "huggingface": ("transformers", "run.py"),
}
LINES = [
    "ab cd",
    "",
    "ab " * 20,
    "žž☃ \u0301b▁",
    " \t",
    "the cat",
    "a\u2028b",
    *["x" * (41 + n) for n in range(12)],
    "☃",
]
HINTS = r"; --(long|set) [^\n]*"  # of options that a program does not have


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.medium if name == "huggingface" else ()) for name in PROGRAMS]
)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Export a model, and run its program with some bytes and options."""
    library, program = PROGRAMS[request.param]
    pytest.importorskip(library)
    if request.param == "node" and (shutil.which("node") is None or not (MODULES / "onnxruntime-node").is_dir()):
        pytest.skip("Node with onnxruntime-node is not here")

    def run(model_file: ModelFile, data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        folder = tmp_path / "exported"
        if not folder.exists():
            folder.mkdir()
            load_format("onnx" if request.param == "node" else request.param).write(model_file, folder, "float32")
            (folder / "node_modules").symlink_to(MODULES)
        interpreter = "node" if program.endswith("mjs") else sys.executable
        return subprocess.run([interpreter, folder / program, *options], input=data, capture_output=True, check=False)

    return run


def test_a_program_answers_lines_as_translate_does(run: Any, model: Model, tmp_path: Path) -> None:
    model_file = model(longest=4)
    model_file.save(tmp_path / "model.safetensors")
    data = ("\ufeff" + "\r\n".join(LINES) + "\n").encode()
    right = answer_to("translate", tmp_path / "model.safetensors", "-", "--beam", "1", stdin=data)
    notes = re.sub(HINTS, "", right.err)
    assert (right.code, notes.count("warning: ")) == (EXIT_LEFT_OUT, 3)
    found = run(model_file, data, "--beam", "1")
    assert (found.returncode, found.stdout.decode(), found.stderr.decode()) == (EXIT_LEFT_OUT, right.out, notes)
    data = "".join(f"{json.dumps(line)}\n" for line in LINES[:4]).encode()
    found = run(model_file, data, "--beam", "1", "--json")
    empty, long, unknown = map(json.loads, found.stdout.splitlines()[1:])
    nothing = {"text": "", "ids": [], "score": 0.0, "rank_score": 0.0, "finished": True, "unknown": []}
    assert empty == nothing
    assert long == nothing | {"left_out": "60 tokens; the model takes at most 40"}
    assert unknown["unknown"] == ["ž", "ž", "☃", "\u0301"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b'"ab"\n{"text": 1}', ("--json",), "error: line 2: expected a JSON string"),
        (b'"ab"\nab\n', ("--json",), "error: line 2: expected a JSON string"),
        ("ab\n☃b".encode(), (), "error: line 2: the character .☃. .*is not in the vocabulary"),
        (b"ab\n\xff\n", (), "error: the input is not UTF-8"),
        (b"ab\n", ("--beam", "0"), "error: .*--beam must be at least 1, not 0"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_nothing_is_written(
    run: Any, data: bytes, options: tuple[str, ...], message: str, model: Model
) -> None:
    found = run(model(side={"unknown": False}), data, *options)
    assert (found.returncode in (1, 2), found.stdout) == (True, b"")
    assert re.search(message, found.stderr.decode().splitlines()[-1])


def test_lines_without_a_text_need_no_model(run: Any, model: Model) -> None:
    assert run(model(), b"\n \r\n").stdout == b"\n\n"
    assert run(model(), b"").stdout == b""


def test_no_threads_are_refused(model: Model, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    load_format("ctranslate2").write(model(), tmp_path, "float32")
    done = subprocess.run([sys.executable, tmp_path / "run.py", "--threads", "0"], capture_output=True, check=False)
    assert b"--threads must be at least 1, not 0" in done.stderr


@pytest.mark.parametrize("content", ["[]", "null", "{", "{}", '{"format": "glassformer-export/9"}'])
def test_a_damaged_description_is_an_error_of_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "glassformer.json").write_text(content)
    with pytest.raises(SystemExit, match=r"glassformer\.json cannot be read"):
        runner("lines").load(tmp_path)
