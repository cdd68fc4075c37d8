"""Texts to answers, one after the other, from any iterable; what cannot be translated does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, Literal, get_args

from glassformer.errors import TextError, TooLongError, UsageError, nearest, quoted
from glassformer.inference.jobs.alignment import Aligner
from glassformer.inference.jobs.chunks import chunks
from glassformer.inference.jobs.sentences import Sentences, joined
from glassformer.inference.translator import EMPTY, Source, Translation, Translator
from glassformer.paper.search import GreedyFirst
from glassformer.paper.settings import DecodingSettings
from glassformer.text.inputs import UNIT_SEPARATOR, compose, compose_values

Long = Literal["stop", "skip", "split"]
"""A text longer than the model takes: an error, an empty answer, or translated sentence by sentence.

A row that lacks an input of the model is an error with "stop", and otherwise an empty answer."""


@dataclass(frozen=True)
class Search:
    """How the texts of a job are translated: the settings of the search, and what happens to texts that are too long.

    `greedy_first` is what the first texts of the job have shown; it makes the scores independent of the chunks.
    """

    decoding: DecodingSettings
    long: Long = "skip"
    greedy_first: GreedyFirst = field(default_factory=GreedyFirst)

    def __post_init__(self) -> None:
        if self.long not in get_args(Long):
            raise UsageError(
                f"long texts: {quoted(self.long)} is not available", hint=nearest(self.long, get_args(Long))
            )
        if self.long == "split" and self.decoding.num_return_sequences > 1:
            raise UsageError(
                "the answers of several sentences cannot be joined when each has alternatives",
                got=f"long=split and {self.decoding.num_return_sequences} answers for each text",
                hint="long=skip, or one answer",
            )


def translate_stream(
    translator: Translator,
    texts: Iterable[Source],
    *,
    prefixes: Iterable[str] | None = None,
    long: Long = "skip",
    alignments: bool = False,
    decoding: DecodingSettings | None = None,
    **options: Any,
) -> Iterator[Translation]:
    """Yield the answer to each text, in order, while texts are taken from any iterable; blank text, empty answer.

    `long` says what happens to a text longer than the model takes: "stop" raises TooLongError, "skip" yields an empty
    answer whose `left_out` says why, "split" translates its sentences and joins their answers (with the extra
    `sentences`; a sentence that is too long itself leaves its text out). A mapping with an empty input, such as a
    feature, is left out too, or raises TextError with "stop". `alignments`: each answer has its `alignment`, from the
    attention of the model. The other arguments are those of `Translator.translate`, as are answers and scores.
    """
    base = decoding or translator.settings.decoding
    search = Search(base.override(options) if options else base, long)
    aligner = Aligner(translator) if alignments else None
    if isinstance(texts, str):
        raise UsageError("the texts to translate must be an iterable of texts", got=quoted(texts), hint="[text]")
    first, forced = count(1), None if prefixes is None else iter(prefixes)
    for chunk in chunks(texts):
        names = [f"row {row}" for row in islice(first, len(chunk))]
        given = None if forced is None else list(islice(forced, len(chunk)))
        yield from translate_chunk(translator, chunk, search, prefixes=given, where=names, aligner=aligner)


def translate_chunk(
    translator: Translator,
    texts: Sequence[Source],
    search: Search,
    *,
    prefixes: Sequence[str] | None = None,
    where: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
    aligner: Aligner | None = None,
) -> list[Translation]:
    """Translate some texts of a job, and align them with an `aligner`; the others are as in `Translator.translate`."""
    names = [f"row {row}" for row in range(1, len(texts) + 1)] if where is None else where
    sources, left_out = _sources(translator, texts, names, stop=search.long == "stop")
    # the sentences of each text; none: it is left out
    parts: list[Sequence[str]] = [() if row in left_out else [source] for row, source in enumerate(sources)]
    split: dict[int, Sentences] = {}
    while True:
        owners = [row for row, own in enumerate(parts) for _ in own]
        forced = None if prefixes is None else _forced(parts, prefixes)
        flat = [part for own in parts for part in own]
        try:
            answers = translator.translate(
                flat,
                decoding=search.decoding,
                prefixes=forced,
                progress=progress,
                where=[names[row] for row in owners],
                greedy_first=search.greedy_first,
            )
            break
        except TooLongError as error:
            if search.long == "stop":
                raise
            for row, n_tokens in {owners[part]: length for part, length in error.lengths.items()}.items():
                if search.long == "split" and row not in split:
                    main, *others = sources[row].split(UNIT_SEPARATOR) if translator.inputs else [sources[row]]
                    split[row] = Sentences.of(main)
                    parts[row] = [compose([sentence, *others]) for sentence in split[row].texts]
                else:
                    sentence = "a sentence of " if row in split else ""
                    limit = f"the model takes at most {translator.max_source_length}"
                    left_out[row], parts[row] = f"{sentence}{n_tokens} tokens; {limit}", ()
    if aligner is not None:
        answers = aligner.align(flat, answers)
    found = iter(answers)
    results = []
    for row, own in enumerate(parts):
        of_parts = list(islice(found, len(own)))
        if row in left_out:
            results.append(replace(EMPTY, left_out=left_out[row]))
        else:
            results.append(joined(of_parts, split[row].spaces) if row in split else of_parts[0])
    return results


def _sources(
    translator: Translator, texts: Sequence[Source], names: Sequence[str], *, stop: bool
) -> tuple[list[str], dict[int, str]]:
    """Return the source of each text, and why some have none: one of their inputs is empty. `stop`: raise TextError."""
    sources, left_out = [], {}
    for row, (text, name) in enumerate(zip(texts, names, strict=True)):
        try:
            sources.append(compose_values(text, name, translator.inputs))
        except TextError as error:
            if stop:
                raise
            left_out[row] = error.what
            sources.append("")
    return sources, left_out


def _forced(parts: Sequence[Sequence[str]], prefixes: Sequence[str]) -> list[str]:
    """Return the prefix of each part: a text's own for its first sentence, none for the others."""
    if len(prefixes) != len(parts):
        raise UsageError("each text needs a prefix of its own", got=f"{len(prefixes)} for {len(parts)} texts")
    return [prefixes[row] if i == 0 else "" for row, own in enumerate(parts) for i in range(len(own))]
