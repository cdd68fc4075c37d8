"""`glassformer demo`: the whole path on the built-in dates table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from glassformer.cli.console import COMMON, Reporter, print_table
from glassformer.cli.following import follow
from glassformer.cli.narrate import print_plan, print_report
from glassformer.cli.options import Device
from glassformer.runtime.pytorch import check_pytorch

NEXT = """
next, with your own table (two columns are enough):
  glassformer train pairs.csv --out run
with this model:
  glassformer translate {run} 1969-07-20
  glassformer evaluate {run} {test}
  glassformer info {run}
  glassformer explain {run} {source} --html report.html"""


def demo(
    reporter: Reporter,
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="A directory for the tables and the run.")] = Path(
        "demo"
    ),
    device: Device = "auto",
    seed: Annotated[int, Option(min=0, metavar="N", help="The random seed.", rich_help_panel=COMMON)] = 1,
) -> None:
    """Write a table of dates, train on it, evaluate, translate.

    Ten thousand dates, "1845-01-05" to "January 5, 1845": nine thousand to train on, one thousand to test on. A
    second call finds the trained model and uses it, or resumes a run that was interrupted.

    Examples:
        glassformer demo
        glassformer demo --out dates --device cpu
    """
    check_pytorch("glassformer demo")
    from glassformer.evaluation.evaluate import evaluate
    from glassformer.glassbox.report import write_report
    from glassformer.glassbox.trace import explain
    from glassformer.inference.translator import Translator
    from glassformer.planning.demo import N_TEST, N_TRAIN, Demo
    from glassformer.training.loop import Run

    dates_demo = Demo(out, seed)
    table, test, run = dates_demo.table, dates_demo.test_table, dates_demo.run.path
    is_trained = dates_demo.write_tables()
    reporter.print(f"wrote {table} ({N_TRAIN:,} rows to train on) and {test} ({N_TEST:,} rows to test on)")
    if is_trained:
        reporter.print(f"the model is trained already: {run} (remove this directory to train again)")
    else:
        planned = dates_demo.plan()
        print_plan(reporter, planned)
        follow(planned, Run(planned, device), reporter, f"glassformer train {table} --out {run} --resume")
    translator = Translator.load(run, device=device)
    report = evaluate(translator, dates_demo.test_pairs)
    reporter.result(report.to_json(), lambda: print_report(report, str(test), translator))
    if reporter.as_json:
        return
    right = [(item, answer) for item, answer in report.answered if answer.text in item.references]
    five = sorted(right or report.answered, key=lambda row: row[1].score)[:5]
    which = "right answers" if right else "answers"
    title = f"five of the test dates: the {which} with the lowest scores"
    rows = [(item.source, answer.text, f"{answer.score:.4f}") for item, answer in five]
    print_table(title, ("source", "answer", "score"), rows)
    (item, answer), page = five[0], dates_demo.folder / "report.html"
    write_report(explain(run, item.source, target=item.references[0], weights=True, history=True), page)
    reporter.print(f"every number behind {item.source} -> {answer.text}, for a browser: {page}")
    reporter.print(NEXT.format(run=run, test=test, source=item.source))
