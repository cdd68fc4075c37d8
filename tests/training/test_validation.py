"""A validation is quick while training goes on, and at the end as the model will be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer.datasets import dates
from glassformer.engines.torch import TorchEngine
from glassformer.settings import DecodingSettings, Settings
from glassformer.training import train


@pytest.mark.parametrize(("as_used", "expected"), [(False, (2, 7)), (True, (4, 20))])
def test_how_wide_and_on_which_rows_a_validation_searches(
    as_used: bool, expected: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = {"kind": "characters"}
    settings = Settings(
        data={"max_valid_rows": 12},
        tokens={"source": side, "target": side},
        model={"d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1},
        training={"validate_rows": 7, "validate_beams": 2, "steps": 1, "batch_tokens": 512},
        decoding={"num_beams": 4},
    )
    searched: list[tuple[int, int]] = []
    search = TorchEngine.search

    def watched(self: TorchEngine, sources: Sequence[Any], decoding: DecodingSettings, *rest: Any) -> Any:
        searched.append((decoding.num_beams, len(sources)))
        return search(self, sources, decoding, *rest)

    monkeypatch.setattr(TorchEngine, "search", watched)
    held = dates(20, seed=2)
    run = train(dates(40, seed=1), settings, tmp_path / "run", valid=held, device="cpu")
    measured = run.validator.measure(as_used=as_used)
    assert searched == [expected]
    assert measured.errors["rows"] == expected[1]
    sources = [each["source"] for each in measured.errors["examples"]]
    assert [sources[0], sources[-1]] == [held[0][0], held[-1][0]], "not from all over a table that may be sorted"
