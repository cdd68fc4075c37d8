"""Learn subwords, by BPE or a unigram model, with the library `tokenizers`; `segmenters` splits texts into them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from glassformer.errors import MissingExtraError
from glassformer.text.segmenters import Learned, of_chunks


def library() -> Any:
    """Return the `tokenizers` library. Raises MissingExtraError when it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("a subword vocabulary", package="tokenizers", extra="subwords") from None
    return tokenizers


def train(marked: Sequence[str], algorithm: Literal["bpe", "unigram"], size: int) -> tuple[list[str], Learned]:
    """Learn at most `size` pieces from marked texts, and their merges (bpe) or scores (unigram)."""
    tokenizers = library()
    if algorithm == "bpe":
        # A pair that occurs once is not a pattern.
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False)
        model = _trained(tokenizers.models.BPE(), trainer, marked)
        return sorted(model["vocab"], key=model["vocab"].__getitem__), {"merges": model["merges"]}
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=size, show_progress=False)
    scores = _reproducible(dict(_trained(tokenizers.models.Unigram(), trainer, marked)["vocab"]))
    return list(scores), {"scores": list(scores.values())}


def _trained(model: Any, trainer: Any, marked: Sequence[str]) -> Any:
    """Train a model and return it as plain data: `vocab`, and `merges` for BPE."""
    inner = of_chunks(model)
    inner.train_from_iterator(marked, trainer)
    return json.loads(inner.to_str())["model"]


def _reproducible(scores: dict[str, float]) -> dict[str, float]:
    """Return unigram scores that are the same in every run, in descending order.

    The library sums numbers in an order that differs from run to run, so that the last digits of the scores differ.
    In such an order it also gives the characters that were pruned the lowest score plus 0, 1, 2, … times 0.0001. So
    scores are rounded, and all those characters get the lowest score.
    """
    lowest = min(scores.values())
    margin = 1e-4 * sum(len(piece) == 1 for piece in scores)
    rounded = {
        piece: round(lowest if len(piece) == 1 and score < lowest + margin else score, 6)
        for piece, score in scores.items()
    }
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], item[0])))
