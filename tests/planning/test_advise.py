"""Zero configuration: the kinds of token that people would choose, room for every row, a reason for each choice."""

from __future__ import annotations

import random
import string
import unicodedata
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings as examples, strategies as st

from benchmarks.tables import table
from glassformer.data.datasets import dates
from glassformer.data.tables import Pair
from glassformer.planning.advise import Advice, Candidate, advise
from glassformer.planning.recipes.overrides import flat, merge
from glassformer.settings import Settings, TokenKind
from glassformer.text.inputs import compose, inputs_of

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


def word(chance: random.Random, least: int = 2) -> str:
    return "".join(chance.choices(SYLLABLES, k=chance.randint(least, 4)))


def dates_table(n_rows: int = 500) -> list[Pair]:
    return [Pair(*row) for row in dates(n_rows, seed=1)]


def spellings_to_phones(n_rows: int = 400) -> list[Pair]:
    """A word, and its sounds as words of one or two letters."""
    chance = random.Random(1)
    sounds = {"a": "ɑ", "e": "ɛ", "i": "iː", "o": "ɔ", "u": "uː"}
    return [
        Pair(w, " ".join(sounds.get(letter, letter) for letter in w)) for w in (word(chance) for _ in range(n_rows))
    ]


def commands(n_rows: int = 600) -> list[Pair]:
    """A few words in any order, answered by a few other words."""
    chance = random.Random(1)
    verbs, ways, counts = ["walk", "run", "jump", "look"], ["left", "right"], ["once", "twice", "thrice"]
    rows = []
    for _ in range(n_rows):
        verb, way, count = chance.choice(verbs), chance.choice(ways), chance.randrange(3)
        acts = [f"TURN_{way.upper()} {verb.upper()}"] * (count + 1)
        rows.append(Pair(f"{verb} {way} {counts[count]}", " ".join(acts)))
    return rows


def prose(n_rows: int = 1500) -> list[Pair]:
    """Sentences with an open vocabulary."""
    chance = random.Random(1)
    rows = []
    for _ in range(n_rows):
        words = [word(chance, 1) for _ in range(chance.randint(4, 12))]
        rows.append(Pair(" ".join(words) + ".", " ".join(w[::-1] for w in words) + "."))
    return rows


def hangul(n_rows: int = 400) -> list[Pair]:
    """Words of syllables that are each one character of many hundreds, and their consonants and vowels."""
    chance = random.Random(1)
    words = [
        "".join(chr(0xAC00 + chance.randrange(11_172)) for _ in range(chance.randint(1, 4))) for _ in range(n_rows)
    ]
    return [Pair(w, " ".join(unicodedata.normalize("NFD", w))) for w in words]


def spellings_of_numbers(n_rows: int = 600) -> list[Pair]:
    """Numbers, with letters in place of digits."""
    return [Pair(f"{7 * row}", "".join("abcdefghij"[int(digit)] for digit in f"{7 * row}")) for row in range(n_rows)]


def kinds(advice: Advice) -> tuple[str, str]:
    tokens = advice.settings["tokens"]
    return tokens["source"]["kind"], tokens["target"]["kind"]


def inflected(n_rows: int = 600) -> list[Pair]:
    """A few words, each with the name of a form, and that form."""
    chance = random.Random(1)
    stems = [word(chance, 3) for _ in range(60)]
    forms = {"V;INF": "ar", "V;PST;1;SG": "uo", "V;PRS;2;PL": "imos", "V;FUT;3;SG": "era"}
    return [
        Pair(f"{stem}ar {form}", stem + forms[form])
        for stem, form in ((chance.choice(stems), chance.choice(list(forms))) for _ in range(n_rows))
    ]


TABLES = {
    "dates": (dates_table, ("characters", "characters")),
    "spelling to phones": (spellings_to_phones, ("characters", "words")),
    "commands": (commands, ("words", "words")),
    "prose": (prose, ("subwords", "subwords")),
    "forms of few words": (inflected, ("characters", "characters")),
    "little prose": (lambda: prose(200), ("characters", "characters")),
}


def test_characters_that_are_put_together_from_few_are_taken_apart() -> None:
    """On either side; accents alone are no reason."""
    rows = hangul()
    assert advise(rows).settings["tokens"]["source"]["normalization"] == "NFD"
    turned_rows = [Pair(target.replace(" ", "-"), source) for source, target in rows]
    turned = advise(turned_rows)
    assert turned.settings["tokens"]["target"]["normalization"] == "NFD"
    assert "normalization" not in turned.settings["tokens"]["source"]
    shared = {"tokens": {"shared": True}}
    Settings(**merge(advise(turned_rows, shared).settings, {"model": {"tied_embeddings": "all"}}, shared))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("products", "targets have 63 different words"),
        ("addresses", "of its words are in the source"),
        ("commands", "targets have "),
    ],
)
def test_texts_that_are_brought_into_one_form_are_right_or_wrong(kind: str, why: str) -> None:
    rows = [Pair(*row) for row in table(kind, 3000)]
    (metric,) = (choice for choice in advise(rows).choices if choice.setting == "training.metric")
    assert metric.value == "exact_match"
    assert metric.reason.startswith("each source has one target, and ")
    assert why in metric.reason
    several = [*rows, *(Pair(row.source, f"{row.target} or so") for row in rows[:100])]
    assert advise(several).settings["training"]["metric"] == "bleu"


