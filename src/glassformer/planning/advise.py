"""Zero configuration: a recipe from properties of the data, each choice with its reason.

The rules use the pairs alone, never names of data sets or languages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from glassformer.data.corpus import spread
from glassformer.data.tables import Pair
from glassformer.planning.recipes.overrides import flat, nested
from glassformer.planning.statistics import (
    CLOSED_TYPES,
    SideStatistics,
    common_fraction,
    copied_fraction,
    count_symbols,
    has_new_strings,
    several_targets_fraction,
    side_statistics,
    taken_over_fraction,
    words_of_source_fraction,
)
from glassformer.settings import TokenKind
from glassformer.text.inputs import Inputs, texts_of

SAMPLE_ROWS = 20_000  # rows that are examined
PROSE_WORDS = 3.0  # minimum of the mean number of words in prose
ONE_FORM_WORDS = 0.25  # minimum of the fraction of target words that are in the source, in texts brought into one form
SEVERAL_TARGETS = 0.01  # maximum of the fraction of sources with several targets, in such a table
BLEU_WORDS = 4.0  # minimum of the mean number of words in a target, from which BLEU is the metric
PROSE_ROWS = 1_000  # minimum number of rows from which subwords are learned
FEW_ROWS, MANY_ROWS = 5_000, 20_000  # below FEW_ROWS more regularization, below MANY_ROWS for open vocabularies; races
COMMON = 0.3  # minimum of the fraction of the characters of a target that are in its source, where they can be copied
MIN_STEPS, MAX_STEPS, MIN_EPOCHS = 6_000, 15_000, 3  # limits of the maximum number of steps
PATIENCE = 4  # validations
MIN_LENGTH, MAX_LENGTH = 128, 512


@dataclass(frozen=True)
class Choice:
    """One choice: the full name of a setting, its value, and why; `set_by_user` when it was given and not advised."""

    setting: str
    value: Any
    reason: str
    set_by_user: bool = False


@dataclass(frozen=True)
class Candidate:
    """What a race tries: the kinds of tokens of both sides, and whether source tokens can be copied."""

    kinds: tuple[str, str]
    copying: bool = False

    def __str__(self) -> str:
        kinds = self.kinds[0] if self.kinds[0] == self.kinds[1] else " to ".join(self.kinds)
        return f"{kinds} with copying" if self.copying else kinds


@dataclass(frozen=True)
class Advice:
    """Settings as nested dicts, and the choices that they come from.

    `candidates` are what a race may try, the rule of these settings first; only one where the rule decides.
    """

    settings: dict[str, Any]
    choices: tuple[Choice, ...]
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class _TableTraits:
    """What the choices of model and training depend on; `lengths` are means, `is_open`: new strings are frequent."""

    n_rows: int
    kinds: tuple[str, str]
    lengths: tuple[float, float]
    is_open: bool

    @property
    def is_prose(self) -> bool:
        return "subwords" in self.kinds


def advise(
    pairs: Sequence[Pair],
    given: Mapping[str, Any] | None = None,
    inputs: Inputs = (),
    candidate: Candidate | None = None,
) -> Advice:
    """Choose settings for these pairs. `given` are settings that the user fixed, as nested dicts.

    Of sources with several `inputs`, the texts decide on the tokens; symbols of features count in the lengths only.

    Choices that depend on a token kind, the number of steps or d_model follow the given one. With a `candidate`, tokens
    and copying are those of it and not those of the rule.
    """
    fixed_settings = flat(given or {})
    fixed = partial(_fixed, fixed_settings)
    sampled_pairs = [pairs[row] for row in spread(len(pairs), SAMPLE_ROWS).tolist()]
    n_symbols = count_symbols(sampled_pairs, inputs)
    sampled = [(" ".join(texts_of(source, inputs)), target) for source, target in sampled_pairs]
    source, target = (side_statistics([pair[side] for pair in sampled]) for side in (0, 1))
    source = replace(source, longest={kind: n + max(n_symbols, default=0) for kind, n in source.longest.items()})
    kinds, choices = _choose_tokens(len(pairs), sampled, source, target, None if candidate is None else candidate.kinds)
    kinds = fixed("tokens.source.kind", kinds[0]), fixed("tokens.target.kind", kinds[1])
    kinds = kinds[0].replace("sentencepiece", "subwords"), kinds[1].replace("sentencepiece", "subwords")
    choices += [
        Choice(f"tokens.{name}.normalization", side.form, side.why_form)
        for name, kind, side in zip(("source", "target"), kinds, (source, target), strict=True)
        if kind == "characters" and side.form != "NFC" and not fixed("tokens.shared", False)
    ]
    mean_symbols = sum(n_symbols) / max(1, len(n_symbols))
    lengths = 2 + source.mean[kinds[0]] + mean_symbols, 2 + target.mean[kinds[1]]
    is_open = len(pairs) >= FEW_ROWS and "subwords" not in kinds and has_new_strings(sampled, kinds, (source, target))
    if all(text == text.strip() for pair in pairs for text in texts_of(pair.source, inputs)):
        choices.append(Choice("tokens.source.trim", True, "no source has white space at its ends"))
    choices += _choose_limits(kinds, source, target)
    task = _TableTraits(len(pairs), kinds, lengths, is_open)
    choices += _choose_model(task)
    common = common_fraction(sampled)
    candidates = _candidates(len(pairs), kinds, common, fixed_settings, has_symbols=mean_symbols > 0)
    if (candidate or candidates[0]).copying:
        reason = f"{common:.0%} of the characters of a target are in its source (Departure from the paper)"
        choices.append(Choice("model.copy_mechanism", True, reason))
    advised_width = next(choice.value for choice in choices if choice.setting == "model.d_model")
    d_model = fixed("model.d_model", advised_width)
    choices += _choose_training(task, d_model, fixed)
    choices.append(_choose_metric(task, sampled, target))
    if task.is_prose:
        choices.append(Choice("decoding.length_alpha", 1.0, "prose is too short with the paper's 0.6"))
    return Advice(nested({choice.setting: choice.value for choice in choices}), tuple(choices), candidates)


def _candidates(
    n_rows: int, kinds: tuple[str, str], common: float, fixed: Mapping[str, Any], *, has_symbols: bool
) -> tuple[Candidate, ...]:
    """Return what a race tries, the rule first: characters in place of words or subwords, with and without copying."""
    is_small = n_rows < (MANY_ROWS if has_symbols else FEW_ROWS)
    characters, can_copy = ("characters", "characters"), common > COMMON and is_small
    rule = Candidate(kinds, copying=kinds == characters and can_copy and has_symbols)
    other = Candidate(characters, copying=can_copy and not rule.copying)
    is_mixed = kinds[0] != kinds[1]  # such as letters to phones
    is_fixed = "model.copy_mechanism" in fixed or any(name.startswith("tokens.") for name in fixed)
    return (rule,) if not is_small or is_mixed or is_fixed or other == rule else (rule, other)


def _fixed(settings: Mapping[str, Any], setting: str, otherwise: Any) -> Any:
    """Return a setting that the user fixed. One of a wrong type is ignored here; Settings raises its error."""
    value: Any = settings.get(setting)
    if isinstance(value, str):
        return value if value in get_args(TokenKind) else otherwise
    return value if type(value) is type(otherwise) and value > 0 else otherwise


def _choose_tokens(
    n_rows: int,
    pairs: Sequence[tuple[str, str]],
    source: SideStatistics,
    target: SideStatistics,
    tried: tuple[str, str] | None = None,
) -> tuple[tuple[str, str], list[Choice]]:
    """Choose the kinds of tokens, or those that are `tried` in place of the rule's."""
    if tried == ("characters", "characters"):
        return tried, _two_vocabularies(
            ("characters", "a candidate of the race"), ("characters", "a candidate of the race")
        )
    if min(source.words_per_text, target.words_per_text) >= PROSE_WORDS and not (source.is_closed and target.is_closed):
        if n_rows >= PROSE_ROWS:
            return ("subwords", "subwords"), _choose_subwords(n_rows, source, target)
        reason = f"prose, but {n_rows:,} rows are too few to learn subwords from"
        return ("characters", "characters"), _two_vocabularies(("characters", reason), ("characters", reason))
    sides = []
    for side in (source, target):
        closed = f"{side.n_types:,} different words, a closed vocabulary"
        if side.is_closed:
            sides.append(("words", closed))
        elif side.words_per_text < PROSE_WORDS:
            words = "one word a text" if side.words_per_text < 1.05 else f"{side.words_per_text:.1f} words a text"
            sides.append(("characters", f"character-level: {words}"))
        else:
            sides.append(("characters", "an open vocabulary"))
    if sides[0][0] == "characters" and sides[1][0] == "words" and copied_fraction(pairs) > 0.1:
        sides[1] = ("characters", "character-level: the target words are parts of source words")
    if sides[0][0] == "words" and sides[1][0] == "characters" and taken_over_fraction(pairs) > 0.1:
        sides[0] = ("characters", "character-level: the targets contain characters of the source words")
    return (sides[0][0], sides[1][0]), _two_vocabularies(*sides)


