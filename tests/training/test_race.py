"""The race before a run: its winner goes on as if it had been alone, is written down, and is the same after a stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch

from glassformer.data.datasets import dates
from glassformer.data.pairs import Pair
from glassformer.planning.plan import plan
from glassformer.planning.recipes.overrides import read_recipe
from glassformer.planning.summary import summary_of
from glassformer.runtime.devices import CPU
from glassformer.settings import Settings
from glassformer.training import Raced, Racing, Run, Started, Stopped
from glassformer.training.events import RacedCandidate
from glassformer.training.race import Contender, race, ranked
from glassformer.training.train import train
from tests import tiny
from tests.training.test_loop import weight_list

PAIRS = dates(1_200, seed=5)
SHORT = tiny.OVERRIDES | {
    "training.steps": 1_000,
    "training.batch_tokens": 64,
    "training.validate_rows": 20,
    "training.validate_every": 500,
    "data.valid_fraction": 0.1,
}


@pytest.fixture(scope="module", autouse=True)
def short_rounds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.training.race.ROUND_TOKENS", 64 * 8)
        patch.setattr("glassformer.training.race.SECONDS", 0.0)  # each turn is one update
        yield


def until(run: Run, event: type) -> list[object]:
    """The events of a run until one of a kind, after which it is stopped."""
    events = []
    for each in run:
        events.append(each)
        if isinstance(each, event):
            run.stop()
    return events


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[object]]:
    run = train(PAIRS, out=tmp_path_factory.mktemp("race") / "run", overrides=SHORT, device="cpu")
    return run, until(run, Started)


def test_the_candidates_are_planned_and_named(tmp_path):
    planned = plan(PAIRS, tmp_path / "run", overrides=SHORT)
    assert [str(candidate) for candidate, _ in planned.candidates] == ["characters", "characters with copying"]
    assert [one.settings.model.copy_mechanism for _, one in planned.candidates] == [False, True]
    assert planned.candidates[0][1].settings == planned.settings
    assert (
        summary_of(planned)[0]
        == "Tokens: characters and characters with copying are tried first; the better one continues."
    )


def test_the_winner_goes_on_as_if_it_had_been_alone(raced, tmp_path):
    run, events = raced
    *turns, result, _started = events[:18]
    assert [turn.step for turn in turns if isinstance(turn, Racing)] == [step for step in range(1, 9) for _ in range(2)]
    assert {turn.steps for turn in turns} == {8}
    assert isinstance(result, Raced)
    winner = result.left[0] == "characters with copying"
    assert [candidate.step for candidate in result.candidates] == [8, 8]
    assert run.settings.model.copy_mechanism is winner
    alone = train(PAIRS, settings=run.settings, out=tmp_path / "alone", device="cpu")
    until(alone, Started)
    for batches in islice(alone.updater.batches(), run.position.step - alone.position.step):
        alone.update(batches)
    assert all(map(torch.equal, weight_list(run), weight_list(alone)))
    assert run.position.seconds > 0


def test_the_result_is_in_recipe_and_history(raced):
    run, events = raced
    recipe = run.directory.recipe.read_text("utf-8")
    assert Settings(**read_recipe(run.directory.recipe)) == run.settings
    assert f"# {events[16]}\n" in recipe
    history = [json.loads(line) for line in run.directory.history.read_text("utf-8").splitlines()]
    assert [line["event"] for line in history[15:18]] == ["racing", "raced", "started"]
    assert history[16]["candidates"][0].keys() == {"name", "step", "loss", "exact_match", "answers"}


def test_a_run_that_is_stopped_in_its_race_races_again_with_the_same_result(raced, tmp_path):
    run = train(PAIRS, out=tmp_path / "run", overrides=SHORT, device="cpu")
    run.stop()
    assert [type(event) for event in run] == [Racing, Stopped]
    again = train(PAIRS, out=tmp_path / "run", resume=True, device="cpu")
    events = until(again, Started)
    assert str(events[16]) == str(raced[1][16])
    assert all(map(torch.equal, weight_list(again), weight_list(raced[0])))
    assert again.settings == raced[0].settings


def test_where_minutes_are_few_for_a_race_the_rule_decides_after_a_turn_of_each(tmp_path):
    run = train(PAIRS, out=tmp_path / "run", overrides=SHORT | {"training.max_minutes": 1e-6}, device="cpu")
    *turns, result = until(run, Started)[:3]
    assert [turn.step for turn in turns if isinstance(turn, Racing)] == [1, 1]
    assert isinstance(result, Raced)
    assert str(result) == "no race: too few training.max_minutes; characters continues"
    assert "# no race: too few training.max_minutes; characters continues\n" in run.directory.recipe.read_text("utf-8")


def test_a_run_that_is_resumed_after_its_race_does_not_race_again(raced):
    run, _ = raced
    again = train(PAIRS, out=run.directory.path, resume=True, device="cpu")
    assert not any(isinstance(event, Raced) for event in until(again, Started))
    assert again.settings == run.settings


@pytest.mark.parametrize(
    ("n_rows", "changes", "members", "why"),
    [
        (400, {}, 1, "40 held-out rows are too few (it needs 100)"),
        (1_200, {"training.steps": 999}, 1, "training.steps are fewer than 1,000"),
        (1_200, {}, 2, "members share one recipe"),
    ],
)
def test_the_rule_decides_where_a_race_could_not_and_says_why(tmp_path, n_rows, changes, members, why):
    planned = plan(PAIRS[:n_rows], tmp_path / "run", overrides=SHORT | changes, members=members)
    assert not planned.candidates
    assert not planned.settings.model.copy_mechanism
    assert planned.reasons["tokens.target.kind"].endswith(f"; no race: {why}")
    assert why not in summary_of(planned)[0]


def test_complete_settings_and_a_model_to_start_from_are_not_raced(raced, tmp_path: Path):
    run, _ = raced
    assert not plan(PAIRS, tmp_path / "run", overrides=run.settings).candidates
    train(PAIRS, out=tmp_path / "first", overrides=SHORT | {"training.steps": 2}, device="cpu").finish()
    changes = {name: value for name, value in SHORT.items() if not name.startswith("model.")}
    assert not plan(PAIRS, tmp_path / "run", overrides=changes, init=tmp_path / "first").candidates


def test_a_candidate_that_cannot_read_a_row_to_test_on_is_not_raced(tmp_path):
    rows, long = [Pair(f"{day} or another day", f"on {text} or so") for day, text in PAIRS], "1 " * 70
    planned = plan(rows, tmp_path / "run", overrides=SHORT, test=[*rows[:1], Pair(long, "on May 5, 1518")])
    assert planned.settings.tokens.source.kind == "subwords"
    assert not planned.candidates
    why = "characters with copying cannot read all rows to test on"
    assert planned.reasons["tokens.source.kind"].endswith(f"; no race: {why}")


def test_after_each_round_the_better_half_is_trained_on(tmp_path, monkeypatch):
    (_, planned), _ = plan(PAIRS, tmp_path / "run", overrides=SHORT).candidates
    losses = {"a": [4.0, 3.0], "b": [5.0], "c": [3.0, 3.5], "d": [6.0]}
    contenders = [Contender(name, planned, CPU) for name in losses]

    def measure(contender: Contender) -> RacedCandidate:
        step, loss = contender.updater.position.step, losses[contender.name].pop(0)
        return RacedCandidate(contender.name, step, loss, 0.5, 100)

    def ending():
        ends.append((yield from race(contenders, None, lambda: False)))

    monkeypatch.setattr(Contender, "measure", measure)
    ends = []
    assert [event.left for event in ending() if isinstance(event, Raced)] == [("c", "a"), ("a",)]
    ((winner, _),) = ends
    assert (winner.name, [contender.updater.position.step for contender in contenders]) == ("a", [16, 8, 16, 8])


@pytest.mark.parametrize(
    ("loss_and_match", "best"),
    [
        (((2.0, 0.5), (1.0, 0.5)), 1),
        (((2.0, 0.6), (1.0, 0.5)), 0),  # a standard error is 0.05
        (((2.0, 0.54), (1.0, 0.5)), 1),
        (((float("nan"), 0.0), (9.0, 0.0)), 1),
        (((float("inf"), 0.0), (9.0, 0.0), (8.0, 0.9)), 2),
    ],
)
def test_loss_decides_unless_exact_match_differs_by_a_standard_error(loss_and_match, best):
    results = [RacedCandidate(str(i), 9, *values, 200) for i, values in enumerate(loss_and_match)]
    assert ranked(results)[0].name == str(best)
    assert len(ranked(results)) == len(results)
