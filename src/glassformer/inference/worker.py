"""Many callers, one model: the requests of threads and coroutines are computed together.

    with BatchingTranslator(Translator.load("run")) as translator:
        translator.translate(["1845-01-05"])             # in any thread
        await translator.atranslate(["1845-01-05"])      # in any coroutine

One thread computes, in the order of arrival. While it computes, requests wait; requests for the same search are
then put into one search. A text has the same answer in any search, so that callers do not notice each other.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

from glassformer.errors import BusyError, TimeLimitError
from glassformer.inference.allowed import Constraint, options_of
from glassformer.inference.timelimit import TimeLimit, time_limit
from glassformer.text.inputs import SourceLike, joined

if TYPE_CHECKING:
    from glassformer.inference.translator import Translation, Translator
    from glassformer.settings import DecodingSettings

WAITING = 256  # requests
MIN_WAIT_SECONDS = 1.0
BATCH_TEXTS = 256
BATCH_CHARACTERS = 20_000

Result = TypeVar("Result")


@dataclass(eq=False)
class Request:
    """Items to compute. Requests with the same `key` may be computed together; without a key, a request is alone.

    `compute` returns one result for each item, of this request and of others with its key. `size` counts against
    BATCH_CHARACTERS.
    """

    items: Sequence[Any]
    compute: Callable[[Sequence[Any]], Sequence[Any]]
    key: object | None = None
    size: int = 0
    future: Future[list[Any]] = field(default_factory=Future)
    arrived: float = field(default_factory=monotonic)
    is_abandoned: bool = False


@dataclass(frozen=True)
class Batch:
    """What was computed at once: the number of requests and items, its time, and how long each request waited."""

    n_requests: int
    n_items: int
    seconds: float
    waited: tuple[float, ...]


class Worker:
    """One thread that computes requests in the order of their arrival, requests with the same key together.

    At most `waiting` requests wait while another one is computed; further ones get a BusyError. A request may wait for
    `seconds` (at least one), and take the same time to compute; None: without a limit. `on_batch` is called in the
    thread of the worker after each computation.
    """

    def __init__(self, waiting: int = WAITING, seconds: float | None = None) -> None:
        self.waiting, self.seconds = waiting, seconds
        self._patience = None if seconds is None else max(seconds, MIN_WAIT_SECONDS)
        self.on_batch: Callable[[Batch], None] | None = None
        self._changed = threading.Condition()
        self._queue: deque[Request] = deque()
        self._running: list[Request] = []
        self._limit: TimeLimit | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_aborted = False

    @property
    def n_waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is computed and nothing waits."""
        with self._changed:  # between the queue and the computation, a request is in neither
            return not (self._queue or self._running)

    def submit(self, request: Request) -> Request:
        """Put a request into the queue. Raises BusyError when it is full or the worker is closed."""
        with self._changed:
            if self._is_closed:
                raise _stopping()
            is_busy = any(not request.future.done() for request in self._running)
            if len(self._queue) + is_busy > self.waiting:
                what = "too many requests are waiting"
                raise BusyError(what, expected=f"at most {self.waiting} at once", hint="try again in a moment")
            self._queue.append(request)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="glassformer-worker", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return request

    def result(self, request: Request) -> list[Any]:
        """Wait for the results of a request. Raises BusyError when its wait is too long or the worker is stopped."""
        try:
            done, _ = concurrent.futures.wait([request.future], self._patience)
            if not done and request.future.cancel():
                raise self._too_slow()
            return request.future.result()
        finally:
            self._abandon(request)

    async def aresult(self, request: Request) -> list[Any]:
        """Wait for the results of a request as `result` does. A coroutine that is canceled withdraws its request."""
        future = asyncio.wrap_future(request.future)
        try:
            done, _ = await asyncio.wait([future], timeout=self._patience)
            if not done and request.future.cancel():
                raise self._too_slow()
            return await future
        finally:
            future.cancel()
            self._abandon(request)

    async def acall(self, work: Callable[[], Result]) -> Result:
        """Compute `work()` in the thread of the worker, alone."""
        (result,) = await self.aresult(self.submit(Request([None], lambda _: [work()])))
        return result  # type: ignore[no-any-return]

    def abort(self) -> None:
        """Refuse all requests: new ones, waiting ones, and the current one at the next check of its time limit."""
        with self._changed:
            self._is_closed = self._is_aborted = True
            while self._queue:
                self._fail(self._queue.popleft(), _stopping())
            self._expire_abandoned()
            self._changed.notify_all()

    def close(self, seconds: float | None = None) -> None:
        """Refuse new requests and compute the accepted ones; abort after `seconds`, if there is a limit."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            is_done = self._changed.wait_for(lambda: self.is_idle, seconds)
        if not is_done:
            self.abort()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while batch := self._take():
            begun = monotonic()
            self._compute(batch)
            if self.on_batch is not None:
                waited = tuple(begun - request.arrived for request in batch)
                n_items = sum(len(request.items) for request in batch)
                self.on_batch(Batch(len(batch), n_items, monotonic() - begun, waited))

    def _take(self) -> list[Request]:
        """Return the next requests to compute together, or none when the worker is closed and all are computed."""
        with self._changed:
            self._running = []
            self._changed.notify_all()
            while not self._running:
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                if not self._queue:
                    return []
                first = self._queue.popleft()
                if first.future.set_running_or_notify_cancel():
                    self._running = [first]
            n_items, size = len(first.items), first.size
            for request in [waiting for waiting in self._queue if first.key is not None and waiting.key == first.key]:
                n_items, size = n_items + len(request.items), size + request.size
                if n_items > BATCH_TEXTS or size > BATCH_CHARACTERS:
                    break
                self._queue.remove(request)
                if request.future.set_running_or_notify_cancel():
                    self._running.append(request)
            return self._running

    def _compute(self, batch: list[Request]) -> None:
        """Compute requests together. When that fails each half is tried, so that an error reaches its request alone."""
        try:
            with time_limit(math.inf if self.seconds is None else self.seconds) as limit:
                with self._changed:
                    self._limit = limit
                    self._expire_abandoned()
                limit.check()
                results = batch[0].compute([item for request in batch for item in request.items])
        except BaseException as error:  # of any kind: the caller gets it, and the worker continues
            traceback.clear_frames(error.__traceback__)  # of what the search had in memory
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                if again := [request for request in part if half and not self._is_over(request)]:
                    self._compute(again)
            for request in batch:
                self._fail(request, error)
            return
        start = 0
        for request in batch:
            request.future.set_result(list(results[start : start + len(request.items)]))
            start += len(request.items)

    def _is_over(self, request: Request) -> bool:
        """Whether a request that failed with others is not tried again: nobody waits, or its time has passed."""
        is_late = self.seconds is not None and monotonic() > request.arrived + 2 * self.seconds
        return request.is_abandoned or is_late or self._is_aborted

    def _fail(self, request: Request, error: BaseException) -> None:
        """Give the error to a request that has no result and no other error."""
        if isinstance(error, TimeLimitError) and self._is_aborted:
            error = _stopping()
        if not request.future.done():
            request.future.set_exception(error)

    def _abandon(self, request: Request) -> None:
        """Withdraw a request that is not done; a computation is ended when nobody waits for it any more."""
        if request.future.done() and not request.future.cancelled():
            return
        with self._changed:
            request.is_abandoned = True
            if request.future.cancel() and request in self._queue:
                self._queue.remove(request)
            self._expire_abandoned()
            self._changed.notify_all()

    def _expire_abandoned(self) -> None:
        is_abandoned = self._running and all(request.is_abandoned for request in self._running)
        if self._limit is not None and (is_abandoned or self._is_aborted):
            self._limit.expire()

    def _too_slow(self) -> BusyError:
        what, expected = "the requests before this one took too long", f"a wait of {self._patience:g} seconds"
        return BusyError(what, expected=expected, hint="try again in a moment")


def _stopping() -> BusyError:
    return BusyError("the server is stopping", expected="a running server", hint="start it again")


class BatchingTranslator:
    """A Translator for many threads and coroutines, whose requests are put into one search.

    Answers are those of `translator.translate`. `worker` may be shared by several models; one of them computes at a
    time. It is closed with this translator; as a context manager, after all that was requested is computed.
    """

    def __init__(self, translator: Translator, worker: Worker | None = None) -> None:
        self.translator, self.worker = translator, worker or Worker()

    def translate(
        self, texts: Sequence[SourceLike], *, decoding: DecodingSettings | None = None, **options: Any
    ) -> list[Translation]:
        """Translate texts as `Translator.translate` does; any thread may call this.

        Raises what that does, BusyError when too many requests wait or the worker is closed, and TimeLimitError when
        the worker has a time limit.
        """
        return self.worker.result(self._submit(texts, decoding, options))

    async def atranslate(
        self, texts: Sequence[SourceLike], *, decoding: DecodingSettings | None = None, **options: Any
    ) -> list[Translation]:
        """Translate texts as `translate` does, in a coroutine. When it is canceled, its texts leave the queue."""
        return await self.worker.aresult(self._submit(texts, decoding, options))

    def close(self, seconds: float | None = None) -> None:
        """Refuse new requests, and compute the accepted ones, for at most `seconds` if that is given."""
        self.worker.close(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _submit(
        self, texts: Sequence[SourceLike], decoding: DecodingSettings | None, options: dict[str, Any]
    ) -> Request:
        sources, prefixes = self.translator.sources_of(texts), options.pop("prefixes", None)
        forced = None if prefixes is None else self.translator.prefixes_of(prefixes, len(sources))
        constraint = Constraint.of(options.pop("must_match", None), options.pop("choices", None))
        decoding = (decoding or self.translator.settings.decoding).override(options)

        def compute(items: Sequence[tuple[str, str]]) -> list[Translation]:
            starts = None if forced is None else [prefix for _, prefix in items]
            texts, allowed = [source for source, _ in items], options_of(constraint)
            return self.translator.translate(texts, decoding=decoding, prefixes=starts, **allowed)

        return self.worker.submit(
            Request(
                list(zip(sources, forced or [""] * len(sources), strict=True)),
                compute,
                key=(id(self.translator), decoding, forced is None, constraint),
                size=sum(map(len, [*map(joined, sources), *(forced or ())])),
            )
        )
