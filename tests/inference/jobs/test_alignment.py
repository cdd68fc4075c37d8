"""Alignments: pairs of a source token and a token of the answer, by attention, also of a text that was split."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.inference.jobs import alignment
from glassformer.inference.jobs.alignment import Aligner, pharaoh
from glassformer.inference.jobs.sentences import joined
from glassformer.inference.translator import EMPTY, Translation


class _Vocabulary:
    pieces, special_ids = ("<bos>", "<eos>", "<pad>", "a", "b", "c"), frozenset((0, 1, 2))
    bos_id, eos_id, pad_id = 0, 1, 2


class _Tokenizer:
    vocabulary = _Vocabulary()

    def frame(self, ids: list[int]) -> list[int]:
        return [0, *ids, 1]

    def encode_many(self, texts: list[str]) -> list[list[int]]:
        return [[self.vocabulary.pieces.index(character) for character in text] for text in texts]

    def tokens(self, ids: list[int]) -> list[str]:
        return [self.vocabulary.pieces[token] for token in ids]


@pytest.fixture
def aligner(monkeypatch) -> Aligner:
    """Its attention is on `<bos>` and `<eos>` most of all, and then on the source from its last token to its first."""

    def backwards(_engine, pairs):
        found = []
        for source, target in pairs:
            weights = np.zeros((len(target) - 1, len(source)))
            weights[:, [0, -1]] = 0.9
            for row in range(min(len(target) - 1, len(source) - 2)):
                weights[row, len(source) - 2 - row] = 0.5
            found.append(weights)
        return found

    monkeypatch.setattr(alignment, "cross_attention", backwards)
    monkeypatch.setattr(alignment, "torch_engine", lambda _engine, _file: None)

    class _Translator:
        source_tokenizer = target_tokenizer = _Tokenizer()
        engine = model_file = None

    return Aligner(_Translator())  # type: ignore[arg-type]


def answer_of(text: str) -> Translation:
    return Translation(text, -1.0, -1.0, tuple(text), (-0.5,) * len(text), finished=True)


def test_each_token_of_an_answer_has_the_source_token_with_most_attention(aligner):
    found, empty = aligner.align(["abc", ""], [answer_of("cba"), EMPTY])
    assert found.alignment == ((2, 0), (1, 1), (0, 2))
    assert found.source_tokens == ("a", "b", "c")
    assert pharaoh(found) == "2-0 1-1 0-2"
    assert (found.to_json()["alignment"], found.to_json()["source_tokens"]) == ([[2, 0], [1, 1], [0, 2]], [*"abc"])
    assert (empty, "alignment" in empty.to_json()) == (EMPTY, False)


def test_the_alignments_of_sentences_are_counted_on(aligner):
    found = joined(aligner.align(["ab", "abc"], [answer_of("ba"), answer_of("cb")]), (" ",))
    assert found.alignment == ((1, 0), (0, 1), (4, 2), (3, 3))
    assert "".join(found.source_tokens) == "ababc"
