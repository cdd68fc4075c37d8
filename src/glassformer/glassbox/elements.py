"""Elements of a page: a tree whose texts are escaped when it is written."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from glassformer.data.cleaning import CONTROL
from glassformer.text.inputs import UNIT_SEPARATOR


def element(tag: str, *parts: Element | str | dict[str, str], **attributes: str) -> Element:
    """Return an element with these texts and elements in it; a dict has attributes that are no names in Python."""
    made = Element(tag, attributes)
    last: Element | None = None
    for part in parts:
        if isinstance(part, dict):
            made.attrib |= part
        elif isinstance(part, str):
            text = part if tag == "style" else visible(part)
            if last is None:
                made.text = (made.text or "") + text
            else:
                last.tail = (last.tail or "") + text
        else:
            made.append(part)
            last = part
    return made


def visible(text: str) -> str:
    r"""Return a text with control and invisible characters, and lone surrogates, as escapes: \u200b."""
    shown = CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace(UNIT_SEPARATOR, " · "))
    return shown.encode("utf-8", "backslashreplace").decode()


def bdi(text: str) -> Element:
    """Return a text of the data, which may run from right to left."""
    return element("bdi", text) if text else element("small", "(empty)")


def token_of(token: str) -> Element:
    return element("bdi", token if token.strip() else token.replace(" ", "␣"), {"class": "token"})
