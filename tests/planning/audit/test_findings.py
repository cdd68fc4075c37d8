"""Each finding: a hand-made table that has it, and one that has not. Counts equal a naive recount."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from glassformer.data.cleaning import Groups, clean, has_control
from glassformer.data.datasets import dates
from glassformer.data.ledger import Ledger
from glassformer.data.tables import Pair, Table, read_table
from glassformer.planning.audit import Audit, Finding, audit, quick_audit
from glassformer.planning.audit.characters import find_ends, restored
from glassformer.planning.audit.rows import has_row_numbers, header_rows
from glassformer.planning.recipes.overrides import merge, nested, parse_assignments
from glassformer.settings import DataSettings, Settings, SideSettings
from glassformer.text.inputs import Cells, Source, inputs_of

CLEAN = dates(300, seed=5)
CHARACTERS = {"tokens.source.kind": "characters", "tokens.target.kind": "characters", "tokens.shared": False}


def table_of(pairs: Sequence[tuple[Source, str]], path: str = "a.csv") -> Table:
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


def only(found: Audit, kind: str, side: str | None = None) -> Finding:
    (finding,) = [each for each in found.findings if each.kind == kind and side in (None, each.side)]
    return finding


def has(kind: str, found: Audit) -> bool:
    return any(finding.kind == kind for finding in found.findings)


def prose(n_rows: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different sentences of 3 to 20 words whose translations have as many words."""
    draw = random.Random(seed)
    rows = []
    for row in range(n_rows):
        words = [f"{draw.choice('abcdefgh') * 3}{row % 7}" for _ in range(draw.randint(3, 20))]
        rows.append((f"n{row} {' '.join(words)}", f"m{row} {' '.join(word.upper() for word in words)}"))
    return rows


