"""Rows of JSON Lines as a Parquet file, in groups of rows, so that a table may be larger than the memory."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.lines import pyarrow
from glassformer.inference.jobs.layout import SCORE, TOKEN_SCORES

GROUP = 65_536
"""Rows in a group."""


def write_parquet(rows: Path, names: tuple[str, ...], out: Path) -> None:
    """Write rows of JSON Lines as Parquet. Raises MissingExtraError where pyarrow is not installed."""
    arrow = pyarrow("writing Parquet")
    from pyarrow.parquet import ParquetWriter

    schema = arrow.schema([(name, _type_of(name, arrow)) for name in names])
    with rows.open(encoding="utf-8") as lines, ParquetWriter(out, schema) as writer:
        while group := [json.loads(line) for line in islice(lines, GROUP)]:
            writer.write_table(arrow.Table.from_pylist(group, schema))


def _type_of(name: str, arrow: Any) -> Any:
    types = {SCORE: arrow.float64(), TOKEN_SCORES: arrow.list_(arrow.float64())}
    return types.get(name, arrow.string())
