"""Translator: a trained model from text to text."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.pairs import checked_pairs, checked_texts
from glassformer.errors import ModelFileError, NotFiniteError, TooLongError, UsageError, quoted
from glassformer.inference.allowed import Constraint
from glassformer.inference.beam_confidence import beam_confidence
from glassformer.inference.confidence import has_confidence
from glassformer.inference.encoding import encode_prefix, encode_sources, max_new_tokens_of
from glassformer.inference.engines import Engine, load_engine, search
from glassformer.inference.engines.memory import check_search_fits
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.search import Hypothesis
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile, each_model
from glassformer.text import Tokenizer
from glassformer.text.inputs import Inputs, Source, SourceLike, compose_values, is_not_empty

if TYPE_CHECKING:
    from glassformer.data.splits import TrainedSources


@dataclass(frozen=True)
class Translation:
    """The answer to one text.

    `score` is the sum of log-probabilities of its tokens (nats), `rank_score` that sum after the length penalty.
    `finished` is False when the answer was cut off at `max_new_tokens`. `unknown` lists what the source vocabulary did
    not have in the text, `unlike` says how the text is unlike all that the model was trained on ("": it is not, or the
    model file does not say). `alternatives` are the other answers of an n-best search. `confidence` is the calibrated
    probability that the answer is right (`inference.confidence`); None, and not in the JSON: it is not known.
    `is_allowed` is False when no answer of the given form has the forced start; the answer is then empty.
    """

    text: str
    score: float
    rank_score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finished: bool
    unknown: tuple[str, ...] = ()
    unlike: str = ""
    alternatives: tuple[Translation, ...] = ()
    confidence: float | None = None
    is_allowed: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {
            "text": self.text,
            "score": self.score,
            "rank_score": self.rank_score,
            "finished": self.finished,
            "tokens": list(self.tokens),
            "token_scores": list(self.token_scores),
            "unknown": list(self.unknown),
            "unlike": self.unlike,
            "alternatives": [alternative.to_json() for alternative in self.alternatives],
        } | ({} if self.confidence is None else {"confidence": self.confidence})


@dataclass(frozen=True)
class PairScore:
    """The log-probability (nats) of a given target: the sum, and each token's own, `<eos>` included.

    `unknown` lists what the vocabularies did not have in source and target, and is scored as `<unk>`.
    """

    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    unknown: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers; `tokens` are pairs of a token and its log-probability."""
        tokens = [list(pair) for pair in zip(self.tokens, self.token_scores, strict=True)]
        return {"score": self.score, "tokens": tokens, "unknown": list(self.unknown)}


EMPTY = Translation("", 0.0, 0.0, (), (), finished=True)


