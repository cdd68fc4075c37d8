"""The beam as a tree: its scale, its read-out, and the hypothesis that a click opens."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.schema import Node, Trace

pytestmark = pytest.mark.browser


def path_of(nodes: list[Node], node: Node) -> list[int]:
    path = [node.id]
    while (parent := nodes[path[0]].parent) is not None:
        path.insert(0, parent)
    return path


def test_the_tree_has_the_nodes_of_the_trace_and_log_probability_goes_downwards(window: Any, trace: Trace) -> None:
    window.open(trace, "search")
    nodes = trace.search.beam.nodes
    drawn = window.all(".node", "[Number(each.dataset.node), each.classList.contains('pruned')]")
    assert drawn == [[node.id, node.state == "pruned"] for node in nodes]
    best = [nodes[number] for number in window.all(".node.best", "Number(each.dataset.node)")]
    assert "".join(node.text for node in best if node.text != "<eos>") == trace.translation
    dots = dict(window.all(".edge", "[each.dataset.edge, Number(each.querySelector('circle').getAttribute('cy'))]"))
    sums = [nodes[int(number)].sum for number in dots]
    places = list(dots.values())
    slope = (max(places) - min(places)) / (max(sums) - min(sums))
    for total, place in zip(sums, places, strict=True):
        assert place == pytest.approx(min(places) + (max(sums) - total) * slope, abs=0.1)
    boxes = window.all(".node", "[Number(each.dataset.node), each.transform.baseVal[0].matrix.f]")
    by_step: dict[int, list[float]] = {}
    for number, top in boxes:
        by_step.setdefault(nodes[number].step, []).append(top)
    for tops in by_step.values():
        ordered = sorted(tops)
        assert all(below - above >= 34 for above, below in pairwise(ordered))


def test_a_node_lights_its_ancestors_has_both_probabilities_and_leads_to_its_neighbors(
    window: Any, trace: Trace
) -> None:
    window.open(trace, "search")
    nodes = trace.search.beam.nodes
    place = "const box = document.querySelector('.tree').getBoundingClientRect(); return [box.top, box.height];"
    before = window.run(place)
    for node in (nodes[1], next(node for node in nodes if node.step == 2 and node.state == "pruned")):
        window.page.focus(f"[data-node='{node.id}']")
        lit = window.all(".node.trail", "Number(each.dataset.node)")
        assert sorted(lit) == sorted(path_of(nodes, node))
        assert node.reason in window.text(".so-far")
        assert window.run(place) == before
    window.page.hover(f"[data-node='{nodes[2].id}']")
    assert window.run(place) == before
    node = next(node for node in nodes if node.step == 1 and node.rank == 1)
    window.page.focus(f"[data-node='{node.id}']")
    facts = dict(
        window.all(".so-far dl div", "[each.querySelector('dt').textContent, each.querySelector('dd').textContent]")
    )
    assert facts["this token, given those before"].startswith(f"{math.exp(node.log_prob) * 100:.1f}\u00a0%")
    assert facts["all tokens so far"].startswith(f"{math.exp(node.sum) * 100:.1f}\u00a0%")
    node = next(node for node in nodes if node.step == 2 and node.rank == 1)
    window.page.focus(f"[data-node='{node.id}']")
    here = "return Number(document.activeElement.dataset.node)"
    window.page.keyboard.press("ArrowDown")
    assert nodes[window.run(here)].rank == 2
    window.page.keyboard.press("ArrowUp")
    window.page.keyboard.press("ArrowLeft")
    assert window.run(here) == node.parent
    assert len(window.all(".node[tabindex='0']", "each.dataset.node")) == 1


IN_SIGHT = """
const rectangle = (selector) => document.querySelector(selector).getBoundingClientRect();
const [box, current] = [given, `${given} [aria-current]`].map(rectangle);
return [current.left - box.left, box.right - current.right, current.top - box.top, box.bottom - current.bottom];
"""


def test_the_tree_and_the_steps_show_the_step_of_the_address(window: Any, trace: Trace) -> None:
    """Also where they are wider than the window."""
    window.page.set_viewport_size({"width": 390, "height": 844})
    nodes = trace.search.beam.nodes
    path = path_of(nodes, nodes[trace.search.beam.answers[0].node])
    window.open(trace, f"search?row={len(path) - 1}")
    for row in (len(path) - 1, 0):
        window.run("document.querySelector(`[data-key='row-${given}']`).click()", row)
        assert window.all(".node[aria-current]", "Number(each.dataset.node)") == [path[row]]
        assert sorted(window.all(".node.trail", "Number(each.dataset.node)")) == sorted(path[: row + 1])
        assert f"step {row}:" in window.text(".so-far")
        for box in ("#panel .tree", "#steps .track"):
            assert window.run(
                "const box = document.querySelector(given); return box.scrollWidth > box.clientWidth", box
            )
            assert min(window.run(IN_SIGHT, box)) > -1, (box, row)


def test_a_click_opens_that_hypothesis_and_not_the_answer(window: Any, trace: Trace) -> None:
    window.open(trace, "search")
    nodes = trace.search.beam.nodes
    best = [token.id for token in trace.tokens.target_out]
    eos = trace.vocabularies["target"].specials["eos"]
    node = next(
        node for node in nodes if node.step == 1 and node.state == "pruned" and node.token not in (eos, best[1])
    )
    ids = [nodes[number].token for number in path_of(nodes, node)]
    window.page.focus(f"[data-node='{node.id}']")
    window.page.keyboard.press("Enter")
    window.page.wait_for_selector("h1:has-text('Logits')")
    window.settle()
    labels = trace.axes[trace.vocabularies["target"].axis].labels
    shown = window.all("#steps .step bdi", "each.textContent")
    assert shown[: len(ids)] == [labels[token].replace(" ", "␣") for token in ids]
    assert window.page.get_attribute("#steps [aria-current]", "data-row") == str(node.step)
    assert window.page.locator("[data-token] small", has_text="output token").count() == 1
    chosen = window.page.locator("[data-token]", has=window.page.locator("small", has_text="output token"))
    assert chosen.get_attribute("data-token") == str(node.token)


def test_without_weights_the_read_out_says_why_nothing_opens(window: Any, trace: Trace) -> None:
    window.open(without_weights(trace), "search")
    node = next(node for node in trace.search.beam.nodes if node.state == "pruned")
    window.page.focus(f"[data-node='{node.id}']")
    assert "has no weights" in window.text(".so-far")
    window.page.keyboard.press("Enter")
    assert window.text("h1") == "Search"
