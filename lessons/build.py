"""Make the notebooks from their sources: `python lessons/build.py [--text] [NUMBER ...]`, from any directory.

A source is a page of Markdown, `source/02-one-head.md`. Its blocks of Python become code cells, all else Markdown
cells. A block that begins with "```python fold" is a code cell that Jupyter shows folded. The code is formatted in the
source; the notebook is executed, and its outputs and pictures are stored in it. With `--text` only the Markdown cells
are made again, and the outputs stay; that is an error where the code has changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
BLOCK = re.compile(r"^```python( fold)?\n(.*?)^```$\n?", flags=re.MULTILINE | re.DOTALL)
TIMEOUT = 3600  # seconds for one cell, and for the start: far above what any needs


def sources() -> list[Path]:
    """The sources, in the order of the lessons."""
    return sorted((HERE / "source").glob("*.md"))


def notebook_of(source: Path) -> Path:
    """The notebook that is made of a source."""
    return HERE / f"{source.stem}.ipynb"


def convert(text: str) -> nbformat.NotebookNode:
    """Return the notebook of a source, without outputs."""
    cells: list[Any] = []
    end = 0
    for block in BLOCK.finditer(text):
        cells += _markdown(text[end : block.start()])
        cell = nbformat.v4.new_code_cell(block[2].strip("\n"))
        if block[1]:
            kind = "check" if "assert " in block[2] or "agree(" in block[2] else "code"
            prompt = {"code_prompt_show": f"Show the {kind}", "code_prompt_hide": f"Hide the {kind}"}  # on the site
            cell.metadata = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"], "mystnb": prompt}
        cells.append(cell)
        end = block.end()
    cells += _markdown(text[end:])
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number:02}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _markdown(text: str) -> list[Any]:
    return [nbformat.v4.new_markdown_cell(text.strip())] if text.strip() else []


def execute(notebook: nbformat.NotebookNode, folder: Path = HERE) -> None:
    """Run all cells in `folder`, and store their outputs. Raises CellExecutionError where one fails."""
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=TIMEOUT, startup_timeout=TIMEOUT, resources=where).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # the version of Python is not the reader's
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if "outputs" in cell:
            cell.outputs = _merged(cell.outputs)


def _merged(outputs: list[Any]) -> list[Any]:
    """Join the pieces in which a stream arrives, which differ from run to run."""
    merged: list[Any] = []
    for output in outputs:
        if merged and output.output_type == merged[-1].output_type == "stream" and output.name == merged[-1].name:
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def _seconds() -> float:
    """Processor time of the kernels that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def keep_outputs(notebook: nbformat.NotebookNode, before: nbformat.NotebookNode) -> None:
    """Take the outputs of an earlier version of a notebook. Raises ValueError where the code is not the same."""
    new, old = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, before))
    if [cell.source for cell in new] != [cell.source for cell in old]:
        raise ValueError("the code has changed: build without --text")
    for cell, same in zip(new, old, strict=True):
        cell.outputs, cell.execution_count = same.outputs, same.execution_count


def main(arguments: list[str]) -> None:
    """Write the notebooks of the lessons whose numbers are given, or of all."""
    numbers = [argument for argument in arguments if argument != "--text"]
    for source in sources():
        if numbers and source.stem.partition("-")[0].lstrip("0") not in numbers:
            continue
        began = _seconds()
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", source], check=True)
        notebook = convert(source.read_text(encoding="utf-8"))
        if "--text" in arguments:
            keep_outputs(notebook, nbformat.read(notebook_of(source), as_version=4))
        else:
            execute(notebook)
        nbformat.write(notebook, notebook_of(source))
        size = notebook_of(source).stat().st_size // 1000
        print(f"{notebook_of(source).name}: {_seconds() - began:.0f} s of processor time, {size} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
