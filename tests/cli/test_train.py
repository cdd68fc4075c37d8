"""`glassformer train`: what it writes, what it says, which settings win, and how a run is continued."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from unittest import mock

import pytest

from glassformer.cli import following
from glassformer.cli.following import clock, duration, next_command, progress_text
from glassformer.data.datasets import dates
from glassformer.data.splits import TrainedSources
from glassformer.planning.recipes.overrides import read_recipe
from glassformer.settings import Settings, TrainingSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.training.events import Finished, Progress, Sample, Validated


def settings_of(run: Path) -> Settings:
    return Settings(**read_recipe(run / "recipe.toml"))


def history(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]


# What it writes


def test_a_run_holds_what_the_design_promises(run):
    names = {str(path.relative_to(run)) for path in run.rglob("*")}
    assert names == {
        "model.safetensors",
        "recipe.toml",
        "history.jsonl",
        "ledger.jsonl",
        "README.md",
        "errors.json",
        "held_out.jsonl",
        "sources.safetensors",
        "checkpoints",
        "checkpoints/resume.safetensors",
        *(f"checkpoints/snapshot-{150 >> i:07d}.safetensors" for i in range(1, 6)),
        "checkpoints/step-0000075.safetensors",
        "checkpoints/step-0000150.safetensors",
    }


def test_recipe_and_card_are_complete_and_say_what_the_model_is_and_how_it_was_trained(run):
    assert settings_of(run) == ModelFile.load(run).settings
    unset = {"data.source", "data.target", "data.split_seed"}
    unset |= {"training.max_minutes", "decoding.max_new_tokens"}
    recipe = read_recipe(run / "recipe.toml")
    for section, fields in Settings().model_dump().items():
        missing = {f"{section}.{name}" for name in fields.keys() - recipe[section].keys()}
        assert missing <= unset
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "It turns `iso (column 0)` into `english (column 1)`" in card
    assert "180 rows; 20 held out" in card
    assert "glassformer translate model.safetensors INPUT" in card


def test_rows_that_are_dropped_changed_or_damaged_are_counted_in_ledger_model_and_card(tmp_path, call, small, table_of):
    first, second, *rest = dates(60, seed=3)
    odd = [first, (second[0], "odd"), ("1900\u200b-01-01", "a\tb"), ("1", "x" * 99)]
    rows = [("iso", "english"), first, second, *rest, *odd]
    run, table, valid, test = (tmp_path / name for name in ("run", "table.csv", "valid.csv", "test.csv"))
    table_of(table, rows)
    table_of(valid, rows)
    test.write_text("iso,english\n1845-01-05,a\n,b\n1845-01-06\n1845-01-07,c\n", encoding="utf-8")
    switches = {f"data__{name}": "true" for name in ("drop_duplicates", "drop_contradictions", "strip_controls")}
    words = small(training__steps="2", **switches, data__max_source_length="90", data__max_target_length="90")
    tables = ("--valid", valid, "--test", test, "--bad-rows", "skip")
    answer = call("train", table, "--out", run, *tables, *words)
    assert answer.code == 0, answer.err
    assert "1 kept without their control characters" in answer.err
    assert f": {run / 'ledger.jsonl'})\n" in answer.err
    assert "--ledger FILE" not in answer.err
    entries = [json.loads(line) for line in (run / "ledger.jsonl").read_text("utf-8").splitlines()]
    assert {(Path(entry["file"]).stem, entry["row"], entry["reason"]) for entry in entries} == {
        *(("table", 2, "contradiction"), ("table", 61, "duplicate"), ("table", 62, "contradiction")),
        *(("table", 64, "target too long"), ("valid", 64, "target too long")),
        *(("test", 2, "empty source"), ("test", 3, "wrong number of cells")),
    }
    data = ModelFile.load(run).data
    assert (data.train_rows, data.valid_rows, data.changed_rows, data.valid_overlap) == (60, 63, 1, 60)
    reasons = {"contradiction": 2, "duplicate": 1, "target too long": 2}
    assert data.rows == {"read": 128, "kept": 123} | reasons
    card = (run / "README.md").read_text("utf-8")
    assert f"| overlap | 60 of 63 rows of `{valid}` have a source that was trained on |\n" in card
    cleaning = "control characters removed (1 row changed); contradictions dropped; duplicates dropped"
    assert f"| cleaning | {cleaning} (not the table to validate on) |\n" in card
    assert "| rows of the test table | read 4, kept 2, empty source 1, wrong number of cells 1 |\n" in card


# What it says


def test_a_few_lines_before_the_first_step_say_what_is_trained_and_on_what(trained, table):
    run, answer = trained
    assert answer.out == ""
    start, _, rest = answer.err.partition("\nstep 75 · ")
    rows, columns, example, tokens, training, where, forecast = start.splitlines()
    assert rows == f"{table}: 200 rows read, 200 kept"
    assert columns == "source: iso (column 0) · target: english (column 1)"
    assert example == f"such as: {' → '.join(dates(200, seed=7)[0])}"
    assert tokens.startswith("Tokens of the source are characters: one word a text; of the target, ")
    assert re.fullmatch(
        r"The model has [\d,]+ parameters and trains up to 150 steps on 180 rows; exact match .*", training
    )
    assert where == f"Training on cpu in float32; {run / 'recipe.toml'} has the reason of each setting."
    assert re.fullmatch(r"This takes at most \d+ (s|min) here; Ctrl-C saves and stops\.", forecast)
    assert re.match(r"held-out loss \d\.\d{3} · exact match [\d.]+ %", rest)


def test_a_first_row_that_is_taken_for_data_is_shown_and_how_to_say_otherwise(tmp_path, call, small, table_of):
    table_of(tmp_path / "names.csv", [("full", "sorted"), *((f"{n}a", f"a{n}") for n in range(40))])
    for options, guessed in (((), True), (("--no-header",), False)):
        out = tmp_path / f"run{guessed}"
        said = call("train", tmp_path / "names.csv", "--out", out, *options, *small(training__steps="2")).err
        assert "such as: full → sorted\n" in said
        assert ("the first row was read as data: 'full' | 'sorted' (otherwise: --header)\n" in said) == guessed


def test_every_choice_has_its_reason_with_verbose_and_in_the_recipe_also_when_a_resumed_run_changes_it(
    tmp_path, call, small, table
):
    run = tmp_path / "run"
    said = call("train", table, "--out", run, "--verbose", *small(training__steps="2")).err
    assert "the first row was read as a header: 'iso' | 'english' (otherwise: --no-header)" in said
    assert re.search(r"tokens\.source\.kind\s+characters\s+character-level: one word a text", said)
    assert re.search(r"model\.d_model\s+32\s+set by you \(advice: 128\)", said)
    assert re.search(r"training\.schedule\s+wsd\s+the length of the training follows", said)
    recipe = (run / "recipe.toml").read_text("utf-8")
    assert "\nd_model = 32  # set by you (advice: 128)\n" in recipe
    assert '\nschedule = "wsd"  # the length of the training follows from the held-out rows\n' in recipe
    resumed = call("train", table, "--out", run, "--resume", "--set", "training.steps=3")
    assert resumed.code == 0, resumed.err
    assert (run / "recipe.toml").read_text("utf-8") == re.sub("steps = 2  #.*", "steps = 3", recipe)


def test_quiet_says_nothing_and_json_is_one_document(tmp_path, call, small, table):
    words = ("train", table, "--out", tmp_path / "run", "--test", table, "--quiet", "--json")
    answer = call(*words, *small(training__steps="2"))
    assert (answer.code, answer.err) == (0, "")
    result = json.loads(answer.out)
    assert result["run"] == str(tmp_path / "run")
    assert result["test"]["rows"]["scored"] == 200


@pytest.mark.parametrize(("memory", "time"), [(2**40, "time: at most "), (1, "time: not measured")])
def test_a_dry_run_prints_the_plan_and_a_forecast_and_writes_nothing(
    tmp_path, call, small, table, monkeypatch, memory, time
):
    monkeypatch.setattr("glassformer.training.forecast.MAX_SECONDS", 0.0)
    monkeypatch.setattr("glassformer.training.forecast.memory_of", lambda _: memory)
    words = ("train", table, "--out", tmp_path / "run", "--dry-run", *small())
    answer = call(*words)
    assert (answer.code, "chosen from the data" in answer.err) == (0, True), answer.err
    assert re.fullmatch(rf"memory: about \d.* GB of .* GB, next to the table\n{time}.*\n", answer.out)
    report = json.loads(call(*words, "--json", "--quiet").out)
    assert report["choices"]["model.d_model"] == {"value": 32, "reason": "set by you (advice: 128)"}
    assert (report["forecast"]["steps"], report["forecast"]["available_bytes"]) == (150, memory)
    assert list(tmp_path.iterdir()) == []


# Which settings win


def test_set_wins_over_the_recipe_and_the_recipe_over_the_advice(tmp_path, call, small, table):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[training]\nbatch_tokens = 777\nwarmup_steps = 3\n[model]\nnorm = 'post'\n", encoding="utf-8")
    answer = call(
        *("train", table, "--out", tmp_path / "run", "--recipe", recipe),
        *small(training__steps="2", training__warmup_steps="5", model__d_model='"16"'),  # a number in quotes
        *("--seed", "9", "--precision", "bfloat16"),
    )
    assert answer.code == 0, answer.err
    settings = settings_of(tmp_path / "run")
    assert settings.training.batch_tokens == 777
    assert settings.model.norm == "post"
    assert settings.training.warmup_steps == 5
    assert settings.training.schedule == "wsd"
    assert (settings.training.seed, settings.training.precision, settings.model.d_model) == (9, "bfloat16", 16)
    assert "\nbatch_tokens = 777  # set by you" in (tmp_path / "run" / "recipe.toml").read_text("utf-8")


@pytest.mark.medium
def test_two_processes_with_one_recipe_write_the_same_bytes(tmp_path, table, small):
    options = [small(training__steps="20", model__dropout="0.2"), ["--recipe", tmp_path / "0" / "recipe.toml"]]
    digests = []
    for number, given in enumerate(options):
        words = ["train", table, "--out", tmp_path / str(number), "--device", "cpu", *given]
        environment = os.environ | {"PYTHONHASHSEED": str(number)}
        done = subprocess.run(
            [sys.executable, "-m", "glassformer", *words], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        files = ("model.safetensors", "sources.safetensors", "held_out.jsonl", "errors.json")
        digests.append([sha256((tmp_path / str(number) / name).read_bytes()).hexdigest() for name in files])
    assert digests[0] == digests[1]
    assert settings_of(tmp_path / "0") == settings_of(tmp_path / "1")


# Going on from a model


def test_a_model_to_start_from_decides_on_shape_and_tokens_and_its_sources_count_as_trained_on(
    tmp_path, call, run, table_of
):
    first = ModelFile.load(run)
    rows = [("iso", "english"), *dates(30, seed=91)]
    other, more = table_of(tmp_path / "t.csv", rows), tmp_path / "more"
    answer = call("train", other, "--out", more, "--init", run, "--set", "training.steps=1")
    assert answer.code == 0, answer.err
    before = TrainedSources.load(run / "sources.safetensors")
    own = TrainedSources.load(more / "sources.safetensors")
    assert first.data.sources_digest == before.digest
    assert set(own.hashes.tolist()) > set(before.hashes.tolist())
    assert len(own.hashes) == len(before.hashes) + 27
    assert f"Tokens and shape of the model are those of {run}.\n" in answer.err
    recipe = (more / "recipe.toml").read_text("utf-8")
    assert re.search("^learning_rate = .*  # ", recipe, re.MULTILINE)
    assert not re.search("^(d_model|kind) = .*  # ", recipe, re.MULTILINE)
    assert call("train", other, "--out", more, "--resume").code == 0
    assert TrainedSources.load(more / "sources.safetensors").digest == own.digest


# Going on with a run


@pytest.mark.parametrize(
    ("damage", "message"), [("tokens =", "--overwrite"), ("# Starts from the model: x", "the model to start from")]
)
def test_a_run_without_a_checkpoint_whose_recipe_is_damaged_says_so(tmp_path, call, table, damage, message):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text(damage)
    answer = call("train", table, "--out", tmp_path / "run", "--resume")
    assert answer.code != 0
    assert message in answer.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_saves_prints_how_it_is_resumed_and_is_resumed(
    tmp_path, call, small, table, monkeypatch, number
):
    out, print_validated = tmp_path / "run", following._print_validated

    def interrupt(*arguments):
        print_validated(*arguments)
        signal.raise_signal(number)

    with monkeypatch.context() as patched:
        patched.setattr(following, "_print_validated", interrupt)
        words = small(training__steps="30", training__validate_every="10")
        answer = call("train", table, "--out", out, *words)
    assert (answer.code, "Traceback" in answer.err) == (130, False)
    assert f"everything is saved. Resume it with:\n  glassformer train {table} --out {out} --resume\n" in answer.err
    last = history(out)[-1]
    assert (last["event"], last["step"] < 30) == ("stopped", True)
    answer = call("train", table, "--out", out, "--resume")
    assert answer.code == 0, answer.err
    assert f"resumed after step {last['step']:,}" in answer.err


def test_without_held_out_rows_nothing_is_called_held_out(tmp_path, call, small, table):
    options = ["--set", "data.valid_fraction=0", "--set", "training.steps=1"]
    answer = call("train", table, "--out", tmp_path / "run", *small(), *options)
    assert answer.code == 0
    assert "training loss" in answer.err
    assert re.search(r"^loss \d\.\d{4} on training rows$", answer.err, re.MULTILINE)
    assert "held-out" not in re.sub("Training on.*|that needs.*", "", answer.err)
    assert "on training rows" in (tmp_path / "run/README.md").read_text(encoding="utf-8")


def test_a_text_is_shown_as_it_stands_and_not_as_a_picture(tmp_path, call, small, table_of):
    table = table_of(tmp_path / "table.csv", [("x", "y"), *((f"{n} :b:", ":heart:") for n in range(50))])
    answer = call("train", table, "--out", tmp_path / "run", "--test", table, *small(training__steps="1"))
    assert ":heart:" in answer.out + answer.err
    assert "❤" not in answer.out + answer.err


def test_the_end_says_how_good_the_model_is_why_it_ended_and_what_to_do_next(trained, table):
    run, said = trained
    end = ModelFile.load(run).metrics
    *_, verdict, reason, model, following_line, command = said.err.splitlines()
    right = round(end.value * end.n_sources)
    assert verdict == f"{right} of {end.n_sources} held-out answers are right ({100 * end.value:.3g} %)"
    assert re.fullmatch(
        r"all steps done after 0:\d\d, still improving: the loss fell by \d\d % in the last half", reason
    )
    assert model.startswith(f"model: {run / 'model.safetensors'}, weights: ")
    assert (following_line, command) == (
        "next:",
        f"  glassformer train {table} --out {run} --resume --set training.steps=300",
    )


def test_a_validation_shows_the_answers_that_have_changed_and_wrong_ones_first():
    printed = []
    reporter = mock.Mock(print=lambda text, **_: printed.append(text))
    right, wrong, other = (Sample(source, "b", answer) for source, answer in (("1", "b"), ("2", "a"), ("3", "c")))
    answers: dict[str, str] = {}
    validated = Validated(10, 1.0, 0.5, "exact_match", 0.25, True, samples=(right, wrong), wrong=(wrong, other))
    following._print_validated(reporter, validated, "held-out", answers)
    assert printed[0] == "step 10 · held-out loss 0.500 · exact match 25.00 % · best so far"
    assert printed[1:] == ["  ✗ 2 → a (target: b)", "  ✗ 3 → c (target: b)", "  ✓ 1 → b"]
    printed.clear()
    mended = Sample("2", "b", "b")
    following._print_validated(
        reporter, replace(validated, samples=(right, mended), wrong=(other,)), "held-out", answers
    )
    assert printed[1:] == ["  ✓ 2 → b"]


@pytest.mark.parametrize(
    ("begun", "changes", "left"),
    [
        ((0, 0.0), {}, "20 min left"),
        ((180, 157.5), {}, "10 min left"),
        ((0, 0.0), {"max_minutes": 4.0}, "30 s left"),
        ((360, 0), {"max_minutes": 4.0}, ""),
        ((0, 0.0), {"patience": 4}, "at most 20 min left"),
        ((0, 0.0), {"patience": 4, "steps": 6000}, "20 min left"),  # the last step is known
    ],
)
def test_the_line_of_progress_has_the_time_that_is_left_and_fits_a_terminal(begun, changes, left):
    event = Progress(360, 210.0, 1.5, 0.987, 2.0, 1e-3, 1.0, 9_000.0)
    text = progress_text(event, begun, 2400, TrainingSettings(**{"steps": 2400} | changes))
    assert text == " · ".join(filter(None, ("step 360/2,400", "3:30", left, "loss 0.99")))
    assert clock(7_500) == "2:05:00"
    times = {59: "59 s", 150: "2 min", 9_000: "2.5 hours", 200_000: "2.3 days"}
    assert {seconds: duration(seconds) for seconds in times} == times


@pytest.mark.parametrize(
    ("step", "minutes", "value", "fell", "expected"),
    [
        (100, None, 0.15, 0.41, "again --set training.max_minutes=22"),
        (125, 3, 0.15, 0.41, "again --set training.max_minutes=27"),
        (1000, 3, 0.15, 0.41, "again --set training.steps=2000"),
        (1000, None, 0.15, 0.01, "glassformer translate 'my run' '3 ft'"),
        (1000, None, 1.0, 0.41, "glassformer translate 'my run' '3 ft'"),
        (1000, None, 0.15, None, "again --set training.steps=2000"),
        (1000, None, 0.15, 0.0, "glassformer translate 'my run' '3 ft'"),
    ],
)
def test_the_next_command_trains_on_where_that_would_help(step, minutes, value, fell, expected):
    finished = Finished(step, 120.0, "", "", "exact_match", value, Path("my run/model.safetensors"), loss_fell=fell)
    training = TrainingSettings(steps=1000, max_minutes=minutes)
    assert next_command(finished, training, "again", "3 ft") == expected
