"""Several inputs of one source: texts and features.

    compose(["walk", "V;PST"]) -> Cells(("walk", "V;PST"))        compose(["walk"]) -> "walk"

A source with several inputs is its cells, in the order of the inputs. Texts are before features, so that features do
not move the positions of the text. A model with one text, and nothing else, has no inputs in this sense: its source is
the text.

A feature is cut into symbols, and each symbol is one token, `<tags=PST>`. It is a special token: text never becomes
one, and no answer contains one. A text after the first begins with a special token of its own, `<context:>`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, final

from pydantic import BaseModel, ConfigDict, Field

from glassformer.errors import TextError, UsageError, nearest, quoted

CUTS = (";", "|", " ")
"""The characters that can separate the symbols of a feature; the first of those that are equally frequent is used."""

_NO_SYMBOL = "".join(CUTS)  # a cell of these alone has no symbol


@final
class Input(BaseModel):
    """One input of a source: a text, or a feature with its symbols.

    `name` is the column that it was trained on. `symbols` (in the order of their ids) and `cut`, the character between
    two of them ("": a cell is one symbol), are learned; they are empty in an input that is only read, and in a text.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1)]
    kind: Literal["text", "feature"]
    cut: Literal["", ";", "|", " "] = ""
    symbols: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] = ()

    def symbols_of(self, cell: str) -> list[str]:
        """Return the symbols of a cell, in NFC and in the order of the cell."""
        parts = unicodedata.normalize("NFC", cell).split(self.cut) if self.cut else [unicodedata.normalize("NFC", cell)]
        return [symbol for part in parts if (symbol := part.strip())]

    def token(self, symbol: str) -> str:
        """Return the written form of a symbol."""
        return f"<{self.name}={symbol}>"


Inputs = tuple[Input, ...]
"""The inputs of a source: none for a single text, otherwise texts before features."""


class Cells(tuple[str, ...]):
    """The cells of a source with several inputs, in the order of the inputs."""

    __slots__ = ()


Source = str | Cells
SourceLike = Source | Mapping[str, str]
"""A source, or the text of each input by name."""


def inputs_of(texts: Sequence[str], features: Sequence[str]) -> Inputs:
    """Return the inputs with these names; none for a single text without features. Raises UsageError."""
    if len(texts) == 1 and not features:
        return ()
    names = [*texts, *features]
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise UsageError(f"two inputs have the name {repeated!r}", got=", ".join(names), expected="different names")
    return (
        *(Input(name=name, kind="text") for name in texts),
        *(Input(name=name, kind="feature") for name in features),
    )


def check_inputs(inputs: Sequence[Input]) -> None:
    """Raise UsageError for inputs of a file that no training can have produced."""
    names, kinds = [input_.name for input_ in inputs], [input_.kind for input_ in inputs]
    if kinds[:1] != ["text"] or kinds != sorted(kinds, reverse=True) or len(set(names)) < len(names) or len(names) < 2:
        got = ", ".join(f"{input_.kind} {input_.name}" for input_ in inputs)
        raise UsageError("the inputs are not valid", got=got, expected="different names, texts before features")
    for input_ in inputs:
        if len(set(input_.symbols)) < len(input_.symbols) or (input_.kind == "text" and (input_.symbols or input_.cut)):
            raise UsageError(f"the symbols of the input {input_.name!r} are not valid")


def learn_inputs(sources: Iterable[Source], inputs: Inputs, min_count: int = 1) -> Inputs:
    """Return the inputs with the symbols of these sources: how each feature is cut, and what occurs `min_count` times.

    A feature is cut at the one of `CUTS` that is in the most of its cells, or not at all if none is in any. Symbols are
    in the order of their code points. A feature that has symbols keeps them and its cut; new symbols follow.
    """
    n = n_texts(inputs)
    counted: list[Counter[str]] = [Counter() for _ in inputs[n:]]
    for source in sources if inputs else ():
        for counts, cell in zip(counted, cells_of(source)[n:], strict=True):
            counts[cell] += 1
    features = (_with_symbols(input_, cells, min_count) for input_, cells in zip(inputs[n:], counted, strict=True))
    return (*inputs[:n], *features)


