"""A resume file that does not fit, or is not valid. That a resumed run is the same bit by bit is in `test_loop`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.errors import ModelFileError, RunError
from glassformer.settings import Settings
from glassformer.storage.checkpoints import Position, SavedRun, load_resume, read_resume, save_resume
from glassformer.storage.container import write_tensors


def test_a_model_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "resume.safetensors"
    model, other = nn.Linear(4, 6), nn.Linear(4, 7)
    run = SavedRun(position=Position(), data={"fingerprint": "table"}, settings=Settings(), tokenizers={})
    save_resume(path, model, torch.optim.AdamW(model.parameters()), run)
    with pytest.raises(RunError, match="the saved weights do not fit the model of the recipe") as caught:
        load_resume(path, other, torch.optim.AdamW(other.parameters()))
    assert caught.value.hint == "restore the old recipe.toml, or start a new run"


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"position": {"step": "many"}}, "'position.step'"),
        ({"position": {"steps": 1}}, "'position.steps'"),
        ({"data": {"fingerprint": 7}}, "'data.fingerprint'"),
        ({"settings": []}, "'settings'"),
        ({"settings": {"training": {"step": 1}}}, "there is no setting 'training.step'"),
    ],
)
def test_parts_that_are_not_valid_are_an_error_that_names_them(tmp_path, parts, named):
    path = tmp_path / "resume.safetensors"
    whole = {"position": {}, "data": {"fingerprint": "table"}, "settings": {}, "tokenizers": {}}
    write_tensors(path, "glassformer-resume/2", {}, whole | parts)
    with pytest.raises(ModelFileError, match=r"in the resume file (is|are) not valid") as caught:
        read_resume(path)
    assert (named in str(caught.value), caught.value.where) == (True, str(path))
