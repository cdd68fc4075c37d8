"""How text becomes tokens, and tokens become text again.

    learn(texts, settings) ──┐
    ascii68() ───────────────┼──> Tokenizer = SideSettings + Vocabulary + a way of cutting text (`_KINDS`)
    Tokenizer.from_dict() ───┘

A text is brought to its normal form, lower-cased if so set, cut into pieces, and each piece is looked up.
Special tokens live outside of that path: a user's "<eos>" is cut like any other text and never finds the
special one. A tokenizer is saved as settings, pieces and numbers; the rules of cutting are code, and never
come from a file.
"""

from __future__ import annotations

import bisect
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Protocol, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassformer.errors import (
    MissingExtraError,
    ModelFileError,
    SettingsError,
    TextError,
    UsageError,
    nearest,
)
from glassformer.settings import SideSettings, TokenKind

SPECIALS: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "<blank>"),
    "bos": ("<bos>", "<sos>", "<s>", "<start>"),
    "eos": ("<eos>", "</s>", "<end>"),
    "unk": ("<unk>",),
}
"""The part that a special token plays -> the forms in which it may be written, ours first."""

_BATCH = 4096  # texts that are cut at once; it bounds the memory and does not change the result


@final
@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids, and which of them are special. Made by `from_pieces`.

    `pieces[id]` is the written form. Special tokens are included as they were given, at any ids; an ordinary
    piece may be written in the same way as a special one.
    """

    pieces: tuple[str, ...]
    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int | None = None

    @classmethod
    def from_pieces(cls, pieces: Iterable[str], specials: Mapping[str, int]) -> Vocabulary:
        """The special tokens at their ids, and the ordinary `pieces` in order at all the other ids.

        `specials` gives the id of each written form, for instance `{"<pad>": 0, "<sos>": 1, "</s>": 2}`; all
        but <unk> are needed. Raises UsageError for a piece that is there twice and specials that do not fit.
        """
        ordinary = list(pieces)
        repeated = next((piece for piece, count in Counter(ordinary).items() if count > 1), None)
        if repeated is not None:
            raise UsageError("a vocabulary cannot hold a piece twice", got=repr(repeated))
        size = len(ordinary) + len(specials)
        ids = _special_parts(specials, size)
        written, rest = {at: form for form, at in specials.items()}, iter(ordinary)
        placed = tuple(written[at] if at in written else next(rest) for at in range(size))
        return cls(placed, ids["pad"], ids["bos"], ids["eos"], ids.get("unk"))

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens, <unk> among them."""
        ids = (self.pad_id, self.bos_id, self.eos_id, self.unk_id)
        return frozenset(at for at in ids if at is not None)

    @property
    def specials(self) -> dict[str, int]:
        """Written form -> id of the special tokens, by rising id."""
        return {self.pieces[at]: at for at in sorted(self.special_ids)}

    @cached_property
    def ordinary(self) -> dict[str, int]:
        """Piece -> id of all that are not special, by rising id."""
        return {piece: at for at, piece in enumerate(self.pieces) if at not in self.special_ids}

    def lookup(self, piece: str) -> int | None:
        """The id of an ordinary piece, or None; a special token is never found."""
        return self.ordinary.get(piece)


def _special_parts(specials: Mapping[str, int], size: int) -> dict[str, int]:
    """Part -> id of the special tokens in a vocabulary of `size`, or a UsageError for what does not fit."""
    given = ", ".join(specials) or "none"
    parts: dict[str, int] = {}
    for form, at in specials.items():
        part = next((part for part, forms in SPECIALS.items() if form in forms), None)
        if part is None:
            known = [form for forms in SPECIALS.values() for form in forms]
            raise UsageError(f"{form!r} is not a special token", hint=nearest(form, known))
        if part in parts:
            raise UsageError(f"two special tokens stand for {SPECIALS[part][0]}", got=given)
        if not 0 <= at < size:
            raise UsageError(f"the id of {form} lies outside the vocabulary", got=str(at), expected=f"0 to {size - 1}")
        if at in parts.values():
            raise UsageError("two special tokens have the same id", got=str(at))
        parts[part] = at
    for part in ("pad", "bos", "eos"):
        if part not in parts:
            raise UsageError("a special token is missing", got=given, expected=" or ".join(SPECIALS[part]))
    return parts


