"""PyTorch, which is an extra: training needs it; what only translates, reads or writes works without it."""

from __future__ import annotations

import re

from glassformer.errors import MissingExtraError

OLDEST = (2, 6)
"""The first version that works, as in pyproject.toml."""


def check_pytorch(feature: str) -> None:
    """Import torch. Raises MissingExtraError where it is not installed, too old, or cannot be loaded."""
    try:
        import torch
    except ModuleNotFoundError as error:
        problem = "is not installed" if error.name == "torch" else f"cannot be loaded: {error}"
    except (ImportError, OSError) as error:  # a library of the system, or of the package itself
        problem = f"cannot be loaded: {error}"
    else:
        if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) >= OLDEST:
            return
        problem = f"is too old: {torch.__version__}, where {'.'.join(map(str, OLDEST))} or newer is needed"
    raise MissingExtraError(feature, package="torch", extra="train", problem=problem)


def has_pytorch() -> bool:
    """Whether torch can be used."""
    try:
        check_pytorch("")
    except MissingExtraError:
        return False
    return True
