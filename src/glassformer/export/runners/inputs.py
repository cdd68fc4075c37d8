"""Several inputs of one source: texts, and features, whose symbols are tokens. It needs the standard library alone.

A source is one string, its cells joined by U+001F: texts before features, in the order of `glassformer.json`.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from text import InputError, Tokenizer

SEPARATOR = "\x1f"
NO_SYMBOL = ";| "  # a cell of these alone has no symbol


class Inputs:
    """The inputs of a source. Each text after the first begins with a token, and each symbol of a feature is one."""

    def __init__(self, saved: list[dict[str, Any]], first_id: int, tokenizer: Tokenizer) -> None:
        self.inputs, self.tokenizer = saved, tokenizer
        self.names = [one["name"] for one in saved]
        keys: list[tuple[str, str | None]] = []
        for one in saved:
            is_text = one["kind"] == "text"
            keys += [(one["name"], None)] if is_text and one is not saved[0] else []
            keys += [(one["name"], symbol) for symbol in one["symbols"]]
        self.ids = {key: first_id + i for i, key in enumerate(keys)}

    def read_line(self, line: str) -> str:
        """Return the source of a line: its cells are separated by tabs."""
        cells = line.split("\t")
        if len(cells) != len(self.inputs) and line.strip():
            names = ", ".join(self.names)
            raise InputError(f"expected {len(self.inputs)} cells between tabs ({names}), got {len(cells)}")
        return self.compose(cells) if line.strip() else ""

    def read_json(self, line: str) -> str:
        """Return the source of an object with a string for each input."""
        try:
            given = json.loads(line)
        except ValueError:
            given = None
        if not isinstance(given, dict) or not all(isinstance(cell, str) for cell in given.values()):
            raise InputError(f"expected a JSON object with a string for each of {', '.join(self.names)}")
        for name in (*self.names, *given):
            if name not in given:
                raise InputError(f"the input {name!r} is missing")
            if name not in self.names:
                raise InputError(f"no input is called {name!r}")
        return self.compose([given[name] for name in self.names])

    def compose(self, cells: list[str]) -> str:
        """Return the source of cells, which is empty when all texts are."""
        texts = [cell for cell, one in zip(cells, self.inputs) if one["kind"] == "text"]
        if not "".join(texts).strip():
            return ""
        for cell, one in zip(cells, self.inputs):
            if SEPARATOR in cell:
                raise InputError(f"the input {one['name']!r} contains U+001F")
            if not (cell if one["kind"] == "text" else cell.strip(NO_SYMBOL)).strip():
                raise InputError(f"the {one['kind']} {one['name']!r} is empty")
        return SEPARATOR.join(cells)

    def encode(self, source: str) -> list[int]:
        """Return the ids of a source, without <bos> and <eos>. Raises InputError for what the vocabulary lacks."""
        ids: list[int] = []
        for one, cell in zip(self.inputs, source.split(SEPARATOR)):
            if one["kind"] == "text":
                ids += [self.ids[one["name"], None]] if one is not self.inputs[0] else []
                ids += self.tokenizer.encode(cell)
                continue
            for symbol in self.symbols_of(cell, one["cut"]):
                token = self.ids.get((one["name"], symbol), self.tokenizer.unk_id)
                if token is None:
                    raise InputError(f"the symbol {symbol!r} of {one['name']!r} is not in the vocabulary")
                ids.append(token)
        return ids

    def symbols_of(self, cell: str, cut: str) -> list[str]:
        normal = unicodedata.normalize("NFC", cell)
        return [symbol for part in (normal.split(cut) if cut else [normal]) if (symbol := part.strip())]
