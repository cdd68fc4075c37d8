"""The lessons: each notebook is made of its source, runs whole, and prints the numbers that are stored in it."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib.util
import io
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock
from urllib.parse import parse_qs

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from glassformer import ModelSettings, Settings, TokenSettings, explain
from glassformer.paper import reference
from glassformer.storage.modelfile import ModelFile

pytest.importorskip("matplotlib", reason="the lessons need requirements-lessons.txt")
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
TRAINED = {name for name in NAMES if name.partition("-")[0] in {"01", "03", "06", "07", "08", "09", "10"}}
"""The lessons that train a model; their numbers depend on the machine."""


@pytest.fixture(scope="module", autouse=True)
def _no_folders_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jupyter neither reads nor writes settings in the home folder."""
    names = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    with mock.patch.dict(os.environ, {name: str(tmp_path_factory.mktemp(name)) for name in names}):
        yield


def stored(name: str) -> Any:
    return nbformat.read(LESSONS / f"{name}.ipynb", as_version=4)


def printed(notebook: Any) -> str:
    """All text that the cells print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def run_in_this_process(
    name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, before: str | None = None, **typed: str
) -> dict[str, Any]:
    """The names that the code of a lesson defines, or that of its cells before a line of its text.

    `typed` is code that a reader types into the cell for it: attention="…" into the one of "# Your attention …".
    """
    import matplotlib as mpl

    mpl.use("Agg")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "lesson"}
    for number, cell in enumerate(stored(name).cells):
        if before is not None and before in cell["source"].splitlines():
            break
        if cell["cell_type"] == "code":
            empty = re.match(r"# Your (\w+)", cell["source"])
            code = typed.pop(empty[1], "") if empty else cell["source"]
            exec(compile(code, f"{name}, cell {number}", "exec"), names)
    assert not typed
    mpl.pyplot.close("all")
    return names


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict[str, Any], str]]:
    """Give the names that the code of a lesson defines, and what it prints."""

    @functools.cache
    def run(name: str) -> tuple[dict[str, Any], str]:
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
            return run_in_this_process(name, patch, tmp_path_factory.mktemp(name)), out.getvalue()

    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_made_of_its_source(name: str) -> None:
    notebook = build.convert((LESSONS / f"source/{name}.md").read_text(encoding="utf-8"))
    cells = [[(c["cell_type"], c["source"], c["metadata"]) for c in each.cells] for each in (notebook, stored(name))]
    assert cells[0] == cells[1], f"run `python lessons/build.py {int(name[:2])}`"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_small_has_its_outputs_folds_asserts_and_imports_course_first(name: str) -> None:
    """So that `course` can print what is missing."""
    notebook = stored(name)
    assert (LESSONS / f"{name}.ipynb").stat().st_size < MAX_BYTES
    code = [cell for cell in notebook.cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    folded = [cell["source"] for cell in code if "hide-input" in cell["metadata"].get("tags", ())]
    assert any("assert " in source for source in folded)
    assert not [cell["source"] for cell in code if "assert " in cell["source"] and cell["source"] not in folded]
    names = [getattr(node, "module", None) or node.names[0].name for node in ast.parse(code[0]["source"]).body]
    packages = [name.partition(".")[0] for name in names]
    assert next(name for name in packages if name not in sys.stdlib_module_names) == "course"


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_has_three_to_five_exercises_with_answers_that_were_checked(name: str) -> None:
    text = (LESSONS / f"source/{name}.md").read_text(encoding="utf-8")
    numbers = re.findall(r"^\*\*Exercise (\d)\.\*\*", text, flags=re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert 3 <= len(numbers) <= 5
    for call in ("check", "solve"):
        assert re.findall(rf"exercises\.{call}\((\d),", text) == numbers
    assert text.startswith(f"# Lesson {int(name[:2])}: ")


def test_every_link_of_a_lesson_has_its_target() -> None:
    for path in (LESSONS / "README.md", *build.sources()):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (LESSONS / target).exists(), f"{path.name} links to {target}"
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", sorted(set(NAMES) - TRAINED))
def test_a_lesson_prints_the_numbers_that_are_stored_in_it(name: str, ran: Any) -> None:
    before, now = printed(stored(name)), ran(name)[1]
    assert NUMBER.sub("#", now) == NUMBER.sub("#", before)
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (now, before)]
    np.testing.assert_allclose(*numbers, atol=2e-4)


@pytest.mark.lesson
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    shutil.copy(LESSONS / "course.py", tmp_path)
    notebook = build.convert((LESSONS / f"source/{name}.md").read_text(encoding="utf-8"))
    build.execute(notebook, tmp_path)
    assert printed(notebook).count(": no answer yet.") == len(re.findall(r"exercises\.check\(", str(notebook)))


def test_lesson_2_computes_the_golden_attention(ran: Any) -> None:
    names = ran("02-one-head")[0]
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


def said(capsys: pytest.CaptureFixture[str], exercises: Any, number: int, answer: Any) -> str:
    """What the check of an exercise prints."""
    capsys.readouterr()
    exercises.check(number, answer)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (..., "no answer yet. Replace the three dots after `answer =`"),
        ([0.9689, 2], "right."),
        (np.array([[0.96891, 2.0]]), "right."),
        ([0.9689, 3], "not yet.\nHint: the hint\n"),
        ([0.97, 2], "so far right, but give three decimals or more"),
        ([0.9689, 2, 0], "give 2 numbers, not 3 numbers\nHint"),
        ([[0.9689], [2]], "give 2 numbers, not 2 rows of 1 number"),
        (0.9689, "give 2 numbers, not one number"),
        ([[0.9689], [2, 3]], "in rows of the same length"),
        ([float("nan"), 2], "there is a nan"),
        (["cos 0.25", "2"], "give numbers without quotes"),
        ({0.9689, 2}, "give numbers, not {"),
        (len, "give numbers, not the function len"),
    ],
)
def test_the_check_of_numbers_says_in_words_what_is_wrong(
    answer: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exercises = course.Exercises({1: (course.right_numbers([math.cos(0.25), 2]), "the hint")})
    assert message in said(capsys, exercises, 1, answer)


def test_a_comma_in_a_number_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    exercises = course.Exercises({1: (course.right_numbers(524_288), "the hint")})
    assert "give one number, not 2 numbers (write 1072, not 1,072)" in said(capsys, exercises, 1, (524, 288))
    assert said(capsys, exercises, 1, np.int64(524_288)) == "Exercise 1: right.\n"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda p, q: p**q, "right."),
        (lambda p, q: p**q * 1.00001, "right."),
        (lambda p, q: p**q * 1.0005, "double(2, 3) is 8.004, which is not exact enough"),
        (lambda p, q: p * q, "double(2, 3) is 6, which is not right\nHint: the hint\n"),
        (lambda p, q: (p, q), "the result of double(2, 3): give one number, not 2 numbers"),
        (lambda p, q: p**q + float("inf") - float("inf"), "the result of double(2, 3): there is a nan"),
        (lambda p, q: p / 0, "double(2, 3) stops with ZeroDivisionError"),
        (lambda p, q: None, "double(2, 3) returns nothing; is `return` missing?"),
        (8, "give the function itself, without parentheses: answer = double"),
    ],
)
def test_the_check_of_a_function_names_the_call_that_is_wrong(
    answer: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exercises = course.Exercises({1: (course.right_function("double", ((2, 3), 8), ((10, 1), 10)), "the hint")})
    assert message in said(capsys, exercises, 1, answer)


def test_an_answer_that_a_test_cannot_read_is_named_and_the_lessons_own_are_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exercises = course.Exercises({1: (lambda a: a["x"] == 1, "count from 1")})
    assert "cannot be checked: TypeError" in said(capsys, exercises, 1, 3)
    with pytest.raises(AssertionError, match="the answer to exercise 1 is wrong"):
        exercises.solve(1, {"x": 3})
    with pytest.raises(AssertionError, match="accepts any answer"):
        course.Exercises({1: (lambda a: True, "")}).solve(1, 1)


OVERFLOWS = "def softmax(x):\n    return np.exp(x) / np.exp(x).sum(axis=1)\nanswer = softmax"
OUTSIDE = """def layer_norm(x):
    return (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-5)
