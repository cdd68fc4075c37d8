"""From a table to what is trained on: nothing is cut or lost in silence, and held-out rows teach nothing."""

from __future__ import annotations

import pytest

from glassformer.data.datasets import dates
from glassformer.data.given import as_table
from glassformer.data.prepare import prepare
from glassformer.data.tables import read_table
from glassformer.errors import TableError
from tests.tiny import settings


def test_rows_that_are_too_long_go_to_the_ledger_and_the_counts_are_right():
    pairs = [("a" * n, "b" * (21 - n)) for n in range(1, 21)]
    limits = {"max_source_length": 15, "max_target_length": 12, "valid_fraction": 0.3}
    prepared = prepare(as_table(pairs), settings(data=limits))
    found = sorted((entry.row, entry.reason, entry.detail) for entry in prepared.ledger.entries)
    assert found == [
        *((n, "target too long", f"{21 - n} tokens, of at most 12") for n in range(1, 9)),
        *((n, "source too long", f"{n} tokens, of at most 15") for n in range(16, 21)),
    ]
    assert prepared.data.rows == {
        "read": 20,
        "kept": 7,
        "source too long": 5,
        "target too long": 8,
    }
    assert prepared.data.train_rows + prepared.data.valid_rows == 7
    assert len(prepared.train) == prepared.data.train_rows
    assert prepared.train.source.lengths.max() <= 15 + 2
    assert prepared.train.target.lengths.max() <= 12 + 2


def test_a_row_keeps_its_own_number_when_earlier_rows_were_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("source,target\na,b\n,c\nd,\naaaaaaaaa,e\nf,g\nh,i\n", encoding="utf-8")
    chosen = settings(data={"max_source_length": 8, "valid_fraction": 0.0})
    table = read_table(path, chosen.data)
    prepared = prepare(table, chosen)
    assert [(entry.row, entry.reason) for entry in prepared.ledger.entries] == [
        (2, "empty source"),
        (3, "empty target"),
        (4, "source too long"),
    ]
    assert (prepared.ledger.read, prepared.ledger.kept, len(prepared.train)) == (6, 3, 3)
    assert (table.ledger.read, table.ledger.kept, len(table.ledger.entries)) == (6, 4, 2)


def test_rows_of_a_validation_table_are_accounted_for_too_and_teach_no_tokens():
    valid = as_table([("a", "b"), ("a" * 9, "b"), ("z", "d")])
    prepared = prepare(as_table([("a", "b"), ("c", "d")]), settings(data={"max_source_length": 8}), valid)
    assert (prepared.ledger.read, prepared.ledger.kept) == (5, 4)
    assert (len(prepared.train), prepared.data.train_rows, prepared.data.valid_rows) == (2, 2, 2)
    assert prepared.valid_pairs == [("a", "b"), ("z", "d")]
    assert prepared.source_tokenizer.unknown("z") == ["z"]


def test_tokens_are_learned_from_the_rows_of_training_alone():
    pairs = [(chr(0x4E00 + n), chr(0x3042 + n)) for n in range(50)]  # each row has characters of its own
    prepared = prepare(as_table(pairs), settings())
    assert len(prepared.valid_pairs) == 5
    for pair in prepared.valid_pairs:
        assert prepared.source_tokenizer.unknown(pair.source) == [pair.source]
        assert prepared.target_tokenizer.unknown(pair.target) == [pair.target]
    assert len(prepared.source_tokenizer.vocabulary.ordinary) == 45


def test_the_counts_of_tokens_are_those_of_the_rows_of_training():
    pairs = [("aab", "c"), ("b", "cc")]
    prepared = prepare(as_table(pairs), settings(data={"valid_fraction": 0.0}))
    pieces = prepared.source_tokenizer.vocabulary.pieces
    counts = dict(zip(pieces, prepared.data.source_counts, strict=True))
    assert counts == {"<pad>": 0, "<bos>": 2, "<eos>": 2, "<unk>": 0, "a": 2, "b": 2}
    assert (prepared.data.longest_source, prepared.data.longest_target) == (3, 2)


