"""Requests of many threads and coroutines are computed together, and none notices the others."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from glassformer import BatchingTranslator, Translator
from glassformer.errors import BusyError, NotFiniteError, SettingsError, TextError, TimeLimitError, UsageError
from glassformer.inference.timelimit import check_time_limit
from glassformer.inference.translator import Translation
from glassformer.inference.worker import BATCH_CHARACTERS, BATCH_TEXTS, Batch, Request, Worker
from tests.chaos.conftest import child, wait
from tests.untrained import character_model

GUARD = 60


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(
        character_model("abcdefg", "hijklm", decoding={"num_beams": 3, "max_new_tokens": 8}), device="cpu"
    )


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.abort()


class Gate:
    """Computes by returning the items, after `open` is set; `batches` are the items that were computed together."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Event()
        self.batches: list[list[Any]] = []

    def __call__(self, items: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(list(items))
        self.entered.set()
        while not self.open.wait(0.01):
            check_time_limit()
        return items


def hold(worker: Worker, gate: Gate) -> Request:
    """Let the worker compute until the gate opens."""
    request = worker.submit(Request(["held"], gate))
    assert gate.entered.wait(GUARD)
    return request


@pytest.fixture
def gate(worker: Worker) -> Gate:
    """The gate that the worker waits for."""
    gate = Gate()
    hold(worker, gate)
    return gate


def texts(n: int, seed: int) -> list[str]:
    chance = np.random.default_rng(seed)
    return ["".join(chance.choice(list("abcdefg"), chance.integers(1, 20))) for _ in range(n)]


def assert_alike(found: list[list[Translation]], alone: list[list[Translation]]) -> None:
    """The texts are the same, and the scores but for the rounding of another batch."""
    for ours, expected in zip(found, alone, strict=True):
        assert [answer.text for answer in ours] == [answer.text for answer in expected]
        assert [answer.score for answer in ours] == pytest.approx([answer.score for answer in expected], abs=1e-4)


def test_every_thread_gets_the_answers_that_its_texts_have_alone(translator: Translator) -> None:
    requests = [texts(1 + seed % 3, seed) for seed in range(24)]
    alone = [translator.translate(request) for request in requests]
    batches: list[Batch] = []
    with BatchingTranslator(translator) as batching, ThreadPoolExecutor(12) as pool:
        batching.worker.on_batch = batches.append
        assert_alike(list(pool.map(batching.translate, requests)), alone)
    assert sum(batch.n_requests for batch in batches) == len(requests)
    assert max(batch.n_requests for batch in batches) > 1


def test_every_coroutine_gets_its_answers_with_its_own_options(translator: Translator) -> None:
    options: list[dict[str, Any]] = [{"num_beams": 1}, {}, {"prefixes": ["mi", ""]}, {"prefixes": ["", "x"]}]
    requests = [(texts(2, seed), options[seed % 4]) for seed in range(12)]

    async def all_of_them(batching: BatchingTranslator) -> list[Any]:
        asked = (batching.atranslate(given, **options) for given, options in requests)
        return await asyncio.gather(*asked, return_exceptions=True)

    with BatchingTranslator(translator) as batching:
        found = asyncio.run(all_of_them(batching))
    refused = [answers for answers in found if isinstance(answers, TextError)]
    assert ["no answer can start with it" in error.what for error in refused] == [True] * 3
    possible = [(given, chosen) for given, chosen in requests if "x" not in chosen.get("prefixes", ())]
    alone = [translator.translate(given, **chosen) for given, chosen in possible]
    assert_alike([answers for answers in found if answers not in refused], alone)


def test_requests_with_the_same_key_are_computed_together_and_others_apart(worker: Worker, gate: Gate) -> None:
    keys = ["a", "b", "a", None, "a", "b", None]
    waiting = [worker.submit(Request([number], gate, key=key)) for number, key in enumerate(keys)]
    gate.open.set()
    assert [worker.result(request) for request in waiting] == [[number] for number in range(len(keys))]
    assert gate.batches == [["held"], [0, 2, 4], [1, 5], [3], [6]]


def test_a_search_has_at_most_so_many_texts_and_characters(worker: Worker, gate: Gate) -> None:
    waiting = [worker.submit(Request([0] * (BATCH_TEXTS * 2 // 5), gate, key="a")) for _ in range(3)]
    waiting += [worker.submit(Request([1], gate, key="b", size=BATCH_CHARACTERS)) for _ in range(2)]
    gate.open.set()
    for request in waiting:
        worker.result(request)
    assert [len(batch) for batch in gate.batches] == [1, 204, 102, 1, 1]


def test_an_error_in_the_middle_of_a_search_reaches_only_the_request_that_caused_it(worker: Worker, gate: Gate) -> None:
    tried: list[list[int]] = []

    def compute(items: Sequence[int]) -> Sequence[int]:
        tried.append(list(items))
        if 5 in items:
            raise NotFiniteError.at(items.index(5), "nan")
        return items

    waiting = [worker.submit(Request([number], compute, key="a")) for number in range(8)]
    gate.open.set()
    for number, request in enumerate(waiting):
        if number == 5:
            with pytest.raises(NotFiniteError):
                worker.result(request)
        else:
            assert worker.result(request) == [number]
    assert tried == [[*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5], [6, 7]]


def test_what_a_failed_search_had_in_memory_is_free_when_its_halves_are_tried(worker: Worker, gate: Gate) -> None:
    had: list[weakref.ref[Any]] = []

    def compute(items: Sequence[int]) -> Sequence[int]:
        assert all(array() is None for array in had)
        large = np.zeros(3)
        had.append(weakref.ref(large))
        if len(items) > 1:
            raise MemoryError
        return items

    waiting = [worker.submit(Request([number], compute, key="a")) for number in range(2)]
    gate.open.set()
    assert [worker.result(request) for request in waiting] == [[0], [1]]
    assert len(had) == 3


def test_a_wrong_call_is_refused_before_it_waits(translator: Translator) -> None:
    batching = BatchingTranslator(translator)
    for texts in ("abc", [1]):
        with pytest.raises(UsageError):
            batching.translate(texts)  # type: ignore[arg-type]
    with pytest.raises(SettingsError):
        batching.translate(["abc"], num_beam=2)
    assert batching.worker._thread is None


def test_a_full_queue_refuses_and_takes_requests_again_later() -> None:
    worker, gate = Worker(waiting=1), Gate()
    held = hold(worker, gate)
    second = worker.submit(Request([1], gate))
    with pytest.raises(BusyError, match="too many requests are waiting"):
        worker.submit(Request([2], gate))
    gate.open.set()
    assert (worker.result(held), worker.result(second)) == (["held"], [1])
    assert worker.result(worker.submit(Request([2], gate))) == [2]
    worker.close()


def test_a_wait_that_takes_too_long_ends_and_leaves_the_queue() -> None:
    worker, gate = Worker(seconds=GUARD), Gate()
    worker._patience = 0.05
    hold(worker, gate)
    with pytest.raises(BusyError, match="the requests before this one took too long"):
        worker.result(worker.submit(Request([1], gate)))
    with pytest.raises(BusyError, match="the requests before this one took too long"):
        asyncio.run(worker.acall(lambda: None))
    assert worker.n_waiting == 0
    gate.open.set()
    worker.close()
    assert gate.batches == [["held"]]


def test_a_computation_that_takes_too_long_ends_and_the_next_one_has_its_turn() -> None:
    worker, gate = Worker(seconds=0.05), Gate()
    worker._patience = GUARD
    waiting = [worker.submit(Request([number], gate, key="a")) for number in range(3)]
    for request in waiting:
        with pytest.raises(TimeLimitError):
            worker.result(request)
    gate.open.set()
    assert worker.result(worker.submit(Request([3], gate))) == [3]
    worker.close()


def test_a_computation_that_nobody_waits_for_ends(worker: Worker) -> None:
    gate = Gate()

    async def leave() -> None:
        task = asyncio.ensure_future(worker.aresult(worker.submit(Request([1], gate))))
        while not gate.entered.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    end = time.monotonic() + GUARD
    while not worker.is_idle and time.monotonic() < end:
        time.sleep(0.01)
    assert worker.is_idle
    assert not gate.open.is_set()


def test_closing_finishes_what_was_accepted_and_refuses_the_rest(translator: Translator) -> None:
    gate = Gate()
    with BatchingTranslator(translator) as batching:
        hold(batching.worker, gate)
        waiting = batching._submit(["abc"], None, {})
        threading.Timer(0.1, gate.open.set).start()
    assert waiting.future.result(0) == translator.translate(["abc"])
    with pytest.raises(BusyError, match="the server is stopping"):
        batching.translate(["abc"])


def test_closing_ends_what_takes_longer_than_its_time() -> None:
    worker, gate = Worker(), Gate()
    held, waiting = hold(worker, gate), worker.submit(Request([1], gate))
    worker.close(0.05)
    for request in (held, waiting):
        with pytest.raises(BusyError, match="the server is stopping"):
            worker.result(request)
    assert gate.batches == [["held"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_a_worker_of_its_own(translator: Translator) -> None:
    with BatchingTranslator(translator) as together:
        expected = together.translate(["abc"])

        def work() -> int:
            signal.alarm(GUARD)
            return int(together.translate(["abc"]) != expected)

        with child(work) as number:
            assert wait(number) == 0
