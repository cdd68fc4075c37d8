"""Dropout by its statistics, and by the gradient of plain relu and the same draws."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.paper.kernels.dropout import drop, relu_and_drop

N = 2_000_003  # tells 0.0986 from 0.1, and is no multiple of four: so many numbers does one draw serve
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
shares = pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.999])


def drawn(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(3)).to(dtype)


def exact_share(share: float, dtype: torch.dtype) -> float:
    """The nearest share whose scale 1 / (1 - share) is a number of `dtype`."""
    return 1 - 1 / torch.tensor(1 / (1 - share), dtype=dtype).item()


def check_share_and_mean(dropped: Tensor, share: float) -> None:
    """Of ones that went through dropout: so many are zero, all others are the scale that keeps the mean."""
    zeroed = (dropped == 0).double().mean().item()
    assert zeroed == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / N))
    (scale,) = dropped[dropped != 0].unique().tolist()
    assert scale == pytest.approx(1 / (1 - share), rel=2**-16 / (1 - share))  # shares are multiples of 2^-16


@dtypes
@shares
def test_dropout_zeroes_its_share_and_keeps_the_mean(share: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(N, dtype=dtype, requires_grad=True)
    dropped = drop(x, share)
    check_share_and_mean(dropped.detach(), exact_share(share, dtype))
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())  # the gradient goes where the numbers went


def test_in_bfloat16_a_tenth_is_the_nearest_share_whose_scale_is_exact() -> None:
    assert exact_share(0.1, torch.bfloat16) == pytest.approx(0.0986, abs=5e-5)
    torch.manual_seed(0)
    assert drop(torch.ones(64, dtype=torch.bfloat16), 0.1).max() == 1.109375  # 71 / 64; 1 / 0.9 lies between 71 and 72


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_four_numbers_of_a_draw_are_independent(share: float) -> None:
    torch.manual_seed(0)
    zeroed = drop(torch.ones(400_000), share).view(-1, 4) == 0
    for i in range(4):
        for j in range(i):
            both = (zeroed[:, i] & zeroed[:, j]).double().mean().item()
            assert both == pytest.approx(share**2, abs=4 * math.sqrt(share**2 * (1 - share**2) / 100_000))


@dtypes
@pytest.mark.parametrize("shape", [(1,), (7, 11), (2, 3, 5)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_relu_and_drop_is_relu_and_then_the_same_draws(
    share: float, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    one, other = (drawn(*shape, dtype=dtype).requires_grad_() for _ in range(2))
    torch.manual_seed(5)
    expected = torch.relu(one) * drop(torch.ones(shape, dtype=dtype), share)
    torch.manual_seed(5)
    found = relu_and_drop(other * 1, share)  # in place, so not of a leaf
    assert torch.equal(found, expected)
    outward = drawn(*shape[::-1], dtype=dtype).reshape(shape)
    expected.backward(outward)
    found.backward(outward)
    assert torch.equal(other.grad, one.grad)


@pytest.mark.parametrize("function", [drop, relu_and_drop])
def test_randomness_is_that_of_torchs_global_generator(function) -> None:
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(function(torch.ones(100), 0.5))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
