"""The rows of the embeddings in each checkpoint of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from glassformer.glassbox.run_records import EmbeddingHistory
from glassformer.ship.storage.modelfile import ModelFile

MAX_NUMBERS = 150_000  # of a trace, in all checkpoints: about 1 MB


@dataclass(frozen=True)
class EmbeddingRows:
    """The rows that are kept: by the name of the matrix, the ids of its tokens, and those rows of each checkpoint."""

    ids: dict[str, list[int]]
    rows: dict[str, list[list[list[float]]]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: ModelFile, source: Sequence[int], target: Sequence[int], n_checkpoints: int) -> EmbeddingRows:
        """Keep all rows where they are few enough, otherwise those of a text: its `source` and `target` ids."""
        texts = {"source_embedding.weight": list(source), "target_embedding.weight": list(target)}
        if "target_embedding.weight" not in file.tensors:  # one matrix for both sides
            texts = {"source_embedding.weight": [*source, *target]}
        sizes = {name: file.tensors[name].shape for name in texts}
        if sum(length * width for length, width in sizes.values()) * n_checkpoints <= MAX_NUMBERS:
            return cls({name: list(range(length)) for name, (length, _) in sizes.items()})
        width = next(iter(sizes.values()))[1]
        most = MAX_NUMBERS // (width * max(1, n_checkpoints) * len(texts))
        return cls({name: sorted(dict.fromkeys(ids))[:most] for name, ids in texts.items()})

    def add(self, checkpoint: ModelFile) -> None:
        """Keep the rows of a checkpoint, with five significant digits."""
        for name, ids in self.ids.items():
            rows = checkpoint.tensors[name][np.array(ids, dtype=int)].tolist()
            kept = [[float(f"{number:.5g}") for number in row] for row in rows]
            self.rows.setdefault(name, []).append(kept)

    def histories(self) -> list[EmbeddingHistory]:
        """What was kept, a record for each matrix."""
        return [EmbeddingHistory(name, ids, self.rows[name]) for name, ids in self.ids.items() if name in self.rows]
