"""The interpreter knows every op, and a trace that was tampered with turns red where it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from glassformer.glassbox.checks import check
from glassformer.glassbox.interpreter import OPERATIONS, Named
from glassformer.glassbox.schema import OPS, Axis, Tensor
from glassformer.glassbox.trace import explain


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def named(seed, **axes):
    return Named(normal(seed, *axes.values()), tuple(axes))


def test_the_interpreter_has_every_op_and_no_other():
    assert set(OPERATIONS) == set(OPS)


def test_ops_are_those_of_torch():
    x, gain, bias = named(0, target=3, d_model=6), named(1, d_model=6), named(2, d_model=6)
    tensor = torch.from_numpy(x.numbers)
    functional = torch.nn.functional
    mean, variance = OPERATIONS["mean"](x), OPERATIONS["variance"](x)
    normed = OPERATIONS["layer_norm"](x, mean, variance, gain, bias, eps=1e-5)
    expected = functional.layer_norm(tensor, (6,), torch.from_numpy(gain.numbers), torch.from_numpy(bias.numbers))
    np.testing.assert_allclose(normed.numbers, expected.numpy(), atol=1e-12)
    for name, theirs in (("relu", functional.relu), ("gelu", functional.gelu), ("swish", functional.silu)):
        np.testing.assert_allclose(OPERATIONS[name](x).numbers, theirs(tensor).numpy(), atol=1e-12)
    np.testing.assert_allclose(OPERATIONS["log_softmax"](x).numbers, tensor.log_softmax(1).numpy(), atol=1e-12)
    ids = Named(np.array([2, 0, 5]), ("target",))
    wanted = OPERATIONS["smooth_targets"](ids, x, label_smoothing=0.1)
    losses = OPERATIONS["cross_entropy"](wanted, OPERATIONS["log_softmax"](x))
    expected = functional.cross_entropy(tensor, torch.tensor([2, 0, 5]), reduction="none", label_smoothing=0.1)
    np.testing.assert_allclose(losses.numbers, expected.numpy(), atol=1e-12)
    assert losses.axes == ("target",)


def test_attention_by_the_interpreter_is_that_of_torch():
    q, k, v = (
        named(0, head=2, target=3, d_k=4),
        named(1, head=2, source_key=5, d_k=4),
        named(2, head=2, source_key=5, d_v=6),
    )
    mask = Named(np.array([[0, 2, 0, 0, 2]] * 3), ("target", "source_key"))
    scores = OPERATIONS["matmul_transposed"](q, k)
    scaled = OPERATIONS["divide"](scores, Named(np.array(2.0), ()))
    heads = OPERATIONS["matmul"](OPERATIONS["softmax"](scaled, mask), v)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.from_numpy(each.numbers) for each in (q, k, v)), torch.from_numpy(mask.numbers == 0)
    )
    np.testing.assert_allclose(heads.numbers, expected.numpy(), atol=1e-12)
    assert heads.axes == ("head", "target", "d_v")


def test_a_row_with_nothing_visible_gives_zeros():
    hidden = Named(np.full((1, 2), 2), ("target", "source_key"))
    weights = OPERATIONS["softmax"](Named(np.array([[[1000.0, -1000.0]]]), ("head", "target", "source_key")), hidden)
    assert weights.numbers.tolist() == [[[0.0, 0.0]]]


def red(trace):
    return {each.step for each in check(trace) if each.passed is False}


def changed(trace, name, array, axes=None):
    """The trace with another tensor in the place of one."""
    old = trace.tensors[name]
    tensor = Tensor.of(np.asarray(array), list(axes or old.axes), old.origin)
    return replace(trace, tensors=trace.tensors | {name: tensor})


def test_without_weights_the_steps_that_need_them_are_not_judged(case):
    trace = explain(case.model, case.text, evidence=False)
    unjudged = {each.step for each in check(trace) if each.passed is None}
    assert red(trace) == set()
    assert {"source.embedded", "logits", "encoder.0.self.queries"} <= unjudged
    assert not {"encoder.0.self.scores", "encoder.0.self.weights", "log_probs"} & unjudged


def test_a_corrupted_number_turns_its_step_red(trace):
    outputs = [step.output for step in trace.steps if ".0." not in step.output]  # the layers are alike
    assert len(outputs) > 40
    for name in outputs:
        array = trace.array(name).copy()
        array[(0,) * array.ndim] += 1e-3 * max(1.0, np.abs(array).max())
        assert name in red(changed(trace, name, array)), name


def test_a_transposed_matrix_turns_its_step_red(trace):
    for name in ("encoder.0.self.scores", "encoder.1.self.weights", "decoder.0.self.scaled", "decoder.1.cross.weights"):
        array, axes = trace.array(name), trace.tensors[name].axes
        assert name in red(changed(trace, name, array.swapaxes(1, 2), [axes[0], axes[2], axes[1]])), name
        if array.shape[1] == array.shape[2]:  # the same shape, so that only numbers and names can tell
            assert name in red(changed(trace, name, array.swapaxes(1, 2))), name
            assert name in red(changed(trace, name, array, [axes[0], axes[2], axes[1]])), name


def columns_by_the_sums_of_rows(trace):
    powers = np.exp(trace.array("encoder.0.self.scaled").astype(float))
    return powers / powers.sum(axis=2)[:, None, :]


def squeezed(trace):
    output = trace.array("encoder.0.self_norm.output")
    return (output - output.min()) / (output.max() - output.min())


@pytest.mark.parametrize(
    ("name", "wrong", "where"),
    [
        ("source.scaled", lambda trace: trace.array("source.embedded"), {"source.scaled", "source.input"}),
        ("encoder.0.self.scaled", lambda trace: trace.array("encoder.0.self.scores"),
         {"encoder.0.self.scaled", "encoder.0.self.weights"}),
        ("encoder.0.self.scale", lambda _: 1.0, {"encoder.0.self.scaled"}),
        ("encoder.0.self.scale", lambda _: np.sqrt(8.0), {"encoder.0.self.scaled"}),  # of the model, not of the head
        ("decoder.self_mask", lambda trace: np.zeros_like(trace.array("decoder.self_mask")),
         {"decoder.0.self.weights", "decoder.1.self.weights"}),
        ("encoder.0.self.weights", columns_by_the_sums_of_rows, {"encoder.0.self.weights", "encoder.0.self.heads"}),
        ("encoder.0.self_norm.output", squeezed, None),
    ],
)  # fmt: skip
def test_a_common_mistake_turns_the_steps_red_that_it_breaks(trace, name, wrong, where):  # A34
    found = red(changed(trace, name, wrong(trace)))
    assert name in found if where is None else found == where


def test_exchanged_labels_turn_their_axis_red(trace):
    for name in ("source", "source_key", "target", "target_key", "gold_target"):
        axis = trace.axes[name]
        other = Axis(axis.length, axis.title, axis.labels[::-1], axis.predicted)
        assert red(replace(trace, axes=trace.axes | {name: other})) == {name.removesuffix("_key")}


def test_a_target_that_was_not_shifted_turns_its_axis_red(trace):  # A34
    axis = trace.axes["target"]
    other = Axis(axis.length, axis.title, axis.labels, axis.labels)
    assert red(replace(trace, axes=trace.axes | {"target": other})) == {"target"}
