"""Devices of PyTorch, and the precision of matrix products on them."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from typing import get_args

import torch

from glassformer.errors import DeviceError, SettingsError, nearest
from glassformer.settings import Precision

CPU = torch.device("cpu")


def find_device(name: str) -> torch.device:
    """Return the device called `name` ("auto", "cpu", "cuda", "cuda:1", "mps"). Raises DeviceError otherwise."""
    if name == "cpu":  # after a look for a GPU, no child that is forked could use one
        return CPU
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return torch.device(next((best for best in ("cuda", "mps") if best in available), "cpu"))
    if name not in available:
        raise DeviceError(f"device {name!r} is not available", expected=", ".join(["auto", *available]))
    return torch.device(name)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether matrix products in bfloat16 are done in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def resolve_precision(device: torch.device, precision: str) -> str:
    """Return the precision that "auto" means on a device: bfloat16 where it is fast, float32 elsewhere.

    Raises SettingsError for an unknown precision.
    """
    if precision not in get_args(Precision):
        raise SettingsError(f"precision {precision!r} is not available", hint=nearest(precision, get_args(Precision)))
    if precision == "auto":
        precision = "bfloat16" if has_fast_bfloat16(device) else "float32"
    if precision == "bfloat16" and device.type == "cpu" and not _has_sound_bfloat16():
        return "float32"
    return precision


@functools.cache
def _has_sound_bfloat16() -> bool:
    """Whether a matrix product in bfloat16 is right on this CPU: where OMP_DYNAMIC is set, oneDNN's are not."""
    x = torch.ones(512, 128, dtype=torch.bfloat16)
    is_sound = bool(((x @ x.T) == 128).all())
    if not is_sound:
        reason = "OMP_DYNAMIC is set: unset it" if "OMP_DYNAMIC" in os.environ else "oneDNN"
        warnings.warn(
            f"matrix products in bfloat16 are wrong on this computer ({reason}); float32 is used", stacklevel=3
        )
    return is_sound


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """Return a context in which matrix products are computed in `precision`."""
    if resolve_precision(device, precision) == "float32":
        return contextlib.nullcontext()
    # The cache of autocast is one for all threads, and the first that leaves its context empties it.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=device.type != "cpu")


def avoid_cudnn(device: torch.device) -> None:
    """Let PyTorch not compute attention on a GPU by cuDNN, in this process.

    It prefers cuDNN in bfloat16 on some GPUs, which prepares each new shape for tens of milliseconds. Most batches have
    one: a step of training took 369 ms in place of 20 (docs/tried.md).
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
