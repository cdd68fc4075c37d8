"""The PyTorch engine: the same answer in any batch, each sentence encoded once, every score re-done by hand."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from glassformer.errors import DeviceError, NotFiniteError, SettingsError
from glassformer.inference.engines import batches, search, torch as engine_module, torch_cached as inference_module
from glassformer.inference.engines.batches import padded_length, plan_equal_lengths
from glassformer.inference.engines.torch import TorchEngine
from glassformer.paper.model import Transformer
from glassformer.paper.search import Hypothesis
from glassformer.runtime import devices
from glassformer.runtime.devices import autocast, avoid_cudnn, find_device, has_fast_bfloat16, resolve_precision
from glassformer.settings import DecodingSettings, ModelSettings
from glassformer.storage.weights import get_weights, set_weights
from glassformer.text import ascii68
from tests.untrained import logits_of

VOCABULARY, PAD, BOS, EOS, UNK = 12, 0, 1, 2, 3
TINY: dict[str, Any] = {
    "d_model": 16,
    "d_ff": 32,
    "n_heads": 2,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "tied_embeddings": "none",
    "dropout": 0.5,  # a search that forgot to switch it off would be seen
}
GREEDY, BEAM = DecodingSettings(num_beams=1), DecodingSettings(num_beams=4, num_return_sequences=3)
BEST = DecodingSettings(num_beams=4)  # greedy search first


def random_model(seed: int = 3, sureness: float = 1.0, **changes: Any) -> Transformer:
    """Untrained, but made to listen to its source and to come to an end now and then."""
    torch.manual_seed(seed)
    copied = [-1 if token <= UNK else token for token in range(VOCABULARY)]
    model = Transformer(ModelSettings(**(TINY | changes)), VOCABULARY, VOCABULARY, copied)
    with torch.no_grad():
        for layer in model.decoder:
            for weight in layer.cross_attention.parameters():
                weight *= 2
        model.output_projection.weight[EOS] *= 2
        model.output_projection.weight *= sureness
    return model.eval()


def engine_of(*models: Transformer) -> TorchEngine:
    return TorchEngine(models, BOS, EOS, (PAD, BOS, UNK))


def frame(ids: Sequence[int]) -> list[int]:
    return [BOS, *ids, EOS]


def with_eos(answer: Hypothesis) -> list[int]:
    return [*answer.ids, EOS] if answer.finished else list(answer.ids)


def random_sources(n: int, longest: int, seed: int = 1) -> list[list[int]]:
    chance = random.Random(seed)
    return [frame([chance.randrange(4, VOCABULARY) for _ in range(chance.randrange(longest + 1))]) for _ in range(n)]


@pytest.fixture(scope="module")
def model() -> Transformer:
    return random_model()


# --- Batches: that they never change an answer is in the tests of the NumPy engine ---


def with_twins(model: Transformer, noise: float) -> Transformer:
    """Every second ordinary token is as likely as the one before it, but for `noise` in its row of the output layer."""
    with torch.no_grad():
        rows = model.output_projection.weight
        rows[5::2] = rows[4::2] + noise * torch.randn(rows[5::2].shape, generator=torch.Generator().manual_seed(1))
    return model


SHAPES: dict[str, list[dict[str, Any]]] = {
    "tiny": [{}],
    "pre-norm, gelu, learned positions": [{"norm": "pre", "activation": "gelu", "d_ff": 24, "positions": "learned"}],
    "widths that fill no register": [{"n_heads": 3, "d_k": 3, "d_v": 5, "d_ff": 21}],
    "one head of seven": [{"n_heads": 1, "d_k": 7, "d_v": 2, "attention_bias": True}],
    "as wide as the demo": [{"d_model": 128, "d_ff": 512, "n_heads": 4}],
    "a wide feed-forward": [{"d_ff": 2048}],
    "a copy mechanism": [{"copy_mechanism": True}],
    "pre-norm with a copy mechanism": [{"copy_mechanism": True, "norm": "pre", "d_model": 14}],
    "an ensemble of three": [{}, {}, {}],
}
SEARCHES = [GREEDY, BEAM, BEST, DecodingSettings(do_sample=True, num_return_sequences=3)]


@given(
    lengths=st.lists(st.integers(1, 70), max_size=40), width=st.integers(1, 6), positions=st.sampled_from([1, 64, 500])
)
def test_a_plan_has_each_row_once_and_one_padded_length_a_batch(lengths: list[int], width: int, positions: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH_POSITIONS", positions)
        plan = plan_equal_lengths(lengths, width)
    assert sorted(row for rows in plan for row in rows) == list(range(len(lengths)))
    for rows in plan:
        padded = {padded_length(lengths[row]) for row in rows}
        assert len(padded) == 1
        assert len(rows) == 1 or len(rows) * padded.pop() * width <= positions
        assert lengths[rows[-1]] == max(lengths[row] for row in rows)


@pytest.mark.parametrize("decoding", [GREEDY, BEST], ids=["greedy", "best"])
def test_each_answer_is_told_once_as_soon_as_it_is_there(
    decoding: DecodingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_POSITIONS", 40)
    told: list[Mapping[int, list[Hypothesis]]] = []
    answers = search(
        engine_of(random_model(sureness=12.0)), random_sources(15, 12), decoding, 4, on_answers=told.append
    )
    assert sum(map(len, told)) == 15
    assert dict(ChainMap(*told)) == dict(enumerate(answers))
    assert len(told) > 5
    assert max(map(len, told)) < 10


class Engine:
    """An engine that finds these batches, and notes that its search has ended."""

    precision, ended = "float32", False

    def __init__(self, *batches: dict[int, list[Hypothesis]]) -> None:
        self.batches = batches

    def answers(self, *_request: Any) -> Iterator[dict[int, list[Hypothesis]]]:
        try:
            yield from self.batches
        finally:
            self.ended = True


FINE = [Hypothesis((1,), (-1.0,), -1.0, -1.0, True)]


@pytest.mark.parametrize("answers", [[], [Hypothesis((1,), (), float("nan"), float("nan"), True)]])
def test_no_engine_may_leave_a_text_without_an_answer(answers: list[Hypothesis]) -> None:
    with pytest.raises(NotFiniteError) as caught:
        search(Engine({0: FINE, 1: FINE}, {2: answers}), [[]] * 3, GREEDY, 9)  # type: ignore[arg-type]
    assert caught.value.row == 2


def test_an_error_of_on_answers_ends_the_search() -> None:
    engine = Engine({0: FINE}, {1: FINE})

    def on_answers(_: Mapping[int, list[Hypothesis]]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:  # whose traceback keeps the search alive
        search(engine, [[]] * 2, GREEDY, 9, on_answers=on_answers)  # type: ignore[arg-type]
    assert engine.ended, caught


# --- Scores ---


@torch.inference_mode()
def log_probs_by_hand(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """One pair, no padding, no cache."""
    logits = logits_of(model, torch.tensor([source]), torch.tensor([target[:-1]]))[0].double()
    return [float(row[token] - row.exp().sum().log()) for row, token in zip(logits, target[1:], strict=True)]


def test_short_sources_with_long_targets_are_scored_a_few_at_a_time() -> None:
    """Logits weigh length times vocabulary, so that the target's length must count."""
    model, sizes = random_model(), []
    model.register_forward_hook(lambda _module, _inputs, logits: sizes.append(logits.shape[0] * logits.shape[1]))
    engine_of(model).score([([BOS, 5, EOS], frame([6] * 500))] * 20)
    assert max(sizes) <= batches.BATCH_POSITIONS // engine_module.SCORING_WIDTH


