"""Logs for other programs: what they hold, and that their failures never end a training."""

from __future__ import annotations

import builtins
import json
import os
import threading

import pytest

from glassformer.errors import MissingExtraError, UsageError
from glassformer.jobs.on_ray import load_ray
from glassformer.runs.logs import _MLflow, open_log
from glassformer.training import Validated, train
from tests.training.test_loop import PAIRS, settings


def logged_run(path, name, failures, **training):
    run = train(PAIRS, settings(training={"validate_every": 2, **training}), path, device="cpu")
    log = open_log(name, path, failures.append)
    events = []
    for event in run:
        log(event)
        events.append(event)
    return events


def test_tensorboard_gets_each_validation(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    failures = []
    events = logged_run(tmp_path / "run", "tensorboard", failures)
    assert failures == []
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
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


@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_settings_and_metrics_and_a_resumed_run_continues_its_own(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    failures = []
    events = logged_run(tmp_path / "run", "mlflow", failures)
    again = open_log("mlflow", tmp_path / "run", failures.append)
    for event in train(PAIRS, None, tmp_path / "run", resume=True, overrides={"training.steps": 8}, device="cpu"):
        again(event)
    assert failures == []
    client = mlflow.MlflowClient((tmp_path / "run" / "mlflow" / "store").as_uri())
    experiment = client.get_experiment_by_name("glassformer")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    assert run.data.params["training.validate_every"] == "2"
    losses = {point.step: point.value for point in client.get_metric_history(run.info.run_id, "valid/loss")}
    assert losses.keys() == {2, 4, 6, 8}
    assert all(losses[event.step] == event.loss for event in events if isinstance(event, Validated))


@pytest.mark.filterwarnings("ignore")
def test_a_server_that_does_not_answer_is_said_once_and_the_training_continues(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    failures = []
    assert json.dumps(logged_run(tmp_path / "run", "mlflow", failures)[-1].to_json())
    (text,) = failures
    assert text.startswith("the log for mlflow is not complete; the training continues without it: API request to http")


def test_a_folder_that_cannot_be_written_is_said_once_and_the_training_continues(tmp_path):
    pytest.importorskip("tensorboardX")
    path, failures = tmp_path / "run", []
    run = train(PAIRS, settings(), path, device="cpu")
    log = open_log("tensorboard", path, failures.append)
    for event in run:
        (path / "tensorboard").touch()
        log(event)
    assert event.to_json()["event"] == "finished"
    assert len(failures) == 1
    assert "File exists" in failures[0]
    assert not any(thread.name.startswith("log ") for thread in threading.enumerate())


def test_another_log_is_an_error_that_names_the_nearest(tmp_path):
    with pytest.raises(UsageError, match="there is no log 'tensorbord'") as caught:
        open_log("tensorbord", tmp_path)
    assert caught.value.hint == "did you mean 'tensorboard'? valid: tensorboard, mlflow"


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_library_is_named_before_the_training(tmp_path, monkeypatch, name):
    real = builtins.__import__

    def without(module, *rest):
        if module.split(".")[0] in ("tensorboardX", "mlflow"):
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError) as caught:
        open_log(name, tmp_path)
    assert caught.value.hint == f"pip install 'glassformer[{name}]'"


@pytest.mark.parametrize("chosen", [None, "a value of the user"])
@pytest.mark.parametrize(
    ("library", "check", "variable", "off"),
    [("mlflow", _MLflow.check, "MLFLOW_DISABLE_TELEMETRY", "true"), ("ray", load_ray, "RAY_USAGE_STATS_ENABLED", "0")],
)
def test_a_library_does_not_report_to_its_makers_unless_the_user_says_so(
    monkeypatch, library, check, variable, off, chosen
):
    monkeypatch.setenv(variable, chosen or "")
    if chosen is None:
        monkeypatch.delenv(variable)
    seen, real = [], builtins.__import__

    def watched(module, *rest):
        if module == library:
            seen.append(os.environ.get(variable))
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", watched)
    with pytest.raises((ImportError, MissingExtraError)):
        check()
    assert seen == [chosen or off]