def _with_symbols(input_: Input, cells: Counter[str], min_count: int) -> Input:
    if not input_.symbols:
        n_cells = {cut: sum(n for cell, n in cells.items() if cut in cell.strip()) for cut in CUTS}
        cut = max(CUTS, key=lambda cut: n_cells[cut])
        input_ = input_.model_copy(update={"cut": cut if n_cells[cut] else ""})
    counts: Counter[str] = Counter()
    for cell, n in cells.items():
        for symbol in input_.symbols_of(cell):
            counts[symbol] += n
    new = sorted(symbol for symbol, count in counts.items() if count >= min_count and symbol not in input_.symbols)
    return input_.model_copy(update={"symbols": (*input_.symbols, *new)}) if new else input_


def input_tokens(inputs: Sequence[Input]) -> list[str]:
    """Return the written forms of the tokens of the inputs, in the order of their ids.

    Each text after the first has one, `<context:>`, and each feature one for each of its symbols, `<tags=PST>`.
    """
    return [f"<{name}:>" if symbol is None else f"<{name}={symbol}>" for name, symbol in input_keys(inputs)]


def input_keys(inputs: Sequence[Input]) -> Iterator[tuple[str, str | None]]:
    """Yield the name of the input and the symbol (None: the start of a text) of each token of the inputs."""
    for position, input_ in enumerate(inputs):
        if input_.kind == "feature":
            yield from ((input_.name, symbol) for symbol in input_.symbols)
        elif position:
            yield input_.name, None


# Sources


def compose(cells: Sequence[str]) -> Source:
    """Return the source of the cells, in the order of the inputs; a single cell is its own source."""
    return cells[0] if len(cells) == 1 else Cells(cells)


def cells_of(source: Source) -> Sequence[str]:
    """Return the cells of a source; a text is its only cell."""
    return (source,) if isinstance(source, str) else source


def joined(source: Source) -> str:
    """Return the text that is hashed for a source: its cells, with U+001F between them."""
    return source if isinstance(source, str) else "\x1f".join(source)


def example_source(text: str, inputs: Sequence[Input]) -> Source:
    """Return a source with this text as each of its texts, and the first symbol of each feature."""
    return compose([text if input_.kind == "text" else (*input_.symbols, "?")[0] for input_ in inputs] or [text])


def texts_of(source: Source, inputs: Sequence[Input]) -> Sequence[str]:
    """Return the texts of a source, without its features."""
    return cells_of(source)[: n_texts(inputs) or 1]


def is_not_empty(source: Source, inputs: Sequence[Input]) -> bool:
    """Return whether a source has a text that is not white space alone."""
    return bool("".join(texts_of(source, inputs)).strip())


def n_texts(inputs: Sequence[Input]) -> int:
    """Return the number of inputs that are texts."""
    return sum(input_.kind == "text" for input_ in inputs)


def readable(source: Source, inputs: Sequence[Input]) -> str:
    """Return a source for people: "walk · tags: V;PST". A source with one input is returned unchanged."""
    text, *further_cells = cells_of(source)
    named_cells = (f"{input_.name}: {cell}" for input_, cell in zip(inputs[1:], further_cells, strict=False))
    return " · ".join((text, *named_cells))


def as_given(source: Source, inputs: Sequence[Input]) -> str | dict[str, str]:
    """Return a source for programs: an object with the name and the cell of each input, or the only text."""
    if isinstance(source, str):
        return source
    return dict(zip([input_.name for input_ in inputs], source, strict=False))


# Checks


def compose_values(values: object, where: str, inputs: Inputs) -> Source:
    """Return the source of one row that a user gives: a mapping by name, or the text of a model with one input.

    A source is accepted too. Raises UsageError for values that do not match the inputs, TextError as `compose_cells`
    does. `where` names the row.
    """
    cells = cells_of_values(values, inputs, where)
    return compose_cells(cells, inputs, where) if inputs else cells[0]