class _Cutter(Protocol):
    """One way of cutting a text into pieces. What no vocabulary can know comes out as it stands."""

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each text."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each piece begins and ends in the text."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """The text that the pieces make."""
        ...


_Learned = Mapping[str, list[Any]]
"""What is learned beside the pieces: `merges` (pairs of pieces), `scores` (one for each piece) or nothing."""


@final
class _Characters:
    """One Unicode code point is one piece."""

    def __init__(self, pieces: list[str], _learned: _Learned) -> None:
        _check_pieces(pieces, lambda piece: len(piece) == 1, "one character each")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(text) for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces)


@final
class _Words:
    """What stands between white space is one piece; the white space itself is not kept."""

    def __init__(self, pieces: list[str], _learned: _Learned) -> None:
        _check_pieces(pieces, lambda piece: piece.split() == [piece], "words without white space")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [text.split() for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [word.span() for word in re.finditer(r"\S+", text)]

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces)


_BYTES = [chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)]
_BYTE_OF = {piece: byte for byte, piece in enumerate(_BYTES)}


@final
class _Bytes:
    """One byte of the text in UTF-8 is one piece: printable ASCII as it is, the others like `<0xC3>`."""

    def __init__(self, pieces: list[str], _learned: _Learned) -> None:
        if pieces != _BYTES:
            raise _damaged("its pieces are not the 256 bytes", got=f"{len(pieces)} pieces")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [[_BYTES[byte] for byte in text.encode()] for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at, character in enumerate(text) for _ in character.encode()]

    def join(self, pieces: Sequence[str]) -> str:
        return bytes(_BYTE_OF[piece] for piece in pieces).decode(errors="replace")


_MARK = "▁"
# Exchanging the two, instead of writing one as the other, is what keeps a "▁" that the user wrote.
_EXCHANGE = str.maketrans(f" {_MARK}", f"{_MARK} ")
# A piece lies within a word and the space before it, or within a run of anything else, such as punctuation.
_CHUNK = rf"{_MARK}?[\p{{L}}\p{{M}}\p{{N}}]+|{_MARK}?[^{_MARK}\p{{L}}\p{{M}}\p{{N}}]+|{_MARK}"
# The library wants a piece that stands for unknown characters; the empty one collides with no other.
_NO_PIECE = ""


def _mark(text: str) -> str:
    """Spaces as marks, and one mark in front, so that a word is the same at the beginning and further on."""
    return _MARK + text.translate(_EXCHANGE) if text else ""


@final
class _Subwords:
    """Pieces of words, by BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018).

    All characters are kept, white space too. A piece shows a space as "▁", and a "▁" of the text as a space.
    Each unknown character is one unknown piece; with unigram a run of them is.
    """

    def __init__(self, pieces: list[str], learned: _Learned) -> None:
        if _MARK not in pieces:
            raise _damaged(f"its pieces lack {_MARK!r}, which stands for a space")
        models = _library().models
        if "merges" in learned:
            ids = {piece: at for at, piece in enumerate([*pieces, _NO_PIECE])}
            merges = _checked_merges(learned["merges"], ids)
            self._inner = _inner(models.BPE(vocab=ids, merges=merges, unk_token=_NO_PIECE))
        else:
            if len(learned["scores"]) != len(pieces):
                raise _damaged("its scores are not one for each piece", expected=str(len(pieces)))
            scored = [*zip(pieces, learned["scores"], strict=True), (_NO_PIECE, 0.0)]
            self._inner = _inner(models.Unigram(scored, unk_id=len(pieces)))

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        marked = [_mark(text) for text in texts]
        cut = zip(marked, self._inner.encode_batch(marked), strict=True)
        return [[text[start:end] for start, end in encoding.offsets] for text, encoding in cut]

    def spans(self, text: str) -> list[tuple[int, int]]:
        offsets = self._inner.encode(_mark(text)).offsets
        return [(max(start - 1, 0), end - 1) for start, end in offsets]  # the mark in front is not in the text

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).translate(_EXCHANGE).removeprefix(" ")


def _checked_merges(merges: list[list[str]], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    pairs = [(left, right) for left, right in merges]
    for left, right in pairs:
        if not (left and right and left in ids and right in ids and left + right in ids):
            raise _damaged("a merge names a piece that it does not have", got=repr((left, right))[:80])
    if len(set(pairs)) < len(pairs):
        raise _damaged("a merge is there twice")
    return pairs


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("a subword vocabulary", package="tokenizers", extra="subwords") from None
    return tokenizers


def _inner(model: Any) -> Any:
    """The library's tokenizer around a model: no normaliser, no special tokens, our chunks."""
    tokenizers = _library()
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_CHUNK), "isolated")
    return inner


