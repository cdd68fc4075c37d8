"""A text as its sentences, and their answers as one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from glassformer.errors import MissingExtraError
from glassformer.inference.translator import Translation

LANGUAGE = "en"
"""The abbreviations that the splitter knows are those of English; its marks of a sentence's end are of any script."""


@dataclass(frozen=True)
class Sentences:
    """The sentences of a text without white space around them, and the white space after each but the last."""

    texts: tuple[str, ...]
    spaces: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Sentences:
        """Split a text. Raises MissingExtraError where the library is not installed."""
        try:
            from sentencex import segment
        except ImportError:
            raise MissingExtraError("splitting a text at sentences", package="sentencex", extra="sentences") from None
        texts: list[str] = []
        spaces: list[str] = []
        for piece in segment(LANGUAGE, text):
            sentence = piece.strip()
            if sentence:
                texts.append(sentence)
                spaces.append(piece[len(piece.rstrip()) :])
            elif spaces:
                spaces[-1] += piece  # a paragraph break
        return cls(tuple(texts), tuple(spaces[:-1]))


def joined(answers: Sequence[Translation], spaces: Sequence[str]) -> Translation:
    """Return the answers to the sentences of a text as one, with the white space of the text, or a space, between them.

    Its scores are the sums of theirs, its probability the product: as if they were independent. A single answer is
    itself, with its alternatives.
    """
    if len(answers) == 1:
        return answers[0]
    text = answers[0].text + "".join(
        (space or " ") + answer.text for space, answer in zip(spaces, answers[1:], strict=True)
    )
    known = [answer.probability for answer in answers if answer.probability is not None]
    return Translation(
        text=text,
        score=sum(answer.score for answer in answers),
        rank_score=sum(answer.rank_score for answer in answers),
        tokens=tuple(chain.from_iterable(answer.tokens for answer in answers)),
        token_scores=tuple(chain.from_iterable(answer.token_scores for answer in answers)),
        finished=all(answer.finished for answer in answers),
        unknown=tuple(chain.from_iterable(answer.unknown for answer in answers)),
        probability=math.prod(known) if len(known) == len(answers) else None,
        unlike=next((answer.unlike for answer in answers if answer.unlike), ""),
        source_tokens=tuple(chain.from_iterable(answer.source_tokens for answer in answers)),
        alignment=tuple(_joined_alignment(answers)),
        rivals=tuple(chain.from_iterable(answer.rivals for answer in answers)),
    )


def _joined_alignment(answers: Sequence[Translation]) -> Iterator[tuple[int, int]]:
    n_source = n_target = 0
    for answer in answers:
        yield from ((source + n_source, target + n_target) for source, target in answer.alignment)
        n_source, n_target = n_source + len(answer.source_tokens), n_target + len(answer.tokens)
