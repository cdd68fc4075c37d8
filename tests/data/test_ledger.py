"""The ledger counts, sums up and is written whole or not at all."""

import json

from glassformer.data.ledger import Ledger, Reason


def filled() -> Ledger:
    ledger = Ledger()
    ledger.read, ledger.kept = 1200, 1194
    ledger.add(3, 4, "a.csv", Reason.EMPTY_SOURCE)
    for row, length in enumerate((600, 513, 1000, 700), 5):
        ledger.add(row, None, "a.csv", Reason.SOURCE_TOO_LONG, f"{length} tokens, of at most 512")
    ledger.add(9, 10, "a.csv", Reason.NOT_UTF8, "byte 0xff at offset 37 of the file")
    return ledger


def test_the_reasons_do_not_change():
    """Changing one changes the format of ledger.jsonl and of the counts in model files."""
    listed = """
        blank line; empty source; empty target; empty feature; source too long; target too long;
        wrong number of cells; unclosed quote; text after a closing quote; row too long; not UTF-8; NUL character;
        not JSON; not a JSON object; JSON nested too deeply; repeated key; missing value; value that is not text;
        lone surrogate; contradiction; duplicate
    """
    assert [reason.value for reason in Reason] == [reason.strip() for reason in listed.split(";")]


def test_entries_are_counted_and_summed_up_by_their_reason_whatever_the_detail():
    ledger, other = filled(), Ledger()
    assert ledger.counts() == {"read": 1200, "kept": 1194, "empty source": 1, "source too long": 4, "not UTF-8": 1}
    assert {type(key) for key in ledger.counts()} == {str}  # they go into the model file
    other.read = 2
    for row in (20, 30):
        other.add(row, None, "b.csv", Reason.SOURCE_TOO_LONG, "999 tokens, of at most 512")
    ledger.include(other)
    assert ledger.summary().splitlines() == [
        "1,202 rows read, 1,194 kept",
        "  1 × empty source (row 3)",
        "  6 × source too long (row 5, 6, 7, 8, 20, …)",
        "  1 × not UTF-8 (row 9)",
    ]
    assert Ledger().summary() == "0 rows read, 0 kept"


def test_the_ledger_is_written_as_json_lines(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled()
    ledger.add(10, 11, "donn\u00e9es.csv", Reason.EMPTY_TARGET)
    ledger.add(11, 12, "not-utf8-\udcff.csv", Reason.EMPTY_TARGET)
    ledger.write(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert lines[0] == {"row": 3, "line": 4, "file": "a.csv", "reason": "empty source", "detail": ""}
    assert (lines[1]["line"], lines[1]["detail"]) == (None, "600 tokens, of at most 512")
    assert [line["file"] for line in lines[-2:]] == ["donn\u00e9es.csv", "not-utf8-\udcff.csv"]
    assert list(tmp_path.iterdir()) == [path]
