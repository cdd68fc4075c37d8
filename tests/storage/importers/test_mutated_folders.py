"""Folders of MarianMT with a damaged file: an error that names it, or a model; never a crash or another exception."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassformer.errors import GlassformerError
from glassformer.inference.translator import Translator
from glassformer.storage.importers.marian import import_marian
from tests.chaos.children import REFUSED, check, run_cases
from tests.chaos.conftest import one_thread
from tests.chaos.mutations import damaged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a child is limited by what /proc says")


@pytest.mark.parametrize("pickles", [False, True])
@pytest.mark.parametrize("n_files", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_a_damaged_folder_is_refused_or_is_imported(marian: Path, tmp_path: Path, pickles: bool, n_files: int) -> None:
    folder = Path(shutil.copytree(marian, tmp_path / "folder"))
    if pickles:  # as older folders have their weights
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    files = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.name != "tokenizer_config.json"}

    def read(number: int) -> str | None:
        name = list(files)[number % len(files)]
        for file, content in files.items():
            (folder / file).write_bytes(content)
        (folder / name).write_bytes(damaged(files[name], number // len(files), is_tensors=False)[1])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                Translator(import_marian(folder), device="cpu").translate(["abc"], max_new_tokens=8)
            except GlassformerError as error:
                if "not finite" in str(error) or str(folder) in str(error):
                    raise
                return f"{name}: an error that does not name it: {error}"
        return None

    with one_thread():
        counts = check(run_cases(read, range(n_files)))
    assert counts[REFUSED]
