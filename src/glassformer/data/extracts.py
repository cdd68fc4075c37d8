"""Rows of a table, written to files of its own format, with all columns and the header.

    write_parts(table, {"train": [0, 2], "test": [1]}, folder)

The parts of a folder of tables are folders, with a file for each of its files that has rows in this part. A compressed
table is written without compression.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from glassformer.data.columns import Columns
from glassformer.data.delimited import QUOTES_READ, csv_text
from glassformer.data.formats import open_source, suffix_of, table_files, without_compression
from glassformer.data.lines import Lines, open_bytes, pyarrow
from glassformer.data.open_table import OpenTable
from glassformer.data.tables import Table
from glassformer.data.typed import record_batches
from glassformer.storage.files import atomic, check_empty, writing

_BOM = "\ufeff"
HEADER = 0  # the number of the header where rows count from 1


def write_parts(table: Table, parts: Mapping[str, Sequence[int]], folder: Path) -> dict[str, list[Path]]:
    """Write the kept pairs of each part (by index) as a table, and return the files of each, or its folder.

    Also written are `rows.csv`, with the row number and the part of each kept row, and `ledger.jsonl`. Raises RunError
    for a folder that is not empty or cannot be written.
    """
    check_empty(folder)
    part_of = {index: part for part, indices in parts.items() for index in indices}
    names = _names([path for _, path in table.files]) or [""]
    new: dict[str, list[Path]] = {}
    with writing(folder):
        for directory in (folder, *(folder / part for part in parts if table.files)):
            directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for (path, indices), name in zip(table.by_file(), names, strict=True):
            of_rows = {table.rows[index]: part_of[index] for index in indices}
            new = {part: _new_files(folder, part, path, name) for part in parts if part in of_rows.values()}
            _write(path, table, of_rows, {part: list(map(stack.enter_context, map(atomic, new[part]))) for part in new})
        _write_rows(table, part_of, stack.enter_context(atomic(folder / "rows.csv")))
    table.ledger.write(folder / "ledger.jsonl")
    return {part: [folder / part] if table.files else new[part] for part in parts}


def _write_rows(table: Table, part_of: Mapping[int, str], path: Path) -> None:
    """Write the number and the part of each row, and of several files the file."""
    indices = range(len(table.rows))
    columns: dict[str, Iterable[object]] = {"file": map(table.file, indices)} if table.files else {}
    columns |= {"row": table.rows, "part": map(part_of.__getitem__, indices)}
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))


def _names(paths: Sequence[str]) -> list[str]:
    """Return a name for each file of a folder or pattern: the file's name, after a number where names are equal."""
    names = [without_compression(Path(path).name) for path in paths]
    is_unique = len({name.casefold() for name in names}) == len(names)
    return names if is_unique else [f"{number:05}-{name}" for number, name in enumerate(names, 1)]


def _new_files(folder: Path, part: str, path: str, name: str) -> list[Path]:
    """Return the files of a part for the rows of the table at `path`; `name` is its name in a folder of tables."""
    if name:
        return [folder / part / name]
    names = [without_compression(file.name) for file in table_files(path)]
    return [folder / (f"{part}.{file}" if len(names) > 1 else part + Path(file).suffix) for file in names]


def _write(path: str, table: Table, part_of: Mapping[int, str], written: Mapping[str, Sequence[Path]]) -> None:
    """Write the rows of one table."""
    file = table_files(path)[0]
    if form := {".parquet": "Parquet", ".arrow": "Arrow"}.get(suffix_of(file)):
        _write_batches(file, part_of, {name: new for name, (new,) in written.items()}, form)
        return
    with ExitStack() as stack:
        outputs = {
            name: [stack.enter_context(file.open("w", encoding="utf-8", newline="")) for file in files]
            for name, files in written.items()
        }
        for row, texts in _texts(path, table):
            for name in outputs if row == HEADER else filter(None, [part_of.get(row)]):
                for output, text in zip(outputs[name], texts, strict=True):
                    if text.startswith(_BOM) and not output.tell():
                        output.write(_BOM)  # a reader drops one, and the text begins with one
                    output.write(text)


def _texts(path: str, table: Table) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the number of each row, as in the ledger, with its text in each file at a path of the table.

    The number of the header is HEADER, and that is also the number of a line before it that states the separator.
    """
    with open_source(path) as source, ExitStack() as stack:
        if source.format == "JSON Lines":
            stream = stack.enter_context(open_bytes(Path(path)))
            yield from ((row, [text + "\n"]) for row, text, _ in Lines(stream, path, lone_cr=True).numbered())
            return
        columns = Columns.of(source, (), table.header_setting, path, like=table.taken)
        if source.is_stated:
            yield HEADER, [f"sep={source.separator}\n"]
        if columns.consumed:
            yield HEADER, _as_text(source.first, source)
        for row, (_, cells, _, _) in enumerate(source.rows(range(source.width), columns.consumed, ()), 1):
            yield row, _as_text(cells, source)


def _as_text(cells: Sequence[str], source: OpenTable) -> list[str]:
    """Return a row in the format of its source, as text in each of its files."""
    if source.format == "parallel text":
        return [cell + "\n" for cell in cells]
    if source.format == "TSV" and QUOTES_READ not in source.notes:
        return ["\t".join(cells) + "\n"]
    return [csv_text([cells], source.separator)]


def _write_batches(path: Path, part_of: Mapping[int, str], written: Mapping[str, Path], form: str) -> None:
    """Write the rows of a table in Parquet or Arrow, with its schema."""
    pyarrow(f"writing {form}")
    from pyarrow.ipc import new_file
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as stack:
        stream = stack.enter_context(open_bytes(path))
        schema, batches = record_batches(form, stream, path)
        make = ParquetWriter if form == "Parquet" else new_file
        writers = {name: stack.enter_context(make(str(file), schema)) for name, file in written.items()}
        row = 1
        for batch in batches(None):
            parts = [part_of.get(number) for number in range(row, row + batch.num_rows)]
            for name, writer in writers.items():
                indices = [index for index, part in enumerate(parts) if part == name]
                if indices:
                    writer.write_batch(batch.take(indices))
            row += batch.num_rows
