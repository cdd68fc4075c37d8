"""Findings about texts that look the same: white space at the ends, characters and symbols that look alike, digits."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from glassformer.before.advise import PROSE_WORDS
from glassformer.before.audit.characters import A_SYSTEM, describe, script
from glassformer.before.audit.findings import Finding, Kind, Side, about_rows
from glassformer.before.audit.pairs import mean_words
from glassformer.data.tables import Table
from glassformer.paper.settings import SideSettings
from glassformer.text.inputs import texts_of

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


def find_ends(table: Table, side: Side, settings: SideSettings, *, trained: bool) -> Iterator[Finding]:
    """Yield a finding for texts with white space at their ends."""
    inputs = table.inputs if side == "source" else ()
    texts = [getattr(pair, side) for pair in table.pairs]
    advice = "remove it in the table: to the model it is part of the text"
    if settings.trim:
        advice = f"nothing: the model reads a {side} without it (tokens.{side}.trim is true)"
    elif side == "source":
        advice += "; or let training, and every text that is translated, leave it out"
    return about_rows(
        "white space at the ends",
        "info" if settings.trim else "warning",
        table,
        side,
        [row for row, text in enumerate(texts) if any(part != part.strip() for part in texts_of(text, inputs))],
        f"have white space at the start or the end of the {side}",
        advice,
        f"--set tokens.{side}.trim=true" if trained and side == "source" and not settings.trim else None,
        lambda row: repr(texts[row])[:60],
    )


def find_look_alikes(table: Table, side: Side, settings: SideSettings, *, trained: bool) -> Iterator[Finding]:
    """Yield the findings about characters that look like others, and about digits other than 0 to 9."""
    texts = [getattr(pair, side) for pair in table.pairs]
    alphabet = set().union(*texts)
    is_prose = mean_words(texts) >= PROSE_WORDS

    def find(kind: Kind, what: str, plain_of: Callable[[str], str]) -> Iterator[Finding]:
        plain = {character: like for character in sorted(alphabet) if (like := plain_of(character))}
        if not plain:
            return
        in_text = {row: hits for row, text in enumerate(texts) if (hits := [one for one in text if one in plain])}
        counts = Counter(chain.from_iterable(in_text.values()))
        named = [f"{describe(one)} (for {plain[one]!r}) × {count:,}" for one, count in counts.most_common(5)]
        has_both = not alphabet.isdisjoint(plain.values())
        is_odd = has_both and not is_prose and len(in_text) <= A_SYSTEM * len(texts)
        united = [one for one in plain if unicodedata.normalize("NFKC", one) == plain[one]]
        is_read_alike = settings.normalization == "NFKC" and len(united) == len(plain)
        helps = trained and side == "source" and bool(united) and settings.normalization != "NFKC"
        yield from about_rows(
            kind,
            "warning" if is_odd and not is_read_alike else "info",
            table,
            side,
            list(in_text),
            f"have {what} in the {side}: {', '.join(named)}" + (", …" if len(plain) > len(named) else ""),
            _advice(side, plain, united, settings, helps=helps),
            f"--set tokens.{side}.normalization=NFKC" if helps else None,
            lambda row: ", ".join(
                f"{describe(one)} for {plain[one]!r}" for one in list(dict.fromkeys(in_text[row]))[:3]
            ),
        )

    yield from find("look-alike characters", "characters that look like others", _looks_like)
    yield from find("other digits", "digits other than 0 to 9", _digit)


def find_two_forms(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for symbols of the IPA that a side has in two forms, such as U+0261 and g.

    A Greek or Cyrillic letter is not such a form in a side that has other letters of its script.
    """
    texts = [getattr(pair, side) for pair in table.pairs]
    alphabet = set().union(*texts)
    scripts = set(map(script, alphabet.difference(_GREEK, _SYMBOLS))) - {"", "LATIN"}
    forms = [
        (typed, symbol)
        for typed, symbol in _SYMBOLS.items()
        if alphabet.issuperset((symbol, typed)) and script(typed) not in scripts
    ]
    counts = {one: sum(text.count(one) for text in texts) for one in chain.from_iterable(forms)}
    rare, symbols = {min(form, key=counts.__getitem__) for form in forms}, set(_SYMBOLS.values())
    found = [row for row, text in enumerate(texts) if not rare.isdisjoint(text)]
    is_phonetic = sum(not symbols.isdisjoint(text) for text in texts) > A_SYSTEM * len(texts)
    is_odd = is_phonetic and not (_is_prose(texts) and _MARKS.issuperset(typed for typed, _ in forms))
    named = (f"{_times(typed, counts)} for {_times(symbol, counts)}" for typed, symbol in forms)
    return about_rows(
        "look-alike characters",
        "warning" if is_odd else "info",
        table,
        side,
        found,
        f"have the less frequent form of a symbol of the IPA in the {side}: {'; '.join(named)}",
        "to the model these are other tokens, and no normalization unites them: use one form of each symbol in the "
        "table, unless both are meant",
        note=lambda row: ", ".join(map(describe, sorted(rare.intersection(texts[row])))),
    )


def _is_prose(texts: Sequence[str]) -> bool:
    """Return whether texts have words, and not symbols with spaces between them: two characters or more on average."""
    sampled = texts[:10_000]
    n_words = sum(len(text.split()) for text in sampled)
    return mean_words(texts) >= PROSE_WORDS and sum(map(len, sampled)) >= 3 * n_words


def _times(character: str, counts: Mapping[str, int]) -> str:
    return f"{describe(character)} × {counts[character]:,}"


def _advice(side: Side, plain: dict[str, str], united: Sequence[str], settings: SideSettings, *, helps: bool) -> str:
    others = [one for one in plain if one not in united]
    if settings.normalization == "NFKC" and not others:
        return f"nothing: training reads both as one (tokens.{side}.normalization is NFKC)"
    advice = "to the model these are other tokens: replace them in the table, if they are not meant"
    if not helps:
        return advice
    rest = f", but not {', '.join(others[:5])}{', …' if len(others) > 5 else ''}" if others else ""
    return f"{advice}; or let NFKC unite them in training and in every text that is translated{rest}"


@cache
def _digit(character: str) -> str:
    """Return the digit from 0 to 9 for another one, or ""."""
    return "" if character.isascii() or not character.isdecimal() else str(unicodedata.decimal(character))


@cache
def _looks_like(character: str) -> str:
    """Return the character of ASCII that another one looks like, or ""; digits have a finding of their own."""
    if character.isascii() or character.isdecimal():
        return ""
    form, *others = unicodedata.decomposition(character).split() or [""]
    like = chr(int(others[0], 16)) if form in _FORMS and len(others) == 1 else ""
    return like if like.isascii() and like else _LOOK_ALIKES.get(like or character, "")
