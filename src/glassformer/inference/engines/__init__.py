"""Engines compute answers and scores: "numpy" on a CPU, compiled where it can be, or PyTorch on a GPU."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from glassformer.errors import DeviceError, NotFiniteError, SettingsError, UsageError, nearest
from glassformer.runtime.pytorch import check_pytorch, has_pytorch

if TYPE_CHECKING:
    from glassformer.inference.engines.greedy_first import AnswerBatches
    from glassformer.paper.search import Guide, Hypothesis
    from glassformer.settings import DecodingSettings
    from glassformer.storage.modelfile import ModelFile

GPU_DRIVERS = "/dev/nvidiactl", "/dev/kfd", "/dev/dxg"  # of CUDA, ROCm, and either in WSL

Ids = Sequence[int]
"""Framed: `<bos> … <eos>`; the ids of a prefix are not framed."""


class Engine(Protocol):
    """Computes answers and scores."""

    def answers(
        self,
        sources: Sequence[Ids],
        decoding: DecodingSettings,
        max_new_tokens: int,
        prefixes: Sequence[Ids] = (),
        guide: Guide | None = None,
        rows: Sequence[int] | None = None,
    ) -> AnswerBatches:
        """Yield the answers in batches, each as soon as it is found: number of the source -> its answers, best first.

        `rows` are the numbers of the sources that are searched, by default all. Learned positions may end before
        `max_new_tokens`; then the answers do too. The `guide` has a start for each source. Raises NotFiniteError for a
        source whose log-probabilities are not finite.
        """
        ...

    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[list[float]]:
        """Return the log-probability (nats) of every target token after `<bos>`, for (source, target) ids.

        Raises NotFiniteError for a log-probability that is not finite.
        """
        ...


def search(
    engine: Engine,
    sources: Sequence[Ids],
    decoding: DecodingSettings,
    max_new_tokens: int,
    prefixes: Sequence[Ids] = (),
    on_answers: Callable[[Mapping[int, list[Hypothesis]]], None] | None = None,
    guide: Guide | None = None,
) -> list[list[Hypothesis]]:
    """Return the answers of an engine for each source, best first; `on_answers` receives each batch when it is found.

    Where only the best answer of a beam counts, greedy search is first: it may save the beam. Raises NotFiniteError for
    a source without an answer of finite score.
    """
    from glassformer.inference.engines.greedy_first import search_greedy_first

    def search_rows(rows: Sequence[int], num_beams: int) -> AnswerBatches:
        decoding_of_rows = decoding.model_copy(update={"num_beams": num_beams})
        return engine.answers(sources, decoding_of_rows, max_new_tokens, prefixes, guide, rows)

    n_sources, num_beams = len(sources), decoding.num_beams
    only_best_counts = decoding.num_return_sequences == 1 and not decoding.do_sample
    if num_beams > 1 and only_best_counts:
        alpha = decoding.length_alpha
        batches = search_greedy_first(search_rows, n_sources, max_new_tokens, num_beams=num_beams, alpha=alpha)
    else:
        batches = search_rows(range(n_sources), num_beams)
    done: dict[int, list[Hypothesis]] = {}
    with closing(batches):  # so that an error of `on_answers` ends the search
        for batch in batches:
            for row, answers in batch.items():
                if not (answers and math.isfinite(answers[0].score)):
                    raise NotFiniteError.at(row, f"a score of {answers[0].score}" if answers else "no answer")
            done |= batch
            if on_answers is not None:
                on_answers(batch)
    return [done[row] for row in range(n_sources)]


def load_engine(name: str, model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    """Load the engine called `name` for a model, or for several whose probabilities are averaged (an ensemble).

    Raises UsageError, DeviceError or SettingsError for an engine, device or precision that is not available, or that
    does not support the model; MissingExtraError when its library is not installed.
    """
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}", hint=nearest(name, ENGINES))
    return ENGINES[name](model_files, device, precision)


def _auto(model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    on_cpu = precision == "float32" and (device == "cpu" or (device == "auto" and not _has_gpu()))
    return (_numpy if on_cpu else _torch)(model_files, device, precision)


def _has_gpu() -> bool:
    """Whether PyTorch has a GPU. Without a driver PyTorch is not imported, because that takes a second."""
    if platform.system() == "Linux" and not any(Path(driver).exists() for driver in GPU_DRIVERS):
        return False
    if not has_pytorch():
        return False
    from glassformer.runtime.devices import find_device

    return find_device("auto").type != "cpu"


def _numpy(model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    from glassformer.inference.engines.numpy import NumPyEngine

    if device not in ("auto", "cpu"):
        raise DeviceError(f"the numpy engine runs on the CPU, not on {device!r}", hint='engine="torch"')
    if precision not in ("auto", "float32"):
        raise SettingsError(f"the numpy engine has no precision {precision!r}", hint='engine="torch"')
    return NumPyEngine.of_files(model_files)


def _torch(model_files: Sequence[ModelFile], device: str, precision: str) -> Engine:
    check_pytorch("the engine torch")
    from glassformer.inference.engines.torch import TorchEngine
    from glassformer.runtime.devices import find_device

    return TorchEngine.of_files(model_files, find_device(device), precision)


ENGINES: dict[str, Callable[[Sequence[ModelFile], str, str], Engine]] = {
    "auto": _auto,
    "numpy": _numpy,
    "torch": _torch,
}
"""Name -> function of the model files, the device and the precision. auto: numpy in float32 on a CPU, else torch."""
