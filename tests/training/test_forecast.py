"""The forecast of a run: its time from a few updates, its memory from its settings; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from glassformer.data.datasets import dates
from glassformer.planning.plan import Plan, plan
from glassformer.training import forecast as module
from glassformer.training.forecast import forecast
from glassformer.training.update import Updater
from tests.tiny import OVERRIDES


@pytest.fixture
def planned(tmp_path, monkeypatch) -> Plan:
    monkeypatch.setattr(module, "MAX_SECONDS", 0.0)
    overrides = OVERRIDES | {"model.n_encoder_layers": 4, "training.steps": 25, "training.validate_every": 10}
    return plan(dates(60, seed=3), tmp_path / "run", overrides=overrides)


def test_the_time_is_that_of_all_steps_and_validations_and_nothing_is_written(planned, tmp_path):
    found = forecast(planned, "cpu")
    assert (found.steps, found.validations) == (25, 3)
    assert found.seconds == pytest.approx(25 * found.seconds_per_step + 3 * found.seconds_per_validation)
    assert found.tokens_per_second > 0
    assert 0 < found.needed_bytes < found.available_bytes
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_recomputes_its_layers_needs_less_memory_and_a_measurement_ends(planned, monkeypatch):
    monkeypatch.setattr(module, "MAX_SECONDS", 1e9)
    monkeypatch.setattr(module, "MAX_STEPS", 2)
    training = planned.settings.training.model_copy(update={"recompute": True})
    settings = planned.settings.model_copy(update={"training": training})
    recomputing = replace(planned, settings=settings, prepared=replace(planned.prepared, settings=settings))
    assert forecast(recomputing, "cpu").needed_bytes < forecast(planned, "cpu").needed_bytes


def test_a_limit_of_minutes_and_steps_that_are_done_shorten_it(planned):
    training = planned.settings.training.model_copy(update={"max_minutes": 1e-6})
    settings = planned.settings.model_copy(update={"training": training})
    resumed = SimpleNamespace(saved=SimpleNamespace(position=SimpleNamespace(step=20)))
    limited = replace(planned, settings=settings, resumed=resumed)
    found = forecast(limited, "cpu")
    assert (found.steps, found.validations, found.seconds) == (5, 1, pytest.approx(6e-5))


def test_what_does_not_fit_is_not_measured(planned, monkeypatch):
    monkeypatch.setattr(module, "memory_of", lambda _: 1000)
    monkeypatch.setattr(Updater, "update", lambda *_: pytest.fail("an update was tried"))
    found = forecast(planned, "cpu")
    assert (found.seconds, found.seconds_per_step, found.available_bytes) == (None, None, 1000)
