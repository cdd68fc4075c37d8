"""Training by `glassformer.fast` against training by the paper's model as it is, and without the room at all."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.datasets import dates
from glassformer.data.given import as_table
from glassformer.data.prepare import prepare
from glassformer.training.objective import Objective
from glassformer.training.update import Updater, initial_model
from tests import tiny
from tests.chaos.conftest import child, wait

SHAPE = {"d_model": 32, "n_heads": 2, "d_ff": 48, "n_encoder_layers": 2, "n_decoder_layers": 2}
TRAINING = {"precision": "float32", "learning_rate": 1e-3, "schedule": "constant", "warmup_steps": 1}
CPU = torch.device("cpu")


def updaters(**model: object) -> list[Updater]:
    """With `fast` and without it, from the same weights and rows."""
    prepared = prepare(as_table(dates(200, seed=1)), tiny.settings(model=SHAPE | model, training=TRAINING))
    fast = Updater(initial_model(prepared, None), prepared.train, prepared.settings, CPU)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.training.update.objective_of", Objective)
        return [fast, Updater(initial_model(prepared, None), prepared.train, prepared.settings, CPU)]


@pytest.mark.parametrize("model", [{"output_bias": True}, {"copy_mechanism": True, "norm": "pre", "output_bias": True}])
def test_updates_have_the_losses_and_gradients_of_the_model_as_it_is(model):
    fast, plain = updaters(dropout=0.0, **model)
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(180), (15, 1)), axis=1)[:, :20]
    sums = [[updater.update([batch]) for updater in (fast, plain)] for batch in rows]
    for of_fast, of_plain in sums:
        torch.testing.assert_close(of_fast.smoothed, of_plain.smoothed, rtol=1e-4, atol=0)
        torch.testing.assert_close(of_fast.norm, of_plain.norm, rtol=5e-3, atol=0)
    assert sums[-1][0].plain < 0.8 * sums[0][0].plain


def test_dropout_has_the_same_mean_loss_and_spread():
    """Of 50 draws for the same rows and weights, within three standard errors."""
    means, spreads, n_draws = [], [], 50
    for updater in updaters(dropout=0.3, attention_dropout=0.2, feed_forward_dropout=0.2):
        torch.manual_seed(0)
        updater.model.train()
        with torch.no_grad():
            losses = torch.stack([updater.objective.losses(updater.corpus, np.arange(8))[0] for _ in range(n_draws)])
        means.append(losses.mean())
        spreads.append(losses.std())
    assert abs(means[0] - means[1]) < 3 * (2 / n_draws) ** 0.5 * max(spreads)
    assert spreads[0] == pytest.approx(spreads[1].item(), rel=0.35)


def train_without_the_room(out: Path) -> int:
    """Import the package again without `fast`, in a process of its own; return 0 where all is as it should be."""
    for name in [name for name in sys.modules if name.startswith(("glassformer", "tests.tiny"))]:
        del sys.modules[name]
    sys.modules["glassformer.fast"] = None  # type: ignore[assignment]
    train = import_module("glassformer.training.train").train
    settings = import_module("tests.tiny").settings(training=TRAINING | {"steps": 3})
    run = train(dates(60, seed=1), settings, out, device="cpu")
    answers = run.finish().translate(["1 May 2020"])
    return 0 if (type(run.updater.objective).__name__, len(answers)) == ("Objective", 1) else 1


def test_without_the_room_a_model_is_trained_and_translates(tmp_path: Path):
    with child(lambda: train_without_the_room(tmp_path / "run")) as number:
        assert wait(number) == 0
