"""Train an encoder-decoder Transformer on a table of text pairs, and inspect how each translation is computed.

    from glassformer import Translator, evaluate, read_table, train

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; typing takes 20 ms, in which Ctrl-C has no message
if TYPE_CHECKING:
    from typing import Any

    from glassformer.batching import BatchingTranslator
    from glassformer.data.tables import Pair, Table, read_table
    from glassformer.errors import GlassformerError
    from glassformer.evaluation import Report, evaluate
    from glassformer.glassbox.neighbors import analogy, neighbors
    from glassformer.glassbox.schema import Trace
    from glassformer.glassbox.trace import explain
    from glassformer.jobs.stream import translate_stream
    from glassformer.settings import (
        DataSettings,
        DecodingSettings,
        ModelSettings,
        Settings,
        TokenSettings,
        TrainingSettings,
    )
    from glassformer.training import Plan, Run, train
    from glassformer.training.plan import plan
    from glassformer.training.selftest import check
    from glassformer.translator import Translation, Translator

_HOMES = {
    "BatchingTranslator": "batching",
    "DataSettings": "settings",
    "DecodingSettings": "settings",
    "GlassformerError": "errors",
    "ModelSettings": "settings",
    "Pair": "data.tables",
    "Plan": "training.plan",
    "Report": "evaluation",
    "Run": "training",
    "Settings": "settings",
    "Table": "data.tables",
    "TokenSettings": "settings",
    "Trace": "glassbox.schema",
    "TrainingSettings": "settings",
    "Translation": "translator",
    "Translator": "translator",
    "analogy": "glassbox.neighbors",
    "check": "training.selftest",
    "evaluate": "evaluation",
    "explain": "glassbox.trace",
    "neighbors": "glassbox.neighbors",
    "plan": "training.plan",
    "read_table": "data.tables",
    "train": "training",
    "translate_stream": "jobs.stream",
}

__all__ = [
    "BatchingTranslator",
    "DataSettings",
    "DecodingSettings",
    "GlassformerError",
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
    "check",
    "evaluate",
    "explain",
    "neighbors",
    "plan",
    "read_table",
    "train",
    "translate_stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"glassformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
