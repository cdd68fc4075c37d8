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


class Command(TyperCommand):
    """A command that refuses an option with two values, of which click alone would silently take the last."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its click is private
        """Raises UsageError, with the option, unless help is requested."""
        values, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, count in Counter(given).items():
            if count == 1 or values.get("help") or not isinstance(option, TyperOption) or option.multiple:
                continue
            if not option.is_flag or option.secondary_opts:
                named = " / ".join([*option.opts, *option.secondary_opts])
                raise UsageError(f"the option {named} takes one value", got=f"{count} values", hint="give it once")
        return super().parse_args(ctx, args)
