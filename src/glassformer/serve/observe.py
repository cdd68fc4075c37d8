"""What a server records of its requests: an id, metrics for Prometheus, and a log of JSON lines without texts."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.inference.worker import Batch, Worker
from glassformer.serve.limits import RequestError, refuse

LOGGER = logging.getLogger("glassformer.serve")
ACCESS = logging.getLogger("glassformer.serve.access")
SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
CLIENT_LEFT = 499  # in the log and the metrics, for a request whose client closed the connection
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
METHODS = {"GET", "HEAD", "OPTIONS", "POST"}
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


class ServerMetrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self, worker: Worker) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = self._make(Counter, "requests", "Requests that were answered.", "method", "route", "status")
        self.seconds = self._make(Histogram, "request_seconds", "Time of a request.", "route", buckets=SECONDS)
        self.texts = self._make(Counter, "texts", "Texts that were translated.", "model")
        self.computed = self._make(Histogram, "batch_seconds", "Time of a joint computation.", buckets=SECONDS)
        self.together = self._make(Histogram, "batch_requests", "Requests computed together.", buckets=TEXTS)
        self.waited = self._make(Histogram, "wait_seconds", "Wait of a request for its turn.", buckets=SECONDS)
        self.waiting = self._make(Gauge, "waiting_requests", "Requests that wait for their turn.")
        self.info = self._make(
            Gauge, "info", "The program and the weights of each model.", "model", "version", "digest"
        )
        self._worker, worker.on_batch = worker, self.add_batch

    def _make(self, kind: Any, name: str, help_text: str, *labels: str, **options: Any) -> Any:
        return kind(f"glassformer_{name}", help_text, labels, registry=self.registry, **options)

    def add_batch(self, batch: Batch) -> None:
        """Record what the worker computed."""
        self.waiting.set(self._worker.n_waiting)
        self.computed.observe(batch.seconds)
        self.together.observe(batch.n_requests)
        for seconds in batch.waited:
            self.waited.observe(seconds)

    def to_text(self, version: str, digests: Mapping[str, str]) -> bytes:
        """Return all metrics in the text format of Prometheus; `digests` are those of the models, by name."""
        self.info.clear()
        for model, digest in digests.items():
            self.info.labels(model, version, digest).set(1)
        self.waiting.set(self._worker.n_waiting)
        return generate_latest(self.registry)


class Observed:
    """Gives every request an id and every answer safe headers; counts and, if enabled, logs it.

    A route adds what it knows to `scope["glassformer"]`: the model, the number of texts. `scope["task"]` is the task of
    the request, which is canceled when the client leaves. An exception that nobody expected is logged with its
    traceback, and answered with 500.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, routes: Iterable[object]) -> None:
        self.app, self.metrics = app, metrics
        self._start, self._numbers = secrets.token_hex(8), itertools.count(1)
        self.routes = frozenset(getattr(route, "path", "") for route in routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), CLIENT_LEFT
        client_id = Headers(scope=scope).get("x-request-id", "")
        request_id = client_id if _ID.fullmatch(client_id) else f"{self._start}-{next(self._numbers)}"
        scope["task"] = asyncio.current_task()
        facts = scope["glassformer"] = {"id": request_id}

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SAFE, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            # The server leaves out the body of the answer to HEAD.
            await self.app({**scope, "method": "GET"} if scope["method"] == "HEAD" else scope, receive, send_safely)
        except asyncio.CancelledError:
            pass
        except Exception:
            LOGGER.exception("request %s failed", request_id)
            if status == CLIENT_LEFT:
                what, hint = "the server made an error", "report it with the log of the server and the request id"
                error = RequestError(500, what, got=f"request {request_id}", expected="an answer", hint=hint)
                await refuse(scope, receive, send_safely, error)
        finally:
            self._record(scope, facts, status, time.monotonic() - begun)

    def _record(self, scope: Scope, facts: dict[str, Any], status: int, seconds: float) -> None:
        path = scope["path"]
        route = path if path in self.routes else "other"
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.requests.labels(method, route, status).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if "texts" in facts and status == 200:
            self.metrics.texts.labels(facts["model"]).inc(facts["texts"])
        if ACCESS.isEnabledFor(logging.INFO):
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": now, **facts, "method": method, "route": route, "status": status}
            ACCESS.info(json.dumps(line | {"milliseconds": round(1000 * seconds, 1)}))
