"""The models of a server: each is read once, and all are computed by one worker."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from mmap import mmap
from pathlib import Path
from typing import Any

from glassformer.data.column_settings import held_out_columns
from glassformer.errors import UsageError, quoted
from glassformer.glassbox.explained import hash_tensors
from glassformer.glassbox.report import MAX_BYTES
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.inference.allowed import Constraint
from glassformer.inference.confidence import check_calibrated
from glassformer.inference.translator import Translator
from glassformer.inference.worker import Request, Worker
from glassformer.jobs.answers import NO_ANSWER, JobAnswer
from glassformer.jobs.stream import SearchOptions, translate_chunk
from glassformer.serve.bodies import TraceBody, TranslateBody, WhatIfBody
from glassformer.serve.limits import BEAMS, EDITS, TEXT_CHARACTERS, TEXTS, Limits, RequestError
from glassformer.storage.files import identity_of
from glassformer.storage.hub import local_model
from glassformer.storage.modelfile import find_model
from glassformer.storage.rundirectory import HELD_OUT_COLUMNS, RunDirectory
from glassformer.text.inputs import SourceLike, as_given, example_source

CHANGED = (
    "the model file has changed since the server loaded it, so the history and the wrong answers of the run, which "
    "may belong to another model, were left out; the signal SIGHUP makes the server load the new model"
)

_FOLDER = re.compile(r"[^,]*[/\\]")  # of a table, or of each of two parallel files


@dataclass(frozen=True)
class Served:
    """A loaded model with its name, the path of its file, and the first text of the page.

    `stamp` identifies the version of the file, `reload` reads it again.
    """

    name: str
    translator: Translator
    path: Path
    stamp: tuple[int, ...] | None
    example: str | dict[str, str]
    limits: Limits
    worker: Worker
    reload: Callable[[], Served]

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        name: str = "model",
        example: str | None = None,
        limits: Limits | None = None,
        worker: Worker | None = None,
        **options: Any,
    ) -> Served:
        """Read a model file or run directory; `options` are those of `Translator.load`."""
        limits = limits or Limits()
        worker = worker or Worker(limits.waiting, limits.compute_seconds)
        reload = functools.partial(cls.load, path, name=name, example=example, limits=limits, worker=worker, **options)
        file = find_model(local_model(path)).absolute()
        stamp = _stamp_of(file)  # before reading: a file that is replaced meanwhile counts as changed
        translator = Translator.load(file, **options)
        return cls(name, translator, file, stamp, example or find_example(file, translator), limits, worker, reload)

    @property
    def weights_fit(self) -> bool:
        """Whether traces can contain the weights: then the page computes edits itself."""
        return self.translator.model_file.n_parameters * 16 / 3 < MAX_BYTES * 0.8

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the weights."""
        return hash_tensors(self.translator.model_file.all_tensors)

    @property
    def names(self) -> dict[str, str]:
        """The paths of the model and of its run, and what a client reads in their place."""
        return {str(self.path): self.name, f"{self.path.parent}/": f"{self.name}/"}

    def describe(self) -> dict[str, Any]:
        """Return the `Description` of the model as JSON values."""
        facts = self.translator.model_file.describe()
        if table := facts["data"].get("table"):
            facts["data"]["table"] = _FOLDER.sub("", table)
        return {
            "name": self.name,
            "digest": self.digest,
            "parameters": facts["parameters"]["all"],
            **{name: facts[name] for name in ("settings", "data", "metrics", "versions")},
            "example": self.example,
            "inputs": facts["inputs"],
            "weights_fit": self.weights_fit,
            "limits": {
                "text": TEXT_CHARACTERS,
                "texts": TEXTS,
                "edits": EDITS,
                "beams": BEAMS,
                "bytes": self.limits.body_bytes,
                "seconds": self.limits.compute_seconds,
                "waiting": self.limits.waiting,
            },
        }

    async def translate(self, body: TranslateBody) -> tuple[list[JobAnswer], list[str]]:
        """Return an answer for each text, in order, and notices.

        A text that the model does not take has an empty answer that says why.
        """
        files, decoding = self.translator.model_files, self.translator.settings.decoding.override(body.search)
        search, notices = SearchOptions(decoding, constraint=Constraint.of(body.must_match, body.choices)), list[str]()
        if body.confidence:
            try:
                check_calibrated(files, decoding, prefixes=bool(body.prefix), constrained=search.constraint is not None)
                search = replace(search, min_confidence=0.0)  # holds no answer back
            except UsageError as error:
                expected = "" if error.expected is None else f", expected {error.expected}"
                notices.append(f"{error.what}: got {error.got}{expected}")
        lengths = [sum(map(len, [text] if isinstance(text, str) else text.values())) for text in body.texts]
        taken = [row for row, length in enumerate(lengths) if length <= TEXT_CHARACTERS]
        answers = [
            replace(NO_ANSWER, left_out=f"{length:,} characters; the server takes at most {TEXT_CHARACTERS:,}")
            for length in lengths
        ]

        def compute(items: Sequence[tuple[SourceLike, str, str]]) -> list[JobAnswer]:
            texts, names = [text for text, _, _ in items], [name for _, _, name in items]
            prefixes = [prefix for _, prefix, _ in items] if body.prefix else None
            return translate_chunk(self.translator, texts, search, names, prefixes=prefixes)

        request = Request(
            [(body.texts[row], body.prefix, f"text {row + 1}") for row in taken],
            compute,
            key=(id(self.translator), search, body.prefix == ""),
            size=sum(lengths[row] + len(body.prefix) for row in taken),
        )
        computed = await self.worker.aresult(self.worker.submit(request))
        for row, answer in zip(taken, computed, strict=True):
            answers[row] = answer
        return answers, notices

    async def trace(self, body: TraceBody | WhatIfBody) -> mmap:
        """Return the trace of a text, with its edits, in JSON.

        The history of a run that now has another model is left out. One trace at a time is computed and written, which
        takes several times its memory. It has memory of its own, since the heap keeps what is freed between others.
        """
        if self.translator.n_models > len(self.translator.model_file.seeds):
            raise UsageError(
                "a trace opens one model, and this server answers with an ensemble",
                got=f"{self.translator.n_models} models",
                hint="POST /v1/translate answers with all of them",
            )
        return await self.worker.acall(lambda: self._write_trace(body))

    def _write_trace(self, body: TraceBody | WhatIfBody) -> mmap:
        parts = [part.encode() for part in self._trace(body).parts()]
        memory = mmap(-1, sum(map(len, parts)))
        for part in parts:
            memory.write(part)
        return memory

    def _trace(self, body: TraceBody | WhatIfBody) -> Trace:
        wants_history = isinstance(body, TraceBody) and body.history
        is_unchanged = _stamp_of(self.path) == self.stamp  # so its run is the one that made this model
        trace = explain(
            self.translator,
            body.text,
            target=body.target,
            edits=body.edits if isinstance(body, WhatIfBody) else [],
            weights=isinstance(body, TraceBody) and body.weights and self.weights_fit,
            history=self.path.parent if wants_history and is_unchanged else False,
            check=False,
            **body.search,
        )
        notices = [*trace.notices, CHANGED] if wants_history and not is_unchanged else trace.notices
        return replace(trace, notices=notices, provenance=replace(trace.provenance, model=self.name))


