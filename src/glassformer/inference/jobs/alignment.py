"""Which source token each token of an answer belongs to, by the attention of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.inference.engines.torch import TorchEngine
from glassformer.inference.translator import Translation, Translator
from glassformer.paper.model import MultiHeadAttention, Transformer

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


class Aligner:
    """Aligns the answers of a translator with its model, or models, in PyTorch."""

    def __init__(self, translator: Translator) -> None:
        self._source, self._target = translator.source_tokenizer, translator.target_tokenizer
        engine = translator.engine
        self._engine = engine if isinstance(engine, TorchEngine) else TorchEngine.of_files(translator.model_files)
        special = self._target.vocabulary.special_ids
        pieces = enumerate(self._target.vocabulary.pieces)
        self._target_ids = {piece: token for token, piece in pieces if token not in special}

    def align(self, sources: Sequence[str], answers: Sequence[Translation]) -> list[Translation]:
        """Return the answers with `source_tokens`, and for each of their tokens the source token with most attention.

        The attention is that of `cross_attention`, at the position that predicts the token. `<bos>`, `<eos>` and
        `<pad>` are not aligned. Alternatives are left as they are.
        """
        vocabulary = self._source.vocabulary
        frame = {vocabulary.bos_id, vocabulary.eos_id, vocabulary.pad_id}
        rows = [row for row, answer in enumerate(answers) if answer.tokens]
        framed = [self._source.frame(ids) for ids in self._source.encode_many([sources[row] for row in rows])]
        targets = [self._target.frame([self._target_ids[piece] for piece in answers[row].tokens]) for row in rows]
        weights = cross_attention(self._engine, list(zip(framed, targets, strict=True)))
        results = list(answers)
        for row, ids, found in zip(rows, framed, weights, strict=True):
            positions = [at for at, token in enumerate(ids) if token not in frame]
            nearest = found[: len(answers[row].tokens), positions].argmax(axis=1).tolist()
            alignment = tuple((at, token) for token, at in enumerate(nearest))
            tokens = tuple(self._source.tokens([ids[at] for at in positions]))
            results[row] = replace(answers[row], alignment=alignment, source_tokens=tokens)
        return results


def pharaoh(answer: Translation) -> str:
    """Return the alignment of an answer in the format of Pharaoh: "0-0 2-1", source token and token of the answer."""
    return " ".join(f"{source}-{target}" for source, target in answer.alignment)


@torch.inference_mode()
def cross_attention(engine: TorchEngine, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[NDArray[Any]]:
    """Return [target tokens after `<bos>`, source tokens] of weights for each of the framed (source, target) ids.

    They are those of the penultimate decoder layer (of the only one, where there is one), averaged over its heads: of
    the layers of a Transformer, its average was found to follow alignments of people best (Garg et al. 2019, "Jointly
    Learning to Align and Translate", section 4.1). With several models they are averaged too.
    """
    results: list[NDArray[Any]] = [torch.empty(0).numpy()] * len(pairs)
    for rows, source, visible, target, _ in engine.in_batches(pairs):
        weights = [_weights(model, source, visible, target[:, :-1]) for model in engine.models]
        mean = torch.stack(weights).mean(dim=0).cpu()
        for i, row in enumerate(rows):
            n_source, n_target = len(pairs[row][0]), len(pairs[row][1]) - 1
            results[row] = mean[i, :n_target, :n_source].numpy()
    return results


def _weights(model: Transformer, source: Tensor, visible: Tensor, target: Tensor) -> Float[Tensor, "B T S"]:
    layer: Any = model.decoder[max(0, len(model.decoder) - 2)]
    found: list[Tensor] = []

    def keep(attention: MultiHeadAttention, inputs: tuple[Any, ...]) -> None:
        x, memory, memory_visible = inputs
        found.append(_softmax_weights(attention, x, memory, memory_visible))

    hook = layer.cross_attention.register_forward_pre_hook(keep)
    try:
        model.decode(target, model.encode(source, visible), visible)
    finally:
        hook.remove()
    return found[0]


def _softmax_weights(
    attention: MultiHeadAttention,
    x: Float[Tensor, "B T D"],
    memory: Float[Tensor, "B S D"],
    visible: Bool[Tensor, "B 1 1 S"],
) -> Float[Tensor, "B T S"]:
    """Return softmax(Q K^T / sqrt(d_k)) (section 3.2.1), averaged over the heads."""
    query, key = (
        projection(tokens).unflatten(2, (attention.n_heads, -1)).transpose(1, 2)
        for projection, tokens in ((attention.w_q, x), (attention.w_k, memory))
    )
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    return scores.masked_fill(~visible, -math.inf).softmax(dim=3).mean(dim=1)  # type: ignore[no-any-return]
