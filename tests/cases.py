"""Tables as people have them, each with what its owner would read in it; a letter cipher: `laohb` → `MBPIC`."""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

N_ROWS = 40


def cipher(n_rows: int) -> list[tuple[str, str]]:
    """Return words and what the cipher makes of them."""
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 6))) for _ in range(n_rows)]
    return [(word, "".join(chr((ord(letter) - 96) % 16 + 65) for letter in word)) for word in dict.fromkeys(words)]


PAIRS = cipher(N_ROWS)
"""What is right in each case that is read, unless it says otherwise."""


@dataclass(frozen=True)
class Case:
    """A file with its content, and what is right: the columns (by name, or position), or the words of an error."""

    name: str
    content: bytes
    source: str | int = "source"
    target: str | int = "target"
    pairs: tuple[tuple[str, str], ...] = tuple(PAIRS)
    left_out: int = 0
    says: str = ""
    error: tuple[str, ...] = ()

    def write(self, folder: Path) -> Path:
        """Write the file."""
        path = folder / self.name
        path.write_bytes(self.content)
        return path


def lines(*header: str, row: str = "{x},{y}", end: str = "\n", pairs: list[tuple[str, str]] = PAIRS) -> bytes:
    """Return the header, then a row for each pair, in which {i}, {x} and {y} are its number and texts."""
    rows = [row.format(i=i, x=x, y=y) for i, (x, y) in enumerate(pairs)]
    return "".join(line + end for line in (*header, *rows)).encode()


def shuffled(header: str) -> bytes:
    """Return the pairs from the last one on, with their numbers."""
    _, *rows = lines(header, row="{i},{x},{y}").decode().splitlines()
    return "\n".join([header, *rows[::-1]]).encode()


