"""The engine of a CPU: the numbers of the reference, the answers of PyTorch, the same answer in any batch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from glassformer.errors import DeviceError, NotFiniteError, SettingsError, TextError
from glassformer.inference import engines
from glassformer.inference.engines import Engine, batches, compiled, load_engine, search
from glassformer.inference.engines.compiled import Compiled, CompiledLogProbs, prepare_inference
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.engines.numpy_cached import NumPyInference
from glassformer.inference.engines.tensors import TensorLogProbs
from glassformer.inference.engines.torch_cached import TorchInference
from glassformer.paper import reference
from glassformer.paper.model import Transformer
from glassformer.paper.search import Hypothesis, LogProbs, SearchConstraints
from glassformer.paper.search.log_probs import SORTED
from glassformer.settings import DecodingSettings, ModelSettings
from glassformer.storage.weights import get_weights, set_weights
from tests.inference.engines.test_torch_engine import (
    BOS,
    EOS,
    GREEDY,
    PAD,
    SEARCHES,
    SHAPES,
    UNK,
    VOCABULARY,
    engine_of,
    log_probs_by_hand,
    random_model,
    random_sources,
    with_eos,
    with_twins,
)
from tests.paper.search.test_search import naive_beam
from tests.paper.test_model import SIZE, make

GRID: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "pre-norm, learned positions": {"norm": "pre", "positions": "learned"},
    "gelu, attention bias": {"activation": "gelu", "attention_bias": True},
    "swish, output bias": {"activation": "swish", "output_bias": True},
    "free widths": {"n_heads": 3, "d_k": 3, "d_v": 5},
    "free widths, bias, pre-norm": {"n_heads": 1, "d_k": 7, "d_v": 2, "attention_bias": True, "norm": "pre"},
    "depths": {"n_encoder_layers": 1, "n_decoder_layers": 3, "tied_embeddings": "none"},
    "unscaled embeddings, another base and eps": {"scale_embeddings": False, "position_base": 77.0, "norm_eps": 0.1},
}


class _Tokenizer:
    """What an engine asks of a target tokenizer."""

    class vocabulary:  # noqa: N801
        bos_id, eos_id, forbidden_ids = BOS, EOS, (PAD, BOS, UNK)


def in_numpy(settings: ModelSettings, weights: dict[str, Any]) -> NumPyInference:
    return NumPyInference(settings, weights)


def compiled_from_c(settings: ModelSettings, weights: dict[str, Any]) -> Compiled:
    return Compiled(NumPyInference(settings, weights))


class InTorch:
    """The search of PyTorch, with arrays."""

    def __init__(self, settings: ModelSettings, weights: dict[str, Any]) -> None:
        model = Transformer(settings, SIZE, SIZE)
        set_weights(model, weights)
        self.inference = TorchInference(model.eval())
        self.start = self.inference.start

    @torch.inference_mode()
    def step(self, last: Any, cache: Any) -> Any:
        return self.inference.step(torch.from_numpy(last), cache).log_softmax(2).numpy()


needs_compiler = pytest.mark.skipif(not compiled.library(), reason="the package was installed without a C compiler")


def numpy_engine_of(*models: Transformer, prepared: Callable[..., Any] = prepare_inference) -> NumPyEngine:
    return NumPyEngine([prepared(model.settings, get_weights(model)) for model in models], _Tokenizer())  # type: ignore[arg-type]


def alike(one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> bool:
    """Whether two n-best lists are the same but for rounding."""
    keys = [[(answer.ids, answer.finished) for answer in answers] for answers in (one, other)]
    scores = [[answer.token_scores for answer in answers] for answers in (one, other)]
    return keys[0] == keys[1] and all(
        a == pytest.approx(b, abs=1e-4) for a, b in zip(scores[0], scores[1], strict=True)
    )


@pytest.mark.parametrize(
    ("prepared", "dtype", "tolerance"),
    [
        (in_numpy, np.float64, 1e-11),
        (InTorch, np.float32, 2e-5),
        pytest.param(compiled_from_c, np.float32, 2e-5, marks=needs_compiler),
    ],
)
@pytest.mark.parametrize("changes", GRID.values(), ids=GRID.keys())
def test_cached_steps_equal_the_reference_whatever_the_search_does(
    changes: dict[str, Any], dtype: type, tolerance: float, prepared: Callable[..., Any], monkeypatch: Any
) -> None:
    """Sources of several lengths; hypotheses are multiplied, reordered and removed, past the growth of the cache."""
    for name in ("compiled", "numpy_cached", "torch_cached"):
        monkeypatch.setattr(f"glassformer.inference.engines.{name}.CACHE_STEPS", 8)
    model = make(max_length=64, **changes)
    weights = {name: array.astype(dtype) for name, array in get_weights(model).items()}
    chance = np.random.default_rng(1)
    sources = [chance.integers(SIZE, size=length).tolist() for length in (3, 9, 1, 6)]
    inference = prepared(model.settings, weights)
    cache = inference.start(sources, 12)
    targets = [[[0]] for _ in sources]
    for time in range(12):
        last = np.array([[ids[-1] for ids in line] for line in targets])
        found = inference.step(last, cache)
        if time in (0, 7, 11):
            for line, source in enumerate(sources):
                memory = reference.encode(weights, model.settings, np.array(source))
                for slot, ids in enumerate(targets[line]):
                    hidden = reference.decode(weights, model.settings, np.array(ids), memory)
                    expected = reference.log_softmax(reference.project(weights, model.settings, hidden)[-1:])[0]
                    assert found[line, slot] == pytest.approx(expected, abs=tolerance)
        kept = np.array([2, 0, 1]) if time == 5 else np.arange(len(sources))
        width = last.shape[1]
        slots = chance.integers(width, size=(len(kept), 3))
        cache.select(kept[:, None] * width + slots)
        sources = [sources[line] for line in kept]
        targets = [
            [[*targets[line][slot], int(chance.integers(13))] for slot in row]
            for line, row in zip(kept, slots, strict=True)
        ]


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_and_scores_are_those_of_pytorch(shape: str) -> None:
    """Both compiled, where it can be, and in NumPy; every second search has forced starts."""
    for seed, decoding in enumerate(SEARCHES[len(shape) % 2 :: 2], len(shape) // 2):
        models = [random_model(seed + i, **changes) for i, changes in enumerate(SHAPES[shape])]
        theirs, sources = engine_of(*models), random_sources(4, longest=14, seed=seed)
        forced = [source[1:-1][: i % 3] for i, source in enumerate(sources)] if seed % 2 else ()
        expected = search(theirs, sources, decoding, 8, forced)
        pairs = [(source, [BOS, *with_eos(answers[0])]) for source, answers in zip(sources, expected, strict=True)]
        pairs.append((sources[0], [BOS]))
        scores = theirs.score(pairs)
        for prepared in (prepare_inference, in_numpy):
            ours = numpy_engine_of(*models, prepared=prepared)
            assert all(map(alike, search(ours, sources, decoding, 8, forced), expected))
            for one, other in zip(ours.score(pairs), scores, strict=True):
                assert one == pytest.approx(other, abs=1e-4)


ROUNDED_DIFFERENTLY = ("tiny", "as wide as the demo", "a wide feed-forward", "a copy mechanism", "an ensemble of three")
"""Shapes whose products, copies and means round differently in another batch."""


@pytest.mark.parametrize(
    ("build", "shape"),
    [(partial(numpy_engine_of, prepared=in_numpy), name) for name in ROUNDED_DIFFERENTLY]
    + [(numpy_engine_of, "an ensemble of three"), (engine_of, "one head of seven")],
)
def test_neighbours_order_and_padding_never_change_an_answer(
    build: Callable[..., Engine], shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens are tied but for rounding; alone, in any batch, in any order, twice in one batch, on any cores."""
    chance, before = random.Random(shape), torch.get_num_threads()
    for seed, decoding in enumerate(SEARCHES, len(shape)):
        noise, positions, n_cores = chance.choice([0.0, 1e-8, 1e-7, 1e-6]), chance.choice([40, 150]), 1 + 2 * (seed % 2)
        models = [with_twins(random_model(seed + i, **changes), noise) for i, changes in enumerate(SHAPES[shape])]
        engine, sources = build(*models), random_sources(4, longest=20, seed=seed)
        batch = chance.sample(sources * 2, 8)
        alone = {tuple(source): search(engine, [source], decoding, 6)[0] for source in sources}
        monkeypatch.setattr(batches, "BATCH_POSITIONS", positions)
        monkeypatch.setattr(batches, "cores", lambda n_cores=n_cores: n_cores)
        torch.set_num_threads(n_cores)
        try:
            together = search(engine, batch, decoding, 6)
        finally:
            torch.set_num_threads(before)
        for source, answers in zip(batch, together, strict=True):
            assert alike(answers, alone[tuple(source)])
    assert search(engine, [], decoding, 8) == engine.score([]) == []


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_numbers_are_the_same_bit_for_bit_alone_and_in_any_batch(shape: str) -> None:
    """Sources of several lengths, of one to nine in a batch, which divides the rows of a product differently."""
    for seed, changes in enumerate(SHAPES[shape], len(shape)):
        model, sources = random_model(seed, **changes), random_sources(9, longest=20, seed=seed)
        inference, last = compiled_from_c(model.settings, get_weights(model)), np.array([[BOS], [5], [4], [6]])
        alone = []
        for source in sources:
            cache = inference.start([source])
            alone.append([inference.step(token[None], cache)[0] for token in last])
        for n in range(2, 10):
            cache = inference.start(sources[-n:])
            for time, token in enumerate(last):
                found = inference.step(token[None].repeat(n, axis=0), cache)
                assert all((found[i] == alone[i - n][time]).all() for i in range(n))


