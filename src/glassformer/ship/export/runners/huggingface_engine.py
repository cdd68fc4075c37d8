"""The exported model in torch and transformers, which are all that it needs.

Ids, answers and their texts are those of `AutoTokenizer` and `AutoModelForSeq2SeqLM`. Added here are what a call of
`generate` does not give: scores, and the ranking of a beam by the model's own length penalty.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all files are here

import torch
from lines import Answer, Row, best_of, ranked
from source import Export
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, logging

HERE = Path(__file__).resolve().parent
TEXTS_TOGETHER = 16
NUMBERS_TOGETHER = 2**25  # logits that are computed at once for scores


class Engine:
    """The exported model: texts to answers."""

    def __init__(self, export: Export, options: argparse.Namespace) -> None:
        logging.disable_progress_bar()
        self.tokenizer = AutoTokenizer.from_pretrained(HERE)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(HERE).eval()
        self.search, self.eos = export.search, self.model.generation_config.eos_token_id

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """It has none of its own."""

    def answer(self, rows: Sequence[Row], num_beams: int, *, all_answers: bool = False) -> Iterator[Answer]:
        """Yield the best answer to each row. Its beam always has all answers."""
        for start in range(0, len(rows), TEXTS_TOGETHER):
            yield from self._answer([row.source for row in rows[start : start + TEXTS_TOGETHER]], num_beams)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    @torch.inference_mode()
    def _answer(self, texts: list[str], num_beams: int) -> list[Answer]:
        sources = self.tokenizer(texts, return_tensors="pt", padding=True)
        beam = {"length_penalty": 0.0, "early_stopping": "never"} if num_beams > 1 else {}
        found = self.model.generate(**sources, num_beams=num_beams, num_return_sequences=num_beams, **beam)
        scores = self._scores(sources, found, num_beams).tolist()
        candidates = [self._candidate(ids, score) for ids, score in zip(found[:, 1:].tolist(), scores)]
        groups = (candidates[i : i + num_beams] for i in range(0, len(candidates), num_beams))
        return [best_of(group) for group in groups]

    def _scores(self, sources: dict, found: torch.Tensor, num_beams: int) -> torch.Tensor:
        """Return the sum of log-probabilities of each answer, <eos> included."""
        repeated = {name: array.repeat_interleave(num_beams, dim=0) for name, array in sources.items()}
        scores = []
        together = max(1, NUMBERS_TOGETHER // (found.shape[1] * self.model.config.vocab_size))
        for rows in torch.arange(len(found)).split(together):
            targets = found[rows, 1:]
            inputs = {name: array[rows] for name, array in repeated.items()}
            logits = self.model(**inputs, decoder_input_ids=found[rows, :-1], use_cache=False).logits
            log_probs = logits.float().log_softmax(dim=2).gather(2, targets[:, :, None])[:, :, 0]
            ended = (targets == self.eos).cumsum(dim=1) - (targets == self.eos).long()  # <eos> tokens before this one
            scores.append(log_probs.masked_fill(ended > 0, 0.0).sum(dim=1))
        return torch.cat(scores)

    def _candidate(self, ids: list[int], score: float) -> Answer:
        length = ids.index(self.eos) + 1 if self.eos in ids else len(ids)  # without the padding
        return ranked(ids[:length], score, self.eos, self.search["length_alpha"])
