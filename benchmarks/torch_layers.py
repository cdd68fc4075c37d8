"""torch's own `nn.Transformer`, as its tutorials use it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.tasks import Rows, Task
from glassformer.data.corpus import Sequences
from glassformer.devices import autocast
from glassformer.inference.encoding import default_max_new_tokens
from glassformer.inference.engines.torch import pad
from glassformer.paper.model import sinusoids
from glassformer.paper.settings import ModelSettings
from glassformer.ship.storage.container import Arrays
from glassformer.ship.storage.modelfile import ModelFile


class TorchTransformer(nn.Module):
    """Embeddings and sinusoids, `nn.Transformer`, the tied output projection."""

    positions: Tensor

    def __init__(self, settings: ModelSettings, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, settings.d_model)
        nn.init.normal_(self.embedding.weight, std=settings.d_model**-0.5)
        self.register_buffer("positions", sinusoids(1024, settings.d_model))
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

    def encode(self, source: Tensor, padding: Tensor) -> Tensor:
        return self.transformer.encoder(self.embed(source), src_key_padding_mask=padding)  # type: ignore[no-any-return]

    def decode(self, target: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        """Hidden states. Targets are padded on the right, so that the causal mask is all they need."""
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        return self.transformer.decoder(  # type: ignore[no-any-return]
            self.embed(target), memory, tgt_mask=future, memory_key_padding_mask=padding, tgt_is_causal=True
        )

    def project(self, hidden: Tensor) -> Tensor:
        return hidden @ self.embedding.weight.T

    def forward(self, source: Tensor, padding: Tensor, target: Tensor) -> Tensor:
        return self.project(self.decode(target, self.encode(source, padding), padding))


# Training


def padded(sequences: Sequences, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The sequences of `rows` padded on the right with 0, and where their tokens are: both [rows, longest]."""
    lengths = sequences.lengths[rows]
    inside = np.arange(int(lengths.max())) < lengths[:, None]
    ids = np.zeros(inside.shape, np.int64)
    ids[inside] = sequences.packed(rows)
    return ids, inside


