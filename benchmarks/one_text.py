"""One text at once: the translator, and CTranslate2 with the same weights used directly, in turns, one thread each.

The table has the fastest and the median run in milliseconds. `ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
OPENBLAS_CORETYPE=Haswell CT2_FORCE_CPU_ISA=AVX2` before the command shows a processor with AVX2 alone.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import options, rows_of, signature
from glassformer import Translator


def contenders(model: str, text: str, num_beams: int) -> dict[str, Callable[[], Any]]:
    """Functions that translate the text once."""
    import ctranslate2

    from glassformer.export.ctranslate2 import write

    translator = Translator.load(model, device="cpu")
    tokenizer = translator.source_tokenizer
    with tempfile.TemporaryDirectory() as folder:
        write(translator.model_file, Path(folder), "float32")
        library = ctranslate2.Translator(folder, "cpu", compute_type="float32", inter_threads=1, intra_threads=1)
    return {
        "Translator": partial(translator.translate, [text], num_beams=num_beams),
        "CTranslate2": partial(
            library.translate_batch,
            [[f"s{token}" for token in tokenizer.frame(tokenizer.encode(text))]],
            beam_size=num_beams,
            max_decoding_length=translator.settings.decoding.max_new_tokens or 256,
            return_scores=True,
        ),
    }


def main(program: str) -> None:
    parser = options(program, __doc__, rounds=100)
    parser.add_argument("model")
    parser.add_argument("text")
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1, so that each has one thread")
    cells: dict[str, list[str]] = {}
    for num_beams in (1, 5):
        functions = contenders(given.model, given.text, num_beams)
        taken: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(given.rounds):
            for name, function in functions.items():
                begun = time.perf_counter()
                function()
                taken[name].append(1000 * (time.perf_counter() - begun))
        for name, times in taken.items():
            cells.setdefault(name, []).append(f"{min(times):.2f}, {statistics.median(times):.2f}")
    rows = [[name, *row] for name, row in cells.items()]
    print(rows_of(["", "greedy: fastest, median, ms", "beam 5"], rows), signature(given.rounds), sep="")