answer = layer_norm"""
NORM = """def norm(x):
    return [(row - row.mean()) / (row.var() + 1e-5) ** 0.5 for row in x]
answer = norm"""
ENCODE = """def encode(text, ids):
    words = ["<bos>", *text.split(), "<eos>"]
    return np.array([ids.get(word, ids["<unk>"]) for word in words])
answer = encode"""
TYPED = {
    "02-one-head": [
        (2, OVERFLOWS, "my_softmax([[1.0, 2.0], [3.0, 5.0]]) is [["),
        (2, "answer = lambda x: torch.softmax(torch.tensor(x), dim=1)", "right."),
        (3, "answer = lambda n: np.where(np.tri(n) - np.tri(n, k=-2), 0, -np.inf)", "right."),
        (3, "answer = lambda n: np.where(np.tri(n), 0, -np.inf)", "window(4) is"),
    ],
    "04-layer": [
        (2, OUTSIDE, "norm([[0.001, -0.001]]) is"),
        (2, NORM, "right."),
    ],
    "05-text": [
        (2, ENCODE, "right."),
        (2, "answer = lambda text, ids: [0, *(ids.get(word, 2) for word in text.split()), 1]", "encode('cat', "),
        (5, "answer = lambda batch, pad: np.asarray(batch) != 67", "mask([[1, 0, 0], [1, 2, 0]], 0) is"),
    ],
}
"""Answers as a reader types them, and what the check says. Some give another meaning to a name of the lesson."""


@pytest.mark.parametrize("name", TYPED)
def test_answers_typed_into_a_lesson_are_checked(name: str, ran: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = ran(name)[0]
    for number, code, message in TYPED[name]:
        exec(code, names)
        assert message in said(capsys, names["exercises"], number, names["answer"]), code


@pytest.mark.parametrize("name", NAMES)
def test_no_check_uses_a_name_that_the_reader_can_give_another_meaning(name: str) -> None:
    notebook = build.convert((LESSONS / f"source/{name}.md").read_text(encoding="utf-8"))
    (code,) = (cell["source"] for cell in notebook.cells if "exercises = Exercises(" in cell["source"])
    tree = ast.parse(code)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    for each in functions:
        body = each.body if isinstance(each.body, list) else [each.body]
        nodes = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Name)]
        local = {argument.arg for argument in each.args.args} | {n.id for n in nodes if isinstance(n.ctx, ast.Store)}
        free = {node.id for node in nodes} - local - set(dir(builtins)) - {"np", "AnswerError", "as_numbers"}
        assert not free, f"take {', '.join(free)} as the default of a parameter"


@pytest.mark.medium
def test_an_unknown_name_in_a_notebook_says_to_run_the_cells_above(tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    shutil.copy(LESSONS / "course.py", tmp_path)
    cells = [nbformat.v4.new_code_cell(code) for code in ("import course", "exercises.check(1, 2)")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError):
        build.execute(notebook, tmp_path)
    (error,) = notebook.cells[-1]["outputs"]
    message = "\n".join(error["traceback"])
    assert "is not defined" in message
    assert "Menu Run > Run All Above Selected Cell" in message


@pytest.mark.parametrize("missing", ["matplotlib", "glassformer"])
def test_a_notebook_without_the_extra_shows_one_clear_message(missing: str) -> None:
    with mock.patch.dict(sys.modules, {missing: None}), pytest.raises(ImportError) as stopped:
        load("course")
    (message,) = stopped.value._render_traceback_()
    assert message.startswith(f"error: the lessons need the package '{missing}'")
    assert "hint: run `make lessons`" in message


CAPSTONE = "10-your-own"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names of the lesson in which the reader writes a Transformer, before its training."""
    with pytest.MonkeyPatch.context() as patch:
        return run_in_this_process(CAPSTONE, patch, tmp_path_factory.mktemp("own"), before="## 6. Training")


