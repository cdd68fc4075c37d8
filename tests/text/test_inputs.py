"""Sources with several inputs: cells, symbols, and the tokenizers that read them."""

from __future__ import annotations

import itertools
import pickle

import pytest

from glassformer.errors import ModelFileError, TextError, UsageError
from glassformer.settings import SideSettings, TokenSettings
from glassformer.text import Tokenizer, learn_both
from glassformer.text.inputs import (
    Cells,
    Input,
    as_given,
    cells_of,
    compose,
    compose_values,
    empty_input,
    inputs_of,
    learn_inputs,
    named_values,
    readable,
    texts_of,
)

INPUTS = inputs_of(["lemma"], ["tags"])
THREE = inputs_of(["lemma", "context"], ["tags"])
PAIRS = [
    (compose(["walk", "V;PST"]), "walked"),
    (compose(["go", "V;PRS;3"]), "goes"),
    (compose(["<tags=V>", "V"]), "<tags=V>"),
]
KINDS = ("characters", "words", "subwords", "bytes")
each_tokenizer = pytest.mark.parametrize(("kind", "shared"), [*itertools.product(KINDS, [False, True])])


def tokenizers(kind: str = "characters", *, shared: bool = False, **settings: object) -> tuple[Tokenizer, Tokenizer]:
    side = SideSettings(kind=kind, **settings)
    return learn_both(PAIRS, TokenSettings(shared=shared, source=side, target=side), INPUTS)


# Cells


def test_a_source_is_its_cells_whatever_they_contain_and_a_text_is_its_only_cell():
    source = compose(["wa\x1flk", "V"])
    assert (type(source), cells_of(source)) == (Cells, ("wa\x1flk", "V"))
    assert {source: 1}[pickle.loads(pickle.dumps(source))] == 1
    assert source != compose(["wa", "lk\x1fV"])
    assert (compose(["walk"]), cells_of("walk")) == ("walk", ("walk",))
    tokenizer, _ = tokenizers()
    assert tokenizer.tokens(tokenizer.encode(source)) == ["w", "a", "<unk>", "l", "k", "<tags=V>"]


def test_a_source_is_shown_with_the_names_of_its_inputs():
    source = compose(["walk", "he …", "V;PST"])
    assert readable(source, THREE) == "walk · context: he … · tags: V;PST"
    assert as_given(source, THREE) == {"lemma": "walk", "context": "he …", "tags": "V;PST"}
    assert list(texts_of(source, THREE)) == ["walk", "he …"]
    assert inputs_of(["lemma"], []) == ()
    assert (readable("walk", ()), as_given("walk", ()), [*texts_of("walk", ())]) == ("walk", "walk", ["walk"])


def test_two_inputs_with_one_name_are_an_error():
    with pytest.raises(UsageError, match="two inputs have the name 'a'"):
        inputs_of(["a"], ["b", "a"])


# Symbols


@pytest.mark.parametrize(
    ("cells", "cut", "symbols"),
    [
        (["V;PST", "N;PL", "V"], ";", ("N", "PL", "PST", "V")),
        (["Case=Nom|Number=Sing", "Case=Acc"], "|", ("Case=Acc", "Case=Nom", "Number=Sing")),
        (["V PST", "N"], " ", ("N", "PST", "V")),
        (["de", "en", "de"], "", ("de", "en")),
        (["V;PST (old)", "N;PL"], ";", ("N", "PL", "PST (old)", "V")),
        (["V ; PST", ";N;"], ";", ("N", "PST", "V")),
        (["e\u0301", "\u00e9"], "", ("\u00e9",)),
        ([" V "], "", ("V",)),
    ],
)
def test_a_feature_is_cut_as_its_cells_show(cells, cut, symbols):
    _, tags = learn_inputs([compose(["x", cell]) for cell in cells], INPUTS)
    assert (tags.cut, tags.symbols) == (cut, symbols)
    _, frequent = learn_inputs([compose(["x", cell]) for cell in ("A;B", "A")], INPUTS, min_count=2)
    assert frequent.symbols == ("A",)