# --- Ensembles ---


@pytest.mark.parametrize("decoding", [GREEDY, BEAM, DecodingSettings(do_sample=True)], ids=["greedy", "beam", "sample"])
def test_the_scores_of_answers_are_those_of_the_mean_of_the_probabilities_of_an_ensemble(
    decoding: DecodingSettings,
) -> None:
    models = [random_model(seed, n_decoder_layers=seed) for seed in (1, 2, 3)]
    sources, together = random_sources(4, longest=12), engine_of(*models)
    found = [answers[0] for answers in search(together, sources, decoding, 10)]
    pairs = [(source, [BOS, *with_eos(answer)]) for source, answer in zip(sources, found, strict=True)]
    for (source, target), answer, scored in zip(pairs, found, together.score(pairs), strict=True):
        each = np.array([log_probs_by_hand(model, source, target) for model in models])
        expected = np.log(np.exp(each).mean(axis=0))
        assert scored == pytest.approx(expected, abs=1e-5)
        assert answer.token_scores == pytest.approx(expected, abs=1e-5)


# --- The model is left as it was ---


def test_a_search_in_the_midst_of_training_has_no_dropout_and_leaves_it_on() -> None:
    model, sources = random_model(), random_sources(4, longest=12)
    expected = search(engine_of(model), sources, GREEDY, 8)
    model.train()
    assert search(engine_of(model), sources, GREEDY, 8) == expected
    assert all(module.training for module in model.modules())


def test_training_goes_on_after_a_score_that_lengthened_the_table_of_positions() -> None:
    model = random_model()
    engine_of(model).score([(frame([5] * 1100), frame([6]))])
    assert len(model.source_positions.table) > 1100
    ids = torch.full((1, 1100), 5)
    logits_of(model.train(), ids, ids[:, :4]).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_new_engine_sees_the_weights_that_were_changed() -> None:
    model, other, sources = random_model(1), random_model(2), random_sources(4, longest=12)
    engine = engine_of(model)
    before = search(engine, sources, GREEDY, 8)
    weights = get_weights(other)
    set_weights(model, weights)
    weights["source_embedding.weight"][:] = 0
    assert model.source_embedding.weight.any()
    assert other.source_embedding.weight.any()
    assert search(engine, sources, GREEDY, 8) == before
    assert search(replace(engine), sources, GREEDY, 8) == search(engine_of(other), sources, GREEDY, 8) != before


