"""Findings about characters: invisible, decoded wrongly, or like others; and white space at the ends."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from glassformer.data.cleaning import CONTROL, has_control
from glassformer.data.tables import Table
from glassformer.planning.advise import PROSE_WORDS
from glassformer.planning.audit.findings import Finding, Side, about_rows, texts_of_side
from glassformer.planning.audit.rows import mean_words
from glassformer.settings import SideSettings
from glassformer.text.inputs import texts_of
from glassformer.text.normalization import normalized

_REPLACEMENT = "\ufffd"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_COMMON = re.compile(r"[\x80-\xff\u2000-\u213f]")  # Latin-1 and General Punctuation

# Decoded as cp1252, a lead byte is Â to ô and a continuation byte one of these; cp1252 lacks the C1 controls.
_CONTINUATION = (
    "\x80-\xbf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d\u2018\u2019\u201c\u201d"
    "\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178"
)
_DECODED_AS_CP1252 = re.compile(rf"[\xc2-\xdf][{_CONTINUATION}]|[\xe0-\xef][{_CONTINUATION}]{{2}}")

_ALPHABETS = frozenset({"LATIN", "GREEK", "CYRILLIC"})  # whose letters look alike, as in the names of characters
_WORD = re.compile(r"[^\W\d_]+")
A_SYSTEM = 0.05  # minimum fraction of rows where characters that look alike are a system of writing, as in the IPA
_LOOK_ALIKES = {
    **dict.fromkeys("\u2010\u2012\u2013\u2014\u2015\u2043\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u2032\u02b9\u02bc\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201f\u2033", '"'),
    "\u2044": "/",
    "\u2215": "/",
    "\u201a": ",",
    "\u2236": ":",
    "\u2223": "|",
    "\u223c": "~",
}
"""Punctuation that Unicode does not unite with the character that it looks like."""
_SYMBOLS = dict(zip("g:'?!ǝә∫αεγφυꞵꭓӕ", "ɡːˈʔǃəəʃɑɛɣɸʋβχæ", strict=True))
"""Characters that are typed for a symbol of the IPA, and that symbol. No normalization form unites the two."""
_MARKS = frozenset(":'?!")  # of punctuation, in prose
_GREEK = frozenset("βθχ")  # letters of the IPA
_FORMS = ("<wide>", "<font>", "<noBreak>", "<compat>")  # of decompositions that keep the shape of a character


def find_control(table: Table, side: Side, *, trained: bool) -> Iterator[Finding]:
    """Yield a finding for control and invisible characters. `trained`: in the table to train on, which is cleaned."""
    texts = texts_of_side(table, side)

    def note(row: int) -> str:
        return _named(CONTROL.findall(texts[row]))

    rows = [row for row, text in enumerate(texts) if has_control(text)]
    counts = Counter(character for row in rows for character in CONTROL.findall(texts[row]))
    characters = ", ".join(f"{describe(character)} × {count:,}" for character, count in counts.most_common(5))
    text = f"have control or invisible characters in the {side}: {characters}"
    advice = "each becomes a token that nobody sees: remove it, or replace it by a space"
    option = "--set data.strip_controls=true" if trained else None
    return about_rows("control characters", table, side, rows, text, advice, option, note)


# UTF-8 that was decoded as cp1252 or Latin-1


def find_misdecoded(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for texts that were decoded with the wrong encoding."""
    texts = texts_of_side(table, side)

    def note(row: int) -> str:
        right = restored(texts[row])
        return "U+FFFD is where a character was lost" if right is None else f"probably {right[:60]!r}"

    rows = [row for row, text in enumerate(texts) if _REPLACEMENT in text or restored(text) is not None]
    text = f"have a {side} that was decoded with the wrong encoding"
    advice = "create the table again from its origin and read that as UTF-8, or correct these rows"
    return about_rows("wrong decoding", table, side, rows, text, advice, note=note)


def restored(text: str) -> str | None:
    """Return the text with UTF-8 that was decoded as cp1252 or Latin-1 decoded again, or None if there is none."""
    if text.isascii() or not _DECODED_AS_CP1252.search(text):
        return None
    decoded = _NOT_ASCII.sub(_decoded, text)
    return None if decoded == text else decoded


def _decoded(run: re.Match[str]) -> str:
    """Return a run of characters decoded as UTF-8; unchanged where it is not UTF-8, or is one rare character."""
    try:
        decoded = b"".join(map(_byte, run[0])).decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return run[0]
    return decoded if len(decoded) > 1 or _COMMON.match(decoded) else run[0]


@cache
def _byte(character: str) -> bytes:
    """The byte of a character. Most programs decode a byte that cp1252 does not define as a C1 control."""
    return character.encode("latin-1" if "\x80" <= character <= "\x9f" else "cp1252")


def find_ends(table: Table, side: Side, settings: SideSettings) -> Iterator[Finding]:
    """Yield a finding for texts with white space at their ends, unless the model reads them without it."""
    inputs = table.inputs if side == "source" else ()
    texts = [] if settings.trim else [getattr(pair, side) for pair in table.pairs]
    rows = [row for row, text in enumerate(texts) if any(part != part.strip() for part in texts_of(text, inputs))]
    text = f"have white space at the start or the end of the {side}"
    advice, option = "remove it in the table: to the model it is part of the text", None
    if side == "source":
        advice += "; or let training, and every text that is translated, leave it out"
        option = "--set tokens.source.trim=true"
    kind = "white space at the ends"
    return about_rows(kind, table, side, rows, text, advice, option, lambda row: repr(texts[row])[:60])


