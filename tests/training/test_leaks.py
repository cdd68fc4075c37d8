"""No logit of training or validation depends on a later target token, nor on the padding of its batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.data.corpus import Corpus, Sequences
from glassformer.data.datasets import dates
from glassformer.fast import accelerate
from glassformer.fast.compiled_attention import CompiledAttention
from glassformer.fast.loss import packed_hidden_states
from glassformer.paper.model import Transformer
from glassformer.text import learn_both
from glassformer.training.objective import TeacherForced
from tests import tiny

SETTINGS = tiny.settings(model={"dropout": 0.0, "n_encoder_layers": 2, "n_decoder_layers": 2})
ROWS = [(source[: 3 + 2 * i], target[: 4 + 4 * i]) for i, (source, target) in enumerate(dates(4, seed=3))]


@pytest.fixture(params=["packed", "padded"])
def attention(request, monkeypatch):
    """Both implementations of attention: the compiled one, and PyTorch's, as without a C compiler."""
    if request.param == "padded":
        monkeypatch.setattr(CompiledAttention, "serves", lambda *_: False)


def logits_of(sources: list[list[int]], targets: list[list[int]], size: int, *, with_gradient: bool) -> list[Tensor]:
    """The logits [T V] of each row of one batch, in an untrained model."""
    torch.manual_seed(1)
    model = Transformer(SETTINGS.model, size, size)
    corpus = Corpus(Sequences.pack(sources), Sequences.pack(targets))
    with torch.set_grad_enabled(with_gradient):
        packed = TeacherForced.of(corpus, np.arange(len(sources)), torch.device("cpu"))
        hidden, copies = packed_hidden_states(
            accelerate(model), packed.source, packed.source_lengths, packed.inputs, packed.target_lengths
        )
        return [*model.project(hidden, copies).detach().split([len(ids) - 1 for ids in targets])]


@pytest.mark.usefixtures("attention")
@pytest.mark.parametrize("with_gradient", [True, False])
def test_no_logit_depends_on_a_later_token_or_on_padding(with_gradient):
    source, target = learn_both(ROWS, SETTINGS.tokens)
    size = max(len(source), len(target))
    sources = [source.frame(source.encode(text)) for text, _ in ROWS]
    targets = [target.frame(target.encode(text)) for _, text in ROWS]
    logits = logits_of(sources, targets, size, with_gradient=with_gradient)
    changed = [[*ids[:3], *((token + 1) % size for token in ids[3:-1]), ids[-1]] for ids in targets]
    for before, after in zip(logits, logits_of(sources, changed, size, with_gradient=with_gradient), strict=True):
        torch.testing.assert_close(after[:3], before[:3], rtol=0, atol=1e-5)
        assert (after[3:] - before[3:]).abs().max() > 1e-3
    for row, together in enumerate(logits):
        (alone,) = logits_of([sources[row]], [targets[row]], size, with_gradient=with_gradient)
        torch.testing.assert_close(alone, together, rtol=0, atol=1e-5)
