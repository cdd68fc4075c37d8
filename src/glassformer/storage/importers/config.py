"""The settings of a MarianMT folder: `config.json` and `generation_config.json`, checked, and as our settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from glassformer.errors import ModelFileError, first_fault, quoted
from glassformer.settings import (
    DataSettings,
    DecodingSettings,
    ModelSettings,
    Settings,
    SideSettings,
    TokenSettings,
)
from glassformer.storage.container import parse_json

MAX_BYTES = 100_000_000  # of a JSON file
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
"""Name of an activation in MarianMT -> ours."""


class MarianConfig(BaseModel):
    """The fields of `config.json` that a MarianMT model is computed with, and the defaults of its search.

    A field that a file does not have has the default of transformers.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    model_type: str
    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    d_model: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    max_position_embeddings: int = 1024
    activation_function: str = "gelu"
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100
    num_beams: int = 1
    length_penalty: float = 1.0
    max_length: int | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check the files of a folder. Raises ModelFileError for another kind of model."""
        path = folder / "config.json"
        values = read_json(path)
        if values.get("model_type") != "marian":
            raise ModelFileError(
                "the model in this folder is not a MarianMT model",
                where=str(path),
                got=f"model_type {quoted(values.get('model_type'))}",
                expected="model_type 'marian'",
            )
        generation = folder / "generation_config.json"
        names = ("num_beams", "length_penalty", "max_length")
        search = read_json(generation) if generation.exists() else {}
        in_generation = {name: search[name] for name in names if search.get(name) is not None}
        values |= in_generation
        try:
            config = cls.model_validate({name: value for name, value in values.items() if value is not None})
        except ValidationError as error:
            place, got, expected = first_fault(error)
            where = str(generation if place in in_generation else path)
            raise ModelFileError(
                f"the setting {place!r} is not valid", where=where, got=got, expected=expected
            ) from None
        config._check(path)
        return config

    def _check(self, path: Path) -> None:
        """Raise ModelFileError for what our model cannot represent."""
        wrong = {
            "encoder_ffn_dim and decoder_ffn_dim differ": self.encoder_ffn_dim != self.decoder_ffn_dim,
            "encoder_attention_heads and decoder_attention_heads differ": self.encoder_attention_heads
            != self.decoder_attention_heads,
            "d_model is not a multiple of the heads": self.encoder_attention_heads < 1
            or self.d_model % self.encoder_attention_heads != 0,
            f"the activation is {self.activation_function!r}": self.activation_function not in ACTIVATIONS,
            "normalize_before is true": self.normalize_before,
            "normalize_embedding is true": self.normalize_embedding,
            "add_final_layer_norm is true": self.add_final_layer_norm,
            "the decoder does not start with the pad token": self.decoder_start_token_id != self.pad_token_id,
            "max_position_embeddings is below 2": self.max_position_embeddings < 2,
            "both sides share one embedding, but not one vocabulary": self.share_encoder_decoder_embeddings
            and self.target_size != self.vocab_size,
        }
        if reasons := [reason for reason, is_wrong in wrong.items() if is_wrong]:
            raise ModelFileError(
                "this MarianMT model has a shape that ours cannot have", where=str(path), got="; ".join(reasons)
            )

    @property
    def target_size(self) -> int:
        """The size of the vocabulary of the target."""
        return self.vocab_size if self.decoder_vocab_size is None else self.decoder_vocab_size

    def settings(self, algorithms: tuple[str, str], *, shared: bool) -> Settings:
        """Return our settings; `algorithms` are those of the SentencePiece models.

        Raises SettingsError for a value out of bounds. The maximum length counts <pad> at the start, ours does not.
        """
        sizes = self.vocab_size, self.target_size
        source, target = (
            {"kind": "sentencepiece", "algorithm": algorithm, "vocabulary_size": size, "normalization": "none"}
            for algorithm, size in zip(algorithms, sizes, strict=True)
        )
        tied = "all" if self.share_encoder_decoder_embeddings else "target"
        model: dict[str, Any] = {
            "d_model": self.d_model,
            "d_ff": self.encoder_ffn_dim,
            "n_heads": self.encoder_attention_heads,
            "n_encoder_layers": self.encoder_layers,
            "n_decoder_layers": self.decoder_layers,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "feed_forward_dropout": self.activation_dropout,
            "activation": ACTIVATIONS[self.activation_function],
            "max_length": self.max_position_embeddings,
            "scale_embeddings": self.scale_embedding,
            "tied_embeddings": tied if self.tie_word_embeddings else "none",
            "attention_bias": True,
            "output_bias": True,
        }
        longest = self.max_position_embeddings - 1
        return Settings(
            data=DataSettings(max_source_length=longest, max_target_length=longest),
            tokens=TokenSettings(
                shared=shared,
                source=SideSettings.model_validate({**source, "bos": False}),
                target=SideSettings.model_validate(target),
            ),
            model=ModelSettings(**model),
            decoding=DecodingSettings(
                num_beams=self.num_beams,
                length_alpha=self.length_penalty,
                max_new_tokens=max(1, min(self.max_length or longest + 1, longest + 1) - 1),
            ),
        )


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises ModelFileError for what cannot be read, or is not one."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelFileError("the file is too large", where=str(path), expected=f"at most {MAX_BYTES:,} bytes")
        value = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError("cannot read a file of the model", where=str(path), got=error.strerror) from None
    except ValueError as error:
        raise ModelFileError("the file is not valid JSON", where=str(path), got=str(error)) from None
    if not isinstance(value, dict):
        raise ModelFileError("the file is not a JSON object", where=str(path))
    return value
