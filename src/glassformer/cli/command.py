"""How a verb, a function, becomes a command.

A parameter of a verb that is an `OptionGroup`, such as `options.Columns`, stands for the options in its attributes:
options that several verbs share are declared once, next to what they decide.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

from glassformer.cli.console import OptionGroup, print_error
from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED, UsageError

OUTPUTS = {"out": "--out", "ledger": "--ledger", "html": "--html", "page": "--report"}
"""Parameters of verbs that are files to write -> their options."""


def as_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb as a function of options; Ctrl-C ends it with a message (typer prints none)."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, type] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, OptionGroup)
    }
    options = {name: _options_of(group) for name, group in groups.items()}
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
            _check_outputs(values)
            for name, group in groups.items():
                values[name] = group(**{option.name: values.pop(option.name) for option in options[name]})
            verb(**values)
        except KeyboardInterrupt:
            print_error(INTERRUPTED)
            raise typer.Exit(EXIT_INTERRUPTED) from None

    # A line of the source is no line of the help, which is as wide as the terminal.
    run_verb.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(verb.__doc__ or ""))
    run_verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_verb


def _check_outputs(values: Mapping[str, Any]) -> None:
    """Raise UsageError for a file to write that the verb reads too, or writes by another option."""
    written = {name: values[name] for name in OUTPUTS if values.get(name) is not None}
    if not written:
        return
    given = chain.from_iterable(value if isinstance(value, list) else [value] for value in values.values())
    paths = [str(value) for value in given if isinstance(value, str | Path)]
    named = Counter[str]()
    for path in paths:  # a file, two parallel files, or a run with its model
        with suppress(ValueError):  # a text that is no path
            named.update({os.path.realpath(one) for one in (path, *path.split(","), f"{path}/model.safetensors")})
    for name, path in written.items():
        if named[os.path.realpath(path)] > 1 and not path.is_dir():
            what = f"{OUTPUTS[name]} is a file that this command reads or writes too"
            raise UsageError(what, where=str(path), hint=f"another {OUTPUTS[name]}")


def _options_of(group: type) -> list[Parameter]:
    """Return the options of a group as parameters; each has a default."""
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(group, name), annotation=hint)
        for name, hint in get_type_hints(group, include_extras=True).items()
    ]


class Command(TyperCommand):
    """A command that refuses an option with two values, of which click alone would silently take the last."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its click is private
        """Raises UsageError, with the option and its values, unless help is requested."""
        self._check_given_once(ctx, list(args))
        return super().parse_args(ctx, args)

    def _check_given_once(self, ctx: typer.Context, args: list[str]) -> None:
        parser = self.make_parser(ctx)
        single = [param for param in self.params if isinstance(param, TyperOption) and not param.multiple]
        for option in single:  # registered again, so that the parser keeps all values
            common: dict[str, Any] = {"obj": option, "dest": option.name}
            if option.is_flag:
                parser.add_option(**common, opts=option.opts, action="append_const", const=option.opts[0])
                for name in option.secondary_opts:
                    parser.add_option(**common, opts=[name], action="append_const", const=name)
            else:
                parser.add_option(**common, opts=option.opts, action="append", nargs=option.nargs)
        try:
            values, _, _ = parser.parse_args(args)
        except Exception as error:  # typer's copy of click is private
            self._explain(getattr(error, "option_name", ""))
            raise
        if values.get("help"):
            return
        for option in single:
            given = values.get(option.name, [])
            if len(set(given) if option.is_flag else given) > 1:
                raise UsageError(
                    f"the option {' / '.join([*option.opts, *option.secondary_opts])} takes one value",
                    got=", ".join(map(repr, given)),
                    hint="give it once",
                )

    def _explain(self, name: str) -> None:
        """Raise UsageError for an option that has too few values."""
        for option in self.params:
            if isinstance(option, TyperOption) and option.nargs > 1 and name in option.opts:
                raise UsageError(
                    f"the option {name} takes {option.nargs} values", expected=f"{name} {option.metavar}"
                ) from None
