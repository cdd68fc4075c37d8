"""Each finding: a hand-made table that has it, and one that has not. Counts equal a naive recount."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args
from unicodedata import normalize
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassformer.before.audit import Audit, Finding, Kind, audit
from glassformer.before.audit.characters import looks_misdecoded, restored
from glassformer.before.audit.lookalikes import find_ends
from glassformer.before.audit.quick import quick_audit
from glassformer.before.audit.reading import find_quoted, has_row_numbers, header_rows
from glassformer.before.audit.splits import grams, near_duplicates
from glassformer.before.recipes.overrides import merge, nested, parse_assignments
from glassformer.cli.audit import audit_page
from glassformer.data.cleaning import Groups, clean, has_control
from glassformer.data.datasets import dates
from glassformer.data.ledger import Ledger
from glassformer.data.tables import Pair, Table, read_table
from glassformer.paper.settings import DataSettings, Settings, SideSettings
from glassformer.text.inputs import inputs_of

CLEAN = dates(300, seed=5)
CHARACTERS = {"tokens.source.kind": "characters", "tokens.target.kind": "characters", "tokens.shared": False}


def table_of(pairs: Sequence[tuple[str, str]], path: str = "a.csv") -> Table:
    """A table whose row numbers differ from the indices: row 1 was not kept."""
    ledger = Ledger()
    ledger.read = ledger.kept = len(pairs)
    rows = list(range(2, len(pairs) + 2))
    return Table(path, [Pair(*pair) for pair in pairs], rows, None, None, False, "CSV", ledger)


def settings_of(**changes: object) -> Settings:
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return Settings(**merge(nested(CHARACTERS), nested({"model.tied_embeddings": "none"}), nested(given)))


def found_in(
    pairs: Sequence[tuple[str, str]],
    valid: Sequence[tuple[str, str]] | None = None,
    test: Sequence[tuple[str, str]] | None = None,
    **changes: object,
) -> Audit:
    others = (None if rows is None else table_of(rows, f"{name}.csv") for name, rows in (("v", valid), ("t", test)))
    return audit(table_of(pairs), *others, settings_of(**changes))


def only(found: Audit, kind: Kind, side: str | None = None) -> Finding:
    (finding,) = [each for each in found.findings if each.kind == kind and side in (None, each.side)]
    return finding


def prose(n_rows: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different sentences of 3 to 20 words whose translations have as many words."""
    draw = random.Random(seed)
    rows = []
    for row in range(n_rows):
        words = [f"{draw.choice('abcdefgh') * 3}{row % 7}" for _ in range(draw.randint(3, 20))]
        rows.append((f"n{row} {' '.join(words)}", f"m{row} {' '.join(word.upper() for word in words)}"))
    return rows


