"""The names that `from glassformer import …` promises: these and no others, loaded only when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import glassformer

NAMES = [
    "BatchingTranslator",
    "DataSettings",
    "DecodingSettings",
    "GlassformerError",
    "Members",
    "ModelSettings",
    "Pair",
    "Plan",
    "Report",
    "Run",
    "Settings",
    "Table",
    "TokenSettings",
    "Trace",
    "TrainingSettings",
    "Translation",
    "Translator",
    "analogy",
    "evaluate",
    "explain",
    "neighbors",
    "plan",
    "read_table",
    "train",
    "translate_stream",
]


def test_the_public_names_are_frozen_and_dir_agrees():
    assert glassformer.__all__ == NAMES
    assert dir(glassformer) == sorted(NAMES)


def test_every_public_name_is_what_it_says_and_another_is_an_attribute_error():
    for name in NAMES:
        found = getattr(glassformer, name)
        assert found.__name__ == name
        assert found.__module__.startswith("glassformer.")
        assert found.__doc__
    with pytest.raises(AttributeError, match="module 'glassformer' has no attribute 'Trainslator'"):
        _ = glassformer.Trainslator  # type: ignore[attr-defined]


def test_importing_the_package_loads_no_library():
    program = "import sys, glassformer\nprint(*{'torch', 'numpy', 'pydantic', 'typer', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip() == ""