@pytest.mark.parametrize(
    ("cells", "empty"),
    [(["walk", "V"], None), (["  ", "V"], INPUTS[0]), (["walk", ""], INPUTS[1]), (["walk", " ;| "], INPUTS[1])],
)
def test_a_text_of_white_space_and_a_feature_without_a_symbol_are_empty(cells, empty):
    assert empty_input(cells, INPUTS) == empty


# Tokenizers


@each_tokenizer
def test_symbols_are_tokens_after_those_of_the_text_and_are_saved(kind, shared):
    source, target = tokenizers(kind, shared=shared)
    ids = source.encode(PAIRS[0][0])
    assert source.encode_many([text for text, _ in PAIRS]) == [source.encode(text) for text, _ in PAIRS]
    assert source.tokens(ids[-2:]) == ["<tags=V>", "<tags=PST>"]
    assert source.decode(ids) == "walk"
    assert ids[:-2] == source.without_inputs().encode("walk")
    assert (len(source) == len(target)) is shared or kind == "bytes"
    for one in (source, target):
        again = Tokenizer.from_dict(one.to_dict())
        assert again.to_dict() == one.to_dict()
        assert (again.inputs, again.vocabulary) == (one.inputs, one.vocabulary)
    assert Tokenizer.from_dict(source.to_dict()).encode(PAIRS[0][0]) == ids


@each_tokenizer
def test_text_never_becomes_a_symbol_and_no_answer_contains_one(kind, shared):
    source, target = tokenizers(kind, shared=shared)
    written = source.encode(PAIRS[2][0])
    assert source.decode(written) == "<tags=V>"
    assert [i for i in written if i in source.vocabulary.input_ids] == written[-1:]
    assert not set(target.encode("<tags=V>")) & set(target.vocabulary.input_ids)
    assert set(target.vocabulary.input_ids) <= set(target.vocabulary.forbidden_ids)
    assert target.decode([*target.encode("goes"), *target.vocabulary.input_ids]) == "goes"
    assert target.vocabulary.n_input_tokens == (4 if shared else 0)


