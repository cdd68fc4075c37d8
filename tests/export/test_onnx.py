"""The ONNX export: PyTorch's answers and scores for every shape."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.errors import MissingExtraError
from glassformer.export import export
from glassformer.export.check import SCORE_BOUND
from glassformer.export.onnx import FORMAT
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.translator import Translator
from glassformer.storage.modelfile import ModelFile
from tests.export.conftest import Exported, assert_same, make_model

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
reference = pytest.importorskip("onnx.reference", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

LEARNED: dict[str, Any] = {"positions": "learned", "max_length": 20}
SHAPES: dict[str, dict[str, Any]] = {
    "few learned positions": {"positions": "learned", "max_length": 8},
    "other constants": {"activation": "swish", "output_bias": True, "norm_eps": 0.1, "seed": 2}
    | {"position_base": 50.0, "scale_embeddings": False},
    "deeper decoder": {"n_encoder_layers": 1, "n_decoder_layers": 3, "seed": 5},
    "odd width": {**LEARNED, "d_model": 15, "n_heads": 3, "d_k": 1, "d_v": 2},
    "all at once": {"norm": "pre", "activation": "gelu", "attention_bias": True, "tied_embeddings": "target"} | LEARNED,
    "three members": {"copy_mechanism": True, "members": 3, "norm": "pre"}
    | {"tied_embeddings": "all", "n_decoder_layers": 2},
}
PRECISIONS = ("float32", "float16", "int8")


untrained = partial(make_model, seed=3, decoding={"max_new_tokens": 12, "num_beams": 3})


def write(model_file: ModelFile, folder: Path, precision: str = "float32") -> Path:
    folder.mkdir(exist_ok=True)
    FORMAT.write(model_file, folder, precision)
    return folder


def random_texts(n: int = 30, lengths: Sequence[int] = (1, 4, 5, 17, 18)) -> list[str]:
    """Texts with unknown characters; the longest are of two lengths that share a batch."""
    generator = random.Random(2)
    texts = ["".join(generator.choices("abcdefghyz", k=lengths[i % len(lengths)])) for i in range(n)]
    return ["", *texts, " \t"]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_the_answers_and_scores_of_torch(shape: str, tmp_path: Path) -> None:
    model_file = untrained(**SHAPES[shape])
    exported = Exported(write(model_file, tmp_path))
    texts = random_texts(lengths=[n for n in (1, 4, 5, 17, 18) if n <= model_file.settings.max_source_tokens])
    for num_beams in (1, 5):
        assert_same(exported.answer(texts, num_beams), model_file, texts, num_beams)


def test_copies_far_below_the_best_have_their_log_probabilities(tmp_path: Path) -> None:
    model_file = untrained(copy_mechanism=True, output_bias=True)
    model_file.tensors["output_projection.weight"][:] = 0
    model_file.tensors["output_projection.bias"][:] = -1500
    model_file.tensors["copy_mechanism.w_k.weight"] *= 160
    exported, engine = Exported(write(model_file, tmp_path)), NumPyEngine.of_files([model_file])
    source, first = exported.encode("abcdefgh"), np.array([[engine.bos_id]])
    found, _ = exported.model.step(first, np.arange(1), *exported.model.start([source]))
    log_probs = engine.step(first, engine.start([source]))[0].numpy()
    copied = [exported.encode(letter)[1] for letter in "abcdefgh"]
    assert log_probs[0, 0, copied].min() < -200
    assert found == pytest.approx(log_probs, abs=1e-2)


@pytest.mark.parametrize(("num_beams", "longest"), [(3, 1), (30, 2), (8, 5)])
def test_a_beam_of_any_width_and_length_is_that_of_torch(num_beams: int, longest: int, tmp_path: Path) -> None:
    model_file = untrained(decoding={"max_new_tokens": longest})
    texts = random_texts()
    assert_same(Exported(write(model_file, tmp_path)).answer(texts, num_beams), model_file, texts, num_beams)


def test_sinusoids_have_no_end(tmp_path: Path) -> None:
    model_file = untrained(decoding={"max_new_tokens": 200}, longest_source=600)
    texts = ["abcdefgh" * 64, "h" * 500]
    expected = Translator(model_file, device="cpu").translate(texts, num_beams=1)
    assert max(len(answer.tokens) for answer in expected) == 200
    for answer, right in zip(Exported(write(model_file, tmp_path)).answer(texts, 1), expected, strict=True):
        assert answer.text == right.text
        assert answer.score == pytest.approx(right.score, abs=1e-3, rel=1e-6)  # a sum of 200


def test_no_special_token_is_written_and_scores_stay_the_models(tmp_path: Path) -> None:
    model_file = untrained(seed=4, loud={"<unk>": 4.0})
    exported, texts = Exported(write(model_file, tmp_path)), random_texts()
    forbidden = exported.model.search["forbidden_ids"]
    assert sorted(forbidden) == sorted(model_file.target_tokenizer.vocabulary.forbidden_ids)
    assert_same(exported.answer(texts, 4), model_file, texts, 4, SCORE_BOUND)  # scores of -100 nats in float32
    exported.model.search = exported.model.search | {"forbidden_ids": []}
    beloved = model_file.target_tokenizer.vocabulary.unk_id
    assert any(beloved in answer.ids for answer in exported.answer(texts, 4))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_text_has_the_same_answer_alone_and_in_any_batch(precision: str, tmp_path: Path) -> None:
    exported, texts = Exported(write(untrained(members=2, norm="pre"), tmp_path, precision)), random_texts()
    together = exported.answer(texts[::-1], 4)[::-1]
    for text, answer in zip(texts, together, strict=True):
        (alone,) = exported.answer([text], 4)
        assert (alone.ids, alone.finished) == (answer.ids, answer.finished)
        assert alone.score == pytest.approx(answer.score, abs=1e-4)


@pytest.mark.parametrize(("precision", "bound", "equal"), [("float16", 0.01, 0.9), ("int8", 0.3, 0.5)])
def test_a_lower_precision_is_near_and_not_the_same(precision: str, bound: float, equal: float, tmp_path: Path) -> None:
    model_file = untrained(tied_embeddings="all")
    texts = [text for text in random_texts() if text.strip()]
    exact = Exported(write(model_file, tmp_path / "exact")).answer(texts, 1)
    rounded = Exported(write(model_file, tmp_path / "rounded", precision)).answer(texts, 1)
    same = [(one.score, other.score) for one, other in zip(exact, rounded, strict=True) if one.ids == other.ids]
    assert len(same) >= equal * len(texts)
    drifts = sorted(abs(one - other) for one, other in same)
    assert 1e-5 < drifts[len(drifts) // 2] < bound


# The files


def test_matrices_are_stored_once_and_in_the_size_of_their_precision(tmp_path: Path) -> None:
    model_file = untrained(tied_embeddings="all", **LEARNED)
    sizes = {each: (write(model_file, tmp_path / each, each) / "weights.bin").stat().st_size for each in PRECISIONS}
    tensors = model_file.tensors
    matrices = [array for name, array in tensors.items() if name.endswith("weight") and array.ndim == 2]
    n_values, n_rows = sum(array.size for array in matrices), sum(map(len, matrices))
    n_others = model_file.n_parameters - n_values
    expected = {"float32": 4 * n_values, "float16": 2 * n_values, "int8": n_values + 4 * n_rows}
    for precision, n_bytes in expected.items():
        assert 0 <= sizes[precision] - (n_bytes + 4 * n_others) < 64 * (len(tensors) + len(matrices))  # padding


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_another_implementation_of_onnx_computes_the_same(precision: str, tmp_path: Path) -> None:
    """The reference of the `onnx` package, which is written in NumPy."""
    exported = Exported(write(untrained(members=2, norm="pre", activation="gelu"), tmp_path, precision))
    model = exported.model
    memory, cache = model.start([exported.encode("abcdexh"), exported.encode("hgfedcb")])
    first, grown = model.step(np.full((2, 1), 1), np.arange(2), memory, cache)
    second, _ = model.step(np.array([[4, 5], [6, 7]]), np.array([0, 0, 1, 1]), memory, grown)
    for name in ("encoder", "decoder"):
        setattr(model, name, reference.ReferenceEvaluator(onnx.load(tmp_path / f"{name}.onnx")))
    memory, cache = model.start([exported.encode("abcdexh"), exported.encode("hgfedcb")])
    again, grown = model.step(np.full((2, 1), 1), np.arange(2), memory, cache)
    assert again == pytest.approx(first, abs=1e-4)
    again, _ = model.step(np.array([[4, 5], [6, 7]]), np.array([0, 0, 1, 1]), memory, grown)
    assert again == pytest.approx(second, abs=1e-4)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = (write(untrained(), tmp_path / name, "int8") for name in ("one", "other"))
    assert {file.name for file in one.iterdir()} == {file.name for file in other.iterdir()}
    assert all((other / file.name).read_bytes() == file.read_bytes() for file in one.iterdir())


# The process


def test_a_reader_that_ends_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} {write(untrained(), tmp_path)}/run.py | head -n 1"
    done = subprocess.run(command, shell=True, input=b"\n" * 200_000, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"\n", b"")


def test_the_library_does_not_report_to_its_maker(tmp_path: Path) -> None:
    folder, home = write(untrained(), tmp_path / "exported"), tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    del environment["ORT_DISABLE_TELEMETRY"]
    subprocess.run([sys.executable, folder / "run.py"], input=b"ab\n", env=environment, check=True)
    assert list(home.iterdir()) == []  # else the identifier of the machine is here


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    folder = write(untrained(), tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, folder / "run.py"], input=b"ab\n", stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"error: the answers cannot be written: No space left on device\n")


def test_numbers_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    model_file = untrained()
    model_file.tensors["decoder.0.feed_forward_norm.weight"][:] = 3e38
    exported = Exported(write(model_file, tmp_path))
    with pytest.raises(exported.runner.InputError, match="the model computes numbers that are not finite"):
        exported.answer(["abc"], 3)


@pytest.mark.parametrize(("package", "feature"), [("onnx", "--to onnx"), ("onnxruntime", "the check of --to onnx")])
def test_without_a_library_the_extra_is_named(package: str, feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as error:
        FORMAT.check_supported(untrained())
    assert str(error.value) == (
        f"{feature} needs the package {package!r}, which is not installed\n"
        "  next: pip install '.[onnx]' in the folder that has pyproject.toml"
    )


@pytest.mark.usefixtures("in_process")
def test_the_python_of_its_readme_translates_a_row_that_was_checked(isolated: dict[str, str], tmp_path: Path) -> None:
    model_file, source = untrained(), "the cat"
    model_file.save(tmp_path / "model.safetensors")
    folder = export(tmp_path / "model.safetensors", "onnx", tmp_path / "out", rows=[(source, "x")]).folder
    (block,) = re.findall(r"^```python\n(.*?)^```$", (folder / "README.md").read_text("utf-8"), re.M | re.S)
    assert len(block.splitlines()) == 5
    for place, lines in ((folder, block), (tmp_path, block.replace('"."', f"{str(folder)!r}"))):
        command = [sys.executable, "-P", "-c", lines]
        done = subprocess.run(command, env=isolated, cwd=place, stdout=subprocess.PIPE, check=True)
        assert done.stdout.decode().strip() == Translator(model_file).translate([source])[0].text
