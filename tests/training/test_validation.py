"""A validation is quick while training goes on, and at the end as the model will be used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.data.datasets import dates
from glassformer.evaluation.metrics import quick_metric
from glassformer.glassbox.history import errors_of
from glassformer.settings import DecodingSettings
from glassformer.training import Run, validation
from glassformer.training.events import Sample
from glassformer.training.train import train
from tests import tiny


@pytest.mark.parametrize(("as_used", "expected"), [(False, (2, 7)), (True, (4, 20))])
def test_how_wide_and_on_which_rows_a_validation_searches(
    as_used: bool, expected: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[tuple[int, int]] = []
    search = validation.search

    def watched(engine: Any, sources: Sequence[Any], decoding: DecodingSettings, *rest: Any) -> Any:
        searched.append((decoding.num_beams, len(sources)))
        return search(engine, sources, decoding, *rest)

    monkeypatch.setattr(validation, "search", watched)
    held = dates(20, seed=2)
    run = run_with(held, tmp_path / "run", validate_beams=2)
    measured = run.validator.measure(as_used=as_used)
    assert searched == [expected]
    assert measured.errors["rows"] == expected[1]
    sources = [each["source"] for each in measured.errors["examples"]]
    assert [sources[0], sources[-1]] == [held[0][0], held[-1][0]], "not from all over a table that may be sorted"


def run_with(held: Sequence[tuple[str, str]], out: Path, **training: Any) -> Run:
    settings = tiny.settings(
        data={"max_valid_rows": 12},
        training={"validate_rows": 7, "steps": 1, "batch_tokens": 512} | training,
        decoding={"num_beams": 4},
    )
    return train(dates(40, seed=1), settings, out, valid=held, device="cpu")


def answer_with(answers: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the search give these answers; the list gets each source that is searched."""
    source, target = run.prepared.source_tokenizer, run.prepared.target_tokenizer
    searched: list[str] = []

    def search(_engine: Any, sources: Sequence[Sequence[int]], *_rest: Any) -> Any:
        texts = [source.decode(ids[1:-1]) for ids in sources]
        searched.extend(texts)
        return [[SimpleNamespace(ids=target.encode(answers[text]), score=-1.5)] for text in texts]

    monkeypatch.setattr(validation, "search", search)
    return searched


HELD = [
    ("1845-01-05", "January 5, 1845"),
    ("1846-02-06", "February 6, 1846"),
    ("1845-01-05", "5 January, 1845"),
    ("1847-03-07", "7 March, 18477"),
    ("1847-03-07", "March 7, 1847"),
    ("1846-02-06", "February 6, 1846"),
]
ANSWERS = {"1845-01-05": "5 January, 1845", "1846-02-06": "February 6, 1846", "1847-03-07": "March 7, 184"}


@pytest.mark.parametrize(
    ("metric", "value"),
    [("exact_match", 2 / 3), ("token_error_rate", 1 / (15 + 16 + 13)), ("bleu", None), ("chrf", None)],
)
def test_a_held_out_source_with_several_targets_is_right_with_any_of_them(
    metric: Any, value: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(HELD, tmp_path / "run", metric=metric)
    searched = answer_with(ANSWERS, run, monkeypatch)
    measured = run.validator.measure(as_used=True)
    assert searched == ["1845-01-05", "1846-02-06", "1847-03-07"]
    if value is None:
        references = [["January 5, 1845", "5 January, 1845"], "February 6, 1846", ["7 March, 18477", "March 7, 1847"]]
        value = quick_metric(metric, list(ANSWERS.values()), references, list)
    assert measured.value == pytest.approx(value)
    assert measured.samples == (
        Sample("1845-01-05", "5 January, 1845", "5 January, 1845"),
        Sample("1846-02-06", "February 6, 1846", "February 6, 1846"),
        Sample("1847-03-07", "March 7, 1847", "March 7, 184"),
    )
    assert [sample.is_right for sample in measured.samples] == [True, True, False]
    assert measured.errors == {
        "rows": 3,
        "wrong": 1,
        "examples": [{"source": "1847-03-07", "target": "March 7, 1847", "answer": "March 7, 184", "score": -1.5}],
    }
    (tmp_path / "errors.json").write_text(json.dumps(measured.errors), encoding="utf-8")
    errors = errors_of(tmp_path)
    assert errors is not None
    assert (errors.rows, errors.wrong, errors.examples[0].target) == (3, 1, "March 7, 1847")


def test_the_loss_of_a_validation_stays_that_of_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = HELD[0][1], HELD[2][1]
    losses = {}
    for name, targets in {"both": (first, second), "first": (first,), "second": (second,)}.items():
        run = run_with([("1845-01-05", target) for target in targets], tmp_path / name)
        answer_with({"1845-01-05": ""}, run, monkeypatch)
        losses[name] = run.validator.measure(as_used=True).loss
    n_first, n_second = len(first) + 1, len(second) + 1  # with <eos>
    mean = (losses["first"] * n_first + losses["second"] * n_second) / (n_first + n_second)
    assert losses["both"] == pytest.approx(mean, rel=1e-5)
