"""A GPU trains and answers as a CPU does, up to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer import Translator
from glassformer.storage.modelfile import ModelFile, join
from glassformer.training import Run, Saved
from glassformer.training.train import train
from tests import tiny
from tests.training.test_loop import weight_list

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
]

WORDS = ["".join(np.random.default_rng(i).choice(list("abcdef"), 2 + i % 9)) for i in range(300)]
PAIRS = [(word, word.replace("a", "x")) for word in WORDS]
MODEL = {"d_model": 32, "d_ff": 64, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}
DEVICES = ("cpu", "cuda")


def start(out: Path, device: str, model: dict[str, Any] | None = None, **training: Any) -> Run:
    given = {"steps": 200, "batch_tokens": 1024, "learning_rate": 2e-3, "schedule": "cosine", "warmup_steps": 20}
    given |= {"validate_every": 50, "keep_snapshots": 0, "average_last": 0, "precision": "float32"} | training
    settings = tiny.settings(model=MODEL | {"dropout": 0.0} | (model or {}), training=given)
    return train(PAIRS, settings, out, device=device)


@pytest.mark.parametrize(
    ("model", "training"),
    [
        ({}, {}),
        ({"norm": "post", "positions": "learned", "output_bias": True}, {}),
        ({"copy_mechanism": True}, {}),
        ({}, {"recompute": True, "label_smoothing": 0.1}),
    ],
    ids=["default", "other", "copies", "recomputed"],
)
def test_updates_change_the_weights_as_on_a_cpu(tmp_path, model, training):
    runs = [start(tmp_path / device, device, model, **training) for device in DEVICES]
    for step in range(10):
        rows = [np.arange(20 * step, 20 * step + 20), np.arange(30)]
        one, two = (run.update(rows) for run in runs)
        torch.testing.assert_close(two.plain.cpu(), one.plain, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(two.norm.cpu(), one.norm, rtol=1e-3, atol=1e-4)
    for one, two in zip(*map(weight_list, runs), strict=True):  # Adam divides small gradients by small numbers
        torch.testing.assert_close(two.cpu(), one, rtol=0, atol=2e-3)


@pytest.mark.parametrize("recompute", [False, True])
def test_bfloat16_has_the_loss_of_float32(tmp_path, recompute):
    losses = []
    for precision in ("float32", "bfloat16"):
        changed = {"precision": precision, "recompute": recompute}
        run = start(tmp_path / precision, "cuda", {"copy_mechanism": True}, **changed)
        losses.append([float(run.update([np.arange(40)]).plain) for _ in range(30)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)


def test_an_update_that_is_not_finite_changes_nothing(tmp_path):
    run = start(tmp_path, "cuda")
    run.update([np.arange(20)])
    weight = run.model.encoder[0].self_attention.w_q.weight
    with torch.no_grad():
        weight[0, 0] = torch.inf
    before = [one.clone() for one in weight_list(run)]
    assert not torch.isfinite(run.update([np.arange(20)]).norm)
    assert all(map(torch.equal, before, weight_list(run)))


def test_a_batch_that_does_not_fit_is_split_with_the_same_sum(tmp_path):
    whole, limited = (start(tmp_path / name, "cuda") for name in ("whole", "limited"))
    rows = [np.tile(np.arange(270), 200)]
    torch.cuda.reset_peak_memory_stats()
    expected = whole.update(rows)
    needed, total = torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.6 * needed / total)
    try:
        found = limited.update(rows)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert limited.position.max_tokens is not None
    torch.testing.assert_close(found.plain, expected.plain, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.norm, expected.norm, rtol=1e-3, atol=1e-5)


def test_a_run_that_is_resumed_ends_like_one_that_was_not(tmp_path):
    whole = start(tmp_path / "whole", "cuda", {"dropout": 0.1}, steps=60)
    whole.finish()
    stopped = start(tmp_path / "stopped", "cuda", {"dropout": 0.1}, steps=60)
    for event in stopped:
        if isinstance(event, Saved):
            stopped.stop()
    resumed = train(PAIRS, out=tmp_path / "stopped", resume=True, device="cuda")
    resumed.finish()
    for one, two in zip(weight_list(whole), weight_list(resumed), strict=True):  # sums on a GPU have no fixed order
        torch.testing.assert_close(two, one, rtol=0, atol=2e-3)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("members", [1, 2])
def test_a_model_of_a_gpu_answers_the_same_on_both_in_any_batch(tmp_path, copies, members):
    runs = [tmp_path / str(seed) for seed in range(1, 1 + members)]
    for seed, run in enumerate(runs, 1):
        start(run, "cuda", {"copy_mechanism": copies}, seed=seed, steps=400, precision="auto").finish()
    joined = join([ModelFile.load(run) for run in runs])
    on_cpu, on_gpu = (Translator(joined, device=device) for device in DEVICES)
    expected, found = (model.translate(WORDS) for model in (on_cpu, on_gpu))
    right = sum(answer.text == target for answer, (_, target) in zip(expected, PAIRS, strict=True))
    assert right >= 250
    assert [answer.text for answer in found] == [answer.text for answer in expected]
    samples = [answer.text for answer in on_gpu.translate(WORDS[:10], do_sample=True, seed=3)]
    assert samples == [on_gpu.translate([word], do_sample=True, seed=3)[0].text for word in WORDS[:10]]
    forced = [[score.score for score in model.score(PAIRS[:40])] for model in (on_cpu, on_gpu)]
    np.testing.assert_allclose(*forced, rtol=0, atol=1e-4)
    alone = [on_gpu.translate([word])[0] for word in WORDS[:40]]
    assert [answer.text for answer in alone] == [answer.text for answer in found[:40]]
    scores = [[answer.score for answer in answers] for answers in (alone, found[:40], expected[:40])]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(scores[1], scores[2], rtol=0, atol=1e-4)
