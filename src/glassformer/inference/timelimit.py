"""A time limit for a computation: the caller sets the limit, and the loops inside check it.

    with time_limit(60):
        translator.translate(texts)     # raises TimeLimitError at the first check after 60 seconds

Python cannot stop a thread from outside. So the computation stops itself, between two steps of a search or two passes
of a trace, and has ended when the error is raised. Without a limit, a check does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from glassformer.errors import TimeLimitError


class TimeLimit:
    """The time limit of one computation, in seconds from its creation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds

    def expire(self) -> None:
        """End the computation at its next check. Any thread may call this."""
        self._end = -math.inf

    def check(self) -> None:
        """Raise TimeLimitError when the limit has passed."""
        if monotonic() > self._end:
            raise TimeLimitError(
                "the computation took too long",
                expected=f"at most {self.seconds:g} seconds",
                hint="use a shorter text, fewer texts or a smaller beam",
            )


_CURRENT: ContextVar[TimeLimit | None] = ContextVar("time_limit", default=None)


@contextmanager
def time_limit(seconds: float) -> Iterator[TimeLimit]:
    """Limit the computation in this context, and in threads that run in a copy of the context."""
    limit = TimeLimit(seconds)
    token = _CURRENT.set(limit)
    try:
        yield limit
    finally:
        _CURRENT.reset(token)


def check_time_limit() -> None:
    """Raise TimeLimitError when the limit of this context, if any, has passed."""
    limit = _CURRENT.get()
    if limit is not None:
        limit.check()
