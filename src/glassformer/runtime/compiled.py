"""Libraries that are compiled from C: attention and dropout in training (`fast`), the step of search (`inference`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

INTERFACE = 4  # of the structures and arguments of the C files; a processor that they are not for has 0
Pointer, Number = ctypes.c_void_p, ctypes.c_int64


def load_library(module: str, arguments: Mapping[str, tuple[Any, ...]]) -> Any:
    """Load a library by the name of its module; `arguments` has the types of the arguments of each of its functions.

    Return None where there was no C compiler, or the processor has neither AVX2 nor NEON.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    try:
        functions = ctypes.CDLL(spec.origin)
        interface = functions.glassformer_interface()
        for name, types in arguments.items():
            getattr(functions, f"glassformer_{name}").argtypes = types
    except (OSError, AttributeError):  # it is damaged, or of another version
        return None
    return functions if interface == INTERFACE else None
