"""What all tests share: shapes that are checked, and the real data where it is there."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import jaxtyping
import pytest
from beartype import beartype

# Shapes stand in signatures as jaxtyping annotations. The package never pays for them: the names are imported under
# TYPE_CHECKING only. Here they are checked at each call, in three steps.
# 1. The names are found through the builtins, where every module looks last. (Setting typing.TYPE_CHECKING instead
#    would reach into all libraries imported meanwhile, and load torch for tests that need none.) Without them
#    jaxtyping takes a hint as Any in silence, which is why tests call with wrong shapes on purpose.
# 2. An import hook decorates each function of these modules, whenever a test imports one.
# 3. Only hints with a shape are checked. The others are mypy's work; some, like Self, cannot be checked at run time.
SHAPED_MODULES = (
    "glassformer.decoding",
    "glassformer.engines.inference",
    "glassformer.engines.torch",
    "glassformer.kernels",
    "glassformer.model",
    "glassformer.reference",
    "glassformer.training.objective",
)


def check_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """beartype, for the hints that hold a shape."""
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    return beartype(function)


def has_shape(hint: Any) -> bool:
    is_shape = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_shape or any(has_shape(part) for part in get_args(hint))


for kind in ("Bool", "Float", "Int"):
    setattr(builtins, kind, getattr(jaxtyping, kind))
jaxtyping.install_import_hook(SHAPED_MODULES, f"{__name__}.{check_shapes.__name__}")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real data sets; a test that asks for them is marked `data` and skips where they are not."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GLASSFORMER_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the real data sets are not here; $GLASSFORMER_DATA can say where they are")
    return folder
