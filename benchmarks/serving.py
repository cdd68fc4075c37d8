"""A server under load, compared with `translate` on the same texts.

The model is that of the default command on dates. N clients on this machine send requests of a few texts, each the next
one when it has its answer. Every answer must be, to the last bit of its score, that of `Translator.translate`. The
server is `glassformer serve`, and shares the cores with the clients. The rate of `translate` is measured before and
after, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import megabytes, options, rows_of, signature
from benchmarks.trained import CACHE, default_dates, held_out

ROUNDING = 1e-4  # nats by which a score may depend on its batch (docs/design.md)
TRANSLATE = """
import json, sys, time
from pathlib import Path
from glassformer import Translator
translator, texts = Translator.load(sys.argv[1]), json.load(sys.stdin)
answers = translator.translate(texts)
Path(sys.argv[2]).write_text(json.dumps({t: [a.text, a.score] for t, a in zip(texts, answers)}), "utf-8")
begun, n = time.perf_counter(), 0
while time.perf_counter() - begun < 10:
    translator.translate(texts)
    n += len(texts)
print(n / (time.perf_counter() - begun))
"""


@dataclass
class Outcome:
    """What the clients saw: seconds of each request, statuses, and answers that are not those of `translate`."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0


def measure_translate(model: Path, texts: Sequence[str], answers: Path) -> float:
    """Texts a second of `Translator.translate`; its answers are kept in a file."""
    command = [sys.executable, "-c", TRANSLATE, str(model), str(answers)]
    return float(subprocess.run(command, input=json.dumps(texts), text=True, check=True, stdout=subprocess.PIPE).stdout)


@contextlib.contextmanager
def serving(model: Path) -> Iterator[tuple[psutil.Process, int]]:
    """The process and the port of a server."""
    command = [sys.executable, "-m", "glassformer", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r":(\d+)", process.stderr.readline())
            assert found is not None
            _wait_until_ready(int(found[1]))
            yield psutil.Process(process.pid), int(found[1])
        finally:
            process.terminate()


def _wait_until_ready(port: int) -> None:
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/ready"):
            break
        time.sleep(0.1)


async def ask(
    port: int, requests: Iterable[tuple[str, ...]], expected: dict[str, Any], end: float, outcome: Outcome
) -> None:
    """One client: a request after another on one connection, until the end."""
    opened: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    for texts in requests:
        if time.monotonic() > end:
            break
        body = json.dumps({"texts": texts}).encode()
        head = "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begun = time.perf_counter()
        try:
            reader, writer = opened = opened or await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            start = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", start)
            assert length is not None
            answer = await reader.readexactly(int(length[1]))
        except (OSError, asyncio.IncompleteReadError) as error:
            outcome.statuses[type(error).__name__] += 1
            opened = None
            continue
        outcome.seconds.append(time.perf_counter() - begun)
        status = start.split(b" ", 2)[1].decode()
        outcome.statuses[status] += 1
        if status == "200":
            found = zip(json.loads(answer)["translations"], (expected[text] for text in texts), strict=True)
            outcome.wrong += any(
                one["text"] != text or abs(one["score"] - score) > ROUNDING for one, (text, score) in found
            )
        elif b"connection: close" in start.lower():
            writer.close()
            opened = None
    if opened is not None:
        opened[1].close()


async def load(port: int, texts: Sequence[str], expected: dict[str, Any], given: argparse.Namespace) -> Outcome:
    """Run all clients; what they saw."""
    outcome, end = Outcome(), time.monotonic() + given.seconds

    def requests_of(client: int) -> Iterator[tuple[str, ...]]:
        at = client * len(texts) // given.clients
        while True:
            yield tuple(texts[(at + i) % len(texts)] for i in range(given.texts))
            at += given.texts

    clients = [ask(port, requests_of(number), expected, end, outcome) for number in range(given.clients)]
    await asyncio.gather(*clients)
    return outcome


COLUMNS = ("clients", "texts of a request", "requests", "refused (503)", "other failures", "wrong answers", "texts/s")
COLUMNS += ("translate, texts/s", "times", "p50, ms", "p99, ms", "memory, MB")


def main(program: str) -> None:
    parser = options(program, __doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--texts", type=int, default=1, help="texts of a request")
    given = parser.parse_args()
    model, texts = default_dates(), [source for source, _ in held_out(1000)]
    answers = CACHE / "serving-answers.json"
    before = measure_translate(model, texts, answers)
    expected = json.loads(answers.read_text("utf-8"))
    with serving(model) as (process, port):
        begun = time.perf_counter()
        outcome = asyncio.run(load(port, texts, expected, given))
        seconds, memory = time.perf_counter() - begun, megabytes(process)
    after = measure_translate(model, texts, answers)
    answered, refused = outcome.statuses["200"], outcome.statuses["503"]
    rate, cuts = answered * given.texts / seconds, statistics.quantiles(outcome.seconds, n=100)
    row = [
        f"{given.clients:,}",
        f"{given.texts}",
        f"{outcome.statuses.total():,}",
        f"{refused:,}",
        f"{outcome.statuses.total() - refused - answered:,}",
        f"{outcome.wrong:,}",
        f"{rate:,.0f}",
        f"{before:,.0f}, {after:,.0f}",
        f"{rate / statistics.mean((before, after)):.2f}",
        f"{1000 * cuts[49]:,.0f}",
        f"{1000 * cuts[98]:,.0f}",
        f"{memory:,.0f}",
    ]
    print(rows_of(COLUMNS, [row]), signature(1), sep="")
