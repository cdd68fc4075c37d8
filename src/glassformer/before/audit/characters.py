"""Findings about the characters of the texts: invisible, of mixed scripts or forms, decoded wrongly, or rare."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

from glassformer.before.audit.findings import N_EXAMPLES, Example, Finding, Side, about_rows
from glassformer.data.cleaning import CONTROL, has_control
from glassformer.data.tables import Table
from glassformer.paper.settings import SideSettings
from glassformer.text.normalization import normalized

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


def find_characters(table: Table, side: Side, normalization: str, *, trained: bool) -> Iterator[Finding]:
    """Yield the findings about the characters of one side of a table.

    `normalization` is that of the tokens. `trained`: it is the table to train on, which options can clean.
    """
    texts = [getattr(pair, side) for pair in table.pairs]
    yield from _find_control(table, side, texts, trained=trained)
    yield from _find_misdecoded(table, side, texts)
    yield from _find_mixed_scripts(table, side, texts)
    yield from _find_mixed_forms(table, side, texts, normalization)


def _find_control(table: Table, side: Side, texts: Sequence[str], *, trained: bool) -> Iterator[Finding]:
    found = [index for index, text in enumerate(texts) if has_control(text)]
    counts = Counter(character for index in found for character in CONTROL.findall(texts[index]))
    named = ", ".join(f"{describe(character)} × {count:,}" for character, count in counts.most_common(5))
    return about_rows(
        "control characters",
        "warning",
        table,
        side,
        found,
        f"have control or invisible characters in the {side}: {named}",
        "each becomes a token that nobody sees: remove it, or replace it by a space",
        "--set data.strip_controls=true" if trained else None,
        lambda index: _named(CONTROL.findall(texts[index])),
    )


def _find_misdecoded(table: Table, side: Side, texts: Sequence[str]) -> Iterator[Finding]:
    def note(index: int) -> str:
        right = restored(texts[index])
        return "U+FFFD is where a character was lost" if right is None else f"probably {right[:60]!r}"

    return about_rows(
        "wrong decoding",
        "error",
        table,
        side,
        [index for index, text in enumerate(texts) if _REPLACEMENT in text or restored(text) is not None],
        f"have a {side} that was decoded with the wrong encoding",
        "create the table again from its origin and read that as UTF-8, or correct these rows",
        note=note,
    )


def _find_mixed_scripts(table: Table, side: Side, texts: Sequence[str]) -> Iterator[Finding]:
    words = {index: word for index, text in enumerate(texts) if (word := _mixed_word(text)) is not None}

    def note(index: int) -> str:
        scripts = Counter(filter(None, map(script, words[index]))).most_common()
        odd = dict.fromkeys(letter for letter in words[index] if script(letter) == scripts[-1][0])
        return f"{words[index][:40]!r} has {_named(list(odd))}"

    return about_rows(
        "mixed scripts",
        "info" if len(words) > A_SYSTEM * len(texts) else "warning",
        table,
        side,
        list(words),
        f"have a word with letters of several scripts in the {side}",
        "a letter that looks like another one is another token: replace it in the table, unless the script mixes them, "
        "as the phonetic alphabet does",
        note=note,
    )


def _mixed_word(text: str) -> str | None:
    """Return the first word of a text with letters of several scripts, or None."""
    if text.isascii() or len(set(map(script, text)) - {""}) < 2:
        return None
    return next((word for word in _WORD.findall(text) if len(set(map(script, word)) - {""}) > 1), None)


def _find_mixed_forms(table: Table, side: Side, texts: Sequence[str], normalization: str) -> Iterator[Finding]:
    accented = [index for index, text in enumerate(texts) if not text.isascii()]
    decomposed = [index for index in accented if not unicodedata.is_normalized("NFC", texts[index])]
    others = set(accented).difference(decomposed)
    n_composed = sum(not unicodedata.is_normalized("NFD", texts[index]) for index in others)
    advice = "the same text has two forms: let training normalize it, or write the table in NFC"
    if is_read_alike := normalization != "none":
        advice = f"nothing: training reads both as the same text (tokens.{side}.normalization is {normalization}). "
        advice += "Other programs may not; write the table in NFC"
    return about_rows(
        "mixed Unicode forms",
        "info" if is_read_alike else "warning",
        table,
        side,
        decomposed if n_composed else (),
        f"have a {side} that is not in NFC (composed), and {n_composed:,} others have composed characters",
        advice,
        None if is_read_alike else f"--set tokens.{side}.normalization=NFC",
        lambda index: _named(_decomposed_in(texts[index])),
    )


def _decomposed_in(text: str) -> list[str]:
    """Return the characters of a text that NFC changes, or composes with others."""
    composed = set(unicodedata.normalize("NFC", text))
    return list(dict.fromkeys(character for character in text if character not in composed))


def find_rare(table: Table, side: Side, settings: SideSettings) -> Iterator[Finding]:
    """Yield a finding for characters that occur once in one side, normalized as for its tokens."""
    texts = [normalized(getattr(pair, side), settings) for pair in table.pairs]
    counts: Counter[str] = Counter()
    for start in range(0, len(texts), 1000):  # joined texts are counted faster, and a part of them needs little memory
        counts.update("".join(texts[start : start + 1000]))
    rare = {character for character, count in counts.items() if count == 1}
    if not rare:
        return
    found = islice((index for index, text in enumerate(texts) if not rare.isdisjoint(text)), N_EXAMPLES)
    is_character = settings.kind in ("characters", "subwords")  # so that min_count is about them
    listed = ", ".join(map(describe, sorted(rare)[:5])) + (", …" if len(rare) > 5 else "")
    yield Finding(
        "rare characters",
        "info",
        table.path,
        side,
        len(rare),
        len(counts),
        f"{len(rare):,} of {len(counts):,} different characters occur once in the {side}s: {listed}",
        "a model cannot learn a token from one occurrence: correct those that are errors"
        + ("; with a higher min_count rare characters become <unk>" if is_character else ""),
        f"--set tokens.{side}.min_count=2" if is_character else None,
        tuple(Example.of(table, index, _named([one for one in texts[index] if one in rare])) for index in found),
    )


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
