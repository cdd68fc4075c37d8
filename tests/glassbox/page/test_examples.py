"""The worked examples: what the page computes from numbers that the reader changes is what Python computes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.glassbox.schema import Trace
from glassformer.paper import reference
from glassformer.paper.search import LogProbs, SearchConstraints, beam_search

pytestmark = pytest.mark.browser

KEYS = np.array([[1.0, 1, 1], [1, 1, 0], [0, 0, 1]])
MINUTES = np.array([195.0, 124, 138])


def fill(window: Any, numbers: dict[str, float | str]) -> None:
    for name, number in numbers.items():
        window.page.fill(f"[data-field='{name}']", str(number))


def fields(prefix: str, numbers: np.ndarray) -> dict[str, float]:
    return {"-".join((prefix, *map(str, index))): float(number) for index, number in np.ndenumerate(numbers)}


def figures(window: Any, name: str) -> list[float]:
    found: list[float] = window.all(f"#panel [data-{name}]", f"Number(each.dataset.{name})")
    return found


def finding(window: Any) -> str:
    return str(window.text(".finding >> nth=-1"))


@pytest.fixture
def opened(window: Any, trace: Trace) -> Any:
    """A function that opens an example."""

    def show(example: str) -> Any:
        window.open(trace, "examples")
        window.press(f"example-{example}")
        return window

    return show


def check_lookup(window: Any, query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    found = reference.attention(query[None], keys, values[:, None])
    assert figures(window, "scores") == pytest.approx((keys @ query).tolist())
    assert figures(window, "scaled") == pytest.approx((keys @ query / np.sqrt(3)).tolist())
    assert figures(window, "weights") == pytest.approx(found.weights[0].tolist(), abs=1e-12)
    assert figures(window, "answer") == pytest.approx(found.output.ravel().tolist())


def test_the_lookup_has_the_numbers_of_lesson_1_and_follows_every_edit(opened: Any) -> None:
    window = opened("lookup")
    check_lookup(window, np.array([1.0, 0, 1]), KEYS, MINUTES)
    assert "47.1\u00a0%, is that of Titanic. The answer is 161.15 minutes" in finding(window)
    assert "1 · 1 + 0 · 1 + 1 · 1 = 2" in window.text("[data-scores] >> nth=0")
    rng = np.random.default_rng(1)
    query, keys, values = (rng.normal(0, 2, shape).round(3) for shape in (3, (3, 3), 3))
    fill(window, fields("query", query) | fields("key", keys) | fields("value", values))
    check_lookup(window, query, keys, values)
    window.press("preset-numbers of lesson 1")
    window.press("preset-nothing")
    check_lookup(window, np.zeros(3), KEYS, MINUTES)
    assert "All keys have the same weight" in finding(window)
    fill(window, {"query-0": 1000, "key-0-0": 1000})
    assert figures(window, "weights") == [1, 0, 0]


def test_the_lookup_without_the_scale_has_weights_that_differ_more(opened: Any) -> None:
    window = opened("lookup")
    window.press("scale-false")
    powers = np.exp(KEYS @ [1, 0, 1])
    assert figures(window, "weights") == pytest.approx((powers / powers.sum()).tolist())
    assert figures(window, "scaled") == []


def test_a_field_that_is_not_a_number_is_named_and_nothing_is_computed(opened: Any) -> None:
    window = opened("lookup")
    for text, words in (
        ("much", "“much” is not a number"),
        ("", "the field is empty"),
        ("0,5", "“0,5” is not a number; write 0.5"),
        ("1e3", "“1e3” is not a number"),
        ("-1001", "-1001 is not between -1000 and 1000"),
    ):
        fill(window, {"query-0": text})
        assert window.text("[data-result]").split() == f"The result is not computed. query, love: {words}".split()
        assert window.page.get_attribute("[data-field='query-0']", "aria-invalid") == "true"
    fill(window, {"query-0": "−.5"})
    assert window.page.get_attribute("[data-field='query-0']", "aria-invalid") is None
    check_lookup(window, np.array([-0.5, 0, 1]), KEYS, MINUTES)


def test_the_keyboard_alone_edits_an_example_and_the_numbers_are_kept(opened: Any) -> None:
    window = opened("lookup")
    for _ in range(300):
        window.page.keyboard.press("Tab")
        if window.run("return document.activeElement.dataset.field") == "query-0":
            break
    window.page.keyboard.press("Control+A")
    window.page.keyboard.type("2.5")
    assert window.run("return document.activeElement.dataset.field") == "query-0"
    check_lookup(window, np.array([2.5, 0, 1]), KEYS, MINUTES)
    window.panel("logits")
    window.page.go_back()
    window.page.wait_for_selector("h1:has-text('Worked examples')")
    check_lookup(window, np.array([2.5, 0, 1]), KEYS, MINUTES)


@dataclass
class Histories:
    """All tokens of each hypothesis."""

    paths: list[str]

    def select(self, rows: NDArray[np.int64]) -> Histories:
        return Histories([self.paths[row] for row in rows.flatten().tolist()])


def searched(given: dict[str, float], width: int, length: int) -> tuple[str, float]:
    """The answer of the search that translates, on a table of probabilities."""

    def step(last: NDArray[np.int64], state: Histories) -> tuple[LogProbs, Histories]:
        paths = [path + " AB "[token].strip() for path, token in zip(state.paths, last[0].tolist(), strict=True)]
        rows = [[0, *(given.get(path + token, 0) for token in "AB"), float(len(path) == length)] for path in paths]
        with np.errstate(divide="ignore"):
            return LogProbs(np.log([rows])), Histories(paths)

    constraints = SearchConstraints(bos_id=0, eos_id=3, forbidden=(0,), max_new_tokens=length + 1)
    (found,) = beam_search(step, Histories([""]), 1, constraints, num_beams=width, n_best=1)[0]
    return "".join(" AB"[token] for token in found.ids), float(np.exp(found.score))


def answers(window: Any) -> list[tuple[str, float]]:
    found = window.all("tr[data-search]", "[each.dataset.answer, Number(each.dataset.p)]")
    return [(path, p) for path, p in found]


def test_greedy_search_loses_on_the_garden_path_of_lesson_7(opened: Any) -> None:
    window = opened("search")
    assert answers(window) == [("AA", 0.3), ("BA", pytest.approx(0.36)), ("BA", pytest.approx(0.36))]
    assert "Greedy search finds AA with 0.30, beam search of width 2 finds BA with 0.36" in finding(window)
    assert "at step 0 it kept A with 0.60 and pruned B with 0.40" in finding(window)
    boxes = dict(window.all("[data-path]", "[each.dataset.path, each.className + ', ' + each.dataset.state]"))
    assert boxes["AA"] == "choice kept greedy, kept, rank 2"
    assert boxes["BA"] == "choice kept beam, kept, rank 1"
    assert boxes["AB"] == "choice pruned, pruned, rank 3"
    fill(window, {"BA": 0.7})
    assert window.page.input_value("[data-field='BB']") == "0.3"
    assert answers(window)[1] == ("AA", 0.3)
    assert "No answer is more probable than that of beam search." in finding(window)
    window.press("beam width-1")
    assert answers(window)[0] == answers(window)[1]


def drawn(rng: random.Random, before: list[str]) -> dict[str, float]:
    """A probability of each token after each path."""
    given = {}
    for path in before:
        p = round(rng.choice((rng.uniform(0.05, 0.48), rng.uniform(0.52, 0.95))), 3)  # equal candidates have no order
        given |= {f"{path}A": p, f"{path}B": round(1 - p, 3)}
    return given


@pytest.mark.parametrize("length", [2, 3])
def test_both_searches_are_those_that_translate(opened: Any, length: int) -> None:
    window = opened("search")
    window.press(f"tokens of an answer-{length}")
    rng = random.Random(length)
    before = ["".join(path) for n in range(length) for path in product("AB", repeat=n)]
    for width in (1, 2, 3, 4):
        window.press(f"beam width-{width}")
        given = drawn(rng, before)
        while 1 < width <= length and searched(given, width, length)[1] < (
            searched(given, width - 1, length)[1] + 1e-4
        ):
            given = drawn(rng, before)  # numbers for which the width matters
        typed = {path + token: given[path + token] for path in before for token in rng.choice("AB")}
        fill(window, typed)
        shown = dict(window.all("[data-field]", "[each.dataset.field, Number(each.value)]"))
        assert shown == pytest.approx(given)
        leaves = {
            "".join(path): float(np.prod([given["".join(path[: i + 1])] for i in range(length)]))
            for path in product("AB", repeat=length)
        }
        best = max(leaves, key=lambda path: leaves[path])
        greedy, beam, found = answers(window)
        for answer, expected in ((greedy, searched(given, 1, length)), (beam, searched(given, width, length))):
            assert answer == (expected[0], pytest.approx(expected[1], rel=1e-5))
        assert found == (best, pytest.approx(leaves[best]))
        assert ("Greedy search loses" in finding(window)) == (greedy[1] < beam[1])
        assert ("Beam search misses" in finding(window)) == (beam[1] < found[1])


def test_with_three_tokens_a_beam_of_two_misses_the_best_answer_and_a_beam_of_three_finds_it(opened: Any) -> None:
    window = opened("search")
    window.press("tokens of an answer-3")
    assert [path for path, _ in answers(window)] == ["AAA", "ABA", "BBA"]
    assert "at step 1 it kept AB with 0.27 and pruned BB with 0.24" in finding(window)
    window.press("beam width-3")
    assert [path for path, _ in answers(window)] == ["AAA", "BBA", "BBA"]
    fill(window, {"BBA": "1.5"})
    assert "probability of A after BB: 1.5 is not between 0 and 1" in window.text("[data-result]")
    assert window.page.input_value("[data-field='BBB']") == "0.05"
    assert set(window.all("[data-path]", "each.className + each.querySelector('small').textContent")) == {"choice"}


def test_padding_has_the_weight_0_with_the_mask(opened: Any) -> None:
    window = opened("padding")
    pads = window.all(".batch tbody tr", "[...each.querySelectorAll('[data-pad]')].map((one) => one.dataset.pad)")
    lengths = [7, 3, 5]
    assert pads == [["false"] * n + ["true"] * (7 - n) for n in lengths]
    assert "6 of 21 positions are padding (28.6\u00a0%)" in window.text(".finding >> nth=0")
    scores = np.array([2, 1, 0.5, 1.5, 0, 1, 0.5])
    for row, n in enumerate(lengths):
        window.page.select_option("[data-key='padding-text']", str(row))
        powers, visible = np.exp(scores), np.arange(7) < n
        expected = np.where(visible, powers, 0) / powers[visible].sum()
        assert figures(window, "weight") == pytest.approx(expected.tolist(), abs=1e-12)
        assert figures(window, "without") == pytest.approx((powers / powers.sum()).tolist())
    fill(window, {"score-6": 3})
    assert figures(window, "weight")[5:] == [0, 0]
    fill(window, {"score-0": "-"})
    assert set(window.all("[data-weight]", "each.textContent")) == {""}
    assert "score of position 0: “-” is not a number" in window.text("[data-result]")
    fill(window, {"score-0": 2})
    lost = np.exp([1, 3]).sum() / np.exp([2, 1, 0.5, 1.5, 0, 1, 3]).sum()
    assert f"Without it, padding has {lost:.1%}".replace("%", "\u00a0%") in finding(window)


def test_another_text_changes_the_padding_of_the_batch(opened: Any) -> None:
    window = opened("padding")
    window.page.fill("[data-key='text-0']", "one word")
    assert len(window.all(".batch thead th", "1")) == 5
    assert len(figures(window, "weight")) == 5
    assert "3 of 15 positions are padding" in window.text(".finding >> nth=0")
    window.page.fill("[data-key='text-1']", "love love love")
    window.page.fill("[data-key='text-0']", "one two three")
    assert "No position is padding" in window.text(".finding >> nth=0")
    window.page.fill("[data-key='text-2']", "a b c d e f g h i")
    assert window.text("#panel [role=alert]") == "Text 2 has more than 8 words."
    window.page.fill("[data-key='text-2']", "<b>a</b>")
    assert "<b>a</b>" in window.text(".batch")


def normed(window: Any, kind: str, shape: tuple[int, int]) -> np.ndarray:
    return np.array(window.all(f"[data-{kind}]", "Number(each.dataset.number)")).reshape(shape)


def check_norms(window: Any, x: np.ndarray) -> None:
    tensor = torch.from_numpy(x)
    layer = torch.nn.functional.layer_norm(tensor, (4,)).numpy()
    batch = torch.nn.functional.batch_norm(tensor, None, None, training=True).numpy()
    np.testing.assert_allclose(normed(window, "layer", x.shape), layer, atol=1e-9)
    np.testing.assert_allclose(normed(window, "batch", x.shape), batch, atol=1e-9)


def test_layer_norm_is_over_rows_and_batch_norm_over_columns(opened: Any) -> None:
    window = opened("norms")
    x = np.array([[1.0, 2, 3, 4], [0, 0, 10, 10], [5, 1, 5, 1]])
    check_norms(window, x)
    facts = window.page.locator(".by-rows .fact").all_inner_texts()
    assert facts == ["2.5", "1.25", "5", "25", "3", "4"]
    below = window.page.locator(".by-columns tfoot td").all_inner_texts()
    assert below[:4] == ["2", "1", "6", "5"]
    other = np.random.default_rng(2).normal(0, 3, (3, 4)).round(3)
    fill(window, fields("x", other))
    check_norms(window, other)
    fill(window, fields("x", np.full((3, 4), 7.0)))
    assert not normed(window, "layer", (3, 4)).any()


def test_a_padding_token_changes_batch_norm_and_not_layer_norm(opened: Any) -> None:
    window = opened("norms")
    before = normed(window, "layer", (3, 4))[0], normed(window, "batch", (3, 4))[0]
    window.press("norm-padding")
    x = np.array([[1.0, 2, 3, 4], [0, 0, 10, 10], [5, 1, 5, 1], [100, 0, 0, 0]])
    check_norms(window, x)
    after = normed(window, "layer", (4, 4))[0], normed(window, "batch", (4, 4))[0]
    assert (after[0] == before[0]).all()
    largest = np.abs(after[1] - before[1]).max()
    assert re.search(r"by 0 with layer norm, and by up to (\S+) with", finding(window))[1] == f"{largest:.4f}"  # type: ignore[index]
    fill(window, {"x-3-0": "many"})
    assert "padding, feature 0: “many” is not a number" in window.text("[data-result]")
    window.press("norm-padding")
    check_norms(window, x[:3])


def test_an_address_opens_an_example(window: Any, trace: Trace) -> None:
    window.open(trace, "examples?example=norms&v=1")
    assert window.page.get_attribute("[data-key='example-norms']", "aria-pressed") == "true"
    assert window.page.locator(".by-rows").count() == 1
    window.open(trace, "examples?example=other")
    assert "“other” is not a value of “example”" in window.text("#result")
