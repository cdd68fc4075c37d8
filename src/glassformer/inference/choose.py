"""Choose one of several answers to a text: by minimum Bayes risk, or with a reverse model.

    answers = translator.translate(texts, num_return_sequences=20)
    best = choose(texts, answers, MinimumBayesRisk("chrf"))

The answers may be those of a Translator, of a BatchingTranslator or of a stream. Each row is decided by itself.
"""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from glassformer.errors import TextError, UsageError, nearest
from glassformer.inference.encoding import encode_sources
from glassformer.inference.metrics import edit_distance
from glassformer.inference.translator import Source, Translation, Translator
from glassformer.paper.search import length_penalty
from glassformer.paper.settings import DecodingSettings, Settings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text import Tokenizer
from glassformer.text.inputs import is_not_empty, listed

DECIMALS = 9  # of values that are compared: a smaller difference is one of rounding

Candidates = Sequence[Translation]
"""The answers to one text, in the order of the search."""


class Rule(Protocol):
    """Decides which candidate is the best: the one with the largest value, of equal ones the first."""

    @property
    def name(self) -> str:
        """What the JSON of an answer has as the `rule`."""
        ...

    def values(self, texts: Sequence[Source], rows: Sequence[Candidates]) -> list[list[float]]:
        """Return the value of each candidate of each text; -inf for one that cannot be judged."""
        ...


def choose(texts: Sequence[Source], answers: Sequence[Translation], rule: Rule) -> list[Translation]:
    """Return the best answer to each text by a rule; its alternatives are the others, in the order of the search.

    The answer to an empty text stays as it is, and so does one of which the rule cannot judge any candidate.
    """
    results = list(answers)
    rows = [row for row, answer in enumerate(answers) if answer.token_scores]
    candidates = [
        [replace(answers[row], unknown=(), unlike="", alternatives=(), probability=None), *answers[row].alternatives]
        for row in rows
    ]
    found = rule.values([texts[row] for row in rows], candidates)
    for row, others, values in zip(rows, candidates, found, strict=True):
        best = first_best(values)
        if values[best] == -math.inf:
            continue
        chosen = {"rule": rule.name, "candidates": len(values), "value": values[best]}
        answer = replace(others.pop(best), unknown=answers[row].unknown, unlike=answers[row].unlike)
        results[row] = replace(answer, alternatives=tuple(others), chosen=chosen)
    return results


def first_best(values: Sequence[float]) -> int:
    """Return the index of the largest value, up to rounding; of equal ones the first."""
    rounded = [round(value, DECIMALS) for value in values]
    return rounded.index(max(rounded))


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


# Minimum Bayes risk

Measure = Callable[[str, str], float]
"""`measure(answer, reference)`: how good the answer is if the reference is right."""


def expected_utilities(candidates: Sequence[tuple[str, float]], utility: str) -> list[float]:
    """Return the expected utility of each text, of which each may be the right answer.

    The candidates are texts with their log-probabilities (nats), which need not be normalized. Equal texts (in NFC)
    count as one with the sum of their probabilities.
    """
    texts = [unicodedata.normalize("NFC", text) for text, _ in candidates]
    top = max(log_probability for _, log_probability in candidates)
    weights: defaultdict[str, float] = defaultdict(float)
    for text, (_, log_probability) in zip(texts, candidates, strict=True):
        weights[text] += math.exp(log_probability - top)
    measure, total = UTILITIES[utility](weights), math.fsum(weights.values())
    expected = {
        text: math.fsum(weight * measure(text, reference) for reference, weight in weights.items()) / total
        for text in weights
    }
    return [expected[text] for text in texts]


def _exact_match(_texts: Collection[str]) -> Measure:
    return lambda answer, reference: float(answer == reference)


def _edit_distance(_texts: Collection[str]) -> Measure:
    return lambda answer, reference: -float(edit_distance(answer, reference))


def _chrf(texts: Collection[str]) -> Measure:
    """Return chrF2 of a sentence. It is sacreBLEU's `sentence_score`, with the n-grams of each text counted once."""
    from sacrebleu import CHRF

    scorer = CHRF()
    ngrams = {text: scorer._extract_reference_info([text])["ref_ngrams"][0] for text in texts}

    def measure(answer: str, reference: str) -> float:
        orders = zip(ngrams[answer], ngrams[reference], strict=True)
        return scorer._compute_f_score([n for pair in orders for n in scorer._get_match_statistics(*pair)])

    return measure