def test_the_fingerprint_is_of_all_pairs_and_of_a_validation_table():
    table, valid = as_table(dates(9, seed=1)), as_table(dates(3, seed=2))
    alone, other = prepare(table, settings()), prepare(table, settings(training={"seed": 7}))
    beside, beside_other = (prepare(table, settings(), each) for each in (valid, as_table(dates(3, seed=3))))
    assert alone.fingerprint == other.fingerprint == alone.data.fingerprint == beside.data.fingerprint
    assert len({alone.fingerprint, beside.fingerprint, beside_other.fingerprint}) == 3


def test_words_of_a_large_table_are_learned_from_a_sample_which_is_said(monkeypatch):
    monkeypatch.setattr("glassformer.data.prepare.LEARNED_ROWS", 5)
    table, data = as_table([("a", str(n)) for n in range(6)]), {"valid_fraction": 0.0}
    prepared = prepare(table, settings(tokens={"target": {"kind": "words"}}, data=data))
    assert prepared.notes == ("the tokens are learned from 5 of 6 rows, evenly spaced",)
    assert list(prepared.target_tokenizer.vocabulary.ordinary) == ["0", "1", "2", "3", "5"]
    assert len(prepared.train) == 6
    of_all = prepare(table, settings(data=data))
    assert (of_all.notes, len(of_all.target_tokenizer.vocabulary.ordinary)) == ((), 6)


@pytest.mark.parametrize("pairs", [[], [("a", "b")]])
def test_too_few_rows_are_an_error(pairs):
    with pytest.raises(TableError, match="one row is not enough to train on") as caught:
        prepare(as_table(pairs), settings())
    assert caught.value.got == f"{len(pairs)} usable row"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_limit_that_most_rows_exceed_is_an_error_that_says_what_would_do(side):
    """Of the rows to train on: half of them may be too long, and held-out rows as many as like."""
    pairs = [(("a" * n, "b") if side == "source" else ("a", "b" * n)) for n in range(1, 21)]
    limit = f"max_{side}_length"
    assert len(prepare(as_table(pairs), settings(data={limit: 10, "valid_fraction": 0})).train) == 10
    with pytest.raises(TableError, match=f"more than half of the {side}s") as caught:
        prepare(as_table(pairs), settings(data={limit: 9, "valid_fraction": 0}))
    assert caught.value.got == "11 of 20 have more than 9 tokens"
    assert f"--set data.{limit}=24 " in (caught.value.hint or "")
    assert len(prepare(as_table(pairs[:9]), settings(data={limit: 9}), as_table(pairs[9:])).train) == 9


def test_no_row_left_is_an_error_that_names_the_limits():
    limits = {"max_source_length": 8, "max_target_length": 8, "valid_fraction": 0}
    with pytest.raises(TableError, match="no row is left to train on") as caught:
        prepare(as_table([("a" * 9, "b"), ("a", "b" * 9)]), settings(data=limits))
    assert "max_source_length or data.max_target_length" in (caught.value.hint or "")


@pytest.mark.parametrize("n_rare", [2, 3])
def test_tokens_that_lack_a_fifth_of_a_side_are_an_error_that_says_what_would_do(n_rare):
    pairs = [("the the the the", "x")] * 2 + [(f"rare{n}", "x") for n in range(n_rare)]
    chosen = settings(tokens={"source": {"kind": "words", "min_count": 2}}, data={"valid_fraction": 0})
    if n_rare == 2:  # of 10 words
        assert len(prepare(as_table(pairs), chosen).train) == 4
        return
    with pytest.raises(TableError, match="of the source tokens are not in the vocabulary") as caught:
        prepare(as_table(pairs), chosen)
    assert caught.value.got == "3 of 11 words are unknown"
    assert "tokens.source.min_count" in (caught.value.hint or "")
