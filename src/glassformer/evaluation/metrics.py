"""Metrics of answers: exact match, error rates, BLEU and chrF, each with a bootstrap interval.

They take texts and numbers, whatever produced the answers. Texts are compared in NFC, so that two encodings of the
same accented letter are equal. Exact match and error rates are fractions from 0 to 1 (an error rate can exceed 1), BLEU
and chrF are from 0 to 100. All functions over rows raise UsageError when there are none, or when the two sides differ
in number.

A row can have several references (right answers). An exact match equals any of them; an error rate takes the nearest
one, and its length (`nearest_references`); BLEU and chrF take all of them, as sacreBLEU does.

The 95 % interval of exact match and of the sequence error rate, which are proportions, is that of Wilson 1927. Others
are those of the percentile bootstrap (Efron 1979): rows are drawn with replacement, and the metric is computed from the
sums of the drawn rows. The same seed draws the same rows for every metric.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.errors import SettingsError, UsageError, nearest
from glassformer.settings import Metric
from glassformer.text.inputs import Source
from glassformer.text.normalization import nfc, nfc_source

if TYPE_CHECKING:
    from sacrebleu import BLEU, CHRF

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
References = str | Sequence[str]
"""The references (right answers) of one row: a text, or a list of at least one."""

NAMES = ("exact_match", "sequence_error_rate", "token_error_rate", "word_error_rate", "char_error_rate", "bleu", "chrf")
"""The metrics of texts."""


@dataclass(frozen=True)
class Measure:
    """A metric: its value, the limits of its 95 % interval, and sacreBLEU's signature for BLEU and chrF.

    `undefined` says why there is no value; the three numbers are then NaN.
    """

    value: float
    low: float
    high: float
    signature: str | None = None
    undefined: str | None = None


@dataclass(frozen=True)
class Statistics:
    """What a metric needs of each row, `[rows, columns]`, and `score`: sums over rows `[n, columns]` -> values `[n]`.

    All metrics are functions of such sums, so that rows are resampled without their texts. `undefined` says why
    there is no value for these rows. `is_proportion`: it is the fraction of the rows with a property.
    """

    rows: Floats
    score: Callable[[Floats], Floats]
    signature: str | None = None
    undefined: str | None = None
    is_proportion: bool = False


@dataclass(frozen=True)
class Share:
    """A part of `of` rows or tokens, and the limits of the 95 % interval of Wilson 1927, for a part of any size."""

    count: int
    of: int

    @property
    def value(self) -> float:
        return self.count / self.of

    @property
    def low(self) -> float:
        return self._limits[0]

    @property
    def high(self) -> float:
        return self._limits[1]

    @property
    def _limits(self) -> tuple[float, float]:
        z = 1.959964  # 95 % of a normal distribution is within z standard deviations
        center, scale = self.value + z * z / (2 * self.of), 1 + z * z / self.of
        half = z * math.sqrt(self.value * (1 - self.value) / self.of + z * z / (4 * self.of**2))
        return max(0.0, (center - half) / scale), min(1.0, (center + half) / scale)


class Item(NamedTuple):
    """A source and its references. `row` is the number of its first row, from 0."""

    row: int
    source: Source
    references: tuple[str, ...]


def group_by_source(pairs: Sequence[tuple[Source, str]]) -> list[Item]:
    """Group rows with the same source (in NFC) into items, in the order of their first rows.

    References are the distinct targets (in NFC) in the order of the table. Texts keep the form of their first row.
    """
    first: dict[Source, int] = {}
    targets: dict[Source, dict[str, str]] = {}
    for row, (source, target) in enumerate(pairs):
        key = nfc_source(source)
        first.setdefault(key, row)
        targets.setdefault(key, {}).setdefault(nfc(target), target)
    return [Item(row, pairs[row][0], tuple(targets[key].values())) for key, row in first.items()]


def _in_nfc(hypotheses: Sequence[str], references: Sequence[References]) -> Iterator[tuple[str, list[str]]]:
    """Yield each hypothesis with its references, in the form in which all metrics compare.

    Raises UsageError when the two sides differ in number or are empty, and for a row without a reference.
    """
    if len(hypotheses) != len(references):
        raise UsageError(
            "the two sides do not have the same number of rows",
            got=f"{len(hypotheses)} and {len(references)}",
            expected="one reference for each hypothesis",
        )
    if not hypotheses:
        raise UsageError("there is nothing to score", got="no rows", expected="at least one")
    for row, (hypothesis, targets) in enumerate(zip(hypotheses, references, strict=True), 1):
        if not isinstance(targets, str) and not targets:
            got, expected = "no references", "at least one"
            raise UsageError("there is no reference", where=f"row {row}", got=got, expected=expected)
        yield nfc(hypothesis), [nfc(target) for target in ([targets] if isinstance(targets, str) else targets)]


def exact_matches(hypotheses: Sequence[str], references: Sequence[References]) -> Floats:
    """Return 1.0 for each row whose hypothesis equals a reference in NFC, else 0.0; shape [rows]."""
    return np.array(
        [hypothesis in targets for hypothesis, targets in _in_nfc(hypotheses, references)], dtype=np.float64
    )


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the minimum number of insertions, deletions and substitutions that turn `a` into `b` (Levenshtein 1965).

    The algorithm is that of Myers 1999 in the form of Hyyrö 2003: it keeps one column of the table of distances, as the
    differences of neighboring cells, one bit each; a column costs a few operations on integers of `len(a)` bits.
    """
    if not a:
        return len(b)
    positions: defaultdict[Hashable, int] = defaultdict(int)  # token -> its positions in a, as bits
    for position, token in enumerate(a):
        positions[token] |= 1 << position
    column = (1 << len(a)) - 1
    last = 1 << (len(a) - 1)
    plus, minus = column, 0  # cells of the column that are one more, one less, than the cell above
    distance = len(a)
    for token in b:
        equal = positions.get(token, 0)
        # Cells equal to their upper left neighbor.
        same = (((equal & plus) + plus) ^ plus) | equal | minus
        right_plus = minus | ~(same | plus)
        right_minus = plus & same
        distance += bool(right_plus & last) - bool(right_minus & last)
        right_plus = right_plus << 1 | 1  # the top row of the table counts the tokens of b
        right_minus <<= 1
        plus = (right_minus | ~(same | right_plus)) & column
        minus = right_plus & same & column
    return distance