# A table with the finding; the number; part of the text; and the first row
TABLES: dict[Kind, tuple[list[tuple[str, str]], int, str, int]] = {
    "duplicates": ([*CLEAN, CLEAN[0], CLEAN[7]], 2, "2 of 302 rows (0.7 %) repeat an earlier row", 302),
    "contradictions": (
        [*CLEAN, (CLEAN[2][0], "x"), (CLEAN[2][0], "y")],
        3,
        "3 of 302 rows (1.0 %) have a source with several targets (1 source); with one right answer a row, exact "
        "match cannot exceed 99.34 %",
        4,
    ),
    "copies": ([*CLEAN, ("same", "same")], 1, "1 of 301 rows (0.3 %) has a target that equals the source", 302),
    "few targets": ([(f"w{i}", "yes" if i % 4 else "no") for i in range(80)], 2, "'yes', is right in 75.0 %", 2),
    "control characters": ([*CLEAN, ("1900\u200b-01-01", "x")], 1, "U+200B ZERO WIDTH SPACE × 1", 302),
    "wrong decoding": ([*CLEAN, ("cafÃ©", "x")], 1, "decoded with the wrong encoding", 302),
    "mixed scripts": ([*CLEAN, ("p\u0430y", "x")], 1, "letters of several scripts in the source", 302),
    "mixed Unicode forms": (
        *([*CLEAN, ("cafe\u0301", "x"), ("th\u00e9", "y")], 1, "and 1 others have composed characters", 302),
    ),
    "white space at the ends": ([*CLEAN, (" 1900-01-01", "x")], 1, "at the start or the end of the source", 302),
    "look-alike characters": (
        *([*CLEAN, ("1900\u201001\u201001", "x")], 1, "in the source: ‐ U+2010 HYPHEN (for '-') × 2", 302),
    ),
    "other digits": (
        *([*CLEAN, ("\uff11900-01-01", "x")], 1, "the source: １ U+FF11 FULLWIDTH DIGIT ONE (for '1') × 1", 302),
    ),
    "rare characters": ([*CLEAN, ("ß", "x")], 1, "occur once in the sources: ß U+00DF LATIN SMALL LETTER SHARP S", 302),
    "length ratio": ([*prose(200), ("word " * 20, "@@")], 1, "a target whose length does not fit the source", 202),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_has_it_is_found_with_its_rows_and_a_clean_one_is_not(kind: Kind) -> None:
    pairs, count, text, row = TABLES[kind]
    side = "source" if kind in ("rare characters", "mixed Unicode forms") else None
    finding = only(found_in(pairs), kind, side)
    assert finding.count == count
    assert text in finding.text
    assert finding.examples[0].row == row
    assert finding.examples[0].source == pairs[row - 2][0][:120]
    assert finding.advice
    assert finding.table == "a.csv"
    assert 1 <= len(finding.examples) <= 3


@pytest.mark.parametrize("kind", ["duplicates", "contradictions", "control characters"])
def test_the_option_of_a_finding_removes_it_and_nothing_else(kind: Kind) -> None:
    table = table_of(TABLES[kind][0])
    finding = only(audit(table, settings=settings_of()), kind)
    cleaned = clean(table, DataSettings(**parse_assignments((finding.option or "").split("--set ")[1:])["data"]))
    found = audit(cleaned, settings=settings_of())
    assert kind not in {each.kind for each in found.findings}
    n_dropped = 0 if kind == "control characters" else finding.count
    assert len(table.pairs) - len(cleaned.pairs) == n_dropped == len(cleaned.ledger.entries)
    assert cleaned.ledger.changed == (kind == "control characters")


def test_only_the_table_to_train_on_is_cleaned_so_findings_of_others_name_no_option() -> None:
    found = found_in(CLEAN, [("1900\u200b-01-01", "x")])
    assert only(found, "control characters").option is None


def test_a_clean_table_has_no_finding() -> None:
    found = found_in(CLEAN, dates(20, seed=99), dates(20, seed=98))
    assert found.is_clean
    assert {finding.kind for finding in found.findings} <= {"rare characters", "near overlap"}
    assert found.best_exact_match == 1
    assert found_in(prose(200)).is_clean


def test_every_kind_has_a_test_here() -> None:
    elsewhere = {"pair overlap", "source overlap", "near overlap", "rows left out", "too long", "shifted lines"}
    elsewhere |= {"token loss", "row numbers", "repeated headers", "quoted cells"}
    assert set(get_args(Kind)) == TABLES.keys() | elsewhere


def test_white_space_that_the_model_does_not_read_is_a_fact_and_of_several_inputs_each_text_counts() -> None:
    rows = [*CLEAN, (" 1900-01-01", "x ")]
    found = found_in(rows)
    assert only(found, "white space at the ends", "source").option == "--set tokens.source.trim=true"
    assert only(found, "white space at the ends", "target").option is None
    trimmed = only(found_in(rows, tokens__source__trim=True), "white space at the ends", "source")
    assert (trimmed.severity, trimmed.option) == ("info", None)
    table = table_of([("walk \x1frun", "x"), ("go\x1fstay", "y")])
    (finding,) = find_ends(replace(table, inputs=inputs_of(["a", "b"], [])), "source", SideSettings(), trained=True)
    assert finding.count == 1


@pytest.mark.parametrize(
    ("text", "kind", "option", "advice"),
    [
        ("1900\u201001-01", "look-alike characters", False, "replace them in the table"),
        ("1900\uff0d01-01", "look-alike characters", True, "let NFKC unite them in training and in every text"),
        ("1900\uff0d01\u201101", "look-alike characters", True, "translated, but not \u2011"),
        ("\uff11900-01-01", "other digits", True, "let NFKC unite them"),
        ("\u0661900-01-01", "other digits", False, "replace them in the table"),
    ],
)
def test_the_normalization_that_unites_look_alikes_is_named_and_unites_them(
    text: str, kind: Kind, option: bool, advice: str
) -> None:
    finding = only(found_in([*CLEAN, (text, "x")]), kind)
    assert finding.severity == "warning"
    assert finding.option == ("--set tokens.source.normalization=NFKC" if option else None)
    assert advice in finding.advice
    united = only(found_in([*CLEAN, (text, "x")], tokens__source__normalization="NFKC"), kind)
    assert united.option is None
    assert (united.severity == "info") == (normalize("NFKC", text) == "1900-01-01")
    prose_rows = [*prose(300), (f"one two three {text} - 1", "x")]
    assert only(found_in(prose_rows), kind).severity == "info"


FORMS = [
    "\u0261g",
    "\u02d0:",
    "\u02c8'",
    "\u0294?",
    "\u01c3!",
    "\u0259\u01dd",
    "\u0259\u04d9",
    "\u0283\u222b",
    "\u0251\u03b1",
    "\u025b\u03b5",
    "\u0263\u03b3",
    "\u0278\u03c6",
    "\u028b\u03c5",
    "\u03b2\ua7b5",
    "\u03c7\uab53",
    "\u00e6\u04d5",
]
"""A symbol of the IPA, and what is typed for it."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("between", ["", " "])
def test_a_symbol_of_the_ipa_in_two_forms_is_found_and_no_normalization_unites_them(form: str, between: str) -> None:
    symbol, typed = form
    assert len({normalize(name, one) for one in form for name in ("NFC", "NFD", "NFKC", "NFKD")}) == 2
    words = [f"n{symbol}maθ"] * 4 + [f"{typed}{typed}"] * 2 + ["tam", f"n{symbol}"]
    pairs = [(f"w{row}", between.join(word)) for row, word in enumerate(words)]
    finding = only(found_in(pairs), "look-alike characters", "target")
    assert (finding.severity, finding.count, finding.option) == ("warning", 2, None)
    assert f"the target: {typed} U+{ord(typed):04X}" in finding.text
    assert re.search(f" × 4 for {symbol} U.{ord(symbol):04X} [A-Z ]+ × 5$", finding.text)
    assert [example.row for example in finding.examples] == [6, 7]
    assert finding.examples[0].note.startswith(f"{typed} U+")
    for kept in form:
        one_form = [(source, target.replace(symbol, kept).replace(typed, kept)) for source, target in pairs]
        assert not any(each.kind == "look-alike characters" for each in found_in(one_form).findings)


@pytest.mark.parametrize(
    ("targets", "severity"),
    [
        (["tam", "taɡ", "tag", "ɡa", "ɡu"], "warning"),
        (["this is a note: yes", "is it the end?", "'quoted' words here"], None),
        (["this is a note: yes", "one two thrːee", "four five six"], "info"),
        (["ðə biɡ bæd dɒɡz", "bæd dɒɡz ænd gɜːlz", "ðə kæts ænd dɒɡz"], "warning"),
        ([*(f"words of english prose {row}" for row in range(40)), "said as ɡəʊt by most"], "info"),
        (["ελλάδα", "ɛnɛ", "αυτό", "taɡ", "ɣam"], None),
        (["tɛnɛ", "tεn", "βan", "θan"], "warning"),
    ],
)
def test_two_forms_are_a_fact_in_prose_and_letters_of_another_language_are_none(
    targets: list[str], severity: str | None
) -> None:
    found = found_in([(f"w{row}", target) for row, target in enumerate(targets)]).findings
    kind = "look-alike characters"
    assert [each.severity for each in found if each.kind == kind] == [severity] * (severity is not None)


def test_a_feature_with_a_colon_is_not_a_symbol_of_the_ipa() -> None:
    table = replace(table_of([("taːm\x1ftense:past", "x")] * 9), inputs=inputs_of(["word"], ["tags"]))
    assert not any(each.kind == "look-alike characters" for each in audit(table, settings=settings_of()).findings)


# Rows


def test_rows_that_are_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text("a,b\n" + "".join(f"{x},{y}\n" for x, y in prose(40)) + ",x\n\n1,2,3\ny,\n", encoding="utf-8")
    found = audit(read_table(path, DataSettings(bad_rows="skip", header="yes")), settings=settings_of())
    finding = only(found, "rows left out")
    assert (finding.count, finding.total) == (4, 44)
    assert "1 × empty source, 1 × blank line, 1 × wrong number of cells" in finding.text
    assert [example.row for example in finding.examples] == [41, 42, 43]
    reasons = "empty source", "blank line", "wrong number of cells", "empty target"
    assert found.tables[0].left_out == dict.fromkeys(reasons, 1)


def test_copies_in_prose_are_a_warning_and_in_words_a_fact() -> None:
    for rows, severity in ((prose(100), "warning"), (CLEAN, "info")):
        assert only(found_in([*rows[:90], *((x, x) for x, _ in rows[90:100])]), "copies").severity == severity


PAIRS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "é", "e\u0301"]), st.sampled_from("xyz")), min_size=1, max_size=30
)


@settings(max_examples=40)
@given(PAIRS)
def test_duplicates_and_contradictions_equal_a_naive_recount(rows: list[tuple[str, str]]) -> None:
    pairs = [Pair(normalize("NFC", source), target) for source, target in rows]
    groups = Groups(Pair(*row) for row in rows)
    naive = [i for i in range(len(pairs)) if pairs[i] in pairs[:i]]
    assert np.flatnonzero(groups.is_repetition).tolist() == naive
    assert [groups.first_equal(index) for index in range(len(pairs))] == [pairs.index(pair) for pair in pairs]
    several = {p.source for p, q in itertools.combinations(pairs, 2) if p.source == q.source and p.target != q.target}
    assert groups.n_contradictory_sources == len(several)
    assert groups.n_contradictions == sum(pair.source in several for pair in pairs)
    sources = sorted({pair.source for pair in pairs})
    best = max(
        sum(dict(zip(sources, answers, strict=True))[pair.source] == pair.target for pair in pairs)
        for answers in itertools.product("xyz", repeat=len(sources))
    )
    assert groups.best_exact_match == best / len(pairs)
    firsts = [[pair.source for pair in pairs].index(source) for source in several]
    others = [
        next(j for j, pair in enumerate(pairs) if pair.source == pairs[i].source and pair != pairs[i]) for i in firsts
    ]
    assert groups.first_contradictions(2) == sorted(zip(firsts, others, strict=True))[:2]


# Reading

NUMBERED = [(str(row), english) for row, (_, english) in enumerate(CLEAN)]


def test_row_numbers_are_found_on_each_side_and_before_each_training() -> None:
    finding = only(found_in(NUMBERED), "row numbers", "source")
    assert (finding.severity, finding.count, finding.total) == ("warning", 300, 300)
    assert "have a source that is one more than in the row before: this is probably an index" in finding.text
    assert "--source and --target" in finding.advice
    held = found_in(CLEAN, [(x, str(7 + row)) for row, (x, _) in enumerate(prose(9))])
    assert (only(held, "row numbers").side, only(held, "row numbers").table) == ("target", "v.csv")
    line = "the sources are row numbers, probably an index: choose the columns with --source and --target"
    assert quick_audit(replace(table_of(NUMBERED), format="python")) == [line]


@pytest.mark.parametrize(
    ("numbers", "is_found"),
    [
        (range(-2, 8), True),
        ((5, 6, 7, 9, 10), False),
        ((1, 2, 3, 4, "x"), False),
        ((1, 2, 3, 4, 4), False),
        ((10, 9, 8, 7, 6), False),
        ((3, 4, 5, 6), False),  # too few to be no coincidence
        (("007", "008", "009", "010", " 11"), True),
    ],
)
def test_only_numbers_that_are_one_more_in_each_row_are_row_numbers(numbers: Sequence[object], is_found: bool) -> None:
    rows = [(f"w{row}", str(number)) for row, number in enumerate(numbers)]
    assert any(each.kind == "row numbers" for each in found_in(rows).findings) == is_found


def test_row_numbers_are_found_with_rows_that_were_left_out_in_samples_and_in_several_files(tmp_path: Path) -> None:
    for name, first in ("a", 0), ("b", 500):  # rows without a target are left out
        rows = [f"{first + row},{'' if row % 7 == 3 else f'{name}{row}'}\n" for row in range(40)]
        (tmp_path / f"{name}.csv").write_text("".join(rows), encoding="utf-8")
    table = read_table(tmp_path, DataSettings())
    assert only(audit(table, settings=settings_of()), "row numbers").count == len(table.pairs) == 68
    with mock.patch("glassformer.before.audit.quick.MAX_ROWS", 10):
        assert quick_audit(table)[0].startswith("the sources are row numbers")
    continued = replace(table, pairs=[Pair(str(row), "x") for row in range(68)])
    assert only(audit(continued, settings=settings_of()), "row numbers", "source").count == 68
    tagged = table_of([(f"{row}\x1fV;{row}", "x") for row in range(9)])
    assert has_row_numbers(replace(tagged, inputs=inputs_of(["id"], ["tags"])), "source")
    assert not has_row_numbers(replace(tagged, inputs=inputs_of(["id", "word"], [])), "source")


def test_a_row_that_repeats_the_header_is_found_without_case_and_only_where_there_is_a_header(tmp_path: Path) -> None:
    path = tmp_path / "joined.csv"
    rows = [f"{x},{row},{y}\n" for row, (x, y) in enumerate(prose(40))]
    again = ["Word,id,PRON \n", "\ufeffword,id,pron\n", "word,word,word\n", "pron,id,word\n"]
    path.write_text("".join(["word,id,pron\n", *rows[:20], *again, *rows[20:]]), encoding="utf-8")
    table = read_table(path, DataSettings(header="yes", source="word", target="pron"))
    finding = only(audit(table, settings=settings_of()), "repeated headers")
    assert (finding.severity, finding.count, finding.total) == ("warning", 2, 44)
    assert [(example.row, example.source) for example in finding.examples] == [(21, "Word"), (22, "\ufeffword")]
    assert "2 of 44 rows (4.5 %) repeat the header" in finding.text
    assert quick_audit(table)[0] == "2 rows repeat the header"
    assert header_rows(table_of([("\ufeff", "\ufeff")])) == []
    nameless = read_table(path, DataSettings(header="no", source=0, target=2))
    assert not any(each.kind == "repeated headers" for each in audit(nameless, settings=settings_of()).findings)


def test_a_repeated_header_has_the_names_of_all_inputs(tmp_path: Path) -> None:
    path = tmp_path / "tags.csv"
    rows = ["lemma,tags,form\n", *(f"{x},V;PST,{y}\n" for x, y in prose(9)), "LEMMA,tags,form\n", "lemma,V,form\n"]
    path.write_text("".join(rows), encoding="utf-8")
    assert header_rows(read_table(path, DataSettings(source="lemma", features=["t=tags"], target="form"))) == [9]


SAID = 'say ""hi""'
"""A text with quotes as a cell of CSV has them."""


@pytest.mark.parametrize(
    ("cells", "rows"),
    [
        ([f'"{SAID}"', '"', '""', '"a"', "b", '"a" b "c"', '"a "b" c"', f'{SAID} "'], [2]),
        (['""""', 'a ""b""', '"a""b""c"', '"a""b'], [2, 4]),
        (['"a"', '"b"', f'"{SAID}"'], [2, 3, 4]),
        (['"a"', '"b"', "c"], []),
    ],
)
def test_cells_of_tsv_in_the_quotes_of_csv_are_found_and_other_quotes_are_not(
    cells: list[str], rows: list[int]
) -> None:
    pairs = [(f"w{row}", cell) for row, cell in enumerate(cells)]
    table = replace(table_of(pairs), format="TSV")
    found = [each for each in audit(table, settings=settings_of()).findings if each.kind == "quoted cells"]
    assert [(each.side, each.count) for each in found] == [("target", len(rows))] * bool(rows)
    assert [example.row for each in found for example in each.examples] == rows
    assert not any(each.kind == "quoted cells" for each in found_in(pairs).findings)


