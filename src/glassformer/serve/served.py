"""The models of a server: each is read once, and all are computed by one worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.data.column_settings import held_out_columns
from glassformer.errors import UsageError, quoted
from glassformer.glassbox.report import MAX_BYTES
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.inference.confidence import all_of_the_beam, check_calibrated
from glassformer.inference.translator import Translation, Translator
from glassformer.inference.worker import BatchingTranslator, Worker
from glassformer.jobs.stream import as_requested
from glassformer.serve.bodies import TraceBody, TranslateBody, WhatIfBody
from glassformer.serve.limits import BEAMS, EDITS, TEXT_CHARACTERS, TEXTS, Limits, RequestError
from glassformer.storage.files import identity_of, shown
from glassformer.storage.hub import local_model
from glassformer.storage.modelfile import find_model
from glassformer.storage.rundirectory import HELD_OUT_COLUMNS, RunDirectory

CHANGED = (
    "the model file has changed since the server loaded it, so the history and the wrong answers of the run, which "
    "may belong to another model, were left out; restart glassformer serve to load the new model"
)


@dataclass(frozen=True)
class Served:
    """A loaded model with its name, the path of its file, and the first text of the page.

    `stamp` identifies the version of the file.
    """

    name: str
    translator: Translator
    path: Path
    stamp: tuple[int, ...] | None
    example: str | dict[str, str]
    limits: Limits
    worker: Worker

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
        file, limits = find_model(local_model(path)), limits or Limits()
        stamp = _stamp_of(file)  # before reading: a file that is replaced meanwhile counts as changed
        translator = Translator.load(file, **options)
        worker = worker or Worker(limits.waiting, limits.compute_seconds)
        return cls(name, translator, file, stamp, example or find_example(file, translator), limits, worker)

    @property
    def weights_fit(self) -> bool:
        """Whether traces can contain the weights: then the page computes edits itself."""
        return self.translator.model_file.n_parameters * 16 / 3 < MAX_BYTES * 0.8

    def describe(self) -> dict[str, Any]:
        """Return the description of the model and the limits for /api/model."""
        facts = self.translator.model_file.describe()
        return {
            "name": self.name,
            "model": shown(self.path),
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

    async def translate(self, body: TranslateBody) -> list[Translation]:
        """Return an answer for each text, in order."""
        options: dict[str, Any] = {"prefixes": [body.prefix] * len(body.texts)} if body.prefix else {}
        options |= {"must_match": body.must_match, "choices": body.choices}
        decoding = self.translator.settings.decoding.override(body.search)
        batching = BatchingTranslator(self.translator, self.worker)
        if not body.confidence:
            return await batching.atranslate(body.texts, decoding=decoding, **options)
        constrained = body.must_match is not None or body.choices is not None
        check_calibrated(self.translator.model_files, decoding, prefixes=bool(body.prefix), constrained=constrained)
        answers = await batching.atranslate(body.texts, decoding=all_of_the_beam(decoding), **options)
        return [as_requested(answer, decoding) for answer in answers]

    async def trace(self, body: TraceBody | WhatIfBody) -> Trace:
        """Return the trace of a text, with its edits. The history of a run that now has another model is left out."""
        if self.translator.n_models > len(self.translator.model_file.seeds):
            raise UsageError(
                "a trace opens one model, and this server answers with an ensemble",
                got=f"{self.translator.n_models} models",
                hint="serve one of them without --ensemble, or use /api/translate",
            )
        return await self.worker.acall(lambda: self._trace(body))

    def _trace(self, body: TraceBody | WhatIfBody) -> Trace:
        wants_history = isinstance(body, TraceBody) and body.history
        is_unchanged = _stamp_of(self.path) == self.stamp  # so its run is the one that made this model
        found = explain(
            self.translator,
            body.text,
            target=body.target,
            edits=body.edits if isinstance(body, WhatIfBody) else [],
            weights=isinstance(body, TraceBody) and body.weights and self.weights_fit,
            history=self.path.parent if wants_history and is_unchanged else False,
            **body.search,
        )
        notices = [*found.notices, CHANGED] if wants_history and not is_unchanged else found.notices
        return replace(found, notices=notices, provenance=replace(found.provenance, model=shown(self.path)))


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


def find_served(models: Mapping[str, Served], name: str | None) -> Served:
    """Return the model that a request names, or the first. Raises RequestError (404) with the names that there are."""
    if name is None:
        return next(iter(models.values()))
    if name not in models:
        what, expected = "the server has no model of this name", ", ".join(models)
        raise RequestError(404, what, got=quoted(name), expected=expected, hint="GET /api/models")
    return models[name]


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
    return {one.name: text if one.kind == "text" else (*one.symbols, "?")[0] for one in inputs} if inputs else text
