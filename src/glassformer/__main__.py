"""`python -m glassformer`, and what the installed command calls."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED


def main() -> None:
    """The command line, which Ctrl-C ends in words from its first moment on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background a shell may have it ignored
        signal.signal(signal.SIGINT, _interrupt)
    from glassformer.cli import main as run

    run()


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; but while a module is imported, end at once, for its library may swallow that."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            sys.stderr.write(f"{INTERRUPTED}\n")
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