def test_of_several_inputs_each_cell_may_be_in_quotes() -> None:
    def quoted(*sources: str) -> list[int]:
        table = replace(table_of([(source, "x") for source in sources]), format="TSV", inputs=inputs_of(["a", "b"], []))
        return [each.count for each in find_quoted(table, "source")]

    assert quoted(f'w\x1f"{SAID}"', "u\x1fv") == [1]
    assert quoted('"u"\x1f"v"', '"u"\x1f"w"') == [2]
    assert quoted('"u"\x1fv', '"u"\x1fw') == []


# Splits


def test_overlap_is_counted_for_each_pair_of_tables_and_compared_in_nfc() -> None:
    train = [*CLEAN, ("caf\u00e9", "x")]
    valid = [CLEAN[3], ("cafe\u0301", "x"), (CLEAN[4][0], "other"), ("v", "v1")]
    test = [("t", "t1"), ("v", "v1"), ("v", "v2")]
    found = found_in(train, valid, test)
    pairs = {(each.table, each.count, each.total) for each in found.findings if each.kind == "pair overlap"}
    assert pairs == {("v.csv", 2, 4), ("t.csv", 1, 3)}
    sources = {(each.table, each.count) for each in found.findings if each.kind == "source overlap"}
    assert sources == {("v.csv", 3), ("t.csv", 2)}
    first = next(each for each in found.findings if each.kind == "pair overlap" and each.table == "v.csv")
    assert first.severity == "error"
    assert [(example.row, example.note) for example in first.examples] == [
        (2, "row 5 of a.csv has the same"),
        (3, "row 302 of a.csv has the same"),
    ]
    assert not any("overlap" in each.kind for each in found_in(CLEAN, [("zzzz", "x")], [("yyyy", "x")]).findings)