def _learn_characters(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], _Learned]:
    return sorted(_frequent(_count(texts), settings)), {}


def _learn_words(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], _Learned]:
    words = _frequent(_count(text.split() for text in texts), settings)
    room = _room(settings, at_least=1 if settings.unknown else len(words))
    return sorted(words, key=lambda word: (-words[word], word))[:room], {}


def _learn_bytes(_texts: Iterator[str], _settings: SideSettings) -> tuple[list[str], _Learned]:
    return _BYTES, {}


def _learn_subwords(texts: Iterator[str], settings: SideSettings) -> tuple[list[str], _Learned]:
    library = _library()
    marked = [_mark(text) for text in texts]
    counts = _count(marked)
    alphabet = {_MARK, *_frequent(counts, settings)}
    rare = "".join(sorted(counts.keys() - alphabet))
    if rare:  # a text is cut at its rare characters, so that no piece is learned across one
        marked = [part for text in marked for part in re.split(f"[{re.escape(rare)}]", text)]
    # The unigram trainer counts a piece of its own, and would prune for ever to make room for it.
    size = _room(settings, at_least=len(alphabet) + (settings.algorithm == "unigram"))
    if settings.algorithm == "bpe":
        # A pair that is seen once is no pattern.
        trainer = library.trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False)
        inner = _inner(library.models.BPE())
    else:
        trainer = library.trainers.UnigramTrainer(vocab_size=size, show_progress=False)
        inner = _inner(library.models.Unigram())
    inner.train_from_iterator(marked, trainer)
    model = json.loads(inner.to_str())["model"]
    if settings.algorithm == "bpe":
        return sorted(model["vocab"], key=model["vocab"].__getitem__), {"merges": model["merges"]}
    scores = _settled(dict(model["vocab"]))
    return list(scores), {"scores": list(scores.values())}


def _settled(scores: dict[str, float]) -> dict[str, float]:
    """Unigram scores without the traces of chance, falling.

    The library adds numbers up in an order that differs from run to run, which shows in the last digits. In
    such an order, too, it gives the characters that lost their score the lowest one plus 0, 1, 2, … times
    0.0001. So scores are rounded, and all those characters get the lowest.
    """
    lowest = min(scores.values())
    margin = 1e-4 * sum(len(piece) == 1 for piece in scores)
    settled = {
        piece: round(lowest if len(piece) == 1 and score < lowest + margin else score, 6)
        for piece, score in scores.items()
    }
    return dict(sorted(settled.items(), key=lambda item: (-item[1], item[0])))


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
    specials = len(_learned_specials(settings))
    if settings.vocabulary_size < at_least + specials:
        raise SettingsError(
            "vocabulary_size is too small for these texts",
            got=str(settings.vocabulary_size),
            expected=f"at least {at_least + specials}, of which {specials} are special tokens",
            hint="raise vocabulary_size, or raise min_count so that less has to fit",
        )
    return settings.vocabulary_size - specials


def _learned_specials(settings: SideSettings) -> dict[str, int]:
    """Special tokens come first; bytes carry every text and need no <unk>."""
    parts = [part for part in SPECIALS if part != "unk" or (settings.unknown and settings.kind != "bytes")]
    return {SPECIALS[part][0]: at for at, part in enumerate(parts)}


class _Kind(NamedTuple):
    learn: Callable[[Iterator[str], SideSettings], tuple[list[str], _Learned]]
    cutter: Callable[[list[str], _Learned], _Cutter]


_KINDS: dict[TokenKind, _Kind] = {
    "characters": _Kind(_learn_characters, _Characters),
    "words": _Kind(_learn_words, _Words),
    "subwords": _Kind(_learn_subwords, _Subwords),
    "bytes": _Kind(_learn_bytes, _Bytes),
}


