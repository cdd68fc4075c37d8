"""`glassformer explain`: what people read, what machines read, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from glassformer.data.tables import read_table
from glassformer.glassbox.evidence import head_effects
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.inference.evaluation import evaluate
from glassformer.inference.translator import Translator
from glassformer.ship.storage.modelfile import ModelFile

TEXT = "1969-07-20"


@pytest.fixture(scope="module")
def expected(run):
    """The trace of the text, made in Python."""
    return explain(run, TEXT, history=True)


def test_the_summary_tells_tokens_rows_search_and_checks(call, run, expected):
    answer = call("explain", run, TEXT)
    assert (answer.code, answer.err) == (0, "")
    best = expected.search.beam.answers[0]
    assert answer.out.startswith(f"{TEXT}\n→ {best.text}   model's probability {np.exp(best.score):.4f}")
    for part in (
        "the log-probability of the output token falls most without this source token",
        "decoder rows",
        "answers of a beam of 2; the encoder ran once",
        "greedy search",
        "most influential token",
        "rank correlation of attention with occlusion",
        f"{len(expected.steps)} of {len(expected.steps)} steps recomputed from their inputs",
        "answer, compared with translate: equal",
    ):
        assert part in answer.out
    assert "what if" not in answer.out


def test_the_summary_begins_with_a_picture_of_the_alignment(call, run, expected):
    lines = call("explain", run, TEXT).out.splitlines()
    assert lines[3].split() == [token.text.replace(" ", "␣") for token in expected.tokens.source]
    occlusion = expected.array(expected.evidence.occlusion)
    for line, token, numbers in zip(lines[4:], expected.tokens.target_out, occlusion, strict=False):
        label, *blocks = line.split()
        assert label == token.text.replace(" ", "␣")
        assert len(blocks) == len(numbers)
        if numbers.max() > 0:
            assert blocks[int(numbers.argmax())] == "█"
    narrow = call("explain", run, TEXT, columns=40).out
    assert "the picture of the alignment does not fit here" in narrow


def test_json_is_the_whole_trace(call, run, expected):
    assert Trace.loads(call("explain", run, TEXT, "--json").out) == expected


def test_a_tensor_is_a_matrix_with_named_axes(call, run, expected):
    answer = call("explain", run, TEXT, "--tensor", "decoder.0.cross.weights", "--head", 1)
    lines = answer.out.splitlines()
    assert lines[0].startswith("decoder.0.cross.weights: attention weights (section 3.2.1).")
    assert lines[1] == "softmax of decoder.0.cross.scaled, decoder.cross_mask"
    assert lines[3].strip() == "head 1 · target ↓ · source_key →"
    labels = [f"{place} {token.text}" for place, token in enumerate(expected.tokens.source)]
    assert lines[4].split() == " ".join(labels).split()
    weights = expected.array("decoder.0.cross.weights")[1]
    assert len(lines[5:]) == len(weights)
    for line, row in zip(lines[5:], weights, strict=True):
        assert line.split()[-len(row) :] == [f"{weight:.4f}" for weight in row]
    fed, asked = expected.tokens.target_in[0].text, expected.tokens.target_out[0].text
    assert lines[5].strip().startswith(f"0 {fed} → {asked}")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *((name, name) for name in ("source.scale", "encoder.0.self_norm.mean", "decoder.self_mask", "logits")),
        ("decoder.0.cross.weights", "decoder.0.cross_attention.weights"),  # as the reference names it
        ("encoder.0.self_attention.w_q.weight", "encoder.0.self_attention.w_q.weight"),
    ],
)
def test_any_tensor_can_be_printed_and_be_json(call, run, name, asked):
    expected = explain(run, TEXT, weights=True)
    printed = call("explain", run, TEXT, "--tensor", asked)
    assert (printed.code, printed.err) == (0, "")
    assert [f"head {head} · target ↓" in printed.out for head in (0, 1)] == [name != asked] * 2
    found = json.loads(call("explain", run, TEXT, "--tensor", asked, "--json").out)
    np.testing.assert_array_equal(np.array(found["numbers"], np.float32), expected.array(name).astype(np.float32))
    assert [axis["name"] for axis in found["axes"]] == expected.tensors[name].axes


def test_a_wide_matrix_is_cut_and_says_so(call, run):
    assert "d_model →" in call("explain", run, TEXT, "--tensor", "source.input").out
    weight = ("--tensor", "encoder.0.self_attention.w_q.weight")
    assert "more columns" not in call("explain", run, TEXT, *weight).out
    assert "… and 18 more columns" in call("explain", run, "0" * 80, "--tensor", "encoder.0.self.scores").out


def test_the_names_of_all_tensors_can_be_listed_by_part(call, run):
    printed = call("explain", run, TEXT, "--tensor", "list")
    assert (printed.code, printed.err) == (0, "")
    lines = {line.split()[0]: line for line in printed.out.splitlines() if line.strip()}
    attention = "queries, keys, values, scale, scores, scaled, weights, heads, concatenated, output, residual"
    assert lines["decoder.0.cross"].split(maxsplit=1)[1].strip() == attention
    assert lines["encoder.0.self_attention.w_q"].split(maxsplit=1)[1].strip() == "weight"
    assert "logits, log_probs" in printed.out
    listed = json.loads(call("explain", run, TEXT, "--tensor", "list", "--json").out)["tensors"]
    trace = explain(run, TEXT, weights=True)
    assert len(listed) == len(set(listed))
    assert set(trace.tensors) == set(listed)


EVERY_WIDTH = range(40, 201)


@pytest.mark.parametrize("widths", [EVERY_WIDTH[::40], pytest.param(EVERY_WIDTH, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["encoder.0.self.output", "decoder.0.cross.weights", "source.ids"])
def test_no_number_of_a_tensor_is_cut_in_a_terminal_of_any_width(call, run, expected, monkeypatch, name, widths):
    """In a few widths; the slow form takes every one."""
    monkeypatch.setattr("glassformer.glassbox.trace.explain", lambda *_, **__: expected)
    whole = [f"{number:.4f}" if name != "source.ids" else str(number) for number in expected.array(name).ravel()]
    for columns in widths:
        out = call("explain", run, TEXT, "--tensor", name, columns=columns).out
        assert not [word for word in out.split() if word.endswith("…")], columns
        printed = Counter(out.split())
        assert not Counter(whole) - printed, columns
        assert max(len(line.rstrip()) for line in out.splitlines()[3:]) <= columns


def test_a_wide_token_is_never_cut_out_of_its_column(call, run, expected, monkeypatch):
    key = replace(expected.axes["source_key"], labels=["漢字" * 6] * expected.axes["source_key"].length)
    changed = replace(expected, axes=expected.axes | {"source_key": key})
    monkeypatch.setattr("glassformer.glassbox.trace.explain", lambda *_, **__: changed)
    for columns in (10, 40, 57, 80, 120):
        out = call("explain", run, TEXT, "--tensor", "decoder.0.cross.weights", columns=columns).out
        assert "…" not in out, columns
        assert out.count("漢字" * 6) == 2 * key.length


def test_the_source_can_be_padded(call, run, expected):
    padded = Trace.loads(call("explain", run, TEXT, "--pad-to", "20", "--json").out)
    assert [token.kind for token in padded.tokens.source] == [
        *(token.kind for token in expected.tokens.source),
        *["pad"] * 8,
    ]
    assert padded.translation == expected.translation
    assert call("explain", run, TEXT, "--pad-to", "20").out.count("<pad>") == 8  # in the picture
    shorter = Trace.loads(call("explain", run, TEXT, "--pad-to", "3", "--json").out)
    assert shorter.tokens == expected.tokens


def test_a_given_target_tells_its_loss(call, run):
    out = call("explain", run, TEXT, "--target", "July 20, 1969").out
    trace = explain(run, TEXT, target="July 20, 1969")
    assert f"the gold target: mean loss {trace.array('gold.losses').mean():.4f} nats" in out
    assert "with label smoothing" in out


def test_an_edit_tells_before_and_after(call, run):
    edits = ["attention decoder.0.cross off", "token 2=0"]
    out = call("explain", run, TEXT, "--edit", edits[0], "--edit", edits[1]).out
    assert "what if: attention decoder.0.cross off; token 2=0" in out
    difference = explain(run, TEXT, edits=edits).difference
    for found in (difference.greedy, difference.beam):
        assert found.before.text.replace(" ", "␣") in out
        assert found.after.text.replace(" ", "␣") in out
    assert "most changed, when fed the answer before the edits" in out
    positions = call("explain", run, TEXT, "--edit", "positions off").out
    assert "logits, compared with PyTorch: not compared" in positions


def test_the_page_is_written_with_weights(call, run, tmp_path, monkeypatch):
    written = []

    def write_report(trace, path):
        written.append((trace, path))
        return SimpleNamespace(n_bytes=2_340_000, left_out=("the weights",) if len(written) > 1 else ())

    monkeypatch.setattr("glassformer.glassbox.report.write_report", write_report)
    path = tmp_path / "page.html"
    answer = call("explain", run, TEXT, "--html", path)
    assert (answer.code, answer.out, answer.err) == (0, "", f"wrote {path} (2.3 MB)\n")
    ((trace, where),) = written
    assert where == path
    assert "source_embedding.weight" in trace.tensors
    path.write_text("something else")
    refused = call("explain", run, TEXT, "--html", path)
    assert refused.code == 1
    assert "the output exists already" in refused.err
    replaced = call("explain", run, TEXT, "--html", path, "--overwrite")
    assert "left out to stay below 20 MB: the weights" in replaced.err
    assert len(written) == 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("",), 1, "there is nothing to explain"),
        (("1" * 999,), 1, "the text is longer than the model takes"),
        ((TEXT, "--tensor", "decoder.0.cross.wieghts"), 2, "did you mean 'decoder.0.cross.weights'"),
        ((TEXT, "--tensor", "logit"), 2, "did you mean 'logits'"),
        ((TEXT, "--tensor", "decoder.0.cross.weights", "--head", "2"), 2, "expected: 0 to 1"),
        ((TEXT, "--tensor", "logits", "--head", "0"), 2, "'logits' has no heads"),
        ((TEXT, "--head", "0"), 2, "--head needs the name of a tensor"),
        ((TEXT, "--tensor", "list", "--head", "0"), 2, "--head needs the name of a tensor"),
        ((TEXT, "--pad-to", "1001"), 2, "the padded source is too large to be explained"),
        ((TEXT, "--pad-to", "-1"), 2, "--pad-to"),
        ((TEXT, "--edit", "heads encoder.0.self 1 off"), 2, "did you mean 'head encoder.0.self 2 off'?"),
        ((TEXT, "--edit", "head encoder.1.self 1 off"), 2, "did you mean 'encoder.0.self'?"),
        ((TEXT, "--edit", "prefix 漢"), 1, "a prefix holds what the target vocabulary does not have"),
    ],
)
def test_bad_input_is_told_in_words(call, run, words, code, told):
    answer = call("explain", run, *words)
    assert answer.code == code
    assert told in answer.err
    assert answer.out == ""


# --heads


def test_explain_measures_the_heads_on_a_table(call, run, table):
    found = json.loads(call("explain", run, TEXT, "--heads", table, "--beam", "1", "--quiet", "--json").out)["heads"]
    pairs = read_table(table).pairs
    decoding = ModelFile.load(run).settings.decoding.override({"num_beams": 1})
    assert found == asdict(head_effects(ModelFile.load(run), pairs, decoding=decoding))
    assert found["exact_match"] == evaluate(Translator.load(run), pairs, decoding=decoding).metrics["exact_match"].value


def test_heads_without_a_page_is_refused(call, run, table):
    answer = call("explain", run, TEXT, "--heads", table)
    assert answer.code == 2
    assert "--heads is shown in the page and in --json" in answer.err
