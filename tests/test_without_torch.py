"""What only reads, translates or shows works where PyTorch is not installed; what trains says what to install."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.data.datasets import dates
from glassformer.paper.settings import DecodingSettings, ModelSettings, Settings, SideSettings
from glassformer.text import learn
from tests.untrained import listening_model

WITHOUT = "import sys\nsys.modules['torch'] = None\n"
"""No import of torch finds it."""
RUN = "from glassformer.__main__ import main\nmain()\n"


def run(*words: object, before: str = WITHOUT) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own."""
    program = [sys.executable, "-c", before + RUN, *map(str, words)]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "dates.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("iso", "english"), *dates(50, seed=3)])
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights."""
    sides = zip(*dates(50, seed=3), strict=True)
    source, target = (learn(texts, SideSettings(kind="characters")) for texts in sides)
    shape = ModelSettings(
        d_model=16, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none"
    )
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    listening_model(Settings(model=shape, decoding=DecodingSettings(max_new_tokens=20)), source, target, 1).save(path)
    return path


def test_tables_and_models_are_read_without_torch(table, model, tmp_path):
    commands = (
        ("--version",),
        ("translate", "--help"),
        ("audit", table),
        ("split", table, "--out", tmp_path / "parts"),
        ("info", model),
        ("tokens", model, "1845-01-05"),
        ("neighbors", model, "1"),
        ("settings",),
        ("runs", tmp_path),
    )
    for words in commands:
        done = run(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (words, done.stderr)


USES = (
    "translate {model} {texts}",
    "translate {model} {texts} --beam 3 --nbest 2 --rivals 2",
    "translate {model} {texts} --alignments --to tsv",
    "translate {model} {texts} --choose mbr --nbest 4",
    "evaluate {model} {table} --json --report {texts}.html --overwrite",
    "compare {model} {model} {table} --json",
    "score {model} {table}",
    "heads {model} {table} --json",
)
"""What a trained model is used for; {texts} are lines, {table} has pairs."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("".join(f"{source}\n" for source, _ in dates(5, seed=3)), encoding="utf-8")
    return path


@pytest.mark.parametrize("use", USES)
def test_a_model_gives_the_same_answers_with_and_without_torch(use, model, texts, table):
    words = use.format(model=model, texts=texts, table=table).split()
    without, beside = run(*words), run(*words, before="")
    assert without.returncode == 0, without.stderr
    timed = re.compile(r'"seconds": [0-9.e-]+')
    assert timed.sub("", without.stdout) == timed.sub("", beside.stdout) != ""


@pytest.mark.parametrize("use", [use for use in USES if "--alignments" not in use])
def test_torch_is_not_imported_where_it_is_installed(use, model, texts, table):
    counts = "import atexit, sys\natexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
    done = run(*use.format(model=model, texts=texts, table=table).split(), "--device", "cpu", before=counts)
    assert (done.returncode, done.stderr.split()[-1]) == (0, "False"), done.stderr


def test_a_translation_is_explained_without_torch(model, tmp_path):
    done = run("explain", model, "1845-01-05", "--html", tmp_path / "page.html", "--json")
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout)
    (compared,) = (check for check in trace["checks"] if check["kind"] == "pytorch")
    assert compared["passed"] is None
    assert compared["note"] == "this needs PyTorch: pip install 'glassformer[train]'"
    assert all(check["passed"] for check in trace["checks"] if check != compared)
    assert trace["evidence"]["gradient"] not in trace["tensors"]
    assert trace["evidence"]["occlusion"] in trace["tensors"]


def test_a_model_is_served_without_torch(model):
    program = """
import asyncio
import sys
from pathlib import Path

import glassformer.ship.server.api
from glassformer.ship.server.bodies import TraceBody, TranslateBody
from glassformer.ship.server.served import Served

served = Served.load(Path(sys.argv[1]))
(answer,) = asyncio.run(served.translate(TranslateBody(texts=["1845-01-05"])))
print(answer.text == asyncio.run(served.trace(TraceBody(text="1845-01-05"))).translation)
"""
    words = [sys.executable, "-c", WITHOUT + program, str(model)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("form", ["html", "onnx", "ctranslate2"])
def test_a_model_is_exported_and_checked_without_torch(form, model, tmp_path):
    if form == "html" and shutil.which("node") is None:
        pytest.skip("Node is not here")
    done = run("export", model, "--to", form, "--out", tmp_path / form, "--quiet")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / form / "check.json").is_file()


@pytest.mark.parametrize(
    "words",
    [
        "train {table} --out run",
        "tune {table} --out o --minutes 1",
        "check {table}",
        "demo",
        "import folder --out model.safetensors",
    ],
)
def test_what_trains_says_in_one_message_that_torch_is_missing(table, words):
    done = run(*words.format(table=table).split())
    verb = words.split()[0]
    message = f"error: glassformer {verb} needs the package 'torch', which is not installed\n"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == message + "  next: pip install 'glassformer[train]'\n"


def test_so_do_the_names_for_python():
    program = """
import glassformer
for name in ("train", "plan", "check", "Run", "Plan"):
    try:
        getattr(glassformer, name)
    except glassformer.GlassformerError as error:
        print(error.what)
print(glassformer.Translator.__name__, glassformer.explain.__name__, glassformer.evaluate.__name__)
"""
    done = subprocess.run([sys.executable, "-c", WITHOUT + program], capture_output=True, text=True, check=False)
    lines = [
        f"glassformer.{name} needs the package 'torch', which is not installed"
        for name in ("train", "plan", "check", "Run", "Plan")
    ]
    assert done.stdout.splitlines() == [*lines, "Translator explain evaluate"], done.stderr
