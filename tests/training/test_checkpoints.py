"""What is resumed goes on as if it had never stopped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.errors import ModelFileError, RunError
from glassformer.paper.settings import Settings
from glassformer.ship.storage.container import write_tensors
from glassformer.training.checkpoints import Position, SavedRun, load_resume, read_resume, save_resume


def saved(position: Position | None = None, fingerprint: str = "table") -> SavedRun:
    return SavedRun(
        position=position or Position(), data={"fingerprint": fingerprint}, settings=Settings(), tokenizers={}
    )


# Resuming


class Tiny(nn.Module):
    """Two layers with dropout between them, and a parameter that gets no gradient."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 3, bias=False)
        self.unused = nn.Parameter(torch.ones(2))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.dropout(self.first(x).relu()))


def made(seed: int, fused: bool) -> tuple[Tiny, torch.optim.AdamW]:
    torch.manual_seed(seed)
    model = Tiny()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, fused=fused)


def go_on(model: Tiny, optimizer: torch.optim.AdamW, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("steps", [0, 5])
def test_a_resumed_run_goes_on_bit_by_bit_as_if_it_had_not_stopped(tmp_path, fused, steps):
    path = tmp_path / "resume.safetensors"
    model, optimizer = made(1, fused)
    go_on(model, optimizer, steps)
    position = Position(step=steps, epoch=2, batch=3, seconds=4.5, best_value=0.25, without_gain=1)
    save_resume(path, model, optimizer, saved(position))
    go_on(model, optimizer, 5)
    other, its_optimizer = made(2, fused)
    assert load_resume(path, other, its_optimizer).position == position
    go_on(other, its_optimizer, 5)
    for (name, one), (_, two) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(one, two), name
    for one, two in zip(optimizer.state.values(), its_optimizer.state.values(), strict=True):
        assert {key: (value.shape, value.tolist()) for key, value in one.items()} == {
            key: (value.shape, value.tolist()) for key, value in two.items()
        }


def test_a_model_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "resume.safetensors"
    model, optimizer = made(1, fused=False)
    save_resume(path, model, optimizer, saved())
    other = Tiny(width=7)
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
