"""Every number of docs/mistakes.md, computed: of each mistake, and of what is right."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from glassformer.paper import reference
from glassformer.paper.model import MultiHeadAttention
from glassformer.paper.search import length_penalty
from glassformer.settings import ModelSettings, SideSettings
from glassformer.text.learning import learn

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/mistakes.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip(): " | ".join(cells[1:])
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| mistake ")
    for cells in [line.strip("| ").split(" | ")]
}
GOLDEN: dict[str, NDArray[np.float64]] = {
    name: np.array(rows)
    for name, rows in json.loads((ROOT / "tests/golden/attention.json").read_text(encoding="utf-8")).items()
    if name != "comment"
}
Q, K, V = (GOLDEN[name] for name in "qkv")
CAUSAL = np.tri(4, dtype=bool)
ROW = np.array([[1.0, 2.0, 3.0, 4.0]])
DUTCH = ["Ik", "hou", "heel", "erg", "veel", "van", "jou"]
TABLE = np.array([[1.0, 2, 3, 4], [0, 0, 10, 10], [5, 1, 5, 1]])


def decimals(*numbers: Any, digits: int = 4) -> list[str]:
    """Each number as the page writes it, with U+2212 for minus."""
    return [f"{number:.{digits}f}".replace("-", "−") for number in np.ravel(numbers)]


def softmax_of_columns() -> list[str]:
    masked = np.where(CAUSAL, GOLDEN["scaled"], -np.inf)
    return decimals((np.exp(masked) / np.exp(masked).sum(axis=-1)).sum(axis=1)[1:])


def wrong_sums() -> list[str]:
    powers = np.exp([2.0, 1.0, 0.0])
    of_the_sum = powers / np.exp(3.0)
    right = reference.softmax(np.array([[2.0, 1.0, 0.0]]))
    return decimals([powers[0] / (3 * powers[0]), *of_the_sum, of_the_sum.sum(), *right[0]])


def no_maximum() -> list[str]:
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(np.array([1000.0, 0.0]))
        assert np.isnan(powers / powers.sum()).any()
    assert reference.softmax(np.array([[1000.0, 0.0]])).tolist() == [[1, 0]]
    return ["NaN instead of 1 and 0"]


def half_precision() -> list[str]:
    with np.errstate(over="ignore", invalid="ignore"):
        hidden = np.array([-1e9, -1e9]).astype(np.float16)
        assert np.isneginf(hidden).all()
        assert np.isnan(np.exp(hidden - hidden.max())).all()
    return [f"{np.finfo(np.float16).max:,.0f}", "−∞ in float16"]


def inverted_mask() -> list[str]:
    reversed_meaning = reference.attention(Q, K, V, ~CAUSAL).weights
    assert reversed_meaning[3].sum() == 0
    module = torch.nn.MultiheadAttention(8, 1, batch_first=True)
    hidden = torch.from_numpy(~CAUSAL)
    weights = module(*[torch.randn(1, 4, 8)] * 3, attn_mask=hidden)[1][0]
    assert (weights[hidden] == 0).all()
    assert (weights[~hidden] > 0).all()
    return decimals(reversed_meaning[0, 1:].sum(), reversed_meaning[0, 0])


def nothing_visible() -> list[str]:
    scores = np.full((1, 2), -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max())
    assert np.isnan(powers / powers.sum()).all()
    zeros = reference.softmax(np.zeros((1, 2)), np.zeros((1, 2), dtype=bool))[0]
    return [f"NaN instead of {zeros[0]:.0f} and {zeros[1]:.0f}"]


def cut_at_commas() -> list[str]:
    line = '1845-01-05,"January 5, 1845"'
    return [line, f"{len(line.split(','))} pieces instead of {len(next(csv.reader([line])))} cells"]


def special_tokens_in_a_text() -> list[str]:
    characters = learn(["a<eos>b"], SideSettings(kind="characters"))
    cut = re.findall(r"<eos>|.", "a<eos>b")
    return [f"{len(cut)} tokens instead of {len(characters.encode('a<eos>b'))}"]


def not_shifted() -> list[str]:
    sequence = ["<bos>", *DUTCH, "<eos>"]
    wrong = sum(fed == target for fed, target in zip(sequence[:-1], sequence[:-1], strict=True))
    right = sum(fed == target for fed, target in itertools.pairwise(sequence))
    return [f"{wrong} of {len(DUTCH) + 1} targets", f"instead of {right} of {len(DUTCH) + 1}"]


def first_of_two_micro_batches() -> list[str]:
    w = torch.zeros(1, requires_grad=True)
    found = []
    for losses in ([(w - 3) ** 2], [(w - 3) ** 2, (w - 1) ** 2]):
        (gradient,) = torch.autograd.grad(sum(losses) / len(losses), w)
        found.append((w - 0.1 * gradient).item())
    return ["w becomes {:.1f} instead of {:.1f}".format(*found)]


def variance_of_scores() -> list[str]:
    q, k = np.random.default_rng(0).normal(size=(2, 2000, 64))
    assert abs((q @ k.T).var() / 64 - 1) < 0.05
    assert abs((q @ k.T / 8).var() - 1) < 0.05
    return ["at d_k = 64", "64 instead of 1"]


def position_rows(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    angle = 3 / 10_000.0**exponents
    return np.where(np.arange(8) % 2 == 0, np.sin(angle), np.cos(angle))


def largest_error(row: NDArray[np.float64]) -> list[str]:
    return decimals(np.abs(row - reference.sinusoids(4, 8)[3]).max())


def halves() -> NDArray[np.float64]:
    angle = 3 / 10_000.0 ** (2 * np.arange(4) / 8)
    return np.concatenate([np.sin(angle), np.cos(angle)])


def unscaled() -> list[str]:
    positions = reference.sinusoids(100, 512)
    return decimals(512**-0.5, np.sqrt((positions**2).mean()))


def epsilon() -> list[str]:
    row = np.array([[0.001, -0.001]])
    inside = reference.layer_norm(row, np.ones(2), np.zeros(2), 1e-5)[0, 0]
    return decimals(0.001 / (np.sqrt(1e-6) + 1e-5), inside)


def norm_of(row: NDArray[np.float64]) -> NDArray[np.float64]:
    return reference.layer_norm(row, np.ones(4), np.zeros(4), 0.0)


def garden_path() -> list[str]:
    every = {"AA": 0.6 * 0.5, "AB": 0.6 * 0.5, "BA": 0.4 * 0.9, "BB": 0.4 * 0.1}
    return decimals(every["AA"], max(every.values()), digits=2)


def head_parameters() -> list[str]:
    model = ModelSettings()
    whole = MultiHeadAttention(model).w_q.weight.numel()
    return [f"{model.n_heads * model.d_k * (model.d_model // model.n_heads):,}", f"{whole:,}"]


def smoothing() -> list[str]:
    logits, target = np.zeros((1, 3)), np.array([0])
    noted: dict[str, NDArray[np.float64]] = {}

    def note(name: str, value: Any, /, *made_of: object) -> Any:
        noted[name] = value
        return value

    reference.cross_entropy(logits, target, 0.1, note)
    return ["0.9 and 0.05", *decimals(noted["smoothed_targets"][0, :2])]


NUMBERS: dict[str, Callable[[], list[str]]] = {
    "softmax that divides columns by row sums": softmax_of_columns,
    "wrong index in the softmax's sum": wrong_sums,
    "softmax without the maximum subtracted": no_maximum,
    "division by √d_model": lambda: [*decimals(512**0.5, digits=1), f"instead of {np.sqrt(ModelSettings().d_k):.0f}"],
    "no division at all": variance_of_scores,
    "no causal mask": lambda: decimals(reference.attention(Q, K, V).weights[0, 1:].sum()),
    "inverted mask": inverted_mask,
    "mask after the softmax": lambda: decimals((reference.attention(Q, K, V).weights * CAUSAL).sum(axis=1)[:3]),
    "−10⁹ for a hidden score": half_precision,
    "softmax of a row with nothing visible": nothing_visible,
    "padded queries masked instead of padded keys": lambda: decimals(reference.softmax(np.zeros((5, 8)))[0, 5:].sum()),
    '"the diagonal is the largest"': lambda: [f"in {((Q @ K.T).argmax(axis=1) == np.arange(4)).sum()} of 4 rows"],
    "each head gets a slice of the embedding": head_parameters,
    "no W_O for a single head": lambda: [f"h · d_v rows, also for h = {1}"],
    "the column number as the dimension index": lambda: largest_error(position_rows(2 * np.arange(8) / 8)),
    "d/2 − 1 in place of d/2": lambda: largest_error(position_rows((np.arange(8) // 2) / 3)),
    "halves in place of pairs": lambda: largest_error(halves()),
    "embeddings not scaled": unscaled,
    "the table is trained, or made in each step": lambda: [f"{512 * 512:,}"],
    '"LayerNorm gives values from 0 to 1"': lambda: decimals(norm_of(ROW)),
    "unbiased variance": lambda: decimals((4 - 2.5) / ROW.std(ddof=1), norm_of(ROW)[0, 3]),
    "wrong axis": lambda: [
        ", ".join(f"{mean:g}" for mean in TABLE.mean(axis=axis)) + f" of {name}"
        for axis, name in ((0, "columns"), (1, "rows"))
    ],
    "ε outside the root": epsilon,
    "norm before the sublayer, called post-norm": lambda: decimals((ROW + norm_of(ROW)).std()),
    "a line of CSV is cut at its commas": cut_at_commas,
    "special tokens read out of a text": special_tokens_in_a_text,
    "target not shifted": not_shifted,
    '"the target is `<eos>`"': lambda: [f"has {len(DUTCH) + 1} targets"],
    "label smoothing spread over V − 1": smoothing,
    "pads in the loss": lambda: [f"{np.mean([0.4, 0.2, 0, 0]):.2f} instead of {np.mean([0.4, 0.2]):.1f}"],
    "mean of means": lambda: [f"{np.mean([1.0, 0.5]):.2f} instead of {(2 * 1.0 + 8 * 0.5) / 10:.1f}"],
    "a step after the first of several micro-batches": first_of_two_micro_batches,
    "teacher-forced accuracy as quality": lambda: decimals(0.99**17),
    '"greedy search finds the most probable answer"': garden_path,
    "sums of answers of unlike length compared": lambda: decimals(
        -2.0 / length_penalty(2, 0.6), -2.6 / length_penalty(6, 0.6)
    ),
    "the encoder runs in every step": lambda: [f"{sum(range(1, 18))} decoder rows instead of 17"],
}


def test_every_mistake_of_the_page_has_its_numbers_here() -> None:
    rows = {name for name in ROWS if not set(name) <= set("-| ")}
    assert rows == NUMBERS.keys()
    assert len(rows) > 25


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_of_a_mistake_are_computed(name: str) -> None:
    for number in NUMBERS[name]():
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", ROWS[name]), f"{number} is not in: {ROWS[name]}"


def test_the_numbers_of_the_wrong_sentences_are_computed() -> None:
    parameters = [
        sum(p.numel() for p in MultiHeadAttention(ModelSettings(attention_bias=bias)).parameters())
        for bias in (False, True)
    ]
    plain = reference.attention(Q, K, V).output
    reverse = reference.attention(Q[::-1], K[::-1], V[::-1]).output
    changes = decimals(np.abs(reverse[::-1] - plain).max(), np.abs(reverse - plain).max())
    text = " ".join(PAGE.partition("## Sentences")[2].split())
    for number in (*(f"{n:,}" for n in parameters), *changes):
        assert number in text, number


def test_lesson_5_computes_the_effect_of_visible_pads() -> None:
    random = np.random.default_rng(0)
    x, pads = random.normal(size=(5, 8)), random.normal(size=(3, 8))
    weights = random.normal(size=(3, 8, 8)) / 3
    outputs = [reference.attention(*(rows @ w for w in weights)).output[:5] for rows in (x, np.vstack([x, pads]))]
    (change,) = decimals(np.abs(outputs[1] - outputs[0]).max())
    assert f"change the output by {change}" in " ".join(PAGE.split())
