"""`glassformer neighbors`: the nearest tokens in the embedding of a model, or the rows nearest to an answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import Reporter, print_table
from glassformer.cli.narrate import print_reading
from glassformer.cli.options import InputValues, Model, Side, source_of
from glassformer.errors import shortened

if TYPE_CHECKING:
    from glassformer.glassbox.influence import NearRow, NearRows, NearState
    from glassformer.glassbox.neighbors import Expected, Neighbor, Neighbors


def neighbors(
    model: Model,
    reporter: Reporter,
    token: Annotated[
        str | None,
        typer.Argument(
            metavar="TOKEN", help="A token; with --analogy, the expected one (optional); with --table, a text."
        ),
    ] = None,
    analogy: Annotated[
        tuple[str, str, str] | None,
        typer.Option("--analogy", metavar="A B C", help="The tokens nearest to A − B + C, as in king man woman."),
    ] = None,
    side: Annotated[Side, typer.Option("--side", help="The embedding of the source or of the target.")] = Side.source,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="Number of neighbors.")] = 10,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="TABLE", help="Print the rows of this table that are nearest to the answer."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="With --table: another answer than that of the model.")
    ] = None,
    features: InputValues = None,
) -> None:
    """Print the tokens nearest to a token in the embedding, or the rows of a table nearest to an answer.

    Nearest by cosine. With --analogy the tokens nearest to A − B + C: A, B and C are not candidates, nor are <pad>,
    <bos>, <eos> and <unk>; with TOKEN, its rank is printed.

    With --table, the table that the model was trained on: the rows that probably taught the answer to a text, by the
    cosine of the decoder's states, and the nearest row for each of its tokens.
    """
    from glassformer.errors import UsageError
    from glassformer.glassbox import neighbors as embedding

    if table is not None:
        if token is None or analogy is not None:
            raise UsageError("--table needs a text, and no --analogy", expected="neighbors MODEL TEXT --table TABLE")
        _print_near_rows(reporter, model, token, table, target, features, count)
        return
    if target is not None or features:
        raise UsageError("--target and --feature are for the rows of a table", hint="add --table TABLE")
    if analogy is not None:
        found = embedding.analogy(model, *analogy, expected=token, side=side.value, count=count)
    elif token is not None:
        found = embedding.neighbors(model, token, side=side.value, count=count)
    else:
        raise UsageError("the token is missing", expected="TOKEN, or --analogy A B C")
    reporter.result(found.to_json(), lambda: _print_neighbors(found))


def _print_near_rows(
    reporter: Reporter, model: Path, text: str, table: str, target: str | None, features: list[str] | None, count: int
) -> None:
    from glassformer.glassbox.influence import near_rows
    from glassformer.inference.evaluation import read_for
    from glassformer.ship.storage.modelfile import ModelFile

    file = ModelFile.load(model)
    inputs = file.source_tokenizer.inputs
    pairs = read_for(file, table, {})
    print_reading(reporter, pairs)
    found = near_rows(file, source_of(text, inputs, features), pairs, target=target, count=count)
    reporter.result(found.to_json(), lambda: _print_found(found, several=bool(pairs.files)))


def _print_found(found: NearRows, *, several: bool) -> None:
    def where(one: NearRow | NearState) -> str:
        return f"{one.row} of {one.file}" if several else str(one.row)

    rows = [(where(one), *map(shortened, (one.source, one.target)), one.cosine) for one in found.rows]
    title = f"{found.source} → {found.answer}: the nearest of {found.n_rows:,} rows"
    print_table(title, ("row", "source", "target", "cosine"), rows)
    tokens = [(repr(one.token), where(one), repr(one.token_of_row), one.cosine) for one in found.tokens]
    print_table("the nearest state of each token", ("token", "row", "token there", "cosine"), tokens)


def _print_neighbors(found: Neighbors) -> None:
    query = " ".join(f"{sign}{token!r}" for sign, token in zip(("", "− ", "+ "), found.query, strict=False))
    title = f"nearest to {query} of {found.candidates:,} {found.side} tokens"
    rows: list[tuple[Any, ...]] = [
        (rank, repr(one.token), one.cosine, _note(one, found)) for rank, one in _ranked(found)
    ]
    if len(found.query) > 1:
        rows += [(None, repr(one.token), one.cosine, "in the query") for one in found.of_query]
    if (expected := found.expected) is not None:
        a, b, c = (one.token for one in found.of_query)
        named = f"{a!r} − {b!r}, {expected.token!r} − {c!r}"
        rows.append((None, named, expected.difference_cosine, "between the differences"))
    print_table(title, ("rank", "token", "cosine", ""), rows)


def _ranked(found: Neighbors) -> list[tuple[int, Neighbor | Expected]]:
    """The nearest tokens with their ranks, and the expected one if it is not among them."""
    ranked: list[tuple[int, Neighbor | Expected]] = list(enumerate(found.nearest, start=1))
    if found.expected is not None and found.expected.rank > len(ranked):
        ranked.append((found.expected.rank, found.expected))
    return ranked


def _note(one: Neighbor | Expected, found: Neighbors) -> str:
    if found.expected is not None and one.id == found.expected.id:
        return "expected"
    return "" if one.is_trained else "not in the training data"
