"""Ctrl-C before, between and after what a verb does."""

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
        if f"import {name}" == wanted:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

def interrupt(frame, event, _):
    if event == "call" and frame.f_code.co_name == wanted:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupted())
if not wanted.startswith("import"):
    sys.setprofile(interrupt)
main()
"""


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("import typer", "info model"),
        ("import numpy", "info model"),
        ("get_command", "settings dropout"),
        ("find_settings", "settings dropout"),
        ("_drop_what_cannot_be_written", "settings dropout"),
    ],
)
def test_an_interrupt_ends_in_words_at_an_import_and_before_in_and_after_a_verb(wanted: str, words: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, wanted, *words.split()], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted; no file is incomplete, but standard output may be\n")


def test_no_library_that_takes_long_is_imported_before_ctrl_c_has_a_message() -> None:
    program = """
import sys
before = {*sys.modules}
import glassformer.__main__
print(*(sys.modules.keys() - before) & {"typing", "re", "difflib"})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split() == []
