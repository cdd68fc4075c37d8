"""Train an encoder-decoder Transformer on a table of text pairs, and inspect how each translation is computed.

    from glassformer import Translator, evaluate, read_table, train

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; typing takes 20 ms, in which Ctrl-C has no message
if TYPE_CHECKING:
    from typing import Any

    from glassformer.before.members import Members, train
    from glassformer.before.plan import Plan, plan
    from glassformer.data.tables import Pair, Table, read_table
    from glassformer.errors import GlassformerError
    from glassformer.glassbox.neighbors import analogy, neighbors
    from glassformer.glassbox.schema import Trace
    from glassformer.glassbox.trace import explain
    from glassformer.inference.evaluation import Report, evaluate
    from glassformer.inference.jobs.stream import translate_stream
    from glassformer.inference.translator import Translation, Translator
    from glassformer.inference.worker import BatchingTranslator
    from glassformer.paper.settings import (
        DataSettings,
        DecodingSettings,
        ModelSettings,
        Settings,
        TokenSettings,
        TrainingSettings,
    )
    from glassformer.training import Run

_NAMES = {
    "before.members": ("Members", "train"),
    "before.plan": ("Plan", "plan"),
    "data.tables": ("Pair", "Table", "read_table"),
    "errors": ("GlassformerError",),
    "glassbox.neighbors": ("analogy", "neighbors"),
    "glassbox.schema": ("Trace",),
    "glassbox.trace": ("explain",),
    "inference.evaluation": ("Report", "evaluate"),
    "inference.jobs.stream": ("translate_stream",),
    "inference.translator": ("Translation", "Translator"),
    "inference.worker": ("BatchingTranslator",),
    "paper.settings": (
        *("DataSettings", "DecodingSettings", "ModelSettings", "Settings", "TokenSettings", "TrainingSettings"),
    ),
    "training": ("Run",),
}
"""Module -> the public names in it."""

__all__ = [
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


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            if module.startswith(("before.", "training")):
                from glassformer.paper.pytorch import check_pytorch

                check_pytorch(f"glassformer.{name}")
            return getattr(importlib.import_module(f"glassformer.{module}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
