"""Subwords by BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018); only this module uses the library.

A piece writes a space as "▁". The library gets marked texts only: a "▁" for each space and one more at the start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

from glassformer.errors import MissingExtraError, UsageError
from glassformer.text.segmenters import Learned

MARK = "▁"
# The two are exchanged, so that a "▁" in the text of a user is not lost.
_EXCHANGE = str.maketrans(f" {MARK}", f"{MARK} ")
# A piece is part of a word with the space before it, or of a run of other characters, such as punctuation.
_CHUNK = rf"{MARK}?[\p{{L}}\p{{M}}\p{{N}}]+|{MARK}?[^{MARK}\p{{L}}\p{{M}}\p{{N}}]+|{MARK}"
# The library requires a piece for unknown characters; the empty one is equal to no other.
_NO_PIECE = ""


def mark(text: str) -> str:
    """Return the text with marks for spaces and one mark at the start: a word is then the same at every position."""
    return MARK + text.translate(_EXCHANGE) if text else ""


def library() -> Any:
    """Return the `tokenizers` library. Raises MissingExtraError when it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("a subword vocabulary", package="tokenizers", extra="subwords") from None
    return tokenizers


@final
class Subwords:
    """Segmenter with subwords as pieces. All characters are kept, white space too.

    With BPE each unknown character is one unknown piece; with unigram a run of them is one.
    """

    def __init__(self, pieces: list[str], learned: Learned) -> None:
        if MARK not in pieces:
            raise UsageError(f"the piece {MARK!r}, which represents a space, is missing")
        models = library().models
        if "merges" in learned:
            ids = {piece: token_id for token_id, piece in enumerate([*pieces, _NO_PIECE])}
            merges = _checked_merges(learned["merges"], ids)
            self._inner = _inner(models.BPE(vocab=ids, merges=merges, unk_token=_NO_PIECE))
        else:
            if len(learned["scores"]) != len(pieces):
                raise UsageError(
                    "the number of scores is not the number of pieces",
                    got=str(len(learned["scores"])),
                    expected=str(len(pieces)),
                )
            scored = [*zip(pieces, learned["scores"], strict=True), (_NO_PIECE, 0.0)]
            self._inner = _inner(models.Unigram(scored, unk_id=len(pieces)))

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        marked = [mark(text) for text in texts]
        encoded = zip(marked, self._inner.encode_batch(marked), strict=True)
        return [[text[start:end] for start, end in encoding.offsets] for text, encoding in encoded]

    def spans(self, text: str) -> list[tuple[int, int]]:
        offsets = self._inner.encode(mark(text)).offsets
        return [(max(start - 1, 0), end - 1) for start, end in offsets]  # the mark at the start is not in the text

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).translate(_EXCHANGE).removeprefix(" ")

    def added(self, piece: str) -> bytes:
        return piece.translate(_EXCHANGE).encode()


def _checked_merges(merges: list[list[str]], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    pairs = [(left, right) for left, right in merges]
    for left, right in pairs:
        if not (left and right and left in ids and right in ids and left + right in ids):
            raise UsageError("a merge has a piece that is not in the vocabulary", got=repr((left, right))[:80])
    if len(set(pairs)) < len(pairs):
        raise UsageError("a merge is repeated")
    return pairs


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
    inner = _inner(model)
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


def _inner(model: Any) -> Any:
    """Return the library's tokenizer for a model: no normalizer, no special tokens, pieces within `_CHUNK`."""
    tokenizers = library()
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_CHUNK), "isolated")
    return inner
