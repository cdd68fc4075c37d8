"""`glassformer explain`: what people read, what machines read, and what is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from glassformer.evaluation.evaluate import evaluate
from glassformer.glassbox.evidence import head_effects
from glassformer.glassbox.schema import Trace, TraceCheck
from glassformer.glassbox.trace import explain
from glassformer.inference.translator import Translator
from glassformer.storage.modelfile import ModelFile
from tests.cli.conftest import ROWS

TEXT = "1969-07-20"


@pytest.fixture(scope="module")
def expected(run):
    """The trace of the text, made in Python."""
    return explain(run, TEXT, history=True)


def test_the_summary_is_one_screen(call, run, expected):
    answer = call("explain", run, TEXT)
    assert (answer.code, answer.err) == (0, "")
    best = expected.search.beam.answers[0]
    source, output = expected.tokens.source, expected.tokens.target_out
    assert answer.out.splitlines() == [
        TEXT,
        f"→ {best.text}   score {best.score:.4f}",
        f"source: {' '.join(token.text for token in source)}",
        f"answer: {' '.join(token.text.replace(' ', '␣') for token in output)}",
        f"every number, as a page: glassformer explain --html explained.html {run} {TEXT}",
    ]


def test_json_is_the_whole_trace(call, run, expected):
    assert Trace.loads(call("explain", run, TEXT, "--json").out) == expected


def test_a_tensor_is_a_matrix_with_named_axes(call, run, expected):
    answer = call("explain", run, TEXT, "--tensor", "decoder.0.cross.weights", "--head", 1)
    title, axes, columns, *rows = answer.out.splitlines()
    assert title.startswith("decoder.0.cross.weights: attention weights.")
    assert axes == "target · source_key"
    assert columns.split() == " ".join(f"{i} {token.text}" for i, token in enumerate(expected.tokens.source)).split()
    weights = expected.array("decoder.0.cross.weights")[1]
    for line, row in zip(rows, weights, strict=True):
        assert line.split()[-len(row) :] == [f"{weight:.4f}" for weight in row]
    assert rows[0].strip().startswith(f"0 <bos> → {expected.tokens.target_out[0].text}")


def test_any_tensor_can_be_printed_listed_and_be_json(call, run):
    expected = explain(run, TEXT, weights=True)
    printed = call("explain", run, TEXT, "--tensor", "list")
    assert (printed.code, printed.err) == (0, "")
    listed = json.loads(call("explain", run, TEXT, "--tensor", "list", "--json").out)["tensors"]
    assert printed.out.split() == ["name", *listed]
    assert set(listed) == set(expected.tensors)
    for name in ("source.scale", "decoder.self_mask", "decoder.0.cross.weights", "encoder.0.self_attention.w_q.weight"):
        alias = name.replace("cross", "cross_attention")  # as the reference names it
        printed = call("explain", run, TEXT, "--tensor", alias)
        assert (printed.code, printed.err) == (0, "")
        assert [f"head {head} · target" in printed.out for head in (0, 1)] == [name != alias] * 2
        found = json.loads(call("explain", run, TEXT, "--tensor", alias, "--json").out)
        np.testing.assert_array_equal(np.array(found["numbers"], np.float32), expected.array(name).astype(np.float32))
        assert [axis["name"] for axis in found["axes"]] == expected.tensors[name].axes


def test_a_given_target_and_an_edit_have_a_line_each(call, run):
    edits = ["attention decoder.0.cross off", "token 2=0"]
    answer = call("explain", run, TEXT, "--target", "July 20, 1969", "--edit", edits[0], "--edit", edits[1])
    trace = explain(run, TEXT, target="July 20, 1969", edits=edits, evidence=False)
    assert f"→ {trace.difference.beam.after.text}  " in answer.out
    assert f"before the edits: {trace.difference.beam.before.text}\n" in answer.out
    gold = "J u l y ␣ 2 0 , ␣ 1 9 6 9 <eos>"
    assert f"target: {gold}   mean loss {trace.array('gold.losses').mean():.4f} nats\n" in answer.out
    words = f"{run} {TEXT} --target 'July 20, 1969' --edit 'attention decoder.0.cross off' --edit 'token 2=0'"
    assert answer.out.endswith(f"glassformer explain --html explained.html {words}\n")


def test_logits_that_are_not_those_of_pytorch_are_an_error(call, run, monkeypatch):
    wrong = TraceCheck(1.0, 1e-4, False, "")
    monkeypatch.setattr("glassformer.glassbox.pytorch.check_logits", lambda *_: wrong)
    answer = call("explain", run, TEXT)
    assert answer.code == 1
    assert "the logits are not those of PyTorch" in answer.err


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
        ((TEXT, "--tensor", "decoder.0.cross.wieghts"), 2, "did you mean 'decoder.0.cross.weights'"),
        ((TEXT, "--tensor", "decoder.0.cross.weights", "--head", "2"), 2, "expected: 0 to 1"),
        ((TEXT, "--tensor", "logits", "--head", "0"), 2, "'logits' has no heads"),
        ((TEXT, "--head", "0"), 2, "--head needs the name of a tensor"),
        ((TEXT, "--heads", "table.csv"), 2, "--heads is shown in the page and in --json"),
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
    decoding = ModelFile.load(run).settings.decoding.override({"num_beams": 1})
    assert found == asdict(head_effects(ModelFile.load(run), ROWS, decoding=decoding))
    assert found["exact_match"] == evaluate(Translator.load(run), ROWS, decoding=decoding).metrics["exact_match"].value
