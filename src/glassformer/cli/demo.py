"""`glassformer demo`: the whole path on the built-in dates table."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.console import AsJson, Device, Quiet, Voice, print_json, print_table
from glassformer.cli.narrate import say_table

if TYPE_CHECKING:
    from glassformer.rundirectory import RunDirectory

N_TRAIN, N_TEST = 9_000, 1_000


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the tables and the run.")] = Path("demo"),
    device: Device = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Where chance starts.", rich_help_panel="Everywhere")] = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a table of dates, train on it, evaluate, translate.

    Ten thousand dates, "1845-01-05" to "January 5, 1845": nine thousand to learn from, one thousand held out. A
    second call finds the trained model and uses it, or goes on with a run that was stopped.
    """
    from glassformer.advise import advise
    from glassformer.cli.evaluate import say_report
    from glassformer.cli.train import follow, say_advice
    from glassformer.data.tables import read_table
    from glassformer.datasets import dates
    from glassformer.evaluation import evaluate
    from glassformer.files import write_text
    from glassformer.glassbox.report import write_report
    from glassformer.glassbox.trace import explain
    from glassformer.recipes.overrides import merge
    from glassformer.rundirectory import RunDirectory
    from glassformer.settings import DataSettings, Settings, TrainingSettings
    from glassformer.training import train
    from glassformer.translator import Translator

    voice = Voice(quiet)
    TrainingSettings(seed=seed)  # refuses one that no run can have, before anything is written
    rows = dates(N_TRAIN + N_TEST, seed)
    table, test, run = out / "dates.csv", out / "dates-test.csv", out / "run"
    is_trained = _is_trained(RunDirectory(run), seed)
    contents = {table: _as_csv(rows[:N_TRAIN]), test: _as_csv(rows[N_TRAIN:])}
    if not RunDirectory(run).recipe.exists():  # beside a run of the demo, the tables are the demo's too
        _check_free(contents)
    for path, text in contents.items():
        write_text(path, text)
    voice.say(f"wrote {table} ({N_TRAIN:,} rows to learn from) and {test} ({N_TEST:,} rows held out)")

    given = {"training": {"seed": seed}}
    if is_trained:
        voice.say(f"the model is trained already: {run} (remove the folder to train again)")
    else:
        pairs = read_table(table, DataSettings(header="yes"))
        say_table(voice, pairs)
        resume = _was_stopped(RunDirectory(run), seed)
        advice = advise(pairs.pairs, given)
        if not resume:
            say_advice(voice, advice, given)
        settings = Settings(**merge(advice.settings, given))
        training = train(pairs, settings, run, resume=resume, overwrite=not resume, device=device)
        follow(training, voice, f"glassformer train {table} --out {run} --resume")

    translator = Translator.load(run, device=device)
    report = evaluate(translator, rows[N_TRAIN:])
    if as_json:
        print_json(report.to_json())
        return
    say_report(report, str(test))
    five = [source for source, _ in rows[-5:]]
    answers = translator.translate(five)
    print_table(
        "five of the held-out dates",
        ("text", "translation", "probability"),
        [(text, each.text, f"{math.exp(each.score):.4f}") for text, each in zip(five, answers, strict=True)],
    )
    glass = out / "report.html"
    write_report(explain(run, five[0], target=rows[-5][1], weights=True, history=True), glass)
    voice.say(f"every number behind {five[0]} -> {answers[0].text}, to be opened in a browser: {glass}")
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


def _is_trained(directory: RunDirectory, seed: int) -> bool:
    """Whether the demo of this seed has its model. Raises RunError for the run of another table."""
    from glassformer.data.tables import fingerprint
    from glassformer.datasets import dates
    from glassformer.errors import RunError
    from glassformer.modelfile import ModelFile

    directory.finish_move()
    directory.check_free(overwrite=True)
    if not directory.model.exists():
        return False
    found = ModelFile.load(directory.model)
    its_seed = found.settings.training.seed
    if found.data.fingerprint != fingerprint(dates(N_TRAIN + N_TEST, its_seed)[:N_TRAIN]):
        raise RunError(
            "this run is not the demo's; nothing was written", where=str(directory.path), hint="choose another --out"
        )
    return its_seed == seed and directory.card.exists()


def _was_stopped(directory: RunDirectory, seed: int) -> bool:
    """Whether there is a run of the demo of this seed to go on with."""
    from glassformer.recipes.overrides import read_recipe

    if not (directory.resume.exists() and directory.recipe.exists()):
        return False
    return bool(read_recipe(directory.recipe).get("training", {}).get("seed") == seed)


def _check_free(contents: dict[Path, str]) -> None:
    """Raise RunError when a table would replace a file that holds something else."""
    from glassformer.errors import RunError

    for path, text in contents.items():
        if path.exists() and (not path.is_file() or path.read_bytes() != text.encode()):
            raise RunError(
                "there is a file already, and it is not the demo's; nothing was written",
                where=str(path),
                hint="choose another --out",
            )


def _as_csv(rows: list[tuple[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("iso", "english"))
    writer.writerows(rows)
    return text.getvalue()
