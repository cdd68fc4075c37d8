"""The same architecture in other libraries, as they train it: torch's `nn.Transformer`, Hugging Face's MarianMT."""

from __future__ import annotations

import logging
import math
import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.tasks import Rows, Task
from glassformer.data.corpus import Sequences
from glassformer.paper.model import sinusoids
from glassformer.runtime.devices import autocast
from glassformer.settings import ModelSettings
from glassformer.text.vocabulary import Vocabulary

N_POSITIONS = 1024


class TorchTransformer(nn.Module):
    """Embeddings and sinusoids, `nn.Transformer`, the tied output projection."""

    positions: Tensor

    def __init__(self, settings: ModelSettings, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, settings.d_model)
        nn.init.normal_(self.embedding.weight, std=settings.d_model**-0.5)
        self.register_buffer("positions", sinusoids(N_POSITIONS, settings.d_model))
        self.dropout = nn.Dropout(settings.dropout)
        self.transformer = nn.Transformer(
            settings.d_model,
            settings.n_heads,
            settings.n_encoder_layers,
            settings.n_decoder_layers,
            settings.d_ff,
            settings.dropout,
            batch_first=True,
        )

    def embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[: ids.shape[1]])  # type: ignore[no-any-return]

    def forward(self, source: Tensor, padding: Tensor, target: Tensor) -> Tensor:
        """Logits. Targets are padded on the right, so that the causal mask is all they need."""
        memory = self.transformer.encoder(self.embed(source), src_key_padding_mask=padding)
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer.decoder(
            self.embed(target), memory, tgt_mask=future, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return hidden @ self.embedding.weight.T  # type: ignore[no-any-return]


def make_marian(settings: ModelSettings, vocabulary: Vocabulary) -> Any:
    """A MarianMTModel of this shape with one matrix for all embeddings, which reads `<bos>` first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it says about itself when it is imported
        import transformers
    transformers.logging.set_verbosity(logging.ERROR)
    config = transformers.MarianConfig(
        vocab_size=len(vocabulary),
        d_model=settings.d_model,
        encoder_layers=settings.n_encoder_layers,
        decoder_layers=settings.n_decoder_layers,
        encoder_attention_heads=settings.n_heads,
        decoder_attention_heads=settings.n_heads,
        encoder_ffn_dim=settings.d_ff,
        decoder_ffn_dim=settings.d_ff,
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        activation_dropout=settings.feed_forward_dropout,
        activation_function=settings.activation,
        max_position_embeddings=N_POSITIONS,
        scale_embedding=True,
        pad_token_id=vocabulary.pad_id,
        eos_token_id=vocabulary.eos_id,
        forced_eos_token_id=None,
        decoder_start_token_id=vocabulary.bos_id,
    )
    return transformers.MarianMTModel(config)


class PeerTrainer(ABC):
    """Fused AdamW on the batches of a task, on a device."""

    def __init__(self, task: Task, precision: str, device: torch.device) -> None:
        torch.manual_seed(1)
        self.task, self.precision, self.device = task, precision, device
        self.model = self.make().train().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    @abstractmethod
    def make(self) -> Any:
        """The model of the task."""

    @abstractmethod
    def logits(self, source: Tensor, padding: Tensor, given: Tensor) -> Tensor:
        """Of the token after each that is given."""

    def update(self, rows: Rows) -> None:
        source, padding, given, targets = (part.to(self.device) for part in load_batch(self.task, rows))
        with autocast(self.device, self.precision):
            logits = self.logits(source, padding, given).flatten(0, 1)
            loss = F.cross_entropy(logits, targets.flatten(), label_smoothing=self.task.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()


class TorchTrainer(PeerTrainer):
    def make(self) -> nn.Module:
        return TorchTransformer(self.task.model, self.task.vocabulary_size)

    def logits(self, source: Tensor, padding: Tensor, given: Tensor) -> Tensor:
        return self.model(source, padding, given)  # type: ignore[no-any-return]


class MarianTrainer(PeerTrainer):
    def make(self) -> Any:
        return make_marian(self.task.model, self.task.prepared.target_tokenizer.vocabulary)

    def logits(self, source: Tensor, padding: Tensor, given: Tensor) -> Tensor:
        mask = (~padding).long()
        return self.model(input_ids=source, attention_mask=mask, decoder_input_ids=given).logits  # type: ignore[no-any-return]


def padded(sequences: Sequences, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """The sequences of `rows` padded on the right with 0, and where their tokens are: both [rows, longest]."""
    lengths = sequences.lengths[rows]
    inside = np.arange(int(lengths.max())) < lengths[:, None]
    ids = np.zeros(inside.shape, np.int64)
    ids[inside] = sequences.packed(rows)
    return ids, inside


def load_batch(task: Task, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source ids, where they are padding, what the decoder reads, and its targets (-100: none)."""
    source, source_real = padded(task.corpus.source, rows)
    target, target_real = padded(task.corpus.target, rows)
    targets = np.where(target_real, target, -100)
    arrays = source, ~source_real, target[:, :-1], targets[:, 1:]
    return tuple(map(torch.from_numpy, arrays))  # type: ignore[return-value]
