"""The reference of all settings: name, meaning, type, default and limits, read from the models of `settings`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.errors import SettingsError, nearest
from glassformer.planning.recipes.overrides import spaced, synonyms
from glassformer.settings import Settings

SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
"""Limit of JSON Schema -> its sign."""


@dataclass(frozen=True)
class SettingInfo:
    """The reference of one setting. `limits` are limits of JSON Schema, by name; a `default` of None means unset."""

    name: str
    description: str
    type: str
    default: Any
    choices: tuple[str, ...] | None
    limits: Mapping[str, float]

    @property
    def section(self) -> str:
        """The full name of the section, as "training" or "tokens.source"."""
        return self.name.rpartition(".")[0]

    def contains(self, word: str) -> bool:
        """Return whether name, description, a choice or a synonym contains the word, ignoring case, hyphens and "_"."""
        texts = (self.name, self.description, *(self.choices or ()), *synonyms(self.name))
        return any(spaced(word) in spaced(text) for text in texts)


def list_settings() -> list[SettingInfo]:
    """Return every setting, in the order of the recipe."""
    schema = Settings.model_json_schema()
    return list(_walk(schema, schema["$defs"], ""))


def find_settings(word: str) -> list[SettingInfo]:
    """Return the settings that contain `word`. Raises SettingsError, with the nearest names, when there is none."""
    settings = list_settings()
    matches = [info for info in settings if info.contains(word)]
    if not matches:
        words = [text for info in settings for text in (info.name.rpartition(".")[2], *(info.choices or ()))]
        raise SettingsError(f"no setting contains {word!r}", hint=nearest(word, dict.fromkeys(words)))
    return matches


def _walk(section: Mapping[str, Any], sections: Mapping[str, Any], prefix: str) -> Iterator[SettingInfo]:
    for name, schema in section["properties"].items():
        if "$ref" in schema:
            yield from _walk(sections[schema["$ref"].rpartition("/")[2]], sections, f"{prefix}{name}.")
        else:
            yield _info(prefix + name, schema)


def _info(name: str, schema: Mapping[str, Any]) -> SettingInfo:
    """Return a property of a JSON schema as a SettingInfo; the type "null" only means that it can be unset."""
    variants = [variant for variant in schema.get("anyOf", [schema]) if variant["type"] != "null"]
    facts = {key: value for variant in variants for key, value in variant.items()}
    kind = " or ".join(variant["type"] for variant in variants)
    choices = tuple(facts["enum"]) if "enum" in facts else None
    limits = {limit: facts[limit] for limit in SIGNS if limit in facts}
    return SettingInfo(name, schema["description"], kind, schema.get("default"), choices, limits)
