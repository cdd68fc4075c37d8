"""Findings about the characters of the texts: invisible, of mixed scripts or forms, decoded wrongly, or rare."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from glassformer.before.audit.findings import N_EXAMPLES, Finding, Severity, Side, examples, rows_that
from glassformer.data.cleaning import CONTROL, has_control
from glassformer.data.tables import Table

_REPLACEMENT = "\ufffd"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")

# UTF-8 that was decoded as one of these, and the minimum number of characters in it. In Cyrillic and Greek a lead byte
# and a continuation byte may both become letters of real words ("Её"). In the others two such characters in a row are
# enough, and one if it is common: of Latin-1 or General Punctuation.
_ENCODINGS = (("cp1252", 2), ("mac_roman", 2), ("cp1250", 2), ("cp1251", 3), ("cp1253", 3))
_COMMON = re.compile(r"[\x80-\xff\u2000-\u213f]")
# Decoded as cp1252, a lead byte is Â to ô and a continuation byte one of these; C1 controls are those that it lacks.
_CONTINUATION = (
    "\x80-\xbf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d\u2018\u2019\u201c\u201d"
    "\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178"
)
_DECODED_AS_CP1252 = re.compile(rf"[\xc2-\xdf][{_CONTINUATION}]|[\xe0-\xef][{_CONTINUATION}]{{2}}")

SCRIPTS = frozenset(
    {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "SYRIAC", "DEVANAGARI", "BENGALI", "TAMIL", "TELUGU"}
    | {"KANNADA", "THAI", "GEORGIAN", "ETHIOPIC", "CHEROKEE"}
)
"""Scripts, as in the names of characters, whose letters do not belong in one word with letters of another of them."""
_WORD = re.compile(r"[^\W\d_]+")
A_SYSTEM = 0.05  # minimum fraction of rows with such words where mixing is a system of writing, as in the IPA


def visible(text: str) -> str:
    r"""Return a text with control and invisible characters as escapes: \u200b."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def split_controls(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, each with whether it is a control or invisible character."""
    start = 0
    for found in CONTROL.finditer(text):
        yield text[start : found.start()], False
        yield found[0], True
        start = found.end()
    yield text[start:], False


def looks_misdecoded(text: str) -> bool:
    """Return whether a text has U+FFFD, or UTF-8 that was decoded as cp1252: a fast check for the start of a run."""
    return not text.isascii() and (_REPLACEMENT in text or _restored(text, _ENCODINGS[0]) is not None)


def restored(text: str) -> str | None:
    """Return the text with UTF-8 that was decoded with another encoding decoded again, or None if there is none."""
    if text.isascii():
        return None
    return next((found for encoding in _ENCODINGS if (found := _restored(text, encoding)) is not None), None)


def _restored(text: str, encoding: tuple[str, int]) -> str | None:
    name, minimum = encoding
    if name == "cp1252" and not _DECODED_AS_CP1252.search(text):
        return None
    found = _NOT_ASCII.sub(lambda run: _decoded(run[0], name, minimum), text)
    return None if found == text else found


def _decoded(run: str, name: str, minimum: int) -> str:
    """Return a run of characters decoded as UTF-8, or unchanged where it is not UTF-8 of `minimum` characters."""
    try:
        decoded = b"".join(_byte(character, name) for character in run).decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return run
    return decoded if len(decoded) >= minimum or (minimum == 2 and _COMMON.match(decoded)) else run


@cache
def _byte(character: str, name: str) -> bytes:
    """The byte of a character. Most programs decode a byte that an encoding does not define as a C1 control."""
    return character.encode("latin-1" if "\x80" <= character <= "\x9f" else name)


