"""Settings as nested dicts, merged from recipes, `--set` and overrides from Python."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from glassformer.errors import SettingsError, nearest, quoted
from glassformer.settings import (
    DataSettings,
    DecodingSettings,
    ModelSettings,
    TrainingSettings,
    all_settings,
    preset,
)

SYNONYMS = {
    "valid_fraction": ("validation split", "dev set"),
    "vocabulary_size": ("vocab size", "merges"),
    "d_model": ("hidden size", "embedding size", "embed dim"),
    "d_ff": ("ffn dim", "intermediate size"),
    "n_heads": ("num heads",),
    "n_encoder_layers": ("num layers",),
    "n_decoder_layers": ("num layers",),
    "norm": ("layer norm", "pre ln", "post ln"),
    "positions": ("positional encoding", "position embedding"),
    "tied_embeddings": ("weight tying", "shared embeddings"),
    "steps": ("epochs", "iterations"),
    "max_minutes": ("time limit",),
    "batch_tokens": ("batch size",),
    "accumulate": ("gradient accumulation",),
    "schedule": ("lr scheduler",),
    "learning_rate": ("lr", "step size"),
    "warmup_steps": ("warm up",),
    "beta_1": ("optimizer",),
    "beta_2": ("optimizer",),
    "weight_decay": ("l2 regularization",),
    "clip_norm": ("gradient clipping", "max grad norm"),
    "precision": ("fp16", "bf16", "fp32", "float16", "mixed precision", "amp"),
    "recompute": ("gradient checkpointing", "activation checkpointing"),
    "validate_every": ("eval steps",),
    "patience": ("early stopping",),
    "keep_snapshots": ("checkpoints",),
    "average_last": ("checkpoint averaging",),
    "num_beams": ("beam size",),
    "validate_beams": ("beam size",),
    "top_p": ("nucleus sampling",),
}
"""Last part of a setting's name -> other words of the field for it."""
OTHER_UNITS = ("epochs", "batch size", "merges", "dev set")
"""Synonyms whose numbers are not those of the setting."""


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested dicts; a later one has priority."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            if isinstance(value, Mapping):
                value = merge(old if isinstance(old, dict) else {}, value)
            merged[key] = value
    return merged


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse `["training.steps=500"]` as `{"training": {"steps": 500}}`; values are TOML, or plain text.

    Raises SettingsError for text without `=`, an unknown name, and a number of thousands of digits.
    """
    parsed: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise SettingsError(
                f"cannot read the setting {quoted(assignment)}", expected="KEY=VALUE, as in training.steps=500"
            )
        keys = path.strip().split(".")
        value: Any = text.strip()
        _check_path(keys, value)
        try:
            values = tomllib.loads(f"value = {value}")
            if len(values) == 1:  # a line break could add more settings
                value = values["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            pass
        except ValueError:
            what, expected = f"the setting {path.strip()!r} cannot take this value", "a number of fewer digits"
            raise SettingsError(what, got=quoted(text.strip()), expected=expected) from None
        parsed = merge(parsed, _branch(keys, value))
    return parsed


def _check_path(keys: Sequence[str], value: str | None = None) -> None:
    """Raise SettingsError unless the keys lead from Settings to a single field, which is given this `value`."""
    name, settings = ".".join(keys), all_settings()
    if name in settings:
        return
    if near := [full for full in settings if full.startswith(f"{name}.") or name.startswith(f"{full}.")]:
        raise SettingsError(f"{quoted(name)} is not a single setting", hint=nearest(name, near))
    word, section = keys[-1].strip(": "), f"{name.rpartition('.')[0]}."
    close = get_close_matches(word, [full.rpartition(".")[2] for full in settings], n=1)
    full_names = next(filter(None, map(settings_called, (word, *close))), [])
    full_names = [full for full in full_names if full.startswith(section)] or full_names
    hint = "glassformer settings WORD, with a word of its name or of what it does"
    if full_names and value is not None:
        hint = set_options(full_names, word, value)
    elif full_names:
        hint = f"did you mean {' or '.join(map(repr, full_names))}?"
    raise SettingsError(f"there is no setting {quoted(name)}", hint=hint)


def settings_called(word: str) -> list[str]:
    """Return the settings with this last part of their name, or else with this synonym."""
    word, settings = spaced(word), all_settings()
    same = [full for full in settings if spaced(full.rpartition(".")[2]) == word]
    return same or [full for full in settings if word in synonyms(full)]


def set_options(settings: Sequence[str], word: str, value: str) -> str:
    """Return the options that give settings, called `word`, a value: VALUE where the word counts something else."""
    text = "VALUE" if spaced(word) in OTHER_UNITS else shlex.quote(value)
    return " or ".join(f"--set {setting}={text}" for setting in settings)


def read_recipe(path: Path) -> dict[str, Any]:
    """Read a recipe file as a nested dict, merged over the preset that it names, if any; it may be partial.

    Raises SettingsError when it cannot be read, is not TOML or names a setting or preset that does not exist.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # it is not UTF-8, or its path contains NUL
        got = getattr(error, "strerror", None) or str(error)
        raise SettingsError("cannot read the recipe", where=str(path), got=got) from None
    try:
        recipe = tomllib.loads(text)
        base = preset(recipe.pop("preset")) if "preset" in recipe else {}
        for keys, _ in _leaves(recipe):
            _check_path(keys)
    except (ValueError, RecursionError) as error:  # not TOML, or a number of thousands of digits
        raise SettingsError("the recipe is not valid TOML", where=str(path), got=str(error)) from None
    except SettingsError as error:
        error.where = str(path)
        raise
    return merge(base, recipe)


def _leaves(branch: Mapping[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """Yield the path of keys to each value that is not a table, and the value."""
    for key, value in branch.items():
        if isinstance(value, Mapping):
            yield from (([key, *path], leaf) for path, leaf in _leaves(value))
        else:
            yield [key], value


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"training.steps": 500}` as `{"training": {"steps": 500}}`; nested values are kept.

    Raises SettingsError for an unknown name.
    """
    branch: dict[str, Any] = {}
    for name, value in overrides.items():
        branch = merge(branch, _branch(name.split("."), value))
    for keys, _ in _leaves(branch):
        _check_path(keys)
    return branch


def _branch(keys: Sequence[str], value: Any) -> dict[str, Any]:
    return {keys[0]: _branch(keys[1:], value) if keys[1:] else value}


def flat(branch: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings by their full names: `{"training.steps": 500}`."""
    return {".".join(keys): value for keys, value in _leaves(branch)}


def check_settings(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Check partial settings and convert their values, before work is done for them. Raises SettingsError.

    The section `tokens` is not checked here, but later, when both sides are known.
    """
    sections = (DataSettings, ModelSettings, TrainingSettings, DecodingSettings)
    checked = {
        settings.section: settings(**overrides[settings.section]).model_dump(exclude_unset=True)
        for settings in sections
        if settings.section in overrides
    }
    return {**overrides, **checked}


def synonyms(setting: str) -> tuple[str, ...]:
    """Return the synonyms of a setting, of any section."""
    return SYNONYMS.get(setting.rpartition(".")[2], ())


def spaced(text: str) -> str:
    """Return a text in lower case, with spaces for hyphens and "_", in which words are compared."""
    return text.casefold().replace("_", " ").replace("-", " ")
