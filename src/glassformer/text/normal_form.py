"""The form in which a text is cut, and where things stand in the text as it was given."""

from __future__ import annotations

import bisect
import unicodedata

from glassformer.errors import TextError
from glassformer.settings import SideSettings


def normalise(text: str, settings: SideSettings, where: str | None = None) -> str:
    """The text in its Unicode normal form, lower-cased if so set.

    Raises TextError for half of a surrogate pair, which UTF-8 cannot hold; `where` says where the text stands.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            "the text holds half of a surrogate pair, which is not a character",
            where=place(where, error.start + 1),
            got=f"U+{ord(text[error.start]):04X}",
            hint="write the text again as valid UTF-8",
        ) from None
    return _normal_form(text, settings)


def given_column(text: str, at: int, settings: SideSettings) -> int:
    """The column, from 1, in the text as given, of what stands at `at`, from 0, in its normal form."""
    ends = range(len(text) + 1)  # a prefix in its normal form may be longer or shorter than as given
    return bisect.bisect(ends, at, key=lambda end: len(_normal_form(text[:end], settings)))


def place(where: str | None, column: int) -> str:
    """A column of what is named `where`, in words."""
    return f"{where}, column {column}" if where else f"column {column}"


def _normal_form(text: str, settings: SideSettings) -> str:
    normal = text if settings.normalization == "none" else unicodedata.normalize(settings.normalization, text)
    return normal.lower() if settings.lowercase else normal
