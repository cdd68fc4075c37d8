"""`glassformer settings`: every setting, its meaning, default and limits."""

from __future__ import annotations

import json

from glassformer.settings import all_settings


def test_every_setting_is_printed_with_its_meaning_under_its_section(call):
    answer = call("settings")
    assert (answer.code, answer.err) == (0, "")
    out = " ".join(answer.out.split())
    for name, description in all_settings().items():
        assert name in out
        assert " ".join(description.split()) in out
    lines = [line.strip() for line in answer.out.splitlines()]
    sections = ["data", "tokens", "tokens.source", "tokens.target", "model", "training", "decoding"]
    assert [line for line in lines if line in sections] == sections


def test_the_settings_as_json_are_a_list_of_objects(call):
    listed = json.loads(call("settings", "--json").out)
    assert [each["name"] for each in listed] == list(all_settings())
    by_name = {each["name"]: each for each in listed}
    schedule = by_name["training.schedule"]
    assert schedule.keys() == {"name", "description", "type", "default", "choices", "limits"}
    assert (schedule["default"], schedule["choices"][0]) == ("noam", "noam")
    assert by_name["model.dropout"]["limits"] == {"minimum": 0, "exclusiveMaximum": 1}
    names = [each["name"] for each in json.loads(call("settings", "ascii68", "--json").out)]
    assert names == ["tokens.source.preset", "tokens.target.preset"]


# Recipes


def test_the_recipes_of_the_package_or_those_with_a_word_are_listed_with_what_they_are_for(call):
    answer = call("settings", "--recipes")
    assert answer.code == 0
    assert "g2p" in answer.out
    assert "Spelling to pronunciation" in answer.out
    assert "paper/base" in answer.out
    listed = {each["name"]: each["description"] for each in json.loads(call("settings", "--recipes", "--json").out)}
    assert listed["scan"].startswith("SCAN, simple split (Lake and Baroni 2018)")
    assert all(listed.values())
    names = [each["name"] for each in json.loads(call("settings", "MULTI30k", "--recipes", "--json").out)]
    assert names == ["multi30k", "multi30k-wu2021"]
    answer = call("settings", "nothing like it", "--recipes")
    assert (answer.code, answer.out) == (2, "")
    assert "no recipe contains 'nothing like it'" in answer.err
