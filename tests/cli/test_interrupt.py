"""Ctrl-C while the command is still importing its libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Some libraries take an interrupt for a module that could not be had, and go on or break in other words.
PROGRAM = """
import contextlib, signal, sys
from importlib.abc import MetaPathFinder
from glassformer.__main__ import main

class Interrupted(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == wanted:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupted())
main()
"""


@pytest.mark.parametrize("library", ["typer", "numpy"])
def test_an_interrupt_while_a_library_is_imported_ends_in_words(library: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, library, "info", "model"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (130, b"")
    assert done.stderr == b"interrupted; no file is incomplete\n"
