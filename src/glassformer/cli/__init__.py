"""The command line: one file for each verb, and each verb is one call of the library."""

from __future__ import annotations

import importlib
import io
import os
import sys

import typer

from glassformer.cli.command import Command, Commands, as_options
from glassformer.cli.console import print_error
from glassformer.cli.help import description_of
from glassformer.errors import GlassformerError, is_out_of_memory

VERBS = {
    "Data": ("audit", "split"),
    "Train": ("demo", "train", "settings"),
    "Use": ("translate", "evaluate", "compare", "score", "calibrate"),
    "Look inside": ("explain", "neighbors", "tokens", "info"),
    "Ship": ("export", "import", "serve"),
}
"""Panel of the help -> verbs. A verb is the function of the module of its name; `import` has an underscore there."""
NO_VERB = ("-h", "--help", "--version")
"""First words of a command that runs no verb."""


def command_line(first: str = "") -> typer.Typer:
    """Return all verbs as one application, without what a command with this first word does not need.

    That is the other verbs, because importing them all takes a while, or the options of all.
    """
    panels = {name: panel for panel, names in VERBS.items() for name in names}
    no_help = {"help": False}  # a flag without a default is checked with Pydantic, which takes long to import
    app = typer.Typer(
        cls=Commands,
        help="Train an encoder-decoder Transformer on a table of text pairs, and inspect how each translation is "
        "computed.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "default_map": no_help | dict.fromkeys(panels, no_help),
        },
    )
    app.callback(invoke_without_command=True)(_root)
    for name in (first,) if first in panels else panels:
        stem = "import_" if name == "import" else name
        verb = getattr(importlib.import_module(f"glassformer.cli.{stem}"), stem)
        settings = {"auto_envvar_prefix": "GLASSFORMER"} if name == "serve" else {}
        text, examples = description_of(verb)
        command, about = ((lambda: None), text) if first in NO_VERB else (as_options(verb), None)
        panel = panels[name]
        app.command(name, cls=Command, help=about, epilog=examples, rich_help_panel=panel, context_settings=settings)(
            command
        )
    return app


def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from importlib.metadata import version as installed

        sys.stdout.write(f"glassformer {installed('glassformer')}\n")
        raise typer.Exit


def main() -> None:
    """Run the command line; an expected error is printed as a message, with an exit code and without a traceback."""
    _prepare_streams()
    try:
        try:
            command_line(*sys.argv[1:2] or ["--help"])(standalone_mode=True)
        except SystemExit:
            sys.stdout.flush()  # an error here has a message; when Python ends, it would have none
            raise
    except GlassformerError as error:
        if not error.is_told:
            print_error(f"error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of the output has closed it
        sys.exit(1)
    except OSError as error:
        print_error(
            f"error: operating system error\n  where: {error.filename or 'an output'}\n  got: {error.strerror or error}"
        )
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print_error("error: out of memory\n  next: choose a smaller training.batch_tokens, beam, model or input")
        sys.exit(1)
    finally:
        _drop_what_cannot_be_written()


def _drop_what_cannot_be_written() -> None:
    """Python would write it once more when it ends, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """Make results UTF-8 in every locale, and replace a closed stream by the null device."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, "r" if name == "stdin" else "w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
