"""Whatever bytes a table holds: a clear error, or one row of output for each row, in its place."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from glassformer.errors import GlassformerError
from glassformer.jobs.inputs import JobInput
from glassformer.jobs.job import Job, here
from glassformer.jobs.layout import OutputForm
from glassformer.jobs.output import FileOutput
from glassformer.jobs.stream import SearchOptions
from glassformer.settings import DataSettings, DecodingSettings
from tests.jobs.conftest import LIMIT, Shouting

PIECES = {
    ".csv": [b"a", b"b,", b",", b'"', b'""', b"\n", b"\r\n", b"\r", b"\xff", b"\0", "é".encode(), b"x" * 30],
    ".tsv": [b"a", b"\t", b'"', b"\n", b"\r\n", b"\r", b"\xff", b"\0", "\u2028".encode(), b"x" * 30],
    ".jsonl": [b'{"a": "x"}', b'{"a": 1.50}', b'{"a": null}', b'{"b": 1}', b"{", b"}", b"[1]", b"\n", b"\xff", b"NaN"],
}


@pytest.mark.parametrize("suffix", PIECES)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_row_has_its_own_row_of_output(suffix, data):
    content = b"".join(data.draw(st.lists(st.sampled_from(PIECES[suffix]), max_size=25)))
    with TemporaryDirectory() as folder:
        table, out = Path(folder, f"t{suffix}"), Path(folder, "out.jsonl")
        table.write_bytes(content)
        given_input = JobInput(str(table), "0", keep=("0",), data=DataSettings(header="no", bad_rows="skip"))
        layout = OutputForm("jsonl", kept=("kept",))
        job = Job(given_input, here(Shouting()), SearchOptions(DecodingSettings()), layout, FileOutput(out))  # type: ignore[arg-type]
        try:
            scanned = given_input.scan()
        except GlassformerError:
            return
        with given_input.open() as opened:
            cells = [row.cells[0] if row.cells else "" for row in opened.rows]
        with given_input.open() as opened:
            for _ in job.run(opened):
                pass
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").split("\n")[:-1]]
        assert scanned.ledger.read == len(rows) == scanned.ledger.kept + len(scanned.ledger.entries)
        for row, cell in zip(rows, cells, strict=True):  # what is not a text keeps its type, such as a number
            kept = row["kept"]
            assert kept == cell if isinstance(kept, str) else repr(kept) == repr(json.loads(cell))
        assert [row["answer"] for row in rows] == [cell.upper() if len(cell) <= LIMIT else "" for cell in cells]
