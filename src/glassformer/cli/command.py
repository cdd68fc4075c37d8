"""The class of every verb's command: an option that takes one value can be given once, and a removed one is named."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from glassformer.errors import UsageError

REMOVED = {
    "translate --shards": "--on ray --out FILE translates on several machines, without shards",
    "translate --merge": "--on ray --out FILE writes all answers in the order of the rows",
    "serve --api-key-file": "a proxy in front of the server checks who may use it: docs/http-api.md",
}
"""Options of earlier versions -> what to write instead."""


class Command(TyperCommand):
    """A command that refuses an option with two values, of which click alone would silently take the last."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its click is private
        """Raises UsageError, with the option and its values, unless help is requested."""
        self._check_given_once(ctx, list(args))
        return super().parse_args(ctx, args)

    def _check_given_once(self, ctx: typer.Context, args: list[str]) -> None:
        parser = self.make_parser(ctx)
        single = [param for param in self.params if isinstance(param, TyperOption) and not _is_repeatable(param)]
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
            name = getattr(error, "option_name", "")
            self._explain_too_few_values(name)
            if hint := REMOVED.get(f"{self.name} {name}"):
                raise UsageError(f"the option {name} was removed", hint=hint) from None
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

    def _explain_too_few_values(self, name: str) -> None:
        """Raises UsageError with the names of the values, if it is an option of several."""
        for option in self.params:
            if isinstance(option, TyperOption) and option.nargs > 1 and name in option.opts:
                raise UsageError(
                    f"the option {name} takes {option.nargs} values", expected=f"{name} {option.metavar}"
                ) from None


def _is_repeatable(option: TyperOption) -> bool:
    return option.multiple or option.count
