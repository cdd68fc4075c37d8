"""The check of shapes that the whole suite runs with: it sees what it must, and costs nothing elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from jaxtyping import Float, Int, TypeCheckError
from torch import Tensor

from glassformer.inference.engines import torch_cached
from tests.shapes import check_shapes

if TYPE_CHECKING:
    from collections.abc import Sized


def transpose(
    x: Float[Tensor, "T D"], more: tuple[Int[Tensor, " T"], Sized] | None = None, skip: bool = False
) -> Float[Tensor, "D T"]:
    return x if skip else x.T


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.ones(3)}, "of x: "),
        ({"x": torch.ones(2, 3, dtype=torch.long)}, "of x: "),
        ({"x": torch.ones(2, 3), "more": (torch.tensor([1, 2, 3]), "")}, "of more: "),
        ({"x": torch.ones(2, 3), "skip": True}, "return"),
    ],
    ids=["axes", "numbers", "an axis of two sizes in a part of an argument", "result"],
)
def test_a_call_with_a_wrong_shape_is_an_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeCheckError, match=message):
        check_shapes(transpose)(**arguments)


def test_a_result_is_checked_where_it_is_another_than_in_the_call_before() -> None:
    call, x = check_shapes(transpose), torch.ones(2, 3)
    for _ in range(2):
        assert call(x).shape == (3, 2)
        with pytest.raises(TypeCheckError, match=r"(?i)return"):
            call(x, skip=True)
    assert [call(torch.ones(2, length)).shape[0] for length in (1, 5)] == [1, 5]
    for wrong in (torch.ones(3), torch.ones(2, 3, dtype=torch.long), "no tensor"):
        with pytest.raises(TypeCheckError, match="of x: "):
            call(wrong)


def test_the_fields_of_a_dataclass_are_checked() -> None:
    with pytest.raises(TypeCheckError, match="of memory_mask: "):
        torch_cached.TorchCache([], torch.ones(2), [])
