"""The reference of settings: every one of them, with the limits that the settings enforce."""

from __future__ import annotations

import pytest

from glassformer.errors import SettingsError
from glassformer.planning.recipes.overrides import SYNONYMS, merge, nested, parse_assignments
from glassformer.planning.settings_reference import SettingInfo, find_settings, list_settings
from glassformer.settings import Settings

FACTS = {info.name: info for info in list_settings()}


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("data.source", {"type": "string or integer or array", "default": None}),
        ("data.features", {"type": "array", "default": []}),
        ("tokens.target.preset", {"type": "string", "default": "none", "choices": ("none", "ascii68")}),
        ("tokens.shared", {"type": "boolean", "default": True}),
        ("model.d_k", {"type": "integer", "default": None, "limits": {"minimum": 1, "maximum": 2**20}}),
        ("model.dropout", {"type": "number", "default": 0.1, "limits": {"minimum": 0, "exclusiveMaximum": 1}}),
        ("decoding.top_p", {"limits": {"exclusiveMinimum": 0, "maximum": 1}}),
    ],
)
def test_a_setting_has_its_type_default_choices_and_limits(name, facts):
    assert {fact: getattr(FACTS[name], fact) for fact in facts} == facts


def with_setting(info: SettingInfo, value: object) -> Settings:
    needed = {"tokens": {"shared": False}, "model": {"tied_embeddings": "target"}}
    return Settings(**merge(needed if info.name.startswith("tokens.") else {}, nested({info.name: value})))


@pytest.mark.parametrize("info", list_settings(), ids=lambda info: info.name)
def test_a_choice_or_limit_of_the_reference_is_one_that_settings_enforce(info: SettingInfo):
    for choice in info.choices or ():
        with_setting(info, choice)
    outside = ["no such choice"] if info.choices else []
    for name, limit in info.limits.items():
        outside.append(limit + {"minimum": -1, "maximum": 1}.get(name, 0))
        if limit != outside[-1] and info.name not in {"model.d_model", "decoding.num_return_sequences"}:
            with_setting(info, limit)  # but for those that must fit another one
    for value in outside:
        with pytest.raises(SettingsError, match=f"{info.name.rpartition('.')[2]}' cannot take this value"):
            with_setting(info, value)


@pytest.mark.parametrize("info", list_settings(), ids=lambda info: info.name)
def test_a_default_of_the_reference_is_what_settings_choose(info: SettingInfo):
    value: object = Settings()
    for key in info.name.split("."):
        value = getattr(value, key)
    if info.name not in {"model.d_k", "model.d_v"}:  # theirs follows from other settings
        assert (list(value) if isinstance(value, tuple) else value) == info.default


def test_a_word_is_found_in_names_descriptions_and_choices_in_any_case():
    assert [info.name for info in find_settings("ASCII68")] == ["tokens.source.preset", "tokens.target.preset"]
    assert [info.name for info in find_settings("Inverse_Sqrt")] == ["training.schedule"]
    assert [info.name for info in find_settings("beta_")] == ["training.beta_1", "training.beta_2"]
    assert {"model.dropout", "training.seed"} <= {info.name for info in find_settings("dropout")}
    assert "training.clip_norm" in {info.name for info in find_settings("norm of the GRADIENT")}
    assert find_settings("") == list_settings()


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("early_stopping", "training.patience"),
        ("beam size", "decoding.num_beams"),
        ("lr", "training.learning_rate"),
        ("warm-up", "training.warmup_steps"),
        ("bf16", "training.precision"),
    ],
)
def test_another_word_of_the_field_leads_to_the_setting(word, name):
    assert name in [info.name for info in find_settings(word)]


def test_an_assignment_to_another_word_of_the_field_names_the_setting():
    with pytest.raises(SettingsError) as caught:
        parse_assignments(["training.batch_size=9"])
    assert caught.value.hint == "--set training.batch_tokens=VALUE"


def test_a_synonym_is_of_a_setting_that_does_not_contain_it_by_itself():
    known = {info.name.rpartition(".")[2]: f"{info.name} {info.description}".casefold() for info in list_settings()}
    assert [(name, word) for name, words in SYNONYMS.items() for word in words if word in known[name]] == []


@pytest.mark.parametrize(("word", "near"), [("stepz", "'steps'"), ("asci86", "'ascii68'")])
def test_a_word_that_no_setting_contains_is_an_error_with_the_nearest_name_or_choice(word, near):
    with pytest.raises(SettingsError, match=f"no setting contains '{word}'") as caught:
        find_settings(word)
    assert near in caught.value.hint
    assert caught.value.exit_code == 2
