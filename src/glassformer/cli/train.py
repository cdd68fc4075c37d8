"""`glassformer train`: from a table to a run directory."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import (
    AsJson,
    BadRows,
    Device,
    Header,
    PairTable,
    Quiet,
    Seed,
    SourceColumn,
    TargetColumn,
    Voice,
    data_options,
    print_json,
    printable,
    warn_unknown,
)
from glassformer.cli.narrate import say_table
from glassformer.errors import EXIT_INTERRUPTED, UsageError

if TYPE_CHECKING:
    from glassformer.advise import Advice
    from glassformer.data.tables import Table
    from glassformer.settings import DataSettings
    from glassformer.training import Run
    from glassformer.training.prepare import Prepared


def train(
    table: PairTable,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run directory to write.")],
    source: SourceColumn = None,
    target: TargetColumn = None,
    header: Header = None,
    bad_rows: BadRows = None,
    valid: Annotated[
        str | None, typer.Option("--valid", help="A table to validate on (default: held-out rows).")
    ] = None,
    test: Annotated[str | None, typer.Option("--test", help="A table to evaluate on at the end.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", help="Settings over the advice: a TOML file or a name (glassformer settings --recipes)."
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, over all others: --set training.steps=500")
    ] = None,
    init: Annotated[Path | None, typer.Option("--init", help="A model to start from.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    device: Device = "auto",
    precision: Annotated[
        str | None,
        typer.Option("--precision", help="auto, float32 or bfloat16.", rich_help_panel="Everywhere"),
    ] = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a table of pairs.

    Whatever you do not say is chosen from the data, printed with its reason, and saved as the run's recipe.
    """
    from glassformer.data.tables import read_table
    from glassformer.recipes import find_recipe
    from glassformer.recipes.overrides import merge, parse_assignments, read_recipe
    from glassformer.rundirectory import RunDirectory
    from glassformer.settings import DataSettings, Settings
    from glassformer.training import train as start_run

    voice = Voice(quiet)
    given = _checked(
        merge(
            read_recipe(find_recipe(recipe)) if recipe is not None else {},
            parse_assignments(assignments or []),
            data_options(source, target, header, bad_rows),
            {"training": {k: v for k, v in (("seed", seed), ("precision", precision)) if v is not None}},
        )
    )
    directory = RunDirectory(out)
    directory.finish_move()
    settings = None
    if resume:
        if any(given.values()) or init or overwrite:
            raise UsageError(
                "a run that is resumed keeps the recipe it began with",
                where=str(directory.recipe),
                hint="say only TABLE, --out and --resume; or start a new run with --init",
            )
        directory.check_resumable()
        settings = Settings(**read_recipe(directory.recipe))
        data = settings.data
    else:
        directory.check_free(overwrite=overwrite)
        data = DataSettings(**given.get("data", {}))
        given = merge(given, _settled_by(init, given))
    pairs = read_table(table, data)
    say_table(voice, pairs)
    if settings is None:
        from glassformer.advise import advise

        advice = advise(pairs.pairs, given)
        settings = Settings(**merge(advice.settings, given))
        say_advice(voice, advice, given, init)
    held_out, test_table = (_read_beside(pairs, path, data, voice) for path in (valid, test))
    run = start_run(pairs, settings, out, valid=held_out, init=init, resume=resume, overwrite=overwrite, device=device)
    if test_table is not None:  # what it cannot be tested on is told before training
        from glassformer.translator import encode_sources

        sources = [pair.source for pair in test_table.pairs]
        encode_sources(sources, test_table.places, run.prepared.source_tokenizer, run.settings)
    say_prepared(voice, run.prepared, pairs.ledger.kept + (held_out.ledger.kept if held_out else 0))
    follow(run, voice, resume_command(table, out, valid=valid, test=test, device=device))
    result: dict[str, Any] = {"run": str(out)}
    if test_table is not None:
        from glassformer.cli.evaluate import say_report
        from glassformer.evaluation import evaluate
        from glassformer.translator import Translator

        translator = Translator.load(out, device=device)
        report = evaluate(translator, test_table.pairs, rows_read=test_table.ledger.read, where=test_table.places)
        warn_unknown(voice, map(translator.source_tokenizer.unknown, (pair.source for pair in test_table.pairs)))
        result["test"] = report.to_json()
        if not as_json:
            say_report(report, test or "")
    if as_json:
        print_json(result)
    voice.say(f"next: glassformer translate {out} INPUT    glassformer evaluate {out} TABLE    glassformer info {out}")


