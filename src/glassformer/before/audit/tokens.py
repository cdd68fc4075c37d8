"""What the tokens that training would learn cannot represent, and the number of tokens of each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

import numpy as np

from glassformer.before.audit.characters import describe
from glassformer.before.audit.findings import Finding, Side, about_rows, verb_of
from glassformer.before.audit.lengths import Counts
from glassformer.data.splits import hold_out
from glassformer.data.tables import Table
from glassformer.paper.settings import Settings
from glassformer.text import Tokenizer, learn_both
from glassformer.text.inputs import texts_of

_BATCH = 4096  # texts whose ids are in memory at once


@dataclass(frozen=True)
class Encoded:
    """The number of tokens of each text of one side, and the indices of texts that decoding does not give back."""

    lengths: Counts
    lost: tuple[int, ...]


def learn_tokenizers(table: Table, settings: Settings, *, has_valid: bool) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers that training would learn: from the rows that it does not hold out."""
    pairs = table.pairs
    if not has_valid and len(pairs) > 1:
        data = settings.data
        kept, _ = hold_out(pairs, data.valid_fraction, data.max_valid_rows, settings.split_seed)
        pairs = [pairs[index] for index in kept]
    return learn_both(pairs, settings.tokens, table.inputs)


def encode(texts: Sequence[str], tokenizer: Tokenizer) -> Encoded:
    """Encode and decode texts; what is compared is the text in NFC."""
    lengths = np.zeros(len(texts), dtype=np.int64)
    lost: list[int] = []
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        for index, ids in enumerate(tokenizer.encode_many(batch), start):
            lengths[index] = len(ids)
            if not _is_given_back(texts[index], ids, tokenizer):
                lost.append(index)
    return Encoded(lengths, tuple(lost))


def _is_given_back(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    if tokenizer.inputs:  # symbols are tokens, known or not; texts are compared one by one
        texts = encode(texts_of(text, tokenizer.inputs), tokenizer.without_inputs())
        return not texts.lost and tokenizer.vocabulary.unk_id not in ids
    decoded = tokenizer.decode(ids)
    return decoded in (text, normalize("NFC", text))


def find_token_loss(table: Table, side: Side, tokenizer: Tokenizer, encoded: Encoded) -> Iterator[Finding]:
    """Yield a finding for texts that the tokens do not represent completely."""
    texts = {index: getattr(table.pairs[index], side) for index in encoded.lost}
    kind, n_unknown = tokenizer.settings.kind, sum(bool(tokenizer.unknown(text)) for text in texts.values())
    units = "words" if kind == "words" else "characters"
    cause = f"{n_unknown:,} of them {verb_of(n_unknown, 'have')} {units} without a token"
    return about_rows(
        "token loss",
        "warning",
        table,
        side,
        encoded.lost,
        f"have a {side} that {kind} as tokens do not give back unchanged; {cause}",
        *_advice(side, n_unknown),
        lambda index: _loss(texts[index], tokenizer),
    )


def _advice(side: Side, n_unknown: int) -> tuple[str, str | None]:
    if not n_unknown:
        return "white space or case is lost: write single spaces into the table, or use another kind of token", (
            f"--set tokens.{side}.kind=characters"
        )
    return (
        "unknown tokens are read as <unk> in a source and can never be in an answer: correct them in the table, train "
        "on more rows that have them, or use tokens that represent every text",
        f"--set tokens.{side}.kind=bytes",
    )


def _loss(text: str, tokenizer: Tokenizer) -> str:
    unknown = list(dict.fromkeys(tokenizer.unknown(text)))
    if unknown:
        listed = [describe(piece) if len(piece) == 1 else repr(piece[:40]) for piece in unknown[:4]]
        return f"without a token: {', '.join(listed)}{', …' if len(unknown) > 4 else ''}"
    text = " ".join(texts_of(text, tokenizer.inputs))
    tokenizer = tokenizer.without_inputs()
    return f"comes back as {tokenizer.decode(tokenizer.encode(text))[:60]!r}"