class Translator:
    """A trained model that translates.

    `Translator.load(path).translate(["1845-01-05"])[0].text`. The same text gives the same answer alone, in any batch
    and in any order, in float32, the default; its score too where the search is compiled, and within 1e-4 elsewhere.
    """

    def __init__(
        self,
        model_file: ModelFile,
        *,
        ensemble: Sequence[ModelFile] = (),
        device: str = "auto",
        precision: str = "float32",
        engine: str = "auto",
    ) -> None:
        """Create a translator of model files that are already read; `load` reads them."""
        for member in ensemble:
            _check_same_vocabulary(model_file, member)
        self.model_file = model_file
        self.model_files = each_model((model_file, *ensemble))
        self.n_models = len(self.model_files)
        self.settings = model_file.settings
        self.source_tokenizer: Tokenizer = model_file.source_tokenizer
        self.target_tokenizer: Tokenizer = model_file.target_tokenizer
        self.engine: Engine = load_engine(engine, self.model_files, device, precision)
        self._rebuild = functools.partial(
            type(self), ensemble=tuple(ensemble), device=device, precision=precision, engine=engine
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the model files only: engines cannot be copied, and are created again."""
        return self._rebuild, (self.model_file,)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        ensemble: Sequence[str | Path] = (),
        device: str = "auto",
        precision: str = "float32",
        engine: str = "auto",
    ) -> Translator:
        """Read a model file, a run directory or a model of the hub (`hf://owner/name`).

        `ensemble` names further models; their probabilities are averaged, like those of the members of one file.

        `engine` is "numpy" (compiled where it can be) on a CPU in float32, and "torch" elsewhere ("auto"). Raises
        ModelFileError for a model that cannot be read or does not fit the others, and DeviceError, SettingsError or
        UsageError for a device, precision or engine that is not available (they name those that are).
        """
        from glassformer.storage.hub import local_model

        models = [ModelFile.load(local_model(member)) for member in ensemble]
        return cls(
            ModelFile.load(local_model(path)), ensemble=models, device=device, precision=precision, engine=engine
        )

    @functools.cached_property
    def trained_sources(self) -> TrainedSources:
        """The sources that the models were trained on, from the files of their runs."""
        from glassformer.data.splits import TrainedSources

        runs = dict.fromkeys((file.path, file.data.sources_digest) for file in self.model_files)
        return functools.reduce(operator.or_, (TrainedSources.of_model(*run) for run in runs))

    @property
    def inputs(self) -> Inputs:
        """The inputs of a source, where there are several; empty for a single text."""
        return self.source_tokenizer.inputs

    @property
    def max_source_length(self) -> int:
        """The maximum length of a text in tokens."""
        return self.settings.max_source_tokens

    def translate(
        self,
        texts: Sequence[SourceLike],
        *,
        decoding: DecodingSettings | None = None,
        prefixes: Sequence[str] | None = None,
        must_match: str | None = None,
        choices: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
        where: Sequence[str] | None = None,
        **options: Any,
    ) -> list[Translation]:
        """Translate texts: one Translation for each, in order; an empty text gives an empty answer.

        A text of a model with several `inputs` is a mapping: `{"lemma": "walk", "tags": "V;PST"}`.

        `options` are fields of DecodingSettings (`num_beams=5`) over `decoding`, by default the model's own (see
        `DecodingSettings.override`). `prefixes`, one for each text, are forced starts of the answers. `must_match` is a
        regular expression for whole answers, `choices` are the possible answers; where none has the forced start, the
        answer is empty, and not `is_allowed`. `progress` is called with the number of texts that were finished.
        `where[i]` names text i in errors (by default its row, from 1).

        Raises TooLongError when a text is longer than the model takes (the first ten are named), TextError when one
        holds a token that the vocabulary has no id for and no `<unk>`, or has an empty input, and when a prefix holds a
        token that no answer can have, UsageError for a text without the inputs of the model, DeviceError for a search
        that needs more memory than there is, NotFiniteError when the model computes numbers that are not finite.
        """
        decoding = (decoding or self.settings.decoding).override(options)
        texts = self.sources_of(texts, where)
        names = _names(len(texts), where)
        rows = [row for row, text in enumerate(texts) if is_not_empty(text, self.inputs)]
        names_of_rows = [names[row] for row in rows]
        try:
            sources = encode_sources([texts[row] for row in rows], names_of_rows, self.source_tokenizer, self.settings)
        except TooLongError as error:
            error.lengths = {rows[number]: length for number, length in error.lengths.items()}
            raise
        constraint = Constraint.of(must_match, choices)
        prefixes = None if prefixes is None else self.prefixes_of(prefixes, len(texts))
        forced = [encode_prefix(prefixes[row], names[row], self.target_tokenizer) for row in rows] if prefixes else []
        if progress and len(rows) < len(texts):
            progress(len(texts) - len(rows))
        max_new_tokens = max_new_tokens_of(self.model_file.data, self.settings, decoding)
        check_search_fits(self.settings.model, len(self.target_tokenizer), decoding, max_new_tokens, self.engine)
        guide, unmatched = None, set[int]()
        if constraint is not None:
            starts = [prefixes[row] if prefixes is not None else "" for row in rows]
            guide, forced, unmatched = constraint.guide(self.target_tokenizer, starts, forced, max_new_tokens)
        results = [EMPTY] * len(texts)
        unk_id = self.source_tokenizer.vocabulary.unk_id
        calibration = self.model_file.calibration
        is_free = self.n_models == 1 + len(self.model_file.members) and prefixes is None and constraint is None
        if not (is_free and has_confidence(calibration, decoding)):
            calibration = None

        def keep(answers: Mapping[int, list[Hypothesis]]) -> None:
            for i, (best, *further) in answers.items():
                row, source = rows[i], sources[i]
                if i in unmatched:
                    results[row] = replace(EMPTY, is_allowed=False)
                    continue
                unknown = tuple(self.source_tokenizer.unknown(texts[row])) if unk_id in source else ()
                about: dict[str, Any] = {"unknown": unknown, "unlike": self.model_file.unlike(source, unknown)}
                if calibration is not None:
                    scores = [answer.score for answer in (best, *further)]
                    limit = 1.0 if best.finished and not about["unlike"] else calibration.unusual_limit
                    about["confidence"] = beam_confidence(calibration.weights, scores, limit)
                results[row] = self._translation(best, alternatives=tuple(map(self._translation, further)), **about)
            if progress:
                progress(len(answers))
            check_time_limit()  # for engines that do not check it in each step

        with _named_errors(names_of_rows):
            search(self.engine, sources, decoding, max_new_tokens, forced, keep, guide)
        return results

    def sources_of(self, texts: Sequence[SourceLike], where: Sequence[str] | None = None) -> Sequence[Source]:
        """Return the source of each text.

        Raises UsageError for what is not a list of texts, and UsageError or TextError for a text that lacks an input.
        """
        if isinstance(texts, str):
            raise UsageError("the texts to translate must be a list", got=quoted(texts), hint="translate([text])")
        if self.inputs and not isinstance(texts, Mapping) and isinstance(texts, Iterable):
            texts = list(texts)
            names = _names(len(texts), where)
            return [compose_values(text, name, self.inputs) for text, name in zip(texts, names, strict=True)]
        return checked_texts(texts, "texts to translate")

    def prefixes_of(self, prefixes: Sequence[str], n_texts: int) -> list[str]:
        """Return the forced starts of answers. Raises UsageError when they are not text, or not one for each text."""
        what = "prefixes must be a list, one for each text"
        if isinstance(prefixes, str):
            raise UsageError(what, got=quoted(prefixes))
        texts = checked_texts(prefixes, "prefixes")
        if len(texts) != n_texts:
            raise UsageError(what, got=f"{len(texts)} for {n_texts} texts")
        return texts

    def score(self, pairs: Sequence[tuple[SourceLike, str]], *, where: Sequence[str] | None = None) -> list[PairScore]:
        """Return the log-probability of each given target for its source, with `<eos>`. `where` as in `translate`.

        Raises TextError for texts as `translate` does, NotFiniteError when a log-probability is not finite.
        """
        checked = list(checked_pairs(pairs, inputs=self.inputs))
        names = _names(len(checked), where)
        sources = encode_sources([source for source, _ in checked], names, self.source_tokenizer, self.settings)
        targets = [
            self.target_tokenizer.frame(self.target_tokenizer.encode(target, where=name))
            for (_, target), name in zip(checked, names, strict=True)
        ]
        with _named_errors(names):
            scored = self.engine.score(list(zip(sources, targets, strict=True)))
        return [
            PairScore(
                sum(token_scores),
                tuple(self.target_tokenizer.tokens(target[1:])),
                tuple(token_scores),
                (*self.source_tokenizer.unknown(pair[0]), *self.target_tokenizer.unknown(pair[1])),
            )
            for pair, target, token_scores in zip(checked, targets, scored, strict=True)
        ]

    def _translation(self, answer: Hypothesis, **about: Any) -> Translation:
        return Translation(
            text=self.target_tokenizer.decode(answer.ids),
            score=answer.score,
            rank_score=answer.rank_score,
            tokens=tuple(self.target_tokenizer.tokens(answer.ids)),
            token_scores=answer.token_scores,
            finished=answer.finished,
            **about,
        )


@contextlib.contextmanager
def _named_errors(names: Sequence[str]) -> Iterator[None]:
    """Give an error of an engine the name of the text instead of its number."""
    try:
        yield
    except NotFiniteError as error:
        if error.row is not None:
            error.where = names[error.row]
        raise


def _names(n_texts: int, where: Sequence[str] | None) -> Sequence[str]:
    """Return the name of each text in errors. Raises UsageError for another number of names than of texts."""
    if where is None:
        return [f"row {row + 1}" for row in range(n_texts)]
    if isinstance(where, str) or len(where) != n_texts:
        raise UsageError("each text needs a name of its own", got=f"{len(where)} names for {n_texts} texts")
    return where


def _check_same_vocabulary(model: ModelFile, member: ModelFile) -> None:
    for side in ("source_tokenizer", "target_tokenizer"):
        if getattr(model, side).to_dict() != getattr(member, side).to_dict():
            raise ModelFileError(
                f"models of an ensemble must share their vocabularies; the {side.split('_')[0]} ones differ",
                hint="train them from the same table and recipe, with different seeds",
            )
