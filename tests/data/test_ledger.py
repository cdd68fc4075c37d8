"""The ledger counts, sums up and is written whole or not at all."""

import errno
import json

import pytest

from glassformer.data.ledger import Fault, Ledger, LedgerEntry, Reason
from glassformer.errors import RunError


def filled() -> Ledger:
    ledger = Ledger()
    ledger.read, ledger.kept = 1200, 1194
    ledger.add(3, 4, "a.csv", Reason.EMPTY_SOURCE)
    for row, length in enumerate((600, 513, 1000, 700), 5):
        ledger.add(row, None, "a.csv", Reason.SOURCE_TOO_LONG, f"{length} tokens, of at most 512")
    ledger.add(9, 10, "a.csv", Reason.NOT_UTF8, "byte 0xff at offset 37 of the file")
    return ledger


def test_entries_are_counted_by_their_reason_whatever_the_detail():
    assert filled().counts() == {"read": 1200, "kept": 1194, "empty source": 1, "source too long": 4, "not UTF-8": 1}
    assert {type(key) for key in filled().counts()} == {str}  # they go into the model file


def test_the_reasons_do_not_change():
    """Changing one changes the format of ledger.jsonl and of the counts in model files."""
    assert [reason.value for reason in Reason] == [
        "blank line",
        "empty source",
        "empty target",
        "empty feature",
        "unit separator U+001F in a source with several inputs",
        "source too long",
        "target too long",
        "wrong number of cells",
        "unclosed quote",
        "text after a closing quote",
        "row too long",
        "not UTF-8",
        "NUL character",
        "not JSON",
        "not a JSON object",
        "JSON nested too deeply",
        "repeated key",
        "missing value",
        "value that is not text",
        "lone surrogate",
        "length ratio too low",
        "length ratio too high",
        "contradiction",
        "duplicate",
    ]


def test_a_row_that_is_dropped_after_reading_is_not_kept_and_changed_rows_are_counted():
    ledger, other = Ledger(), Ledger()
    ledger.read = ledger.kept = 3
    ledger.drop(2, "a.csv", Fault(Reason.DUPLICATE, "the same as row 1"))
    other.changed = 5
    ledger.include(other)
    assert ledger.counts() == {"read": 3, "kept": 2, "duplicate": 1}
    assert (ledger.entries[0].row, ledger.entries[0].line, ledger.entries[0].detail) == (2, None, "the same as row 1")
    assert ledger.summary().splitlines()[-1] == "  5 kept without their control characters"


def test_a_fault_reads_as_its_reason_and_detail():
    assert str(Fault(Reason.NUL)) == "NUL character"
    assert str(Fault(Reason.WRONG_NUMBER_OF_CELLS, "3 cells instead of 2")) == (
        "wrong number of cells (3 cells instead of 2)"
    )


def test_a_new_ledger_counts_nothing():
    assert Ledger().counts() == {"read": 0, "kept": 0}
    assert Ledger().summary() == "0 rows read, 0 kept"


def test_the_summary_names_the_first_rows_of_each_reason():
    ledger = filled()
    for row in (20, 30):
        ledger.add(row, None, "a.csv", Reason.SOURCE_TOO_LONG, "999 tokens, of at most 512")
    assert ledger.summary().splitlines() == [
        "1,200 rows read, 1,194 kept",
        "  1 × empty source (row 3)",
        "  6 × source too long (row 5, 6, 7, 8, 20, …)",
        "  1 × not UTF-8 (row 9)",
    ]


def test_a_ledger_includes_another():
    one, other = filled(), filled()
    one.include(other)
    assert (one.read, one.kept, len(one.entries)) == (2400, 2388, 12)


def test_an_entry_cannot_be_changed():
    with pytest.raises(AttributeError):
        LedgerEntry(1, 2, "a.csv", Reason.EMPTY_SOURCE).row = 5  # type: ignore[misc]


def test_the_ledger_is_written_as_json_lines(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled()
    ledger.add(10, 11, "donn\u00e9es.csv", Reason.EMPTY_TARGET)
    ledger.add(11, 12, "not-utf8-\udcff.csv", Reason.EMPTY_TARGET)
    ledger.write(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert lines[0] == {"row": 3, "line": 4, "file": "a.csv", "reason": "empty source", "detail": ""}
    assert lines[1] == {
        "row": 5,
        "line": None,
        "file": "a.csv",
        "reason": "source too long",
        "detail": "600 tokens, of at most 512",
    }
    assert [line["file"] for line in lines[-2:]] == ["donn\u00e9es.csv", "not-utf8-\udcff.csv"]
    assert list(tmp_path.iterdir()) == [path]


def test_writing_into_a_folder_that_cannot_be_created_is_a_run_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError) as caught:
        filled().write(tmp_path / "file" / "ledger.jsonl")
    assert caught.value.what == "cannot write the file"
    assert caught.value.where == str(tmp_path / "file" / "ledger.jsonl")


def test_a_full_disk_leaves_the_old_ledger(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    path.write_text("old")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="cannot write the file") as caught:
        filled().write(path)
    assert caught.value.got == "No space left on device"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
