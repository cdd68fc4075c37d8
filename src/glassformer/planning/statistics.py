"""Properties of the pairs of a table, from which `advise` chooses."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.data.tables import Pair
from glassformer.text.inputs import Inputs, cells_of, learn_inputs

Form = Literal["NFC", "NFD"]

COMPOSED = 4  # minimum of composed characters for each of their parts, above which a script is decomposed (NFD)
CLOSED_TYPES = 1_000  # maximum number of different words in a closed vocabulary
CLOSED_UNSEEN = 0.005  # maximum fraction of the words of one half of the rows that the other half does not have
MAX_STRING_CHARACTERS = 60  # characters of a text that are examined for such strings
NEW_STRINGS = 0.02  # minimum probability of a new string of four characters in an open vocabulary
SUBWORDS_A_WORD = 1.5


# One side


@dataclass(frozen=True)
class SideStatistics:
    """Properties of the texts of one side. `mean` and `longest` are lengths in each kind of token.

    `form` is the normalization form for characters: NFD where many characters are composed of a few, as in Korean.
    """

    form: Form
    why_form: str
    n_types: int
    unseen: float
    spaced: bool
    alphabet: frozenset[str]
    mean: Mapping[str, float]
    longest: Mapping[str, int]

    @property
    def words_per_text(self) -> float:
        return self.mean["words"]

    @property
    def is_closed(self) -> bool:
        return self.spaced and self.words_per_text > 1 and self.n_types <= CLOSED_TYPES and self.unseen <= CLOSED_UNSEEN


def side_statistics(texts: Sequence[str]) -> SideStatistics:
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    parts = [unicodedata.normalize("NFD", text) for text in texts]
    n_composed, n_parts = len(set().union(*composed)), len(set().union(*parts))
    is_composed = COMPOSED * n_parts < n_composed
    words = [text.split() for text in texts]
    counts = Counter(word for row in words for word in row)
    seen = {word for row in words[::2] for word in row}
    other_words = [word for row in words[1::2] for word in row]
    lengths = {
        "words": [len(row) for row in words],
        "characters": [len(text) for text in (parts if is_composed else composed)],
        "bytes": [len(text.encode("utf-8", "replace")) for text in texts],
    }
    mean = {kind: sum(rows) / max(1, len(rows)) for kind, rows in lengths.items()}
    longest = {kind: max(rows, default=0) for kind, rows in lengths.items()}
    return SideStatistics(
        form="NFD" if is_composed else "NFC",
        why_form=f"{n_composed:,} characters are composed of {n_parts:,}",
        n_types=len(counts),
        unseen=sum(word not in seen for word in other_words) / max(1, len(other_words)),
        spaced=sum(" ".join(row) == text for row, text in zip(words, texts, strict=True)) >= 0.99 * len(texts),
        alphabet=frozenset().union(*texts),
        mean=mean | {"subwords": SUBWORDS_A_WORD * mean["words"]},
        longest=longest | {"subwords": min(longest["characters"], 4 * longest["words"])},
    )


def new_strings_probability(texts: Sequence[str], form: Form) -> float:
    """Estimate how probable a new string of four characters is: the fraction of strings in one text (Good 1953)."""
    counts: Counter[str] = Counter()
    for text in set(texts):
        start = unicodedata.normalize(form, text)[:MAX_STRING_CHARACTERS]
        counts.update({start[i : i + 4] for i in range(max(1, len(start) - 3))})
    return sum(n == 1 for n in counts.values()) / counts.total()


# Both sides


def has_new_strings(pairs: Sequence[tuple[str, str]], kinds: Sequence[str], sides: Sequence[SideStatistics]) -> bool:
    """Return whether new strings of characters are frequent on a side whose tokens are characters or bytes."""
    return any(
        new_strings_probability([pair[i] for pair in pairs], side.form) > NEW_STRINGS
        for i, (kind, side) in enumerate(zip(kinds, sides, strict=True))
        if kind in ("characters", "bytes")
    )


def count_symbols(pairs: Sequence[Pair], inputs: Inputs) -> list[int]:
    """Return the number of symbols of features in each source; none where sources are single texts."""
    if not inputs:
        return []
    learned = learn_inputs((pair.source for pair in pairs), inputs)
    rows = (zip(learned, cells_of(pair.source), strict=True) for pair in pairs)
    return [sum(len(input_.symbols_of(cell)) for input_, cell in row if input_.kind == "feature") for row in rows]


def copied_fraction(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the fraction of target words that are, with three characters or more, part of a longer source word."""
    n_words = n_copied = 0
    for source, target in pairs[:2000]:
        whole = set(source.split())
        for word in target.split():
            n_words += 1
            n_copied += len(word) >= 3 and word in source and word not in whole
    return n_copied / max(1, n_words)


def taken_over_fraction(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the fraction of targets that contain four consecutive characters of a word of their source."""
    sampled = pairs[:2000]
    n_taken = 0
    for source, target in sampled:
        strings = {word[i : i + 4] for word in source.split() for i in range(len(word) - 3)}
        n_taken += any(string in target for string in strings)
    return n_taken / max(1, len(sampled))


def common_fraction(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the fraction of the characters of targets that are in their sources, each as often as it is there."""
    n_common = sum((Counter(source) & Counter(target)).total() for source, target in pairs)
    return n_common / max(1, sum(len(target) for _, target in pairs))


def several_targets_fraction(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the fraction of the sources that have several targets."""
    targets: dict[str, set[str]] = {}
    for source, target in pairs:
        targets.setdefault(source, set()).add(target)
    return sum(len(texts) > 1 for texts in targets.values()) / max(1, len(targets))


def words_of_source_fraction(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the fraction of the words of targets that are in their sources, without case and outer punctuation."""
    n_words = n_taken = 0
    for source, target in pairs:
        source_words, words = set(_bare_words(source)), _bare_words(target)
        n_words, n_taken = n_words + len(words), n_taken + sum(word in source_words for word in words)
    return n_taken / max(1, n_words)


def _bare_words(text: str) -> list[str]:
    """Return the words of a text without case, and without punctuation at their ends."""
    return [word.strip(string.punctuation) for word in text.casefold().split()]