def _two_vocabularies(source: tuple[str, str], target: tuple[str, str]) -> list[Choice]:
    return [
        Choice("tokens.source.kind", source[0], source[1]),
        Choice("tokens.target.kind", target[0], target[1]),
        Choice("tokens.shared", False, "two vocabularies, one for each side"),
        Choice("model.tied_embeddings", "none", "few tokens: separate matrices cost little"),
    ]


def _choose_subwords(n_rows: int, source: SideStatistics, target: SideStatistics) -> list[Choice]:
    n_words = (source.words_per_text + target.words_per_text) * n_rows
    size = min(32_000, max(1_000, 1_000 * 2 ** round(math.log2(n_words / 100_000))))
    common = len(source.alphabet & target.alphabet) / max(1, len(source.alphabet | target.alphabet))
    shared = common >= 0.5
    reason = f"{source.words_per_text:.1f} and {target.words_per_text:.1f} words a text; an open vocabulary"
    tying = "one matrix for source, target and output" if shared else "target embedding and output are one matrix"
    return [
        Choice("tokens.source.kind", "subwords", reason),
        Choice("tokens.target.kind", "subwords", reason),
        Choice("tokens.source.vocabulary_size", size, f"about one subword for every hundred of {n_words:,.0f} words"),
        Choice("tokens.target.vocabulary_size", size, "the same on both sides"),
        Choice("tokens.shared", shared, f"{common:.0%} of the characters occur on both sides"),
        Choice("model.tied_embeddings", "all" if shared else "target", tying),
    ]


