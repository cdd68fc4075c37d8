"""The CTranslate2 engine: the same answers from a library for inference alone, also in int8.

How its search gives the same answers as ours:

- Its scores are plain sums of log-probabilities (`length_penalty=0`); the answers of a beam are ranked here.
- It spreads the probability of suppressed tokens over all others. So nothing is suppressed, and the scores are the
  model's; only a sentence with a forbidden token in its answers is searched again without them, and scored anew.
- Its beam refills the slot of a finished hypothesis, ours keeps it. Both find the same best answer except in rare
  cases; the further answers of an n-best differ more often.
- Where greedy search finds an answer that no other can outrank (`is_certain`), no beam is searched.

A search gives no scores of single tokens (`Hypothesis.token_scores` is empty); `score` does.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, final

from glassformer.data.cache import FOLDER_VARIABLE, cached, digest_of, key_of
from glassformer.errors import DeviceError, RunError, SettingsError, TextError, UsageError, nearest
from glassformer.inference.engines.agreement import Agreement, compare
from glassformer.inference.engines.batches import cores
from glassformer.inference.engines.ctranslate2_spec import (
    check_supported,
    library,
    source_names,
    target_names,
    write_model,
)
from glassformer.paper.search import (
    AnswerBatches,
    Guide,
    Hypothesis,
    best_first,
    check_token_scores,
    length_penalty,
)
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile

BATCH_POSITIONS = {"int8": 448, "bfloat16": 512, "float32": 512}
"""The number of source positions in the batch of a core; half as many with a beam. Measured: core caches are small."""
GPU_POSITIONS = 16_384  # not measured
ROWS_TOGETHER = 128  # whose answers are yielded together
POSITIONS = 512  # of a table of sinusoids, which grows when needed
NO_SCORE = -1e9  # of a slot of the beam that no hypothesis fills
PRECISIONS = ("bfloat16", "float32", "int8")  # "auto" is the first that the device has; each has float32

_Candidate = tuple[tuple[int, ...], float]
"""Ids, with `<eos>` where it was reached, and the sum of their log-probabilities."""


def find_device(name: str) -> tuple[str, int]:
    """Return kind and number of the device called `name`. Raises DeviceError for one not available."""
    gpus = range(library().get_cuda_device_count())
    devices = {"cpu": ("cpu", 0)} | {f"cuda:{i}": ("cuda", i) for i in gpus}
    if gpus:
        devices["cuda"] = ("cuda", 0)
    devices["auto"] = devices.get("cuda", ("cpu", 0))
    if name not in devices:
        raise DeviceError(f"device {name!r} is not available in ctranslate2", expected=", ".join(sorted(devices)))
    return devices[name]


def resolve_precision(kind: str, precision: str) -> str:
    """Return the precision to use on a kind of device. Raises SettingsError for one not available."""
    supported = [known for known in PRECISIONS if known in library().get_supported_compute_types(kind)]
    if precision == "auto":
        return supported[0]
    if precision not in supported:
        raise SettingsError(
            f"ctranslate2 has no precision {precision!r} on {kind}", hint=nearest(precision, ["auto", *supported])
        )
    return precision


@final
class CTranslate2Engine:
    """Runs searches and scores pairs with one model, which is converted and compared with NumPy when it is first used.

    Both are done once for a model and kept in the cache (`data.cache`), by the digest of the weights and the versions.
    `agreement` is the comparison, None before the first use.

    On a CPU each core computes its own batches (`inter_threads`) with one thread (`intra_threads=1`): the matrices of
    such models are too small to be divided, and two threads for a batch were measured to be 2 to 4 times slower than
    one. Their number is that of `cores`.
    """

    def __init__(self, model_file: ModelFile, device: str = "cpu", precision: str = "float32") -> None:
        check_supported(model_file.settings.model)
        self.model_file = model_file
        self.kind, self.device_index = find_device(device)
        self.precision = resolve_precision(self.kind, precision)
        self.n_workers = cores() if self.kind == "cpu" else 1
        vocabulary = model_file.target_tokenizer.vocabulary
        self._bos_id, self._eos_id = vocabulary.bos_id, vocabulary.eos_id
        self._forbidden = frozenset(vocabulary.forbidden_ids)
        self._source_names = source_names(len(model_file.source_tokenizer))
        self._target_names = target_names(len(model_file.target_tokenizer))
        self.agreement: Agreement | None = None
        self._translator: Any = None
        self._process_id = 0
        self._n_positions = 0

    def answers(
        self,
        sources: Sequence[Sequence[int]],
        decoding: DecodingSettings,
        max_new_tokens: int,
        prefixes: Sequence[Sequence[int]] = (),
        guide: Guide | None = None,
    ) -> AnswerBatches:
        """Yield the answers of `Engine.answers`. Raises UsageError for sampling, and for a guide."""
        if guide is not None:
            raise UsageError("ctranslate2 cannot search among the answers that are allowed", hint="--engine numpy")
        if decoding.do_sample:
            raise UsageError("ctranslate2 searches, it does not sample", hint="--engine numpy")
        longest = min(max_new_tokens, self.model_file.settings.model.n_positions or max_new_tokens)
        self._make_ready(max(map(len, sources), default=0), longest)
        answers = self._decode(sources, decoding.num_beams, longest, prefixes)
        n_best, alpha = decoding.num_return_sequences, decoding.length_alpha
        while fresh := {row: self._rank(found, alpha)[:n_best] for row, found in islice(answers, ROWS_TOGETHER)}:
            yield fresh

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probabilities of `Engine.score`."""
        n_source, n_target = (max((len(pair[side]) for pair in pairs), default=1) for side in (0, 1))
        self._make_ready(n_source, n_target - 1)
        targets = [target[1:] for _, target in pairs]
        given = [ids[:-1] if ids and ids[-1] == self._eos_id else ids for ids in targets]  # the library adds <eos>
        scored = self._translator.score_iterable(
            self._named(self._source_names, [source for source, _ in pairs]),
            self._named(self._target_names, given),
            max_batch_size=max(1, self._batch_positions // max(n_source, n_target)),
            max_input_length=0,
        )
        found = [result.log_probs[: len(ids)] for result, ids in zip(scored, targets, strict=True)]
        return check_token_scores(found)

    def _decode(
        self, sources: Sequence[Sequence[int]], width: int, longest: int, prefixes: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, list[_Candidate]]]:
        """Yield the number of each source and its answers, scored by the model, as they are found."""
        again = list(range(len(sources))) if prefixes else []
        if not prefixes:
            for row, answers in self._translate(sources, width, longest):
                if any(map(self._is_forbidden, answers)):
                    again.append(row)
                else:
                    yield row, answers
        if again:
            forced = [prefixes[row] for row in again] if prefixes else ()
            suppressed = [[self._target_names[token]] for token in sorted(self._forbidden)]
            chosen = [sources[row] for row in again]
            searched = list(self._translate(chosen, width, longest, forced, suppress_sequences=suppressed))
            pairs = [(chosen[i], (self._bos_id, *ids)) for i, answers in searched for ids, _ in answers]
            scores = iter(self.score(pairs))
            for i, answers in searched:
                yield again[i], [(ids, sum(next(scores))) for ids, _ in answers]

    def _is_forbidden(self, answer: _Candidate) -> bool:
        return not self._forbidden.isdisjoint(answer[0])

    def _translate(
        self,
        sources: Sequence[Sequence[int]],
        width: int,
        longest: int,
        prefixes: Sequence[Sequence[int]] = (),
        **options: Any,
    ) -> Iterator[tuple[int, list[_Candidate]]]:
        """Yield the number of each source, longest first, and the answers of the library's own beam."""
        order = sorted(range(len(sources)), key=lambda row: len(sources[row]), reverse=True)
        if prefixes:
            options["target_prefix"] = self._named(self._target_names, [prefixes[row] for row in order])
        results = self._translator.translate_iterable(
            self._named(self._source_names, [sources[row] for row in order]),
            max_batch_size=max(1, self._batch_positions // min(width, 2)),
            batch_type="tokens",
            max_input_length=0,
            beam_size=width,
            num_hypotheses=width,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=longest,
            return_scores=True,
            return_end_token=True,
            **options,
        )
        for row, result in zip(order, results, strict=True):
            found = zip(result.hypotheses, result.scores, strict=True)
            yield row, [(tuple(map(int, names)), score) for names, score in found if score > NO_SCORE]

    @property
    def _batch_positions(self) -> int:
        return GPU_POSITIONS if self.kind == "cuda" else BATCH_POSITIONS[self.precision]

    @staticmethod
    def _named(names: Sequence[str], sequences: Sequence[Sequence[int]]) -> Iterator[list[str]]:
        return ([names[token] for token in ids] for ids in sequences)

    def _rank(self, answers: list[_Candidate], alpha: float) -> list[Hypothesis]:
        """The answers as hypotheses, best first."""
        ranked = []
        for ids, score in answers:
            finished = ids[-1] == self._eos_id
            rank_score = score / length_penalty(len(ids), alpha)
            ranked.append(Hypothesis(ids[:-1] if finished else ids, (), score, rank_score, finished))
        return best_first(ranked)

    def _make_ready(self, n_source: int, n_target: int) -> None:
        """Load the converted model, unless it is loaded with positions for `n_source` and `n_target` tokens.

        Raises TextError for more tokens than learned positions, DeviceError for an error of the library, EngineError
        for a converted model that does not give NumPy's answers.
        """
        longest, learned_positions = max(n_source, n_target), self.model_file.settings.model.n_positions
        if learned_positions and longest > learned_positions:
            raise TextError(
                f"a sequence of {longest} tokens is longer than the {learned_positions} learned positions",
                hint="train with a larger model.max_length, or with sinusoidal positions",
            )
        if self._translator is not None and self._process_id != os.getpid():
            # Forked: its threads are not in this process, and its destructor would wait for them, so it is kept alive.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._translator))
            self._translator = None
        self._process_id = os.getpid()
        if self._translator is not None and (learned_positions or longest < self._n_positions):
            return
        self._n_positions = max(POSITIONS, 2 * longest)
        self._translator = None
        key = self._key()
        try:
            entry = cached(key, self._convert)
        except (RunError, OSError) as error:
            why = error.where if isinstance(error, RunError) else error
            warnings.warn(
                f"the cache cannot be written ({why}), so each process converts the model for ctranslate2; "
                f"set {FOLDER_VARIABLE} to a folder that can be written",
                stacklevel=2,
            )
            if self._translator is None:
                with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
                    self._convert(Path(folder))
            return
        if entry.was_damaged:
            warnings.warn(f"{entry.folder} in the cache was damaged; the model was converted again", stacklevel=2)
        if self._translator is None:
            self._translator = self._load(entry.folder)
            self.agreement = Agreement(**entry.description)

    def _key(self) -> str:
        """The key of the converted model in the cache: the digest of all that it and the comparison depend on."""
        source, target = self.model_file.source_tokenizer, self.model_file.target_tokenizer
        return key_of(
            "ctranslate2",
            {
                "ctranslate2": library().__version__,
                "device": self.kind,
                "precision": self.precision,
                "positions": self._n_positions,
                "model": self.model_file.settings.model.model_dump(mode="json"),
                "vocabularies": [len(source), len(target), target.vocabulary.specials],
                "tensors": {name: digest_of(array) for name, array in self.model_file.tensors.items()},
            },
        )

    def _convert(self, folder: Path) -> dict[str, Any]:
        """Write the model into a folder, load it and compare it; return the comparison. Raises EngineError."""
        write_model(self.model_file, folder, self._n_positions)
        self._translator = self._load(folder)
        try:
            self.agreement = compare("ctranslate2", self, self.model_file)
        except BaseException:
            self._translator = None
            raise
        return vars(self.agreement)

    def _load(self, folder: Path) -> Any:
        """Load a converted model. Raises DeviceError for an error of the library."""
        torch = sys.modules.get("torch")
        n_threads = torch.get_num_threads() if torch else 0
        try:
            return library().Translator(
                str(folder),
                self.kind,
                device_index=self.device_index,
                compute_type=self.precision,
                inter_threads=self.n_workers,
                intra_threads=1,
            )
        except RuntimeError as error:
            raise DeviceError(f"ctranslate2 cannot start on {self.kind}", got=str(error)) from None
        finally:
            if torch:
                torch.set_num_threads(n_threads)  # which `intra_threads` changed for PyTorch, too
