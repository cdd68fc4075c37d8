"""Held-out rows by their promises; sources that were trained on, against sets."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data import splits
from glassformer.data.splits import Overlap, TrainedSources, held_rows, hold_out, text_hash, text_hashes
from glassformer.data.tables import Pair
from glassformer.errors import ModelFileError, TableError
from glassformer.storage.container import write_tensors

quick = settings(max_examples=40, deadline=None)

# Held-out rows


@quick
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("stuvwxyz")), min_size=2, max_size=40),
    st.integers(0, 5),
)
def test_with_groups_rows_that_share_a_source_or_a_group_are_in_one_part(rows, seed):
    pairs, groups = [Pair(source, "x") for source, _ in rows], [group for _, group in rows]
    linked, before = {rows[0]}, set()
    while linked != before:
        before = linked
        linked = {row for row in rows if any(row[0] == one[0] or row[1] == one[1] for one in before)}
    if linked == set(rows):
        with pytest.raises(TableError, match="the table has too few different groups to split it"):
            splits.split(pairs, 0, 1, seed, groups)
        return
    parts = splits.split(pairs, 0, 1, seed, groups)
    assert sorted(parts["train"] + parts["test"]) == list(range(len(rows)))
    for side in (0, 1):
        train, test = ({rows[row][side] for row in parts[name]} for name in ("train", "test"))
        assert train
        assert test
        assert not train & test


# Sources that were trained on


def test_a_hash_is_of_the_text_in_nfc_and_never_changes():
    """Changing one changes the format of sources.safetensors."""
    assert (text_hash("abc"), text_hash("glassformer")) == (6455300059550759896, 0x8B6AD36CF1A019D2)
    assert text_hash("\u00e9") == text_hash("e\u0301") != text_hash("e")
    assert text_hash("\ud800") != text_hash("\ud801")


@quick
@given(st.lists(st.text(max_size=3), max_size=20), st.lists(st.text(max_size=3), max_size=20))
def test_a_source_was_trained_on_if_it_is_in_the_set_in_nfc(trained, others):
    known = {unicodedata.normalize("NFC", source) for source in trained}
    expected = [unicodedata.normalize("NFC", source) in known for source in others]
    assert TrainedSources.of(trained).contains(others).tolist() == expected
    half = len(trained) // 2
    both = TrainedSources.of(trained[:half]) | TrainedSources.of(trained[half:])
    assert both.hashes.tolist() == TrainedSources.of(trained).hashes.tolist()
    assert Overlap.of(both, "t.csv", [Pair(source, "x") for source in others]).rows == sum(expected)


def test_the_sources_of_a_model_are_read_from_its_run_and_no_other(tmp_path):
    found = TrainedSources.of(["a", "b", "b"])
    assert len(found.hashes) == 2
    model, checkpoint = tmp_path / "model.safetensors", tmp_path / "checkpoints" / "step-1.safetensors"
    assert "sources.safetensors of its run is not next to" in TrainedSources.of_model(model, found.digest).unknown
    found.save(tmp_path / "sources.safetensors")
    for path in (model, checkpoint):
        read = TrainedSources.of_model(path, found.digest)
        assert (read.hashes.tolist(), read.unknown) == (found.hashes.tolist(), "")
    other = TrainedSources.of(["a", "c"])
    assert "is not next to the model" in TrainedSources.of_model(model, other.digest).unknown
    for path, digest in ((model, None), (None, found.digest)):
        assert "no record of the sources" in TrainedSources.of_model(path, digest).unknown


def test_a_reason_why_there_may_be_others_is_kept(tmp_path):
    mixed = TrainedSources.of(["a"]) | TrainedSources.none("an imported model")
    mixed.save(tmp_path / "s.safetensors")
    read = TrainedSources.load(tmp_path / "s.safetensors")
    assert (read.unknown, read.contains(["a", "b"]).tolist()) == ("an imported model", [True, False])
    assert mixed.digest == read.digest != TrainedSources.of(["a"]).digest


@pytest.mark.parametrize(
    ("tensors", "parts"),
    [
        ({}, {"unknown": ""}),
        ({"hashes": np.zeros(2)}, {"unknown": ""}),
        ({"hashes": np.zeros((2, 2), np.uint64)}, {"unknown": ""}),
        ({"hashes": np.array([2, 1], np.uint64)}, {"unknown": ""}),
        ({"hashes": np.array([1], np.uint64)}, {}),
        ({"hashes": np.array([1], np.uint64)}, {"unknown": 1}),
    ],
)
def test_a_file_that_is_not_valid_is_an_error_and_for_a_model_a_reason(tmp_path, tensors, parts):
    file = tmp_path / "sources.safetensors"
    write_tensors(file, "glassformer-sources/1", tensors, parts)
    with pytest.raises(ModelFileError):
        TrainedSources.load(file)
    assert "cannot be read" in TrainedSources.of_model(tmp_path / "model.safetensors", "0").unknown
    file.write_bytes(b"nothing")
    assert "cannot be read" in TrainedSources.of_model(tmp_path / "model.safetensors", "0").unknown


# Hashes


def held_by_text(sources: list[str], fraction: float, max_rows: int, seed: int) -> list[int]:
    """The definition, row by row: groups in the order of their first rows, taken in random order while they fit."""
    groups: dict[str, list[int]] = {}
    for row, source in enumerate(sources):
        groups.setdefault(unicodedata.normalize("NFC", source), []).append(row)
    listed = list(groups.values())
    if fraction == 0 or len(listed) < 2:
        return []
    limit = min(max_rows, max(1, round(fraction * len(sources))), len(sources) - 1)
    held: set[int] = set()
    for group in np.random.default_rng(seed).permutation(len(listed)):
        if len(held) + len(listed[group]) <= limit:
            held.update(listed[group])
    return sorted(held or min(listed, key=len))


@quick
@given(
    st.lists(st.sampled_from([*"abcdefgh", "\u00e9", "e\u0301"]), max_size=80),
    st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9]) | st.floats(0, 0.99),
    st.integers(1, 30),
    st.integers(0, 9),
)
def test_the_rows_held_out_by_hashes_are_those_held_out_by_texts(sources, fraction, max_rows, seed):
    expected = held_by_text(sources, fraction, max_rows, seed)
    assert held_rows(text_hashes(sources), fraction, max_rows, seed).tolist() == expected
    pairs = [Pair(source, str(row)) for row, source in enumerate(sources)]
    train, held = hold_out(pairs, fraction, max_rows, seed)
    assert held == expected
    assert train == [row for row in range(len(sources)) if row not in held]
