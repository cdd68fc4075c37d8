"""Nearest tokens by cosine, and A − B + C, with planted embeddings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glassformer import analogy, neighbors
from glassformer.errors import TextError, UsageError
from glassformer.settings import ModelSettings, Settings, SideSettings, TokenSettings
from glassformer.storage.modelfile import ModelFile, tensor_shapes
from glassformer.storage.records import TrainingData
from glassformer.text import Tokenizer, learn

# Axes: person, gender, young, object. Cosines by hand: king and prince 2 / √(2 · 3), king and man 1 / √(2 · 2).
PLANTED = {
    "king": (1, 1, 0, 0),
    "queen": (1, -1, 0, 0),
    "man": (0, 1, 0, 1),
    "woman": (0, -1, 0, 1),
    "prince": (1, 1, 1, 0),
    "princess": (1, -1, 1, 0),
    "ship": (0, 0, 1, 0),
}
MODEL = ModelSettings(d_model=4, d_ff=4, n_heads=1, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none")


def model_of(source: dict[str, tuple[float, ...]], target: dict[str, tuple[float, ...]], **side: object) -> ModelFile:
    """A model with these rows in its two embeddings; all other numbers are 7."""
    settings = SideSettings(kind="words", **side)
    tokenizers = [learn([" ".join(rows)], settings) for rows in (source, target)]
    shapes = tensor_shapes(MODEL, *map(len, tokenizers))
    tensors = {name: np.full(shape, 7, np.float32) for name, shape in shapes.items()}
    for name, rows, tokenizer in zip(("source", "target"), (source, target), tokenizers, strict=True):
        for word, row in rows.items():
            tensors[f"{name}_embedding.weight"][id_of(tokenizer, word)] = row
    return ModelFile(
        Settings(model=MODEL, tokens=TokenSettings(source=settings, target=settings)), *tokenizers, tensors
    )


def id_of(tokenizer: Tokenizer, word: str) -> int:
    found = tokenizer.vocabulary.lookup(word)
    assert found is not None
    return found


@pytest.fixture
def planted() -> ModelFile:
    return model_of(PLANTED, {"koning": (1, 0, 0, 0), "vorst": (0.8, 0.6, 0, 0), "schip": (0, 0, 1, 0)})


def test_neighbors_have_the_cosines_computed_by_hand_and_one_that_was_never_trained_is_marked(
    planted: ModelFile, tmp_path: Path
) -> None:
    found = neighbors(planted, "king", count=100)
    assert [one.token for one in found.nearest[:2]] == ["prince", "man"]
    assert found.nearest[-1].token == "woman"
    assert [one.cosine for one in found.nearest] == pytest.approx([2 / 6**0.5, 0.5, 0, 0, 0, -0.5])
    assert found.candidates == 6, "all words but the word itself, and no special token"
    planted.save(tmp_path / "model.safetensors")
    assert neighbors(tmp_path / "model.safetensors", "king", count=100) == found
    (found,) = neighbors(planted, "koning", side="target", count=1).nearest  # which has an embedding of its own
    assert (found.token, found.cosine) == ("vorst", pytest.approx(0.8))
    counts = [5] * len(planted.source_tokenizer)
    counts[id_of(planted.source_tokenizer, "prince")] = 0
    model = replace(planted, data=TrainingData(source_counts=tuple(counts)))
    nearest = neighbors(model, "king", count=2).nearest
    assert [(one.token, one.is_trained) for one in nearest] == [("prince", False), ("man", True)]


def test_king_minus_man_plus_woman_is_queen_and_the_three_are_no_candidates(planted: ModelFile) -> None:
    found = analogy(planted, "king", "man", "woman", expected="queen")
    assert [one.token for one in found.nearest[:2]] == ["queen", "princess"]
    assert found.candidates == 4
    assert [(one.token, one.cosine) for one in found.of_query] == [
        ("king", 0.0),
        ("man", pytest.approx(-0.5)),
        ("woman", pytest.approx(0.5)),
    ]
    assert found.expected is not None
    assert (found.expected.rank, found.expected.cosine) == (1, pytest.approx(1))
    assert found.expected.difference_cosine == pytest.approx(1)


def test_an_expected_token_far_away_has_its_rank_and_the_cosine_of_the_differences(planted: ModelFile) -> None:
    found = analogy(planted, "king", "man", "woman", expected="ship", count=1)
    assert found.expected is not None
    assert (found.expected.rank, found.expected.cosine) == (4, pytest.approx(0))
    # king − man = (1, 0, 0, −1), ship − woman = (0, 1, 1, −1)
    assert found.expected.difference_cosine == pytest.approx(1 / (2 * 3) ** 0.5)
    assert found.to_json()["expected"]["rank"] == 4
    same = analogy(planted, "king", "king", "woman", expected="ship").expected
    assert same is not None
    assert same.difference_cosine is None


def test_a_special_token_has_neighbors_and_is_none(planted: ModelFile) -> None:
    assert len(neighbors(planted, "<eos>").nearest) == 7
    for wrong in ({"side": "sources"}, {"count": 0}):
        with pytest.raises(UsageError):
            neighbors(planted, "king", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="<eos> is not a candidate"):
        analogy(planted, "king", "man", "woman", expected="<eos>")


@pytest.mark.parametrize(
    ("token", "named"), [("princes", "did you mean 'prince"), ("§", "valid: "), ("β" * 100_000, "valid: ")]
)
def test_a_token_that_is_not_in_the_vocabulary_names_the_nearest(planted: ModelFile, token: str, named: str) -> None:
    with pytest.raises(TextError, match="not in the source vocabulary") as caught:
        neighbors(planted, token)
    assert f"one of {len(planted.source_tokenizer)} tokens; {named}" in (caught.value.expected or "")
    assert len(str(caught.value)) < 500
    with pytest.raises(TextError) as caught:
        neighbors(planted, "koning")
    assert caught.value.hint == "the target vocabulary has it: --side target"


def test_a_token_is_normalized_as_a_text_is() -> None:
    model = model_of({"thé": (1, 0, 0, 0), "tee": (0, 1, 0, 0)}, {"x": (1, 0, 0, 0)}, lowercase=True)
    (found,) = neighbors(model, "THE\u0301").nearest
    assert found.token == "tee"


def test_a_row_of_zeros_has_no_cosine_and_is_no_error_as_a_candidate() -> None:
    model = model_of({"a": (0, 0, 0, 0), "b": (0, 1, 0, 0), "c": (1, 1, 0, 0)}, {"x": (1, 0, 0, 0)})
    with pytest.raises(UsageError, match="zeros"):
        neighbors(model, "a")
    assert [(one.token, round(one.cosine, 3)) for one in neighbors(model, "b").nearest] == [("c", 0.707), ("a", 0.0)]