def test_a_near_duplicate_names_its_row_and_an_exact_one_is_not_counted_again() -> None:
    train = [*prose(50), ("A man in a lab coat is looking through a microscope.", "x")]
    near = "a  woman in a lab coat is looking through a microscope."
    finding = only(found_in(train, [(near, "x"), train[0], ("something else entirely", "y")]), "near overlap")
    assert (finding.count, finding.severity) == (1, "warning")
    assert "to row 52 of a.csv: 'A man in a lab coat" in finding.examples[0].note


@settings(max_examples=60)
@given(
    st.lists(st.text("abc ", min_size=1, max_size=20), max_size=8),
    st.lists(st.text("abc ", min_size=1, max_size=20), max_size=8),
)
def test_near_duplicates_equal_a_comparison_of_all_pairs(held: list[str], trained: list[str]) -> None:
    def similarity(one: str, other: str) -> float:
        return len(grams(one) & grams(other)) / len(grams(one) | grams(other))

    expected = {i for i, text in enumerate(held) if any(similarity(text, other) >= 0.8 for other in trained)}
    with mock.patch("glassformer.before.audit.splits.MAX_CANDIDATES", 1000):
        found, n_compared = near_duplicates(held, trained)
    assert sorted(near.held for near in found) == sorted(expected)
    assert n_compared == len(trained)
    for near in found:
        assert similarity(held[near.held], trained[near.trained]) == near.similarity >= 0.8
        assert not any(similarity(held[near.held], other) >= 0.8 for other in trained[: near.trained])


