"""Text in, text out, with models that were never trained: what matters here is not what they say."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.errors import ModelFileError, NotFiniteError, SettingsError, TextError, UsageError
from glassformer.inference import translator as translator_module
from glassformer.inference.encoding import default_max_new_tokens
from glassformer.inference.translator import Translation, Translator
from glassformer.settings import DecodingSettings, Settings, SideSettings, TokenKind
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import TrainingData
from glassformer.text import learn
from tests.untrained import listening_model

ALPHABET = "abcdefgos<> "
TINY: dict[str, Any] = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}


def untrained(
    seed: int = 1, alphabet: str = ALPHABET, *, side: dict[str, Any] | None = None, **changes: Any
) -> ModelFile:
    """A small model file with random weights, over the characters of `alphabet`, made to listen to its source."""
    characters = {"kind": "characters", "vocabulary_size": 100} | (side or {})
    chosen = Settings.model_validate(
        {
            "tokens": {"source": characters, "target": characters},
            "model": TINY | changes.pop("model", {}),
            "decoding": {"num_beams": 3, "max_new_tokens": 8} | changes.pop("decoding", {}),
            **changes,
        }
    )
    tokenizer = learn([alphabet], SideSettings.model_validate(characters))
    return listening_model(chosen, tokenizer, tokenizer, seed)


@functools.cache
def translator() -> Translator:
    return Translator(untrained(), device="cpu")


# --- Empty texts and progress ---


@pytest.mark.parametrize("blank", ["", " ", "\t \n", "\u3000"])
def test_an_empty_text_gives_an_empty_answer_in_its_place_and_counts_in_the_progress(blank: str) -> None:
    done: list[int] = []
    first, *empty_answers, last = translator().translate(["abc", blank, blank, "cab"], progress=done.append)
    assert [first.text, last.text] == [answer.text for answer in translator().translate(["abc", "cab"])]
    assert empty_answers == [Translation("", 0.0, 0.0, (), (), finished=True)] * 2
    assert sum(done) == 4


# --- What is refused or said ---


def test_texts_that_are_too_long_are_all_named_and_nothing_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Translator(untrained(data={"max_source_length": 5}), device="cpu")
    monkeypatch.setattr(translator_module, "search", lambda *_: pytest.fail("it must not translate"))
    with pytest.raises(TextError, match="a text is longer than the model takes; nothing was done") as caught:
        short.translate(["abc", "abcdef", "", "a" * 9])
    assert caught.value.got == "row 2 (6 tokens), row 4 (9 tokens)"
    assert caught.value.expected == "at most 5 tokens"
    assert caught.value.hint == "split these texts or leave them out, or train with a larger data.max_source_length"
    with pytest.raises(TextError) as caught:
        short.translate(["abcdef"] * 13)
    assert caught.value.got.endswith("row 10 (6 tokens) and 3 more")  # type: ignore[union-attr]
    with pytest.raises(TextError) as caught:
        short.score([("abc", "a"), ("abcdef", "a")])
    assert caught.value.got == "row 2 (6 tokens)"
    with pytest.raises(TextError) as caught:
        short.translate(["", "abcdef"], where=["one", "two"])
    assert caught.value.got == "two (6 tokens)"
    with pytest.raises(UsageError, match="each text needs a name of its own"):
        short.translate(["", "abcdef"], where=["one"])


def test_unknown_characters_are_listed_with_each_answer() -> None:
    found = translator().translate(["abc", "aéb☺é", ""])
    assert [answer.unknown for answer in found] == [(), ("é", "☺", "é"), ()]


def test_a_vocabulary_without_unk_refuses_unknown_characters_by_row_and_column() -> None:
    strict = Translator(untrained(side={"unknown": False}), device="cpu")
    with pytest.raises(TextError, match=r"the character 'é' \(U\+00E9.* is not in the vocabulary") as caught:
        strict.translate(["abc", "", "aéb"])
    assert caught.value.where == "row 3, column 2"


@pytest.mark.parametrize("kind", ["characters", "subwords"])
def test_a_translator_that_has_worked_can_be_copied_and_sent_to_another_process(kind: TokenKind) -> None:
    texts = ["abc", "cab"]
    model = Translator(untrained(side={"kind": kind}), device="cpu")
    answers = model.translate(texts)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert copied.translate(texts) == answers


# --- Options ---


def test_options_lie_over_the_settings_and_the_settings_over_those_of_the_model() -> None:
    own = translator().translate(["abcdef"])[0]
    assert own == translator().translate(["abcdef"], num_beams=3, max_new_tokens=8)[0]
    given_settings = DecodingSettings(num_beams=1, max_new_tokens=2, length_alpha=0)
    (found,) = translator().translate(["abcdef"], decoding=given_settings)
    assert len(found.token_scores) == 2
    assert found.rank_score == found.score
    (found,) = translator().translate(["abcdef"], decoding=given_settings, max_new_tokens=1)
    assert len(found.token_scores) == 1


def test_a_wrong_option_is_refused_and_a_given_beam_is_never_widened_for_the_number_of_answers() -> None:
    with pytest.raises(SettingsError, match=r"there is no setting 'decoding\.num_beam'"):
        translator().translate(["abc"], num_beam=3)
    with pytest.raises(SettingsError, match="a beam of 3 cannot return 4 answers"):
        translator().translate(["abc"], num_beams=3, num_return_sequences=4)
    (found,) = translator().translate(["abcdef"], num_return_sequences=4)
    assert len(found.alternatives) == 3


def test_alternatives_are_the_further_answers_best_first() -> None:
    (found,) = translator().translate(["abcdef"], num_beams=4, num_return_sequences=4)
    answers = (found, *found.alternatives)
    assert len({answer.text for answer in answers}) == 4
    order = [-answer.rank_score for answer in answers]
    assert order == sorted(order)
    assert all(answer.alternatives == () for answer in found.alternatives)
    assert found.text == translator().translate(["abcdef"], num_beams=4)[0].text


def always(token: str) -> ModelFile:
    """A model that says nothing but `token`: its logit adds up a hidden state far above 0, the others are 0."""
    file = untrained(model={"tied_embeddings": "none"})
    file.tensors["decoder.0.feed_forward_norm.bias"][:] = 10.0
    projection = file.tensors["output_projection.weight"]
    projection[:] = 0.0
    projection[file.target_tokenizer.vocabulary.pieces.index(token)] = 1.0
    return file


def test_an_answer_that_is_cut_says_so() -> None:
    (cut,) = Translator(always("a"), device="cpu").translate(["abc"], num_beams=1, max_new_tokens=6)
    assert (cut.text, cut.finished, len(cut.token_scores)) == ("aaaaaa", False, 6)
    (ended,) = Translator(always("<eos>"), device="cpu").translate(["abc"], num_beams=1, max_new_tokens=6)
    assert (ended.text, ended.finished, len(ended.token_scores)) == ("", True, 1)


def huge(**changes: Any) -> ModelFile:
    """A model of finite weights that are so large that its logits are not."""
    file = untrained(**changes)
    return replace(
        file, tensors={name: (1e38 * np.sign(array)).astype(np.float32) for name, array in file.tensors.items()}
    )


@pytest.mark.parametrize("options", [{"num_beams": 1}, {"num_beams": 3}, {"do_sample": True}])
def test_a_model_whose_numbers_are_not_finite_is_an_error_that_names_the_text(options: dict[str, Any]) -> None:
    broken = Translator(huge(), device="cpu")
    for where, named in ((None, "row 2"), (["one", "two", "three"], "two")):
        with pytest.raises(NotFiniteError, match="the model computes numbers that are not finite") as caught:
            broken.translate(["", "abc", "  "], where=where, **options)
        assert caught.value.where == named
        assert caught.value.got == "a log-probability of nan after 0 tokens"
    assert broken.translate(["", " "], **options)[0].text == ""
    with pytest.raises(NotFiniteError) as caught:
        broken.score([("abc", "def")], where=["pairs.csv, row 7"])
    assert caught.value.where == "pairs.csv, row 7"


def test_the_longest_answer_comes_from_the_training_lengths() -> None:
    file = always("a")
    unset = DecodingSettings(num_beams=1)
    for data, expected in ((TrainingData(longest_target=10), 17), (TrainingData(), 644)):
        assert default_max_new_tokens(data, file.settings) == expected
    trained = replace(file, data=TrainingData(longest_target=10))
    (cut,) = Translator(trained, device="cpu").translate(["abc"], decoding=unset)
    assert cut.text == "a" * 17


# --- Forced starts ---


@pytest.mark.parametrize("num_beams", [1, 4])
def test_prefixes_start_the_answers(num_beams: int) -> None:
    texts, prefixes = ["abc", "", "dog", "fed"], ["be", "a", "", "go<eos>"]
    found = translator().translate(texts, prefixes=prefixes, num_beams=num_beams, max_new_tokens=12)
    assert [answer.text for answer in found][1] == ""
    for answer, prefix in ((found[0], "be"), (found[3], "go<eos>")):
        assert answer.text.startswith(prefix)
    assert found[2].text == translator().translate(["dog"], num_beams=num_beams, max_new_tokens=12)[0].text


def test_a_prefix_of_unknown_characters_is_refused() -> None:
    with pytest.raises(TextError, match="so that no answer can start with it") as caught:
        translator().translate(["abc", "dog"], prefixes=["a", "é☺a"])
    assert (caught.value.where, caught.value.got) == ("row 2", "'é', '☺'")
    with pytest.raises(TextError) as caught:
        translator().translate(["abc"], prefixes=["é"], where=["a.csv, row 7"])
    assert caught.value.where == "a.csv, row 7"


# --- Scores of given pairs ---


def test_any_pair_has_a_score_an_empty_one_too() -> None:
    pairs = [("abc", "cab"), ("", ""), ("abc", ""), ("é", "é")]
    scored = translator().score(pairs)
    assert [len(pair.tokens) for pair in scored] == [4, 1, 1, 2]
    assert scored[3].tokens == ("<unk>", "<eos>")
    for pair, each in zip(pairs, scored, strict=True):
        assert each.score == pytest.approx(sum(each.token_scores))
        assert each.score < 0
        assert translator().score([pair])[0].score == pytest.approx(each.score, abs=1e-5)


# --- Ensembles, devices, files ---


def test_models_of_different_vocabularies_are_no_ensemble() -> None:
    with pytest.raises(ModelFileError, match="must share their vocabularies; the source ones differ") as caught:
        Translator(untrained(), ensemble=[untrained(alphabet="xyz")], device="cpu")
    assert caught.value.hint == "train them from the same table and recipe, with different seeds"
    one = untrained(alphabet="abc")
    other = ModelFile(one.settings, one.source_tokenizer, untrained(alphabet="abd").target_tokenizer, one.tensors)
    with pytest.raises(ModelFileError, match="the target ones differ"):
        Translator(one, ensemble=[other], device="cpu")


@pytest.mark.parametrize("wrong", ["ab", [None], 3, [("a", None)]])
def test_what_is_not_text_is_refused(wrong: Any) -> None:
    """What else is not text, and not a list, is in tests/data/test_given.py."""
    with pytest.raises(UsageError, match=r"not text|are not a list|must be a list"):
        translator().translate(wrong)
    for prefixes in (wrong, ["a", "b"]):
        with pytest.raises(UsageError, match=r"not text|are not a list|one for each text"):
            translator().translate(["a"], prefixes=prefixes)
    with pytest.raises(UsageError, match="pair"):
        translator().score(wrong)
