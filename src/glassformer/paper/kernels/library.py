"""Functions that are compiled from C: attention in training (`training.c`), search (`inference/engines/step.c`)."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from typing import Any

INTERFACE = 3  # of the structures and arguments of the C files; a processor that they are not for has 0
Pointer, Number = ctypes.c_void_p, ctypes.c_int64
ARGUMENTS = {
    "attention": (Pointer, Pointer),
    "attention_gradient": (Pointer,) * 5,
    "drop": (drop := (Pointer, Pointer, Number, Number, ctypes.c_double, Number)),
    "drop_bfloat16": drop,
    "best": (Pointer, Pointer, *(Number,) * 5, Pointer, Pointer),
    "encode": (Pointer, Pointer, Pointer, Number, Pointer, Pointer, Pointer),
    "step": (Pointer, Pointer, Number, Pointer, Pointer, Number, Number, *(Pointer,) * 5),
}


@cache
def library() -> Any:
    """Return the functions; None where there was no C compiler, or the processor has neither AVX2 nor NEON."""
    found = find_spec("glassformer.paper.kernels._compiled")
    if found is None or found.origin is None:
        return None
    try:
        functions = ctypes.CDLL(found.origin)
        interface = functions.glassformer_interface()
        for name, arguments in ARGUMENTS.items():
            getattr(functions, f"glassformer_{name}").argtypes = arguments
    except (OSError, AttributeError):  # it is damaged, or of another version
        return None
    return functions if interface == INTERFACE else None
