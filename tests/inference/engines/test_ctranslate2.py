"""The CTranslate2 engine: the answers and scores of PyTorch for every kind of model, the comparison, the cache."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.data.cache import FOLDER_VARIABLE
from glassformer.errors import DeviceError, EngineError, MissingExtraError, SettingsError, TextError, UsageError
from glassformer.inference.engines import agreement, ctranslate2, load_engine, search
from glassformer.inference.engines.agreement import MAX_TOKENS, drawn_sources
from glassformer.inference.engines.ctranslate2 import CTranslate2Engine, find_device, resolve_precision
from glassformer.inference.engines.torch import TorchEngine
from glassformer.inference.translator import Translator
from glassformer.paper.search import Hypothesis, is_certain
from glassformer.paper.settings import DecodingSettings, Settings, SideSettings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.ship.storage.records import TrainingData
from glassformer.text import learn
from glassformer.text.vocabulary import Vocabulary
from tests.untrained import listening_model

needs_library = pytest.mark.usefixtures("_library")

ALPHABET = "abcdefgh"
TINY: dict[str, Any] = {
    "d_model": 16,
    "d_ff": 32,
    "n_heads": 2,
    "n_encoder_layers": 2,
    "n_decoder_layers": 1,
    "tied_embeddings": "none",
}
KINDS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "output bias, tied": {"output_bias": True, "tied_embeddings": "all"},
    "tied target, other sinusoids": {"tied_embeddings": "target", "position_base": 50.0},
    "learned positions": {"positions": "learned", "max_length": 20},
    "swish, unscaled embeddings, other eps": {"activation": "swish", "scale_embeddings": False, "norm_eps": 0.1},
    "gelu, attention bias": {"activation": "gelu", "attention_bias": True},
    "odd heads": {"d_model": 30, "n_heads": 4, "d_k": 7, "d_v": 7, "d_ff": 33},
    "all at once": {"norm": "pre", "activation": "gelu", "positions": "learned", "max_length": 20, "n_heads": 3},
}
GREEDY, BEAM = DecodingSettings(num_beams=1), DecodingSettings(num_beams=5)
N_BEST = DecodingSettings(num_beams=5, num_return_sequences=3)
LONGEST = 12


@pytest.fixture(autouse=True)
def _few_sources_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "ROWS", 24)


@pytest.fixture
def _library() -> None:
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")


def untrained(seed: int = 1, *, sharp: float = 1.0, loves: str | None = None, **changes: Any) -> ModelFile:
    """A small model with random weights, norms and biases, made to listen to its source.

    `sharp` multiplies its logits; `loves` names a special token that it would write.
    """
    side = {"kind": "characters", "vocabulary_size": 100}
    chosen = Settings.model_validate({"tokens": {"source": side, "target": side}, "model": TINY | changes})
    tokenizer = learn([ALPHABET], SideSettings.model_validate(side))
    loud = {} if loves is None else {tokenizer.vocabulary.specials[loves]: 4.0}
    return listening_model(chosen, tokenizer, tokenizer, seed, sharp=sharp, loud=loud)


def oracle(model_file: ModelFile) -> TorchEngine:
    return TorchEngine.of_files([model_file])


def random_sources(model_file: ModelFile, n: int = 40, longest: int = 14) -> list[list[int]]:
    chance, tokenizer = random.Random(2), model_file.source_tokenizer
    texts = ["".join(chance.choices(ALPHABET, k=chance.randrange(longest + 1))) for _ in range(n)]
    return [tokenizer.frame(tokenizer.encode(text)) for text in texts]


def framed(model_file: ModelFile, answer: Hypothesis) -> list[int]:
    vocabulary = model_file.target_tokenizer.vocabulary
    return [vocabulary.bos_id, *answer.ids, *([vocabulary.eos_id] if answer.finished else [])]


def assert_same(ours: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    """The same best answers, finished or not, with the same scores."""
    for (our, *_), (other, *_) in zip(ours, expected, strict=True):
        assert (our.ids, our.finished) == (other.ids, other.finished)
        assert our.score == pytest.approx(other.score, abs=1e-4)
        assert our.rank_score == pytest.approx(other.rank_score, abs=1e-4)


@needs_library
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_answers_and_forced_scores_are_those_of_torch(kind: str) -> None:
    model_file = untrained(**KINDS[kind])
    sources, engine, torch_engine = random_sources(model_file), CTranslate2Engine(model_file), oracle(model_file)
    expected = search(torch_engine, sources, GREEDY, LONGEST)
    assert len({answers[0].ids for answers in expected}) > 8  # or else equality would say little
    assert_same(search(engine, sources, GREEDY, LONGEST), expected)
    pairs = [(source, framed(model_file, answers[0])) for source, answers in zip(sources, expected, strict=True)]
    for ours, theirs in zip(engine.score(pairs), torch_engine.score(pairs), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


@needs_library
@pytest.mark.parametrize("kind", ["post", "pre", "learned positions"])
def test_the_answers_of_a_beam_have_true_scores_and_the_right_order(kind: str) -> None:
    model_file = untrained(**KINDS[kind])
    sources, torch_engine = random_sources(model_file), oracle(model_file)
    found = search(CTranslate2Engine(model_file), sources, N_BEST, LONGEST)
    for source, answers in zip(sources, found, strict=True):
        forced = torch_engine.score([(source, framed(model_file, answer)) for answer in answers])
        assert [answer.score for answer in answers] == pytest.approx([sum(scores) for scores in forced], abs=1e-4)
        assert len({answer.ids for answer in answers}) == len(answers) == 3
        assert answers == sorted(answers, key=lambda answer: (not answer.finished, -answer.rank_score))


@needs_library
def test_where_greedy_search_is_certain_a_beam_gives_its_answers() -> None:
    model_file = untrained(sharp=6)
    sources, torch_engine = random_sources(model_file), oracle(model_file)
    expected = search(torch_engine, sources, BEAM, LONGEST)
    certain = [is_certain(answers[0], BEAM.length_alpha, LONGEST) for answers in expected]
    assert 0 < sum(certain) < len(certain)
    found = search(CTranslate2Engine(model_file), sources, BEAM, LONGEST)
    sure = [row for row, is_sure in enumerate(certain) if is_sure]
    assert_same([found[row] for row in sure], [expected[row] for row in sure])


@needs_library
@pytest.mark.parametrize(("special", "decoding"), [("<pad>", BEAM), ("<unk>", GREEDY), ("<bos>", BEAM)])
def test_no_special_token_is_written_and_scores_stay_the_models(special: str, decoding: DecodingSettings) -> None:
    model_file = untrained(loves=special)
    sources, torch_engine = random_sources(model_file, n=20), oracle(model_file)
    freely = search(replace(torch_engine, forbidden=()), sources, GREEDY, LONGEST)
    beloved = model_file.target_tokenizer.vocabulary.specials[special]
    assert any(beloved in answers[0].ids for answers in freely)
    found = search(CTranslate2Engine(model_file), sources, decoding, LONGEST)
    if decoding == GREEDY:
        assert_same(found, search(torch_engine, sources, decoding, LONGEST))
    for source, (answer,) in zip(sources, found, strict=True):
        assert not set(answer.ids) & model_file.target_tokenizer.vocabulary.special_ids
        (forced,) = torch_engine.score([(source, framed(model_file, answer))])
        assert answer.score == pytest.approx(sum(forced), abs=1e-4)


@needs_library
@pytest.mark.parametrize("kind", ["pre", "learned positions"])
@pytest.mark.parametrize("longest", [1, 40])
def test_prefixes_and_the_longest_length_mean_what_they_mean_in_torch(kind: str, longest: int) -> None:
    model_file = untrained(**KINDS[kind])
    sources = random_sources(model_file, n=20)
    encode = model_file.target_tokenizer.encode
    prefixes = [encode(ALPHABET[: row % 5]) for row in range(len(sources))]
    engine, torch_engine = CTranslate2Engine(model_file), oracle(model_file)
    for given in ((), prefixes):
        assert_same(
            search(engine, sources, GREEDY, longest, given), search(torch_engine, sources, GREEDY, longest, given)
        )
    forced = search(engine, sources, BEAM, longest, prefixes)
    for prefix, (answer,) in zip(prefixes, forced, strict=True):
        assert answer.ids[: len(prefix)] == tuple(prefix[:longest])


@needs_library
def test_nothing_asked_and_sources_without_a_token_are_no_special_cases() -> None:
    model_file = untrained()
    engine = CTranslate2Engine(model_file)
    assert search(engine, [], BEAM, LONGEST) == []
    assert engine.score([]) == []
    nothing = [model_file.source_tokenizer.frame([])]
    assert_same(search(engine, nothing, GREEDY, LONGEST), search(oracle(model_file), nothing, GREEDY, LONGEST))


@needs_library
def test_sinusoids_go_on_and_learned_positions_end_with_a_word() -> None:
    model_file = untrained()
    engine, torch_engine = CTranslate2Engine(model_file), oracle(model_file)
    for length in (5, 700):
        sources = [model_file.source_tokenizer.frame(model_file.source_tokenizer.encode("abcdefg" * (length // 7)))]
        assert_same(search(engine, sources, GREEDY, length), search(torch_engine, sources, GREEDY, length))
    learned = CTranslate2Engine(untrained(positions="learned", max_length=20))
    with pytest.raises(TextError, match="21 tokens is longer than the 20 learned positions"):
        search(learned, [[1] * 21], GREEDY, LONGEST)
    assert len(learned.score([([1, 2], [1] * 21)])[0]) == 20
    with pytest.raises(TextError, match="21 tokens is longer than the 20 learned positions"):
        learned.score([([1, 2], [1] * 22)])


@needs_library
def test_loading_leaves_pytorch_its_threads() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        model_file = untrained()
        search(CTranslate2Engine(model_file), random_sources(model_file, n=2), GREEDY, LONGEST)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


@needs_library
@pytest.mark.parametrize("n_workers", [1, 3])
def test_a_source_has_the_same_answer_alone_and_in_any_batch(n_workers: int) -> None:
    model_file = untrained(norm="pre")
    engine, sources = CTranslate2Engine(model_file), random_sources(model_file, n=30)
    engine.n_workers = n_workers
    together = search(engine, [*sources, *sources[::-1]], BEAM, LONGEST)
    assert_same(together, [search(engine, [source], BEAM, LONGEST)[0] for source in [*sources, *sources[::-1]]])


@needs_library
@pytest.mark.parametrize("decoding", [GREEDY, N_BEST], ids=["greedy", "n-best"])
def test_answers_are_the_same_in_many_small_batches(
    decoding: DecodingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file = untrained()
    sources = random_sources(model_file)
    engine = CTranslate2Engine(model_file)
    expected = search(engine, sources, decoding, LONGEST)
    monkeypatch.setattr("glassformer.inference.engines.ctranslate2.BATCH_POSITIONS", {"float32": 16})
    assert_same(search(engine, sources, decoding, LONGEST), expected)
    pairs = [(source, source) for source in sources]
    for pair, scores in zip(pairs, engine.score(pairs), strict=True):
        assert scores == pytest.approx(engine.score([pair])[0], abs=1e-4)


@needs_library
@pytest.mark.skipif(
    not torch.cpu._is_vnni_supported(), reason="scores in int8 are up to a third off on a processor without VNNI"
)
@pytest.mark.parametrize("kind", ["pre", "odd heads", "output bias, tied"])
def test_int8_is_near_float32_and_not_the_same(kind: str) -> None:
    model_file = untrained(**KINDS[kind])
    sources = random_sources(model_file)
    pairs = [(source, source) for source in sources]
    exact, rounded = CTranslate2Engine(model_file), CTranslate2Engine(model_file, precision="int8")
    scores = [[sum(each) for each in engine.score(pairs)] for engine in (exact, rounded)]
    assert scores[0] != pytest.approx(scores[1], abs=1e-4)
    assert scores[0] == pytest.approx(scores[1], abs=0.2, rel=0.05)
    assert len(search(rounded, sources, BEAM, LONGEST)) == len(sources)


# --- What is not there ---


@needs_library
def test_a_device_a_precision_or_an_engine_that_is_not_there_names_those_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ctranslate2 as library

    monkeypatch.setattr(library, "get_cuda_device_count", lambda: 0)
    monkeypatch.setattr(library, "get_supported_compute_types", lambda _: {"float32", "int8", "int8_float32"})
    assert find_device("auto") == find_device("cpu") == ("cpu", 0)
    with pytest.raises(DeviceError, match=r"'mps' is not available in ctranslate2\n  expected: auto, cpu$"):
        find_device("mps")
    assert resolve_precision("cpu", "auto") == "float32"
    with pytest.raises(SettingsError, match=r"no precision 'bfloat16' on cpu\n.*valid: auto, float32, int8"):
        resolve_precision("cpu", "bfloat16")
    with pytest.raises(UsageError, match=r"no engine 'ctranslate'\n  next: did you mean 'ctranslate2'.*torch"):
        Translator(untrained(), engine="ctranslate")
    monkeypatch.setattr(library, "get_cuda_device_count", lambda: 2)
    assert find_device("auto") == find_device("cuda") == ("cuda", 0)
    assert find_device("cuda:1") == ("cuda", 1)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtraError) as error:
        Translator(untrained(), engine="ctranslate2")
    assert str(error.value) == (
        "--engine ctranslate2 needs the package 'ctranslate2', which is not installed\n"
        "  next: pip install 'glassformer[ctranslate2]'"
    )


@needs_library
def test_what_the_library_cannot_do_is_refused_with_the_way_out() -> None:
    model_file = untrained()
    with pytest.raises(SettingsError, match="one width\n  got: d_k=5, d_v=7\n  next: --engine numpy"):
        CTranslate2Engine(untrained(d_k=5, d_v=7))
    with pytest.raises(UsageError, match="not an ensemble\n  next: --engine numpy"):
        load_engine("ctranslate2", [model_file, model_file], "cpu", "float32")
    with pytest.raises(UsageError, match="does not sample\n  next: --engine numpy"):
        Translator(model_file, engine="ctranslate2", device="cpu").translate(["a"], do_sample=True)


# --- The comparison with NumPy, and the cache ---


@pytest.fixture
def folder(_library: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def answers_of(model_file: ModelFile) -> list[tuple[int, ...]]:
    """The answers of a new engine."""
    found = search(CTranslate2Engine(model_file), random_sources(model_file), GREEDY, LONGEST)
    return [answers[0].ids for answers in found]


def test_a_model_is_converted_and_compared_once_and_not_in_each_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file = untrained()
    first = Translator(model_file, engine="ctranslate2", device="cpu")
    assert first.agreement is None
    expected = first.translate(["", *ALPHABET])
    monkeypatch.setattr(ctranslate2, "write_model", None)
    monkeypatch.setattr(ctranslate2, "compare", None)
    again = Translator(model_file, engine="ctranslate2", device="cpu")
    assert again.translate(["", *ALPHABET]) == expected
    assert str(again.agreement) == "ctranslate2 in float32: equal to numpy on 24 of 24 drawn sources"
    assert again.agreement == first.agreement
    assert Translator(model_file, device="cpu").agreement is None
    tensors = {
        name: array + np.float32(name == "source_embedding.weight") for name, array in model_file.tensors.items()
    }
    for other in (replace(model_file, tensors=tensors), untrained(norm_eps=0.1)):
        with pytest.raises(TypeError, match="not callable"):
            answers_of(other)
    monkeypatch.setattr("ctranslate2.__version__", "1000.0.0")
    with pytest.raises(TypeError, match="not callable"):
        answers_of(model_file)


@pytest.mark.parametrize("change", [{"norm_eps": 0.5}, {"scale_embeddings": False}])
def test_another_model_is_noticed_and_nothing_is_translated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    model_file, write = untrained(), ctranslate2.write_model
    settings = model_file.settings
    changed = settings.model_copy(update={"model": settings.model.model_copy(update=change)})
    monkeypatch.setattr(ctranslate2, "write_model", lambda given, *rest: write(replace(given, settings=changed), *rest))
    translator = Translator(model_file, engine="ctranslate2", device="cpu")
    for _ in range(2):  # the second use refuses it, too
        with pytest.raises(
            EngineError, match="does not compute this model as numpy does; nothing was translated\n"
        ) as error:
            translator.translate([ALPHABET])
        assert "of 24 sources drawn from what the model was trained on" in (error.value.where or "")
    assert list(folder.iterdir()) == []


@needs_library
def test_a_low_precision_is_counted_and_not_refused() -> None:
    model_file = untrained()
    engine = CTranslate2Engine(model_file, precision="int8")
    sources = drawn_sources(model_file)
    ours = search(engine, sources, GREEDY, MAX_TOKENS)
    expected = search(oracle(model_file), sources, GREEDY, MAX_TOKENS)
    same = sum(a[0].ids == b[0].ids for a, b in zip(ours, expected, strict=True))
    assert 0 < same < len(sources)
    assert engine.agreement is not None
    assert not engine.agreement.is_exact
    assert engine.agreement.equal - engine.agreement.ties == same


def test_sources_are_drawn_as_the_training_data_has_them() -> None:
    model_file = untrained()
    size, never = len(model_file.source_tokenizer), model_file.source_tokenizer.vocabulary.ordinary["c"]
    counts = [0 if token == never else 7 for token in range(size)]
    trained = replace(model_file, data=TrainingData(source_counts=counts, longest_source=5))
    sources = drawn_sources(trained)
    assert sources == drawn_sources(trained)
    assert {0, 5} <= {len(source) - 2 for source in sources} <= set(range(6))
    drawn = {token for source in sources for token in source[1:-1]}
    assert drawn == set(model_file.source_tokenizer.vocabulary.ordinary.values()) - {never}
    empty = replace(model_file, data=TrainingData(source_counts=[0] * size))
    assert drawn_sources(empty) == [model_file.source_tokenizer.frame([])] * 24
    assert max(map(len, drawn_sources(untrained(positions="learned", max_length=8)))) == 8


@pytest.mark.parametrize("name", ["model.bin", "entry.json"])
@pytest.mark.parametrize("damage", [lambda old: old[:-9] + b"123456789", lambda _: b""])
def test_a_damaged_cache_is_replaced(folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    model_file = untrained()
    expected = answers_of(model_file)
    (file,) = folder.glob(f"*/{name}")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(UserWarning, match="in the cache was damaged; the model was converted again"):
        assert answers_of(model_file) == expected
    assert answers_of(model_file) == expected


def test_a_cache_that_cannot_be_written_is_said_once_and_nothing_else_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file = untrained()
    expected = answers_of(model_file)
    (folder / "file").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder / "file"))
    engine = CTranslate2Engine(model_file)
    with pytest.warns(UserWarning, match=f"the cache cannot be written .*; set {FOLDER_VARIABLE}"):
        found = search(engine, random_sources(model_file), GREEDY, LONGEST)
    assert [answers[0].ids for answers in found] == expected
    assert search(engine, random_sources(model_file), GREEDY, LONGEST) == found
    assert engine.agreement is not None


def test_of_two_processes_at_once_both_answer_and_one_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_file, write = untrained(), ctranslate2.write_model
    found = []

    def write_while_another_process_does(*given: Any) -> None:
        monkeypatch.setattr(ctranslate2, "write_model", write)
        write(*given)
        found.append(answers_of(model_file))

    monkeypatch.setattr(ctranslate2, "write_model", write_while_another_process_does)
    assert answers_of(model_file) == found[0]
    assert len(list(folder.iterdir())) == 1


def test_two_tokens_that_are_equally_likely_are_a_tie_and_others_are_not() -> None:
    class Oracle:
        def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
            """The third token of an answer is as likely as its id is high."""
            return [[-1.0, -1.0, -1.0 / target[3], *(-9.0 for _ in target[4:])] for _, target in pairs]

    def answer(*ids: int, finished: bool = True) -> Hypothesis:
        return Hypothesis(ids, (), 0.0, 0.0, finished)

    ours = [answer(5, 6, 7), answer(5, 6, 1000), answer(5, 6, 8), answer(5, 6, 1000, finished=False)]
    expected = [answer(5, 6, 7), answer(5, 6, 1001, 9), answer(5, 6, 9), answer(5, 6)]
    vocabulary = Vocabulary.from_pieces([], {"<pad>": 0, "<bos>": 1, "<eos>": 2})
    assert agreement.tied_rows(Oracle(), vocabulary, [[]] * 4, ours, expected) == {1}  # type: ignore[arg-type]