class Models:
    """The models of a server, by name. The first answers requests that name none."""

    def __init__(self, *served: Served) -> None:
        self.by_name = {model.name: model for model in served}
        self._reloading = threading.Lock()

    @property
    def first(self) -> Served:
        return next(iter(self.by_name.values()))

    def find(self, name: str | None) -> Served:
        """Return the model that a request names. Raises RequestError (404) with the names that there are."""
        if name is None:
            return self.first
        if name not in self.by_name:
            what, expected = "the server has no model of this name", ", ".join(self.by_name)
            raise RequestError(404, what, got=quoted(name), expected=expected, hint="GET /v1/models")
        return self.by_name[name]

    def reload(self) -> None:
        """Read all models again, and answer with them from now on. Where one cannot be read, all stay as they are."""
        with self._reloading:
            self.by_name = {name: served.reload() for name, served in self.by_name.items()}


def load_models(
    paths: Mapping[str, Path], *, limits: Limits | None = None, example: str | None = None, **options: Any
) -> list[Served]:
    """Read the models of a server, by name; they share a worker. The first has the `example`."""
    limits = limits or Limits()
    common = options | {"limits": limits, "worker": Worker(limits.waiting, limits.compute_seconds)}
    return [
        Served.load(path, name=name, example=None if number else example, **common)
        for number, (name, path) in enumerate(paths.items())
    ]


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return what identifies the version of a file; None where there is none."""
    return identity_of(path, "st_size", "st_mtime_ns")


def find_example(path: Path, translator: Translator) -> str | dict[str, str]:
    """Return a first source: the first held-out row of the run, or else the most frequent tokens, and first symbols."""
    inputs, data = translator.inputs, translator.model_file.data
    columns = held_out_columns(inputs, data.columns) if inputs else HELD_OUT_COLUMNS
    for row in RunDirectory(path.parent).read_held_out(columns):
        return dict(zip(columns[:-1], row, strict=False)) if inputs else row[0]
    tokenizer = translator.source_tokenizer
    counts = data.source_counts or [1] * len(tokenizer)
    ordinary = [token for token in range(len(tokenizer)) if token not in tokenizer.vocabulary.special_ids]
    text = tokenizer.decode(sorted(ordinary, key=lambda token: -counts[token])[:3])
    return as_given(example_source(text, inputs), inputs)
