"""`glassformer tokens`: the tokens of a text."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from glassformer.cli.console import Reporter, print_table
from glassformer.cli.options import InputValues, Model, Side, source_of


def tokens(
    model: Model,
    text: Annotated[str, Argument(metavar="TEXT", help="The text to tokenize.")],
    reporter: Reporter,
    side: Annotated[Side, Option(metavar="SIDE", help="The tokenizer of the source or of the target.")] = "source",
    features: InputValues = None,
    pad_to: Annotated[int, Option(min=0, max=100_000, metavar="N", help="Pad with <pad> to this many tokens.")] = 0,
) -> None:
    """Print the tokens and ids of a text, with <bos> and <eos>.

    Examples:
        glassformer tokens run "July 20, 1969"
        glassformer tokens run 1969-07-20 --side target
    """
    from glassformer.storage.modelfile import ModelFile
    from glassformer.text.inputs import compose_values

    model_file = ModelFile.load(model)
    tokenizer = model_file.source_tokenizer if side == "source" else model_file.target_tokenizer
    given = source_of(text, tokenizer.inputs, features)
    source = compose_values(given, "the text", tokenizer.inputs)
    ids = tokenizer.frame(tokenizer.encode(source))
    ids += [tokenizer.vocabulary.pad_id] * (pad_to - len(ids))
    pieces = tokenizer.tokens(ids)
    rows = [(position, piece, str(id_)) for position, (piece, id_) in enumerate(zip(pieces, ids, strict=True))]
    reporter.result(
        {"text": given, "tokens": pieces, "ids": ids, "unknown": tokenizer.unknown(source)},
        lambda: print_table(f"{len(ids)} {side} tokens", ("position", "token", "id"), rows),
    )
