"""Hallucinated rows: the stem is new and alike on both sides; all else is that of a row of the table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from glassformer.data.given import as_table
from glassformer.data.hallucinated import MIN_STEM, hallucinate, stems
from glassformer.data.pairs import Pair
from glassformer.errors import TableError
from glassformer.paper.settings import Settings
from glassformer.training.prepare import prepare
from tests.tiny import settings

LEMMAS = ("walk", "talk", "jump", "help", "ask for", "turn", "open", "mark", "cook", "paint")
PAST = [Pair(f"{lemma}\x1fV;PST", f"{lemma}ed") for lemma in LEMMAS]


def test_what_surrounds_the_stem_stays_and_the_stem_is_the_same_on_both_sides():
    invented = hallucinate(PAST, 30, seed=1)
    assert len(invented) == 30
    for source, target in invented:
        text, _, tags = source.partition("\x1f")
        assert (target, tags) == (f"{text}ed", "V;PST")
        assert {len(text)} <= {len(lemma) for lemma in LEMMAS}


@examples(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text("abcé ", max_size=8), st.text("abcé ", max_size=8)), max_size=8), st.integers(0, 99))
def test_any_rows_give_other_rows_of_the_same_lengths_and_characters(rows: list[tuple[str, str]], seed: int):
    pairs = [Pair(*row) for row in rows]
    invented = hallucinate(pairs, 10, seed, {pair.source for pair in pairs})
    assert invented == hallucinate(pairs, 10, seed, {pair.source for pair in pairs})
    sources = [pair.source for pair in invented]
    assert len(set(sources)) == len(sources)
    assert not set(sources) & {pair.source for pair in pairs}
    shapes = {(len(source), len(target)) for source, target in pairs if stems(Pair(source, target))}
    assert {(len(source), len(target)) for source, target in invented} <= shapes
    for source, target in invented:
        assert set(target) <= {c for pair in pairs for c in pair.target}
        assert any(source[i : i + MIN_STEM] in target for i in range(len(source)))


def hallucinated(**tokens: object) -> Settings:
    return settings(data={"hallucinate": 2.0, "valid_fraction": 0.3}, tokens=tokens)


def test_they_are_trained_on_and_counted_and_the_record_is_of_the_real_rows():
    table = as_table(PAST)
    prepared, plain = prepare(table, hallucinated()), prepare(table, settings(data={"valid_fraction": 0.3}))
    assert (len(plain.train), len(prepared.train)) == (7, 7 + 14)
    assert (prepared.train.source.ids[: len(plain.train.source.ids)] == plain.train.source.ids).all()
    assert (plain.data.hallucinated_rows, prepared.data.hallucinated_rows) == (0, 14)
    assert prepared.data.model_copy(update={"hallucinated_rows": 0}) == plain.data
    assert prepared.valid_pairs == plain.valid_pairs
    assert prepared.notes == ("14 rows are hallucinated from 7 (data.hallucinate)",)


def test_rows_without_a_common_stem_and_prose_are_refused_with_the_reason():
    pairs = [Pair(f"{n:04}", "x" * n) for n in range(1, 9)]
    with pytest.raises(TableError, match="hallucinated") as error:
        prepare(as_table(pairs), hallucinated())
    assert error.value.got == "0 of 6 rows keep 3 characters of their source"
    with pytest.raises(TableError) as error:
        prepare(as_table(PAST), hallucinated(source={"kind": "words"}))
    assert error.value.got == "tokens of characters and words"