# Characters that look like others


def find_look_alikes(table: Table, side: Side, settings: SideSettings) -> Iterator[Finding]:
    """Yield findings for words of two alphabets, and for the less frequent one of two characters that look the same.

    Characters that the normalization unites are one.
    """
    texts = [normalized(text, settings) for text in texts_of_side(table, side, features=False)]
    counts = Counter(chain.from_iterable(texts))
    yield from _find_two_alphabets(table, side, texts)
    if mean_words(texts) < PROSE_WORDS:
        forms = [(character, like) for character in counts if (like := _looks_like(character)) in counts]
        yield from _find_two_forms(table, side, texts, counts, forms, A_SYSTEM)
    yield from _find_two_forms(table, side, texts, counts, _two_forms_of_ipa(texts, counts), 1)


def _find_two_alphabets(table: Table, side: Side, texts: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for words of two alphabets, unless many rows have such words, as in the phonetic alphabet."""
    words = {}
    for row, text in enumerate(texts):
        if not text.isascii() and len(set(map(_alphabet, text)) - {""}) > 1:
            mixed = [word for word in _WORD.findall(text) if len(set(map(_alphabet, word)) - {""}) > 1]
            if mixed:
                words[row] = mixed[0]

    def note(row: int) -> str:
        word, alphabets = words[row], Counter(filter(None, map(_alphabet, words[row]))).most_common()
        return f"{word[:40]!r} has {_named([letter for letter in word if _alphabet(letter) == alphabets[-1][0]])}"

    rows = list(words) if len(words) <= A_SYSTEM * len(texts) else ()
    text = f"have a word with letters of two alphabets in the {side}"
    advice = "a letter that looks like another one is another token: replace it in the table"
    return about_rows("look-alike characters", table, side, rows, text, advice, note=note)


def _find_two_forms(
    table: Table,
    side: Side,
    texts: Sequence[str],
    counts: Mapping[str, int],
    forms: Sequence[tuple[str, str]],
    max_fraction: float,
) -> Iterator[Finding]:
    """Yield a finding for the less frequent ones of two forms, in at most a fraction of the rows."""
    rare = {min(form, key=counts.__getitem__) for form in forms}

    def note(row: int) -> str:
        return _named([character for character in texts[row] if character in rare])

    rows = [row for row, text in enumerate(texts) if not rare.isdisjoint(text)]
    descriptions = [" for ".join(f"{describe(form)} × {counts[form]:,}" for form in pair) for pair in forms[:5]]
    text = f"have the less frequent one of two characters that look the same in the {side}: {'; '.join(descriptions)}"
    advice = "to the model these are other tokens: use one of both in the table, unless both are meant"
    suspects = rows if len(rows) <= max_fraction * len(texts) else ()
    return about_rows("look-alike characters", table, side, suspects, text, advice, note=note)


def _two_forms_of_ipa(texts: Sequence[str], counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the symbols of the IPA that phonetic texts have in two forms: what is typed, and the symbol.

    A Greek or Cyrillic letter is not such a form where there are other letters of its alphabet.
    """
    alphabets = set(map(_alphabet, counts.keys() - _GREEK - _SYMBOLS.keys())) - {"", "LATIN"}
    forms = [
        (typed, symbol)
        for typed, symbol in _SYMBOLS.items()
        if typed in counts and symbol in counts and _alphabet(typed) not in alphabets
    ]
    symbols = set(_SYMBOLS.values())
    is_phonetic = sum(not symbols.isdisjoint(text) for text in texts) > A_SYSTEM * len(texts)
    are_marks = _has_words(texts) and _MARKS.issuperset(typed for typed, _ in forms)
    return forms if is_phonetic and not are_marks else []


def _has_words(texts: Sequence[str]) -> bool:
    """Return whether texts have words, and not symbols with spaces between them: two characters or more on average."""
    sampled = texts[:10_000]
    n_words = sum(len(text.split()) for text in sampled)
    return mean_words(texts) >= PROSE_WORDS and sum(map(len, sampled)) >= 3 * n_words


@cache
def _alphabet(character: str) -> str:
    """Return the name of the alphabet of a letter, one of _ALPHABETS, or "". Modifier letters have none."""
    if not character.isalpha() or unicodedata.category(character) == "Lm":
        return ""
    name = unicodedata.name(character, "").split(" ", 1)[0]
    return name if name in _ALPHABETS else ""


@cache
def _looks_like(character: str) -> str:
    """Return the ASCII character that a character looks like, or the digit that it means, or ""."""
    if character.isascii():
        return ""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    form, *code_points = unicodedata.decomposition(character).split() or [""]
    like = chr(int(code_points[0], 16)) if form in _FORMS and len(code_points) == 1 else ""
    return like if like.isascii() and like else _LOOK_ALIKES.get(like or character, "")


def describe(character: str) -> str:
    """Return a character with its code point and name, escaped where it is not printable."""
    name = unicodedata.name(character, "control character" if unicodedata.category(character) == "Cc" else "")
    shown = f"{character} " if character.isprintable() and not unicodedata.combining(character) else ""
    return f"{shown}U+{ord(character):04X}{f' {name}' if name else ''}"


def _named(characters: Sequence[str]) -> str:
    different = list(dict.fromkeys(characters))
    return ", ".join(map(describe, different[:4])) + (", …" if len(different) > 4 else "")
