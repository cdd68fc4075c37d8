"""The page of a model with several inputs: the input of each token, another symbol as an edit, another source."""

from __future__ import annotations

from typing import Any

from glassformer.before.grow import grow_model
from glassformer.glassbox.trace import explain
from glassformer.paper.settings import SideSettings, TokenSettings
from glassformer.text import learn_both
from glassformer.text.inputs import compose, inputs_of
from tests.glassbox.conftest import make_model

TEXT = {"text": "abc", "beams": "V;PST"}  # named as other fields of the form are


def test_another_symbol_gives_what_the_command_line_gives(window: Any) -> None:
    plain, side = make_model(5), SideSettings(kind="characters")
    letters = ["".join(one.vocabulary.ordinary) for one in (plain.source_tokenizer, plain.target_tokenizer)]
    pairs = [(compose([letters[0], "V;PST;PRS"]), letters[1])]
    tokens = TokenSettings(shared=False, source=side, target=side)
    model = grow_model(plain, *learn_both(pairs, tokens, inputs_of(["text"], ["beams"])))
    trace = explain(model, TEXT, weights=True, num_beams=3)
    window.open(trace, "tokens")
    assert "abc · beams: V;PST" in window.text("dl.answer")
    chips = window.page.locator(".chip").all_inner_texts()
    assert [chip.split("\n")[-1] for chip in chips[1:-1]] == ["text"] * 3 + ["beams"] * 2
    assert window.page.input_value("[data-key='token-5']") == "<beams=PST>"
    window.page.fill("[data-key='token-5']", "<beams=PRS>")
    window.page.keyboard.press("Tab")
    window.settle()
    expected = explain(model, TEXT, edits=["token 5=<beams=PRS>"], num_beams=3)
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
