"""Which source token each token of an answer belongs to, by the attention of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from glassformer.inference.translator import Translation, Translator


class Aligner:
    """Aligns the answers of a translator with its model, or models, in PyTorch."""

    def __init__(self, translator: Translator) -> None:
        from glassformer.inference.engines.attention import cross_attention
        from glassformer.inference.engines.torch import TorchEngine

        self._source, self._target = translator.source_tokenizer, translator.target_tokenizer
        engine = translator.engine
        if not isinstance(engine, TorchEngine):
            engine = TorchEngine.of_files(translator.model_files)
        self._cross_attention = partial(cross_attention, engine)
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
        weights = self._cross_attention(list(zip(framed, targets, strict=True)))
        results = list(answers)
        for row, ids, found in zip(rows, framed, weights, strict=True):
            positions = [at for at, token in enumerate(ids) if token not in frame]
            nearest = found[: len(answers[row].tokens), positions].argmax(axis=1).tolist()
            alignment = tuple((at, token) for token, at in enumerate(nearest))
            tokens = tuple(self._source.tokens([ids[at] for at in positions]))
            results[row] = replace(answers[row], alignment=alignment, source_tokens=tokens)
        return results