def find_characters(table: Table, normalization: dict[Side, str], *, trained: bool = True) -> Iterator[Finding]:
    """Yield the findings of this module for both sides of a table.

    `normalization` is that of the tokens. `trained`: it is the table to train on, which options can clean.
    """
    for side in ("source", "target"):
        texts = [getattr(pair, side) for pair in table.pairs]
        yield from _find_control(table, side, texts, trained=trained)
        yield from _find_misdecoded(table, side, texts)
        yield from _find_mixed_scripts(table, side, texts)
        yield from _find_mixed_forms(table, side, texts, normalization[side])


def _find_control(table: Table, side: Side, texts: Sequence[str], *, trained: bool) -> Iterator[Finding]:
    found = [index for index, text in enumerate(texts) if has_control(text)]
    if found:
        counts = Counter(character for index in found for character in CONTROL.findall(texts[index]))
        named = ", ".join(f"{describe(character)} × {count:,}" for character, count in counts.most_common(5))
        yield Finding(
            "control characters",
            "warning",
            table.path,
            side,
            len(found),
            len(texts),
            f"{rows_that('have', len(found), len(texts))} control or invisible characters in the {side}: {named}",
            "each becomes a token that nobody sees: remove it, or replace it by a space",
            "--strip-controls" if trained else None,
            examples(table, found, [_named(CONTROL.findall(texts[index])) for index in found[:N_EXAMPLES]]),
        )


def _find_misdecoded(table: Table, side: Side, texts: Sequence[str]) -> Iterator[Finding]:
    found: list[int] = []
    notes: list[str] = []
    for index, text in enumerate(texts):
        if text.isascii():
            continue
        right = restored(text)
        if right is not None or _REPLACEMENT in text:
            found.append(index)
            if len(notes) < N_EXAMPLES:
                lost = "U+FFFD is where a character was lost"
                notes.append(lost if right is None else f"probably {right[:60]!r}")
    if found:
        yield Finding(
            "wrong decoding",
            "error",
            table.path,
            side,
            len(found),
            len(texts),
            f"{rows_that('have', len(found), len(texts))} a {side} that was decoded with the wrong encoding",
            "create the table again from its origin and read that as UTF-8, or correct these rows",
            None,
            examples(table, found, notes),
        )


def _find_mixed_scripts(table: Table, side: Side, texts: Sequence[str]) -> Iterator[Finding]:
    found: list[int] = []
    notes: list[str] = []
    for index, text in enumerate(texts):
        if text.isascii() or len({script(character) for character in text} - {""}) < 2:
            continue
        word = next((word for word in _WORD.findall(text) if len({script(letter) for letter in word} - {""}) > 1), None)
        if word is not None:
            found.append(index)
            if len(notes) < N_EXAMPLES:
                rarer = Counter(script(letter) for letter in word if script(letter)).most_common()[-1][0]
                odd = dict.fromkeys(letter for letter in word if script(letter) == rarer)
                notes.append(f"{word[:40]!r} has {_named(list(odd))}")
    if found:
        severity: Severity = "info" if len(found) > A_SYSTEM * len(texts) else "warning"
        yield Finding(
            "mixed scripts",
            severity,
            table.path,
            side,
            len(found),
            len(texts),
            f"{rows_that('have', len(found), len(texts))} a word with letters of several scripts in the {side}",
            "a letter that looks like another one is another token: replace it in the table, unless the script mixes "
            "them, as the phonetic alphabet does",
            None,
            examples(table, found, notes),
        )


def _find_mixed_forms(table: Table, side: Side, texts: Sequence[str], normalization: str) -> Iterator[Finding]:
    decomposed = [
        index for index, text in enumerate(texts) if not text.isascii() and not unicodedata.is_normalized("NFC", text)
    ]
    if not decomposed:
        return
    inside = set(decomposed)
    n_composed = sum(
        index not in inside and not text.isascii() and not unicodedata.is_normalized("NFD", text)
        for index, text in enumerate(texts)
    )
    if n_composed:
        is_read_alike = normalization != "none"
        advice = (
            f"nothing: training reads both as the same text (tokens.{side}.normalization is {normalization}). Other "
            "programs may not; write the table in NFC"
            if is_read_alike
            else "the same text has two forms: let training normalize it, or write the table in NFC"
        )
        notes = [_named(_decomposed_in(texts[index])) for index in decomposed[:N_EXAMPLES]]
        yield Finding(
            "mixed Unicode forms",
            "info" if is_read_alike else "warning",
            table.path,
            side,
            len(decomposed),
            len(texts),
            f"{rows_that('have', len(decomposed), len(texts))} a {side} that is not in NFC (composed), and "
            f"{n_composed:,} others have composed characters",
            advice,
            None if is_read_alike else f"--set tokens.{side}.normalization=NFC",
            examples(table, decomposed, notes),
        )


