"""Traces are of several MB: few are computed or written at once, each in blocks that wait for the client."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from starlette.types import Message

pytest.importorskip("resource")

from glassformer.errors import BusyError
from glassformer.serve.api import BLOCK_BYTES, TraceResponse
from glassformer.serve.limits import Limits
from glassformer.settings import ModelSettings
from tests.serve.serving import GUARD, read_all, read_answer, running
from tests.untrained import character_model

TRACE = {"text": "abcdefg" * 5, "weights": True}
TRACE_BYTES = 10_000_000  # its minimum size


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose traces are larger than what the system takes of an answer that is not read."""
    path = tmp_path_factory.mktemp("large") / "model.safetensors"
    model = ModelSettings(d_model=256, d_ff=1024, n_heads=2, n_encoder_layers=2, n_decoder_layers=1)
    character_model("abcdefg", model=model, decoding={"max_new_tokens": 3}).save(path)
    return path


def test_a_block_is_sent_when_the_one_before_is_taken_and_the_next_trace_waits_for_the_last() -> None:
    document = bytes(range(256)) * (BLOCK_BYTES * 3 // 256) + b"end"

    async def compute() -> bytes:
        return document

    async def answer() -> None:
        slots, sent, taken = asyncio.Semaphore(1), list[Message](), asyncio.Semaphore(0)

        async def send(message: Message) -> None:
            sent.append(message)
            await taken.acquire()

        async def receive() -> Message:
            raise AssertionError

        task = asyncio.create_task(TraceResponse(compute, slots, Limits())({"type": "http"}, receive, send))
        for n_messages in range(1, 6):
            await asyncio.sleep(0)
            while len(sent) < n_messages:
                await asyncio.sleep(0)
            assert (len(sent), slots.locked()) == (n_messages, True)
            taken.release()
        await task
        assert not slots.locked()
        assert dict(sent[0]["headers"])[b"content-length"] == str(len(document)).encode()
        assert b"".join(message["body"] for message in sent[1:]) == document
        assert max(len(message["body"]) for message in sent[1:]) == BLOCK_BYTES
        assert [message["more_body"] for message in sent[1:]] == [True, True, True, False]

    asyncio.run(answer())


def test_a_trace_for_which_there_is_no_turn_is_refused() -> None:
    async def answer() -> None:
        response = TraceResponse(AsyncMock(), asyncio.Semaphore(0), Limits(compute_seconds=0.01))
        with pytest.raises(BusyError, match="other traces are being read"):
            await response({"type": "http"}, AsyncMock(), AsyncMock())

    asyncio.run(answer())


@pytest.mark.medium
def test_texts_are_translated_while_a_trace_is_read_and_the_next_one_has_its_turn(large: Path) -> None:
    with running(large, traces=1, compute_seconds=GUARD, read_seconds=GUARD, trace_seconds=GUARD) as server:
        with server.post("/v1/trace", TRACE) as deaf:
            assert deaf.recv(12) == b"HTTP/1.1 200"
            with server.post("/v1/translate", {"texts": ["abc"]}) as texts:
                assert read_answer(texts)[0] == 200
        with server.post("/v1/trace", TRACE) as other:  # the first client has left
            assert read_answer(other)[0] == 200


@pytest.mark.medium
def test_a_client_that_does_not_read_its_trace_is_closed(large: Path) -> None:
    with running(large, traces=1, compute_seconds=GUARD, read_seconds=0.5) as server:
        with server.post("/v1/trace", TRACE) as deaf, server.post("/v1/trace", TRACE) as other:
            status, found = read_answer(other)
            assert (status, found["format"]) == (200, "glassformer-trace/1")
            with contextlib.suppress(ConnectionError):
                assert not read_all(deaf).endswith(b"}")
        assert server.complaints() == ""


def test_a_client_that_reads_its_trace_slowly_is_closed(large: Path) -> None:
    with running(large, traces=1, compute_seconds=GUARD, trace_seconds=0.5) as server:
        with server.post("/v1/trace", TRACE) as slow, server.post("/v1/trace", TRACE) as other:
            found = b""
            while not has_answer(other):  # a little at a time, so that no part of it waits for long
                found += slow.recv(10_000)
                time.sleep(0.05)
            assert read_answer(other)[0] == 200
            assert len(found + read_all(slow)) < TRACE_BYTES
        assert server.complaints() == ""


def has_answer(opened: socket.socket) -> bool:
    return bool(select.select([opened], [], [], 0)[0])
