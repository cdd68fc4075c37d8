"""A vocabulary from example texts, or from the one preset."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from glassformer.errors import SettingsError, TextError
from glassformer.settings import SideSettings, TokenKind
from glassformer.text.cutters import BYTES, Learned
from glassformer.text.normal_form import normalise
from glassformer.text.subwords import MARK, library, mark, train
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vocabulary import SPECIALS, Vocabulary


def learn(texts: Iterable[str], settings: SideSettings) -> Tokenizer:
    """A tokenizer with a vocabulary from `texts`; the same texts and settings give the same tokenizer.

    Special tokens come first: <pad> 0, <bos> 1, <eos> 2 and, if there is one, <unk> 3. For a shared
    vocabulary give the texts of both sides. Subwords hold the texts in memory; the others read them once.

    Raises TextError when there is nothing to learn from, SettingsError when the vocabulary cannot be as small
    as it is set (it names the smallest possible), MissingExtraError for subwords without their library.
    """
    if settings.preset == "ascii68":
        return _ascii68(settings)
    normal = (normalise(text, settings, f"text {row}") for row, text in enumerate(texts, start=1))
    pieces, learned = _LEARNERS[settings.kind](normal, settings)
    return Tokenizer(settings, Vocabulary.from_pieces(pieces, _specials(settings)), learned)


def ascii68() -> Tokenizer:
    """68 characters: digits, capitals, small letters, `-`, `,`, space, <sos>, <eos>, <pad>; no <unk>."""
    return _ascii68(SideSettings(preset="ascii68"))


def _ascii68(settings: SideSettings) -> Tokenizer:
    pieces = string.digits + string.ascii_uppercase + string.ascii_lowercase + "-, "
    vocabulary = Vocabulary.from_pieces(pieces, {"<sos>": 65, "<eos>": 66, "<pad>": 67})
    return Tokenizer(settings.model_copy(update={"kind": "characters", "unknown": False}), vocabulary, {})


def _characters(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], Learned]:
    return sorted(_frequent(_count(texts), settings)), {}


def _words(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], Learned]:
    words = _frequent(_count(text.split() for text in texts), settings)
    room = _room(settings, at_least=1 if settings.unknown else len(words))
    return sorted(words, key=lambda word: (-words[word], word))[:room], {}


def _subwords(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], Learned]:
    library()  # asked for first, because counting may take a while
    marked = [mark(text) for text in texts]
    counts = _count(marked)
    alphabet = {MARK, *_frequent(counts, settings)}
    rare = "".join(sorted(counts.keys() - alphabet))
    if rare:  # a text is cut at its rare characters, so that no piece is learned across one
        marked = [part for text in marked for part in re.split(f"[{re.escape(rare)}]", text)]
    # The unigram trainer counts a piece of its own, and would prune for ever to make room for it.
    size = _room(settings, at_least=len(alphabet) + (settings.algorithm == "unigram"))
    return train(marked, settings.algorithm, size)


def _bytes(_texts: Iterator[str], _settings: SideSettings) -> tuple[list[str], Learned]:
    return BYTES, {}


_LEARNERS: dict[TokenKind, Callable[[Iterator[str], SideSettings], tuple[list[str], Learned]]] = {
    "characters": _characters,
    "words": _words,
    "subwords": _subwords,
    "bytes": _bytes,
}


def _count(texts: Iterable[Iterable[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return counts


def _frequent(counts: Counter[str], settings: SideSettings) -> dict[str, int]:
    """What occurs `min_count` times or more."""
    if not counts:
        raise TextError("there is no text to learn tokens from", expected="at least one text that is not empty")
    frequent = {piece: count for piece, count in counts.items() if count >= settings.min_count}
    if not frequent:
        most = f"at most {max(counts.values())}, the count of the most frequent"
        raise SettingsError("min_count leaves nothing to learn", got=str(settings.min_count), expected=most)
    return frequent


def _room(settings: SideSettings, *, at_least: int) -> int:
    """How many ordinary pieces the vocabulary may have, or a SettingsError when `at_least` do not fit."""
    specials = len(_specials(settings))
    if settings.vocabulary_size < at_least + specials:
        raise SettingsError(
            "vocabulary_size is too small for these texts",
            got=str(settings.vocabulary_size),
            expected=f"at least {at_least + specials}, of which {specials} are special tokens",
            hint="raise vocabulary_size, or raise min_count so that less has to fit",
        )
    return settings.vocabulary_size - specials


def _specials(settings: SideSettings) -> dict[str, int]:
    """Special tokens come first; bytes carry every text and need no <unk>."""
    parts = [part for part in SPECIALS if part != "unk" or (settings.unknown and settings.kind != "bytes")]
    return {SPECIALS[part][0]: at for at, part in enumerate(parts)}
