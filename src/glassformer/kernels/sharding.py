"""Tensors of which every process of a run has a part (FSDP2); an ordinary tensor is whole already."""

from __future__ import annotations

from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process has only a part of the tensor (a `torch.distributed.tensor.DTensor`)."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """Return the whole tensor. All processes must call it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a whole tensor, on the device of another one and sharded as that is."""
    if not is_sharded(other):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements)  # type: ignore[attr-defined]
