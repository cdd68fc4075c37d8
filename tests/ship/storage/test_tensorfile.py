"""Promised sizes are checked before anything of that size is read; the library's own reader is the oracle."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from glassformer.ship.storage import tensorfile
from glassformer.ship.storage.tensorfile import MAX_HEADER_BYTES, memory_limit, parse_json, read_entries, read_header

TWO = {
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "b": {"dtype": "U8", "shape": [3, 1], "data_offsets": [8, 11]},
}


def write(path: Path, header: Any, n_bytes: int) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(n_bytes))
    return path


def read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    with path.open("rb") as file:
        metadata, header, start = read_header(file)
        entries = read_entries(header, start, path.stat().st_size)
        return metadata, {name: entry.read(file) for name, entry in entries.items()}


@pytest.mark.parametrize("save", [tensorfile.save_file, save_file])
def test_a_file_of_ours_and_one_of_the_library_are_read_as_the_library_reads_them(tmp_path, save):
    generator = np.random.default_rng(1)
    kinds = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
    shapes = [(3, 2), (), (0, 4), (7,), (1, 2, 3, 1)]
    made = {
        f"{kind} {shape}": np.asarray(generator.normal(0, 50, shape)).astype(kind) for kind in kinds for shape in shapes
    }
    save(made, tmp_path / "t", metadata={"note": "é", "": ""})
    metadata, found = read(tmp_path / "t")
    with safe_open(tmp_path / "t", framework="numpy") as file:
        assert file.metadata() == metadata
    assert metadata == {"note": "é", "": ""}
    expected = load_file(tmp_path / "t")
    assert found.keys() == expected.keys() == made.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), name


def test_the_same_contents_are_the_same_bytes_with_aligned_values_and_a_sorted_header(tmp_path):
    tensors = {"b": np.zeros(3, np.uint8), "a": np.ones((2, 2)), "c": np.float32(1).reshape(())}
    metadata = {letter: letter for letter in "gebadfc"}
    files = []
    for order in (sorted, partial(sorted, reverse=True)):
        tensorfile.save_file(dict(order(tensors.items())), tmp_path / "t", dict(order(metadata.items())))
        files.append((tmp_path / "t").read_bytes())
    assert files[0] == files[1]
    header = json.loads(files[0][8:-39])
    assert [*header] == sorted(header)
    assert [*header["__metadata__"]] == sorted(metadata)
    assert len(files[0][8:-39]) % 8 == 0
    assert [header[name]["data_offsets"] for name in "acb"] == [[0, 32], [32, 36], [36, 39]]


def test_a_header_of_two_tensors_is_read(tmp_path):
    metadata, found = read(write(tmp_path / "t", TWO, 11))
    assert metadata == {}
    assert {name: array.shape for name, array in found.items()} == {"a": (2,), "b": (3, 1)}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("a", {"shape": [25 * 10**9]}),
        ("a", {"shape": [25 * 10**9], "data_offsets": [0, 10**11]}),
        ("a", {"shape": [2**62, 4]}),
        ("a", {"shape": [2**53, 0]}),
        ("a", {"shape": [-2]}),
        ("a", {"shape": [True, 2]}),
        ("a", {"shape": [2.0]}),
        ("a", {"shape": [1] * 9}),
        ("a", {"shape": "2"}),
        ("a", {"dtype": "BF16", "shape": [4]}),
        ("a", {"dtype": ["F32"]}),
        ("a", {"data_offsets": [0, 8, 8]}),
        ("a", {"data_offsets": [8, 0]}),
        ("a", {"data_offsets": ["0", "8"]}),
        ("a", {"more": 1}),
        ("b", {"data_offsets": [9, 12]}),
        ("b", {"data_offsets": [7, 10]}),
        ("b", {"data_offsets": [-3, 0]}),
    ],
)
def test_a_tensor_that_does_not_match_the_file_is_refused(tmp_path, name, changed):
    with pytest.raises(ValueError, match=r"tensor|describes"):
        read(write(tmp_path / "t", TWO | {name: TWO[name] | changed}, 11))


@pytest.mark.parametrize("n_bytes", [0, 10, 12])
def test_a_file_of_another_length_than_its_header_describes_is_refused(tmp_path, n_bytes):
    path = write(tmp_path / "t", TWO, n_bytes)
    with pytest.raises(ValueError, match=f"the file has {path.stat().st_size}"):
        read(path)


@pytest.mark.parametrize("header", [[], 3, None, {"a": 3}, {"a": {}}, {"__metadata__": []}, {"__metadata__": {"a": 1}}])
def test_a_header_of_another_form_is_refused(tmp_path, header):
    with pytest.raises(ValueError, match=r"header|metadata"):
        read(write(tmp_path / "t", header, 0))


@pytest.mark.parametrize("length", [0, 1, 3, MAX_HEADER_BYTES + 1, 2**63])
def test_a_header_of_an_impossible_length_is_not_read(tmp_path, length):
    (tmp_path / "t").write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="a header of"):
        read(tmp_path / "t")


def test_a_file_that_becomes_shorter_while_it_is_read_is_refused(tmp_path):
    n_bytes = 100_000  # more than what is read ahead
    path = write(tmp_path / "t", {"a": {"dtype": "U8", "shape": [n_bytes], "data_offsets": [0, n_bytes]}}, n_bytes)
    with path.open("rb") as file:
        _, header, start = read_header(file)
        entries = read_entries(header, start, path.stat().st_size)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(ValueError, match="became shorter"):
            entries["a"].read(file)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "[-Infinity]", "1e999", "-1e999", "9" * 5000, "[" * 100_000, "", "{", "1 2"]
)
def test_json_without_a_finite_value_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_json_is_read():
    assert parse_json('{"a": [1, -2.5e3, null, "\\udcff"]}') == {"a": [1, -2500.0, None, "\udcff"]}


def test_a_machine_has_memory():
    limit = memory_limit()
    assert limit is None or limit > 10**6
