"""The rows nearest to an answer, against states that are computed for one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.datasets import dates
from glassformer.data.given import as_table
from glassformer.errors import TooLongError, UsageError
from glassformer.glassbox.influence import near_rows
from glassformer.inference.engines.numpy_cached import Inference
from glassformer.inference.translator import Translator
from glassformer.paper.settings import DecodingSettings, Settings, SideSettings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text import learn
from tests.untrained import SMALL, listening_model

ROWS = dates(40, seed=3)
TEXT, ANSWER = ROWS[17]


@pytest.fixture(scope="module", params=["pre", "post"])
def model(request) -> ModelFile:
    source, target = (learn(texts, SideSettings(kind="characters")) for texts in zip(*ROWS, strict=True))
    shape = SMALL.model_copy(update={"n_decoder_layers": 2, "norm": request.param})
    settings = Settings(model=shape, decoding=DecodingSettings(max_new_tokens=20))
    return listening_model(settings, source, target, 1)


def states_of(model: ModelFile, source: str, target: str) -> np.ndarray:
    """The states of one pair, one token at a time, as unit vectors."""
    inference, tokenizer = Inference(model.settings.model, model.tensors), model.target_tokenizer
    ids = model.source_tokenizer.frame(model.source_tokenizer.encode(source))
    cache = inference.start([ids], len(ids))
    framed = tokenizer.frame(tokenizer.encode(target))
    states = np.concatenate([inference.state(np.array([[token]]), cache) for token in framed[:-1]])
    return states / np.linalg.norm(states, axis=1, keepdims=True)


def test_rows_and_tokens_are_the_nearest_of_all(model):
    found = near_rows(model, TEXT, as_table([*ROWS[:17], ("", "x"), *ROWS[18:]]), target=ANSWER, count=5)
    query, others = states_of(model, TEXT, ANSWER), [row for row in range(40) if row != 17]
    cosines = {row: query @ states_of(model, *ROWS[row]).T for row in others}
    means = {row: cosines[row].max(axis=1).mean() for row in others}
    order = sorted(others, key=lambda row: -means[row])[:5]
    assert [(one.row, one.source, one.target) for one in found.rows] == [(row + 1, *ROWS[row]) for row in order]
    assert [one.cosine for one in found.rows] == pytest.approx([means[row] for row in order], abs=1e-5)
    assert found.n_rows == 39
    assert [one.token for one in found.tokens] == [*ANSWER, "<eos>"]
    for position, one in enumerate(found.tokens):
        row = one.row - 1
        assert one.cosine == pytest.approx(max(cosines[row][position].max() for row in others), abs=1e-5)
        assert cosines[row][position].max() == pytest.approx(one.cosine, abs=1e-5)
        assert one.token_of_row == [*ROWS[row][1], "<eos>"][cosines[row][position].argmax()]


def test_a_row_that_is_the_pair_itself_is_the_nearest(model):
    found = near_rows(model, TEXT, as_table(ROWS), target=ANSWER)
    assert found.rows[0].row == 18
    assert found.rows[0].cosine == pytest.approx(1, abs=1e-5)
    assert {one.row for one in found.tokens} == {18}
    assert len(found.rows) == 10


def test_states_give_the_scores_of_the_pair(model):
    translator = Translator(model, engine="numpy")
    engine, (scored,) = translator.engine, translator.score([(TEXT, ANSWER)])
    source, target = translator.source_tokenizer, translator.target_tokenizer
    framed = target.frame(target.encode(ANSWER))
    ((_, states),) = engine.states([(source.frame(source.encode(TEXT)), framed)])
    logits = Inference(model.settings.model, model.tensors).output(states)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert log_probs[np.arange(len(states)), framed[1:]].tolist() == pytest.approx(list(scored.token_scores), abs=1e-4)


def test_the_answer_is_that_of_the_model_and_a_text_that_it_cannot_take_is_an_error(model):
    found = near_rows(model, TEXT, as_table(ROWS), count=1)
    assert found.answer == Translator(model).translate([TEXT])[0].text
    with pytest.raises(UsageError, match="no text"):
        near_rows(model, " ", as_table(ROWS))
    with pytest.raises(TooLongError):
        near_rows(model, TEXT, as_table([("1" * 9999, "x")]))
