"""PyTorch, which is an extra: training needs it; what only translates, reads or writes works without it."""

from __future__ import annotations

import re

from glassformer.errors import MissingExtraError

OLDEST = (2, 6)
"""The first version that works, as in pyproject.toml."""


def check_pytorch(feature: str) -> None:
    """Import torch. Raises MissingExtraError where it is not installed, too old, or cannot be loaded."""
    problem, hint = "is not installed", None
    try:
        import torch
    except (ImportError, OSError) as error:
        if not (isinstance(error, ModuleNotFoundError) and error.name == "torch"):  # a library that it needs
            problem, hint = f"cannot be loaded: {error}", "pip install --force-reinstall torch"
    else:
        if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) >= OLDEST:
            return
        problem = f"is too old: {torch.__version__}, where {'.'.join(map(str, OLDEST))} or newer is needed"
    raise MissingExtraError(feature, package="torch", extra="train", problem=problem, hint=hint)


def has_pytorch() -> bool:
    """Whether torch can be used."""
    try:
        check_pytorch("")
    except MissingExtraError:
        return False
    return True
