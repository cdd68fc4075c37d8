"""The command line: one file for each verb, and each verb is one call of the library."""

from __future__ import annotations

import io
import os
import sys

import typer

from glassformer.cli.audit import audit
from glassformer.cli.calibrate import calibrate
from glassformer.cli.check import check
from glassformer.cli.command import Command, as_options
from glassformer.cli.compare import compare
from glassformer.cli.console import print_error
from glassformer.cli.demo import demo
from glassformer.cli.evaluate import evaluate
from glassformer.cli.explain import explain
from glassformer.cli.export import export
from glassformer.cli.heads import heads
from glassformer.cli.import_ import import_
from glassformer.cli.info import info
from glassformer.cli.neighbors import neighbors
from glassformer.cli.runs import runs
from glassformer.cli.score import score
from glassformer.cli.serve import serve
from glassformer.cli.settings import settings
from glassformer.cli.split import split
from glassformer.cli.tokens import tokens
from glassformer.cli.train import train
from glassformer.cli.translate import translate
from glassformer.cli.tune import tune
from glassformer.errors import GlassformerError

VERBS = {
    "Data": (audit, split),
    "Train": (demo, train, tune, check, runs, settings),
    "Use": (translate, evaluate, compare, score, calibrate),
    "Look inside": (explain, heads, neighbors, tokens, info),
    "Ship": (export, import_, serve),
}


def command_line(only: str = "") -> typer.Typer:
    """Return all verbs as one application; or the verb named `only`, because declaring all options takes a while."""
    app = typer.Typer(
        help="Train an encoder-decoder Transformer on a table of text pairs, and inspect how each translation is "
        "computed.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    named = [(verb.__name__.rstrip("_"), panel, verb) for panel, verbs in VERBS.items() for verb in verbs]
    for name, panel, verb in [each for each in named if each[0] == only] or named:
        app.command(name, cls=Command, rich_help_panel=panel)(as_options(verb))
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
            command_line(*sys.argv[1:2])(standalone_mode=True)
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
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
        print_error("error: out of memory\n  next: choose a smaller training.batch_tokens or model, or a smaller beam")
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
