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

_HOMES = {
    "BatchingTranslator": "inference.worker",
    "DataSettings": "paper.settings",
    "DecodingSettings": "paper.settings",
    "GlassformerError": "errors",
    "Members": "before.members",
    "ModelSettings": "paper.settings",
    "Pair": "data.tables",
    "Plan": "before.plan",
    "Report": "inference.evaluation",
    "Run": "training",
    "Settings": "paper.settings",
    "Table": "data.tables",
    "TokenSettings": "paper.settings",
    "Trace": "glassbox.schema",
    "TrainingSettings": "paper.settings",
    "Translation": "inference.translator",
    "Translator": "inference.translator",
    "analogy": "glassbox.neighbors",
    "evaluate": "inference.evaluation",
    "explain": "glassbox.trace",
    "neighbors": "glassbox.neighbors",
    "plan": "before.plan",
    "read_table": "data.tables",
    "train": "before.members",
    "translate_stream": "inference.jobs.stream",
}

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


_OF_TRAINING = ("Members", "Plan", "Run", "plan", "train")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    if name in _OF_TRAINING:
        from glassformer.paper.pytorch import check_pytorch

        check_pytorch(f"glassformer.{name}")
    return getattr(importlib.import_module(f"glassformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
