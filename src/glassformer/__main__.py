"""Entry point of `python -m glassformer` and of the installed command."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED


def main() -> None:
    """Run the command line; from the start, Ctrl-C prints a message."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may ignore it for background jobs
        signal.signal(signal.SIGINT, _interrupt)
    from glassformer.cli import main as run

    run()


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; but exit at once during an import, where a library could catch it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            sys.stderr.write(f"{INTERRUPTED}\n")
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
