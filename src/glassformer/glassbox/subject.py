"""What is explained: a model and a text, as ids, tokens, axes and numbers of a trace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.decoding import SearchConstraints
from glassformer.errors import TextError
from glassformer.glassbox.catalogue import AXES, weight_axes
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.run import Ids, Run
from glassformer.glassbox.schema import (
    MASK_REASONS,
    Answer,
    Axis,
    Provenance,
    Tensor,
    Token,
    TokenKind,
    Tokens,
    Vocabulary,
)
from glassformer.glassbox.whatif import Edits
from glassformer.modelfile import ModelFile
from glassformer.settings import DecodingSettings
from glassformer.text import Tokenizer
from glassformer.translator import Translator, default_max_new_tokens

Side = Literal["source", "target"]


@dataclass(frozen=True)
class Subject:
    """A model and a text. `name` is what the model is called; `pad_to` is how long the source is made with padding."""

    translator: Translator
    name: str
    text: str
    decoding: DecodingSettings
    pad_to: int = 0

    @property
    def file(self) -> ModelFile:
        return self.translator.model_file

    @cached_property
    def source_ids(self) -> list[int]:
        """The framed source, without padding. Raises TextError for a text that the model does not take."""
        if not self.text.strip():
            raise TextError("there is nothing to explain", got=repr(self.text), expected="a text that is not empty")
        tokenizer, most = self.file.source_tokenizer, self.translator.max_source_length
        ids = tokenizer.encode(self.text)
        if len(ids) > most:
            raise TextError(
                "the text is longer than the model takes",
                got=f"{len(ids)} tokens",
                expected=f"at most {most} tokens",
                hint="explain a part of it, or train with a larger data.max_source_length",
            )
        return tokenizer.frame(ids)

    def run(self, edits: Edits, tensors: Mapping[str, NDArray[Any]] | None = None) -> Run:
        """The reference on this source, with edits; `tensors` are weights of another moment of the training."""
        ids = edits.source_ids(self.source_ids, self.file.source_tokenizer)
        pads = max(0, self.pad_to - len(ids))
        padded = (*ids, *[self.file.source_tokenizer.vocabulary.pad_id] * pads)
        model = self.file.settings.model
        edited = edits.weights(tensors or self.file.tensors, model)
        weights = {name: array.astype(np.float64) for name, array in edited.items()}  # once, not in every product
        return Run(weights, model, padded, np.arange(len(padded)) < len(ids), edits)

    def space(self, edits: Edits) -> SearchConstraints:
        """What may be an answer. Raises TextError for a forced start that no answer can have."""
        tokenizer, model = self.file.target_tokenizer, self.file.settings.model
        if unknown := tokenizer.unknown(edits.prefix):
            raise TextError(
                "the prefix holds what the target vocabulary does not have, so that no answer can start with it",
                got=", ".join(map(repr, unknown[:10])),
            )
        longest = self.decoding.max_new_tokens or default_max_new_tokens(self.file.data, self.file.settings)
        longest = min(longest, model.n_positions or longest)
        vocabulary, forced = tokenizer.vocabulary, tokenizer.encode(edits.prefix)
        prefixes = [forced] if forced else ()
        return SearchConstraints(vocabulary.bos_id, vocabulary.eos_id, vocabulary.forbidden_ids, longest, prefixes)

    def rows_of(self, answer: Answer) -> tuple[list[int], list[int]]:
        """What the decoder is fed for an answer, and what it is asked for."""
        vocabulary = self.file.target_tokenizer.vocabulary
        asked = [*answer.ids, vocabulary.eos_id] if answer.finished else list(answer.ids)
        return [vocabulary.bos_id, *asked[:-1]], asked

    def rows_of_target(self, target: str) -> tuple[list[int], list[int]]:
        """The same for a given target, teacher-forced."""
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

    # As parts of a trace

    def provenance(self) -> Provenance:
        """Which model this is, and how it is run."""
        file = self.file
        space = self.space(Edits())
        return Provenance(
            model=self.name,
            model_hash=hash_tensors(file.tensors),
            data_hash=file.data.fingerprint,
            settings=file.settings.model_dump(mode="json"),
            metrics=file.metrics.to_dict(),
            decoding={**self.decoding.model_dump(mode="json"), "max_new_tokens": space.max_new_tokens},
            mode="eval",
            computed_in="float64",
            seed=file.settings.training.seed,
            versions=file.versions,
        )

    def tokens(self, side: Side, ids: Ids, text: str | None = None) -> list[Token]:
        """Ids as tokens; `text` is where unknown ones are looked for."""
        tokenizer, counts = self._tokenizer(side), self._counts(side)
        vocabulary = tokenizer.vocabulary
        kinds: dict[int | None, TokenKind] = {
            vocabulary.unk_id: "unk",
            vocabulary.pad_id: "pad",
            vocabulary.bos_id: "bos",
            vocabulary.eos_id: "eos",
        }
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

    def source_tokens(self, ids: Ids) -> list[Token]:
        """The source, edited and padded as it may be; an unknown token that was not edited says what it was."""
        given = self.tokens("source", self.source_ids, self.text)
        edited = self.tokens("source", ids)
        same = [old if old.id == new.id else new for old, new in zip(given, edited, strict=False)]
        return [*same, *edited[len(same) :]]

    def vocabularies(self) -> dict[Side, Vocabulary]:
        """What the page must know of the two vocabularies, beside the labels of their axes."""
        sides: tuple[Side, ...] = ("source", "target")
        return {
            side: Vocabulary(self._vocabulary_axis(side), self._specials(side), self._counts(side)) for side in sides
        }

    def _specials(self, side: Side) -> dict[str, int]:
        vocabulary = self._tokenizer(side).vocabulary
        parts = {"pad": vocabulary.pad_id, "bos": vocabulary.bos_id, "eos": vocabulary.eos_id}
        return parts | ({} if vocabulary.unk_id is None else {"unk": vocabulary.unk_id})

    def axes(self, tokens: Tokens) -> dict[str, Axis]:
        """All axes of a trace, with their lengths and labels."""
        model = self.file.settings.model
        widths = {
            "head": model.n_heads,
            "d_model": model.d_model,
            "d_k": model.d_k,
            "d_v": model.d_v,
            "heads_d_k": model.n_heads * model.d_k,
            "heads_d_v": model.n_heads * model.d_v,
            "d_ff": model.d_ff,
        }
        if model.positions == "learned":
            widths["max_length"] = model.max_length
        axes = dict(_position_axes("source", tokens.source))
        axes |= _position_axes("target", tokens.target_in, tokens.target_out)
        if tokens.gold_in is not None:
            axes |= _position_axes("gold_target", tokens.gold_in, tokens.gold)
        axes |= {name: Axis(length, AXES[name]) for name, length in widths.items()}
        for side in ("source", "target"):
            name = self._vocabulary_axis(side)
            pieces = list(self._tokenizer(side).vocabulary.pieces)
            axes[name] = Axis(len(pieces), AXES[name], pieces)
        return axes

    def named_weights(self, run: Run) -> dict[str, tuple[NDArray[Any], tuple[str, ...]]]:
        """The weights of a run, with the names of their axes."""
        return {name: (array, weight_axes(name, run.model)) for name, array in run.weights.items()}

    def _tokenizer(self, side: str) -> Tokenizer:
        return self.file.source_tokenizer if side == "source" else self.file.target_tokenizer

    def _counts(self, side: str) -> list[int]:
        return list(self.file.data.counts(side))

    def _vocabulary_axis(self, side: str) -> str:
        return "vocabulary" if self.file.settings.model.tied_embeddings == "all" else f"{side}_vocabulary"


def _position_axes(
    name: str, tokens: Sequence[Token], predicted: Sequence[Token] | None = None
) -> Iterator[tuple[str, Axis]]:
    labels = [token.text for token in tokens]
    asked = None if predicted is None else [token.text for token in predicted]
    yield name, Axis(len(labels), AXES[name.removeprefix("gold_")], labels, asked)
    yield f"{name}_key", Axis(len(labels), AXES[f"{name}_key".removeprefix("gold_")], labels)


def tensors_of(recorder: Recorder, axes: dict[str, Axis], *, as_text: bool) -> dict[str, Tensor]:
    """What was recorded, as tensors; a mask says for each cell why it is hidden."""
    tensors = {}
    for name, array in recorder.arrays.items():
        names = recorder.axes[name]
        if name.endswith("_mask"):
            reason = MASK_REASONS.index("causal" if name.endswith("decoder.self_mask") else "source padding")
            array = np.broadcast_to(np.where(array, 0, reason), [axes[axis].length for axis in names]).astype(np.uint8)
        origin: Literal["given", "step"] = "given" if name in recorder.given else "step"
        tensors[name] = Tensor.of(array, list(names), origin, text=as_text)
    return tensors


def hash_tensors(tensors: dict[str, NDArray[Any]]) -> str:
    """SHA-256 over name, type, shape and bytes of all tensors, by name."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        array = tensors[name]
        total.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
