"""A model to start from, with the characters and words of a new table: new ids, and rows for them in its matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from glassformer.modelfile import ModelFile, tensor_shapes
from glassformer.text import Tokenizer

N_NAMED = 10


def grow_model(start: ModelFile, source: Tokenizer, target: Tokenizer) -> ModelFile:
    """Return the model with the tokenizers that `text.grow_both` made of its own.

    The row of a new token, in an embedding or in the output layer, is the mean of the rows of all ordinary tokens
    (Hewitt 2021, Initializing New Word Embeddings for Pretrained Language Models). Logits of old tokens are unchanged.
    A new one has the mean of their logits, which is never the largest: the model answers as before until it is trained.
    """
    if (source, target) == (start.source_tokenizer, start.target_tokenizer):
        return start
    shapes = tensor_shapes(start.settings.model, len(source), len(target))
    tensors = {}
    for name, array in start.tensors.items():
        side = start.source_tokenizer if name.startswith("source_") else start.target_tokenizer
        n_new = shapes[name][0] - len(array)
        mean = array[list(side.vocabulary.ordinary.values())].mean(axis=0, keepdims=True) if n_new else array[:0]
        tensors[name] = np.concatenate([array, *[mean] * n_new]) if n_new else array
    data = start.data.model_copy(update={"source_counts": (), "target_counts": ()})  # of the old tokens only
    return replace(start, source_tokenizer=source, target_tokenizer=target, tensors=tensors, data=data)


def new_token_texts(start: ModelFile, tokenizers: tuple[Tokenizer, Tokenizer]) -> Iterator[str]:
    """Yield a sentence on the new tokens of each vocabulary: how many, and the first ones."""
    old = (start.source_tokenizer, start.target_tokenizer)
    is_shared = start.settings.tokens.shared
    for side, before, after in zip(("source", "target"), old, tokenizers, strict=True):
        if new := list(after.vocabulary.ordinary)[len(before.vocabulary.ordinary) :]:
            named = ", ".join(map(repr, new[:N_NAMED])) + (", …" if len(new) > N_NAMED else "")
            name = "shared" if is_shared else side
            kind = after.settings.kind if len(new) > 1 else after.settings.kind.removesuffix("s")
            yield f"{len(new):,} new {kind} in the {name} vocabulary, with the mean of the other embeddings: {named}"
        if is_shared:
            return


def unknown_text(tokenizer: Tokenizer, texts: Sequence[str]) -> str:
    """Return the most frequent characters of texts that a tokenizer lacks, each with its count; empty if none."""
    counts = Counter(character for text in texts for character in text)
    unknown = {character: count for character, count in counts.items() if tokenizer.unknown(character)}
    return ", ".join(f"{character!r} ({count:,})" for character, count in Counter(unknown).most_common(N_NAMED))
