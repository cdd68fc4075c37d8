"""Teacher forcing against the padded model."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from glassformer.data.corpus import Corpus
from glassformer.fast.loss import cross_entropy
from glassformer.paper.model import Transformer
from glassformer.settings import ModelSettings, Settings
from glassformer.training.fast_objective import FastObjective
from glassformer.training.objective import TeacherForced, summed_losses
from tests.tiny import in_one_array
from tests.untrained import logits_of

# Teacher forcing


def test_the_loss_of_a_model_that_copies_is_that_of_its_logits() -> None:
    torch.manual_seed(0)
    tiny = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = Transformer(ModelSettings(**tiny, copy_mechanism=True), 20, 20, [-1] * 4 + list(range(4, 20)))
    sources, targets = [[1, 5, 6, 5, 2], [1, 4, 2]], [[1, 5, 6, 2], [1, 12, 13, 4, 2]]
    corpus = Corpus(in_one_array(sources), in_one_array(targets))
    packed = TeacherForced.of(corpus, np.arange(2), torch.device("cpu"))
    found = summed_losses(model.eval(), packed, 0.1)
    fast = FastObjective(copy.deepcopy(model), Settings(), torch.device("cpu")).summed_losses(packed, 0.1)
    torch.testing.assert_close(fast, found)
    logits = [
        logits_of(model, torch.tensor([x]), torch.tensor([y[:-1]]))[0] for x, y in zip(sources, targets, strict=True)
    ]
    wanted = torch.tensor([token for target in targets for token in target[1:]])
    for loss, smoothing in zip(found, (0.1, 0.0), strict=True):
        expected = torch.nn.functional.cross_entropy(
            torch.cat(logits), wanted, label_smoothing=smoothing, reduction="sum"
        )
        torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("logit", [100.0, -100.0])
def test_the_loss_of_a_sure_target_is_exact_however_large_its_logit(logit: float) -> None:
    projection = torch.full((9, 1), logit - 12)
    projection[4] = logit
    _, plain = cross_entropy(torch.ones(1, 1), projection, torch.tensor([4]), 0.1)
    assert plain.item() == pytest.approx(math.log1p(8 * math.exp(-12)), abs=1e-6)
