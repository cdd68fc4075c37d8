"""What is around the panels: the text, the result of the edits, the map, the keyboard shortcuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.report import report_html
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.planning.grow import grow_model
from glassformer.settings import SideSettings, TokenSettings
from glassformer.text import learn_both
from glassformer.text.inputs import compose, inputs_of
from tests.browser import seen_before_reading
from tests.glassbox.conftest import make_model
from tests.glassbox.page.conftest import PRESS

pytestmark = pytest.mark.browser


def test_the_page_says_that_it_opens_before_it_reads_the_trace(browser: Any, trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(report_html(trace))
    assert "Opening the page" in seen_before_reading(browser, path.as_uri())


# Any text, in a file


@pytest.mark.medium
def test_a_typed_text_gives_what_python_gives_also_with_a_wide_beam(window: Any, case: Any) -> None:
    window.open(explain(case.model, case.text, weights=True, num_beams=23), "search?text=gab")
    window.page.wait_for_selector("dd:has-text('gab')")
    assert window.page.locator(".notice").count() == 0
    assert window.page.input_value("[name=beams]") == "23"
    texts, side = (["ab cd", "éa b"], ["xy z", "zy x"]), {"vocabulary_size": 30}
    model = make_model(5, "subwords", texts=texts, side=side, n_decoder_layers=2)
    window.open(explain(model, "ab cd", weights=True, num_beams=3), "search")
    for text in ("cd ab", "éa"):
        expected = explain(model, text, num_beams=3)
        window.ask(text)
        assert window.text("dd .output") == (expected.translation or "(empty)")
        assert text in window.text("dl.answer")
        assert len(window.all("[data-node]", "each")) == len(expected.search.beam.nodes)
        assert window.checks()[1] == 0
    window.panel("alignment")
    assert window.all("[data-evidence]", "each.dataset.evidence") == ["attention", "occlusion"]


def test_an_answer_that_the_limit_cut_off_is_marked(window: Any, case: Any) -> None:
    for limit, marks in ((2, [" cut off at 2 tokens"]), (None, [])):
        window.open(explain(case.model, case.text, num_beams=3, max_new_tokens=limit))
        assert window.all("dl.answer dd small.wrong", "each.textContent") == marks


@pytest.mark.medium
def test_a_text_or_a_beam_width_that_the_model_does_not_take_is_refused_and_unknown_characters_are_said(
    window: Any, trace: Trace
) -> None:
    window.open(trace)
    for text, words in ((" ", "the text is empty"), ("a" * 1999, "longer than the model takes")):
        window.page.fill("[name=text]", text)
        window.press("ask")
        window.page.wait_for_selector(f"#ask .wrong:has-text('{words}')")
        assert trace.text in window.text("dl.answer")
    assert "unknown" not in window.text("dl.answer")
    window.page.fill("[name=text]", "a9😀")
    for beams in ("", "99"):
        window.page.fill("[name=beams]", beams)
        window.press("ask")
        assert window.run("return document.querySelector('[name=beams]').validationMessage")  # shown by the browser
        window.run("document.querySelector('#ask form').noValidate = true")
        window.press("ask")
        window.page.wait_for_selector("#ask .wrong:has-text('the beam width is a whole number from 1 to 20')")
        assert trace.text in window.text("dl.answer")
        window.run("document.querySelector('#ask form').noValidate = false")
    window.page.fill("[name=beams]", "3")
    window.press("ask")
    window.page.wait_for_selector("dl.answer:has-text('2 unknown tokens, read as <unk>')")


@pytest.mark.medium
def test_a_typed_text_can_be_edited_as_the_first_one(window: Any, case: Any, trace: Trace) -> None:
    """The answers of the edited model, also where an edit changes weights."""
    window.open(trace, "whatif")
    window.ask("gfab")
    answers = set()
    for words in ("head decoder.1.cross 1 off", "attention encoder.0.self off", "layer decoder.1 off"):
        window.press(f"toggle-{words}")
        window.page.wait_for_selector(f".edited .pill:has-text('{words}')")
        window.settle()
        expected = explain(case.model, "gfab", edits=[words], num_beams=3).translation
        assert window.text("dd .output") == (expected or "(empty)"), words
        answers.add(expected)
        window.press(f"edit-{words}")
        window.settle()
    assert len(answers) > 1


# What if


@pytest.mark.medium
def test_the_card_has_the_answers_of_the_command_line_and_each_edit_is_removed_by_itself(
    window: Any, case: Any, trace: Trace
) -> None:
    edits = ["positions off", "head decoder.1.cross 1 off"]
    expected = explain(case.model, case.text, edits=edits, num_beams=3)
    assert expected.difference is not None
    window.open(trace)
    for panel, key in (("whatif", f"toggle-{edits[0]}"), ("heads", edits[1])):
        window.panel(panel)
        window.press(key)
        window.settle()
    window.panel("whatif")
    beam, greedy = expected.difference.beam, expected.difference.greedy
    assert window.run("return document.querySelector('.effect .lines').checkVisibility({ opacityProperty: true })")
    for side, answer in (("before", beam.before), ("after", beam.after)):
        assert window.text(f"[data-side='{side}'] .token") == (answer.text.replace(" ", "␣") or "(empty)")
    verdict, command = window.text(".verdict"), window.page.get_attribute("[data-key='copy-command']", "title")
    for step in (beam.first_changed_step, greedy.first_changed_step):
        assert ("the same" if step is None else f"from step {step} on") in verdict
    assert all(f"--edit '{words}'" in command for words in edits)
    assert window.checks()[1] == 0
    window.panel("tokens")
    window.press(f"edit-{edits[0]}")
    window.settle()
    assert window.all(".edited .pill", "each.innerText.replace(' ✕', '')") == [edits[1]]
    single = explain(case.model, case.text, edits=edits[1:], num_beams=3)
    assert window.text("dd .output") == (single.translation or "(empty)")
    window.press("edit-none")
    window.settle()
    assert window.page.locator(".edited").count() == 0


@pytest.mark.medium
def test_before_after_and_difference_are_those_of_the_tensors(window: Any, case: Any, trace: Trace) -> None:
    edited = explain(case.model, case.text, edits=["positions off"], num_beams=3)
    name, cell = "encoder.1.self.output", "td[data-cell='2,3']"
    window.open(trace, "attention")
    window.page.select_option("[data-key='attention']", "encoder.1.self")
    before, after = (float(one.array(name)[2, 3]) for one in (trace, edited))
    window.page.goto(f"{window.report}#attention?part=encoder.1.self&rows=all&edit=positions+off")
    window.page.wait_for_selector("[data-side='after']")
    for kind, number in (("before", before), ("after", after), ("difference", after - before)):
        window.press(f"compare-{kind}")
        shown = window.text(f"[data-stage='{name}'] {cell}").replace("−", "-")
        assert float(shown) == pytest.approx(number, abs=6e-4), kind
    assert "after − before" in window.text(f"[data-stage='{name}'] h2")
    longer, last = f"{trace.text}{trace.text}", 2 * len(trace.text)  # a cell that the text before does not have
    window.page.goto(f"{window.report}#tokens?edit=text+{longer}&cell=source.embedded@{last},1")
    window.page.wait_for_selector("output.value")
    window.page.evaluate("document.querySelector(\"[data-key='compare-before']\").click()")
    assert window.page.locator("output.value").count() == 0
    assert "7 × 8" in window.text("#inspector")


def test_after_the_edit_of_a_token_the_header_has_the_new_source_and_does_not_judge_the_gold(
    window: Any, trace: Trace
) -> None:
    window.open(trace)
    window.page.fill("[data-key='token-1']", "g")
    window.page.keyboard.press("Tab")
    window.settle()
    assert window.text(".source-edited") == f"g{trace.text[1:]}"
    assert window.text(".source-edited mark") == "g"
    answer = window.text("dl.answer")
    assert "target, of the text before the edit" in answer
    assert "different" not in answer


def test_the_answer_stays_in_sight_in_every_panel_and_width(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    for width in (1440, 390):
        window.page.set_viewport_size({"width": width, "height": 800})
        window.page.evaluate("scrollTo(0, 1200)")
        window.page.wait_for_timeout(100)
        box = window.page.locator("#header").bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 60, width
        assert box["height"] < 90


# The map


@pytest.mark.medium
def test_exactly_one_block_of_the_map_is_lit_and_it_is_that_of_the_panel(window: Any, trace: Trace) -> None:
    window.open(trace)
    lit = {}
    for name in window.panels:
        window.panel(name)
        lit[name] = window.all("#map [aria-current]", "each.dataset.flow")
    assert lit["attention"] == ["band-decoder.1.cross"]
    assert lit["tokens"] == ["tokens-source"]
    assert lit["embedding"] == ["embedding-source"]
    assert lit["logits"] == ["logits"]
    assert lit["search"] == ["output"]
    assert lit["heads"] == lit["space"] == lit["training"] == lit["errors"] == lit["whatif"] == []
    assert all(len(blocks) <= 1 for blocks in lit.values())
    for key in window.all("#map [data-flow]", "each.dataset.flow"):
        window.run(PRESS, f"#map [data-flow='{key}']")
        assert len(window.all("#map [aria-current]", "each.dataset.flow")) == 1, key


def test_the_map_has_the_data_of_the_selected_row(window: Any, trace: Trace) -> None:
    window.open(trace, "logits")
    window.press("row-1")
    _, text, probability = trace.predictions["logits"][1].top[0]
    block = "".join(window.all("#map .odds text", "each.textContent"))
    assert text.replace(" ", "␣") in block
    assert f"{probability * 100:.1f}\u00a0%" in block
    assert window.all("#map .out.here", "each.dataset.step") == ["1"]
    tokens = window.all("#map .token[data-source] text", "each.textContent")
    assert tokens == [token.text for token in trace.tokens.source]


# Keys


@pytest.mark.medium
def test_the_shortcuts_are_listed_and_work_where_the_focus_is(window: Any, trace: Trace) -> None:
    window.open(trace, "tokens")
    keyboard = window.page.keyboard
    keyboard.press("?")
    assert "Keyboard shortcuts" in window.text("dialog")
    keyboard.press("Escape")
    window.page.wait_for_selector("dialog", state="detached")
    keyboard.press("]")
    assert window.text("h1") == "Embedding and position"
    keyboard.press("m")
    assert window.run("return document.activeElement.matches('td[data-cell]')")
    window.page.evaluate("document.activeElement.blur()")
    keyboard.press(".")
    assert window.page.get_attribute("[data-key='row-1']", "aria-current") == "step"
    keyboard.press("f")
    assert window.page.get_attribute("[data-key='depth-formula']", "aria-pressed") == "true"
    keyboard.press("e")
    keyboard.type("?]")  # a text is typed, and does nothing else
    assert window.page.locator("dialog").count() == 0
    assert window.page.input_value("[name=text]") == "?]"
    current = "return document.querySelector(given).dataset.key"
    focused = "return document.activeElement.dataset.key ?? document.activeElement.dataset.cell"
    window.panel("embedding")
    keyboard.press("m")
    keyboard.press(".")
    keyboard.press("w")
    assert window.run(current, "#steps [aria-current]") == "row-2"
    assert window.page.get_attribute("[data-key='depth-words']", "aria-pressed") == "true"
    assert window.run(focused) == "0,0"  # of the matrix
    window.page.focus("[type=range]")
    keyboard.press("]")
    assert window.run(current, "#tabs [aria-current]") == "tab-qkv"
    window.press("row-2")
    keyboard.press("ArrowRight")
    keyboard.press("ArrowRight")
    keyboard.press("ArrowLeft")
    assert window.run(current, "#steps [aria-current]") == window.run(focused) == "row-3"
    window.press("tab-story")
    keyboard.press("ArrowRight")
    assert window.run(current, "#tabs [aria-current]") == window.run(focused) == "tab-tokens"


def test_the_first_number_is_near_for_the_keyboard(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    presses = 0
    while not window.run("return document.activeElement.matches('td[data-cell]')"):
        window.page.keyboard.press("Tab")
        if presses == 0:
            window.page.keyboard.press("Enter")  # “Skip to the panel”
        presses += 1
        assert presses < 40
    assert presses <= 11  # it was 72
    for key in ("ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowDown"):  # over the headings
        window.page.keyboard.press(key)
    assert window.run("return document.activeElement.dataset.key") == "decoder.1.cross.scores-0-1"
    assert window.page.locator("#inspector .value").is_visible()
    window.page.keyboard.press("Enter")
    assert window.page.get_attribute("[data-key='row-1']", "aria-current") == "step"
    assert window.run("return document.activeElement.dataset.key") == "decoder.1.cross.scores-0-1"


@pytest.mark.medium
def test_a_step_or_the_theme_does_not_scroll_the_page(window: Any, trace: Trace) -> None:
    window.page.set_viewport_size({"width": 390, "height": 700})
    window.open(trace, "attention")
    window.run("scrollTo(0, 500)")
    for key in (".", ".", ",", "d", "d"):
        window.page.keyboard.press(key)
        assert window.run("return scrollY") == 500, key
    box = window.page.locator("[data-key='row-2']").bounding_box()
    window.page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert window.page.get_attribute("[data-key='row-2']", "aria-current") == "step"
    assert window.run("return scrollY") == 500
    for name in ("errors", "story"):  # the tabs are scrolled to the current one
        window.panel(name)
        tab, tabs = (window.page.locator(each).bounding_box() for each in (".tab[aria-current]", "#tabs"))
        assert tabs["x"] - 1 <= tab["x"] <= tab["x"] + tab["width"] <= tabs["x"] + tabs["width"] + 1


# A model with several inputs


def test_another_symbol_gives_what_the_command_line_gives(window: Any) -> None:
    plain, side = make_model(5), SideSettings(kind="characters")
    letters = ["".join(one.vocabulary.ordinary) for one in (plain.source_tokenizer, plain.target_tokenizer)]
    pairs = [(compose([letters[0], "V;PST;PRS"]), letters[1])]
    tokens = TokenSettings(shared=False, source=side, target=side)
    model = grow_model(plain, *learn_both(pairs, tokens, inputs_of(["text"], ["beams"])))
    text = {"text": "abc", "beams": "V;PST"}  # named as other fields of the form are
    trace = explain(model, text, weights=True, num_beams=3)
    window.open(trace, "tokens")
    assert "abc · beams: V;PST" in window.text("dl.answer")
    chips = window.page.locator(".chip").all_inner_texts()
    assert [chip.split("\n")[-1] for chip in chips[1:-1]] == ["text"] * 3 + ["beams"] * 2
    assert window.page.input_value("[data-key='token-5']") == "<beams=PST>"
    window.page.fill("[data-key='token-5']", "<beams=PRS>")
    window.page.keyboard.press("Tab")
    window.settle()
    expected = explain(model, text, edits=["token 5=<beams=PRS>"], num_beams=3)
    assert expected.difference is not None
    after = window.text("[data-side='after'] .token")
    assert after == expected.difference.beam.after.text.translate(str.maketrans(" ", "␣"))
    assert window.checks()[1] == 0
    window.press("edit-none")
    other = {"text": "cab", "beams": "PRS;V"}
    for name, cell in other.items():
        window.page.get_by_label(name, exact=True).first.fill(cell)
    window.press("ask")
    window.page.wait_for_selector("dd:has-text('cab')")
    expected = explain(model, other, num_beams=3)
    assert window.text("dl.answer .output") == expected.translation.translate(str.maketrans(" ", "␣"))
    shown = [text for text in window.all(".chip .id", "each.textContent") if text.startswith("id ")]
    assert shown == [f"id {token.id}" for token in expected.tokens.source]
