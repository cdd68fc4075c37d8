"""Hostile tables from the command line: no traceback, an exit code of the tree of errors, and answer i is of row i."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glassformer.data.datasets import dates
from glassformer.errors import EXIT_LEFT_OUT
from glassformer.inference.translator import Translator
from tests.hostile import tables, write

TABLES = tables()
FEW = [*TABLES][::14]
"""Tables of every format for the fast suite."""

DATES = [source for source, _ in dates(12, seed=8)]
CELLS = [
    *(
        DATES[0],
        f"{DATES[1]}\n",
        f'"{DATES[2]}"',
        f",{DATES[3]},",
        "",
        f"\ufeff{DATES[4]}",
        f"{DATES[5]}\r\n{DATES[6]}",
    ),
    *(" ", f"{DATES[7]}\u2028", f"\x1f{DATES[8]}", DATES[0], f"{DATES[9]}\u200b\u202e", "\r", f"{DATES[10]}\x85\x0b"),
    *('"', "\U0001f469\u200d\U0001f4bb", "'", DATES[11]),
]
"""Cells that CSV, JSON Lines and Parquet can hold. Each has an answer of its own, or none."""


@pytest.fixture(scope="session")
def answers(run) -> dict[str, str]:
    """The answer to each cell, translated alone."""
    translator = Translator.load(run)
    return {
        cell: one_line(translator.translate([cell], num_beams=1)[0].text) for cell in {*CELLS, *map(in_one_line, CELLS)}
    }


def one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def in_one_line(cell: str) -> str:
    """A cell as TSV and plain text can hold it."""
    return cell.replace("\r", "").replace("\n", "").replace("\t", "")


def tables_of(verb: str) -> list[object]:
    """The tables of a verb; `score` of a huge target is computed, and takes minutes."""
    names = [name for name in TABLES if verb != "score" or "huge cell" not in name]
    return [pytest.param(verb, name, marks=() if name in FEW else pytest.mark.slow) for name in names]


@pytest.mark.parametrize(
    ("verb", "name"),
    [case for verb in ("audit", "split", "translate", "evaluate", "score") for case in tables_of(verb)],
)
def test_a_hostile_table_ends_in_an_exit_code_and_a_message(call, run, tmp_path, verb, name):
    path = write(TABLES[name], tmp_path)
    words = {
        "audit": ("audit", path, "--set", "data.strip_controls=true", "--json"),
        "split": ("split", path, "--out", tmp_path / "parts"),
        "translate": ("translate", run, path, "--column", "0", "--set", "decoding.max_new_tokens=2"),
        "evaluate": ("evaluate", run, path, "--beam", "1", "--set", "decoding.max_new_tokens=2"),
        "score": ("score", run, path),
    }[verb]
    answer = call(*words, "--bad-rows", "skip")
    assert answer.code in ((0, 1, 2, EXIT_LEFT_OUT) if verb == "translate" else (0, 1, 2)), answer
    assert "Traceback" not in answer.err
    assert ("error: " in answer.err) == (answer.code in (1, 2))
    if verb == "audit" and answer.code == 0:
        json.loads(answer.out)


def test_a_huge_text_is_shortened_on_the_terminal_and_not_in_json(call, run, tmp_path, table_of):
    table = table_of(tmp_path / "t.csv", [("source", "target"), (DATES[0], "x" * 50_000)])
    assert len(call("evaluate", run, table, "--beam", "1").out) < 5_000
    (example,) = json.loads(call("evaluate", run, table, "--beam", "1", "--json").out)["examples"]
    assert example["gold"] == "x" * 50_000


def write_cells(folder: Path, form: str) -> tuple[str, list[str | None]]:
    """A table of one format with CELLS; the second value is its cells, None where the row is damaged or blank."""
    cells: list[str | None] = [*CELLS]
    pairs = [{"text": cell, "n": str(row)} for row, cell in enumerate(CELLS)]
    path = folder / f"t.{form}"
    match form.removesuffix(".gz"):
        case "csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\r\n")
                writer.writerow(["text", "n"])
                for row in pairs:
                    writer.writerow(row.values())
                file.write("\r\nragged\r\n" + f'"{DATES[0]}" x,1\r\n' + f"{DATES[1]},last")
            cells += [None, None, None, DATES[1]]
        case "tsv":
            cells = [in_one_line(cell) for cell in CELLS]
            lines = [f"{cell}\t{row}" for row, cell in enumerate(cells)]
            content = ("text\tn\n" + "\n".join([*lines, "", "ragged", f"{DATES[1]}\tlast"])).encode()
            path.write_bytes(gzip.compress(content) if form.endswith(".gz") else content)
            cells += [None, None, DATES[1]]
        case "jsonl":
            lines = [*map(json.dumps, pairs), "", "{", '{"text": "\\ud800", "n": "1"}', '{"text": null}', "[]"]
            path.write_text("\n".join([*lines, json.dumps({"n": "2", "text": DATES[1]})]), encoding="utf-8")
            cells += [None, None, None, None, None, DATES[1]]
        case "parquet":
            texts = [*CELLS, None, "a\0", DATES[1]]
            pq.write_table(pa.table({"n": range(len(texts)), "text": texts}), path, row_group_size=4)
            cells += [None, None, DATES[1]]
    return str(path), cells


@pytest.mark.parametrize("form", ["csv", "tsv", "tsv.gz", "jsonl", "parquet"])
def test_answer_i_is_that_of_row_i_whatever_is_in_the_rows_around_it(call, run, tmp_path, answers, form):
    path, cells = write_cells(tmp_path, form)
    expected = ["" if cell is None else answers[cell] for cell in cells]
    assert len(set(expected)) >= 10
    out = tmp_path / "out.txt"
    words = ("translate", run, path, "--column", "text", "--bad-rows", "skip", "--beam", "1")
    answer = call(*words, "--out", out)
    assert answer.code == 0, answer.err
    assert out.read_text(encoding="utf-8").split("\n") == [*expected, ""]
    listed = call(*words, "--ledger", tmp_path / "rows.jsonl", "--json")
    rows = [json.loads(line) for line in listed.out.split("\n") if line]
    assert [one_line(row["text"]) for row in rows] == expected
    in_ledger = [json.loads(line)["row"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert in_ledger == [row for row, cell in enumerate(cells, 1) if cell is None]


def test_answer_i_is_that_of_line_i_of_plain_text(call, run, answers):
    cells = [in_one_line(cell) for cell in CELLS]
    answer = call("translate", run, "-", "--beam", "1", stdin="\n".join(cells).encode())
    assert answer.code == 0, answer.err
    assert answer.out.split("\n") == [*(answers[cell] for cell in cells), ""]
