"""The lessons: each notebook is made of its source, runs whole, and prints the numbers that are stored in it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the lessons need the extra `lessons`")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = Path(__file__).parents[1]
LESSONS = ROOT / "lessons"
MAX_BYTES = 400_000
NUMBER = re.compile(r"-?\d+(?:,\d{3})+(?!\d)|-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def load(name: str) -> ModuleType:
    """A module of the folder `lessons`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, LESSONS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the notebooks import `course` by this name
    spec.loader.exec_module(module)
    return module


build, course = load("build"), load("course")
NAMES = [path.stem for path in build.sources()]
TRAINED = {name for name in NAMES if name.partition("-")[0] in {"01", "03", "06", "07", "08", "09"}}
"""The lessons that train a model; their numbers depend on the machine."""


def stored(name: str) -> Any:
    return nbformat.read(LESSONS / f"{name}.ipynb", as_version=4)


def printed(notebook: Any) -> str:
    """All text that the cells print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def run_in_this_process(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """The names that the code of a lesson defines."""
    import matplotlib as mpl

    mpl.use("Agg")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "lesson"}
    for number, cell in enumerate(stored(name).cells):
        if cell["cell_type"] == "code":
            exec(compile(cell["source"], f"{name}, cell {number}", "exec"), names)
    mpl.pyplot.close("all")
    return names


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_made_of_its_source(name: str) -> None:
    notebook = build.convert((LESSONS / f"source/{name}.md").read_text(encoding="utf-8"))
    cells = [[(c["cell_type"], c["source"], c["metadata"]) for c in each.cells] for each in (notebook, stored(name))]
    assert cells[0] == cells[1], f"run `python lessons/build.py {int(name[:2])}`"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_with_its_outputs_and_is_small(name: str) -> None:
    notebook = stored(name)
    assert (LESSONS / f"{name}.ipynb").stat().st_size < MAX_BYTES
    code = [cell for cell in notebook.cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_has_three_to_five_exercises_with_answers_that_were_checked(name: str) -> None:
    text = (LESSONS / f"source/{name}.md").read_text(encoding="utf-8")
    numbers = re.findall(r"^\*\*Exercise (\d)\.\*\*", text, flags=re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert 3 <= len(numbers) <= 5
    for call in ("check", "solve"):
        assert re.findall(rf"exercises\.{call}\((\d),", text) == numbers
    assert text.startswith(f"# Lesson {int(name[:2])}: ")
    assert "assert" in text


def test_every_link_of_a_lesson_has_its_target() -> None:
    for path in (LESSONS / "README.md", *build.sources()):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (LESSONS / target).exists(), f"{path.name} links to {target}"
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", sorted(set(NAMES) - TRAINED))
def test_a_lesson_prints_the_numbers_that_are_stored_in_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_in_this_process(name, monkeypatch, tmp_path)
    before, now = printed(stored(name)), capfd.readouterr().out
    assert NUMBER.sub("#", now) == NUMBER.sub("#", before)
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (now, before)]
    np.testing.assert_allclose(*numbers, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    (tmp_path / "course.py").write_text((LESSONS / "course.py").read_text(encoding="utf-8"), encoding="utf-8")
    notebook = build.convert((LESSONS / f"source/{name}.md").read_text(encoding="utf-8"))
    build.execute(notebook, tmp_path)
    assert printed(notebook).count(": no answer yet.") == len(re.findall(r"exercises\.check\(", str(notebook)))


def test_lesson_2_computes_the_golden_attention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = run_in_this_process("02-one-head", monkeypatch, tmp_path)
    golden = json.loads((ROOT / "tests/golden/attention.json").read_text(encoding="utf-8"))
    np.testing.assert_array_equal([names[x] for x in "QKV"], [golden[x] for x in "qkv"])
    for quantity in ("scores", "scaled", "weights", "output"):
        np.testing.assert_allclose(names[quantity], golden[quantity], atol=1e-7)


def test_outputs_are_kept_where_only_the_text_has_changed() -> None:
    before, after, other = (build.convert(f"{text}\n\n```python\n{code}\n```\n") for text, code in TEXTS_AND_CODES)
    before.cells[1].outputs = [nbformat.v4.new_output("stream", text="2\n")]
    build.keep_outputs(after, before)
    assert printed(after) == "2\n"
    assert after.cells[0].source == "new text"
    with pytest.raises(ValueError, match="build without --text"):
        build.keep_outputs(other, before)


TEXTS_AND_CODES = [("text", "print(2)"), ("new text", "print(2)"), ("text", "print(3)")]


def test_an_answer_is_right_or_wrong_or_not_there_and_an_error_in_it_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exercises = course.Exercises({1: (lambda a: course.close(a, [1.0, 2.0]), "count from 1")})
    for answer, expected in [
        (..., "no answer yet"),
        ([1, 2], "right."),
        ([1, 2, 3], "not yet. Hint: count from 1"),
        ("one", "cannot be checked (ValueError"),
    ]:
        exercises.check(1, answer)
        assert expected in capsys.readouterr().out
    with pytest.raises(AssertionError, match="the answer to exercise 1 is wrong"):
        exercises.solve(1, [1, 3])
    with pytest.raises(AssertionError, match="accepts any answer"):
        course.Exercises({1: (lambda a: True, "")}).solve(1, 1)


@pytest.mark.parametrize("missing", ["matplotlib", "glassformer"])
def test_a_notebook_without_the_extra_shows_one_clear_message(missing: str, tmp_path: Path) -> None:
    (tmp_path / "course.py").write_text((LESSONS / "course.py").read_text(encoding="utf-8"), encoding="utf-8")
    block = f"import sys\nsys.modules[{missing!r}] = None"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (block, "import course")])
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError):
        build.execute(notebook, tmp_path)
    (error,) = notebook.cells[1]["outputs"]
    (message,) = error["traceback"]
    assert message.startswith(f"error: the lessons need the package '{missing}'")
    assert "hint: run `make lessons`" in message