def learn(texts: Iterable[str], settings: SideSettings) -> Tokenizer:
    """A tokenizer with a vocabulary from `texts`; the same texts and settings give the same tokenizer.

    Special tokens come first: <pad> 0, <bos> 1, <eos> 2 and, if there is one, <unk> 3. For a shared
    vocabulary give the texts of both sides. Subwords hold the texts in memory; the others read them once.

    Raises TextError when there is nothing to learn from, SettingsError when the vocabulary cannot be as small
    as it is set (it names the smallest possible), MissingExtraError for subwords without their library.
    """
    if settings.preset == "ascii68":
        return _ascii68(settings)
    normal = (_normalise(text, settings, f"text {row}") for row, text in enumerate(texts, start=1))
    pieces, learned = _KINDS[settings.kind].learn(normal, settings)
    return Tokenizer(settings, Vocabulary.from_pieces(pieces, _learned_specials(settings)), learned)


def ascii68() -> Tokenizer:
    """68 characters: digits, capitals, small letters, `-`, `,`, space, <sos>, <eos>, <pad>; no <unk>."""
    return _ascii68(SideSettings.model_validate({"preset": "ascii68"}))


def _ascii68(settings: SideSettings) -> Tokenizer:
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = "0123456789" + letters.upper() + letters + "-, "
    vocabulary = Vocabulary.from_pieces(pieces, {"<sos>": 65, "<eos>": 66, "<pad>": 67})
    return Tokenizer(settings.model_copy(update={"kind": "characters", "unknown": False}), vocabulary, {})


