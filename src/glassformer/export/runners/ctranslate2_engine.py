"""The exported model in ctranslate2, which is all that it needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
from lines import Answer, best_of, ranked
from source import Export

HERE = Path(__file__).resolve().parent
BATCH_TOKENS = 512
NO_SCORE = -1e9  # of a slot of the beam that no hypothesis fills


class Engine:
    """The exported model. Its tokens are named by their ids: `s12` in a source, `12` in a target."""

    def __init__(self, export: Export, options: argparse.Namespace) -> None:
        self.search, self.eos_id = export.search, export.target.eos_id
        self.translator = ctranslate2.Translator(
            str(HERE), device=options.device, compute_type="default", inter_threads=options.threads, intra_threads=1
        )

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--threads", type=int, default=1, help="batches that are computed at once")
        parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where it computes")

    def answer(self, sources: Sequence[Sequence[int]], num_beams: int, *, all_answers: bool) -> list[Answer]:
        """Return the best answer to each source. Its beam always has all answers.

        The library spreads the probability of suppressed tokens over all others. So nothing is suppressed at first;
        only a source with a forbidden token in its answers is searched again without them, and scored anew.
        """
        source_names = [[f"s{token}" for token in source] for source in sources]
        beams = self.translate(source_names, num_beams)
        forbidden = set(self.search["forbidden_ids"])
        again = [i for i, answers in enumerate(beams) if any(forbidden & set(ids) for ids, _ in answers)]
        if again:
            suppressed = [[str(token)] for token in sorted(forbidden)]
            searched = self.translate([source_names[i] for i in again], num_beams, suppress_sequences=suppressed)
            for i, answers in zip(again, searched):
                beams[i] = [(ids, self.score(source_names[i], ids)) for ids, _ in answers]
        alpha = self.search["length_alpha"]
        candidates = ([ranked(ids, score, self.eos_id, alpha) for ids, score in answers] for answers in beams)
        return [best_of(list(answers)) for answers in candidates]

    def translate(
        self, sources: list[list[str]], num_beams: int, **options: Any
    ) -> list[list[tuple[list[int], float]]]:
        """Return the ids (with <eos> where it was reached) and scores of the beam of each source."""
        results = self.translator.translate_batch(
            sources,
            beam_size=num_beams,
            num_hypotheses=num_beams,
            length_penalty=0,
            max_decoding_length=self.search["max_new_tokens"],
            min_decoding_length=0,
            max_input_length=0,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            return_scores=True,
            return_end_token=True,
            **options,
        )
        return [
            [([int(n) for n in names], score) for names, score in zip(beam.hypotheses, beam.scores) if score > NO_SCORE]
            for beam in results
        ]

    def score(self, source: list[str], ids: list[int]) -> float:
        """Return the sum of log-probabilities of an answer to a source."""
        ended = ids[-1:] == [self.eos_id]
        target = [str(token) for token in (ids[:-1] if ended else ids)]  # the library adds <eos>
        (scored,) = self.translator.score_batch([source], [target], max_input_length=0)
        return float(sum(scored.log_probs[: len(ids)]))
