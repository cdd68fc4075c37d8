"""A run on a table that is stored: the same ids, split, ledger and weights as in memory, and exact when resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glassformer.before.plan import Plan, plan
from glassformer.data import corpus, tables
from glassformer.data.stored import FOLDER_VARIABLE, StoredPairs
from glassformer.errors import TableError
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.training import prepare
from tests.tiny import OVERRIDES

TINY = OVERRIDES | {"training.steps": 6, "training.batch_tokens": 128, "training.validate_every": 3}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "files"))
    monkeypatch.setattr(corpus, "BLOCK_ROWS", 16)
    path = tmp_path / "table.csv"
    words = [f"{'ab' * (i % 5)}c{i % 70}" for i in range(200)]
    words[50] = words[150] = "x" * 90
    path.write_text("source,target\n,empty\n" + "".join(f"{word},{word[::-1]}\n" for word in words))
    return path


def planned(
    path: Path, out: Path, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> Plan:
    with monkeypatch.context() as patch:
        patch.setattr(tables, "LARGE_CHARACTERS", 0 if stored else 2**40)
        found = plan(path, out, overrides=TINY | settings)
    assert isinstance(found.table.pairs, StoredPairs) == stored
    return found


KINDS = [
    {"tokens.source.kind": "characters", "tokens.target.kind": "words", "data.max_source_length": 80},
    {"tokens.shared": True, "tokens.source.kind": "bytes", "tokens.target.kind": "bytes", "data.max_target_length": 80},
]


@pytest.mark.parametrize("settings", KINDS)
def test_a_stored_table_gives_the_data_and_the_weights_of_one_in_memory(tmp_path, table, monkeypatch, settings):
    runs = [
        planned(table, tmp_path / name, settings, monkeypatch, stored=name != "memory") for name in ("memory", "stored")
    ]
    for run in runs[1:]:
        for name in ("fingerprint", "valid_pairs", "data"):
            assert getattr(run.prepared, name) == getattr(runs[0].prepared, name), name
        assert run.prepared.ledger.entries == runs[0].prepared.ledger.entries
        assert run.settings == runs[0].settings
        for side in ("source", "target"):
            expected, found = (getattr(each.prepared.train, side) for each in (runs[0], run))
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.lengths.tolist() == expected.lengths.tolist()
    assert runs[0].prepared.ledger.counts()["read"] == 201
    assert len(runs[0].prepared.ledger.entries) == 3
    first, *others = [weights_after(run) for run in runs]
    assert all(np.array_equal(first[name], other[name]) for other in others for name in first)


def weights_after(run: Plan) -> dict[str, np.ndarray]:
    list(run.run("cpu"))
    return ModelFile.load(run.directory.model).tensors


def test_too_many_long_rows_are_refused(tmp_path, table, monkeypatch):
    with pytest.raises(TableError, match="more than half of the sources are longer than the limit"):
        planned(table, tmp_path / "run", {**KINDS[0], "data.max_source_length": 2}, monkeypatch, stored=True)


def test_words_of_a_larger_table_are_learned_from_a_sample_which_is_said(tmp_path, table, monkeypatch):
    monkeypatch.setattr(prepare, "LEARNED_ROWS", 80)
    stored, memory = (
        planned(table, tmp_path / name, KINDS[0], monkeypatch, stored=name == "stored") for name in ("stored", "memory")
    )
    assert stored.prepared.target_tokenizer.vocabulary == memory.prepared.target_tokenizer.vocabulary
    assert stored.prepared.data.target_counts[3] > 0  # <unk>
    assert any("learned from 80 of 180 rows" in notice.text for notice in stored.notices)
