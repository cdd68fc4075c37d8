"""A model in every format, side by side: how fast it answers, and what a machine needs for it.

The model is that of the default command on dates. Each contender has a process of its own that imports what its runtime
needs and nothing else; they compute in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import megabytes, options, rows_of, signature
from benchmarks.turns import Act, Measured, Record, take_turns

TEXTS, SINGLES = 1000, 10
BEAM = 5
THREADS = 2

Translate = Callable[[list[str], int], list[str]]
FORMATS = {
    "glassformer": None,
    "CTranslate2, float32": ("ctranslate2", "float32"),
    "CTranslate2, int8": ("ctranslate2", "int8"),
    "onnxruntime, float32": ("onnx", "float32"),
    "onnxruntime, int8": ("onnx", "int8"),
    "Hugging Face": ("huggingface", "float32"),
    "HTML page, float16": ("html", "float16"),
}
"""Contender -> its format and precision; None for the model itself."""
PACKAGES = {
    "glassformer": ("glassformer",),
    "ctranslate2": ("ctranslate2",),
    "onnx": ("onnxruntime", "numpy"),
    "huggingface": ("transformers", "torch"),
    "html": (),
}


def kind_of(contender: str) -> str:
    return (FORMATS[contender] or ("glassformer",))[0]


@dataclass(frozen=True)
class Exported:
    """A contender that answers dates with the files in `folder`."""

    name: str
    folder: Path
    texts: tuple[str, ...]
    right: tuple[str, ...]

    def start(self) -> tuple[dict[str, Any], Act]:
        kind = kind_of(self.name)
        if kind == "html":  # what drives the browser is no part of the page
            importlib.import_module("benchmarks.page")
        begun = time.perf_counter()
        translate = _LOADERS[kind](self.folder)
        first = translate([self.texts[0]], BEAM)
        facts: dict[str, Any] = {"start": time.perf_counter() - begun, "first": first[0]}
        texts = list(self.texts)
        for name, num_beams in (("greedy", 1), ("beam", BEAM)):
            answers = translate(texts, num_beams)
            facts[f"{name}_exact_match"] = sum(map(str.__eq__, answers, self.right)) / len(texts)

        def act() -> Measured:
            measured: Measured = {}
            for name, num_beams in (("greedy", 1), ("beam", BEAM)):
                begun = time.perf_counter()
                translate(texts, num_beams)
                measured[f"{name}_per_second"] = len(texts) / (time.perf_counter() - begun)
                alone = []
                for text in texts[:SINGLES]:
                    begun = time.perf_counter()
                    translate([text], num_beams)
                    alone.append(1000 * (time.perf_counter() - begun))
                measured[f"{name}_milliseconds"] = statistics.median(alone)
            measured["memory"] = megabytes(psutil.Process(), children_only=kind == "html")
            return measured

        return facts, act


def _ours(folder: Path) -> Translate:
    from glassformer import Translator

    translator = Translator.load(folder)
    return lambda texts, num_beams: [one.text for one in translator.translate(texts, num_beams=num_beams)]


def _runner(folder: Path) -> Translate:
    """Use what the `run.py` of an export imports."""
    sys.path.insert(0, str(folder))
    from engine import Engine  # type: ignore[import-not-found]
    from lines import Export, read_row  # type: ignore[import-not-found]
    from run import read_description  # type: ignore[import-not-found]

    exported = Export(read_description(folder))
    engine = Engine(exported, argparse.Namespace(threads=THREADS, device="cpu"))

    def translate(texts: list[str], num_beams: int) -> list[str]:
        sources = [read_row(exported, number, text, as_json=False).ids for number, text in enumerate(texts, 1)]
        answers = engine.answer(sources, num_beams, all_answers=False)
        return [exported.target.decode(found.ids) for found in answers]

    return translate


def _huggingface(folder: Path) -> Translate:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.eval()

    def translate(texts: list[str], num_beams: int) -> list[str]:
        answers: list[str] = []
        with torch.inference_mode():
            for start in range(0, len(texts), 128):
                batch = tokenizer(texts[start : start + 128], return_tensors="pt", padding=True)
                batch.pop("token_type_ids", None)
                answers += tokenizer.batch_decode(
                    model.generate(**batch, num_beams=num_beams), skip_special_tokens=True
                )
        return answers

    return translate


def _html(folder: Path) -> Translate:
    from benchmarks.page import CHROMIUM, browsers

    browser = browsers().chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page()
    page.goto((folder / "index.html").as_uri())
    page.wait_for_selector("body[data-ready='true']")

    def translate(texts: list[str], num_beams: int) -> list[str]:
        found = page.evaluate("([texts, beams]) => glassformer.translate(texts, beams)", [texts, num_beams])
        return [one["text"] for one in found]

    return translate


_LOADERS: dict[str, Callable[[Path], Translate]] = {
    "glassformer": _ours,
    "ctranslate2": _runner,
    "onnx": _runner,
    "huggingface": _huggingface,
    "html": _html,
}


def installed_megabytes(packages: tuple[str, ...]) -> float:
    """The size of packages and of everything that they require, in MB of 10^6 bytes."""
    seen: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(name)
            seen.add(name)
            required = (line for line in distribution.requires or () if "extra ==" not in line)
            waiting += [re.split(r"[ ;<>=!~\[(]", line, maxsplit=1)[0] for line in required]
    total = 0
    for name in seen:
        for file in importlib.metadata.distribution(name).files or ():
            with contextlib.suppress(OSError):
                total += Path(str(file.locate())).stat().st_size
    return total / 1e6


def write(name: str, model: Path, folder: Path) -> Path:
    """Export the model for a contender, and return the folder; for ours it is that of the run."""
    from glassformer.export import export

    chosen = FORMATS[name]
    if chosen is None:
        return model
    to, precision = chosen
    return export(model, to, folder / f"{to}-{precision}", precision=precision).folder


def files_of(folder: Path) -> list[Path]:
    """The files that a program needs: of a run, its model alone."""
    own = folder / "model.safetensors"
    return [own] if (folder / "recipe.toml").exists() else [file for file in folder.iterdir() if file.is_file()]


COLUMNS = ("", "sentences/s, greedy", "beam 5", "one sentence, greedy, ms", "beam 5, ms", "start to first answer, s")
COLUMNS += ("files, MB", "installed, MB", "resident, MB", "exact match, greedy, beam 5")


def row_of(name: str, job: Exported, record: Record) -> list[str]:
    """The cells of a contender: medians over the rounds."""
    if record.absent:
        return [name, record.absent]
    median = {key: statistics.median(record.of(key)) for key in record.turns[0]}
    installed = installed_megabytes(PACKAGES[kind_of(name)])
    return [
        name,
        f"{median['greedy_per_second']:,.0f}",
        f"{median['beam_per_second']:,.0f}",
        f"{median['greedy_milliseconds']:.1f}",
        f"{median['beam_milliseconds']:.1f}",
        f"{record.facts['start']:.1f}",
        f"{sum(file.stat().st_size for file in files_of(job.folder)) / 1e6:.1f}",
        f"{installed:,.0f}" if installed else "a browser",
        f"{median['memory']:,.0f}",
        f"{record.facts['greedy_exact_match']:.1%}, {record.facts['beam_exact_match']:.1%}",
    ]


def main(program: str) -> None:
    from benchmarks.trained import default_dates, held_out

    given = options(program, __doc__, rounds=5).parse_args()
    model, pairs = default_dates(), held_out(TEXTS)
    texts, right = tuple(source for source, _ in pairs), tuple(target for _, target in pairs)
    with tempfile.TemporaryDirectory() as temporary:
        jobs = {name: Exported(name, write(name, model, Path(temporary)), texts, right) for name in FORMATS}
        records = take_turns(jobs, given.rounds)
        rows = [row_of(name, jobs[name], record) for name, record in records.items()]
    print(rows_of(COLUMNS, rows), signature(given.rounds), sep="")
