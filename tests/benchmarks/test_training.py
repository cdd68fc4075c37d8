"""The arithmetic, the peers and the tables of the benchmarks; their clocks are tested by nobody."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import NAMES
from benchmarks.peers import TorchTransformer, make_marian
from benchmarks.tasks import draw_pairs, plan_pairs
from benchmarks.training import table_of
from benchmarks.turns import Record
from glassformer.paper.model import Transformer
from glassformer.settings import ModelSettings, SideSettings
from glassformer.text import learn


def test_batches_of_pairs_are_full_and_hold_no_row_twice() -> None:
    chance = np.random.default_rng(0)
    source, target = chance.integers(3, 30, (2, 1000))
    batches = plan_pairs(source, target, 64, seed=1, epoch=0)
    rows = np.concatenate(batches)
    assert [len(batch) for batch in batches] == [64] * 15
    assert len(set(rows.tolist())) == len(rows)
    assert max(np.ptp(target[batch]) for batch in batches) <= 3
    assert any((a != b).any() for a, b in zip(batches, plan_pairs(source, target, 64, 1, 1), strict=True))


def test_drawn_pairs_have_the_lengths_and_the_vocabulary_that_were_requested() -> None:
    pairs = [(source.split(), target.split()) for source, target in draw_pairs(5_000, 1_000, 13, 6)]
    lengths = np.array([(len(source), len(target)) for source, target in pairs])
    assert lengths.min() == 3
    assert abs(lengths.mean(axis=0) - 13.2).max() < 0.3  # a little more than 13, because none is below 3
    assert len({word for pair in pairs for side in pair for word in side}) == 996
    assert np.corrcoef(lengths.T)[0, 1] > 0.7


@pytest.mark.parametrize("peer", ["nn.Transformer", pytest.param("MarianMT", marks=pytest.mark.medium)])
@pytest.mark.filterwarnings("ignore")  # of what transformers says about itself when it is imported
def test_a_peer_has_the_trained_parameters_of_our_model(peer: str) -> None:
    """`nn.Transformer` has two norms more, at the ends of its stacks."""
    vocabulary = learn(["abcdefgh"], SideSettings(kind="characters")).vocabulary
    settings = ModelSettings(d_model=16, d_ff=24, n_heads=2, attention_bias=True, tied_embeddings="all")
    if peer == "MarianMT":
        pytest.importorskip("transformers")
        model, further = make_marian(settings, vocabulary), 0
    else:
        model, further = TorchTransformer(settings, len(vocabulary)), 2 * 2 * settings.d_model
    ours = Transformer(settings, len(vocabulary), len(vocabulary))
    counts = [sum(each.numel() for each in one.parameters() if each.requires_grad) for one in (model, ours)]
    assert counts[0] == counts[1] + further


def test_the_table_of_training_compares_round_by_round_and_says_who_is_absent() -> None:
    def record(*seconds: float) -> Record:
        return Record(turns=[{"pairs/s": 600 / s, "target tokens/s": 900 / s, "ms a step": s} for s in seconds])

    records = {"a": Record(absent="emulates"), "b": record(2, 4), "c": record(6, 20)}
    assert table_of(records).splitlines()[2:] == [
        "| a | emulates |  |  |  |",
        "| b | 225 [150, 300] | 338 [225, 450] | 3.0 [2.0, 4.0] | 1 |",
        "| c | 65 [30, 100] | 98 [45, 150] | 13.0 [6.0, 20.0] | 4.00 [3.00, 5.00] |",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_each_benchmark_has_a_command(name: str) -> None:
    assert callable(pytest.importorskip(f"benchmarks.{name}").main)
