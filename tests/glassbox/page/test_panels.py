"""What the page shows, and where a click leads."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_model

pytestmark = pytest.mark.browser


def test_rows_and_columns_have_their_own_labels_where_lengths_differ(window: Any, trace: Trace) -> None:
    source, inputs, outputs = (
        [token.text for token in tokens]
        for tokens in (trace.tokens.source, trace.tokens.target_in, trace.tokens.target_out)
    )
    assert len(source) != len(inputs)
    window.open(trace, "attention")
    grid = "[data-stage='decoder.1.cross.weights']"
    across = window.page.locator(f"{grid} thead th bdi").all_inner_texts()
    down = window.page.locator(f"{grid} tbody th bdi").all_inner_texts()
    seen = str.maketrans(" ", "␣")
    assert across == [token.translate(seen) for token in source]
    assert down == [
        f"{one.translate(seen)} → {other.translate(seen)}" for one, other in zip(inputs, outputs, strict=True)
    ]


def test_the_terms_of_a_cell_add_up_to_it(window: Any, trace: Trace) -> None:
    window.open(trace)
    rng = random.Random(1)
    for step in trace.steps:
        if step.output.startswith("gold.") and step.op not in ("smooth_targets", "cross_entropy"):
            continue
        index = [rng.randrange(length) for length in trace.array(step.output).shape]
        found = window.run(
            """const { Trace } = await import('glassbox/model/trace.js');
            const { termsOf } = await import('glassbox/views/terms.js');
            globalThis.kept ??= new Trace(JSON.parse(document.getElementById('trace').textContent));
            return termsOf(kept, kept.stepOf.get(given.name), given.index);""",
            {"name": step.output, "index": index},
        )
        number = float(trace.array(step.output)[tuple(index)])
        last = found["rows"][0]["cells"][-1] if found["sum"] is None else found["sum"]
        shown = found["after"][-1][1] if found["after"] else last
        assert shown == pytest.approx(number, rel=1e-5, abs=1e-5), step.output
        if found["sum"] is not None:
            assert sum(row["cells"][-1] for row in found["rows"]) == pytest.approx(found["sum"], abs=1e-9)


def test_a_subword_is_forced_by_a_click(window: Any) -> None:
    words = ["red green blue", "green grey"] * 3
    model = make_model(5, "subwords", texts=(words, words), side={"vocabulary_size": 30})
    window.open(explain(model, "red grey", weights=True, num_beams=3), "logits")
    keys = window.all("[data-key^='force-']", "each.dataset.key")
    window.press(keys[1])
    window.settle()
    assert "--edit 'prefix " in str(window.page.get_attribute("[data-key='copy-command']", "title"))


def test_the_mistakes_lab_shows_what_reveals_a_mistake(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    window.press("view-mistakes")
    sign = "querySelector('[data-right]').dataset.right"
    sums = window.all("[data-sum]", f"[Number(each.dataset.sum), each.{sign}]")
    assert sums[:4] == [[pytest.approx(1), "true"]] * 4
    assert [round(total, 4) for total, _ in sums[4:]] == [1, 4.5441, 7.3680, 5.7009]
    assert [right for _, right in sums[4:]] == ["true", "false", "false", "false"]
    signs = "[...each.querySelectorAll('[data-right]')].map((sign) => sign.dataset.right)"
    labs = window.all("[data-mistake]", signs)
    assert len(labs) == 6
    assert all("true" in lab and "false" in lab for lab in labs)
    weights = window.all("[data-mistake^='wrong index'] tbody td", "each.innerText")
    right = np.exp([2, 1, 0]) / np.exp([2, 1, 0]).sum()
    assert [float(weight) for weight in weights[:3]] == [pytest.approx(weight, abs=1e-4) for weight in right]
    assert weights[3:] == ["✓ 7.3891", "0.3333", "0.3333", "0.3333", "✗ 1.0000"]


def test_what_a_trace_leaves_out_is_said_where_it_would_be(window: Any, trace: Trace) -> None:
    for notices in ([], ["the history was left out"]):
        window.open(replace(trace, notices=notices), "training")
        for panel in ("training", "errors"):
            window.panel(panel)
            assert window.all("#panel .wrong", "each.innerText") == notices