def test_a_text_after_the_first_begins_with_its_own_token():
    side = SideSettings(kind="words")
    pairs = [(compose(["a b", "a", "X"]), "c")]
    source, _ = learn_both(pairs, TokenSettings(shared=False, source=side, target=side), THREE)
    assert source.tokens(source.encode(pairs[0][0])) == ["a", "b", "<context:>", "a", "<tags=X>"]
    assert source.split(pairs[0][0]) == ["a", "b", "a"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_symbol_becomes_unk_and_is_named(kind):
    source, _ = tokenizers(kind)
    text = compose(["walk", "V;FUT"])
    assert source.encode(text)[-1] == source.vocabulary.unk_id
    assert source.unknown(text) == ["<tags=FUT>"]
    assert source.unknown(PAIRS[0][0]) == []


def test_without_unk_an_unknown_symbol_is_an_error_that_names_the_nearest():
    source, _ = tokenizers(unknown=False)
    with pytest.raises(TextError, match="the symbol 'PSD' of the feature 'tags' is not in the vocabulary") as caught:
        source.encode(compose(["walk", "V;PSD"]), where="row 7")
    assert (caught.value.where, "did you mean 'PST'?" in (caught.value.hint or "")) == ("row 7", True)


def test_symbols_keep_their_case_where_texts_are_lowercased():
    source, _ = tokenizers(lowercase=True)
    assert source.tokens(source.encode(compose(["WALK", "V"]))) == [*"walk", "<tags=V>"]


@pytest.mark.parametrize("cells", ["walk", Cells(["a", "b", "c"])])
def test_a_source_with_another_number_of_inputs_is_an_error(cells):
    source, _ = tokenizers()
    with pytest.raises(TextError, match="does not have the inputs of the model") as caught:
        source.encode(cells, where="row 3")
    assert (caught.value.where, caught.value.expected) == ("row 3", "lemma (text), tags (feature)")


def test_two_features_with_the_same_written_forms_have_their_own_tokens():
    inputs = inputs_of(["x"], ["a", "a=b"])
    pairs = [(compose(["q", "b=c", "c"]), "r")]
    side = SideSettings(kind="characters")
    source, _ = learn_both(pairs, TokenSettings(shared=False, source=side, target=side), inputs)
    assert source.tokens(source.encode(pairs[0][0])) == ["q", "<a=b=c>", "<a=b=c>"]
    assert len(set(source.encode(pairs[0][0]))) == 3


@pytest.mark.parametrize(
    "inputs",
    [
        [{"name": "lemma", "kind": "text"}],
        [{"name": "tags", "kind": "feature"}, {"name": "lemma", "kind": "text"}],
        [{"name": "a", "kind": "text"}, {"name": "a", "kind": "feature"}],
        [{"name": "a", "kind": "text"}, {"name": "b", "kind": "feature", "symbols": ["X", "X"]}],
        [{"name": "a", "kind": "text", "symbols": ["X"]}, {"name": "b", "kind": "feature"}],
        [{"name": "a", "kind": "text"}, {"name": "b", "kind": "feature", "cut": ","}],
        "inputs",
    ],
)
def test_inputs_of_a_file_that_are_not_valid_are_an_error(inputs):
    saved = tokenizers()[0].to_dict()
    for wrong in ({"inputs": inputs}, {"input_tokens": ["<tags=V>"]}):
        with pytest.raises(ModelFileError, match="the tokenizer in the model file is damaged"):
            Tokenizer.from_dict({**saved, **wrong})


# Values from users


def test_values_are_composed_in_the_order_of_the_inputs():
    assert compose_values({"tags": "V", "lemma": "walk"}, "row 1", INPUTS) == compose(["walk", "V"])
    assert compose_values({2: "V", "0": "walk"}, "row 1", inputs_of(["0"], ["2"])) == compose(["walk", "V"])
    assert compose_values("walk", "row 1", ()) == "walk"
    assert compose_values(compose(["walk", "V"]), "row 1", INPUTS) == compose(["walk", "V"])


@pytest.mark.parametrize(
    ("values", "error", "what"),
    [
        ("walk", UsageError, "a source has 2 inputs, and they are given by name"),
        ({"lemma": "walk"}, UsageError, "the feature 'tags' is missing"),
        ({"tags": "V"}, UsageError, "the text 'lemma' is missing"),
        ({"lemma": "walk", "tags": "V", "tag": "V"}, UsageError, "the model has no input 'tag'"),
        ({"lemma": "walk", "tags": 3}, UsageError, "the input 'tags' is not text"),
        ({"lemma": "walk", "tags": " "}, TextError, "the feature 'tags' is empty"),
        (Cells(["walk", "walk", "V"]), UsageError, "a source has 2 inputs, and they are given by name"),
        (Cells(["walk", " "]), TextError, "the feature 'tags' is empty"),
    ],
)
def test_values_that_do_not_match_the_inputs_are_an_error_with_their_row(values, error, what):
    with pytest.raises(error, match=what) as caught:
        compose_values(values, "row 5", INPUTS)
    assert caught.value.where == "row 5"
    with pytest.raises(UsageError, match="this model has one input"):
        compose_values({"lemma": "walk"}, "row 5", ())
    with pytest.raises(UsageError, match="a source is not text"):
        compose_values(Cells(["walk", "V"]), "row 5", ())


def test_values_by_name_default_to_the_column_of_that_name_which_may_have_an_equals_sign():
    further = THREE[1:]
    assert named_values(further, ["tags=Tag"], is_column=True) == {"context": "context", "tags": "Tag"}
    assert named_values(further, ["tags=V;PST", "context=a=b"], is_column=False) == {"context": "a=b", "tags": "V;PST"}
    inputs = (Input(name="a", kind="feature"), Input(name="a=b", kind="feature"))
    assert named_values(inputs, ["a=b=c", "a=d"], is_column=True) == {"a": "d", "a=b": "c"}


@pytest.mark.parametrize(
    ("given", "is_column", "what"),
    [
        (["tag=X"], True, "the model has no feature 'tag'"),
        (["tags=X", "tags"], True, "the feature 'tags' is given twice"),
        ([], False, "the feature 'tags' is missing"),
        (["tags"], False, "the feature 'tags' is missing"),
    ],
)
def test_a_wrong_value_by_name_is_an_error(given, is_column, what):
    with pytest.raises(UsageError, match=what):
        named_values(INPUTS[1:], given, is_column=is_column)
