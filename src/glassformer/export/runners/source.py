"""The source of a model: one text, or several inputs, which are texts and features, whose symbols are tokens.

A source is its cells, texts before features, in the order of `glassformer.json`: of a model with one text this one
alone, and none where all texts are empty. It needs the standard library alone, and `text.py`.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from new_strings import first_new
from text import InputError, Tokenizer

NO_SYMBOL = ";| "  # a cell of these alone has no symbol


class LeftOutError(InputError):
    """A row that the model does not take. Its answer is empty."""


class Inputs:
    """The inputs of a source. Each text after the first begins with a token, and each symbol of a feature is one."""

    def __init__(self, saved: list[dict[str, Any]], tokenizer: Tokenizer) -> None:
        self.inputs, self.tokenizer = saved, tokenizer
        self.names = [input_["name"] for input_ in saved]
        keys: list[tuple[str, str | None]] = []
        for input_ in saved:
            is_text = input_["kind"] == "text"
            keys += [(input_["name"], None)] if is_text and input_ is not saved[0] else []
            keys += [(input_["name"], symbol) for symbol in input_["symbols"]]
        self.ids = {key: tokenizer.size + i for i, key in enumerate(keys)}

    def read_line(self, line: str) -> list[str]:
        """Return the source of a line: its cells are separated by tabs."""
        cells = line.split("\t")
        if len(cells) != len(self.inputs) and line.strip():
            names = ", ".join(self.names)
            raise InputError(f"expected {len(self.inputs)} cells between tabs ({names}), got {len(cells)}")
        return self.checked(cells) if line.strip() else []

    def read_json(self, cells: Any) -> list[str]:
        """Return the source of an object with a string for each input."""
        if not isinstance(cells, dict) or not all(isinstance(cell, str | None) for cell in cells.values()):
            raise InputError(f"expected a JSON object with a string for each of {', '.join(self.names)}")
        for name in cells:
            if name not in self.names:
                raise InputError(f"no input is called {name!r}")
        for name in self.names:
            if cells.get(name) is None:
                raise LeftOutError(f"the input {name!r} is missing")
        return self.checked([cells[name] for name in self.names])

    def checked(self, cells: list[str]) -> list[str]:
        """Return the cells, or none when all texts are empty."""
        texts = [cell for cell, input_ in zip(cells, self.inputs) if input_["kind"] == "text"]
        if not "".join(texts).strip():
            return []
        for cell, input_ in zip(cells, self.inputs):
            if not (cell if input_["kind"] == "text" else cell.strip(NO_SYMBOL)).strip():
                raise LeftOutError(f"the {input_['kind']} {input_['name']!r} is empty")
        return cells

    def encode(self, source: list[str]) -> tuple[list[int], list[str]]:
        """Return the ids of a source and what the vocabulary lacks, as for a text; symbols are in their written form.

        Raises InputError for what it lacks where it has no <unk>.
        """
        ids: list[int] = []
        unknown: list[str] = []
        for input_, cell in zip(self.inputs, source):
            if input_["kind"] == "text":
                ids += [self.ids[input_["name"], None]] if input_ is not self.inputs[0] else []
                text_ids, parts = self.tokenizer.encode(cell)
                ids, unknown = ids + text_ids, unknown + parts
                continue
            for symbol in self.symbols_of(cell, input_["cut"]):
                token = self.ids.get((input_["name"], symbol))
                if token is None:
                    unknown.append(f"<{input_['name']}={symbol}>")
                    token = self.tokenizer.unk_id
                if token is None:
                    raise InputError(f"the symbol {symbol!r} of {input_['name']!r} is not in the vocabulary")
                ids.append(token)
        return ids, unknown

    def symbols_of(self, cell: str, cut: str) -> list[str]:
        normal = unicodedata.normalize("NFC", cell)
        return [symbol for part in (normal.split(cut) if cut else [normal]) if (symbol := part.strip())]


class Export:
    """What `glassformer.json` describes: both tokenizers, the limits, and the settings of the search and the model."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.source, self.target = (Tokenizer(description[side]) for side in ("source", "target"))
        inputs = description["source"].get("inputs")
        self.inputs = Inputs(inputs, self.source) if inputs else None
        self.max_source_tokens: int = description["max_source_tokens"]
        self.search: dict[str, Any] = description["search"]
        self.model: dict[str, Any] = description["model"]
        self.seen: dict[str, Any] = description["seen"]
        self.calibration: dict[str, Any] = description["calibration"]

    def not_calibrated(self, num_beams: int) -> str:
        """Return why the confidence of answers is not known; "" if it is."""
        if not self.calibration:
            return "the model is not calibrated; glassformer calibrate does it, then export it again"
        calibrated = self.calibration["num_beams"]
        return "" if num_beams == calibrated else f"the model is calibrated for --beam {calibrated}, not {num_beams}"

    def is_unlike(self, ids: Sequence[int]) -> bool:
        """Whether a framed source is unlike all that the model was trained on; False if that is unknown."""
        if not self.seen:
            return False
        is_long = len(ids) - len(self.source.start) - 1 > self.seen["longest"]
        return is_long or first_new(ids, self.seen["n"], base64.b64decode(self.seen["bits"])) is not None

    def read(self, line: str, *, as_json: bool) -> list[str]:
        """Return the source of a line: text, with `as_json` a JSON string; for several inputs, cells or an object."""
        if not as_json:
            return self.inputs.read_line(line) if self.inputs else [line]
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if self.inputs:
            return self.inputs.read_json(value)
        if not isinstance(value, str):
            raise InputError("expected a JSON string")
        return [value]

    def encode(self, source: list[str]) -> tuple[list[int], list[str]]:
        """Return the ids, framed by <bos>, where the model has it, and <eos>, and what the vocabulary lacks.

        Raises InputError: for a source that is too long, LeftOutError.
        """
        ids, unknown = self.inputs.encode(source) if self.inputs else self.source.encode(*source)
        if len(ids) > self.max_source_tokens:
            raise LeftOutError(f"{len(ids)} tokens; the model takes at most {self.max_source_tokens}")
        return [*self.source.start, *ids, self.source.eos_id], unknown