def test_bleu_is_no_metric_for_short_targets() -> None:
    """Subwords that were asked for: without four words BLEU is 0, even if all is right."""
    given = {"tokens": {"source": {"kind": "subwords"}, "target": {"kind": "subwords"}}}
    rows = [Pair(pair.source, pair.target.split()[0]) for pair in prose()]
    assert advise(rows, given).settings["training"]["metric"] == "chrf"


def test_sources_are_trimmed_where_none_has_white_space_at_its_ends() -> None:
    clean, inputs = dates_table(), inputs_of(["day", "note"], [])
    rows = [Pair(compose([pair.source, f"{pair.source} x"]), pair.target) for pair in clean]
    for pairs, of in ((clean, ()), ([*clean[:-1], Pair(clean[-1].source, "May 5, 1518 ")], ()), (rows, inputs)):
        assert advise(pairs, None, of).settings["tokens"]["source"]["trim"] is True
    spaced = [*clean[:-1], Pair("1900-01-01 ", "x")]
    for pairs, of in ((spaced, ()), ([*rows[:-1], Pair(compose(["1900 ", "x"]), "y")], inputs)):
        assert "trim" not in advise(pairs, None, of).settings["tokens"]["source"]


@pytest.mark.parametrize("name", TABLES)
def test_each_kind_of_table_gets_its_tokens_a_reason_for_each_choice_and_room_for_every_row(name):
    make, wanted = TABLES[name]
    pairs = make()
    advice = advise(pairs)
    assert kinds(advice) == wanted
    settings = Settings(**advice.settings)
    values = flat(settings.model_dump())
    assert len({choice.setting for choice in advice.choices}) == len(advice.choices)
    assert all(choice.reason.strip() and values[choice.setting] == choice.value for choice in advice.choices)
    judged = settings.training.metric, settings.decoding.length_alpha
    assert judged == (("bleu", 1.0) if "subwords" in wanted else ("exact_match", 0.6))
    for side, limit in ((0, settings.data.max_source_length), (1, settings.data.max_target_length)):
        kind = (settings.tokens.source, settings.tokens.target)[side].kind
        length = len if kind == "characters" else lambda text: len(text.split())
        assert max(length(pair[side]) for pair in pairs) <= limit


def test_subwords_share_a_vocabulary_only_where_the_alphabets_do():
    same = Settings(**advise(prose()).settings)
    assert same.tokens.shared
    assert same.model.tied_embeddings == "all"
    greek = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβψδεφγηιξκλμνοπϙρστθωςχυζ")
    other = Settings(**advise([Pair(s, t.translate(greek)) for s, t in prose()]).settings)
    assert not other.tokens.shared
    assert other.model.tied_embeddings == "target"


@cache
def names(n_rows: int, length: int = 8) -> list[str]:
    """Words of any letters: hardly any four of them stand in a row twice."""
    chance = random.Random(1)
    return ["".join(chance.choices(string.ascii_lowercase, k=length)) for _ in range(n_rows)]


@cache
def open_rows() -> list[Pair]:
    return [Pair(name, name.upper()) for name in names(6_000)]


@cache
def closed_rows() -> list[Pair]:
    return dates_table(6_000)


def much_prose() -> list[Pair]:
    """Prose of 20,000 words, nearly too long for the highest dropout."""
    chance = random.Random(1)
    words = [(drawn, drawn[::-1]) for drawn in (word(chance, 1) for _ in range(20_000))]
    rows = (zip(*chance.choices(words, k=chance.randint(4, 12)), strict=True) for _ in range(10_011))
    return ([Pair(" ".join(source) + ".", " ".join(target) + ".") for source, target in rows] * 10)[:99_999]


LEARNED = {  # maximum number of steps, dropout and label smoothing
    "open on both sides": (open_rows, 6_000, 0.2, 0.1),
    "open target": (lambda: [Pair("ab"[i % 2], pair.target) for i, pair in enumerate(open_rows())], 6_000, 0.2, 0.1),
    "many rows: 15 · √200,000": (lambda: [Pair(x, x) for x in names(20_000)], 6_800, 0.1, 0.1),
    "long texts: no more than 15,000": (lambda: [Pair(x, x) for x in names(2_000, 500)], 15_000, 0.3, 0.1),
    "12 million tokens: three epochs": (lambda: [Pair(x, x) for x in names(5_000, 100)] * 24, 18_000, 0.1, 0.1),
    "31 million tokens: three epochs": (lambda: [Pair(x, x) for x in names(5_000, 100)] * 62, 46_400, 0.1, 0.1),
    "dates and 300 names, 3 % new": (lambda: closed_rows() + open_rows()[:300], 6_000, 0.2, 0.1),
    "dates and 100 names, 1 % new": (lambda: closed_rows() + open_rows()[:100], 6_000, 0.1, 0.0),
    "few rows": (lambda: dates_table(3_000), 6_000, 0.3, 0.1),
    "prose": (much_prose, 15_000, 0.3, 0.1),
    "closed vocabularies: 15 · √600,000": (lambda: commands(10_000) * 10, 11_600, 0.1, 0.0),
}


