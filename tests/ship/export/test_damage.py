"""A damaged file of an export is an error that names it, never another answer. The page: `test_html_page.py`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.ship.export.conftest import make_model

DATA = b"ab cd\nthe cat\n"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "bits flipped": lambda data: bytes(byte ^ (i % (1 + len(data) // 7) == 0) for i, byte in enumerate(data, 1)),
    "an entry edited": lambda data: data[:-200] + data[-200:].replace(b"e", b"a", 1).replace(b"1", b"2", 1),
}


@pytest.mark.medium
def test_a_damage_of_every_file_is_one_line_or_the_same_answer(run: Any, tmp_path: Path) -> None:
    """Each file has one of the damages, in turn."""
    model_file, folder = make_model(), tmp_path / "exported"
    right: subprocess.CompletedProcess[bytes] = run(model_file, DATA)
    assert right.returncode == 0, right.stderr
    own = Path(right.args[1]).name
    names = (*json.loads((folder / "glassformer.json").read_bytes())["files"], "glassformer.json")
    assert len(names) >= len(DAMAGES)
    for name, (damage, damaged) in zip(names, cycle(DAMAGES.items())):
        whole = (folder / name).read_bytes()
        assert damaged(whole) != whole, (name, damage)
        (folder / name).write_bytes(damaged(whole))
        found = run(model_file, DATA)
        if name == own:  # the program itself, which Python or Node refuses, or which does nothing
            assert found.stdout in (b"", right.stdout), (name, damage)
        else:
            message = f"error: {folder / name} is not the file that was exported; export the model again\n"
            assert (found.returncode, found.stdout, found.stderr.decode()) == (1, b"", message), (name, damage)
        (folder / name).unlink()
        assert name == own or run(model_file, DATA).returncode == 1
        (folder / name).write_bytes(whole)
    assert run(model_file, DATA).stdout == right.stdout