@settings(max_examples=10)
@given(
    *(st.sampled_from((1, 2, 4)), st.sampled_from((2, 4, 6)), st.integers(1, 3)),
    *(st.integers(1, 9), st.integers(0, 3), st.integers(1, 9), st.integers(0, 99)),
)
def test_the_transformer_of_lesson_10_equals_the_reference_in_any_size_and_padding(
    own: dict[str, Any], n_heads: int, d_k: int, n_layers: int, n_source: int, n_pads: int, n_target: int, seed: int
) -> None:
    sizes = {"n_heads": n_heads, "n_encoder_layers": n_layers, "n_decoder_layers": n_layers}
    model = ModelSettings(d_model=n_heads * d_k, d_ff=24, **sizes)
    torch.manual_seed(seed)
    transformer = own["Transformer"](own["V"], model.d_model, 24, n_heads, n_layers)
    weights = course.weights_of(transformer, "", model, own["V"])
    source, target = torch.randint(65, (n_source,)), torch.randint(65, (n_target,))
    padded = torch.cat([source, torch.full((n_pads,), own["PAD"])])
    with torch.inference_mode():
        logits = transformer(padded[None], target[None])[0]
    memory = reference.encode(weights, model, source.numpy())
    expected = reference.project(weights, model, reference.decode(weights, model, target.numpy(), memory))
    np.testing.assert_allclose(logits, expected, atol=1e-5)


