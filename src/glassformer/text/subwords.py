"""Pieces of words, by BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018); all use of the library is here.

A piece shows a space as "▁". The library sees marked texts only: a "▁" for each space and one more in front.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

from glassformer.errors import MissingExtraError, UsageError
from glassformer.text.cutters import Learned

MARK = "▁"
# Exchanging the two, instead of writing one as the other, is what keeps a "▁" that the user wrote.
_EXCHANGE = str.maketrans(f" {MARK}", f"{MARK} ")
# A piece lies within a word and the space before it, or within a run of anything else, such as punctuation.
_CHUNK = rf"{MARK}?[\p{{L}}\p{{M}}\p{{N}}]+|{MARK}?[^{MARK}\p{{L}}\p{{M}}\p{{N}}]+|{MARK}"
# The library wants a piece that stands for unknown characters; the empty one collides with no other.
_NO_PIECE = ""


def mark(text: str) -> str:
    """Spaces as marks, and one mark in front, so that a word is the same at the beginning and further on."""
    return MARK + text.translate(_EXCHANGE) if text else ""


def library() -> Any:
    """The `tokenizers` library. Raises MissingExtraError when it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("a subword vocabulary", package="tokenizers", extra="subwords") from None
    return tokenizers


@final
class Subwords:
    """All characters are kept, white space too.

    Each unknown character is one unknown piece; with unigram a run of them is.
    """

    def __init__(self, pieces: list[str], learned: Learned) -> None:
        if MARK not in pieces:
            raise UsageError(f"its pieces lack {MARK!r}, which stands for a space")
        models = library().models
        if "merges" in learned:
            ids = {piece: at for at, piece in enumerate([*pieces, _NO_PIECE])}
            merges = _checked_merges(learned["merges"], ids)
            self._inner = _inner(models.BPE(vocab=ids, merges=merges, unk_token=_NO_PIECE))
        else:
            if len(learned["scores"]) != len(pieces):
                raise UsageError("its scores are not one for each piece", expected=str(len(pieces)))
            scored = [*zip(pieces, learned["scores"], strict=True), (_NO_PIECE, 0.0)]
            self._inner = _inner(models.Unigram(scored, unk_id=len(pieces)))

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        marked = [mark(text) for text in texts]
        cut = zip(marked, self._inner.encode_batch(marked), strict=True)
        return [[text[start:end] for start, end in encoding.offsets] for text, encoding in cut]

    def spans(self, text: str) -> list[tuple[int, int]]:
        offsets = self._inner.encode(mark(text)).offsets
        return [(max(start - 1, 0), end - 1) for start, end in offsets]  # the mark in front is not in the text

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).translate(_EXCHANGE).removeprefix(" ")


def _checked_merges(merges: list[list[str]], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    pairs = [(left, right) for left, right in merges]
    for left, right in pairs:
        if not (left and right and left in ids and right in ids and left + right in ids):
            raise UsageError("a merge names a piece that it does not have", got=repr((left, right))[:80])
    if len(set(pairs)) < len(pairs):
        raise UsageError("a merge is there twice")
    return pairs


def train(marked: Sequence[str], algorithm: Literal["bpe", "unigram"], size: int) -> tuple[list[str], Learned]:
    """At most `size` pieces from marked texts, and their merges (bpe) or scores (unigram)."""
    tokenizers = library()
    if algorithm == "bpe":
        # A pair that is seen once is no pattern.
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False)
        model = _trained(tokenizers.models.BPE(), trainer, marked)
        return sorted(model["vocab"], key=model["vocab"].__getitem__), {"merges": model["merges"]}
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=size, show_progress=False)
    scores = _settled(dict(_trained(tokenizers.models.Unigram(), trainer, marked)["vocab"]))
    return list(scores), {"scores": list(scores.values())}


def _trained(model: Any, trainer: Any, marked: Sequence[str]) -> Any:
    """The trained model as plain data: `vocab`, and `merges` for BPE."""
    inner = _inner(model)
    inner.train_from_iterator(marked, trainer)
    return json.loads(inner.to_str())["model"]


def _settled(scores: dict[str, float]) -> dict[str, float]:
    """Unigram scores without the traces of chance, falling.

    The library adds numbers up in an order that differs from run to run, which shows in the last digits. In
    such an order, too, it gives the characters that lost their score the lowest one plus 0, 1, 2, … times
    0.0001. So scores are rounded, and all those characters get the lowest.
    """
    lowest = min(scores.values())
    margin = 1e-4 * sum(len(piece) == 1 for piece in scores)
    settled = {
        piece: round(lowest if len(piece) == 1 and score < lowest + margin else score, 6)
        for piece, score in scores.items()
    }
    return dict(sorted(settled.items(), key=lambda item: (-item[1], item[0])))


def _inner(model: Any) -> Any:
    """The library's tokenizer around a model: no normaliser, no special tokens, our chunks."""
    tokenizers = library()
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_CHUNK), "isolated")
    return inner
