"""Hugging Face's MarianMT: the same architecture, trained and decoded the way its library does."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from benchmarks.tasks import Rows, Task
from benchmarks.torch_layers import load_batch
from glassformer.devices import autocast
from glassformer.inference.encoding import default_max_new_tokens
from glassformer.inference.engines.torch import pad
from glassformer.paper.model import sinusoids
from glassformer.paper.settings import ModelSettings
from glassformer.ship.storage.container import Arrays
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.vocabulary import Vocabulary

N_POSITIONS = 1024


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


class MarianTrainer:
    def __init__(self, task: Task, device: str, precision: str) -> None:
        torch.manual_seed(1)
        self.task, self.device, self.precision = task, device, precision
        self.model = make_marian(task.model, task.prepared.target_tokenizer.vocabulary).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def update(self, rows: Rows) -> None:
        source, padding, given, wanted = load_batch(self.task, rows, self.device)
        with autocast(torch.device(self.device), self.precision):
            logits = self.model(input_ids=source, attention_mask=(~padding).long(), decoder_input_ids=given).logits
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), label_smoothing=self.task.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()


class MarianDecoder:
    """Its `generate` with our trained weights."""

    batch_sizes = (64, 250)

    def __init__(self, model: Path, device: str, precision: str) -> None:
        model_file = ModelFile.load(model)
        self.tokenizer = model_file.target_tokenizer
        self.device, self.precision = torch.device(device), precision
        self.longest = default_max_new_tokens(model_file.data, model_file.settings)
        self.model = make_marian(model_file.settings.model, self.tokenizer.vocabulary)
        load_weights(self.model, model_file.tensors)
        self.model.to(device).eval()

    def translate(self, texts: list[str], num_beams: int, batch_size: int) -> list[str]:
        answers: list[str] = []
        special = self.tokenizer.vocabulary.special_ids
        for start in range(0, len(texts), batch_size):
            sources = [self.tokenizer.frame(self.tokenizer.encode(text)) for text in texts[start:][:batch_size]]
            ids, real = pad(sources, max(map(len, sources)), self.device)
            with autocast(self.device, self.precision):
                found = self.model.generate(
                    input_ids=ids,
                    attention_mask=real.long(),
                    num_beams=num_beams,
                    max_new_tokens=self.longest,
                    do_sample=False,
                )
            answers += [self.tokenizer.decode([i for i in row if i not in special]) for row in found.tolist()]
        return answers


def load_weights(marian: Any, weights: Arrays) -> None:
    """Our weights under Marian's names, and our positions: its own sinusoids stand in halves."""
    names = {
        "self_attention_norm": "self_attn_layer_norm",
        "cross_attention_norm": "encoder_attn_layer_norm",
        "feed_forward_norm": "final_layer_norm",
        "feed_forward.w_1": "fc1",
        "feed_forward.w_2": "fc2",
        "self_attention": "self_attn",
        "cross_attention": "encoder_attn",
        "w_q": "q_proj",
        "w_k": "k_proj",
        "w_v": "v_proj",
        "w_o": "out_proj",
        "encoder.": "encoder.layers.",
        "decoder.": "decoder.layers.",
        "source_embedding": "shared",
    }
    state: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        state[f"model.{name}"] = torch.from_numpy(value)
    embedding = state["model.shared.weight"]
    for stack in ("encoder", "decoder"):
        state[f"model.{stack}.embed_tokens.weight"] = embedding
        state[f"model.{stack}.embed_positions.weight"] = sinusoids(N_POSITIONS, embedding.shape[1])
    state["lm_head.weight"] = embedding
    state["final_logits_bias"] = torch.zeros(1, len(embedding))
    marian.load_state_dict(state, strict=True)
