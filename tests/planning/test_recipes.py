"""Recipes: found by name, complete, readable, and those of the paper what its table 3 says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from glassformer.data.tables import Pair
from glassformer.errors import SettingsError
from glassformer.planning.advise import advise
from glassformer.planning.recipes import description, find_recipe, list_recipes
from glassformer.planning.recipes.overrides import merge, read_recipe
from glassformer.settings import Settings
from glassformer.storage.modelfile import count_parameters

ALL = sorted((Path(__file__).parents[2] / "src/glassformer/planning/recipes").rglob("*.toml"))
PAPER = sorted(path for path in ALL if path.parent.name == "paper")

# Table 3 as printed: layers, d_model, d_ff, heads, d_k, d_v, dropout, label smoothing, steps, millions of parameters.
TABLE_3 = {
    "base": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 65),
    "a-1-head": (6, 512, 2048, 1, 512, 512, 0.1, 0.1, 100_000, 65),
    "a-4-heads": (6, 512, 2048, 4, 128, 128, 0.1, 0.1, 100_000, 65),
    "a-16-heads": (6, 512, 2048, 16, 32, 32, 0.1, 0.1, 100_000, 65),
    "a-32-heads": (6, 512, 2048, 32, 16, 16, 0.1, 0.1, 100_000, 65),
    "b-d_k-16": (6, 512, 2048, 8, 16, 64, 0.1, 0.1, 100_000, 58),
    "b-d_k-32": (6, 512, 2048, 8, 32, 64, 0.1, 0.1, 100_000, 60),
    "c-2-layers": (2, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 36),
    "c-4-layers": (4, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 50),
    "c-8-layers": (8, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 80),
    "c-d_model-256": (6, 256, 2048, 8, 32, 32, 0.1, 0.1, 100_000, 28),
    "c-d_model-1024": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1, 100_000, 168),
    "c-d_ff-1024": (6, 512, 1024, 8, 64, 64, 0.1, 0.1, 100_000, 53),
    "c-d_ff-4096": (6, 512, 4096, 8, 64, 64, 0.1, 0.1, 100_000, 90),
    "d-dropout-0": (6, 512, 2048, 8, 64, 64, 0.0, 0.1, 100_000, 65),
    "d-dropout-0.2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1, 100_000, 65),
    "d-label-smoothing-0": (6, 512, 2048, 8, 64, 64, 0.1, 0.0, 100_000, 65),
    "d-label-smoothing-0.2": (6, 512, 2048, 8, 64, 64, 0.1, 0.2, 100_000, 65),
    "e-learned-positions": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 65),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000, 213),
}


def dump(recipe: dict[str, object]) -> dict[str, dict[str, object]]:
    return Settings(**recipe).model_dump(mode="json", exclude_none=True)


# What they hold


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_recipe_is_complete_and_independent_of_the_data(path: Path) -> None:
    recipe = read_recipe(path)
    complete = dump(recipe)
    if "preset" in tomllib.loads(path.read_text(encoding="utf-8")):  # d_k and d_v follow from other settings
        complete["model"] = {key: complete["model"][key] for key in recipe["model"]}
    assert complete == json.loads(json.dumps(recipe))  # a preset has tuples
    pairs = [Pair(f"a{i} b{i}", f"c{i} d{i}") for i in range(40)]
    assert Settings(**merge(advise(pairs, recipe).settings, recipe)) == Settings(**recipe)
    first = path.read_text(encoding="utf-8").partition("\n")[0]  # a sentence that says what it is for
    assert (first, first[-1]) == (f"# {description(path)}", ".")


def test_the_recipes_of_the_paper_are_the_rows_of_table_3() -> None:
    assert {path.stem for path in PAPER} == TABLE_3.keys()


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_row_of_table_3_is_what_the_paper_prints(path: Path) -> None:
    settings = Settings(**read_recipe(path))
    model, training = settings.model, settings.training
    assert model.n_encoder_layers == model.n_decoder_layers
    shape = (model.n_encoder_layers, model.d_model, model.d_ff, model.n_heads, model.d_k, model.d_v, model.dropout)
    *printed, millions = TABLE_3[path.stem]
    assert [*shape, training.label_smoothing, training.steps] == printed
    assert model.positions == ("learned" if path.stem.startswith("e-") else "sinusoidal")
    assert f" {millions} million parameters" in path.read_text(encoding="utf-8")
    size = 36_000 if path.stem == "big" else 41_100  # an inconsistency of the table
    model = model.model_copy(update={"positions": "sinusoidal"})  # whose 0.5 million the table leaves out
    assert round(count_parameters(model, size, size) / 1e6) == millions


# How they are found


def test_every_recipe_of_the_package_has_a_name() -> None:
    recipes = list_recipes()
    assert sorted(recipes.values()) == ALL
    assert {"g2p", "dates", "paper/base", "paper/d-dropout-0.2"} <= recipes.keys()
    for name, path in recipes.items():
        assert find_recipe(name) == path


def test_an_existing_file_has_priority_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g2p").write_text("[training]\nsteps = 3\n", encoding="utf-8")
    assert read_recipe(find_recipe("g2p")) == {"training": {"steps": 3}}
    (tmp_path / "scan").mkdir()
    assert find_recipe("scan") == list_recipes()["scan"]


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="there is no recipe") as caught:
        find_recipe("paper/bas")
    assert caught.value.hint.startswith("did you mean 'paper/base'?")
    assert all(name in caught.value.hint for name in list_recipes())
    with pytest.raises(SettingsError, match="there is no recipe"):
        find_recipe("")
