"""Train an encoder-decoder Transformer on a table of text pairs, and inspect how each translation is computed.

    from glassformer import Translator, evaluate, read_table, train

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; typing takes 20 ms, in which Ctrl-C has no message
if TYPE_CHECKING:
    from typing import Any

    from glassformer.before.members import Members as Members
    from glassformer.before.members import train as train
    from glassformer.before.plan import Plan as Plan
    from glassformer.before.plan import plan as plan
    from glassformer.data.tables import Pair as Pair
    from glassformer.data.tables import Table as Table
    from glassformer.data.tables import read_table as read_table
    from glassformer.errors import GlassformerError as GlassformerError
    from glassformer.glassbox.neighbors import analogy as analogy
    from glassformer.glassbox.neighbors import neighbors as neighbors
    from glassformer.glassbox.schema import Trace as Trace
    from glassformer.glassbox.trace import explain as explain
    from glassformer.inference.evaluation import Report as Report
    from glassformer.inference.evaluation import evaluate as evaluate
    from glassformer.inference.jobs.stream import translate_stream as translate_stream
    from glassformer.inference.translator import Translation as Translation
    from glassformer.inference.translator import Translator as Translator
    from glassformer.inference.worker import BatchingTranslator as BatchingTranslator
    from glassformer.paper.settings import DataSettings as DataSettings
    from glassformer.paper.settings import DecodingSettings as DecodingSettings
    from glassformer.paper.settings import ModelSettings as ModelSettings
    from glassformer.paper.settings import Settings as Settings
    from glassformer.paper.settings import TokenSettings as TokenSettings
    from glassformer.paper.settings import TrainingSettings as TrainingSettings
    from glassformer.training import Run as Run

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

__all__ = sorted(name for names in _NAMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            if module.startswith(("before.", "training")):
                from glassformer.paper.pytorch import check_pytorch

                check_pytorch(f"glassformer.{name}")
            return getattr(importlib.import_module(f"glassformer.{module}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
