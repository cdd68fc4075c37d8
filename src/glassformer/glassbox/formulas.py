"""Formulas in MathML, which browsers draw without a library, from a notation like LaTeX.

Words are between spaces: a number, a letter or name, or a sign. `{…}` is a group; `x_i`, `x^2` and `x_i^2` have an
index and a power (`∑_i` has its index below); `\\frac a b` and `\\sqrt a` take the items after them.
"""

from __future__ import annotations

import re

MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'


def mathml(formula: str) -> str:
    """Return a formula as an element of MathML."""
    return f"{MATH}{_items(re.findall(r'[{}_^]|[^{}_^ ]+', formula)[::-1])}</math>"


def _items(words: list[str]) -> str:
    """Take items up to the end of a group; the next word is the last of the list."""
    items = ""
    while words and words[-1] != "}":
        items += _item(words)
    return items


def _item(words: list[str]) -> str:
    """Take one item, with its index and its power."""
    name, parts = "", [_atom(words)]
    for sign, kind, take in (("_", "sub", _atom), ("^", "sup", _item)):
        if words and words[-1] == sign:
            words.pop()
            name += kind
            parts.append(take(words))
    if not name:
        return parts[0]
    return _element("munder" if parts[0] == "<mo>∑</mo>" else f"m{name}", *parts)


def _atom(words: list[str]) -> str:
    word = words.pop()
    if word == "{":
        group = _element("mrow", _items(words))
        words.pop()  # the brace that ends it
        return group
    if word == r"\frac":
        return _element("mfrac", _item(words), _item(words))
    if word == r"\sqrt":
        return _element("msqrt", _item(words))
    first = word.strip()[0]
    return _element("mn" if word.isdigit() else "mi" if first.isalpha() or first == "⊤" else "mo", word)


def _element(name: str, *parts: str) -> str:
    return f"<{name}>{''.join(parts)}</{name}>"
