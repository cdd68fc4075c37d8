"""What everybody trains and translates: the same rows, in the same batches, in the same order.

    D     10,000 dates, characters; d_model 256, d_ff 1024, 4 heads, 3+3 layers; 256 pairs a batch
    M     drawn ids, 13 ± 6 a side, joint vocabulary 10,000; d_model 128, d_ff 256, 4 heads, 4+4 layers; 4,096 tokens
    base  drawn ids, 27 ± 12 a side, joint vocabulary 37,000; the paper's base model and batch: 25,000 tokens a side
    big   the same with the paper's big model

Attention has biases and dropout, and the feed-forward has dropout inside, because that is what the peers' layers do;
so all of them compute the same function. Rows of like length share a batch, which spares everybody the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.batches import plan_batches
from glassformer.data.corpus import Corpus
from glassformer.data.datasets import dates
from glassformer.data.given import as_table
from glassformer.data.prepare import Prepared, prepare
from glassformer.planning.recipes.overrides import merge
from glassformer.settings import ModelSettings, Settings

Pairs = list[tuple[str, str]]
Rows = NDArray[np.int64]

HELD_OUT_DATES = 1_000


@dataclass(frozen=True)
class Task:
    """Rows as ids, the model that learns them, and how many rows or tokens (framed, on either side) make a batch."""

    prepared: Prepared
    pairs_a_batch: int | None

    @property
    def model(self) -> ModelSettings:
        return self.prepared.settings.model

    @property
    def corpus(self) -> Corpus:
        return self.prepared.train

    @property
    def vocabulary_size(self) -> int:
        return len(self.prepared.target_tokenizer)

    @property
    def label_smoothing(self) -> float:
        return self.prepared.settings.training.label_smoothing

    def batches(self) -> Iterator[Rows]:
        """Full batches for ever, epoch after epoch."""
        for number in count():
            yield from self.epoch(number)

    def epoch(self, number: int) -> list[Rows]:
        training = self.prepared.settings.training
        lengths = self.corpus.source.lengths, self.corpus.target.lengths
        if self.pairs_a_batch is None:
            return plan_batches(*lengths, training.batch_tokens, training.seed, number)
        return plan_pairs(*lengths, self.pairs_a_batch, training.seed, number)

    def n_target_tokens(self, rows: Rows) -> int:
        """Real positions that have a loss: what follows `<bos>`."""
        return int((self.corpus.target.lengths[rows] - 1).sum())


def plan_pairs(source_lengths: Rows, target_lengths: Rows, n_pairs: int, seed: int, epoch: int) -> list[Rows]:
    """`plan_batches` for batches of so many pairs; what is left over at the end of an epoch is left out."""
    chance = np.random.default_rng([seed, epoch])
    order = chance.permutation(len(source_lengths))
    order = order[np.lexsort((source_lengths[order], target_lengths[order]))]
    first = int(chance.integers(len(order) % n_pairs + 1))
    batches = order[first : first + len(order) // n_pairs * n_pairs].reshape(-1, n_pairs)
    return [batches[i] for i in chance.permutation(len(batches))]


def split_dates() -> tuple[Pairs, Pairs]:
    """10,000 dates to train on and 1,000 others."""
    rows = dates(10_000 + HELD_OUT_DATES, seed=1)
    return rows[:10_000], rows[10_000:]


def draw_pairs(n_pairs: int, vocabulary_size: int, mean: float, deviation: float, seed: int = 1) -> Pairs:
    """Texts of drawn words. Lengths (3 at least) are normal on either side, and correlate by 0.8, as sentences do."""
    chance = np.random.default_rng(seed)
    covariance = deviation**2 * np.array([[1.0, 0.8], [0.8, 1.0]])
    lengths = chance.multivariate_normal([mean, mean], covariance, n_pairs).round().clip(3).astype(int)
    n_words = vocabulary_size - 4  # beside <pad>, <bos>, <eos>, <unk>
    words = chance.integers(n_words, size=lengths.sum())
    words[:n_words] = np.arange(n_words)  # each occurs
    texts = [" ".join(map(str, text)) for text in np.split(words, lengths.flatten().cumsum()[:-1])]
    return list(zip(texts[::2], texts[1::2], strict=True))


SHAPE_D = {"d_model": 256, "d_ff": 1024, "n_heads": 4, "n_encoder_layers": 3, "n_decoder_layers": 3}
SHAPE_M = {"d_model": 128, "d_ff": 256, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4}


def settings_of(kind: str, model: dict[str, Any], dropout: float, **training: object) -> Settings:
    """One vocabulary, all embeddings tied, dropout at every site that peers have, post-norm as in the paper."""
    side = {"kind": kind, "vocabulary_size": 1_000_000}
    sites = {"dropout": dropout, "attention_dropout": dropout, "feed_forward_dropout": dropout}
    recipe = {
        "data": {"valid_fraction": 0.0},
        "tokens": {"source": side, "target": side, "shared": True},
        "model": {"tied_embeddings": "all", "attention_bias": True, **sites},
    }
    return Settings(**merge(recipe, {"model": model, "training": training}))


def task_d() -> Task:
    settings = settings_of("characters", SHAPE_D, 0.1, label_smoothing=0.0)
    return Task(prepare(as_table(split_dates()[0]), settings), pairs_a_batch=256)


def task_m() -> Task:
    settings = settings_of("words", SHAPE_M, 0.3, label_smoothing=0.1, batch_tokens=4_096)
    return Task(prepare(as_table(draw_pairs(20_000, 10_000, 13, 6)), settings), pairs_a_batch=None)


def task_of_paper(d_model: int, dropout: float) -> Task:
    """Table 3, base and big."""
    shape = {
        "d_model": d_model,
        "d_ff": 4 * d_model,
        "n_heads": d_model // 64,
        "n_encoder_layers": 6,
        "n_decoder_layers": 6,
    }
    settings = settings_of("words", shape, dropout, label_smoothing=0.1, batch_tokens=25_000)
    return Task(prepare(as_table(draw_pairs(60_000, 37_000, 27, 12)), settings), pairs_a_batch=None)


TASKS: dict[str, Callable[[], Task]] = {
    "D": task_d,
    "M": task_m,
    "base": partial(task_of_paper, 512, 0.1),
    "big": partial(task_of_paper, 1024, 0.3),
}