def _read_beside(table: Table, path: str | None, data: DataSettings, voice: Voice) -> Table | None:
    """A table to validate or test on, if there is one. Raises ColumnError where it has its columns in another order."""
    from glassformer.data.tables import read_table
    from glassformer.errors import ColumnError

    if path is None:
        return None
    other = read_table(path, data)
    say_table(voice, other)
    names, others = ([label.rpartition(" (column ")[0] for label in each.taken] for each in (table, other))
    if other.columns and names != others and set(names) <= set(other.columns):
        raise ColumnError(
            "source and target are other columns than in the table to train on",
            where=other.path,
            got=" · ".join(others),
            expected=" · ".join(names),
            hint=f"say --source {names[0]} --target {names[1]}",
        )
    asked = {pair.source for pair in other.pairs}
    trained = {pair.source for pair in table.pairs if pair.source in asked}
    if n_trained := sum(pair.source in trained for pair in other.pairs):
        voice.warn(f"{n_trained:,} of its {len(other.pairs):,} rows have a source that is trained on as well")
    return other


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The given settings as values of their types, before a long table is read. Raises SettingsError."""
    from glassformer.settings import DataSettings, DecodingSettings, ModelSettings, TrainingSettings

    sections = (DataSettings, ModelSettings, TrainingSettings, DecodingSettings)
    return given | {
        each.section: each(**given[each.section]).model_dump(exclude_unset=True)
        for each in sections
        if each.section in given
    }


def _settled_by(init: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """The tokens and the shape of the model to start from. Raises UsageError for another one that was asked for."""
    from glassformer.modelfile import ModelFile
    from glassformer.recipes.overrides import merge

    if init is None:
        return {}
    start = ModelFile.load(init).settings.model_dump(include={"tokens", "model"})
    for section, settings in start.items():
        if merge(settings, given.get(section, {})) != settings:
            raise UsageError(
                f"the model to start from has other settings in {section!r}, and they cannot change any more",
                where=str(init),
                hint=f"leave out every setting {section}.…, or train without --init",
            )
    return start


def resume_command(table: str, out: Path, *, valid: str | None = None, test: str | None = None, device: str) -> str:
    """The words that go on with a run after it was stopped."""
    words = ["glassformer", "train", table, "--out", str(out), "--resume"]
    options = {"--valid": valid, "--test": test, "--device": None if device == "auto" else device}
    return shlex.join([*words, *(word for name, value in options.items() if value for word in (name, value))])


def say_prepared(voice: Voice, prepared: Prepared, n_rows: int) -> None:
    """What became of the `n_rows` that were read: those that are too long, and what has no token of its own."""
    if prepared.ledger.kept < n_rows:
        voice.warn(
            f"rows are too long for data.max_source_length or data.max_target_length: {prepared.ledger.summary()}"
        )
    for side, tokenizer in (("source", prepared.source_tokenizer), ("target", prepared.target_tokenizer)):
        counts, unk_id = prepared.data.counts(side), tokenizer.vocabulary.unk_id
        if unk_id is not None and counts[unk_id]:
            voice.warn(
                f"{counts[unk_id]:,} of {sum(counts):,} {side} tokens to train on are not in the vocabulary, "
                "and become <unk>"
            )


def say_advice(voice: Voice, advice: Advice, given: dict[str, Any], init: Path | None = None) -> None:
    """What was chosen, and why; what the user chose is marked. The model to start from has chosen tokens and shape."""
    rows = []
    for choice in advice.choices:
        if init is not None and choice.setting.startswith(("tokens.", "model.")):
            continue
        value: Any = given
        for key in choice.setting.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        rows.append(
            (choice.setting, f"{choice.value}", choice.reason)
            if value is None
            else (choice.setting, f"{value}", f"you said so (advice: {choice.value})")
        )
    if init is not None:
        voice.say(f"tokens and shape of the model are those of {init}")
    voice.table("chosen from the data (change any with --set)", ("setting", "value", "because"), rows)


def follow(run: Run, voice: Voice, resume_command: str) -> None:
    """Go through the events of a run and show them; the first Ctrl-C saves and ends it."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from glassformer.training import events

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=voice.console,
        transient=True,
    )
    rows = "held-out" if run.prepared.valid is not None else "training"
    metric = ""
    with _stop_gently(run, voice), progress:
        task = progress.add_task("training", total=run.settings.training.steps, completed=run.position.step)
        for event in run:
            progress.update(task, completed=event.step)
            match event:
                case events.Started():
                    voice.say(_started(event))
                case events.Progress():
                    speed = f"{event.tokens_per_second:,.0f} tokens/s"
                    text = f"loss {event.loss:.3f} · {speed} · rate {event.learning_rate:.1e}{metric}"
                    progress.update(task, description=text)
                case events.Validated():
                    voice.say(_validated(event, rows))
                    metric = f" · {event.metric} {event.value:.4f}"
                    for sample in event.samples:
                        source, gold, answer = (printable(_short(text)) for text in sample)
                        mark, told = ("✓", "") if sample.is_right else ("✗", f"   (gold: {gold})")
                        voice.say(f"    {mark} {source} → {answer}{told}")
                case events.Stopped():
                    progress.stop()
                    voice.say(f"stopped after step {event.step}; everything is saved. Go on with:\n  {resume_command}")
                    raise typer.Exit(EXIT_INTERRUPTED)
                case events.Finished():
                    progress.stop()
                    voice.done(
                        f"done in {event.seconds:,.0f} s ({event.reason}); {event.metric} {event.value:.4f} "
                        f"on {rows} rows with {event.chosen} weights: {event.path}"
                    )


def _started(event: Any) -> str:
    going_on = f"; going on after step {event.step:,}" if event.resumed else ""
    return (
        f"{event.n_parameters:,} parameters on {event.device} in {event.precision}; "
        f"{event.train_rows:,} rows to train on, {event.valid_rows:,} held out; "
        f"{event.steps:,} steps, {event.steps_per_epoch:,} an epoch; "
        f"{event.padding_share:.1%} padding in attention{going_on}"
    )


def _validated(event: Any, rows: str) -> str:
    best = "  (best so far)" if event.best else ""
    return f"step {event.step:>6,}  {rows} loss {event.loss:.4f}  {event.metric} {event.value:.4f}{best}"


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@contextlib.contextmanager
def _stop_gently(run: Run, voice: Voice) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks the run to save and stop; the second one interrupts at once."""

    def ask(_number: int, _frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, before[each])
        voice.say("stopping after this step, then saving; once more to stop at once")
        run.stop()

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, ask)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
