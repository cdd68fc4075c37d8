"""The routes: translations and traces as JSON, and the page that displays them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse

from glassformer.errors import BusyError, GlassformerError, quoted
from glassformer.glassbox.report import live_html, modules, style_sheet
from glassformer.serve.bodies import ERRORS, Body, TraceBody, TranslateBody, WhatIfBody
from glassformer.serve.limits import BodyLimit, KnownHosts, RequestError, error_response
from glassformer.serve.observe import Observed, ServerMetrics
from glassformer.serve.served import Served, find_served

LOCAL = ("127.0.0.1", "localhost")


def create_app(*models: Served, hosts: Sequence[str] = LOCAL) -> FastAPI:
    """Create the application of models with different names, which share a worker; the first is the default.

    Requests for hosts other than `hosts` are refused (DNS rebinding).
    """
    by_name, limits = {served.name: served for served in models}, models[0].limits
    app = FastAPI(  # without the pages of FastAPI, which load scripts from elsewhere
        title="glassformer", version=metadata.version("glassformer"), responses=ERRORS, docs_url=None, redoc_url=None
    )
    metrics = ServerMetrics(models[0].worker)
    _handle_errors(app)
    _serve_models(app, by_name)
    _serve_state(app, metrics)
    _serve_page(app)
    app.add_middleware(BodyLimit, max_bytes=limits.body_bytes, seconds=limits.body_seconds)
    app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(Observed, metrics=metrics, routes=app.routes)
    return app


def _serve_state(app: FastAPI, metrics: ServerMetrics) -> None:
    @app.get("/api/health")
    @app.get("/api/ready")
    async def health() -> dict[str, str]:
        """Return that the server is running."""
        return {"status": "ok"}

    @app.get("/metrics", include_in_schema=False)
    async def prometheus() -> PlainTextResponse:
        return PlainTextResponse(metrics.to_text(), media_type="text/plain; version=0.0.4")


def _serve_models(app: FastAPI, models: Mapping[str, Served]) -> None:
    def find(body: Body, request: Request) -> Served:
        found = find_served(models, body.model)
        request.scope["glassformer"]["model"] = found.name
        return found

    async def trace_of(body: TraceBody | WhatIfBody, request: Request) -> Response:
        trace = await find(body, request).trace(body)
        return Response(await run_in_threadpool(trace.dumps), media_type="application/json")

    @app.post("/api/translate")
    async def translate(body: TranslateBody, request: Request) -> Response:
        """Translate texts."""
        answers = await find(body, request).translate(body)
        request.scope["glassformer"]["texts"] = len(answers)
        found = {"translations": [answer.to_json() for answer in answers]}
        return Response(json.dumps(found), media_type="application/json")

    @app.post("/api/trace")
    async def trace(body: TraceBody, request: Request) -> Response:
        """Return every number of one translation: a glassformer-trace/1."""
        return await trace_of(body, request)

    @app.post("/api/whatif")
    async def whatif(body: WhatIfBody, request: Request) -> Response:
        """Return a trace with edits, compared with the trace without them."""
        return await trace_of(body, request)

    @app.get("/api/models")
    async def names() -> dict[str, list[dict[str, Any]]]:
        """Return the names of the models; the first answers requests that name none."""
        files = {name: served.translator.model_file for name, served in models.items()}
        return {"models": [{"name": name, "parameters": file.n_parameters} for name, file in files.items()]}

    @app.get("/api/model")
    async def describe(model: str | None = None) -> dict[str, Any]:
        """Return the description of a model, by default the first, and the limits."""
        return find_served(models, model).describe()


def _serve_page(app: FastAPI) -> None:
    html, policy = live_html()

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    @app.get("/page/{name:path}", include_in_schema=False)
    async def part(name: str) -> PlainTextResponse:
        if name == "style.css":
            return PlainTextResponse(style_sheet(), media_type="text/css")
        source = modules().get(f"glassbox/{name}")
        if source is None:
            raise HTTPException(404)
        return PlainTextResponse(source, media_type="text/javascript")


def _handle_errors(app: FastAPI) -> None:
    """Answer every error as JSON, with the messages of the command line."""

    @app.exception_handler(GlassformerError)
    async def ours(request: Request, error: GlassformerError) -> Response:  # noqa: ARG001
        return error_response(error, {"Retry-After": "1"} if isinstance(error, BusyError) else None)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if "[" not in str(part) and part != "constrained-str")
        got = None if first["type"] == "missing" else quoted(first["input"])
        what, expected = f"the request does not fit: {place}", first["msg"]
        if first["type"] in ("model_attributes_type", "dict_type"):
            expected = "a JSON object"
        hint = f"{request.url.path} is described in /openapi.json"
        if isinstance(error.body, bytes):  # FastAPI parses only what is declared as JSON
            given = request.headers.get("content-type")
            what = "the header Content-Type does not say that the body is JSON"
            got, expected = "no Content-Type" if given is None else quoted(given), "Content-Type: application/json"
            hint = "send this header; with curl: -H 'Content-Type: application/json'"
        elif first["type"] == "json_invalid":
            what, got = "the body of the request is not JSON", f"{first['ctx']['error']} at character {first['loc'][1]}"
            expected = "JSON in UTF-8"
        return error_response(RequestError(422, what, got=got, expected=expected, hint=hint))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        what, expected = f"there is nothing at {request.method} {request.url.path}", "a path of /openapi.json"
        if error.status_code == 400:
            what, expected = "the body of the request cannot be read", "JSON in UTF-8"
        if error.status_code == 405:
            what, expected = f"{request.url.path} does not take {request.method}", (error.headers or {})["Allow"]
        unknown = RequestError(error.status_code, what, expected=expected, hint="GET /openapi.json")
        return error_response(unknown, error.headers)