@pytest.mark.parametrize(("make", "steps", "dropout", "smoothing"), LEARNED.values(), ids=LEARNED)
def test_rows_and_new_spellings_decide_on_steps_dropout_and_smoothing(make, steps, dropout, smoothing):
    chosen = Settings(**advise(make()).settings)
    assert (chosen.training.steps, chosen.model.dropout, chosen.training.label_smoothing) == (steps, dropout, smoothing)
    assert chosen.model.d_model == {18_000: 256, 46_400: 512}.get(steps, 128)


@pytest.mark.parametrize(("n_rows", "n_candidates"), [(5_000, 2), (19_999, 2), (20_000, 1)])
def test_copying_is_raced_with_more_rows_where_sources_have_features(n_rows, n_candidates):
    rows = [Pair(compose([word, "V;PST"]), f"{word}uo") for word in names(n_rows)]
    candidates = advise(rows, inputs=inputs_of(["lemma"], ["tags"])).candidates
    assert [candidate.copying for candidate in candidates] == [True, False][-n_candidates:]


def test_what_is_not_in_the_source_is_not_copied():
    words = [f"{i:b}".replace("0", "a").replace("1", "b") for i in range(300)]
    for form_of, is_copied in ((str.lower, True), (str.upper, False)):
        rows = [Pair(compose([word, "V;PST"]), form_of(word) + "uo") for word in words]
        chosen = advise(rows, inputs=inputs_of(["lemma"], ["tags"])).settings
        assert chosen["model"].get("copy_mechanism", False) is is_copied


CHARACTERS = ("characters", "characters")
RACES = {
    "characters of the source": (lambda: dates_table(3_000), [Candidate(CHARACTERS), Candidate(CHARACTERS, True)]),
    "other characters": (spellings_of_numbers, [Candidate(CHARACTERS)]),
    "short prose": (lambda: prose(400), [Candidate(CHARACTERS), Candidate(CHARACTERS, True)]),
    "prose": (prose, [Candidate(("subwords", "subwords")), Candidate(CHARACTERS, True)]),
    "closed vocabularies": (commands, [Candidate(("words", "words")), Candidate(CHARACTERS)]),
    "letters to phones": (spellings_to_phones, [Candidate(("characters", "words"))]),
    "many rows": (closed_rows, [Candidate(CHARACTERS)]),
}


@pytest.mark.parametrize(("make", "candidates"), RACES.values(), ids=RACES)
def test_few_rows_are_asked_for_their_tokens_and_whether_to_copy(make, candidates):
    assert advise(make()).candidates == tuple(candidates)
    for candidate in candidates:
        advice = advise(make(), candidate=candidate)
        settings = Settings(**advice.settings)
        assert kinds(advice) == candidate.kinds
        assert settings.model.copy_mechanism == candidate.copying
        assert len(advice.choices) == len({choice.setting for choice in advice.choices})


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (prose, {"tokens": {"source": {"kind": "subwords"}}}),
        (prose, {"model": {"copy_mechanism": False}}),
        (lambda: dates_table(3_000), {"model": {"copy_mechanism": False}}),
    ],
)
def test_what_the_user_gave_is_not_raced(make, given):
    assert len(advise(make(), given).candidates) == 1


def test_what_the_user_gave_wins_and_what_follows_from_it_follows():
    given = {"training": {"steps": 37}, "model": {"d_model": 32}}
    advice = advise(dates_table(), given)
    settings = Settings(**merge(advice.settings, given))
    assert settings.training.steps == 37
    assert settings.model.d_model == 32
    assert settings.training.warmup_steps <= 37
    assert settings.training.validate_every <= 37


@examples(max_examples=10)
@given(st.lists(st.builds(Pair, st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30)), min_size=2))
def test_any_table_at_all_gets_a_valid_recipe(pairs):
    advice = advise(pairs)
    Settings(**advice.settings)
    assert advise(pairs) == advice


def test_the_order_of_rows_is_no_reason():
    turned = [Pair(*(pair if i % 2 else pair[::-1])) for i, pair in enumerate(closed_rows())]
    for pairs in (commands(), turned):
        orders = pairs, pairs[1:] + pairs[:1], random.Random(2).sample(pairs, len(pairs))
        assert len({str(advise(rows).settings) for rows in orders}) == 1


@pytest.mark.parametrize("kind", get_args(TokenKind))
def test_each_kind_of_token_can_be_given(kind: TokenKind) -> None:
    sides = {"shared": False, "source": {"kind": kind}, "target": {"kind": kind}}
    advice = advise(dates_table(), {"tokens": sides})
    assert merge(advice.settings, {"tokens": sides})["tokens"]["source"]["kind"] == kind
