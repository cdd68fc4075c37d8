"""`glassformer demo`: the whole path on the built-in dates table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import AsJson, Device, Quiet, Voice, print_json, print_table
from glassformer.cli.narrate import follow, say_plan, say_report


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the tables and the run.")] = Path("demo"),
    device: Device = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The random seed.", rich_help_panel="Everywhere")] = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a table of dates, train on it, evaluate, translate.

    Ten thousand dates, "1845-01-05" to "January 5, 1845": nine thousand to learn from, one thousand held out. A
    second call finds the trained model and uses it, or resumes a run that was interrupted.
    """
    from glassformer.evaluation import evaluate
    from glassformer.glassbox.report import write_report
    from glassformer.glassbox.trace import explain
    from glassformer.training.demo import N_TEST, N_TRAIN, Demo
    from glassformer.translator import Translator

    voice, found = Voice(quiet), Demo(out, seed)
    table, test, run = found.table, found.test_table, found.run.path
    is_trained = found.write_tables()
    voice.say(f"wrote {table} ({N_TRAIN:,} rows to learn from) and {test} ({N_TEST:,} rows held out)")
    if is_trained:
        voice.say(f"the model is trained already: {run} (remove the folder to train again)")
    else:
        planned = found.plan()
        say_plan(voice, planned)
        follow(planned.run(device), voice, f"glassformer train {table} --out {run} --resume")
    translator = Translator.load(run, device=device)
    report = evaluate(translator, found.test_pairs)
    if as_json:
        print_json(report.to_json())
        return
    say_report(report, str(test))
    five = found.test_pairs[-5:]
    answers = translator.translate([source for source, _ in five])
    rows = [(pair[0], each.text, f"{math.exp(each.score):.4f}") for pair, each in zip(five, answers, strict=True)]
    print_table("five of the held-out dates", ("text", "translation", "probability"), rows)
    glass = out / "report.html"
    write_report(explain(run, five[0][0], target=five[0][1], weights=True, history=True), glass)
    voice.say(f"every number behind {five[0][0]} -> {answers[0].text}, to be opened in a browser: {glass}")
    voice.say(
        f"""
next, with your own table (two columns are enough):
  glassformer train pairs.csv --out run
with this model:
  echo 1969-07-20 | glassformer translate {run}
  glassformer evaluate {run} {test}
  glassformer info {run}
  glassformer explain {run} 1969-07-20 --html report.html"""
    )
