"""Settings: defaults are the paper's, a wrong one is named with the nearest valid one, a recipe comes back whole."""

from __future__ import annotations

import math
import re
import tomllib
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from glassformer.errors import SettingsError
from glassformer.planning.recipes.overrides import merge, parse_assignments, read_recipe
from glassformer.settings import (
    DataSettings,
    DecodingSettings,
    ModelSettings,
    Settings,
    SideSettings,
    TokenSettings,
    TrainingSettings,
    all_settings,
    paper_big,
    preset,
)

# Defaults


def test_the_default_model_is_the_base_model_of_the_paper():
    model = ModelSettings()
    assert (model.d_model, model.d_ff, model.n_heads, model.d_k, model.d_v) == (512, 2048, 8, 64, 64)
    assert (model.n_encoder_layers, model.n_decoder_layers, model.dropout) == (6, 6, 0.1)
    assert (model.norm, model.activation, model.positions, model.position_base) == ("post", "relu", "sinusoidal", 1e4)
    assert (model.scale_embeddings, model.tied_embeddings, model.attention_bias) == (True, "all", False)
    assert (model.attention_dropout, model.feed_forward_dropout, model.norm_eps) == (0, 0, 1e-5)


def test_training_starts_from_the_numbers_of_section_5():
    training = TrainingSettings()
    assert (training.beta_1, training.beta_2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.warmup_steps, training.steps) == ("noam", 4000, 100_000)
    assert (training.label_smoothing, training.batch_tokens, training.average_last) == (0.1, 25_000, 5)
    assert (training.weight_decay, training.clip_norm) == (0, 0)
    assert DecodingSettings().length_alpha == 0.6


def test_all_settings_lists_full_names_with_one_line_each_and_no_setting_can_be_changed():
    names = list(all_settings())
    assert names[0] == "data.source"
    assert {"tokens.source.kind", "tokens.target.kind", "tokens.shared", "model.d_model", "decoding.seed"} <= {*names}
    assert not {"model", "tokens.source", "d_model"} & {*names}
    assert len(names) == len(set(names))
    assert all(line and "\n" not in line for line in all_settings().values())
    with pytest.raises(ValidationError, match="frozen"):
        ModelSettings().d_model = 256


@pytest.mark.parametrize(
    ("given_widths", "d_k", "d_v"),
    [
        ({"d_model": 256, "n_heads": 4}, 64, 64),
        ({"d_k": 16}, 16, 64),
        ({"d_v": 16}, 64, 16),
        ({"d_model": 4, "n_heads": 8}, 1, 1),
    ],
)
def test_the_width_of_a_head_follows_from_d_model_and_n_heads_unless_it_is_set(given_widths, d_k, d_v):
    model = ModelSettings(**given_widths)
    assert (model.d_k, model.d_v) == (d_k, d_v)


@pytest.mark.parametrize(
    ("positions", "max_length", "expected"),
    [("sinusoidal", 20, (30, 15)), ("learned", 20, (18, 15)), ("learned", 10, (8, 8)), ("learned", 99, (30, 15))],
)
def test_learned_positions_limit_the_tokens_of_a_text_between_bos_and_eos(positions, max_length, expected):
    chosen = Settings(
        data={"max_source_length": 30, "max_target_length": 15},
        model={"positions": positions, "max_length": max_length},
    )
    assert (chosen.max_source_tokens, chosen.max_target_tokens) == expected


# Wrong names and values


