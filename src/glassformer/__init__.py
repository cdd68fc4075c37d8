"""Train an encoder-decoder Transformer on a table of text pairs, and inspect how each translation is computed.

    from glassformer import Translator, evaluate, read_table, train

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; typing takes 20 ms, in which Ctrl-C has no message
if TYPE_CHECKING:
    from typing import Any

    from glassformer.data.tables import Pair as Pair, Table as Table, read_table as read_table
    from glassformer.errors import GlassformerError as GlassformerError
    from glassformer.evaluation.evaluate import Report as Report, evaluate as evaluate
    from glassformer.glassbox.neighbors import analogy as analogy, neighbors as neighbors
    from glassformer.glassbox.schema import Trace as Trace
    from glassformer.glassbox.trace import explain as explain
    from glassformer.inference.translator import Translation as Translation, Translator as Translator
    from glassformer.inference.worker import BatchingTranslator as BatchingTranslator
    from glassformer.jobs.stream import translate_stream as translate_stream
    from glassformer.planning.plan import Plan as Plan, plan as plan
    from glassformer.settings import (
        DataSettings as DataSettings,
        DecodingSettings as DecodingSettings,
        ModelSettings as ModelSettings,
        Settings as Settings,
        TokenSettings as TokenSettings,
        TrainingSettings as TrainingSettings,
    )
    from glassformer.training.loop import Run as Run
    from glassformer.training.members import Members as Members
    from glassformer.training.train import train as train

_MODULES = {
    "data.tables": "Pair Table read_table",
    "errors": "GlassformerError",
    "evaluation.evaluate": "Report evaluate",
    "glassbox.neighbors": "analogy neighbors",
    "glassbox.schema": "Trace",
    "glassbox.trace": "explain",
    "inference.translator": "Translation Translator",
    "inference.worker": "BatchingTranslator",
    "jobs.stream": "translate_stream",
    "planning.plan": "Plan plan",
    "settings": "DataSettings DecodingSettings ModelSettings Settings TokenSettings TrainingSettings",
    "training.loop": "Run",
    "training.members": "Members",
    "training.train": "train",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    if _MODULE_OF[name].startswith(("planning.", "training.")):
        from glassformer.runtime.pytorch import check_pytorch

        check_pytorch(f"glassformer.{name}")
    return getattr(importlib.import_module(f"glassformer.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
