"""The command line of exported programs: the lines, the notes and the exit codes of `glassformer translate`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import EXIT_LEFT_OUT
from tests.cli.conftest import answer_to
from tests.export.conftest import calibrated, make_model, make_texts

LINES = ["ab cd", "", "ab " * 20, "žž☃ \u0301b▁", " \t", "the cat", "a\u2028b", *["x" * n for n in range(41, 53)], "☃"]
HINTS = r"; --(long|set) [^\n]*"  # of options that a program does not have


def test_a_program_answers_lines_as_translate_does_without_glassformer(
    run: Any, isolated: dict[str, str], tmp_path: Path
) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", "import glassformer"], env=isolated, capture_output=True, check=False
    )
    assert b"glassformer is blocked" in refused.stderr
    model_file = make_model(longest=4)
    model_file.save(tmp_path / "model.safetensors")
    data = ("\ufeff" + "\r\n".join(LINES) + "\n").encode()
    right = answer_to("translate", tmp_path / "model.safetensors", "-", "--beam", "1", stdin=data)
    notes = re.sub(HINTS, "", right.err)
    assert (right.code, notes.count("warning: ")) == (EXIT_LEFT_OUT, 3)
    found = run(model_file, data, "--beam", "1")
    assert (found.returncode, found.stdout.decode()) == (EXIT_LEFT_OUT, right.out)
    assert found.stderr.decode() == notes
    data = "".join(f"{json.dumps(line)}\n" for line in LINES[:4]).encode()
    found = run(model_file, data, "--beam", "1", "--json")
    empty, long, unknown = map(json.loads, found.stdout.splitlines()[1:])
    nothing = {"text": "", "ids": [], "score": 0.0, "rank_score": 0.0, "finished": True, "unknown": []}
    assert empty == nothing
    assert long == nothing | {"score": None, "rank_score": None, "left_out": "60 tokens; the model takes at most 40"}
    assert unknown["unknown"] == ["ž", "ž", "☃", "\u0301"]


@pytest.mark.parametrize(
    ("run", "members"),
    [("onnx", 2), pytest.param("ctranslate2", 1, marks=pytest.mark.medium)],
    indirect=["run"],
)
def test_a_program_gives_the_confidence_that_translate_gives(run: Any, members: int, tmp_path: Path) -> None:
    """CTranslate2 has a beam of its own, which may find other rivals: there it is only that of the same kind."""
    model_file, path = calibrated(make_model(seed=7, members=members)), tmp_path / "model.safetensors"
    model_file.save(path)
    data = "".join(f"{text}\n" for text in make_texts(model_file) if len(text) <= 40).encode()
    right = answer_to("translate", path, "-", "--min-confidence", "0", "--json", stdin=data).out.splitlines()
    expected = [json.loads(line).get("confidence") for line in right]
    assert len({p for p in expected if p is not None}) > 4
    in_json = "".join(f"{json.dumps(line)}\n" for line in data.decode().splitlines()).encode()
    found = run(model_file, in_json, "--confidence", "--json").stdout.splitlines()
    given = [json.loads(line)["confidence"] for line in found]
    bound = 1e-3 if (tmp_path / "exported" / "encoder.onnx").exists() else 0.5
    assert given == [None if p is None else pytest.approx(p, abs=bound) for p in expected]
    plain = run(model_file, data, "--confidence").stdout.decode().splitlines()
    assert [line.partition("\t")[2] for line in plain] == ["" if p is None else f"{p:.4f}" for p in given]
    assert b"calibrated for --beam 5, not 1" in run(model_file, data, "--confidence", "--beam", "1").stderr


@pytest.mark.parametrize("run", ["ctranslate2"], indirect=True)  # ONNX has the same `lines.py`
@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b'"ab"\n{"text": 1}', ("--json",), "error: line 2: expected a JSON string"),
        ("ab\n☃b".encode(), (), "error: line 2: the character .☃. .*is not in the vocabulary"),
        (b"ab\n\xff\n", (), "error: the input is not UTF-8"),
        (b"ab\na\0b\n", (), "error: line 2: NUL character"),
        (b"ab\n", ("--beam", "0"), "error: .*--beam must be at least 1, not 0"),
        (b"ab\n", ("--confidence",), "error: --confidence: the model is not calibrated"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_nothing_is_written(
    run: Any, data: bytes, options: tuple[str, ...], message: str
) -> None:
    found = run(make_model(side={"unknown": False}), data, *options)
    assert (found.returncode in (1, 2), found.stdout) == (True, b"")
    assert re.search(message, found.stderr.decode().splitlines()[-1])


@pytest.mark.parametrize("run", ["ctranslate2"], indirect=True)
def test_lines_without_a_text_need_no_model(run: Any) -> None:
    assert run(make_model(), b"\n \r\n").stdout == b"\n\n"


# A damaged file is an error that names it, never another answer. The page: `test_html_page.py`

DATA = b"ab cd\nthe cat\n"


@pytest.mark.medium
def test_a_file_that_is_damaged_or_missing_is_one_line_or_the_same_answer(run: Any, tmp_path: Path) -> None:
    model_file, folder = make_model(), tmp_path / "exported"
    right: subprocess.CompletedProcess[bytes] = run(model_file, DATA)
    assert right.returncode == 0, right.stderr
    for name in (*json.loads((folder / "glassformer.json").read_bytes())["files"], "glassformer.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
        done = run(model_file, DATA)
        if name == "run.py":  # the program itself, which Python refuses, or which does nothing
            assert done.stdout in (b"", right.stdout)
        else:
            message = f"error: {folder / name} is not the file that was exported; export the model again\n"
            assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", message)
            (folder / name).unlink()
            assert run(model_file, DATA).returncode == 1, name
        (folder / name).write_bytes(whole)
    assert run(model_file, DATA).stdout == right.stdout
