#!/usr/bin/env python3
"""Translate lines with an exported model: `python run.py < texts.txt`. It needs torch and transformers.

Options: --beam N (default: the model's; 1 is greedy search), --json (JSON strings in, JSON objects out).

Everything is done by `AutoTokenizer` and `AutoModelForSeq2SeqLM`. Added here are what a call of `generate` does not
give: scores, the ranking of a beam by the model's own length penalty, and errors for texts that are too long.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import islice
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all files are here

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, logging

HERE = Path(__file__).resolve().parent
TEXTS_TOGETHER = 16
NUMBERS_TOGETHER = 2**25  # logits that are computed at once for scores
EMPTY = {"text": "", "ids": [], "score": 0.0, "rank_score": 0.0, "finished": True}


class Model:
    """The exported model: texts to answers."""

    def __init__(self) -> None:
        logging.disable_progress_bar()
        self.tokenizer = AutoTokenizer.from_pretrained(HERE)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(HERE).eval()
        self.search = json.loads((HERE / "glassformer.json").read_text(encoding="utf-8"))["search"]
        self.eos = self.model.generation_config.eos_token_id

    def answer(self, texts: list[str], num_beams: int) -> list[dict]:
        """Return the best answer to each text. An empty text has an empty one."""
        filled = [row for row, text in enumerate(texts) if text.strip()]
        answers = [dict(EMPTY) for _ in texts]
        if filled:
            found = self._answer([texts[row] for row in filled], num_beams)
            for row, answer in zip(filled, found):
                answers[row] = answer
        return answers

    @torch.inference_mode()
    def _answer(self, texts: list[str], num_beams: int) -> list[dict]:
        sources = self.tokenizer(texts, return_tensors="pt", padding=True)
        beam = {"length_penalty": 0.0, "early_stopping": "never"} if num_beams > 1 else {}
        found = self.model.generate(**sources, num_beams=num_beams, num_return_sequences=num_beams, **beam)
        scores = self._scores(sources, found, num_beams).tolist()
        candidates = [self._candidate(ids, score) for ids, score in zip(found[:, 1:].tolist(), scores)]
        groups = (candidates[i : i + num_beams] for i in range(0, len(candidates), num_beams))
        return [min(group, key=lambda one: (not one["finished"], -one["rank_score"])) for group in groups]

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

    def _candidate(self, ids: list[int], score: float) -> dict:
        finished = self.eos in ids
        ids = ids[: ids.index(self.eos)] if finished else ids
        penalty = ((5 + len(ids) + finished) / 6) ** self.search["length_alpha"]
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        return {"text": text, "ids": ids, "score": score, "rank_score": score / penalty, "finished": finished}

    def check(self, number: int, text: str) -> str:
        """Return a text that the model takes. Raises ValueError for one that is too long or unknown."""
        length, longest = self._length(text), self.tokenizer.model_max_length
        if length is None:
            parts = (part for part in (*text, *text.split()) if self._length(part) is None)
            raise ValueError(f"line {number}: {next(parts, text)!r} is not in the vocabulary")
        if length > longest:
            raise ValueError(f"line {number}: the text has {length} tokens with its frame, the model takes {longest}")
        return text

    def _length(self, text: str) -> int | None:
        """Return the number of tokens with <bos> and <eos>, or None for a text that the vocabulary does not have."""
        try:
            return len(self.tokenizer(text, verbose=False)["input_ids"])
        except Exception:  # the library has no class of its own for it
            return None


def read_line(number: int, line: str, *, as_json: bool) -> str:
    """Return the text of a line. Raises ValueError for one that is not a JSON string."""
    if not as_json:
        return line
    try:
        text = json.loads(line)
    except ValueError:
        text = None
    if not isinstance(text, str):
        raise ValueError(f"line {number}: expected a JSON string")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description="Translate lines, one answer a line.")
    parser.add_argument("--beam", type=int, metavar="N", help="beam width; 1 is greedy search")
    parser.add_argument("--json", action="store_true", help="JSON strings in, JSON objects out")
    options = parser.parse_args()
    if options.beam is not None and options.beam < 1:
        parser.error("--beam must be at least 1")
    sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    model = Model()
    num_beams = options.beam or model.search["num_beams"]
    lines = (line.removesuffix("\n").removesuffix("\r") for line in sys.stdin)
    try:
        texts = (model.check(i, read_line(i, line, as_json=options.json)) for i, line in enumerate(lines, 1))
        while together := list(islice(texts, TEXTS_TOGETHER)):
            for answer in model.answer(together, num_beams):
                line = json.dumps(answer) if options.json else answer["text"].replace("\n", " ")
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except ValueError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would complain once more when it ends
        if not isinstance(error, BrokenPipeError):  # else the reader of the answers has ended
            sys.exit(f"error: a text cannot be read, or an answer written: {error.strerror}")


if __name__ == "__main__":
    main()
