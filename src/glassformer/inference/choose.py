"""Choose one of several answers to a text by minimum Bayes risk (Kumar and Byrne 2004), with chrF as the utility.

    best = choose(translator.translate(texts, num_return_sequences=20))

The answers may be those of a Translator, of a BatchingTranslator or of a stream. Each row is decided by itself.
"""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from glassformer.errors import UsageError
from glassformer.inference.translator import Translation
from glassformer.paper.settings import DecodingSettings

DECIMALS = 9  # of utilities that are compared: a smaller difference is one of rounding


def choose(answers: Sequence[Translation], *, sampled: bool = False) -> list[Translation]:
    """Return the answer to each text with the largest expected chrF, if each candidate may be the right one.

    Candidates of a beam weigh by their probabilities. `sampled`: each was drawn with its probability, so that all weigh
    the same and repeated ones more (Eikema and Aziz 2020). Of equal ones the first is chosen; its alternatives are the
    others, in the order of the search. The answer to an empty text stays as it is.
    """
    return [_chosen(answer, sampled=sampled) if answer.token_scores else answer for answer in answers]


def _chosen(answer: Translation, *, sampled: bool) -> Translation:
    candidates = [replace(answer, unknown=(), unlike="", alternatives=(), probability=None), *answer.alternatives]
    values = expected_utilities([(one.text, 0.0 if sampled else one.score) for one in candidates])
    best = first_best(values)
    chosen = {"candidates": len(values), "expected_chrf": values[best]}
    found = replace(candidates.pop(best), unknown=answer.unknown, unlike=answer.unlike)
    return replace(found, alternatives=tuple(candidates), chosen=chosen)


def first_best(values: Sequence[float]) -> int:
    """Return the index of the largest value, up to rounding; of equal ones the first."""
    rounded = [round(value, DECIMALS) for value in values]
    return rounded.index(max(rounded))


def expected_utilities(candidates: Sequence[tuple[str, float]]) -> list[float]:
    """Return the expected chrF2 (0 to 100) of each text, of which each may be the right answer.

    The candidates are texts with their log-probabilities (nats), which need not be normalized. Equal texts (in NFC)
    count as one with the sum of their probabilities. The time grows with the square of their number. It is sacreBLEU's
    `sentence_score`, with the n-grams of each text counted once.
    """
    from sacrebleu import CHRF

    texts = [unicodedata.normalize("NFC", text) for text, _ in candidates]
    top = max(log_probability for _, log_probability in candidates)
    weights: defaultdict[str, float] = defaultdict(float)
    for text, (_, log_probability) in zip(texts, candidates, strict=True):
        weights[text] += math.exp(log_probability - top)
    scorer, total = CHRF(), math.fsum(weights.values())
    ngrams = {text: scorer._extract_reference_info([text])["ref_ngrams"][0] for text in weights}

    def chrf(answer: str, reference: str) -> float:
        orders = zip(ngrams[answer], ngrams[reference], strict=True)
        return scorer._compute_f_score([n for pair in orders for n in scorer._get_match_statistics(*pair)])

    expected = {
        text: math.fsum(weight * chrf(text, reference) for reference, weight in weights.items()) / total
        for text in weights
    }
    return [expected[text] for text in texts]


def with_candidates(decoding: DecodingSettings) -> DecodingSettings:
    """Return a search that returns several answers: all of the beam, unless a number is set.

    Raises UsageError when there is only one.
    """
    if decoding.num_return_sequences == 1 and not decoding.do_sample:
        decoding = decoding.override({"num_return_sequences": decoding.num_beams})
    if decoding.num_return_sequences == 1:
        got = "one sample" if decoding.do_sample else "a beam of 1"
        raise UsageError("there is only one answer to choose from", got=got, hint="--nbest 20")
    return decoding
