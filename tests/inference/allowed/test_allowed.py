"""Answers that are allowed: every answer matches, and the search finds the best that does."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

from glassformer.errors import MissingExtraError, TextError, TimeLimitError, UsageError
from glassformer.inference.allowed import Constraint, patterns
from glassformer.inference.allowed.automaton import TokenTable
from glassformer.inference.timelimit import time_limit
from glassformer.inference.translator import EMPTY, Translation, Translator
from glassformer.inference.worker import BatchingTranslator
from glassformer.jobs.stream import translate_stream
from glassformer.paper.search import Guide, SearchConstraints, beam_search, greedy_search, length_penalty, sample
from glassformer.settings import Settings, SideSettings
from glassformer.text import Tokenizer, learn
from glassformer.text.vocabulary import Vocabulary
from tests.paper.search.toys import BOS, Stepper, random_toy, start, total
from tests.untrained import listening_model

TINY: dict[str, Any] = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
TINY["tied_embeddings"] = "none"
LONGEST = 7
SOURCES = ["ab", "b 1", "aé1"]
KINDS = ("characters", "words", "bytes", "subwords", "sentencepiece")
needs_library = pytest.mark.skipif(
    not patterns.importlib.util.find_spec("outlines_core"), reason="the extra constraints is not installed"
)

# --- Guided searches over toys ---

languages = st.sets(st.lists(st.integers(1, 3), max_size=4).map(tuple), min_size=1, max_size=8)


def table_of(language: set[tuple[int, ...]], eos_id: int, longest: int) -> TokenTable:
    """The automaton of a finite language: a state for each beginning of its words."""
    beginnings = sorted({word[:n] for word in language for n in range(len(word) + 1)})
    state = {beginning: number for number, beginning in enumerate(beginnings)}
    transitions = [(state[one[:-1]], one[-1], state[one]) for one in beginnings if one]
    finals = [state[word] for word in language]
    n_states = len(beginnings)
    return TokenTable(np.array(transitions), finals, n_states, n_tokens=eos_id + 1, eos_id=eos_id, longest=longest)


@settings(max_examples=40, deadline=None)
@given(language=languages, seed=st.integers(0, 10_000), alpha=st.sampled_from([0.0, 0.6]))
@example(language={()}, seed=0, alpha=0.0)  # an automaton without transitions
def test_a_wide_guided_beam_finds_the_best_of_all_that_is_allowed(language, seed, alpha):
    toy, longest = random_toy(seed, 5), max(map(len, language)) + 1
    guide = Guide(table_of(language, 4, longest), [0, 0])
    space = SearchConstraints(BOS, 4, (0,), longest, guide=guide)
    found = beam_search(Stepper(toy), start(2), 2, space, num_beams=20, alpha=alpha, n_best=len(language))

    for sentence, answers in enumerate(found):
        ranks = {word: total(toy, (*word, 4), sentence) / length_penalty(len(word) + 1, alpha) for word in language}
        assert [answer.ids for answer in answers] == sorted(language, key=lambda word: -ranks[word])
        assert answers[0].rank_score == pytest.approx(max(ranks.values()), abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(language=languages, seed=st.integers(0, 10_000), longest=st.integers(1, 6), width=st.integers(1, 4))
def test_no_search_leaves_what_is_allowed_or_gets_stuck(language, seed, longest, width):
    assume(min(map(len, language)) <= longest)
    toy = random_toy(seed, 5, less_eos=5)
    guide = Guide(table_of(language, 4, longest), [0, 0])
    space = SearchConstraints(BOS, 4, (0,), longest, guide=guide)
    uniform = np.random.default_rng(seed).random((2, longest, width)).astype(np.float32)
    found = [
        *greedy_search(Stepper(toy), start(2), 2, space),
        *beam_search(Stepper(toy), start(2), 2, space, num_beams=width, n_best=width),
        *sample(Stepper(toy), start(2), uniform, space),
    ]
    assert all(answers for answers in found)
    assert {answer.ids for answers in found for answer in answers} <= language


# --- Patterns, in every kind of vocabulary ---


@functools.cache
def tokenizer(kind: str) -> Tokenizer:
    texts = ["ab é1", "b a1 é", "aé1 b", "ab ab b 1", "éé", "a  b"]
    if kind == "sentencepiece":
        pieces = ["▁", "a", "b", "é", "1", "▁a", "▁ab", "b1", "1▁", "▁b▁", "é▁a"]
        learned = {"sentencepiece": {"algorithm": "unigram", "pieces": pieces, "scores": [-float(len(pieces))] * 11}}
        side = SideSettings(kind="sentencepiece", algorithm="unigram", normalization="none")
        vocabulary = Vocabulary.from_pieces(pieces, {"<pad>": 0, "<bos>": 1, "<eos>": 2, "<unk>": 3})
        return Tokenizer(side, vocabulary, learned)
    return learn(
        texts, SideSettings.model_validate({"kind": kind, "vocabulary_size": 20 if kind == "subwords" else 300})
    )


@functools.cache
def translator(kind: str = "characters", seed: int = 1, engine: str = "numpy", **decoding: Any) -> Translator:
    chosen = {"model": TINY, "decoding": {"num_beams": 3, "max_new_tokens": LONGEST} | decoding}
    source = tokenizer("characters")
    model = listening_model(Settings.model_validate(chosen), source, tokenizer(kind), seed, sharp=2.0)
    return Translator(model, device="cpu", engine=engine)


parts = st.sampled_from(["a", "b", "é", "1", " ", "ab", ".", r"\d", r"\w", r"\s", "[ab1]", "[^a]", "[é ]", "x"])
repeats = st.sampled_from(["*", "+", "?", "*?", "{1,3}", "{2}"])
regexes = st.recursive(
    parts,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, repeats).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=6,
)
MODES: tuple[dict[str, Any], ...] = (
    {"num_beams": 1},
    {"num_beams": 3, "num_return_sequences": 3},
    {"do_sample": True, "num_return_sequences": 4},
)


def all_answers(translations: Sequence[Translation]) -> list[Translation]:
    return [one for answer in translations for one in (answer, *answer.alternatives)]


@needs_library
@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pattern=regexes, seed=st.integers(1, 3), prefix=st.sampled_from(["", "a", "b", "ab"]))
def test_every_answer_matches_and_where_there_is_none_none_is_possible(kind, pattern, seed, prefix):
    if kind in ("subwords", "sentencepiece"):
        pytest.importorskip({"subwords": "tokenizers"}.get(kind, kind))
    if kind == "bytes":  # whose answers have characters that only newer versions of Unicode know
        pattern = pattern.replace(r"\w", "[a-z]").replace(r"\d", "[0-9]")
    model = translator(kind, seed)
    encode = model.target_tokenizer.encode
    matching = [text for text in short_texts(kind) if re.fullmatch(pattern, text)]
    for mode, begin in itertools.product(MODES, {"", prefix}):
        prefixes = [begin] * len(SOURCES) if begin else None
        if model.target_tokenizer.unknown(begin):
            continue
        try:
            found = all_answers(model.translate(SOURCES, must_match=pattern, prefixes=prefixes, **mode))
        except UsageError:  # nothing matches, or nothing that is short enough
            found = [replace(EMPTY, is_allowed=False)]
        for answer in found:
            if not answer.is_allowed:
                assert not [text for text in matching if encode(text)[: len(encode(begin))] == encode(begin)], answer
            else:
                assert re.fullmatch(pattern, answer.text), answer
                assert answer.text.startswith(begin), answer


@functools.cache
def short_texts(kind: str) -> list[str]:
    """The texts of up to three tokens, split as the tokenizer splits a text: forced starts are too."""
    target = tokenizer(kind)
    tokens = list(target.vocabulary.ordinary.values())
    if kind == "bytes":
        tokens = [target.vocabulary.ordinary[one] for one in "ab1 "]
    texts = {target.decode(ids) for n in range(4) for ids in itertools.product(tokens, repeat=n)}
    return sorted(text for text in texts if target.decode(target.encode(text)) == text)


@needs_library
@pytest.mark.parametrize("kind", ["characters", "words", "subwords"])  # bytes: what is not UTF-8 is not allowed
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_pattern_that_everything_matches_changes_nothing(kind, engine):
    model = translator(kind, engine=engine)
    for mode in MODES:
        for prefixes in (None, ["a"] * len(SOURCES)) if kind == "characters" else (None,):
            free = model.translate(SOURCES, prefixes=prefixes, **mode)
            assert model.translate(SOURCES, must_match="(?s:.*)", prefixes=prefixes, **mode) == free


@needs_library
def test_both_engines_give_the_same_constrained_answers():
    found = [translator(engine=engine).translate(SOURCES, must_match=r"[ab]+ \d") for engine in ("numpy", "torch")]
    assert [answer.text for answer in found[0]] == [answer.text for answer in found[1]]


def test_answers_of_choices_are_choices_with_the_scores_that_the_model_gives_them():
    choices = ["ab", "b a1", "é", "a"]
    for kind in ("characters", "bytes", "subwords"):
        model = translator(kind)
        for source, answer in zip(
            SOURCES, model.translate(SOURCES, choices=choices, num_return_sequences=4, num_beams=8), strict=True
        ):
            ranked = all_answers([answer])
            assert sorted(one.text for one in ranked) == sorted(choices)
            scores = model.score([(source, one.text) for one in ranked])
            assert [one.score for one in ranked] == pytest.approx([score.score for score in scores], abs=1e-4)


def test_choices_are_those_that_start_with_the_prefix():
    model = translator("subwords")
    found = model.translate(SOURCES, choices=["ab é1", "ab ab", "b"], prefixes=["ab", "ab a", "aé"])
    assert found[0].text in ("ab é1", "ab ab")
    assert found[1].text == "ab ab"
    assert (found[2].text, [answer.is_allowed for answer in found]) == ("", [True, True, False])


# --- What is refused ---


@pytest.mark.parametrize(
    ("pattern", "what", "got"),
    [
        ("(a", "the pattern is not valid", "position 0"),
        ("[[a]", "the pattern is not valid", "nested set at position 1"),
        ("a(?=b)", "not supported in a pattern: look-around", "'(?=' at position 1"),
        (r"(a)[(]\1", "not supported in a pattern: back reference", "position 6"),
        (r"^\d+$", "not supported in a pattern: anchor", "'^' at position 0"),
        ("a++", "not supported in a pattern: possessive quantifier", "position 1"),
    ],
)
def test_a_pattern_that_is_none_or_not_supported_is_refused_with_its_position(pattern, what, got):
    with pytest.raises(UsageError) as caught:
        Constraint.of(pattern, None)
    assert caught.value.what == what
    assert got in (caught.value.got or "")


@needs_library
@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("a*[xy]", "needs what the target vocabulary does not have"),
        ("(?:ß|ab|x){9}", "too long"),
        (r"[^\x00-\U0010FFFF]", "no text at all"),
        ("a{,2}", "does not support"),
    ],
)
def test_a_pattern_that_no_answer_can_match_says_why(pattern, parts):
    with pytest.raises(UsageError, match=re.escape(parts)):
        translator().translate(SOURCES, must_match=pattern)


@needs_library
def test_a_pattern_that_needs_endless_memory_is_refused(monkeypatch):
    monkeypatch.setattr(patterns, "CPU_SECONDS", 1)
    with pytest.raises(UsageError, match="too large"):
        translator().translate(SOURCES, must_match="[ab]*a[ab]{40}")


@needs_library
def test_an_automaton_is_not_begun_when_the_time_is_over():
    with time_limit(-1), pytest.raises(TimeLimitError):
        patterns.table_of_pattern("a{3}", learn(["abc"], SideSettings(kind="characters")), 9)


def test_what_is_no_constraint_is_refused():
    for must_match, choices, what in [
        ("a", ["a"], "both given"),
        (None, [], "no choices"),
        (None, "ab", "must be a list"),
        (1, None, "must be a text"),
    ]:
        with pytest.raises(UsageError, match=what):
            translator().translate(SOURCES, must_match=must_match, choices=choices)  # type: ignore[arg-type]
    with pytest.raises(TextError) as caught:
        translator().translate(SOURCES, choices=["a", "xb", "b" * 9])
    assert "'xb', number 2: no 'x'" in str(caught.value)
    assert "number 3: 9 tokens; answers have at most 7" in str(caught.value)


def test_without_the_library_the_error_is_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(patterns.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError) as caught:
        translator().translate(SOURCES, must_match="[ab]")
    assert caught.value.hint == "pip install '.[constraints]' in the folder that has pyproject.toml"
    assert translator().translate(["ab"], choices=["a"])[0].text == "a"


# --- Jobs, and many callers at once ---


def test_a_stream_refuses_to_join_sentences_of_a_given_form():
    with pytest.raises(UsageError, match="not one answer of a given form"):
        list(translate_stream(translator(), SOURCES, long="split", choices=["a"]))
    with pytest.raises(UsageError, match="the confidence of answers is not known") as caught:
        list(translate_stream(translator(), SOURCES, min_confidence=0.0, choices=["a"]))
    assert "an answer of a given form" in str(caught.value.got)
    assert {answer.text for answer in translate_stream(translator(), SOURCES, choices=["a", "b"])} <= {"a", "b"}


def test_callers_with_other_choices_are_not_searched_together():
    with BatchingTranslator(translator()) as batching, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(batching.translate, ["ab"], choices=[text]) for text in ("a", "b", "é", "1") * 3]
        assert [one.result()[0].text for one in asked] == ["a", "b", "é", "1"] * 3
        with pytest.raises(UsageError, match="not valid"):
            batching.translate(["ab"], must_match="(")