@pytest.mark.parametrize(
    ("recipe", "name", "hint"),
    [
        ({"model": {"dmodel": 5}}, "model.dmodel", "did you mean 'model.d_model'? valid: model.d_model, model.d_ff, "),
        ({"tokens": {"source": {"kin": "words"}}}, "tokens.(source|target).kin", "did you mean"),
        ({"modell": {}}, "modell", "did you mean 'model'? valid: data, tokens, model, training, decoding"),
        ({"self": 1}, "self", "valid: data, tokens, model, training, decoding"),
    ],
)
def test_an_unknown_name_anywhere_in_a_recipe_is_found(recipe, name, hint):
    with pytest.raises(SettingsError) as caught:
        Settings(**recipe)
    assert (caught.value.what, caught.value.exit_code) == (f"there is no setting '{name}'", 2)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("section", "name", "value", "expected"),
    [
        (ModelSettings, "d_model", "wide", "a valid integer"),
        (ModelSettings, "dropout", 1.0, "less than 1"),
        (TrainingSettings, "learning_rate", math.nan, "finite"),
        (TrainingSettings, "learning_rate", 0, "greater than 0"),
        (TrainingSettings, "seed", -1, "greater than or equal to 0"),
        (DecodingSettings, "length_alpha", 10.5, "less than or equal to 10"),
        (TrainingSettings, "schedule", "cosin", "'noam', 'inverse_sqrt', 'cosine', 'wsd' or 'constant'"),
        (SideSettings, "lowercase", "maybe", "boolean"),
        (DataSettings, "source", "a\udcff", "valid UTF-8"),
        (DataSettings, "target", 2**53, "fewer digits"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_expected(section, name, value, expected):
    with pytest.raises(SettingsError) as caught:
        section(**{name: value})
    assert caught.value.what == f"the setting '{section.section}.{name}' cannot take this value"
    assert caught.value.got == repr(value)
    assert expected in caught.value.expected
    if name == "schedule":
        assert caught.value.hint == "did you mean 'cosine'? valid: noam, inverse_sqrt, cosine, wsd, constant"


# Settings that do not fit together


@pytest.mark.parametrize(
    ("make", "conflict"),
    [
        (lambda: ModelSettings(d_model=15), "sinusoids come in pairs, so d_model must be even, not 15"),
        (lambda: DecodingSettings(num_beams=2, num_return_sequences=3), "a beam of 2 cannot return 3 answers"),
        (lambda: Settings(tokens={"shared": False}), 'tied_embeddings="all" needs one vocabulary: set tokens.shared'),
        (lambda: TokenSettings(source={"kind": "words"}), "tokens.shared needs the same settings"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(make, conflict):
    with pytest.raises(SettingsError, match="these settings do not fit together: ") as caught:
        make()
    assert conflict in caught.value.what


def test_settings_that_fit_together_are_accepted():
    assert ModelSettings(d_model=15, positions="learned").d_model == 15
    assert DecodingSettings(num_beams=3, num_return_sequences=3).num_return_sequences == 3
    assert DecodingSettings(num_beams=1, num_return_sequences=3, do_sample=True).num_return_sequences == 3
    assert not Settings(tokens={"shared": False}, model={"tied_embeddings": "target"}).tokens.shared
    assert TokenSettings(source={"kind": "words"}, shared=False).target.kind == "subwords"


@pytest.mark.parametrize(
    ("changes", "n_answers"),
    [({"num_beams": 1}, 1), ({"num_beams": 4}, 3), ({"length_alpha": 0}, 3), ({"do_sample": True, "num_beams": 1}, 3)],
)
def test_a_narrower_beam_returns_fewer_answers_than_the_settings_of_the_model(changes, n_answers):
    own = DecodingSettings(num_beams=6, num_return_sequences=3)
    assert own.override(changes).num_return_sequences == n_answers


@pytest.mark.parametrize(
    "value",
    [10**5000, "9" * 5000, "x" * 100_000, [10**5000], list(range(10**6)), {"a": "b" * 999}],
    ids=["number", "digits", "text", "list", "long list", "dict"],
)
@pytest.mark.parametrize("name", ["steps", "learning_rate", "schedule"])
def test_a_value_or_name_of_any_length_is_refused_in_a_few_words(name, value):
    with pytest.raises(SettingsError) as caught:
        TrainingSettings(**{name: value})
    assert caught.value.what == f"the setting 'training.{name}' cannot take this value"
    assert len(caught.value.got) <= 100
    for refuse in (lambda: TrainingSettings(**{"x" * 9999: 1}), lambda: parse_assignments(["y" * 9999 + "=1"])):
        with pytest.raises(SettingsError, match="there is no setting") as caught:
            refuse()
        assert len(caught.value.what) < 120


# Nested dicts


def test_a_later_layer_wins_and_leaves_its_neighbours_alone():
    low = {"model": {"d_model": 1, "d_ff": 2}, "training": {"steps": 3}}
    merged = merge(low, {"model": {"d_ff": 9}}, {"data": {"source": "x"}})
    assert merged == {"model": {"d_model": 1, "d_ff": 9}, "training": {"steps": 3}, "data": {"source": "x"}}
    assert low["model"] == {"d_model": 1, "d_ff": 2}
    assert merge({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
    assert merge({"a": {"b": 2}}, {"a": 1}) == {"a": 1}
    assert merge() == {}


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("training.steps=500", {"training": {"steps": 500}}),
        ("training.steps = 1_000", {"training": {"steps": 1000}}),
        ("training.learning_rate=3e-4", {"training": {"learning_rate": 3e-4}}),
        ("tokens.shared=false", {"tokens": {"shared": False}}),
        ("tokens.source.kind=words", {"tokens": {"source": {"kind": "words"}}}),
        ('data.source="1"', {"data": {"source": "1"}}),
        ("data.source=1", {"data": {"source": 1}}),
        ("data.source=a column", {"data": {"source": "a column"}}),
        ("data.source=a=b", {"data": {"source": "a=b"}}),
        ("data.source=", {"data": {"source": ""}}),
        ("data.source=1\ny = 2", {"data": {"source": "1\ny = 2"}}),
        ("data.source=" + "[" * 5000, {"data": {"source": "[" * 5000}}),
    ],
)
def test_an_assignment_is_a_toml_value_or_plain_text_and_the_last_one_wins(assignment, value):
    assert parse_assignments([assignment]) == value
    name = assignment.partition("=")[0]
    assert parse_assignments([f"{name}=2", "model.d_ff=2", assignment]) == value | {"model": {"d_ff": 2}}


@pytest.mark.parametrize(
    "digits", ["9" * 5000, "-" + "9" * 5000, "[" + "9" * 5000 + "]"], ids=["positive", "negative", "in a list"]
)
def test_a_number_of_thousands_of_digits_is_refused(tmp_path, digits):
    with pytest.raises(SettingsError, match=r"the setting 'training\.steps' cannot take this value") as caught:
        parse_assignments([f"training.steps={digits}"])
    assert len(caught.value.got) <= 100
    path = tmp_path / "recipe.toml"
    path.write_text(f"[training]\nsteps = {digits}")
    with pytest.raises(SettingsError, match="the recipe is not valid TOML") as caught:
        read_recipe(path)
    assert (caught.value.where, len(caught.value.got) <= 200) == (str(path), True)


@pytest.mark.parametrize(
    ("assignment", "what", "hint"),
    [
        ("training.steps", "cannot read the setting 'training.steps'", "KEY=VALUE, as in training.steps=500"),
        ("training.stepz=5", "there is no setting 'training.stepz'", "--set training.steps=5"),
        ("steps=5", "there is no setting 'steps'", "--set training.steps=5"),
        ("train.steps=5", "there is no setting 'train.steps'", "--set training.steps=5"),
        ("tokens.source.kin=words", "there is no setting 'tokens.source.kin'", "next: --set tokens.source.kind=words"),
        ("model=5", "'model' is not a single setting", "model.d_model"),
        ("tokens.source=5", "'tokens.source' is not a single setting", "tokens.source.kind"),
        ("model.d_model.x=5", "'model.d_model.x' is not a single setting", "did you mean 'model.d_model'?"),
        ("=5", "there is no setting ''", "next: glassformer settings WORD"),
    ],
)
def test_an_assignment_to_no_setting_is_refused(assignment, what, hint):
    with pytest.raises(SettingsError) as caught:
        parse_assignments([assignment])
    assert (caught.value.what, hint in str(caught.value)) == (what, True)


# Recipes

sides = st.fixed_dictionaries(
    {"kind": st.sampled_from(["characters", "words", "subwords", "bytes"])},
    optional={
        "algorithm": st.sampled_from(["bpe", "unigram"]),
        "vocabulary_size": st.integers(1, 10**7),
        "normalization": st.sampled_from(["none", "NFC", "NFD", "NFKC"]),
        "lowercase": st.booleans(),
    },
)
positive_floats = st.floats(0, exclude_min=True, allow_infinity=False)
recipes = st.fixed_dictionaries(
    {"model": st.fixed_dictionaries({"tied_embeddings": st.sampled_from(["none", "target"])})},
    optional={
        "data": st.fixed_dictionaries(
            {"source": st.none() | st.integers(0, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"]))},
        ),
        "tokens": st.fixed_dictionaries({"source": sides, "target": sides, "shared": st.just(False)}),
        "training": st.fixed_dictionaries(
            {"learning_rate": positive_floats, "max_minutes": st.none() | positive_floats}
        ),
        "decoding": st.fixed_dictionaries({"temperature": positive_floats}),
    },
)


@settings(max_examples=50, deadline=None)
@given(recipes)
def test_a_recipe_comes_back_from_toml_as_it_was(recipe):
    chosen = Settings(**recipe)
    assert Settings(**tomllib.loads(chosen.to_toml())) == chosen
    assert Settings(**chosen.model_dump(mode="json")) == chosen


def test_a_recipe_says_above_each_setting_what_it_means():
    chosen = Settings(data={"source": 'a\nb # "c" \u2028'}, training={"max_minutes": None})
    lines = chosen.to_toml().split("\n")
    section, found = "", {}
    for above, line in pairwise(["", *lines]):
        if line.startswith("["):
            section = line.strip("[]")
        elif key := re.match(r"(\w+) = |# (\w+) is unset$", line):
            found[f"{section}.{key[1] or key[2]}"] = above
    assert found == {name: f"# {description}" for name, description in all_settings().items()}
    assert "# max_minutes is unset" in lines
    assert "d_k = 64" in lines
    assert tomllib.loads(chosen.to_toml())["data"]["source"] == chosen.data.source
    sections = ["[data]", "[tokens]", "[tokens.source]", "[tokens.target]", "[model]", "[training]", "[decoding]"]
    assert [line for line in lines if line.startswith("[")] == sections


def test_a_recipe_is_read_from_a_file(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xef\xbb\xbf[training]\r\nsteps = 5\r\n\r\n[tokens.source]\r\nkind = 'words'\r\n")
    assert read_recipe(path) == {"training": {"steps": 5}, "tokens": {"source": {"kind": "words"}}}
    path.write_text(paper := Settings(model=paper_big().model_dump()).to_toml(), encoding="utf-8")
    assert Settings(**read_recipe(path)).to_toml() == paper


# Presets


def test_a_preset_supplies_the_paper_s_settings_and_the_recipe_goes_over_them(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('preset = "paper-big"\n[training]\nsteps = 7\n[model]\nnorm = "pre"\n', encoding="utf-8")
    settings = Settings(**read_recipe(path))
    assert (settings.training.steps, settings.training.average_last, settings.training.metric) == (7, 20, "bleu")
    assert settings.decoding.num_beams == 4
    assert settings.model == ModelSettings(**(paper_big().model_dump() | {"norm": "pre"}))


@pytest.mark.parametrize(("name", "steps", "average"), [("paper-base", 100_000, 5), ("paper-big", 300_000, 20)])
def test_a_preset_is_what_sections_5_and_6_of_the_paper_say(name, steps, average):
    settings = Settings(**preset(name))
    assert settings.model == {"paper-base": ModelSettings(), "paper-big": paper_big()}[name]
    assert (settings.training.steps, settings.training.average_last) == (steps, average)
    assert (settings.training.batch_tokens, settings.training.warmup_steps) == (25_000, 4000)
    assert (settings.decoding.num_beams, settings.decoding.length_alpha) == (4, 0.6)
    assert (settings.tokens.source.algorithm, settings.tokens.shared) == ("bpe", True)


NO_TOML, NO_PRESET = "the recipe is not valid TOML", "there is no preset"
NO_RECIPE = [
    (b'preset = "paper-bass"', NO_PRESET, "did you mean 'paper-base'? valid: paper-base, paper-big"),
    (b"preset = 3", NO_PRESET, "next: valid: paper-base, paper-big"),
    (b"[training\nsteps = 5", NO_TOML, "got: "),
    (b"steps = \xff", "cannot read the recipe", "got: "),
    (b"a = " + b"[" * 5000, NO_TOML, "got: "),
    (b"[training]\nstepz = 5", "there is no setting 'training.stepz'", "did you mean 'training.steps'?"),
    (b"[tokens.target]\nkin = 5", "there is no setting 'tokens.target.kin'", "did you mean 'tokens.target.kind'?"),
    (b"model = 3", "'model' is not a single setting", "model.d_model"),
    (b"[model.d_ff]\nx = 3", "'model.d_ff.x' is not a single setting", "model.d_ff"),
]


@pytest.mark.parametrize(("content", "what", "part"), NO_RECIPE)
def test_a_recipe_that_is_not_valid_is_refused_with_its_file(tmp_path, content, what, part):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        read_recipe(path)
    assert (caught.value.what.startswith(what), caught.value.where) == (True, str(path))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "got"), [("missing.toml", "No such file"), (".", "Is a directory"), ("a\0b", ""), ("a\ud800b", "")]
)
def test_a_recipe_that_cannot_be_read_is_refused(tmp_path, name, got):
    with pytest.raises(SettingsError, match="cannot read the recipe") as caught:
        read_recipe(tmp_path / name)
    assert got in caught.value.got