# A table with the finding; the number; part of the text; and the first row
TABLES: dict[str, tuple[list[tuple[str, str]], int, str, int]] = {
    "duplicates": ([*CLEAN, CLEAN[0], CLEAN[7]], 2, "2 of 302 rows (0.7 %) repeat an earlier row", 302),
    "contradictions": (
        [*CLEAN, (CLEAN[2][0], "x"), (CLEAN[2][0], "y")],
        3,
        "3 of 302 rows (1.0 %) have a source with several targets (1 source); with one right answer a row, exact "
        "match cannot exceed 99.34 %",
        4,
    ),
    "copies": ([*prose(90), *((x, x) for x, _ in prose(10, 2))], 10, "have a target that equals the source", 92),
    "control characters": ([*CLEAN, ("1900\u200b-01-01", "x")], 1, "U+200B ZERO WIDTH SPACE × 1", 302),
    "wrong decoding": ([*CLEAN, ("cafÃ©", "x")], 1, "decoded with the wrong encoding", 302),
    "white space at the ends": ([*CLEAN, (" 1900-01-01", "x")], 1, "at the start or the end of the source", 302),
    "look-alike characters": ([*CLEAN, ("p\u0430y", "x")], 1, "letters of two alphabets in the source", 302),
    "length ratio": ([*prose(200), ("word " * 20, "@@")], 1, "a target whose length does not fit the source", 202),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_has_it_is_found_with_its_rows_and_a_clean_one_is_not(kind: str) -> None:
    pairs, count, text, row = TABLES[kind]
    finding = only(found_in(pairs), kind)
    assert finding.count == count
    assert text in finding.text
    assert finding.examples[0].row == row
    assert finding.examples[0].source == pairs[row - 2][0][:120]
    assert finding.advice
    assert finding.table == "a.csv"
    assert 1 <= len(finding.examples) <= 3


@pytest.mark.parametrize("kind", ["duplicates", "contradictions", "control characters"])
def test_the_option_of_a_finding_removes_it_and_nothing_else(kind: str) -> None:
    table = table_of(TABLES[kind][0])
    finding = only(audit(table, settings=settings_of()), kind)
    cleaned = clean(table, DataSettings(**parse_assignments((finding.option or "").split("--set ")[1:])["data"]))
    found = audit(cleaned, settings=settings_of())
    assert kind not in {each.kind for each in found.findings}
    n_dropped = 0 if kind == "control characters" else finding.count
    assert len(table.pairs) - len(cleaned.pairs) == n_dropped == len(cleaned.ledger.entries)
    assert cleaned.ledger.changed == (kind == "control characters")


def test_a_clean_table_has_no_finding() -> None:
    assert found_in(CLEAN, dates(20, seed=99), dates(20, seed=98)).findings == ()
    assert audit(table_of(prose(200))).findings == ()
    assert not has("copies", found_in([*CLEAN[:90], *((x, x) for x, _ in CLEAN[90:100])]))  # no prose


def test_white_space_that_the_model_does_not_read_is_not_found_and_of_several_inputs_each_text_counts() -> None:
    rows = [*CLEAN, (" 1900-01-01", "x ")]
    found = found_in(rows)
    assert only(found, "white space at the ends", "source").option == "--set tokens.source.trim=true"
    assert only(found, "white space at the ends", "target").option is None
    trimmed = found_in(rows, tokens__source__trim=True)
    assert [each.side for each in trimmed.findings if each.kind == "white space at the ends"] == ["target"]
    table = table_of([(Cells(["walk ", "run"]), "x"), (Cells(["go", "stay"]), "y")])
    (finding,) = find_ends(replace(table, inputs=inputs_of(["a", "b"], [])), "source", SideSettings())
    assert finding.count == 1


@pytest.mark.parametrize("text", ["1900\u201001-01", "1900\uff0d01\u201101", "\uff11900-01-01", "\u0661900-01-01"])
def test_look_alikes_are_found_unless_normalization_unites_them_or_the_text_is_prose(text: str) -> None:
    def found(rows: list[tuple[str, str]], **changes: object) -> bool:
        return any(each.kind == "look-alike characters" for each in found_in(rows, **changes).findings)

    odd = next(one for one in text if not one.isascii())
    finding = only(found_in([*CLEAN, (text, "x")]), "look-alike characters")
    assert f"characters that look the same in the source: {odd} U+{ord(odd):04X}" in finding.text
    assert finding.examples[0].note.startswith(f"{odd} U+")
    is_united = normalize("NFKC", text) == "1900-01-01"
    assert found([*CLEAN, (text, "x")], tokens__source__normalization="NFKC") != is_united
    assert not found([*prose(300), (f"one two three {text} - 1", "x")])
    assert not found([*CLEAN, *[(text, "x")] * 30])  # both are meant


FORMS = ["ɡg", "ː:", "ˈ'", "ʔ?", "ǃ!", "əǝ", "əә", "ʃ∫", "ɑα", "ɛε", "ɣγ", "ɸφ", "ʋυ", "βꞵ", "χꭓ", "æӕ"]
"""A symbol of the IPA, and what is typed for it."""


@pytest.mark.parametrize(("form", "between"), [("ɡg", " "), *((form, "") for form in FORMS)])
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
        assert not has("look-alike characters", found_in(one_form))


@pytest.mark.parametrize(
    ("targets", "is_found"),
    [
        (["tam", "taɡ", "tag", "ɡa", "ɡu"], True),
        (["this is a note: yes", "is it the end?", "'quoted' words here"], False),
        (["this is a note: yes", "one two thrːee", "four five six"], False),
        (["ðə biɡ bæd dɒɡz", "bæd dɒɡz ænd gɜːlz", "ðə kæts ænd dɒɡz"], True),
        ([*(f"words of english prose {row}" for row in range(40)), "said as ɡəʊt by most"], False),
        (["ελλάδα", "ɛnɛ", "αυτό", "taɡ", "ɣam"], False),
        (["tɛnɛ", "tεn", "βan", "θan"], True),
    ],
)
def test_two_forms_are_found_in_phonetic_texts_without_letters_of_another_language(
    targets: list[str], is_found: bool
) -> None:
    assert has("look-alike characters", found_in([(f"w{row}", text) for row, text in enumerate(targets)])) == is_found


def test_alphabets_that_are_mixed_by_nature_and_features_with_a_colon_are_not_found() -> None:
    rows = [*CLEAN, ("Tシャツ", "x"), ("東京タワー", "x"), ("Привет Tom", "x"), ("d̪ʰ", "y"), ("µm 5Ω", "z")]
    assert not has("look-alike characters", found_in(rows))
    assert not has("look-alike characters", found_in([(f"w{i}", "tχɑ") for i in range(50)]))
    table = replace(table_of([(Cells(["taːm", "tense:past"]), "x")] * 9), inputs=inputs_of(["word"], ["tags"]))
    assert not has("look-alike characters", audit(table, settings=settings_of()))


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
    contradictions = []
    for first in sorted([pair.source for pair in pairs].index(source) for source in several):
        source, target = pairs[first]
        contradictions.append((first, next(i for i, (x, y) in enumerate(pairs) if x == source and y != target)))
    assert groups.first_contradictions(2) == contradictions[:2]


# Reading

NUMBERED = [(str(row), english) for row, (_, english) in enumerate(CLEAN)]


def test_row_numbers_are_found_on_each_side_and_before_each_training() -> None:
    finding = only(found_in(NUMBERED), "row numbers", "source")
    assert (finding.severity, finding.count, finding.total) == ("warning", 300, 300)
    assert "have a source that is one more than in the row before, probably an index" in finding.text
    held = found_in(CLEAN, [(x, str(7 + row)) for row, (x, _) in enumerate(prose(9))])
    assert (only(held, "row numbers").side, only(held, "row numbers").table) == ("target", "v.csv")
    assert quick_audit(replace(table_of(NUMBERED), format="python")) == [finding.text]
    assert finding.text.endswith("choose the columns with --source and --target")


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
    assert has("row numbers", found_in(rows)) == is_found


def test_row_numbers_are_found_with_rows_that_were_left_out_in_samples_and_in_several_files(tmp_path: Path) -> None:
    for name, first in ("a", 0), ("b", 500):  # rows without a target are left out
        rows = [f"{first + row},{'' if row % 7 == 3 else f'{name}{row}'}\n" for row in range(40)]
        (tmp_path / f"{name}.csv").write_text("".join(rows), encoding="utf-8")
    table = read_table(tmp_path, DataSettings())
    assert only(audit(table, settings=settings_of()), "row numbers").count == len(table.pairs) == 68
    with mock.patch("glassformer.planning.audit.MAX_ROWS", 10):
        assert "probably an index" in quick_audit(table)[0]
    continued = replace(table, pairs=[Pair(str(row), "x") for row in range(68)])
    assert only(audit(continued, settings=settings_of()), "row numbers", "source").count == 68
    tagged = table_of([(Cells([f"{row}", f"V;{row}"]), "x") for row in range(9)])
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
    assert quick_audit(table)[0] == finding.text
    assert header_rows(table_of([("\ufeff", "\ufeff")])) == []
    nameless = read_table(path, DataSettings(header="no", source=0, target=2))
    assert not has("repeated headers", audit(nameless, settings=settings_of()))


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
    assert not has("quoted cells", found_in(pairs))


# Splits


def test_overlap_is_counted_for_each_pair_of_tables_and_compared_in_nfc() -> None:
    train = [*CLEAN, ("caf\u00e9", "x")]
    valid = [CLEAN[3], ("cafe\u0301", "x"), (CLEAN[4][0], "other"), ("v", "v1")]
    test = [("t", "t1"), ("v", "v1"), ("v", "v2")]
    found = found_in(train, valid, test)
    pairs = {(each.table, each.count, each.total) for each in found.findings if each.kind == "pair overlap"}
    assert pairs == {("v.csv", 2, 4), ("t.csv", 1, 3)}
    sources = {(each.table, each.count) for each in found.findings if each.kind == "source overlap"}
    assert sources == {("v.csv", 1), ("t.csv", 1)}
    first = next(each for each in found.findings if each.kind == "pair overlap" and each.table == "v.csv")
    assert first.severity == "error"
    assert [(example.row, example.note) for example in first.examples] == [
        (2, "row 5 of a.csv has the same"),
        (3, "row 302 of a.csv has the same"),
    ]
    assert not any("overlap" in each.kind for each in found_in(CLEAN, [("zzzz", "x")], [("yyyy", "x")]).findings)


# Characters


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("text", ["Müller läuft", "naïve café", "“Привет” – 你好", "für"])
def test_text_that_was_decoded_wrongly_is_restored(text: str, encoding: str) -> None:
    assert restored(re.sub("[\udc80-\udcff]", as_control, text.encode().decode(encoding, "surrogateescape"))) == text


def as_control(undefined: re.Match[str]) -> str:
    """The C1 control as which most programs decode a byte that an encoding does not define."""
    return chr(ord(undefined[0]) - 0xDC00)


REAL = "Müller|Ã|É°|São João|MAÇÃ|Её ещё нет|Рёбра|Ελλάδα|ə b d̪ aː|20 °C ± 5|«Ça va»|ಹಾಡು|naïve – “quoted”…|Å|ÀÉÎÕÜ"


@pytest.mark.parametrize("text", [*REAL.split("|"), "ñandú", "plain"])
def test_real_text_is_not_taken_for_a_wrong_decoding(text: str) -> None:
    assert restored(text) is None


def test_joiners_are_part_of_a_spelling_after_other_letters_than_latin_ones() -> None:
    assert not any(map(has_control, ["a b", "a\u00a0b", "\u0c95\u200c\u0cb7", "👩\u200d🔬"]))
    assert all(map(has_control, ["a\tb", "\x1b[31m", "a\u200cb", "\u200d", "\ufeffa", "so\xadft", "\u200ea"]))


# Lengths and tokens


def test_a_limit_names_the_rows_that_it_leaves_out_and_the_value_that_keeps_them() -> None:
    rows = [*CLEAN, ("1" * 40, "x"), ("1" * 50, "x")]
    finding = only(found_in(rows, data__max_source_length=32), "too long")
    assert (finding.count, finding.side, finding.option) == (2, "source", "--set data.max_source_length=50")
    assert [(each.row, each.note) for each in finding.examples] == [(303, "50 characters"), (302, "40 characters")]
    assert not has("too long", found_in(rows, data__max_source_length=50))


def test_what_has_no_token_is_named() -> None:
    finding = only(found_in(CLEAN, [("1999-01-0é", "x"), ("1999-01-01", "May 1, 1999")]), "unknown tokens", "source")
    assert (finding.table, finding.count, finding.option) == ("v.csv", 1, "--set tokens.source.kind=bytes")
    assert finding.examples[0].note == "é U+00E9 LATIN SMALL LETTER E WITH ACUTE"
    words = found_in(CLEAN, [(CLEAN[0][0], "of March")], **{"tokens.target.kind": "words"})
    assert only(words, "unknown tokens", "target").examples[0].note == "'of'"
    assert not has("unknown tokens", found_in(CLEAN))


# The whole


def test_errors_are_first_and_all_is_json() -> None:
    found = found_in([*CLEAN, CLEAN[0], ("cafÃ©", "x")], CLEAN[:3])
    assert [finding.severity for finding in found.findings][:3] == ["error", "error", "warning"]
    again = json.loads(json.dumps(found.to_json(), ensure_ascii=False))
    assert again["format"] == "glassformer-audit/1"
    kinds = [(finding.kind, finding.severity) for finding in found.findings]
    assert [(finding["kind"], finding["severity"]) for finding in again["findings"]] == kinds
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
    quick_audit(table_of(rows), [table_of(valid, "v.csv")])


# Before each training


def test_the_quick_audit_names_the_worst_three_and_agrees_with_the_whole() -> None:
    rows = [*CLEAN, CLEAN[0], (CLEAN[1][0], "x"), ("cafÃ©", "x"), ("a\x1b", "z")]
    table, valid = table_of(rows), table_of([CLEAN[5]], "v.csv")
    findings = audit(table, valid, None, settings_of()).findings
    texts = {finding.kind: finding.text for finding in findings}
    assert quick_audit(table, [valid]) == [
        "v.csv: 1 of 1 row (100.0 %) is in the table to train on as well, source and target",
        texts["wrong decoding"],
        f"{texts['contradictions']} (examples: glassformer audit a.csv)",
    ]
    (line,) = quick_audit(table_of(rows[-1:], "a b.csv"))
    assert line.endswith("U+001B control character × 1 (examples: glassformer audit 'a b.csv')")
    from_python = replace(table_of([*CLEAN, CLEAN[0]]), format="python")
    assert quick_audit(from_python) == ["1 of 301 rows (0.3 %) repeats an earlier row, source and target"]
    assert quick_audit(table_of(CLEAN), [table_of(dates(9, seed=98), "v.csv")]) == []
