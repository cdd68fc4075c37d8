"""Another text in the page: differences, patches and attribution are those of an independent pass of the reference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.paper import reference
from tests.glassbox.conftest import make_case
from tests.glassbox.page.conftest import compare

pytestmark = pytest.mark.browser

MEASURE = """
const { Trace } = await import('glassbox/model/trace.js');
const { Patching } = await import('glassbox/model/patching.js');
const base = new Trace(JSON.parse(document.getElementById('trace').textContent));
const found = new Patching(base, given.words, given.row);
for (const _ of found.measure());
const heads = found.places.filter(({ head }) => head !== undefined);
return {
  ...found.best, tokens: found.tokens, differences: found.differences, effects: [...found.effects],
  all: found.effectOf(heads), few: found.effectOf(found.best.heads.slice(0, -1)),
};
"""

Patches = dict[tuple[str, int | None, int], np.ndarray[Any, Any]]


def reference_run(model: Any, ids: list[int], fed: list[int], patches: Patches) -> tuple[Any, Patches]:
    """The last logits of the reference, and all that could be patched, by (module, head, row)."""
    seen: Patches = {}

    def note(name: str, value: Any, /, *_: Any) -> Any:
        module, _, quantity = name.rpartition(".")
        if quantity == "heads":
            value = np.array(value)
            keys = [(module, head, row) for head in range(value.shape[0]) for row in range(value.shape[1])]
        elif name.endswith(".feed_forward.residual"):
            value = np.array(value)
            keys = [(module.removesuffix(".feed_forward"), None, row) for row in range(value.shape[0])]
        else:
            return value
        for key in keys:
            index = key[1:] if key[1] is not None else key[2]
            value[index] = patches.get(key, value[index])
            seen[key] = value[index].copy()
        return value

    settings, weights = model.settings.model, {name: array.astype(float) for name, array in model.tensors.items()}
    memory = reference.encode(weights, settings, np.array(ids), note=note)
    hidden = reference.decode(weights, settings, np.array(fed), memory, note=note)
    copies = reference.copies(weights, settings, np.array(ids), memory)
    return reference.project(weights, settings, hidden, copies=copies)[-1], seen


def place_of(words: str) -> tuple[str, int | None, int]:
    """The key of a patch in the reference."""
    part, *rest = words.removeprefix("patch ").split()
    part = part.replace(".self", ".self_attention").replace(".cross", ".cross_attention")
    return part, int(rest[1]) if rest[0] == "head" else None, int(rest[-1])


@pytest.mark.parametrize(("seed", "other_text"), [(5, "gcb"), (19, "gcb"), (21, "fgedgfa")])
def test_every_patch_has_the_effect_that_the_reference_computes(window: Any, seed: int, other_text: str) -> None:
    """Each alone, and the heads that explain 95 % of the difference: a longer, a shorter and an equally long text."""
    model, text, _ = make_case(seed)
    trace = explain(model, text, weights=True, num_beams=1)
    window.open(trace)
    ids, fed = ([token.id for token in tokens] for tokens in (trace.tokens.source, trace.tokens.target_in))
    tokenizer = model.source_tokenizer
    other = tokenizer.frame(tokenizer.encode(other_text))
    *_, row = (
        row
        for row in range(len(fed))
        if reference_run(model, other, fed[: row + 1], {})[0].argmax() != trace.tokens.target_out[row].id
    )
    words = ["text " + tokenizer.decode(other)]
    found = window.run(MEASURE, {"words": words, "row": row})
    (own_logits, _), (other_logits, values) = (reference_run(model, each, fed[: row + 1], {}) for each in (ids, other))
    one, rival = trace.tokens.target_out[row].id, other_logits.argmax()
    assert found["tokens"] == [one, rival]
    own, there = (logits[one] - logits[rival] for logits in (own_logits, other_logits))
    assert found["differences"] == pytest.approx([own, there], rel=1e-4)

    def counterpart(key: tuple[str, int | None, int]) -> Any:
        part, head, at = key
        is_late = part.startswith("encoder") and ids[: at + 1] != other[: at + 1] and len(ids) != len(other)
        return values[part, head, at + (len(other) - len(ids) if is_late else 0)]

    def effect(patches: list[str]) -> float:
        keys = [place_of(patch) for patch in patches]
        logits, _ = reference_run(model, ids, fed[: row + 1], {key: counterpart(key) for key in keys})
        return float((own - logits[one] + logits[rival]) / (own - there))

    for patch, number in found["effects"]:
        assert number == pytest.approx(effect([patch]), rel=1e-3, abs=1e-4), patch
    n_heads, settings = model.settings.model.n_heads, model.settings.model
    n_matched = sum("encoder.0 row" in patch for patch, _ in found["effects"])
    n_source = settings.n_encoder_layers * (n_heads + 1) * n_matched
    assert len(found["effects"]) == n_source + settings.n_decoder_layers * (2 * n_heads + 1) * (row + 1)
    best = [head["words"] for head in found["heads"]]
    assert found["effect"] == pytest.approx(effect(best), abs=1e-3)
    whole = effect([patch for patch, _ in found["effects"] if " head " in patch])
    assert found["all"] == pytest.approx(whole, rel=1e-3)
    assert (whole == pytest.approx(1)) != settings.copy_mechanism  # copying reads the source too
    assert found["effect"] >= min(0.95, whole - 1e-3)
    assert len(best) == 1 or found["few"] < 0.95


@pytest.mark.medium
def test_two_texts_are_compared_and_patched_by_clicks(window: Any, case: Any, trace: Trace) -> None:
    """The heads that explain the difference, and a patch with the answer of `explain --edit`."""
    window.open(trace, "whatif")
    compare(window, "gcbfa")
    expected = explain(case.model, case.text, edits=["text gcbfa"], num_beams=3)
    assert expected.difference is not None
    first = expected.difference.beam.first_changed_step
    assert first is not None
    assert f"from step {first} on" in window.text(".verdict")
    assert f"Step {first}: the logit of" in window.text("[aria-label='two texts']")
    window.press("measure-patches")
    window.page.wait_for_selector("[data-explained]")
    assert float(window.page.get_attribute("[data-explained]", "data-explained")) >= 0.95
    n_source, n_heads = len(trace.tokens.source), trace.axes["head"].length
    pictures = window.page.locator("[aria-label='two texts'] figure")
    assert [pictures.nth(i).locator("text.number").count() for i in range(2)] == [
        2 * (n_heads + 1) * n_source,
        2 * (2 * n_heads + 1) * (first + 1),
    ]
    pictures.nth(0).locator("text.number").nth((n_heads + 1) * n_source + 2).click()
    patch = "patch encoder.1 row 2"
    window.page.wait_for_selector(f"[data-key='edit-{patch}']")
    window.settle()
    patched = explain(case.model, case.text, edits=["text gcbfa", patch], num_beams=3)
    assert window.text("[data-side='after'] .token") == patched.translation.replace(" ", "␣")
    assert window.checks()[1] == 0
    window.press(f"edit-{patch}")
    window.page.wait_for_selector(f"[data-key='edit-{patch}']", state="detached")
    pictures.nth(0).locator(".heatmap").focus()
    for key in ("ArrowRight", "Enter"):  # from the cell that was clicked to the next, and its patch
        window.page.keyboard.press(key)
    window.page.wait_for_selector("[data-key='edit-patch encoder.1 row 3']")
    window.settle()
    assert window.run("return document.activeElement.dataset.key") == "heatmap-encoder: effect of each patch"
    window.page.keyboard.press("Enter")
    window.page.wait_for_selector("[data-key='edit-patch encoder.1 row 3']", state="detached")
    window.settle()
    n_best = int(window.page.get_attribute("[data-explained]", "data-heads"))
    window.press("apply-patches")
    window.page.wait_for_selector(".pill:has-text('patch')")
    assert window.page.locator(".pill:has-text('patch')").count() == n_best


CHANGES = """
const { App } = await import('glassbox/shell/app.js');
const app = new App(JSON.parse(document.getElementById('trace').textContent));
await app.edit(given);
return app.base.names().map((name) => [name, app.changeOf(name)]).filter(([, change]) => change)
  .map(([name, { numbers }]) => [name, [...numbers]]);
