"""Which source token each token of an answer belongs to, by the attention of the model in the NumPy reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.inference.engines import Ids
from glassformer.inference.engines.batches import on_every_core
from glassformer.inference.timelimit import check_time_limit
from glassformer.inference.translator import Translator
from glassformer.jobs.answers import JobAnswer
from glassformer.paper import reference
from glassformer.settings import ModelSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import Source


def align(translator: Translator, sources: Sequence[Source], answers: Sequence[JobAnswer]) -> list[JobAnswer]:
    """Return the answers with `source_tokens`, and for each of their tokens the source token with most attention.

    The attention is from `cross_attention`, at the position that predicts the token. `<bos>`, `<eos>` and `<pad>`
    are not aligned. Alternatives are left as they are.
    """
    source, target = translator.source_tokenizer, translator.target_tokenizer
    frame = {source.vocabulary.bos_id, source.vocabulary.eos_id, source.vocabulary.pad_id}
    id_of = target.vocabulary.ordinary
    rows = [row for row, answer in enumerate(answers) if answer.tokens]
    framed = [source.frame(ids) for ids in source.encode_many([sources[row] for row in rows])]
    targets = [target.frame([id_of[piece] for piece in answers[row].tokens]) for row in rows]
    weights = cross_attention(translator.model_files, list(zip(framed, targets, strict=True)))
    results = list(answers)
    for row, ids, attention in zip(rows, framed, weights, strict=True):
        positions = [at for at, token in enumerate(ids) if token not in frame]
        if not positions:  # SentencePiece makes no piece of some characters, such as U+200B
            continue
        nearest = attention[: len(answers[row].tokens), positions].argmax(axis=1).tolist()
        alignment = tuple((at, token) for token, at in enumerate(nearest))
        tokens = tuple(source.tokens([ids[at] for at in positions]))
        results[row] = replace(answers[row], alignment=alignment, source_tokens=tokens)
    return results


def cross_attention(files: Sequence[ModelFile], pairs: Sequence[tuple[Ids, Ids]]) -> list[NDArray[Any]]:
    """Return [target tokens after `<bos>`, source tokens] of weights for each of the framed (source, target) ids.

    They are the weights of the penultimate decoder layer (or the only one), averaged over its heads: this layer's
    average follows alignments by people best (Garg et al. 2019, "Jointly Learning to Align and Translate", section
    4.1). With several models they are averaged too.
    """
    models = [
        ({name: array.astype(np.float64) for name, array in file.tensors.items()}, file.settings.model)
        for file in files
    ]

    def mean(rows: Sequence[int]) -> NDArray[Any]:
        return np.asarray(np.mean([_attention_weights(*model, *pairs[rows[0]]) for model in models], axis=0))

    return list(on_every_core(mean, [[row] for row in range(len(pairs))]))


def _attention_weights(weights: reference.Weights, model: ModelSettings, source: Ids, target: Ids) -> NDArray[Any]:
    noted: dict[str, NDArray[Any]] = {}

    def note(name: str, value: Any, *_made_of: Any) -> Any:
        noted[name] = value
        return value

    check_time_limit()
    memory = reference.encode(weights, model, np.array(source))
    reference.decode(weights, model, np.array(target[:-1]), memory, note=note)
    layer = max(0, model.n_decoder_layers - 2)
    of_heads: NDArray[Any] = noted[f"decoder.{layer}.cross_attention.weights"]
    return np.asarray(of_heads.mean(axis=0))
