"""Rows are read one by one, from files and from streams; nothing after a row is needed to read it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pytest

from glassformer.data.rows import PLAIN, open_columns, open_lines
from glassformer.errors import TableError, UsageError
from glassformer.paper.settings import DataSettings


class Endless(io.RawIOBase):
    """A stream whose lines come from a generator, and which counts those that were read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines, self.count = lines, 0

    def readable(self) -> bool:
        return True

    def readline(self, _size: int | None = -1) -> bytes:  # type: ignore[override]
        self.count += 1
        return next(self._lines, b"")

    read1 = readline


def numbered(form: str) -> Iterator[bytes]:
    n = 0
    while True:
        yield (form % n).encode()
        n += 1


@pytest.mark.parametrize(("form", "suffix"), [("%d,word\n", ".csv"), ("%d\tword\n", ".tsv"), ('{"0": %d}\n', ".jsonl")])
def test_a_row_of_an_endless_stream_is_there_before_the_next_ones(form, suffix):
    stream = Endless(numbered(form))
    with open_columns(stream, ["0"], DataSettings(header="no"), suffix=suffix) as opened:  # type: ignore[arg-type]
        for n in range(100):
            assert list(next(opened.rows).cells) == [str(n)]
            assert stream.count <= n + 3


def test_a_line_of_an_endless_stream_is_there_before_the_next_ones():
    stream = Endless(numbered("line %d\n"))
    with open_lines(stream) as opened:  # type: ignore[arg-type]
        assert (opened.format, next(opened.rows).cells, stream.count) == (PLAIN, ("line 0",), 1)


@pytest.mark.parametrize(
    ("content", "format_name"),
    [
        (b"a,b\n", "CSV"),
        (b"\xef\xbb\xbfa\n", "CSV"),
        (b"a\tb,c\n", "TSV"),
        (b'{"a": "x\\ty"}\n', "JSON Lines"),
        (b'\xef\xbb\xbf{"a": 1}\n', "JSON Lines"),
        (b"{a},b\n", "CSV"),
        (b"[1]\n", "CSV"),
    ],
)
def test_the_first_line_of_a_stream_decides_its_format(content, format_name):
    with open_columns(io.BytesIO(content), [0], DataSettings(header="no")) as opened:
        assert opened.format == format_name
        assert len(list(opened.rows)) == 1


@pytest.mark.parametrize(
    ("content", "suffix", "error", "what"),
    [(b"", None, TableError, "has no rows"), (b"a\n", ".xml", UsageError, "there is no format 'xml'")],
)
def test_an_empty_stream_and_an_unknown_format_are_errors(content, suffix, error, what):
    with pytest.raises(error, match=what), open_columns(io.BytesIO(content), [0], DataSettings(), suffix=suffix):
        pass


def test_an_error_of_whoever_uses_the_rows_is_not_one_of_the_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")

    def use() -> None:
        with open_columns(str(path), [0], DataSettings(header="no")) as opened:
            next(opened.rows)
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        use()


@pytest.mark.parametrize("form", ["file", "stream"])
def test_arrow_is_read_from_a_stream(form: str) -> None:
    table, content = pa.table({"word": ["a", "b"]}), io.BytesIO()
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with make(content, table.schema) as writer:
        writer.write_table(table)
    with open_columns(io.BytesIO(content.getvalue()), ["word"], DataSettings(), suffix=".arrow") as opened:
        assert [list(row.cells) for row in opened.rows] == [["a"], ["b"]]
