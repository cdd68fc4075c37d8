"""Engines compute searches and scores: PyTorch, or CTranslate2 (an extra)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from glassformer.errors import UsageError, nearest

if TYPE_CHECKING:
    from glassformer.paper.search import GreedyFirst, Hypothesis, OnAnswers
    from glassformer.paper.settings import DecodingSettings
    from glassformer.ship.storage.modelfile import ModelFile


class Engine(Protocol):
    """Computes hypotheses and scores, in the order of its inputs. Ids are framed: `<bos> … <eos>`."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        decoding: DecodingSettings,
        max_new_tokens: int,
        prefixes: Sequence[Sequence[int]] = (),
        on_answers: OnAnswers | None = None,
        greedy_first: GreedyFirst | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the answers for each source, best first; `on_answers` receives each batch as soon as it is found.

        `greedy_first` is shared by the searches of one job. Raises NotFiniteError for a source without an answer of
        finite score.
        """
        ...

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probability (nats) of every target token after `<bos>`, for (source, target) ids.

        Raises NotFiniteError for one that is not finite.
        """
        ...


def load_engine(name: str, model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    """Load the engine called `name` for a model, or for several whose probabilities are averaged (an ensemble).

    Raises UsageError, DeviceError or SettingsError for an engine, device or precision that is not available, or that
    does not support the model; MissingExtraError when its library is not installed.
    """
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}", hint=nearest(name, ENGINES))
    return ENGINES[name](model_files, device, precision)


def _torch(model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    from glassformer.inference.engines.torch import TorchEngine, build_model, find_device

    found = find_device(device)
    models = [build_model(model_file).to(found) for model_file in model_files]
    return TorchEngine.of(models, model_files[0].target_tokenizer, found, precision, frozen=True)


def _ctranslate2(model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    from glassformer.inference.engines.agreement import CheckedEngine
    from glassformer.inference.engines.ctranslate2 import CTranslate2Engine

    if len(model_files) > 1:
        raise UsageError("ctranslate2 runs one model, not an ensemble", hint="--engine torch")
    return CheckedEngine(CTranslate2Engine(model_files[0], device, precision), model_files[0])


ENGINES: dict[str, Callable[[Sequence[ModelFile], str, str], Engine]] = {"torch": _torch, "ctranslate2": _ctranslate2}
