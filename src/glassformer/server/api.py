"""The routes: translations and traces as JSON, and the page that displays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

from glassformer.errors import GlassformerError, ModelFileError, RunError, TextError, TimeLimitError, UsageError
from glassformer.files import shown
from glassformer.glassbox.history import last_sample
from glassformer.glassbox.report import MAX_BYTES, PAGE, live_html, modules
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.hub import local_model
from glassformer.modelfile import find_model
from glassformer.server.hosts import HeadAsGet, KnownHosts
from glassformer.server.limits import (
    BEAMS,
    EDITS,
    TEXT_CHARACTERS,
    TEXTS,
    BodyLimit,
    Limits,
    Queue,
    RequestError,
    error_body,
)
from glassformer.translator import Translator

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
CHANGED = (
    "the model file has changed since the server loaded it, so the history and the wrong answers of the run, which "
    "may belong to another model, were left out; restart glassformer serve to load the new model"
)
Stamp = tuple[int, int, int, int] | None

Text = Annotated[str, StringConstraints(max_length=TEXT_CHARACTERS)]
Beams = Annotated[int | None, Field(ge=1, le=BEAMS)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TranslateBody(_Body):
    """Texts to translate."""

    texts: Annotated[list[Text], Field(max_length=TEXTS)]
    num_beams: Beams = None
    num_return_sequences: Beams = None


class TraceBody(_Body):
    """A text to trace. `history` adds the history of the run directory, `weights` the weights of the model."""

    text: Text
    target: Text | None = None
    num_beams: Beams = None
    weights: bool = False
    history: bool = False


class WhatIfBody(_Body):
    """A text to trace with edits, in the syntax of `explain --edit`."""

    text: Text
    target: Text | None = None
    edits: Annotated[list[Text], Field(min_length=1, max_length=EDITS)]
    num_beams: Beams = None


@dataclass(frozen=True)
class Served:
    """A loaded model, the path of its file, and the first text of the page.

    The model is read once, for all requests. `stamp` identifies the version of its file.
    """

    translator: Translator
    path: Path
    stamp: Stamp
    example: str
    limits: Limits = field(default_factory=Limits)
    queue: Queue = field(default_factory=Queue)

    @classmethod
    def load(cls, path: Path, *, example: str | None = None, limits: Limits | None = None, **options: Any) -> Served:
        """Read a model file or run directory; `options` are those of `Translator.load`."""
        file, limits = find_model(local_model(path)), limits or Limits()
        stamp = stamp_of(file)  # before reading: a file that is replaced meanwhile counts as changed
        translator = Translator.load(file, **options)
        queue = Queue(limits.waiting, limits.compute_seconds)
        return cls(translator, file, stamp, example or find_example(file, translator), limits, queue)

    @property
    def weights_fit(self) -> bool:
        """Whether traces can contain the weights: then the page computes edits itself."""
        return self.translator.model_file.n_parameters * 16 / 3 < MAX_BYTES * 0.8

    def describe(self) -> dict[str, Any]:
        """Return the description of the model and the limits for /api/model."""
        facts = self.translator.model_file.describe()
        return {
            "model": shown(self.path),
            "parameters": facts["parameters"]["all"],
            **{name: facts[name] for name in ("settings", "data", "metrics", "versions")},
            "example": self.example,
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

    def translate(self, body: TranslateBody) -> dict[str, Any]:
        """Return an answer for each text, in order."""
        with self.queue.turn():
            answers = self.translator.translate(body.texts, **_options(body))
        return {"translations": [answer.to_json() for answer in answers]}

    def trace(self, body: TraceBody | WhatIfBody) -> Trace:
        """Return the trace of a text, with its edits. The history of a run that now has another model is left out."""
        if self.translator.n_models > 1:
            raise UsageError(
                "a trace opens one model, and this server answers with an ensemble",
                got=f"{self.translator.n_models} models",
                hint="serve one of them without --ensemble, or use /api/translate",
            )
        edits = body.edits if isinstance(body, WhatIfBody) else []
        weights = isinstance(body, TraceBody) and body.weights and self.weights_fit
        wants_history = isinstance(body, TraceBody) and body.history

        def trace(history: Path | Literal[False]) -> Trace:
            options = _options(body)
            return explain(
                self.translator,
                body.text,
                target=body.target,
                edits=edits,
                weights=weights,
                history=history,
                **options,
            )

        with self.queue.turn():
            try:
                found = trace(self.path.parent if wants_history and self.is_unchanged else False)
            except (ModelFileError, RunError):  # the run may be in the middle of a replacement
                if self.is_unchanged:
                    raise
                found = trace(False)
        if wants_history and not self.is_unchanged:
            found = replace(found, training=None, errors=None, notices=[*found.notices, CHANGED])
        return replace(found, provenance=replace(found.provenance, model=shown(self.path)))

    @property
    def is_unchanged(self) -> bool:
        """Whether the model file is the one that was loaded, so that its run is the one that made this model."""
        return self.stamp is not None and stamp_of(self.path) == self.stamp


def stamp_of(path: Path) -> Stamp:
    """Return device, inode, size and time of a file, which identify its version; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _options(body: TranslateBody | TraceBody | WhatIfBody) -> dict[str, Any]:
    """Return the search settings of a request."""
    return body.model_dump(include={"num_beams", "num_return_sequences"}, exclude_none=True)


