"""Texts as ids for a search, and the maximum length of its answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from glassformer.errors import TextError, TooLongError
from glassformer.settings import DecodingSettings, Settings
from glassformer.storage.records import TrainingData
from glassformer.text import Tokenizer
from glassformer.text.inputs import Source


def encode_sources(
    sources: Sequence[Source], where: Sequence[str], tokenizer: Tokenizer, settings: Settings
) -> list[list[int]]:
    """Return the framed ids of sources, for a model with these settings; `where[i]` names source i in errors.

    Raises TooLongError when sources are longer than the model takes (the first ten are named), TextError when they
    hold a token that the vocabulary has no id for and no `<unk>`.
    """
    encoded = tokenizer.encode_many(sources, where=where)
    maximum = settings.max_source_tokens
    if too_long := {row: len(ids) for row, ids in enumerate(encoded) if len(ids) > maximum}:
        raise TooLongError.of(too_long, where, maximum)
    return [tokenizer.frame(ids) for ids in encoded]


def encode_prefix(prefix: str, where: str | None, tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the forced start of an answer. Raises TextError for a start that no answer can have."""
    if unknown := tokenizer.unknown(prefix):
        raise TextError(
            "a prefix holds what the target vocabulary does not have, so that no answer can start with it",
            where=where,
            got=", ".join(map(repr, unknown[:10])),
        )
    return tokenizer.encode(prefix, where=where)


def max_new_tokens_of(data: TrainingData, settings: Settings, decoding: DecodingSettings) -> int:
    """Return the maximum number of tokens of an answer, `<eos>` included; learned positions limit it too."""
    maximum = decoding.max_new_tokens or default_max_new_tokens(data, settings)
    return min(maximum, settings.model.n_positions or maximum)


def default_max_new_tokens(data: TrainingData, settings: Settings) -> int:
    """Return the default of `max_new_tokens`: 1.25 times the longest target trained on, plus 4."""
    longest = settings.data.max_target_length if data.longest_target is None else data.longest_target
    return math.ceil(1.25 * longest) + 4