@final
class Tokenizer:
    """Text to ids and back. Made by `learn`, `ascii68` or `from_dict`, and never changed afterwards."""

    def __init__(self, settings: SideSettings, vocabulary: Vocabulary, learned: _Learned) -> None:
        self.settings = settings
        self.vocabulary = vocabulary
        self._learned = learned
        self._cutter = _KINDS[settings.kind].cutter(list(vocabulary.ordinary), learned)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def split(self, text: str) -> list[str]:
        """The text in its normal form as pieces, without special tokens; unknown ones stand as they are."""
        return self._cutter.split([_normalise(text, self.settings)])[0]

    def encode(self, text: str, *, where: str | None = None) -> list[int]:
        """The ids of the text, without <bos> and <eos>.

        What the vocabulary does not have becomes <unk>. Where there is none, a TextError names the first
        such character (or word) and its column, from 1, in the text as given; `where` says where that stands.
        """
        normal = _normalise(text, self.settings, where)
        return self._ids(self._cutter.split([normal])[0], text, where)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, faster. A TextError names the text by its number, from 1."""
        encoded: list[list[int]] = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            names = [f"text {start + number}" for number in range(1, len(batch) + 1)]
            normal = [_normalise(text, self.settings, name) for text, name in zip(batch, names, strict=True)]
            encoded += map(self._ids, self._cutter.split(normal), batch, names)
        return encoded

    def _ids(self, pieces: list[str], text: str, where: str | None) -> list[int]:
        unknown = -1 if self.vocabulary.unk_id is None else self.vocabulary.unk_id
        known = self.vocabulary.ordinary
        ids = [known.get(piece, unknown) for piece in pieces]
        if -1 in ids:
            raise self._unknown_error(text, where)
        return ids

    def frame(self, ids: Sequence[int]) -> list[int]:
        """`<bos> … <eos>` around the ids."""
        return [self.vocabulary.bos_id, *ids, self.vocabulary.eos_id]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without special tokens (also <unk>). Raises TextError for a wrong id."""
        pieces, special = self.vocabulary.pieces, self.vocabulary.special_ids
        return self._cutter.join([pieces[at] for at in self._checked(ids) if at not in special])

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as people read it, special tokens too. Raises TextError for a wrong id."""
        return [self.vocabulary.pieces[at] for at in self._checked(ids)]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        listed = list(ids)
        for at in listed:
            if not 0 <= at < len(self):
                raise TextError(f"there is no token with the id {at}", expected=f"0 to {len(self) - 1}")
        return listed

    def unknown(self, text: str) -> list[str]:
        """The characters (or words) of the text, in its normal form, that the vocabulary lacks, in order."""
        return [piece for piece, _ in self._unknown(_normalise(text, self.settings))]

    def _unknown(self, normal: str) -> list[tuple[str, int]]:
        """Each unknown piece as the text has it, and where it begins."""
        pieces, spans = self._cutter.split([normal])[0], self._cutter.spans(normal)
        return [
            (normal[start:end], start)
            for piece, (start, end) in zip(pieces, spans, strict=True)
            if self.vocabulary.lookup(piece) is None
        ]

    def _unknown_error(self, text: str, where: str | None) -> TextError:
        piece, at = self._unknown(_normal_form(text, self.settings))[0]
        # The column counts in the text as given; the normal form may be longer or shorter.
        ends = range(len(text) + 1)
        column = bisect.bisect(ends, at, key=lambda end: len(_normal_form(text[:end], self.settings)))
        character = f"{piece[0]!r} (U+{ord(piece[0]):04X} {unicodedata.name(piece[0], 'without a name')})"
        named = f"word {piece!r}" if self.settings.kind == "words" else f"character {character}"
        return TextError(
            f"the vocabulary does not have the {named}",
            where=_place(where, column),
            got=repr(text if len(text) <= 60 else text[:60] + "…"),
            hint="leave it out, or train with a vocabulary that has it or an <unk> (the setting 'unknown')",
        )

    def to_dict(self) -> dict[str, Any]:
        """All that makes the tokenizer, fit for JSON.

        `kind`, `settings`, `pieces` (the ordinary ones, by rising id), `specials` (written form -> id), and
        for subwords `merges` (pairs of pieces) or `scores` (one for each ordinary piece).
        """
        return {
            "kind": self.settings.kind,
            "settings": self.settings.model_dump(),
            "pieces": list(self.vocabulary.ordinary),
            "specials": self.vocabulary.specials,
            **self._learned,
        }

    @classmethod
    def from_dict(cls, saved: object) -> Tokenizer:
        """The tokenizer that `to_dict` wrote.

        Nothing in it is trusted: a ModelFileError says what is missing, of a wrong type or contradictory.
        """
        try:
            checked = _Saved.model_validate(saved)
            vocabulary = Vocabulary.from_pieces(checked.pieces, checked.specials)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            at = ".".join(map(str, first["loc"])) or "the whole"
            raise _damaged(f"{at!r} is wrong", got=repr(first["input"])[:80], expected=first["msg"]) from None
        except UsageError as error:
            raise _damaged(error.what, got=error.got, expected=error.expected) from None
        return cls(checked.settings, vocabulary, checked.learned())


class _Saved(BaseModel):
    """The form of a saved tokenizer; what pydantic does not check here, the vocabulary and the cutter do."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: TokenKind
    settings: SideSettings
    pieces: list[Annotated[str, Field(min_length=1)]]
    specials: dict[str, int]
    merges: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    scores: list[Annotated[float, Field(ge=-1e6, le=0)]] | None = None

    def learned(self) -> _Learned:
        """Merges, scores or nothing, as the settings call for; a ModelFileError for anything else."""
        if self.kind != self.settings.kind:
            raise _damaged("its settings are of another kind", got=self.settings.kind, expected=self.kind)
        given = {name: part for name in ("merges", "scores") if (part := getattr(self, name)) is not None}
        wanted = {"bpe": "merges", "unigram": "scores"}[self.settings.algorithm]
        if list(given) != ([wanted] if self.kind == "subwords" else []):
            there = " and ".join(given) or "neither merges nor scores"
            raise _damaged("it does not hold what its kind needs", got=there, expected=wanted)
        return given


def _damaged(what: str, *, got: str | None = None, expected: str | None = None) -> ModelFileError:
    return ModelFileError(f"the tokenizer in the model file is damaged: {what}", got=got, expected=expected)


def _check_pieces(pieces: list[str], fits: Callable[[str], bool], expected: str) -> None:
    for piece in pieces:
        if not fits(piece):
            raise _damaged("a piece does not fit its kind", got=repr(piece)[:80], expected=expected)


def _normalise(text: str, settings: SideSettings, where: str | None = None) -> str:
    """The normal form of the text, or a TextError for half of a surrogate pair, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            "the text holds half of a surrogate pair, which is not a character",
            where=_place(where, error.start + 1),
            got=f"U+{ord(text[error.start]):04X}",
            hint="write the text again as valid UTF-8",
        ) from None
    return _normal_form(text, settings)


def _normal_form(text: str, settings: SideSettings) -> str:
    normal = text if settings.normalization == "none" else unicodedata.normalize(settings.normalization, text)
    return normal.lower() if settings.lowercase else normal


def _place(where: str | None, column: int) -> str:
    return f"{where}, column {column}" if where else f"column {column}"