"""


@pytest.mark.medium
def test_every_matrix_of_the_source_is_a_difference(window: Any, case: Any, trace: Trace) -> None:
    """Positions of a shorter text are matched from both ends; what is between has no number."""
    window.open(trace, "whatif")
    for text, match in (("gcbfa", range(7)), ("abdde", range(7)), ("abe", [0, 1, 2, -1, -1, 3, 4])):
        other = explain(case.model, text, num_beams=3)
        found = dict(window.run(CHANGES, [f"text {text}"]))
        rows = [i for i, at in enumerate(match) if at >= 0]
        for name, tensor in trace.tensors.items():
            if not tensor.axes or not name.startswith(("source", "encoder")) or name not in other.tensors:
                continue
            after = trace.array(name) * np.nan
            axes = [axis.startswith("source") and "vocabulary" not in axis for axis in tensor.axes]
            taken = [np.array(rows) if isin else np.arange(n) for isin, n in zip(axes, after.shape, strict=True)]
            given = [np.array(match)[rows] if isin else np.arange(n) for isin, n in zip(axes, after.shape, strict=True)]
            after[np.ix_(*taken)] = other.array(name)[np.ix_(*given)]
            change = np.array(found[name], float).reshape(after.shape)
            np.testing.assert_allclose(change, after - trace.array(name), atol=1e-4, err_msg=f"{text}: {name}")
    late = dict(window.run(CHANGES, ["head decoder.1.cross 1 off"]))
    assert any(late["logits"])
    assert not any(any(late[name]) for name in late if name.startswith(("source", "encoder", "decoder.0")))
    compare(window, "abe")
    window.press("compare-difference")
    window.panel("embedding")
    shown = window.all("[data-stage='source.embedded'] tbody tr", "each.innerText.includes('–')")
    assert shown == [False, False, False, True, True, False, False]


def test_the_parts_of_a_logit_are_what_heads_and_sublayers_add_in_every_model(window: Any, trace: Trace) -> None:
    window.open(trace, "logits")
    keys, numbers = (
        window.all("[data-key^='adds-']", "each.dataset.key"),
        window.all("[data-adds]", "each.dataset.adds"),
    )
    found = {key: float(number) for key, number in zip(keys, numbers, strict=True)}
    token = trace.tokens.target_out[0].id
    assert sum(found.values()) == pytest.approx(float(trace.array("logits")[0, token]), abs=1e-4)
    residual = trace.array("decoder.1.feed_forward.residual")[0].astype(float)
    direction = trace.array("output_projection.weight")[token].astype(float) * trace.array("decoder_norm.weight")
    direction = (direction - direction.mean()) / np.sqrt(residual.var() + 1e-5)
    weight, d_v = trace.array("decoder.0.cross_attention.w_o.weight").astype(float), trace.axes["d_v"].length
    for head, values in enumerate(trace.array("decoder.0.cross.heads")[:, 0]):
        written = weight[:, head * d_v : (head + 1) * d_v] @ values
        assert found[f"adds-decoder.0.cross.heads-{head}"] == pytest.approx(float(direction @ written), abs=1e-4)
    hidden = trace.array("decoder.1.feed_forward.output")[0].astype(float)
    assert found["adds-decoder.1.feed_forward.output-null"] == pytest.approx(float(direction @ hidden), abs=1e-4)
    window.press("adds-decoder.0.cross.heads-1")
    assert window.text("h1") == "Attention"
    program = """const { Trace } = await import('glassbox/model/trace.js');
    const { attribute } = await import('glassbox/model/attribution.js');
    const trace = new Trace(JSON.parse(given.trace));
    const sum = (parts) => parts.reduce((total, { number }) => total + number, 0);
    return given.cells.map((cell) => sum(attribute(trace, ...cell)));"""
    for seed in (3, 5, 19, 21):
        model, text, target = make_case(seed)
        other = explain(model, text, target=target, weights=True, num_beams=1)
        summed = "own_logits" if model.settings.model.copy_mechanism else "logits"
        logits = {f"{gold}logits": other.array(f"{gold}{summed}")[:3] for gold in ("", "gold.")}
        cells = [(name, row, token) for name, rows in logits.items() for row, token in np.ndindex(*rows.shape)]
        sums = window.run(program, {"trace": other.dumps(), "cells": cells})
        assert sums == pytest.approx([logits[name][row, token] for name, row, token in cells], abs=1e-4), seed


NO_FIT = {
    "hed encoder.0.self 1 off": "cannot read the edit “hed encoder.0.self 1 off”",
    f"attention decoder.0.cross head 0 row 0 = {'11,' * 40}x": "cannot read the edit “attention",  # at once
    "head encoder.0.self 9 off": "there is no head 9",
    "layer encoder.7 off": "there is no layer encoder.7",
    "token 0=a": "there is no source token 0 that can be edited",
    "prefix ?": "“?” is not in the target vocabulary",
    "text " + "a" * 600: "the text is longer than the model takes: 600 tokens, at most",
    "patch encoder.0 row 1": "a patch needs another text",
    "text abcde; patch encoder.0 row 1": "a patch needs another text",
    "text gb; patch encoder.0 row 3": "source position 3 has no counterpart in the other text",
    "text gcbfa; patch encoder.0 row 9": "there is no row 9 in encoder.0",
    "text gcbfa; patch encoder.7 row 1": "there is no layer encoder.7",
    "text gcbfa; patch encoder.0.self head 9 row 1": "there is no head 9",
}


def test_an_edit_that_does_not_fit_says_so(window: Any, trace: Trace) -> None:
    """In the page, and where its modules apply edits."""
    window.open(trace, "whatif")
    first = next(iter(NO_FIT))
    window.page.fill("[data-key='typed']", first)
    window.press("apply")
    window.settle()
    assert NO_FIT[first] in window.text(".edited .wrong")
    assert window.page.locator(".edited .pill").count() == 0
    program = """const { App } = await import('glassbox/shell/app.js');
    const app = new App(JSON.parse(document.getElementById('trace').textContent));
    await app.edit(given);
    return [app.problem, app.words];"""
    for edits, message in NO_FIT.items():
        problem, kept = window.run(program, edits.split("; "))
        assert message in problem
        assert kept == []


@pytest.mark.medium
def test_an_empty_text_and_one_of_unknown_tokens_from_right_to_left(window: Any, case: Any, trace: Trace) -> None:
    window.open(trace, "whatif")
    window.page.fill("[name=other]", "   ")
    window.press("compare-texts")
    window.page.wait_for_selector(".edited .wrong:has-text('the text is empty')")
    compare(window, "אבגדה")
    expected = explain(case.model, "אבגדה", num_beams=3).translation
    assert window.text("[data-side='after'] .token") == (expected.replace(" ", "␣") or "(empty)")
    assert "both texts give" in window.text("[aria-label='two texts']")
    window.panel("tokens")
    assert window.page.locator("[aria-label='source'] .wrong").count() == 5
    window.open(explain(case.model, "אבגדה", weights=True, num_beams=3), "story")
    isolated = "\u2068אבגדה\u2069"  # so that it does not reorder what is around it
    assert window.text(".figure1 h3") == f"Figure 1 · source → target: {isolated}"
    window.press("question-1")
    assert f"The text “{isolated}” is" in window.text(".story-words")


def test_without_a_tokenizer_for_texts_one_token_is_another(window: Any, trace: Trace) -> None:
    """A page of SentencePiece cannot split a text; one without weights cannot compute."""
    document = json.loads(trace.dumps())
    for vocabulary in document["vocabularies"].values():
        vocabulary["tokenizer"]["kind"] = "sentencepiece"
    window.open(document, "whatif")
    for place in ("[aria-label='two texts']", "#ask"):
        assert "cannot split text into SentencePiece" in window.text(place)
    assert window.page.locator("[name=other], [name=text]").count() == 0
    window.page.locator("[data-key^='compare-token']").first.click()
    window.page.wait_for_selector(".pill:has-text('token ')")
    window.settle()
    window.open(without_weights(trace), "whatif")
    for place in ("#panel", "#ask"):
        assert "does not include the weights" in window.text(place)