def _choose_limits(kinds: tuple[str, str], source: SideStatistics, target: SideStatistics) -> list[Choice]:
    """Choose maximum lengths for every row, up to MAX_LENGTH."""
    choices = []
    for name, kind, side in (("source", kinds[0], source), ("target", kinds[1], target)):
        longest = side.longest[kind]
        limit = min(MAX_LENGTH, max(MIN_LENGTH, 2 ** math.ceil(math.log2(1.25 * longest + 1))))
        choices.append(Choice(f"data.max_{name}_length", limit, f"the longest sampled has about {longest} {kind}"))
    return choices


def _choose_model(task: _TableTraits) -> list[Choice]:
    n_rows, length = task.n_rows, task.lengths[1]
    n_tokens = n_rows * length
    size = f"{n_rows:,} rows of about {length:.0f} target tokens"
    if n_tokens < 3e6:
        depth = 4 if task.is_prose else 3
        shape = {"d_model": 128, "d_ff": 256, "n_heads": 4, "n_encoder_layers": depth, "n_decoder_layers": depth}
    elif n_tokens < 3e7:
        shape = {"d_model": 256, "d_ff": 1024, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4}
    else:
        shape = {"d_model": 512, "d_ff": 2048, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6}
    choices = [Choice(f"model.{name}", value, size) for name, value in shape.items()]
    reason = "learns in fewer steps, and needs no long warm-up (Departure from the paper)"
    choices.append(Choice("model.norm", "pre", reason))
    if task.kinds == ("words", "words"):
        dropout, because = 0.1, "two closed vocabularies"
    elif task.is_prose:
        dropout, because = (0.3 if n_rows < 100_000 else 0.2 if n_rows < 500_000 else 0.1), f"{n_rows:,} rows of prose"
    else:
        dropout, because = (0.3 if n_rows < FEW_ROWS else 0.1), f"more for few rows: {n_rows:,}"
        if task.is_open and n_rows < MANY_ROWS:
            dropout, because = 0.2, f"an open vocabulary of character strings in {n_rows:,} rows"
    choices.append(Choice("model.dropout", dropout, because))
    return choices


