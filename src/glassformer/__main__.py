"""Entry point of `python -m glassformer` and of the installed command."""

from __future__ import annotations

import gc
import os
import signal
import sys

from glassformer.errors import EXIT_INTERRUPTED, INTERRUPTED

TYPE_CHECKING = False  # see glassformer/__init__.py
if TYPE_CHECKING:
    from types import FrameType


def main() -> None:
    """Run the command line; from the start, Ctrl-C prints a message.

    Imports make many objects and almost no garbage, so none is collected before the verb runs, and none when Python
    ends, which took 0.1 s. Plugins of Pydantic are not searched for.
    """
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may ignore it for background jobs
        signal.signal(signal.SIGINT, _interrupt)
    from glassformer.cli import main as run

    try:
        run()
    finally:
        gc.freeze()


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in a verb; exit at once elsewhere, and in an import, where a library could catch it."""
    in_verb = is_import = False
    while frame is not None:
        in_verb |= frame.f_code.co_name == "run_verb"  # in `glassformer.cli`
        is_import |= frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    if in_verb and not is_import:
        raise KeyboardInterrupt
    sys.stderr.write(f"{INTERRUPTED}\n")
    sys.stderr.flush()
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
