"""Each edit does what its words say, and what it changed is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from glassformer.errors import TextError, UsageError
from glassformer.glassbox.trace import explain
from glassformer.glassbox.whatif import (
    FORMS,
    ForcePrefix,
    HeadOff,
    PartOff,
    Patch,
    SetRow,
    SetText,
    SetToken,
    SwitchOff,
    attentions,
    parse_edit,
)
from glassformer.storage.weights import build_model
from tests.glassbox.conftest import make_model, wrong_steps
from tests.untrained import logits_of

WORDS = {
    "text x y": SetText("x y"),
    "patch decoder.1.cross head 2 row 5": Patch("decoder.1.cross", 2, 5),
    "patch encoder.0 row 3": Patch("encoder.0", None, 3),
    "token 3=x": SetToken(3, "x"),
    "token 2= ": SetToken(2, " "),
    "token 2==": SetToken(2, "="),
    "prefix Ik hou": ForcePrefix("Ik hou"),
    "head encoder.0.self 2 off": HeadOff("encoder.0.self", 2),
    "attention decoder.1.cross off": PartOff("attention", "decoder.1.cross"),
    "feed-forward decoder.1 off": PartOff("feed-forward", "decoder.1"),
    "layer encoder.2 off": PartOff("layer", "encoder.2"),
    "positions off": SwitchOff("positions"),
    "causal off": SwitchOff("causal"),
    "scale off": SwitchOff("scale"),
    "attention decoder.0.cross head 1 row 2 = 0,0.123456789,-1e-05": SetRow(
        "decoder.0.cross", 1, 2, (0.0, 0.123456789, -1e-5)
    ),
}


@pytest.mark.parametrize(("words", "edit"), WORDS.items())
def test_an_edit_is_read_and_written(words, edit):
    assert parse_edit(words) == edit
    assert str(edit) == words


def test_every_form_that_is_shown_can_be_read():
    assert [str(parse_edit(form)) for form in FORMS] == list(FORMS)
    assert {type(parse_edit(form)) for form in FORMS} == {type(edit) for edit in WORDS.values()}
    assert parse_edit("head encoder.0.self_attention 2 off") == HeadOff("encoder.0.self", 2)


ROW = "attention decoder.0.cross head 0 row 0"


@pytest.mark.parametrize("numbers", ["0, 0.5", " 0,.5", "0.,5e-1", " 00, 50e-2"])
def test_numbers_are_read_however_they_are_spelled(numbers):
    assert parse_edit(f"{ROW} ={numbers}").weights == (0.0, 0.5)


@pytest.mark.parametrize("wrong", ["", "x", "1.2.3", "1_0", "nan", "inf", "0x1", "1e", ".", "-", "1 ", "  1", "١"])
def test_a_weight_that_is_not_a_number_is_named(wrong):
    with pytest.raises(UsageError, match="cannot read a weight of an edit") as caught:
        parse_edit(f"{ROW} = 1,{wrong},2")
    assert caught.value.got == repr(wrong.removeprefix(" "))
    with pytest.raises(UsageError):  # at once: a pattern that can read "11" in two ways tries 2 ** 40 of them
        parse_edit(f"{ROW} = " + "11," * 40 + wrong)


def pytorch_logits(model, trace):
    """The PyTorch model, fed what the decoder of a trace was fed."""
    ids = [torch.tensor([[token.id for token in each]]) for each in (trace.tokens.source, trace.tokens.target_in)]
    with torch.inference_mode():
        return logits_of(build_model(model), ids[0], ids[1])[0].numpy()


def with_zeros(model, *changes):
    """The model file, where columns (or all) of some weights are zero."""
    tensors = {name: array.copy() for name, array in model.tensors.items()}
    for name, columns in changes:
        tensors[name][..., columns] = 0
    return replace(model, tensors=tensors)


ALL = slice(None)


@pytest.mark.parametrize(
    ("words", "zeros"),
    [
        ("head decoder.1.cross 1 off", [("decoder.1.cross_attention.w_o.weight", slice(4, 8))]),
        ("attention decoder.0.self off", [("decoder.0.self_attention.w_o.weight", ALL)]),
        (
            "feed-forward encoder.1 off",
            [("encoder.1.feed_forward.w_2.weight", ALL), ("encoder.1.feed_forward.w_2.bias", ALL)],
        ),
        (
            "layer decoder.1 off",
            [
                ("decoder.1.self_attention.w_o.weight", ALL),
                ("decoder.1.cross_attention.w_o.weight", ALL),
                ("decoder.1.feed_forward.w_2.weight", ALL),
                ("decoder.1.feed_forward.w_2.bias", ALL),
            ],
        ),
    ],
)
def test_what_is_switched_off_is_zero_in_a_copy_of_the_weights(case, words, zeros):
    before = {name: array.copy() for name, array in case.model.tensors.items()}
    trace = explain(case.model, case.text, edits=[words], num_beams=3, weights=True)
    assert trace.check.passed  # the PyTorch model supports these edits
    np.testing.assert_allclose(trace.array("logits"), pytorch_logits(with_zeros(case.model, *zeros), trace), atol=1e-4)
    assert trace.edits == [words]
    for name, columns in zeros:
        assert (trace.array(name)[..., columns] == 0).all()
    for name, array in before.items():
        np.testing.assert_array_equal(case.model.tensors[name], array)


def test_without_learned_positions_the_table_might_be_zeros():
    model = make_model(2, positions="learned", max_length=20)
    trace = explain(model, "abc", edits=["positions off"], evidence=False, weights=True)
    assert wrong_steps(trace) == []
    zeros = with_zeros(model, ("source_positions.table", ALL), ("target_positions.table", ALL))
    np.testing.assert_allclose(trace.array("logits"), pytorch_logits(zeros, trace), atol=1e-4)
    assert (trace.array("source.positions") == 0).all()
    np.testing.assert_allclose(trace.array("source.positions_before_edit"), model.tensors["source_positions.table"][:5])
    assert trace.check.passed is None


def test_without_positions_the_order_of_the_source_does_not_matter(case):  # A18
    one = explain(case.model, "abcde", edits=["positions off"], evidence=False)
    other = explain(case.model, "edabc", edits=["positions off"], evidence=False)
    assert one.translation == other.translation
    np.testing.assert_allclose(one.array("logits"), other.array("logits"), atol=1e-5)
    plain = [explain(case.model, text, evidence=False).array("logits")[0] for text in ("abcde", "edabc")]
    assert np.abs(plain[0] - plain[1]).max() > 0.1


def test_without_the_scale_scores_are_not_divided_and_without_the_causal_mask_a_row_sees_later_ones(case):
    trace = explain(case.model, case.text, target=case.target, edits=["scale off", "causal off"], evidence=False)
    assert (trace.array("gold.decoder.self_mask") == 0).all()
    weights = trace.array("gold.decoder.0.self.weights")
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-6)
    for name in attentions(case.model.settings.model):
        assert trace.array(f"{name}.scale") == 1
        np.testing.assert_array_equal(trace.array(f"{name}.scaled"), trace.array(f"{name}.scores"))
    assert trace.array("source.scale") > 1


def test_an_overwritten_row_of_attention_mixes_the_values_so(case):
    words = (
        "attention decoder.0.cross head 1 row 2 = 0,0,1,0,0,0,0",
        "attention decoder.0.self head 0 row 1 = 0.25,0.75",
    )
    trace = explain(case.model, case.text, edits=words, num_beams=3, weights=True)
    assert wrong_steps(trace) == []
    part = "decoder.0.cross"
    np.testing.assert_array_equal(trace.array(f"{part}.weights")[1, 2], [0, 0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(trace.array(f"{part}.heads")[1, 2], trace.array(f"{part}.values")[1, 2])
    edited = trace.array(f"{part}.weights_edited")
    assert set(zip(*np.nonzero(edited)[:2], strict=True)) == {(1, 2)}
    computed, seen = trace.array(f"{part}.weights_before_edit"), trace.array(f"{part}.weights")
    np.testing.assert_array_equal(computed[edited == 0], seen[edited == 0])
    assert [step.op for step in trace.steps if step.id.startswith(f"{part}.weights")] == ["softmax", "overwrite"]
    own = trace.array("decoder.0.self.weights")[0, 1]  # up to itself
    assert (own[:2].tolist(), (own[2:] == 0).all()) == ([0.25, 0.75], True)


def test_another_token_is_another_text(case):
    edited = explain(case.model, "abcde", edits=["token 3=g"], num_beams=3)
    other = explain(case.model, "abgde", num_beams=3)
    assert edited.text == "abcde"
    assert [token.text for token in edited.tokens.source] == [token.text for token in other.tokens.source]
    np.testing.assert_array_equal(edited.array("logits"), other.array("logits"))
    assert edited.check.passed
    assert edited.difference.beam.before.text == explain(case.model, "abcde", num_beams=3).translation
    assert edited.difference.beam.after.text == other.translation


def test_a_forced_prefix_begins_the_answer(case):
    trace = explain(case.model, case.text, edits=["prefix hi"], num_beams=3)
    assert trace.translation.startswith("hi")
    assert len(trace.search.beam.forced) == 2
    assert trace.check.passed
    assert trace.difference.beam.first_changed_step == 0
    assert set(trace.difference.largest.values()) == {0.0}  # fed the answer before, nothing is different
    same = explain(case.model, case.text, edits=["token 1=a"], evidence=False).difference
    assert (same.beam.first_changed_step, set(same.largest.values())) == (None, {0.0})


def test_the_difference_tells_where_it_begins_and_how_large_it_is(case):
    before = explain(case.model, case.text, num_beams=3)
    after = explain(case.model, case.text, num_beams=3, edits=["head decoder.1.cross 1 off"])
    difference = after.difference
    assert before.difference is None
    assert difference.beam.before.text == before.translation
    assert difference.beam.after.text == after.translation
    assert difference.greedy.before.text == before.search.greedy.answers[0].text
    assert difference.greedy.after.text == after.search.greedy.answers[0].text
    pairs = zip(before.translation, after.translation, strict=False)
    assert difference.beam.first_changed_step == next(i for i, (one, other) in enumerate(pairs) if one != other)
    untouched = [name for name in difference.largest if name.startswith(("encoder", "source", "decoder.0"))]
    assert {difference.largest[name] for name in untouched} == {0.0}
    assert difference.largest["decoder.1.cross.heads"] == 0
    same_rows = explain(
        case.model, case.text, target=before.translation, num_beams=3, edits=["head decoder.1.cross 1 off"]
    )
    expected = np.abs(same_rows.array("gold.logits") - before.array("logits")).max()
    assert difference.largest["logits"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "what", "valid"),
    [
        (
            "heads encoder.0.self 1 off",
            "cannot read the edit 'heads encoder.0.self 1 off'",
            "head encoder.0.self 2 off",
        ),
        ("head encoder.0.slef 1 off", "there is no attention 'encoder.0.slef' to edit", "'encoder.0.self'"),
        ("attention decoder.0.feed_forward off", "there is no attention 'decoder.0.feed_forward' to edit", "decoder.0"),
        ("feed-forward decoder.9 off", "there is no layer 'decoder.9' to edit", "decoder.0"),
        ("token 2=ab", "'ab' is not one token of the source vocabulary", "valid: a, b"),
        ("head encoder.0.self 2 off", "there is no head 2", "0 to 1"),
        ("token 0=a", "there is no source token 0 to edit", "1 to 5; <bos> and <eos> stay"),
        ("token 6=a", "there is no source token 6 to edit", "1 to 5; <bos> and <eos> stay"),
        ("attention encoder.0.self head 0 row 7 = 1,0,0,0,0,0,0", "there is no row 7 in 'encoder.0.self'", "0 to 6"),
        ("attention decoder.0.cross head 0 row 2 = 0,1", "row 2 of 'decoder.0.cross' has 7 weights", "2 in "),
    ],
)
def test_an_edit_that_does_not_fit_names_what_does(case, words, what, valid):
    with pytest.raises(UsageError) as caught:
        explain(case.model, case.text, edits=[words], num_beams=3)
    assert caught.value.what == what
    assert valid in str(caught.value)


@pytest.mark.parametrize("number", ["1e999", "9" * 5000, "-1001"])
def test_a_weight_out_of_all_measure_is_refused(case, number):
    with pytest.raises(UsageError, match="an attention weight is too large or too small"):
        explain(case.model, case.text, edits=[f"attention encoder.0.self head 0 row 0 = 0,0,0,0,0,0,{number}"])
    with pytest.raises(UsageError, match="cannot read the edit"):
        explain(case.model, case.text, edits=[f"head encoder.0.self {'9' * 5000} off"])
    with pytest.raises(TextError, match="a prefix holds what the target vocabulary does not have"):
        explain(case.model, case.text, edits=["prefix xyz"])
