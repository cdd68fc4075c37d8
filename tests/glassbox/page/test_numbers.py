"""The page computes what Python computes, and detects changed traces."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.schema import Tensor, Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_case, make_model

pytestmark = pytest.mark.browser

MATRICES = ("embedding", "qkv", "attention", "norm", "logits")


def shown(number: float) -> str:
    """A number as a cell shows it, written independently of the page."""
    size = abs(number)
    places = 0 if number == int(number) else 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    text = f"{number:.{places}f}"
    return "·" if float(text) == 0 else text.replace("-", "−")


EDITS = (
    ["head decoder.0.cross 0 off"], ["token 1=g"], ["positions off"], ["causal off"], ["scale off"],
    ["layer encoder.0 off"], ["feed-forward decoder.0 off"], ["prefix lk"], ["attention encoder.0.self off"],
    ["attention decoder.0.self head 0 row 0 = 0.5", "token 1=a"], ["text gcb"],
    ["text fab", "patch encoder.0 row 0", "patch decoder.0.cross head 0 row 0"],
)  # fmt: skip

COMPARE = """
const { Trace } = await import('glassbox/model/trace.js');
const { whatIf, occlude } = await import('glassbox/model/whatif.js');
const [base, expected] = [new Trace(JSON.parse(given.base)), new Trace(JSON.parse(given.edited))];
const wrong = base.steps.filter((step) => base.verdict(step.output).passed !== true).map((step) => step.output);
const made = whatIf(base, given.words);
wrong.push(...made.steps.filter((step) => made.verdict(step.output).passed !== true).map((step) => step.output));
const names = expected.names().filter((name) => !name.startsWith('evidence.'));
const missing = names.filter((name) => !made.has(name));
let largest = 0;
const differ = (one, other) => { largest = Math.max(largest, Math.abs(one - other) / Math.max(1, Math.abs(one))); };
for (const name of names.filter((each) => made.has(each))) {
  const [one, other] = [expected.get(name), made.get(name)];
  if (one.axes.join() !== other.axes.join() || one.shape.join() !== other.shape.join()) missing.push(name);
  else one.numbers.forEach((number, i) => differ(number, other.numbers[i]));
}
for (const [name, change] of Object.entries(expected.difference.largest)) {
  const [before, after] = [base, made.sameRows].map((tensors) => tensors.get(name).numbers);
  differ(change, before.reduce((most, number, i) => Math.max(most, Math.abs(number - after[i])), 0));
}
for (const kind of ['greedy', 'beam']) {
  const [one, other] = [expected.search[kind], made.search[kind]];
  one.nodes.forEach((node, i) => differ(node.sum, other.nodes[i].sum));
  one.nodes.forEach((node, i) => differ(node.rank_score, other.nodes[i].rank_score));
}
const measured = occlude(base);
base.get('evidence.occlusion').numbers.forEach((number, i) => differ(number, measured.numbers[i]));
const pick = (...keys) => (each) => keys.map((key) => each[key]);
const plain = ({ search: { greedy, beam }, predictions, tokens, difference }) => ({
  nodes: [greedy, beam].map(({ nodes }) => nodes.map(pick('id', 'parent', 'token', 'text', 'state', 'rank'))),
  stopped: [greedy, beam].map((search) => [search.stopped.replace(/[-\\d.]+/g, '#'), search.decoder_runs]),
  answers: [greedy, beam].map(({ answers }) => answers.map(pick('text', 'ids', 'finished', 'node'))),
  ranks: Object.entries(predictions).filter(([name]) => !name.startsWith('gold.'))
    .map(([name, rows]) => [name, rows.map(pick('rank'))]),
  inputs: tokens.target_in.map(pick('text')), source: tokens.source.map(pick('id')),
  changed: [difference.greedy, difference.beam].map(pick('first_changed_step')),
});
return { wrong, missing, largest, made: plain(made), expected: plain(expected) };
"""


@pytest.mark.medium
def test_the_page_computes_what_python_computes(window: Any, trace: Trace) -> None:
    """Each kind of edit in a model of its own."""
    window.open(trace)
    for seed, words in enumerate(EDITS):
        case = make_case(seed)
        options: dict[str, Any] = {"weights": True, "num_beams": 3, "num_return_sequences": 1 + seed % 2}
        base, edited = (explain(case.model, case.text, edits=edits, **options) for edits in ([], words))
        found = window.run(COMPARE, {"base": base.dumps(), "edited": edited.dumps(), "words": words})
        assert found["wrong"] == [], seed
        assert found["missing"] == [], seed
        assert found["largest"] < 1e-4, seed
        assert found["made"] == found["expected"], seed


def test_a_token_that_is_hidden_is_not_copied(window: Any, trace: Trace) -> None:
    model, text, _ = make_case(5)
    assert model.settings.model.copy_mechanism
    counts = tuple(0 if token == 3 else 9 for token in range(len(model.source_tokenizer)))  # <unk> was never trained
    model = replace(model, data=model.data.model_copy(update={"source_counts": counts}))
    base = explain(model, text, weights=True, num_beams=3)
    assert base.evidence is not None
    assert base.evidence.occluded_by == "mask"
    program = """const { Trace } = await import('glassbox/model/trace.js');
    const { occlude } = await import('glassbox/model/whatif.js');
    return [...occlude(new Trace(JSON.parse(given))).numbers];"""
    expected = base.array("evidence.occlusion").ravel()
    assert window.open(trace).run(program, base.dumps()) == pytest.approx(expected, abs=1e-4)


def test_the_page_normalizes_text_as_the_model_does(window: Any, trace: Trace) -> None:
    """Decomposed syllables (NFD) are forced in parts, and the output is composed (NFC)."""
    model = make_model(5, texts=(["가나다", "강"], ["너머", "험"]), side={"normalization": "NFD"})
    window.open(trace)
    base = explain(model, "나가", weights=True, num_beams=3).dumps()
    for words in ("token 1=\u1100", "prefix 너"):
        edited = explain(model, "나가", weights=True, num_beams=3, edits=[words]).dumps()
        found = window.run(COMPARE, {"base": base, "edited": edited, "words": [words]})
        assert found["wrong"] == [], words
        assert found["made"] == found["expected"], words


@pytest.mark.medium
def test_fifty_random_cells_of_each_panel_are_the_numbers_of_the_contract(window: Any, trace: Trace) -> None:
    assert window.open(trace).checks() == (len(trace.steps), 0, len(trace.steps))
    for name in MATRICES:
        window.panel(name)
        cells = window.all(
            "#panel [data-tensor] td[data-cell]",
            "[each.closest('[data-tensor]').dataset.tensor, each.dataset.cell, each.textContent]",
        )
        assert len(cells) >= 50
        for tensor, index, text in random.Random(name).sample(cells, 50):
            number = trace.array(tensor)[tuple(map(int, index.split(",")))]
            assert text == shown(float(number)), (tensor, index)


def changed(trace: Trace, name: str, array: Any, axes: list[str] | None = None) -> Trace:
    """The trace with another tensor in the place of one."""
    old = trace.tensors[name]
    tensor = Tensor.of(np.asarray(array), axes or old.axes, old.origin)
    return replace(trace, tensors=trace.tensors | {name: tensor})


def mutations(trace: Trace) -> dict[str, tuple[str, Trace]]:
    """A trace that is changed in one way, and the tensor that is wrong then."""
    weights, scores, own = "decoder.0.cross.weights", "encoder.0.self.scores", "encoder.0.self.weights"
    numbers, scaled = trace.array(weights).copy(), "decoder.0.self.scaled"
    numbers[0, 1, 2] += 0.01
    keys, target = trace.axes["source_key"], trace.axes["target"]
    swapped, late = replace(keys, labels=keys.labels[::-1]), replace(target, predicted=target.labels)
    return {
        "a changed number": (weights, changed(trace, weights, numbers)),
        "a transposed tensor": (scores, changed(trace, scores, trace.array(scores).transpose(0, 2, 1))),
        "turned axes": (own, changed(trace, own, trace.array(own), ["head", "source_key", "source"])),
        "a dropped scale": (scaled, changed(trace, scaled, trace.array("decoder.0.self.scores"))),
        "swapped labels": (weights, replace(trace, axes=trace.axes | {"source_key": swapped})),
        "labels that are not shifted": (weights, replace(trace, axes=trace.axes | {"target": late})),
    }


def test_a_mutation_turns_its_step_red(window: Any, trace: Trace) -> None:
    program = """const { Trace } = await import('glassbox/model/trace.js');
    return new Trace(JSON.parse(given[0])).verdict(given[1]).passed;"""
    for kind, (name, mutated) in mutations(trace).items():
        if kind == "a changed number":
            window.open(mutated, "attention")
            assert window.checks()[1] > 0
            window.page.select_option("[data-key='attention']", name.rpartition(".")[0])
            assert window.text(f"[data-stage='{name}'] .badge") == "✗ wrong"
            assert window.text("[data-checks]").startswith("✗")
        assert window.run(program, [mutated.dumps(), name]) is False, kind
        assert window.run(program, [trace.dumps(), name]) is True, kind
