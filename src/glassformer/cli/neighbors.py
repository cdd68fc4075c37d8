"""`glassformer neighbors`: the nearest tokens in the embedding of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import Reporter, print_table
from glassformer.cli.options import Model, Side

if TYPE_CHECKING:
    from glassformer.glassbox.neighbors import Neighbors


def neighbors(
    model: Model,
    reporter: Reporter,
    token: Annotated[
        str | None, Argument(metavar="TOKEN", help="A token; with --analogy, the expected one (optional).")
    ] = None,
    analogy: Annotated[
        tuple[str, str, str] | None,
        Option(metavar="A B C", help="The tokens nearest to A − B + C, as in king man woman."),
    ] = None,
    side: Annotated[Side, Option(metavar="SIDE", help="The embedding of the source or of the target.")] = "source",
    count: Annotated[int, Option(min=1, max=1000, metavar="N", help="Number of neighbors.")] = 10,
) -> None:
    """Print the tokens nearest to a token in the embedding.

    Nearest by cosine. With --analogy the tokens nearest to A − B + C: A, B and C are not candidates, nor are <pad>,
    <bos>, <eos> and <unk>; with TOKEN, its rank is printed.

    Examples:
        glassformer neighbors run king
        glassformer neighbors run --analogy king man woman
    """
    from glassformer.errors import UsageError
    from glassformer.glassbox import neighbors as embedding

    if analogy is not None:
        result = embedding.analogy(model, *analogy, expected=token, side=side, count=count)
    elif token is not None:
        result = embedding.neighbors(model, token, side=side, count=count)
    else:
        raise UsageError("the token is missing", expected="TOKEN, or --analogy A B C")
    reporter.result(result.to_json(), lambda: _print_neighbors(result))


def _print_neighbors(result: Neighbors) -> None:
    query = " ".join(f"{sign}{token!r}" for sign, token in zip(("", "− ", "+ "), result.query, strict=False))
    title = f"nearest to {query} of {result.candidates:,} {result.side} tokens"
    expected, ranked = result.expected, list(enumerate(result.nearest, start=1))
    if expected is not None and expected.rank > len(ranked):
        ranked.append((expected.rank, expected))
    rows = list[tuple[Any, ...]]()
    for rank, neighbor in ranked:
        note = "" if neighbor.is_trained else "not in the training data"
        if expected is not None and neighbor.id == expected.id:
            note = "expected"
        rows.append((rank, repr(neighbor.token), neighbor.cosine, note))
    if len(result.query) > 1:
        rows += [(None, repr(neighbor.token), neighbor.cosine, "in the query") for neighbor in result.of_query]
    if expected is not None:
        a, b, c = (neighbor.token for neighbor in result.of_query)
        differences = f"{a!r} − {b!r}, {expected.token!r} − {c!r}"
        rows.append((None, differences, expected.difference_cosine, "between the differences"))
    print_table(title, ("rank", "token", "cosine", ""), rows)
