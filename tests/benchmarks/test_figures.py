"""The arithmetic and the tables of the benchmarks; their clocks are tested by nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import run
from benchmarks.contenders import OURS, PEAKS
from benchmarks.figures import Figure, ratio
from benchmarks.report import fill, goals_table, rows_of, table_of
from benchmarks.tasks import draw_pairs, forward_flops, plan_pairs
from glassformer.paper.model import Transformer
from glassformer.paper.settings import ModelSettings


def test_a_figure_is_the_median_between_the_extremes() -> None:
    assert Figure.of([3.0, 1.0, 2.0, 10.0, 2.5]) == (2.5, 1.0, 10.0)
    assert Figure(1234.56, 1.0, 20_000.0).write(1) == "1,234.6 [1.0, 20,000.0]"


def test_a_ratio_is_taken_round_by_round() -> None:
    assert ratio([2.0, 40.0, 3.0], [1.0, 10.0, 1.0]) == (3.0, 2.0, 4.0)
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])


def test_the_arithmetic_is_what_torch_counts() -> None:
    """One pair without padding; torch counts causal attention as if every position saw all."""
    settings = ModelSettings(d_model=32, d_ff=48, n_heads=4, d_k=8, d_v=16, n_encoder_layers=2, n_decoder_layers=3)
    model = Transformer(settings, 20, 20).eval()
    s, t = 7, 5
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(torch.ones(1, s, dtype=torch.long), None, torch.ones(1, t, dtype=torch.long))
    unseen = 2 * settings.n_decoder_layers * 4 * (8 + 16) * t * (t - 1) / 2
    assert forward_flops(settings, 20, np.array([s]), np.array([t])) == counter.get_total_flops() - unseen


def test_batches_of_pairs_are_full_and_hold_no_row_twice() -> None:
    chance = np.random.default_rng(0)
    source, target = chance.integers(3, 30, (2, 1000))
    batches = plan_pairs(source, target, 64, seed=1, epoch=0)
    rows = np.concatenate(batches)
    assert [len(batch) for batch in batches] == [64] * 15
    assert len(set(rows.tolist())) == len(rows)
    assert max(np.ptp(target[batch]) for batch in batches) <= 3
    assert any((a != b).any() for a, b in zip(batches, plan_pairs(source, target, 64, 1, 1), strict=True))


def test_drawn_pairs_have_the_lengths_and_the_vocabulary_that_were_asked_for() -> None:
    pairs = [(source.split(), target.split()) for source, target in draw_pairs(5_000, 1_000, 13, 6)]
    lengths = np.array([(len(source), len(target)) for source, target in pairs])
    assert lengths.min() == 3
    assert abs(lengths.mean(axis=0) - 13.2).max() < 0.3  # a little more than 13, because none is below 3
    assert len({word for pair in pairs for side in pair for word in side}) == 996
    assert np.corrcoef(lengths.T)[0, 1] > 0.7


def test_a_table_goes_between_its_markers_and_nowhere_else() -> None:
    page = "# T\n<!-- a cpu -->\nold\n<!-- end -->\n<!-- b cpu -->\n<!-- end -->\n"
    table = rows_of(["", "x"], [["one", r"1\2"]])
    filled = fill(page, "a cpu", table)
    assert filled == page.replace("old\n", "|  | x |\n| --- | ---: |\n| one | 1\\2 |\n")
    assert fill(filled, "c cpu", table) == filled
    emptied = fill(filled, "a cpu", "")
    assert emptied == page.replace("old\n", "")
    assert fill(emptied, "a cpu", table) == filled


def outcome() -> dict[str, Any]:
    """Two rounds of three contenders, of which the last did not take part; the peaks are 1,000 FLOP a second."""

    def contender(turns: list[dict[str, float]], absent: str | None = None) -> dict[str, Any]:
        task = {"source_tokens": 3, "target_tokens": 4, "gflop_a_pair": 0.5}
        facts = {"parameters": 7, "precision": "float32", "task": task}
        return {"facts": facts, "turns": turns, "memory_mb": 12.0, "absent": absent}

    def turn(seconds: float) -> dict[str, float]:
        return {"seconds": seconds, "pairs": 600.0, "tokens": 900.0, "flops": 1_000.0, "updates": 4.0}

    peaks = {name: contender([{"seconds": 1.0, "flops": 1_000.0}] * 2) for name in PEAKS}
    return {
        "when": "2026-01-02T03:04+00:00",
        "rounds": 2,
        "machine": {"device": "abacus", "threads": 2, "versions": {"torch": "9"}},
        "contenders": {
            OURS: contender([turn(2.0), turn(4.0)]),
            "MarianMT, float32": contender([turn(6.0), turn(20.0)]),
            "nn.Transformer, bfloat16": contender([turn(1.0)], "out of breath"),
        }
        | peaks,
    }


def test_the_table_of_training_says_what_was_measured() -> None:
    table = table_of("train-D", outcome())
    assert f"| {OURS} | 225 [150, 300] | 338 | 1 | 38% | 12 | 20.8 |" in table
    assert "| MarianMT, float32 | 65 [30, 100] | 98 | 4.00 [3.00, 5.00] | 11% | 12 | 90.3 |" in table
    assert "| nn.Transformer, bfloat16 | out of breath |" in table
    assert table.endswith("2026-01-02; 2 rounds; abacus, 2 threads; torch 9.\n")


def test_goals_are_told_only_where_both_took_part_to_the_end() -> None:
    lines = goals_table({"train-D": outcome()}).splitlines()[2:]
    assert lines == [f"| train-D: {OURS} against MarianMT, float32 | 4.00 [3.00, 5.00] | 2.2 | 3 |"]


def test_a_page_keeps_what_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, results = tmp_path / "page.md", tmp_path / "today-cpu.json"
    page.write_text("<!-- goals cpu -->\nall goals\n<!-- end -->\n<!-- train-D cpu -->\nold\n<!-- end -->\n")
    results.write_text(json.dumps({"train-D": outcome(), "serving": {"requests": 1}}))
    monkeypatch.setattr(run, "PAGE", page)
    run.write_page(results, "cpu")
    written = page.read_text()
    assert "all goals" in written
    assert table_of("train-D", outcome()) in written
