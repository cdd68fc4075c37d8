"""What the history of a run says of its training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.storage.checkpoints import Decay, Position
from glassformer.training.history import loss_fell


def test_the_loss_of_a_run_that_ended_because_there_was_no_gain_did_not_fall(tmp_path: Path) -> None:
    end = Position(step=50, decay=Decay(40, 50, "no gain in 4 validations", is_settled=True))
    assert loss_fell(tmp_path / "history.jsonl", end) == 0


@pytest.mark.parametrize(
    ("losses", "fell"),
    [
        ([(10, 2.0), (20, 1.0)], 0.5),
        ([(10, 4.0), (20, 2.0), (30, 1.9), (40, 1.5)], 0.25),
        ([(10, 2.0), (20, 1.0), (10, 1.5), (20, 1.2)], 0.2),  # it went back
        ([(10, 1.0), (20, 2.0)], -1.0),
        ([(10, 2.0)], 0.95),  # that of all steps
        ([(20, 2.0), (30, 1.0)], 0.95),
        ([], None),
    ],
)
def test_the_loss_of_the_last_half_is_that_of_validations(tmp_path: Path, losses, fell) -> None:
    path = tmp_path / "history.jsonl"
    events = [{"event": "validated", "step": step, "loss": loss} for step, loss in losses]
    events += [{"event": "progress", "step": 5, "loss": 9.0}, {"event": "validated", "step": "x"}]
    events += [{"event": "validated", "step": 50, "loss": 0.1}]  # of the decay
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    assert loss_fell(path, Position(step=50, decay=Decay(40, 50, "all steps done"))) == (
        None if fell is None else pytest.approx(fell)
    )


def test_with_too_few_validations_it_is_that_of_progress(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    events = [{"event": "progress", "step": step, "loss": loss} for step, loss in ((10, 3.0), (25, 2.0), (50, 1.5))]
    events.append({"event": "validated", "step": 50, "loss": 1.0})
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    assert loss_fell(path, Position(step=50)) == 0.25


def test_a_history_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("no JSON\n", encoding="utf-8")
    assert loss_fell(tmp_path / "history.jsonl", Position(step=9)) is None
    assert loss_fell(tmp_path / "missing.jsonl", Position(step=9)) is None
