"""Files that are not tables: what each is, and how to make a table of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from glassformer.data.delimited import Row
from glassformer.data.headers import names_usual
from glassformer.data.lines import to_utf8
from glassformer.errors import TableError, shortened

HEAD_BYTES = 64
"""First bytes of a file that are looked at."""

_SPREADSHEET = "save the sheet as a table: File > Save As > CSV UTF-8 (Comma delimited)"
_SUFFIXES = {
    ".xlsx": ("an Excel workbook", _SPREADSHEET),
    ".xls": ("an Excel workbook", _SPREADSHEET),
    ".xlsm": ("an Excel workbook", _SPREADSHEET),
    ".ods": ("a spreadsheet", _SPREADSHEET),
    ".docx": ("a Word document", "copy its table into a spreadsheet; " + _SPREADSHEET),
    ".pdf": ("a PDF document", "copy its table into a spreadsheet; " + _SPREADSHEET),
    ".zip": ("a ZIP archive", "unzip {path}, and name the file that is in it"),
    ".json": ("a JSON file, and JSON Lines has one object a line", "jq -c '.[]' {path} > table.jsonl"),
    ".txt": (
        "one column of text, and pairs need two",
        "give two parallel text files as source.txt,target.txt; or name a tab-separated table .tsv",
    ),
}
DOCUMENTS = frozenset(_SUFFIXES) - {".txt", ".json"}
"""Suffixes of files that are neither tables nor plain lines."""

_BYTES = {
    b"PK\x03\x04": ("a ZIP archive or an Excel workbook", f"{_SPREADSHEET}; or unzip {{path}}"),
    b"\xd0\xcf\x11\xe0": ("an Excel workbook", _SPREADSHEET),
    b"\x1f\x8b": ("compressed by gzip", "give it a name that ends in .gz"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "give it a name that ends in .zst"),
    b"%PDF-": ("a PDF document", _SUFFIXES[".pdf"][1]),
    b"SQLite format 3\0": ("a database", "sqlite3 -csv -header {path} 'SELECT … FROM …' > table.csv"),
    b"ARROW1\0\0": ("an Arrow file", "give it a name that ends in .arrow"),
    b"PAR1\x15": ("a Parquet file", "give it a name that ends in .parquet"),
}
_MARKS = ("#", ";;", "//", "%")


def check_suffix(path: Path, suffix: str) -> None:
    """Raise TableError for a suffix of another kind of file."""
    if suffix in _SUFFIXES:
        raise _is_no_table(path, *_SUFFIXES[suffix])


def check_bytes(head: bytes, path: Path, suffix: str) -> None:
    """Raise TableError for a table with the first bytes of another kind of file; `suffix` is the format's suffix."""
    magic = {".parquet": b"PAR1", ".arrow": b"ARROW1"}.get(suffix)
    for start, description in _BYTES.items():
        if head.startswith(start) and not (magic and start.startswith(magic)):
            raise _is_no_table(path, *description)
    if magic is not None:
        return
    if suffix in (".jsonl", ".ndjson") and (array := re.match(rb"\s*\[\s*([{\[]?)", head)):
        what, hint = "a JSON array", _SUFFIXES[".json"][1]
        if not array[1]:
            what, hint = "JSON arrays", "jq -c '{{source: .[0], target: .[1]}}' {path} > table.jsonl"
        raise _is_no_table(path, f"{what}, and JSON Lines has one object a line", hint)
    head = head[:HEAD_BYTES]
    for encoding, zeros, letters in (("UTF-16LE", head[1::2], head[::2]), ("UTF-16BE", head[::2], head[1::2])):
        if len(zeros) > 1 and zeros.count(0) > 0.7 * len(zeros) and letters.count(0) < 0.3 * len(letters):
            raise _is_no_table(path, f"text in {encoding[:6]}, and not in UTF-8", to_utf8(path, encoding))


def _is_no_table(path: Path, what: str, hint: str) -> TableError:
    return TableError(f"the file is {what}", where=str(path), hint=hint.format(path=quote(str(path))))


def check_first_rows(rows: Sequence[Row], path: Path) -> None:
    """Raise TableError for a title or comments above the table; `rows` are its first rows with cells."""
    rows = [row for row in rows if any(map(str.strip, row.cells))]
    cells = [row.cells for row in rows]
    n_above = 0
    while n_above + 1 < len(cells) and _is_above(cells[n_above], cells[n_above + 1 :]):
        n_above += 1
    if not n_above:
        return
    first, last = rows[0].line, rows[n_above - 1].line or 0
    table = quote(f"{path.stem}.table{path.suffix}")
    what = "a comment" if cells[0][0].startswith(_MARKS) else "a title"
    raise TableError(
        f"the first line is {what}, and not a row of the table",
        where=f"{path}, line {first}" + (f" to {last}" if n_above > 1 else ""),
        got=repr(shortened(cells[0][0])),
        expected="a header or a row in the first line",
        hint=f"leave it out: tail -n +{rows[n_above].line or last + 1} {quote(str(path))} > {table}",
    )


def _is_above(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the row before `rows` is a title or a comment.

    It has one cell, and the other rows have more; or it is above a header; or it alone begins as a comment does.
    """
    widths = [len(cells) for cells in rows]
    width = max(set(widths), key=widths.count)
    if width < 2 or names_usual(first):
        return False
    if len(first) == 1 and widths.count(width) >= 0.9 * len(widths):
        return True
    uncommented = [cells for cells in rows if not cells[0].startswith(_MARKS)]
    is_comment = first[0].startswith(_MARKS) and uncommented == list(rows[len(rows) - len(uncommented) :])
    is_above_header = bool(uncommented) and names_usual(uncommented[0])
    if is_comment:
        return is_above_header or len(first) != width
    return is_above_header and uncommented[0] is rows[0] and sum(1 for cell in first if cell.strip()) == 1
