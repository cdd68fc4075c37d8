"""Recipes: complete, readable, and those of the paper what its table 3 says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from glassformer.modelfile import count_parameters
from glassformer.settings import Settings, paper_big, read_recipe

RECIPES = Path(__file__).parents[1] / "recipes"
ALL = sorted(RECIPES.rglob("*.toml"))
PAPER = sorted((RECIPES / "paper").glob("*.toml"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_recipe_says_every_setting_and_what_it_is_for(path: Path) -> None:
    recipe = read_recipe(path)
    assert Settings(**recipe).model_dump(exclude_none=True) == recipe
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_row_of_table_3_has_the_paper_s_number_of_parameters(path: Path) -> None:
    """With 41,100 tokens; "big" fits 36,000, which is an inconsistency of the table."""
    settings = Settings(**read_recipe(path))
    millions = re.search(r"(\d+) million parameters", path.read_text(encoding="utf-8"))
    assert millions is not None
    size = 36_000 if path.stem == "big" else 41_100
    model = settings.model.model_copy(update={"positions": "sinusoidal"})  # whose 0.5 million the table leaves out
    assert round(count_parameters(model, size, size) / 1e6) == int(millions[1])


def test_the_rows_are_those_of_table_3() -> None:
    assert len(PAPER) == 1 + 4 + 2 + 7 + 4 + 1 + 1
    base = Settings(**read_recipe(RECIPES / "paper" / "base.toml"))
    assert base.model == Settings().model
    assert base.training == Settings().training.model_copy(update={"metric": "bleu"})
    assert Settings(**read_recipe(RECIPES / "paper" / "big.toml")).model == paper_big()
    different = {path.stem: Settings(**read_recipe(path)).model_dump() for path in PAPER}
    assert len({str(each) for each in different.values()}) == len(PAPER)
