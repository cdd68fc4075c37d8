"""What a safetensors file of ours contains; the library's own writer and reader are the oracle."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from glassformer.errors import ModelFileError
from glassformer.storage.container import parse_json, read_tensors, save_file, write_tensors

A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_the_library_reads_the_same_tensors(tmp_path):
    generator = np.random.default_rng(1)
    kinds = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
    shapes = [(3, 2), (), (0, 4), (7,), (1, 2, 3, 1)]
    made = {
        f"{kind} {shape}": np.asarray(generator.normal(0, 50, shape)).astype(kind) for kind in kinds for shape in shapes
    }
    write_tensors(tmp_path / "t", "some/1", made, {"note": "é"})
    found, parts = read_tensors(tmp_path / "t", "some/1")
    assert parts == {"note": "é"}
    expected = load_file(tmp_path / "t")
    assert found.keys() == expected.keys() == made.keys()
    for name, array in made.items():
        for read in (found, expected):
            assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape), name
            assert read[name].tobytes() == array.tobytes(), name


def test_the_same_contents_are_the_same_bytes_with_aligned_values_and_a_sorted_header(tmp_path):
    tensors = {"b": np.zeros(3, np.uint8), "a": np.ones((2, 2)), "c": np.float32(1).reshape(())}
    metadata = {letter: letter for letter in "gebadfc"}
    files = []
    for order in (sorted, partial(sorted, reverse=True)):
        save_file(dict(order(tensors.items())), tmp_path / "t", dict(order(metadata.items())))
        files.append((tmp_path / "t").read_bytes())
    assert files[0] == files[1]
    with safe_open(tmp_path / "t", framework="numpy") as file:
        assert file.metadata() == metadata
    header = json.loads(files[0][8:-39])
    assert [*header] == sorted(header)
    assert len(files[0][8:-39]) % 8 == 0
    assert [header[name]["data_offsets"] for name in "acb"] == [[0, 32], [32, 36], [36, 39]]


@pytest.mark.parametrize(
    "header",
    [
        *({"a": A | changed} for changed in ({"shape": [2**62, 4]}, {"shape": [-2]}, {"dtype": "BF16", "shape": [4]})),
        *({"a": A | {"data_offsets": offsets}} for offsets in ([8, 0], [-8, 0])),
        *([], 3, None, {"a": 3}, {"a": {}}, {"__metadata__": []}, {"__metadata__": {"a": 1}}),
    ],
)
def test_a_header_that_does_not_match_the_file_or_has_another_form_is_refused(tmp_path, header):
    if isinstance(header, dict):
        header = {"__metadata__": {"format": "some/1"}} | header
    text = json.dumps(header).encode()
    (tmp_path / "t").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        read_tensors(tmp_path / "t", "some/1")


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "[-Infinity]", "1e999", "-1e999", "9" * 5000, "[" * 100_000, "", "{", "1 2"]
)
def test_json_without_a_finite_value_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
    assert parse_json('{"a": [1, -2.5e3, null, "\\udcff"]}') == {"a": [1, -2500.0, None, "\udcff"]}
