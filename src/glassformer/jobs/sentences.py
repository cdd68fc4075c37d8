"""A text as its sentences, and their answers as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from unicodedata import category, east_asian_width, name

from glassformer.errors import MissingExtraError
from glassformer.jobs.answers import JobAnswer
from glassformer.text.inputs import Source, cells_of, compose

LANGUAGE = "en"
"""The splitter knows the abbreviations of English, and the marks of a sentence's end in any script."""


@dataclass(frozen=True)
class Sentences:
    """The sentences of a text without white space around them, and the white space after each but the last."""

    texts: tuple[Source, ...]
    spaces: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source) -> Sentences:
        """Split a text; with several inputs the first one, and each of its sentences has the other inputs.

        Raises MissingExtraError where the library is not installed.
        """
        try:
            from sentencex import segment
        except ImportError:
            raise MissingExtraError("splitting a text at sentences", package="sentencex", extra="sentences") from None
        text, *further_cells = cells_of(source)
        texts: list[Source] = []
        spaces: list[str] = []
        for piece in segment(LANGUAGE, text):
            sentence = piece.strip()
            if sentence:
                texts.append(compose([sentence, *further_cells]))
                spaces.append(piece[len(piece.rstrip()) :])
            elif spaces:
                spaces[-1] += piece  # a paragraph break
        return cls(tuple(texts), tuple(spaces[:-1]))


def joined(answers: Sequence[JobAnswer], spaces: Sequence[str]) -> JobAnswer:
    """Return the answers to the sentences of a text as one, with the white space of the text, or a space, between them.

    Answers that have no spaces between wide characters, as Chinese and Japanese, get none where they end and begin with
    such characters; line breaks stay. The scores are the sums of theirs, the confidence is the product: as if they
    were independent. A single answer is itself, with its alternatives.
    """
    if len(answers) == 1:
        return answers[0]
    texts = [answer.text for answer in answers]
    is_spaced = any(_is_wide(left, right) for text in texts for left, right in pairwise(text.split(" ")))
    text = texts[0]
    for space, (left, right) in zip(spaces, pairwise(texts), strict=True):
        is_closed = not is_spaced and not space.strip(" ") and _is_wide(left, right)
        text += ("" if is_closed else space or " ") + right
    confidences = [answer.confidence for answer in answers if answer.confidence is not None]
    return JobAnswer(
        text=text,
        score=sum(answer.score for answer in answers),
        rank_score=sum(answer.rank_score for answer in answers),
        tokens=tuple(chain.from_iterable(answer.tokens for answer in answers)),
        token_scores=tuple(chain.from_iterable(answer.token_scores for answer in answers)),
        finished=all(answer.finished for answer in answers),
        unknown=tuple(chain.from_iterable(answer.unknown for answer in answers)),
        confidence=math.prod(confidences) if len(confidences) == len(answers) else None,
        unlike=next((answer.unlike for answer in answers if answer.unlike), ""),
        source_tokens=tuple(chain.from_iterable(answer.source_tokens for answer in answers)),
        alignment=tuple(_joined_alignment(answers)),
    )


def _is_wide(left: str, right: str) -> bool:
    """Whether `left` ends and `right` begins with a wide character, between which CSS (Text 3, 4.1.3) has no space.

    Quotation marks around them do not count, because wide characters are used with Latin quotation marks too.
    """
    return all(_is_wide_at_start(characters) for characters in (reversed(left), right))


def _is_wide_at_start(characters: Iterable[str]) -> bool:
    for character in characters:
        width = east_asian_width(character)
        if width != "A" or category(character) not in ("Pi", "Pf"):
            return width in ("W", "F", "H") and not name(character, "").startswith("HANGUL")
    return False


def _joined_alignment(answers: Sequence[JobAnswer]) -> Iterator[tuple[int, int]]:
    n_source = n_target = 0
    for answer in answers:
        yield from ((source + n_source, target + n_target) for source, target in answer.alignment)
        n_source, n_target = n_source + len(answer.source_tokens), n_target + len(answer.tokens)
