"""The house: which module may import which, and where a library may be used.

A room is a module or package directly under `glassformer`. Their order is that of `docs/design.md`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from glassformer.export.programs import CUTTER, RUNNERS, SHARED

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "glassformer"

ORDER = (
    *("errors", "settings", "runtime", "paper", "fast", "text", "storage", "data", "inference", "evaluation", "jobs"),
    *("planning", "training", "glassbox", "export", "serve", "cli", "__init__", "__main__"),
)
"""A room imports only from rooms before it."""
RANK = {room: rank for rank, room in enumerate(ORDER)}

THIRD_PARTY = {
    "settings": {"pydantic", "tomli_w"},
    "runtime": {"torch"},
    "paper": {"jaxtyping", "numpy", "torch"},
    "fast": {"jaxtyping", "torch"},
    "text": {"numpy", "pydantic", "sentencepiece", "tokenizers"},
    "storage": {
        *("filelock", "google", "huggingface_hub", "numpy", "pydantic", "safetensors", "sentencepiece", "torch"),
    },
    "data": {"numpy", "pyarrow"},
    "inference": {"jaxtyping", "numpy", "outlines_core", "threadpoolctl", "torch"},
    "evaluation": {"numpy", "sacrebleu"},
    "jobs": {"numpy", "pyarrow", "pydantic", "ray", "sentencex"},
    "planning": {"numpy"},
    "training": {"jaxtyping", "numpy", "tensorboardX", "torch"},
    "glassbox": {"numpy", "pydantic", "torch"},
    "export": {"ctranslate2", "numpy", "onnx", "torch", "transformers"},
    "serve": {"fastapi", "prometheus_client", "pydantic", "starlette", "uvicorn"},
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


class Import(NamedTuple):
    """An import of `name` (dotted, absolute) by the file at `path`: for types only, when that file is imported."""

    path: Path
    line: int
    name: str
    for_types: bool
    at_once: bool

    @property
    def top(self) -> str:
        return self.name.split(".")[0]

    @property
    def room(self) -> str:
        return room_of(module_of(self.path))

    @property
    def module(self) -> str:
        """The module of this package that is imported, whole or a name of it."""
        return self.name if self.name in modules() else self.name.rpartition(".")[0]

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.name}"


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(("glassformer", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def room_of(module: str) -> str:
    """The room of a module, or of a name in it."""
    return f"{module}.__init__".split(".")[1]


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.parent != RUNNERS)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[Import]:
    """All imports of a file, at any depth, those for type checkers only included."""
    tree = tree_of(path)
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
            assert node.level == 0, f"{path}:{node.lineno} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (Import(path, node.lineno, name, id(node) in guarded, node in tree.body) for name in names)


@cache
def modules() -> set[str]:
    return set(map(module_of, files()))


@cache
def all_imports() -> list[Import]:
    return [found for path in files() for found in imports_of(path)]


@cache
def third_party() -> list[Import]:
    return [found for found in all_imports() if found.top not in {*sys.stdlib_module_names, "glassformer"}]


def test_every_file_is_in_a_room_and_says_what_it_is():
    assert set(map(room_of, modules())) == set(ORDER)
    nothing = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [module for module in modules() if nothing & set(module.split("."))] == []
    assert [path for path in files() if not ast.get_docstring(tree_of(path))] == []


def test_a_room_imports_only_from_rooms_before_it():
    ours = [found for found in all_imports() if found.top == "glassformer" and room_of(found.module) != found.room]
    assert [str(found) for found in ours if RANK[room_of(found.module)] > RANK[found.room]] == []


def test_search_knows_neither_model_nor_settings():
    search = {found.name for found in all_imports() if found.path.parent == SOURCE / "paper" / "search"}
    ours = {name for name in search if name.startswith("glassformer.")}
    assert {name for name in ours if not name.startswith(("glassformer.errors", "glassformer.paper.search"))} == set()


def test_a_runner_imports_only_its_runtime_and_the_files_next_to_it_in_layers():
    allowed = {
        "run": {"engine", "lines"},
        "ctranslate2_engine": {"ctranslate2", "lines", "source"},
        "onnx_engine": {"numpy", "onnxruntime", "lines", "source", "text"},
        "lines": {"beam_confidence", "source", "text"},
        "source": {"new_strings", "text"},
        "text": {"segmenters"},
        "segmenters": {"tokenizers"},
        "sentencepiece_cut": {"sentencepiece"},
        "beam_confidence": set(),
        "new_strings": set(),
    }
    for path in (*sorted(RUNNERS.glob("*.py")), CUTTER, *SHARED):
        names = {found.top for found in imports_of(path)}
        assert names - sys.stdlib_module_names <= allowed[path.stem], path


def test_a_library_is_used_only_where_it_belongs_and_no_permission_outlives_its_use():
    used = {(found.room, found.top) for found in third_party()}
    allowed = {(room, name) for room, names in THIRD_PARTY.items() for name in names}
    assert (used - allowed, allowed - used) == (set(), set())


def test_every_library_is_declared_and_shapes_are_for_type_checkers_only():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    optional = (line for extra in extras.keys() - {"all"} for line in extras[extra])
    declared = {line.split(">=")[0] for line in (*project["dependencies"], *optional)}
    for found in third_party():
        assert PACKAGE_OF.get(found.top, found.top) in declared or found.for_types, found
        assert found.for_types or found.top != "jaxtyping", found


def test_an_optional_library_is_imported_where_it_is_needed_and_not_before():
    assert [str(found) for found in third_party() if found.at_once and found.top in OPTIONAL] == []


WITH_TORCH = (
    *("runtime.devices", "runtime.processes", "fast", "paper.copying", "paper.model", "training"),
    *("storage.checkpoints", "storage.weights", "glassbox.pytorch", "export.agreement"),
    *(f"inference.engines.{name}" for name in ("attention", "tensors", "torch", "torch_cached")),
    *(f"planning.{name}" for name in ("demo", "notices", "plan", "resume", "summary")),
)
"""Modules and packages that may import PyTorch when they are imported. What translates and reads works without it."""


def test_what_needs_no_torch_imports_none():
    with_torch = tuple(f"glassformer.{name}." for name in (*WITH_TORCH, "__main__"))
    without = sorted(name for name in modules() if not f"{name}.".startswith(with_torch))
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    program += "    print(name) if 'torch' in sys.modules else None"
    answer = subprocess.run([sys.executable, "-c", program, *without], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


def verbs() -> dict[Path, ast.FunctionDef]:
    """The files of the command line that hold a verb, a function of the same name."""
    found = ((path, node) for path in (SOURCE / "cli").glob("*.py") for node in tree_of(path).body)
    return {path: node for path, node in found if isinstance(node, ast.FunctionDef) and node.name == path.stem}


def test_a_verb_is_short_and_imports_no_other_verb():
    assert len(verbs()) == 17
    for path, verb in verbs().items():
        assert (verb.end_lineno or 0) - verb.body[1].lineno < MAX_VERB_LINES, path  # without its options and help
        assert not {module_of(other) for other in verbs() if other != path} & {one.module for one in imports_of(path)}


def test_no_room_has_an_import_circle_inside():
    inside: dict[str, set[str]] = {module_of(path): set() for path in files() if path.name != "__init__.py"}
    for found in all_imports():
        if (module := module_of(found.path)) in inside and room_of(found.module) == found.room:
            inside[module].add(found.module)
    TopologicalSorter(inside).prepare()  # raises CycleError, with the circle


FOLDERS = ("core", "tokenizer", "model", "views", "story", "panels", "shell", "main")
"""A folder of the page imports only from folders before it."""


def test_a_folder_of_the_page_imports_only_from_folders_before_it():
    page = SOURCE / "glassbox" / "page"
    for path in page.rglob("*.js"):
        folder = path.relative_to(page).with_suffix("").parts[0]
        names = re.findall(r"from 'glassbox/(\w+)", path.read_text(encoding="utf-8"))
        assert [name for name in names if FOLDERS.index(name) > FOLDERS.index(folder)] == [], path


def test_the_model_is_the_paper_and_knows_no_device_loss_or_tokenizer():
    tree = ast.parse((SOURCE / "paper" / "model.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    words = re.compile("device|autocast|cpu|cuda|bfloat16|optim|loss|tokenizer")
    assert words.findall(ast.unparse(tree).lower()) == []
