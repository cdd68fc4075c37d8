"""The processes of one run, started by `torchrun`: their shares of a batch, and the sums over them.

Every process has the model, the optimizer and all rows. It computes the gradient of its share of each batch; the sum
over the processes is the gradient of the whole batch, whatever their number. With `training.shard` each process keeps
only its part of weights, gradients and optimizer (FSDP2, `torch.distributed.fsdp.fully_shard`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from glassformer.errors import RunError, UsageError
from glassformer.kernels.sharding import is_sharded
from glassformer.model import Transformer

T = TypeVar("T")

WAIT = timedelta(minutes=30)  # for the slowest process, which may be reading a table


@dataclass(frozen=True)
class Processes:
    """The processes of a run: how many, and the rank of this one, from 0. Alone, every method does nothing."""

    rank: int = 0
    count: int = 1
    control: Any = None  # a group of processes for small messages on CPUs

    @classmethod
    def join(cls, device: torch.device) -> Processes:
        """Join the processes that `torchrun` started with this one; alone, without `torchrun`.

        Raises UsageError when the environment of `torchrun` is incomplete, RunError when the others do not answer.
        """
        given = os.environ.get("WORLD_SIZE")
        if given is None:
            return cls()
        try:
            rank, count = int(os.environ["RANK"]), int(given)
        except (KeyError, ValueError) as error:
            raise UsageError(
                "the environment of torchrun is incomplete",
                got=f"WORLD_SIZE={given}, RANK={os.environ.get('RANK')}",
                hint="start it with: torchrun --nproc-per-node N -m glassformer train …",
            ) from error
        if count == 1:
            return cls()
        try:
            if not distributed.is_initialized():
                distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=WAIT)
            control = distributed.new_group(backend="gloo", timeout=WAIT)
        except (RuntimeError, ValueError) as error:
            first = str(error).splitlines()[0][:200]
            raise RunError("the other processes of the run do not answer", where=f"rank {rank}", got=first) from error
        return cls(rank, count, control)

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and speaks."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
        """Return this process's rows of a batch, and their weight: 0 for a row of another that stands in for none.

        Every process must compute something, because the others wait for it.
        """
        own = rows[self.rank :: self.count]
        return (own, 1.0) if len(own) else (rows[:1], 0.0)

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by its sum over all processes, in place, and return it."""
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Sum the gradients over all processes, once an update, in one message. Sharded ones are summed already."""
        if self.count == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None and not is_sharded(p.grad)]
        if gradients:
            flat = self.sum_(torch.cat([gradient.flatten() for gradient in gradients]))
            pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
            for gradient, piece in zip(gradients, pieces, strict=True):
                gradient.copy_(piece.view_as(gradient))

    def sum_numbers(self, *numbers: float) -> list[float]:
        """Return sums over all processes of some numbers that are on the CPU, such as times and flags."""
        if self.count == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(values, group=self.control)
        return values.tolist()

    def from_first(self, value: T) -> T:
        """Return the value that the first process has."""
        if self.count == 1:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=0, group=self.control)
        return values[0]

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order of rank."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value, group=self.control)
        return values

    def shard(self, model: Transformer, device: torch.device) -> None:
        """Leave this process only its part of each weight; layers are put together while they are computed."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(device.type, (self.count,))
        for part in (*model.encoder, *model.decoder, model):
            fully_shard(part, mesh=mesh)
        register_fsdp_forward_method(model, "forward_packed")