def _choose_training(task: _TableTraits, d_model: int, fixed: Callable[[str, Any], Any]) -> list[Choice]:
    longer, is_prose = max(task.lengths), task.is_prose
    n_tokens = task.n_rows * longer
    budget = 4_096 if is_prose else 2_048 if task.kinds == ("words", "words") or n_tokens > 500_000 else 1_024
    batches_an_epoch = max(1, math.ceil(n_tokens / budget))
    most = max(min(max(MIN_STEPS, 15 * math.sqrt(n_tokens)), MAX_STEPS), MIN_EPOCHS * batches_an_epoch)
    advised = 100 * math.ceil(most / 100)
    steps = fixed("training.steps", advised)
    smoothing = 0.1 if is_prose or task.is_open or task.n_rows < FEW_ROWS else 0.0
    rate = 0.003 if is_prose else 0.0015
    advice = {
        "batch_tokens": (budget, f"about {budget / longer:.0f} pairs of {longer:.0f} tokens"),
        "steps": (advised, f"at most: about {advised / batches_an_epoch:.0f} epochs"),
        "schedule": ("wsd", "the length of the training follows from the held-out rows"),
        "patience": (PATIENCE, "validations without a gain, and a fifth of the steps; then the rate decays"),
        "learning_rate": (
            rate * 128 / d_model,
            f"{rate}{', for large batches,' if is_prose else ''} at d_model 128, less for wider models: {d_model}",
        ),
        "warmup_steps": (max(1, steps // 20), "a twentieth of the steps"),
        "label_smoothing": (
            smoothing,
            "regularizes noisy, open-vocabulary or small data" if smoothing else "one right answer, and enough rows",
        ),
        "clip_norm": (1.0, "limits rare large gradients"),
        "validate_every": (
            max(1, min(1_000, max(steps // 40, min(100, steps // 5)))),
            "forty validations, 100 to 1,000 steps apart",
        ),
    }
    return [Choice(f"training.{name}", value, reason) for name, (value, reason) in advice.items()]


def _choose_metric(task: _TableTraits, pairs: Sequence[tuple[str, str]], target: SideStatistics) -> Choice:
    if not task.is_prose:
        return Choice("training.metric", "exact_match", "an answer is right or wrong")
    if reason := _one_form(pairs, target):
        return Choice("training.metric", "exact_match", f"each source has one target, and {reason}")
    if target.words_per_text < BLEU_WORDS:
        words = f"{target.words_per_text:.1f} words a target"
        return Choice("training.metric", "chrf", f"{words}; BLEU counts sequences of four")
    return Choice("training.metric", "bleu", "prose has many right answers")


def _one_form(pairs: Sequence[tuple[str, str]], target: SideStatistics) -> str:
    """Return in words why an answer is right or wrong, though it has many words: texts brought into one form; or ""."""
    if several_targets_fraction(pairs) > SEVERAL_TARGETS:
        return ""
    if target.n_types <= CLOSED_TYPES:
        return f"targets have {target.n_types:,} different words"
    fraction = words_of_source_fraction(pairs)
    return f"{fraction:.0%} of its words are in the source" if fraction >= ONE_FORM_WORDS else ""
