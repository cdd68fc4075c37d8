"""The processes of one run, started by `torchrun`: their shares of a batch, and the sums over them.

Every process has the model, the optimizer and all rows. It computes the gradient of its share of each batch; the sum
over the processes is the gradient of the whole batch, whatever their number.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from glassformer.errors import DeviceError, GlassformerError, RunError, UsageError
from glassformer.runtime.versions import library_versions

T = TypeVar("T")

_ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
WAIT = timedelta(minutes=30)  # for the slowest process, which may be reading a table


@dataclass(frozen=True)
class Processes:
    """The processes of a run: how many, and the rank of this one, from 0. Alone, every method does nothing."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    has_restarted: bool = False

    @classmethod
    def join(cls) -> Processes:
        """Join the processes that `torchrun` started with this one; alone, without `torchrun`.

        Raises UsageError when the environment of `torchrun` is incomplete, RunError when the others do not answer.
        """
        if "WORLD_SIZE" not in os.environ:
            return cls()
        try:
            rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            local, restarts = (int(os.environ.get(name, 0)) for name in ("LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"))
            if not 0 <= rank < count or (count > 1 and not all(os.environ.get(name) for name in _ADDRESS)):
                raise ValueError
        except (KeyError, ValueError) as error:
            raise UsageError(
                "the environment of torchrun is incomplete or not valid",
                got=", ".join(f"{name}={os.environ.get(name)}" for name in ("WORLD_SIZE", "RANK", *_ADDRESS)),
                expected="a RANK from 0 to WORLD_SIZE - 1, and the address of the first process",
                hint="start it with: torchrun --nproc-per-node N -m glassformer train …",
            ) from error
        if count > 1 and not distributed.is_initialized():
            with _answers_expected(rank):
                backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
                store, _, _ = next(rendezvous("env://", timeout=WAIT))
                store = PrefixStore(f"restart {restarts}", store)  # the addresses of dead processes stay in it
                distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=WAIT)
            atexit.register(_leave)
        return cls(rank, count, local, restarts > 0)

    def own_device(self, device: torch.device) -> torch.device:
        """Return the GPU of this process on its machine, where the device of the run is "cuda".

        Raises DeviceError where there are fewer GPUs than processes.
        """
        has_to_share = self.count > 1 and device.type == "cuda" and device.index is None
        if not has_to_share:
            return device
        if self.local_rank >= (n_gpus := torch.cuda.device_count()):
            got, hint = f"process {self.local_rank + 1} on this machine", "fewer processes, or --device cpu"
            raise DeviceError("each process needs a GPU of its own", got=got, expected=f"at most {n_gpus}", hint=hint)
        return torch.device("cuda", self.local_rank)

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and speaks."""
        return self.rank == 0

    def environment(self) -> dict[str, str]:
        """Return what computes a run: versions, and the numbers of processes and of threads in each."""
        return library_versions() | {"processes": str(self.count), "threads": str(torch.get_num_threads())}

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by its sum over all processes, in place, and return it."""
        if self.count > 1:
            with _answers_expected(self.rank):
                distributed.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Sum the gradients over all processes, once an update, in one message."""
        if self.count == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        if gradients:
            flat = self.sum_(torch.cat([gradient.flatten() for gradient in gradients]))
            pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
            for gradient, piece in zip(gradients, pieces, strict=True):
                gradient.copy_(piece.view_as(gradient))

    def sum_numbers(self, *numbers: float) -> list[float]:
        """Return sums over all processes of some numbers that are on the CPU, such as times and flags."""
        if self.count == 1:
            return list(numbers)
        return self.sum_(torch.tensor(numbers, dtype=torch.float64)).tolist()

    def from_first(self, value: T) -> T:
        """Return the value that the first process has."""
        return self._from(0, value)

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order of rank."""
        return [self._from(rank, value) for rank in range(self.count)]

    def _from(self, rank: int, value: T) -> T:
        """Return the value that the process of this rank has."""
        if self.count == 1:
            return value
        values = [value]
        with _answers_expected(self.rank):
            distributed.broadcast_object_list(values, src=rank, device=torch.device("cpu"))
        return values[0]

    def agree(self, decide: Callable[[], T], digest: Callable[[T], Mapping[str, str]]) -> T:
        """Return what each of several processes decides for itself, when all succeed and their digests are the same.

        Otherwise every process raises an error: the first one the error that it has itself, or a RunError that tells
        the rank and the error, or the difference, of another.
        """
        error: GlassformerError | None = None
        try:
            decided = decide()
            report: Mapping[str, str] | str = dict(digest(decided))
        except GlassformerError as raised:
            error, report = raised, str(raised)
        reports = self.gather(report)
        if self.is_first and error is not None:
            raise error
        disagreement = _disagreement(reports)
        if disagreement is not None:
            disagreement.is_told = not self.is_first
            raise disagreement
        return decided

    def seed_apart(self, seed: int, step: int = 0) -> None:
        """Let the other processes draw other numbers for dropout than the first one."""
        if self.rank:
            torch.manual_seed(hash((seed, step, self.rank)) % 2**63)


def _leave() -> None:
    with contextlib.suppress(RuntimeError, ValueError):
        distributed.destroy_process_group()


@contextlib.contextmanager
def _answers_expected(rank: int) -> Iterator[None]:
    """Raise a RunError when the other processes do not answer."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # of which the errors of torch.distributed are
        raise RunError(
            "the other processes of the run do not answer",
            where=f"rank {rank}",
            got=str(error).splitlines()[0][:200],
            hint="the first error is that of another process; start the run again with --resume",
        ) from error


def _disagreement(reports: Sequence[Mapping[str, str] | str]) -> RunError | None:
    """Return the error of processes of which some cannot take part, or differ from the first one; None without any.

    A report is a digest, or the message of an error.
    """
    digests: list[Mapping[str, str]] = []
    for rank, report in enumerate(reports):
        if isinstance(report, str):
            return RunError(f"process {rank} of the run cannot take part", where=f"rank {rank}", got=report)
        digests.append(report)
    first = digests[0]
    differing = [(rank, name) for rank, digest in enumerate(digests) for name in first if digest[name] != first[name]]
    if not differing:
        return None
    rank, name = differing[0]
    return RunError(
        f"the processes of the run have different {name}",
        where=", ".join(f"rank {other}" for other, other_name in differing if other_name == name),
        got=digests[rank][name],
        expected=f"{first[name]}, as rank 0 has",
        hint="start every process with the same table, settings and versions",
    )
