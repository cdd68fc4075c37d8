"""A model to start from, with the characters and words of a new table: new ids, and rows for them in its matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from glassformer.storage.modelfile import TARGET_IDS, ModelFile, tensor_shapes
from glassformer.text import Tokenizer, Vocabulary
from glassformer.text.vocabulary import copied_ids

N_NAMED = 10


def grow_model(start: ModelFile, source: Tokenizer, target: Tokenizer) -> ModelFile:
    """Return the model with the larger tokenizers of `text.grow_both`.

    The row of a new token, in an embedding or in the output layer, is the mean of the rows of all ordinary tokens
    (Hewitt 2021, Initializing New Word Embeddings for Pretrained Language Models). Logits of old tokens are unchanged.
    A new token has the mean of their logits, which is never the largest: the model answers as before until it is
    trained, except for new tokens that a copy mechanism copies.
    """
    if (source, target) == (start.source_tokenizer, start.target_tokenizer):
        return start
    shapes = tensor_shapes(start.settings.model, len(source), len(target))
    tensors = {}
    for name, array in start.tensors.items():
        if name == TARGET_IDS:
            tensors[name] = np.array(copied_ids(source.vocabulary, target.vocabulary), np.float32)
            continue
        is_source = name.startswith("source_")
        old, new = (start.source_tokenizer, source) if is_source else (start.target_tokenizer, target)
        tensors[name] = array
        if shapes[name][0] > len(array):
            mean = array[list(old.vocabulary.ordinary.values())].mean(axis=0)
            ids = _old_ids(old.vocabulary, new.vocabulary)
            tensors[name] = np.stack([mean if at is None else array[at] for at in ids])
    data = start.data.model_copy(update={"source_counts": (), "target_counts": ()})  # of the old tokens only
    return replace(start, source_tokenizer=source, target_tokenizer=target, tensors=tensors, data=data)


def _old_ids(old: Vocabulary, new: Vocabulary) -> Iterator[int | None]:
    inputs = dict(zip(old.input_tokens, old.input_ids, strict=True))
    for token_id, piece in enumerate(new.pieces):
        if token_id in new.input_ids:
            yield inputs.get(piece)
        else:
            yield old.specials[piece] if token_id in new.special_ids else old.lookup(piece)


def new_token_texts(start: ModelFile, tokenizers: tuple[Tokenizer, Tokenizer]) -> Iterator[str]:
    """Yield a sentence on the new tokens of each vocabulary: how many, and the first ones."""
    old = (start.source_tokenizer, start.target_tokenizer)
    is_shared = start.settings.tokens.shared
    if symbols := [
        token for token in tokenizers[0].vocabulary.input_tokens if token not in old[0].vocabulary.input_tokens
    ]:
        yield f"{len(symbols):,} new {'symbols' if len(symbols) > 1 else 'symbol'} of features: {_first(symbols)}"
    for side, before, after in zip(("source", "target"), old, tokenizers, strict=True):
        if new := list(after.vocabulary.ordinary)[len(before.vocabulary.ordinary) :]:
            name = "shared" if is_shared else side
            kind = after.settings.kind if len(new) > 1 else after.settings.kind.removesuffix("s")
            number = f"{len(new):,} new {kind} in the {name} vocabulary"
            yield f"{number}, with the mean of the other embeddings: {_first(new)}"
        if is_shared:
            return


def _first(tokens: Sequence[str]) -> str:
    return ", ".join(map(repr, tokens[:N_NAMED])) + (", …" if len(tokens) > N_NAMED else "")


def unknown_text(tokenizer: Tokenizer, texts: Iterable[str]) -> str:
    """Return the most frequent characters of texts that a tokenizer lacks, each with its count; empty if none."""
    counts = Counter(character for text in texts for character in text)
    unknown = {character: count for character, count in counts.items() if tokenizer.unknown(character)}
    return ", ".join(f"{character!r} ({count:,})" for character, count in Counter(unknown).most_common(N_NAMED))
