"""The embedding map: neighbors and analogies as Python finds them, labels that are whole, rows through the training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer import analogy, neighbors
from glassformer.glassbox.run_records import CheckpointAnswer, EmbeddingHistory, Training
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.ship.storage.modelfile import ModelFile
from tests.glassbox.conftest import make_model

pytestmark = pytest.mark.browser

WORDS = ["hello, my friend the ship sails tonight.", "morning evening good where is captain", "hello, captain"]


@pytest.fixture(scope="module")
def model() -> ModelFile:
    return make_model(5, "words", texts=(WORDS, ["hallo, mijn vriend", "het schip vaart"]))


@pytest.fixture(scope="module")
def words(model: ModelFile) -> Trace:
    return explain(model, "hello, my captain", weights=True, num_beams=2)


def ordinary(model: ModelFile, side: str) -> list[str]:
    """The tokens in the order of the page's lists."""
    return [*(model.source_tokenizer if side == "source" else model.target_tokenizer).vocabulary.ordinary]


def lines(window: Any, section: str) -> list[tuple[str, float]]:
    rows = window.page.locator(f"[aria-label='{section}'] tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return [(token, float(cosine.replace("−", "-"))) for token, cosine, _ in cells]


@pytest.mark.parametrize("side", ["source", "target"])
def test_neighbors_and_analogies_are_those_of_python(window: Any, model: ModelFile, words: Trace, side: Any) -> None:
    window.open(words, "space")
    window.press(f"vocabulary-{side}")
    tokens = ordinary(model, side)
    for token in tokens[:5:2]:
        window.page.select_option("[data-key='picked']", str(tokens.index(token)))
        expected = neighbors(model, token, side=side, count=8).nearest
        assert lines(window, "neighbors") == [(each.token, pytest.approx(each.cosine, abs=6e-5)) for each in expected]
    a, b, c, d = (tokens[i] for i in (4, 0, 2, 3))
    for key, token in (("analogy-0", a), ("analogy-1", b), ("analogy-2", c), ("expected", d)):
        window.page.select_option(f"[data-key='{key}']", str(tokens.index(token)))
    found = analogy(model, a, b, c, expected=d, side=side, count=8)
    assert found.expected is not None
    assert lines(window, "arithmetic") == [(each.token, pytest.approx(each.cosine, abs=6e-5)) for each in found.nearest]
    own = [text.replace("−", "-").split(" ") for text in window.page.locator(".own li").all_inner_texts()]
    assert [(token, float(number)) for token, number in own] == [
        (each.token, pytest.approx(each.cosine, abs=6e-5)) for each in found.of_query
    ]
    rank, cosine = window.all("[data-expected-rank]", "[each.dataset.expectedRank, each.dataset.differenceCosine]")[0]
    assert int(rank) == found.expected.rank
    assert float(cosine) == pytest.approx(found.expected.difference_cosine, abs=1e-6)
    assert f"{a} − {b}" in window.page.locator(".heatmap-box text").all_text_contents()
    window.page.select_option("[data-key='expected']", str(tokens.index(a)))
    assert "d is one of a, b and c" in window.text("[aria-label='arithmetic']")


@pytest.fixture(scope="module")
def crowded() -> Trace:
    """Three tokens are at one place at the right edge, where the labels of two are hidden."""
    model = make_model(5, "words", texts=(WORDS, ["hallo, mijn vriend"]))
    ids = [model.source_tokenizer.vocabulary.lookup(token) for token in ("hello,", "tonight.", "captain")]
    rows = model.tensors["source_embedding.weight"]
    rows[:] = 0.0
    rows[:, 1] = np.linspace(-0.1, 0.1, len(rows))
    rows[ids, 0] = 9.0
    rows[ids, 1] = 0.0
    return explain(model, "hello,", weights=True, num_beams=2)


@pytest.mark.parametrize(("width", "name"), [(1280, "words"), (390, "words"), (1280, "crowded")])
def test_the_label_of_a_token_is_seen_and_not_cut_by_the_edge_of_the_map(
    window: Any, request: pytest.FixtureRequest, width: int, name: str
) -> None:
    """Also a label that is hidden until its token is pointed at."""
    window.page.set_viewport_size({"width": width, "height": 900})
    window.open(request.getfixturevalue(name), "space")
    outside = window.run(
        """const edge = document.querySelector('.plane svg').getBoundingClientRect();
        const found = [];
        for (const point of document.querySelectorAll('.point')) {
          point.focus();
          const text = point.querySelector('text');
          const [box, isHidden] = [text.getBoundingClientRect(), getComputedStyle(text).visibility === 'hidden'];
          const isCut = isHidden || box.left < edge.left || box.right > edge.right;
          if (isCut || box.top < edge.top || box.bottom > edge.bottom || box.height < 10) found.push(text.textContent);
        }
        return found;"""
    )
    assert outside == []
    labels = window.all(".point text", "each.textContent")
    assert {"hello,", "tonight."} <= set(labels)


def test_the_columns_of_a_small_matrix_have_whole_labels(window: Any, words: Trace) -> None:
    window.open(words, "alignment")
    labels = window.all("[data-evidence='attention'] text.label", "each.textContent")
    assert {token.text for token in words.tokens.source} <= set(labels)
    boxes = window.run(
        """const image = document.querySelector("[data-evidence='attention'] svg").getBoundingClientRect();
        return [...document.querySelectorAll("[data-evidence='attention'] text.label")].filter((each) => {
          const box = each.getBoundingClientRect();
          return box.left < image.left - 1 || box.right > image.right + 1 || box.top < image.top - 1; }).length"""
    )
    assert boxes == 0


def with_history(trace: Trace, ids: list[int]) -> tuple[Trace, np.ndarray]:
    rows = np.random.default_rng(3).normal(0, 1, (3, len(ids), 8)).round(4)
    attention = np.full((2, len(trace.tokens.source)), 0.1).tolist()
    answers = [CheckpointAnswer(step, "x", -0.5, True, ["x", "<eos>"], attention) for step in (10, 50, 1000)]
    history = [EmbeddingHistory("source_embedding.weight", ids, rows.tolist())]
    return replace(trace, training=Training([], [], answers, history)), rows


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_the_row_of_a_token_goes_through_the_checkpoints(window: Any, model: ModelFile, words: Trace) -> None:
    tokens = ordinary(model, "source")
    pieces = list(model.source_tokenizer.vocabulary.pieces)
    trace, rows = with_history(words, list(range(len(pieces))))
    window.open(trace, "space")
    window.page.select_option("[data-key='history-token']", str(tokens.index("ship")))
    assert window.page.input_value("[data-key='picked']") == str(tokens.index("ship"))
    part = "[aria-label='through training']"
    own = pieces.index("ship")
    others = [pieces.index(token) for token in tokens if token != "ship"]
    found = window.page.locator(f"{part} tbody tr").all()
    for k, (step, line) in enumerate(zip(("10", "50", "1,000"), found, strict=True)):
        texts = [text.replace("−", "-") for text in line.locator("th, td").all_inner_texts()]
        near = max(others, key=lambda i: cosine(rows[k, own], rows[k, i]))
        assert (texts[0], texts[3]) == (step, pieces[near])
        expected = [
            np.linalg.norm(rows[k, own]),
            cosine(rows[k, own], rows[-1, own]),
            cosine(rows[k, own], rows[k, near]),
        ]
        assert [float(texts[i]) for i in (1, 2, 4)] == pytest.approx(expected, abs=6e-5)
    window.page.locator(f"{part} .heatmap").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        window.page.keyboard.press(key)
    text = window.text(f"{part} output")
    assert text.startswith("step 50, feature 2: ")
    assert float(text.rpartition(": ")[2].replace("−", "-")) == pytest.approx(rows[1, own, 2])


def test_a_page_with_the_rows_of_the_text_alone_shows_those(window: Any, model: ModelFile, words: Trace) -> None:
    vocabulary = model.source_tokenizer.vocabulary
    ids = sorted({token.id for token in words.tokens.source})
    window.open(with_history(words, ids)[0], "space")
    names = window.page.locator("[data-key='history-token'] option").all_inner_texts()
    assert names == [vocabulary.pieces[i] for i in ids if i not in vocabulary.specials.values()]
    part = "[aria-label='through training']"
    assert "the rows of 3 tokens, those of the text" in window.text(part)
    window.open(words, "space")
    assert "no rows of the embedding from the training" in window.text(part)


def test_the_map_is_one_stop_for_tab_and_the_arrow_keys_reach_every_token(window: Any, words: Trace) -> None:
    window.open(words, "space")
    assert window.page.locator(".plane [tabindex='0']").count() == 1
    points = window.all(".point", "each.getAttribute('aria-label')")
    assert window.all(".plane [role='listbox'] > [role='option']", "each.getAttribute('aria-label')") == points
    window.page.focus(".plane [tabindex='0']")
    for back, on in (("ArrowLeft", "ArrowRight"), ("ArrowUp", "ArrowDown")):
        for _ in points:
            window.page.keyboard.press(back)
        seen = []
        for _ in points:
            seen.append(window.run("return document.activeElement.getAttribute('aria-label')"))
            window.page.keyboard.press(on)
        assert sorted(seen) == sorted(points)
    assert window.page.locator(".plane [tabindex='0']").count() == 1
    last = window.run("return document.activeElement.getAttribute('aria-label')")
    window.page.keyboard.press("Space")
    assert window.page.get_attribute(".point[aria-selected='true']", "aria-label") == last
    assert f"Neighbors of {last}" in window.text("[aria-label='neighbors'] h2")
    assert window.run("return document.activeElement.getAttribute('aria-label')") == last
    window.page.keyboard.press("Tab")
    assert window.run("return document.activeElement.closest('.plane svg')") is None
