"""The page of a model whose tensors are left out of the file, and of a model of MarianMT's kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glassformer.glassbox import report
from glassformer.glassbox.report import without_derived, without_logits, without_weights
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.storage.modelfile import ModelFile
from tests.export.conftest import make_model

pytestmark = pytest.mark.browser

ALL_NUMBERS = """const { Trace } = await import('glassbox/model/trace.js');
const trace = new Trace(JSON.parse(document.getElementById('trace').textContent));
return Object.fromEntries(trace.steps.filter((step) => trace.has(step.output)).map((step) =>
    [step.output, Array.from(trace.get(step.output).numbers)]));"""


def test_the_page_computes_what_is_left_out_of_the_file(
    window: Any, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "SMALL", 0)
    window.open(without_derived(without_weights(trace)))
    found = window.run(ALL_NUMBERS)
    assert found.keys() == {step.output for step in trace.steps}
    for name, numbers in found.items():
        np.testing.assert_allclose(numbers, trace.array(name).ravel(), rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.medium
def test_every_panel_is_drawn_without_logits(window: Any, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SMALL", 0)
    window.open(without_logits(without_derived(without_weights(trace))))
    assert "%" in window.text("[aria-label='target']")
    for name in window.panels:
        window.panel(name)
        assert window.text("#panel h1")
    window.panel("logits")
    assert "no logits of all tokens" in window.text("#panel")
    assert window.page.locator(".bars li").count() == 10


@pytest.fixture(scope="module")
def imported() -> ModelFile:
    return make_model(kind="sentencepiece")


def test_a_model_of_marian_is_recomputed_and_edited_in_the_page(window: Any, imported: ModelFile) -> None:
    text = "abc the 漢"
    n_tokens = len(imported.source_tokenizer.frame(imported.source_tokenizer.encode(text)))
    options: dict[str, Any] = {"num_beams": 2, "max_new_tokens": 5, "pad_to": n_tokens + 1, "target": "the cat"}
    whole = explain(imported, text, weights=True, **options)
    assert whole.passed
    assert [token.kind for token in whole.tokens.source][-2:] == ["eos", "pad"]
    assert whole.tokens.source[0].kind == "ordinary"
    assert (whole.tokens.target_in[0].kind, whole.tokens.target_in[0].text) == ("bos", "<pad>")
    window.open(whole)
    right, wrong, steps = window.checks()
    assert (wrong, right) == (0, steps)
    edit = f"token 0={imported.source_tokenizer.tokens([5])[0]}"
    expected = explain(imported, text, edits=[edit], **options)
    found = window.run(
        """const { Trace } = await import('glassbox/model/trace.js');
        const { whatIf } = await import('glassbox/model/whatif.js');
        const trace = whatIf(new Trace(JSON.parse(document.getElementById('trace').textContent)), [given]);
        return [trace.translation, trace.search.beam.answers[0].score, Array.from(trace.get('logits').numbers)];""",
        edit,
    )
    assert found[0] == expected.translation
    assert found[1] == pytest.approx(expected.search.beam.answers[0].score, abs=1e-4)
    np.testing.assert_allclose(found[2], expected.array("logits").ravel(), rtol=1e-4, atol=1e-3)


def test_the_first_and_the_last_source_token_of_marian_can_be_edited_but_not_the_end(imported: ModelFile) -> None:
    from glassformer.errors import UsageError

    piece = imported.source_tokenizer.tokens([5])[0]
    options: dict[str, Any] = {"num_beams": 1, "max_new_tokens": 3}
    trace = explain(imported, "abc", edits=[f"token 0={piece}"], **options)
    assert trace.tokens.source[0].id == 5
    length = len(trace.tokens.source)
    with pytest.raises(UsageError, match=f"no source token {length - 1}") as caught:
        explain(imported, "abc", edits=[f"token {length - 1}={piece}"], **options)
    assert caught.value.expected == f"0 to {length - 2}; <eos> stay"