UTILITIES: dict[str, Callable[[Collection[str]], Measure]] = {
    "exact_match": _exact_match,
    "edit_distance": _edit_distance,
    "chrf": _chrf,
}
"""Name -> function that prepares the measure of these texts. All take texts in NFC."""


def default_utility(settings: Settings) -> str:
    """Return the utility that is nearest to the metric of a model."""
    return {"bleu": "chrf", "chrf": "chrf", "token_error_rate": "edit_distance"}.get(
        settings.training.metric, "exact_match"
    )


@dataclass(frozen=True)
class MinimumBayesRisk:
    """The answer with the largest expected utility, if each candidate may be the right one (Kumar and Byrne 2004).

    Candidates of a beam weigh by their probabilities. `sampled`: each candidate was drawn with its probability, so that
    all weigh the same and repeated ones more (Eikema and Aziz 2020). The time grows with the square of their number.
    """

    utility: str = "chrf"
    sampled: bool = False

    def __post_init__(self) -> None:
        if self.utility not in UTILITIES:
            raise UsageError(f"there is no utility {self.utility!r}", hint=nearest(self.utility, UTILITIES))

    @property
    def name(self) -> str:
        """The name of the utility."""
        return self.utility

    def values(self, _texts: Sequence[Source], rows: Sequence[Candidates]) -> list[list[float]]:
        """Return expected utilities: a probability, minus a number of edits of characters, or chrF from 0 to 100."""
        return [
            expected_utilities([(one.text, 0.0 if self.sampled else one.score) for one in row], self.utility)
            for row in rows
        ]


# Reverse model


@dataclass(frozen=True)
class ReverseModel:
    """The answer from which a model of the other direction best finds the source again (Li et al. 2016).

    The value is `rank_score` plus `weight` times the log-probability of the source given the answer, after the length
    penalty of that model. An answer that it cannot read, such as an empty one, is chosen only if it is the only one.
    """

    translator: Translator = field(repr=False)
    weight: float = 1.0
    name: ClassVar[str] = "reverse_model"

    @classmethod
    def of(cls, translator: Translator, model: ModelFile, weight: float = 1.0) -> ReverseModel:
        """Return the reverse of a model. Raises UsageError when it cannot be: inputs or characters are others."""
        reverse = translator.model_file
        for name, file in (("model", model), ("reverse model", reverse)):
            if inputs := file.source_tokenizer.inputs:
                what = f"the {name} has several inputs, and a reverse model needs one text on both sides"
                raise UsageError(what, where=str(file.path), got=listed(inputs))
        sides = {
            "source": (model.target_tokenizer, reverse.source_tokenizer),
            "target": (model.source_tokenizer, reverse.target_tokenizer),
        }
        for side, (given, known) in sides.items():
            characters, others = _characters(given), _characters(known)
            missing = characters - others
            if others and 2 * len(missing) > len(characters):
                raise UsageError(
                    f"most characters are not in the {side} vocabulary of the reverse model",
                    where=str(reverse.path),
                    got=f"{len(missing):,} of {len(characters):,}",
                    expected="a model that was trained from target to source",
                    hint="train TABLE --source TARGET --target SOURCE",
                )
        return cls(translator, weight)

    def values(self, texts: Sequence[Source], rows: Sequence[Candidates]) -> list[list[float]]:
        """Return the weighted sums."""
        alpha = self.translator.settings.decoding.length_alpha
        values = [[-math.inf] * len(row) for row in rows]
        places = [
            (row, i)
            for row, candidates in enumerate(rows)
            for i, candidate in enumerate(candidates)
            if self._can_score(candidate.text, texts[row])
        ]
        scored = self.translator.score([(rows[row][i].text, str(texts[row])) for row, i in places])
        for (row, i), pair in zip(places, scored, strict=True):
            reverse = pair.score / length_penalty(len(pair.token_scores), alpha)
            values[row][i] = rows[row][i].rank_score + self.weight * reverse
        return values

    def _can_score(self, answer: str, text: Source) -> bool:
        """Whether the model can read the answer, and can give the text as its own answer."""
        reverse = self.translator
        try:
            encode_sources([answer], ["answer"], reverse.source_tokenizer, reverse.settings)
            reverse.target_tokenizer.encode(str(text))
        except TextError:
            return False
        return is_not_empty(answer, ())


def _characters(tokenizer: Tokenizer) -> set[str]:
    """Return the characters of a vocabulary, decomposed; none where its pieces are bytes."""
    pieces = () if tokenizer.settings.kind == "bytes" else tokenizer.vocabulary.ordinary
    return {character for piece in pieces for character in unicodedata.normalize("NFD", piece)}
