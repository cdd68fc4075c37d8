"""Write the lines of each room into the table of CONTRIBUTING.md: `python docs/lines.py`, from any directory."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS, PAGE = ROOT / "src/glassformer", ROOT / "tests", ROOT / "CONTRIBUTING.md"
BETWEEN = re.compile(r"(?<=<!-- lines -->\n).*?(?=<!-- /lines -->)", re.DOTALL)


def lines(folder: Path, *endings: str) -> int:
    """The lines of all files with these endings in a folder, at any depth."""
    files = (path for path in folder.rglob("*") if path.suffix in endings)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def table() -> str:
    """Return the table: Python (and C), JavaScript and tests of each room, and of all."""
    rooms = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py")))
    rows = [
        (
            f"`{room}`",
            lines(SOURCE / room, ".py", ".c", ".h"),
            lines(SOURCE / room, ".js", ".mjs"),
            lines(TESTS / room, ".py"),
        )
        for room in rooms
    ]
    rows.append(("all", lines(SOURCE, ".py", ".c", ".h"), lines(SOURCE, ".js", ".mjs"), lines(TESTS, ".py")))
    head = "| room | Python, C | JavaScript | tests |\n|---|---:|---:|---:|\n"
    return head + "".join(f"| {' | '.join([name, *(f'{n:,}' for n in numbers)])} |\n" for name, *numbers in rows)


if __name__ == "__main__":
    PAGE.write_text(BETWEEN.sub(table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