UNSCALED = """def attention(query, key, value, visible):
    scores = query @ key.transpose(-2, -1)
    return scores.masked_fill(~visible, -math.inf).softmax(dim=-1) @ value"""


BIAS = "class FeedForward(FeedForward):\n    def __init__(self, a, b):\n        super().__init__(a, b)\n"
BIAS += "        self.w_1 = nn.Linear(a, b, bias=False)"


HALVES = """def sinusoids(length, d_model):
    angle = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angle.sin(), angle.cos()], dim=1)"""


COUNTS_PADS = """def loss(logits, target, smoothing):
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=smoothing)"""


@pytest.mark.parametrize(
    ("piece", "code", "message"),
    [
        ("attention", UNSCALED, "attention gives "),
        ("FeedForward", BIAS, "FeedForward, weight 'w_1.bias': no such weight, expected shape (128,)"),
        ("sinusoids", HALVES, "sinusoids gives "),
        ("loss", COUNTS_PADS, "loss with smoothing 0.0 gives "),
    ],
)
def test_a_check_of_lesson_10_stops_at_a_wrong_piece_and_says_where(
    piece: str, code: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError) as stopped:
        run_in_this_process(CAPSTONE, monkeypatch, tmp_path, before="## 6. Training", **{piece: code})
    shown = "\n".join(stopped.value._render_traceback_())
    assert shown.startswith(f"not yet: {message}")
    assert "\nhint: " in shown


TRAINS = "Now train it on random batches. It takes about half a minute."


@pytest.mark.medium
@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("adam.zero_grad()", "pass"),
        ("target[:, :-1])  # fed", "target[:, 1:])  # fed"),
        ("betas=(0.9, 0.98)", "betas=(0.9, 0.999)"),
        ('group["lr"] = rate(step)', 'group["lr"] = rate(step + 1)'),
    ],
)
def test_the_check_of_training_in_lesson_10_stops_at_a_wrong_loop(
    line: str, wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (code,) = (cell["source"] for cell in stored(CAPSTONE).cells if "\ndef fit(" in cell["source"])
    assert code.count(line) == 1
    with pytest.raises(AssertionError, match="20 updates: loss on held-out dates gives "):
        run_in_this_process(CAPSTONE, monkeypatch, tmp_path, before=TRAINS, batch=code.replace(line, wrong))


def test_the_addresses_of_the_lessons_are_of_panels_and_numbers_of_the_page(own: dict[str, Any]) -> None:
    torch.manual_seed(1)
    tokenizer, tensors = own["tokenizer"], own["Transformer"](own["V"], 64, 128, 4, 1).state_dict()
    tokens = TokenSettings(source=tokenizer.settings, target=tokenizer.settings)
    weights = {name: tensor.numpy() for name, tensor in tensors.items()}
    file = ModelFile(Settings(tokens=tokens, model=own["settings"]), tokenizer, tokenizer.as_target, weights)
    trace = explain(file, "1969-07-20", target="July 20, 1969", evidence=False, num_beams=1, max_new_tokens=13)
    panels = (ROOT / "src/glassformer/glassbox/page/panels/all.js").read_text(encoding="utf-8")
    for path in build.sources():
        text = path.read_text(encoding="utf-8")
        addresses = re.findall(r"`#([a-z]+)(?:\?([^`]+))?`", text)
        assert len(addresses) >= 3, path.name
        for panel, query in addresses:
            assert re.search(rf"^ +{panel}: {{ title: ", panels, re.MULTILINE), panel
            for cell in parse_qs(query).get("cell", ()):
                tensor, _, at = cell.partition("@")
                assert np.ndim(trace.array(tensor)[tuple(map(int, at.split(",")))]) == 0, cell
    named = re.findall(
        r"^\| \d \| (\w+), ([^:|]+):", (LESSONS / "source/09-english-to-dutch.md").read_text("utf-8"), re.M
    )
    assert len(named) >= 5
    for group, title in named:
        (block,) = re.findall(rf"^  {group}: {{\n(.*?)^  }}", panels, re.MULTILINE | re.DOTALL)
        assert f"title: '{title}'" in block
