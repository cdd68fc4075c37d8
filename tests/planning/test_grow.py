"""A model to start from gets the characters and words of a new table, and answers as before until it is trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.errors import TableError
from glassformer.inference.translator import Translator
from glassformer.planning.notices import notices_of
from glassformer.planning.plan import plan
from glassformer.settings import SideSettings
from glassformer.storage.modelfile import TARGET_IDS, ModelFile
from glassformer.storage.weights import build_model
from glassformer.text import grow, learn, learn_both
from glassformer.text.inputs import Cells, inputs_of, learn_inputs
from glassformer.text.vocabulary import copied_ids
from glassformer.training.train import train
from tests.training.test_loop import PAIRS, settings
from tests.untrained import drawn_model

NEW = [*PAIRS, *((f"ж{source}", f"{target} ö") for source, target in PAIRS)]


@pytest.fixture(scope="module", params=["apart", "target", "all", "copying"])
def old(request, tmp_path_factory):
    """A model with nothing tied, the output layer tied, one matrix for both sides, or a copy mechanism."""
    chosen = {
        "apart": settings(model={"tied_embeddings": "none", "output_bias": True}),
        "target": settings(model={"positions": "learned", "max_length": 64}),
        "all": settings(model={"tied_embeddings": "all"}, tokens={"shared": True}),
        "copying": settings(model={"tied_embeddings": "none", "copy_mechanism": True}),
    }
    path, settings_of_old = tmp_path_factory.mktemp("old") / "old.safetensors", chosen[request.param]
    tokenizers = learn_both(PAIRS, settings_of_old.tokens)
    file = drawn_model(settings_of_old, *tokenizers)
    if settings_of_old.model.copy_mechanism:
        file.tensors[TARGET_IDS][:] = copied_ids(*(one.vocabulary for one in tokenizers))
    file.save(path)
    return path


def test_old_ids_stay_and_new_characters_get_the_next_ones(old, tmp_path):
    before = ModelFile.load(old)
    planned = plan(NEW, tmp_path / "run", init=old)
    for one, two in zip((before.source_tokenizer, before.target_tokenizer), planned.prepared.tokenizers, strict=True):
        assert two.vocabulary.pieces[: len(one)] == one.vocabulary.pieces
        assert two.vocabulary.specials == one.vocabulary.specials
    notices = [notice.text for notice in notices_of(planned) if notice.kind == "new tokens"]
    if before.settings.tokens.shared:
        assert notices == ["2 new characters in the shared vocabulary, with the mean of the other embeddings: 'ö', 'ж'"]
    else:
        assert notices == [
            "1 new character in the source vocabulary, with the mean of the other embeddings: 'ж'",
            "1 new character in the target vocabulary, with the mean of the other embeddings: 'ö'",
        ]
    assert not any(notice.kind == "unknown tokens" for notice in notices_of(planned))


def test_logits_of_old_tokens_and_old_answers_are_unchanged_before_training(old, tmp_path):
    before = ModelFile.load(old)
    grown = plan(NEW, tmp_path / "run", init=old).start
    tokenizers = before.source_tokenizer, before.target_tokenizer
    ids = [torch.tensor([one.frame(one.encode(text))]) for one, text in zip(tokenizers, PAIRS[0], strict=True)]
    with torch.no_grad():
        one, two = (build_model(file)(ids[0], ids[1]) for file in (before, grown))
    n_old, new = len(before.target_tokenizer), two[..., len(before.target_tokenizer) :]
    torch.testing.assert_close(two[..., :n_old], one, atol=1e-5, rtol=1e-5)
    assert new.shape[-1] >= 1
    assert (new < two[..., :n_old].amax(-1, keepdim=True)).all()  # so the answer is the same
    sources = [source for source, _ in PAIRS]
    old_answers, answers = (Translator(file).translate(sources, num_beams=1) for file in (before, grown))
    assert [answer.text for answer in answers] == [answer.text for answer in old_answers]


@pytest.mark.parametrize("old", ["all", "copying"], indirect=True)
def test_a_grown_model_trains_and_is_resumed(old, tmp_path):
    few = NEW[-10:]  # with fewer characters than the model
    run = train(few, None, tmp_path / "run", init=old, overrides={"training.steps": 3}, device="cpu")
    run.finish()
    model = ModelFile.load(tmp_path / "run")
    before = ModelFile.load(old)
    place = len(before.source_tokenizer) + before.settings.tokens.shared  # after ö, where both sides share a vocabulary
    assert model.source_tokenizer.vocabulary.lookup("ж") == place
    again = train(few, None, tmp_path / "run", resume=True, overrides={"training.steps": 4}, device="cpu")
    assert again.finish().translate(["ж1845-01-05"])
    assert again.prepared.source_tokenizer.to_dict() == model.source_tokenizer.to_dict()


def test_words_are_added_by_count_and_within_the_vocabulary_size():
    old = learn(["a b", "a c"], SideSettings(kind="words", vocabulary_size=9, min_count=1))
    grown = grow(old, ["e d d", "f f f a", "g"])
    assert grown.vocabulary.pieces == (*old.vocabulary.pieces, "f", "d")  # 4 special tokens and 5 words are 9
    assert grow(old, ["a b c"]) is old
    inputs = learn_inputs([Cells(["a", "X;Y;Z"])], inputs_of(["word"], ["tags"]))
    tagged = learn(["a", "b"], SideSettings(kind="words", vocabulary_size=7, min_count=1), inputs)
    assert len(grow(tagged, ["c d", "c"], inputs)) == len(tagged) + 1  # symbols take no places of words
    twice = learn(["a a"], SideSettings(kind="characters", min_count=2))
    assert grow(twice, ["xyy"]).vocabulary.pieces[-1] == "y"
    assert len(grow(twice, ["xyy"])) == len(twice) + 1


@pytest.mark.parametrize("chosen", [{"kind": "bytes"}, {"kind": "characters", "preset": "ascii68"}])
def test_a_fixed_vocabulary_does_not_grow(chosen):
    old = learn(["abc"], SideSettings(**chosen))
    assert grow(old, ["жö"]) is old


def test_subwords_name_the_characters_that_they_lack(tmp_path):
    pytest.importorskip("tokenizers")
    side = {"kind": "subwords", "vocabulary_size": 60}
    old = settings(tokens={"source": side, "target": side}, training={"steps": 1})
    train(PAIRS, old, tmp_path / "old", device="cpu").finish()
    pairs = [*PAIRS, *((f"{source}ж", target) for source, target in PAIRS[:10])]
    notices = notices_of(plan(pairs, tmp_path / "run", init=tmp_path / "old"))
    (notice,) = (notice for notice in notices if notice.kind in ("new tokens", "unknown tokens"))
    assert notice.text.endswith("source tokens to train on are not in the vocabulary, and become <unk>: 'ж' (10)")
    with pytest.raises(TableError, match="more than 20% of the source tokens are not in the vocabulary"):
        plan([("жжж" * 5, "May 1, 1900")] * 20 + PAIRS[:1], tmp_path / "run", init=tmp_path / "old")


def test_new_rows_are_the_mean_of_the_ordinary_ones(old, tmp_path):
    before, grown = ModelFile.load(old), plan(NEW, tmp_path / "run", init=old).start
    rows = [i for i in range(len(before.source_tokenizer)) if i not in before.source_tokenizer.vocabulary.special_ids]
    expected = before.tensors["source_embedding.weight"][rows].mean(axis=0)
    np.testing.assert_allclose(grown.tensors["source_embedding.weight"][-1], expected, atol=1e-6)
