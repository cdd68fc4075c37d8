"""What was measured, as JSON and as the tables of docs/performance.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contenders import OURS, PEAKS
from benchmarks.figures import Figure, rates, ratio

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"

Outcome = dict[str, Any]
"""Of one job: when, rounds, machine; contenders by name, each with facts, turns, memory_mb, absent."""


def save(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Lay these jobs over those that the file has already."""
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(earlier | dict(outcomes), indent=1) + "\n", encoding="utf-8")


def fill(page: str, name: str, table: str) -> str:
    """The page with `table` between the markers `<!-- name -->` and `<!-- end -->`; unchanged where it has none."""
    pattern = rf"(?<=^<!-- {re.escape(name)} -->\n).*?(?=^<!-- end -->$)"
    return re.sub(pattern, lambda _: table, page, count=1, flags=re.MULTILINE | re.DOTALL)


def table_of(job: str, outcome: Outcome) -> str:
    """The table of a job, and under it where and when it was measured."""
    kind = job.partition("-")[0]
    return f"{TABLES[kind](outcome)}\n{signature(outcome)}\n"


def signature(outcome: Outcome) -> str:
    machine = outcome["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    rounds = f"{outcome['rounds']} rounds; " if outcome["rounds"] else ""
    return f"{outcome['when'][:10]}; {rounds}{machine['device']}, {machine['threads']} threads; {versions}."


def rows_of(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


# One table for each kind of job


def training_table(outcome: Outcome) -> str:
    contenders = outcome["contenders"]
    peaks = {precision: rates(contenders[name]["turns"], "flops") for name, precision in PEAKS.items()}
    ours = rates(contenders[OURS]["turns"], "pairs")
    columns = ["", "pairs/s", "target tokens/s", "ours is … times", "of the peak", "memory, MB", "100,000 steps, hours"]
    rows = []
    for name, each in contenders.items():
        if name in PEAKS:
            continue
        if each["absent"]:
            rows.append([name, each["absent"], *[""] * (len(columns) - 2)])
            continue
        turns = each["turns"]
        pairs = rates(turns, "pairs")
        share = ratio(rates(turns, "flops"), peaks[each["facts"]["precision"]])
        memory = max((turn.get("device_mb", 0.0) for turn in turns), default=0.0) or each["memory_mb"]
        hours = Figure.of([turn["seconds"] / turn["updates"] for turn in turns]).median * 100_000 / 3600
        rows.append(
            [
                name,
                Figure.of(pairs).write(),
                f"{Figure.of(rates(turns, 'tokens')).median:,.0f}",
                "1" if name == OURS else ratio(ours, pairs).write(2),
                f"{share.median:.0%}",
                f"{memory:,.0f}" if memory else "unknown",
                f"{hours:,.1f}",
            ]
        )
    facts = contenders[OURS]["facts"]
    task = facts["task"]
    told = ", ".join(
        f"{precision} {Figure.of([rate / 1e9 for rate in measured]).write()} GFLOP/s"
        for precision, measured in peaks.items()
        if measured
    )
    return (
        f"{rows_of(columns, rows)}\n{facts['parameters']:,} parameters; {task['source_tokens']} source and "
        f"{task['target_tokens']} target tokens a pair, {task['gflop_a_pair']} GFLOP. "
        f"Peak of the matrix products: {told}.\n"
    )


DECODED = ("greedy_per_second", "beam_per_second", "greedy_milliseconds", "beam_milliseconds")


def decoding_table(outcome: Outcome) -> str:
    contenders = outcome["contenders"]
    columns = ["", "greedy, sentences/s", "ours is … times", "beam 5, sentences/s", "ours is … times"]
    columns += ["one sentence, greedy, ms", "beam 5, ms", "exact match"]
    ours = contenders[OURS]["turns"]
    rows = []
    for name, each in contenders.items():
        if each["absent"]:
            rows.append([name, each["absent"], *[""] * (len(columns) - 2)])
            continue
        row = [name]
        for key in DECODED[:2]:
            theirs = [turn[key] for turn in each["turns"]]
            row.append(Figure.of(theirs).write())
            row.append("1" if name == OURS else ratio([turn[key] for turn in ours], theirs).write(2))
        row += [Figure.of([turn[key] for turn in each["turns"]]).write(1) for key in DECODED[2:]]
        facts = each["facts"]
        row.append(f"{facts['greedy_exact_match']:.1%}, {facts['beam_exact_match']:.1%}")
        rows.append(row)
    return rows_of(columns, rows)


def curves_table(outcome: Outcome) -> str:
    parts = []
    for name, each in outcome["contenders"].items():
        if name == "rows":
            continue
        rows = []
        for value, facts in each["facts"].items():
            seconds = [turn[value] for turn in each["turns"]]
            rows.append(
                [
                    f"{int(value):,}",
                    Figure.of([1000 * each for each in seconds]).write(),
                    f"{Figure.of([facts['tokens'] / each for each in seconds]).median:,.0f}",
                    Figure.of([1e12 * each / facts["flops"] for each in seconds]).write(2),
                ]
            )
        parts.append(rows_of([name, "a step, ms", "target tokens/s", "seconds per TFLOP"], rows))
        if name.startswith("length"):
            cost = {at: [turn[at] / each["facts"][at]["flops"] for turn in each["turns"]] for at in ("128", "2048")}
            grown = ratio(cost["2048"], cost["128"]).write(2)
            parts.append(f"A FLOP at 2,048 tokens a side costs {grown} times what it costs at 128.\n")
    turns = outcome["contenders"]["rows"]["turns"]
    kinds = ("preparation", "epoch")
    rows = [
        [f"{int(n_rows):,}", *(Figure.of([turn[f"{n_rows} {kind}"] for turn in turns]).write(2) for kind in kinds)]
        for n_rows in dict.fromkeys(key.split()[0] for key in turns[0])
    ]
    parts.append(rows_of(["rows", "preparation, s", "an epoch, s"], rows))
    return "\n".join(parts)


def padding_table(outcome: Outcome) -> str:
    rows = []
    for name, each in outcome["contenders"].items():
        if "absent" in each:
            rows.append([name, each["absent"], "", "", ""])
        else:
            shares = [f"{each[side]:.1%}" for side in ("layers", "source", "target")]
            rows.append([name, f"{each['rows']:,}", f"{each['batches']:,}", *shares])
    return rows_of(["", "rows", "batches", "padding in all layers", "in attention: source", "target"], rows)


def page_table(outcome: Outcome) -> str:
    rows = []
    for name, each in outcome["contenders"].items():
        if each["absent"]:
            rows.append([name, each["absent"], *[""] * 8])
            continue
        known = each["turns"][0]
        waits = [
            Figure.of([turn[what] for turn in each["turns"]]).write(2)
            if what in known
            else "not measured"
            if each["facts"].get("has_weights", True)
            else "no weights in it"
            for what in ("write", "shown", "open", "what if", "typed")
        ]
        frames = [
            Figure.of([turn[what] for turn in each["turns"]]).write(0) if what in known else "not measured"
            for what in ("story frames", "scroll frames", "hover frames")
        ]
        rows.append([name, *waits, *frames, f"{each['facts']['megabytes']:.1f}"])
    columns = ["report of one translation", "written, s", "shown, s", "opened, s", "what if, s", "another text, s"]
    return rows_of([*columns, "story, frames/s", "scrolling, frames/s", "hover, frames/s", "MB"], rows)


TABLES: dict[str, Callable[[Outcome], str]] = {
    "train": training_table,
    "decode": decoding_table,
    "curves": curves_table,
    "padding": padding_table,
    "page": page_table,
}


# What the speed was to be


class Goal(NamedTuple):
    """How many times the contender `ours` is to be ahead of `peer`: at least, and if we can."""

    job: str
    ours: str
    peer: str
    key: str
    must: float
    aim: float


GOALS = (
    Goal("train-D", OURS, "MarianMT, float32", "pairs", 2.2, 3.0),
    Goal("train-D", OURS, "nn.Transformer, bfloat16", "pairs", 1.5, 2.2),
    Goal("train-M", OURS, "nn.Transformer, float32", "pairs", 2.2, 4.0),
    *(Goal("decode-D", OURS, "CTranslate2, float32", key, 1.2, 2.0) for key in DECODED[:2]),
    *(Goal("decode-D", OURS, "MarianMT, float32", key, 2.5, 5.0) for key in DECODED[:2]),
)


def goals_table(outcomes: Mapping[str, Outcome]) -> str:
    rows = []
    for goal in GOALS:
        contenders = outcomes.get(goal.job, {}).get("contenders", {})
        ours, peer = (contenders.get(name, {"absent": "not asked"}) for name in (goal.ours, goal.peer))
        if not ours["absent"] and not peer["absent"]:
            got = ratio(_figures(ours["turns"], goal.key), _figures(peer["turns"], goal.key)).write(2)
            what = f"{goal.job}{'' if goal.key == 'pairs' else ', ' + goal.key.partition('_')[0]}"
            rows.append([f"{what}: {goal.ours} against {goal.peer}", got, f"{goal.must:g}", f"{goal.aim:g}"])
    return rows_of(["", "times", "must", "aim"], rows) if rows else ""


def _figures(turns: list[dict[str, float]], key: str) -> list[float]:
    return rates(turns, key) if key == "pairs" else [turn[key] for turn in turns]