@pytest.mark.parametrize(
    "log_probs_of",
    [
        LogProbs,
        pytest.param(CompiledLogProbs, marks=needs_compiler),
        lambda values: TensorLogProbs(torch.from_numpy(values)),
    ],
    ids=["NumPy", "C", "torch"],
)
@pytest.mark.parametrize("n_words", [13, SORTED])
@pytest.mark.parametrize("n", [1, 2, 6, 50])
def test_the_best_extensions_are_those_that_sorting_finds(
    log_probs_of: Callable[..., LogProbs], n_words: int, n: int
) -> None:
    """Of equal ones that of the lower hypothesis is first, then that of the lower token; of -inf any."""
    chance = np.random.default_rng(n)
    values = chance.integers(-3, 3, (4, 3, n_words)).astype(np.float32)
    values[chance.random(values.shape) < 0.2] = -np.inf
    values[3, 1:] = values[3, 0, 2:] = -np.inf  # two tokens alone are possible
    sums = chance.integers(-2, 0, (4, 3)).astype(np.float32)
    found = log_probs_of(values).best(sums, n)
    totals = sums[:, :, None] + values
    for i in range(4):
        expected = sorted(np.ndindex(3, n_words), key=lambda place: (-totals[i][place], place))[:n]
        finite = [place for place in expected if np.isfinite(totals[i][place])]
        assert list(zip(found.parent[i].tolist(), found.token[i].tolist(), strict=True))[: len(finite)] == finite
        assert found.sums[i].tolist() == [totals[i][place] for place in expected]
        assert found.newest[i].tolist() == [values[i][place] for place in expected]
    values[2, 1, 7] = np.nan
    assert np.isnan(log_probs_of(values).best(sums, n).sums[2, 0])


