"""How a verb, a function, becomes a command.

A parameter of a verb that is an `OptionGroup`, such as `options.ColumnOptions`, stands for the options in its
attributes: options that several verbs share are declared once, next to what they decide.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from glassformer.cli.console import OptionGroup, print_error
from glassformer.cli.help import description_of, print_help, usage_of
from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED, TooLongError, UsageError, quoted

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
        own_parameters = [Parameter(name, Parameter.KEYWORD_ONLY, default=given.default, annotation=hints[name])]
        parameters += options.get(name, own_parameters)

    @functools.wraps(verb)
    def run_verb(**values: Any) -> None:
        if not gc.isenabled():  # `__main__` has disabled it; what was imported until now is no garbage
            gc.freeze()
            gc.enable()
        try:
            _check_text(verb.__name__, values)
            _check_outputs(values)
            for name, group in groups.items():
                values[name] = group(**{option.name: values.pop(option.name) for option in options[name]})
            verb(**values)
        except TooLongError as error:
            if "columns" in values:  # of a table of pairs
                error.hint = f"{error.hint}; --bad-rows skip leaves them out"
            raise
        except KeyboardInterrupt:
            print_error(INTERRUPTED)
            raise typer.Exit(EXIT_INTERRUPTED) from None

    run_verb.__doc__ = description_of(verb)[0]
    run_verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_verb


def _check_text(verb: str, values: Mapping[str, Any]) -> None:
    """Raise UsageError where the text to look into is a file with texts."""
    text, model = values.get("text"), values.get("model")
    with suppress(OSError, ValueError):  # a text that is no path
        if isinstance(text, str) and isinstance(model, Path) and Path(text).suffix and Path(text).is_file():
            hint = f"{shlex.join(('glassformer', verb, str(model)))} TEXT, with a text of the file"
            raise UsageError("this is a file, and this command takes one text", where=text, hint=hint)


def _is_model(word: str) -> bool:
    path = Path(word)
    with suppress(OSError, ValueError):  # a text that is no path
        return (path.is_file() and path.suffix == ".safetensors") or (path / "model.safetensors").is_file()
    return False


def _is_table(word: str) -> bool:
    from glassformer.data.formats import FORMATS, suffix_of

    return suffix_of(Path(word)) in FORMATS and os.path.isfile(word)  # noqa: PTH113, of any text


def _check_outputs(values: Mapping[str, Any]) -> None:
    """Raise UsageError for a file to write that the verb reads too, or writes by another option."""
    written = {name: values[name] for name in OUTPUTS if values.get(name) not in (None, Path("-"))}
    if not written:
        return
    is_input = {name: values.get(name) is not None for name in (*INPUTS, *written)}
    is_input["source"] = isinstance(values.get("source"), str)  # else it is a list of columns
    files = (values[name] for name, is_given in is_input.items() if is_given)
    given = chain.from_iterable(value if isinstance(value, list) else [value] for value in files)
    paths = [str(value) for value in given if isinstance(value, str | Path)]
    uses = Counter[str]()
    for path in paths:  # a file, two parallel files, or a run with its model
        with suppress(ValueError):  # a text that is no path
            uses.update({os.path.realpath(file) for file in (path, *path.split(","), f"{path}/model.safetensors")})
    for name, path in written.items():
        if uses[os.path.realpath(path)] > 1 and not path.is_dir():
            what = f"{OUTPUTS[name]} is a file that this command reads or writes too"
            raise UsageError(what, where=str(path), hint=f"another {OUTPUTS[name]}")


_TEXTS = ("TEXT", "TOKEN", "INPUT")  # arguments that are texts


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
        """Raises UsageError, with the option, unless help is requested: that is given, whatever is next to it."""
        if not set(ctx.help_option_names).isdisjoint(takewhile("--".__ne__, args)):
            return super().parse_args(ctx, ctx.help_option_names[:1])
        for word, assignment, value in zip(args, args[1:], [*args[2:], "-"], strict=False):
            if word == "--set" and "=" not in assignment:
                key, own_value = re.split(r"[:\s]+", f"{assignment} ", maxsplit=1)  # KEY, KEY: VALUE or KEY VALUE
                value = own_value.strip() or ("VALUE" if value.startswith(("-", "=")) else value)
                write = f"--set {key}={shlex.quote(value)}"
                raise UsageError(f"cannot read the setting {quoted(assignment)}", expected="KEY=VALUE", hint=write)
        if self.name == "train":
            self._check_settings(args)
        outputs = [OUTPUTS[each.name] for each in self.params if each.name in OUTPUTS]
        if outputs and "--out" not in outputs and "--out" in {word.partition("=")[0] for word in args}:
            raise UsageError("there is no option --out", hint=" or ".join(f"{option} FILE" for option in outputs))
        try:
            values, extra, given = self.make_parser(ctx).parse_args(list(args))
        except typer.BadParameter.__base__ as error:  # type: ignore[misc]  # UsageError of its click
            self._check_hyphen(ctx, args, getattr(error, "option_name", "--"))
            raise
        self._check_order(args, values)
        self._check_extra(extra, values)
        for option, count in Counter(given).items():
            if count == 1 or not isinstance(option, TyperOption) or option.multiple:
                continue
            if not option.is_flag or option.secondary_opts:
                names = " / ".join([*option.opts, *option.secondary_opts])
                raise UsageError(f"the option {names} takes one value", got=f"{count} values", hint="give it once")
        return super().parse_args(ctx, args)

    def _check_hyphen(self, ctx: typer.Context, args: Sequence[str], option: str) -> None:
        """Raise UsageError where a text such as -ed, which is not given otherwise, was taken for an `option`."""
        places = [each.name for each in self.params if each.param_type_name == "argument" and each.metavar in _TEXTS]
        at = next((at for at, word in enumerate(args) if word.startswith(option)), None)
        if not places or at is None or option.startswith("--"):
            return
        others = [*args[:at], *args[at + 1 :]]
        values, _, _ = self.make_parser(ctx).parse_args(list(others))
        if not isinstance(values.get(places[0]), str):
            hint = shlex.join(("glassformer", str(self.name), *others, "--", args[at]))
            raise UsageError(f"there is no option {args[at]}", hint=f"as a text: {hint}")

    def _check_order(self, args: Sequence[str], values: Mapping[str, Any]) -> None:
        """Raise UsageError where the first argument, a model, is a table, or the last one is the model."""
        places = [each for each in self.params if each.param_type_name == "argument"]
        words = [word for each in places if isinstance(word := values.get(each.name), str)]
        if len(places) < 2 or places[0].name not in ("model", "a") or not words or _is_model(words[0]):
            return
        first, *rest = words
        names, is_whole = [str(each.metavar) for each in places], len(words) == len(places)
        what = "the first argument is a table"
        if is_whole and _is_model(rest[-1]):
            what, write = "the arguments are in the wrong order", [*rest, first]
        elif not _is_table(first) or (is_whole and places[0].name == "a"):  # which can be a file of answers
            return
        elif is_whole:
            write = [names[0], *rest]
        else:
            write = [*rest, *names[len(rest) : -1], names[-1] if places[-1].name in ("text", "token") else first]
        options = list((Counter(args) - Counter(words)).elements())
        hint = shlex.join(("glassformer", str(self.name), *write, *options))
        raise UsageError(what, got=shlex.join(words), expected=" ".join(names), hint=hint)

    def _check_extra(self, extra: Sequence[str], values: Mapping[str, Any]) -> None:
        """Raise UsageError for an argument too many that is a setting, or the output."""
        needs_out = any(each.name == "out" and each.required for each in self.params)
        hint, files = "", (values.get("table") or "", *extra)
        if extra and "=" in extra[0] and any("--set" in each.opts for each in self.params):
            from glassformer.planning.recipes.overrides import set_options, settings_called

            name, _, value = extra[0].partition("=")
            hint = set_options(settings_called(name) or [name], name, value)
        elif len({Path(file).stem for file in files}) == 1 < len(files) and not _is_table(files[0]):
            hint = f"two parallel files are one argument: {shlex.quote(','.join(files))}"
        elif extra and needs_out and not values.get("out"):
            hint = f"--out {shlex.quote(extra[0])}"
        if hint:
            raise UsageError(f"unexpected argument {quoted(extra[0])}", hint=hint)

    def _check_settings(self, args: Sequence[str]) -> None:
        """Raise UsageError for an option that is a setting, such as --steps or --lr."""
        known_options = {option for parameter in self.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word, following in zip(args, [*args[1:], "-"], strict=False):
            option, has_value, value = word.partition("=")
            if not option.startswith("--") or option in known_options:
                continue
            from glassformer.planning.recipes.overrides import set_options, settings_called

            name, value = option.strip("-"), value if has_value else "VALUE" if following.startswith("-") else following
            if full_names := settings_called(name):
                hint = set_options(full_names, name, value)
                unit = " in another unit" if hint.endswith("=VALUE") and value != "VALUE" else ""
                raise UsageError(f"there is no option {option}; it is a setting{unit}", hint=hint)