# --- Devices and precision ---


def test_the_engine_of_a_tokenizer_forbids_its_special_tokens(model: Transformer) -> None:
    engine = TorchEngine.of([model], ascii68(), torch.device("cpu"))
    assert (engine.bos_id, engine.eos_id, engine.forbidden) == (65, 66, (65, 67))


def out_of_memory_above(most: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let batches of more than `most` rows fail; return the sizes of all that were tried."""
    forward, sizes = Transformer.forward, []

    def limited(model: Transformer, source: Tensor, *inputs: Any) -> Tensor:
        sizes.append(len(source))
        if len(source) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(model, source, *inputs)

    monkeypatch.setattr(Transformer, "forward", limited)
    return sizes


def test_a_batch_that_does_not_fit_into_memory_is_computed_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, pairs = engine_of(random_model()), [([BOS, 4 + i, EOS], [BOS, 5, 6 + i, EOS]) for i in range(5)]
    expected = engine.score(pairs)
    sizes = out_of_memory_above(2, monkeypatch)
    found = engine.score(pairs)
    assert sizes == [5, 2, 3, 1, 2]
    for one, two in zip(expected, found, strict=True):
        assert one == pytest.approx(two, abs=1e-5)
    out_of_memory_above(0, monkeypatch)
    with pytest.raises(DeviceError, match="not enough memory on cpu for one text"):
        engine.score(pairs)
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr(Transformer, "forward", mock.Mock(side_effect=error))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        engine.score(pairs)


def test_attention_on_a_gpu_is_not_that_of_cudnn() -> None:
    was_enabled = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        avoid_cudnn(CPU)
        assert torch.backends.cuda.cudnn_sdp_enabled()
        avoid_cudnn(torch.device("cuda"))
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was_enabled)


@pytest.mark.parametrize(
    ("n_gpus", "mps", "expected", "best"),
    [
        (0, False, "auto, cpu", "cpu"),
        (0, True, "auto, cpu, mps", "mps"),
        (2, True, "auto, cpu, cuda, cuda:0, cuda:1, mps", "cuda"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_those_that_are_and_the_fastest_is_auto(
    n_gpus: int, mps: bool, expected: str, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    with pytest.raises(DeviceError, match="device 'tpu' is not available") as caught:
        find_device("tpu")
    assert caught.value.expected == expected
    assert find_device("auto") == find_device(best) == torch.device(best)


CPU = torch.device("cpu")


@pytest.mark.parametrize("fast", [True, False])
def test_auto_is_bfloat16_where_it_is_fast(monkeypatch: pytest.MonkeyPatch, fast: bool) -> None:
    monkeypatch.setattr(devices, "has_fast_bfloat16", lambda _device: fast)
    assert resolve_precision(CPU, "auto") == ("bfloat16" if fast else "float32")
    with autocast(CPU, "auto"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == (torch.bfloat16 if fast else torch.float32)


def test_a_search_in_bfloat16_computes_only_products_with_weights_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[torch.dtype] = set()
    attention = inference_module._attention

    def watched(query: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> Tensor:
        heads = attention(query, key, value, *mask)
        seen.update((query.dtype, heads.dtype))
        return heads

    monkeypatch.setattr(inference_module, "_attention", watched)
    sources = random_sources(20, longest=14)
    engine = TorchEngine([random_model()], BOS, EOS, (PAD, BOS, UNK), precision="bfloat16")
    exact = search(engine_of(random_model()), sources, GREEDY, 1)
    rough = search(engine, sources, GREEDY, 1)
    assert seen == {torch.float32}
    assert [answer.score for (answer,) in rough] == pytest.approx([answer.score for (answer,) in exact], abs=0.05)
    assert rough != exact


def test_bfloat16_is_fast_only_where_a_processor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert not has_fast_bfloat16(CPU)
    assert not has_fast_bfloat16(torch.device("mps"))
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert has_fast_bfloat16(CPU)


def test_where_openmp_gives_fewer_threads_than_asked_for_float32_is_used_and_said() -> None:
    if not has_fast_bfloat16(CPU):
        pytest.skip("the processor has no bfloat16, and where it is emulated its products stay right")
    program = "import torch; from glassformer.inference.engines.torch import resolve_precision as resolve; "
    program += "print(*(resolve(torch.device('cpu'), each) for each in ('auto', 'bfloat16')))"
    environment = os.environ | {"OMP_DYNAMIC": "true", "OMP_NUM_THREADS": "2"}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "float32 float32\n"
    assert found.stderr.count("OMP_DYNAMIC is set") == 1


def test_a_misspelt_precision_is_never_read_as_another(model: Transformer) -> None:
    for ask in (
        lambda: resolve_precision(CPU, "float16"),
        lambda: autocast(CPU, "float16"),
        lambda: TorchEngine.of([model], ascii68(), CPU, "float16"),
    ):
        with pytest.raises(SettingsError, match="precision 'float16' is not available") as caught:
            ask()
        assert caught.value.hint is not None
        assert "'bfloat16'" in caught.value.hint
