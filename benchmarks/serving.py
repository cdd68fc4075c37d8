"""A server under load, compared with `translate` on the same texts.

    python -m benchmarks.serving [--clients N] [--seconds N] [--texts N] [--model RUN]

The model is that of the default command on dates. N clients on this machine send requests of a few texts, each the next
one when it has its answer. Every answer must be, to the last bit of its score, that of `Translator.translate`. The
server is `glassformer serve`, and shares the cores with the clients. The rate of
`translate` is measured before and after, in a process of its own. The table is written into docs/http-api.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
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

DOCUMENT = Path(__file__).parents[1] / "docs" / "http-api.md"
RESULTS = Path(__file__).parent / "results"
CLIENTS, SECONDS, TEXTS = 200, 60, 1
ROUNDING = 1e-4  # nats by which a score may depend on its batch (docs/design.md)
TRANSLATE = """
import json, sys, time
from pathlib import Path
from glassformer import Translator
translator, texts = Translator.load(sys.argv[1]), json.load(sys.stdin)
answers = translator.translate(texts)
Path(sys.argv[2]).write_text(json.dumps({t: [a.text, a.score] for t, a in zip(texts, answers)}), "utf-8")
begun, cpu, n = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - begun < 10:
    translator.translate(texts)
    n += len(texts)
print(n / (time.perf_counter() - begun), 1000 * (time.process_time() - cpu) / n)
"""


@dataclass
class Outcome:
    """What the clients saw: seconds of each request, statuses, and answers that are not those of `translate`."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0


def measure_translate(model: Path, texts: Sequence[str], answers: Path) -> tuple[float, float]:
    """Texts a second of `Translator.translate`, and its CPU time of a text in ms; its answers are kept in a file."""
    command = [sys.executable, "-c", TRANSLATE, str(model), str(answers)]
    done = subprocess.run(command, input=json.dumps(texts), text=True, check=True, stdout=subprocess.PIPE)
    rate, cpu = map(float, done.stdout.split())
    return rate, cpu


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
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/ready"):
            break
        time.sleep(0.1)


def cpu_seconds(process: psutil.Process) -> float:
    """The CPU time of a process and its children."""
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children()))


def memory_mb(process: psutil.Process) -> float:
    """The resident memory of a process and its children."""
    return sum(each.memory_info().rss for each in (process, *process.children())) / 1e6


async def ask(
    port: int, requests: Iterable[tuple[str, ...]], expected: dict[str, Any], end: float, outcome: Outcome
) -> None:
    """One client: a request after another on one connection, until the end."""
    opened: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    for texts in requests:
        if time.monotonic() > end:
            break
        body = json.dumps({"texts": texts}).encode()
        head = "POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
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


async def load(
    port: int, process: psutil.Process, texts: Sequence[str], expected: dict[str, Any], given: argparse.Namespace
) -> tuple[Outcome, list[float]]:
    """Run all clients; what they saw, and the memory of the server in MB at each second."""
    outcome, memory = Outcome(), list[float]()
    end = time.monotonic() + given.seconds

    def requests_of(client: int) -> Iterator[tuple[str, ...]]:
        at = client * len(texts) // given.clients
        while True:
            yield tuple(texts[(at + i) % len(texts)] for i in range(given.texts))
            at += given.texts

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(memory_mb(process))
            await asyncio.sleep(1)

    clients = [ask(port, requests_of(number), expected, end, outcome) for number in range(given.clients)]
    await asyncio.gather(watch(), *clients)
    return outcome, memory


def main() -> None:
    from benchmarks.run import machine
    from benchmarks.tasks import split_dates
    from benchmarks.trained import CACHE, default_dates

    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--texts", type=int, default=TEXTS, help="texts of a request")
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    model, texts = given.model or default_dates(), [source for source, _ in split_dates()[1][:1000]]
    CACHE.mkdir(exist_ok=True)
    answers = CACHE / "serving-answers.json"
    before = measure_translate(model, texts, answers)
    expected = json.loads(answers.read_text("utf-8"))
    with serving(model) as (process, port):
        begun, cpu = time.perf_counter(), cpu_seconds(process)
        outcome, memory = asyncio.run(load(port, process, texts, expected, given))
        seconds, cpu = time.perf_counter() - begun, cpu_seconds(process) - cpu
    after = measure_translate(model, texts, answers)
    rate = outcome.statuses["200"] * given.texts / seconds
    cuts = statistics.quantiles(outcome.seconds, n=100)
    figures = {
        "clients": given.clients,
        "texts": given.texts,
        "seconds": given.seconds,
        "requests": len(outcome.seconds),
        "statuses": dict(outcome.statuses),
        "wrong": outcome.wrong,
        "texts_per_second": rate,
        "translate": [before[0], after[0]],
        "ratio": rate / statistics.mean((before[0], after[0])),
        "cpu_ms": 1000 * cpu / (outcome.statuses["200"] * given.texts),
        "translate_cpu_ms": statistics.mean((before[1], after[1])),
        "p50_ms": 1000 * cuts[49],
        "p99_ms": 1000 * cuts[98],
        "memory_mb": memory,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "machine": machine("cpu"),
    }
    report(figures)


def report(figures: dict[str, Any]) -> None:
    """Print the table, keep the figures, and write the table into the document when the load was that of the goal."""
    from benchmarks.report import fill, rows_of, save, signature

    columns = [
        "clients",
        "texts of a request",
        "requests",
        "refused (503)",
        "other failures",
        "wrong answers",
        "texts/s",
    ]
    columns += ["translate, texts/s", "times", "p50, ms", "p99, ms", "memory after 10 s, MB", "at the end"]
    statuses, memory = figures["statuses"], figures["memory_mb"]
    refused = statuses.get("503", 0)
    row = [
        f"{figures['clients']:,}",
        f"{figures['texts']}",
        f"{sum(statuses.values()):,}",
        f"{refused:,}",
        f"{sum(statuses.values()) - refused - statuses.get('200', 0):,}",
        f"{figures['wrong']:,}",
        f"{figures['texts_per_second']:,.0f}",
        ", ".join(f"{rate:,.0f}" for rate in figures["translate"]),
        f"{figures['ratio']:.2f}",
        f"{figures['p50_ms']:,.0f}",
        f"{figures['p99_ms']:,.0f}",
        f"{memory[min(10, len(memory) - 1)]:,.0f}",
        f"{memory[-1]:,.0f}",
    ]
    table = f"{rows_of(columns, [row])}\n{signature(figures | {'rounds': 0})}\n"
    print(json.dumps(figures), table, sep="\n")
    if (figures["clients"], figures["texts"]) == (CLIENTS, TEXTS) and figures["seconds"] >= SECONDS:
        save({"serving": figures}, RESULTS / f"{datetime.date.today().isoformat()}-cpu.json")
        DOCUMENT.write_text(fill(DOCUMENT.read_text(encoding="utf-8"), "serving", table), encoding="utf-8")


if __name__ == "__main__":
    main()
