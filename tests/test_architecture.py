"""The house: which module may import which, where a library may be used, how large the paper may be.

A room is a module or package directly under `glassformer`, or `ship.storage`. Their order is that of `docs/design.md`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from glassformer.ship.export.programs import CUTTER, RUNNERS, SHARED

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "glassformer"

ORDER = (
    *("errors", "paper", "text", "ship.storage", "data", "inference", "training", "glassbox", "before", "ship", "cli"),
    *("__init__", "__main__"),
)
"""A room imports only from rooms before it. Files of models, `ship.storage`, are a room by themselves."""
RANK = {room: rank for rank, room in enumerate(ORDER)}

THIRD_PARTY = {
    "paper": {"jaxtyping", "numpy", "pydantic", "tomli_w", "torch"},
    "text": {"numpy", "pydantic", "sentencepiece", "tokenizers"},
    "ship.storage": {
        *("filelock", "google", "huggingface_hub", "numpy", "pydantic", "safetensors", "sentencepiece", "torch"),
    },
    "data": {"numpy", "pyarrow"},
    "inference": {
        *("jaxtyping", "numpy", "outlines_core", "pyarrow", "pydantic", "ray", "sacrebleu", "sentencex"),
        *("threadpoolctl", "torch"),
    },
    "training": {"jaxtyping", "numpy", "pydantic", "tensorboardX", "torch"},
    "before": {"numpy", "pydantic", "torch"},
    "glassbox": {"numpy", "pydantic", "torch"},
    "ship": {
        *("ctranslate2", "fastapi", "numpy", "onnx", "prometheus_client", "pydantic", "starlette", "torch"),
        *("transformers", "uvicorn"),
    },
    "cli": {"typer", "rich"},
}
OPTIONAL = {
    *("ctranslate2", "google", "huggingface_hub", "outlines_core", "pyarrow", "ray", "sentencepiece"),
    *("sentencex", "tensorboardX", "tokenizers", "transformers"),
}
"""Libraries of extras, which are imported where they are needed and not before."""
PACKAGE_OF = {
    "google": "protobuf",
    "outlines_core": "outlines-core",
    "tomli_w": "tomli-w",
    "starlette": "fastapi",
    "prometheus_client": "prometheus-client",
}
"""Name of an import -> name of the package that is declared, where they differ."""

MAX_VERB_LINES = 40
MAX_PAPER_LINES = 2500
MAX_PATH_LINES = 1740  # from a row of a table to a translation


class Import(NamedTuple):
    """An import of `name` (dotted, absolute) by the file at `path` (relative to the package)."""

    path: Path
    line: int
    name: str
    for_types: bool

    @property
    def room(self) -> str:
        return room_of(self.path.with_suffix("").parts)

    @property
    def imported_room(self) -> str | None:
        """The room of this package that is imported, or None for another package."""
        top, *rest = self.name.split(".")
        if top != "glassformer":
            return None
        return room_of(rest) if rest and room_exists(rest[0]) else "__init__"

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.name}"


def room_of(parts: Sequence[str]) -> str:
    """The room of a module, or of a name in it, by its parts below the package."""
    inner = ".".join(parts[:2])
    return inner if inner in ORDER else parts[0]


def room_exists(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.parent != RUNNERS)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[Import]:
    """All imports of a file, at any depth, those for type checkers only included."""
    tree, here = tree_of(path), path.relative_to(SOURCE)
    nodes = [*ast.walk(tree)]
    guarded = {
        id(statement)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
    }
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{here}:{node.lineno} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (Import(here, node.lineno, name, id(node) in guarded) for name in names)


@cache
def known_modules() -> set[str]:
    """The dotted names of all modules."""
    return {".".join(("glassformer", *path.relative_to(SOURCE).with_suffix("").parts)) for path in files()}


@cache
def all_imports() -> list[Import]:
    return [found for path in files() for found in imports_of(path)]


def third_party() -> list[tuple[Import, str]]:
    ours = {*sys.stdlib_module_names, "glassformer"}
    return [(found, top) for found in all_imports() if (top := found.name.split(".")[0]) not in ours]


def test_every_file_is_in_a_room():
    assert {room_of(path.relative_to(SOURCE).with_suffix("").parts) for path in files()} == set(ORDER)


def test_a_room_imports_only_from_rooms_before_it():
    wrong = [
        str(found)
        for found in all_imports()
        if found.imported_room not in (None, found.room) and RANK[found.imported_room or ""] >= RANK[found.room]
    ]
    assert wrong == []


def test_search_knows_neither_model_nor_settings():
    search = {found.name for found in all_imports() if found.path.parts[:2] == ("paper", "search")}
    ours = {name for name in search if name.startswith("glassformer.")}
    assert {name for name in ours if not name.startswith(("glassformer.errors", "glassformer.paper.search"))} == set()


def test_a_library_is_used_only_where_it_belongs():
    wrong = [str(found) for found, top in third_party() if top not in THIRD_PARTY.get(found.room, set())]
    assert wrong == []


def test_a_runner_imports_only_its_runtime_and_the_files_next_to_it_in_layers():
    allowed = {
        "run": {"engine", "lines"},
        "ctranslate2_engine": {"ctranslate2", "lines", "source"},
        "onnx_engine": {"numpy", "onnxruntime", "lines", "source", "text"},
        "huggingface_engine": {"torch", "transformers", "lines", "source"},
        "lines": {"probability", "source", "text"},
        "source": {"new_strings", "text"},
        "text": {"segmenters"},
        "segmenters": {"tokenizers"},
        "sentencepiece_cut": {"sentencepiece"},
        "probability": set(),
        "new_strings": set(),
    }
    for path in (*sorted(RUNNERS.glob("*.py")), CUTTER, *SHARED):
        names = {found.name.split(".")[0] for found in imports_of(path)}
        assert names - sys.stdlib_module_names <= allowed[path.stem], path


def test_no_permission_outlives_its_use():
    used = {(found.room, top) for found, top in third_party()}
    assert {(room, name) for room, names in THIRD_PARTY.items() for name in names} == used


def test_every_library_is_declared_and_shapes_are_for_type_checkers_only():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    optional = (line for extra in extras.keys() - {"all"} for line in extras[extra])
    declared = {line.split(">=")[0] for line in (*project["dependencies"], *optional)}
    for found, top in third_party():
        assert PACKAGE_OF.get(top, top) in declared or found.for_types, found
        assert found.for_types or top != "jaxtyping", found


def test_an_optional_library_is_imported_where_it_is_needed_and_not_before():
    for path in files():
        at_once = {name.split(".")[0] for name in import_time_names(tree_of(path))}
        assert not at_once & OPTIONAL, path


def import_time_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


WITH_TORCH = (
    *("paper.copying", "paper.kernels", "paper.model", "training", "glassbox.pytorch", "ship.agree"),
    *(f"inference.engines.{name}" for name in ("attention", "tensors", "torch", "torch_cached")),
    *(f"before.{name}" for name in ("checks", "demo", "leaks", "measure", "members", "plan", "resume", "selftest")),
)
"""Modules and packages that may import PyTorch when they are imported. What translates and reads works without it."""


def test_what_needs_no_torch_imports_none():
    modules = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in files() if path.stem != "__main__"]
    without = [name for name in modules if not f"{name}.".startswith(tuple(f"{one}." for one in WITH_TORCH))]
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    program += "    print(name) if 'torch' in sys.modules else None"
    modules = [f"glassformer.{name.removesuffix('.__init__')}" for name in without]
    answer = subprocess.run([sys.executable, "-c", program, *modules], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "helper", "common", "misc"])
def test_no_module_has_a_name_that_says_nothing(name):
    assert [path for path in files() if name in path.with_suffix("").relative_to(SOURCE).parts] == []


def n_lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def test_the_paper_and_the_path_from_a_row_to_a_translation_are_read_in_one_evening():
    assert n_lines((SOURCE / "paper").rglob("*.py")) <= MAX_PAPER_LINES
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    training, translation, _ = re.findall(r"^\| .+ \| `(.+ → .+)` \|$", readme, flags=re.MULTILINE)
    names = {*training.split(" → "), *translation.split(" → ")}
    assert n_lines(SOURCE / f"{name}.py" for name in names) <= MAX_PATH_LINES


def verbs() -> list[Path]:
    """The files of the command line that hold a verb: a function of the same name."""
    return [path for path in (SOURCE / "cli").glob("*.py") if function_of(path, path.stem)]


def function_of(path: Path, name: str) -> ast.FunctionDef | None:
    """The function of this name in a file, if there is one."""
    functions = (node for node in tree_of(path).body if isinstance(node, ast.FunctionDef) and node.name == name)
    return next(functions, None)


def body_length(path: Path, name: str) -> int:
    """The lines of a function from its docstring on: the options of a verb are a list, however long."""
    node = function_of(path, name)
    assert node is not None
    assert node.end_lineno is not None
    return node.end_lineno - node.body[0].lineno + 1


def test_a_verb_is_short_and_imports_no_other_verb():
    assert len(verbs()) == 18
    for path in verbs():
        assert body_length(path, path.stem) <= MAX_VERB_LINES, path
        others = {f"glassformer.cli.{verb.stem}" for verb in verbs() if verb != path}
        assert not others & {name for found in imports_of(path) for name in (found.name, found.name.rpartition(".")[0])}


def modules_imported(path: Path) -> set[str]:
    """The modules of its own room that a file imports, at any depth, those for type checkers only included."""
    room = f"glassformer.{path.relative_to(SOURCE).parts[0]}."
    names = {name for found in imports_of(path) for name in (found.name, found.name.rpartition(".")[0])}
    return {name for name in names & known_modules() if name.startswith(room)}


def test_no_room_has_an_import_circle_inside():
    graph = {
        ".".join(("glassformer", *path.relative_to(SOURCE).with_suffix("").parts)): modules_imported(path)
        for path in files()
        if path.name != "__init__.py"
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


def test_every_module_says_what_it_is():
    assert [path for path in files() if not ast.get_docstring(tree_of(path))] == []


def code_of(path: Path) -> str:
    """A file without its comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


@pytest.mark.parametrize("word", ["device", "autocast", "cpu", "cuda", "bfloat16", "optim", "loss", "tokenizer"])
def test_the_model_is_the_paper_and_knows_no_device_loss_or_tokenizer(word):
    lines = code_of(SOURCE / "paper" / "model.py").lower().splitlines()
    assert [line for line in lines if word in line] == []


def test_only_the_command_line_prints():
    printing = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in files()
        if path.relative_to(SOURCE).parts[0] != "cli"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []
