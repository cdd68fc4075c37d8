"""Log-probabilities of a search that stay on the device that computed them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.paper.search import Extensions, LogProbs


@functools.lru_cache(maxsize=16)
def _ids(ids: tuple[int, ...], device: torch.device) -> Tensor:
    """Return ids on a device, where each step of a search needs the same."""
    return torch.tensor(ids, dtype=torch.long, device=device)


class TensorLogProbs(LogProbs):
    """Log-probabilities on the device that computed them."""

    def allowing(self, forbidden: Sequence[int], forced: Mapping[int, int]) -> LogProbs:
        values = self.values.float().index_fill(-1, _ids(tuple(forbidden), self.values.device), -torch.inf)
        for line, token in forced.items():
            allowed = values[line, :, token].clone()
            values[line] = -torch.inf
            values[line, :, token] = allowed
        return TensorLogProbs(values)

    def where(self, allowed: NDArray[np.bool_]) -> LogProbs:
        return TensorLogProbs(self.values.masked_fill(~torch.from_numpy(allowed).to(self.values.device), -torch.inf))

    def best(self, sums: NDArray[np.float32], n: int) -> Extensions:
        totals = (torch.from_numpy(sums).to(self.values.device)[:, :, None] + self.values).flatten(1)  # [N K·V]
        best, flat = totals.max(dim=1, keepdim=True) if n == 1 else totals.topk(min(n, totals.shape[1]), dim=1)
        newest = self.values.flatten(1).gather(1, flat)
        (best_sums, newest_sums), places = torch.stack((best, newest)).cpu().numpy(), flat.cpu().numpy()
        return Extensions(best_sums, newest_sums, *np.divmod(places, self.values.shape[2]))

    def numpy(self) -> NDArray[np.float32]:
        return self.values.cpu().numpy()  # type: ignore[no-any-return]
