"""Texts encoded in blocks: the ids of the tokenizer, whatever the texts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import TextError
from glassformer.paper.settings import SideSettings
from glassformer.text import learn
from glassformer.text.blocks import BlockEncoder, count_characters
from glassformer.text.normalization import normalize

quick = settings(max_examples=60)
# Characters that compose, that have two lower-case forms (by context), that are more than one code point in lower case.
texts = st.lists(
    st.text("abe=\u03a3\u03c3\u03c2\u0130\u00e9\u0301\u0338\uac00\u1100\u1161\u11a8 \n\t\0\U0001d4b3", max_size=8),
    min_size=1,
    max_size=12,
)
sides = st.builds(
    SideSettings,
    kind=st.sampled_from(["characters", "words", "bytes"]),
    normalization=st.sampled_from(["NFC", "NFD", "NFKC", "none"]),
    lowercase=st.booleans(),
    bos=st.booleans(),
    trim=st.booleans(),
    min_count=st.integers(1, 2),
)


@quick
@given(texts, sides)
def test_a_block_has_the_ids_of_its_texts(texts, side):
    tokenizer = learn([*texts, "a a b b"], side)
    ids, lengths = BlockEncoder(tokenizer).encode(texts)
    framed = [tokenizer.frame(ids) for ids in tokenizer.encode_many(texts)]
    assert lengths.tolist() == [len(row) for row in framed]
    assert ids.tolist() == [token_id for row in framed for token_id in row]


@quick
@given(texts, sides)
def test_characters_are_counted_as_in_each_normalized_text(texts, side):
    expected = Counter(character for text in texts for character in normalize(text, side))
    assert count_characters(texts, side) == expected


def test_an_unknown_character_and_a_lone_surrogate_are_named_with_their_text():
    tokenizer = learn(["ab"], SideSettings(kind="characters", unknown=False))
    with pytest.raises(TextError, match=r"'c'.*\n.*row 2"):
        BlockEncoder(tokenizer).encode(["ab", "abc"], lambda row: f"row {row + 1}")
    with pytest.raises(TextError, match=r"lone surrogate.*\n.*row 2"):
        BlockEncoder(tokenizer).encode(["ab", "a\ud800"], lambda row: f"row {row + 1}")
    with pytest.raises(TextError, match=r"lone surrogate.*\n.*text 2"):
        count_characters(["ab", "a\ud800"], SideSettings(kind="characters"))


def test_a_block_of_no_texts_has_no_ids():
    for kind in ("characters", "words"):
        ids, lengths = BlockEncoder(learn(["ab"], SideSettings(kind=kind))).encode([])
        assert (len(ids), len(lengths)) == (0, 0)