def cells_of_values(values: object, inputs: Inputs, where: str) -> Sequence[str]:
    """Return the cells of a source that a user gives, in the order of the inputs. Raises UsageError as above."""
    if not inputs:
        if isinstance(values, str):
            return [values]
        what = "this model has one input" if isinstance(values, Mapping) else "a source is not text"
        raise UsageError(what, where=where, got=quoted(values), expected="a str")
    if isinstance(values, Cells) and len(values) == len(inputs):
        return values
    if not isinstance(values, Mapping):
        missing = ", ".join(f"the {input_.kind} {input_.name!r}" for input_ in inputs[1:])
        what = f"a source has {len(inputs)} inputs, and they are given by name"
        options = " ".join(f"--feature {input_.name}=VALUE" for input_ in inputs[1:])
        raise UsageError(
            f"{what}; missing: {missing}" if isinstance(values, str) else what,
            where=where,
            got=quoted(values),
            expected=f"a mapping with a text for each of: {listed(inputs)}",
            hint=f"on the command line: {options}",
        )
    cells, names = {str(name): cell for name, cell in values.items()}, [input_.name for input_ in inputs]
    for name, cell in cells.items():
        if name not in names:
            raise UsageError(f"the model has no input {quoted(name)}", where=where, hint=nearest(name, names))
        if not isinstance(cell, str):
            raise UsageError(f"the input {name!r} is not text", where=where, got=quoted(cell), expected="a str")
    for input_ in inputs:
        if input_.name not in cells:
            raise UsageError(
                f"the {input_.kind} {input_.name!r} is missing",
                where=where,
                got=", ".join(cells) or "nothing",
                expected=f"a value for each of: {listed(inputs)}",
            )
    return [cells[input_.name] for input_ in inputs]


def assigned(text: str, names: Iterable[str]) -> tuple[str, str | None]:
    """Return name and value of NAME=VALUE, as in `--feature`; the value of NAME alone is None.

    The name is the longest of the known ones, which may contain "=", or else all before the first "=".
    """
    name = max((name for name in names if text == name or text.startswith(f"{name}=")), key=len, default="")
    name = name or text.partition("=")[0] or text
    return name, None if text == name else text[len(name) + 1 :]


def named_values(inputs: Sequence[Input], assignments: Iterable[str], *, is_column: bool) -> dict[str, str]:
    """Return the value of each of these inputs from options `--feature NAME=VALUE`, in the order of the inputs.

    With `is_column` a value is the column of a table: NAME alone is the column of that name, and so is the default of
    an input that is not given. Raises UsageError for an input that the model does not have, that is missing or given
    twice.
    """
    names = [input_.name for input_ in inputs]
    value_of: dict[str, str | None] = {}
    for text in assignments:
        name, value = assigned(text, names)
        if name not in names:
            hint = nearest(name, names) if names else None
            raise UsageError(f"the model has no feature {quoted(name)}", got=f"--feature {text}", hint=hint)
        if name in value_of:
            raise UsageError(f"the feature {name!r} is given twice", got=f"--feature {text}")
        value_of[name] = value
    for input_ in inputs:
        if value_of.get(input_.name) is None and not is_column:
            what = f"the {input_.kind} {input_.name!r} is missing"
            raise UsageError(what, expected=f"--feature {input_.name}=VALUE")
    return {name: name if (value := value_of.get(name)) is None else value for name in names}


def compose_cells(cells: Sequence[str], inputs: Inputs, where: str) -> Cells:
    """Return the source of the cells of one row. Raises TextError for an empty cell, unless all its texts are empty."""
    source = Cells(cells)
    if (empty := empty_input(source, inputs)) and is_not_empty(source, inputs):
        what = f"the {empty.kind} {empty.name!r} is empty"
        raise TextError(what, where=where, expected="a value for each input of the model")
    return source


def empty_input(cells: Sequence[str], inputs: Inputs) -> Input | None:
    """Return the first input whose cell is empty, or None."""
    for cell, input_ in zip(cells, inputs, strict=True):
        if not (cell if input_.kind == "text" else cell.strip(_NO_SYMBOL)).strip():
            return input_
    return None


def listed(inputs: Sequence[Input]) -> str:
    """Return the names of the inputs, for messages."""
    return ", ".join(f"{input_.name} ({input_.kind})" for input_ in inputs)
