"""What a model file records is typed: a value that does not fit is refused by name."""

from __future__ import annotations

import json

import pytest

from glassformer.errors import ModelFileError
from glassformer.storage.records import Metrics, Parts, TrainingData

SAVED = {
    "table": "pairs-\udcff.csv",
    "columns": {
        "inputs": [{"name": "iso", "position": 1}, {"position": 0, "feature": "tags"}],
        "target": {"name": "english", "position": 2},
        "width": 3,
    },
    "fingerprint": "0123",
    "rows": {"read": 5, "kept": 4, "empty target": 1},
    "train_rows": 3,
    "valid_rows": 1,
    "longest_source": 10,
    "longest_target": 18,
    "source_counts": [0, 3, 3],
    "target_counts": [0, 3, 3, 7],
}


def test_a_record_is_the_same_after_saving():
    data = TrainingData(**SAVED)
    assert (data.train_rows, data.rows["kept"]) == (3, 4)
    assert data.column_labels == ("iso (column 1) + column 0", "english (column 2)")
    assert (data.counts("source"), data.counts("target")) == ((0, 3, 3), (0, 3, 3, 7))
    assert json.loads(json.dumps(data.to_dict())) == SAVED
    assert TrainingData(**data.to_dict()) == data
    assert Metrics(metric="bleu", value=1, step=3).to_dict() == {"metric": "bleu", "value": 1.0, "step": 3}


def test_a_model_that_was_not_trained_has_empty_records():
    assert TrainingData().to_dict() == Metrics().to_dict() == {}
    assert TrainingData().column_labels == ("source", "target")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("columns", "ab", "data.columns"),
        ("columns", {**SAVED["columns"], "inputs": []}, "data.columns.inputs"),
        ("columns", {**SAVED["columns"], "target": {"name": 1, "position": 2}}, "data.columns.target.name"),
        ("columns", {**SAVED["columns"], "width": 2}, "data.columns"),
        ("columns", {**SAVED["columns"], "target": {"name": "b", "position": 1}}, "data.columns"),
        ("rows", {"read": -1}, "data.rows.read"),
        ("train_rows", True, "data.train_rows"),
        ("valid_rows", 2**53, "data.valid_rows"),
        ("longest_target", 2**40, "data.longest_target"),
        ("seen_length", 0, "data.seen_length"),
        ("seen_strings", "AAA", "data.seen_strings"),
        ("seen_strings", "AAAA", "data.seen_strings"),
        ("source_counts", [0, 1, None], "data.source_counts.2"),
        ("train_row", 3, "data.train_row"),
        ("value", float("nan"), "metrics.value"),
        ("value", True, "metrics.value"),
        ("self", 3, "metrics.self"),
    ],
)
def test_a_record_of_another_type_or_out_of_bounds_is_refused(field, value, named):
    part = named.partition(".")[0]
    saved = {"settings": {}, "tokenizers": {}, "data": SAVED, "metrics": {"metric": "bleu"}, "versions": {}}
    with pytest.raises(ModelFileError, match=f"'{named}' in the model file is not valid") as caught:
        Parts.read(saved | {part: saved[part] | {field: value}})
    assert caught.value.got
    assert caught.value.expected


def test_there_is_one_count_per_token_or_none():
    TrainingData().check_vocabularies(3, 4)
    TrainingData(**SAVED).check_vocabularies(3, 4)
    with pytest.raises(ModelFileError, match=r"'data\.target_counts' in the model file is not valid") as caught:
        TrainingData(**SAVED).check_vocabularies(3, 5)
    assert (caught.value.got, caught.value.expected) == ("4 counts", "5, one per token of the vocabulary, or none")
