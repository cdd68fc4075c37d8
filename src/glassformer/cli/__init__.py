"""The command line: one file per verb, each a thin coat over one library call."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from glassformer.cli.command import Command
from glassformer.cli.console import printable_lines
from glassformer.cli.demo import demo
from glassformer.cli.evaluate import evaluate
from glassformer.cli.explain import explain
from glassformer.cli.heads import heads
from glassformer.cli.info import info
from glassformer.cli.score import score
from glassformer.cli.serve import serve
from glassformer.cli.settings import settings
from glassformer.cli.tokens import tokens
from glassformer.cli.train import train
from glassformer.cli.translate import translate
from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED, GlassformerError

app = typer.Typer(
    help="From a table of pairs to an encoder-decoder Transformer that you can trust, run anywhere and see through.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _interruptible(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with a word when Ctrl-C ends it (typer alone would end it in silence)."""

    @functools.wraps(verb)
    def run(*args: Any, **options: Any) -> None:
        try:
            verb(*args, **options)
        except KeyboardInterrupt:
            _say(INTERRUPTED)
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return run


for verb in (demo, train, translate, evaluate, score, explain, heads, tokens, info, settings, serve):
    app.command(cls=Command)(_interruptible(verb))


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from importlib.metadata import version as installed

        sys.stdout.write(f"glassformer {installed('glassformer')}\n")
        raise typer.Exit


def main() -> None:
    """Run the command line; every error that is meant for people ends in words and an exit code."""
    _prepare_streams()
    try:
        app(standalone_mode=True)
    except GlassformerError as error:
        _say(f"error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output has gone; that is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _say(f"error: the system refused\n  where: {error.filename or 'an output'}\n  got: {error.strerror or error}")
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
        _say("error: memory ran out\n  next: choose a smaller training.batch_tokens or model, or a smaller beam")
        sys.exit(1)


def _prepare_streams() -> None:
    """Results are UTF-8 whatever the locale says; a stream that the caller closed takes and gives nothing."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, "r" if name == "stdin" else "w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(printable_lines(text) + "\n")
