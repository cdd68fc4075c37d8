"""Where the time of our own steps goes, by kind of operator: `python -m benchmarks.profile` (or `make profile`).

The profiler itself costs some microseconds an operator, so shares are to be read here, and speeds in the benchmarks.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from torch.profiler import ProfilerActivity, profile

from benchmarks.ours import start_run
from benchmarks.tasks import TASKS, split_dates
from benchmarks.trained import trained_dates
from glassformer import Translator

PRODUCTS = "matrix products"
WITHIN = {
    "loss": r"CrossEntropy|cross_entropy|Loss",
    "attention": r"Attention|attention",
    "dropout": r"_Drop|dropout",
    "optimizer": r"Optimizer|adam|clip_grad",
}
"""Kind -> names of functions: all operators inside are of this kind, matrix products excepted."""

KINDS = {
    PRODUCTS: r"::(mm|addmm|linear|matmul|_addmm_activation|mkldnn_linear|mkldnn_linear_pointwise)$",
    "attention": r"bmm|softmax",
    "dropout": r"random_|bernoulli",
    "norm": r"layer_norm|LayerNorm",
    "loss": r"nll_loss|logsumexp",
    "optimizer": r"foreach|linalg_vector_norm",
    "embedding, index": r"embedding|index|gather|scatter|topk|argmax|Embedding|Index",
    "casts, copies": r"::(copy_|_to_copy|to|clone|contiguous|cat|stack|fill_|zero_|zeros|empty|empty_strided)$",
}
"""Kind -> names of operators. One that no kind claims has the kind of the nearest one around it."""

ELSE = "element-wise and other"
PYTHON = "Python, outside operators"


class Share(NamedTuple):
    """Milliseconds of a kind, and its dearest operators."""

    kind: str
    milliseconds: float
    operators: list[tuple[str, float]]


def kind_of(names: Sequence[str]) -> str:
    """Of an operator: `names` are its own, then those of what it runs in, from the inside out."""
    if re.search(KINDS[PRODUCTS], names[0]):
        return PRODUCTS
    claims = (kind for patterns in (WITHIN, KINDS) for name in names for kind in _claiming(name, patterns))
    return next(claims, ELSE)


def _claiming(name: str, patterns: Mapping[str, str]) -> Iterator[str]:
    return (kind for kind, pattern in patterns.items() if re.search(pattern, name))


def profiled(work: Callable[[], object], times: int, steps: int = 1) -> list[Share]:
    """Milliseconds of a step by kind, where a `work` makes so many steps; work is done `times` before it counts."""
    for _ in range(times):
        work()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        begun = time.perf_counter()
        for _ in range(times):
            work()
        whole = 1000 * (time.perf_counter() - begun) / (times * steps)
    spent: dict[str, defaultdict[str, float]] = {}
    for event in profiler.events():
        milliseconds = event.self_cpu_time_total / 1000 / (times * steps)
        spent.setdefault(kind_of(_and_around(event)), defaultdict(float))[event.name] += milliseconds
    shares = [
        Share(kind, sum(each.values()), nlargest(4, each.items(), key=itemgetter(1))) for kind, each in spent.items()
    ]
    in_operators = sum(share.milliseconds for share in shares)
    return sorted([*shares, Share(PYTHON, max(0.0, whole - in_operators), [])], key=lambda share: -share.milliseconds)


def _and_around(event: Any) -> list[str]:
    return [] if event is None else [event.name, *_and_around(event.cpu_parent)]


def show(title: str, shares: list[Share]) -> None:
    whole = sum(share.milliseconds for share in shares)
    print(f"\n{title}: {whole:.1f} ms")
    for kind, milliseconds, operators in shares:
        named = ", ".join(
            f"{name.removeprefix('aten::')} {each:.1f}" for name, each in operators if each > 0.005 * whole
        )
        print(f"  {kind:26} {milliseconds:8.1f}  {milliseconds / whole:4.0%}  {named}")


def profile_training(name: str, n_steps: int) -> None:
    task = TASKS[name.removeprefix("train-")]()
    run = start_run(task.prepared, "cpu")
    batches = list(islice(task.batches(), n_steps))
    show(f"a step of {name}", profiled(lambda: [run.update([rows]) for rows in batches], 1, n_steps))


def profile_decoding() -> None:
    translator, texts = Translator.load(trained_dates()), [source for source, _ in split_dates()[1]]
    show("1,000 texts, greedy", profiled(lambda: translator.translate(texts, num_beams=1), 2))
    show("200 texts, beam 5", profiled(lambda: translator.translate(texts[:200], num_beams=5), 2))
    show("one text, greedy", profiled(lambda: translator.translate(texts[:1], num_beams=1), 20))


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--only", default="train-D,train-M,decode-D", help="some of these, with commas between")
    parser.add_argument("--steps", type=int, default=5, help="steps of training that are looked at")
    given = parser.parse_args()
    for name in given.only.split(","):
        if name == "decode-D":
            profile_decoding()
        else:
            profile_training(name, given.steps)


if __name__ == "__main__":
    main()
