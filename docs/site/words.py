"""The words of the site, page by page, against their limit: `python docs/site/words.py`.

They are those of the pages in the navigation that people write: not the reference pages, which are written from the
code, the lessons, which are a course, and the pages that only developers of glassformer need, `more.md` and what it
lists. A word is what is between white space and has a letter or a digit; blocks of code do not count, tables do.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MAX_WORDS = 15_000
NOT_COUNTED = ("reference/", "lessons/", "more")


def listed(page: Path) -> list[str]:
    """Return the names of the pages in the navigation of a page, without their suffix."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    return [re.sub(r"^.*<(.+)>$", r"\1", line) for line in lines]


def source(name: str) -> Path:
    """Return the file of a page: the pages of this folder are at the top of the site."""
    own = HERE / f"{name}.md"
    return own if own.exists() else ROOT / f"{name}.md"


def count(text: str) -> int:
    outside_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return sum(any(map(str.isalnum, piece)) for piece in outside_code.split())


def words() -> dict[str, int]:
    """Return the number of words of each page that counts."""
    names = ["index", *(name for name in listed(HERE / "index.md") if not name.startswith(NOT_COUNTED))]
    return {name: count(source(name).read_text(encoding="utf-8")) for name in names}


def repeated(texts: dict[str, str], length: int = 12) -> list[str]:
    """Return the runs of `length` words that two pages have in common, outside of code and tables."""
    first: dict[tuple[str, ...], str] = {}
    found = []
    for name, text in texts.items():
        prose = re.sub(r"^(```.*?^```|\|.*?|[^\n]*; Python 3[^\n]*)$", "", text, flags=re.MULTILINE | re.DOTALL)
        pieces = [word.lower() for word in re.findall(r"[^\W_]+", prose)]
        runs = zip(*(pieces[i:] for i in range(length)), strict=False)
        found += [f"{name} and {first[run]}: {' '.join(run)}" for run in runs if first.setdefault(run, name) != name]
    return found


if __name__ == "__main__":
    pages = words()
    for name, number in sorted(pages.items(), key=lambda page: -page[1]):
        sys.stdout.write(f"{number:7,} {name}\n")
    sys.stdout.write(f"{sum(pages.values()):7,} of at most {MAX_WORDS:,}\n")
