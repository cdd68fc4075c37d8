"""The functions of `training.c`."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from glassformer.runtime.compiled import Number, Pointer, load_library

ARGUMENTS = {
    "attention": (Pointer, Pointer),
    "attention_gradient": (Pointer,) * 5,
    "drop": (drop := (Pointer, Pointer, Number, Number, ctypes.c_double, Number)),
    "drop_bfloat16": drop,
}


@cache
def library() -> Any:
    """Return the functions; None where they are not compiled, or not for this processor."""
    return load_library("glassformer.fast._compiled", ARGUMENTS)
