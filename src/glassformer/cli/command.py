"""How a verb, a function, becomes a command.

A parameter of a verb that is an `OptionGroup`, such as `options.ColumnOptions`, stands for the options in its
attributes: options that several verbs share are declared once, next to what they decide.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from glassformer.cli.console import OptionGroup, print_error
from glassformer.cli.help import description_of, print_help, usage_of
from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED, UsageError, quoted

INPUTS = (
    *("table", "source", "valid", "test", "model", "models", "a", "b", "folder", "init", "ensemble", "recipe"),
    *("lexicon", "choices", "check", "heads"),
)
"""Parameters of verbs that are files to read, if they are files."""
OUTPUTS = {"out": "--out", "ledger": "--ledger", "html": "--html", "page": "--report"}
"""Parameters of verbs that are files to write -> their options."""


def as_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb as a function of options; Ctrl-C ends it with a message (typer prints none)."""
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, OptionGroup)}
    options = {
        name: [
            Parameter(option, Parameter.KEYWORD_ONLY, default=getattr(group, option), annotation=hint)
            for option, hint in get_type_hints(group, include_extras=True).items()
        ]
        for name, group in groups.items()
    }
    parameters: list[Parameter] = []
    for name, given in inspect.signature(verb).parameters.items():
        own = [Parameter(name, Parameter.KEYWORD_ONLY, default=given.default, annotation=hints[name])]
        parameters += options.get(name, own)

    @functools.wraps(verb)
    def run_verb(**values: Any) -> None:
        if not gc.isenabled():  # `__main__` has disabled it; what was imported until now is no garbage
            gc.freeze()
            gc.enable()
        try:
            _check_order(verb.__name__, values)
            _check_text(verb.__name__, values)
            _check_outputs(values)
            for name, group in groups.items():
                values[name] = group(**{option.name: values.pop(option.name) for option in options[name]})
            verb(**values)
        except KeyboardInterrupt:
            print_error(INTERRUPTED)
            raise typer.Exit(EXIT_INTERRUPTED) from None

    run_verb.__doc__ = description_of(verb)[0]
    run_verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_verb


def _check_order(verb: str, values: Mapping[str, Any]) -> None:
    """Raise UsageError where the argument after the model is one, and the model is none."""
    model, others = values.get("model"), (values.get(name) for name in ("table", "text", "source"))
    second = next((one for one in others if isinstance(one, str)), "")
    if isinstance(model, Path) and _is_model(Path(second)) and not _is_model(model):
        hint = shlex.join(("glassformer", verb, second, str(model)))
        got = shlex.join((str(model), second))
        raise UsageError("the arguments are in the wrong order", got=got, expected="the model first", hint=hint)


def _check_text(verb: str, values: Mapping[str, Any]) -> None:
    """Raise UsageError where the text to look into is a file with texts."""
    text, model = values.get("text"), values.get("model")
    with suppress(OSError, ValueError):  # a text that is no path
        if isinstance(text, str) and isinstance(model, Path) and Path(text).suffix and Path(text).is_file():
            hint = f"{shlex.join(('glassformer', verb, str(model)))} TEXT, with a text of the file"
            raise UsageError("this is a file, and this command takes one text", where=text, hint=hint)


def _is_model(path: Path) -> bool:
    with suppress(OSError, ValueError):  # a text that is no path
        return (path.is_file() and path.suffix == ".safetensors") or (path / "model.safetensors").is_file()
    return False


def _check_outputs(values: Mapping[str, Any]) -> None:
    """Raise UsageError for a file to write that the verb reads too, or writes by another option."""
    written = {name: values[name] for name in OUTPUTS if values.get(name) is not None}
    if not written:
        return
    is_input = {name: values.get(name) is not None for name in (*INPUTS, *written)}
    is_input["source"] = isinstance(values.get("source"), str)  # else it is a list of columns
    files = (values[name] for name, is_given in is_input.items() if is_given)
    given = chain.from_iterable(value if isinstance(value, list) else [value] for value in files)
    paths = [str(value) for value in given if isinstance(value, str | Path)]
    named = Counter[str]()
    for path in paths:  # a file, two parallel files, or a run with its model
        with suppress(ValueError):  # a text that is no path
            named.update({os.path.realpath(one) for one in (path, *path.split(","), f"{path}/model.safetensors")})
    for name, path in written.items():
        if named[os.path.realpath(path)] > 1 and not path.is_dir():
            what = f"{OUTPUTS[name]} is a file that this command reads or writes too"
            raise UsageError(what, where=str(path), hint=f"another {OUTPUTS[name]}")


class Commands(TyperGroup):
    """All commands."""

    def format_help(self, ctx: typer.Context, _formatter: Any) -> None:  # type: ignore[override]
        print_help(self, ctx)


class Command(TyperCommand):
    """A command that refuses an option with two values, of which click alone would silently take the last."""

    def format_help(self, ctx: typer.Context, _formatter: Any) -> None:  # type: ignore[override]
        print_help(self, ctx)

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # its click is private
        return usage_of(self.get_params(ctx))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its click is private
        """Raises UsageError, with the option, unless help is requested."""
        for word, assignment, value in zip(args, args[1:], [*args[2:], "-"], strict=False):
            if word == "--set" and "=" not in assignment:
                write = f"--set {assignment}={'VALUE' if value.startswith('-') else shlex.quote(value)}"
                raise UsageError(f"cannot read the setting {quoted(assignment)}", expected="KEY=VALUE", hint=write)
        if self.name == "train":
            self._check_settings(args)
        values, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, count in Counter(given).items():
            if count == 1 or values.get("help") or not isinstance(option, TyperOption) or option.multiple:
                continue
            if not option.is_flag or option.secondary_opts:
                named = " / ".join([*option.opts, *option.secondary_opts])
                raise UsageError(f"the option {named} takes one value", got=f"{count} values", hint="give it once")
        return super().parse_args(ctx, args)

    def _check_settings(self, args: Sequence[str]) -> None:
        """Raise UsageError for an option that is a setting, such as --steps or --lr."""
        known = {option for parameter in self.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word, following in zip(args, [*args[1:], "-"], strict=False):
            option, has_value, value = word.partition("=")
            if not option.startswith("--") or option in known or option == "--help":
                continue
            from glassformer.planning.recipes.overrides import spaced, synonyms
            from glassformer.settings import all_settings

            name = spaced(option.strip("-"))
            last = {setting: spaced(setting.rpartition(".")[2]) for setting in all_settings()}
            value = value if has_value else "VALUE" if following.startswith("-") else following
            found = [f"--set {setting}={shlex.quote(value)}" for setting in last if name == last[setting]]
            found = found or [f"--set {setting}=VALUE" for setting in last if name in synonyms(setting)]
            if found:  # VALUE: epochs are not steps
                raise UsageError(f"there is no option {option}; it is a setting", hint=" or ".join(found))
