"""Other words of the field for the settings."""

from __future__ import annotations

SYNONYMS = {
    "valid_fraction": ("validation split", "dev set"),
    "vocabulary_size": ("vocab size", "merges"),
    "d_model": ("hidden size", "embedding size", "embed dim"),
    "d_ff": ("ffn dim", "intermediate size"),
    "n_heads": ("num heads",),
    "n_encoder_layers": ("num layers",),
    "n_decoder_layers": ("num layers",),
    "norm": ("layer norm", "pre ln", "post ln"),
    "positions": ("positional encoding", "position embedding"),
    "tied_embeddings": ("weight tying", "shared embeddings"),
    "steps": ("epochs", "iterations"),
    "max_minutes": ("time limit",),
    "batch_tokens": ("batch size",),
    "accumulate": ("gradient accumulation",),
    "schedule": ("lr scheduler",),
    "learning_rate": ("lr", "step size"),
    "warmup_steps": ("warm up",),
    "beta_1": ("optimizer",),
    "beta_2": ("optimizer",),
    "weight_decay": ("l2 regularization",),
    "clip_norm": ("gradient clipping", "max grad norm"),
    "precision": ("fp16", "bf16", "fp32", "float16", "mixed precision", "amp"),
    "recompute": ("gradient checkpointing", "activation checkpointing"),
    "validate_every": ("eval steps",),
    "patience": ("early stopping",),
    "keep_snapshots": ("checkpoints",),
    "average_last": ("checkpoint averaging",),
    "num_beams": ("beam size",),
    "validate_beams": ("beam size",),
    "top_p": ("nucleus sampling",),
}
"""Last part of a setting's name -> other words of the field for it."""


def synonyms(setting: str) -> tuple[str, ...]:
    """Return the synonyms of a setting, of any section."""
    return SYNONYMS.get(setting.rpartition(".")[2], ())


def spaced(text: str) -> str:
    """Return a text in lower case, with spaces for hyphens and "_", in which words are compared."""
    return text.casefold().replace("_", " ").replace("-", " ")