def _decomposed_in(text: str) -> list[str]:
    """Return the characters of a text that NFC changes, or composes with others."""
    composed = set(unicodedata.normalize("NFC", text))
    return list(dict.fromkeys(character for character in text if character not in composed))


def find_rare(
    table: Table,
    counts_of: dict[Side, Counter[str]],
    normalization: dict[Side, str],
    is_character: Callable[[Side], bool],
) -> Iterator[Finding]:
    """Yield a finding for characters that occur once.

    `counts_of` has the count of each character of a side, in the normalization form of its tokens. `is_character`
    returns whether the tokens of a side come from characters, so that `min_count` is about them.
    """
    for side in ("source", "target"):
        rare = {character for character, count in counts_of[side].items() if count == 1}
        if not rare:
            continue
        found: list[int] = []
        notes: list[str] = []
        for index, pair in enumerate(table.pairs):
            text = normalized(getattr(pair, side), normalization[side])
            if not rare.isdisjoint(text):
                found.append(index)
                notes.append(_named([character for character in dict.fromkeys(text) if character in rare]))
                if len(found) == N_EXAMPLES:
                    break
        listed = ", ".join(describe(character) for character in sorted(rare)[:5]) + (", …" if len(rare) > 5 else "")
        yield Finding(
            "rare characters",
            "info",
            table.path,
            side,
            len(rare),
            len(counts_of[side]),
            f"{len(rare):,} of {len(counts_of[side]):,} different characters occur once in the {side}s: {listed}",
            "a model cannot learn a token from one occurrence: correct those that are errors"
            + ("; with a higher min_count rare characters become <unk>" if is_character(side) else ""),
            f"--set tokens.{side}.min_count=2" if is_character(side) else None,
            examples(table, found, notes),
        )


def count_characters(texts: Sequence[str], normalization: str) -> Counter[str]:
    """Return how often each character occurs in the texts, in a normalization form."""
    counts: Counter[str] = Counter()
    for start in range(0, len(texts), 1000):  # joined texts are counted faster, and a part of them needs little memory
        counts.update("".join(normalized(text, normalization) for text in texts[start : start + 1000]))
    return counts


def normalized(text: str, normalization: str) -> str:
    """Return a text in a normalization form of the settings, which include "none"."""
    return text if normalization == "none" else unicodedata.normalize(normalization, text)  # type: ignore[arg-type]


@cache
def script(character: str) -> str:
    """Return the script of a letter if it is one of SCRIPTS, or "". Letters for the IPA and modifiers count as none."""
    if not character.isalpha() or unicodedata.category(character) == "Lm":
        return ""
    name = unicodedata.name(character, "").split(" ", 1)[0]
    return name if name in SCRIPTS else ""


def describe(character: str) -> str:
    """Return a character with its code point and name, escaped where it is not printable."""
    name = unicodedata.name(character, "control character" if unicodedata.category(character) == "Cc" else "")
    shown = f"{character} " if character.isprintable() and not unicodedata.combining(character) else ""
    return f"{shown}U+{ord(character):04X}{f' {name}' if name else ''}"


def _named(characters: Sequence[str]) -> str:
    different = list(dict.fromkeys(characters))
    return ", ".join(map(describe, different[:4])) + (", …" if len(different) > 4 else "")
