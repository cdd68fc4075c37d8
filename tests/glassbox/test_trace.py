"""A trace is the model: every number of it is checked, named, finite, and equal to what translates."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from unittest import mock

import jsonschema
import numpy as np
import pytest
import torch

from glassformer.errors import ModelFileError, TextError, TimeLimitError, UsageError
from glassformer.glassbox import schema as schema_module
from glassformer.glassbox.schema import MASK_REASONS, OPS, Tensor, Trace, json_schema
from glassformer.glassbox.trace import explain
from glassformer.inference import timelimit
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.timelimit import time_limit
from glassformer.inference.translator import Translator
from glassformer.storage.weights import build_model
from tests.glassbox.conftest import make_case, make_model, wrong_steps
from tests.untrained import logits_of

SCHEMA = Path(schema_module.__file__).with_name("trace-1.schema.json")


# A36: a trace is the model


@pytest.fixture(scope="module", params=range(6))
def drawn(request):
    """A case drawn by chance, and its trace, padded a little."""
    case = make_case(request.param)
    return case, explain(case.model, case.text, target=case.target, weights=True, num_beams=2, pad_to=9)


def test_every_step_of_any_configuration_follows_from_its_inputs(drawn):
    _, trace = drawn
    assert wrong_steps(trace) == []
    assert trace.check.passed
    for name, fed, targets in (
        ("source", trace.tokens.source, None),
        ("target", trace.tokens.target_in, trace.tokens.target_out),
        ("gold_target", trace.tokens.gold_in, trace.tokens.gold),
    ):
        labels, predicted = [token.text for token in fed], targets and [token.text for token in targets]
        assert (trace.axes[name].labels, trace.axes[name].predicted) == (labels, predicted)
        assert (trace.axes[f"{name}_key"].labels, trace.axes[f"{name}_key"].predicted) == (labels, None)


def test_the_numbers_of_a_trace_are_those_that_translate(drawn):
    (model, text, _), trace = drawn
    fast = build_model(model)
    for prefix, fed in (("", trace.tokens.target_in), ("gold.", trace.tokens.gold_in)):
        ids = [torch.tensor([[token.id for token in tokens]]) for tokens in (trace.tokens.source, fed)]
        visible = torch.tensor([[token.kind != "pad" for token in trace.tokens.source]])
        with torch.inference_mode():
            expected = logits_of(fast, ids[0], ids[1], visible)[0].numpy()
        np.testing.assert_allclose(trace.array(f"{prefix}logits"), expected, rtol=1e-4, atol=1e-3)
    answer = Translator(model, device="cpu").translate([text], num_beams=2)[0]
    assert trace.translation == answer.text
    assert trace.search.beam.answers[0].score == pytest.approx(answer.score, abs=1e-3)
    scores = trace.array("log_probs")[np.arange(len(trace.tokens.target_out)), [t.id for t in trace.tokens.target_out]]
    np.testing.assert_allclose(scores, answer.token_scores, atol=1e-3)


def test_every_quantity_of_every_layer_is_there_and_every_step_says_what_it_is(trace):
    attention = ("queries", "keys", "values", "scale", "scores", "scaled", "weights", "heads", "concatenated")
    feed, norm = ("hidden", "activated", "output", "residual"), ("mean", "variance", "output")
    embedding = ("ids", "numbers", "embedded", "scale", "scaled", "positions", "input")
    layers = ["encoder.0", "encoder.1", "decoder.0", "decoder.1"]
    attentions = [f"{layer}.self" for layer in layers] + ["decoder.0.cross", "decoder.1.cross"]
    networks = [f"{layer}.feed_forward" for layer in layers]
    norms = [*attentions, *networks, "encoder", "decoder", "decoder.0.lens.decoder"]
    expected = {f"{side}.{name}" for side in ("source", "target") for name in embedding}
    expected |= {f"{part}.{name}" for part in attentions for name in (*attention, "output", "residual")}
    expected |= {f"{part}.{name}" for part in networks for name in feed}
    expected |= {f"{part}_norm.{name}" for part in norms for name in norm}
    expected |= {"encoder.self_mask", "decoder.self_mask", "decoder.cross_mask"}
    expected |= {"logits", "log_probs", "decoder.0.lens.logits"}
    gold = {f"gold.{name}" for name in expected if name.startswith(("target", "decoder", "log"))}
    gold |= {"gold.target_ids", "gold.smoothed_targets", "gold.losses"}
    there = {name for name, tensor in trace.tensors.items() if tensor.origin != "weight" and "evidence" not in name}
    assert there == expected | gold
    computed = {name for name, tensor in trace.tensors.items() if tensor.origin == "step"}
    assert computed == {step.output for step in trace.steps}
    assert {step.op for step in trace.steps} <= set(OPS)
    for step in trace.steps:
        assert step.id == step.output
        assert step.title
        assert step.words.endswith(".")
        assert step.formula.startswith("<math")
        assert step.section[0] in "35"
        assert all(name in trace.tensors for name in step.inputs)


# What FACTS says of a trace


def test_the_encoder_runs_once_in_a_search(case):  # A25
    from glassformer.glassbox.explained import Explained
    from glassformer.glassbox.whatif import Edits

    translator = Translator(case.model, device="cpu")
    explained = Explained(translator, None, case.text, translator.settings.decoding)
    forward = explained.forward(Edits())
    assert isinstance(translator.engine, NumPyEngine)
    decoder = type(translator.engine.models[0])
    with mock.patch.object(decoder, "start", autospec=True, side_effect=decoder.start) as encode:
        found = explained.search(forward, 4)
    assert encode.call_count == found.encoder_runs == 1
    assert found.decoder_runs > 4


def test_teacher_forcing_shifts_the_target_by_one():  # A23
    english, dutch = "I love you very much", "Ik hou heel erg veel van jou"
    model = make_model(kind="words", texts=([english], [dutch]))
    trace = explain(model, english, target=dutch, evidence=False)
    assert [token.text for token in trace.tokens.gold_in] == ["<bos>", *dutch.split()]
    assert [token.text for token in trace.tokens.gold] == [*dutch.split(), "<eos>"]
    assert trace.array("gold.decoder.0.cross.scores").shape == (2, 8, 7)
    assert trace.axes["gold_target"].labels == ["<bos>", *dutch.split()]
    assert trace.axes["gold_target"].predicted == [*dutch.split(), "<eos>"]


def test_the_loss_of_a_given_target_is_that_of_torch(case):
    trace = explain(case.model, case.text, target=case.target, evidence=False)
    logits, asked = trace.array("gold.logits"), [token.id for token in trace.tokens.gold]
    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits.copy()), torch.tensor(asked), reduction="none", label_smoothing=0.1
    )
    np.testing.assert_allclose(trace.array("gold.losses"), expected.numpy(), atol=1e-5)


def test_padding_is_seen_and_changes_nothing(case):  # A20
    plain = explain(case.model, case.text, evidence=False)
    padded = explain(case.model, case.text, evidence=False, pad_to=10)
    np.testing.assert_allclose(plain.array("logits"), padded.array("logits"), atol=1e-5)
    assert [token.kind for token in padded.tokens.source][-3:] == ["pad"] * 3
    mask = padded.array("decoder.cross_mask")
    assert {MASK_REASONS[code] for code in mask[:, 7:].ravel()} == {"source padding"}
    assert (padded.array("decoder.0.cross.weights")[:, :, 7:] == 0).all()
    assert np.isfinite(padded.array("decoder.0.cross.scores")).all()


def test_a_mask_says_why_a_cell_is_hidden(trace):
    mask, rows = trace.array("decoder.self_mask"), trace.axes["target"].length
    for row in range(rows):
        assert [MASK_REASONS[code] for code in mask[row]] == ["open"] * (row + 1) + ["causal"] * (rows - row - 1)
    weights = trace.array("decoder.1.self.weights")
    assert (weights[:, mask == 1] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-6)


def test_tokens_say_how_often_they_were_trained(case):  # A33
    trace = explain(case.model, "ab?", evidence=False)
    assert [(token.text, token.kind, token.count, token.given) for token in trace.tokens.source] == [
        ("<bos>", "bos", 3, None),
        ("a", "ordinary", 3, None),
        ("b", "ordinary", 3, None),
        ("<unk>", "unk", 3, "?"),
        ("<eos>", "eos", 3, None),
    ]
    assert trace.vocabularies["target"].counts == [5] * len(case.model.target_tokenizer)
    assert trace.vocabularies["target"].specials == {"pad": 0, "bos": 1, "eos": 2, "unk": 3}


def test_the_lens_reads_off_what_the_last_layer_would_say(trace, case):
    stream, weights = trace.array("decoder.0.feed_forward.residual").astype(float), case.model.tensors
    normed = torch.nn.functional.layer_norm(
        torch.from_numpy(stream),
        (8,),
        *(torch.from_numpy(weights[f"decoder_norm.{kind}"]).double() for kind in ("weight", "bias")),
    ).numpy()
    expected = normed @ weights["output_projection.weight"].T
    np.testing.assert_allclose(trace.array("decoder.0.lens.logits"), expected, atol=1e-5)


def test_predictions_are_ranked(trace):
    assert set(trace.predictions) == {"logits", "decoder.0.lens.logits", "gold.logits", "gold.decoder.0.lens.logits"}
    log_probs, gold = trace.array("gold.log_probs"), trace.tokens.gold
    for row, prediction in enumerate(trace.predictions["gold.logits"]):
        order = np.argsort(-log_probs[row])
        assert [token for token, _, _ in prediction.top] == order[: len(prediction.top)].tolist()
        assert prediction.top[0][2] == pytest.approx(math.exp(log_probs[row, order[0]]), abs=1e-6)
        assert order[prediction.rank - 1] == gold[row].id
        assert prediction.margin == pytest.approx(log_probs[row, order[0]] - log_probs[row, order[1]], abs=1e-5)


# The file


def test_the_schema_in_the_package_is_made_from_the_dataclasses():
    written = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert written == json_schema(), "write it again: json.dumps(json_schema(), indent=1)"


def test_a_trace_survives_its_file_and_fits_the_schema(case, trace):
    again = explain(case.model, case.text, target=case.target, weights=True, num_beams=3)
    assert again.dumps() == trace.dumps() == json.dumps(trace.to_json(), ensure_ascii=False, separators=(",", ":"))
    assert sum('"dtype":' in part for part in trace.parts()) == len(trace.tensors)
    edited = explain(case.model, "ab", target="h", edits=["scale off", "token 2=a"], num_beams=2, max_new_tokens=3)
    document = json.loads(edited.dumps(), parse_constant=lambda name: pytest.fail(f"{name} is in the trace"))
    jsonschema.validate(document, json_schema())
    for each in (trace, edited):
        assert Trace.loads(each.dumps()) == each


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e300])
def test_a_number_that_is_not_finite_cannot_enter_a_trace(number):
    with pytest.raises(ModelFileError, match="too large to be shown"):
        Tensor.of(np.array([0.0, number]), ["d_model"], "step")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda document: document | {"format": "glassformer-trace/2"}, "format"),
        (lambda document: {key: value for key, value in document.items() if key != "steps"}, "steps"),
        (lambda document: document | {"stranger": 1}, "stranger"),
    ],
)
def test_another_document_is_refused(trace, change, where):
    with pytest.raises(ModelFileError, match="this is not a trace") as caught:
        Trace.loads(json.dumps(change(trace.to_json())))
    assert caught.value.where == where


# Bad input


def test_a_text_over_the_limit_is_refused():
    model = make_model(positions="learned", max_length=6)
    assert explain(model, "abcd", evidence=False).passed
    with pytest.raises(TextError) as caught:
        explain(model, "abcde")
    assert (caught.value.got, caught.value.expected) == ("5 tokens", "at most 4 tokens")
    with pytest.raises(TextError, match="longer than the 6 learned positions"):
        explain(model, "abc", target="hijklmn")


@pytest.mark.parametrize(
    ("text", "options", "what"),
    [
        ("  ", {}, "there is nothing to explain"),
        (None, {}, "a source is not text"),
        ("abc", {"target": b"abc"}, "the target is not text"),
        ("abc", {"target": "h" * 5000}, "the target is longer than the model was trained on"),
        ("abc", {"edits": "positions off"}, "the edits are not a list"),
        ("abc", {"num_beams": 1001}, "the beam is too large to be explained"),
        ("abc", {"pad_to": 10**30}, "the padded source is too large to be explained"),
    ],
)
def test_what_no_trace_can_hold_is_refused(case, text, options, what):
    with pytest.raises((TextError, UsageError), match=what):
        explain(case.model, text, **options)


def test_a_trace_ends_wherever_its_time_passes(case, tmp_path, monkeypatch):
    case.model.save(tmp_path / "model.safetensors")
    case.model.save(tmp_path / "checkpoints" / "step-0000200.safetensors")
    (tmp_path / "history.jsonl").write_text("")
    seconds = itertools.count()
    monkeypatch.setattr(timelimit, "monotonic", lambda: next(seconds))

    def trace(limit):
        started = next(seconds)
        with time_limit(limit):
            found = explain(tmp_path, case.text, target=case.target, history=True, edits=["token 1=g"])
        return found, next(seconds) - started - 2

    found, n_checks = trace(1e9)
    runs = sum(each.decoder_runs for each in (found.search.greedy, found.search.beam))
    assert n_checks > runs + len(found.steps), "one in each run of the decoder, and for each quantity"
    for limit in sorted({*range(0, n_checks, n_checks // 3), n_checks - 1}):
        with pytest.raises(TimeLimitError):
            trace(limit)
    assert trace(n_checks)[0].translation == found.translation
