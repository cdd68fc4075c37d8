"""What only reads, translates or shows works where PyTorch is not installed; what trains says what to install."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from glassformer.data.datasets import dates
from glassformer.settings import Settings
from glassformer.text import learn_both
from tests import tiny
from tests.cli.conftest import write_csv
from tests.untrained import listening_model

pytestmark = pytest.mark.medium

WITHOUT = "import sys\nsys.modules['torch'] = None\n"
"""No import of torch finds it."""
RUN = """
import contextlib, io, json, traceback
from glassformer.__main__ import main

found = []
for words in json.load(sys.stdin):
    sys.argv = ["glassformer", *words]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        except Exception:
            code = traceback.print_exc() or 1
    out.flush(), err.flush()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    found.append([code, *texts, [name for name, module in sys.modules.items() if module is not None]])
json.dump(found, sys.stdout)
"""


class Done(NamedTuple):
    """What a command left behind, and the modules that were imported until then."""

    code: int
    out: str
    err: str
    modules: list[str]


def run(commands: Iterable[str], names: dict[str, Path], before: str = WITHOUT) -> dict[str, Done]:
    """Commands in one process of their own; `names` are those of files."""
    given = json.dumps([command.format(**names).split() for command in commands])
    program = [sys.executable, "-c", before + RUN]
    process = subprocess.run(program, input=given, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode == 0, process.stderr
    return dict(zip(commands, (Done(*found) for found in json.loads(process.stdout)), strict=True))


USES = (
    "translate {model} {texts}",
    "translate {model} {texts} --beam 3 --nbest 2",
    "translate {model} {texts} --alignments",
    "evaluate {model} {table} --json --report {texts}.html --overwrite",
    "compare {model} {model} {table} --json",
    "score {model} {table}",
)
"""What a trained model is used for; {texts} are lines, {table} has pairs."""


READS = (
    "--version",
    "translate --help",
    "audit {table}",
    "split {table} --out {folder}/parts",
    "info {model}",
    "tokens {model} 1845-01-05",
    "neighbors {model} 1",
    "settings",
)
TRAINS = (
    "train {table} --out run",
    "demo",
    "import folder --out model.safetensors",
)
EXPLAIN = "explain {model} 1845-01-05 --html {folder}/page.html --json"
EXPORTS = {
    form: f"export {{model}} --to {form} --out {{folder}}/{form} --quiet" for form in ("html", "onnx", "ctranslate2")
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that the commands name: one is a model of random weights."""
    folder, pairs = tmp_path_factory.mktemp("folder"), dates(50, seed=3)
    texts = folder / "texts.txt"
    texts.write_text("".join(f"{source}\n" for source, _ in pairs[:5]), encoding="utf-8")
    (folder / "run").mkdir()
    (folder / "run" / "recipe.toml").write_text(Settings().to_toml(), encoding="utf-8")
    (folder / "run" / "history.jsonl").write_text("", encoding="utf-8")
    settings = tiny.settings(model={"d_model": 16, "d_ff": 16}, decoding={"max_new_tokens": 20})
    source, target = learn_both(pairs, settings.tokens)
    listening_model(settings, source, target, 1).save(folder / "model.safetensors")
    table = write_csv(folder / "dates.csv", [("iso", "english"), *pairs])
    return {"model": folder / "model.safetensors", "table": table, "texts": texts, "folder": folder}


@pytest.fixture(scope="module")
def without(names: dict[str, Path]) -> dict[str, Done]:
    """What each command leaves behind where torch is not installed."""
    return run((*READS, *USES, *TRAINS, EXPLAIN, *EXPORTS.values()), names)


def test_what_reads_and_translates_works_without_torch_and_what_trains_says_in_one_message_that_it_is_missing(without):
    for command in (*READS, *USES):
        assert (without[command].code, "Traceback" in without[command].err) == (0, False), without[command].err
    for command in TRAINS:
        message = f"error: glassformer {command.split()[0]} needs the package 'torch', which is not installed\n"
        expected = (1, "", message + "  next: pip install '.[train]' in the folder that has pyproject.toml\n")
        assert without[command][:3] == expected


def test_torch_is_not_imported_where_it_is_installed_nor_what_a_translation_does_not_use(names, tmp_path):
    line = tmp_path / "line.txt"
    line.write_text("1845-01-05", encoding="utf-8")
    uses = ["translate {model} {line}", *(f"{use} --device cpu" for use in USES if "--alignments" not in use)]
    commands = run(uses, names | {"line": line}, before="import sys\n")
    for use, done in commands.items():
        assert (done.code, "torch" in done.modules) == (0, False), (use, done.err)
    others = {"logging", "rich", "sacrebleu", "tomllib", "glassformer.cli.train", "glassformer.data.tables"}
    others |= {f"glassformer.inference.{name}" for name in ("allowed.patterns", "evaluation", "metrics")}
    others |= {"glassformer.storage.hub"}
    first = commands["translate {model} {line}"]
    assert (first.err, others.intersection(first.modules)) == ("", set())


def test_a_translation_is_explained_without_torch(without):
    assert without[EXPLAIN].code == 0, without[EXPLAIN].err
    trace = json.loads(without[EXPLAIN].out)
    assert trace["check"]["passed"] is None
    assert trace["check"]["note"] == "this needs PyTorch (the extra train)"
    assert trace["evidence"]["occlusion"] in trace["tensors"]


@pytest.mark.parametrize("form", EXPORTS)
def test_a_model_is_exported_and_checked_without_torch(form, without, names):
    if form == "html" and shutil.which("node") is None:
        pytest.skip("Node is not here")
    assert without[EXPORTS[form]].code == 0, without[EXPORTS[form]].err
    assert (names["folder"] / form / "check.json").is_file()


def test_a_model_is_served_without_torch_and_names_of_python_that_need_it_say_so(names):
    program = """
import asyncio
import json
import sys
from pathlib import Path

import glassformer.serve.api
from glassformer.serve.bodies import TraceBody, TranslateBody
from glassformer.serve.served import Served

served = Served.load(Path(sys.argv[1]))
(answer,), _ = asyncio.run(served.translate(TranslateBody(texts=["1845-01-05"])))
assert answer.text == json.loads(asyncio.run(served.trace(TraceBody(text="1845-01-05")))[:])["translation"]
for name in ("train", "plan", "Run", "Plan"):
    try:
        getattr(glassformer, name)
    except glassformer.GlassformerError as error:
        print(error.what)
print(glassformer.Translator.__name__, glassformer.explain.__name__, glassformer.evaluate.__name__)
"""
    words = [sys.executable, "-c", WITHOUT + program, str(names["model"])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    missing = "needs the package 'torch', which is not installed"
    lines = [f"glassformer.{name} {missing}" for name in ("train", "plan", "Run", "Plan")]
    assert done.stdout.splitlines() == [*lines, "Translator explain evaluate"], done.stderr
