"""The documentation as a site: `python docs/site/build.py`, or `make docs`. It opens from build/site/index.html.

The pages of `docs/`, the lessons and the files next to README are copied into build/site-source with the same layout,
so that their links stay true. The reference pages are written from the code, and the report of a translation is that
of a model that is trained here, once. Sphinx makes the site; a warning, or a link without a target, is an error.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from pathlib import Path

import links
import reference
import search
import words

from glassformer import explain, train
from glassformer.data.datasets import dates
from glassformer.glassbox.report import write_report
from glassformer.planning.recipes import find_recipe
from glassformer.planning.recipes.overrides import merge, read_recipe

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build"
SOURCE, SITE, MODEL = BUILD / "site-source", BUILD / "site", BUILD / "site-model"
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
PANELS = ROOT / "src/glassformer/glassbox/page/panels"
REPORT = "live/report.html"
TEXT, TARGET = "1969-07-20", "July 20, 1969"
# Half of the recipe's steps: every held-out date is right.
SHORTER = {"training": {"steps": 800, "warmup_steps": 80, "validate_every": 200}}


def gather() -> None:
    """Write the source of the site: copies, the reference pages, and the report."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE / "docs", ignore=shutil.ignore_patterns("site", "*.py", "__pycache__"))
    (SOURCE / "lessons").mkdir()
    for path in (*(ROOT / "lessons").glob("*.ipynb"), *(ROOT / "lessons").glob("*.md")):
        shutil.copy2(path, SOURCE / "lessons")
    for path in (SOURCE / "lessons").glob("*.ipynb"):
        path.write_text(linked_numbers(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in (*(ROOT / name for name in PAGES), *HERE.glob("*.md")):
        shutil.copy2(path, SOURCE)
    lessons = "\n".join(f"/lessons/{path.stem}" for path in sorted((SOURCE / "lessons").glob("*.ipynb")))
    with (SOURCE / "lessons/README.md").open("a", encoding="utf-8") as page:
        page.write(f"\n```{{toctree}}\n:hidden:\n\n{lessons}\n```\n")
    for path in SOURCE.rglob("*.md"):
        path.write_text(adapted(path.read_text(encoding="utf-8"), path), encoding="utf-8")
    (SOURCE / "reference").mkdir()
    for name in ("settings", "commands", "python"):
        page = getattr(reference, f"{name}_page")()
        (SOURCE / f"reference/{name}.md").write_text(page, encoding="utf-8")
    search.prepare(SOURCE, words.listed(HERE / "more.md"))


def adapted(text: str, page: Path) -> str:
    """Return a page for the site: links to the source of a lesson go to the lesson.

    The page of the paper has links to functions, panels and lessons.
    """
    text = re.sub(r"(lessons/)source/([\w-]+)\.md\b", r"\1\2.ipynb", text)
    return linked_paper(text) if page.name == "paper.md" else text


def linked_numbers(notebook: str) -> str:
    """Return a notebook in which the addresses of numbers are links to the report, but for another model's page."""

    def link(found: re.Match[str]) -> str:
        address = html.escape(found[1])
        return json.dumps(f'<a href="../{REPORT}{address}"><code>{address}</code></a>')[1:-1]

    return notebook if "dutch.html" in notebook else re.sub(r"`(#[a-z]+(?:\?[^`]+)?)`", link, notebook)


def linked_paper(text: str) -> str:
    """Return the page of the paper with links to the functions, in the Python reference, and to the panels."""
    listed = re.findall(r"(\w+): \{ title: '([^']+)'", (PANELS / "all.js").read_text(encoding="utf-8"))
    panels = {title: key for key, title in listed} | {"Add & norm": "norm", "Embedding": "embedding"}
    any_panel = "|".join(map(re.escape, sorted(panels, key=len, reverse=True)))
    lessons = {path.stem[:2].lstrip("0"): path.stem for path in (SOURCE / "lessons").glob("*.ipynb")}
    modules = {2: "glassformer.paper.model", 3: "glassformer.paper.reference"}  # by column
    known = {module: reference.documented(module) for module in modules.values()}

    def lesson(number: str) -> str:
        return f"[{number}](../lessons/{lessons[number]}.ipynb)" if number in lessons else number

    def linked(row: re.Match[str]) -> str:
        cells = row[0].strip("|").split("|")
        for column, module in modules.items():
            for name in known[module]:
                cells[column] = cells[column].replace(f"`{name}`", f"{{py:obj}}`~{module}.{name}`")
        cells[4] = re.sub(any_panel, lambda found: f'<a href="../{REPORT}#{panels[found[0]]}">{found[0]}</a>', cells[4])
        cells[5] = re.sub(r"\d", lambda found: lesson(found[0]), cells[5])
        return f"|{'|'.join(cells)}|"

    head, rest = text.split("\n\n## Departures", 1)
    return re.sub(r"^\| \d.*\|$", linked, head, flags=re.MULTILINE) + "\n\n## Departures" + rest


def trained() -> Path:
    """Train the model of the report, with 18,000 parameters, unless it is there."""
    run, done = MODEL / "run", MODEL / "done"
    if not done.is_file():  # a run that was interrupted has a model, too
        MODEL.mkdir(parents=True, exist_ok=True)
        lines = (f"{source}\t{target}" for source, target in dates(10_000, seed=1)[:9_000])
        (MODEL / "dates.tsv").write_text("\n".join(("iso\tenglish", *lines)) + "\n", encoding="utf-8")
        settings = merge(read_recipe(find_recipe("lessons/dates")), SHORTER)
        train(MODEL / "dates.tsv", None, run, overrides=settings, overwrite=run.exists()).finish()
        done.touch()
    return run


def build() -> list[str]:
    """Build the site, and return what is wrong with it."""
    from sphinx.cmd.build import main as sphinx

    gather()
    shutil.rmtree(SITE, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-n", "-b", "html", "-c", str(HERE), "-d", str(BUILD / "site-doctrees")]
    if sphinx([*options, str(SOURCE), str(SITE)]) != 0:
        return ["Sphinx has warnings"]
    (SITE / REPORT).parent.mkdir()
    write_report(explain(trained(), TEXT, target=TARGET, weights=True, history=True), SITE / REPORT)
    return links.broken_links(SITE, skip=frozenset({"live", "_modules"}))


if __name__ == "__main__":
    wrong = build()
    sys.exit("\n".join(wrong) or None)
