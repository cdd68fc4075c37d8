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
        n = min(n, totals.shape[1])
        best, flat = totals.topk(min(n + 1, totals.shape[1]), dim=1)  # ties: any of them
        extensions = self._extensions(best, flat)
        is_tied = (extensions.sums[:, 1:] == extensions.sums[:, :-1]) & np.isfinite(extensions.sums[:, 1:])
        if is_tied.any():
            lines = torch.from_numpy(is_tied.any(axis=1).nonzero()[0]).to(flat.device)
            flat[lines, :n] = _first_of_equal(totals[lines], best[lines, n - 1, None], n)
            extensions = self._extensions(totals.gather(1, flat), flat)
        return Extensions(*(values[:, :n] for values in extensions))

    def _extensions(self, best: Tensor, flat: Tensor) -> Extensions:
        newest = self.values.flatten(1).gather(1, flat)
        (sums, newest_sums), places = torch.stack((best, newest)).cpu().numpy(), flat.cpu().numpy()
        return Extensions(sums, newest_sums, *np.divmod(places, self.values.shape[2]))

    def numpy(self) -> NDArray[np.float32]:
        return self.values.cpu().numpy()  # type: ignore[no-any-return]


def _first_of_equal(totals: Tensor, last: Tensor, n: int) -> Tensor:
    """Return the positions of the n largest of each line [N W]; `last` [N 1] is the n-th. Ties: the first wins."""
    is_larger, is_last = ~(totals <= last), totals == last
    is_best = is_larger | is_last & (is_last.cumsum(1) <= n - is_larger.sum(1, keepdim=True))
    flat = is_best.nonzero()[:, 1].view(-1, n)
    return flat.gather(1, totals.gather(1, flat).sort(dim=1, descending=True, stable=True).indices)
