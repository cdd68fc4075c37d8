"""Which source token each token of an answer belongs to, by the attention of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from glassformer.inference.engines.attention import cross_attention, torch_engine
from glassformer.inference.translator import Translation, Translator


class Aligner:
    """Aligns the answers of a translator with its model, or models, in PyTorch."""

    def __init__(self, translator: Translator) -> None:
        self._source, self._target = translator.source_tokenizer, translator.target_tokenizer
        self._engine = torch_engine(translator.engine, translator.model_file)
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
