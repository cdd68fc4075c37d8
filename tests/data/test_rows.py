"""Rows are read one by one, from files and from streams; nothing after a row is needed to read it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from glassformer.data.rows import PLAIN, open_columns, open_lines
from glassformer.settings import DataSettings


class Endless(io.RawIOBase):
    """A stream whose lines come from a generator, and which counts those that were read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines, self.count = lines, 0

    def readable(self) -> bool:
        return True

    def readline(self, _size: int | None = -1) -> bytes:  # type: ignore[override]
        self.count += 1
        return next(self._lines, b"")


def numbered(form: str) -> Iterator[bytes]:
    n = 0
    while True:
        yield (form % n).encode()
        n += 1


@pytest.mark.parametrize("form", ["%d,word\n", "%d\tword\n", '{"0": %d}\n'])
def test_a_row_of_an_endless_stream_is_there_before_the_next_ones(form):
    stream = Endless(numbered(form))
    with open_columns(stream, ["0"], DataSettings(header="no")) as opened:  # type: ignore[arg-type]
        for n in range(100):
            assert list(next(opened.rows).cells) == [str(n)]
            assert stream.count <= n + 3


LINES = [b"source,target\n", b"walk,V;PST\n", b'"a","b"\n', b"one column\n", b"abc; d\n", b"a, b\tc; d\n"]


@pytest.mark.parametrize("line", [*LINES, b'{"0": "a", "id": 1}\n'])
def test_the_first_row_of_a_stream_is_read_before_the_second_one_is_there(line):
    stream = Endless(iter([line]))
    with open_columns(stream, ["0"], DataSettings(header="no")) as opened:  # type: ignore[arg-type]
        assert (next(opened.rows).number, stream.count) == (1, 1)


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


def test_an_error_of_whoever_uses_the_rows_is_not_one_of_the_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")

    def use() -> None:
        with open_columns(str(path), [0], DataSettings(header="no")) as opened:
            next(opened.rows)
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        use()
