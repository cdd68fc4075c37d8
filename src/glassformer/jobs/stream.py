"""Texts to answers, one after the other, from any iterable; what cannot be translated does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, pairwise
from typing import Any, Literal, Self, get_args

from glassformer.errors import TextError, TooLongError, UsageError, nearest, quoted
from glassformer.inference.allowed import Constraint, options_of
from glassformer.inference.confidence import all_of_the_beam, check_calibrated
from glassformer.inference.translator import Translator
from glassformer.jobs.alignment import align
from glassformer.jobs.answers import NO_ANSWER, JobAnswer
from glassformer.jobs.chunks import chunks
from glassformer.jobs.sentences import Sentences, joined
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import Source, SourceLike, compose_values
from glassformer.text.normalization import nfc_source

Long = Literal["stop", "skip", "split"]
"""A text longer than the model takes: an error, an empty answer, or translated sentence by sentence.

A row that lacks an input of the model is an error with "stop", and otherwise an empty answer."""


@dataclass(frozen=True)
class SearchOptions:
    """How the texts of a job are translated: the settings of the search, and what happens to texts that are too long.

    With `alignments` the answers are aligned. With `min_confidence` each has its confidence, and one below it is left
    empty. A `constraint` says which answers are allowed. The `lexicon` has the answers to some texts, in NFC, which the
    model is not asked unless an answer has a forced start.
    """

    decoding: DecodingSettings
    long: Long = "skip"
    alignments: bool = False
    min_confidence: float | None = None
    constraint: Constraint | None = None
    lexicon: Mapping[Source, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, model_files: Sequence[ModelFile], decoding: DecodingSettings, *, prefixes: bool, **fields: Any) -> Self:
        """Return the search of these models; `prefixes`: answers have forced starts.

        Raises UsageError for a minimum where the confidence of answers is not known.
        """
        search = cls(decoding, **fields)
        if search.min_confidence is not None:
            check_calibrated(model_files, decoding, prefixes=prefixes, constrained=search.constraint is not None)
        return search

    def __post_init__(self) -> None:
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            what, expected = "the minimum confidence is not a probability", "a number from 0 to 1"
            raise UsageError(what, got=f"{self.min_confidence:g}", expected=expected)
        if self.long not in get_args(Long):
            what, hint = f"long texts: {quoted(self.long)} is not available", nearest(self.long, get_args(Long))
            raise UsageError(what, hint=hint)
        if self.long == "split" and self.constraint is not None:
            what = "the answers of several sentences are not one answer of a given form"
            raise UsageError(what, got="long=split, and a pattern or choices", hint="long=skip")
        n_answers = self.decoding.num_return_sequences
        if self.long == "split" and n_answers > 1:
            what = "the answers of several sentences cannot be joined when each has alternatives"
            got = f"long=split and {n_answers} answers for each text"
            raise UsageError(what, got=got, hint="long=skip, or one answer")


def translate_stream(
    translator: Translator,
    texts: Iterable[SourceLike],
    *,
    prefixes: Iterable[str] | None = None,
    long: Long = "skip",
    alignments: bool = False,
    min_confidence: float | None = None,
    must_match: str | None = None,
    choices: Sequence[str] | None = None,
    decoding: DecodingSettings | None = None,
    **options: Any,
) -> Iterator[JobAnswer]:
    """Yield the answer to each text, in order, while texts are taken from any iterable; blank text, empty answer.

    `long` says what happens to a text longer than the model takes: "stop" raises TooLongError, "skip" yields an empty
    answer whose `left_out` says why, "split" translates its sentences and joins their answers (with the extra
    `sentences`; a sentence that is too long itself leaves its text out). A mapping with an empty input, such as a
    feature, is left out too, or raises TextError with "stop". `alignments`: each answer has its `alignment`, from the
    attention of the model. With `min_confidence` each answer has its `confidence`, and one below that is empty and
    `held_back` (with 0, none is); UsageError where the confidence is not known. The other arguments are those of
    `Translator.translate`, as are answers and scores.
    """
    search = SearchOptions.of(
        translator.model_files,
        (decoding or translator.settings.decoding).override(options),
        min_confidence=min_confidence,
        constraint=Constraint.of(must_match, choices),
        prefixes=prefixes is not None,
        long=long,
        alignments=alignments,
    )
    if isinstance(texts, str):
        raise UsageError("the texts to translate must be an iterable of texts", got=quoted(texts), hint="[text]")
    first, forced = count(1), None if prefixes is None else iter(prefixes)
    for chunk in chunks(texts):
        names = [f"row {row}" for row in islice(first, len(chunk))]
        prefixes_of_chunk = None if forced is None else list(islice(forced, len(chunk)))
        yield from translate_chunk(translator, chunk, search, names, prefixes=prefixes_of_chunk)


def translate_chunk(
    translator: Translator,
    texts: Sequence[SourceLike],
    search: SearchOptions,
    names: Sequence[str],
    *,
    prefixes: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[JobAnswer]:
    """Translate some texts of a job, called `names` in errors."""
    if prefixes is not None and len(prefixes) != len(texts):
        raise UsageError("each text needs a prefix of its own", got=f"{len(prefixes)} for {len(texts)} texts")
    sources, left_out = _sources(translator, texts, names, stop=search.long == "stop")
    decoding = search.decoding if search.min_confidence is None else all_of_the_beam(search.decoding)
    keys = {row: nfc_source(source) for row, source in sources.items() if not (prefixes and prefixes[row])}
    lexicon_hits = {row: search.lexicon[key] for row, key in keys.items() if key in search.lexicon}
    parts = {row: Sentences((source,)) for row, source in sources.items() if row not in lexicon_hits}
    split: set[int] = set()
    while True:
        owners = [row for row, sentences in parts.items() for _ in sentences.texts]
        flat = [text for sentences in parts.values() for text in sentences.texts]
        starts = None  # the first sentence of a text has its prefix
        if prefixes is not None:
            starts = [prefixes[row] if row != before else "" for before, row in pairwise([-1, *owners])]
        try:
            translations = translator.translate(
                flat,
                decoding=decoding,
                prefixes=starts,
                progress=progress if len(flat) == len(texts) else None,
                where=[names[row] for row in owners],
                **options_of(search.constraint),
            )
            break
        except TooLongError as error:
            if search.long == "stop":
                raise
            for row, n_tokens in {owners[part]: length for part, length in error.lengths.items()}.items():
                if search.long == "split" and row not in split:
                    split.add(row)
                    parts[row] = Sentences.of(sources[row])
                else:
                    sentence = "a sentence of " if row in split else ""
                    limit = f"the model takes at most {translator.max_source_length}"
                    left_out[row] = f"{sentence}{n_tokens} tokens; {limit}"
                    del parts[row]
    if progress and len(flat) != len(texts):
        progress(len(texts))
    answers = list(map(JobAnswer.of, translations))
    answers_in_order = iter(align(translator, flat, answers) if search.alignments else answers)
    results = [replace(NO_ANSWER, left_out=left_out.get(row, "")) for row in range(len(texts))]
    for row, sentences in parts.items():
        results[row] = joined(list(islice(answers_in_order, len(sentences.texts))), sentences.spaces)
    for row, target in lexicon_hits.items():
        results[row] = replace(NO_ANSWER, text=target, from_lexicon=True)
    if search.min_confidence is None:
        return results
    return [as_requested(answer, search.decoding, search.min_confidence) for answer in results]


def as_requested(answer: JobAnswer, decoding: DecodingSettings, minimum: float = 0.0) -> JobAnswer:
    """Return a beam's answer with the requested number of alternatives; an answer below `minimum` is left empty."""
    if answer.confidence is None:  # an empty text, or one that was left out
        return answer
    changes: dict[str, Any] = {"alternatives": answer.alternatives[: decoding.num_return_sequences - 1]}
    if answer.confidence < minimum:
        parts = ("tokens", "token_scores", "alternatives", "source_tokens", "alignment")
        reason = f"confidence {answer.confidence:.3f}, below {minimum:g}"
        changes |= dict.fromkeys(parts, ()) | {"text": "", "left_out": reason}
    return replace(answer, **changes)


def _sources(
    translator: Translator, texts: Sequence[SourceLike], names: Sequence[str], *, stop: bool
) -> tuple[dict[int, Source], dict[int, str]]:
    """Return the source of each text, by row, and why some have none: an input is empty. `stop`: raise TextError."""
    sources, left_out = dict[int, Source](), dict[int, str]()
    for row, (text, name) in enumerate(zip(texts, names, strict=True)):
        try:
            sources[row] = compose_values(text, name, translator.inputs)
        except TextError as error:
            if stop:
                raise
            left_out[row] = error.what
    return sources, left_out
