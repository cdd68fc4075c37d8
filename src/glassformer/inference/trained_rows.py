"""The rows that a model was trained on, read again from its training table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glassformer.data.formats import table_files
from glassformer.data.further import further_columns
from glassformer.data.tables import read_table
from glassformer.errors import GlassformerError
from glassformer.inference.translator import Translator
from glassformer.paper.settings import DataSettings

MAX_BYTES = 2**28


@dataclass(frozen=True)
class TrainedRows:
    """The source of each row that was trained on, and its cells in further columns, by name.

    `unknown` says why there are none, or is empty.
    """

    sources: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unknown: str = ""

    @classmethod
    def of(cls, translator: Translator) -> TrainedRows:
        """Read the training table of a model, if it is still the one that it was trained on.

        The path is from the model file, which may be anybody's: only files of at most MAX_BYTES are read.
        """
        path, taken = translator.model_file.data.table, translator.model_file.data.columns
        if translator.trained_sources.unknown:
            return cls(unknown=translator.trained_sources.unknown)
        if path is None:
            return cls(unknown="the model has no record of its training table")
        files = table_files(path)
        if not all(file.is_file() for file in files):
            return cls(unknown=f"the training table {path} is not a file of this computer")
        if sum(file.stat().st_size for file in files) > MAX_BYTES:
            return cls(unknown=f"the training table {path} has more than {MAX_BYTES // 10**6:,} MB")
        try:
            data = DataSettings(header=translator.settings.data.header, bad_rows=translator.settings.data.bad_rows)
            table = read_table(path, data, taken)
            columns = further_columns(table, max_values=len(table.rows))
        except GlassformerError as error:
            return cls(unknown=f"the training table {path} cannot be read: {error.what}")
        sources = table.sources
        kept = np.flatnonzero(translator.trained_sources.contains(sources)).tolist()
        if len(kept) != translator.model_file.data.train_rows:
            return cls(unknown=f"the training table {path} has other rows than the model was trained on")
        cells = {name: [values[row] for row in kept] for name, values in columns.items()}
        return cls([sources[row] for row in kept], cells)
