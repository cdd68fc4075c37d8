"""One explained text: a model, a text and edits, as a computation and as tokens, axes and settings of a trace.

`Explained` is a model and a text. `Explained.forward(edits)` is a `ForwardPass` of the NumPy reference on that text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import TextError, UsageError, quoted
from glassformer.glassbox.catalogue import meaning_of, vocabulary_axis
from glassformer.glassbox.forward import ForwardPass, Ids
from glassformer.glassbox.schema import (
    Axis,
    Provenance,
    SearchTrace,
    SearchTraces,
    Token,
    TokenKind,
    Tokens,
    TraceAnswer,
    TraceVocabulary,
)
from glassformer.glassbox.search import search
from glassformer.glassbox.whatif import Edits, counterparts
from glassformer.inference import engines
from glassformer.inference.beam_confidence import beam_confidence
from glassformer.inference.confidence import all_of_the_beam, has_confidence
from glassformer.inference.encoding import encode_prefix, max_new_tokens_of
from glassformer.inference.engines.batches import ONE_THREAD
from glassformer.inference.translator import Translator
from glassformer.paper.search import SearchConstraints
from glassformer.settings import DecodingSettings
from glassformer.storage.hub import local_model
from glassformer.storage.modelfile import ModelFile, find_model
from glassformer.text import Tokenizer
from glassformer.text.inputs import Source, SourceLike, as_given, compose_values, texts_of

Side = Literal["source", "target"]

MAX_BEAMS, MAX_POSITIONS = 1_000, 1_000  # that a trace can hold


@dataclass(frozen=True)
class Explained:
    """A model and a text. `path` is the model file, if it is one; `pad_to` is the length of the source with padding.

    `n_members` is the number of models in the file; the first one is explained.
    """

    translator: Translator
    path: Path | None
    text: Source
    decoding: DecodingSettings
    pad_to: int = 0
    n_members: int = 1

    @classmethod
    def of(
        cls,
        model: Translator | ModelFile | str | Path,
        text: SourceLike,
        decoding: DecodingSettings | None,
        options: dict[str, Any],
        pad_to: int = 0,
    ) -> Explained:
        """A text with a model, which is loaded if `model` is a path; `options` replace fields of `decoding`.

        In a file with members the first model is explained.

        Raises UsageError for more than MAX_BEAMS and MAX_POSITIONS.
        """
        path = None
        if isinstance(model, str | Path):
            path = find_model(local_model(model))
            model = ModelFile.load(path)
        file = model.model_file if isinstance(model, Translator) else model
        if not isinstance(model, Translator) or file.members:
            model = Translator(file.first, device="cpu")
        decoding = (decoding or model.settings.decoding).override(options | {"do_sample": False})
        for part, number, limit in (("beam", decoding.num_beams, MAX_BEAMS), ("padded source", pad_to, MAX_POSITIONS)):
            if number > limit:
                what = f"the {part} is too large to be explained"
                raise UsageError(what, got=quoted(number), expected=f"at most {limit}")
        source = compose_values(text, "the text", model.inputs)
        return cls(model, path, source, decoding, pad_to, len(file.seeds))

    @property
    def file(self) -> ModelFile:
        return self.translator.model_file

    @property
    def inputs(self) -> dict[str, str] | None:
        """The cell of each input by name, where there are several."""
        cells = as_given(self.text, self.translator.inputs)
        return None if isinstance(cells, str) else cells

    # What is computed

    @cached_property
    def source_ids(self) -> list[int]:
        """The framed source, without padding. Raises TextError for a text that the model does not accept."""
        if not "".join(texts_of(self.text, self.translator.inputs)).strip():
            raise TextError("there is nothing to explain", got=repr(self.text), expected="a text that is not empty")
        tokenizer, limit = self.file.source_tokenizer, self.translator.max_source_length
        ids = tokenizer.encode(self.text)
        if len(ids) > limit:
            raise TextError(
                "the text is longer than the model takes",
                got=f"{len(ids)} tokens",
                expected=f"at most {limit} tokens",
                hint="explain a part of it, or train with a larger data.max_source_length",
            )
        return tokenizer.frame(ids)

    def forward(self, edits: Edits, tensors: Mapping[str, NDArray[Any]] | None = None) -> ForwardPass:
        """The reference on this source, with edits; `tensors` are the weights of a snapshot instead of the model's."""
        before = edits.without_patches
        other = None if before == edits else self.forward(before, tensors)
        edited_ids = self._edited_ids(edits)
        ids = edited_ids if other is None else self.source_ids
        if other is not None and edited_ids == ids:
            hint = "add an edit such as 'text x' or 'token 3=x' that makes it"
            raise UsageError("a patch needs another text that it is taken from", hint=hint)
        n_pads = max(0, self.pad_to - len(ids))
        padded = (*ids, *[self.file.source_tokenizer.vocabulary.pad_id] * n_pads)
        file = replace(self.file, tensors=edits.weights(tensors or self.file.tensors, self.file.settings.model))
        weights = {name: array.astype(np.float64) for name, array in file.tensors.items()}
        visible, positions = np.arange(len(padded)) < len(ids), counterparts(ids, edited_ids)
        return ForwardPass(file, weights, padded, visible, edits, other, positions)

    def _edited_ids(self, edits: Edits) -> list[int]:
        """The framed source after the edits."""
        if self.inputs and edits.text is not None:
            raise UsageError("the text of several inputs cannot be another one", hint="edit its tokens: token 3=x")
        explained = self if edits.text is None else replace(self, text=edits.text)
        return edits.source_ids(explained.source_ids, self.file.source_tokenizer)

    def constraints(self, edits: Edits) -> SearchConstraints:
        """The constraints of a search. Raises TextError for a forced prefix that no answer can have."""
        tokenizer = self.file.target_tokenizer
        longest = max_new_tokens_of(self.file.data, self.file.settings, self.decoding)
        vocabulary, forced = tokenizer.vocabulary, encode_prefix(edits.prefix, None, tokenizer)
        prefixes = [forced] if forced else ()
        return SearchConstraints(vocabulary.bos_id, vocabulary.eos_id, vocabulary.forbidden_ids, longest, prefixes)

    @np.errstate(all="ignore")
    def search(self, forward: ForwardPass, num_beams: int) -> SearchTrace:
        """The search of a forward pass, with its pruned candidates."""
        tokenizer = self.file.target_tokenizer
        with ONE_THREAD:
            return search(
                *forward.searched(),
                self.constraints(forward.edits),
                lambda token: tokenizer.tokens([token])[0],
                tokenizer.decode,
                num_beams=num_beams,
                alpha=self.decoding.length_alpha,
                n_best=self.decoding.num_return_sequences,
            )

    def searches(self, forward: ForwardPass) -> SearchTraces:
        """Greedy search, and the beam search of the decoding settings."""
        greedy = self.search(forward, 1)
        return SearchTraces(
            greedy, greedy if self.decoding.num_beams == 1 else self.search(forward, self.decoding.num_beams)
        )

    def confidence(self, forward: ForwardPass) -> float | None:
        """The confidence of the answer; None without a calibration of this search, or with edits."""
        calibration, decoding = self.file.calibration, all_of_the_beam(self.decoding)
        if calibration is None or not has_confidence(calibration, decoding):
            return None
        if self.translator.n_models > 1 or forward.edits.edits:
            return None
        longest = self.constraints(forward.edits).max_new_tokens
        answers = engines.search(forward.engine, [self.source_ids], decoding, longest)[0]
        limit = 1.0 if answers[0].finished and not self.file.unlike(self.source_ids) else calibration.unusual_limit
        return beam_confidence(calibration.weights, [answer.score for answer in answers], limit)

    def rows_of_answer(self, answer: TraceAnswer) -> tuple[list[int], list[int]]:
        """The tokens that the decoder is fed for an answer, and its targets."""
        vocabulary = self.file.target_tokenizer.vocabulary
        targets = [*answer.ids, vocabulary.eos_id] if answer.finished else list(answer.ids)
        return [vocabulary.bos_id, *targets[:-1]], targets

    def rows_of_gold(self, target: str) -> tuple[list[int], list[int]]:
        """The same for a gold target, teacher-forced. Raises TextError for a target that is too long."""
        tokenizer = self.file.target_tokenizer
        ids = tokenizer.encode(target, where="the target")
        longest = self.file.settings.data.max_target_length
        if len(ids) > longest:
            raise TextError(
                "the target is longer than the model was trained on",
                got=f"{len(ids):,} tokens",
                expected=f"at most {longest:,}",
            )
        framed = tokenizer.frame(ids)
        return framed[:-1], framed[1:]

    # Parts of a trace

    def provenance(self) -> Provenance:
        """The model and its settings."""
        file, max_new_tokens = self.file, self.constraints(Edits()).max_new_tokens
        return Provenance(
            model="a model in memory" if self.path is None else str(self.path),
            model_hash=hash_tensors(file.tensors),
            data_hash=file.data.fingerprint,
            settings=file.settings.model_dump(mode="json"),
            metrics=file.metrics.to_dict(),
            decoding={**self.decoding.model_dump(mode="json"), "max_new_tokens": max_new_tokens},
            mode="eval",
            computed_in="float64",
            seed=file.settings.training.seed,
            versions=file.versions,
            columns=list(file.data.column_labels),
            members=self.n_members,
        )

    def tokens(self, side: Side, ids: Ids, text: Source | None = None) -> list[Token]:
        """Ids as tokens; `text` is the text in which unknown ones are looked up."""
        tokenizer, counts = self._tokenizer(side), self._counts(side)
        vocabulary = tokenizer.vocabulary
        kinds: dict[int, TokenKind] = dict.fromkeys(vocabulary.input_ids, "input")
        kinds |= {token: cast("TokenKind", part) for part, token in self._specials(side).items()}
        unknown = iter(tokenizer.unknown(text) if text else ())
        return [
            Token(
                id=token,
                text=piece,
                kind=kinds.get(token, "ordinary"),
                count=counts[token] if token < len(counts) else None,
                given=next(unknown, None) if token == vocabulary.unk_id else None,
            )
            for token, piece in zip(ids, tokenizer.tokens(ids), strict=True)
        ]

    def source_tokens(self, ids: Ids, text: str | None = None) -> list[Token]:
        """The source with edits and padding; an unknown token that was not edited keeps its characters in `given`."""
        explained = self if text is None else replace(self, text=text)
        before = self.tokens("source", explained.source_ids, explained.text)
        edited = self.tokens("source", ids)
        same = [old if old.id == new.id else new for old, new in zip(before, edited, strict=False)]
        tokens = [*same, *edited[len(same) :]]
        first = self.file.source_tokenizer.settings.n_frame_tokens - 1
        for position, name in enumerate(self.file.source_tokenizer.names_of_inputs(self.text), first):
            tokens[position] = replace(tokens[position], input=name)
        return tokens

    def vocabularies(self, *, can_split: bool) -> dict[Side, TraceVocabulary]:
        """The two vocabularies, without the labels of their axes; with what splits a text into subwords or without."""
        left_out = {"pieces", "sentencepiece"} | (set() if can_split else {"merges", "scores"})
        vocabularies: dict[Side, TraceVocabulary] = {}
        for side in get_args(Side):
            tokenizer = self._tokenizer(side)
            seen = self.file.seen.to_json() if self.file.seen and side == "source" else {}
            saved = {name: value for name, value in tokenizer.to_dict().items() if name not in left_out}
            axis, inputs = vocabulary_axis(side, self.file.settings.model), list(tokenizer.vocabulary.input_ids)
            vocabularies[side] = TraceVocabulary(axis, self._specials(side), self._counts(side), saved, inputs, seen)
        return vocabularies

    def axes(self, tokens: Tokens) -> dict[str, Axis]:
        """All axes of a trace, with their lengths and labels."""
        model = self.file.settings.model
        axes = {}
        rows = {"source": (tokens.source, None), "target": (tokens.target_in, tokens.target_out)}
        if tokens.gold_in is not None:
            rows["gold_target"] = (tokens.gold_in, tokens.gold)
        for name, (fed, targets) in rows.items():
            key, labels = f"{name}_key", [token.text for token in fed]
            predicted = None if targets is None else [token.text for token in targets]
            axes[name] = Axis(len(labels), meaning_of(name), labels, predicted)
            axes[key] = Axis(len(labels), meaning_of(key), labels)
        features = ("d_model", "d_k", "d_v", "d_ff", *(["max_length"] if model.positions == "learned" else []))
        widths = {name: getattr(model, name) for name in features}
        widths |= {"head": model.n_heads, **{f"heads_{name}": model.n_heads * widths[name] for name in ("d_k", "d_v")}}
        axes |= {name: Axis(length, meaning_of(name)) for name, length in widths.items()}
        for side in ("source", "target"):
            name = vocabulary_axis(side, model)
            pieces = list(self._tokenizer(side).vocabulary.pieces)
            axes[name] = Axis(len(pieces), meaning_of(name), pieces)
        return axes

    def _specials(self, side: Side) -> dict[str, int]:
        """The special tokens by part. <pad> is also <bos> in targets of MarianMT; its sources have no <bos>."""
        tokenizer = self._tokenizer(side)
        vocabulary = tokenizer.vocabulary
        parts = {"pad": vocabulary.pad_id, "bos": vocabulary.bos_id, "eos": vocabulary.eos_id}
        if not tokenizer.settings.bos:
            del parts["bos"]
        return parts | ({} if vocabulary.unk_id is None else {"unk": vocabulary.unk_id})

    def _tokenizer(self, side: str) -> Tokenizer:
        return self.file.source_tokenizer if side == "source" else self.file.target_tokenizer

    def _counts(self, side: str) -> list[int]:
        return list(self.file.data.counts(side))


def hash_tensors(tensors: dict[str, NDArray[Any]]) -> str:
    """SHA-256 over name, type, shape and bytes of all tensors, by name."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        array = tensors[name]
        total.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()
