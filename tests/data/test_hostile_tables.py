"""Hostile tables: rows in = rows kept + rows in the ledger, always, and no error but those for the user.

The number of rows is counted from the bytes of the table, but for CSV with quotes.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from glassformer.data.cleaning import clean
from glassformer.data.extracts import write_parts
from glassformer.data.ledger import Ledger
from glassformer.data.prepare import Prepared, prepare
from glassformer.data.rows import open_columns
from glassformer.data.splits import split
from glassformer.data.tables import Table, read_table
from glassformer.errors import GlassformerError, TableError
from glassformer.settings import DataSettings
from tests import tiny
from tests.hostile import BOM, drawn, tables, write

TABLES = tables()
CLEANING = st.fixed_dictionaries(
    {},
    optional={
        "strip_controls": st.just(True),
        "drop_duplicates": st.just(True),
        "drop_contradictions": st.just(True),
        "max_source_length": st.integers(1, 5),
        "max_target_length": st.integers(1, 5),
        "header": st.sampled_from(["auto", "yes", "no"]),
        "valid_fraction": st.sampled_from([0.0, 0.5]),
    },
)
ALL = dict.fromkeys(("strip_controls", "drop_duplicates", "drop_contradictions"), True)
ALL |= {"max_source_length": 9, "max_target_length": 9}


def accounted(ledger: Ledger, kept: list[int], n_rows: int) -> None:
    """Every row from 1 to n_rows is kept or in the ledger, and in one of them once."""
    assert sorted([*kept, *(entry.row for entry in ledger.entries)]) == list(range(1, n_rows + 1))
    assert (ledger.read, ledger.kept) == (n_rows, len(kept))


def n_rows_of(path: str, table: Table) -> int:
    """The number of rows of a table, without its reader."""
    first = Path(path if Path(path).exists() else path.split(",")[0])
    content = first.read_bytes()
    content = gzip.decompress(content) if first.suffix == ".gz" else content
    if table.format == "Arrow":
        return len(
            pa.ipc.open_file(content).read_all() if content[:6] == b"ARROW1" else pa.ipc.open_stream(content).read_all()
        )
    if table.format == "Parquet":
        return pq.read_metadata(io.BytesIO(content)).num_rows
    content = content.removeprefix(BOM)
    n_headers = int(table.header and table.format in ("CSV", "TSV"))
    if table.format == "parallel text":
        return content.count(b"\n") + (content[-1:] not in (b"", b"\n")) - n_headers
    if table.format != "CSV" or b'"' not in content:
        lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return lines.count(b"\n") + (lines[-1:] not in (b"", b"\n")) - n_headers
    return table.ledger.read  # cells have many lines: tests/data/test_delimited.py counts the rows


def attempt(call: Callable[[], Any]) -> Any:
    """The value of a call, or its error for the user. Any other error ends the test."""
    try:
        return call()
    except GlassformerError as error:
        return error


def check(path: str, chosen: dict[str, object], folder: Path) -> None:
    """Read, clean, prepare and split a table. Every row is accounted for at each step, or there is an error."""
    data = DataSettings(**{"bad_rows": "skip", **chosen})
    table = attempt(lambda: read_table(path, data))
    if not isinstance(table, Table):
        return
    n_rows = n_rows_of(path, table)
    accounted(table.ledger, table.rows, n_rows)
    for pair in table.pairs:
        assert all(text.strip() and "\0" not in text and text.encode() for text in pair)
    check_stop(path, data, table)
    with open_columns(path, [0], data) as column:
        assert [row.number for row in column.rows] == list(range(1, n_rows + 1))
    before = [asdict(entry) for entry in table.ledger.entries]
    cleaned = attempt(lambda: clean(table, data))
    if isinstance(cleaned, Table):
        accounted(cleaned.ledger, cleaned.rows, n_rows)
        check_prepared(attempt(lambda: prepare(cleaned, tiny.settings(data=data.model_dump()))), n_rows)
    assert [asdict(entry) for entry in table.ledger.entries] == before
    check_split(table, data, folder)


def check_prepared(prepared: Any, n_rows: int) -> None:
    """Every row is trained on, held out, or in the ledger."""
    if isinstance(prepared, Prepared):
        n_kept = len(prepared.train) + len(prepared.valid_pairs)
        assert prepared.ledger.read == n_rows == n_kept + len(prepared.ledger.entries)
        assert prepared.ledger.kept == n_kept
        assert sum(count for name, count in prepared.data.rows.items() if name != "read") == n_rows
        assert len({entry.row for entry in prepared.ledger.entries}) == len(prepared.ledger.entries)


def check_stop(path: str, data: DataSettings, skipped: Table) -> None:
    """Without `bad_rows` "skip", the table is read alike, or the first damaged rows are named."""
    table = attempt(lambda: read_table(path, data.model_copy(update={"bad_rows": "stop"})))
    if isinstance(table, TableError):
        assert "damaged" in table.what
        assert skipped.ledger.entries
    else:
        assert (table.pairs, table.rows) == (skipped.pairs, skipped.rows)
        assert {str(entry.reason) for entry in table.ledger.entries} <= {
            *("blank line", "empty source", "empty target", "missing value")
        }


def check_split(table: Table, data: DataSettings, folder: Path) -> None:
    """Every kept row is in one of the files of the parts."""
    parts = attempt(lambda: split(table.pairs, 0.5, 0, seed=1))
    if isinstance(parts, GlassformerError):
        return
    files = write_parts(table, parts, folder / "parts")
    again = data.model_copy(update={"header": "yes" if table.header else "no", "bad_rows": "stop"})
    read = [read_table(",".join(map(str, each)), again) for each in files.values()]
    assert sorted(pair for each in read for pair in each.pairs) == sorted(table.pairs)
    assert not any(each.ledger.entries for each in read)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_written_by_hand_loses_no_row(tmp_path, name):
    path = write(TABLES[name], tmp_path)
    check(path, {}, tmp_path)
    check(path, ALL, tmp_path / "cleaned")


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(drawn, CLEANING)
def test_a_table_that_is_drawn_loses_no_row(files, chosen):
    with tempfile.TemporaryDirectory() as folder:
        check(write(files, Path(folder)), chosen, Path(folder))
