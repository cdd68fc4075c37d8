"""What zero configuration reaches, trained for real: the figures of docs/results.md, with room for noise. Slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import Report, Settings, Table, Translator, evaluate, read_table, train
from glassformer.data.datasets import dates
from glassformer.data.tables import Pair
from glassformer.planning.advise import advise
from glassformer.planning.recipes.overrides import merge
from glassformer.settings import DataSettings

pytestmark = pytest.mark.slow


def trained(
    pairs: Table | list[Pair], test: list[Pair], out: Path, *, valid: Table | None = None, seed: int = 1
) -> Report:
    """The test's report in float32. bfloat16 must not fall behind by more than chance."""
    rows = pairs.pairs if isinstance(pairs, Table) else pairs
    settings = Settings(**merge(advise(rows).settings, {"training": {"seed": seed}}))
    report = evaluate(train(pairs, settings, out, valid=valid).finish(), test)
    lower = evaluate(Translator.load(out, engine="torch", precision="bfloat16"), test).metrics["exact_match"]
    assert report.metrics["exact_match"].value <= lower.high
    return report


@pytest.mark.parametrize(("seed", "least"), [(1, 1.0), (2, 0.999), (3, 1.0)])
def test_held_out_dates_are_right(seed: int, least: float, tmp_path: Path) -> None:
    rows = [Pair(*row) for row in dates(10_000, seed)]
    report = trained(rows[:9_000], rows[9_000:], tmp_path / "run", seed=seed)
    assert report.metrics["exact_match"].value >= least


@pytest.mark.data
def test_french_pronunciations_have_at_most_nine_percent_of_words_wrong(data_dir: Path, tmp_path: Path) -> None:
    tables = [read_table(data_dir / f"g2p/fre_{part}.tsv", DataSettings()) for part in ("train", "dev", "test")]
    report = trained(tables[0], tables[2].pairs, tmp_path / "run", valid=tables[1])
    assert report.metrics["sequence_error_rate"].value <= 0.09


@pytest.mark.data
def test_scan_commands_are_followed(data_dir: Path, tmp_path: Path) -> None:
    train_table, test = (read_table(data_dir / f"scan/simple_{part}.tsv", DataSettings()) for part in ("train", "test"))
    report = trained(train_table, test.pairs, tmp_path / "run")
    assert report.metrics["exact_match"].value >= 0.995
