"""The weights of a model in the layout of a class of Hugging Face transformers.

Post-norm is MarianMT, pre-norm is Blenderbot: the same layers with the norms before the sublayers and at the end of
both stacks, and position tables that are weights like others. Where the two differ from ours:

- Attention has one width, d_model / n_heads, for keys and values. A model with others is refused.
- All projections of attention have a bias: zeros where the model has none.
- The sines of MarianMT's positions are in one half, the cosines in the other, and it computes this table itself where
  a file has none, as after `save_pretrained`. So the features are permuted, in all weights.
- There is one vocabulary. MarianMT can have two embeddings for it, Blenderbot has one. So two vocabularies (for
  Blenderbot, two embeddings) are joined: first the target's ids, then the source's, which a bias on the logits
  excludes.

The norms of both have ε = 1e-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import SettingsError
from glassformer.paper.reference import sinusoids
from glassformer.settings import ModelSettings
from glassformer.storage.container import Arrays
from glassformer.storage.importers.weights import feature_axes, marian_name
from glassformer.storage.modelfile import ModelFile, tensor_shapes

EPSILON = 1e-5
MARIAN_BASE = 10_000.0
NEVER = -30_000.0  # a logit whose probability is 0 in float32, and a number that float16 has


def check_shape(settings: ModelSettings) -> None:
    """Raise SettingsError for a model that neither of the two classes can represent."""
    if settings.copy_mechanism:
        hint = "--to onnx, --to html, or a model that is trained with --set model.copy_mechanism=false"
        raise _refusal("they have no copy mechanism", "copy_mechanism=true", hint)
    if settings.norm_eps != EPSILON:
        raise _refusal("their norms have a fixed ε", f"norm_eps={settings.norm_eps:g}, expected {EPSILON:g}")
    if not settings.d_k == settings.d_v == settings.d_model / settings.n_heads:
        raise _refusal(
            "keys and values of a head are d_model / n_heads wide",
            f"d_model={settings.d_model}, n_heads={settings.n_heads}, d_k={settings.d_k}, d_v={settings.d_v}",
        )


def _refusal(what: str, got: str, hint: str = "--to onnx") -> SettingsError:
    return SettingsError(
        f"huggingface does not support this model: MarianMT and Blenderbot have its layers, but {what}",
        got=got,
        hint=hint,
    )


@dataclass(frozen=True)
class TransformersLayout:
    """A model in the layout of MarianMT or Blenderbot.

    `n_positions` is the number of positions of sinusoids; learned positions have their own.
    """

    model_file: ModelFile
    n_positions: int

    @property
    def settings(self) -> ModelSettings:
        return self.model_file.settings.model

    @property
    def is_marian(self) -> bool:
        return self.settings.norm == "post"

    @cached_property
    def is_joined(self) -> bool:
        """Whether source tokens have separate ids, after the ids of the target."""
        source, target = self.model_file.source_tokenizer, self.model_file.target_tokenizer
        if target is not source.as_target and target.to_dict() != source.as_target.to_dict():
            return True
        return not self.is_marian and self.settings.tied_embeddings != "all"

    @property
    def target_size(self) -> int:
        return len(self.model_file.target_tokenizer)

    @property
    def vocabulary_size(self) -> int:
        return self.target_size + (len(self.model_file.source_tokenizer) if self.is_joined else 0)

    @property
    def recomputes_positions(self) -> bool:
        """Whether the class computes this model's position table itself, as MarianMT does with its own."""
        settings = self.settings
        return self.is_marian and settings.positions == "sinusoidal" and settings.position_base == MARIAN_BASE

    @property
    def loses_positions(self) -> bool:
        """Whether the class leaves this model's position table out when it saves the model again."""
        return self.is_marian and not self.recomputes_positions

    def config(self) -> dict[str, Any]:
        """Return the fields of `config.json` that describe the architecture."""
        settings, shape = self.settings, "marian" if self.is_marian else "blenderbot"
        config = {
            "architectures": ["MarianMTModel" if self.is_marian else "BlenderbotForConditionalGeneration"],
            "model_type": shape,
            "is_encoder_decoder": True,
            "d_model": settings.d_model,
            "encoder_layers": settings.n_encoder_layers,
            "decoder_layers": settings.n_decoder_layers,
            "encoder_attention_heads": settings.n_heads,
            "decoder_attention_heads": settings.n_heads,
            "encoder_ffn_dim": settings.d_ff,
            "decoder_ffn_dim": settings.d_ff,
            "activation_function": settings.activation,  # our names; its "gelu" is the exact one, by erf
            "dropout": settings.dropout,
            "attention_dropout": settings.attention_dropout,
            "activation_dropout": settings.feed_forward_dropout,
            "scale_embedding": settings.scale_embeddings,
            "max_position_embeddings": settings.n_positions or self.n_positions,
            "vocab_size": self.vocabulary_size,
            "tie_word_embeddings": settings.tied_embeddings != "none",
        }
        if self.is_marian:
            config["share_encoder_decoder_embeddings"] = self._shares_embeddings
            config["decoder_vocab_size"] = self.vocabulary_size if self._shares_embeddings else self.target_size
        else:
            config["encoder_no_repeat_ngram_size"] = 0  # whose default is 3
        return config

    def weights(self) -> Arrays:
        """Return name -> weight in float32 of everything that the class loads."""
        return {**self._embeddings(), **self._layers(), "final_logits_bias": self._bias_of_logits()}

    @property
    def _shares_embeddings(self) -> bool:
        return self.settings.tied_embeddings == "all" and not self.is_joined

    def _embeddings(self) -> Arrays:
        tensors, tied = self.model_file.tensors, self.settings.tied_embeddings
        source = self._permuted(tensors["source_embedding.weight"], 1)
        target = self._permuted(tensors["target_embedding.weight"], 1) if tied != "all" else source
        output = self._permuted(tensors["output_projection.weight"], 1) if tied == "none" else target
        weights = {
            "model.encoder.embed_positions.weight": self._positions("source"),
            "model.decoder.embed_positions.weight": self._positions("target"),
        }
        if self.is_marian and not self._shares_embeddings:
            before = np.zeros((self.target_size if self.is_joined else 0, self.settings.d_model), np.float32)
            weights["model.encoder.embed_tokens.weight"] = np.concatenate([before, source])
            weights["model.decoder.embed_tokens.weight"] = target
            return weights | ({"lm_head.weight": output} if tied == "none" else {})
        shared = np.concatenate([target, source]) if self.is_joined else target
        weights["model.shared.weight"] = shared
        if tied == "none":  # the library ties all of its embeddings or none, so that equal ones are written again
            weights |= {f"model.{side}.embed_tokens.weight": shared for side in ("encoder", "decoder")}
            after = np.zeros((self.vocabulary_size - self.target_size, self.settings.d_model), np.float32)
            weights["lm_head.weight"] = np.concatenate([output, after])
        return weights

    def _layers(self) -> Arrays:
        """The weights of both stacks; a projection of attention that has no bias gets zeros."""
        tensors, with_biases = self.model_file.tensors, self.settings.model_copy(update={"attention_bias": True})
        weights = {}
        for name, shape in tensor_shapes(with_biases, 0, 0).items():
            if name.startswith(("encoder", "decoder")):
                weight = tensors.get(name, np.zeros(shape, np.float32))
                weights[marian_name(name)] = self._permuted(weight, *feature_axes(name))
        return weights

    def _bias_of_logits(self) -> NDArray[Any]:
        """The model's own bias, if it has one, and one that excludes the source's ids."""
        bias = np.full((1, self.target_size if self.is_marian else self.vocabulary_size), NEVER, np.float32)
        bias[0, : self.target_size] = self.model_file.tensors.get("output_projection.bias", np.float32(0.0))
        return bias

    def _positions(self, side: str) -> NDArray[Any]:
        settings = self.settings
        if settings.positions == "learned":
            return self.model_file.tensors[f"{side}_positions.table"]
        table = sinusoids(self.n_positions, settings.d_model, settings.position_base).astype(np.float32)
        return self._permuted(table, 1)

    def _permuted(self, array: NDArray[Any], *axes: int) -> NDArray[Any]:
        """Return an array with the order of features along axes of length d_model that the class needs."""
        d_model = self.settings.d_model
        for axis in axes if self.recomputes_positions else ():
            array = array.take([*range(0, d_model, 2), *range(1, d_model, 2)], axis=axis)
        return array
