"""Dropout by its statistics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.fast import dropout
from glassformer.fast.dropout import drop

N = 2_000_003  # tells 0.0986 from 0.1, and is no multiple of a vector
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
shares = pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.999])


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
def test_neighboring_numbers_are_independent(share: float) -> None:
    torch.manual_seed(0)
    zeroed = drop(torch.ones(400_000), share).view(-1, 4) == 0
    for i in range(4):
        for j in range(i):
            both = (zeroed[:, i] & zeroed[:, j]).double().mean().item()
            assert both == pytest.approx(share**2, abs=4 * math.sqrt(share**2 * (1 - share**2) / 100_000))


@dtypes
def test_dropped_numbers_that_are_not_finite_stay_nan(dtype: torch.dtype) -> None:
    assert drop(torch.full((99,), math.nan, dtype=dtype), 0.5).isnan().all()


@dtypes
def test_without_the_compiled_function_the_share_is_the_same(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropout, "library", lambda: None)
    torch.manual_seed(0)
    check_share_and_mean(drop(torch.ones(N, dtype=dtype), 0.3), exact_share(0.3, dtype))
    with dropout.drawing_from(1):
        found = drop(torch.ones(99, dtype=dtype), 0.3)
    with dropout.drawing_from(1):
        assert found.equal(drop(torch.ones(99, dtype=dtype), 0.3))


def test_randomness_is_that_of_torchs_global_generator() -> None:
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(drop(torch.ones(100), 0.5))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
