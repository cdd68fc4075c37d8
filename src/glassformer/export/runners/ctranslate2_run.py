#!/usr/bin/env python3
"""Translate lines with an exported model: `python run.py < texts.txt`. It needs ctranslate2 alone.

Options: --beam N (default: the model's; 1 is greedy search), --json (JSON strings in, JSON objects out), --threads N,
--device cpu|cuda.
"""

import sys
from pathlib import Path

import ctranslate2

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # PYTHONSAFEPATH leaves it out

from text import load, main  # noqa: E402

BATCH_TOKENS = 512
NO_SCORE = -1e9  # of a slot of the beam that no hypothesis fills


class Model:
    """The exported model. Its tokens are named by their ids: `s12` in a source, `12` in a target."""

    def __init__(self, export, options):
        self.search = export.search
        self.bos_id, self.eos_id = export.target.bos_id, export.target.eos_id
        self.translator = ctranslate2.Translator(
            str(HERE), device=options.device, compute_type="default", inter_threads=options.threads, intra_threads=1
        )

    def answer(self, sources, num_beams):
        """Return ids, score, score after the length penalty, and whether it ended, of the best answer to each source.

        The library spreads the probability of suppressed tokens over all others. So nothing is suppressed at first;
        only a source with a forbidden token in its answers is searched again without them, and scored anew.
        """
        found = self.translate(sources, num_beams)
        forbidden = set(self.search["forbidden_ids"])
        again = [i for i, answers in enumerate(found) if any(forbidden & set(ids) for ids, _ in answers)]
        if again:
            suppressed = [[str(token)] for token in sorted(forbidden)]
            chosen = [sources[i] for i in again]
            searched = self.translate(chosen, num_beams, suppress_sequences=suppressed)
            for i, source, answers in zip(again, chosen, searched):
                found[i] = [(ids, self.score(source, ids)) for ids, _ in answers]
        return [self.best(answers) for answers in found]

    def translate(self, sources, num_beams, **options):
        """Return the ids (with <eos> where it was reached) and scores of the beam of each source."""
        results = self.translator.translate_batch(
            [self.names(source) for source in sources],
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
            [([int(n) for n in names], score) for names, score in zip(one.hypotheses, one.scores) if score > NO_SCORE]
            for one in results
        ]

    def score(self, source, ids):
        """Return the sum of log-probabilities of an answer to a source."""
        ended = ids[-1:] == [self.eos_id]
        target = [str(token) for token in (ids[:-1] if ended else ids)]  # the library adds <eos>
        (scored,) = self.translator.score_batch([self.names(source)], [target], max_input_length=0)
        return sum(scored.log_probs[: len(ids)])

    def names(self, source):
        return [f"s{token}" for token in source]

    def best(self, answers):
        """Return the answer of the highest rank, a finished one before others."""

        def ranked(ids, score):
            finished = ids[-1:] == [self.eos_id]
            rank_score = score / ((5 + max(1, len(ids))) / 6) ** self.search["length_alpha"]
            return ids[: len(ids) - finished], score, rank_score, finished

        return max((ranked(*answer) for answer in answers), key=lambda answer: (answer[3], answer[2]))


def add_options(parser):
    parser.add_argument("--threads", type=int, default=1, help="batches that are computed at once")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where it computes")


if __name__ == "__main__":
    exported = load(HERE)
    main(exported, lambda sources, options: Model(exported, options).answer(sources, options.beam), add_options)
