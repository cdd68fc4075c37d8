"""Tables that a reader could lose rows of, crash on or misread: drawn, and written by hand where that is rare."""

from __future__ import annotations

import gzip
import io
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

BOM = b"\xef\xbb\xbf"
ROWS = b"a,1\nb,2\nc,3\n"
GOOD = b'{"source": "a", "target": "1"}\n{"source": "b", "target": "2"}\n'


def _json(*values: object) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode() + GOOD


CSV = {
    "not UTF-8 in the header": b"sour\xffce,target\na,1\nb,2\n",
    "overlong UTF-8": b"\xc0\xaf,1\n" + ROWS,
    "surrogate in UTF-8": b"\xed\xa0\x80,1\n" + ROWS,
    "all controls": b"".join(bytes([i]) + b",x\n" for i in range(1, 32) if i not in (10, 13)),
    "ragged": b"a,1\nb\nc,2,3\n\nd,4\n,\n",
    "white space that is not ASCII": "\u3000,1\na,\u2003\nb,2\nc,3\n".encode(),
    "a thousand columns": b",".join(b"%d" % i for i in range(1000)) + b"\n" + b",".join([b"x"] * 1000) + b"\n",
}

JSON_LINES = {
    "array": b'[1, 2]\n"a"\n1\nnull\ntrue\n' + GOOD,
    "deep and unused": b'{"source": "c", "target": "x", "y": ' + b"[" * 200 + b"]" * 200 + b"}\n" + GOOD,
    "lone surrogate in a key": rb'{"\udc00": "a", "source": "a", "target": "1"}' + b"\n" + GOOD,
    "numbers": b'{"source": 1e999, "target": -0.0}\n{"source": 1.50, "target": ' + b"9" * 5000 + b"}\n" + GOOD,
    "wrong types": _json(
        {"source": ["a"], "target": {}}, {"source": None, "target": "x"}, {"source": True, "target": 1}
    ),
}

PARALLEL = {
    "both empty": (b"", b""),
    "lone CR": (b"a\rb\nc\nd\n", b"1\n2\n3\n"),
}


def _parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _arrow(*, is_file: bool, **columns: Any) -> bytes:
    file, table = io.BytesIO(), pa.table(columns)
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return file.getvalue()


def _named_alike() -> bytes:
    file = io.BytesIO()
    table = pa.Table.from_arrays([pa.array(["a", "b"])] * 3, names=["source", "source", "target"])
    pq.write_table(table, file)
    return file.getvalue()


THREE = ["1", "2", "3"]
PARQUET = {
    "empty": b"",
    "no rows": _parquet(source=pa.array([], pa.string()), target=pa.array([], pa.string())),
    "no columns": _parquet(),
    "one column": _parquet(source=["a", "b"]),
    "nulls": _parquet(source=["a", None, "c"], target=["1", "2", None]),
    "null type": _parquet(source=pa.nulls(3), target=THREE),
    "bytes that are not UTF-8": _parquet(source=pa.array([b"\xff", b"a", b"b"]), target=THREE),
    "numbers": _parquet(source=[1, 2**62, -3], target=[0.1, float("nan"), float("inf")]),
    "truth values": _parquet(source=[True, False, None], target=THREE),
    "lists": _parquet(source=[["a"], [], None], target=THREE),
    "structures": _parquet(source=[{"a": 1}, {"a": 2}, None], target=THREE),
    "categories": _parquet(source=pa.array(["a", "b", "a"]).dictionary_encode(), target=THREE),
    "large text": _parquet(source=pa.array(["a", "b", "c"], pa.large_string()), target=THREE),
    "decimals": _parquet(source=[Decimal("1.50"), Decimal("-2"), None], target=THREE),
    "dates": _parquet(source=[date(1, 1, 1), date(9999, 12, 31), None], target=[datetime(2000, 1, 1)] * 3),
    "too precise times": _parquet(source=pa.array([1, 2, 3], pa.timestamp("ns")), target=THREE),
    "durations": _parquet(source=[timedelta(days=1)] * 3, target=THREE),
    "names alike": _named_alike(),
    "names that are not names": _parquet(**{"": ["a", "b"], "a\nb\x1b": ["1", "2"]}),
}