def nearest_references(
    hypotheses: Sequence[str],
    references: Sequence[References],
    split_tokens: Callable[[str], Sequence[Hashable]],
) -> list[int]:
    """Return the position, from 0, of each row's nearest reference among its references.

    It is the one equal to the hypothesis in NFC, or else the one with the fewest edits of tokens. Ties: the shortest in
    tokens wins, so that a tie never makes a rate smaller, and then the first.
    """

    def nearest(hypothesis: str, golds: list[str]) -> int:
        if len(golds) == 1:
            return 0
        if hypothesis in golds:
            return golds.index(hypothesis)
        tokens, targets = split_tokens(hypothesis), [split_tokens(gold) for gold in golds]
        return min(range(len(golds)), key=lambda k: (edit_distance(tokens, targets[k]), len(targets[k])))

    return [nearest(*row) for row in _in_nfc(hypotheses, references)]


def nearest_errors(
    hypotheses: Sequence[str],
    references: Sequence[References],
    split_tokens: Callable[[str], Sequence[Hashable]],
) -> tuple[Counts, Counts]:
    """Return edits and length of the nearest reference of each row, in tokens of texts in NFC; both [rows].

    The error rate is the ratio of their sums.
    """
    rows = zip(_in_nfc(hypotheses, references), nearest_references(hypotheses, references, split_tokens), strict=True)
    tokens = [(split_tokens(hypothesis), split_tokens(targets[nearest])) for (hypothesis, targets), nearest in rows]
    edits = [edit_distance(hypothesis, target) for hypothesis, target in tokens]
    return np.array(edits, dtype=np.int64), np.array([len(target) for _, target in tokens], dtype=np.int64)


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> Statistics:
    """Return what the ratio of two sums over rows needs.

    When the sum of the denominators is 0 (references without a token), the ratio is 0 if that of the numerators is 0
    too, else 1.
    """

    def ratios(sums: Floats) -> Floats:
        """[n, 2] -> [n]"""
        above, below = sums[:, 0], sums[:, 1]
        return np.divide(above, below, out=(above > 0).astype(np.float64), where=below > 0)

    return Statistics(np.stack([numerators, denominators], axis=1).astype(np.float64), ratios)


def resampled_sums(rows: Floats, resamples: int, seed: int) -> Floats:
    """[rows, columns] -> [resamples, columns]: sums over the same number of rows, drawn with replacement."""
    if resamples < 1:
        raise UsageError("a bootstrap needs at least one resample", got=str(resamples))
    random = np.random.default_rng(seed)
    n = len(rows)
    sums = np.empty((resamples, rows.shape[1]))
    # One resample at a time, so that memory stays that of the rows. Counts times rows are faster than gathering.
    for i in range(resamples):
        drawn = np.bincount(random.integers(n, size=n), minlength=n)
        sums[i] = drawn.astype(np.float64) @ rows
    return sums


def measured(statistics: Statistics, resamples: int = 1000, seed: int = 1) -> Measure:
    """Return the value of a metric and its interval."""
    if statistics.undefined is not None:
        return Measure(math.nan, math.nan, math.nan, statistics.signature, statistics.undefined)
    sums = statistics.rows.sum(axis=0, keepdims=True)
    value = statistics.score(sums).item()
    if statistics.is_proportion:
        share = Share(*map(int, sums[0]))
        return Measure(value, share.low, share.high)
    low, high = interval(statistics.score(resampled_sums(statistics.rows, resamples, seed)))
    return Measure(value, low, high, statistics.signature)