def find_example(path: Path, translator: Translator) -> str:
    """Return a first text: the last sample of validation in the run, or else the three most frequent tokens."""
    if (sample := last_sample(path.parent)) is not None:
        return sample
    tokenizer = translator.source_tokenizer
    counts = translator.model_file.data.source_counts or [1] * len(tokenizer)
    ordinary = [token for token in range(len(tokenizer)) if token not in tokenizer.vocabulary.special_ids]
    return tokenizer.decode(sorted(ordinary, key=lambda token: -counts[token])[:3])


def create_app(served: Served, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> FastAPI:
    """Create the application; requests for hosts other than `hosts` are refused (DNS rebinding)."""
    app = FastAPI(title="glassformer", docs_url=None, redoc_url=None)  # those pages load scripts from elsewhere
    app.add_middleware(BodyLimit, max_bytes=served.limits.body_bytes, seconds=served.limits.body_seconds)
    app.add_middleware(KnownHosts, hosts=hosts)
    _handle_errors(app)
    _serve_page(app)
    app.add_middleware(HeadAsGet)

    @app.get("/api/health")
    def health() -> dict[str, str]:
        """Return that the server is running."""
        return {"status": "ok"}

    @app.get("/api/model")
    def model() -> dict[str, Any]:
        """Return the description of the model and the limits."""
        return served.describe()

    @app.post("/api/translate")
    def translate(body: TranslateBody) -> dict[str, Any]:
        """Translate texts."""
        return served.translate(body)

    @app.post("/api/trace")
    def trace(body: TraceBody) -> Response:
        """Return every number of one translation: a glassformer-trace/1."""
        return Response(served.trace(body).dumps(), media_type="application/json")

    @app.post("/api/whatif")
    def whatif(body: WhatIfBody) -> Response:
        """Return a trace with edits, compared with the trace without them."""
        return Response(served.trace(body).dumps(), media_type="application/json")

    return app


def _serve_page(app: FastAPI) -> None:
    html, policy = live_html()

    @app.middleware("http")
    async def add_safe_headers(request: Request, answer: Callable[[Request], Any]) -> Response:
        response: Response = await answer(request)
        response.headers.update(SAFE)
        return response

    @app.get("/", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    @app.get("/page/{name:path}", include_in_schema=False)
    def part(name: str) -> PlainTextResponse:
        if name == "style.css":
            return PlainTextResponse((PAGE / name).read_text("utf-8"), media_type="text/css")
        source = modules().get(f"glassbox/{name}")
        if source is None:
            raise HTTPException(404)
        return PlainTextResponse(source, media_type="text/javascript")


def _handle_errors(app: FastAPI) -> None:
    """Answer every error as JSON, with the messages of the command line."""

    @app.exception_handler(GlassformerError)
    def ours(request: Request, error: GlassformerError) -> JSONResponse:  # noqa: ARG001
        statuses: list[tuple[type[GlassformerError], int]] = [
            (UsageError, 400),
            (TextError, 422),
            (TimeLimitError, 504),
        ]
        status = next((status for kind, status in statuses if isinstance(error, kind)), 500)
        return JSONResponse(error_body(error), getattr(error, "status", status))

    @app.exception_handler(RequestValidationError)
    def unfit(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        hint = f"{request.url.path} is described in /openapi.json"
        unread = RequestError(422, f"the request does not fit: {where}", expected=first["msg"], hint=hint)
        return JSONResponse(error_body(unread), 422)

    @app.exception_handler(HTTPException)
    def missing(request: Request, error: HTTPException) -> JSONResponse:
        what, expected = f"there is nothing at {request.method} {request.url.path}", "a path of /openapi.json"
        if error.status_code == 400:
            what, expected = "the body of the request cannot be read", "JSON in UTF-8"
        if error.status_code == 405:
            what, expected = f"{request.url.path} does not take {request.method}", (error.headers or {})["Allow"]
        unknown = RequestError(error.status_code, what, expected=expected, hint="GET /openapi.json")
        return JSONResponse(error_body(unknown), error.status_code, error.headers)