ARROW = {
    "empty": b"",
    "a file": _arrow(is_file=True, source=["a", None, "c"], target=["1", "2", ""]),
    "a stream": _arrow(is_file=False, source=["a", "b\0", "c"], target=[1.5, None, 3.0]),
    "a file that is cut": _arrow(is_file=True, source=THREE, target=THREE)[:-30],
    "no rows": _arrow(is_file=True, source=pa.array([], pa.string()), target=pa.array([], pa.string())),
}


def tables() -> dict[str, dict[str, bytes]]:
    """All tables by a name, each with the contents of its files by suffix, in the order source, target."""
    found: dict[str, dict[str, bytes]] = {}
    for name, content in CSV.items():
        found[f"CSV, {name}"] = {".csv": content}
        found[f"TSV, {name}"] = {".tsv": content.replace(b",", b"\t")}
    found |= {f"JSON Lines, {name}": {".jsonl": content} for name, content in JSON_LINES.items()}
    found |= {f"parallel, {name}": {".en": one, ".de": other} for name, (one, other) in PARALLEL.items()}
    found |= {f"Parquet, {name}": {".parquet": content} for name, content in PARQUET.items()}
    found |= {f"Arrow, {name}": {".arrow": content} for name, content in ARROW.items()}
    found["CSV, compressed"] = {".csv.gz": gzip.compress(CSV["ragged"], mtime=0)}
    found["CSV, compressed twice"] = {".csv.gz": gzip.compress(gzip.compress(ROWS), mtime=0)}
    found["CSV, compressed in two parts"] = {
        ".csv.gz": gzip.compress(b"a,1\nb", mtime=0) + gzip.compress(b",2\nc,3", mtime=0)
    }
    found["JSON Lines, compressed"] = {".jsonl.gz": gzip.compress(JSON_LINES["wrong types"], mtime=0)}
    found["Arrow, compressed"] = {".arrow.gz": gzip.compress(ARROW["a file"], mtime=0)}
    found["Parquet, compressed"] = {".parquet.gz": gzip.compress(PARQUET["nulls"], mtime=0)}
    return found


def write(files: dict[str, bytes], folder: Path) -> str:
    """Write the files of one table, and return its path for glassformer."""
    for suffix, content in files.items():
        (folder / f"t{suffix}").write_bytes(content)
    return ",".join(str(folder / f"t{suffix}") for suffix in files)


# Drawn

_PIECES = (
    *(b"a", b"b", b"source", b"target", b"1", "é".encode(), "e\u0301".encode(), "\u200b".encode(), "\u2028".encode()),
    *(b",", b",", b"\t", b"\t", b"\n", b"\n", b"\n", b"\r\n", b"\r", b'"', b'""', b'"', b" ", b"\\", b";"),
    *(b"\0", b"\x1f", b"\xff", b"\xc3", b"\xed\xa0\x80", BOM, b"\x85", b"\x1a"),
)
_JSON_PIECES = (
    *(b'{"source": "a", "target": "b"}\n', b'{"source": ', b'"target": ', b'"x"', b", ", b"}", b"{", b"[", b"]", b"\n"),
    *(b"null", b"NaN", b"1e5", b'"\\ud800"', b'"\\u0000"', b'"\\n"', b"\xff", b"\0", b"\r", b"\\", b'"', b":"),
)
lines_of_bytes = st.lists(st.sampled_from(_PIECES), max_size=40).map(b"".join)
lines_of_json = st.lists(st.sampled_from(_JSON_PIECES), max_size=30).map(b"".join)
drawn = st.one_of(
    lines_of_bytes.map(lambda content: {".csv": content}),
    lines_of_bytes.map(lambda content: {".csv": content}),
    lines_of_bytes.map(lambda content: {".tsv": content}),
    lines_of_json.map(lambda content: {".jsonl": content}),
    st.tuples(lines_of_bytes, lines_of_bytes).map(lambda both: {".en": both[0], ".de": both[1]}),
    lines_of_bytes.map(lambda content: {".csv.gz": gzip.compress(content, mtime=0)}),
)