def interval(resampled: Floats) -> tuple[float, float]:
    """Return the limits of the 95 % percentile interval."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    return float(low), float(high)


def _bleu_statistics(tokenize: str, hypotheses: Sequence[str], references: Sequence[References]) -> Statistics:
    """Return what corpus BLEU (Papineni et al. 2002) needs, as sacreBLEU computes it.

    Its signature has the number of references: `nrefs:var` where rows differ in it. It is undefined where no answer, or
    no reference, has four tokens; sacreBLEU returns 0 there, even if every answer is right. Raises SettingsError for a
    tokenizer that sacreBLEU does not have or cannot use.
    """
    statistics = _corpus_statistics(bleu_scorer(tokenize), hypotheses, references)
    rows = list(_in_nfc(hypotheses, references))
    sides = {"answer": (answer for answer, _ in rows), "target": (target for _, targets in rows for target in targets)}
    reasons = (f"no {side} has four tokens" for side, texts in sides.items() if not has_four_tokens(texts, tokenize))
    return replace(statistics, undefined=next(reasons, None))


def has_four_tokens(texts: Iterable[str], tokenize: str = "13a") -> bool:
    """Whether a text has four tokens of sacreBLEU; BLEU needs them, because it counts sequences of four."""
    scorer: Any = bleu_scorer(tokenize)
    return any(len(scorer.tokenizer(text.rstrip()).split()) >= scorer.max_ngram_order for text in texts)


def _corpus_statistics(scorer: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[References]) -> Statistics:
    """Return the counts that sacreBLEU has of each row, and its score of their sums.

    These methods of the library are not public; its own bootstrap resamples with them.
    """
    # sacreBLEU takes the first reference of all rows, then the second, …; None where a row has no more, because an
    # empty text would be a reference of no length.
    answers, targets = zip(*_in_nfc(hypotheses, references), strict=True)
    statistics: Any = scorer._extract_corpus_statistics(list(answers), list(zip_longest(*targets)))

    def score(sums: Floats) -> Floats:
        scores: list[Any] = [scorer._compute_score_from_stats(row) for row in sums.astype(np.int64).tolist()]
        return np.array([min(float(bleu_or_chrf.score), 100.0) for bleu_or_chrf in scores])  # rounding can exceed 100

    return Statistics(np.array(statistics, dtype=np.float64), score, str(scorer.get_signature()))


def bleu_scorer(tokenize: str) -> BLEU:
    """Return what computes BLEU. Raises SettingsError unless sacreBLEU has this tokenizer and can use it."""
    from sacrebleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise SettingsError(f"sacreBLEU has no tokenizer {tokenize!r}", hint=nearest(tokenize, BLEU.TOKENIZERS))
    try:
        # force: no warning for text that looks tokenized, as tables of tokens do.
        return BLEU(tokenize=tokenize, force=True)
    # Missing packages and failed downloads raise many kinds of errors; for some, sacreBLEU exits.
    except (Exception, SystemExit) as error:
        raise SettingsError(
            f"the BLEU tokenizer {tokenize!r} cannot be used",
            got=" ".join(str(error).split()) or type(error).__name__,
            expected="its packages installed, and its model available if it has one",
            hint="install its packages, or choose 13a, intl, zh, char or none, which need none",
        ) from None


def row_statistics(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[References],
    split_tokens: Callable[[str], Sequence[Hashable]],
    *,
    bleu_tokenize: str = "13a",
) -> Statistics:
    """Return what one metric of NAMES needs of each row; `split_tokens` returns the tokens, for token_error_rate.

    Raises SettingsError for a metric that cannot be computed from texts, such as "loss".
    """
    match name:
        case "exact_match" | "sequence_error_rate":
            matches = exact_matches(hypotheses, references)
            of_rows = ratio(matches if name == "exact_match" else 1 - matches, np.ones_like(matches))
            return replace(of_rows, is_proportion=True)
        case "token_error_rate":
            return ratio(*nearest_errors(hypotheses, references, split_tokens))
        case "word_error_rate":
            return ratio(*nearest_errors(hypotheses, references, str.split))
        case "char_error_rate":
            return ratio(*nearest_errors(hypotheses, references, str))
        case "bleu":
            return _bleu_statistics(bleu_tokenize, hypotheses, references)
        case "chrf":  # chrF2 (Popović 2015), orders up to 6
            from sacrebleu import CHRF

            return _corpus_statistics(CHRF(), hypotheses, references)
        case _:
            what, expected = f"the metric {name!r} cannot be computed from texts", ", ".join(NAMES)
            raise SettingsError(what, expected=expected)


def quick_metric(
    name: Metric,
    hypotheses: Sequence[str],
    references: Sequence[References],
    split_tokens: Callable[[str], Sequence[Hashable]],
) -> float:
    """Return the value of one metric, without the time for its interval. Where BLEU is undefined, it is 0."""
    measure = measured(row_statistics(name, hypotheses, references, split_tokens), resamples=1)
    return measure.value if measure.undefined is None else 0.0


def is_fraction(name: str) -> bool:
    """Whether people read this metric in percent; BLEU and chrF are from 0 to 100 already."""
    return name not in ("bleu", "chrf", "loss")


def metric_name(name: str) -> str:
    """Return the name of a metric in a text."""
    return {"bleu": "BLEU", "chrf": "chrF"}.get(name, name.replace("_", " "))


def higher_is_better(name: str) -> bool:
    """Whether a larger value of this metric means better answers."""
    return name != "loss" and not name.endswith("_error_rate")