def objects(*first: dict[str, object], source: str = "source", target: str = "target", **more: object) -> bytes:
    """Return JSON Lines: these objects, then one for each pair."""
    rows = [*first, *({**more, source: x, target: y} for x, y in PAIRS)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(columns: dict[str, list[object]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


X, Y = ([pair[side] for pair in PAIRS] for side in (0, 1))
NUMBERS = list(range(N_ROWS))
SAYING = tuple((f'say "{x}"', f'{y} "{y}"') for x, y in PAIRS)
SPACED = tuple((f" {x}", f" {y}") for x, y in PAIRS)
DOUBLE = tuple((x, f"{y}, {y}") for x, y in PAIRS)
DECIMALS = [(f"{n},{m}", f"null Komma {n} {m}") for n in range(5) for m in range(8)]
UMLAUTS = [(f"{x}ä", f"{y}Ä") for x, y in PAIRS]
SEMICOLON, TAB = "{x};{y}", "{x}\t{y}"

CASES = {
    "pandas index": Case("a.csv", lines(",source,target", row="{i},{x},{y}")),
    "pandas index, other names": Case("a.csv", lines(",Wort,Laute", row="{i},{x},{y}"), "Wort", "Laute"),
    "shuffled index": Case("a.csv", shuffled(",Wort,Laute"), "Wort", "Laute", tuple(PAIRS[::-1])),
    "shuffled id": Case("a.csv", shuffled("id,en,Laute"), "en", "Laute", tuple(PAIRS[::-1])),
    "some of the rows": Case("a.csv", lines("nr,Wort,Laute", row="{i}7,{x},{y}"), "Wort", "Laute"),
    "trailing comma": Case("a.csv", lines("source,target,", row="{x},{y},")),
    "trailing comma without a header": Case("a.csv", lines(row="{x},{y},"), 0, 1),
    "byte order mark and capitals": Case(
        "a.csv", b"\xef\xbb\xbf" + lines("ID,SOURCE,TARGET", row="{i},{x},{y}"), "SOURCE", "TARGET"
    ),
    "capitals in JSON": Case("a.jsonl", objects(source="Source", target="Target", ID=0), "Source", "Target"),
    "spaces in the header": Case("a.csv", lines("id, source, target", row="{i}, {x}, {y}"), pairs=SPACED),
    "id, word, pron": Case("a.csv", lines("id,word,pron", row="{i},{x},{y}"), "word", "pron"),
    "a number and no header": Case("a.tsv", lines(row="{i}\t{x}\t{y}"), 1, 2),
    "Parquet of pandas": Case("a.parquet", parquet({"__index_level_0__": NUMBERS, "en": X, "de": Y}), "en", "de"),
    "Parquet with an index": Case("a.parquet", parquet({"source": X, "target": Y, "__index_level_0__": NUMBERS})),
    "first object incomplete": Case("a.jsonl", objects({"source": "a"}), left_out=1),
    "first object incomplete, id": Case("a.jsonl", objects({"id": 0, "source": "a"}, id=1), left_out=1),
    "semicolons": Case("a.csv", lines("source;target", row=SEMICOLON), says="separated by semicolons"),
    "tabs": Case("a.csv", lines("word\tpron", row=TAB), "word", "pron", says="separated by tabs"),
    "commas in TSV": Case("a.tsv", lines("source,target"), says="separated by commas"),
    "decimal commas": Case(
        "a.csv", lines(row=SEMICOLON, pairs=DECIMALS), 0, 1, tuple(DECIMALS), says="separated by semicolons"
    ),
    "prose with commas": Case(
        "a.csv",
        lines("source;target", row="Oh, {x}, and; {y}"),
        pairs=tuple((f"Oh, {x}, and", f" {y}") for x, y in PAIRS),
        says="separated by semicolons",
    ),
    "line of Excel, semicolons": Case(
        "a.csv", lines("sep=;", "source;target", row=SEMICOLON, end="\r\n"), says="states the separator, semicolons"
    ),
    "space before a quote, comma": Case(
        "a.csv", lines('"source", "target"', row='"{x}", "{y}, {y}"'), pairs=DOUBLE, says="spaces after"
    ),
    "quoted TSV": Case(
        "a.tsv",
        lines("source\ttarget", row='"say ""{x}"""\t"{y} ""{y}"""'),
        pairs=SAYING,
        says="read without them",
    ),
    "a lone quote in TSV": Case(
        "a.tsv", lines("source\ttarget", row='"{x}\t5" {y}'), pairs=tuple((f'"{x}', f'5" {y}') for x, y in PAIRS)
    ),
    "carriage returns": Case("a.tsv", lines("source\ttarget", row=TAB, end="\r")),
    "carriage returns in JSON": Case("a.jsonl", objects().replace(b"\n", b"\r")),
    "target twice": Case("a.csv", lines("source,target,target", row="{x},{y},{x}"), error=("2 columns", "'target'")),
    "three columns": Case(
        "a.csv",
        lines("recorded,iso,english", row="{y}{x},{x},{y}"),
        error=(f"recorded (column 0): '{Y[0]}{X[0]}'", "english (column 2)", "--source recorded --target iso"),
    ),
    "three columns without a header": Case("a.tsv", lines(row="{x}\t{y}\tV;{x}"), error=("which of its 3 columns",)),
    "two usual pairs": Case("a.csv", lines("src,tgt,input,output", row="{x},{y},{x},{y}"), error=("which of its 4",)),
    "nested": Case(
        "a.jsonl",
        lines(row='{{"id": "{i}", "translation": {{"en": "{x}", "de": "{y}"}}}}'),
        error=("'translation' are objects", "jq -c"),
    ),
    "nested Parquet": Case(
        "a.parquet",
        parquet({"translation": [{"en": x, "de": y} for x, y in PAIRS]}),
        error=("'translation' are objects", "flatten()"),
    ),
    "JSON array a line": Case("a.jsonl", b'["ab", "abs"]\n["cd", "cds"]\n', error=("JSON arrays", "source: .[0]")),
    "JSON array": Case(
        "a.jsonl", json.dumps([{"source": x, "target": y} for x, y in PAIRS]).encode(), error=("JSON array", "jq -c")
    ),
    "Latin-1": Case(
        "a.csv",
        lines("source;target", row=SEMICOLON, pairs=UMLAUTS).decode().encode("latin-1"),
        error=("not UTF-8", "Windows-1252 (Latin-1)", "iconv -f WINDOWS-1252"),
    ),
    "UTF-16": Case("a.csv", lines("source,target").decode().encode("utf-16-le"), error=("UTF-16", "iconv")),
    "workbook": Case("a.csv", b"PK\x03\x04\x14\0\x06\0" + bytes(200), error=("an Excel workbook", "CSV UTF-8")),
    "workbook by name": Case("a.xlsx", b"PK\x03\x04" + bytes(200), error=("an Excel workbook", "CSV UTF-8")),
    "archive": Case("a.zip", b"PK\x03\x04" + bytes(200), error=("a ZIP archive", "unzip")),
    "title and a blank row": Case(
        "a.csv", lines("My word list 2024,", ",", "source,target"), error=("a title", "line 1", "tail -n +3")
    ),
    "title": Case("a.csv", lines("My word list 2024,", "source,target"), error=("a title", "line 1", "tail -n +2")),
    "comments": Case("a.tsv", lines(";;; one", ";;; two", row=TAB), error=("a comment", "line 1 to 2", "tail -n +3")),
    "comment with a comma": Case("a.csv", lines("# mine, 2024", "source,target"), error=("a comment", "tail -n +2")),
}
READ = {name: case for name, case in CASES.items() if not case.error}
REFUSED = {name: case for name, case in CASES.items() if case.error}