def test_a_near_search_with_too_many_candidates_ends_early_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["walk left", "look right", "jump twice", "turn opposite", "run after"]
    rows = [(f"{' '.join(order)} {i}", "x") for i, order in enumerate(itertools.permutations(words))]
    held = [(f"{source} and {'yz' * 20}", "x") for source, _ in rows]  # many common strings, and none is similar
    assert found_in(rows, held).notes == ()
    monkeypatch.setattr("glassformer.before.audit.splits.MAX_CANDIDATES", 1)
    (note,) = found_in(rows, held).notes
    n_compared = int(re.match(r"near overlap: (\d+) rows of a.csv were compared, because too many", note)[1])  # type: ignore[index]
    assert 0 < n_compared < len(rows)
    monkeypatch.setattr("glassformer.before.audit.splits.MAX_NEAR_ROWS", 100)
    assert found_in(CLEAN, [("z", "z")]).notes == ("near overlap: 100 of the 300 rows of a.csv were compared",)


# Characters


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "mac_roman", "cp1251"])
@pytest.mark.parametrize("text", ["Müller läuft", "naïve café", "“Привет” – 你好", "für"])
def test_text_that_was_decoded_wrongly_is_restored(text: str, encoding: str) -> None:
    """Ordinary texts of one accented character are too short for cp1251, whose signs are letters of real words."""
    wrong = re.sub("[\udc80-\udcff]", as_control, text.encode().decode(encoding, errors="surrogateescape"))
    found = restored(wrong)
    if encoding == "cp1251":
        assert found is None if "“" not in text else (found or "").startswith("“Привет” ")
    else:
        assert found == text


