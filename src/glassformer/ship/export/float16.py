"""Weights in float16, for every format that has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import SettingsError


def as_float16(array: NDArray[Any], name: str) -> NDArray[np.float16]:
    """Return a tensor in float16. Raises SettingsError, with its name, for a number that float16 cannot hold."""
    limit, largest = float(np.finfo(np.float16).max), float(np.abs(array).max(initial=0.0))
    if largest > limit:
        raise SettingsError(
            "a weight is too large for float16",
            got=f"{largest:.3g} in {name!r}",
            expected=f"at most {limit:g}",
            hint="export with --precision float32",
        )
    return array.astype(np.float16)
