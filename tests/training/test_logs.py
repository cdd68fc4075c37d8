"""The log for TensorBoard: what it holds, and that its failures never end a training."""

from __future__ import annotations

import os
import sys

import pytest

from glassformer.errors import MissingExtraError
from glassformer.jobs.on_ray import load_ray
from glassformer.training import Validated
from glassformer.training.logs import TensorBoard
from glassformer.training.train import train
from tests.training.test_loop import PAIRS, settings


def test_tensorboard_gets_each_validation(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    path, failures, events = tmp_path / "run", [], []
    log = TensorBoard(path, failures.append)
    for event in train(PAIRS, settings(training={"validate_every": 2}), path, device="cpu"):
        log(event)
        events.append(event)
    assert failures == []
    (file,) = (path / "tensorboard").iterdir()
    data, found = file.read_bytes(), []
    while data:  # length (8 bytes), its checksum (4), the event, its checksum (4)
        size = int.from_bytes(data[:8], "little")
        found.append(Event.FromString(data[12 : 12 + size]))
        data = data[16 + size :]
    values = {(one.step, value.tag): value.simple_value for one in found for value in one.summary.value}
    for event in events:
        if isinstance(event, Validated):
            assert values[event.step, "valid/loss"] == pytest.approx(event.loss)
            assert values[event.step, f"valid/{event.metric}"] == pytest.approx(event.value)


def test_a_folder_that_cannot_be_written_is_said_once_and_the_training_continues(tmp_path):
    pytest.importorskip("tensorboardX")
    path, failures = tmp_path / "run", []
    run = train(PAIRS, settings(), path, device="cpu")
    log = TensorBoard(path, failures.append)
    for event in run:
        (path / "tensorboard").touch()
        log(event)
    assert event.to_json()["event"] == "finished"
    assert len(failures) == 1
    assert "File exists" in failures[0]


def test_a_missing_library_is_named_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError) as caught:
        TensorBoard(tmp_path)
    assert caught.value.hint == "pip install '.[tensorboard]' in the folder that has pyproject.toml"


@pytest.mark.parametrize("chosen", [None, "a value of the user"])
def test_ray_does_not_report_to_its_makers_unless_the_user_says_so(monkeypatch, chosen):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", chosen or "")
    if chosen is None:
        monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError):
        load_ray()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == (chosen or "0")