def as_control(undefined: re.Match[str]) -> str:
    """The C1 control as which most programs decode a byte that an encoding does not define."""
    return chr(ord(undefined[0]) - 0xDC00)


REAL = "Müller|Ã|É°|São João|MAÇÃ|Её ещё нет|Рёбра|Ελλάδα|ə b d̪ aː|20 °C ± 5|«Ça va»|ಹಾಡು|naïve – “quoted”…|Å|ÀÉÎÕÜ"


@pytest.mark.parametrize("text", [*REAL.split("|"), "ñandú", "plain"])
def test_real_text_is_not_taken_for_a_wrong_decoding(text: str) -> None:
    assert restored(text) is None
    assert not looks_misdecoded(text)


@pytest.mark.parametrize(
    ("text", "is_found"), [("cafÃ©", True), ("it\u2019s", False), ("a\ufffdb", True), ("â€œ", True)]
)
def test_the_fast_check_knows_the_common_case(text: str, is_found: bool) -> None:
    assert looks_misdecoded(text) == is_found


def test_joiners_are_part_of_a_spelling_after_other_letters_than_latin_ones() -> None:
    assert not any(map(has_control, ["a b", "a\u00a0b", "\u0c95\u200c\u0cb7", "👩\u200d🔬"]))
    assert all(map(has_control, ["a\tb", "\x1b[31m", "a\u200cb", "\u200d", "\ufeffa", "so\xadft", "\u200ea"]))


