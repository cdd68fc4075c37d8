"""The routes: translations and traces as JSON, and the page that displays them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from importlib import metadata
from mmap import mmap

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import Receive, Scope, Send

from glassformer.data.digits import six_digits
from glassformer.errors import BusyError, GlassformerError, quoted
from glassformer.glassbox.report import live_html, page_script, style_sheet
from glassformer.glassbox.schema import Trace
from glassformer.serve.bodies import (
    ERRORS,
    AnswersBody,
    Body,
    Description,
    Health,
    ModelNames,
    TraceBody,
    TranslateBody,
    WhatIfBody,
    answer_json,
)
from glassformer.serve.limits import BodyLimit, KnownHosts, Limits, RequestError, error_response
from glassformer.serve.observe import Observed, ServerMetrics
from glassformer.serve.reference import reference_html
from glassformer.serve.served import Models, Served

LOCAL = ("127.0.0.1", "localhost")
BLOCK_BYTES = 65_536


def create_app(*served: Served, hosts: Sequence[str] = LOCAL, origins: Sequence[str] = ()) -> FastAPI:
    """Create the application of models with different names, which share a worker; the first is the default.

    Requests for hosts other than `hosts` are refused (DNS rebinding). Pages of the `origins` may read answers.
    `state.models` has the models.
    """
    models, limits, worker = Models(*served), served[0].limits, served[0].worker
    app = FastAPI(  # without the pages of FastAPI, which load scripts from elsewhere
        title="glassformer",
        version=metadata.version("glassformer"),
        responses=ERRORS,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.models = models
    metrics = ServerMetrics(worker)
    _handle_errors(app)
    _serve_models(app, models)
    _serve_traces(app, models)
    _serve_state(app, models, metrics)
    _serve_page(app)
    app.add_middleware(BodyLimit, max_bytes=limits.body_bytes, seconds=limits.body_seconds)
    app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(Observed, metrics=metrics, routes=app.routes)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type", "X-Request-ID"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )
    return app


def _serve_state(app: FastAPI, models: Models, metrics: ServerMetrics) -> None:
    @app.get("/v1/health")
    async def health() -> Health:
        """Return that the server is running."""
        return Health()

    @app.get("/v1/ready")
    async def ready() -> Health:
        """Return that the server answers requests."""
        return Health()

    @app.get("/metrics", include_in_schema=False)
    async def prometheus() -> PlainTextResponse:
        digests = {name: served.digest for name, served in models.by_name.items()}
        return PlainTextResponse(metrics.to_text(app.version, digests), media_type="text/plain; version=0.0.4")


def _find(models: Models, body: Body, request: Request) -> Served:
    """Return the model of a request, for its answer and the log."""
    served = models.find(body.model)
    request.scope["glassformer"]["model"] = served.name
    return served


def _serve_models(app: FastAPI, models: Models) -> None:
    @app.post("/v1/translate", response_model=AnswersBody)
    async def translate(body: TranslateBody, request: Request) -> Response:
        """Translate texts. One that the model does not take has an empty answer, with the reason in `left_out`."""
        answers, notices = await _find(models, body, request).translate(body)
        request.scope["glassformer"]["texts"] = len(answers)
        body_json = {"answers": [answer_json(answer, details=body.details) for answer in answers], "notices": notices}
        return Response(json.dumps(six_digits(body_json)), media_type="application/json")

    @app.get("/v1/models", response_model=ModelNames)
    async def list_models() -> Response:
        """Return the names of the models."""
        files = {name: served.translator.model_file for name, served in models.by_name.items()}
        answer = {"models": [{"name": name, "parameters": file.n_parameters} for name, file in files.items()]}
        return Response(json.dumps(answer), media_type="application/json")

    @app.get("/v1/model", response_model=Description)
    async def describe_model(model: str | None = None) -> Response:
        """Return the description of a model, by default the first, and the limits."""
        return Response(json.dumps(models.find(model).describe()), media_type="application/json")


def _serve_traces(app: FastAPI, models: Models) -> None:
    limits = models.first.limits
    slots = asyncio.Semaphore(limits.traces)

    @app.post("/v1/trace", response_model=Trace)
    async def trace(body: TraceBody, request: Request) -> Response:
        """Return every number of one translation: a glassformer-trace/1."""
        served = _find(models, body, request)
        return TraceResponse(lambda: served.trace(body), slots, limits)

    @app.post("/v1/whatif", response_model=Trace)
    async def whatif(body: WhatIfBody, request: Request) -> Response:
        """Return a trace with edits, compared with the trace without them."""
        served = _find(models, body, request)
        return TraceResponse(lambda: served.trace(body), slots, limits)


class TraceResponse(Response):
    """A trace, of several MB: few are computed or written at once.

    Each block is written when the client has read those before. A trace waits at most `compute_seconds` for its turn;
    the connection of a client that has not read it in `trace_seconds` is closed.
    """

    media_type = "application/json"

    def __init__(
        self, compute: Callable[[], Awaitable[bytes | mmap]], slots: asyncio.Semaphore, limits: Limits
    ) -> None:
        super().__init__()
        self._compute, self._slots, self._limits = compute, slots, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            async with asyncio.timeout(self._limits.compute_seconds):
                await self._slots.acquire()
        except TimeoutError:
            what, expected = "other traces are being read", f"a wait of {self._limits.compute_seconds:g} seconds"
            raise BusyError(what, expected=expected, hint="try again in a moment") from None
        try:
            document = await self._compute()
            with contextlib.suppress(TimeoutError):  # the server closes the connection of a part of an answer
                async with asyncio.timeout(self._limits.trace_seconds):
                    await self._write(document, send)
        finally:
            self._slots.release()

    async def _write(self, document: bytes | mmap, send: Send) -> None:
        self.init_headers({"Content-Length": str(len(document))})
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(document), BLOCK_BYTES):
            end = start + BLOCK_BYTES
            more = end < len(document)
            await send({"type": "http.response.body", "body": document[start:end], "more_body": more})


def _serve_page(app: FastAPI) -> None:
    html, policy = live_html()

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    @app.get("/docs", include_in_schema=False)
    async def reference() -> HTMLResponse:
        html, policy = reference_html(app.openapi())
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    @app.get("/page/style.css", include_in_schema=False)
    async def style() -> PlainTextResponse:
        return PlainTextResponse(style_sheet(), media_type="text/css")

    @app.get("/page/main.js", include_in_schema=False)
    async def script() -> PlainTextResponse:
        return PlainTextResponse(page_script(), media_type="text/javascript")


def _handle_errors(app: FastAPI) -> None:
    """Answer every error as JSON, with the messages of the command line."""

    @app.exception_handler(GlassformerError)
    async def ours(request: Request, error: GlassformerError) -> Response:
        name = request.scope["glassformer"].get("model")
        names = app.state.models.find(name).names
        return error_response(error, {"Retry-After": "1"} if isinstance(error, BusyError) else None, names)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if "[" not in str(part) and part != "constrained-str")
        got = None if first["type"] == "missing" else quoted(first["input"])
        what, expected = f"the request does not fit: {place}", first["msg"]
        if first["type"] in ("model_attributes_type", "dict_type"):
            expected = "a JSON object"
        hint = f"{request.url.path} is described at /docs"
        if isinstance(error.body, bytes):  # FastAPI parses only what is declared as JSON
            content_type = request.headers.get("content-type")
            what = "the header Content-Type does not say that the body is JSON"
            got, expected = (
                "no Content-Type" if content_type is None else quoted(content_type),
                "Content-Type: application/json",
            )
            hint = "send this header; with curl: -H 'Content-Type: application/json'"
        elif first["type"] == "json_invalid":
            what, got = "the body of the request is not JSON", f"{first['ctx']['error']} at character {first['loc'][1]}"
            expected = "JSON in UTF-8"
        return error_response(RequestError(422, what, got=got, expected=expected, hint=hint))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        what, expected = f"there is nothing at {request.method} {request.url.path}", "a path of /docs"
        if error.status_code == 400:
            what, expected = "the body of the request cannot be read", "JSON in UTF-8"
        if error.status_code == 405:
            what, expected = f"{request.url.path} does not take {request.method}", (error.headers or {})["Allow"]
        unknown = RequestError(error.status_code, what, expected=expected, hint="GET /docs, or /openapi.json")
        return error_response(unknown, error.headers)
