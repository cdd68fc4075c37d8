"""What a run is compared with when it is resumed: its tables, and the versions and processes that computed it.

Other tables are refused, with the first rows that differ. Other versions and numbers of processes are allowed, and
named: sums are then rounded in another order, and several processes draw other numbers for dropout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch

from glassformer.data.pairs import fingerprint, fingerprint_parts
from glassformer.data.tables import Table
from glassformer.errors import RunError
from glassformer.ship.storage.modelfile import library_versions
from glassformer.training.processes import Processes

MARKS = 16  # numbers of first rows whose fingerprint a checkpoint has
DIGITS = 12  # of a fingerprint that is shown or compared


def tables_of(table: Table, valid: Table | None) -> dict[str, str]:
    """Return what a checkpoint says about the tables of its run."""
    positions = [len(table.pairs) * (i + 1) // MARKS for i in range(MARKS)]
    record = {"rows": str(len(table.pairs)), "table": fingerprint(table.pairs), "marks": _marks(table, positions)}
    if valid is not None:
        record |= {"valid_rows": str(len(valid.pairs)), "valid": fingerprint(valid.pairs)}
    return record


def check_tables(saved: Mapping[str, str], table: Table, valid: Table | None, path: Path) -> None:
    """Raise RunError, with the difference, when a table is not that of the run whose checkpoint is at `path`."""
    now = tables_of(table, valid)
    if "table" not in saved:
        return
    hint = "restore the old table (--valid too, if there was one), or start a new run with --init"
    if saved["table"] != now["table"]:
        got = f"{_shown(now, 'rows', 'table')} in {table.path}; {_difference(saved, table)}"
        what, expected = "the table is not the one that this run was trained on", _shown(saved, "rows", "table")
        raise RunError(what, where=str(path), got=got, expected=expected, hint=hint)
    if saved.get("valid") != now.get("valid"):
        what = "the validation table is not the one of this run"
        got, expected = (_shown(record, "valid_rows", "valid") for record in (now, saved))
        raise RunError(what, where=str(path), got=got, expected=expected, hint=hint)


def _shown(record: Mapping[str, str], rows: str, name: str) -> str:
    if name not in record:
        return "no validation table: held-out rows"
    return f"{int(record[rows]):,} rows with fingerprint {record[name][:DIGITS]}"


def _difference(saved: Mapping[str, str], table: Table) -> str:
    """Return which rows of another table are those of the run."""
    n_before, marks = int(saved["rows"]), saved["marks"].split()
    positions = [n_before * (i + 1) // MARKS for i in range(len(marks))]
    reached = [position for position in positions if position <= len(table.pairs)]
    same = 0
    for position, before, now in zip(reached, marks, _marks(table, reached).split(), strict=False):
        if before != now:
            return f"the first {same:,} rows are the same, and one of the rows {same + 1:,} to {position:,} differs"
        same = position
    return f"the first {same:,} rows are the same" if same else "how they differ is not known"


def _marks(table: Table, positions: list[int]) -> str:
    """Return the fingerprints of the rows up to each position; none for a large table, which takes long to read."""
    if isinstance(getattr(table.pairs, "fingerprint", None), str):
        return ""
    marks, digest, n_rows = [], hashlib.sha256(), 0
    for position in positions:
        for part in fingerprint_parts(table.pairs[n_rows:position]):
            digest.update(part)
        n_rows = position
        marks.append(digest.copy().hexdigest()[:DIGITS])
    return " ".join(marks)


def environment_of(processes: Processes) -> dict[str, str]:
    """Return what computes a run: versions, and the numbers of processes and of threads in each."""
    threads = {"processes": str(processes.count), "threads": str(torch.get_num_threads())}
    return library_versions() | threads


def describe_environment(saved: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return what differs between the environments of a run until now and from now on; None: nothing."""
    names = [name for name in saved if saved[name] != now.get(name)]
    if not names:
        return None
    before, after = (", ".join(f"{name} {record.get(name, 'none')}" for name in names) for record in (saved, now))
    return (
        f"the run was computed with {before}, and continues with {after}: allowed, but its weights may differ by "
        "rounding (and dropout, with several processes) from those of a run that was not interrupted"
    )