def test_scripts_that_are_mixed_by_nature_are_not_found() -> None:
    rows = [*CLEAN, ("Tシャツ", "x"), ("東京タワー", "x"), ("Привет Tom", "x"), ("d̪ʰ", "y"), ("µm 5Ω", "z")]
    assert not any(each.kind == "mixed scripts" for each in found_in(rows).findings)
    phonetic = [(f"w{i}", "tχɑ") for i in range(50)]
    assert only(found_in(phonetic), "mixed scripts").severity == "info"


def test_mixed_unicode_forms_are_a_warning_only_where_training_does_not_normalize() -> None:
    rows = [*CLEAN, ("cafe\u0301", "x"), ("th\u00e9", "y")]
    assert only(found_in(rows), "mixed Unicode forms").severity == "info"
    finding = only(found_in(rows, tokens__source__normalization="none"), "mixed Unicode forms")
    assert (finding.severity, finding.option) == ("warning", "--set tokens.source.normalization=NFC")
    only_decomposed = [(normalize("NFD", f"é{i}"), "x") for i in range(20)]
    assert not any(each.kind == "mixed Unicode forms" for each in found_in(only_decomposed).findings)


def test_rare_characters_are_those_of_the_normalized_text() -> None:
    rows = [(syllables, "x") for syllables in ("갓갈", "걱간", "나다", "라마")]
    counted = only(found_in(rows), "rare characters", "source").count
    assert counted == len({*"갓갈걱간나다라마"})
    decomposed = normalize("NFD", "갓갈걱간나다라마")
    finding = only(found_in(rows, tokens__source__normalization="NFD"), "rare characters", "source")
    assert finding.count == sum(decomposed.count(part) == 1 for part in set(decomposed)) != counted
    lowercase = found_in([("ab", "x"), ("AB", "x")], tokens__source__lowercase=True)
    assert not any(each.kind == "rare characters" for each in lowercase.findings)


# Lengths and tokens


def test_a_limit_names_the_rows_that_it_leaves_out_and_the_value_that_keeps_them() -> None:
    rows = [*CLEAN, ("1" * 40, "x"), ("1" * 50, "x")]
    finding = only(found_in(rows, data__max_source_length=32), "too long")
    assert (finding.count, finding.side, finding.option) == (2, "source", "--set data.max_source_length=50")
    assert [(each.row, each.note) for each in finding.examples] == [(303, "50 characters"), (302, "40 characters")]
    assert not any(each.kind == "too long" for each in found_in(rows, data__max_source_length=50).findings)


def test_lengths_equal_a_naive_recount() -> None:
    rows = prose(137)
    source = found_in(rows).lengths[0]
    lengths = sorted(len(source) for source, _ in rows)
    assert (source.side, source.unit, source.limit) == ("source", "characters", None)
    assert source.mean == pytest.approx(sum(lengths) / len(lengths))
    assert source.percentiles == {
        "min": lengths[0],
        **{str(p): lengths[int(p / 100 * (len(lengths) - 1))] for p in (5, 50, 95, 99)},
        "max": lengths[-1],
    }
    assert [rows for *_, rows in source.histogram] == [
        sum(first <= length <= last for length in lengths) for first, last, _ in source.histogram
    ]
    assert sum(rows for *_, rows in source.histogram) == 137


@pytest.mark.parametrize("offset", [-3, 1])
def test_shifted_lines_are_found_with_their_direction_and_first_row(offset: int) -> None:
    rows = prose(1200)
    sources, targets = [row[0] for row in rows], [row[1] for row in rows]
    shifted = targets[:500] + (["extra"] * offset + targets[500:] if offset > 0 else targets[500 - offset :])
    finding = only(found_in(list(zip(sources, shifted, strict=False))), "shifted lines")
    distance = "1 row" if abs(offset) == 1 else f"{abs(offset)} rows"
    assert f"fits the target {distance} {'below' if offset > 0 else 'above'} better" in finding.text
    assert "from about row 502" in finding.text
    assert not any(each.kind == "shifted lines" for each in found_in(rows).findings)


