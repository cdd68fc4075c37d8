"""PyTorch is an extra: whoever needs it learns in one message that it is missing, broken or too old, and what to do."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from glassformer.errors import MissingExtraError
from glassformer.runtime.pytorch import OLDEST, check_pytorch, has_pytorch


class _Broken:
    """Finds a torch whose import fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "torch":
            raise self.error


def torch_of(version: str) -> ModuleType:
    module = ModuleType("torch")
    module.__version__ = version  # type: ignore[attr-defined]
    return module


def refused(hint: str = "pip install '.[train]' in the folder that has pyproject.toml") -> str:
    with pytest.raises(MissingExtraError) as caught:
        check_pytorch("glassformer train")
    assert not has_pytorch()
    assert caught.value.hint == hint
    return caught.value.what


def test_a_pytorch_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert refused() == "glassformer train needs the package 'torch', which is not installed"


@pytest.mark.parametrize(
    "error", [OSError("libcudart.so: no such file"), ImportError("undefined symbol: x"), ModuleNotFoundError("sympy")]
)
def test_a_pytorch_that_cannot_be_loaded_is_named_with_the_reason(monkeypatch, error):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Broken(error), *sys.meta_path])
    refusal = refused("pip install --force-reinstall torch")
    assert refusal == f"glassformer train needs the package 'torch', which cannot be loaded: {error}"


@pytest.mark.parametrize(("version", "is_accepted"), [("2.5.1+cu124", False), ("1.13.0", False), ("2.6.0a0+git", True)])
def test_a_pytorch_that_is_too_old_is_named_with_both_versions(monkeypatch, version, is_accepted):
    monkeypatch.setitem(sys.modules, "torch", torch_of(version))
    assert has_pytorch() == is_accepted
    if not is_accepted:
        assert refused().endswith(f"'torch', which is too old: {version}, where 2.6 or newer is needed")


def test_the_oldest_version_is_that_of_the_package():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    everything = [*declared["dependencies"], *declared["optional-dependencies"].get("train", [])]
    (found,) = (match for one in everything if (match := re.fullmatch(r"torch>=(\d+)\.(\d+)", one)))
    assert tuple(map(int, found.groups())) == OLDEST
