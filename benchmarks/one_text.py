"""One text at once: each engine, and CTranslate2 with the same weights used directly, in turns, one thread each.

    OMP_NUM_THREADS=1 python -m benchmarks.one_text MODEL TEXT [--runs N]

The table has the fastest and the median run in milliseconds. `ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
OPENBLAS_CORETYPE=Haswell CT2_FORCE_CPU_ISA=AVX2` before the command shows a processor with AVX2 alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2

from glassformer import Translator
from glassformer.ship.export.ctranslate2 import write

ENGINES = ("numpy", "torch")


def contenders(model: str, text: str, num_beams: int) -> dict[str, Callable[[], Any]]:
    """Functions that translate the text once. Raises SystemExit when they do not give the same answer."""
    found: dict[str, Callable[[], Any]] = {}
    answers = {}
    for engine in ENGINES:
        translator = Translator.load(model, engine=engine, device="cpu")
        answers[engine] = translator.translate([text], num_beams=num_beams)[0].text
        found[f"Translator, {engine}"] = partial(translator.translate, [text], num_beams=num_beams)
    if len(set(answers.values())) > 1:
        raise SystemExit(f"the answers differ: {answers}")
    tokenizer = translator.source_tokenizer
    names = [f"s{token}" for token in range(len(tokenizer))]
    with tempfile.TemporaryDirectory() as folder:
        write(translator.model_file, Path(folder), "float32")
        library = ctranslate2.Translator(folder, "cpu", compute_type="float32", inter_threads=1, intra_threads=1)
    found["CTranslate2"] = partial(
        library.translate_batch,
        [[names[token] for token in tokenizer.frame(tokenizer.encode(text))]],
        beam_size=num_beams,
        max_decoding_length=translator.settings.decoding.max_new_tokens or 256,
        return_scores=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1, so that each has one thread")
    print("| one text | greedy: fastest, median | beam 5: fastest, median |\n|---|---:|---:|")
    columns: dict[str, list[str]] = {}
    for num_beams in (1, 5):
        functions = contenders(given.model, given.text, num_beams)
        taken: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(given.runs):
            for name, function in functions.items():
                begun = time.perf_counter()
                function()
                taken[name].append(1000 * (time.perf_counter() - begun))
        for name, times in taken.items():
            columns.setdefault(name, []).append(f"{min(times):.2f}, {statistics.median(times):.2f}")
    for name, cells in columns.items():
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