def test_a_shift_is_not_found_in_sorted_or_constant_lengths() -> None:
    by_length = sorted(prose(600), key=lambda row: len(row[0]))
    for rows in (by_length, [(f"{i:04}", f"{i:05}") for i in range(600)]):
        assert not any(each.kind == "shifted lines" for each in found_in(rows).findings)


def test_what_the_tokens_do_not_give_back_is_named() -> None:
    valid = [("1999-01-0é", "x"), ("1999-01-01", "May 1, 1999")]
    finding = next(
        each for each in found_in(CLEAN, valid).findings if each.kind == "token loss" and each.side == "source"
    )
    assert (finding.table, finding.count, finding.option) == ("v.csv", 1, "--set tokens.source.kind=bytes")
    assert finding.examples[0].note == "without a token: é U+00E9 LATIN SMALL LETTER E WITH ACUTE"
    words = found_in([*CLEAN, ("a  b", "x")], CLEAN[:3], **{"tokens.source.kind": "words"})
    finding = only(words, "token loss", "source")
    assert finding.examples[0].note == "comes back as 'a b'"
    assert finding.option == "--set tokens.source.kind=characters"
    assert not any(each.kind == "token loss" for each in found_in(CLEAN).findings)


def test_limits_of_tokens_are_those_of_training() -> None:
    from glassformer.training.prepare import prepare

    rows, changes = prose(80), {"data__max_source_length": 90, "data__max_target_length": 85}
    found = found_in(rows, [("n1 abc", "m1 ABC")], **changes)
    counts = prepare(table_of(rows), settings_of(**changes), table_of([("n1 abc", "m1 ABC")])).ledger.counts()
    n_both = sum(len(source) > 90 and len(target) > 85 for source, target in rows)
    too_long = {each.side: each.count for each in found.findings if (each.kind, each.table) == ("too long", "a.csv")}
    assert too_long == {"source": counts["source too long"], "target": counts["target too long"] + n_both}


# The whole


def test_findings_are_sorted_and_json() -> None:
    found = found_in([*CLEAN, CLEAN[0], ("cafÃ©", "x"), ("ß", "y")], CLEAN[:3])
    severities = [finding.severity for finding in found.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert not found.is_clean
    assert found.count("error") == severities.count("error") >= 2
    again = json.loads(json.dumps(found.to_json(), ensure_ascii=False))
    assert again["format"] == "glassformer-audit/1"
    assert [finding["kind"] for finding in again["findings"]] == [finding.kind for finding in found.findings]
    assert again["findings"][0]["examples"][0].keys() == {"table", "row", "source", "target", "note"}


CELL = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=12),
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=4),
    st.sampled_from(["characters", "words", "bytes"]),
)
@example([("a", "b" * 200_000), ("\u200b", "\u202e")], [("\u0301", "\ufeff")], "characters")
@example([("x", "y")] * 1000, [("﷽", "\U0010ffff")], "characters")
def test_no_text_ends_an_audit(rows: list[tuple[str, str]], valid: list[tuple[str, str]], kind: str) -> None:
    found = found_in(rows, valid, **{"tokens.source.kind": kind, "tokens.target.kind": kind})
    json.dumps(found.to_json()).encode()
    audit_page(found).encode()
    quick_audit(table_of(rows), [table_of(valid, "v.csv")])


# Before each training


def test_the_quick_audit_names_the_worst_three_and_agrees_with_the_whole() -> None:
    rows = [*CLEAN, CLEAN[0], (CLEAN[1][0], "x"), ("cafÃ©", "x"), ("a\x1b", "z")]
    lines = quick_audit(table_of(rows), [table_of([CLEAN[5]], "v.csv")])
    assert lines == [
        "1 row of v.csv is trained on as well, source and target",
        "1 row has a text that was decoded with the wrong encoding",
        "2 rows have a source with several targets: with one right answer a row, exact match cannot exceed 99.67 % "
        "(examples: glassformer audit a.csv)",
    ]
    assert quick_audit(table_of(rows[-1:], "a b.csv")) == [
        "1 row has control or invisible characters (examples: glassformer audit 'a b.csv')"
    ]
    from_python = replace(table_of([*CLEAN, CLEAN[0]]), format="python")
    assert quick_audit(from_python) == ["1 row repeats an earlier row"]
    assert quick_audit(table_of(CLEAN), [table_of(dates(9, seed=98), "v.csv")]) == []
    assert found_in(rows).best_exact_match == pytest.approx(303 / 304)
