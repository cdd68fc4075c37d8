"""`glassformer import`: what it prints and writes, and that a refusal writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from glassformer.storage.modelfile import ModelFile
from tests.cli.conftest import answer_to
from tests.storage.importers.conftest import write_marian

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Recommended. pip install sacremoses")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian(tmp_path_factory.mktemp("marian") / "opus-mt-aa-kk")


@pytest.fixture(scope="module")
def imported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "model.safetensors"
    answer = answer_to("import", folder, "--out", out)
    assert answer.code == 0, answer.err
    assert "compared with transformers" in answer.err
    return out


def test_every_verb_takes_the_model(imported: Path, tmp_path: Path) -> None:
    model = imported
    translated = answer_to("translate", model, "--set", "decoding.max_new_tokens=12", stdin="abc dé\n\n".encode())
    assert (translated.code, len(translated.out.splitlines())) == (0, 2)
    answer = translated.out.splitlines()[0]
    table = tmp_path / "table.tsv"
    table.write_text(f"source\ttarget\nabc dé\t{answer}\n")
    evaluated = answer_to("evaluate", model, table, "--set", "decoding.max_new_tokens=12", "--json")
    assert json.loads(evaluated.out)["metrics"]["exact_match"]["value"] == 1.0
    tokens = json.loads(answer_to("tokens", model, "abc", "--json").out)
    assert tokens["tokens"][-1] == "</s>"
    assert "<pad>" not in tokens["tokens"]
    assert answer_to("tokens", model, "abc", "--side", "target", "--json").out.count("<pad>") == 1
    assert "opus-mt-aa-kk" in answer_to("info", model).out
    explained = answer_to("explain", model, "abc dé", "--set", "decoding.max_new_tokens=6")
    assert explained.code == 0, explained.err


def test_an_output_that_exists_is_kept_and_without_transformers_nothing_is_compared(
    folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.safetensors"
    model.write_text("mine")
    refused = answer_to("import", folder, "--out", model)
    assert (refused.code, model.read_text()) == (1, "mine")
    assert "the output exists already" in refused.err
    with mock.patch.dict("sys.modules", {"transformers": None}):
        answer = answer_to("import", folder, "--out", model, "--overwrite")
    assert (answer.code, ModelFile.load(model).data.imported_from) == (0, folder.name)
    assert "not compared with transformers" in answer.err


def test_a_marian_folder_as_a_model_names_the_verb(folder: Path) -> None:
    refused = answer_to("info", folder)
    assert refused.code == 1
    assert "glassformer import" in refused.err
