"""`glassformer neighbors`: the nearest tokens in the embedding of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import Reporter, print_table
from glassformer.cli.options import Model, Side

if TYPE_CHECKING:
    from glassformer.glassbox.neighbors import Neighbors


def neighbors(
    model: Model,
    reporter: Reporter,
    token: Annotated[
        str | None, typer.Argument(metavar="TOKEN", help="A token; with --analogy, the expected one (optional).")
    ] = None,
    analogy: Annotated[
        tuple[str, str, str] | None,
        typer.Option(metavar="A B C", help="The tokens nearest to A − B + C, as in king man woman."),
    ] = None,
    side: Annotated[Side, typer.Option(help="The embedding of the source or of the target.")] = "source",
    count: Annotated[int, typer.Option(min=1, max=1000, help="Number of neighbors.")] = 10,
) -> None:
    """Print the tokens nearest to a token in the embedding.

    Nearest by cosine. With --analogy the tokens nearest to A − B + C: A, B and C are not candidates, nor are <pad>,
    <bos>, <eos> and <unk>; with TOKEN, its rank is printed.
    """
    from glassformer.errors import UsageError
    from glassformer.glassbox import neighbors as embedding

    if analogy is not None:
        found = embedding.analogy(model, *analogy, expected=token, side=side, count=count)
    elif token is not None:
        found = embedding.neighbors(model, token, side=side, count=count)
    else:
        raise UsageError("the token is missing", expected="TOKEN, or --analogy A B C")
    reporter.result(found.to_json(), lambda: _print_neighbors(found))


def _print_neighbors(found: Neighbors) -> None:
    query = " ".join(f"{sign}{token!r}" for sign, token in zip(("", "− ", "+ "), found.query, strict=False))
    title = f"nearest to {query} of {found.candidates:,} {found.side} tokens"
    expected, ranked = found.expected, list(enumerate(found.nearest, start=1))
    if expected is not None and expected.rank > len(ranked):
        ranked.append((expected.rank, expected))
    rows = list[tuple[Any, ...]]()
    for rank, one in ranked:
        note = "" if one.is_trained else "not in the training data"
        if expected is not None and one.id == expected.id:
            note = "expected"
        rows.append((rank, repr(one.token), one.cosine, note))
    if len(found.query) > 1:
        rows += [(None, repr(one.token), one.cosine, "in the query") for one in found.of_query]
    if expected is not None:
        a, b, c = (one.token for one in found.of_query)
        named = f"{a!r} − {b!r}, {expected.token!r} − {c!r}"
        rows.append((None, named, expected.difference_cosine, "between the differences"))
    print_table(title, ("rank", "token", "cosine", ""), rows)
