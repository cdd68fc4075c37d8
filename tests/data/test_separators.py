"""Another separator than the usual one is taken only where the lines leave no doubt."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, strategies as st

from glassformer.data.separators import separator_of, stated_separator

ROWS = range(12)


def lines(*first: str, row: str) -> list[str]:
    return [line + "\n" for line in (*first, *(row.format(n=n, some="," * (n % 3)) for n in ROWS))]


@pytest.mark.parametrize(
    ("usual", "found", "text"),
    [
        (",", ",", lines("source,target", row="a{n},b")),
        (",", ",", lines("lemma,tags,form", row="walk,V;PST,walked{n}")),
        (",", ",", lines(row="walk,V;PST,walked{n}")),
        (",", ",", lines(row="{n};x,{n}")),
        (",", ",", [*lines(row="walk,V;PST{n}"), "damaged;row\n"]),
        (",", ",", lines(row="one column; of prose {n}")),
        (",", ",", lines(row="one column, of prose {n}")),
        (",", ",", lines("text", row="one; column {n}")),
        (",", ",", lines("a;b", row="no separator {n}")),
        (",", ",", []),
        (",", ";", lines("source;target", row="a{n};b")),
        (",", ";", lines(row="a{n};b{some}")),
        (",", ";", lines("Wort;Laute", row="{n},5;null Komma")),
        (",", ";", lines(row='"a;{n}, ";b')),
        (",", ";", lines("My list", "source;target", row="a{n};b")),
        (",", ";", [*lines(row="a{n};b"), "damaged\n"]),
        (",", ";", ["Hallo, Welt;Hello\n", "Ja, ja;Yes\n", "Nein, nein;No\n"]),
        (",", "\t", ["Hallo,Welt\tHello\n", "Ja,ja\tYes\n", "Nein,nein\tNo\n"]),
        (",", ",", ["Hallo, Welt\n", "Ja, ja\n"]),
        (",", "|", lines("source|target", row="Oh, {n}|b; {some}")),
        (",", "\t", lines("word\tpron", row="{n},{n}\tb;c")),
        ("\t", "\t", lines(row="a, {n}\tb; c")),
        ("\t", "\t", lines(row="January {n}, 1845")),
        ("\t", "\t", lines(row="{n},5")),
        ("\t", ",", lines("source,target", row="a{n},b")),
        ("\t", ";", lines("source;target", row="a{n};b")),
    ],
)
def test_the_separator_is_what_a_reader_would_say(usual, found, text):
    assert separator_of(text, usual, is_whole=True) == found


def test_lines_inside_a_quoted_cell_do_not_count():
    text = ['a;"one\n', "two\n", 'three; four"\n', "b;c\n", 'd;"an open\n']
    assert separator_of(text, ",", is_whole=False) == ";"


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("sep=;\r\n", ";"),
        ("SEP=,\n", ","),
        ('"sep=|"\n', "|"),
        ("sep=\\t\n", "\t"),
        ("sep=\t\n", "\t"),
        ("sep,x\n", None),
        ('sep="\n', None),
    ],
)
def test_a_line_of_excel_states_the_separator(line, separator):
    assert stated_separator(line) == separator


@given(st.lists(st.tuples(*[st.text(st.sampled_from('ab;|"\n'), max_size=6)] * 3), min_size=1, max_size=9))
def test_commas_that_cut_all_rows_alike_are_the_separator_whatever_is_in_the_cells(cells):
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(cells)
    assert separator_of(text.getvalue().splitlines(keepends=True), ",", is_whole=True) == ","