def test_without_the_compiled_functions_numpy_computes_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model, sources = random_model(), random_sources(4, longest=9)
    expected = search(numpy_engine_of(model), sources, GREEDY, 8)
    monkeypatch.setattr(compiled, "library", lambda: None)
    engine = numpy_engine_of(model)
    assert isinstance(engine.models[0], NumPyInference)
    assert all(map(alike, search(engine, sources, GREEDY, 8), expected))


EACH_ENGINE = pytest.mark.parametrize(
    "build", [engine_of, numpy_engine_of, partial(numpy_engine_of, prepared=in_numpy)], ids=["torch", "C", "NumPy"]
)


@EACH_ENGINE
def test_a_source_whose_numbers_are_not_finite_is_named_by_its_own_number(
    build: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedding of one token is so large that only sources with it overflow."""
    monkeypatch.setattr(batches, "BATCH_POSITIONS", 40)
    model = random_model()
    with torch.no_grad():
        model.source_embedding.weight[5] = 1e38
    sources = [source for source in random_sources(16, 12) if 5 not in source]
    at, engine = len(sources) // 2, build(model)
    for decoding in (GREEDY, DecodingSettings(num_beams=3), DecodingSettings(do_sample=True)):
        with pytest.raises(NotFiniteError) as caught:
            search(engine, [*sources[:at], [*sources[at][:-1], 5, sources[at][-1]], *sources[at:]], decoding, 4)
        assert caught.value.row == at
    with pytest.raises(NotFiniteError) as caught:
        engine.score([(sources[0], sources[1]), ([*sources[0], 5], sources[1])])
    assert caught.value.row == 1


@EACH_ENGINE
@pytest.mark.parametrize("num_beams", [1, 2, 3, 7])
def test_of_tokens_that_are_tied_the_lowest_id_wins(build: Callable[..., Engine], num_beams: int) -> None:
    """Four tokens have the same logit after every beginning, which is the highest."""
    model, forbidden = random_model(output_bias=True), (PAD, BOS, UNK)
    with torch.no_grad():
        model.output_projection.weight *= 0
        model.output_projection.bias.fill_(-5.0)
        model.output_projection.bias[[5, 6, 8, 10]] = 1.0
        model.output_projection.bias[EOS] = 0.5
    table = model.output_projection.bias.log_softmax(0).tolist()
    space = SearchConstraints(BOS, EOS, forbidden, max_new_tokens=4)
    expected = naive_beam(lambda _sentence, _ids: table, space, num_beams, 0.0, num_beams)
    assert num_beams == 7 or expected[-1][:3] == (5, 5, 5)
    decoding = DecodingSettings(num_beams=num_beams, num_return_sequences=num_beams, length_alpha=0.0)
    for answers in search(build(model), random_sources(3, longest=5), decoding, 4):
        assert [tuple(with_eos(answer)) for answer in answers] == expected


@EACH_ENGINE
def test_copies_far_below_the_best_have_the_log_probabilities_of_the_reference(build: Callable[..., Any]) -> None:
    model = random_model(copy_mechanism=True, output_bias=True)
    with torch.no_grad():
        model.output_projection.weight *= 0
        model.output_projection.bias.fill_(-1500.0)
        model.copy_mechanism.w_k.weight *= 160  # type: ignore[operator, union-attr]
    source, engine = [BOS, *range(4, 12), EOS], build(model)
    found, _ = engine.step(np.array([[BOS]]), engine.start([source]))
    weights = {name: array.astype(np.float64) for name, array in get_weights(model).items()}
    memory = reference.encode(weights, model.settings, np.array(source))
    hidden = reference.decode(weights, model.settings, np.array([BOS]), memory)
    copies = reference.copies(weights, model.settings, np.array(source), memory)
    (expected,) = reference.log_softmax(reference.project(weights, model.settings, hidden, copies=copies))
    assert expected[4:].min() < -200
    assert expected[4:].min() > expected[0] + 200  # all tokens but the special ones are copied
    assert found.numpy()[0, 0] == pytest.approx(expected, abs=1e-2)


@EACH_ENGINE
@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("logit", [100.0, -100.0])
def test_the_score_of_a_sure_answer_is_exact_however_large_its_logit(
    build: Callable[..., Any], n_models: int, logit: float
) -> None:
    model = random_model(output_bias=True)
    with torch.no_grad():
        model.output_projection.weight *= 0
        model.output_projection.bias.fill_(logit - 12)
        model.output_projection.bias[7] = logit
    expected = -math.log1p((VOCABULARY - 1) * math.exp(-12))
    engine = build(*[model] * n_models)
    found = engine.step(np.array([[BOS]]), engine.start([[BOS, 5, EOS]]))[0].numpy()[0, 0, 7]
    assert found == pytest.approx(expected, abs=1e-6)
    assert engine.score([([BOS, 5, EOS], [BOS, 7])])[0] == pytest.approx([expected], abs=1e-6)


@EACH_ENGINE
@pytest.mark.parametrize("max_length", [5, 12])
def test_learned_positions_serve_to_the_last(build: Callable[..., Engine], max_length: int) -> None:
    """Their number need not be a multiple of the padding."""
    model = random_model(positions="learned", max_length=max_length)
    engine, sources = build(model), [[BOS, *[5] * (max_length - 2), EOS], [BOS, EOS]]
    for decoding in (GREEDY, DecodingSettings(num_beams=2, num_return_sequences=2)):
        for answers in search(engine, sources, decoding, 100):
            assert all(len(with_eos(answer)) <= max_length for answer in answers)
    target = [BOS, *[6] * max_length]
    (scored,) = engine.score([(sources[0], target)])
    assert scored == pytest.approx(log_probs_by_hand(model, sources[0], target), abs=1e-4)


def test_past_the_last_learned_position_is_an_error_and_harms_no_later_text() -> None:
    engine, fine = numpy_engine_of(random_model(positions="learned", max_length=6)), ([BOS, 5, EOS], [BOS, 5, EOS])
    before, long = engine.score([fine]), [BOS, *[5] * 5, EOS, EOS]
    for pair in ((long, fine[1]), (fine[0], long)):
        with pytest.raises(TextError, match="tokens is longer than the 6 learned positions"):
            engine.score([pair])
    assert engine.score([fine]) == before


def test_the_last_of_several_searches_restores_the_threads_of_blas() -> None:
    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    engine, found = numpy_engine_of(random_model(), prepared=in_numpy), []
    with ThreadPoolExecutor(1) as other, threadpool_limits(2, "blas"):
        OpenBLASController.clear_controlling_thread()  # as in a process that began with two
        searches = [engine.answers([[BOS, EOS], [BOS, *[5] * 20, EOS]], GREEDY, 4) for _ in range(2)]
        for each in searches:
            other.submit(next, each).result()
        for each in searches:
            found.append(threads())
            each.close()  # in another thread than the one that began, which lives
        assert [*found, threads()] == [{1}, {1}, {2}]
        other.submit(threadpool_limits, 1, "blas").result()
        assert threads() == {1}, "any thread can set them again"
        OpenBLASController.clear_controlling_thread(force=True)


# Which engine


def test_a_device_or_precision_that_it_lacks_is_refused_with_the_way_out() -> None:
    for wrong, error in ((("cuda", "float32"), DeviceError), (("cpu", "bfloat16"), SettingsError)):
        with pytest.raises(error) as caught:
            load_engine("numpy", [], *wrong)
        assert caught.value.hint == 'engine="torch"'


@pytest.mark.parametrize(
    ("device", "precision", "driver", "chosen"),
    [
        ("cpu", "float32", True, "numpy"),
        ("auto", "float32", False, "numpy"),
        ("auto", "float32", True, "torch"),
        ("cpu", "bfloat16", False, "torch"),
        ("cuda", "float32", True, "torch"),
    ],
)
def test_auto_is_numpy_where_there_is_no_gpu(
    device: str, precision: str, driver: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numpy", "torch"):
        monkeypatch.setattr(engines, f"_{name}", lambda *_given, name=name: name)
    monkeypatch.setattr(engines, "_has_gpu", lambda: driver)
    assert load_engine("auto", [], device, precision) == chosen