def load_batch(task: Task, rows: Rows, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source ids, where they are padding, what the decoder reads, and what it is asked for (-100: nothing)."""
    source, source_real = padded(task.corpus.source, rows)
    target, target_real = padded(task.corpus.target, rows)
    wanted = target.copy()
    wanted[~target_real] = -100
    arrays = source, ~source_real, target[:, :-1], wanted[:, 1:]
    moved = [torch.from_numpy(array).to(device, non_blocking=True) for array in arrays]
    return moved[0], moved[1], moved[2], moved[3]


class TorchLayersTrainer:
    def __init__(self, task: Task, device: str, precision: str) -> None:
        torch.manual_seed(1)
        self.task, self.device, self.precision = task, device, precision
        self.model = TorchTransformer(task.model, task.vocabulary_size).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def update(self, rows: Rows) -> None:
        source, padding, given, wanted = load_batch(self.task, rows, self.device)
        with autocast(torch.device(self.device), self.precision):
            logits = self.model(source, padding, given)
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), label_smoothing=self.task.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()


# Decoding


class TorchLayersDecoder:
    """Greedy and beam search over the whole prefix at each step: `nn.Transformer` keeps no cache."""

    batch_sizes = (32, 128)

    def __init__(self, model: Path, device: str) -> None:
        model_file = ModelFile.load(model)
        self.tokenizer, self.device = model_file.target_tokenizer, torch.device(device)
        self.longest = default_max_new_tokens(model_file.data, model_file.settings)
        self.model = TorchTransformer(model_file.settings.model, len(self.tokenizer))
        load_weights(self.model, model_file.tensors)
        self.model.to(device).eval()

    def translate(self, texts: list[str], num_beams: int, batch_size: int) -> list[str]:
        answers: list[str] = []
        with torch.inference_mode():
            for start in range(0, len(texts), batch_size):
                sources = [self.tokenizer.frame(self.tokenizer.encode(text)) for text in texts[start:][:batch_size]]
                ids, real = pad(sources, max(map(len, sources)), self.device)
                found = self.greedy(ids, ~real) if num_beams == 1 else self.beam(ids, ~real, num_beams)
                answers += map(self.read, found.tolist())
        return answers

    def read(self, ids: list[int]) -> str:
        eos = self.tokenizer.vocabulary.eos_id
        return self.tokenizer.decode(ids[1 : ids.index(eos)] if eos in ids else ids[1:])

    def greedy(self, source: Tensor, padding: Tensor) -> Tensor:
        """Ids `[N T]`, `<bos>` first."""
        vocabulary = self.tokenizer.vocabulary
        memory = self.model.encode(source, padding)
        ids = torch.full((len(source), 1), vocabulary.bos_id, device=self.device)
        while ids.shape[1] <= self.longest and not (ids == vocabulary.eos_id).any(dim=1).all():
            logits = self.model.project(self.model.decode(ids, memory, padding)[:, -1])
            ids = torch.cat((ids, logits.argmax(dim=1, keepdim=True)), dim=1)
        return ids

    def beam(self, source: Tensor, padding: Tensor, width: int) -> Tensor:
        """Ids `[N T]` of the best by log-probability over the length penalty, as in ours."""
        vocabulary, n = self.tokenizer.vocabulary, len(source)
        memory = self.model.encode(source, padding).repeat_interleave(width, dim=0)
        padding = padding.repeat_interleave(width, dim=0)
        ids = torch.full((n * width, 1), vocabulary.bos_id, device=self.device)
        scores = torch.full((n, width), -math.inf, device=self.device)
        scores[:, 0] = 0
        finished = torch.zeros(n, width, dtype=torch.bool, device=self.device)
        lengths = torch.zeros(n, width, device=self.device)
        sentence = torch.arange(n, device=self.device)
        while ids.shape[1] <= self.longest and not finished.all():
            log_probs = self.model.project(self.model.decode(ids, memory, padding)[:, -1]).log_softmax(dim=1)
            log_probs = log_probs.view(n, width, -1)
            log_probs[finished] = -math.inf  # a finished hypothesis goes on with padding, at no cost
            log_probs[..., vocabulary.pad_id][finished] = 0
            scores, best = (scores[:, :, None] + log_probs).flatten(1).topk(width)
            parents, tokens = best // log_probs.shape[2], best % log_probs.shape[2]
            ids = torch.cat((ids[(sentence[:, None] * width + parents).flatten()], tokens.view(-1, 1)), dim=1)
            lengths = lengths.gather(1, parents) + ~finished.gather(1, parents)
            finished = finished.gather(1, parents) | (tokens == vocabulary.eos_id)
        ranked = scores / ((5 + lengths) / 6) ** 0.6
        return ids.view(n, width, -1)[sentence, ranked.argmax(dim=1)]


def load_weights(model: TorchTransformer, weights: Arrays) -> None:
    """Our weights under torch's names. Its stacks end with norms that a post-norm model does not have."""
    model.transformer.encoder.norm = model.transformer.decoder.norm = None
    names = {
        "source_embedding": "embedding",
        "encoder.": "transformer.encoder.layers.",
        "decoder.": "transformer.decoder.layers.",
        "feed_forward.w_": "linear",
        "self_attention_norm": "norm1",
        "cross_attention_norm": "norm2",
        "self_attention": "self_attn",
        "cross_attention": "multihead_attn",
        "w_o": "out_proj",
    }
    state: dict[str, Tensor] = {"positions": model.positions}
    for name, value in weights.items():
        theirs = name.replace("feed_forward_norm", "norm2" if name.startswith("encoder") else "norm3")
        for ours, other in names.items():
            theirs = theirs.replace(ours, other)
        state[theirs] = torch.from_numpy(value)
    for name in [name for name in state if ".w_q." in name]:  # torch packs the three
        parts = [state.pop(name.replace(".w_q.", f".{part}.")) for part in ("w_q", "w_k", "w_v")]
        state[name.replace(".w_q.", ".in_proj_")] = torch.cat(parts)
    model.load_state_dict(state)
