"""The story: eight screens that the page chooses from the numbers of its own model."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.paper.settings import ModelSettings
from tests.glassbox.page.conftest import attentions

pytestmark = pytest.mark.browser

N_SCREENS = 8
SVG = "{http://www.w3.org/2000/svg}"


def words(window: Any) -> str:
    return str(window.text(".story-words"))


def test_next_back_and_the_arrow_keys_go_through_all_screens(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    titles = []
    for at in range(1, N_SCREENS + 1):
        assert window.page.get_attribute("[data-screen]", "data-screen") == str(at)
        titles.append(window.text(".story h2"))
        assert len(window.all(".story-words p", "each.innerText")) >= 1
        if at < N_SCREENS:
            if at % 2:
                window.page.keyboard.press("ArrowRight")
            else:
                window.press("story-next")
    assert len(set(titles)) == N_SCREENS
    assert window.page.locator("[data-key='story-next']").is_disabled()
    window.page.keyboard.press("ArrowLeft")
    assert window.text(".story h2") == titles[-2]
    window.page.go_back()
    window.page.wait_for_selector(f"h2:has-text('{titles[-1]}')")
    for panel, has_depth in (("story", False), ("attention", True), ("search", False)):  # controls have an effect
        window.panel(panel)
        assert window.page.locator("[data-key='depth-words']").is_visible() == has_depth, panel


def test_an_address_of_a_screen_without_a_row_shows_what_the_screen_chooses(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    chosen = {}
    for at in (2, 4, 6, 8):
        window.page.click(f".dots button:text-is('{at}')")
        assert f"screen={at}&" in window.run("return location.hash")
        chosen[at] = words(window)
    address = window.page.url.partition("#")[0]
    for at, expected in chosen.items():
        window.go(f"{address}#story?screen={at}")
        window.settle()
        assert words(window) == expected


@pytest.mark.medium
def test_each_screen_leads_to_the_panel_that_has_its_numbers(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    expected = ("Alignment", "Attention", "Heads", "Logits", "Add & norm", "Search", "What if", "Logits")
    for at, title in enumerate(expected, 1):
        window.press(f"screen-{at}")
        window.page.wait_for_selector(".story-words:not(:has-text('computing'))")
        window.press("proof")
        window.page.wait_for_selector(f"h1:has-text('{title}')")
        window.settle()
        window.page.go_back()
        window.page.wait_for_selector(f"[data-screen='{at}']")
        window.settle()


def test_the_numbers_of_the_story_are_those_of_the_trace(window: Any, case: Any, trace: Trace) -> None:
    window.open(trace, "story")
    occlusion, log_probs = trace.array("evidence.occlusion"), trace.array("log_probs")
    outputs = [token.id for token in trace.tokens.target_out]
    row = int(occlusion.max(axis=1).argmax())
    assert f"Output token {row}, " in words(window)
    assert f"depends most on source token {int(occlusion[row].argmax())}" in words(window)
    drawn = occlusion >= np.maximum(occlusion.max(axis=1, keepdims=True) / 3, 0.1)
    assert len(window.all(".story-arc", "each")) == drawn.sum()
    before = log_probs[row, outputs[row]]
    shown = [f"{np.exp(number) * 100:.1f}\u00a0%" for number in (before, before - occlusion[row].max())]
    assert f"its probability falls from {shown[0]} to {shown[1]}" in words(window)
    window.page.locator(".story-token.pick").nth(1).hover()
    window.page.wait_for_selector("[data-key='row-1'][aria-current='step']")
    assert "Output token 1" in words(window)

    window.press("screen-6")
    gaps = {}
    for step in range(1, len(outputs)):
        nodes = [node for node in trace.search.beam.nodes if node.step == step]
        kept = [node.sum for node in nodes if node.state != "pruned"]
        lost = [node.sum for node in nodes if node.state == "pruned"]
        if kept and lost:
            gaps[step] = (min(kept) - max(lost), len(kept))
    step, (gap, kept_count) = min(gaps.items(), key=lambda each: each[1][0])
    assert f"In step {step} the beam keeps the {kept_count} most probable texts" in words(window)
    assert f"is {100 * (1 - np.exp(-gap)):.1f}\u00a0% below the" in words(window)

    window.press("screen-7")
    window.page.wait_for_selector(".story-words:not(:has-text('computing'))")
    after = explain(case.model, trace.text, edits=["positions off"], num_beams=3).search.beam.answers[0].text
    assert after == trace.translation or after.replace(" ", "␣") in words(window)

    window.press("screen-8")
    probabilities = [
        next(p for token, _, p in prediction.top if token == output)
        for prediction, output in zip(trace.predictions["logits"], outputs, strict=True)
    ]
    gold = [token.id for token in trace.tokens.gold or []]
    wrong = next((row for row, output in enumerate(outputs) if output != gold[row]), None)
    row = probabilities.index(min(probabilities)) if wrong is None else wrong
    assert f"step {row}:" in words(window)
    assert f"{probabilities[row] * 100:.1f}\u00a0%" in words(window)


def test_the_step_and_the_head_are_chosen_from_the_numbers(window: Any, case: Any) -> None:
    """Another text has another least certain step: nothing is written for one text."""
    found = set()
    for text in ("abcde", "gfab", "ee"):
        window.open(explain(case.model, text, weights=True, num_beams=3), "story")
        for at in (2, 8):
            window.press(f"screen-{at}")
            found.add((at, words(window)))
    assert len(found) == 6


def test_the_story_of_an_edited_model_is_that_of_the_edited_model(window: Any, case: Any, trace: Trace) -> None:
    words_of_edit = "head decoder.1.cross 1 off"
    window.open(trace, "whatif")
    window.press(f"toggle-{words_of_edit}")
    window.settle()
    window.panel("story")
    edited = explain(case.model, case.text, edits=[words_of_edit], num_beams=3)
    assert f"depends most on source token {int(edited.array('evidence.occlusion')[0].argmax())}" in words(window)
    window.panel("alignment")


def test_the_story_is_told_without_weights_and_without_evidence(window: Any, case: Any) -> None:
    small = without_weights(explain(case.model, case.text, evidence=False, num_beams=1))
    window.open(small, "story")
    assert "attends to" in words(window)
    for at in range(1, N_SCREENS + 1):
        window.press(f"screen-{at}")
        assert words(window)
    window.press("screen-7")
    assert "does not include the weights" in words(window)


def test_a_model_of_one_layer_and_post_norm_has_its_story_too(window: Any, random_model: Any) -> None:
    shape = ModelSettings(d_model=8, d_ff=10, n_heads=1, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none")
    window.open(explain(random_model(shape, 3), "a", weights=True, num_beams=2), "story")
    for at in range(1, N_SCREENS + 1):
        window.press(f"screen-{at}")
        assert words(window)


def test_figures_and_matrices_are_saved_as_svg_and_as_csv(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    lines = window.saved("[data-key='csv-source-tokens-of-each-output-token']").splitlines()
    assert len(lines) == len(trace.tokens.target_out) + 1
    numbers = [float(cell) for cell in lines[1].split(",")[1:]]
    assert numbers == pytest.approx(trace.array("evidence.occlusion")[0].tolist(), abs=1e-6)
    picture = window.saved("[data-key='svg-source-tokens-of-each-output-token']")
    assert picture.startswith("<svg")
    assert "class=" not in picture
    assert 'fill="rgb' in picture

    window.panel("attention")
    window.press("head-1")
    name = "decoder.1.cross.weights"
    header, *lines = window.saved(f"[data-stage='{name}'] [data-key^='csv-']").splitlines()
    table = [[float(cell) for cell in line.split(",")[-len(trace.tokens.source) :]] for line in lines]
    assert header.startswith("head,target,0 <bos>")
    flat = trace.array(name).reshape(-1, len(trace.tokens.source))
    assert table == [pytest.approx(row.tolist(), abs=1e-6) for row in flat]
    matrix = ElementTree.fromstring(window.saved(f"[data-stage='{name}'] [data-key^='svg-']"))
    numbers = [float(each.text.split(": ")[1]) for each in matrix.iter(f"{SVG}title")]
    assert numbers == pytest.approx(trace.array(name)[1].ravel().tolist(), abs=1e-4)
    assert "rgb(47, 127, 214)" in {each.get("fill") for each in matrix.iter(f"{SVG}rect")}

    window.panel("heads")
    names, n_heads = attentions(trace), trace.axes["head"].length
    heads = ElementTree.fromstring(window.saved("#panel [data-key='svg-heads']"))
    assert len(list(heads.iter(f"{SVG}text"))) == len(names) + n_heads
    assert len(list(heads.iter(f"{SVG}svg"))) == 1 + len(names) * n_heads
    lines = window.saved("#panel [data-key='csv-heads']").splitlines()
    assert len(lines) == 1 + len(names) * n_heads
    assert lines[1].startswith(f"{names[0]},0,")
    assert window.page.locator(".picture-box.visually-hidden").count() == 0

    for panel in ("heads", "attention", "search", "space", "alignment"):
        window.panel(panel)
        for kind in ("svg", "csv"):
            assert window.page.locator(f"#panel [data-key^='{kind}-']").count() >= 1, panel
    written = window.run(
        "const { csv } = await import('glassbox/figure.js'); return csv(given);", [["=1+1", 'a"b', "x,y", -0.5]]
    )
    assert written == '\'=1+1,"a""b","x,y",-0.5\r\n'  # a spreadsheet computes no cell of it


def test_the_head_that_the_model_needs_most_is_the_one_that_is_shown(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    if "heads" not in document:
        pytest.skip("the trace has no effects of heads")
    effects = [
        {"attention": f"decoder.{layer}.cross", "head": head, "exact_match": 0.1 if (layer, head) == (0, 1) else 0.9,
         "newly_wrong": 1, "newly_right": 0}
        for layer in (0, 1) for head in (0, 1)
    ]  # fmt: skip
    document["heads"] = {"rows": 10, "items": 10, "exact_match": 0.95, "heads": effects}
    window.open(document, "story")
    window.press("screen-2")
    assert "head 1 of decoder layer 0" in words(window)
    window.press("screen-3")
    assert "falls from 95.0\u00a0% to 10.0\u00a0%" in words(window)


@pytest.mark.medium
def test_the_head_that_an_answer_needs_most_is_that_of_python(window: Any, case: Any, trace: Trace) -> None:
    """In Python the answer is the gold target of the edited model."""
    rows = [(row, token.id) for row, token in enumerate(trace.tokens.target_out)]

    def probability(edits: list[str]) -> float:
        found = explain(case.model, case.text, target=trace.translation, edits=edits, num_beams=1)
        scores = found.array("gold.log_probs")
        return float(np.exp(sum(scores[row, token] for row, token in rows)))

    names = [(name, head) for name in attentions(trace) for head in range(trace.axes["head"].length)]
    expected = {(name, head): probability([f"head {name} {head} off"]) for name, head in names}
    name, head = min(expected, key=lambda each: expected[each])
    window.open(trace, "story")
    window.press("screen-3")
    window.page.wait_for_selector(".story-words:has-text('This answer needs')")
    layer, kind = name.split(".")[1:]
    side = name.split(".")[0]
    assert f"needs head {head} of {side} layer {layer}, {kind}-attention, most" in words(window)
    found = window.run(
        "const { headsOfAnswer } = await import('glassbox/story/needed.js');"
        "const { App } = await import('glassbox/app.js');"
        "const app = new App(JSON.parse(document.getElementById('trace').textContent));"
        "while (!headsOfAnswer(app)) await new Promise((resolve) => setTimeout(resolve, 20));"
        "return headsOfAnswer(app).heads.map(({ name, head, score }) => [name, head, Math.exp(score)]);"
    )
    assert {(name, head): pytest.approx(score, rel=1e-3) for name, head, score in found} == expected


def test_small_probabilities_of_the_beam_have_the_unit_of_its_scale(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    last = [node for node in document["search"]["beam"]["nodes"] if node["step"] == 0][-1]
    last["sum"] = float(np.log(4.3e-4))
    window.open(document, "story?screen=6&row=0")
    labels = window.all(".story-bar .story-label", "each.textContent")
    assert [label for label in labels if "10⁻⁴" in label] == [f"4.3\u00a0×\u00a010⁻⁴ {last['state']}"]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_of_a_picture_is_cut_off(window: Any, trace: Trace, width: int) -> None:
    """By the picture, and by the card that it is in, unless the caption says that it is wider."""
    window.page.set_viewport_size({"width": width, "height": 844})
    document = json.loads(trace.dumps())
    for node in document["search"]["beam"]["nodes"]:
        node["text"] = "letters"
    window.open(document, "story")
    for at in range(1, N_SCREENS + 1):
        window.press(f"screen-{at}")
        window.page.wait_for_selector(".story-words:not(:has-text('comput'))")
        outside = """[...each.querySelectorAll('text')].filter((text) => {
          const [one, all, card] = [text, each, each.closest('.scroller')].map((part) => part.getBoundingClientRect());
          const isWide = each.closest('figure').textContent.includes('scroll it sideways');
          return (one.right > card.right && !isWide) || one.left < all.left - 1 || one.right > all.right + 1
            || one.top < all.top - 1 || one.bottom > all.bottom + 2;
        }).map((text) => text.textContent)"""
        assert window.all(".story svg:not(.heat)", outside) in ([], [[]]), at


def test_the_first_picture_of_a_long_text_begins_in_sight(window: Any, random_model: Any) -> None:
    words = [" ".join(f"word{i}" for i in range(60))]
    shape = ModelSettings(d_model=8, d_ff=8, n_heads=1, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none")
    model = random_model(shape, 5, "words", texts=(words, words))
    window.open(explain(model, words[0], weights=True, num_beams=2), "story")
    figure = window.page.locator(".story figure").bounding_box()
    for first in (".story-token[data-at='s0']", ".story-token[data-at='t0']"):
        box = window.page.locator(first).bounding_box()
        assert figure["x"] < box["x"] < figure["x"] + 100
    assert "wider than the page" in window.text(".story figcaption")


def test_the_gold_text_in_other_subwords_is_not_called_different(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    document["target"] = trace.translation
    document["tokens"]["gold"] = document["tokens"]["target_out"][::-1]
    window.open(document, "story?screen=8")
    assert "✓ equal" in window.text("dl.answer")
    assert "different" not in words(window)
    assert "The model gives the whole answer a probability of" in words(window)
