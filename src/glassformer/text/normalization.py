"""Normalization of a text before it is split, and the column of a character in the original text."""

from __future__ import annotations

import bisect
import unicodedata

from glassformer.errors import TextError
from glassformer.settings import SideSettings
from glassformer.text.inputs import Cells, Source


def normalize(text: str, settings: SideSettings, where: str | None = None) -> str:
    """Return the text in the Unicode normalization form of the settings: with `lowercase` in lower case, with `trim`
    without white space at its ends.

    Raises TextError for a lone surrogate, which UTF-8 cannot encode. `where` names the text in the error.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            "the text contains a lone surrogate, which is not a character",
            where=location(where, error.start + 1),
            got=f"U+{ord(text[error.start]):04X}",
            hint="save the text as valid UTF-8",
        ) from None
    return normalized(text, settings)


def nfc(text: str) -> str:
    """Return a text in the form in which texts are compared."""
    return unicodedata.normalize("NFC", text)


def nfc_source(source: Source) -> Source:
    """Return a source in the form in which sources are compared."""
    return nfc(source) if isinstance(source, str) else Cells(map(nfc, source))


def original_column(text: str, index: int, settings: SideSettings) -> int:
    """Return the column (from 1) in `text` of the character at `index` (from 0) in the normalized text."""
    ends = range(len(text) + 1)  # a normalized prefix may be longer or shorter than the original
    return bisect.bisect(ends, index, key=lambda end: len(normalized(text[:end] + ".", settings)) - 1)


def location(where: str | None, column: int) -> str:
    """Return a column of the text named `where`, for an error message."""
    return f"{where}, column {column}" if where else f"column {column}"


def normalized(text: str, settings: SideSettings) -> str:
    """Return the text as `normalize` does, lone surrogates included."""
    text = text.strip() if settings.trim else text
    text = text if settings.normalization == "none" else unicodedata.normalize(settings.normalization, text)
    return text.lower() if settings.lowercase else text
